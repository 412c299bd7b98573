//===- ScoreReads.cpp - What scores read of tensors ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A coordinate past the end is cut before something is read with it, and so is
// no longer one more than the one before. Hence tiles that lie whole in front
// of both ends have a map_scores of their own, without cuts: what they read is
// constants apart, distances of queries and keys that are the same are seen to
// be, and what lies side by side for neighbouring keys is read in pairs, where
// the addresses of pairs are multiples of their size.
//
//===----------------------------------------------------------------------===//

#include "ScoreBuilder.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::flashcore;

using ValueSet = llvm::DenseSet<Value>;

static Value getKey(fcgpu::MapScoresOp map) {
  return map.getBody().getArgument(2);
}

static ValueSet getValuesOfKey(fcgpu::MapScoresOp map) {
  return getDependents(map.getBody().front(), getKey(map));
}

static bool readsTensorsByKey(fcgpu::MapScoresOp map) {
  ValueSet ofKey = getValuesOfKey(map);
  return llvm::any_of(
      map.getBody().getOps<memref::LoadOp>(), [&](memref::LoadOp load) {
        return llvm::any_of(load.getIndices(),
                            [&](Value index) { return ofKey.contains(index); });
      });
}

/// Whether the value is the key plus an even constant.
static bool isEvenlyBehind(Value value, Value key) {
  if (value == key)
    return true;
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (isa<arith::AddIOp, arith::SubIOp>(op)) {
    auto distance = getConstantIntValue(op->getOperand(1));
    if (!distance || *distance % 2 != 0)
      return false;
  } else if (!isa<arith::IndexCastOp>(op)) {
    return false;
  }
  return isEvenlyBehind(op->getOperand(0), key);
}

/// Whether the load reads what lies side by side for neighbouring keys, and an
/// even key is what a pair begins with if strides and address allow.
static bool readsPairs(memref::LoadOp load, Value key, const ValueSet &ofKey) {
  auto type = load.getMemRefType();
  SmallVector<int64_t> strides;
  int64_t offset;
  if (type.getRank() == 0 ||
      failed(type.getStridesAndOffset(strides, offset)) ||
      strides.pop_back_val() != 1 ||
      !isEvenlyBehind(load.getIndices().back(), key))
    return false;
  auto axes = llvm::zip_equal(load.getIndices().drop_back(), strides,
                              type.getShape().drop_back());
  return llvm::all_of(axes, [&](auto axis) {
    auto [index, stride, size] = axis;
    bool mayBeEven =
        size == 1 || ShapedType::isDynamic(stride) || stride % 2 == 0;
    return mayBeEven && !ofKey.contains(index);
  });
}

/// Whether pairs of the memref begin at multiples of their size, in rows of any
/// coordinates. The first key of a tile is even where that of the op is.
Value ScoreBuilder::areAligned(Value memref) {
  auto type = cast<MemRefType>(memref.getType());
  int64_t bytes = type.getElementTypeBitWidth() / 8;
  auto metadata = memref::ExtractStridedMetadataOp::create(b, memref);
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  Value address =
      memref::ExtractAlignedPointerAsIndexOp::create(b, memref).getResult();
  Value sum =
      asValue(apply(d0 + d1 * bytes, {OpFoldResult(address),
                                      metadata.getConstifiedMixedOffset()}));
  auto add = [&](OpFoldResult distance) {
    sum = arith::OrIOp::create(b, sum, asValue(apply(d0 * bytes, {distance})));
  };
  for (auto [stride, size] :
       llvm::zip_equal(metadata.getConstifiedMixedStrides(), type.getShape()))
    if (size != 1 && !getConstantIntValue(stride))
      add(stride);
  Value first = place.firstKey;
  if (getConstantIntValue(first).value_or(1) % 2 != 0)
    add(OpFoldResult(first));
  Value rest =
      arith::AndIOp::create(b, sum, asValue(b.getIndexAttr(2 * bytes - 1)));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, rest,
                               asValue(b.getIndexAttr(0)));
}

/// Marks the loads of pairs. Returns whether they all may be read so, or null
/// if there are none.
Value ScoreBuilder::pairReads(fcgpu::MapScoresOp map) {
  Value areAllAligned;
  ValueSet ofKey = getValuesOfKey(map);
  llvm::SmallSetVector<Value, 4> memrefs;
  for (auto load : map.getBody().getOps<memref::LoadOp>()) {
    if (!readsPairs(load, getKey(map), ofKey))
      continue;
    load->setAttr(fcgpu::kPairedAttrName, b.getUnitAttr());
    memrefs.insert(load.getMemRef());
  }
  for (Value memref : memrefs) {
    Value isAligned = areAligned(memref);
    areAllAligned =
        areAllAligned
            ? arith::AndIOp::create(b, areAllAligned, isAligned).getResult()
            : isAligned;
  }
  return areAllAligned;
}

/// Whether the tile from `key` on lies in front of both ends; null if it always
/// does.
Value ScoreBuilder::isWhole(Value key) {
  Value holds;
  auto add = [&](Value first, int64_t size, Value extent) {
    Value end = asValue(apply(b.getAffineDimExpr(0) + size, {first}));
    Value isInFront =
        arith::CmpIOp::create(b, arith::CmpIPredicate::sle, end, extent);
    holds = holds ? arith::AndIOp::create(b, holds, isInFront).getResult()
                  : isInFront;
  };
  auto seqlenQ = getConstantIntValue(place.seqlenQ);
  if (seqlenQ.value_or(1) % schedule.getBlockM() != 0)
    add(place.firstQuery, warpM, place.seqlenQ);
  if (!hasWholeTilesOnly())
    add(key, blockN, place.seqlenK);
  return holds;
}

/// mapScores of what may read by keys. Where there are none, nothing is read:
/// a tile that is walked all the same hides whatever it has. Both ways round
/// differently, so the bits of a row that must not depend on others have one.
Value ScoreBuilder::mapReads(Value scores, Value key,
                             function_ref<Value(Value, Value, Value)> build) {
  auto map = [&](bool mayCutQueries, bool mayCutKeys) {
    cutsQueries = mayCutQueries, cutsKeys = mayCutKeys;
    auto result = mapScores(scores, key, build);
    cutsQueries = cutsKeys = true;
    return result.getDefiningOp<fcgpu::MapScoresOp>();
  };
  auto cut = map(true, b.isInvariant || !hasWholeTilesOnly());
  if (!readsTensorsByKey(cut))
    return cut.getResult();
  auto take = [&](fcgpu::MapScoresOp map) -> Value {
    map->moveBefore(b.getInsertionBlock(), b.getInsertionPoint());
    return map.getResult();
  };
  auto takeCut = [&]() -> Value {
    Value seqlenK = place.seqlenK;
    if (getConstantIntValue(seqlenK).value_or(0) > 0)
      return take(cut);
    Value hasKeys = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, seqlenK,
                                          asValue(b.getIndexAttr(0)));
    return branch(hasKeys, [&] { return take(cut); }, [&] { return scores; });
  };
  if (b.isInvariant)
    return takeCut();
  auto whole = map(false, false);
  Value condition = isWhole(key);
  if (Value areAligned = pairReads(whole))
    condition =
        condition ? arith::AndIOp::create(b, condition, areAligned).getResult()
                  : areAligned;
  if (condition)
    return branch(condition, [&] { return take(whole); }, takeCut);
  cut.erase();
  return whole.getResult();
}
