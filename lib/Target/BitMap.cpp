//===- BitMap.cpp - Linear maps over bits ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Target/BitMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cassert>

using namespace mlir::flashcore;

/// Adds a point to another, over bits.
static void add(BitPoint &sum, llvm::ArrayRef<int64_t> point) {
  for (auto [total, coordinate] : llvm::zip_equal(sum, point))
    total ^= coordinate;
}

static bool isZero(llvm::ArrayRef<int64_t> point) {
  return llvm::all_of(point,
                      [](int64_t coordinate) { return coordinate == 0; });
}

BitMap::BitMap(unsigned numOutputs, std::vector<std::vector<BitPoint>> bases)
    : numOutputs(numOutputs), bases(std::move(bases)) {
  assert(llvm::all_of(this->bases, [&](const std::vector<BitPoint> &input) {
    return llvm::all_of(input, [&](const BitPoint &basis) {
      return basis.size() == numOutputs &&
             llvm::all_of(basis, [](int64_t c) { return c >= 0; });
    });
  }));
}

BitMap BitMap::identity(llvm::ArrayRef<unsigned> bits) {
  std::vector<std::vector<BitPoint>> bases(bits.size());
  for (auto [i, count] : llvm::enumerate(bits))
    for (unsigned bit = 0; bit < count; ++bit) {
      BitPoint basis(bits.size(), 0);
      basis[i] = int64_t(1) << bit;
      bases[i].push_back(basis);
    }
  return {static_cast<unsigned>(bits.size()), std::move(bases)};
}

int64_t BitMap::getOutputSize(unsigned output) const {
  uint64_t all = 0;
  for (const std::vector<BitPoint> &input : bases)
    for (const BitPoint &basis : input)
      all |= basis[output];
  return static_cast<int64_t>(llvm::bit_ceil(all + 1));
}

BitPoint BitMap::apply(llvm::ArrayRef<int64_t> point) const {
  assert(point.size() == bases.size() && "expects a number a coordinate");
  BitPoint result(numOutputs, 0);
  for (auto [number, input] : llvm::zip_equal(point, bases)) {
    assert(number >= 0 && number < int64_t(1) << input.size());
    for (auto [bit, basis] : llvm::enumerate(input))
      if (number >> bit & 1)
        add(result, basis);
  }
  return result;
}

BitMap BitMap::slice(llvm::ArrayRef<unsigned> outputs) const {
  std::vector<std::vector<BitPoint>> sliced(bases.size());
  for (auto [target, input] : llvm::zip_equal(sliced, bases))
    for (const BitPoint &basis : input) {
      BitPoint &kept = target.emplace_back();
      for (unsigned output : outputs)
        kept.push_back(basis[output]);
    }
  return {static_cast<unsigned>(outputs.size()), std::move(sliced)};
}

BitMap BitMap::compose(const BitMap &inner) const {
  assert(inner.numOutputs == bases.size() && "expects a domain for each range");
  std::vector<std::vector<BitPoint>> composed(inner.bases.size());
  for (auto [target, input] : llvm::zip_equal(composed, inner.bases))
    for (const BitPoint &basis : input)
      target.push_back(apply(basis));
  return {numOutputs, std::move(composed)};
}

namespace {
/// What a sum of bases comes to, and of which input bits it is the sum.
struct Row {
  BitPoint value, origin;
};

/// Gaussian elimination: independent rows, each with a leading bit that no
/// other has.
class Elimination {
public:
  /// Takes the row up, unless it depends on those that are there.
  bool insert(Row row) {
    reduce(row);
    if (isZero(row.value))
      return false;
    const auto [output, bit] = getLead(row.value);
    for (Row &other : rows)
      if (other.value[output] >> bit & 1)
        add(other, row);
    rows.push_back(std::move(row));
    return true;
  }

  /// The input whose result is `value`, if there is one.
  std::optional<BitPoint> solve(BitPoint value, unsigned numInputs) const {
    Row row{std::move(value), BitPoint(numInputs, 0)};
    reduce(row);
    if (!isZero(row.value))
      return std::nullopt;
    return row.origin;
  }

private:
  static std::pair<unsigned, unsigned> getLead(llvm::ArrayRef<int64_t> value) {
    for (auto [output, coordinate] : llvm::enumerate(value))
      if (coordinate)
        return {static_cast<unsigned>(output),
                llvm::Log2_64(static_cast<uint64_t>(coordinate))};
    llvm_unreachable("zero has no leading bit");
  }
  static void add(Row &sum, const Row &row) {
    ::add(sum.value, row.value);
    ::add(sum.origin, row.origin);
  }
  void reduce(Row &row) const {
    for (const Row &other : rows) {
      const auto [output, bit] = getLead(other.value);
      if (row.value[output] >> bit & 1)
        add(row, other);
    }
  }

  std::vector<Row> rows;
};
} // namespace

/// The bases of a map, each with the one input bit it belongs to.
template <typename Fn>
static void forEachBasis(llvm::ArrayRef<std::vector<BitPoint>> bases, Fn fn) {
  for (auto [i, input] : llvm::enumerate(bases))
    for (auto [bit, basis] : llvm::enumerate(input)) {
      BitPoint origin(bases.size(), 0);
      origin[i] = int64_t(1) << bit;
      fn(basis, std::move(origin));
    }
}

bool BitMap::isInjective() const {
  Elimination rows;
  bool isIndependent = true;
  forEachBasis(bases, [&](const BitPoint &basis, BitPoint origin) {
    isIndependent &= rows.insert({basis, std::move(origin)});
  });
  return isIndependent;
}

std::optional<BitMap> BitMap::inverse() const {
  Elimination rows;
  forEachBasis(bases, [&](const BitPoint &basis, BitPoint origin) {
    rows.insert({basis, std::move(origin)});
  });
  std::vector<std::vector<BitPoint>> inverted(numOutputs);
  for (unsigned output = 0; output < numOutputs; ++output)
    for (int64_t bit = 1; bit < getOutputSize(output); bit *= 2) {
      BitPoint unit(numOutputs, 0);
      unit[output] = bit;
      std::optional<BitPoint> origin = rows.solve(unit, bases.size());
      if (!origin)
        return std::nullopt;
      inverted[output].push_back(*origin);
    }
  return BitMap(static_cast<unsigned>(bases.size()), std::move(inverted));
}
