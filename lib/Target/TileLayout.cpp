//===- TileLayout.cpp - Which lane holds what of a tile -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Target/TileLayout.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

#include <cassert>

using namespace mlir::flashcore;

static bool isZero(llvm::ArrayRef<int64_t> point) {
  return llvm::all_of(point, [](int64_t place) { return place == 0; });
}

static llvm::SmallVector<unsigned> getAxes(unsigned rank) {
  return llvm::to_vector(llvm::seq<unsigned>(0, rank));
}

std::optional<std::string> TileLayout::check(const BitMap &map) {
  unsigned numPlaced = 0;
  for (unsigned input = 0; input < numInputs; ++input)
    for (const BitPoint &basis : map.getBases(input)) {
      if (input == Register && isZero(basis))
        return "expects registers to hold different places, but one bit of "
               "their number changes none";
      numPlaced += !isZero(basis);
    }
  unsigned numBits = 0;
  for (unsigned axis : getAxes(map.getNumOutputs()))
    numBits += llvm::Log2_64(static_cast<uint64_t>(map.getOutputSize(axis)));
  if (numPlaced != numBits || !map.inverse())
    return "expects registers, lanes and warps to hold every place of a box "
           "once (or, with a basis of zeros, the same places), but " +
           std::to_string(numPlaced) + " bits are for a box of 2^" +
           std::to_string(numBits) + " places";
  return std::nullopt;
}

llvm::SmallVector<int64_t, 2> TileLayout::getBox() const {
  llvm::SmallVector<int64_t, 2> box;
  for (unsigned axis : getAxes(getRank()))
    box.push_back(map.getOutputSize(axis));
  return box;
}

bool TileLayout::isSeparable() const {
  BitPoint taken(getRank(), 0);
  for (unsigned input = 0; input < numInputs; ++input) {
    BitPoint own(getRank(), 0);
    for (const BitPoint &basis : map.getBases(input))
      for (unsigned axis : getAxes(getRank())) {
        if (basis[axis] & taken[axis])
          return false;
        own[axis] |= basis[axis];
      }
    for (unsigned axis : getAxes(getRank()))
      taken[axis] |= own[axis];
  }
  return true;
}

TileLayout TileLayout::slice(Axis axis) const {
  BitMap sliced = map.slice({static_cast<unsigned>(axis)});
  Bases registers(sliced.getBases(Register));
  llvm::erase_if(registers,
                 [](const BitPoint &basis) { return isZero(basis); });
  return {1, std::move(registers), Bases(sliced.getBases(Lane)),
          Bases(sliced.getBases(Warp))};
}

TileLayout TileLayout::getCore() const {
  Bases registers(getBases(Register));
  auto make = [&](Bases kept) {
    return BitMap(getRank(), {std::move(kept), Bases(getBases(Lane)),
                              Bases(getBases(Warp))});
  };
  while (!registers.empty()) {
    Bases fewer(registers.begin(), std::prev(registers.end()));
    if (check(make(fewer)))
      break;
    registers = std::move(fewer);
  }
  return TileLayout(make(std::move(registers)));
}

TileLayout TileLayout::repeat(llvm::ArrayRef<int64_t> shape) const {
  assert(shape.size() == getRank() && "expects a side for each axis");
  Bases registers(getBases(Register));
  llvm::SmallVector<int64_t, 2> box = getBox();
  // Row-major order: the last axis runs fastest.
  for (unsigned axis = getRank(); axis-- > 0;) {
    assert(llvm::isPowerOf2_64(static_cast<uint64_t>(shape[axis])));
    for (int64_t place = box[axis]; place < shape[axis]; place *= 2) {
      BitPoint &basis = registers.emplace_back(getRank(), 0);
      basis[axis] = place;
    }
  }
  return {getRank(), std::move(registers), Bases(getBases(Lane)),
          Bases(getBases(Warp))};
}

std::optional<llvm::SmallVector<int64_t>>
TileLayout::getSpread(Input input, Axis axis) const {
  llvm::SmallVector<int64_t> masks;
  for (auto [bit, basis] : llvm::enumerate(getBases(input))) {
    if (basis[axis] == 0)
      continue;
    BitPoint others = basis;
    others[axis] = 0;
    if (!isZero(others))
      return std::nullopt;
    masks.push_back(int64_t(1) << bit);
  }
  return masks;
}

int64_t TileLayout::getReplicas(Input input) const {
  int64_t mask = 0;
  for (auto [bit, basis] : llvm::enumerate(getBases(input)))
    if (isZero(basis))
      mask |= int64_t(1) << bit;
  return mask;
}

int64_t TileLayout::getRun(Axis axis) const {
  int64_t run = 1;
  for (const BitPoint &basis : getBases(Register)) {
    BitPoint next(getRank(), 0);
    next[axis] = run;
    if (basis != next)
      break;
    run *= 2;
  }
  return run;
}

BitMap mlir::flashcore::convertLayout(const TileLayout &from,
                                      const TileLayout &to) {
  assert(from.getBox() == to.getBox() && "expects layouts of one box");
  return from.getMap().inverse()->compose(to.getMap());
}
