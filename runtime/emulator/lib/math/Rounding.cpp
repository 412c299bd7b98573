//===- Rounding.cpp - f32 arithmetic with directed rounding ---------------===//
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

template <typename T, typename F>
static T compute(T a, T b, T c, int mode, F f) {
  volatile T x = flush(a, mode), y = flush(b, mode), z = flush(c, mode);
  volatile T result = 0;
  {
    RoundingScope scope(mode);
    result = f(x, y, z);
  }
  return flush(canon(result), mode);
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
  T flashcore::emu::divRounded(T a, T b, int mode) {                           \
    return compute<T>(a, b, 0, mode, [](T x, T y, T) { return x / y; });       \
  }                                                                            \
  T flashcore::emu::sqrtRounded(T a, int mode) {                               \
    return compute<T>(a, 0, 0, mode, [](T x, T, T) { return std::sqrt(x); });  \
  }
FC_ROUNDED(float)
FC_ROUNDED(double)
#undef FC_ROUNDED
