//===- TileLayout.h - Which lane holds what of a tile -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_TARGET_TILELAYOUT_H
#define FLASHCORE_TARGET_TILELAYOUT_H

#include "flashcore/Target/BitMap.h"

#include <string>

namespace mlir::flashcore {

/// The place in a tile that each register of each lane of each warp holds: a
/// linear map (register, lane, warp) -> (row, column), or -> (element) for a
/// vector. It covers a box whose sides are powers of two; a larger tile repeats
/// it, in row-major order, and its registers are those of the first box, then
/// of the second, and so on.
class TileLayout {
public:
  enum Input { Register, Lane, Warp };
  enum Axis { Row, Column };
  static constexpr unsigned numInputs = 3;
  using Bases = std::vector<BitPoint>;

  /// The layout must be valid, see `check`.
  TileLayout(unsigned rank, Bases registers, Bases lanes, Bases warps = {})
      : map(rank, {std::move(registers), std::move(lanes), std::move(warps)}) {}

  /// Why a map is no layout, or nothing: registers hold different places,
  /// lanes and warps different ones or the same (replicas), and all of them
  /// together the whole box.
  static std::optional<std::string> check(const BitMap &map);

  const BitMap &getMap() const { return map; }
  unsigned getRank() const { return map.getNumOutputs(); }
  llvm::ArrayRef<BitPoint> getBases(Input input) const {
    return map.getBases(input);
  }
  int64_t getNumRegisters() const { return map.getInputSize(Register); }
  /// The sides of the box.
  llvm::SmallVector<int64_t, 2> getBox() const;

  BitPoint apply(int64_t reg, int64_t lane, int64_t warp = 0) const {
    return map.apply({reg, lane, warp});
  }

  /// Whether registers, lanes and warps have bits of a place to themselves, so
  /// that a lane's place plus a register's is the place of both.
  bool isSeparable() const;

  /// The layout of a vector with an element for each place along `axis`: what
  /// is left of a tile when the other axis is reduced. Lanes and warps that
  /// differ along the other axis only hold the same elements.
  TileLayout slice(Axis axis) const;

  /// The layout of the tile's transpose.
  TileLayout transpose() const { return TileLayout(map.slice({Column, Row})); }

  /// The least layout that, repeated, holds the same places in the same lanes
  /// and warps as this one, if in another order of registers.
  TileLayout getCore() const;

  /// The layout of a box of `shape`, multiples of this one's, whose registers
  /// are those of a tile of that shape.
  TileLayout repeat(llvm::ArrayRef<int64_t> shape) const;

  /// The bits of `input` that say where along `axis` it is, as masks, lowest
  /// first; nothing if one of them says where along another axis it is, too.
  /// Along them a reduction of `axis` takes all of the input's numbers.
  std::optional<llvm::SmallVector<int64_t>> getSpread(Input input,
                                                      Axis axis) const;
  /// The mask of the bits of `input` that say nothing: numbers that differ in
  /// them only hold the same.
  int64_t getReplicas(Input input) const;

  /// How many registers from the first on hold places next to each other along
  /// `axis`: as wide as one access of memory may be.
  int64_t getRun(Axis axis) const;

  bool operator==(const TileLayout &other) const { return map == other.map; }
  bool operator!=(const TileLayout &other) const { return map != other.map; }

private:
  explicit TileLayout(BitMap map) : map(std::move(map)) {}

  BitMap map;
};

/// Where the places of one layout are in another of the same box: (register,
/// lane, warp) of `to` -> (register, lane, warp) of `from`, of replicas the
/// first.
BitMap convertLayout(const TileLayout &from, const TileLayout &to);

} // namespace mlir::flashcore

#endif // FLASHCORE_TARGET_TILELAYOUT_H
