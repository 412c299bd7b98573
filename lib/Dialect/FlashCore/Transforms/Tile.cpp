//===- Tile.cpp - Phase 2: ops as kernels ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns each op that becomes kernels into functions and their launches. Kernels
// are built here, not outlined, so that their arguments are the ones the
// manifest lists. Which kernels there are says the op (KernelOpInterface).
//
//===----------------------------------------------------------------------===//

#include "ProgramDescription.h"
#include "ProgramLaunches.h"
#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "flashcore/Dialect/FlashCore/Transforms/GPUTarget.h"
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/Support/Debug.h"

#define DEBUG_TYPE "flashcore-tile"

namespace mlir::flashcore {
#define GEN_PASS_DEF_TILEPASS
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h.inc"
} // namespace mlir::flashcore

using namespace mlir;
using namespace mlir::flashcore;

/// The functions of a program's kernels.
using Functions = SmallVector<gpu::GPUFuncOp>;

/// All that the functions of an op's programs depend on: equal ops share them.
static ArrayAttr getKey(const OpPrograms &op) {
  Builder b(op.op->getContext());
  SmallVector<Attribute> key;
  for (const KernelProgram &program : op.programs) {
    key.push_back(b.getStringAttr(program.chip));
    for (const Kernel &kernel : program.kernels) {
      key.push_back(program.sizes->describeKernel(
          b.getContext(), kernel.arguments, kernel.launch));
      key.push_back(kernel.schedule ? Attribute(kernel.schedule)
                                    : b.getUnitAttr());
    }
  }
  key.push_back(
      describeProgram(b.getContext(), op, [](auto...) { return ""; }));
  return b.getArrayAttr(key);
}

/// Makes the functions of a program at the end of `module`. Other ops of it may
/// have kernels of the same name.
static Functions buildKernels(gpu::GPUModuleOp module, KernelOpInterface op,
                              const KernelProgram &program) {
  ImplicitLocOpBuilder b(dropDebugInfo(op.getLoc()), op);
  SymbolTable symbols(module);
  Functions functions;
  for (const Kernel &kernel : program.kernels) {
    b.setInsertionPointToEnd(module.getBody());
    std::string name = (program.name + kernel.suffix).str();
    KernelFrame frame(b, *program.sizes, kernel.arguments, name,
                      kernel.launch.numThreads,
                      program.sizes->describeKernel(
                          op.getContext(), kernel.arguments, kernel.launch));
    symbols.insert(frame.getFunc());
    if (kernel.schedule)
      frame.getFunc()->setAttr(fcgpu::kScheduleAttrName, kernel.schedule);
    kernel.buildBody(frame);
    functions.push_back(frame.getFunc());
    LLVM_DEBUG(llvm::dbgs()
               << "flashcore-tile: " << frame.getFunc().getName() << " of "
               << op->getName() << " takes " << kernel.arguments.size()
               << " arguments, " << kernel.launch.numThreads << " threads and "
               << kernel.launch.sharedMemory << " bytes of shared memory\n");
  }
  return functions;
}

/// Launches of all kernels of an op, in its place: where there are two
/// programs, the second is for the calls that it says.
static void replaceByLaunches(KernelOpInterface op,
                              ArrayRef<KernelProgram> programs,
                              ArrayRef<Functions> functions) {
  ImplicitLocOpBuilder b(dropDebugInfo(op.getLoc()), op);
  if (programs.size() == 1) {
    ProgramLaunches(b, programs[0]).build(functions[0]);
  } else {
    Value isOther = ProgramLaunches(b, programs[1]).buildTest();
    auto branch = scf::IfOp::create(b, isOther, /*withElseRegion=*/true);
    b.setInsertionPointToStart(branch.thenBlock());
    ProgramLaunches(b, programs[1]).build(functions[1]);
    b.setInsertionPointToStart(branch.elseBlock());
    ProgramLaunches(b, programs[0]).build(functions[0]);
  }
  op->erase();
}

namespace {
struct TilePass final : mlir::flashcore::impl::TilePassBase<TilePass> {
  void getDependentDialects(DialectRegistry &registry) const override {
    TilePassBase::getDependentDialects(registry);
    // Whoever embeds the pass need not know of it.
    registerKernelOpInterfaceExternalModels(registry);
  }

  /// A module for the kernels of `ops`, whose name is that of the function
  /// where they are several.
  void buildModule(ArrayRef<OpPrograms> ops) {
    const OpPrograms &first = ops.front();
    const KernelProgram &program = first.programs.front();
    bool isOfFunction = ops.size() > 1;
    StringRef name = isOfFunction
                         ? SymbolTable::getSymbolName(
                               first.op->getParentOfType<FunctionOpInterface>())
                               .getValue()
                         : StringRef(program.name);
    OpBuilder b = OpBuilder::atBlockEnd(getOperation().getBody());
    auto module = gpu::GPUModuleOp::create(
        b, dropDebugInfo(first.op->getLoc()),
        isOfFunction ? (name + "_kernels").str() : name.str(),
        createGPUTargets(getOperation(), program.chip));
    SymbolTable(getOperation()).insert(module);
    // Ops that differ in their tensors alone share their kernels.
    DenseMap<ArrayAttr, std::vector<Functions>> built;
    std::vector<std::vector<Functions>> functions;
    for (const OpPrograms &op : ops) {
      std::vector<Functions> &ofOp = built[getKey(op)];
      if (ofOp.empty())
        for (const KernelProgram &each : op.programs) {
          ofOp.push_back(buildKernels(module, op.op, each));
          numKernels += ofOp.back().size();
        }
      functions.push_back(ofOp);
    }
    module->setAttr(
        fcgpu::kProgramAttrName,
        describeProgram(&getContext(), ops,
                        [&](unsigned op, unsigned program, unsigned kernel) {
                          return functions[op][program][kernel].getName();
                        }));
    for (auto [op, ofOp] : llvm::zip_equal(ops, functions))
      functionsOf[op.op] = ofOp;
  }

  /// Makes the kernels of the ops of one program.
  void buildProgram(ArrayRef<OpPrograms> ops) {
    if (ops.size() > 1)
      return buildModule(ops);
    // Equal programs of one op share a module.
    KernelOpInterface &known = built[getKey(ops.front())];
    if (known) {
      functionsOf[ops.front().op] = functionsOf[known];
      return;
    }
    known = ops.front().op;
    buildModule(ops);
  }

  void runOnOperation() override {
    SmallVector<KernelOpInterface> ops;
    bool anyFailed = false;
    getOperation().walk([&](Operation *op) {
      if (isa<TileOpInterface>(op) && !op->getParentOfType<gpu::GPUFuncOp>())
        anyFailed |= failed(
            op->emitOpError("is a tile, but stands outside of a kernel"));
      auto kernelOp = dyn_cast<KernelOpInterface>(op);
      if (!kernelOp)
        return;
      anyFailed |= failed(checkIsOnHost(op, getOperation())) ||
                   failed(kernelOp.checkKernels());
      ops.push_back(kernelOp);
    });
    if (anyFailed)
      return signalPassFailure();
    // All of them are there before the first goes, since what is one program is
    // found in the function.
    std::vector<std::vector<OpPrograms>> programs;
    for (KernelOpInterface op : ops) {
      SmallVector<KernelOpInterface> together =
          findProgram(op->getParentOfType<FunctionOpInterface>());
      if (together.empty() || together.front() == op)
        programs.emplace_back();
      castToDefaultSpace(op);
      programs.back().push_back({op, op.getPrograms()});
    }
    for (ArrayRef<OpPrograms> program : programs)
      buildProgram(program);
    for (ArrayRef<OpPrograms> program : programs)
      for (const OpPrograms &op : program)
        replaceByLaunches(op.op, op.programs, functionsOf[op.op]);
    functionsOf.clear();
    built.clear();
    if (!ops.empty())
      getOperation()->setAttr(gpu::GPUDialect::getContainerModuleAttrName(),
                              UnitAttr::get(&getContext()));
  }

  DenseMap<Operation *, std::vector<Functions>> functionsOf;
  DenseMap<ArrayAttr, KernelOpInterface> built;
};
} // namespace
