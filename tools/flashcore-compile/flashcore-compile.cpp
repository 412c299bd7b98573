//===- flashcore-compile.cpp - From MLIR to a kernel ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles one file, or the attention that --shape describes, and writes what
// --emit asks for. Each attention is compiled for each chip before anything is
// written. Exit codes: 0 success, 1 the input (or the schedule asked for)
// cannot be compiled, 2 the command line, the files or the programs it names
// are wrong.
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include "Phases.h"
#include "flashcore/Compiler/Compile.h"
#include "flashcore/Compiler/Shape.h"
#include "flashcore/Dialect/FCGPU/IR/Schedule.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "flashcore/Schedule/NamedSchedules.h"
#include "flashcore/Support/Bytecode.h"
#include "flashcore/Support/ErrorStream.h"
#include "flashcore/Support/ToolInit.h"
#include "flashcore/Target/Bundle.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mlir::flashcore;

namespace {
enum ExitCode { Success = 0, BadInput = 1, BadUsage = 2 };
} // namespace

static ExitCode fail(llvm::Error error, ExitCode code = BadUsage) {
  getErrorStream() << "flashcore-compile: error: "
                   << llvm::toString(std::move(error)) << "\n";
  return code;
}

//===----------------------------------------------------------------------===//
// What is said and written
//===----------------------------------------------------------------------===//

static void report(const BundleVariant &variant) {
  for (const Cubin &cubin : variant.cubins)
    for (const BundleKernel &kernel : variant.kernels) {
      KernelResources used = cubin.kernels.lookup(kernel.name);
      getErrorStream()
          << kernel.name << " on " << cubin.chip << ": " << used.registers
          << " registers, " << used.spillStores << " bytes spilled, "
          << kernel.description.getAs<IntegerAttr>("shared_memory").getInt()
          << " bytes of shared memory (" << cubin.assembler << ")\n";
    }
}

static void warnOfSpills(const Compilation &compilation, size_t number,
                         size_t chip) {
  for (const CompiledOp &op : compilation.attentions[number].ops) {
    if (op.explanations.empty())
      continue;
    std::string why = explainSpills(op.explanations[chip],
                                    *lookupTarget(compilation.chips[chip]),
                                    compilation.getVariant(number, chip));
    if (!why.empty())
      getErrorStream() << "warning: registers of " << op.name << " on "
                       << compilation.chips[chip] << " are spilled " << why
                       << "\n";
  }
}

/// For --explain, -v and --json.
static llvm::Error explainAll(const Compilation &compilation,
                              const Options &options) {
  for (size_t number = 0; number < compilation.attentions.size(); ++number)
    for (size_t chip = 0; chip < compilation.chips.size(); ++chip) {
      if (options.explain)
        explain(getErrorStream(), compilation, number, chip);
      const BundleVariant *variant = compilation.getVariant(number, chip);
      if (options.verbose && variant) {
        report(*variant);
        warnOfSpills(compilation, number, chip);
      }
    }
  if (options.json.empty())
    return llvm::Error::success();
  return writeOutput(options.json, makeReport(compilation));
}

/// One bundle, or a directory of bundles with the names of their attentions.
static ExitCode writeBundles(ArrayRef<CompiledAttention> attentions,
                             StringRef output) {
  if (attentions.size() == 1) {
    llvm::Error error = writeBundle(output, attentions.front().variants);
    return error ? fail(std::move(error)) : Success;
  }
  SmallVector<SmallString<128>> paths;
  for (const CompiledAttention &attention : attentions) {
    StringRef name = attention.name;
    if (name.empty() || name.contains('/') || name.starts_with("."))
      return fail(
          llvm::createStringError(
              "expects functions whose names can name a bundle, but got '" +
              name + "'; rename it"),
          BadInput);
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

static ExitCode write(const Compilation &compilation, const Options &options) {
  std::string printed;
  StringRef output = compilation.llvmIR;
  if (options.emit == Emit::Bundle)
    return writeBundles(compilation.attentions, options.output);
  if (options.emit == Emit::MLIR) {
    llvm::raw_string_ostream(printed) << *compilation.module << "\n";
    output = printed;
  } else if (options.emit != Emit::LLVM) {
    const BundleVariant &variant = *compilation.getVariant(0, 0);
    output = options.emit == Emit::Cubin ? variant.cubins.front().image
                                         : variant.ptx;
  }
  llvm::Error error = writeOutput(options.output, output);
  return error ? fail(std::move(error)) : Success;
}

//===----------------------------------------------------------------------===//
// The tool
//===----------------------------------------------------------------------===//

static llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
openInput(const Options &options, MLIRContext &context) {
  if (!options.shape) {
    auto file = readInput(options.input);
    return file && isBytecode((*file)->getBuffer())
               ? translateBytecode(**file, context.getDialectRegistry(),
                                   options.allowUnregisteredDialects)
               : std::move(file);
  }
  llvm::Expected<Shape> shape = parseShape(*options.shape);
  if (!shape)
    return llvm::createStringError("--shape: " +
                                   llvm::toString(shape.takeError()));
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
  return error ? fail(std::move(error)) : Success;
}

static CompileStage getStage(const Options &options) {
  switch (options.emit) {
  case Emit::Input:
  case Emit::MLIR:
    return CompileStage::MLIR;
  case Emit::LLVM:
    return CompileStage::LLVM;
  case Emit::PTX:
    return CompileStage::PTX;
  case Emit::Cubin:
    return CompileStage::Cubin;
  case Emit::Bundle:
    return options.noCubin ? CompileStage::PTX : CompileStage::Cubin;
  }
  llvm_unreachable("unknown kind of output");
}

/// `code` becomes that of an error that is not the input's.
static CompileRequest makeRequest(const Options &options, StringRef programPath,
                                  ExitCode &code) {
  CompileRequest request;
  request.stage = getStage(options);
  request.chips = options.chips;
  request.function = options.function;
  request.schedule = options.schedule;
  if (options.emit != Emit::Bundle)
    request.onlyOneFor = stringify(options.emit);
  request.ptxas = options.ptxas;
  request.programPath = programPath;
  request.onPhase = [&](ModuleOp module, unsigned phase, StringRef chip) {
    return llvm::is_contained(options.phases, phase)
               ? printPhase(module, phase, options.phasesDirectory, chip)
               : llvm::Error::success();
  };
  request.onPipeline = applyPassManagerCLOptions;
  request.onError = [&code](llvm::Error error) {
    code = fail(std::move(error));
  };
  return request;
}

static ExitCode compile(ModuleOp module, const Options &options,
                        StringRef programPath, TimingScope &timing) {
  ExitCode code = BadInput;
  CompileRequest request = makeRequest(options, programPath, code);
  request.timing = &timing;
  FailureOr<Compilation> compilation = compile(module, request);
  if (failed(compilation))
    return code;
  if (llvm::Error error = explainAll(*compilation, options))
    return fail(std::move(error));
  return write(*compilation, options);
}

static ExitCode runTool(const Options &options, StringRef programPath) {
  DefaultTimingManager timer;
  timer.setEnabled(options.timing);
  TimingScope timing = timer.getRootScope();
  TimingScope parsing = timing.nest("Parser");
  std::unique_ptr<MLIRContext> context =
      createCompilerContext(options.allowUnregisteredDialects);
  auto file = openInput(options, *context);
  if (!file)
    return fail(file.takeError());
  if (auto error = checkNesting((*file)->getBuffer())) {
    getErrorStream() << (*file)->getBufferIdentifier() << ":" << *error << "\n";
    return BadInput;
  }
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(*file), llvm::SMLoc());
  SourceMgrDiagnosticHandler diagnostics(sources, context.get(),
                                         getErrorStream());
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(sources, context.get());
  parsing.stop();
  if (!module)
    return BadInput;
  if (options.emit == Emit::Input)
    return emitInput(*module, sources, options);
  return compile(*module, options, programPath, timing);
}

static ExitCode listSchedules() {
  for (const NamedSchedule &schedule : getNamedSchedules())
    llvm::outs() << llvm::formatv("{0,-17} {1,-7} {2}\n", schedule.name,
                                  schedule.chip, schedule.text);
  return Success;
}

/// The first word of a line is the chip, which scripts read.
static ExitCode listChips() {
  for (const TargetInfo &target : getTargets())
    llvm::outs() << llvm::formatv(
        "{0,-7} PTX {1}.{2}, {3} KiB of shared memory a block; schedules for "
        "{4}\n",
        target.chip, target.ptxVersion / 10, target.ptxVersion % 10,
        target.sharedMemoryPerBlock / 1024, target.device.card);
  return Success;
}

/// Clause and operand are the first words of a line, which scripts read.
static ExitCode listOperands() {
  using Role = OperandInfo::Role;
  for (const OperandInfo &row : getOperandTable()) {
    StringRef role = row.role == Role::Output  ? "output"
                     : row.role == Role::Cache ? "input, which append writes"
                                               : "input";
    llvm::outs() << llvm::formatv("{0,-18} {1,-18} {2} of {3}, {4}\n",
                                  row.clause, row.name, row.describeAxes(),
                                  row.describeElements(), role);
  }
  return Success;
}

/// What a field of a schedule may be: any number, or one of these words.
template <typename Type> static std::string listValues() {
  if constexpr (std::is_enum_v<Type>)
    return llvm::join(fcgpu::getWords<Type>(), "|");
  return "number";
}

/// Name, option and values are the first words of a line, which scripts read.
static ExitCode listScheduleFields() {
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  llvm::outs() << llvm::formatv("{0,-16} {1,-18} {2} {3}\n", key, "--" option, \
                                listValues<Type>(), text);
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
  return Success;
}

int flashcoreCompileMain(int argc, char **argv) {
  ToolInit init(argc, argv, "flashcore-compile");
  registerPassManagerCLOptions();
  llvm::Expected<Options> options = parseOptions(argc, argv);
  if (!options)
    return fail(options.takeError());
  if (options->listSchedules)
    return listSchedules();
  if (options->listChips)
    return listChips();
  if (options->listOperands)
    return listOperands();
  if (options->listScheduleFields)
    return listScheduleFields();
  std::string programPath = llvm::sys::fs::getMainExecutable(
      argv[0], reinterpret_cast<void *>(&runTool));
  return runTool(*options, programPath);
}
