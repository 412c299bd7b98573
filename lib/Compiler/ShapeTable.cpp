//===- ShapeTable.cpp - Words from the table of operands ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What each axis of the table measures in an attention of a few words.
//
//===----------------------------------------------------------------------===//

#include "ShapeTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir::flashcore;
using llvm::StringRef;

using Role = OperandInfo::Role;

/// q, k, v and o, which every shape has.
static bool isAlwaysThere(const OperandInfo &info) {
  return info.clause == "ins" || info.clause == "outs";
}

llvm::SmallVector<const OperandInfo *> mlir::flashcore::getShapeOperands() {
  llvm::SmallVector<const OperandInfo *> rows;
  for (const OperandInfo &info : getOperandTable())
    if (!isAlwaysThere(info))
      rows.push_back(&info);
  return rows;
}

llvm::SmallVector<StringRef> mlir::flashcore::getShapeClauses() {
  llvm::SmallVector<StringRef> clauses;
  for (const OperandInfo *info : getShapeOperands())
    if (!llvm::is_contained(clauses, info->clause))
      clauses.push_back(info->clause);
  return clauses;
}

std::string mlir::flashcore::getBroadcastLetters(const OperandInfo &info) {
  std::string letters;
  for (auto [i, axis] : llvm::enumerate(info.getAxes()))
    if (info.isBroadcast(i))
      letters += axis.starts_with("seqlen_") ? axis.back() : axis.front();
  return letters;
}

std::string mlir::flashcore::sizeText(int64_t size) {
  return size == Shape::Dynamic ? "?" : std::to_string(size);
}

namespace {
/// Blocks that hold `rows`.
int64_t countBlocks(int64_t rows, int64_t ofBlock) {
  return rows == Shape::Dynamic ? rows : (rows - 1) / ofBlock + 1;
}

/// Lists may name more blocks than the rows need. A dense shape has those that
/// it needs; the layout that takes any strides takes any number.
int64_t countListed(const Shape &shape, int64_t rows, int64_t ofBlock) {
  return ofBlock == 0 || shape.layout == Shape::Layout::Strided
             ? Shape::Dynamic
             : countBlocks(rows, ofBlock);
}

/// The sizes that follow from those which other words say.
std::optional<int64_t> findDerived(const Shape &shape, StringRef axis) {
  bool isPaged = shape.has("page_table");
  bool isPacked = shape.has("cu_seqlens_q");
  auto sized = [&](StringRef name) { return shape.getSize(name); };
  auto next = [](int64_t size) {
    return size == Shape::Dynamic ? size : size + 1;
  };
  if (axis == "entries")
    return isPacked ? sized("sequences") : shape.batch;
  if (axis == "cu_seqlens")
    return next(sized("sequences"));
  if (axis == "key_entries")
    return isPaged ? sized("pages") : shape.batch;
  if (axis == "keys")
    return isPaged ? sized("page_size") : shape.seqlenK;
  if (axis == "pages_per_sequence")
    return sized("page_size") == Shape::Dynamic
               ? Shape::Dynamic
               : countBlocks(shape.seqlenK, sized("page_size"));
  if (axis == "query_blocks")
    return countListed(shape, shape.seqlenQ, shape.blockQueries);
  if (axis == "key_blocks")
    return countListed(shape, shape.seqlenK, shape.blockKeys);
  if (axis == "rng_0")
    return 4;
  return std::nullopt;
}
} // namespace

llvm::SmallVector<StringRef> mlir::flashcore::getSizeWords() {
  static const Shape plain;
  // As other words say: append and rotary.
  static constexpr StringRef ofOthers[] = {"seqlen_new", "rotary_pairs"};
  llvm::SmallVector<StringRef> axes;
  // Neither is an axis of the table, but what two of them are with pages.
  axes.push_back("pages");
  for (const OperandInfo *info : getShapeOperands())
    for (StringRef axis : info->getAxes())
      if (axis != "1" && !plain.findBase(axis) && !findDerived(plain, axis) &&
          !llvm::is_contained(ofOthers, axis) &&
          !llvm::is_contained(axes, axis))
        axes.push_back(axis);
  return axes;
}

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

const Shape::Operand *Shape::find(StringRef operand) const {
  auto found = operands.find(operand);
  return found == operands.end() ? nullptr : &found->second;
}

std::optional<int64_t> Shape::findSize(StringRef axis) const {
  auto found = sizes.find(axis);
  return found == sizes.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int64_t> Shape::findBase(StringRef axis) const {
  return llvm::StringSwitch<std::optional<int64_t>>(axis)
      .Case("batch", batch)
      .Case("heads_q", headsQ)
      .Case("heads_kv", headsKV)
      .Case("seqlen_q", seqlenQ)
      .Case("seqlen_k", seqlenK)
      .Case("head_dim", headDim)
      .Case("head_dim_v", headDimV)
      .Default(std::nullopt);
}

int64_t Shape::getSize(StringRef axis) const {
  if (std::optional<int64_t> size = findBase(axis))
    return *size;
  if (std::optional<int64_t> size = findDerived(*this, axis))
    return *size;
  return findSize(axis).value_or(Dynamic);
}

llvm::SmallVector<int64_t> Shape::getSizes(const OperandInfo &info) const {
  const Operand *operand = find(info.name);
  StringRef said = operand ? StringRef(operand->axes) : StringRef();
  llvm::SmallVector<int64_t> result;
  for (auto [i, axis] : llvm::enumerate(info.getAxes())) {
    bool isOne = false;
    if (info.isBroadcast(i) && !said.empty()) {
      isOne = said.front() == '1';
      said = said.drop_front();
    }
    result.push_back(isOne ? 1 : getSize(axis));
  }
  return result;
}

Shape::Operands Shape::getImplied() const {
  Operands implied;
  if (dropout)
    implied["rng"] = {};
  if (has("k_new"))
    implied["seqused_k"] = {};
  if (findSize("page_size"))
    implied["page_table"] = {};
  if (findSize("sequences")) {
    implied["cu_seqlens_q"] = {};
    // Pages have the keys of each sequence, whose number is seqused_k.
    if (!findSize("page_size"))
      implied["cu_seqlens_k"] = {};
  }
  return implied;
}

int64_t Shape::getRotaryDim() const {
  return 2 * findSize("rotary_pairs").value_or(0);
}

std::string Shape::getBlockAxes() const {
  const Operand *first = nullptr;
  for (const OperandInfo *info : getShapeOperands()) {
    if (!info->axes.contains("query_blocks"))
      continue;
    const Operand *operand = find(info->name);
    if (!operand || blockQueries == 0 || (first && !(*first == *operand)))
      return "";
    first = operand;
  }
  return first ? first->axes : "";
}
