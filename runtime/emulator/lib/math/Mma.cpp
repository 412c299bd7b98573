//===- Mma.cpp - Tensor-core multiply of one warp -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mma.sync m16n8k16 and m16n8k8 with f16 or bf16 inputs and f32 accumulators,
// either as plain fma or rounded as the hardware does (arXiv 2511.10909,
// checked there on real chips): in steps of `group` products,
//
//   e    = the largest exponent of the products (sum of the exponents of the
//          factors, so a significand may reach 4) and of the accumulator; a
//          zero counts with zeroExponent
//   sum  = every term truncated to a multiple of 2^(e - fractionBits), added
//          exactly
//   d    = sum truncated to f32, or rounded to nearest f16
//
// In the frame, the 64 halves of one register of A are an 8x8 block in
// row-major order, those of B one in column-major order, since lane = 4 * row +
// column/2. A row of the accumulator is computed as 8 floats in the order 0 2 4
// 6 1 3 5 7, which is four floats of c[0] and four of c[1].
//
// Compiled once for each instruction set, like Alu.cpp.
//
//===----------------------------------------------------------------------===//

#include "../sim/Handlers.h"
#include "Half.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

using namespace flashcore::emu;

namespace {

using Float8 [[gnu::vector_size(32)]] = float;
using Int8 [[gnu::vector_size(32)]] = int32_t;
using Double8 [[gnu::vector_size(64)]] = double;
using Long8 [[gnu::vector_size(64)]] = int64_t;

/// Below all others; the zero of the model comes in with the accumulator.
constexpr int zeroExponent = -300;
constexpr int minAccumulatorExponent = -126;

struct Tiles {
  alignas(64) float a[16][16];
  alignas(64) int32_t aExponent[16][16];
  alignas(64) float b[16][8];
  alignas(64) int32_t bExponent[16][8];
  /// An infinity or NaN is among the factors.
  bool special = false;
  /// bf16 products may be smaller than any f32; those of f16 may not.
  bool tinyProducts = false;
};

FC_INLINE int min(int a, int b) { return a < b ? a : b; }
FC_INLINE int max(int a, int b) { return a > b ? a : b; }

/// Exponent of a factor; a subnormal input keeps its format's smallest.
FC_INLINE int exponentOf(float x, int smallest) {
  uint32_t bits = bitsOf(x);
  int exponent = static_cast<int>(bits >> 23 & 0xffu) - 127;
  exponent = exponent < smallest ? smallest : exponent;
  return (bits << 1) == 0 ? zeroExponent : exponent;
}

using Half8 [[gnu::vector_size(16)]] = uint16_t;
using Half64 [[gnu::vector_size(128)]] = uint16_t;
using Word8 [[gnu::vector_size(32)]] = uint32_t;

/// Eight halves as floats.
template <bool IsBfloat> FC_INLINE Float8 widen(const uint16_t *halves) {
  Half8 h;
  __builtin_memcpy(&h, halves, sizeof h);
#ifdef __F16C__
  if (!IsBfloat)
    return _mm256_cvtph_ps(reinterpret_cast<__m128i>(h));
#endif
  Word8 bits = __builtin_convertvector(h, Word8);
  if (IsBfloat)
    return reinterpret_cast<Float8>(bits << 16);
  Word8 magnitude = (bits & 0x7fffu) << 13;
  Word8 value =
      reinterpret_cast<Word8>(reinterpret_cast<Float8>(magnitude) * 0x1p112f);
  value |= reinterpret_cast<Word8>(magnitude >= 0x0f800000u) & 0x7f800000u;
  return reinterpret_cast<Float8>(value | (bits & 0x8000u) << 16);
}

FC_INLINE Int8 exponents8(Float8 x, int smallest) {
  Int8 bits = reinterpret_cast<Int8>(x);
  Int8 exponent = ((bits >> 23) & 0xff) - 127;
  exponent = exponent < smallest ? smallest - (Int8){} : exponent;
  return (bits << 1) == 0 ? zeroExponent - (Int8){} : exponent;
}

/// The transpose of an 8x8 block whose columns come in the order 0 2 4 6 1 3
/// 5 7.
FC_INLINE Half64 transposeB(Half64 v) {
#define FC_ROW(K) K, K + 16, K + 32, K + 48, K + 8, K + 24, K + 40, K + 56
  return __builtin_shufflevector(v, v, FC_ROW(0), FC_ROW(1), FC_ROW(2),
                                 FC_ROW(3), FC_ROW(4), FC_ROW(5), FC_ROW(6),
                                 FC_ROW(7));
#undef FC_ROW
}

template <bool IsBfloat, bool NeedExponents>
FC_INLINE void unpack(const MmaOperands &in, unsigned k, Tiles &t) {
  constexpr int smallest = IsBfloat ? -126 : -14;
  Int8 largest = {};
  t.tinyProducts = IsBfloat;
  unsigned numA = k / 4;
  for (unsigned r = 0; r < numA; ++r) {
    const uint16_t *halves = reinterpret_cast<const uint16_t *>(in.a[r]);
    unsigned row0 = (r & 1) * 8, col0 = (r >> 1) * 8;
    for (unsigned row = 0; row < 8; ++row) {
      Float8 x = widen<IsBfloat>(halves + row * 8);
      __builtin_memcpy(&t.a[row0 + row][col0], &x, sizeof x);
      if (NeedExponents) {
        Int8 e = exponents8(x, smallest);
        largest = e > largest ? e : largest;
        __builtin_memcpy(&t.aExponent[row0 + row][col0], &e, sizeof e);
      }
    }
  }
  for (unsigned r = 0; r < k / 8; ++r) {
    Half64 block;
    __builtin_memcpy(&block, in.b[r], sizeof block);
    block = transposeB(block);
    uint16_t halves[64];
    __builtin_memcpy(halves, &block, sizeof block);
    for (unsigned row = 0; row < 8; ++row) {
      Float8 x = widen<IsBfloat>(halves + row * 8);
      __builtin_memcpy(t.b[r * 8 + row], &x, sizeof x);
      if (NeedExponents) {
        Int8 e = exponents8(x, smallest);
        largest = e > largest ? e : largest;
        __builtin_memcpy(t.bExponent[r * 8 + row], &e, sizeof e);
      }
    }
  }
  for (unsigned i = 0; i < 8; ++i)
    t.special |= largest[i] == 128;
}

/// One element by the definition, for infinities, NaNs and huge exponents.
/// Terms are held as 64-bit integers; those shifted out contribute nothing.
template <bool ToOdd>
float sumSlowly(const Tiles &t, unsigned row, unsigned col, unsigned k0,
                unsigned k1, float c, const MmaModel &model) {
  double special = c;
  bool finite = __builtin_isfinite(c);
  const int fractionBits = model.fractionBits;
  int emax =
      c == 0 ? model.zeroExponent : exponentOf(c, minAccumulatorExponent);
  for (unsigned k = k0; k < k1; ++k) {
    double p = static_cast<double>(t.a[row][k]) * t.b[k][col];
    finite = finite && __builtin_isfinite(p);
    special += p;
    emax = max(emax, t.aExponent[row][k] + t.bExponent[k][col]);
  }
  if (!finite)
    return special != special ? floatOf(0x7fffffffu)
                              : static_cast<float>(special);
  double scale = __builtin_ldexp(1.0, fractionBits - emax);
  int64_t sum = static_cast<int64_t>(c * scale);
  for (unsigned k = k0; k < k1; ++k)
    sum += static_cast<int64_t>(static_cast<double>(t.a[row][k]) * t.b[k][col] *
                                scale);
  // Truncate to 24 bits or to a multiple of 2^-149, whichever is coarser.
  int lowest = emax - fractionBits;
  uint64_t magnitude = static_cast<uint64_t>(sum < 0 ? -sum : sum);
  int width = magnitude ? 64 - __builtin_clzll(magnitude) : 0;
  int drop = max(max(width - 24, 0), -149 - lowest);
  uint64_t kept = drop > 63 ? 0 : magnitude >> drop << drop;
  if (ToOdd && kept != magnitude)
    kept |= uint64_t(1) << drop;
  magnitude = kept;
  double result = __builtin_ldexp(static_cast<double>(magnitude), lowest);
  float narrow =
      result > 0x1.fffffep127 ? __builtin_inff() : static_cast<float>(result);
  // A sum too small for f32 is +0 whatever its sign was.
  return sum < 0 && magnitude ? -narrow : narrow;
}

/// One row of eight elements, products k0..k1. `ToOdd` is for f16 products
/// only.
template <bool ToOdd>
FC_INLINE Float8 sumRow(const Tiles &t, unsigned row, unsigned k0, unsigned k1,
                        Float8 c, const MmaModel &model) {
  const int fractionBits = model.fractionBits;
  Float8 products[16];
  Int8 emax = exponents8(c, minAccumulatorExponent);
  emax = emax < model.zeroExponent ? model.zeroExponent - (Int8){} : emax;
  for (unsigned k = k0; k < k1; ++k) {
    const Float8 &b = *reinterpret_cast<const Float8 *>(t.b[k]);
    const Int8 &eb = *reinterpret_cast<const Int8 *>(t.bExponent[k]);
    products[k - k0] = t.a[row][k] * b;
    Int8 e = t.aExponent[row][k] + eb;
    emax = e > emax ? e : emax;
  }
  Int8 mayMatter = reinterpret_cast<Int8>(c != 0.0f);
  mayMatter = t.tinyProducts ? ~(Int8){} : mayMatter;
  Int8 slow = (emax > 100) | ((emax < -100) & mayMatter);
  Int8 e = emax < -100 ? -100 - (Int8){} : emax;
  Float8 scale = reinterpret_cast<Float8>((fractionBits + 127 - e) << 23);
  // 16 products below 4 * 2^25 each stay below 2^31. Lanes that are slow below
  // may wrap, so the sum is unsigned.
  Word8 bits = {};
  for (unsigned k = k0; k < k1; ++k)
    bits += reinterpret_cast<Word8>(
        __builtin_convertvector(products[k - k0] * scale, Int8));
  Int8 sum = reinterpret_cast<Int8>(bits);
  Int8 addend = __builtin_convertvector(c * scale, Int8);
  Double8 total = __builtin_convertvector(sum, Double8) +
                  __builtin_convertvector(addend, Double8);
  // The low 29 bits of a double are those that f32 lacks.
  Long8 exact = reinterpret_cast<Long8>(total);
  Long8 kept = exact & ~((int64_t(1) << 29) - 1);
  if (ToOdd)
    kept |= (kept != exact) & (int64_t(1) << 29);
  Float8 result =
      __builtin_convertvector(reinterpret_cast<Double8>(kept), Float8) *
      reinterpret_cast<Float8>((e - fractionBits + 127) << 23);
  slow = t.special ? ~(Int8){} : slow;
  bool anySlow = false;
  for (unsigned i = 0; i < 8; ++i)
    anySlow |= slow[i] != 0;
  if (__builtin_expect(anySlow, 0))
    for (unsigned i = 0; i < 8; ++i)
      if (slow[i])
        result[i] = sumSlowly<ToOdd>(t, row, i, k0, k1, c[i], model);
  return result;
}

FC_INLINE Float8 fmaRow(const Tiles &t, unsigned row, unsigned k, Float8 acc) {
  for (unsigned i = 0; i < k; ++i)
    for (unsigned col = 0; col < 8; ++col)
      acc[col] = __builtin_fmaf(t.a[row][i], t.b[i][col], acc[col]);
  return acc;
}

template <bool IsBfloat, bool ToOdd>
void multiply(const MmaOperands &in, unsigned k, const MmaModel &model) {
  Tiles t;
  if (model.plain)
    unpack<IsBfloat, false>(in, k, t);
  else
    unpack<IsBfloat, true>(in, k, t);
  unsigned group = static_cast<unsigned>(
      min(static_cast<int>(model.group), static_cast<int>(k)));
  for (unsigned row = 0; row < 16; ++row) {
    unsigned base = (row & 7) * 4, reg = row < 8 ? 0 : 2;
    Float8 acc;
    __builtin_memcpy(&acc, in.c[reg] + base, 16);
    __builtin_memcpy(reinterpret_cast<char *>(&acc) + 16, in.c[reg + 1] + base,
                     16);
    if (model.plain)
      acc = fmaRow(t, row, k, acc);
    else if (group == 16)
      acc = sumRow<ToOdd>(t, row, 0, 16, acc, model);
    else
      for (unsigned k0 = 0; k0 < k; k0 += 8)
        acc = sumRow<ToOdd>(t, row, k0, k0 + 8, acc, model);
    __builtin_memcpy(in.d[reg] + base, &acc, 16);
    __builtin_memcpy(in.d[reg + 1] + base,
                     reinterpret_cast<const char *>(&acc) + 16, 16);
  }
}

} // namespace

namespace flashcore::emu::FLASHCORE_EMU_ISA {
void mma(const MmaOperands &operands, bool isBfloat, unsigned k,
         const MmaModel &model);
void mma(const MmaOperands &operands, bool isBfloat, unsigned k,
         const MmaModel &model) {
  if (isBfloat)
    multiply<true, false>(operands, k, model);
  else if (model.toHalf)
    multiply<false, true>(operands, k, model);
  else
    multiply<false, false>(operands, k, model);
}
} // namespace flashcore::emu::FLASHCORE_EMU_ISA
