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

template <typename F>
static float compute(float a, float b, float c, int mode, F f) {
  volatile float x = flush(a, mode), y = flush(b, mode), z = flush(c, mode);
  volatile float result = 0;
  {
    RoundingScope scope(mode);
    result = f(x, y, z);
  }
  return flush(canon(result), mode);
}

float flashcore::emu::addRounded(float a, float b, int mode) {
  return compute(a, b, 0, mode, [](float x, float y, float) { return x + y; });
}
float flashcore::emu::mulRounded(float a, float b, int mode) {
  return compute(a, b, 0, mode, [](float x, float y, float) { return x * y; });
}
float flashcore::emu::fmaRounded(float a, float b, float c, int mode) {
  return compute(a, b, c, mode,
                 [](float x, float y, float z) { return ::fmaf(x, y, z); });
}
float flashcore::emu::divRounded(float a, float b, int mode) {
  auto divide = [](float x, float y, float) { return x / y; };
  float quotient = compute(a, b, 0, mode, divide);
  // sm_90 flushes by the size before rounding, where only a truncated quotient
  // is still below the smallest normal number.
  if (!(mode & roundingFtz) || std::fabs(quotient) != 0x1p-126f)
    return quotient;
  int truncate = static_cast<int>(Rounding::Rz) | roundingFtz;
  return std::copysign(compute(a, b, 0, truncate, divide), quotient);
}
float flashcore::emu::sqrtRounded(float a, int mode) {
  return compute(a, 0, 0, mode,
                 [](float x, float, float) { return ::sqrtf(x); });
}
