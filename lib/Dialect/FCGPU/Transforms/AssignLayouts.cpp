//===- AssignLayouts.cpp - Phase 6: which lane holds what -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Puts tiles that must share a layout into one class (union-find over SSA
// values), lets contractions fix the layout of their operands' classes, and
// writes the outcome onto the ops.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/EquivalenceClasses.h"

namespace mlir::fcgpu {
#define GEN_PASS_DEF_ASSIGNLAYOUTSPASS
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h.inc"
} // namespace mlir::fcgpu

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
/// Width of the operands of mma.sync: two elements a lane and core row.
constexpr int64_t kMmaWidth = 2;
/// Width of shares on their way to memory: 16 bytes of 16-bit elements a lane.
constexpr int64_t kStoreWidth = 8;

bool isTile(Value value) {
  auto type = dyn_cast<VectorType>(value.getType());
  return type && type.getRank() >= 2;
}

class LayoutSolver {
public:
  explicit LayoutSolver(gpu::GPUFuncOp func) : func(func) {}

  LogicalResult solve() {
    func.walk([&](Operation *op) { connect(op); });
    WalkResult result = func.walk([&](Operation *op) {
      return failed(seed(op)) ? WalkResult::interrupt() : WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  FragmentAttr getLayout(Value value) const {
    FragmentOrder order = FragmentOrder::Row;
    int64_t width = kMmaWidth;
    auto leader = classes.findLeader(value.getAsOpaquePointer());
    if (leader != classes.member_end()) {
      if (auto it = orders.find(*leader); it != orders.end())
        order = it->second;
      if (auto it = widths.find(*leader); it != widths.end())
        width = it->second;
    }
    return FragmentAttr::get(value.getContext(), order, width);
  }

private:
  /// Splat constants fit any layout, so they connect nothing.
  static bool isFree(Value value) {
    return !isTile(value) || matchPattern(value, m_Constant());
  }
  void unite(Value a, Value b) {
    if (!isFree(a) && !isFree(b))
      classes.unionSets(a.getAsOpaquePointer(), b.getAsOpaquePointer());
  }
  void uniteAll(ValueRange a, ValueRange b) {
    for (auto [x, y] : llvm::zip_equal(a, b))
      unite(x, y);
  }

  void connect(Operation *op) {
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      uniteAll(loop.getInitArgs(), loop.getRegionIterArgs());
      uniteAll(loop.getYieldedValues(), loop.getRegionIterArgs());
      uniteAll(loop.getResults(), loop.getRegionIterArgs());
    } else if (auto ifOp = dyn_cast<scf::IfOp>(op)) {
      if (ifOp.getNumResults() == 0)
        return;
      uniteAll(ifOp.thenYield().getOperands(), ifOp.getResults());
      uniteAll(ifOp.elseYield().getOperands(), ifOp.getResults());
    } else if (auto contract = dyn_cast<vector::ContractionOp>(op)) {
      unite(contract.getAcc(), contract.getResult());
    } else if (isa<MapScoresOp, vector::ShapeCastOp,
                   vector::MultiDimReductionOp>(op) ||
               OpTrait::hasElementwiseMappableTraits(op)) {
      for (Value operand : op->getOperands())
        unite(operand, op->getResult(0));
    }
  }

  LogicalResult fix(Operation *op, StringRef name, Value value,
                    FragmentOrder order) {
    if (isFree(value))
      return success();
    const void *leader =
        classes.getOrInsertLeaderValue(value.getAsOpaquePointer());
    auto [it, inserted] = orders.try_emplace(leader, order);
    if (!inserted && it->second != order)
      return op->emitOpError("needs its ")
             << name << " in order " << stringifyFragmentOrder(order)
             << ", but another use of the same tile needs order "
             << stringifyFragmentOrder(it->second);
    return success();
  }

  LogicalResult fixWidth(Operation *op, StringRef name, Value value,
                         int64_t width) {
    if (isFree(value))
      return success();
    const void *leader =
        classes.getOrInsertLeaderValue(value.getAsOpaquePointer());
    auto [it, inserted] = widths.try_emplace(leader, width);
    if (!inserted && it->second != width)
      return op->emitOpError("needs its ")
             << name << " in width " << width
             << ", but another use of the same tile needs width " << it->second;
    return success();
  }

  LogicalResult seed(Operation *op) {
    if (auto contract = dyn_cast<vector::ContractionOp>(op))
      return seedContraction(contract);
    if (auto exchange = dyn_cast<AllToAllOp>(op))
      return seedExchange(exchange);
    if (auto shapeCast = dyn_cast<vector::ShapeCastOp>(op))
      return fixWidth(op, "source", shapeCast.getSource(), kMmaWidth);
    if (auto map = dyn_cast<MapScoresOp>(op))
      return fixWidth(op, "scores", map.getScores(), kMmaWidth);
    // Rows are reduced by quads of lanes, and written by them.
    if (auto reduction = dyn_cast<vector::MultiDimReductionOp>(op))
      return fix(op, "source", reduction.getSource(), FragmentOrder::Row);
    if (auto write = dyn_cast<vector::TransferWriteOp>(op))
      return fix(op, "tile", write.getVector(), FragmentOrder::Row);
    return success();
  }

  LogicalResult seedContraction(vector::ContractionOp op) {
    // rhs stored (n, k): the order of the k index runs along its rows.
    if (op.getLhsType().getRank() != 2 || op.getRhsType().getRank() != 2)
      return op.emitOpError("expects operands of rank 2");
    AffineMap rhs = op.getIndexingMapsArray()[1];
    bool isTransposed =
        rhs.getResult(0) != op.getIndexingMapsArray()[0].getResult(1);
    if (failed(fix(op, "lhs", op.getLhs(), FragmentOrder::Row)) ||
        failed(fix(op, "rhs", op.getRhs(),
                   isTransposed ? FragmentOrder::Row : FragmentOrder::Column)))
      return failure();
    for (auto [name, value] : {std::pair<StringRef, Value>("lhs", op.getLhs()),
                               {"rhs", op.getRhs()},
                               {"result", op.getResult()}})
      if (failed(fixWidth(op, name, value, kMmaWidth)))
        return failure();
    return fix(op, "result", op.getResult(), FragmentOrder::Row);
  }

  LogicalResult seedExchange(AllToAllOp op) {
    for (Value tile : op.getTiles())
      if (failed(fix(op, "tile", tile, FragmentOrder::Row)) ||
          failed(fixWidth(op, "tile", tile, kMmaWidth)))
        return failure();
    for (Value share : op.getShares()) {
      int64_t cols = cast<VectorType>(share.getType()).getShape().back();
      bool isWide = cols % (4 * kStoreWidth) == 0;
      if (failed(fix(op, "share", share, FragmentOrder::Row)) ||
          failed(
              fixWidth(op, "share", share, isWide ? kStoreWidth : kMmaWidth)))
        return failure();
    }
    return success();
  }

  gpu::GPUFuncOp func;
  llvm::EquivalenceClasses<const void *> classes;
  DenseMap<const void *, FragmentOrder> orders;
  DenseMap<const void *, int64_t> widths;
};

struct AssignLayoutsPass final
    : mlir::fcgpu::impl::AssignLayoutsPassBase<AssignLayoutsPass> {
  void runOnOperation() override {
    if (!isOurKernel(getOperation()))
      return;
    LayoutSolver solver(getOperation());
    if (failed(solver.solve()))
      return signalPassFailure();
    Attribute none = UnitAttr::get(&getContext());
    getOperation().walk([&](Operation *op) {
      SmallVector<Attribute> layouts;
      for (Value result : op->getResults())
        layouts.push_back(isTile(result) ? solver.getLayout(result) : none);
      if (llvm::all_of(layouts, [&](Attribute a) { return a == none; }))
        return;
      op->setAttr(kLayoutAttrName,
                  layouts.size() == 1 ? layouts.front()
                                      : ArrayAttr::get(&getContext(), layouts));
    });
  }
};
} // namespace
