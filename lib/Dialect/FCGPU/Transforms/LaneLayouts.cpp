//===- LaneLayouts.cpp - What a lane holds, and moving it -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the patterns of flashcore-distribute ask of layouts, and
// fcgpu.convert_layout: lanes hand each other what they hold, by butterflies
// where bits of registers and lanes change places, else from any lane to any
// lane.
//
//===----------------------------------------------------------------------===//

#include "DistributePatterns.h"
#include "flashcore/Analysis/RowAccess.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::fcgpu;
using flashcore::BitMap;
using flashcore::BitPoint;
using flashcore::OperandPlace;
using flashcore::TileLayout;

//===----------------------------------------------------------------------===//
// Layouts of values
//===----------------------------------------------------------------------===//

/// The sides of a tile, or the length of a vector (of rank 1, or with one row
/// or column). Groups of columns are columns.
static SmallVector<int64_t, 2> getSides(VectorType type) {
  int64_t rows = type.getDimSize(0), cols = type.getNumElements() / rows;
  if (type.getRank() == 1)
    return {rows};
  if (rows == 1 || cols == 1)
    return {rows * cols};
  return {rows, cols};
}

bool mlir::fcgpu::isVector(VectorType type) {
  return getSides(type).size() == 1;
}

TileLayout mlir::fcgpu::getDefaultLayout(VectorType type) {
  TileLayout core = flashcore::getMmaAtoms().front().acc.getCore();
  return isVector(type) ? core.slice(TileLayout::Row) : core;
}

/// Whether copies of the layout cover a tile or vector of this type.
static bool covers(const TileLayout &layout, VectorType type) {
  SmallVector<int64_t, 2> sides = getSides(type), box = layout.getBox();
  return sides.size() == box.size() &&
         llvm::all_of(llvm::zip(sides, box), [](auto side) {
           return std::get<0>(side) % std::get<1>(side) == 0;
         });
}

LayoutMap::LayoutMap(gpu::GPUFuncOp func) {
  add(func.getArguments(), {});
  func.walk([&](Operation *op) {
    Attribute attr = op->getAttr(kHomeAttrName);
    add(op->getResults(), attr);
    if (auto loop = dyn_cast<scf::ForOp>(op))
      add(loop.getRegionIterArgs(), attr);
  });
}

void LayoutMap::add(ValueRange values, Attribute attr) {
  auto array = dyn_cast_or_null<ArrayAttr>(attr);
  for (auto [i, value] : llvm::enumerate(values)) {
    auto type = dyn_cast<VectorType>(value.getType());
    if (!type || type.isScalable() || type.getRank() == 0 || isInPlace(value))
      continue;
    Attribute found = array ? array[i] : attr;
    if (isa_and_nonnull<FragmentsAttr>(found)) {
      if (type.getRank() == 2 && type.getDimSize(0) % kFragment == 0 &&
          type.getDimSize(1) % kFragment == 0)
        fragments.insert(value);
      continue;
    }
    auto written = dyn_cast_or_null<LayoutAttr>(found);
    TileLayout layout =
        written ? written.getTileLayout() : getDefaultLayout(type);
    // Patterns add what a register adds to a lane's place.
    if (layout.isSeparable() && covers(layout, type))
      layouts.try_emplace(value, layout);
  }
}

SmallVector<const flashcore::MmaAtom *>
mlir::fcgpu::findMmaAtoms(const flashcore::TargetInfo &target,
                          vector::ContractionOp op) {
  Type input = op.getLhsType().getElementType();
  auto inputKind = getElementKind(input);
  auto resultKind = getElementKind(getElementTypeOrSelf(op.getAccType()));
  if (!inputKind || !resultKind || op.getRhsType().getElementType() != input)
    return {};
  OperandPlace place = OperandPlace::Registers;
  if (isAsynchronous(op))
    place = OperandPlace::SharedMemory;
  else if (auto product = op->getAttrOfType<ProductAttr>(kProductAttrName))
    place = getRightPlace(product.getProduct());
  return flashcore::findMmaAtoms(target, place, *inputKind, *resultKind);
}

const flashcore::MmaAtom *
mlir::fcgpu::findMmaAtom(const flashcore::TargetInfo &target,
                         vector::ContractionOp op, OperandPlace rhsPlace) {
  SmallVector<const flashcore::MmaAtom *> atoms = findMmaAtoms(target, op);
  return !atoms.empty() && atoms.front()->rhsPlace == rhsPlace ? atoms.front()
                                                               : nullptr;
}

const flashcore::CopyAtom *
mlir::fcgpu::findFillAtom(const flashcore::TargetInfo &target, CopyOp op) {
  using flashcore::CopyCompletion;
  constexpr auto route = flashcore::CopyRoute::GlobalToShared;
  if (op.getRing().getType().hasPanels())
    return flashcore::findCopyAtom(target, route, CopyCompletion::Barrier);
  // The narrowest asynchronous copies take two elements.
  int64_t bytes = flashcore::getAccessBytes(op.getSource());
  bool isAsync = bytes > 2 && !op.getViaRegisters();
  return flashcore::findCopyAtom(
      target, route,
      isAsync ? CopyCompletion::Groups : CopyCompletion::Immediate, bytes);
}

const flashcore::CopyAtom *
mlir::fcgpu::findReadAtom(const flashcore::TargetInfo &target) {
  return flashcore::findCopyAtom(target,
                                 flashcore::CopyRoute::SharedToRegisters,
                                 flashcore::CopyCompletion::Immediate);
}

int64_t mlir::fcgpu::getPartSize(Type element) {
  constexpr int64_t registerBits = 32, pair = 2;
  int64_t bits = std::max<unsigned>(element.getIntOrFloatBitWidth(), 8);
  // i1 is one a register, whatever it was compared from.
  return element.isInteger(1) ? pair : std::max(registerBits / bits, pair);
}

TileRegisters::TileRegisters(const TileLayout &layout, VectorType type) {
  SmallVector<int64_t, 2> sides = getSides(type), box = layout.getBox();
  BitPoint corner(sides.size(), 0);
  for (;;) {
    for (int64_t reg = 0; reg < layout.getNumRegisters(); ++reg) {
      BitPoint place = layout.apply(reg, /*lane=*/0);
      for (auto [coordinate, start] : llvm::zip_equal(place, corner))
        coordinate += start;
      registers[{place.front(), place.back()}] = size();
      places.push_back(std::move(place));
    }
    // The next box of the row, or the first of the next row of boxes.
    size_t axis = sides.size();
    while (axis > 0 && (corner[axis - 1] += box[axis - 1]) == sides[axis - 1])
      corner[--axis] = 0;
    if (axis == 0)
      return;
  }
}

int64_t TileRegisters::find(ArrayRef<int64_t> place) const {
  return registers.at({place.front(), place.back()});
}

gpu::MMAMatrixType mlir::fcgpu::getFragmentType(Type element) {
  return gpu::MMAMatrixType::get({kFragment, kFragment}, element, "COp");
}

MemRefType mlir::fcgpu::getSlotType(RingType ring) {
  auto space = gpu::AddressSpaceAttr::get(ring.getContext(),
                                          gpu::AddressSpace::Workgroup);
  return MemRefType::get({ring.getSlotElements()}, ring.getElementType(),
                         MemRefLayoutAttrInterface(), space);
}

TileTypeConverter::TileTypeConverter(const LayoutMap &layouts) {
  addConversion([](Type type) { return type; });
  addConversion([](RingType ring) -> Type {
    return MemRefType::get(
        {ring.getStages() * ring.getSlotElements()}, ring.getElementType(),
        MemRefLayoutAttrInterface(),
        gpu::AddressSpaceAttr::get(ring.getContext(),
                                   gpu::AddressSpace::Workgroup));
  });
  addConversion(
      [&layouts](Value value,
                 SmallVectorImpl<Type> &types) -> std::optional<LogicalResult> {
        if (isInPlace(value)) {
          RingType ring = value.getDefiningOp<ReadOp>().getRing().getType();
          types.push_back(ring.hasPanels()
                              ? Type(IntegerType::get(ring.getContext(), 64))
                              : getSlotType(ring));
          return success();
        }
        auto type = dyn_cast<VectorType>(value.getType());
        if (layouts.isInFragments(value)) {
          types.append(type.getNumElements() / (kFragment * kFragment),
                       getFragmentType(type.getElementType()));
          return success();
        }
        const TileLayout *layout = layouts.lookup(value);
        if (!layout)
          return std::nullopt;
        Type element = type.getElementType();
        int64_t count = TileRegisters(*layout, type).size();
        if (layout->getRank() > 1) {
          int64_t size = getPartSize(element);
          count /= size;
          element = VectorType::get({size}, element);
        }
        types.append(count, element);
        return success();
      });
}

//===----------------------------------------------------------------------===//
// A lane's place
//===----------------------------------------------------------------------===//

Value mlir::fcgpu::evaluate(IndexBuilder &b, ArrayRef<int64_t> bases,
                            Value number) {
  Value sum;
  for (size_t start = 0; start < bases.size();) {
    // Bits whose bases double are a number of their own.
    size_t end = start + 1;
    while (bases[start] && end < bases.size() &&
           bases[end] == bases[end - 1] * 2)
      ++end;
    if (bases[start]) {
      Value bits = start ? b.div(number, int64_t(1) << start) : number;
      if (end < bases.size())
        bits = b.rem(bits, int64_t(1) << (end - start));
      Value term = bases[start] == 1 ? bits : b.mul(bits, bases[start]);
      sum = sum ? b.bitXor(sum, term) : term;
    }
    start = end;
  }
  return sum ? sum : b.index(0);
}

SmallVector<int64_t> mlir::fcgpu::getBases(const TileLayout &layout,
                                           TileLayout::Input input,
                                           unsigned axis) {
  SmallVector<int64_t> bases;
  for (const BitPoint &basis : layout.getBases(input))
    bases.push_back(basis[axis]);
  return bases;
}

Value mlir::fcgpu::getPlace(IndexBuilder &b, const TileLayout &layout,
                            unsigned axis, const ThreadContext &thread) {
  Value place =
      evaluate(b, getBases(layout, TileLayout::Lane, axis), thread.lane);
  SmallVector<int64_t> ofWarps = getBases(layout, TileLayout::Warp, axis);
  if (llvm::all_of(ofWarps, [](int64_t basis) { return basis == 0; }))
    return place;
  return b.add(place, evaluate(b, ofWarps, thread.warpOfHolder));
}

Value mlir::fcgpu::isFirstReplica(IndexBuilder &b, const TileLayout &layout,
                                  Value lane) {
  int64_t mask = layout.getReplicas(TileLayout::Lane);
  if (mask == 0)
    return {};
  Value replica = llvm::isMask_64(mask)
                      ? b.rem(lane, mask + 1)
                      : arith::AndIOp::create(b, lane, b.index(mask));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, replica,
                               b.index(0));
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

Value mlir::fcgpu::getElement(IndexBuilder &b, ValueRange parts, int64_t reg) {
  auto part = dyn_cast<VectorType>(parts.front().getType());
  if (!part)
    return parts[reg];
  int64_t size = part.getNumElements();
  return vector::ExtractOp::create(b, parts[reg / size], reg % size);
}

namespace {
/// A register as a word of 32 bits that lanes can hand on, and back.
Value toWord(IndexBuilder &b, Value value) {
  if (auto type = dyn_cast<VectorType>(value.getType())) {
    auto words = VectorType::get({1}, b.getI32Type());
    return vector::ExtractOp::create(
        b, vector::BitCastOp::create(b, words, value), 0);
  }
  unsigned bits = value.getType().getIntOrFloatBitWidth();
  if (isa<FloatType>(value.getType()))
    value = arith::BitcastOp::create(b, b.getIntegerType(bits), value);
  return bits == 32 ? value : arith::ExtUIOp::create(b, b.getI32Type(), value);
}
Value fromWord(IndexBuilder &b, Value word, Type type) {
  if (isa<VectorType>(type)) {
    auto words = VectorType::get({1}, b.getI32Type());
    return vector::BitCastOp::create(
        b, type, vector::FromElementsOp::create(b, words, word));
  }
  unsigned bits = type.getIntOrFloatBitWidth();
  if (bits < 32)
    word = arith::TruncIOp::create(b, b.getIntegerType(bits), word);
  return isa<FloatType>(type) ? arith::BitcastOp::create(b, type, word) : word;
}

/// A bit of registers and a bit of lanes that change places.
struct Exchange {
  int64_t reg, lane;
};

/// The exchanges that a conversion consists of, of registers in groups of
/// 2^`lowBits` that stay together; nothing if it does anything else to lanes.
std::optional<SmallVector<Exchange>> getExchanges(const BitMap &map,
                                                  unsigned lowBits) {
  SmallVector<Exchange> exchanges;
  for (auto [bit, basis] : llvm::enumerate(map.getBases(TileLayout::Lane))) {
    int64_t lane = int64_t(1) << bit, reg = basis[TileLayout::Register];
    if (reg == 0 && basis[TileLayout::Lane] == lane)
      continue;
    if (!llvm::isPowerOf2_64(reg) || basis[TileLayout::Lane] != 0 ||
        reg >> lowBits == 0)
      return std::nullopt;
    exchanges.push_back({reg, lane});
  }
  for (auto [bit, basis] : llvm::enumerate(map.getBases(TileLayout::Register)))
    if (bit < lowBits && basis[TileLayout::Register] != int64_t(1) << bit)
      return std::nullopt;
  return exchanges;
}

/// Hands over, between lanes that differ in bit `lane`, the words that differ
/// in bit `reg`: afterwards the upper lane has both words with the bit set.
void exchange(IndexBuilder &b, MutableArrayRef<Value> words, int64_t reg,
              int64_t laneBit, Value lane) {
  Value bit = b.rem(b.div(lane, laneBit), 2);
  Value isUpper =
      arith::CmpIOp::create(b, arith::CmpIPredicate::ne, bit, b.index(0));
  for (int64_t i = 0; i < static_cast<int64_t>(words.size()); ++i) {
    if (i & reg)
      continue;
    Value &low = words[i], &high = words[i | reg];
    Value given = arith::SelectOp::create(b, isUpper, low, high);
    Value taken =
        gpu::ShuffleOp::create(b, given, static_cast<int32_t>(laneBit),
                               /*width=*/32, gpu::ShuffleMode::XOR)
            .getShuffleResult();
    low = arith::SelectOp::create(b, isUpper, taken, low);
    high = arith::SelectOp::create(b, isUpper, high, taken);
  }
}

/// The words of a box after a conversion, each from whatever lane has it.
SmallVector<Value> gather(IndexBuilder &b, ArrayRef<Value> words,
                          const BitMap &map, Value lane) {
  // By the lane that takes it, a word comes from one of several registers.
  SmallVector<int64_t> fromLanes, fromRegisters;
  SmallVector<int64_t> choices{0};
  for (const BitPoint &basis : map.getBases(TileLayout::Lane)) {
    fromLanes.push_back(basis[TileLayout::Lane]);
    int64_t reg = basis[TileLayout::Register];
    fromRegisters.push_back(reg);
    if (!llvm::is_contained(choices, reg))
      for (size_t i = 0, size = choices.size(); i < size; ++i)
        choices.push_back(choices[i] ^ reg);
  }
  Value source = evaluate(b, fromLanes, lane);
  Value choice = evaluate(b, fromRegisters, lane);
  SmallVector<Value> taken;
  for (int64_t reg = 0; reg < static_cast<int64_t>(words.size()); ++reg) {
    BitPoint first = map.apply({reg, 0, 0});
    Value giver = arith::IndexCastOp::create(
        b, b.getI32Type(), b.bitXor(source, b.index(first[TileLayout::Lane])));
    Value width = arith::ConstantOp::create(b, b.getI32IntegerAttr(32));
    Value result;
    for (int64_t each : choices) {
      Value word =
          gpu::ShuffleOp::create(b, words[first[TileLayout::Register] ^ each],
                                 giver, width, gpu::ShuffleMode::IDX)
              .getShuffleResult();
      Value isIt = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, choice,
                                         b.index(each));
      result = result ? arith::SelectOp::create(b, isIt, word, result) : word;
    }
    taken.push_back(result);
  }
  return taken;
}

/// Converts the words of one box: registers in groups of 2^`lowBits`.
void convertBox(IndexBuilder &b, SmallVectorImpl<Value> &words,
                const BitMap &map, unsigned lowBits, Value lane) {
  auto exchanges = getExchanges(map, lowBits);
  if (!exchanges) {
    words = gather(b, words, map, lane);
    return;
  }
  for (Exchange each : *exchanges)
    exchange(b, words, each.reg >> lowBits, each.lane, lane);
  // What is left is another order of registers.
  SmallVector<Value> ordered;
  for (size_t word = 0; word < words.size(); ++word) {
    BitPoint from = map.apply({static_cast<int64_t>(word) << lowBits, 0, 0});
    for (Exchange each : *exchanges)
      if (from[TileLayout::Lane] & each.lane)
        from[TileLayout::Register] |= each.reg;
    ordered.push_back(words[from[TileLayout::Register] >> lowBits]);
  }
  words = std::move(ordered);
}
} // namespace

/// The smallest box that both layouts repeat.
static SmallVector<int64_t, 2> getCommonBox(const TileLayout &a,
                                            const TileLayout &b) {
  SmallVector<int64_t, 2> box = a.getBox();
  for (auto [side, other] : llvm::zip_equal(box, b.getBox()))
    side = std::max(side, other);
  return box;
}

bool mlir::fcgpu::canConvert(VectorType type, const TileLayout &from,
                             const TileLayout &to) {
  // Sides of boxes are powers of two: what both divide, the larger one does.
  return covers(from, type) && covers(to, type) &&
         from.getBases(TileLayout::Warp) == to.getBases(TileLayout::Warp) &&
         type.getElementTypeBitWidth() <= 32;
}

namespace {
/// The registers of a tile in one layout, box by box of a larger one.
class BoxedRegisters {
public:
  BoxedRegisters(VectorType type, const TileLayout &layout,
                 const TileLayout &boxLayout)
      : all(layout, type),
        inBox(boxLayout,
              VectorType::get(boxLayout.getBox(), type.getElementType())) {}

  int64_t size() const { return all.size(); }
  int64_t getBoxSize() const { return inBox.size(); }
  /// Register number `reg` of the box at `corner`, among those of the tile.
  int64_t find(ArrayRef<int64_t> corner, int64_t reg) const {
    BitPoint place(inBox.getPlace(reg));
    for (auto [coordinate, start] : llvm::zip_equal(place, corner))
      coordinate += start;
    return all.find(place);
  }

private:
  TileRegisters all, inBox;
};

/// Registers as parts of a type, or as they are where that is no vector.
SmallVector<Value> packParts(IndexBuilder &b, ArrayRef<Value> registers,
                             Type part) {
  auto type = dyn_cast<VectorType>(part);
  if (!type)
    return SmallVector<Value>(registers);
  SmallVector<Value> parts;
  for (; !registers.empty();
       registers = registers.drop_front(type.getNumElements()))
    parts.push_back(vector::FromElementsOp::create(
        b, type, registers.take_front(type.getNumElements())));
  return parts;
}

/// The corners of the boxes that a tile or vector consists of.
SmallVector<BitPoint> getCorners(VectorType type, ArrayRef<int64_t> box) {
  SmallVector<int64_t, 2> sides = getSides(type);
  SmallVector<BitPoint> corners{BitPoint(sides.size(), 0)};
  for (size_t axis = 0; axis < sides.size(); ++axis) {
    SmallVector<BitPoint> more;
    for (const BitPoint &corner : corners)
      for (int64_t start = 0; start < sides[axis]; start += box[axis]) {
        more.push_back(corner);
        more.back()[axis] = start;
      }
    corners = std::move(more);
  }
  return corners;
}
} // namespace

SmallVector<Value> mlir::fcgpu::convertParts(IndexBuilder &b, ValueRange parts,
                                             VectorType type,
                                             const TileLayout &from,
                                             const TileLayout &to, Value lane) {
  SmallVector<int64_t, 2> box = getCommonBox(from, to);
  TileLayout fromBox = from.repeat(box), toBox = to.repeat(box);
  BitMap map = convertLayout(fromBox, toBox);
  Type partType = parts.front().getType();
  auto part = dyn_cast<VectorType>(partType);
  // Parts that fill a word and stay whole are handed on as they are.
  unsigned lowBits =
      part && part.getNumElements() * part.getElementTypeBitWidth() == 32
          ? llvm::Log2_64(part.getNumElements())
          : 0;
  if (!getExchanges(map, lowBits))
    lowBits = 0;
  Type unitType = lowBits ? partType : type.getElementType();
  int64_t unit = int64_t(1) << lowBits;

  BoxedRegisters source(type, from, fromBox), target(type, to, toBox);
  SmallVector<Value> units(target.size() / unit);
  for (const BitPoint &corner : getCorners(type, box)) {
    SmallVector<Value> words;
    for (int64_t reg = 0; reg < source.getBoxSize(); reg += unit) {
      int64_t number = source.find(corner, reg);
      words.push_back(toWord(b, lowBits ? parts[number / unit]
                                        : getElement(b, parts, number)));
    }
    convertBox(b, words, map, lowBits, lane);
    for (auto [i, word] : llvm::enumerate(words)) {
      int64_t number = target.find(corner, static_cast<int64_t>(i) * unit);
      units[number / unit] = fromWord(b, word, unitType);
    }
  }
  return lowBits ? units : packParts(b, units, partType);
}

namespace {
struct DistributeConvertLayout final : ThreadPattern<ConvertLayoutOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(ConvertLayoutOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    const TileLayout *from = thread.layouts->lookup(op.getSource());
    const TileLayout *to = thread.layouts->lookup(op.getResult());
    auto type = cast<VectorType>(op.getType());
    if (!from || !to || !canConvert(type, *from, *to))
      return rewriter.notifyMatchFailure(
          op, "is between layouts whose boxes do not both divide the tile");
    IndexBuilder b(op.getLoc(), rewriter);
    rewriter.replaceOpWithMultiple(
        op,
        {convertParts(b, adaptor.getSource(), type, *from, *to, thread.lane)});
    return success();
  }
};
} // namespace

void mlir::fcgpu::populateLayoutPatterns(const TileTypeConverter &converter,
                                         const ThreadContext &context,
                                         RewritePatternSet &patterns) {
  patterns.add<DistributeConvertLayout>(converter, patterns.getContext(),
                                        context);
}
