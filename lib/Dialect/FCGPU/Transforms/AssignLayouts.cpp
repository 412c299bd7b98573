//===- AssignLayouts.cpp - Phase 6: which lane holds what -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Values that must share a layout form classes (union-find over SSA values).
// Products, exchanges, reductions, broadcasts and writes demand layouts of what
// they use and make; where a class is asked for two, the value is read, made or
// converted once more, and all begins anew.
//
//===----------------------------------------------------------------------===//

#include "DistributePatterns.h"
#include "Preconditions.h"
#include "WarpRoles.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "flashcore-assign-layouts"

namespace mlir::fcgpu {
#define GEN_PASS_DEF_ASSIGNLAYOUTSPASS
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h.inc"
} // namespace mlir::fcgpu

using namespace mlir;
using namespace mlir::fcgpu;
using flashcore::TileLayout;

static bool isTile(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector && !isVector(vector);
}

namespace {
/// A use or a result that needs another layout than its class has.
struct Conflict {
  OpOperand *use; ///< null for a result
  Value value;
  /// Whether it is in fragments, from where it comes by way of memory: no
  /// sooner than it is used, which may be in a branch that is seldom taken.
  bool isInFragments = false;
};

class LayoutSolver {
public:
  LayoutSolver(gpu::GPUFuncOp func, const flashcore::TargetInfo &target)
      : func(func), context(func.getContext()), target(target) {}

  /// Finds layouts for all tiles and vectors, or the first conflict.
  std::optional<Conflict> solve() {
    func.walk([&](Operation *op) { carry(op); });
    func.walk([&](vector::ContractionOp op) { keepInFragments(op); });
    func.walk([&](Operation *op) { connect(op); });
    if (!conflict)
      func.walk([&](Operation *op) { demandTiles(op); });
    // What is left follows from the layouts of the tiles: what is reduced, then
    // what is repeated.
    if (!conflict)
      func.walk([&](Operation *op) { demandOfReductions(op); });
    if (!conflict)
      func.walk([&](Operation *op) { demandTheRest(op); });
    return conflict;
  }

  /// A `#fcgpu.layout`, or `#fcgpu.fragments`.
  Attribute getAttribute(Value value) const {
    auto leader = classes.findLeader(value.getAsOpaquePointer());
    if (leader != classes.member_end())
      if (auto it = layouts.find(*leader); it != layouts.end())
        return it->second;
    return get(getDefaultLayout(cast<VectorType>(value.getType())));
  }

private:
  TileLayout getLayout(Value value) const {
    return cast<LayoutAttr>(getAttribute(value)).getTileLayout();
  }
  bool isInFragments(Value value) const {
    return isTile(value.getType()) && isa<FragmentsAttr>(getAttribute(value));
  }

  LayoutAttr get(const TileLayout &layout) const {
    return LayoutAttr::get(context, layout);
  }

  void unite(Value a, Value b) {
    if (isa<VectorType>(a.getType()))
      classes.unionSets(a.getAsOpaquePointer(), b.getAsOpaquePointer());
  }
  void uniteAll(ValueRange a, ValueRange b) {
    for (auto [x, y] : llvm::zip_equal(a, b))
      unite(x, y);
  }

  /// Of ops that hand on what they get, and do not look at it.
  void carry(Operation *op) {
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      uniteAll(loop.getInitArgs(), loop.getRegionIterArgs());
      uniteAll(loop.getYieldedValues(), loop.getRegionIterArgs());
      uniteAll(loop.getResults(), loop.getRegionIterArgs());
    } else if (auto ifOp = dyn_cast<scf::IfOp>(op)) {
      if (ifOp.getNumResults() == 0)
        return;
      uniteAll(ifOp.thenYield().getOperands(), ifOp.getResults());
      uniteAll(ifOp.elseYield().getOperands(), ifOp.getResults());
    } else if (auto wait = dyn_cast<AwaitOp>(op)) {
      unite(wait.getProduct(), wait.getResult());
    }
  }

  /// A sum of products that may stay in fragments does. Its left operand is in
  /// registers, or it is added to something: a product of its own that is all
  /// from memory comes back from there column block by column block.
  void keepInFragments(vector::ContractionOp op) {
    if (!isa_and_nonnull<FragmentsAttr>(op->getAttr(kHomeAttrName)) ||
        !findMmaAtom(target, op, flashcore::OperandPlace::Fragments) ||
        (isInPlace(op.getLhs()) && matchPattern(op.getAcc(), m_AnyZeroFloat())))
      return;
    Attribute fragments = FragmentsAttr::get(context);
    fix(op.getAcc(), fragments);
    fix(op.getResult(), fragments);
  }

  void connect(Operation *op) {
    if (!isa<scf::ForOp, scf::IfOp, scf::YieldOp, arith::ConstantOp,
             vector::ContractionOp, ConvertLayoutOp>(op))
      refuseFragments(op);
    if (isa<vector::ShapeCastOp, vector::ExtractStridedSliceOp, MapScoresOp,
            DropoutOp>(op) ||
        OpTrait::hasElementwiseMappableTraits(op)) {
      for (Value operand : op->getOperands())
        if (isa<VectorType>(operand.getType()))
          unite(operand, op->getResult(0));
    }
  }

  /// What looks at a tile needs it in registers that it knows.
  void refuseFragments(Operation *op) {
    for (OpOperand &use : op->getOpOperands())
      if (!conflict && isInFragments(use.get()))
        conflict = Conflict{&use, use.get(), /*isInFragments=*/true};
    for (OpResult result : op->getResults())
      if (!conflict && isInFragments(result))
        conflict = Conflict{nullptr, result};
  }

  /// Fixes the layout of the value's class; false where it has another.
  bool fix(Value value, Attribute layout) {
    const void *leader =
        classes.getOrInsertLeaderValue(value.getAsOpaquePointer());
    return layouts.try_emplace(leader, layout).first->second == layout;
  }
  void demand(OpOperand &use, Attribute layout) {
    if (!conflict && !fix(use.get(), layout))
      conflict = Conflict{&use, use.get()};
  }
  void demand(OpOperand &use, const TileLayout &layout) {
    demand(use, get(layout));
  }
  void demandResult(OpResult result, const TileLayout &layout) {
    if (!conflict && !fix(result, get(layout)))
      conflict = Conflict{nullptr, result};
  }

  void demandTiles(Operation *op) {
    if (auto contract = dyn_cast<vector::ContractionOp>(op))
      return demandOfContraction(contract);
    if (auto exchange = dyn_cast<AllToAllOp>(op))
      return demandOfExchange(exchange);
    if (auto convert = dyn_cast<ConvertLayoutOp>(op))
      return demandOfConversion(convert);
  }

  /// What comes from fragments, or goes there, is as other results of products.
  void demandOfConversion(ConvertLayoutOp op) {
    if (isInFragments(op.getSource()))
      demandResult(cast<OpResult>(op.getResult()), flashcore::getWideLayout());
    else if (isInFragments(op.getResult()))
      demand(op.getSourceMutable(), flashcore::getWideLayout());
  }

  /// Columns are grouped inside of lanes only: a group is a whole number of
  /// boxes.
  void demandOfShapeCast(vector::ShapeCastOp op) {
    VectorType source = op.getSourceVectorType();
    int64_t group = op.getResultVectorType().getShape().back();
    int64_t box = getLayout(op.getSource()).getBox().back();
    if (isTile(source) && group % box != 0)
      demand(op.getSourceMutable(), getDefaultLayout(source));
  }

  void demandOfContraction(vector::ContractionOp op) {
    SmallVector<const flashcore::MmaAtom *> atoms = findMmaAtoms(target, op);
    if (op.getLhsType().getRank() != 2 || op.getRhsType().getRank() != 2 ||
        atoms.empty())
      return; // refused by the pass, or by flashcore-distribute
    const flashcore::MmaAtom &atom = *atoms.front();
    TileLayout lhs = atom.lhs.getCore(), acc = atom.acc.getCore();
    auto product = op->getAttrOfType<ProductAttr>(kProductAttrName);
    if (product && product.getWide() &&
        atom.rhsPlace == flashcore::OperandPlace::Fragments)
      lhs = acc = flashcore::getWideLayout();
    // rhs stored (n, k): the k index runs along its rows, as along those of
    // lhs.
    AffineMap rhs = op.getIndexingMapsArray()[1];
    bool isStoredNK =
        rhs.getResult(0) != op.getIndexingMapsArray()[0].getResult(1);
    if (!isInPlace(op.getLhs()))
      demand(op.getLhsMutable(), lhs);
    if (atom.rhs) {
      TileLayout core = atom.rhs->getCore();
      demand(op.getRhsMutable(), isStoredNK ? core : core.transpose());
    }
    if (isInFragments(op.getResult()))
      return demand(op.getAccMutable(), FragmentsAttr::get(context));
    demand(op.getAccMutable(), acc);
    demandResult(cast<OpResult>(op.getResult()), acc);
  }

  void demandOfExchange(AllToAllOp op) {
    for (OpOperand &tile : op.getTilesMutable())
      if (isTile(tile.get().getType()))
        demand(tile, getDefaultLayout(cast<VectorType>(tile.get().getType())));
    int64_t wideCols = flashcore::getStoreLayout().getBox()[TileLayout::Column];
    for (OpResult share : op->getResults()) {
      if (!isTile(share.getType()))
        continue;
      auto type = cast<VectorType>(share.getType());
      demandResult(share, type.getShape().back() % wideCols == 0
                              ? flashcore::getStoreLayout()
                              : getDefaultLayout(type));
    }
  }

  void demandOfReductions(Operation *op) {
    if (auto reduction = dyn_cast<vector::MultiDimReductionOp>(op))
      return demandOfReduction(reduction);
    if (auto shapeCast = dyn_cast<vector::ShapeCastOp>(op))
      return demandOfShapeCast(shapeCast);
  }

  void demandTheRest(Operation *op) {
    // Rows are next to each other in no memory.
    if (auto write = dyn_cast<vector::TransferWriteOp>(op))
      if (isTile(write.getVectorType()) && holdsColumns(write.getVector()))
        return demand(write.getValueToStoreMutable(),
                      getDefaultLayout(write.getVectorType()));
    auto broadcast = dyn_cast<vector::BroadcastOp>(op);
    auto source = broadcast ? dyn_cast<VectorType>(broadcast.getSourceType())
                            : VectorType();
    if (!source || !isVector(source))
      return;
    // One value a row has a column; one a column has no rows, or a single one.
    bool isColumn = source.getRank() == 2 && source.getDimSize(0) != 1;
    TileLayout tile = getLayout(broadcast.getResult());
    demand(broadcast.getSourceMutable(),
           tile.slice(isColumn ? TileLayout::Row : TileLayout::Column));
  }

  /// Whether neighbours in a lane's registers are rows of one column.
  bool holdsColumns(Value tile) const {
    return getLayout(tile).getRun(TileLayout::Column) == 1;
  }

  void demandOfReduction(vector::MultiDimReductionOp op) {
    if (!isa<VectorType>(op.getType()))
      return;
    TileLayout tile = getLayout(op.getSource());
    // Of a tile with groups of columns, a tile of one group is left.
    if (op.getSourceVectorType().getRank() == 2) {
      bool keepsRows = op.getReductionDims() == ArrayRef<int64_t>{1};
      tile = tile.slice(keepsRows ? TileLayout::Row : TileLayout::Column);
    }
    demand(op.getAccMutable(), tile);
    demandResult(cast<OpResult>(op.getResult()), tile);
  }

  gpu::GPUFuncOp func;
  MLIRContext *context;
  const flashcore::TargetInfo &target;
  llvm::EquivalenceClasses<const void *> classes;
  DenseMap<const void *, Attribute> layouts;
  std::optional<Conflict> conflict;
};
} // namespace

/// Whether the chip has instructions for all products.
static LogicalResult checkProducts(gpu::GPUFuncOp func,
                                   const flashcore::TargetInfo &target) {
  WalkResult result = func.walk([&](vector::ContractionOp op) {
    if (isInPlace(op.getRhs()) && !isAsynchronous(op) &&
        !op->hasAttr(kProductAttrName)) {
      op.emitOpError("takes a tile in place of plain rows, but has no "
                     "fcgpu.product that says how");
      return WalkResult::interrupt();
    }
    if (!findMmaAtoms(target, op).empty())
      return WalkResult::advance();
    op.emitOpError("multiplies ")
        << op.getLhsType().getElementType() << " by "
        << op.getRhsType().getElementType() << " into "
        << getElementTypeOrSelf(op.getAccType()) << ", for which "
        << target.chip << " has no instruction that is known here";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

/// Splats cost nothing, so each use has one of its own and connects no classes.
static void splitSplats(gpu::GPUFuncOp func) {
  SmallVector<arith::ConstantOp> splats;
  func.walk([&](arith::ConstantOp op) {
    if (isa<VectorType>(op.getType()))
      splats.push_back(op);
  });
  for (arith::ConstantOp splat : splats) {
    OpBuilder b(splat);
    for (OpOperand &use :
         llvm::make_early_inc_range(llvm::drop_begin(splat->getUses())))
      use.set(b.clone(*splat)->getResult(0));
  }
}

/// Gives the use, or the users of a result, a value of its own: one more read
/// of the ring, which is there until the next barrier, or a conversion.
static void resolve(const Conflict &conflict) {
  Value value = conflict.value;
  OpBuilder b(value.getContext());
  b.setInsertionPointAfterValue(value);
  if (!conflict.use) {
    auto converted = ConvertLayoutOp::create(b, value.getLoc(), value);
    value.replaceAllUsesExcept(converted, converted);
    return;
  }
  if (auto read = value.getDefiningOp<ReadOp>())
    return conflict.use->set(b.clone(*read)->getResult(0));
  if (conflict.isInFragments)
    b.setInsertionPoint(conflict.use->getOwner());
  conflict.use->set(ConvertLayoutOp::create(b, value.getLoc(), value));
}

static void writeLayouts(gpu::GPUFuncOp func, const LayoutSolver &solver) {
  Attribute none = UnitAttr::get(func.getContext());
  func.walk([&](Operation *op) {
    SmallVector<Attribute> layouts;
    for (Value result : op->getResults())
      layouts.push_back(isa<VectorType>(result.getType()) && !isInPlace(result)
                            ? solver.getAttribute(result)
                            : none);
    if (llvm::all_of(layouts, [&](Attribute a) { return a == none; }))
      return;
    op->setAttr(kHomeAttrName,
                layouts.size() == 1
                    ? layouts.front()
                    : ArrayAttr::get(func.getContext(), layouts));
  });
}

namespace {
struct AssignLayoutsPass final
    : mlir::fcgpu::impl::AssignLayoutsPassBase<AssignLayoutsPass> {
  void runOnOperation() override {
    gpu::GPUFuncOp func = getOperation();
    if (!isOurKernel(func))
      return;
    if (failed(checkReached(func, Reached::Rings)))
      return signalPassFailure();
    StringRef chip = Launch::get(func).chip;
    const auto *target = flashcore::lookupTarget(chip);
    if (!target) {
      func.emitOpError(flashcore::unknownChipMessage(chip));
      return signalPassFailure();
    }
    if (failed(checkProducts(func, *target)))
      return signalPassFailure();
    splitSplats(func);
    // Each round adds a value whose class is its own, for one use more.
    for (;;) {
      LayoutSolver solver(func, *target);
      std::optional<Conflict> conflict = solver.solve();
      if (!conflict)
        return writeLayouts(func, solver);
      LDBG() << "another layout is wanted "
             << (conflict->use ? "by a use" : "by all uses") << " of "
             << conflict->value;
      resolve(*conflict);
      ++numConverted;
    }
  }
};
} // namespace
