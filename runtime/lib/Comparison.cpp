//===- Comparison.cpp - Results beside what they should be ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Comparison.h"

#include <algorithm>
#include <cmath>

using namespace flashcore;

/// Added to twice the yardstick's error, as FlashAttention's tests do.
static constexpr double slack = 1e-5;
double flashcore::difference(double actual, double expected) {
  return actual == expected ? 0 : std::abs(actual - expected);
}

void flashcore::accumulate(ErrorReport &report, const Comparison &element) {
  bool isFirst = report.elements++ == 0;
  report.nans += std::isnan(element.actual);
  report.infinities +=
      std::isinf(element.actual) && !std::isinf(element.expected);
  // Multiplied and not divided: 0 of 0 is no NaN. Limits that are not finite
  // fail whatever the error is.
  bool isWorse =
      std::isfinite(element.allowed)
          ? !(element.error * report.allowed <= report.error * element.allowed)
          : !(element.error <= report.error);
  if (!isFirst && (std::isnan(report.error) || !isWorse))
    return;
  report.error = element.error;
  report.allowed = element.allowed;
  report.worst = element.index;
  report.expected = element.expected;
  report.actual = element.actual;
}

std::vector<int64_t> flashcore::unpack(int64_t index,
                                       std::span<const int64_t> sizes) {
  std::vector<int64_t> at(sizes.size());
  for (size_t axis = sizes.size(); axis-- > 0; index /= sizes[axis])
    at[axis] = index % sizes[axis];
  return at;
}

void flashcore::locate(ErrorReport &report, std::span<const int64_t> sizes) {
  if (report.elements == 0)
    return;
  std::vector<int64_t> at = unpack(report.worst, sizes);
  std::copy_n(at.begin(), std::min(at.size(), report.at.size()),
              report.at.begin());
}

double flashcore::unitRoundoff(DType dtype) {
  return std::ldexp(1, -infoOf(dtype).digits);
}

double flashcore::stepAt(DType dtype, double value) {
  const DTypeInfo &info = infoOf(dtype);
  if (!std::isfinite(value))
    return 0;
  int exponent = info.leastExponent;
  if (value != 0)
    exponent = std::max(exponent, std::ilogb(value) - info.digits + 1);
  return std::ldexp(1, exponent);
}

/// A score of -1e9 is -infinity in f16: there is no room for it in the type.
static double fitTo(DType dtype, double value) {
  const DTypeInfo &info = infoOf(dtype);
  double rounded = info.load(info.round(value));
  return std::isinf(rounded) ? rounded : value;
}

/// Calls `visit(index, value)` for every element of `rows` in packed order.
template <typename Visitor>
static void forEach(const TensorView &tensor, KeyRange rows, Visitor &&visit) {
  int64_t index = 0;
  for (int64_t b = 0; b < tensor.sizes[0]; ++b)
    for (int64_t h = 0; h < tensor.sizes[1]; ++h)
      for (int64_t s = 0; s < tensor.sizes[2]; ++s)
        for (int64_t d = 0; d < tensor.sizes[3]; ++d, ++index)
          if (rows.contains(s))
            visit(index, tensor.load(b, h, s, d));
}

ErrorReport flashcore::compare(const TensorView &actual, KeyRange rows,
                               const std::vector<double> &reference,
                               const std::vector<double> &yardstick,
                               const Tolerance &tolerance) {
  auto [relative, hasYardstick, ofElement] = tolerance;
  ErrorReport report;
  for (size_t i = 0; i < reference.size(); ++i) {
    double usual = difference(yardstick[i], reference[i]);
    // Once it is a NaN it stays one.
    if (!(usual <= report.yardstick) && !std::isnan(report.yardstick))
      report.yardstick = usual;
    report.yardstickNorm += usual * usual;
  }
  double limit = hasYardstick ? 2 * report.yardstick + slack : relative;
  report.allowed = limit; // of no elements
  auto allowedAt = [&](size_t index, double expected) {
    double least = std::isfinite(expected) ? relative * (1 + std::abs(expected))
                                           : relative;
    if (hasYardstick)
      least = std::max(least, stepAt(actual.dtype, expected));
    if (ofElement && std::isfinite(expected))
      least += ofElement(index, expected);
    // std::max would drop a NaN.
    return least > limit ? least : limit;
  };
  forEach(actual, rows, [&](int64_t index, double value) {
    auto place = static_cast<size_t>(index);
    double expected = fitTo(actual.dtype, reference[place]);
    double error = difference(value, expected);
    accumulate(report,
               {index, expected, value, error, allowedAt(place, expected)});
    report.norm += error * error;
  });
  locate(report, actual.sizes);
  report.norm = std::sqrt(report.norm);
  report.yardstickNorm = std::sqrt(report.yardstickNorm);
  return report;
}
