//===- FarInputs.cpp - Inputs far from normal ones ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A result is judged by a reference, so scores must not depend on the order in
// which a kernel rounds: large ones are whole multiples of a power of two, of
// less than 24 digits, from a bias and from every partial sum of a product.
//
//===----------------------------------------------------------------------===//

#include "FarInputs.h"

#include "../RandomNumbers.h"
#include "flashcore/Runtime/InputKind.h"

#include <algorithm>
#include <limits>

using namespace flashcore;

static constexpr double infinity = std::numeric_limits<double>::infinity();

std::string_view flashcore::stringify(InputKind kind) {
  return InputKinds[static_cast<size_t>(kind)].name;
}

/// The lowest finite number of the type.
static double lowestOf(DType dtype) {
  const DTypeInfo &info = infoOf(dtype);
  return -info.load(info.infinity - 1);
}

namespace {
/// Where an element of a bias is; 0 on axes that are broadcast.
struct Place {
  Place(const HostTensor &bias, int64_t index) {
    for (size_t axis = 4; axis-- > 0;) {
      int64_t size = bias.geometry().sizes[axis];
      at[axis] = index % size;
      index /= size;
    }
  }
  int64_t plane() const { return at[0] * 31 + at[1]; }
  int64_t query() const { return at[2]; }
  int64_t key() const { return at[3]; }

  std::array<int64_t, 4> at;
};
} // namespace

/// Of 0 to `most`.
static int64_t drawUpTo(uint64_t bits, int64_t most) {
  return static_cast<int64_t>(bits % (static_cast<uint64_t>(most) + 1));
}

void flashcore::maskBias(HostTensor &bias, uint64_t seed) {
  double lowest = lowestOf(bias.geometry().dtype);
  int64_t keys = bias.geometry().sizes[3];
  auto maskOf = [&](uint64_t number) {
    const double masks[] = {-1e4, -1e9, lowest};
    return static_cast<float>(std::max(masks[number % 3], lowest));
  };
  bias.forEach([&](int64_t index, int64_t position) {
    Place place(bias, index);
    auto plane = static_cast<uint64_t>(place.plane());
    auto query = static_cast<uint64_t>(place.query());
    // Rows of which each key has one mask, whatever the length says.
    if (uint64_t row = drawBits(seed, plane + 1, query); row % 8 == 0)
      return bias.store(position, maskOf(row / 8));
    uint64_t length = drawBits(seed, plane);
    if (place.key() >= drawUpTo(length, keys))
      bias.store(position, maskOf(length / 64));
  });
}

void flashcore::hideInPlanes(HostTensor &bias, uint64_t seed) {
  int64_t keys = bias.geometry().sizes[3];
  bias.forEach([&](int64_t index, int64_t position) {
    Place place(bias, index);
    auto plane = static_cast<uint64_t>(place.plane());
    if ((place.at[0] + place.at[1] + static_cast<int64_t>(seed % 2)) % 2)
      return;
    uint64_t row = drawBits(seed, plane, static_cast<uint64_t>(place.query()));
    int64_t bound = drawUpTo(row / 4, keys), key = place.key();
    bool isHidden[] = {true, key < bound, key >= bound,
                       drawBits(row, static_cast<uint64_t>(key)) % 8 == 0};
    if (isHidden[row % 4])
      bias.store(position, static_cast<float>(-infinity));
  });
}

void flashcore::steepenSlopes(HostTensor &slopes, uint64_t seed,
                              bool hasOwnKeys) {
  // Of the first the products with distances and with 1 / softmax_scale are
  // finite.
  const float steep[] = {1e30f, hasOwnKeys ? std::numeric_limits<float>::max()
                                           : 1e20f};
  slopes.forEach([&](int64_t index, int64_t position) {
    if (index % 2)
      slopes.store(position,
                   steep[(static_cast<uint64_t>(index) / 2 + seed) % 2]);
  });
}

void flashcore::fillFarSinks(HostTensor &sinks, uint64_t seed) {
  NormalGenerator generator(seed);
  sinks.forEach([&](int64_t index, int64_t position) {
    const float values[] = {1e30f,
                            -1e30f,
                            static_cast<float>(-infinity),
                            2 * generator.next(),
                            std::numeric_limits<float>::max(),
                            1e4f};
    sinks.store(position, values[(static_cast<uint64_t>(index) + seed) % 6]);
  });
}

//===----------------------------------------------------------------------===//
// Large scores
//===----------------------------------------------------------------------===//

/// Whether products with it have no more digits.
static bool isPowerOfTwo(double value) {
  int exponent;
  return std::frexp(value, &exponent) == 0.5;
}

LargeScores::LargeScores(uint64_t seed, double scale, bool isAdded)
    : seed(seed), scale(scale), isRounded(isAdded && !isPowerOfTwo(scale)) {}

LargeScores::Row LargeScores::rowOf(int64_t head, int64_t query) const {
  constexpr double sizes[] = {1e3, 1e6, 1e5, 4e6, 1e4, 1e7};
  uint64_t number =
      static_cast<uint64_t>(query) + 5 * static_cast<uint64_t>(head) + seed % 6;
  // Every fourth leaps, and is not always of the same size.
  return {isRounded ? sizes[0] : sizes[number % 6], number % 4 == 3,
          number / 12 % 2 ? -1.0 : 1.0};
}

int LargeScores::levelOf(int64_t key) const {
  auto number = static_cast<uint64_t>(key);
  uint64_t level = drawBits(seed, number, 1) % 4;
  for (uint64_t size : {16, 64, 256, 1024})
    level += drawBits(seed, number / size, size) % 4;
  return static_cast<int>(level);
}

bool LargeScores::isLeap(int64_t key) const {
  auto number = static_cast<uint64_t>(key);
  return drawBits(seed, number / 64, 2) % 2 == 0 &&
         drawBits(seed, number / 256, 3) % 2 == 0;
}

void LargeScores::fillBias(HostTensor &bias) const {
  bias.forEach([&](int64_t index, int64_t position) {
    Place place(bias, index);
    Row row = rowOf(place.at[1] + place.at[0], place.query());
    bool isNear = row.isLeaping && !isLeap(place.key());
    double unit = row.base > 4e6 ? 1 : 0.5; // between neighbours in f32
    double score = (isNear ? 1e3 : row.base) * row.sign;
    bias.store(position,
               static_cast<float>(score + levelOf(place.key()) * unit));
  });
}

// Column 0 of K is the same in all keys, 1 has the levels, and 2 the leaps; Q
// has what each counts. With fewer columns the levels alone are left.
static constexpr float keyBase = 4096;
static constexpr int64_t columns = 3;
// Of a single column, so that a level changes few of the digits.
static constexpr float loneBase = 64;

/// The power of two next to `value`, of f16.
static double nearestPower(double value) {
  return std::exp2(std::clamp(std::round(std::log2(value)), -14.0, 15.0));
}

void LargeScores::fillQueries(HostTensor &q) const {
  const TensorGeometry &shape = q.geometry();
  q.forEach([&](int64_t index, int64_t position) {
    int64_t column = coordinate(shape, index, "head_dim");
    Row row = rowOf(coordinate(shape, index, "heads_q"),
                    coordinate(shape, index, "seqlen_q"));
    double near = (row.isLeaping ? 1e3 : row.base) / scale;
    double far = nearestPower(row.base / scale / keyBase) * keyBase;
    double value = 0;
    if (shape.sizes.back() < columns)
      value = column ? 0 : row.sign * nearestPower(near / loneBase);
    else if (column == 0)
      value = row.sign * nearestPower(near / keyBase);
    else if (column == 1) // of which sums have no more than 22 digits
      value = nearestPower(std::max(0.5 / scale, far * 0x1p-21));
    else if (column == 2 && row.isLeaping)
      value = row.sign * far / keyBase;
    q.store(position, static_cast<float>(value));
  });
}

void LargeScores::fillKeys(
    HostTensor &k, const std::function<int64_t(int64_t)> &numberOf) const {
  const TensorGeometry &shape = k.geometry();
  bool isLone = shape.sizes.back() < columns;
  k.forEach([&](int64_t index, int64_t position) {
    int64_t column = coordinate(shape, index, "head_dim");
    if (column >= columns)
      return;
    int64_t key = numberOf(index);
    auto level = static_cast<float>(levelOf(key));
    if (column == 0)
      k.store(position, isLone ? loneBase + level : keyBase);
    else if (!isLone)
      k.store(position, column == 1 ? level : isLeap(key) ? keyBase : 0);
  });
}
