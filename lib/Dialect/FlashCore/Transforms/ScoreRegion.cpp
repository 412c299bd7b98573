//===- ScoreRegion.cpp - What score and mask regions compute --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The ops are those that the runtime evaluates
// (runtime/lib/ops/ScoreProgram.cpp) and that phase 7 lowers without libdevice.
//
//===----------------------------------------------------------------------===//

#include "ScoreRegion.h"
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringSet.h"

#include <limits>

using namespace mlir;
using namespace mlir::flashcore;

/// Besides constants and loads.
static bool isKnown(Operation *op) {
  static const llvm::StringSet<> names{
      "arith.addf",     "arith.subf",       "arith.mulf",
      "arith.divf",     "arith.negf",       "arith.maximumf",
      "arith.minimumf", "arith.maxnumf",    "arith.minnumf",
      "arith.cmpf",     "arith.cmpi",       "arith.select",
      "arith.addi",     "arith.subi",       "arith.muli",
      "arith.divsi",    "arith.divui",      "arith.remsi",
      "arith.remui",    "arith.floordivsi", "arith.ceildivsi",
      "arith.maxsi",    "arith.minsi",      "arith.maxui",
      "arith.minui",    "arith.andi",       "arith.ori",
      "arith.xori",     "arith.shli",       "arith.shrsi",
      "arith.shrui",    "arith.index_cast", "arith.index_castui",
      "arith.extsi",    "arith.extui",      "arith.trunci",
      "arith.sitofp",   "arith.uitofp",     "arith.fptosi",
      "arith.extf",     "math.absf",        "math.absi",
      "math.exp",       "math.exp2",        "math.log",
      "math.log2",      "math.sqrt",        "math.rsqrt",
      "math.tanh",      "math.sin",         "math.cos",
      "math.floor",     "math.ceil",        "math.fma"};
  return names.contains(op->getName().getStringRef());
}

/// On tensors, and on memrefs.
static bool isLoad(Operation *op) {
  StringRef name = op->getName().getStringRef();
  return name == "tensor.extract" || name == "memref.load";
}

static bool isConstant(Value value) {
  return matchPattern(value, m_Constant());
}

static bool isHalf(Type type) { return type.isF16() || type.isBF16(); }

/// Types that are read, but not computed with.
static bool isNarrow(Type type) {
  return isHalf(type) || type.isSignlessInteger(8);
}

static bool isScalar(Type type) {
  return type.isF32() || type.isIndex() || type.isSignlessInteger(1) ||
         type.isSignlessInteger(32);
}

static std::string toString(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

/// What is wrong with an op of a region; empty if nothing is.
static std::string findFault(Operation *op) {
  std::string name = "'" + op->getName().getStringRef().str() + "'";
  if (op->getNumRegions() != 0 || op->getNumResults() != 1)
    return name + ", but a region computes one value after the other, without "
                  "branches (arith.select chooses) and without effects";
  if (!isConstant(op->getResult(0)) && !isLoad(op) && !isKnown(op))
    return name + ", which this version cannot lower there: docs/Op.md lists "
                  "the ops of regions";
  Type type = op->getResult(0).getType();
  // An i8 may be compared with a constant as it is.
  bool isRead = isLoad(op) || (isConstant(op->getResult(0)) && !isHalf(type));
  if (!isScalar(type) && !(isRead && isNarrow(type)))
    return name + " of " + toString(type) +
           ", but regions compute with f32, index, i32 and i1 (f16, bf16 and "
           "i8 are read and extended, and i8 compared)";
  return {};
}

/// What is wrong with a value from outside; empty if nothing is.
static std::string findFaultOfCaptured(Value value) {
  if (isConstant(value))
    return {};
  auto type = dyn_cast<ShapedType>(value.getType());
  if (!type)
    return "a value of " + toString(value.getType()) +
           ": put it into a tensor of rank 0, which the region reads";
  Type element = type.getElementType();
  if (!isNarrow(element) && !element.isF32() && !element.isSignlessInteger(32))
    return toString(type) + ": expects elements of f16, bf16, f32, i32 or i8";
  constexpr int64_t maxRank = 4;
  if (type.getRank() > maxRank)
    return toString(type) + ": expects at most " + std::to_string(maxRank) +
           " axes";
  auto memref = dyn_cast<MemRefType>(type);
  if (memref && (!memref.isStrided() || memref.getMemorySpace()))
    return toString(type) +
           ": expects a strided layout in the default memory space";
  return {};
}

/// The diagnostic of `op`, with a note where `inner` stands.
static LogicalResult fail(ScoreOpInterface op, Operation &inner,
                          const Twine &text) {
  InFlightDiagnostic error = emitUnsupported(op) << text;
  error.attachNote(inner.getLoc()) << "the region has it here";
  return error;
}

LogicalResult mlir::flashcore::checkRegions(ScoreOpInterface op) {
  for (auto [name, region] :
       {std::pair<StringRef, Region *>("score", op.findScoreRegion()),
        {"mask", op.findMaskRegion()}}) {
    if (!region)
      continue;
    for (Operation &inner : region->front().without_terminator())
      if (std::string fault = findFault(&inner); !fault.empty())
        return fail(op, inner, "has a " + name + " region with " + fault);
    // Of a tile all is the kernel's.
    if (isa<TileOpInterface>(op.getOperation()))
      continue;
    for (Operation &inner : region->front())
      for (Value operand : inner.getOperands())
        if (operand.getParentRegion() != region)
          if (std::string fault = findFaultOfCaptured(operand); !fault.empty())
            return fail(op, inner,
                        "has a " + name + " region that captures " + fault);
  }
  return success();
}

std::string mlir::flashcore::getCaptureName(unsigned index) {
  return "capture" + std::to_string(index);
}

llvm::DenseSet<Value> mlir::flashcore::getDependents(Block &block,
                                                     ValueRange values) {
  llvm::DenseSet<Value> dependents(values.begin(), values.end());
  for (Operation &op : block)
    if (llvm::any_of(op.getOperands(), [&](Value operand) {
          return dependents.contains(operand);
        }))
      dependents.insert(op.result_begin(), op.result_end());
  return dependents;
}

static bool readsBy(Region &region, unsigned argument) {
  if (region.empty())
    return false;
  auto dependents = getDependents(region.front(), region.getArgument(argument));
  return llvm::any_of(region.front(), [&](Operation &op) {
    return isLoad(&op) && llvm::any_of(op.getOperands(), [&](Value operand) {
             return dependents.contains(operand);
           });
  });
}

bool mlir::flashcore::readsByQuery(Region &region) {
  return readsBy(region, ScoreArgument::Query);
}

bool mlir::flashcore::readsByKey(Region &region) {
  return readsBy(region, ScoreArgument::Key);
}

namespace {
/// Numbers the values of a region.
class RegionWriter {
public:
  RegionWriter(Region &region, ArrayRef<Value> captured)
      : b(region.getContext()), captured(captured) {
    for (Value argument : region.getArguments())
      numbers.try_emplace(argument, static_cast<int64_t>(numbers.size()));
    for (Operation &op : region.front().without_terminator())
      add(&op);
    result = getNumber(region.front().getTerminator()->getOperand(0));
  }

  DictionaryAttr take() {
    return b.getDictionaryAttr(
        {b.getNamedAttr("values", b.getArrayAttr(values)),
         b.getNamedAttr("result", b.getI64IntegerAttr(result))});
  }

private:
  /// Constants may come from outside.
  int64_t getNumber(Value value) {
    if (!numbers.contains(value))
      add(value.getDefiningOp());
    return numbers.lookup(value);
  }

  void add(Operation *op) {
    NamedAttrList entry;
    Attribute constant;
    entry.set("type", TypeAttr::get(op->getResult(0).getType()));
    if (matchPattern(op, m_Constant(&constant)))
      setConstant(constant, entry);
    else
      setOperands(op, entry);
    values.push_back(entry.getDictionary(b.getContext()));
    numbers.try_emplace(op->getResult(0), static_cast<int64_t>(numbers.size()));
  }

  /// Bits: JSON has no infinities.
  void setConstant(Attribute constant, NamedAttrList &entry) {
    entry.set("op", b.getStringAttr("constant"));
    int64_t bits = 0;
    if (auto real = dyn_cast<FloatAttr>(constant))
      bits =
          static_cast<int64_t>(real.getValue().bitcastToAPInt().getZExtValue());
    else
      bits = cast<IntegerAttr>(constant).getValue().getSExtValue();
    entry.set("bits", b.getI64IntegerAttr(bits));
  }

  void setOperands(Operation *op, NamedAttrList &entry) {
    SmallVector<int64_t> operands;
    for (Value operand : op->getOperands().drop_front(isLoad(op) ? 1 : 0))
      operands.push_back(getNumber(operand));
    StringRef name = op->getName().getStringRef();
    auto set = [&](StringRef key, StringRef text) {
      entry.set(key, b.getStringAttr(text));
    };
    if (isLoad(op)) {
      name = "load";
      const Value *it = llvm::find(captured, op->getOperand(0));
      set("tensor", getCaptureName(it - captured.begin()));
    } else if (auto compare = dyn_cast<arith::CmpFOp>(op)) {
      set("predicate", arith::stringifyCmpFPredicate(compare.getPredicate()));
    } else if (auto compare = dyn_cast<arith::CmpIOp>(op)) {
      set("predicate", arith::stringifyCmpIPredicate(compare.getPredicate()));
    }
    set("op", name);
    entry.set("operands", b.getI64ArrayAttr(operands));
  }

  Builder b;
  ArrayRef<Value> captured;
  DenseMap<Value, int64_t> numbers;
  SmallVector<Attribute> values;
  int64_t result;
};
} // namespace

DictionaryAttr mlir::flashcore::describeRegion(Region &region,
                                               ArrayRef<Value> captured) {
  return RegionWriter(region, captured).take();
}

/// Constants from outside become the region's own.
static void takeConstants(Region &region) {
  auto b = OpBuilder::atBlockBegin(&region.front());
  for (Operation &inner : region.front())
    for (OpOperand &operand : inner.getOpOperands())
      if (operand.get().getParentRegion() != &region &&
          isConstant(operand.get()))
        operand.set(b.clone(*operand.get().getDefiningOp())->getResult(0));
}

void mlir::flashcore::cloneRegions(AttentionOp from, TileOpInterface to,
                                   ValueRange captured) {
  IRMapping mapping;
  mapping.map(ValueRange(from.getCapturedTensors()), captured);
  // The tile has those two alone, in this order.
  for (auto [source, target] : llvm::zip_equal(
           SmallVector<Region *>{from.findScoreRegion(), from.findMaskRegion()},
           to->getRegions())) {
    if (!source)
      continue;
    source->cloneInto(&target, mapping);
    takeConstants(target);
  }
}

void mlir::flashcore::createScoreRegion(ImplicitLocOpBuilder &b,
                                        Region &region) {
  SmallVector<Type> types(ScoreArgument::NumArguments, b.getIndexType());
  types[ScoreArgument::Score] = b.getF32Type();
  Block *body = b.createBlock(&region, {}, types,
                              SmallVector<Location>(types.size(), b.getLoc()));
  YieldOp::create(b, body->getArgument(ScoreArgument::Score));
}

Value mlir::flashcore::inlineRegion(OpBuilder &b, Region &region,
                                    ValueRange arguments) {
  IRMapping mapping;
  mapping.map(region.getArguments(), arguments);
  for (Operation &inner : region.front().without_terminator())
    b.clone(inner, mapping);
  return mapping.lookupOrDefault(region.front().getTerminator()->getOperand(0));
}

/// Clones `value`, and before it what it is computed from.
static Value cloneInto(OpBuilder &b, Region &region, Value value,
                       IRMapping &mapping) {
  Operation *op = value.getDefiningOp();
  if (mapping.contains(value) || value.getParentRegion() != &region)
    return mapping.lookupOrDefault(value);
  for (Value operand : op->getOperands())
    cloneInto(b, region, operand, mapping);
  return b.clone(*op, mapping)->getResult(0);
}

Value mlir::flashcore::computeOfBatchEntry(OpBuilder &b, ScoreOpInterface op,
                                           Value value, Value batch,
                                           ValueRange captured) {
  IRMapping mapping;
  mapping.map(ValueRange(op.getCapturedTensors()), captured);
  Region &region = *op.findMaskRegion();
  mapping.map(region.getArgument(ScoreArgument::Batch), batch);
  return arith::IndexCastOp::create(b, op->getLoc(), b.getIndexType(),
                                    cloneInto(b, region, value, mapping));
}

/// The least, or the greatest, of a number of each lane.
static Value reduceLanes(ImplicitLocOpBuilder &b, Value number, bool isLeast) {
  constexpr int32_t kLanes = 32;
  for (int32_t offset = kLanes / 2; offset > 0; offset /= 2) {
    Value other =
        gpu::ShuffleOp::create(b, number, offset, kLanes, gpu::ShuffleMode::XOR)
            .getShuffleResult();
    number = isLeast ? arith::MinSIOp::create(b, number, other).getResult()
                     : arith::MaxSIOp::create(b, number, other).getResult();
  }
  return number;
}

std::pair<Value, Value> mlir::flashcore::computeOfQueries(
    ImplicitLocOpBuilder &b, ScoreOpInterface op, Value value, Value batch,
    Value begin, Value end, int64_t maxQueries, ValueRange captured) {
  constexpr int64_t kLanes = 32;
  auto index = [&](int64_t number) -> Value {
    return arith::ConstantIndexOp::create(b, number);
  };
  auto compute = [&](OpBuilder &builder, Location /*loc*/) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(builder.getInsertionBlock());
    Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
    Value query = arith::AddIOp::create(
        b, begin, arith::RemUIOp::create(b, thread, index(kLanes)));
    Value last = arith::SubIOp::create(b, end, index(1));
    Value least, greatest;
    for (int64_t i = 0; i < maxQueries; i += kLanes) {
      IRMapping mapping;
      Region &region = *op.findMaskRegion();
      mapping.map(ValueRange(op.getCapturedTensors()), captured);
      mapping.map(region.getArgument(ScoreArgument::Batch), batch);
      // The last one again changes nothing.
      Value own = arith::AddIOp::create(b, query, index(i));
      mapping.map(region.getArgument(ScoreArgument::Query),
                  arith::MinSIOp::create(b, own, last).getResult());
      Value number = cloneInto(b, region, value, mapping);
      least = least ? arith::MinSIOp::create(b, least, number) : number;
      greatest =
          greatest ? arith::MaxSIOp::create(b, greatest, number) : number;
    }
    scf::YieldOp::create(b, ValueRange{reduceLanes(b, least, true),
                                       reduceLanes(b, greatest, false)});
  };
  auto skip = [&](OpBuilder &builder, Location loc) {
    auto constant = [&](int32_t number) -> Value {
      return arith::ConstantOp::create(builder, loc,
                                       builder.getI32IntegerAttr(number));
    };
    scf::YieldOp::create(
        builder, loc,
        ValueRange{constant(std::numeric_limits<int32_t>::max()),
                   constant(std::numeric_limits<int32_t>::min())});
  };
  Value hasQueries =
      arith::CmpIOp::create(b, arith::CmpIPredicate::slt, begin, end);
  auto ifOp = scf::IfOp::create(b, hasQueries, compute, skip);
  auto toIndex = [&](Value number) -> Value {
    return arith::IndexCastOp::create(b, b.getIndexType(), number);
  };
  return {toIndex(ifOp.getResult(0)), toIndex(ifOp.getResult(1))};
}
