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

/// Which calls launch a kernel, as a manifest says it.
static std::string describe(const KernelProgram &program) {
  const CallCondition &condition = program.condition;
  std::string number = program.sizes->print(condition.number);
  return condition.most ? number + " <= " + std::to_string(*condition.most)
                        : number + " >= " + std::to_string(condition.least);
}

/// What the main kernel says of the program: the op, its tensors and sizes,
/// what is computed once a call, and the workspace.
static void addProgram(NamedAttrList &kernel, KernelOpInterface op,
                       const KernelProgram &program) {
  Builder b(op.getContext());
  kernel.set("op", b.getStringAttr(op->getName().stripDialect()));
  kernel.set("attributes",
             program.attributes ? program.attributes : b.getDictionaryAttr({}));
  kernel.append(program.sizes->describeProblem(b.getContext()));
  auto print = [&](const SizeFormula &formula) {
    return b.getStringAttr(program.sizes->print(formula));
  };
  SmallVector<Attribute> values, workspace;
  for (const ProgramValue &value : program.values)
    values.push_back(b.getDictionaryAttr(
        {b.getNamedAttr("name",
                        b.getStringAttr(program.sizes->getName(value.size))),
         b.getNamedAttr("is", print(value.is))}));
  for (const SizeFormula &bytes : program.workspace)
    workspace.push_back(print(bytes));
  if (!values.empty())
    kernel.set("values", b.getArrayAttr(values));
  if (!workspace.empty())
    kernel.set("workspace", b.getArrayAttr(workspace));
}

/// `fcgpu.kernel` of a kernel.
static DictionaryAttr describe(KernelOpInterface op,
                               const KernelProgram &program,
                               const Kernel &kernel) {
  MLIRContext *context = op.getContext();
  NamedAttrList result =
      program.sizes->describeKernel(context, kernel.arguments, kernel.launch);
  if (!program.condition.isAlways())
    result.set("when", StringAttr::get(context, describe(program)));
  if (kernel.suffix.empty())
    addProgram(result, op, program);
  return result.getDictionary(context);
}

/// All that the functions of an op's programs depend on.
static ArrayAttr getKey(KernelOpInterface op,
                        ArrayRef<KernelProgram> programs) {
  Builder b(op.getContext());
  SmallVector<Attribute> key;
  for (const KernelProgram &program : programs) {
    key.push_back(b.getStringAttr(program.chip));
    for (const Kernel &kernel : program.kernels) {
      key.push_back(describe(op, program, kernel));
      key.push_back(kernel.schedule ? Attribute(kernel.schedule)
                                    : b.getUnitAttr());
    }
  }
  return b.getArrayAttr(key);
}

/// Makes the functions at the end of `module`.
static Functions buildKernels(gpu::GPUModuleOp module, KernelOpInterface op,
                              const KernelProgram &program) {
  ImplicitLocOpBuilder b(dropDebugInfo(op.getLoc()), op);
  Functions functions;
  for (const Kernel &kernel : program.kernels) {
    b.setInsertionPointToEnd(module.getBody());
    std::string name = (program.name + kernel.suffix).str();
    KernelFrame frame(b, *program.sizes, kernel.arguments, name,
                      kernel.launch.numThreads, describe(op, program, kernel));
    if (kernel.schedule)
      frame.getFunc()->setAttr(fcgpu::kScheduleAttrName, kernel.schedule);
    kernel.buildBody(frame);
    functions.push_back(frame.getFunc());
    LLVM_DEBUG(llvm::dbgs()
               << "flashcore-tile: " << name << " of " << op->getName()
               << " takes " << kernel.arguments.size() << " arguments, "
               << kernel.launch.numThreads << " threads and "
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

  std::vector<Functions> buildFunctions(KernelOpInterface op,
                                        ArrayRef<KernelProgram> programs) {
    const KernelProgram &first = programs.front();
    OpBuilder b = OpBuilder::atBlockEnd(getOperation().getBody());
    auto module =
        gpu::GPUModuleOp::create(b, dropDebugInfo(op.getLoc()), first.name,
                                 createGPUTargets(getOperation(), first.chip));
    SymbolTable(getOperation()).insert(module);
    std::vector<Functions> functions;
    for (const KernelProgram &program : programs) {
      functions.push_back(buildKernels(module, op, program));
      numKernels += functions.back().size();
    }
    return functions;
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
    // Equal ops share their kernels.
    DenseMap<ArrayAttr, std::vector<Functions>> built;
    for (KernelOpInterface op : ops) {
      castToDefaultSpace(op);
      std::vector<KernelProgram> programs = op.getPrograms();
      std::vector<Functions> &functions = built[getKey(op, programs)];
      if (functions.empty())
        functions = buildFunctions(op, programs);
      replaceByLaunches(op, programs, functions);
    }
    if (!ops.empty())
      getOperation()->setAttr(gpu::GPUDialect::getContainerModuleAttrName(),
                              UnitAttr::get(&getContext()));
  }
};
} // namespace
