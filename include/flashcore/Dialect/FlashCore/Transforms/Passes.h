//===- Passes.h - Phases 1 to 3 ---------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_PASSES_H
#define FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_PASSES_H

#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "flashcore/Schedule/ScheduleChoice.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::flashcore {

/// Reports at `op` the first thing it says that no phase lowers yet (ALiBi
/// slopes, a page table, a head_dim, ...), by name.
LogicalResult checkLowerable(AttentionOp op);

/// Reports at `op`, an attention or a tile, columns that no kernel is made for.
LogicalResult checkColumns(Operation *op, int64_t headDim, int64_t headDimV);

/// Begins such an error.
InFlightDiagnostic emitUnsupported(Operation *op);

/// Whether an error is of checkLowerable: the op is right, and another version
/// may lower it.
bool isUnsupported(Diagnostic &diagnostic);

/// What flashcore-configure says of an attention, for --explain.
struct ScheduleReport {
  ScheduleDecision decision; ///< without reasons where the IR had the schedule
  /// How sizes that are left open would change what was chosen.
  std::vector<std::string> openSizes;
  /// How the classes of calls would, whose sizes are known at run time only.
  std::vector<std::string> callClasses;
  /// That of the kernels for calls of few queries, where there are any.
  std::optional<ScheduleChoice> fewQueries;
};

/// What flashcore-configure is told. Of the fields of a schedule, 0 and the
/// empty string leave the choice to the compiler.
struct ConfigurePassOptions {
  std::string chip; ///< if empty, that of the module's kernels, or sm_89
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  fcgpu::FieldOption<Type> name{};
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
  std::string tuningFile; ///< for what the fields leave open
  std::string schedule;   ///< the same, by the name of a schedule
  /// The most queries of a sequence in calls that kernels of their own are for,
  /// where seqlen_q is known at run time only; 0 makes none.
  int64_t fewQueries = 0;
  /// Gets what became of each attention; may be empty.
  std::function<void(AttentionOp, ScheduleReport)> onSchedule;
};

std::unique_ptr<Pass> createConfigurePass();
std::unique_ptr<Pass> createConfigurePass(ConfigurePassOptions options);

#define GEN_PASS_DECL_DECOMPOSEPASS
#define GEN_PASS_DECL_TILEPASS
#define GEN_PASS_DECL_ONLINESOFTMAXPASS
#define GEN_PASS_REGISTRATION
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h.inc"

/// What the options of flashcore-configure force, or which of them is wrong.
std::variant<ScheduleOptions, std::string>
getScheduleOptions(const ConfigurePassOptions &options);

} // namespace mlir::flashcore

#endif // FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_PASSES_H
