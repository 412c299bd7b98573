//===- LabelSlice.h - Which instructions carry labels -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The layout check follows only data that may reach an operand of an mma, and
// what an mma gives on its way to global memory. Slices backwards say which
// registers these are; each half of one gets a slot for the labels of its 32
// lanes. Per instruction the plan says what happens to the slots it writes.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_LOWER_LABELSLICE_H
#define FLASHCORE_EMULATOR_LIB_LOWER_LABELSLICE_H

#include "flashcore/Emulator/Program.h"

namespace flashcore::emu {

inline constexpr uint32_t noSlot = UINT32_MAX, constantSlot = noSlot - 1;

enum class LabelAction : uint8_t {
  None,
  /// The destination gets the labels of the sources, merged; with no source it
  /// has none.
  Merge,
  /// The same for a sum, a minimum or a maximum.
  MergeSum,
  /// The first or the second source, by a predicate.
  Select,
};

/// What an instruction does with values that shfl may have brought from other
/// lanes, such as the maximum of a row (CheckReductions.cpp).
enum class ReductionAction : uint8_t {
  None,
  /// The destination is made of such values, or of none.
  Carry,
  /// The destination is something else from now on.
  Clear,
  /// Scales or shifts a product with one; the destination is something else.
  Use,
};

/// One half register: its slot and those it is computed from, constants left
/// out.
struct LabelStep {
  uint32_t to = noSlot;
  uint32_t from[3] = {noSlot, noSlot, noSlot};
};

struct LabelOp {
  LabelAction action = LabelAction::None;
  ReductionAction reduction = ReductionAction::None;
  /// Multiplies something with what is reduced over lanes or made of products.
  bool isScale = false;
  uint8_t numSteps = 0;
  uint32_t firstStep = 0;
};

struct LabelPlan {
  /// One an instruction.
  std::vector<LabelOp> ops;
  std::vector<LabelStep> steps;
  /// The slot of each granule, or noSlot.
  std::vector<uint32_t> slots;
  uint32_t numSlots = 0;
  /// Labels travel through shared memory.
  bool throughShared = false;
  /// The place in LabelFrame::reductions of each granule, noSlot for none, or
  /// constantSlot.
  std::vector<uint32_t> reductions;
  uint32_t numReductions = 0;

  bool isEmpty() const { return numSlots == 0; }
};

LabelPlan planLabels(const Program &program);

/// The granules that an mma or a wgmma writes its sums to.
std::vector<bool> findProducts(const Program &program);
/// The granules that hold what shfl brought from other lanes, summed up,
/// maximised, scaled and moved, but not put together with any of the
/// `products` of an mma (ReductionSlice.cpp).
std::vector<bool> findReduced(const Program &program,
                              const std::vector<bool> &products);
/// How many sources of an instruction that hands on what is reduced may be so;
/// none of another.
unsigned numReducedSources(const Inst &inst);
/// Adds what is reduced over lanes to a plan of labels.
void planReductions(const Program &program, const std::vector<bool> &products,
                    LabelPlan &plan);

/// Element-wise arithmetic of f32.
bool isFloat32(AluOp op);
/// Addition of f32.
bool isAddition(AluOp op);
/// Whether the result stands for all its operands together: a sum or a maximum.
bool isReduction(AluOp op);

/// Whether the layout check looks at an instruction: an mma of floats of 16
/// bits or of tf32.
bool isFollowed(const Inst &inst);

/// The granules of an mma that is followed, or of what a wgmma is to one warp
/// and 8 columns: an mma of m16n8k16.
struct MmaGranules {
  /// A and B are null in shared memory, C where the sums start from zero.
  const uint32_t *a = nullptr, *b = nullptr, *c = nullptr, *d = nullptr;
  /// Registers of each operand.
  unsigned numA = 0, numB = 0;
  /// Products that an element of D sums up.
  unsigned depth = 16;
  /// Of D, in that of the instruction.
  unsigned firstRow = 0, firstColumn = 0;
  /// Elements of A or B that a register has: one of tf32, else two.
  unsigned perRegister = 2;
  /// Accumulators are pairs of f16.
  bool isHalf = false;

  MmaGranules(const Program &program, const Inst &inst);
  /// Of a wgmma: columns 8 * tile on, of the warp that has `quarter` of the
  /// rows.
  MmaGranules(const Program &program, const Inst &inst, unsigned tile,
              unsigned quarter, bool accumulates);
  /// Accumulator 0 to 3 of a lane in C or D.
  uint32_t accumulator(const uint32_t *operand, unsigned i) const {
    return isHalf ? operand[i / 2] + i % 2 : operand[i];
  }
};

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_LOWER_LABELSLICE_H
