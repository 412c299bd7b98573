//===- DistributeRoles.cpp - Each warp its program ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Who only fills rings parts from the others once, since registers change hands
// there: a second walk over the tiles stands on both sides, behind a test that
// both make.
//
//===----------------------------------------------------------------------===//

#include "DistributeRoles.h"
#include "flashcore/Target/TargetInfo.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::fcgpu;

static void shareRegisters(scf::IfOp sides, const Launch &launch,
                           const WarpRoles &roles,
                           const flashcore::TargetInfo &target) {
  bool readsPages = sides.getElseRegion()
                        .walk([](CopyOp copy) {
                          return copy.getSource().getDefiningOp<ViewPagesOp>()
                                     ? WalkResult::interrupt()
                                     : WalkResult::advance();
                        })
                        .wasInterrupted();
  flashcore::RegisterShares shares = flashcore::getRegisterShares(
      target, launch.numBlocks, roles.getNumConsumers(),
      launch.numThreads - roles.getNumConsumers(), readsPages);
  if (shares.ofConsumer <= shares.atLaunch)
    return;
  using Action = NVVM::SetMaxRegisterAction;
  for (auto [block, count, action] :
       {std::tuple(sides.thenBlock(), shares.ofConsumer, Action::increase),
        {sides.elseBlock(), shares.ofProducer, Action::decrease}}) {
    auto b = OpBuilder::atBlockBegin(block);
    NVVM::SetMaxRegisterOp::create(b, sides.getLoc(),
                                   static_cast<uint32_t>(count), action);
  }
}

/// Programs become branches of the thread that runs them, or are run by all of
/// the warp, where each lane copies a part.
static void runPrograms(scf::IfOp sides, Value isFirst) {
  SmallVector<ProduceOp> programs;
  sides.getElseRegion().walk(
      [&](ProduceOp program) { programs.push_back(program); });
  for (ProduceOp program : programs) {
    OpBuilder b(program);
    Operation *end = program;
    if (isFirst)
      end = scf::IfOp::create(b, program.getLoc(), isFirst,
                              /*withElseRegion=*/false)
                .thenBlock()
                ->getTerminator();
    end->getBlock()->getOperations().splice(
        end->getIterator(), program.getBody().front().getOperations());
    program.erase();
  }
}

/// Of the warps that only fill rings, one does: the others are there since
/// registers change hands by warpgroups, and are done.
static void keepOneWarp(scf::IfOp sides, const ThreadContext &context,
                        const WarpRoles &roles) {
  Block *block = sides.elseBlock();
  IndexBuilder b(sides.getLoc(), sides);
  b.setInsertionPointToStart(block);
  Value fills = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, context.warp,
                                      b.index(roles.numWarps));
  auto ifOp = scf::IfOp::create(b, fills, /*withElseRegion=*/false);
  Block *own = ifOp.thenBlock();
  own->getOperations().splice(
      own->getTerminator()->getIterator(), block->getOperations(),
      std::next(ifOp->getIterator()), block->getTerminator()->getIterator());
}

template <typename Op> static void eraseAll(Region &region) {
  SmallVector<Op> ops;
  region.walk([&](Op op) { ops.push_back(op); });
  for (Op op : ops)
    op.erase();
}

void mlir::fcgpu::separateRoles(gpu::GPUFuncOp kernel, const Launch &launch,
                                const WarpRoles &roles,
                                const ThreadContext &context) {
  Block &entry = kernel.getBody().front();
  auto programs = entry.getOps<ProduceOp>();
  if (programs.empty())
    return;
  // Both sides name the same rings.
  kernel.walk([&](AllocRingOp alloc) {
    if (alloc->getBlock() != &entry)
      alloc->moveBefore(*programs.begin());
  });
  SmallVector<Operation *> ops;
  for (auto it = (*programs.begin())->getIterator();
       &*it != entry.getTerminator(); ++it)
    ops.push_back(&*it);
  IndexBuilder b(ops.front()->getLoc(), ops.front());
  Value numConsumers = b.index(roles.getNumConsumers());
  Value consumes = b.lessThan(context.warp, b.index(roles.numWarps));
  auto sides = scf::IfOp::create(b, consumes, /*withElseRegion=*/true);
  b.setInsertionPointToStart(sides.elseBlock());
  Value isFirst;
  if (launch.producerWarps > 1)
    isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, context.thread,
                                    numConsumers);
  IRMapping mapping;
  for (Operation *op : ops) {
    if (isa<ProduceOp>(op)) {
      op->moveBefore(sides.elseBlock()->getTerminator());
      continue;
    }
    if (!isa<scf::ForallOp>(op)) {
      b.setInsertionPoint(sides.elseBlock()->getTerminator());
      b.clone(*op, mapping);
    }
    op->moveBefore(sides.thenBlock()->getTerminator());
  }
  eraseAll<ProduceOp>(sides.getThenRegion());
  eraseAll<scf::ForallOp>(sides.getElseRegion());
  runPrograms(sides, isFirst);
  if (context.numInRoles)
    keepOneWarp(sides, context, roles);
  if (launch.producerWarps == kWarpsOfGroup)
    shareRegisters(sides, launch, roles, *context.target);
}

static Value getFlag(IndexBuilder &b, const ThreadContext &context,
                     Value flag) {
  auto bytes = cast<MemRefType>(context.sharedMemory.getType());
  auto type = MemRefType::get({1}, b.getI32Type(), MemRefLayoutAttrInterface(),
                              bytes.getMemorySpace());
  return memref::ViewOp::create(b, type, context.sharedMemory,
                                b.index(context.flagOffsets.lookup(flag)),
                                ValueRange());
}

static void setFlag(IndexBuilder &b, const ThreadContext &context, Value flag,
                    int32_t value) {
  Value word = arith::ConstantOp::create(b, b.getI32IntegerAttr(value));
  memref::StoreOp::create(b, word, getFlag(b, context, flag), b.index(0));
}

void mlir::fcgpu::initializeFlags(IndexBuilder &b,
                                  const ThreadContext &context) {
  for (const auto &entry : context.flagOffsets)
    setFlag(b, context, entry.first, 0);
}

void mlir::fcgpu::lowerFlags(gpu::GPUFuncOp kernel,
                             const ThreadContext &context) {
  kernel.walk([&](RaiseOp op) {
    IndexBuilder b(op.getLoc(), op);
    // Of equal words it does not matter which lane's is written.
    auto ifOp =
        scf::IfOp::create(b, op.getCondition(), /*withElseRegion=*/false);
    b.setInsertionPointToStart(ifOp.thenBlock());
    setFlag(b, context, op.getFlag(), 1);
    op.erase();
  });
  kernel.walk([&](TestFlagOp op) {
    IndexBuilder b(op.getLoc(), op);
    meetBlock(b, context, /*meeting=*/0);
    Value word = memref::LoadOp::create(b, getFlag(b, context, op.getFlag()),
                                        b.index(0));
    Value zero = arith::ConstantOp::create(b, b.getI32IntegerAttr(0));
    op.replaceAllUsesWith(
        arith::CmpIOp::create(b, arith::CmpIPredicate::ne, word, zero)
            .getResult());
    op.erase();
  });
  kernel.walk([](AllocFlagOp op) { op.erase(); });
}
