//===- ValuesExpander.cpp - A tile of P V alone -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The second product of an attention whose P is in memory already. The walk is
// that of AttentionExpander.cpp over the same bounds of keys; tiles that are
// partial need nothing, since P is 0 where a key is hidden.
//
//===----------------------------------------------------------------------===//

#include "KeyWalk.h"
#include "TileExpanders.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::flashcore;

namespace {
class ValuesExpander : KeyWalk {
public:
  explicit ValuesExpander(ValuesTileOp tile)
      : KeyWalk(tile, /*scoreScale=*/1), tile(tile) {}

  void expand();

private:
  Value readProbabilities(Value key);

  ValuesTileOp tile;
};
} // namespace

/// P of the rows of the warp and the tile of keys from `key` on.
Value ValuesExpander::readProbabilities(Value key) {
  Value zero = asValue(b.getIndexAttr(0));
  Value number = asValue(apply(b.getAffineDimExpr(0).floorDiv(blockN), {key}));
  Value padding = arith::ConstantOp::create(b, b.getZeroAttr(b.half));
  auto read = vector::TransferReadOp::create(
      b, VectorType::get({warpM, blockN}, b.half), tile.getProbabilities(),
      ValueRange{number, zero, zero, zero}, padding,
      ArrayRef<bool>{false, true});
  stage(read, TileRole::Probabilities, blockN, /*isInLoop=*/true);
  return read;
}

void ValuesExpander::expand() {
  computeTileCounts();
  Value zero = asValue(b.getIndexAttr(0)), one = asValue(b.getIndexAttr(1));
  auto loop =
      scf::ForOp::create(b, zero, asValue(numTiles), one,
                         ValueRange{b.constant(0.0f, {warpM, b.columnsV})});
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value key = getTileKey(loop.getInductionVar());
    Value p = readProbabilities(key);
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

void mlir::flashcore::expandValues(ValuesTileOp tile) {
  ValuesExpander(tile).expand();
}
