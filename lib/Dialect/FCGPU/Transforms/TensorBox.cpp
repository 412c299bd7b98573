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
//===----------------------------------------------------------------------===//

#include "DistributePatterns.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
/// A place in a memref, on its way to the tensor that this is a view of.
class TensorPlace {
public:
  TensorPlace(IndexBuilder &b, ConversionPatternRewriter &rewriter,
              ArrayRef<Value> coordinates)
      : coordinates(coordinates), ends(coordinates.size()), b(b),
        rewriter(rewriter) {}
  /// Where these views lead to from `coordinates`.
  TensorPlace(IndexBuilder &b, ConversionPatternRewriter &rewriter,
              ArrayRef<Value> coordinates, ArrayRef<Operation *> views,
              bool isThere)
      : TensorPlace(b, rewriter, coordinates) {
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
  Builder b(kernel.getContext());
  for (unsigned i = 0; i < arguments.size(); ++i) {
    auto ragged = dyn_cast_if_present<IntegerAttr>(get(i, "ragged"));
    SmallVector<int64_t> box{1, 1, rows, ring.getPanelCols()};
    if (ragged)
      box.insert(box.begin(), 1);
    if (get(i, "kind") != b.getStringAttr("tensor_map") ||
        get(i, "tensor") != get(pointer.getArgNumber(), "tensor") ||
        get(i, "copy_of") != get(pointer.getArgNumber(), "copy_of") ||
        get(i, "box") != b.getI64ArrayAttr(box) ||
        get(i, "swizzle") != b.getI64IntegerAttr(kPanelBytes))
      continue;
    (ragged ? source.ragged : source.plain) = kernel.getArgument(i);
    if (ragged)
      source.raggedAxis = ragged.getInt();
  }
  return source.plain || source.ragged ? std::optional(source) : std::nullopt;
}

TensorBox BoxSource::getBox(IndexBuilder &b,
                            ConversionPatternRewriter &rewriter,
                            ArrayRef<Value> coordinates) const {
  TensorPlace place(b, rewriter, coordinates, views, /*isThere=*/true);
  return {plain, place.coordinates, {}};
}

TensorBox BoxSource::getRaggedBox(IndexBuilder &b,
                                  ConversionPatternRewriter &rewriter,
                                  ArrayRef<Value> coordinates) const {
  TensorPlace place(b, rewriter, coordinates, views, /*isThere=*/false);
  Value rows = place.asValue(
      memref::ReinterpretCastOp(root).getMixedSizes()[raggedAxis]);
  Value end = place.ends[raggedAxis] ? place.ends[raggedAxis] : rows;
  Value left = arith::SubIOp::create(b, end, place.coordinates[raggedAxis]);
  TensorBox box{ragged, {b.add(end, -1)}, b.lessThan(b.index(0), left)};
  llvm::append_range(box.coordinates, place.coordinates);
  box.coordinates[1 + raggedAxis] = arith::SubIOp::create(b, rows, left);
  return box;
}

TensorBox BoxSource::getBoxOutside(IndexBuilder &b,
                                   ConversionPatternRewriter &rewriter) const {
  SmallVector<OpFoldResult> sizes =
      memref::ReinterpretCastOp(root).getMixedSizes();
  SmallVector<Value> coordinates(sizes.size(), b.index(0));
  // The map of a tensor without rows is that of one.
  TensorPlace place(b, rewriter, coordinates);
  coordinates[raggedAxis] = b.add(place.asValue(sizes[raggedAxis]), 1);
  return {plain, coordinates, {}};
}
