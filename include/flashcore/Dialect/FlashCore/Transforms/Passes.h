//===- Passes.h - Phases 1 to 3 ---------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_PASSES_H
#define FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_PASSES_H

#include "flashcore/Analysis/ScheduleChoice.h"
#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::flashcore {

/// Reports at `op` the first thing it says that no phase lowers yet (ALiBi
/// slopes, a page table, a head_dim, ...), by name.
LogicalResult checkLowerable(AttentionOp op);

/// Whether an error is of checkLowerable: the op is right, and another version
/// may lower it.
bool isUnsupported(Diagnostic &diagnostic);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h.inc"

/// What the options of flashcore-configure force, or which of them is wrong.
std::variant<ScheduleOptions, std::string>
getScheduleOptions(const ConfigurePassOptions &options);
/// The fields of the attribute.
ScheduleChoice getChoice(fcgpu::ScheduleAttr schedule);

} // namespace mlir::flashcore

#endif // FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_PASSES_H
