//===- MmaElementwise.cpp - Tensor-core multiply, rarer types -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mma.sync with 8-bit floats, tf32 and 8-bit integers, one element after the
// other. Of 8-bit floats sm_89 sums 16 products a step with 13 fraction bits
// and gives 13 bits of fraction (arXiv 2511.10909). For sm_90 none is
// published; there ptxas makes two f16 products from zero, first of the low and
// then of the high halves of the registers, and adds the accumulator in f32,
// rounded to nearest, which a card's results confirm. With f16 accumulators the
// products are f16 too, the second from the first, and so is the addition. A
// step of tf32 has half as many products as one of f16.
//
//===----------------------------------------------------------------------===//

#include "../sim/Handlers.h"
#include "Half.h"

#include <algorithm>
#include <cmath>

using namespace flashcore::emu;

namespace {
constexpr unsigned maxDepth = 32;

struct Factor {
  double value = 0;
  int exponent = 0; // meaningless for zero
};

struct Rounder {
  unsigned step;
  int fractionBits;
  int resultBits;
  int zeroExponent;
  bool toHalf;
};
} // namespace

static bool isHopper(const MmaModel &model) {
  return !model.plain && model.group == 16;
}

/// With `asHalf` an 8-bit float is converted to f16, where a subnormal e4m3 is
/// normal.
static Factor makeFactor(uint32_t bits, MatrixType type, bool asHalf) {
  // The hardware ignores the low 13 bits of a tf32.
  double value = type == MatrixType::TF32
                     ? floatOf(bits & 0xffffe000u)
                     : decodeFp8(bits, type == MatrixType::E4M3);
  bool ordinary = value != 0 && std::isfinite(value);
  int smallest = type == MatrixType::TF32              ? -126
                 : type == MatrixType::E4M3 && !asHalf ? -6
                                                       : -14;
  return {value, ordinary ? std::max(std::ilogb(value), smallest) : 0};
}

/// One fused step.
static double sumStep(const Factor *a, const Factor *b, double c,
                      const Rounder &rounder) {
  double special = c;
  int emax = c == 0             ? rounder.zeroExponent
             : std::isfinite(c) ? std::max(std::ilogb(c), -126)
                                : 0;
  for (unsigned k = 0; k < rounder.step; ++k) {
    special += a[k].value * b[k].value;
    if (a[k].value != 0 && b[k].value != 0)
      emax = std::max(emax, a[k].exponent + b[k].exponent);
  }
  if (!std::isfinite(special))
    return special;
  double scale = std::ldexp(1.0, rounder.fractionBits - emax);
  double sum = std::trunc(c * scale);
  for (unsigned k = 0; k < rounder.step; ++k)
    sum += std::trunc(a[k].value * b[k].value * scale);
  if (sum == 0)
    return 0;
  double result = sum / scale;
  if (rounder.toHalf)
    return floatFromHalf(halfFromSum(result));
  int exponent = std::max(std::ilogb(result), -126);
  double unit = std::ldexp(1.0, exponent - rounder.resultBits);
  // A sum too small for f32 is +0 whatever its sign was.
  return std::trunc(result / unit) * unit + 0.0;
}

static float element(const Factor *a, const Factor *b, float c, unsigned depth,
                     bool isTf32, const MmaModel &model) {
  if (model.plain) {
    for (unsigned k = 0; k < depth; ++k)
      c = std::fma(static_cast<float>(a[k].value),
                   static_cast<float>(b[k].value), c);
    return c;
  }
  bool asHalf = isHopper(model) && !isTf32;
  bool isNarrow = !isHopper(model) && !isTf32;
  unsigned step = isTf32 ? model.group / 2 : asHalf ? depth / 2 : 16;
  Rounder rounder{std::min(step, depth), isNarrow ? 13 : model.fractionBits,
                  isNarrow ? 13 : 23, model.zeroExponent,
                  asHalf && model.toHalf};
  double acc = asHalf ? 0 : c;
  for (unsigned k = 0; k < depth; k += rounder.step)
    acc = sumStep(a + k, b + k, acc, rounder);
  float result = static_cast<float>(acc);
  if (asHalf)
    result += c;
  return std::isnan(result) ? floatOf(0x7fffffffu) : result;
}

static uint32_t integerElement(const int32_t *a, const int32_t *b, int32_t c,
                               unsigned depth, bool saturate) {
  int64_t sum = c;
  for (unsigned k = 0; k < depth; ++k)
    sum += a[k] * b[k];
  if (saturate)
    sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
  return static_cast<uint32_t>(sum);
}

/// Calls f(row of A or column of B, k, bits) for each element of a fragment:
/// lane = 4 * row + k / elements of a register.
template <typename F>
static void forEachElement(const uint32_t *const *registers, unsigned count,
                           bool isA, unsigned bytes, F f) {
  unsigned perRegister = 4 / bytes;
  uint32_t mask = bytes == 4 ? ~0u : (1u << 8 * bytes) - 1;
  for (unsigned r = 0; r < count; ++r)
    for (unsigned lane = 0; lane < warpSize; ++lane)
      for (unsigned i = 0; i < perRegister; ++i) {
        unsigned row = lane / 4 + (isA ? (r & 1) * 8 : 0);
        unsigned block = isA ? r >> 1 : r;
        unsigned k = (lane % 4 + block * 4) * perRegister + i;
        f(row, k, registers[r][lane] >> (8 * bytes * i) & mask);
      }
}

/// `position` is where the factor k stands in the order of summation.
template <typename T, typename Position, typename Make, typename Element>
static void multiply(const MmaOperands &in, MatrixType aType, MatrixType bType,
                     unsigned depth, Position position, Make make,
                     Element element) {
  T a[16][maxDepth], b[8][maxDepth];
  unsigned bytes = aType == MatrixType::TF32 ? 4 : 1;
  unsigned numA = depth * bytes / 8;
  forEachElement(in.a, numA, true, bytes,
                 [&](unsigned row, unsigned k, uint32_t bits) {
                   a[row][position(k)] = make(bits, aType);
                 });
  forEachElement(in.b, numA / 2, false, bytes,
                 [&](unsigned col, unsigned k, uint32_t bits) {
                   b[col][position(k)] = make(bits, bType);
                 });
  for (unsigned lane = 0; lane < warpSize; ++lane)
    for (unsigned r = 0; r < 4; ++r)
      in.d[r][lane] = element(a[lane / 4 + (r >> 1) * 8],
                              b[lane % 4 * 2 + (r & 1)], in.c[r][lane]);
}

void flashcore::emu::mmaElementwise(const MmaOperands &in, MatrixType aType,
                                    MatrixType bType, unsigned depth,
                                    bool saturate, const MmaModel &model) {
  bool isTf32 = aType == MatrixType::TF32;
  bool asHalf = isHopper(model) && !isTf32;
  if (aType != MatrixType::U8 && aType != MatrixType::S8)
    return multiply<Factor>(
        in, aType, bType, depth,
        // Of two f16 products the first takes the low halves of the registers.
        [&](unsigned k) {
          return asHalf ? (k % 4 / 2) * (depth / 2) + k / 4 * 2 + k % 2 : k;
        },
        [&](uint32_t bits, MatrixType type) {
          return makeFactor(bits, type, asHalf);
        },
        [&](const Factor *a, const Factor *b, float c) {
          return element(a, b, c, depth, isTf32, model);
        });
  multiply<int32_t>(
      in, aType, bType, depth, [](unsigned k) { return k; },
      [](uint32_t bits, MatrixType type) -> int32_t {
        return type == MatrixType::S8 ? static_cast<int8_t>(bits)
                                      : static_cast<int32_t>(bits);
      },
      [&](const int32_t *a, const int32_t *b, float c) {
        return floatOf(integerElement(a, b, static_cast<int32_t>(bitsOf(c)),
                                      depth, saturate));
      });
}
