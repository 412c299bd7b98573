//===- RowAccess.cpp - How much of a row moves at a time ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/RowAccess.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

#include <algorithm>

using namespace mlir::flashcore;

int64_t mlir::flashcore::chooseAccessBytes(const RowShape &rows) {
  if (ShapedType::isDynamic(rows.columns))
    return rows.elementBytes;
  // The lowest bit that is set in any of them.
  uint64_t all = rows.columns;
  auto add = [&](int64_t elements) {
    if (!ShapedType::isDynamic(elements))
      all |= elements;
  };
  add(rows.offset);
  llvm::for_each(rows.strides, add);
  auto elements = static_cast<int64_t>(all & -all);
  return std::min(elements * rows.elementBytes, fcgpu::kChunkBytes);
}

int64_t mlir::flashcore::getAccessBytes(ShapedType type) {
  RowShape rows{type.getShape().back(), type.getElementTypeBitWidth() / 8};
  auto memref = dyn_cast<MemRefType>(type);
  if (!memref)
    return chooseAccessBytes(rows);
  llvm::SmallVector<int64_t> strides;
  [[maybe_unused]] LogicalResult isStrided =
      memref.getStridesAndOffset(strides, rows.offset);
  assert(succeeded(isStrided) && "verifiers have checked that");
  rows.strides = llvm::ArrayRef(strides).drop_back();
  return chooseAccessBytes(rows);
}

int64_t mlir::flashcore::getAccessBytes(Value memref) {
  int64_t bytes = getAccessBytes(cast<ShapedType>(memref.getType()));
  // A view's type does not say what its offset is a multiple of: a row of what
  // it is a view of begins there.
  if (auto pages = memref.getDefiningOp<fcgpu::ViewPagesOp>())
    return std::min(bytes, getAccessBytes(pages.getPool()));
  auto view = memref.getDefiningOp<ViewLikeOpInterface>();
  if (!view)
    return bytes;
  auto source = dyn_cast<MemRefType>(view.getViewSource().getType());
  if (!source || source.getRank() == 0)
    return bytes;
  return std::min(bytes, getAccessBytes(view.getViewSource()));
}
