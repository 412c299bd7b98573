//===- ScoresChoice.cpp - The schedule of the kernel of scores ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile of scores is more bytes than those of Q and K that it is made of, so
// the kernel waits for memory and little else matters: products are of single
// warps on every chip, and nothing is copied ahead.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/ScoresChoice.h"
#include "flashcore/Schedule/ResourceModel.h"
#include "flashcore/Schedule/ScheduleCheck.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

/// Rows of a block.
static constexpr int64_t kBlockRows = 64;

ScheduleChoice
mlir::flashcore::chooseScoresSchedule(const AttentionProblem &problem,
                                      const ScheduleChoice &attention) {
  ScheduleChoice choice;
  if (attention.hasPlainTiles()) {
    choice.product = attention.product;
    choice.query = QueryPlacement::Shared;
    choice.exchange = attention.exchange;
  }
  if (attention.copies == CopyPath::Registers)
    choice.copies = CopyPath::Registers;
  int64_t rows = problem.seqlenQ.value_or(kBlockRows);
  int64_t warpRows = choice.getRowMultiple();
  choice.blockM =
      std::clamp<int64_t>(llvm::alignTo(rows, warpRows), warpRows, kBlockRows);
  choice.blockN = kBlockRows;
  choice.numWarps = choice.blockM / warpRows;
  choice.numStages = 2; // the least there are; a tile alone has one slot
  choice.invariance = attention.invariance;
  // Rows of the widest heads with room between them: two tiles of 64 rows are
  // more than the least that a chip allows a block, sm_75's.
  constexpr int64_t leastSharedMemory = 64 * 1024;
  while (attention.hasPlainTiles() && choice.numWarps > 1 &&
         getScoresSharedMemoryBytes(problem, choice) > leastSharedMemory) {
    choice.numWarps = llvm::divideCeil(choice.numWarps, 2);
    choice.blockM = choice.numWarps * warpRows;
  }
  return choice;
}

std::optional<std::string>
mlir::flashcore::checkScoresGrid(const AttentionProblem &problem,
                                 const ScheduleChoice &choice) {
  std::optional<int64_t> rows = getNumBlocks(problem, choice.blockM);
  if (!rows || !problem.seqlenK)
    return std::nullopt;
  auto blocks = llvm::SaturatingMultiply<uint64_t>(
      *rows, llvm::divideCeil(*problem.seqlenK, choice.blockN));
  if (blocks <= kMaxGrid)
    return std::nullopt;
  return llvm::formatv("needs {0} blocks for its scores (batch {1}, heads_q "
                       "{2}, seqlen_q {3}, seqlen_k {4}, tiles of {5} x {6}), "
                       "but CUDA launches at most {7}; compute it in several "
                       "parts",
                       blocks, *problem.batch, *problem.headsQ,
                       *problem.seqlenQ, *problem.seqlenK, choice.blockM,
                       choice.blockN, kMaxGrid);
}

int64_t
mlir::flashcore::getScoresSharedMemoryBytes(const AttentionProblem &problem,
                                            const ScheduleChoice &choice) {
  SharedMemoryNeeds needs;
  for (auto [role, rows] : {std::pair(TileRole::Query, choice.getWarpM()),
                            {TileRole::Key, choice.blockN}}) {
    needs.rings.push_back(getTileRing(problem, choice, role, rows,
                                      problem.getColumns(),
                                      /*isInLoop=*/false));
    // The only tile of keys.
    if (role == TileRole::Key)
      needs.rings.back().numStages = 1;
  }
  if (choice.product == Product::Wmma)
    needs.scratch.add(choice.getWarpM(), /*lhsCols=*/0, choice.blockN,
                      choice.exchange != Exchange::Plain);
  needs.numWarps = choice.numWarps;
  return layOutSharedMemory(needs).bytes;
}
