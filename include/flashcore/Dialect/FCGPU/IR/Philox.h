//===- Philox.h - Random numbers of a counter -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As
// Easy as 1, 2, 3": a bijection of four words for each key of two, whose values
// are as good as random wherever the counters come from.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FCGPU_IR_PHILOX_H
#define FLASHCORE_DIALECT_FCGPU_IR_PHILOX_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <array>

namespace mlir::fcgpu {

inline constexpr unsigned kPhiloxWords = 4;
using PhiloxWords = std::array<Value, kPhiloxWords>;

/// Builds the words of a counter, all of i32. Round keys of a constant key are
/// constants.
PhiloxWords buildPhilox(ImplicitLocOpBuilder &b, PhiloxWords counter,
                        std::array<Value, 2> key);

} // namespace mlir::fcgpu

#endif // FLASHCORE_DIALECT_FCGPU_IR_PHILOX_H
