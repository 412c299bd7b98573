//===- Schedule.h - The fields of a schedule --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `#fcgpu.schedule` as plain structs, made of the list in ScheduleFields.def.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FCGPU_IR_SCHEDULE_H
#define FLASHCORE_DIALECT_FCGPU_IR_SCHEDULE_H

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "flashcore/Dialect/FCGPU/IR/FCGPUEnums.h.inc"

namespace mlir::fcgpu {

/// Warps of a block: a block has at most 1024 threads.
inline constexpr int64_t kMaxWarps = 32;

/// Larger than anything that fits a chip, small enough for products of sizes
/// not to overflow.
inline constexpr int64_t kMaxRows = 4096, kMaxStages = 1024, kMaxBlocks = 32;

/// Blocks that may share a query tile.
inline constexpr int64_t kMaxKeySplits = 256;

/// More keys than any part of them has.
inline constexpr int64_t kMaxSplitKeys = 1 << 20;

/// Warps whose threads execute one wgmma together, the rows of its tiles, and
/// the most columns of its result.
inline constexpr int64_t kWarpsOfGroup = 4, kRowsOfGroup = 64,
                         kMaxColumnsOfGroup = 256;
/// Rows of the products of a warp, and of its lanes with one row each.
inline constexpr int64_t kRowsOfWarp = 16, kRowsOfThreads = 32;
/// Bytes of a row of a panel (see `!fcgpu.ring`), and at which slots of panels
/// begin: where the 128-byte swizzle does.
inline constexpr int64_t kPanelBytes = 128, kPanelAlignment = 1024;
/// Rows after which the swizzle of a panel repeats.
inline constexpr int64_t kSwizzledRows = kPanelAlignment / kPanelBytes;
/// Bytes that copies and ldmatrix take at a time of a row, and swizzles move.
inline constexpr int64_t kChunkBytes = 16;

/// Columns of Q that one mma.sync multiplies, the unit of `query_steps`.
inline constexpr int64_t kQueryStep = 16;
/// Columns of a tile of rows of `columns`, whole chunks of 16-bit elements and
/// not fewer than one product takes: behind those of the rows are zeros.
inline int64_t getTileColumns(int64_t columns) {
  constexpr int64_t chunkColumns = kChunkBytes / 2;
  return std::max(llvm::alignTo(columns, chunkColumns), uint64_t(kQueryStep));
}
/// Columns from a row of a padded slot to the next, of 16-bit elements: an odd
/// number of chunks.
inline int64_t getPaddedColumns(int64_t columns) {
  constexpr int64_t chunkColumns = kChunkBytes / 2;
  return (llvm::divideCeil(columns, chunkColumns) | 1) * chunkColumns;
}
/// Columns of ones behind those of V, whose products are the row sums: as many
/// as are added to a product at a time.
inline constexpr int64_t kOnesColumns = 8;
/// Larger than any head has.
inline constexpr int64_t kMaxQuerySteps = 1024;
/// Leading columns of a Q of `headDim` columns that stay in registers.
int64_t getKeptQueryColumns(QueryPlacement query, int64_t querySteps,
                            int64_t headDim);

/// More heads that take turns than any grid has.
inline constexpr int64_t kMaxGridHeads = 1 << 20;

namespace detail {
template <typename Type> struct ScheduleFieldTraits {
  using Forced = std::optional<Type>;
  using Text = std::string;
};
template <> struct ScheduleFieldTraits<int64_t> {
  using Forced = int64_t;
  using Text = int64_t;
};
} // namespace detail

/// A field that may be left open, by 0 or no value.
template <typename Type>
using ForcedField = typename detail::ScheduleFieldTraits<Type>::Forced;
/// The same as an option of a command line: a number, or an enum's word. 0 or
/// no word leaves it open.
template <typename Type>
using FieldOption = typename detail::ScheduleFieldTraits<Type>::Text;

/// What a user forces; the rest is ours to choose.
struct ScheduleOptions {
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  ForcedField<Type> name{};
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
};

/// A whole schedule; the fields of `#fcgpu.schedule` without the chip.
struct ScheduleChoice {
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  Type name = initial;
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"

  /// Warps that hold a tile together: those of a product.
  int64_t getTileWarps() const {
    return product == Product::Warpgroup ? kWarpsOfGroup : 1;
  }
  /// Holders of tiles (warps or warpgroups) in a block.
  int64_t getNumHolders() const { return numWarps / getTileWarps(); }
  /// Whether bulk copies fill the rings.
  bool hasBulkCopies() const { return product == Product::Warpgroup; }
  /// Whether warps of their own do.
  bool hasProducer() const { return getProducerWarps() > 0; }
  /// Warps that only fill rings. Of a warpgroup registers change hands.
  int64_t getProducerWarps() const {
    return hasBulkCopies()                ? kWarpsOfGroup
           : copies == CopyPath::Producer ? 1
                                          : 0;
  }
  /// Whether products take tiles from shared memory.
  bool multipliesInPlace() const { return product != Product::Warp; }
  /// Whether rows of these tiles lie at one distance.
  bool hasPlainTiles() const {
    return product == Product::Wmma || product == Product::Thread;
  }
  /// How these tiles lie in their slots.
  RingLayout getTileLayout() const {
    return !hasPlainTiles()              ? RingLayout::Panels
           : exchange == Exchange::Plain ? RingLayout::Plain
                                         : RingLayout::Padded;
  }
  /// Whether lanes take 16 bytes of what goes through memory at a time.
  bool hasWideTiles() const {
    return exchange == Exchange::Wide || sumsInFragments();
  }
  /// Whether O stays in accumulators of which nobody knows which lane has what.
  bool sumsInFragments() const { return exchange == Exchange::Fragments; }
  /// Query rows that one holder multiplies at a time.
  int64_t getRowMultiple() const {
    return product == Product::Thread ? kRowsOfThreads : kRowsOfWarp;
  }
  /// Warps of a block, with those that only copy.
  int64_t getAllWarps() const { return numWarps + getProducerWarps(); }
  /// Groups of holders that own different query rows of one head; the numbers
  /// of warps, heads and key parts must come out even.
  int64_t getRowWarps() const {
    return getNumHolders() / (keyWarps * headGroup);
  }
  /// Query rows a holder owns, alone or with the others of its group.
  int64_t getWarpM() const { return blockM / getRowWarps(); }
  /// Blocks of a persistent grid for each SM.
  int64_t getBlocksPerSM() const { return minBlocks ? minBlocks : 1; }
  /// Leading columns of Q, of `headDim`, that stay in registers.
  int64_t getKeptQueryColumns(int64_t headDim) const {
    return fcgpu::getKeptQueryColumns(query, querySteps, headDim);
  }
  /// Columns of ones that tiles of V have.
  int64_t getOnesColumns() const {
    return product == Product::Warpgroup && rowSum == RowSum::Mma ? kOnesColumns
                                                                  : 0;
  }
  /// Whether the bits of a row are the same in any batch.
  bool isInvariant() const { return invariance == Invariance::Batch; }
  /// Whether Q K^T, softmax and P V are kernels of their own.
  bool isUnfused() const { return softmax == Softmax::Unfused; }
  /// Query rows of a block, of all its heads.
  int64_t getQueryRows() const { return blockM * headGroup; }

  bool operator==(const ScheduleChoice &other) const;
};

/// How an error calls the fields of a schedule, given by their keys: like those
/// of the attribute, block_m, or like options, block-m.
enum class FieldNames { Attribute, Options };
std::string spell(StringRef key, FieldNames names);

/// Says why `choice` cannot work whatever the problem and the chip: the
/// offending value and what is expected; nothing when it may.
std::optional<std::string> checkFields(const ScheduleChoice &choice,
                                       FieldNames names);

/// The values that a field may have with a product, of ProductFields.def; none
/// where it may have all.
llvm::ArrayRef<llvm::StringRef> findValuesOf(Product product,
                                             llvm::StringRef key);

/// A value of a field, for a user.
inline std::string printField(int64_t value) { return std::to_string(value); }
template <typename Enum> std::string printField(Enum value) {
  return stringifyEnum(value).str();
}

/// The words of an enum, in order.
template <typename Enum> SmallVector<StringRef> getWords() {
  SmallVector<StringRef> words;
  auto get = [](size_t i) { return stringifyEnum(static_cast<Enum>(i)); };
  for (size_t i = 0; !get(i).empty(); ++i)
    words.push_back(get(i));
  return words;
}

/// "a, b or c", each between two `quote`.
std::string joinWords(ArrayRef<StringRef> words, StringRef quote = "");

/// What an option says for --help: `text`, and the words of an enum.
template <typename Type> std::string describeOption(StringRef text) {
  if constexpr (std::is_enum_v<Type>)
    return (text + ": " + joinWords(getWords<Type>())).str();
  return text.str();
}

} // namespace mlir::fcgpu

#endif // FLASHCORE_DIALECT_FCGPU_IR_SCHEDULE_H
