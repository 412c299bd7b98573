//===- AttentionVerifier.cpp - Constraints of flashcore.attention ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The labels C1..C20 are the constraints of the op's description in
// FlashCoreOps.td.
//
//===----------------------------------------------------------------------===//

#include "OperandChecks.h"
#include "flashcore/Dialect/FlashCore/IR/Limits.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "flashcore/Dialect/FlashCore/IR/Overlaps.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <functional>

using namespace mlir;
using namespace mlir::flashcore;

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
    // C10
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
      failed(verifyBlocks()))
    return failure();
  return verifyResults();
}

LogicalResult AttentionOp::verifyShapes() {
  ShapedType q = getQueryType(), k = getKeyType(), v = getValueType();
  ShapedType o = getOutputType();
  // C2
  for (auto [name, type] : {std::pair("key", k), {"value", v}, {"output", o}})
    if (type.getElementType() != q.getElementType())
      return emitOpError("expects ")
             << name << " of query's element type " << q.getElementType()
             << ", but got " << type.getElementType();
  // C3
  for (auto [name, dim] : {std::pair("head_dim", q.getDimSize(HeadDim)),
                           {"head_dim_v", v.getDimSize(HeadDim)}})
    if (failed(verifyStaticPositive(*this, name, dim)))
      return failure();
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
  // C4
  if (!getPageTable() && differ(q.getDimSize(Batch), k.getDimSize(Batch)))
    return emitOpError("expects query and key to agree in batch, but got ")
           << q.getDimSize(Batch) << " and " << k.getDimSize(Batch);
  // C4
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
  // C5. The columns of the output are static.
  ArrayRef<int64_t> rows = q.getShape().drop_back();
  SmallVector<int64_t> expected(rows);
  expected.push_back(v.getDimSize(HeadDim));
  if (o.isDynamicDim(HeadDim))
    return emitOpError("expects output shape ")
           << shapeString(expected) << ", but got "
           << shapeString(o.getShape());
  if (failed(verifyShape(*this, "output", getOutput(), expected)))
    return failure();
  // C5
  return verifyShape(*this, "lse", getLse(), rows);
}

LogicalResult AttentionOp::verifyModifiers() {
  // C6
  for (auto [name, value] : {std::pair("softmax_scale", getSoftmaxScale()),
                             {"softcap", getSoftcap()}})
    if (value &&
        !(value->isFinite() && !value->isNegative() && !value->isZero()))
      return emitOpError("expects a finite positive ")
             << name << ", but got " << value->convertToFloat();
  // C6
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
  // C6
  for (auto [name, value] : {std::pair("window_left", getWindowLeft()),
                             {"window_right", getWindowRight()}})
    if (value && static_cast<int64_t>(*value) < 0)
      return emitOpError("expects ") << name << " not to be negative, but got "
                                     << static_cast<int64_t>(*value);
  ShapedType q = getQueryType(), k = getKeyType();
  // C7
  if (Value bias = getBias()) {
    ArrayRef<int64_t> shape = cast<ShapedType>(bias.getType()).getShape();
    int64_t whole[] = {q.getDimSize(Batch), q.getDimSize(Head),
                       q.getDimSize(Seqlen), k.getDimSize(Seqlen)};
    for (auto [want, got] : llvm::zip_equal(whole, shape))
      if (got != 1 && differ(want, got))
        return emitOpError("expects each axis of bias to be 1 or that of ")
               << shapeString(whole) << ", but got " << shapeString(shape);
  }
  // C7
  for (auto [info, value] : listOperands(*this)) {
    if (info.axes != "heads_q")
      continue;
    int64_t size = cast<ShapedType>(value.getType()).getDimSize(0);
    if (differ(size, q.getDimSize(Head)))
      return emitOpError("expects ")
             << info.name << " of heads_q = " << q.getDimSize(Head)
             << " elements, but got " << size;
  }
  return success();
}

LogicalResult AttentionOp::verifyVarlen() {
  ShapedType q = getQueryType();
  Value cuQ = getCuSeqlensQ(), cuK = getCuSeqlensK();
  // C8
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
  // C9
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
  if (ShapedType::isDynamic(pageSize) || pageSize <= 0)
    return emitOpError("expects pages of a static number of keys, at least 1, "
                       "but got ")
           << extent(pageSize);
  if (cast<ShapedType>(getPageTable().getType()).getDimSize(1) == 0)
    return emitOpError("expects a page_table with a page of each entry or "
                       "more, but got none");
  return success();
}

LogicalResult AttentionOp::verifyScores() {
  std::optional<ScoresStage> stage = getStage();
  // C13
  if (getScores() && !stage)
    return emitOpError("expects stage(scaled, capped, changed, masked or "
                       "probabilities) with scores, but got none");
  if (stage && !getScores())
    return emitOpError("expects scores with stage, but got stage(")
           << stringifyScoresStage(*stage) << ") alone";
  if (stage == ScoresStage::Probabilities && !getLse())
    return emitOpError("expects lse with stage(probabilities), which are "
                       "exp(score - lse), but got none; add lse(%lse : type)");
  if (!getScores())
    return success();
  // C5
  ShapedType q = getQueryType();
  int64_t keys =
      getPageTable() ? ShapedType::kDynamic : getKeyType().getDimSize(Seqlen);
  int64_t expected[] = {q.getDimSize(Batch), q.getDimSize(Head),
                        q.getDimSize(Seqlen), keys};
  return verifyShape(*this, "scores", getScores(), expected);
}

LogicalResult AttentionOp::verifyStrides() {
  // C10
  for (auto [rule, operand] : listOperands(*this)) {
    auto type = dyn_cast<MemRefType>(operand.getType());
    if (!type)
      continue;
    bool hasRows = rule.access == OperandInfo::Access::Rows;
    if (failed(verifyLayout(*this, rule.name, type, hasRows)))
      return failure();
  }
  return success();
}

LogicalResult AttentionOp::verifyDropout() {
  // C14
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
  // C15
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
  // C15
  if (!hasPureBufferSemantics())
    return emitOpError("expects memrefs with append, which writes to key and "
                       "value, but got tensors");
  return success();
}

LogicalResult AttentionOp::verifyRotary() {
  // C16
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
  // C16
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

LogicalResult AttentionOp::verifyBlocks() {
  // C17
  if (failed(verifyBlockClauses(*this, getBlockCounts(), getBlockIndices(),
                                getBlockSize())))
    return failure();
  if (!getBlockSize())
    return success();
  // C18
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

LogicalResult AttentionOp::verifyResults() {
  // C12
  if (failed(verifyBufferSemantics(*this)))
    return failure();
  // C20
  return checkOutputsApart(*this, std::equal_to<>());
}

LogicalResult AttentionOp::verifyRegions() {
  // C11
  if (failed(verifyScoreRegions(*this)))
    return failure();
  for (Value tensor : getCapturedTensors())
    if (isa<MemRefType>(tensor.getType()) != hasPureBufferSemantics())
      return emitOpError("expects the tensors that regions read to be ")
             << (hasPureBufferSemantics() ? "memrefs" : "tensors")
             << " like its operands, but got " << tensor.getType();
  // P1 and P2 of the program
  if (getPrograms().size() > 1)
    return emitOpError("expects one program, but got ") << getPrograms().size();
  return findProgram() ? verifyProgram(*this, *findProgram()) : success();
}
