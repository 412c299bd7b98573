//===- SizeFormula.cpp - Numbers that follow from sizes -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tree. What is affine of sizes becomes one map; the least and the largest of
// several are operands of the map around them.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FlashCore/Transforms/SizeFormula.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::flashcore;

StringRef mlir::flashcore::stringifyDim(Dim dim) {
  static constexpr StringLiteral names[kNumDims + 1] = {
      "batch",        "heads_q",         "heads_kv",
      "seqlen_q",     "seqlen_k",        "head_dim",
      "head_dim_v",   "cu_seqlens",      "sequences",
      "pages",        "page_size",       "pages_per_sequence",
      "query_blocks", "key_blocks",      "key_splits",
      "seqlen_new",   "positions",       "rotary_pairs",
      "parts",        "multiprocessors", "1"};
  return names[static_cast<unsigned>(dim)];
}

struct SizeFormula::Node {
  Kind kind;
  int64_t number = 0;
  Dim size = Dim::One;
  SmallVector<SizeFormula, 2> operands = {};
};

SizeFormula::SizeFormula(int64_t number)
    : node(std::make_shared<Node>(Node{Kind::Number, number})) {}

SizeFormula::SizeFormula(Dim size)
    : node(std::make_shared<Node>(Node{Kind::Size, 0, size})) {}

SizeFormula::SizeFormula(Kind kind, ArrayRef<SizeFormula> operands)
    : node(std::make_shared<Node>(
          Node{kind, 0, Dim::One, SmallVector<SizeFormula, 2>(operands)})) {}

std::optional<int64_t> SizeFormula::getNumber() const {
  if (node->kind == Kind::Number)
    return node->number;
  return std::nullopt;
}

SizeFormula SizeFormula::operator+(const SizeFormula &other) const {
  if (getNumber() && other.getNumber())
    return *getNumber() + *other.getNumber();
  if (getNumber() == 0)
    return other;
  return other.getNumber() == 0 ? *this
                                : SizeFormula(Kind::Add, {*this, other});
}

SizeFormula SizeFormula::operator*(const SizeFormula &other) const {
  if (getNumber() && other.getNumber())
    return *getNumber() * *other.getNumber();
  if (getNumber() == 1)
    return other;
  // A number stands behind the sizes, and is one.
  if (getNumber())
    return other * *this;
  if (node->kind == Kind::Mul && node->operands[1].getNumber())
    return other.getNumber() ? node->operands[0] * (node->operands[1] * other)
                             : node->operands[0] * other * node->operands[1];
  return other.getNumber() == 1 ? *this
                                : SizeFormula(Kind::Mul, {*this, other});
}

SizeFormula SizeFormula::floorDiv(const SizeFormula &other) const {
  return other.getNumber() == 1 ? *this
                                : SizeFormula(Kind::FloorDiv, {*this, other});
}

SizeFormula SizeFormula::ceilDiv(const SizeFormula &other) const {
  return other.getNumber() == 1 ? *this
                                : SizeFormula(Kind::CeilDiv, {*this, other});
}

SizeFormula SizeFormula::min(ArrayRef<SizeFormula> operands) {
  return SizeFormula(Kind::Min, operands);
}

SizeFormula SizeFormula::max(ArrayRef<SizeFormula> operands) {
  return SizeFormula(Kind::Max, operands);
}

std::optional<int64_t> SizeFormula::evaluate(
    function_ref<std::optional<int64_t>(Dim)> getExtent) const {
  if (node->kind == Kind::Number)
    return node->number;
  if (node->kind == Kind::Size)
    return getExtent(node->size);
  SmallVector<int64_t> operands;
  for (const SizeFormula &operand : node->operands) {
    std::optional<int64_t> number = operand.evaluate(getExtent);
    if (!number)
      return std::nullopt;
    operands.push_back(*number);
  }
  switch (node->kind) {
  case Kind::Add:
    return operands[0] + operands[1];
  case Kind::Mul:
    return operands[0] * operands[1];
  case Kind::FloorDiv:
    return llvm::divideFloorSigned(operands[0], operands[1]);
  case Kind::CeilDiv:
    return llvm::divideCeilSigned(operands[0], operands[1]);
  case Kind::Min:
    return *llvm::min_element(operands);
  default:
    return *llvm::max_element(operands);
  }
}

/// Sizes are dimensions of the map, but for factors and divisors, which must be
/// symbols.
struct SizeFormula::Materializer {
  ImplicitLocOpBuilder &b;
  function_ref<OpFoldResult(Dim)> getSize;
  SmallVector<OpFoldResult> dims = {}, symbols = {};

  AffineExpr add(OpFoldResult value, bool isSymbol) {
    if (isSymbol) {
      symbols.push_back(value);
      return b.getAffineSymbolExpr(symbols.size() - 1);
    }
    dims.push_back(value);
    return b.getAffineDimExpr(dims.size() - 1);
  }

  AffineExpr get(const SizeFormula &formula, bool isSymbol) {
    const Node &node = *formula.node;
    switch (node.kind) {
    case Kind::Number:
      return b.getAffineConstantExpr(node.number);
    case Kind::Size:
      return add(getSize(node.size), isSymbol);
    case Kind::Min:
    case Kind::Max:
      return add(formula.build(b, getSize), isSymbol);
    default:
      break;
    }
    AffineExpr left = get(node.operands[0], isSymbol);
    AffineExpr right =
        get(node.operands[1], isSymbol || node.kind != Kind::Add);
    switch (node.kind) {
    case Kind::Add:
      return left + right;
    case Kind::Mul:
      return left * right;
    case Kind::FloorDiv:
      return left.floorDiv(right);
    default:
      return left.ceilDiv(right);
    }
  }
};

OpFoldResult SizeFormula::build(ImplicitLocOpBuilder &b,
                                function_ref<OpFoldResult(Dim)> getSize) const {
  Materializer materializer{b, getSize};
  bool isExtreme = node->kind == Kind::Min || node->kind == Kind::Max;
  SmallVector<AffineExpr> results;
  if (isExtreme)
    for (const SizeFormula &operand : node->operands)
      results.push_back(materializer.get(operand, /*isSymbol=*/false));
  else
    results.push_back(materializer.get(*this, /*isSymbol=*/false));
  AffineMap map =
      AffineMap::get(materializer.dims.size(), materializer.symbols.size(),
                     results, b.getContext());
  SmallVector<OpFoldResult> operands = materializer.dims;
  llvm::append_range(operands, materializer.symbols);
  if (!isExtreme)
    return affine::makeComposedFoldedAffineApply(b, b.getLoc(), map, operands);
  return node->kind == Kind::Min
             ? affine::makeComposedFoldedAffineMin(b, b.getLoc(), map, operands)
             : affine::makeComposedFoldedAffineMax(b, b.getLoc(), map,
                                                   operands);
}

std::string SizeFormula::print(function_ref<StringRef(Dim)> getName) const {
  // An operand that is no name or number stands in parentheses, but for chains
  // of one operation from the left.
  auto printOperand = [&](size_t i) {
    const SizeFormula &operand = node->operands[i];
    Kind kind = operand.node->kind;
    bool isAtom = kind == Kind::Number || kind == Kind::Size ||
                  kind == Kind::Min || kind == Kind::Max;
    bool isChain = i == 0 && kind == node->kind &&
                   (kind == Kind::Add || kind == Kind::Mul);
    bool isTerm = node->kind == Kind::Add && kind == Kind::Mul;
    std::string text = operand.print(getName);
    return isAtom || isChain || isTerm ? text : "(" + text + ")";
  };
  auto printBinary = [&](StringRef sign) {
    return printOperand(0) + (" " + sign + " ").str() + printOperand(1);
  };
  switch (node->kind) {
  case Kind::Number:
    return std::to_string(node->number);
  case Kind::Size:
    return getName(node->size).str();
  case Kind::Add:
    if (auto number = node->operands[1].getNumber(); number && *number < 0)
      return printOperand(0) + " - " + std::to_string(-*number);
    return printBinary("+");
  case Kind::Mul:
    return printBinary("*");
  case Kind::FloorDiv:
    return printBinary("floordiv");
  case Kind::CeilDiv:
    return printBinary("ceildiv");
  case Kind::Min:
  case Kind::Max:
    break;
  }
  std::string text = node->kind == Kind::Min ? "min(" : "max(";
  for (auto [i, operand] : llvm::enumerate(node->operands))
    text += (i ? ", " : "") + operand.print(getName);
  return text + ")";
}
