//===- SizeFormula.h - Numbers that follow from sizes -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The sizes of a kernel's tensors, and what follows from them: grids, bytes of
// a workspace, which kernels run. A formula is said once. Host code computes it
// by affine maps, and a manifest has its text (docs/Bundle.md).
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_SIZEFORMULA_H
#define FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_SIZEFORMULA_H

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/OpDefinition.h"

#include <memory>

namespace mlir::flashcore {

/// The extents of tensors; CuSeqlens is one more than there are Sequences, One
/// is that of a broadcast axis. Keys in pages have the three behind Sequences
/// in the place of SeqlenK. QueryBlocks and KeyBlocks are those of lists of
/// blocks. Parts is the number of results that a flashcore.merge is given.
/// KeySplits and Multiprocessors are no tensor's: hosts compute the one for
/// each call, and the device has the other. Those behind One are the axes of
/// tensors that no other tensor shares, as of those that a region captures.
enum class Dim : unsigned {
  Batch,
  HeadsQ,
  HeadsKV,
  SeqlenQ,
  SeqlenK,
  HeadDim,
  HeadDimV,
  CuSeqlens,
  Sequences,
  Pages,
  PageSize,
  PagesPerSequence,
  QueryBlocks,
  KeyBlocks,
  KeySplits,
  SeqlenNew,
  Positions,
  RotaryPairs,
  Parts,
  Multiprocessors,
  One
};
/// One is no dimension of the problem.
inline constexpr unsigned kNumDims = 20;
StringRef stringifyDim(Dim dim);

class SizeFormula {
public:
  enum class Kind { Number, Size, Add, Mul, FloorDiv, CeilDiv, Min, Max };

  SizeFormula(int64_t number);
  SizeFormula(Dim size);

  SizeFormula operator+(const SizeFormula &other) const;
  SizeFormula operator*(const SizeFormula &other) const;
  /// By a positive number.
  SizeFormula floorDiv(const SizeFormula &other) const;
  SizeFormula ceilDiv(const SizeFormula &other) const;
  /// The least and the largest of some.
  static SizeFormula min(ArrayRef<SizeFormula> operands);
  static SizeFormula max(ArrayRef<SizeFormula> operands);

  /// The number, if no size changes it.
  std::optional<int64_t> getNumber() const;
  /// The number, if sizes are known that make it one.
  std::optional<int64_t>
  evaluate(function_ref<std::optional<int64_t>(Dim)> getExtent) const;

  /// Makes what computes it, of sizes that `getSize` knows.
  OpFoldResult build(ImplicitLocOpBuilder &b,
                     function_ref<OpFoldResult(Dim)> getSize) const;
  /// Its text in a manifest, where `getName` names sizes.
  std::string print(function_ref<StringRef(Dim)> getName) const;

private:
  struct Node;
  struct Materializer;

  SizeFormula(Kind kind, ArrayRef<SizeFormula> operands);

  std::shared_ptr<const Node> node;
};

} // namespace mlir::flashcore

#endif // FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_SIZEFORMULA_H
