//===- DistributePatterns.h - Warp tiles to lanes ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the patterns of flashcore-distribute share. A tile of R x C elements is
// the list of its R/8 x C/8 cores in row-major order, each a vector<2xT>; a row
// vector of R elements the list of R/8 scalars.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_DISTRIBUTEPATTERNS_H
#define FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_DISTRIBUTEPATTERNS_H

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Transforms/DialectConversion.h"

namespace mlir::fcgpu {

/// Rows and columns of a core (see `#fcgpu.fragment`).
inline constexpr int64_t kCore = 8;

/// Whether `type` is a tile or row vector that distribution takes apart: what
/// it makes (vector<2xT>, operands of mma.sync) is smaller.
bool isWarpTile(Type type);

/// Whether `fcgpu.layout` says that the tile `value` has order column. A tile
/// without a layout (a splat, say) fits any order.
bool isColumnOrder(Value value);

/// Values every pattern may use; they are defined at the kernel's entry.
struct ThreadContext {
  Value thread; ///< 0 to numThreads - 1
  Value lane;   ///< 0 to 31
  int64_t numThreads;
  /// Byte offset of each ring in the dynamic shared memory.
  DenseMap<Value, int64_t> ringOffsets;
  Value sharedMemory; ///< memref of bytes
};

/// Takes tiles apart, turns rings into memrefs, and leaves all else alone.
class TileTypeConverter : public TypeConverter {
public:
  TileTypeConverter();
};

/// alloc_ring, copy, commit, wait, read, transfer_write.
void populateMemoryPatterns(const TileTypeConverter &converter,
                            const ThreadContext &context,
                            RewritePatternSet &patterns);
/// Contractions, reductions, broadcasts, constants, elementwise ops.
void populateComputePatterns(const TileTypeConverter &converter,
                             const ThreadContext &context,
                             RewritePatternSet &patterns);

} // namespace mlir::fcgpu

#endif // FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_DISTRIBUTEPATTERNS_H
