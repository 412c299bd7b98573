//===- Atoms.h - What is multiplied and copied at a time --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place for instructions that chips differ in. Source: PTX ISA,
// sections "Warp-level Matrix Instructions", figures of the fragments of
// mma.m16n8k8 and mma.m16n8k16, "Asynchronous Warpgroup Level Matrix
// Instructions", those of wgmma.m64nNk16, and "Data Movement and Conversion
// Instructions".
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_TARGET_ATOMS_H
#define FLASHCORE_TARGET_ATOMS_H

#include "flashcore/Target/TargetInfo.h"
#include "flashcore/Target/TileLayout.h"

#include <limits>

namespace mlir::flashcore {

/// Types of elements that are multiplied and added.
enum class ElementKind { F16, BF16, F32 };
/// Bytes of an element.
int64_t getBytes(ElementKind kind);

/// Where an operand of a product may be.
enum class OperandPlace {
  Registers,
  SharedMemory, ///< as a matrix descriptor names it
  Either,
  /// Registers that a load of the product's own fills from shared memory:
  /// which lane has what of it, nobody knows.
  Fragments,
  /// Shared memory, of which every lane loads all.
  Lanes
};

/// Where an instruction is to be had.
struct Instruction {
  llvm::StringLiteral name;
  /// The oldest chip that has it, as TargetInfo::capability; an instruction of
  /// a chip's own features is that of no newer one.
  unsigned capability;
  bool isChipSpecific;
  /// The oldest PTX ISA that has it, times ten.
  unsigned ptxVersion;

  bool isOf(const TargetInfo &target) const;
};

/// One product instruction: acc(m, n) += lhs(m, k) rhs(n, k).
struct MmaAtom : Instruction {
  /// Both operands have one of these types.
  llvm::SmallVector<ElementKind, 2> inputs;
  ElementKind result;
  /// How many warps execute it together.
  int64_t warps;
  /// One with more columns than n is one instruction, too, up to maxN.
  int64_t m, n, k, maxN;
  OperandPlace lhsPlace, rhsPlace;
  /// Those of registers; rhs without one is never there. Those of fragments say
  /// how tiles are that go to them and come from them through shared memory.
  TileLayout lhs;
  std::optional<TileLayout> rhs;
  TileLayout acc;

  /// Whether the result is there only after a wait: it reads memory on its own.
  bool isAsynchronous() const { return rhsPlace == OperandPlace::SharedMemory; }
};

/// All that we know.
llvm::ArrayRef<MmaAtom> getMmaAtoms();

/// Those of a chip with right operands at this place, for operands and results
/// of these types, the largest k first, each a multiple of the next; none if it
/// has none. They differ in k only, and their tiles have the same cores.
llvm::SmallVector<const MmaAtom *> findMmaAtoms(const TargetInfo &target,
                                                OperandPlace rhsPlace,
                                                ElementKind input,
                                                ElementKind result);

/// Whether a product of registers may have a constant operand. ptxas 13.0 takes
/// a constant of mma.sync m16n8k8 for its negative in one half where it has
/// both (HMMA.1688 with -R of 0x3c00bc00), so those of chips without m16n8k16
/// may not.
bool takesConstants(const TargetInfo &target, ElementKind input);

/// Between which memories a copy is.
enum class CopyRoute {
  GlobalToShared,
  SharedToRegisters,
  RegistersToShared,
  RegistersToGlobal,
  SharedToGlobal
};

/// How one learns that a copy has arrived.
enum class CopyCompletion {
  Immediate, ///< it is there for the next instruction
  Groups,    ///< each thread waits for what it has started itself, in order
  Barrier    ///< an mbarrier counts bytes
};

/// One copy instruction.
struct CopyAtom : Instruction {
  CopyRoute route;
  CopyCompletion completion;
  /// What it takes of a row at a time.
  int64_t bytes;
};

/// All that we use, of one kind the widest first.
llvm::ArrayRef<CopyAtom> getCopyAtoms();

/// The widest of a chip of at most `maxBytes`, or null if it has none.
const CopyAtom *
findCopyAtom(const TargetInfo &target, CopyRoute route,
             CopyCompletion completion,
             int64_t maxBytes = std::numeric_limits<int64_t>::max());

/// Whether copies to shared memory run beside what follows them.
bool hasAsyncCopies(const TargetInfo &target);

/// The matrix of 8 x 8 16-bit elements that ldmatrix loads: its register of
/// each lane. `ldmatrix.trans` loads its transpose.
const TileLayout &getLdMatrixLayout();

/// Of the S, P and O of products whose fragments nobody knows: a lane has four
/// columns next to each other, two lanes a row of 8.
const TileLayout &getWideLayout();

/// Of 16-bit elements on their way to memory: a lane has as many next to each
/// other as one access takes.
const TileLayout &getStoreLayout();

} // namespace mlir::flashcore

#endif // FLASHCORE_TARGET_ATOMS_H
