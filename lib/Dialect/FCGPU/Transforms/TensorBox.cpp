//===- TensorBox.cpp - What a bulk copy moves -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bulk copies move boxes of tensor maps, arguments of the kernel; what of a box
// is outside of its tensor reads as zeros and is not written. A sequence within
// a tensor ends where a ragged axis says. Such a map has the axis twice, of as
// many rows R as the tensor has and with their stride, and begins R - 1 rows in
// front of the tensor: of a sequence that ends at row e, row r is at (e - 1, R
// - e + r), where the second coordinate passes R where the sequence ends.
//
// A box with nothing in its tensor reads where the map begins, which for such a
// map is anybody's memory or nobody's: it is one of the plain map of the
// tensor. A store of one is an illegal instruction if a coordinate is negative,
// as it is for the end of nothing: there is none then. (Both measured on an
// H100.)
//
// Of a ring of groups a map has other axes than the tensor: pages and heads in
// one, groups of rows (none where it is ragged), panels, rows, and the columns
// of a panel. The coordinate of a page and a head counts the largest power of
// two that the distances of both are multiples of (docs/Bundle.md).
//
//===----------------------------------------------------------------------===//

#include "DistributePatterns.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlir::fcgpu;

/// The most elements that a coordinate of pages and heads counts.
static constexpr int64_t kMostEntryUnit = 1 << 20;

namespace {
/// A place in a memref, on its way to the tensor that this is a view of.
class TensorPlace {
public:
  TensorPlace(IndexBuilder &b, ConversionPatternRewriter &rewriter,
              ArrayRef<Value> coordinates)
      : coordinates(coordinates), ends(coordinates.size()), b(b),
        rewriter(rewriter) {}
  /// Where these views lead to from `coordinates` and `row` rows on.
  TensorPlace(IndexBuilder &b, ConversionPatternRewriter &rewriter,
              ArrayRef<Value> coordinates, int64_t row,
              ArrayRef<Operation *> views, bool isThere)
      : TensorPlace(b, rewriter, coordinates) {
    auto pages =
        views.empty() ? ViewPagesOp() : dyn_cast<ViewPagesOp>(views[0]);
    if (pages && isThere && pages.getStep() % pages.getPageSize() == 0) {
      leaveAtPage(pages, row);
      views = views.drop_front();
    } else if (row) {
      Value &first = this->coordinates[coordinates.size() - 2];
      first = b.add(first, row);
    }
    for (Operation *view : views)
      leave(view, isThere);
  }

  Value asValue(OpFoldResult ofr);

  SmallVector<Value> coordinates;
  /// Where the views end along each axis; null where the tensor does.
  SmallVector<Value> ends;

private:
  /// Goes from the result of a view to its source. Of pages, the place
  /// `isThere` or it is not known.
  void leave(Operation *view, bool isThere);
  void leave(memref::SubViewOp view);
  void leave(ViewPagesOp view, bool isThere);
  /// From `row` rows behind a place that a page begins at.
  void leaveAtPage(ViewPagesOp view, int64_t row);
  Value loadPage(ViewPagesOp view, Value entry);

  IndexBuilder &b;
  ConversionPatternRewriter &rewriter;
};
} // namespace

Value TensorPlace::asValue(OpFoldResult ofr) {
  if (auto constant = getConstantIntValue(ofr))
    return b.index(*constant);
  Value value = cast<Value>(ofr);
  Value remapped = rewriter.getRemappedValue(value);
  return remapped ? remapped : value;
}

void TensorPlace::leave(memref::SubViewOp view) {
  ArrayRef<int64_t> whole = view.getSourceType().getShape();
  auto sizes = view.getMixedSizes(), offsets = view.getMixedOffsets();
  for (size_t axis = 0; axis < coordinates.size(); ++axis) {
    Value &end = ends[axis];
    auto size = getConstantIntValue(sizes[axis]);
    if (!end && (!size || *size != whole[axis]))
      end = asValue(sizes[axis]);
    if (getConstantIntValue(offsets[axis]) == 0)
      continue;
    Value offset = asValue(offsets[axis]);
    coordinates[axis] = b.add(coordinates[axis], offset);
    if (end)
      end = b.add(end, offset);
  }
}

Value TensorPlace::loadPage(ViewPagesOp view, Value entry) {
  Value page = memref::LoadOp::create(b, asValue(view.getTable()),
                                      ValueRange{b.index(0), entry});
  return arith::IndexCastOp::create(b, b.getIndexType(), page);
}

void TensorPlace::leaveAtPage(ViewPagesOp view, int64_t row) {
  constexpr unsigned pageAxis = 0, rowAxis = 2;
  int64_t pageSize = view.getPageSize();
  Value entry = b.add(b.div(coordinates[rowAxis], pageSize), row / pageSize);
  coordinates[rowAxis] = b.index(row % pageSize);
  coordinates[pageAxis] = loadPage(view, entry);
}

/// Of the page that the place is in, as many rows exist as are left of all. For
/// an entry without rows the table is not asked.
void TensorPlace::leave(ViewPagesOp view, bool isThere) {
  constexpr unsigned pageAxis = 0, rowAxis = 2;
  int64_t pageSize = view.getPageSize();
  Value row = coordinates[rowAxis], entry = b.div(row, pageSize);
  coordinates[rowAxis] = b.rem(row, pageSize);
  if (isThere) {
    coordinates[pageAxis] = loadPage(view, entry);
    return;
  }
  Value left =
      arith::SubIOp::create(b, asValue(view.getRows()), b.mul(entry, pageSize));
  ends[rowAxis] = arith::MaxSIOp::create(
      b, arith::MinSIOp::create(b, left, b.index(pageSize)), b.index(0));
  auto ifOp = scf::IfOp::create(b, TypeRange(b.getIndexType()),
                                b.lessThan(b.index(0), left),
                                /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  scf::YieldOp::create(b, loadPage(view, entry));
  b.setInsertionPointToStart(ifOp.elseBlock());
  scf::YieldOp::create(b, b.index(0));
  coordinates[pageAxis] = ifOp.getResult(0);
}

void TensorPlace::leave(Operation *view, bool isThere) {
  if (auto pages = dyn_cast<ViewPagesOp>(view))
    leave(pages, isThere);
  else if (auto part = dyn_cast<memref::SubViewOp>(view))
    leave(part);
}

SmallVector<Value> TensorBox::getStart(IndexBuilder &b, int64_t cols) const {
  SmallVector<Value> start = coordinates;
  start.back() = b.add(start.back(), cols);
  std::reverse(start.begin(), start.end());
  for (Value &coordinate : start)
    coordinate = arith::IndexCastOp::create(b, b.getI32Type(), coordinate);
  return start;
}

/// The sides of a box of `rows` rows of `tensor` and, of a ring of groups, of
/// one group.
static std::pair<SmallVector<int64_t>, SmallVector<int64_t>>
getBoxSides(Value tensor, RingType ring, int64_t rows) {
  int64_t panelCols = ring.getPanelCols();
  if (!ring.hasGroups())
    return {{1, 1, rows, panelCols}, {1, 1, rows, panelCols}};
  int64_t group = ring.getGroup();
  int64_t cols = cast<MemRefType>(tensor.getType()).getShape().back();
  int64_t panels = cols / panelCols;
  return {{1, rows / group, panels, group, panelCols},
          {1, 1, panels, group, panelCols}};
}

std::optional<BoxSource> BoxSource::find(gpu::GPUFuncOp kernel, Value tensor,
                                         RingType ring, int64_t rows) {
  SmallVector<Operation *> views;
  Operation *op = tensor.getDefiningOp();
  for (; isa_and_nonnull<memref::CastOp, memref::SubViewOp, ViewPagesOp>(op);
       op = op->getOperand(0).getDefiningOp())
    views.push_back(op);
  auto root = dyn_cast_if_present<memref::ReinterpretCastOp>(op);
  auto pointer =
      root ? dyn_cast<BlockArgument>(root.getSource()) : BlockArgument();
  auto description = kernel->getAttrOfType<DictionaryAttr>(kKernelAttrName);
  auto arguments =
      description ? description.getAs<ArrayAttr>("arguments") : ArrayAttr();
  if (!pointer || pointer.getOwner() != &kernel.getBody().front() ||
      !arguments || pointer.getArgNumber() >= arguments.size())
    return std::nullopt;
  auto get = [&](size_t i, StringRef name) -> Attribute {
    auto entry = dyn_cast<DictionaryAttr>(arguments[i]);
    return entry ? entry.get(name) : Attribute();
  };
  BoxSource source(root, std::move(views));
  source.group = ring.getGroup();
  Builder b(kernel.getContext());
  auto [plainBox, partBox] = getBoxSides(tensor, ring, rows);
  SmallVector<int64_t> raggedBox(partBox);
  if (!source.group)
    raggedBox.insert(raggedBox.begin(), 1);
  Attribute group = source.group ? b.getI64IntegerAttr(source.group) : nullptr;
  for (unsigned i = 0; i < arguments.size(); ++i) {
    auto ragged = dyn_cast_if_present<IntegerAttr>(get(i, "ragged"));
    if (get(i, "kind") != b.getStringAttr("tensor_map") ||
        get(i, "tensor") != get(pointer.getArgNumber(), "tensor") ||
        get(i, "copy_of") != get(pointer.getArgNumber(), "copy_of") ||
        get(i, "group") != group ||
        get(i, "swizzle") != b.getI64IntegerAttr(kPanelBytes))
      continue;
    Value map = kernel.getArgument(i);
    Attribute box = get(i, "box");
    if (ragged && box == b.getI64ArrayAttr(raggedBox)) {
      source.ragged = map;
      source.raggedAxis = ragged.getInt();
    }
    if (!ragged && box == b.getI64ArrayAttr(plainBox))
      source.plain = map;
    if (!ragged && box == b.getI64ArrayAttr(partBox))
      source.outside = map;
  }
  return source.plain || source.ragged ? std::optional(source) : std::nullopt;
}

/// The coordinate of a page and a head in the axis that both have in maps of
/// groups, of 32 bits as all are. It does not depend on the stride of an axis
/// of one.
static Value getEntry(IndexBuilder &b, TensorPlace &place,
                      memref::ReinterpretCastOp root) {
  SmallVector<OpFoldResult> sizes = root.getMixedSizes(),
                            strides = root.getMixedStrides();
  auto getStride = [&](unsigned axis) -> Value {
    Value stride = place.asValue(strides[axis]);
    Value isLong = b.lessThan(b.index(1), place.asValue(sizes[axis]));
    return arith::SelectOp::create(b, isLong, stride, b.index(0));
  };
  Value page = getStride(0), head = getStride(1);
  Value both = arith::OrIOp::create(b, arith::OrIOp::create(b, page, head),
                                    b.index(kMostEntryUnit));
  Value shift = math::CountTrailingZerosOp::create(b, both);
  auto asI32 = [&](Value index) -> Value {
    return arith::IndexCastOp::create(b, b.getI32Type(), index);
  };
  auto count = [&](unsigned axis, Value stride) -> Value {
    Value step = arith::ShRUIOp::create(b, stride, shift);
    return arith::MulIOp::create(b, asI32(place.coordinates[axis]),
                                 asI32(step));
  };
  return arith::IndexCastOp::create(b, b.getIndexType(),
                                    b.add(count(0, page), count(1, head)));
}

TensorBox BoxSource::getBox(IndexBuilder &b,
                            ConversionPatternRewriter &rewriter,
                            ArrayRef<Value> corner, int64_t row) const {
  TensorPlace place(b, rewriter, corner, row, views, /*isThere=*/true);
  if (!group)
    return {plain, place.coordinates, {}};
  Value zero = b.index(0);
  Value number = b.div(place.coordinates[2], group);
  return {plain, {getEntry(b, place, root), number, zero, zero, zero}, {}};
}

TensorBox BoxSource::getRaggedBox(IndexBuilder &b,
                                  ConversionPatternRewriter &rewriter,
                                  ArrayRef<Value> coordinates) const {
  TensorPlace place(b, rewriter, coordinates, /*row=*/0, views,
                    /*isThere=*/false);
  Value rows = place.asValue(
      memref::ReinterpretCastOp(root).getMixedSizes()[raggedAxis]);
  Value end = place.ends[raggedAxis] ? place.ends[raggedAxis] : rows;
  Value left = arith::SubIOp::create(b, end, place.coordinates[raggedAxis]);
  TensorBox box{ragged, {b.add(end, -1)}, b.lessThan(b.index(0), left)};
  Value row = arith::SubIOp::create(b, rows, left);
  if (group) {
    Value zero = b.index(0);
    box.coordinates.append({getEntry(b, place, root), zero, row, zero});
    return box;
  }
  llvm::append_range(box.coordinates, place.coordinates);
  box.coordinates[1 + raggedAxis] = row;
  return box;
}

TensorBox BoxSource::getBoxOutside(IndexBuilder &b,
                                   ConversionPatternRewriter &rewriter) const {
  SmallVector<OpFoldResult> sizes =
      memref::ReinterpretCastOp(root).getMixedSizes();
  // Of groups of rows there are fewer than rows.
  SmallVector<Value> coordinates(group ? 5 : sizes.size(), b.index(0));
  // The map of a tensor without rows is that of one.
  TensorPlace place(b, rewriter, coordinates);
  coordinates[group ? 1 : raggedAxis] =
      b.add(place.asValue(sizes[raggedAxis]), 1);
  return {outside, coordinates, {}};
}
