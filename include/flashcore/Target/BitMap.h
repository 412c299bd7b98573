//===- BitMap.h - Linear maps over bits -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How hardware spreads a tile over registers, lanes and warps is linear over
// the bits of their numbers (Zhou et al., "Linear Layouts: Robust Code
// Generation of Efficient Tensor Computation Using F2", 2025). So is its
// inverse, what follows from two of them, and what is left when a dimension is
// reduced.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_TARGET_BITMAP_H
#define FLASHCORE_TARGET_BITMAP_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace mlir::flashcore {

/// A point of a map's domain or range: a number for each of its coordinates.
using BitPoint = llvm::SmallVector<int64_t, 3>;

/// A map from points to points that is linear over bits: each bit of each input
/// coordinate has a point, its basis, and the result is the xor of the bases of
/// the bits that are set.
class BitMap {
public:
  /// `bases[i][b]` is the basis of bit b of input coordinate i. All have
  /// `numOutputs` coordinates, none of them negative.
  BitMap(unsigned numOutputs, std::vector<std::vector<BitPoint>> bases);

  /// The map of a domain with so many bits in each coordinate to itself.
  static BitMap identity(llvm::ArrayRef<unsigned> bits);

  unsigned getNumInputs() const { return bases.size(); }
  unsigned getNumOutputs() const { return numOutputs; }
  llvm::ArrayRef<BitPoint> getBases(unsigned input) const {
    return bases[input];
  }
  /// Numbers that an input coordinate takes, from 0 on.
  int64_t getInputSize(unsigned input) const {
    return int64_t(1) << bases[input].size();
  }
  /// The least power of two above all numbers of an output coordinate.
  int64_t getOutputSize(unsigned output) const;

  BitPoint apply(llvm::ArrayRef<int64_t> point) const;

  /// The map to some of the output coordinates, in the order given.
  BitMap slice(llvm::ArrayRef<unsigned> outputs) const;

  /// x -> this(inner(x)). The range of `inner` lies in the domain of this one.
  BitMap compose(const BitMap &inner) const;

  /// A map `f` with this(f(y)) = y for every y below the output sizes, or
  /// nothing where some y has no origin. Of several origins it is one whose
  /// bits without influence on the result (replicas) are 0.
  std::optional<BitMap> inverse() const;

  /// Whether different points have different results.
  bool isInjective() const;

  bool operator==(const BitMap &other) const {
    return numOutputs == other.numOutputs && bases == other.bases;
  }
  bool operator!=(const BitMap &other) const { return !(*this == other); }

private:
  unsigned numOutputs;
  std::vector<std::vector<BitPoint>> bases;
};

} // namespace mlir::flashcore

#endif // FLASHCORE_TARGET_BITMAP_H
