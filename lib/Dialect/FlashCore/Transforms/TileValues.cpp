//===- TileValues.cpp - A tile of P V alone -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The second product of an attention whose P is in memory already. The walk is
// that of OnlineSoftmax.cpp over the same bounds of keys; tiles that are
// partial need nothing, since P is 0 where a key is hidden.
//
//===----------------------------------------------------------------------===//

#include "TileExpander.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::flashcore;

/// P of the rows of the warp and the tile of keys from `key` on.
Value TileExpander::readProbabilities(Value probabilities, Value key) {
  Value zero = asValue(b.getIndexAttr(0));
  Value tile = asValue(apply(b.getAffineDimExpr(0).floorDiv(blockN), {key}));
  Value padding = arith::ConstantOp::create(b, b.getZeroAttr(b.half));
  auto read = vector::TransferReadOp::create(
      b, VectorType::get({warpM, blockN}, b.half), probabilities,
      ValueRange{tile, zero, zero, zero}, padding, ArrayRef<bool>{false, true});
  stage(read, TileRole::Probabilities, blockN, /*isInLoop=*/true);
  return read;
}

void TileExpander::expandValues(ValuesTileOp tile) {
  computeTileCounts();
  Value zero = asValue(b.getIndexAttr(0)), one = asValue(b.getIndexAttr(1));
  auto loop =
      scf::ForOp::create(b, zero, asValue(numTiles), one,
                         ValueRange{b.constant(0.0f, {warpM, b.columnsV})});
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value key = getTileKey(loop.getInductionVar());
    Value p = readProbabilities(tile.getProbabilities(), key);
    Value v = readTile(TileRole::Value, key, blockN);
    Value sum = b.contract(p, v, loop.getRegionIterArg(0),
                           /*transposedRhs=*/false);
    scf::YieldOp::create(b, sum);
  }
  Value o = arith::TruncFOp::create(
      b,
      VectorType::get({warpM, b.columnsV},
                      getElementTypeOrSelf(op.getOutput().getType())),
      loop.getResult(0));
  writeRows(o, op.getOutput(), zero, zero);
  op.erase();
}
