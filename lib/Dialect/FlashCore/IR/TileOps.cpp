//===- TileOps.cpp - Constraints of tiles ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tiles of attentions, of scores and of P V: their builders, and what their
// descriptions ask for. The sizes of a tile follow from its memrefs.
//
//===----------------------------------------------------------------------===//

#include "OperandChecks.h"
#include "mlir/IR/Builders.h"

#include <cmath>

using namespace mlir;
using namespace mlir::flashcore;

/// The axis of columns.
static constexpr unsigned kColumns = 3;

//===----------------------------------------------------------------------===//
// What tiles have in common
//===----------------------------------------------------------------------===//

/// The operands of the coordinates, in their order in the op.
static SmallVector<Value> listPlace(const TilePlace &place) {
  return {place.batch,    place.head,   place.firstQuery, place.seqlenQ,
          place.firstKey, place.keyEnd, place.seqlenK,    place.blockQuery};
}

/// Adds operands and coordinates; of optional ones the segment sizes are set.
template <typename Properties>
static void addOperands(OperationState &state, Properties &properties,
                        ArrayRef<Value> operands, const TilePlace &place) {
  SmallVector<Value> all(operands);
  llvm::append_range(all, listPlace(place));
  auto &sizes = properties.operandSegmentSizes;
  for (auto [size, value] : llvm::zip_equal(sizes, all)) {
    size = value ? 1 : 0;
    if (value)
      state.addOperands(value);
  }
}

namespace {
struct NamedRows {
  StringRef name;
  Value value; ///< null where the op has none
  bool hasRows = true;
};
} // namespace

/// T1: `others` are of the elements of `first`.
static LogicalResult verifyElements(Operation *op, const NamedRows &first,
                                    ArrayRef<NamedRows> others) {
  Type element = getElementTypeOrSelf(first.value.getType());
  for (const NamedRows &other : others)
    if (Type got = getElementTypeOrSelf(other.value.getType()); got != element)
      return op->emitOpError("expects ")
             << other.name << " of the element type of " << first.name << ", "
             << element << ", but got " << got;
  return success();
}

static int64_t getColumns(Value rows) {
  return cast<MemRefType>(rows.getType()).getDimSize(kColumns);
}

/// T2: that columns are known, and how many there are.
static LogicalResult verifyColumns(Operation *op, const NamedRows &rows,
                                   std::optional<int64_t> expected = {},
                                   bool mayHaveMore = false) {
  int64_t columns = getColumns(rows.value);
  if (failed(verifyStaticPositive(
          op, Twine("number of columns of ") + rows.name, columns)))
    return failure();
  bool isRight =
      !expected || columns == *expected || (mayHaveMore && columns > *expected);
  if (!isRight)
    return op->emitOpError("expects ") << rows.name << " of " << *expected
                                       << " columns, but got " << columns;
  return success();
}

/// T4
static LogicalResult verifyLayouts(Operation *op, ArrayRef<NamedRows> memrefs) {
  for (const NamedRows &memref : memrefs)
    if (memref.value &&
        failed(verifyLayout(op, memref.name,
                            cast<MemRefType>(memref.value.getType()),
                            memref.hasRows)))
      return failure();
  return success();
}

/// That one comes with the other.
static LogicalResult verifyTogether(Operation *op, StringRef first,
                                    bool hasFirst, StringRef second,
                                    bool hasSecond) {
  if (hasFirst == hasSecond)
    return success();
  return op->emitOpError("expects ")
         << first << " and " << second << " together, but got only "
         << (hasFirst ? first : second);
}

//===----------------------------------------------------------------------===//
// flashcore.attention_tile
//===----------------------------------------------------------------------===//

void AttentionTileOp::build(OpBuilder &, OperationState &state, Value query,
                            Value key, Value value, Value output, Value lse,
                            const TilePlace &place, FloatAttr scale) {
  auto &properties = state.getOrAddProperties<Properties>();
  // Sink, rng and lists, and lse_rest, have setters.
  addOperands(state, properties,
              {query, key, value, /*sink_logits=*/Value(), /*rng=*/Value(),
               /*block_counts=*/Value(), /*block_indices=*/Value(),
               /*full_block_counts=*/Value(), /*full_block_indices=*/Value(),
               output, lse, /*lse_rest=*/Value()},
              place);
  properties.softmax_scale = scale;
  for (unsigned region = 0; region < 2; ++region)
    state.addRegion();
}

int64_t AttentionTileOp::getDropoutThreshold() {
  return flashcore::getDropoutThreshold(getDropout());
}

LogicalResult AttentionTileOp::verify() {
  bool isPart = isPartOfKeys();
  NamedRows query{"query", getQuery()}, key{"key", getKey()},
      value{"value", getValue()}, output{"output", getOutput(), !isPart};
  // T1
  SmallVector<NamedRows> halves{key, value};
  if (!isPart)
    halves.push_back(output);
  if (failed(verifyElements(*this, query, halves)))
    return failure();
  // T2
  if (failed(verifyColumns(*this, query)) ||
      failed(verifyColumns(*this, key, getColumns(getQuery()))) ||
      failed(verifyColumns(*this, value)) ||
      failed(verifyColumns(*this, output, getColumns(getValue()), isPart)))
    return failure();
  // T3
  ArrayRef<int64_t> rows = getOutput().getType().getShape().drop_back();
  if (getLseRest() && !getLse())
    return emitOpError("expects lse with lse_rest, but got none");
  for (auto [name, numbers] : {std::pair<StringRef, Value>("lse", getLse()),
                               {"lse_rest", getLseRest()}})
    if (failed(verifyShape(*this, name, numbers, rows)))
      return failure();
  // T4
  if (failed(verifyLayouts(*this,
                           {query,
                            key,
                            value,
                            output,
                            {"lse", getLse(), /*hasRows=*/false},
                            {"lse_rest", getLseRest(), /*hasRows=*/false}})))
    return failure();
  // T5
  if (failed(verifyTogether(*this, "dropout", getDropout().has_value(), "rng",
                            static_cast<bool>(getRng()))) ||
      failed(verifyBlockClauses(*this, getBlockCounts(), getBlockIndices(),
                                getBlockSize())) ||
      failed(verifyTogether(
          *this, "full_block_counts", static_cast<bool>(getFullBlockCounts()),
          "full_block_indices", static_cast<bool>(getFullBlockIndices()))))
    return failure();
  if (getFullBlockCounts() && !getBlockCounts())
    return emitOpError("expects block_counts with full_block_counts, but got "
                       "none");
  return success();
}

LogicalResult AttentionTileOp::verifyRegions() {
  return verifyScoreRegions(*this); // T6
}

//===----------------------------------------------------------------------===//
// flashcore.scores_tile
//===----------------------------------------------------------------------===//

void ScoresTileOp::build(OpBuilder &, OperationState &state, Value query,
                         Value key, Value output, Value lse, Value lseRest,
                         const TilePlace &place, FloatAttr scale,
                         ScoresStage stage) {
  auto &properties = state.getOrAddProperties<Properties>();
  addOperands(state, properties, {query, key, lse, lseRest, output}, place);
  properties.softmax_scale = scale;
  properties.stage = ScoresStageAttr::get(scale.getContext(), stage);
  for (unsigned region = 0; region < 2; ++region)
    state.addRegion();
}

LogicalResult ScoresTileOp::verify() {
  NamedRows query{"query", getQuery()}, key{"key", getKey()},
      output{"output", getOutput()};
  if (failed(verifyElements(*this, query, key)) ||                 // T1
      failed(verifyColumns(*this, query)) ||                       // T2
      failed(verifyColumns(*this, key, getColumns(getQuery()))) || // T2
      failed(verifyTogether(*this, "stage probabilities",          // T3
                            getStage() == ScoresStage::Probabilities, "lse",
                            static_cast<bool>(getLse()))))
    return failure();
  if (getLseRest() && !getLse())
    return emitOpError("expects lse with lse_rest, but got none");
  return verifyLayouts(*this, // T4
                       {query,
                        key,
                        output,
                        {"lse", getLse(), /*hasRows=*/false},
                        {"lse_rest", getLseRest(), /*hasRows=*/false}});
}

LogicalResult ScoresTileOp::verifyRegions() {
  return verifyScoreRegions(*this); // T6
}

//===----------------------------------------------------------------------===//
// flashcore.values_tile
//===----------------------------------------------------------------------===//

void ValuesTileOp::build(OpBuilder &, OperationState &state,
                         Value probabilities, Value value, Value output,
                         const TilePlace &place) {
  state.addOperands({probabilities, value, output});
  state.addOperands(listPlace(place));
}

LogicalResult ValuesTileOp::verify() {
  NamedRows p{"probabilities", getProbabilities()}, value{"value", getValue()},
      output{"output", getOutput()};
  if (failed(verifyElements(*this, p, {value, output})) ||          // T1
      failed(verifyColumns(*this, p)) ||                            // T2
      failed(verifyColumns(*this, value)) ||                        // T2
      failed(verifyColumns(*this, output, getColumns(getValue())))) // T2
    return failure();
  return verifyLayouts(*this, {p, value, output}); // T4
}
