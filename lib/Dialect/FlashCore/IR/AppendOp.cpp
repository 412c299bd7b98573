//===- AppendOp.cpp - Constraints of flashcore.append ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OperandChecks.h"
#include "flashcore/Dialect/FlashCore/IR/Overlaps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::flashcore;

SmallVector<OperandAccess> AppendOp::getAccesses() {
  using Kind = OperandAccess::Kind;
  return {{"turned", getTurned(), Kind::Written},
          {"key", getKey(), Kind::Updated},
          {"value", getValue(), Kind::Updated},
          {"k_new", getKNew(), Kind::Read},
          {"v_new", getVNew(), Kind::Read},
          {"seqused_k", getSequsedK(), Kind::Read},
          {"page_table", getPageTable(), Kind::Read},
          {"rotary_cos", getRotaryCos(), Kind::Read},
          {"rotary_sin", getRotarySin(), Kind::Read},
          {"query", getQuery(), Kind::Read}};
}

void AppendOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  for (const OperandAccess &access : getAccesses()) {
    if (!access.value)
      continue;
    OpOperand &operand =
        *llvm::find_if(getOperation()->getOpOperands(), [&](OpOperand &each) {
          return each.get() == access.value;
        });
    if (access.kind != OperandAccess::Kind::Written)
      effects.emplace_back(MemoryEffects::Read::get(), &operand);
    if (access.kind != OperandAccess::Kind::Read)
      effects.emplace_back(MemoryEffects::Write::get(), &operand);
  }
}

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<ShapedType>(value.getType()).getShape();
}

/// The sizes of four axes; unknown ones where there are not four.
static SmallVector<int64_t> getRows(Value value) {
  if (value && shapeOf(value).size() == 4)
    return llvm::to_vector(shapeOf(value));
  return SmallVector<int64_t>(4, ShapedType::kDynamic);
}

/// Which clauses come together.
static LogicalResult verifyClauses(AppendOp op) {
  if (static_cast<bool>(op.getRotaryCos()) != op.getStyle().has_value())
    return op.emitOpError("expects rotary and `style` together, but got one "
                          "without the other");
  bool hasQuery = static_cast<bool>(op.getQuery());
  if (hasQuery != static_cast<bool>(op.getTurned()))
    return op.emitOpError("expects query and turned together, but got ")
           << (hasQuery ? "query" : "turned") << " alone";
  if (hasQuery && !op.getRotaryCos())
    return op.emitOpError("expects rotary with query, but got none: there is "
                          "nothing to turn its rows by");
  return success();
}

/// What A1, A3 and A4 say of sizes beside that they agree.
static LogicalResult verifySizes(AppendOp op) {
  for (auto [name, size] :
       {std::pair("k_new", op.getHeadDim()), {"v_new", op.getHeadDimV()}})
    if (failed(verifyStaticPositive(op, Twine("dim of ") + name, size)))
      return failure();
  int64_t pageSize = op.getKeyType().getDimSize(2);
  if (op.getPageTable() && (ShapedType::isDynamic(pageSize) || pageSize <= 0))
    return op.emitOpError("expects a static page_size of at least 1, but got ")
           << extent(pageSize);
  if (op.getRotaryCos()) {
    int64_t positions = shapeOf(op.getRotaryCos())[0],
            pairs = shapeOf(op.getRotaryCos())[1];
    if (ShapedType::isDynamic(pairs) || pairs <= 0 ||
        2 * pairs > op.getHeadDim())
      return op.emitOpError("expects rotary_cos of 1 to ")
             << op.getHeadDim() / 2 << " pairs, but got " << extent(pairs);
    if (positions == 0)
      return op.emitOpError("expects rotary_cos of a position or more, but "
                            "got none");
  }
  if (!op.getQuery())
    return success();
  int64_t headsQ = shapeOf(op.getQuery())[1], headsKV = shapeOf(op.getKey())[1];
  if (!ShapedType::isDynamic(headsQ) && !ShapedType::isDynamic(headsKV) &&
      (headsKV == 0 ? headsQ != 0 : headsQ % headsKV != 0))
    return op.emitOpError("expects the heads of query to be a multiple of "
                          "those of key, but got ")
           << headsQ << " and " << headsKV;
  return success();
}

LogicalResult AppendOp::verify() {
  using Elements = OperandShape::Elements;
  constexpr int64_t open = ShapedType::kDynamic;
  bool isPaged = static_cast<bool>(getPageTable());
  SmallVector<int64_t> key = getRows(getKey()), value = getRows(getValue()),
                       kNew = getRows(getKNew()), query = getRows(getQuery());
  // Pages are of any entry.
  int64_t batch = isPaged ? kNew[0] : key[0];
  SmallVector<int64_t> turned = {batch, query[1], query[2], key[3]};
  constexpr StringLiteral pages = "(pages, heads_kv, page_size, dim)",
                          keys = "(batch, heads_kv, seqlen_k, dim)",
                          newRows = "(batch, heads_kv, seqlen_new, dim)";
  StringLiteral rows = isPaged ? pages : keys;
  SmallVector<int64_t> angles(2, open);
  if (getRotaryCos() && shapeOf(getRotaryCos()).size() == 2)
    angles = llvm::to_vector(shapeOf(getRotaryCos()));
  OperandShape operands[] = {
      {"key", rows, getKey(), key, Elements::Half},
      {"value",
       rows,
       getValue(),
       {key[0], key[1], key[2], value[3]},
       Elements::Half},
      {"k_new",
       newRows,
       getKNew(),
       {batch, key[1], kNew[2], key[3]},
       Elements::Half},
      {"v_new",
       newRows,
       getVNew(),
       {batch, key[1], kNew[2], value[3]},
       Elements::Half},
      {"seqused_k", "(batch)", getSequsedK(), {batch}, Elements::I32},
      {"page_table",
       "(batch, pages_per_sequence)",
       getPageTable(),
       {batch, open},
       Elements::I32},
      {"rotary_cos", "(positions, pairs)", getRotaryCos(), angles,
       Elements::Half},
      {"rotary_sin", "(positions, pairs)", getRotarySin(), angles,
       Elements::Half},
      {"query", "(batch, heads_q, seqlen_q, dim)", getQuery(), turned,
       Elements::Half},
      {"turned", "(batch, heads_q, seqlen_q, dim)", getTurned(), turned,
       Elements::Half}};
  if (failed(verifyClauses(*this)) || failed(verifyOperands(*this, operands)))
    return failure();
  Type element = getKeyType().getElementType();
  for (const OperandShape &operand : operands)
    if (operand.value && operand.elements == Elements::Half)
      if (Type got = cast<ShapedType>(operand.value.getType()).getElementType();
          got != element)
        return emitOpError("expects ") << operand.name << " of " << element
                                       << " like key, but got " << got;
  if (failed(verifySizes(*this)))
    return failure();
  return checkOutputsApart(*this, std::equal_to<>());
}
