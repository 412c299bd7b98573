//===- Compile.cpp - From a module to kernels -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is the same for all chips is done once (bufferization, the choice of
// attentions); then each chip gets a copy of the module, which goes through the
// phases and the backend.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Compiler/Compile.h"
#include "flashcore/Compiler/Attentions.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FlashCore/Transforms/GPUTarget.h"
#include "flashcore/InitAll.h"
#include "flashcore/Pipelines/Pipelines.h"
#include "flashcore/Support/Errors.h"
#include "flashcore/Support/ToolInit.h"
#include "flashcore/Target/PTX.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::flashcore;

namespace {
class Compiler {
public:
  explicit Compiler(const CompileRequest &request)
      : request(request), timing(request.timing ? *request.timing : untimed) {}

  FailureOr<Compilation> compile(ModuleOp module);

private:
  LogicalResult prepare(ModuleOp module);
  LogicalResult selectPrograms(ModuleOp module);
  ConfigurePassOptions getSchedule(StringRef chip) const;
  LogicalResult compileFor(StringRef chip, ModuleOp module,
                           TimingScope &timing);
  LogicalResult lower(ModuleOp module, StringRef chip, TimingScope &timing);
  LogicalResult emitCode(ModuleOp module, StringRef chip, TimingScope &timing);
  FailureOr<BundleVariant> emitVariant(gpu::GPUModuleOp module, StringRef chip,
                                       TimingScope &timing);

  LogicalResult run(PassManager &pm, ModuleOp module) const;
  LogicalResult showPhase(ModuleOp module, unsigned phase,
                          StringRef chip) const;
  LogicalResult report(llvm::Error error) const;

  bool isSelected(StringRef name) const {
    return request.function.empty() || name == request.function ||
           StringRef(name).starts_with(request.function + ".");
  }

  const CompileRequest &request;
  TimingScope untimed;
  TimingScope &timing;
  /// Of all programs of the functions that are compiled, wanted or not.
  std::vector<std::string> names;
  Compilation result;
};
} // namespace

/// Success without an error.
LogicalResult Compiler::report(llvm::Error error) const {
  if (!error)
    return success();
  if (request.onError)
    request.onError(std::move(error));
  else
    llvm::consumeError(std::move(error));
  return failure();
}

LogicalResult Compiler::run(PassManager &pm, ModuleOp module) const {
  // Once for all its passes: each run costs as much as a pass or two.
  pm.enableVerifier(false);
  if (request.onPipeline && failed(request.onPipeline(pm)))
    return failure();
  return success(succeeded(pm.run(module)) && succeeded(verify(module)));
}

LogicalResult Compiler::showPhase(ModuleOp module, unsigned phase,
                                  StringRef chip) const {
  if (!request.onPhase)
    return success();
  return report(request.onPhase(module, phase,
                                result.chips.size() > 1 ? chip : StringRef()));
}

//===----------------------------------------------------------------------===//
// The part for all chips
//===----------------------------------------------------------------------===//

/// Tensors are bufferized before phase 1.
LogicalResult Compiler::prepare(ModuleOp module) {
  bool hasTensors = false, hasAttention = false;
  auto look = [&] {
    hasTensors = hasAttention = false;
    module.walk([&](Operation *op) {
      if (!isCompiled(op))
        return;
      hasAttention = true;
      hasTensors |=
          llvm::any_of(op->getOperandTypes(), llvm::IsaPred<TensorType>);
    });
  };
  look();
  if (!hasAttention)
    return module.emitError(
        "holds no op to compile, such as flashcore.attention");
  result.chips = request.chips;
  if (result.chips.empty()) {
    FailureOr<std::string> chip = findChip(module, "");
    if (failed(chip))
      return failure();
    result.chips.push_back(*chip);
  }
  if (failed(showPhase(module, 0, "")))
    return failure();
  if (!request.function.empty() &&
      failed(keepFunctionOf(request.function, module)))
    return failure();
  look();
  if (!hasTensors)
    return selectPrograms(module);
  TimingScope step = timing.nest("Bufferization");
  PassManager pm(module.getContext());
  buildBufferizePipeline(pm);
  if (failed(run(pm, module)))
    return failure();
  return selectPrograms(module);
}

LogicalResult Compiler::selectPrograms(ModuleOp module) {
  if (failed(checkNames(findCompiledOps(module))))
    return failure();
  bool isFound = false;
  for (const CompiledOps &program : findCompiledOps(module))
    isFound |= isSelected(program.name);
  // One op of several that would be one program.
  if (!isFound)
    keepOpOfProgram(request.function, module);
  for (const CompiledOps &program : findCompiledOps(module)) {
    names.push_back(isFound ? program.name : request.function);
    if (!isSelected(names.back()))
      continue;
    CompiledAttention &compiled =
        result.attentions.emplace_back(CompiledAttention{names.back(), {}, {}});
    for (size_t number = 0; number < program.ops.size(); ++number)
      compiled.ops.push_back(
          {isFound ? program.getNameOf(number) : request.function, {}});
  }
  if (result.attentions.empty())
    return module.emitError(
        "holds no op whose result is used, such as flashcore.attention");
  return success();
}

ConfigurePassOptions Compiler::getSchedule(StringRef chip) const {
  ConfigurePassOptions schedule = request.schedule;
  schedule.chip = chip.str();
  return schedule;
}

//===----------------------------------------------------------------------===//
// The part for one chip
//===----------------------------------------------------------------------===//

/// Phases 1 to 7.
LogicalResult Compiler::lower(ModuleOp module, StringRef chip,
                              TimingScope &timing) {
  ConfigurePassOptions schedule = getSchedule(chip);
  // In the order of the module, which stays when passes make ops anew.
  std::vector<Explanation> inOrder;
  schedule.onSchedule = [&](AttentionOp op, ScheduleReport report) {
    inOrder.push_back({AttentionProblem::get(op), std::move(report)});
  };
  for (const Phase &phase : getPhases()) {
    TimingScope step = timing.nest(phase.name.data(), [&] {
      return llvm::formatv("Phase {0}: {1}", phase.number, phase.name);
    });
    PassManager pm(module.getContext());
    phase.build(pm, schedule);
    if (failed(run(pm, module)))
      return failure();
    step.stop();
    if (failed(showPhase(module, phase.number, chip)))
      return failure();
    if (phase.number != 1)
      continue;
    DenseMap<Operation *, Explanation> explanations;
    auto next = inOrder.begin();
    module.walk([&](AttentionOp op) { explanations[op] = std::move(*next++); });
    auto compiled = result.attentions.begin();
    for (auto [name, program] :
         llvm::zip_equal(names, findCompiledOps(module))) {
      if (!isSelected(name))
        continue;
      for (auto [number, op] : llvm::enumerate(program.ops)) {
        auto explanation = explanations.find(op);
        if (explanation == explanations.end())
          continue; // of other ops nothing is chosen
        explanation->second.op = number;
        compiled->ops[number].explanations.push_back(
            std::move(explanation->second));
      }
      ++compiled;
    }
  }
  return success();
}

FailureOr<BundleVariant> Compiler::emitVariant(gpu::GPUModuleOp module,
                                               StringRef chip,
                                               TimingScope &timing) {
  BundleVariant variant;
  variant.chip = chip.str();
  variant.program =
      module->getAttrOfType<DictionaryAttr>(fcgpu::kProgramAttrName);
  variant.kernels = getBundleKernels(module);
  auto ptx = emitPTX(module, chip, PTXStage::PTX, timing.nest("PTX"));
  if (failed(ptx))
    return failure();
  variant.ptx = std::move(*ptx);
  if (request.stage != CompileStage::Cubin)
    return variant;
  auto ptxas = findPtxas(request.ptxas, request.programPath);
  if (!ptxas)
    return report(ptxas.takeError());
  TimingScope step = timing.nest("ptxas");
  auto cubin = assemble(*ptxas, variant.ptx, chip);
  if (!cubin)
    return report(cubin.takeError());
  if (*cubin)
    variant.cubins.push_back(std::move(**cubin));
  else if (!request.onlyOneFor.empty())
    return report(formatError("'{0}' does not know {1}: expects the ptxas of a "
                              "CUDA that does (--ptxas=PATH), or --emit=bundle "
                              "or ptx, for the driver to assemble",
                              *ptxas, chip));
  else
    module.emitWarning() << "'" << *ptxas << "' does not know " << chip
                         << ": the bundle has PTX alone for it, which the "
                            "driver assembles; pass another with --ptxas=PATH "
                            "for machine code";
  return variant;
}

/// LLVM IR, or PTX and what is made of it, of each attention that is wanted.
LogicalResult Compiler::emitCode(ModuleOp module, StringRef chip,
                                 TimingScope &timing) {
  std::vector<gpu::GPUModuleOp> kernels = findKernels(module);
  if (kernels.size() != names.size())
    return module.emitError("expects a launch for each of the ")
           << names.size() << " attentions, but got " << kernels.size();
  SmallVector<gpu::GPUModuleOp> wanted;
  for (auto [name, kernel] : llvm::zip_equal(names, kernels))
    if (isSelected(name))
      wanted.push_back(kernel);
  if (!request.onlyOneFor.empty() && !llvm::all_equal(wanted)) {
    auto list = llvm::map_range(
        result.attentions,
        [](const CompiledAttention &attention) { return attention.name; });
    return module.emitError("expects one attention for --emit=")
           << request.onlyOneFor << ", but got " << result.attentions.size()
           << " (" << llvm::join(list, ", ")
           << "); choose one with --function, or use --emit=bundle or mlir";
  }
  if (request.stage == CompileStage::LLVM) {
    auto llvmIR =
        emitPTX(wanted.front(), chip, PTXStage::LLVM, timing.nest("PTX"));
    if (failed(llvmIR))
      return failure();
    result.llvmIR = std::move(*llvmIR);
    return success();
  }
  llvm::DenseMap<Operation *, BundleVariant> done;
  for (auto [attention, kernel] : llvm::zip_equal(result.attentions, wanted)) {
    auto it = done.find(kernel);
    if (it == done.end()) {
      FailureOr<BundleVariant> variant = emitVariant(kernel, chip, timing);
      if (failed(variant))
        return failure();
      it = done.try_emplace(kernel, std::move(*variant)).first;
    }
    attention.variants.push_back(it->second);
  }
  return success();
}

LogicalResult Compiler::compileFor(StringRef chip, ModuleOp module,
                                   TimingScope &timing) {
  // What the input deserves to hear is said once.
  ScopedDiagnosticHandler warnings(
      module.getContext(), [&](Diagnostic &diagnostic) {
        bool isRepeated =
            diagnostic.getSeverity() == DiagnosticSeverity::Warning &&
            chip != result.chips.front();
        return success(isRepeated);
      });
  if (failed(lower(module, chip, timing)))
    return failure();
  return request.stage == CompileStage::MLIR ? success()
                                             : emitCode(module, chip, timing);
}

FailureOr<Compilation> Compiler::compile(ModuleOp module) {
  if (failed(prepare(module)))
    return failure();
  for (const std::string &chip : result.chips) {
    TimingScope perChip;
    if (result.chips.size() > 1)
      perChip = timing.nest(chip);
    result.module = module.clone();
    if (failed(compileFor(chip, *result.module,
                          result.chips.size() > 1 ? perChip : timing)))
      return failure();
  }
  return std::move(result);
}

//===----------------------------------------------------------------------===//
// The interface
//===----------------------------------------------------------------------===//

llvm::Expected<std::vector<std::string>>
mlir::flashcore::orderChips(ArrayRef<std::string> given) {
  for (auto [number, chip] : llvm::enumerate(given)) {
    if (!lookupTarget(chip))
      return formatError("{0}", unknownChipMessage(chip));
    if (llvm::is_contained(given.take_front(number), chip))
      return formatError("expects each chip once, but got {0} twice", chip);
  }
  // The order of the table is that of their age.
  std::vector<std::string> chips;
  for (const TargetInfo &known : getTargets())
    if (llvm::is_contained(given, known.chip))
      chips.push_back(known.chip.str());
  return chips;
}

std::unique_ptr<MLIRContext>
mlir::flashcore::createCompilerContext(bool allowUnregisteredDialects) {
  DialectRegistry registry;
  registerAllDialects(registry);
  registerPTXTranslations(registry);
  auto context =
      std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->allowUnregisteredDialects(allowUnregisteredDialects);
  context->printOpOnDiagnostic(false); // a whole module says little in an error
  return context;
}

FailureOr<Compilation> mlir::flashcore::compile(ModuleOp module,
                                                const CompileRequest &request) {
  return Compiler(request).compile(module);
}

const BundleVariant *Compilation::getVariant(size_t attention,
                                             size_t chip) const {
  const std::vector<BundleVariant> &variants = attentions[attention].variants;
  return variants.empty() ? nullptr : &variants[chip];
}

void mlir::flashcore::explain(llvm::raw_ostream &os,
                              const Compilation &compilation, size_t attention,
                              size_t chip) {
  const CompiledAttention &compiled = compilation.attentions[attention];
  bool areMany = compilation.attentions.size() > 1 || compiled.ops.size() > 1;
  for (const CompiledOp &op : compiled.ops)
    if (!op.explanations.empty())
      print(os, op.explanations[chip],
            areMany ? StringRef(op.name) : StringRef(),
            *lookupTarget(compilation.chips[chip]),
            compilation.getVariant(attention, chip));
}

std::string mlir::flashcore::makeReport(const Compilation &compilation) {
  llvm::json::Array described, merges;
  for (auto [number, attention] : llvm::enumerate(compilation.attentions)) {
    for (const CompiledOp &op : attention.ops)
      for (auto [chip, explanation] : llvm::enumerate(op.explanations))
        described.push_back(toJSON(explanation, op.name,
                                   *lookupTarget(compilation.chips[chip]),
                                   compilation.getVariant(number, chip)));
    for (const BundleVariant &variant : attention.variants)
      if (std::optional<llvm::json::Object> merge = describeMerge(variant)) {
        (*merge)["name"] = llvm::json::fixUTF8(attention.name);
        merges.push_back(std::move(*merge));
      }
  }
  llvm::json::Object document{{"compiler", getVersion()},
                              {"attentions", std::move(described)}};
  if (!merges.empty())
    document["merges"] = std::move(merges);
  return llvm::formatv("{0:2}", llvm::json::Value(std::move(document))).str() +
         "\n";
}
