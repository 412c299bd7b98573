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
// In the frame, a register of A or of the accumulator has four columns of words
// of eight rows, since lane = 4 * row + column. Two such registers are
// transposed into four vectors, one a column, with a lane for each of the
// tile's 16 rows. B lies in column-major order, so that its elements are the
// scalars that those vectors are multiplied by.
//
// Compiled once for each instruction set, like Alu.cpp.
//
//===----------------------------------------------------------------------===//

#include "../sim/Handlers.h"
#include "Half.h"

using namespace flashcore::emu;

namespace {

/// A lane for each row of the tile, in the order of `transpose`.
using Floats [[gnu::vector_size(64)]] = float;
using Ints [[gnu::vector_size(64)]] = int32_t;
using Words [[gnu::vector_size(64)]] = uint32_t;
using Halves [[gnu::vector_size(32)]] = uint16_t;
/// Two halves a lane: element k in the low one, k + 1 in the high one.
using Pairs [[gnu::vector_size(64)]] = int16_t;

constexpr unsigned numRows = 16;
constexpr unsigned numCols = 8;
constexpr unsigned maxDepth = 16;

/// Of a factor that is zero: below all others. The zero of the model comes in
/// with the accumulator.
constexpr int zeroExponent = -300;
/// Of an infinity or NaN: above all others, times zero as well.
constexpr int specialExponent = 1000;
constexpr int minAccumulatorExponent = -126;
/// Between these, scaled terms are exact integers.
constexpr int minExponent = -100;
constexpr int maxExponent = 100;

struct Tiles {
  Floats a[maxDepth];
  Pairs aExponent[maxDepth / 2];
  alignas(64) float b[numCols][maxDepth];
  alignas(64) int16_t bExponent[numCols][maxDepth];

  int exponentOfA(unsigned row, unsigned k) const {
    return aExponent[k / 2][2 * row + k % 2];
  }
};

FC_INLINE int max(int a, int b) { return a > b ? a : b; }

FC_INLINE int fieldOf(float x) {
  return static_cast<int>(bitsOf(x) >> 23 & 0xffu);
}

/// Halves as floats.
template <bool IsBfloat> FC_INLINE Floats widen(Halves halves) {
#ifdef __F16C__
  using Float16s [[gnu::vector_size(32)]] = _Float16;
  if (!IsBfloat)
    return __builtin_convertvector(reinterpret_cast<Float16s>(halves), Floats);
#endif
  Words bits = __builtin_convertvector(halves, Words);
  if (IsBfloat)
    return reinterpret_cast<Floats>(bits << 16);
  Words magnitude = (bits & 0x7fffu) << 13;
  Words value =
      reinterpret_cast<Words>(reinterpret_cast<Floats>(magnitude) * 0x1p112f);
  value |= reinterpret_cast<Words>(magnitude >= 0x0f800000u) & 0x7f800000u;
  return reinterpret_cast<Floats>(value | (bits & 0x8000u) << 16);
}

/// Exponents of factors; a subnormal one keeps its format's smallest.
template <bool IsBfloat> FC_INLINE Pairs exponentsOf(Pairs halves) {
  constexpr int16_t fraction = IsBfloat ? 7 : 10, bias = IsBfloat ? 127 : 15;
  constexpr int16_t top = 2 * bias + 1;
  Pairs field = (halves >> fraction) & top;
  Pairs exponent = (field > 1 ? field : 1 - (Pairs){}) - bias;
  exponent = field == top ? specialExponent - (Pairs){} : exponent;
  return (halves & 0x7fff) == 0 ? zeroExponent - (Pairs){} : exponent;
}

/// Turns 16 rows of four words, four rows a vector, into four columns, and
/// columns into rows. In a column row 4 * i + j is lane 4 * j + i.
FC_INLINE void transpose(Words (&v)[4]) {
#define FC_LOW(I) I, I + 16, I + 1, I + 17
#define FC_HIGH(I) I + 2, I + 18, I + 3, I + 19
#define FC_INTERLEAVE(X, Y, PART)                                              \
  __builtin_shufflevector(X, Y, PART(0), PART(4), PART(8), PART(12))
  Words low02 = FC_INTERLEAVE(v[0], v[2], FC_LOW);
  Words high02 = FC_INTERLEAVE(v[0], v[2], FC_HIGH);
  Words low13 = FC_INTERLEAVE(v[1], v[3], FC_LOW);
  Words high13 = FC_INTERLEAVE(v[1], v[3], FC_HIGH);
  v[0] = FC_INTERLEAVE(low02, low13, FC_LOW);
  v[1] = FC_INTERLEAVE(low02, low13, FC_HIGH);
  v[2] = FC_INTERLEAVE(high02, high13, FC_LOW);
  v[3] = FC_INTERLEAVE(high02, high13, FC_HIGH);
#undef FC_INTERLEAVE
#undef FC_HIGH
#undef FC_LOW
}

/// The four columns of the 16 rows in two registers, `top` above `bottom`.
FC_INLINE void loadColumns(Words (&columns)[4], const void *top,
                           const void *bottom) {
  __builtin_memcpy(columns, top, 128);
  __builtin_memcpy(columns + 2, bottom, 128);
  transpose(columns);
}

template <bool IsBfloat, bool NeedExponents>
FC_INLINE void unpack(const MmaOperands &in, unsigned depth, Tiles &t) {
  for (unsigned k0 = 0; k0 < depth; k0 += 8) {
    Words columns[4];
    loadColumns(columns, in.a[k0 / 4], in.a[k0 / 4 + 1]);
    for (unsigned k = 0; k < 8; ++k) {
      Words half = columns[k / 2] >> (16 * (k % 2));
      t.a[k0 + k] = widen<IsBfloat>(__builtin_convertvector(half, Halves));
    }
    if (NeedExponents)
      for (unsigned i = 0; i < 4; ++i)
        t.aExponent[k0 / 2 + i] =
            exponentsOf<IsBfloat>(reinterpret_cast<Pairs>(columns[i]));
    // B: two columns a vector, for the exponents four.
    const uint16_t *b = reinterpret_cast<const uint16_t *>(in.b[k0 / 8]);
    for (unsigned col = 0; col < numCols; col += 2) {
      Halves halves;
      __builtin_memcpy(&halves, b + col * 8, sizeof halves);
      Floats x = widen<IsBfloat>(halves);
      for (unsigned i = 0; i < 2; ++i)
        __builtin_memcpy(t.b[col + i] + k0,
                         reinterpret_cast<const float *>(&x) + 8 * i, 32);
    }
    for (unsigned col = 0; NeedExponents && col < numCols; col += 4) {
      Pairs halves;
      __builtin_memcpy(&halves, b + col * 8, sizeof halves);
      Pairs e = exponentsOf<IsBfloat>(halves);
      for (unsigned i = 0; i < 4; ++i)
        __builtin_memcpy(t.bExponent[col + i] + k0,
                         reinterpret_cast<const int16_t *>(&e) + 8 * i, 16);
    }
  }
}

/// One element by the definition, for infinities, NaNs and huge exponents.
/// Terms are held as 64-bit integers; those shifted out contribute nothing.
template <bool ToOdd>
float sumSlowly(const Tiles &t, unsigned row, unsigned col, unsigned k0,
                unsigned k1, float c, const MmaModel &model) {
  double special = c;
  bool finite = __builtin_isfinite(c);
  const int fractionBits = model.fractionBits;
  int emax = c == 0 ? model.zeroExponent
                    : max(fieldOf(c) - 127, minAccumulatorExponent);
  for (unsigned k = k0; k < k1; ++k) {
    double p = static_cast<double>(t.a[k][row]) * t.b[col][k];
    finite = finite && __builtin_isfinite(p);
    special += p;
    emax = max(emax, t.exponentOfA(row, k) + t.bExponent[col][k]);
  }
  if (!finite)
    return special != special ? floatOf(0x7fffffffu)
                              : static_cast<float>(special);
  double scale = __builtin_ldexp(1.0, fractionBits - emax);
  int64_t sum = static_cast<int64_t>(c * scale);
  for (unsigned k = k0; k < k1; ++k)
    sum += static_cast<int64_t>(static_cast<double>(t.a[k][row]) * t.b[col][k] *
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

/// The largest exponent of the products k0 .. k0 + Group of one column.
template <unsigned Group>
FC_INLINE Ints largestExponents(const Tiles &t, unsigned col, unsigned k0) {
  constexpr int none = 2 * zeroExponent;
  Pairs largest = none - (Pairs){};
  for (unsigned k = k0; k < k0 + Group; k += 2) {
    uint32_t pair;
    __builtin_memcpy(&pair, t.bExponent[col] + k, sizeof pair);
    Pairs e = t.aExponent[k / 2] + reinterpret_cast<Pairs>(pair - (Words){});
    largest = e > largest ? e : largest;
  }
  Ints even = reinterpret_cast<Ints>(largest) << 16 >> 16;
  Ints odd = reinterpret_cast<Ints>(largest) >> 16;
  return even > odd ? even : odd;
}

/// Integers as f32, what is lost truncated or rounded to odd. They must be so
/// far below 2^31 that rounding to nearest stays below.
template <bool ToOdd> FC_INLINE Floats narrow(Ints sum) {
  Floats nearest = __builtin_convertvector(sum, Floats);
  Ints back = __builtin_convertvector(nearest, Ints);
  // One last place less where it went away from zero: true is -1.
  Ints sign = sum >> 31;
  Ints bits = reinterpret_cast<Ints>(nearest) + ((back ^ sign) > (sum ^ sign));
  if (ToOdd)
    bits |= (back != sum) & 1;
  return reinterpret_cast<Floats>(bits);
}

/// One column, products k0 .. k0 + Group. `ToOdd` is for f16 products only.
template <bool IsBfloat, bool ToOdd, unsigned Group>
FC_INLINE Floats sumColumn(const Tiles &t, unsigned col, unsigned k0, Floats c,
                           const MmaModel &model) {
  const int fractionBits = model.fractionBits;
  Ints emax = (reinterpret_cast<Ints>(c) >> 23 & 0xff) - 127;
  Ints products = largestExponents<Group>(t, col, k0);
  emax = products > emax ? products : emax;
  // Of f16 only the accumulator may be that small; bf16 products may be too.
  Ints mayMatter = IsBfloat ? ~(Ints){} : reinterpret_cast<Ints>(c != 0.0f);
  Ints slow = (emax > maxExponent) | ((emax < minExponent) & mayMatter);
  emax = emax < minExponent ? minExponent - (Ints){} : emax;
  Ints scaleBits = (fractionBits + 127 - emax) << 23;
  Floats scale = reinterpret_cast<Floats>(scaleBits);
  // 16 products below 4 * 2^25 each stay below 2^31, and what goes beyond with
  // the accumulator is slow. Lanes that are slow wrap, so the sum is unsigned.
  Words bits =
      reinterpret_cast<Words>(__builtin_convertvector(c * scale, Ints));
  for (unsigned k = k0; k < k0 + Group; ++k)
    bits += reinterpret_cast<Words>(
        __builtin_convertvector(t.a[k] * t.b[col][k] * scale, Ints));
  if (Group == 16)
    slow |= (bits + (1u << 30)) > (1u << 31);
  Floats result = narrow<ToOdd>(reinterpret_cast<Ints>(bits)) *
                  reinterpret_cast<Floats>((254 << 23) - scaleBits);
  int anySlow = 0;
  for (unsigned i = 0; i < numRows; ++i)
    anySlow |= slow[i];
  if (__builtin_expect(anySlow != 0, 0))
    for (unsigned i = 0; i < numRows; ++i)
      if (slow[i])
        result[i] = sumSlowly<ToOdd>(t, i, col, k0, k0 + Group, c[i], model);
  return result;
}

FC_INLINE Floats fmaColumn(const Tiles &t, unsigned col, unsigned depth,
                           Floats c) {
  for (unsigned k = 0; k < depth; ++k)
    for (unsigned row = 0; row < numRows; ++row)
      c[row] = __builtin_fmaf(t.a[k][row], t.b[col][k], c[row]);
  return c;
}

/// Applies `sumUp` to the number of each column and its accumulators.
template <typename Fn>
FC_INLINE void forEachColumn(const MmaOperands &in, Fn sumUp) {
  // c[0] and c[2] hold the even columns, c[1] and c[3] the odd ones.
  for (unsigned odd = 0; odd < 2; ++odd) {
    Words columns[4];
    loadColumns(columns, in.c[odd], in.c[odd + 2]);
    for (unsigned i = 0; i < 4; ++i)
      columns[i] = reinterpret_cast<Words>(
          sumUp(2 * i + odd, reinterpret_cast<Floats>(columns[i])));
    transpose(columns);
    __builtin_memcpy(in.d[odd], columns, 128);
    __builtin_memcpy(in.d[odd + 2], columns + 2, 128);
  }
}

template <bool IsBfloat, bool ToOdd, unsigned Depth, unsigned Group>
FC_INLINE void multiplyExactly(const MmaOperands &in, const MmaModel &model) {
  Tiles t;
  unpack<IsBfloat, true>(in, Depth, t);
  forEachColumn(in, [&](unsigned col, Floats c) __attribute__((always_inline)) {
    for (unsigned k0 = 0; k0 < Depth; k0 += Group)
      c = sumColumn<IsBfloat, ToOdd, Group>(t, col, k0, c, model);
    return c;
  });
}

template <bool IsBfloat, bool ToOdd>
void multiply(const MmaOperands &in, unsigned depth, const MmaModel &model) {
  if (!model.plain) {
    if (depth == 8)
      return multiplyExactly<IsBfloat, ToOdd, 8, 8>(in, model);
    return model.group == 8
               ? multiplyExactly<IsBfloat, ToOdd, 16, 8>(in, model)
               : multiplyExactly<IsBfloat, ToOdd, 16, 16>(in, model);
  }
  Tiles t;
  unpack<IsBfloat, false>(in, depth, t);
  forEachColumn(in, [&](unsigned col, Floats c) __attribute__((always_inline)) {
    return fmaColumn(t, col, depth, c);
  });
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
