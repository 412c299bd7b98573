//===- BlockLists.cpp - Lists of blocks of queries and keys ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Everything here reads lists as their definition says, entry by entry; that
// kernels do the same is what the checks are for.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/BlockLists.h"

#include <algorithm>

using namespace flashcore;

int64_t flashcore::countBlocks(int64_t rows, int64_t ofBlock) {
  return rows / ofBlock + (rows % ofBlock != 0);
}

/// Calls `visit` with each entry that the count of a list takes in.
template <typename Visitor>
static void forEachEntry(const TensorView &counts, const TensorView &indices,
                         int64_t batch, int64_t head, int64_t queryBlock,
                         Visitor &&visit) {
  auto count = static_cast<int64_t>(counts.load(batch, head, queryBlock, 0));
  count = std::clamp<int64_t>(count, 0, indices.sizes[3]);
  for (int64_t i = 0; i < count; ++i)
    visit(static_cast<int64_t>(indices.load(batch, head, queryBlock, i)));
}

void flashcore::readBlocks(const BlockLists &lists, int64_t batch, int64_t head,
                           int64_t queryBlock, std::span<BlockKind> kinds) {
  std::fill(kinds.begin(), kinds.end(), BlockKind::Absent);
  auto read = [&](const TensorView &counts, const TensorView &indices,
                  BlockKind kind) {
    forEachEntry(counts, indices, batch, head, queryBlock, [&](int64_t block) {
      if (block >= 0 && block < static_cast<int64_t>(kinds.size()))
        kinds[static_cast<size_t>(block)] = kind;
    });
  };
  read(lists.counts, lists.indices, BlockKind::Masked);
  if (lists.fullCounts)
    read(*lists.fullCounts, *lists.fullIndices, BlockKind::Full);
}

/// Whether the shapes are those of the attention, and alike.
static Status verifyListShapes(const AttentionInputs &inputs) {
  const BlockLists &lists = *inputs.blocks;
  if (inputs.cuSeqlensQ || inputs.pageTable || inputs.scoresStage)
    return Status::error("expects no block lists with " +
                         std::string(inputs.cuSeqlensQ  ? operand::CuSeqlensQ
                                     : inputs.pageTable ? operand::PageTable
                                                        : operand::Scores) +
                         ", but got both");
  const std::pair<std::string_view, const TensorView *> tensors[] = {
      {operand::BlockIndices, &lists.indices},
      {operand::BlockCounts, &lists.counts},
      {operand::FullBlockCounts,
       lists.fullCounts ? &*lists.fullCounts : nullptr},
      {operand::FullBlockIndices,
       lists.fullIndices ? &*lists.fullIndices : nullptr}};
  const auto &q = inputs.q.sizes, &first = lists.indices.sizes;
  constexpr const char *axes[] = {"batch", "heads_q", "query_blocks",
                                  "key_blocks"};
  for (size_t axis = 0; axis < 2; ++axis)
    if (first[axis] != 1 && first[axis] != q[axis])
      return Status::error("expects the " + std::string(axes[axis]) +
                           " of block_indices to be 1 or " +
                           std::to_string(q[axis]) + ", but got " +
                           std::to_string(first[axis]));
  const int64_t least[] = {
      0, 0, countBlocks(q[2], lists.queries),
      std::max<int64_t>(countBlocks(inputs.k.sizes[2], lists.keys), 1)};
  for (size_t axis = 2; axis < 4; ++axis)
    if (first[axis] < least[axis])
      return Status::error("expects " + std::string(axes[axis]) +
                           " of at least " + std::to_string(least[axis]) +
                           ", but got " + std::to_string(first[axis]));
  for (const auto &[name, view] : tensors)
    for (size_t axis = 0; view && axis < 4; ++axis)
      if (int64_t size = view->sizes[axis];
          size != first[axis] && (axis < 3 || name.ends_with("indices")))
        return Status::error("expects the " + std::string(axes[axis]) + " of " +
                             std::string(name) + " to be that of " +
                             std::string(operand::BlockIndices) + " (" +
                             std::to_string(first[axis]) + "), but got " +
                             std::to_string(size));
  return Status::success();
}

/// "batch 0, head 3, block 2 of queries".
static std::string describeRow(int64_t batch, int64_t head,
                               int64_t queryBlock) {
  return "batch " + std::to_string(batch) + ", head " + std::to_string(head) +
         ", block " + std::to_string(queryBlock) + " of queries";
}

Status flashcore::verifyBlocks(const AttentionInputs &inputs) {
  if (!inputs.blocks)
    return Status::success();
  if (Status status = verifyListShapes(inputs); !status.ok())
    return status;
  const BlockLists &lists = *inputs.blocks;
  const auto &sizes = lists.indices.sizes;
  std::vector<char> seen(static_cast<size_t>(sizes[3]));
  for (int64_t b = 0; b < sizes[0]; ++b)
    for (int64_t h = 0; h < sizes[1]; ++h)
      for (int64_t row = 0; row < sizes[2]; ++row) {
        std::fill(seen.begin(), seen.end(), 0);
        int64_t twice = -1;
        auto visit = [&](int64_t block) {
          if (block < 0 || block >= sizes[3])
            return;
          char &before = seen[static_cast<size_t>(block)];
          if (before)
            twice = block;
          before = 1;
        };
        forEachEntry(lists.counts, lists.indices, b, h, row, visit);
        if (lists.fullCounts)
          forEachEntry(*lists.fullCounts, *lists.fullIndices, b, h, row, visit);
        if (twice >= 0)
          return Status::error("expects the lists to have each block of keys "
                               "once, but got block " +
                               std::to_string(twice) + " twice in " +
                               describeRow(b, h, row))
              .note("its keys would count twice; a full block is not in the "
                    "other list");
      }
  return Status::success();
}

bool flashcore::isShownByMask(const AttentionInputs &inputs,
                              const Sequence &sequence, int64_t head,
                              int64_t query, int64_t key,
                              ScoreProgram::Values &values) {
  if (!visibleKeys(inputs.mask, query, sequence.seqlenQ, sequence.seqlenK)
           .contains(key))
    return false;
  return !inputs.maskRegion ||
         inputs.maskRegion
             ->evaluate(0, {sequence.entry, head, query, key}, inputs.captured,
                        values)
             .integer;
}

Status flashcore::compareBlocksWithMask(const AttentionInputs &inputs) {
  const BlockLists &lists = *inputs.blocks;
  std::vector<BlockKind> kinds(static_cast<size_t>(lists.indices.sizes[3]));
  ScoreProgram::Values values;
  for (int64_t b = 0, count = countSequences(inputs); b < count; ++b)
    for (int64_t h = 0; h < inputs.q.sizes[1]; ++h) {
      Sequence sequence = getSequence(inputs, b);
      for (int64_t i = 0; i < sequence.seqlenQ; ++i) {
        int64_t row = i / lists.queries;
        if (i % lists.queries == 0)
          readBlocks(lists, b, h, row, kinds);
        for (int64_t j = 0; j < sequence.seqlenK; ++j) {
          BlockKind kind = kinds[static_cast<size_t>(j / lists.keys)];
          if (kind == BlockKind::Masked ||
              isShownByMask(inputs, sequence, h, i, j, values) ==
                  (kind == BlockKind::Full))
            continue;
          std::string place = describeRow(b, h, row) + " and " +
                              std::to_string(j / lists.keys) + " of keys";
          std::string pair =
              "key " + std::to_string(j) +
              (kind == BlockKind::Full ? ", which it hides from query "
                                       : ", which it shows to query ") +
              std::to_string(i);
          return Status::error(
              kind == BlockKind::Full
                  ? "expects full blocks that the mask hides no key of, but "
                    "that of " +
                        place + " has " + pair
                  : "expects lists of all blocks that the mask shows a key "
                    "of, but that of " +
                        place + " is in none and has " + pair);
        }
      }
    }
  return Status::success();
}

double flashcore::countListedPairs(const AttentionInputs &inputs) {
  const BlockLists &lists = *inputs.blocks;
  std::vector<BlockKind> kinds(static_cast<size_t>(lists.indices.sizes[3]));
  double pairs = 0;
  for (int64_t b = 0, count = countSequences(inputs); b < count; ++b)
    for (int64_t h = 0; h < inputs.q.sizes[1]; ++h) {
      Sequence sequence = getSequence(inputs, b);
      for (int64_t i = 0; i < sequence.seqlenQ; ++i) {
        if (i % lists.queries == 0)
          readBlocks(lists, b, h, i / lists.queries, kinds);
        KeyRange seen =
            visibleKeys(inputs.mask, i, sequence.seqlenQ, sequence.seqlenK);
        for (size_t n = 0; n < kinds.size(); ++n) {
          int64_t first = static_cast<int64_t>(n) * lists.keys;
          int64_t end = std::min(first + lists.keys, sequence.seqlenK);
          if (kinds[n] == BlockKind::Masked) {
            first = std::max(first, seen.first);
            end = std::min(end, seen.end);
          }
          if (kinds[n] != BlockKind::Absent && first < end)
            pairs += static_cast<double>(end - first);
        }
      }
    }
  return pairs;
}
