//===- AxisOrder.cpp - Heads that look like tokens ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// (batch, seqlen, heads, head_dim) is a common order in memory. Written as the
// shape of an operand it makes heads of tokens: a correct op with another
// meaning, which only its sizes give away.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"

using namespace mlir;
using namespace mlir::flashcore;

/// Whether no model has as many heads: the most are 232, and of 48 or more
/// nearly all are multiples of 8, which 50, 77, 197 or 257 tokens are not.
static bool isNoHeadCount(int64_t heads) {
  return heads >= 256 || (heads >= 48 && heads % 8 != 0);
}

/// Hardly a sequence is that much shorter than its heads are many. A batch that
/// was folded into the heads of very short sequences can look the same; it may
/// as well be folded into the batch.
static constexpr int64_t kRatio = 4;

static bool hasSwappedAxes(ShapedType type) {
  int64_t heads = type.getDimSize(AttentionOp::Head);
  int64_t seqlen = type.getDimSize(AttentionOp::Seqlen);
  if (ShapedType::isDynamic(heads) || ShapedType::isDynamic(seqlen) ||
      !isNoHeadCount(heads) || heads <= kRatio * seqlen)
    return false;
  // With strides of another order somebody has thought about it.
  auto memref = dyn_cast<MemRefType>(type);
  SmallVector<int64_t> strides;
  int64_t offset;
  if (!memref || failed(memref.getStridesAndOffset(strides, offset)))
    return true;
  int64_t ofHead = strides[AttentionOp::Head];
  int64_t ofRow = strides[AttentionOp::Seqlen];
  return ShapedType::isDynamic(ofHead) || ShapedType::isDynamic(ofRow) ||
         ofHead >= ofRow;
}

/// The type for the memory that `type` describes if its axes are (batch,
/// seqlen, heads, head_dim).
static MemRefType swapAxes(ShapedType type) {
  ArrayRef<int64_t> shape = type.getShape();
  int64_t seqlen = shape[AttentionOp::Head], heads = shape[AttentionOp::Seqlen];
  int64_t headDim = shape[AttentionOp::HeadDim];
  return MemRefType::get({shape[AttentionOp::Batch], heads, seqlen, headDim},
                         type.getElementType(),
                         StridedLayoutAttr::get(type.getContext(), 0,
                                                {seqlen * heads * headDim,
                                                 headDim, heads * headDim, 1}));
}

static void describe(Diagnostic &diagnostic, StringRef name, ShapedType type) {
  diagnostic << name << " of type " << type << " has "
             << type.getDimSize(AttentionOp::Head) << " heads of "
             << type.getDimSize(AttentionOp::Seqlen)
             << " rows: its axes are (batch, heads, seqlen, head_dim); where "
                "the memory is (batch, seqlen, heads, head_dim), write "
             << swapAxes(type);
}

void mlir::flashcore::noteSwappedAxes(InFlightDiagnostic &error, StringRef name,
                                      ShapedType type) {
  if (hasSwappedAxes(type))
    describe(error.attachNote(), name, type);
}

void mlir::flashcore::warnOfSwappedAxes(AttentionOp op) {
  // One query is a step of a decoder, whatever its heads are.
  if (op.getQueryType().getDimSize(AttentionOp::Seqlen) == 1)
    return;
  if (!hasSwappedAxes(op.getQueryType()) || !hasSwappedAxes(op.getKeyType()))
    return;
  InFlightDiagnostic warning = op.emitWarning();
  describe(*warning.getUnderlyingDiagnostic(), "query", op.getQueryType());
}
