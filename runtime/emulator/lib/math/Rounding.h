//===- Rounding.h - Arithmetic with directed rounding -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `.rz`, `.rm` and `.rp` are rare; these run one lane at a time with the
// rounding mode of the host set. `mode` is a Rounding, plus roundingFtz.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_MATH_ROUNDING_H
#define FLASHCORE_EMULATOR_LIB_MATH_ROUNDING_H

namespace flashcore::emu {

/// Added to the mode when subnormals are flushed.
inline constexpr int roundingFtz = 16;

float addRounded(float a, float b, int mode);
float mulRounded(float a, float b, int mode);
float fmaRounded(float a, float b, float c, int mode);
float divRounded(float a, float b, int mode);
float sqrtRounded(float a, int mode);

double addRounded(double a, double b, int mode);
double mulRounded(double a, double b, int mode);
double fmaRounded(double a, double b, double c, int mode);
double divRounded(double a, double b, int mode);
double sqrtRounded(double a, int mode);

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_MATH_ROUNDING_H
