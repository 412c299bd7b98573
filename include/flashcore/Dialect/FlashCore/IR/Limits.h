//===- Limits.h - Numbers that an attention may have ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_IR_LIMITS_H
#define FLASHCORE_DIALECT_FLASHCORE_IR_LIMITS_H

namespace mlir::flashcore {

/// C6, of the softmax scale and the softcap: kernels flush subnormals, and
/// multiply the scale by log2(e).
inline constexpr float kLeastScale = 0x1p-126f, kMostScale = 0x1p126f;

} // namespace mlir::flashcore

#endif // FLASHCORE_DIALECT_FLASHCORE_IR_LIMITS_H
