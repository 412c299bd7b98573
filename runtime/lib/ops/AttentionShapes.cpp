//===- AttentionShapes.cpp - What tensors of a call must be ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Shapes, and the lengths, pages and lists that are data: with others kernels
// would leave the tensors.
//
//===----------------------------------------------------------------------===//

#include "Lengths.h"
#include "flashcore/Runtime/BlockLists.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

using namespace flashcore;

/// Rows to append are such as k and v have, for each batch entry; angles are
/// for a row's columns.
static Status verifyAppendShapes(const AttentionInputs &inputs) {
  if (inputs.kNew.has_value() != inputs.vNew.has_value())
    return Status::error("expects k_new and v_new together, but got one "
                         "without the other");
  if (inputs.rotaryCos && !inputs.kNew)
    return Status::error("expects k_new with rotary_cos, but got none");
  if (!inputs.kNew)
    return Status::success();
  if (!inputs.sequsedK)
    return Status::error("expects seqused_k with k_new, but got none");
  if (inputs.cuSeqlensQ)
    return Status::error("expects no cu_seqlens_q with k_new, but got one");
  for (auto [name, rows, cache] :
       {std::tuple("k_new", &*inputs.kNew, &inputs.k),
        {"v_new", &*inputs.vNew, &inputs.v}}) {
    const int64_t expected[] = {inputs.q.sizes[0], cache->sizes[1],
                                inputs.kNew->sizes[2], cache->sizes[3]};
    const char *axes[] = {"batch", "heads_kv", "seqlen_new", "columns"};
    for (size_t i = 0; i < 4; ++i)
      if (rows->sizes[i] != expected[i])
        return Status::error("expects the " + std::string(axes[i]) + " of " +
                             name + " to be " + std::to_string(expected[i]) +
                             ", but got " + std::to_string(rows->sizes[i]));
  }
  if (!inputs.rotaryCos)
    return Status::success();
  int64_t most = inputs.q.sizes[3] / 2, pairs = inputs.rotaryCos->sizes[1];
  if (pairs < 1 || pairs > most)
    return Status::error("expects rotary_cos of 1 to " + std::to_string(most) +
                         " pairs of columns, but got " + std::to_string(pairs));
  if (inputs.rotaryCos->sizes != inputs.rotarySin->sizes)
    return Status::error("expects rotary_cos and rotary_sin of one shape");
  return Status::success();
}

Status flashcore::verifyShapes(const AttentionInputs &inputs) {
  const auto &q = inputs.q.sizes, &k = inputs.k.sizes, &v = inputs.v.sizes;
  auto mismatch = [](const char *what, int64_t a, int64_t b) {
    return Status::error("expects " + std::string(what) +
                         " to be equal, but got " + std::to_string(a) +
                         " and " + std::to_string(b));
  };
  bool isPaged = inputs.pageTable.has_value();
  if (!isPaged && (q[0] != k[0] || q[0] != v[0]))
    return mismatch("the batches of q and of k and v", q[0],
                    q[0] != k[0] ? k[0] : v[0]);
  if (k[0] != v[0])
    return mismatch("the pages of k and v", k[0], v[0]);
  if (k[1] != v[1])
    return mismatch("the heads of k and v", k[1], v[1]);
  if (k[2] != v[2])
    return mismatch(isPaged ? "the page_size of k and v"
                            : "the lengths of k and v",
                    k[2], v[2]);
  if (q[3] != k[3])
    return mismatch("the head_dim of q and k", q[3], k[3]);
  if (k[1] == 0 ? q[1] != 0 : q[1] % k[1] != 0)
    return Status::error(
        "expects heads_q to be a multiple of heads_kv, but got " +
        std::to_string(q[1]) + " and " + std::to_string(k[1]));
  if (inputs.sinkLogits && inputs.sinkLogits->sizes[1] != q[1])
    return mismatch("heads_q and the size of sink_logits", q[1],
                    inputs.sinkLogits->sizes[1]);
  if (inputs.scoresStage && (inputs.cuSeqlensQ || isPaged))
    return Status::error(
               "expects no output of scores with " +
               std::string(isPaged ? operand::PageTable : operand::CuSeqlensQ) +
               ", but got one")
        .note("its axes would have to be those of each sequence");
  if (Status status = verifyAppendShapes(inputs); !status.ok())
    return status;
  if (inputs.rng && inputs.rng->sizes[0] != RngWords)
    return mismatch("the words of seed and offset and the size of rng",
                    RngWords, inputs.rng->sizes[0]);
  if (!inputs.bias)
    return Status::success();
  if (inputs.cuSeqlensQ)
    return Status::error("expects no bias with cu_seqlens_q, but got one")
        .note("its axes would have to be those of each sequence: add to the "
              "scores in a score region");
  if (isPaged)
    return Status::error("expects no bias with page_table, but got one")
        .note("add to the scores in a score region");
  const char *axes[] = {"batch", "heads_q", "seqlen_q", "seqlen_k"};
  const int64_t whole[] = {q[0], q[1], q[2], k[2]};
  for (size_t i = 0; i < 4; ++i)
    if (int64_t size = inputs.bias->sizes[i]; size != 1 && size != whole[i])
      return Status::error("expects the " + std::string(axes[i]) +
                           " of the bias to be 1 or that of the attention (" +
                           std::to_string(whole[i]) + "), but got " +
                           std::to_string(size));
  return Status::success();
}

static std::string entryName(std::string_view name, int64_t index) {
  return std::string(name) + "[" + std::to_string(index) + "]";
}

/// Rows [cu[b], cu[b + 1]) are rows of the tensor, and no sequence ends before
/// it begins.
static Status verifyCuSeqlens(const TensorView &cu, std::string_view name,
                              int64_t total, std::string_view dim) {
  std::string totalName = "the " + std::string(dim) + " of the tensors";
  int64_t last = cu.sizes[0] - 1, before = 0;
  for (int64_t i = 0; i <= last; ++i) {
    int64_t value = loadLength(cu, i);
    std::string got = ", but got " + std::to_string(value);
    if (value < before)
      return Status::error("expects " + entryName(name, i) +
                           " to be at least " +
                           (i ? entryName(name, i - 1) + " (" +
                                    std::to_string(before) + ")"
                              : "0") +
                           got)
          .note("sequence b has the rows from entry b to before entry b + 1");
    if (value > total)
      return Status::error("expects " + entryName(name, i) + " to be at most " +
                           totalName + " (" + std::to_string(total) + ")" + got)
          .note("sequences lie one after another on that axis");
    before = value;
  }
  return Status::success();
}

/// Which lengths there are.
static Status verifyLengthPairs(const AttentionInputs &inputs) {
  bool hasQ = inputs.cuSeqlensQ.has_value(),
       hasK = inputs.cuSeqlensK.has_value();
  if (!inputs.pageTable && hasQ != hasK)
    return Status::error("expects cu_seqlens_q and cu_seqlens_k together, but "
                         "got one without the other");
  if (inputs.pageTable && hasK)
    return Status::error("expects no cu_seqlens_k with page_table, but got one")
        .note("the keys of a sequence are in pages of its own: seqused_k says "
              "how many they are");
  if (inputs.pageTable && hasQ && !inputs.sequsedK)
    return Status::error("expects seqused_k with page_table and cu_seqlens_q, "
                         "but got none");
  return Status::success();
}

/// The shape of the table.
static Status verifyTableShape(const AttentionInputs &inputs) {
  if (!inputs.pageTable)
    return Status::success();
  int64_t rows = inputs.pageTable->sizes[0], pages = inputs.pageTable->sizes[1];
  int64_t pageSize = inputs.k.sizes[2], count = countSequences(inputs);
  if (rows != count)
    return Status::error("expects page_table to have " + std::to_string(count) +
                         " rows, one a " +
                         (inputs.cuSeqlensQ ? "sequence" : "batch entry") +
                         ", but got " + std::to_string(rows));
  if (pages < 1)
    return Status::error("expects page_table to have at least 1 page a row, "
                         "but got 0");
  int64_t most = 0;
  if (__builtin_mul_overflow(pages, pageSize, &most))
    return Status::error("expects page_table to name less than 2^63 keys a "
                         "row, but got " +
                         std::to_string(pages) + " pages of " +
                         std::to_string(pageSize));
  return Status::success();
}

/// The shapes of lengths.
static Status verifyLengthShapes(const AttentionInputs &inputs) {
  if (Status status = verifyLengthPairs(inputs); !status.ok())
    return status;
  int64_t batch = inputs.q.sizes[0];
  if (inputs.cuSeqlensQ) {
    int64_t q = inputs.cuSeqlensQ->sizes[0];
    int64_t k = inputs.cuSeqlensK ? inputs.cuSeqlensK->sizes[0] : q;
    if (batch != 1)
      return Status::error("expects batch 1 with cu_seqlens_q, but got " +
                           std::to_string(batch))
          .note("sequences lie one after another on the axis of the rows");
    if (!inputs.cuSeqlensK && q < 1)
      return Status::error("expects cu_seqlens_q to have at least 1 entry, one "
                           "more than there are sequences, but got " +
                           std::to_string(q));
    if (q != k || q < 1)
      return Status::error("expects cu_seqlens_q and cu_seqlens_k to have as "
                           "many entries, one more than there are sequences, "
                           "but got " +
                           std::to_string(q) + " and " + std::to_string(k));
  }
  int64_t count = countSequences(inputs);
  if (inputs.sequsedK && inputs.sequsedK->sizes[0] != count)
    return Status::error(
        "expects seqused_k to have " + std::to_string(count) +
        " entries, one a " + (inputs.cuSeqlensQ ? "sequence" : "batch entry") +
        ", but got " + std::to_string(inputs.sequsedK->sizes[0]));
  return verifyTableShape(inputs);
}

/// That there is room for the rows of an append, and an angle for each. Rows of
/// query are turned by an entry that is not there, too.
static Status verifyRoom(const AttentionInputs &inputs, int64_t entry,
                         int64_t seqlenK) {
  int64_t used = loadLength(*inputs.sequsedK, entry);
  int64_t added = countNewKeys(inputs);
  std::string name = entryName(operand::SequsedK, entry);
  if (used >= 0 && used + added > seqlenK)
    return Status::error(
        "expects " + name + " to leave room for " + std::to_string(added) +
        " new keys among the " + std::to_string(seqlenK) + " of batch entry " +
        std::to_string(entry) + ", but got " + std::to_string(used));
  if (!inputs.rotaryCos)
    return Status::success();
  const Mask &mask = inputs.mask;
  bool isOnePlace =
      mask.causal == Causal::None && !mask.windowLeft && !mask.windowRight;
  int64_t queries = inputs.q.sizes[2], positions = inputs.rotaryCos->sizes[0];
  int64_t needed =
      std::max<int64_t>(used, 0) +
      std::max(added, isOnePlace ? std::min<int64_t>(queries, 1) : queries);
  if (needed > positions)
    return Status::error("expects rotary_cos and rotary_sin to have " +
                         std::to_string(needed) +
                         " positions or more, but got " +
                         std::to_string(positions))
        .note(name + " is " + std::to_string(used));
  return Status::success();
}

static Status verifyUsedKeys(const AttentionInputs &inputs) {
  AttentionInputs whole = inputs;
  whole.sequsedK.reset();
  for (int64_t i = 0, count = countSequences(inputs); i < count; ++i) {
    int64_t used = loadLength(*inputs.sequsedK, i);
    int64_t seqlenK = getSequence(whole, i).seqlenK;
    if (used > seqlenK || (used < 0 && !inputs.kNew))
      return Status::error(
          "expects " + entryName(operand::SequsedK, i) + " to be from 0 to " +
          std::to_string(seqlenK) + ", the keys of " +
          (inputs.cuSeqlensQ ? "sequence " : "batch entry ") +
          std::to_string(i) + ", but got " + std::to_string(used));
    if (!inputs.kNew)
      continue;
    if (Status status = verifyRoom(inputs, i, seqlenK); !status.ok())
      return status;
  }
  return Status::success();
}

/// That no row of an append goes where another entry has a key.
static Status verifyOwnRows(const AttentionInputs &inputs) {
  if (!inputs.kNew || !inputs.pageTable)
    return Status::success();
  std::map<std::pair<int64_t, int64_t>, int64_t> writers;
  auto refuse = [](int64_t entry, KeyPlace place, int64_t other) {
    return Status::error(
        "expects the new keys of batch entry " + std::to_string(entry) +
        " to be in rows of their own, but row " + std::to_string(place.row) +
        " of page " + std::to_string(place.batch) + " is of batch entry " +
        std::to_string(other) + ", too");
  };
  int64_t count = countSequences(inputs);
  for (int64_t i = 0; i < count; ++i) {
    Sequence sequence = getSequence(inputs, i);
    for (int64_t key = countOldKeys(inputs, sequence); key < sequence.seqlenK;
         ++key) {
      KeyPlace place = findKey(inputs, sequence, key);
      auto [writer, isNew] = writers.try_emplace({place.batch, place.row}, i);
      if (!isNew)
        return refuse(i, place, writer->second);
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    Sequence sequence = getSequence(inputs, i);
    for (int64_t key = 0, old = countOldKeys(inputs, sequence); key < old;
         ++key) {
      KeyPlace place = findKey(inputs, sequence, key);
      auto writer = writers.find({place.batch, place.row});
      if (writer != writers.end())
        return refuse(writer->second, place, i);
    }
  }
  return Status::success();
}

/// The pages that hold keys; others may be any.
static Status verifyPages(const AttentionInputs &inputs) {
  int64_t pages = inputs.k.sizes[0], pageSize = inputs.k.sizes[2];
  for (int64_t i = 0, count = countSequences(inputs); i < count; ++i) {
    int64_t seqlenK = getSequence(inputs, i).seqlenK;
    for (int64_t first = 0; first < seqlenK; first += pageSize) {
      int64_t page = loadPage(inputs, i, first / pageSize);
      if (page < 0 || page >= pages)
        return Status::error("expects page_table[" + std::to_string(i) + ", " +
                             std::to_string(first / pageSize) +
                             "] to be from 0 to pages - 1 (" +
                             std::to_string(pages - 1) + "), but got " +
                             std::to_string(page))
            .note((inputs.cuSeqlensQ ? "sequence " : "batch entry ") +
                  std::to_string(i) + " has " + std::to_string(seqlenK) +
                  " keys, in pages of " + std::to_string(pageSize));
    }
  }
  return Status::success();
}

Status flashcore::verifyLengths(const AttentionInputs &inputs) {
  if (Status status = verifyLengthShapes(inputs); !status.ok())
    return status;
  if (inputs.cuSeqlensQ) {
    if (Status status = verifyCuSeqlens(*inputs.cuSeqlensQ, operand::CuSeqlensQ,
                                        inputs.q.sizes[2], "seqlen_q");
        !status.ok())
      return status;
  }
  if (inputs.cuSeqlensK) {
    if (Status status = verifyCuSeqlens(*inputs.cuSeqlensK, operand::CuSeqlensK,
                                        inputs.k.sizes[2], "seqlen_k");
        !status.ok())
      return status;
  }
  if (inputs.sequsedK) {
    if (Status status = verifyUsedKeys(inputs); !status.ok())
      return status;
  }
  if (inputs.pageTable) {
    if (Status status = verifyPages(inputs); !status.ok())
      return status;
  }
  if (Status status = verifyOwnRows(inputs); !status.ok())
    return status;
  return verifyBlocks(inputs);
}
