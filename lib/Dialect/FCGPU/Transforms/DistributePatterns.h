//===- DistributePatterns.h - Warp tiles to lanes ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the patterns of flashcore-distribute share. Of a tile or vector a lane
// has the registers that its layout says; neighbours come in parts, vectors of
// as many as mma.sync and 32-bit registers take, those of a vector alone. No
// pattern knows a layout: where a register's element is, which lanes hold a row
// and how much may be stored at once follows from the map.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_DISTRIBUTEPATTERNS_H
#define FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_DISTRIBUTEPATTERNS_H

#include "flashcore/Analysis/SharedMemoryLayout.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Target/Atoms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Transforms/DialectConversion.h"

#include <algorithm>

namespace mlir::fcgpu {

/// Rows and columns of a matrix of ldmatrix, the core of all operands of
/// mma.sync.
inline constexpr int64_t kCore = 8;

/// Whether a value runs along rows or columns (of rank 1, or with one row or
/// column), as opposed to a tile, which has both.
bool isVector(VectorType type);
/// The layout of a tile or vector that nothing demands: the core of an
/// accumulator, a value for each of its rows.
flashcore::TileLayout getDefaultLayout(VectorType type);

/// The layout of every tile and vector that distribution takes apart. Values
/// that it makes are not among them.
class LayoutMap {
public:
  /// Reads `fcgpu.layout` of all ops in `func`. A tile without one has that of
  /// an accumulator, a vector without one a value for each of its rows.
  explicit LayoutMap(gpu::GPUFuncOp func);

  /// Null for what is no tile or vector of a warp.
  const flashcore::TileLayout *lookup(Value value) const {
    auto it = layouts.find(value);
    return it == layouts.end() ? nullptr : &it->second;
  }
  /// Whether it is a tile in accumulators that nobody knows.
  bool isInFragments(Value value) const { return fragments.contains(value); }

private:
  void add(ValueRange values, Attribute layouts);

  DenseMap<Value, flashcore::TileLayout> layouts;
  DenseSet<Value> fragments;
};

/// Whether the right operand of a product is stored (n, k).
bool isStoredNK(vector::ContractionOp op);

/// The atoms of the chip for a contraction of tiles, or none.
SmallVector<const flashcore::MmaAtom *>
findMmaAtoms(const flashcore::TargetInfo &target, vector::ContractionOp op);

/// The first of them, or null if they take right operands from another place.
const flashcore::MmaAtom *findMmaAtom(const flashcore::TargetInfo &target,
                                      vector::ContractionOp op,
                                      flashcore::OperandPlace rhsPlace);

/// The atom of the chip for a copy into slots of a ring, or null.
const flashcore::CopyAtom *findFillAtom(const flashcore::TargetInfo &target,
                                        CopyOp op);
/// The atom of the chip that reads tiles of a ring to registers, or null.
const flashcore::CopyAtom *findReadAtom(const flashcore::TargetInfo &target);

/// What stands for a tile in place of plain rows: the elements of its slot.
MemRefType getSlotType(RingType ring);

/// Accumulators of wmma that a tile consists of, in row-major order: 16 x 16
/// elements each.
gpu::MMAMatrixType getFragmentType(Type element);
inline constexpr int64_t kFragment = 16;

/// Elements of a part: a pair of 16 or 32 bits, what a 32-bit register holds of
/// smaller ones.
int64_t getPartSize(Type element);

/// Where the registers of a lane are in a tile (or vector), from its place in
/// register 0 on: boxes of the layout in row-major order. Of a tile of rank 3
/// the columns are those of all groups.
class TileRegisters {
public:
  TileRegisters(const flashcore::TileLayout &layout, VectorType type);

  int64_t size() const { return static_cast<int64_t>(places.size()); }
  ArrayRef<int64_t> getPlace(int64_t reg) const { return places[reg]; }
  int64_t getRow(int64_t reg) const { return places[reg].front(); }
  int64_t getColumn(int64_t reg) const { return places[reg].back(); }
  /// The register at a place.
  int64_t find(ArrayRef<int64_t> place) const;

private:
  std::vector<flashcore::BitPoint> places;
  DenseMap<std::pair<int64_t, int64_t>, int64_t> registers;
};

/// Values every pattern may use; they are defined at the kernel's entry.
struct ThreadContext {
  Value thread; ///< 0 to numThreads - 1
  Value warp;   ///< 0 to numThreads / 32 - 1
  Value lane;   ///< 0 to 31
  /// Which of the warps that hold a tile together this is; null where each has
  /// tiles of its own.
  Value warpOfHolder;
  int64_t numThreads;
  /// Where roles meet again, threads 0 to numInRoles - 1 do: the warps that
  /// have nothing to do in a role are done before. 0 where none meet.
  int64_t numInRoles = 0;
  const LayoutMap *layouts;
  const flashcore::TargetInfo *target;
  /// Byte offset of each ring: of those of the block in the dynamic shared
  /// memory, of those of a warp in the warp's part of it.
  DenseMap<Value, int64_t> ringOffsets;
  /// Byte offset of the barriers of each ring that is handed over: one for each
  /// slot that tells when it is filled, then one that tells when it is free.
  DenseMap<Value, int64_t> ringBarriers;
  DenseMap<Value, int64_t> flagOffsets; ///< in bytes
  Value sharedMemory;                   ///< memref of bytes
  /// Behind the block's rings, each warp has a part of its own.
  int64_t warpStart, warpBytes;
  int64_t scratchStart; ///< in the warp's part
  flashcore::ProductScratch scratch;
  Value warpOffset; ///< byte offset of this warp's part
  /// The newest PTX ISA, times ten, that an instruction of the kernel needs.
  mutable unsigned ptxVersion = 0;

  /// Says that the kernel has this instruction.
  void use(const flashcore::Instruction &instruction) const {
    ptxVersion = std::max(ptxVersion, instruction.ptxVersion);
  }
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

/// Parts of two elements each.
SmallVector<Value> packPairs(IndexBuilder &b, ArrayRef<Value> elements);
/// The xor of the bases of the bits that are set in `number`.
Value evaluate(IndexBuilder &b, ArrayRef<int64_t> bases, Value number);
/// What each bit of a lane's (or register's, or warp's) number adds to its
/// places along `axis`.
SmallVector<int64_t> getBases(const flashcore::TileLayout &layout,
                              flashcore::TileLayout::Input input,
                              unsigned axis);
/// Where along `axis` the thread's places begin.
Value getPlace(IndexBuilder &b, const flashcore::TileLayout &layout,
               unsigned axis, const ThreadContext &thread);
/// Whether the lane is the first of those that hold the same; null where all
/// hold something else.
Value isFirstReplica(IndexBuilder &b, const flashcore::TileLayout &layout,
                     Value lane);
/// One register of the parts of a tile, or of a vector.
Value getElement(IndexBuilder &b, ValueRange parts, int64_t reg);

/// Whether lanes can hand each other a tile or vector so that it gets another
/// layout.
bool canConvert(VectorType type, const flashcore::TileLayout &from,
                const flashcore::TileLayout &to);
/// The parts of a tile or vector in layout `to`, of those in layout `from`.
SmallVector<Value> convertParts(IndexBuilder &b, ValueRange parts,
                                VectorType type,
                                const flashcore::TileLayout &from,
                                const flashcore::TileLayout &to, Value lane);

template <typename OpTy> struct ThreadPattern : OpConversionPattern<OpTy> {
  ThreadPattern(const TypeConverter &converter, MLIRContext *context,
                const ThreadContext &thread)
      : OpConversionPattern<OpTy>(converter, context), thread(thread) {}
  const ThreadContext &thread;
};

/// Takes tiles apart, turns rings into memrefs, and leaves all else alone.
class TileTypeConverter : public TypeConverter {
public:
  explicit TileTypeConverter(const LayoutMap &layouts);
};

/// alloc_ring, copy, commit, wait, read.
void populateMemoryPatterns(const TileTypeConverter &converter,
                            const ThreadContext &context,
                            RewritePatternSet &patterns);
/// transfer_write.
void populateWritePatterns(const TileTypeConverter &converter,
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
                             const ThreadContext &context,
                             RewritePatternSet &patterns);
/// convert_layout.
void populateLayoutPatterns(const TileTypeConverter &converter,
                            const ThreadContext &context,
                            RewritePatternSet &patterns);
/// Products of tiles in place, and waiting for them.
void populateWarpgroupPatterns(const TileTypeConverter &converter,
                               const ThreadContext &context,
                               RewritePatternSet &patterns);
/// Products of tiles in place of plain rows.
void populatePlainPatterns(const TileTypeConverter &converter,
                           const ThreadContext &context,
                           RewritePatternSet &patterns);
/// What a warp needs for those of the kernel that go through memory.
flashcore::ProductScratch
getProductScratch(gpu::GPUFuncOp func, const flashcore::TargetInfo &target);
/// acquire, release, and copies into rings that are handed over.
void populateHandoverPatterns(const TileTypeConverter &converter,
                              const ThreadContext &context,
                              RewritePatternSet &patterns);
/// store, await_stores.
void populateStorePatterns(const TileTypeConverter &converter,
                           const ThreadContext &context,
                           RewritePatternSet &patterns);
/// A box of a tensor map, which a bulk copy moves.
struct TensorBox {
  Value map; ///< an argument of the kernel
  /// Where the box begins, outermost axis first.
  SmallVector<Value> coordinates;
  /// Whether some of the box is in the tensor, where a copy may move no other
  /// one; null where it may.
  Value isInside;

  /// Where the one `cols` columns on begins, as an instruction takes it:
  /// innermost axis first.
  SmallVector<Value> getStart(IndexBuilder &b, int64_t cols) const;
};

/// The tensor of a kernel that a memref is a view of, and its maps with boxes
/// of some rows of a panel or, for a ring of groups, of all panels.
class BoxSource {
public:
  /// None if the kernel has no such map.
  static std::optional<BoxSource> find(gpu::GPUFuncOp kernel, Value tensor,
                                       RingType ring, int64_t rows);
  /// Whether rows end where the view does, not with the tensor.
  bool isRagged() const { return static_cast<bool>(ragged); }
  /// Whether there is a map for boxes of whole tiles and those outside.
  bool isLoadable() const { return plain && outside; }
  /// The box `row` rows behind the corner of a tile of the memref, of which all
  /// rows are in the view or, if it is not ragged, outside of the tensor.
  TensorBox getBox(IndexBuilder &b, ConversionPatternRewriter &rewriter,
                   ArrayRef<Value> corner, int64_t row = 0) const;
  /// The box at `coordinates` of one that is ragged.
  TensorBox getRaggedBox(IndexBuilder &b, ConversionPatternRewriter &rewriter,
                         ArrayRef<Value> coordinates) const;
  /// A box that is outside of the tensor and may be loaded.
  TensorBox getBoxOutside(IndexBuilder &b,
                          ConversionPatternRewriter &rewriter) const;

private:
  BoxSource(memref::ReinterpretCastOp root, SmallVector<Operation *> views)
      : root(root), views(std::move(views)) {}

  memref::ReinterpretCastOp root;
  SmallVector<Operation *> views; ///< from the memref to the tensor
  Value plain, ragged;            ///< maps; null if there is none
  Value outside;                  ///< plain, of boxes as those of `ragged`
  int64_t raggedAxis = 0;
  int64_t group = 0; ///< rows of a group of panels, if boxes have all
};
/// What the thread has written to shared memory is there for bulk copies and
/// products that other threads start behind a barrier.
void fenceAsyncProxy(IndexBuilder &b);
/// How many threads run what is built at the builder's place.
int64_t getNumPresent(IndexBuilder &b, const ThreadContext &thread);
/// Waits for all of them, which may stand in the programs of different roles:
/// the `meeting`-th time there, from 0.
void meetBlock(IndexBuilder &b, const ThreadContext &thread, int64_t meeting);
/// The mbarrier at which threads of different roles meet.
Value getMeetingBarrier(IndexBuilder &b, const ThreadContext &thread);
/// What the lanes of a warp have written to shared memory is there for all.
void syncWarp(IndexBuilder &b);
/// Waits until the phase of an mbarrier that has this parity is complete.
void waitForPhase(IndexBuilder &b, const ThreadContext &thread, Value barrier,
                  Value parity);
/// A 32-bit number.
Value getI32(IndexBuilder &b, int64_t value);
/// What one lane does for its warp.
void runInFirstLane(IndexBuilder &b, const ThreadContext &thread,
                    function_ref<void()> body);
/// The pointer that LLVM ops take to an address in shared memory.
Value asSharedPointer(IndexBuilder &b, Value address);
/// A part of 16-bit elements as a register.
Value asRegister(IndexBuilder &b, Value part);
/// The address of the slot of tile `tile`, in bytes of shared memory; `view` is
/// what stands for the ring.
Value getSlotAddress(IndexBuilder &b, Value view, RingType ring, Value tile);
/// The barrier of a slot that lets one side have it.
Value getRingBarrier(IndexBuilder &b, const ThreadContext &thread,
                     TypedValue<RingType> ring, RingSide side, Value slot);
/// dropout.
void populateDropoutPatterns(const TileTypeConverter &converter,
                             const ThreadContext &context,
                             RewritePatternSet &patterns);
/// map_scores.
void populateScorePatterns(const TileTypeConverter &converter,
                           const ThreadContext &context,
                           RewritePatternSet &patterns);

} // namespace mlir::fcgpu

#endif // FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_DISTRIBUTEPATTERNS_H
