//===- Comparison.h - Results beside what they should be --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each comparison yields the worst error and what was allowed there. A NaN in
// either fails: every comparison is written so that it is false for a NaN.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_COMPARISON_H
#define FLASHCORE_RUNTIME_LIB_COMPARISON_H

#include "flashcore/Runtime/Check.h"

#include <functional>
#include <span>
#include <vector>

namespace flashcore {

/// What LSE may be off by, relative to 1 + |LSE|: it is summed in f32 whatever
/// P is rounded to. Merges and backward passes take exponentials of it.
inline constexpr double lseTolerance = 2e-5;

/// One element that is compared.
struct Comparison {
  int64_t index;
  double expected, actual, error, allowed;
};

/// |actual - expected|, where equal infinities differ by 0.
double difference(double actual, double expected);

/// Keeps the element whose error is the larger part of what is allowed; a NaN
/// is worse than all.
void accumulate(ErrorReport &report, const Comparison &element);

/// The coordinates of packed element `index`.
std::vector<int64_t> unpack(int64_t index, std::span<const int64_t> sizes);

/// Fills `at` of a report on a tensor of these sizes.
void locate(ErrorReport &report, std::span<const int64_t> sizes);

/// Unit roundoff: half the distance from 1 to the next value.
double unitRoundoff(DType dtype);

/// The distance between neighbours of the type at `value`; 0 where that is not
/// finite.
double stepAt(DType dtype, double value);

/// What a value may be off by, beside a step of its type.
struct Tolerance {
  /// Of 1 + its size.
  double relative = 0;
  /// Whether errors are those of P, too, so that the yardstick's count. They
  /// are reported in any case.
  bool hasYardstick = true;
  /// Of the element of this number, which the reference says is so; may be
  /// empty.
  std::function<double(size_t, double)> ofElement = {};
};

/// Rows that are not computed are not compared: both references have zeros.
ErrorReport compare(const TensorView &actual, KeyRange rows,
                    const std::vector<double> &reference,
                    const std::vector<double> &yardstick,
                    const Tolerance &tolerance = {});

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_COMPARISON_H
