//===- AttentionWorkspace.cpp - What kernels hand on ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Values are row-major, one behind another. But a tile of P V sees its rows of
// P as tiles that lie next to each other, so that their number of columns is
// known whatever that of the keys is.
//
//===----------------------------------------------------------------------===//

#include "AttentionWorkspace.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlir::flashcore;

static OpFoldResult apply(ImplicitLocOpBuilder &b, AffineExpr expr,
                          ArrayRef<OpFoldResult> operands) {
  return affine::makeComposedFoldedAffineApply(b, b.getLoc(), expr, operands);
}

const WorkspacePart *AttentionWorkspace::find(WorkspaceRole role) const {
  ArrayRef<WorkspacePart> parts = signature.getWorkspace();
  const WorkspacePart *part = llvm::find_if(
      parts, [&](const WorkspacePart &part) { return part.role == role; });
  return part == parts.end() ? nullptr : part;
}

AttentionWorkspace::Shape
AttentionWorkspace::getShape(const WorkspacePart &part) const {
  Shape shape;
  for (const SizeFormula &size : part.shape)
    shape.push_back(size.build(frame.getBuilder(),
                               [&](Dim dim) { return frame.getSize(dim); }));
  bool isPartial = part.role == WorkspaceRole::PartialOutputs ||
                   part.role == WorkspaceRole::PartialLses ||
                   part.role == WorkspaceRole::PartialLseRests;
  if (isPartial && areEntriesJoined) {
    shape[1] = frame.multiply(shape[1], shape[0]);
    shape.erase(shape.begin());
  }
  return shape;
}

OpFoldResult AttentionWorkspace::countFloats(const WorkspacePart &part) {
  assert(part.element.isF32() && "P is behind all others");
  OpFoldResult count = frame.getBuilder().getIndexAttr(1);
  for (OpFoldResult size : getShape(part))
    count = frame.multiply(count, size);
  return count;
}

/// In floats, from the end of the turned query, which is in front of all else
/// and which the frame knows as a copy.
OpFoldResult AttentionWorkspace::getBegin(WorkspaceRole role) {
  OpFoldResult begin = frame.getBuilder().getIndexAttr(0);
  for (const WorkspacePart &part : signature.getWorkspace()) {
    if (part.role == role)
      break;
    if (part.role != WorkspaceRole::TurnedQuery)
      begin = frame.add(begin, countFloats(part));
  }
  return begin;
}

/// As f32; null where the program has none.
Value AttentionWorkspace::view(WorkspaceRole role) {
  const WorkspacePart *part = find(role);
  return part ? frame.viewWorkspace(getBegin(role), getShape(*part)) : Value();
}

Value AttentionWorkspace::viewLseRest() {
  Value rows = view(WorkspaceRole::LseRest);
  if (!rows)
    return Value();
  ImplicitLocOpBuilder &b = frame.getBuilder();
  Shape shape = getShape(*find(WorkspaceRole::LseRest));
  shape.back() = frame.getSize(Dim::SeqlenQ);
  Shape begin(shape.size(), b.getIndexAttr(0)),
      strides(shape.size(), b.getIndexAttr(1));
  return memref::SubViewOp::create(b, rows, begin, shape, strides);
}

PartialResults AttentionWorkspace::viewPartials() {
  Value lse = view(WorkspaceRole::PartialLses);
  Value rest = view(WorkspaceRole::PartialLseRests);
  return {view(WorkspaceRole::PartialOutputs), lse, rest};
}

PartialResults AttentionWorkspace::viewPartialResults() {
  areEntriesJoined = false;
  return viewPartials();
}

PartialResults AttentionWorkspace::viewPartialEntries() {
  areEntriesJoined = true;
  return viewPartials();
}

OpFoldResult AttentionWorkspace::getColumns() {
  return getShape(*find(WorkspaceRole::Scores)).back();
}

Value AttentionWorkspace::viewPairs() {
  ImplicitLocOpBuilder &b = frame.getBuilder();
  OpFoldResult begin = getBegin(WorkspaceRole::Probabilities);
  Shape shape = getShape(*find(WorkspaceRole::Probabilities));
  shape.back() = apply(b, b.getAffineDimExpr(0).floorDiv(2), {shape.back()});
  return frame.viewWorkspace(begin, shape);
}

Value AttentionWorkspace::viewTile(Value batch, Value head, OpFoldResult row,
                                   OpFoldResult rows) {
  ImplicitLocOpBuilder &b = frame.getBuilder();
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1),
             d2 = b.getAffineDimExpr(2);
  AffineExpr s0 = b.getAffineSymbolExpr(0), s1 = b.getAffineSymbolExpr(1);
  int64_t tileKeys = signature.getTileKeys();
  Shape shape = getShape(*find(WorkspaceRole::Scores));
  OpFoldResult columns = shape.pop_back_val(), allRows = shape.front();
  for (OpFoldResult size : ArrayRef(shape).drop_front())
    allRows = frame.multiply(allRows, size);
  OpFoldResult place = apply(b, (d0 * s0 + d1) * s1 + d2,
                             {batch, head, row, frame.getSize(Dim::HeadsQ),
                              frame.getSize(Dim::SeqlenQ)});
  // Behind scores, and what is in front of them, whose floats are two elements
  // each.
  OpFoldResult begin = getBegin(WorkspaceRole::Scores);
  OpFoldResult first =
      frame.add(frame.multiply(begin, b.getIndexAttr(2)),
                apply(b, (d0 + s0 * 2) * s1, {place, allRows, columns}));
  OpFoldResult one = b.getIndexAttr(1), keys = b.getIndexAttr(tileKeys);
  OpFoldResult tiles = apply(b, d0.floorDiv(tileKeys), {columns});
  return frame.viewWorkspaceOfType(first, {tiles, one, rows, keys},
                                   {keys, keys, columns, one});
}

static WorkspaceRole getRole(Value value) {
  return value.getDefiningOp<WorkspaceOp>().getRole();
}

/// The turned query has a pointer of its own, as has P where it is read; what
/// writes P writes pairs of its elements.
KernelSignature::WorkspaceUse
mlir::flashcore::getWorkspaceUse(Operation *kernel) {
  auto op = cast<ProgramKernelInterface>(kernel);
  if (llvm::any_of(op.getWrites(), [](Value value) {
        return getRole(value) != WorkspaceRole::TurnedQuery;
      }))
    return KernelSignature::WritesWorkspace;
  bool reads = llvm::any_of(op.getReads(), [](Value value) {
    return cast<MemRefType>(value.getType()).getElementType().isF32();
  });
  return reads ? KernelSignature::ReadsWorkspace : KernelSignature::NoWorkspace;
}
