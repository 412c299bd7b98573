//===- Compile.h - From a module to kernels ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The whole compiler as one function: every attention of a module, for every
// chip that is asked for. flashcore-compile and the C interface are clients of
// it. It writes to no stream and has no state: threads may compile at once,
// each with a context of its own.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_COMPILER_COMPILE_H
#define FLASHCORE_COMPILER_COMPILE_H

#include "flashcore/Compiler/Explain.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include "llvm/Support/SourceMgr.h"

#include <functional>
#include <memory>

namespace mlir::flashcore {

/// Where compiling stops.
enum class CompileStage {
  MLIR,  ///< LLVM and NVVM ops
  LLVM,  ///< optimised LLVM IR
  PTX,   ///< PTX
  Cubin, ///< PTX, and machine code made of it by ptxas
};

struct CompileRequest {
  CompileStage stage = CompileStage::PTX;
  /// As orderChips makes them; empty for that of findChip.
  std::vector<std::string> chips;
  /// The attention to compile, or the function with several; empty for all.
  std::string function;
  /// All but the chip.
  ConfigurePassOptions schedule;
  /// If not empty, several different attentions are an error, which says that
  /// this (the value of --emit) holds only one.
  std::string onlyOneFor;
  /// For findPtxas, which is called at CompileStage::Cubin only.
  std::string ptxas, programPath;

  /// Gets the module before phase 1 (as phase 0) and after each phase. `chip`
  /// is empty where there are not several.
  std::function<llvm::Error(ModuleOp module, unsigned phase, StringRef chip)>
      onPhase;
  /// May change each pass manager before it runs.
  std::function<LogicalResult(PassManager &pm)> onPipeline;
  /// Gets errors that are not of a place in the module: of onPhase and ptxas.
  /// All others are diagnostics of the module's context.
  std::function<void(llvm::Error error)> onError;
  /// Its steps are timed below this one, if it is not null.
  TimingScope *timing = nullptr;
};

/// An op of the input, and how it is scheduled for each chip.
struct CompiledOp {
  std::string name;
  std::vector<Explanation> explanations; ///< none but of an attention
};

/// One program of the input, mostly an attention, and what became of it for
/// each chip.
struct CompiledAttention {
  std::string name;
  std::vector<CompiledOp> ops;
  std::vector<BundleVariant> variants; ///< none before there is PTX
};

struct Compilation {
  std::vector<std::string> chips;
  std::vector<CompiledAttention> attentions;
  /// The module after the last phase, for the last chip.
  OwningOpRef<ModuleOp> module;
  /// At CompileStage::LLVM that of the one attention.
  std::string llvmIR;

  /// What became of attention `number` on a chip, or null before PTX.
  const BundleVariant *getVariant(size_t attention, size_t chip) const;
};

/// Known chips in the order of their age. An error names one that is unknown or
/// given twice.
llvm::Expected<std::vector<std::string>>
orderChips(ArrayRef<std::string> given);

/// A context for `parseModule` and `compile`, which one thread may use.
std::unique_ptr<MLIRContext>
createCompilerContext(bool allowUnregisteredDialects = false);

/// Compiles each attention of `module`, which is changed.
FailureOr<Compilation> compile(ModuleOp module, const CompileRequest &request);

/// Prints the text of `flashcore-compile --explain` for one program on a chip.
void explain(llvm::raw_ostream &os, const Compilation &compilation,
             size_t attention, size_t chip);

/// The document of `flashcore-compile --json`: all explanations and what each
/// kernel uses.
std::string makeReport(const Compilation &compilation);

} // namespace mlir::flashcore

#endif // FLASHCORE_COMPILER_COMPILE_H
