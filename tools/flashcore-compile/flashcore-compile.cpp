//===- flashcore-compile.cpp - From MLIR to a kernel ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the whole pipeline on one file, or on the attention that --shape
// describes, and writes what --emit asks for. Exit codes: 0 success, 1 the
// input (or an option's value) is wrong, 2 the files, the words of --shape or
// the combination of options are.
//
//===----------------------------------------------------------------------===//

#include "Explain.h"
#include "Shape.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "flashcore/InitAll.h"
#include "flashcore/Pipelines/Pipelines.h"
#include "flashcore/Target/Bundle.h"
#include "flashcore/Target/PTX.h"
#include "flashcore/Target/TargetInfo.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Support/Timing.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/ManagedStatic.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace mlir::flashcore;
namespace cl = llvm::cl;

namespace {
enum class Emit { Input, MLIR, LLVM, PTX, Cubin, Bundle };

cl::OptionCategory category("flashcore-compile options");

/// Made on first use and not with the process: in the multi-call executable
/// other tools have options of the same names.
struct CommandLine {
  cl::opt<std::string> inputFile{cl::Positional, cl::desc("<input .mlir>"),
                                 cl::init("-"), cl::cat(category)};
  cl::opt<std::string> shape{
      "shape",
      cl::desc("Compile the attention that these words describe in place of a "
               "file, such as 'b1 h32/8 s4096 d128 bf16 causal'; they are "
               "listed below"),
      cl::value_desc("words"), cl::cat(category)};
  cl::extrahelp shapeWords{shapeHelp};
  cl::opt<std::string> outputFile{"o",
                                  cl::desc("Output file, or directory of a "
                                           "bundle; - is standard output"),
                                  cl::init("-"), cl::cat(category)};
  cl::opt<Emit> emitKind{
      "emit", cl::desc("What to write"), cl::init(Emit::PTX),
      cl::values(clEnumValN(Emit::Input, "input",
                            "the module that was read, or that --shape stands "
                            "for; nothing is compiled"),
                 clEnumValN(Emit::MLIR, "mlir", "LLVM and NVVM ops"),
                 clEnumValN(Emit::LLVM, "llvm", "optimised LLVM IR"),
                 clEnumValN(Emit::PTX, "ptx", "PTX"),
                 clEnumValN(Emit::Cubin, "cubin", "machine code, with ptxas"),
                 clEnumValN(Emit::Bundle, "bundle",
                            "a directory with PTX, cubin and manifest")),
      cl::cat(category)};
  cl::opt<std::string> ptxasPath{"ptxas", cl::desc("Path of ptxas"),
                                 cl::cat(category)};
  cl::opt<bool> noCubin{"no-cubin",
                        cl::desc("Write a bundle with PTX only; needs no "
                                 "ptxas"),
                        cl::cat(category)};
  cl::opt<bool> printPhases{"print-phases",
                            cl::desc("Print the IR after each phase to "
                                     "standard error"),
                            cl::cat(category)};
  cl::opt<bool> explainSchedule{
      "explain",
      cl::desc("Say on standard error what was chosen and why, what the "
               "kernel uses and what limits it"),
      cl::cat(category)};
  cl::opt<bool> timing{"timing",
                       cl::desc("Print the time of each phase to standard "
                                "error"),
                       cl::cat(category)};
  cl::opt<bool> verbose{"v", cl::desc("Say what the kernel uses"),
                        cl::cat(category)};

  template <typename T>
  using ScheduleOption = cl::opt<T, /*ExternalStorage=*/true>;
  /// The schedule: the options of flashcore-configure, under the same names.
  ConfigurePassOptions schedule;
  ScheduleOption<std::string> tuningFile{
      "tuning-file", cl::location(schedule.tuningFile),
      cl::desc("Schedules of flashcore-tune, for what the other options leave "
               "open"),
      cl::cat(category)};
  ScheduleOption<std::string> chip{
      "chip", cl::location(schedule.chip),
      cl::desc("Target chip: sm_80, sm_86, sm_89 or sm_90"), cl::init("sm_89"),
      cl::cat(category)};
  ScheduleOption<int64_t> blockM{"block-m", cl::location(schedule.blockM),
                                 cl::desc("Query rows per block; 0 chooses"),
                                 cl::cat(category)};
  ScheduleOption<int64_t> blockN{"block-n", cl::location(schedule.blockN),
                                 cl::desc("Key rows per tile; 0 chooses"),
                                 cl::cat(category)};
  ScheduleOption<int64_t> numWarps{"num-warps", cl::location(schedule.numWarps),
                                   cl::desc("Warps per block; 0 chooses"),
                                   cl::cat(category)};
  ScheduleOption<int64_t> numStages{"num-stages",
                                    cl::location(schedule.numStages),
                                    cl::desc("Slots of the K and V rings; 0 "
                                             "chooses"),
                                    cl::cat(category)};
  ScheduleOption<int64_t> minBlocks{
      "min-blocks", cl::location(schedule.minBlocks),
      cl::desc("Blocks an SM must hold at once; 0 chooses"), cl::cat(category)};
  ScheduleOption<std::string> query{
      "query", cl::location(schedule.query),
      cl::desc("Q fragments: registers, shared or split"), cl::cat(category)};
  ScheduleOption<int64_t> querySteps{
      "query-steps", cl::location(schedule.querySteps),
      cl::desc("Steps of 16 columns of a split Q in registers; 0 chooses"),
      cl::cat(category)};
  ScheduleOption<int64_t> gridHeads{
      "grid-heads", cl::location(schedule.gridHeads),
      cl::desc("Heads that take turns in order head_fastest, 1048576 for "
               "all; 0 chooses"),
      cl::cat(category)};
  ScheduleOption<std::string> gridOrder{
      "grid-order", cl::location(schedule.gridOrder),
      cl::desc("query_fastest or head_fastest"), cl::cat(category)};
  ScheduleOption<std::string> overlap{
      "overlap", cl::location(schedule.overlap),
      cl::desc("What runs beside softmax and P V: none or qk"),
      cl::cat(category)};
  ScheduleOption<std::string> rowMax{"row-max", cl::location(schedule.rowMax),
                                     cl::desc("exact, stale or folded"),
                                     cl::cat(category)};
  ScheduleOption<std::string> rowSum{"row-sum", cl::location(schedule.rowSum),
                                     cl::desc("add or mma"), cl::cat(category)};
  ScheduleOption<int64_t> keyWarps{
      "key-warps", cl::location(schedule.keyWarps),
      cl::desc("Warps that share query rows and divide the keys; 0 chooses"),
      cl::cat(category)};
  ScheduleOption<std::string> softmax{"softmax", cl::location(schedule.softmax),
                                      cl::desc("online or one_pass"),
                                      cl::cat(category)};
  ScheduleOption<int64_t> headGroup{
      "head-group", cl::location(schedule.headGroup),
      cl::desc("Query heads of one kv head per block; 0 chooses"),
      cl::cat(category)};
  ScheduleOption<int64_t> keySplits{
      "key-splits", cl::location(schedule.keySplits),
      cl::desc("Blocks that share the keys of a query tile; 0 chooses"),
      cl::cat(category)};
  ScheduleOption<std::string> grid{
      "grid", cl::location(schedule.grid),
      cl::desc("full, or persistent: blocks that walk several tiles"),
      cl::cat(category)};
};
llvm::ManagedStatic<CommandLine> options;

int usageError(const llvm::Twine &text) {
  llvm::errs() << "flashcore-compile: error: " << text << "\n";
  return 2;
}

/// An empty --shape is one, too: all defaults.
bool isShape() { return options->shape.getNumOccurrences() > 0; }

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> openInput() {
  if (!isShape()) {
    std::string message;
    auto file = openInputFile(options->inputFile, &message);
    if (!file)
      return llvm::createStringError(message);
    return file;
  }
  llvm::Expected<Shape> shape = parseShape(options->shape);
  if (!shape)
    return shape.takeError();
  return llvm::MemoryBuffer::getMemBufferCopy(writeShape(*shape), "--shape");
}

void printPhase(ModuleOp module, int number, llvm::StringRef name) {
  if (!options->printPhases)
    return;
  llvm::errs() << "// ----- phase " << number << ": " << name << " -----\n"
               << module << "\n";
}

/// Of each attention, in the order of the module, for --explain.
std::vector<Explanation> explanations;

/// `cubin` may be null; `kernel` is the attention kernel in it.
void printExplanations(const Cubin *cubin, StringRef kernel = "") {
  for (const Explanation &explanation : explanations)
    print(llvm::errs(), explanation, *lookupTarget(options->schedule.chip),
          cubin, kernel);
}

LogicalResult run(PassManager &pm, ModuleOp module) {
  // Once for all its passes: each run costs as much as a pass or two.
  pm.enableVerifier(false);
  return success(succeeded(applyPassManagerCLOptions(pm)) &&
                 succeeded(pm.run(module)) && succeeded(verify(module)));
}

/// Phases 1 to 7; tensors are bufferized before.
LogicalResult lower(ModuleOp module, TimingScope &timing) {
  MLIRContext *context = module.getContext();
  bool hasTensors = false;
  bool hasAttention = false;
  module.walk([&](AttentionOp op) {
    hasAttention = true;
    hasTensors |= !op.hasPureBufferSemantics();
  });
  if (!hasAttention)
    return module.emitError("holds no flashcore.attention to compile");
  printPhase(module, 0, "entry");
  if (hasTensors) {
    TimingScope step = timing.nest("Bufferization");
    PassManager pm(context);
    buildBufferizePipeline(pm);
    if (failed(run(pm, module)))
      return failure();
  }
  for (const Phase &phase : getPhases()) {
    TimingScope step = timing.nest(phase.name.data(), [&] {
      return llvm::formatv("Phase {0}: {1}", phase.number, phase.name);
    });
    PassManager pm(context);
    phase.build(pm, options->schedule);
    if (failed(run(pm, module)))
      return failure();
    step.stop();
    printPhase(module, phase.number, phase.name);
    if (options->explainSchedule && phase.number == 1)
      module.walk([&](AttentionOp op) {
        explanations.push_back(explain(op, options->schedule));
      });
  }
  return success();
}

int writeText(llvm::StringRef text) {
  std::string message;
  std::unique_ptr<llvm::ToolOutputFile> file =
      openOutputFile(options->outputFile, &message);
  if (!file)
    return usageError(message);
  file->os() << text;
  file->os().flush();
  if (file->os().has_error()) {
    file->os().clear_error();
    return usageError("cannot write '" + options->outputFile + "'");
  }
  file->keep();
  return 0;
}

/// A shape as it was written, with its names.
int emitInput(ModuleOp module, const llvm::SourceMgr &sources) {
  if (isShape())
    return writeText(
        sources.getMemoryBuffer(sources.getMainFileID())->getBuffer());
  std::string text;
  llvm::raw_string_ostream(text) << module << "\n";
  return writeText(text);
}

int fail(llvm::Error error) {
  llvm::errs() << "flashcore-compile: error: "
               << llvm::toString(std::move(error)) << "\n";
  return 1;
}

void report(const Cubin &cubin, llvm::StringRef kernel, int64_t sharedMemory) {
  KernelResources used = cubin.kernels.lookup(kernel);
  llvm::errs() << kernel << " on " << cubin.chip << ": " << used.registers
               << " registers, " << used.spillStores << " bytes spilled, "
               << sharedMemory << " bytes of shared memory (" << cubin.assembler
               << ")\n";
}

/// Everything behind PTX: cubin and bundle.
int emitBinary(gpu::GPUModuleOp module, std::string ptx,
               llvm::StringRef programPath, TimingScope &timing) {
  BundleContents contents;
  contents.kernels = getBundleKernels(module);
  if (!(options->noCubin && options->emitKind == Emit::Bundle)) {
    auto ptxas = findPtxas(options->ptxasPath, programPath);
    if (!ptxas)
      return fail(ptxas.takeError());
    TimingScope step = timing.nest("ptxas");
    auto cubin = assemble(*ptxas, ptx, options->schedule.chip);
    step.stop();
    if (!cubin)
      return fail(cubin.takeError());
    const std::string &attention = contents.kernels.front().name;
    printExplanations(&*cubin, attention);
    if (options->verbose)
      for (const BundleKernel &kernel : contents.kernels)
        report(*cubin, kernel.name,
               kernel.description.getAs<IntegerAttr>("shared_memory").getInt());
    if (options->emitKind == Emit::Cubin)
      return writeText(cubin->image);
    contents.cubins.push_back(std::move(*cubin));
  } else {
    printExplanations(/*cubin=*/nullptr);
  }
  contents.chip = options->schedule.chip;
  contents.ptx = std::move(ptx);
  if (llvm::Error error = writeBundle(options->outputFile, contents))
    return fail(std::move(error));
  return 0;
}

int emit(ModuleOp module, llvm::StringRef programPath, TimingScope &timing) {
  if (options->emitKind != Emit::Cubin && options->emitKind != Emit::Bundle)
    printExplanations(/*cubin=*/nullptr);
  if (options->emitKind == Emit::MLIR) {
    std::string text;
    llvm::raw_string_ostream(text) << module << "\n";
    return writeText(text);
  }
  // Kernels of others may stand beside ours; they are not our business.
  SmallVector<gpu::GPUModuleOp> kernels;
  for (auto gpuModule : module.getOps<gpu::GPUModuleOp>())
    if (llvm::any_of(*gpuModule.getBody(), [](Operation &op) {
          return op.hasAttr(fcgpu::kKernelAttrName);
        }))
      kernels.push_back(gpuModule);
  if (kernels.size() != 1) {
    module.emitError(
        "expects one kernel for --emit=llvm, ptx, cubin or bundle, "
        "but got ")
        << kernels.size() << "; use --emit=mlir";
    return 1;
  }
  auto text =
      emitPTX(kernels.front(), options->schedule.chip,
              options->emitKind == Emit::LLVM ? PTXStage::LLVM : PTXStage::PTX,
              timing.nest("PTX"));
  if (failed(text))
    return 1;
  if (options->emitKind == Emit::LLVM || options->emitKind == Emit::PTX)
    return writeText(*text);
  return emitBinary(kernels.front(), std::move(*text), programPath, timing);
}
} // namespace

int flashcoreCompileMain(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  (void)*options; // registers them
  registerPassManagerCLOptions();
  cl::HideUnrelatedOptions(category);
  cl::SetVersionPrinter([](llvm::raw_ostream &os) {
    os << "flashcore " FLASHCORE_VERSION ", LLVM " LLVM_VERSION_STRING "\n";
  });
  cl::ParseCommandLineOptions(
      argc, argv, "Compiles a flashcore.attention to a GPU kernel\n");
  if (!lookupTarget(options->schedule.chip))
    return usageError(unknownChipMessage(options->schedule.chip));
  if (isShape() && options->inputFile.getNumOccurrences())
    return usageError("expects either --shape or an input file, but got both");
  if (options->outputFile == "-" && options->emitKind == Emit::Bundle)
    return usageError("a bundle is a directory: name it with -o");

  DefaultTimingManager timer;
  timer.setEnabled(options->timing);
  TimingScope timing = timer.getRootScope();
  TimingScope parsing = timing.nest("Parser");
  DialectRegistry registry;
  registerAllDialects(registry);
  registerPTXTranslations(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false); // a whole module says little in an error
  auto file = openInput();
  if (!file)
    return usageError(llvm::toString(file.takeError()));
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(*file), llvm::SMLoc());
  SourceMgrDiagnosticHandler diagnostics(sources, &context);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  parsing.stop();
  if (!module)
    return 1;
  if (options->emitKind == Emit::Input)
    return emitInput(*module, sources);
  if (failed(lower(*module, timing)))
    return 1;
  std::string programPath = llvm::sys::fs::getMainExecutable(
      argv[0], reinterpret_cast<void *>(&usageError));
  return emit(*module, programPath, timing);
}
