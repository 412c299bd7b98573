//===- AttentionSizes.cpp - Sizes of ops on keys --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a call's sizes must be, and those that follow from others.
//
//===----------------------------------------------------------------------===//

#include "AppendOp.h"
#include "AttentionOp.h"
#include "flashcore/Runtime/BlockLists.h"

#include <algorithm>

using namespace flashcore;

static int64_t sizeOf(const Numbers &numbers, std::string_view name) {
  return numbers.find(name)->second;
}

/// The sizes that sequences one after another have.
static Status resolveSequences(const Bundle &bundle, Numbers &numbers) {
  if (!bundle.hasCuSeqlens())
    return Status::success();
  if (sizeOf(numbers, "batch") != 1)
    return Status::error("expects batch 1 of an attention with cu_seqlens_q, "
                         "but got " +
                         std::to_string(sizeOf(numbers, "batch")))
        .note("sequences lie one after another on the axis of the rows");
  int64_t entries = sizeOf(numbers, CuSeqlensDim);
  if (entries < 1)
    return Status::error("expects cu_seqlens to be at least 1, but got " +
                         std::to_string(entries))
        .note("it is one more than there are sequences");
  std::string sequences = bundle.sequencesDim();
  if (sequences.empty())
    return Status::success();
  auto [size, isOpen] = numbers.try_emplace(sequences, entries - 1);
  if (size->second != entries - 1)
    return Status::error("expects " + sequences +
                         " to be one less than "
                         "cu_seqlens (" +
                         std::to_string(entries) + "), but got " +
                         std::to_string(size->second))
        .note("seqused_k has an entry a sequence, cu_seqlens_q one more");
  return Status::success();
}

/// The sizes that keys in pages have.
static Status resolvePages(const Bundle &bundle, const Numbers &numbers) {
  if (!bundle.isPaged())
    return Status::success();
  int64_t pages = sizeOf(numbers, PagesPerSequenceDim),
          pageSize = sizeOf(numbers, PageSizeDim);
  if (pages < 1)
    return Status::error("expects pages_per_sequence to be at least 1, but got "
                         "0")
        .note("entries of seqused_k may be 0: such have no keys");
  int64_t most = 0;
  if (__builtin_mul_overflow(pages, pageSize, &most))
    return Status::error("expects pages_per_sequence times page_size to be "
                         "less than 2^63, but got " +
                         std::to_string(pages) + " times " +
                         std::to_string(pageSize));
  return Status::success();
}

/// The sizes that lists of blocks have: at least as many as there are blocks,
/// which is what they are where nobody chose.
static Status resolveBlocks(const Bundle &bundle, Numbers &numbers) {
  if (!bundle.hasBlocks())
    return Status::success();
  const auto &size = *bundle.attention.blockSize;
  for (auto [name, rows, ofBlock] :
       {std::tuple(QueryBlocksDim, "seqlen_q", size[0]),
        std::tuple(KeyBlocksDim, "seqlen_k", size[1])}) {
    int64_t least = std::max<int64_t>(
        countBlocks(sizeOf(numbers, rows), ofBlock), name == KeyBlocksDim);
    auto [known, isOpen] = numbers.try_emplace(std::string(name), least);
    if (known->second < least)
      return Status::error("expects " + std::string(name) + " of at least " +
                           std::to_string(least) + ", but got " +
                           std::to_string(known->second))
          .note("there are " + std::to_string(sizeOf(numbers, rows)) +
                " rows in blocks of " + std::to_string(ofBlock));
  }
  return Status::success();
}

/// What holds for all ops on keys.
static Status verifySharedSizes(const Bundle &bundle, const Numbers &numbers) {
  // An append may have no queries.
  int64_t headsKV = sizeOf(numbers, "heads_kv");
  int64_t headsQ =
      numbers.contains("heads_q") ? sizeOf(numbers, "heads_q") : headsKV;
  if (headsKV == 0 ? headsQ != 0 : headsQ % headsKV != 0)
    return Status::error(
        "expects heads_q to be a multiple of heads_kv, but got " +
        std::to_string(headsQ) + " and " + std::to_string(headsKV));
  if (numbers.contains(PositionsDim) && sizeOf(numbers, PositionsDim) < 1)
    return Status::error("expects positions to be at least 1, but got 0")
        .note("they are the rows of rotary_cos and rotary_sin");
  return resolvePages(bundle, numbers);
}

Status flashcore::resolveAttentionSizes(const Bundle &bundle,
                                        Numbers &numbers) {
  if (Status status = verifySharedSizes(bundle, numbers); !status.ok())
    return status;
  if (Status status = resolveBlocks(bundle, numbers); !status.ok())
    return status;
  return resolveSequences(bundle, numbers);
}

Status flashcore::resolveAppendSizes(const Bundle &bundle, Numbers &numbers) {
  return verifySharedSizes(bundle, numbers);
}

bool flashcore::isDerivedInAttention(const Bundle &bundle,
                                     std::string_view size) {
  return size == bundle.sequencesDim() || size == QueryBlocksDim ||
         size == KeyBlocksDim;
}
