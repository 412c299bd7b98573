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
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Transforms/DialectConversion.h"

namespace mlir::fcgpu {

/// Rows and columns of a core (see `#fcgpu.fragment`).
inline constexpr int64_t kCore = 8;

/// Whether `type` is a tile or row vector that distribution takes apart: what
/// it makes (vector<2xT>, operands of mma.sync) is smaller.
bool isWarpTile(Type type);

/// The `fcgpu.layout` of the tile `value`, or null: a tile without one (a
/// splat, say) fits any layout.
FragmentAttr getLayout(Value value);
/// Whether the tile `value` has order column.
bool isColumnOrder(Value value);

/// Values every pattern may use; they are defined at the kernel's entry.
struct ThreadContext {
  Value thread; ///< 0 to numThreads - 1
  Value warp;   ///< 0 to numThreads / 32 - 1
  Value lane;   ///< 0 to 31
  int64_t numThreads;
  /// Byte offset of each ring: of those of the block in the dynamic shared
  /// memory, of those of a warp in the warp's part of it.
  DenseMap<Value, int64_t> ringOffsets;
  Value sharedMemory; ///< memref of bytes
  /// Behind the block's rings, each warp has a part of its own.
  int64_t warpStart, warpBytes;
  Value warpOffset; ///< byte offset of this warp's part
};

/// Index arithmetic without the noise.
struct IndexBuilder : ImplicitLocOpBuilder {
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(*this, value);
  }
  Value add(Value a, Value b) { return arith::AddIOp::create(*this, a, b); }
  Value add(Value a, int64_t b) { return b ? add(a, index(b)) : a; }
  Value sub(Value a, Value b) { return arith::SubIOp::create(*this, a, b); }
  Value mul(Value a, int64_t b) {
    return arith::MulIOp::create(*this, a, index(b));
  }
  Value div(Value a, int64_t b) {
    return arith::DivUIOp::create(*this, a, index(b));
  }
  Value rem(Value a, int64_t b) {
    return arith::RemUIOp::create(*this, a, index(b));
  }
  Value bitXor(Value a, Value b) { return arith::XOrIOp::create(*this, a, b); }
  Value lessThan(Value a, Value b) {
    return arith::CmpIOp::create(*this, arith::CmpIPredicate::slt, a, b);
  }
};

template <typename OpTy> struct ThreadPattern : OpConversionPattern<OpTy> {
  ThreadPattern(const TypeConverter &converter, MLIRContext *context,
                const ThreadContext &thread)
      : OpConversionPattern<OpTy>(converter, context), thread(thread) {}
  const ThreadContext &thread;
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
/// all_to_all.
void populateExchangePatterns(const TileTypeConverter &converter,
                              const ThreadContext &context,
                              RewritePatternSet &patterns);
/// Bytes of a warp's part of shared memory that `op` uses.
int64_t getExchangeBytes(AllToAllOp op);
/// Contractions, reductions, broadcasts, constants, elementwise ops.
void populateComputePatterns(const TileTypeConverter &converter,
                             RewritePatternSet &patterns);
/// map_scores.
void populateScorePatterns(const TileTypeConverter &converter,
                           const ThreadContext &context,
                           RewritePatternSet &patterns);

} // namespace mlir::fcgpu

#endif // FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_DISTRIBUTEPATTERNS_H
