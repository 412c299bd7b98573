//===- Handlers.h - Vector kernels of the interpreter -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The lane-wise instructions and the matrix multiply, compiled once for each
// x86-64 level and chosen by what the machine has. All three give the same
// bits.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_SIM_HANDLERS_H
#define FLASHCORE_EMULATOR_LIB_SIM_HANDLERS_H

#include "../check/Layout.h"
#include "flashcore/Emulator/Program.h"

namespace flashcore::emu {

/// Runs an Alu instruction on the lanes of `mask`.
using AluFn = void (*)(char *frame, const uint32_t *ops, const Inst &inst,
                       uint32_t mask);

/// How an mma rounds.
struct MmaModel {
  /// Plain f32 multiply-add, one product after the other.
  bool plain = true;
  /// Products that are summed in one step.
  unsigned group = 16;
  /// Fraction bits kept of each aligned term.
  int fractionBits = 25;
  /// The exponent with which a term that is zero takes part.
  int zeroExponent = -133;
  /// Accumulators are f16: a sum is narrowed to f32 by rounding to odd, so that
  /// narrowing it to f16 rounds once.
  bool toHalf = false;
};

/// Fragments as they lie in the frame: one array of 32 lanes a register.
struct MmaOperands {
  float *d[4];
  const uint32_t *a[4];
  const uint32_t *b[2];
  const float *c[4];
};

/// D = A * B + C of m16n8k16 or m16n8k8 with f16 or bf16 inputs.
using MmaFn = void (*)(const MmaOperands &operands, bool isBfloat, unsigned k,
                       const MmaModel &model);

/// 8-bit floats, tf32 and 8-bit integers, one element at a time; `model` is
/// that of f16. Integers lie in the bits of `c` and `d`.
void mmaElementwise(const MmaOperands &operands, MatrixType aType,
                    MatrixType bType, unsigned depth, bool saturate,
                    const MmaModel &model);
/// The value of an e4m3 or e5m2 byte.
double decodeFp8(uint32_t bits, bool isE4M3);

struct HandlerTable {
  const AluFn *alu;
  MmaFn mma;
  const LabelKernels *labels;
  const char *isa;
};

namespace baseline {
extern const HandlerTable handlers;
}
#ifdef FLASHCORE_EMU_X86_LEVELS
namespace v3 {
extern const HandlerTable handlers;
}
namespace v4 {
extern const HandlerTable handlers;
}
#endif

/// The fastest table this machine can run.
const HandlerTable &selectHandlers();

/// AluOp::Convert, one lane at a time (Convert.cpp).
uint64_t convertLane(const ConvertInfo &info, uint64_t a, uint64_t b);

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_SIM_HANDLERS_H
