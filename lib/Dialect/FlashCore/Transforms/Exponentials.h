//===- Exponentials.h - Exponentials of differences -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What kernels of merges, of unfused rows and of tiles share: weights relative
// to a maximum of any size. scale * x - round(scale * y) is not 0 for x = y: it
// is the rounding of the product, which is 64 where that is 1e9. So the
// difference comes first here. Values are f32, or vectors of them.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_EXPONENTIALS_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_EXPONENTIALS_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <limits>

namespace mlir::flashcore {
inline constexpr float kMinusInf = -std::numeric_limits<float>::infinity();

/// A constant of the type of `like`.
Value getConstantLike(ImplicitLocOpBuilder &b, float value, Value like);

/// The maximum to subtract. Where that is -inf nothing is seen, and it takes 0:
/// -inf - -inf is not computed.
Value getSafeMax(ImplicitLocOpBuilder &b, Value max);

/// exp2(scale * (x - y)), of a `y` that is finite.
Value exponentiateDifference(ImplicitLocOpBuilder &b, Value x, Value y,
                             float scale);

/// One more score of a row, a sink, beside those that the row has.
struct SinkWeights {
  Value max;  ///< of all, as a natural logarithm
  Value rest; ///< what rounding left of it
  Value row;  ///< what the row's own O and sum are multiplied with
  Value sink; ///< what the sink adds to the sum
};

/// Of a row whose maximum is `rowMax`, of scores in units of `scale`, or -inf;
/// `logit` is the sink's, of units of 1. `rest`, which may be null, is what
/// rounding left of rowMax * scale.
SinkWeights weighSink(ImplicitLocOpBuilder &b, Value rowMax, float scale,
                      Value logit, Value rest = {});

/// rowMax * scale + ln(sum), or -inf where `isEmpty`.
struct LogSumExp {
  Value value;
  /// What it was rounded from.
  Value rowMax, logOfSum, isEmpty;
  float scale;

  /// What the rounding left, or 0 where `isEmpty`: weights of parts are
  /// exponentials of differences of LSEs, which a step of a large one would
  /// change by as much as it is.
  Value getRest(ImplicitLocOpBuilder &b) const;
};

/// `rest`, which may be null, is what rounding left of rowMax * scale.
LogSumExp getLogSumExp(ImplicitLocOpBuilder &b, Value rowMax, float scale,
                       Value sum, Value isEmpty, Value rest = {});
} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_EXPONENTIALS_H
