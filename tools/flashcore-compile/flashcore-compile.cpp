//===- flashcore-compile.cpp - From MLIR to a kernel ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the whole pipeline on one file, or on the attention that --shape
// describes, and writes what --emit asks for. Each attention is compiled for
// each chip before anything is written. Exit codes: 0 success, 1 the input (or
// an option's value) is wrong, 2 the files, the words of --shape or the
// combination of options are.
//
//===----------------------------------------------------------------------===//

#include "Attentions.h"
#include "Explain.h"
#include "Options.h"
#include "Phases.h"
#include "Shape.h"
#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "flashcore/Dialect/FlashCore/Transforms/GPUTarget.h"
#include "flashcore/InitAll.h"
#include "flashcore/Pipelines/Pipelines.h"
#include "flashcore/Support/ToolInit.h"
#include "flashcore/Target/Bundle.h"
#include "flashcore/Target/PTX.h"
#include "flashcore/Target/TargetInfo.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mlir::flashcore;

namespace {
enum ExitCode { Success = 0, BadInput = 1, BadUsage = 2 };

/// One attention of the input, and what became of it for each chip.
struct Compiled {
  std::string name;
  std::vector<Explanation> explanations;
  std::vector<BundleVariant> variants; ///< none before there is PTX
};

class Compiler {
public:
  Compiler(const Options &options, StringRef programPath, TimingScope &timing)
      : options(options), programPath(programPath), timing(timing) {}

  ExitCode compile(ModuleOp module);

private:
  LogicalResult prepare(ModuleOp module);
  LogicalResult selectAttentions(ModuleOp module);
  ConfigurePassOptions getSchedule(StringRef chip) const;
  LogicalResult lower(ModuleOp module, StringRef chip, TimingScope &timing);
  LogicalResult emitCode(ModuleOp module, StringRef chip, TimingScope &timing);
  FailureOr<BundleVariant> emitVariant(gpu::GPUModuleOp module, StringRef chip,
                                       TimingScope &timing);
  LogicalResult explainAll() const;
  ExitCode write(ModuleOp module) const;
  ExitCode writeBundles() const;

  bool isSelected(StringRef name) const {
    return options.function.empty() || name == options.function ||
           StringRef(name).starts_with(options.function + ".");
  }
  bool needsCubin() const {
    return options.emit == Emit::Cubin ||
           (options.emit == Emit::Bundle && !options.noCubin);
  }
  LogicalResult printPhase(ModuleOp module, unsigned phase,
                           StringRef chip) const;

  const Options &options;
  std::string programPath;
  TimingScope &timing;
  std::vector<std::string> chips;
  /// All attentions of the functions that are compiled, and which of them are
  /// wanted.
  std::vector<std::string> names;
  std::vector<Compiled> attentions;
  /// What --emit=llvm prints.
  std::string text;
};
} // namespace

static ExitCode fail(llvm::Error error, ExitCode code = BadInput) {
  llvm::errs() << "flashcore-compile: error: "
               << llvm::toString(std::move(error)) << "\n";
  return code;
}

/// The same where MLIR's functions want a result; success without an error.
static LogicalResult reportError(llvm::Error error) {
  if (!error)
    return success();
  fail(std::move(error));
  return failure();
}

static LogicalResult run(PassManager &pm, ModuleOp module) {
  // Once for all its passes: each run costs as much as a pass or two.
  pm.enableVerifier(false);
  return success(succeeded(applyPassManagerCLOptions(pm)) &&
                 succeeded(pm.run(module)) && succeeded(verify(module)));
}

LogicalResult Compiler::printPhase(ModuleOp module, unsigned phase,
                                   StringRef chip) const {
  if (!llvm::is_contained(options.phases, phase))
    return success();
  return reportError(
      flashcore::printPhase(module, phase, options.phasesDirectory,
                            chips.size() > 1 ? chip : StringRef()));
}

//===----------------------------------------------------------------------===//
// The part for all chips
//===----------------------------------------------------------------------===//

/// Tensors are bufferized before phase 1.
LogicalResult Compiler::prepare(ModuleOp module) {
  bool hasTensors = false, hasAttention = false;
  auto look = [&] {
    hasTensors = hasAttention = false;
    module.walk([&](AttentionOp op) {
      hasAttention = true;
      hasTensors |= !op.hasPureBufferSemantics();
    });
  };
  look();
  if (!hasAttention)
    return module.emitError("holds no flashcore.attention to compile");
  chips = options.chips;
  if (chips.empty()) {
    FailureOr<std::string> chip = findChip(module, "");
    if (failed(chip))
      return failure();
    chips.push_back(*chip);
  }
  if (failed(printPhase(module, 0, "")))
    return failure();
  if (!options.function.empty() &&
      failed(keepFunctionOf(options.function, module)))
    return failure();
  look();
  if (!hasTensors)
    return selectAttentions(module);
  TimingScope step = timing.nest("Bufferization");
  PassManager pm(module.getContext());
  buildBufferizePipeline(pm);
  if (failed(run(pm, module)))
    return failure();
  return selectAttentions(module);
}

LogicalResult Compiler::selectAttentions(ModuleOp module) {
  FailureOr<std::vector<std::string>> all = nameAttentions(module);
  if (failed(all))
    return failure();
  names = std::move(*all);
  for (const std::string &name : names)
    if (isSelected(name))
      attentions.push_back({name, {}, {}});
  if (attentions.empty())
    return module.emitError(
        "holds no flashcore.attention whose result is used");
  return success();
}

ConfigurePassOptions Compiler::getSchedule(StringRef chip) const {
  ConfigurePassOptions schedule = options.schedule;
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
  for (const Phase &phase : getPhases()) {
    TimingScope step = timing.nest(phase.name.data(), [&] {
      return llvm::formatv("Phase {0}: {1}", phase.number, phase.name);
    });
    PassManager pm(module.getContext());
    phase.build(pm, schedule);
    if (failed(run(pm, module)))
      return failure();
    step.stop();
    if (failed(printPhase(module, phase.number, chip)))
      return failure();
    if (phase.number != 1)
      continue;
    size_t next = 0, number = 0;
    module.walk([&](AttentionOp op) {
      if (isSelected(names[number++]))
        attentions[next++].explanations.push_back(explain(op, schedule));
    });
  }
  return success();
}

FailureOr<BundleVariant> Compiler::emitVariant(gpu::GPUModuleOp module,
                                               StringRef chip,
                                               TimingScope &timing) {
  BundleVariant variant;
  variant.chip = chip.str();
  variant.kernels = getBundleKernels(module);
  auto ptx = emitPTX(module, chip, PTXStage::PTX, timing.nest("PTX"));
  if (failed(ptx))
    return failure();
  variant.ptx = std::move(*ptx);
  if (!needsCubin())
    return variant;
  auto ptxas = findPtxas(options.ptxas, programPath);
  if (!ptxas)
    return reportError(ptxas.takeError());
  TimingScope step = timing.nest("ptxas");
  auto cubin = assemble(*ptxas, variant.ptx, chip);
  if (!cubin)
    return reportError(cubin.takeError());
  variant.cubins.push_back(std::move(*cubin));
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
  if (options.emit != Emit::Bundle && !llvm::all_equal(wanted)) {
    auto list = llvm::map_range(
        attentions, [](const Compiled &attention) { return attention.name; });
    return module.emitError("expects one attention for --emit=")
           << stringify(options.emit) << ", but got " << attentions.size()
           << " (" << llvm::join(list, ", ")
           << "); choose one with --function, or use --emit=bundle or mlir";
  }
  if (options.emit == Emit::LLVM) {
    auto llvmIR =
        emitPTX(wanted.front(), chip, PTXStage::LLVM, timing.nest("PTX"));
    if (failed(llvmIR))
      return failure();
    text = std::move(*llvmIR);
    return success();
  }
  llvm::DenseMap<Operation *, BundleVariant> done;
  for (auto [attention, kernel] : llvm::zip_equal(attentions, wanted)) {
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

//===----------------------------------------------------------------------===//
// What is said and written
//===----------------------------------------------------------------------===//

static void report(const BundleVariant &variant) {
  for (const Cubin &cubin : variant.cubins)
    for (const BundleKernel &kernel : variant.kernels) {
      KernelResources used = cubin.kernels.lookup(kernel.name);
      llvm::errs()
          << kernel.name << " on " << cubin.chip << ": " << used.registers
          << " registers, " << used.spillStores << " bytes spilled, "
          << kernel.description.getAs<IntegerAttr>("shared_memory").getInt()
          << " bytes of shared memory (" << cubin.assembler << ")\n";
    }
}

/// For --explain, -v and --json.
LogicalResult Compiler::explainAll() const {
  llvm::json::Array described;
  for (const Compiled &attention : attentions)
    for (auto [number, explanation] : llvm::enumerate(attention.explanations)) {
      const TargetInfo &target = *lookupTarget(chips[number]);
      const BundleVariant *variant =
          attention.variants.empty() ? nullptr : &attention.variants[number];
      StringRef name =
          attentions.size() > 1 ? StringRef(attention.name) : StringRef();
      if (options.explain)
        print(llvm::errs(), explanation, name, target, variant);
      if (options.verbose && variant)
        report(*variant);
      described.push_back(toJSON(explanation, attention.name, target, variant));
    }
  if (options.json.empty())
    return success();
  llvm::json::Value document = llvm::json::Object{
      {"compiler", getVersion()}, {"attentions", std::move(described)}};
  return reportError(
      writeOutput(options.json, llvm::formatv("{0:2}", document).str() + "\n"));
}

/// One bundle, or a directory of bundles with the names of their attentions.
ExitCode Compiler::writeBundles() const {
  StringRef output = options.output;
  if (attentions.size() == 1) {
    llvm::Error error = writeBundle(output, attentions.front().variants);
    return error ? fail(std::move(error)) : Success;
  }
  SmallVector<SmallString<128>> paths;
  for (const Compiled &attention : attentions) {
    StringRef name = attention.name;
    if (name.empty() || name.contains('/') || name.starts_with("."))
      return fail(llvm::createStringError(
          "expects functions whose names can name a bundle, but got '" + name +
          "'; rename it"));
    llvm::sys::path::append(paths.emplace_back(output), name + ".fcb");
  }
  if (llvm::sys::fs::exists(output + "/manifest.json"))
    return fail(llvm::createStringError(
        "expects -o to name a directory for the bundles of " +
        Twine(attentions.size()) + " attentions, but '" + output +
        "' is a bundle; name another, or choose one attention with "
        "--function"));
  if (std::error_code ec = llvm::sys::fs::create_directory(
          output, /*IgnoreExisting=*/true, llvm::sys::fs::all_all))
    return fail(llvm::createStringError(ec, "cannot make the directory '" +
                                                output + "': " + ec.message()));
  for (auto [path, attention] : llvm::zip_equal(paths, attentions))
    if (llvm::Error error = writeBundle(path, attention.variants))
      return fail(std::move(error));
  return Success;
}

ExitCode Compiler::write(ModuleOp module) const {
  std::string printed;
  StringRef output = text;
  if (options.emit == Emit::Bundle)
    return writeBundles();
  if (options.emit == Emit::MLIR) {
    llvm::raw_string_ostream(printed) << module << "\n";
    output = printed;
  } else if (options.emit != Emit::LLVM) {
    const BundleVariant &variant = attentions.front().variants.front();
    output = options.emit == Emit::Cubin ? variant.cubins.front().image
                                         : variant.ptx;
  }
  llvm::Error error = writeOutput(options.output, output);
  return error ? fail(std::move(error), BadUsage) : Success;
}

ExitCode Compiler::compile(ModuleOp module) {
  if (failed(prepare(module)))
    return BadInput;
  OwningOpRef<ModuleOp> copy;
  for (const std::string &chip : chips) {
    TimingScope perChip;
    if (chips.size() > 1)
      perChip = timing.nest(chip);
    TimingScope &scope = chips.size() > 1 ? perChip : timing;
    // What the input deserves to hear is said once.
    ScopedDiagnosticHandler warnings(
        module.getContext(), [&](Diagnostic &diagnostic) {
          bool isRepeated =
              diagnostic.getSeverity() == DiagnosticSeverity::Warning &&
              chip != chips.front();
          return success(isRepeated);
        });
    copy = module.clone();
    if (failed(lower(*copy, chip, scope)) ||
        (options.emit != Emit::MLIR && failed(emitCode(*copy, chip, scope))))
      return BadInput;
  }
  if (failed(explainAll()))
    return BadInput;
  return write(*copy);
}

//===----------------------------------------------------------------------===//
// The tool
//===----------------------------------------------------------------------===//

static llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
openInput(const Options &options) {
  if (!options.shape)
    return readInput(options.input);
  llvm::Expected<Shape> shape = parseShape(*options.shape);
  if (!shape)
    return shape.takeError();
  return llvm::MemoryBuffer::getMemBufferCopy(writeShape(*shape), "--shape");
}

/// A shape as it was written, with its names.
static ExitCode emitInput(ModuleOp module, const llvm::SourceMgr &sources,
                          const Options &options) {
  std::string printed;
  StringRef text;
  if (options.shape) {
    text = sources.getMemoryBuffer(sources.getMainFileID())->getBuffer();
  } else {
    llvm::raw_string_ostream(printed) << module << "\n";
    text = printed;
  }
  llvm::Error error = writeOutput(options.output, text);
  return error ? fail(std::move(error), BadUsage) : Success;
}

static ExitCode runTool(const Options &options, StringRef programPath) {
  DefaultTimingManager timer;
  timer.setEnabled(options.timing);
  TimingScope timing = timer.getRootScope();
  TimingScope parsing = timing.nest("Parser");
  DialectRegistry registry;
  registerAllDialects(registry);
  registerPTXTranslations(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.allowUnregisteredDialects(options.allowUnregisteredDialects);
  context.printOpOnDiagnostic(false); // a whole module says little in an error
  auto file = openInput(options);
  if (!file)
    return fail(file.takeError(), BadUsage);
  if (auto error = checkNesting((*file)->getBuffer())) {
    llvm::errs() << (*file)->getBufferIdentifier() << ":" << *error << "\n";
    return BadInput;
  }
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(*file), llvm::SMLoc());
  SourceMgrDiagnosticHandler diagnostics(sources, &context);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  parsing.stop();
  if (!module)
    return BadInput;
  if (options.emit == Emit::Input)
    return emitInput(*module, sources, options);
  return Compiler(options, programPath, timing).compile(*module);
}

int flashcoreCompileMain(int argc, char **argv) {
  ToolInit init(argc, argv, "flashcore-compile");
  registerPassManagerCLOptions();
  llvm::Expected<Options> options = parseOptions(argc, argv);
  if (!options)
    return fail(options.takeError(), BadUsage);
  std::string programPath = llvm::sys::fs::getMainExecutable(
      argv[0], reinterpret_cast<void *>(&runTool));
  return runTool(*options, programPath);
}
