//===- Preconditions.cpp - What a pass expects of a kernel ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel says how far it has come by what is left in it.
//
//===----------------------------------------------------------------------===//

#include "Preconditions.h"
#include "WarpRoles.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
/// What is known of the whole kernel when its ops are looked at.
struct KernelState {
  bool hasProducer;
  bool hasAcquires = false;
  bool hasGroups = false; ///< of copies
};

/// A kernel that has come to a stage, from the first to the last of these, has
/// no op for which the check says something.
struct Expectation {
  Reached first, last;
  StringRef (*check)(Operation *op, const KernelState &state);
};
} // namespace

template <typename OpTy> static bool hasUser(Value ring) {
  return llvm::any_of(ring.getUsers(),
                      [](Operation *user) { return isa<OpTy>(user); });
}

static StringRef checkTile(Operation *op, const KernelState & /*state*/) {
  return awaitsTiles(op) ? "expects to be written on tiles of warps; run "
                           "flashcore-online-softmax first"
                         : "";
}

static StringRef checkStaged(Operation *op, const KernelState & /*state*/) {
  auto read = dyn_cast<vector::TransferReadOp>(op);
  return op->hasAttr(kStagingAttrName) || (read && isTileRead(read))
             ? "expects a ring in the place of its tile; run "
               "flashcore-promote-shared first"
             : "";
}

static StringRef checkSlots(Operation *op, const KernelState &state) {
  return isa<CopyOp>(op) && !state.hasAcquires
             ? "expects its slot to be acquired; run flashcore-hand-over-slots "
               "first"
             : "";
}

static StringRef checkBarriers(Operation *op, const KernelState &state) {
  if (isa<AcquireOp, ReleaseOp>(op) && !state.hasProducer)
    return "expects waits and barriers in its place; run "
           "flashcore-insert-barriers first";
  auto copy = dyn_cast<CopyOp>(op);
  if (!copy || hasUser<AcquireOp>(copy.getRing()) ||
      !hasUser<ReadOp>(copy.getRing()))
    return "";
  if (state.hasProducer)
    return "expects its slot to be acquired; run flashcore-hand-over-slots "
           "first";
  return state.hasGroups || copy.getViaRegisters()
             ? ""
             : "expects to be waited for; run flashcore-hand-over-slots and "
               "flashcore-insert-barriers first";
}

static StringRef checkHome(Operation *op, const KernelState & /*state*/) {
  return isa<vector::ContractionOp>(op) && !op->hasAttr(kHomeAttrName)
             ? "expects an fcgpu.home; run flashcore-assign-layouts first"
             : "";
}

LogicalResult mlir::fcgpu::checkReached(gpu::GPUFuncOp kernel,
                                        Reached reached) {
  constexpr Expectation expectations[] = {
      {Reached::Tiles, Reached::Homes, checkTile},
      {Reached::Rings, Reached::Homes, checkStaged},
      // Barriers take the place of what acquires slots.
      {Reached::Slots, Reached::Slots, checkSlots},
      {Reached::Barriers, Reached::Homes, checkBarriers},
      {Reached::Homes, Reached::Homes, checkHome}};
  KernelState state{hasProducer(kernel)};
  kernel.walk([&](Operation *op) {
    state.hasAcquires |= isa<AcquireOp>(op);
    state.hasGroups |= isa<CommitCopiesOp>(op);
  });
  WalkResult result = kernel.walk([&](Operation *op) {
    if (op == kernel)
      return WalkResult::advance();
    for (const Expectation &expected : expectations) {
      bool isExpected = expected.first <= reached && reached <= expected.last;
      StringRef error = isExpected ? expected.check(op, state) : "";
      if (error.empty())
        continue;
      op->emitOpError(error);
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  int64_t producers = Launch::get(kernel).producerWarps;
  if (reached < Reached::Barriers || producers == 0 || state.hasProducer)
    return success();
  return kernel.emitOpError("expects an fcgpu.produce for the ")
         << producers
         << " warps of its launch that only fill rings; run "
            "flashcore-specialize-warps first";
}
