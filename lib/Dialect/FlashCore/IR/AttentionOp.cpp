//===- AttentionOp.cpp - flashcore.attention ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifier, effects and interfaces of flashcore.attention. The labels C1..C32
// are the constraints of the op's description in FlashCoreOps.td.
//
//===----------------------------------------------------------------------===//

#include "OperandChecks.h"
#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "flashcore/Dialect/FlashCore/IR/Limits.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "flashcore/Dialect/FlashCore/IR/Overlaps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>
#include <functional>

using namespace mlir;
using namespace mlir::flashcore;

#define GET_OP_CLASSES
#include "flashcore/Dialect/FlashCore/IR/FlashCoreOps.cpp.inc"

void AttentionOp::build(OpBuilder &, OperationState &state, Value query,
                        Value key, Value value, Value output, Value lse) {
  SmallVector<Type, 2> results;
  for (Value init : {output, lse})
    if (init && isa<TensorType>(init.getType()))
      results.push_back(init.getType());
  // Of each row an operand or none; the attributes have setters.
  auto &sizes = state.getOrAddProperties<Properties>().operandSegmentSizes;
  auto given = [&](const OperandInfo &row) -> Value {
    return llvm::StringSwitch<Value>(row.name)
        .Case("query", query)
        .Case("key", key)
        .Case("value", value)
        .Case("output", output)
        .Case("lse", lse)
        .Default(Value());
  };
  for (auto [size, row] : llvm::zip(sizes, getOperandTable())) {
    Value operand = given(row);
    size = operand ? 1 : 0;
    if (operand)
      state.addOperands(operand);
  }
  sizes.back() = 0; // tile
  for (unsigned region = 0; region < 2; ++region)
    state.addRegion();
  state.addTypes(results);
}

MutableOperandRange AttentionOp::getDpsInitsMutable() {
  // Output, lse, lse_rest and scores are neighbours in the operand list.
  unsigned first = getOutputMutable().getOperandNumber();
  unsigned count = 1;
  if (!isTileOfScores()) // else lse and lse_rest are read
    for (Value init : {getLse(), getLseRest(), getScores()})
      count += init ? 1 : 0;
  return MutableOperandRange(*this, first, count);
}

SmallVector<Value> AttentionOp::getCapturedTensors() {
  llvm::SetVector<Value> values;
  for (Region &region : (*this)->getRegions())
    region.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (isa<ShapedType>(operand.getType()) &&
            !(*this)->isAncestor(operand.getParentBlock()->getParentOp()))
          values.insert(operand);
    });
  return values.takeVector();
}

float AttentionOp::getEffectiveScale() {
  if (std::optional<APFloat> scale = getSoftmaxScale())
    return scale->convertToFloat();
  return 1.0f / std::sqrt(static_cast<float>(getHeadDim()));
}

int64_t AttentionOp::getDropoutThreshold() {
  std::optional<APFloat> share = getDropout();
  return share ? std::llround(0x1p16 * share->convertToFloat()) : 0;
}

void AttentionOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  if (!hasPureBufferSemantics())
    return;
  getEffectsOfMemrefs(*this, effects);
  if (getKNew())
    for (OpOperand *operand : {&getKeyMutable(), &getValueMutable()})
      effects.emplace_back(MemoryEffects::Write::get(), operand);
  // Of what a region captures there is no operand to name.
  if (!getCapturedTensors().empty())
    effects.emplace_back(MemoryEffects::Read::get());
}

//===----------------------------------------------------------------------===//
// Verifier
//===----------------------------------------------------------------------===//

/// What to write instead of a bias that is none, where that is likely.
static StringRef getBiasRemedy(ShapedType bias, int64_t rank) {
  if (isa<IntegerType>(bias.getElementType()) &&
      bias.getElementTypeBitWidth() <= 8)
    return "; a boolean mask becomes a bias that is 0 where the key is visible "
           "and -inf where it is hidden";
  if (bias.getRank() >= rank)
    return "";
  return isa<TensorType>(bias) ? "; add axes of size 1, which are broadcast "
                                 "(tensor.expand_shape)"
                               : "; add axes of size 1, which are broadcast "
                                 "(memref.expand_shape)";
}

LogicalResult AttentionOp::verifyTypes() {
  for (auto [rule, operand] : listOperands(*this)) {
    auto type = cast<ShapedType>(operand.getType());
    int64_t rank = rule.getRank();
    StringRef remedy = rule.name == "bias" ? getBiasRemedy(type, rank) : "";
    // C1
    if (type.getRank() != rank)
      return emitOpError("expects ")
             << rule.name << " of rank " << rank << " " << rule.describeAxes()
             << ", but got " << type << remedy;
    if (!rule.isElement(type.getElementType()))
      return emitOpError("expects ")
             << rule.name << " of " << rule.describeElements() << ", but got "
             << type.getElementType() << remedy;
    // C20
    if (failed(verifySpan(*this, rule.name, type)))
      return failure();
  }
  return success();
}

LogicalResult AttentionOp::verify() {
  if (failed(verifyTypes()) || failed(verifyRelations(*this)) ||
      failed(verifyShapes()) || failed(verifyModifiers()) ||
      failed(verifyVarlen()) || failed(verifyScores()) ||
      failed(verifyStrides()) || failed(verifyDropout()) ||
      failed(verifyAppend()) || failed(verifyRotary()) ||
      failed(verifyBlocks()) || failed(verifyProbabilities()))
    return failure();
  return verifyResults();
}

bool AttentionOp::isPartOfKeys() {
  return !getTile().empty() && !isTileOfScores() &&
         getOutputType().getElementType().isF32();
}

/// C7: the shape of the output follows from those of the inputs.
static LogicalResult verifyOutputShape(AttentionOp op) {
  ShapedType q = op.getQueryType(), v = op.getValueType();
  ShapedType o = op.getOutputType();
  // C7
  int64_t gotDim = o.getDimSize(AttentionOp::HeadDim);
  int64_t headDim =
      op.isTileOfScores() ? gotDim : v.getDimSize(AttentionOp::HeadDim);
  int64_t expected[] = {q.getDimSize(AttentionOp::Batch),
                        q.getDimSize(AttentionOp::Head),
                        q.getDimSize(AttentionOp::Seqlen), headDim};
  bool hasDim = op.isPartOfKeys() ? gotDim >= headDim : gotDim == headDim;
  for (auto [want, got] : llvm::zip_equal(ArrayRef(expected).drop_back(),
                                          o.getShape().drop_back()))
    if (!hasDim || differ(want, got))
      return op.emitOpError("expects output shape ")
             << shapeString(expected) << ", but got "
             << shapeString(o.getShape());
  return success();
}

/// C8. Of a tile of scores these are the whole's.
static LogicalResult verifyLse(AttentionOp op) {
  Value lse = op.getLse(), rest = op.getLseRest();
  if (rest && (op.getTile().empty() || !lse))
    return op.emitOpError("expects lse_rest of a tile with lse, but got it ")
           << (lse ? "outside of a tile" : "without lse");
  auto check = [&](StringRef name, Value value, ArrayRef<int64_t> expected) {
    auto shape = cast<ShapedType>(value.getType()).getShape();
    for (auto [want, got] : llvm::zip_equal(expected, shape))
      if (differ(want, got))
        return LogicalResult(op.emitOpError("expects ")
                             << name << " shape " << shapeString(expected)
                             << ", but got " << shapeString(shape));
    return success();
  };
  if (lse && !op.isTileOfScores() &&
      failed(check("lse", lse, op.getQueryType().getShape().drop_back())))
    return failure();
  return rest ? check("lse_rest", rest,
                      cast<ShapedType>(lse.getType()).getShape())
              : success();
}

LogicalResult AttentionOp::verifyShapes() {
  ShapedType q = getQueryType(), k = getKeyType(), v = getValueType();
  ShapedType o = getOutputType();
  // C2
  for (auto [name, type] : {std::pair("key", k), {"value", v}, {"output", o}})
    if (type.getElementType() != q.getElementType() &&
        !((isPartOfKeys() || isTileOfScores()) && type == o))
      return emitOpError("expects ")
             << name << " of query's element type " << q.getElementType()
             << ", but got " << type.getElementType();
  // C3
  for (auto [name, dim] : {std::pair("head_dim", q.getDimSize(HeadDim)),
                           {"head_dim_v", v.getDimSize(HeadDim)}})
    if (ShapedType::isDynamic(dim) || dim <= 0)
      return emitOpError("expects a static positive ")
             << name << ", but got " << extent(dim);
  if (k.getDimSize(HeadDim) != q.getDimSize(HeadDim))
    return emitOpError("expects key to have query's head_dim ")
           << q.getDimSize(HeadDim) << ", but got "
           << extent(k.getDimSize(HeadDim));
  // C4
  for (auto [name, axis] :
       {std::pair("batch", Batch), {"heads_kv", Head}, {"seqlen_k", Seqlen}})
    if (differ(k.getDimSize(axis), v.getDimSize(axis)))
      return emitOpError("expects key and value to agree in ")
             << name << ", but got " << k.getDimSize(axis) << " and "
             << v.getDimSize(axis);
  // C5
  if (!getPageTable() && differ(q.getDimSize(Batch), k.getDimSize(Batch)))
    return emitOpError("expects query and key to agree in batch, but got ")
           << q.getDimSize(Batch) << " and " << k.getDimSize(Batch);
  // C6
  int64_t headsQ = q.getDimSize(Head), headsKV = k.getDimSize(Head);
  if (headsKV == 0 ||
      (!ShapedType::isDynamic(headsQ) && !ShapedType::isDynamic(headsKV) &&
       headsQ % headsKV != 0)) {
    auto error =
        emitOpError("expects heads_q to be a multiple of heads_kv, but got ")
        << extent(headsQ) << " and " << headsKV;
    noteSwappedAxes(error, "key", k);
    return error;
  }
  if (failed(verifyOutputShape(*this)))
    return failure();
  return verifyLse(*this);
}

LogicalResult AttentionOp::verifyModifiers() {
  // C9
  for (auto [name, value] : {std::pair("softmax_scale", getSoftmaxScale()),
                             {"softcap", getSoftcap()}})
    if (value &&
        !(value->isFinite() && !value->isNegative() && !value->isZero()))
      return emitOpError("expects a finite positive ")
             << name << ", but got " << value->convertToFloat();
  // C9
  if (auto scale = getSoftmaxScale())
    if (float value = scale->convertToFloat();
        value < kLeastScale || value > kMostScale)
      return emitOpError("expects softmax_scale from 2^-126 to 2^126, but got ")
             << value;
  if (auto softcap = getSoftcap()) {
    float cap = softcap->convertToFloat(), ratio = getEffectiveScale() / cap;
    if (cap < kLeastScale || cap > kMostScale || ratio < kLeastScale ||
        ratio > kMostScale)
      return emitOpError(
                 "expects softcap, and the softmax scale divided by it, "
                 "from 2^-126 to 2^126, but got ")
             << cap << " and " << ratio;
  }
  // C10
  for (auto [name, value] : {std::pair("window_left", getWindowLeft()),
                             {"window_right", getWindowRight()}})
    if (value && static_cast<int64_t>(*value) < 0)
      return emitOpError("expects ") << name << " not to be negative, but got "
                                     << static_cast<int64_t>(*value);
  ShapedType q = getQueryType(), k = getKeyType();
  // C11
  if (Value bias = getTile().empty() ? getBias() : Value()) {
    ArrayRef<int64_t> shape = cast<ShapedType>(bias.getType()).getShape();
    int64_t whole[] = {q.getDimSize(Batch), q.getDimSize(Head),
                       q.getDimSize(Seqlen), k.getDimSize(Seqlen)};
    for (auto [want, got] : llvm::zip_equal(whole, shape))
      if (got != 1 && differ(want, got))
        return emitOpError("expects each axis of bias to be 1 or that of ")
               << shapeString(whole) << ", but got " << shapeString(shape);
  }
  // C12
  for (auto [name, value] :
       {std::pair<StringRef, Value>("alibi_slopes", getAlibiSlopes()),
        {"sink_logits", getSinkLogits()}}) {
    if (!value)
      continue;
    int64_t size = cast<ShapedType>(value.getType()).getDimSize(0);
    if (getTile().empty() && differ(size, q.getDimSize(Head)))
      return emitOpError("expects ")
             << name << " of heads_q = " << q.getDimSize(Head)
             << " elements, but got " << size;
  }
  // C17
  if (!getTile().empty() && getTile().size() != NumTileOperands)
    return emitOpError("expects tile to have eight operands (batch, head, "
                       "query, seqlen_q, key, key_end, seqlen_k, "
                       "block_query), but got ")
           << getTile().size();
  return success();
}

LogicalResult AttentionOp::verifyVarlen() {
  ShapedType q = getQueryType();
  Value cuQ = getCuSeqlensQ(), cuK = getCuSeqlensK();
  // C13
  if (getPageTable() && (cuK || (cuQ && !getSequsedK())))
    return emitOpError("expects seqused_k in the place of cu_seqlens_k with "
                       "page_table, but got ")
           << (cuK ? "cu_seqlens_k" : "neither");
  if (!getPageTable() && static_cast<bool>(cuQ) != static_cast<bool>(cuK))
    return emitOpError(
               "expects cu_seqlens_q and cu_seqlens_k together, but got "
               "only cu_seqlens_")
           << (cuQ ? "q" : "k");
  if (cuQ) {
    int64_t sizeQ = cast<ShapedType>(cuQ.getType()).getDimSize(0);
    int64_t sizeK = cuK ? cast<ShapedType>(cuK.getType()).getDimSize(0) : sizeQ;
    if (differ(sizeQ, sizeK))
      return emitOpError("expects cu_seqlens_q and cu_seqlens_k of one length, "
                         "but got ")
             << sizeQ << " and " << sizeK;
    if (differ(q.getDimSize(Batch), 1))
      return emitOpError("expects a batch of 1 with cu_seqlens, but got ")
             << q.getDimSize(Batch);
  }
  // C14, C15
  for (auto [name, value] :
       {std::pair<StringRef, Value>("seqused_k", getSequsedK()),
        {"page_table", getPageTable()}}) {
    if (!value)
      continue;
    int64_t size = cast<ShapedType>(value.getType()).getDimSize(0);
    int64_t entries = q.getDimSize(Batch);
    if (cuQ) {
      int64_t ends = cast<ShapedType>(cuQ.getType()).getDimSize(0);
      entries = ShapedType::isDynamic(ends) ? ends : ends - 1;
    }
    if (differ(size, entries))
      return emitOpError("expects ")
             << name << " of " << (cuQ ? "sequences" : "batch") << " = "
             << entries << " rows, but got " << size;
  }
  if (!getPageTable())
    return success();
  int64_t pageSize = getKeyType().getDimSize(Seqlen);
  if (ShapedType::isDynamic(pageSize) || !llvm::isPowerOf2_64(pageSize))
    return emitOpError("expects pages of a static power of two of keys, but "
                       "got ")
           << extent(pageSize);
  if (cast<ShapedType>(getPageTable().getType()).getDimSize(1) == 0)
    return emitOpError("expects a page_table with a page of each entry or "
                       "more, but got none");
  return success();
}

LogicalResult AttentionOp::verifyScores() {
  std::optional<ScoresStage> stage = getStage();
  // C22
  if (getScores() && !stage)
    return emitOpError("expects stage(scaled, capped, changed, masked or "
                       "probabilities) with scores, but got none");
  if (getScores() && !getTile().empty())
    return emitOpError("expects the scores of a tile to be its output, but got "
                       "a scores operand");
  if (stage && !getScores() && getTile().empty())
    return emitOpError("expects scores with stage, but got stage(")
           << stringifyScoresStage(*stage) << ") alone";
  if (stage == ScoresStage::Probabilities && !getLse())
    return emitOpError("expects lse with stage(probabilities), which are "
                       "exp(score - lse), but got none; add lse(%lse : type)");
  if (!getScores())
    return success();
  // C21
  ShapedType q = getQueryType();
  int64_t keys =
      getPageTable() ? ShapedType::kDynamic : getKeyType().getDimSize(Seqlen);
  int64_t expected[] = {q.getDimSize(Batch), q.getDimSize(Head),
                        q.getDimSize(Seqlen), keys};
  ArrayRef<int64_t> shape = cast<ShapedType>(getScores().getType()).getShape();
  for (auto [want, got] : llvm::zip_equal(expected, shape))
    if (differ(want, got))
      return emitOpError("expects scores shape ")
             << shapeString(expected) << ", but got " << shapeString(shape);
  return success();
}

LogicalResult AttentionOp::verifyStrides() {
  // C16
  for (auto [rule, operand] : listOperands(*this)) {
    auto type = dyn_cast<MemRefType>(operand.getType());
    if (!type)
      continue;
    // That of a partial result moves element by element.
    bool hasRows = rule.access == OperandInfo::Access::Rows &&
                   !(rule.elements == OperandInfo::Elements::Output &&
                     type.getElementType().isF32());
    if (failed(verifyLayout(*this, rule.name, type, hasRows)))
      return failure();
  }
  return success();
}

LogicalResult AttentionOp::verifyDropout() {
  // C23
  Value rng = getRng();
  auto dropout = getDropout();
  if (dropout.has_value() != static_cast<bool>(rng))
    return emitOpError("expects dropout and rng together, but got only ")
           << (rng ? "rng" : "dropout");
  if (!rng)
    return success();
  // NaN compares false.
  double share = dropout->convertToFloat();
  constexpr double least = 0x1p-17, most = 1 - 0x1p-17;
  if (!(share >= least && share < most))
    return emitOpError("expects dropout from 2^-17 to below 1 - 2^-17, but "
                       "got ")
           << share << "; without dropout leave out the clause";
  int64_t words = cast<ShapedType>(rng.getType()).getDimSize(0);
  if (words != 4)
    return emitOpError("expects rng of 4 words (seed and offset, the lower "
                       "half of each first), but got ")
           << extent(words);
  return success();
}

LogicalResult AttentionOp::verifyAppend() {
  // C24
  if (!getKNew())
    return success();
  auto kNew = cast<ShapedType>(getKNew().getType()),
       vNew = cast<ShapedType>(getVNew().getType());
  int64_t seqlenNew = ShapedType::isDynamic(kNew.getDimSize(Seqlen))
                          ? vNew.getDimSize(Seqlen)
                          : kNew.getDimSize(Seqlen);
  for (auto [name, type, headDim] : {std::tuple("k_new", kNew, getHeadDim()),
                                     {"v_new", vNew, getHeadDimV()}}) {
    if (type.getElementType() != getQueryType().getElementType())
      return emitOpError("expects ") << name << " of query's element type "
                                     << getQueryType().getElementType()
                                     << ", but got " << type.getElementType();
    int64_t expected[] = {getQueryType().getDimSize(Batch),
                          getKeyType().getDimSize(Head), seqlenNew, headDim};
    bool isWhole = type.getDimSize(HeadDim) == headDim;
    for (auto [want, got] : llvm::zip_equal(expected, type.getShape()))
      if (!isWhole || differ(want, got))
        return emitOpError("expects ")
               << name << " of shape " << shapeString(expected) << ", but got "
               << shapeString(type.getShape());
  }
  // C25
  if (!getTile().empty())
    return emitOpError("expects a tile without append: a kernel in front of it "
                       "writes the rows");
  if (!hasPureBufferSemantics())
    return emitOpError("expects memrefs with append, which writes to key and "
                       "value, but got tensors");
  return success();
}

LogicalResult AttentionOp::verifyRotary() {
  // C26
  std::pair<StringRef, bool> parts[] = {
      {"rotary_cos", static_cast<bool>(getRotaryCos())},
      {"rotary_sin", static_cast<bool>(getRotarySin())},
      {"style", getStyle().has_value()}};
  for (auto [name, isThere] : parts)
    for (auto [other, isOtherThere] : parts)
      if (isThere && !isOtherThere)
        return emitOpError("expects rotary_cos, rotary_sin and "
                           "style(interleaved or half) together, but got ")
               << name << " without " << other;
  if (!getRotaryCos())
    return success();
  // C27
  auto cos = cast<ShapedType>(getRotaryCos().getType()),
       sin = cast<ShapedType>(getRotarySin().getType());
  for (auto [name, type] :
       {std::pair("rotary_cos", cos), {"rotary_sin", sin}}) {
    if (type.getElementType() != getQueryType().getElementType())
      return emitOpError("expects ") << name << " of query's element type "
                                     << getQueryType().getElementType()
                                     << ", but got " << type.getElementType();
    int64_t pairs = type.getDimSize(1);
    if (ShapedType::isDynamic(pairs) || pairs <= 0 || pairs > getHeadDim() / 2)
      return emitOpError("expects ")
             << name << " of a static number of pairs of columns, 1 to "
             << getHeadDim() / 2 << " (head_dim / 2), but got "
             << extent(pairs);
  }
  for (ShapedType type : {cos, sin})
    if (type.getDimSize(0) == 0)
      return emitOpError("expects rotary_cos and rotary_sin of a position or "
                         "more, but got none");
  if (differ(cos.getDimSize(0), sin.getDimSize(0)) ||
      cos.getDimSize(1) != sin.getDimSize(1))
    return emitOpError("expects rotary_cos and rotary_sin of one shape, but "
                       "got ")
           << shapeString(cos.getShape()) << " and "
           << shapeString(sin.getShape());
  return success();
}

/// C28: which of the clauses about blocks come together.
static LogicalResult verifyBlockClauses(AttentionOp op) {
  bool hasSize = op.getBlockSize().has_value();
  std::pair<StringRef, bool> clauses[] = {
      {"block_counts", static_cast<bool>(op.getBlockCounts())},
      {"block_indices", static_cast<bool>(op.getBlockIndices())},
      {"block_size", hasSize}};
  auto isThere = [](const auto &clause) { return clause.second; };
  const auto *there = llvm::find_if(clauses, isThere);
  const auto *missing = llvm::find_if_not(clauses, isThere);
  if (there != std::end(clauses) && missing != std::end(clauses))
    return op.emitOpError("expects block_counts, block_indices and block_size "
                          "together, but got ")
           << there->first << " without " << missing->first;
  if (!hasSize)
    return success();
  ArrayRef<int64_t> size = *op.getBlockSize();
  constexpr int64_t unit = 16, most = 65536;
  if (size.size() != 2 || llvm::any_of(size, [](int64_t extent) {
        return extent < unit || extent > most || extent % unit != 0;
      }))
    return op.emitOpError(
               "expects block_size to be two multiples of 16 (queries, "
               "keys), from 16 to 65536, but got ")
           << shapeString(size);
  return success();
}

LogicalResult AttentionOp::verifyBlocks() {
  if (failed(verifyBlockClauses(*this)))
    return failure();
  if (!getBlockSize() || !getTile().empty())
    return success();
  // C29
  auto countBlocks = [](int64_t rows, int64_t ofBlock) {
    return ShapedType::isDynamic(rows)
               ? int64_t(1)
               : std::max<int64_t>(llvm::divideCeil(rows, ofBlock), 1);
  };
  auto counts = cast<ShapedType>(getBlockCounts().getType());
  auto indices = cast<ShapedType>(getBlockIndices().getType());
  int64_t whole[] = {getQueryType().getDimSize(Batch),
                     getQueryType().getDimSize(Head)};
  const StringRef axes[] = {"batch", "heads_q"};
  for (auto [axis, name] : llvm::enumerate(axes))
    if (int64_t got = counts.getDimSize(axis);
        got != 1 && differ(got, whole[axis]))
      return emitOpError("expects the ")
             << name << " of block_counts to be 1 or " << whole[axis]
             << ", but got " << got;
  int64_t least[] = {
      countBlocks(getQueryType().getDimSize(Seqlen), getBlockQueries()),
      countBlocks(getKeyType().getDimSize(Seqlen), getBlockKeys())};
  const StringRef lists[] = {"query_blocks", "key_blocks"};
  for (auto [i, name] : llvm::enumerate(lists))
    if (int64_t got = indices.getDimSize(2 + i);
        !ShapedType::isDynamic(got) && got < least[i])
      return emitOpError("expects ") << name << " of block_indices of at least "
                                     << least[i] << ", but got " << got;
  for (auto [name, value] :
       {std::pair<StringRef, Value>("block_indices", getBlockIndices()),
        {"full_block_counts", getFullBlockCounts()},
        {"full_block_indices", getFullBlockIndices()}}) {
    if (!value)
      continue;
    auto type = cast<ShapedType>(value.getType());
    SmallVector<int64_t> expected(counts.getShape());
    if (type.getRank() == 4)
      expected.push_back(indices.getDimSize(3));
    // An axis that is statically 1 is broadcast, so those are all alike.
    for (auto [axis, want] : llvm::enumerate(expected))
      if (int64_t got = type.getDimSize(axis);
          differ(want, got) || (axis < 2 && (want == 1) != (got == 1)))
        return emitOpError("expects ")
               << name << " shape " << shapeString(expected) << ", but got "
               << shapeString(type.getShape());
  }
  return success();
}

LogicalResult AttentionOp::verifyProbabilities() {
  // C31
  if (!getProbabilities())
    return success();
  if (getTile().empty() || getStage() || getLse())
    return emitOpError("expects probabilities of a tile without stage and lse, "
                       "but got ")
           << (getTile().empty() ? "no tile"
               : getStage()      ? "stage"
                                 : "lse");
  auto type = cast<ShapedType>(getProbabilities().getType());
  if (type.getElementType() != getQueryType().getElementType())
    return emitOpError("expects probabilities of query's element type ")
           << getQueryType().getElementType() << ", but got "
           << type.getElementType();
  int64_t columns = type.getDimSize(HeadDim);
  if (ShapedType::isDynamic(columns) || columns <= 0)
    return emitOpError("expects probabilities of a static positive number of "
                       "columns, but got ")
           << extent(columns);
  return success();
}

LogicalResult AttentionOp::verifyResults() {
  // C19
  if (failed(verifyBufferSemantics(*this)))
    return failure();
  // C32
  return checkOutputsApart(*this, std::equal_to<>());
}

LogicalResult AttentionOp::verifyRegions() {
  // C18
  MLIRContext *context = getContext();
  Type index = IndexType::get(context), f32 = Float32Type::get(context);
  Type expectedArgs[] = {f32, index, index, index, index};
  for (auto [name, region, resultType] :
       {std::tuple<StringRef, Region *, Type>("score", &getScoreRegion(), f32),
        {"mask", &getMaskRegion(), IntegerType::get(context, 1)}}) {
    if (region->empty())
      continue;
    if (region->getArgumentTypes() != TypeRange(expectedArgs))
      return emitOpError("expects the ")
             << name
             << " region to take (score: f32, batch, head, query, key: index)";
    auto yield = dyn_cast<YieldOp>(region->front().getTerminator());
    if (!yield || yield.getValue().getType() != resultType)
      return emitOpError("expects the ")
             << name << " region to end with a flashcore.yield of "
             << resultType;
  }
  for (Value tensor : getCapturedTensors())
    if (isa<MemRefType>(tensor.getType()) != hasPureBufferSemantics())
      return emitOpError("expects the tensors that regions read to be ")
             << (hasPureBufferSemantics() ? "memrefs" : "tensors")
             << " like its operands, but got " << tensor.getType();
  return success();
}
