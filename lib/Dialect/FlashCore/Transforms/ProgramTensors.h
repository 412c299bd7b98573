//===- ProgramTensors.h - Tensors of the ops of a program -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One name space for all ops of a program: where the memref of one comes from,
// and which axes of different tensors have the same size.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_PROGRAMTENSORS_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_PROGRAMTENSORS_H

#include "flashcore/Dialect/FlashCore/Transforms/KernelOpInterface.h"
#include "llvm/ADT/IntEqClasses.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::flashcore {

/// An op, and what is launched in its place.
struct OpPrograms {
  KernelOpInterface op;
  std::vector<KernelProgram> programs;

  /// What all of its programs are about.
  const KernelSignature &getSizes() const { return *programs.front().sizes; }
};

/// A tensor of a program.
struct ProgramTensor {
  /// An argument is the caller's, an intermediate lives while the program runs,
  /// and a view is of one of those, or of a view.
  enum Kind { Argument, Intermediate, View };

  Kind kind = Argument;
  MemRefType type;
  std::string name;
  /// The sizes of its axes, for ProgramTensors::getSizeName.
  SmallVector<unsigned> sizes;
  /// View: of which tensor, where it begins on each axis of that, and the axes
  /// that it has.
  unsigned base = 0;
  SmallVector<int64_t> begin;
  SmallVector<unsigned> axes;

  int64_t alignment = 1; ///< bytes, of its first element
  bool isRead = false, isWritten = false;
  bool isReadFirst = false; ///< by an op in front of those that write it
  bool isNamed = false;     ///< by an op that has it as it is
};

/// Those of all ops of a program, in the order in which ops name them.
class ProgramTensors {
public:
  /// Of several ops, which must be those that findProgram finds. A single op
  /// has each of its tensors for itself, whatever they are views of, under the
  /// names that it gives them.
  explicit ProgramTensors(ArrayRef<OpPrograms> ops);

  ArrayRef<ProgramTensor> getTensors() const { return tensors; }
  /// The tensor that an op has as its number `index`.
  const ProgramTensor &getTensor(unsigned op, unsigned index) const {
    return tensors[operands[op][index]];
  }
  /// The name of a size of an op; empty where none of its tensors has it.
  StringRef findSizeName(unsigned op, Dim dim) const;
  /// The name of a size, that of broadcast axes where it is always 1.
  StringRef getSizeName(unsigned size) const;
  /// The number, if all calls have the same.
  std::optional<int64_t> getExtent(unsigned size) const;
  /// A name like `wish` that no size and no other value has.
  std::string takeValueName(StringRef wish);

private:
  unsigned addSize(std::optional<int64_t> extent);
  void joinSizes(unsigned x, unsigned y);
  unsigned addTensor(ProgramTensor::Kind kind, MemRefType type);
  unsigned resolve(Value value);
  unsigned addView(MemRefType type, unsigned base, ArrayRef<int64_t> begin,
                   const llvm::SmallBitVector &dropped);
  unsigned addAllocation(Value memref, OperandRange dynamicSizes);
  void addOperands(unsigned number, const OpPrograms &op, bool isAlone);
  void use(unsigned tensor, const KernelTensor &operand, bool isDirect);
  void nameTensors();
  void nameSizes(ArrayRef<OpPrograms> ops);

  std::vector<ProgramTensor> tensors;
  std::vector<SmallVector<unsigned>> operands; ///< of each op
  DenseMap<Value, unsigned> known;
  llvm::IntEqClasses classes;                  ///< of sizes that are the same
  SmallVector<std::optional<int64_t>> extents; ///< right of leaders
  SmallVector<std::string> sizeNames;          ///< the same
  /// By op and Dim.
  DenseMap<std::pair<unsigned, unsigned>, unsigned> sizesOfOps;
  llvm::StringSet<> takenSizes;
};

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_PROGRAMTENSORS_H
