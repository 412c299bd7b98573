//===- BlockLists.h - Lists of blocks of queries and keys -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The lists of block_counts and block_indices (docs/Bundle.md) as the reference
// reads them, and what there is to say against them.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_BLOCKLISTS_H
#define FLASHCORE_RUNTIME_BLOCKLISTS_H

#include "flashcore/Runtime/Reference.h"

namespace flashcore {

/// What lists say of a block: no query sees a key of it, the mask says which
/// ones, or all do.
enum class BlockKind : uint8_t { Absent, Masked, Full };

/// Blocks that `rows` rows are in.
int64_t countBlocks(int64_t rows, int64_t ofBlock);

/// What the lists say of each block of keys of a block of queries. Entries that
/// are no block of `kinds` hold no keys.
void readBlocks(const BlockLists &lists, int64_t batch, int64_t head,
                int64_t queryBlock, std::span<BlockKind> kinds);

/// Checks that the lists have the shapes of the attention, and that no block
/// stands twice in the lists of a block of queries. Does nothing without lists.
Status verifyBlocks(const AttentionInputs &inputs);

/// Whether the causal mask, the window and the mask region show a key, whatever
/// lists say. The region sees a score of 0. `values` is memory that calls use
/// again.
bool isShownByMask(const AttentionInputs &inputs, const Sequence &sequence,
                   int64_t head, int64_t query, int64_t key,
                   ScoreProgram::Values &values);

/// Compares lists, which verifyBlocks passes, with the mask: a block that they
/// leave out holds no key that it shows to a query, and a full one no key that
/// it hides. An error names the first block that is otherwise, a query and a
/// key. Kernels go by the lists, so this is a matter of what the caller meant.
Status compareBlocksWithMask(const AttentionInputs &inputs);

/// Pairs of a query and a key in blocks of the lists, of masked ones those that
/// causal masks and windows show.
double countListedPairs(const AttentionInputs &inputs);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_BLOCKLISTS_H
