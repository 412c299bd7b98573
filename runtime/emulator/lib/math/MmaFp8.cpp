//===- MmaFp8.cpp - Tensor-core multiply of 8-bit floats ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mma.sync m16n8k32 with e4m3 and e5m2 inputs. sm_89 sums 16 products a step
// with 13 fraction bits and gives 13 bits of fraction (arXiv 2511.10909). For
// sm_90 none is published; there ptxas makes two f16 products from zero, first
// of the low and then of the high halves of the registers, and adds the
// accumulator in f32, rounded to nearest, which a card's results confirm.
// Written plainly, one element after the other.
//
//===----------------------------------------------------------------------===//

#include "../sim/Handlers.h"
#include "Half.h"

#include <algorithm>
#include <cmath>

using namespace flashcore::emu;

namespace {
constexpr unsigned depth = 32, step = 16;

struct Factor {
  double value = 0;
  int exponent = 0; // meaningless for zero
};

struct Rounder {
  int fractionBits;
  int resultBits;
  int zeroExponent;
};
} // namespace

/// Converted to f16, a subnormal e4m3 is normal.
static Factor makeFactor(uint32_t bits, bool isE4M3, bool asHalf) {
  double value = decodeFp8(bits, isE4M3);
  bool ordinary = value != 0 && std::isfinite(value);
  int smallest = isE4M3 && !asHalf ? -6 : -14;
  int exponent = ordinary ? std::max(std::ilogb(value), smallest) : 0;
  return {value, exponent};
}

/// One fused step of 16 products.
static double sumStep(const Factor *a, const Factor *b, double c,
                      const Rounder &rounder) {
  double special = c;
  int emax = c == 0             ? rounder.zeroExponent
             : std::isfinite(c) ? std::max(std::ilogb(c), -126)
                                : 0;
  for (unsigned k = 0; k < step; ++k) {
    special += a[k].value * b[k].value;
    if (a[k].value != 0 && b[k].value != 0)
      emax = std::max(emax, a[k].exponent + b[k].exponent);
  }
  if (!std::isfinite(special))
    return special;
  double scale = std::ldexp(1.0, rounder.fractionBits - emax);
  double sum = std::trunc(c * scale);
  for (unsigned k = 0; k < step; ++k)
    sum += std::trunc(a[k].value * b[k].value * scale);
  if (sum == 0)
    return 0;
  double result = sum / scale;
  int exponent = std::max(std::ilogb(result), -126);
  double unit = std::ldexp(1.0, exponent - rounder.resultBits);
  return std::trunc(result / unit) * unit;
}

static bool isHopper(const MmaModel &model) {
  return !model.plain && model.group == 16;
}

/// Where the factor k stands in the order of summation.
static unsigned position(unsigned k, bool asHalf) {
  return asHalf ? (k % 4 / 2) * step + k / 4 * 2 + k % 2 : k;
}

static float element(const Factor *a, const Factor *b, float c,
                     const MmaModel &model) {
  if (model.plain) {
    for (unsigned k = 0; k < depth; ++k)
      c = std::fma(static_cast<float>(a[k].value),
                   static_cast<float>(b[k].value), c);
    return c;
  }
  bool asHalf = isHopper(model);
  Rounder rounder{asHalf ? model.fractionBits : 13, asHalf ? 23 : 13,
                  model.zeroExponent};
  double acc = asHalf ? 0 : c;
  for (unsigned k = 0; k < depth; k += step)
    acc = sumStep(a + k, b + k, acc, rounder);
  float result = static_cast<float>(acc);
  if (asHalf)
    result += c;
  return std::isnan(result) ? floatOf(0x7fffffffu) : result;
}

void flashcore::emu::mmaFp8(const MmaOperands &in, bool aIsE4M3, bool bIsE4M3,
                            const MmaModel &model) {
  Factor a[16][depth], b[8][depth];
  bool asHalf = isHopper(model);
  for (unsigned lane = 0; lane < warpSize; ++lane) {
    unsigned group = lane / 4, k = lane % 4 * 4;
    for (unsigned i = 0; i < 4; ++i) {
      unsigned at[] = {position(k + i, asHalf), position(k + i + 16, asHalf)};
      for (unsigned r = 0; r < 4; ++r)
        a[group + (r & 1) * 8][at[r >> 1]] =
            makeFactor(in.a[r][lane] >> (8 * i) & 0xff, aIsE4M3, asHalf);
      for (unsigned r = 0; r < 2; ++r)
        b[group][at[r]] =
            makeFactor(in.b[r][lane] >> (8 * i) & 0xff, bIsE4M3, asHalf);
    }
  }
  for (unsigned lane = 0; lane < warpSize; ++lane)
    for (unsigned r = 0; r < 4; ++r) {
      unsigned row = lane / 4 + (r >> 1) * 8, col = lane % 4 * 2 + (r & 1);
      in.d[r][lane] = element(a[row], b[col], in.c[r][lane], model);
    }
}
