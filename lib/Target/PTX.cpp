//===- PTX.cpp - From NVVM ops to PTX -------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Translation to LLVM IR, its passes and the NVPTX backend, in the process. Own
// code and not upstream's gpu-module-to-binary because that one offers neither
// a choice of passes nor ptxas' report; docs/Embedding.md compares the two.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Target/PTX.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Target/Bundle.h"
#include "flashcore/Target/TargetInfo.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/OptBisect.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

using namespace mlir;
using namespace mlir::flashcore;

void mlir::flashcore::registerPTXTranslations(DialectRegistry &registry) {
  registerBuiltinDialectTranslation(registry);
  registerGPUDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
}

/// Initialises the backend once in the life of the process.
static void initializeBackend() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

namespace {
struct BackendFlag {
  llvm::StringLiteral name;
  llvm::cl::opt<bool> *option = nullptr;
  bool before = false;
};

/// Options of the backend that it offers on a command line only, set while one
/// of these exists. The rest of the process gets them back as they were.
class BackendOptions {
public:
  BackendOptions() {
    std::lock_guard<std::mutex> lock(mutex);
    if (numUsers++)
      return;
    auto &options = llvm::cl::getRegisteredOptions();
    for (BackendFlag &flag : flags) {
      auto it = options.find(flag.name);
      if (it == options.end())
        continue;
      flag.option = static_cast<llvm::cl::opt<bool> *>(it->second);
      flag.before = flag.option->getValue();
      flag.option->setValue(true);
    }
  }
  ~BackendOptions() {
    std::lock_guard<std::mutex> lock(mutex);
    if (--numUsers)
      return;
    for (BackendFlag &flag : flags)
      if (flag.option)
        flag.option->setValue(flag.before);
  }

private:
  static inline std::mutex mutex;
  static inline unsigned numUsers = 0;
  static inline BackendFlag flags[] = {
      // 32-bit addresses of shared memory: half the registers for them.
      {"nvptx-short-ptr"},
      // From sm_100 on LLVM pairs f32 in 64-bit registers, which takes moves
      // and registers (174 for 168 of a thread, at head_dim 16).
      {"nvptx-no-f32x2"}};
};
} // namespace

/// What of O3 changes a kernel: it has no calls, no memory of its own and no
/// loop to unroll or vectorize. The order is O3's, but that expressions are
/// shared before anything counts their uses.
static constexpr llvm::StringLiteral kPipeline =
    "function(early-cse<>),ipsccp,"
    "function(simplifycfg,instcombine<no-verify-fixpoint>,early-cse<memssa>,"
    "correlated-propagation,reassociate,loop-mssa(loop-rotate,licm),"
    "instcombine<no-verify-fixpoint>,loop(indvars),simplifycfg)";

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager callGraph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(callGraph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, callGraph, modules);
  llvm::ModulePassManager pipeline;
  llvm::cantFail(builder.parsePassPipeline(pipeline, kPipeline));
  pipeline.run(module, modules);
}

namespace {
struct BackendGate final : llvm::OptPassGate {
  explicit BackendGate(BackendTraits traits) : traits(traits) {}
  bool isEnabled() const override { return true; }
  bool shouldRunPass(llvm::StringRef pass, llvm::StringRef) const override {
    return isWorthRunning(pass, traits);
  }

  BackendTraits traits;
};
} // namespace

/// The two passes by the names that LLVM gives to a gate: a function's pass its
/// argument, a loop's its title.
bool mlir::flashcore::isWorthRunning(llvm::StringRef pass,
                                     BackendTraits traits) {
  // Compares all pairs of addresses, of which sizes known at run time only make
  // many, and finds next to nothing in them.
  if (pass == "slsr")
    return !traits.hasDynamicSizes;
  // Worth 3 % of speed, but where the ends of all loops over keys differ by
  // constants it takes longer than ptxas, for as many registers.
  if (pass == "Loop Strength Reduction")
    return !traits.seesOneKey;
  return true;
}

bool mlir::flashcore::seesOneKey(DictionaryAttr op) {
  auto attributes = op.getAs<DictionaryAttr>("attributes");
  if (!attributes)
    return false;
  auto isZero = [&](StringRef name) {
    auto keys = attributes.getAs<IntegerAttr>(name);
    return keys && keys.getInt() == 0;
  };
  auto causal = attributes.getAs<StringAttr>("causal");
  return isZero("window_left") &&
         (isZero("window_right") || (causal && causal == "bottom_right"));
}

static bool isKernelOfDynamicSizes(const llvm::Function &function) {
  return !function.isDeclaration() &&
         llvm::any_of(function.args(), [](const llvm::Argument &argument) {
           return argument.getType()->isIntegerTy();
         });
}

namespace {
/// Says at `op` what LLVM has to say. By itself LLVM would write it to the
/// error stream, and end the process on an error.
struct DiagnosticForwarder final : llvm::DiagnosticHandler {
  explicit DiagnosticForwarder(Operation *op) : op(op) {}

  bool handleDiagnostics(const llvm::DiagnosticInfo &info) override {
    std::string text;
    llvm::raw_string_ostream os(text);
    llvm::DiagnosticPrinterRawOStream printer(os);
    info.print(printer);
    if (info.getSeverity() == llvm::DS_Error)
      op->emitError("LLVM refuses the kernel: ") << text;
    else if (info.getSeverity() == llvm::DS_Warning)
      op->emitWarning("LLVM says of the kernel: ") << text;
    return true;
  }

  Operation *op;
};
} // namespace

static std::unique_ptr<llvm::Module> translate(gpu::GPUModuleOp gpuModule,
                                               llvm::LLVMContext &context) {
  // Its own verification writes to the error stream.
  std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(
      gpuModule, context, gpuModule.getName(), /*disableVerification=*/true);
  if (!module) {
    gpuModule.emitError("cannot be translated to LLVM IR");
    return nullptr;
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  if (!llvm::verifyModule(*module, &os))
    return module;
  gpuModule.emitError("is translated to LLVM IR that is wrong: ")
      << StringRef(text).rtrim();
  return nullptr;
}

/// `module` gets the triple and the data layout of the result.
static std::unique_ptr<llvm::TargetMachine>
createTargetMachine(llvm::Module &module, const TargetInfo &info,
                    unsigned ptxVersion, std::string &error) {
  llvm::Triple triple("nvptx64-nvidia-cuda");
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, info.chip, getPTXFeature(ptxVersion), llvm::TargetOptions(),
      std::nullopt, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  module.setTargetTriple(triple);
  module.setDataLayout(machine->createDataLayout());
  return machine;
}

FailureOr<std::string> mlir::flashcore::emitPTX(gpu::GPUModuleOp gpuModule,
                                                llvm::StringRef chip,
                                                PTXStage stage,
                                                TimingScope timing) {
  const TargetInfo *info = lookupTarget(chip);
  if (!info)
    return gpuModule.emitError(unknownChipMessage(chip)), failure();
  TimingScope step = timing.nest("Translation to LLVM IR");
  initializeBackend();
  BackendOptions options;

  llvm::LLVMContext context;
  context.setDiagnosticHandler(
      std::make_unique<DiagnosticForwarder>(gpuModule));
  std::unique_ptr<llvm::Module> module = translate(gpuModule, context);
  if (!module)
    return failure();

  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine = createTargetMachine(
      *module, *info,
      getPTXVersion(*info, fcgpu::getNeededPTXVersion(gpuModule)), error);
  if (!machine)
    return gpuModule.emitError("LLVM has no NVPTX backend: ") << error,
           failure();
  step.stop();
  step = timing.nest("LLVM passes");
  optimize(*module, *machine);
  step.stop();

  if (stage == PTXStage::LLVM) {
    std::string text;
    llvm::raw_string_ostream(text) << *module;
    return text;
  }
  step = timing.nest("NVPTX backend");
  auto program =
      gpuModule->getAttrOfType<DictionaryAttr>(fcgpu::kProgramAttrName);
  BackendGate gate({llvm::any_of(*module, isKernelOfDynamicSizes),
                    llvm::any_of(getProgramOps(program), seesOneKey)});
  context.setOptPassGate(gate);
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream os(text);
  llvm::legacy::PassManager codegen;
  if (machine->addPassesToEmitFile(codegen, os, nullptr,
                                   llvm::CodeGenFileType::AssemblyFile))
    return gpuModule.emitError("LLVM cannot emit PTX for ") << chip, failure();
  codegen.run(*module);
  if (context.getDiagHandlerPtr()->HasErrors)
    return failure();
  return getLaunchComment(program, getBundleKernels(gpuModule)) +
         std::string(text);
}
