//===- toy-compile.cpp - From the toy dialect to PTX ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads a module with one toy.sdpa of static sizes and writes its kernel as PTX
// to the standard output. The first line says how to launch it.
//
//===----------------------------------------------------------------------===//

#include "Toy.h"
#include "flashcore/InitAll.h"
#include "flashcore/Pipelines/Pipelines.h"
#include "flashcore/Target/PTX.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/InitLLVM.h"

using namespace mlir;

static LogicalResult lower(ModuleOp module, StringRef chip) {
  PassManager pm(module.getContext());
  pm.addPass(toy::createToyToFlashCorePass());
  flashcore::buildBufferizePipeline(pm);
  flashcore::ConfigurePassOptions schedule;
  schedule.chip = chip.str();
  flashcore::buildLowerToNVVMPipeline(pm, schedule);
  return pm.run(module);
}

/// The host code calls the kernel by a gpu.launch_func, which a compiler would
/// lower with the rest of the host code. Sizes are constants here.
static void printLaunch(gpu::LaunchFuncOp launch) {
  auto constant = [](Value value) {
    APInt number;
    return matchPattern(value, m_ConstantInt(&number)) ? number.getSExtValue()
                                                       : -1;
  };
  llvm::outs() << "// launch: --grid " << constant(launch.getGridSizeX())
               << " --block " << constant(launch.getBlockSizeX())
               << " --shared " << constant(launch.getDynamicSharedMemorySize())
               << "\n";
}

static LogicalResult compile(StringRef file, StringRef chip) {
  DialectRegistry registry;
  registry.insert<toy::ToyDialect>();
  flashcore::registerAllDialects(registry);
  flashcore::registerPTXTranslations(registry);
  MLIRContext context(registry);

  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(file, &context);
  if (!module || failed(lower(*module, chip)))
    return failure();
  SmallVector<gpu::LaunchFuncOp> launches;
  module->walk([&](gpu::LaunchFuncOp op) { launches.push_back(op); });
  if (launches.size() != 1)
    return module->emitError("expects one toy.sdpa, but got ")
           << launches.size();
  auto kernel = module->lookupSymbol<gpu::GPUModuleOp>(
      launches.front().getKernelModuleName());
  FailureOr<std::string> ptx =
      flashcore::emitPTX(kernel, chip, flashcore::PTXStage::PTX);
  if (failed(ptx))
    return failure();
  printLaunch(launches.front());
  llvm::outs() << *ptx;
  return success();
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  if (argc != 3) {
    llvm::errs() << "usage: toy-compile FILE.mlir CHIP\n";
    return 2;
  }
  return failed(compile(argv[1], argv[2]));
}
