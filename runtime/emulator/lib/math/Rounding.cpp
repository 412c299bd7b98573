//===- Rounding.cpp - Arithmetic with directed rounding -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Rounding.h. The operands pass through volatile variables so that no
// operation moves across the change of rounding mode.
//
//===----------------------------------------------------------------------===//

#include "Rounding.h"
#include "LaneMath.h"

#include "flashcore/Emulator/Program.h"

#include <cfenv>
#include <cmath>

using namespace flashcore::emu;

namespace {
/// Sets the host's rounding mode for one scope.
class RoundingScope {
public:
  explicit RoundingScope(int mode) : saved(std::fegetround()) {
    static constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD,
                                    FE_UPWARD, FE_TONEAREST};
    std::fesetround(modes[mode & 7]);
  }
  ~RoundingScope() { std::fesetround(saved); }

private:
  int saved;
};
} // namespace

static float flush(float x, int mode) {
  return mode & roundingFtz ? ftz(x) : x;
}
static double flush(double x, int) { return x; }

/// The NaN of an f64 is up to the caller, which has the operands.
static float finish(float x, int mode) { return flush(canon(x), mode); }
static double finish(double x, int) { return x; }

template <typename T, typename F>
static T compute(T a, T b, T c, int mode, F f) {
  volatile T x = flush(a, mode), y = flush(b, mode), z = flush(c, mode);
  volatile T result = 0;
  {
    RoundingScope scope(mode);
    result = f(x, y, z);
  }
  return finish(result, mode);
}

template <typename T> static T divide(T a, T b, int mode) {
  return compute<T>(a, b, 0, mode, [](T x, T y, T) { return x / y; });
}

#define FC_ROUNDED(T)                                                          \
  T flashcore::emu::addRounded(T a, T b, int mode) {                           \
    return compute<T>(a, b, 0, mode, [](T x, T y, T) { return x + y; });       \
  }                                                                            \
  T flashcore::emu::mulRounded(T a, T b, int mode) {                           \
    return compute<T>(a, b, 0, mode, [](T x, T y, T) { return x * y; });       \
  }                                                                            \
  T flashcore::emu::fmaRounded(T a, T b, T c, int mode) {                      \
    return compute<T>(a, b, c, mode,                                           \
                      [](T x, T y, T z) { return std::fma(x, y, z); });        \
  }                                                                            \
  T flashcore::emu::sqrtRounded(T a, int mode) {                               \
    return compute<T>(a, 0, 0, mode, [](T x, T, T) { return std::sqrt(x); });  \
  }
FC_ROUNDED(float)
FC_ROUNDED(double)
#undef FC_ROUNDED

double flashcore::emu::divRounded(double a, double b, int mode) {
  return divide(a, b, mode);
}
float flashcore::emu::divRounded(float a, float b, int mode) {
  float quotient = divide(a, b, mode);
  // sm_90 flushes by the size before rounding, where only a truncated quotient
  // is still below the smallest normal number.
  if (!(mode & roundingFtz) || std::fabs(quotient) != 0x1p-126f)
    return quotient;
  int truncate = static_cast<int>(Rounding::Rz) | roundingFtz;
  return std::copysign(divide(a, b, truncate), quotient);
}
