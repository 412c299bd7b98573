//===- ReferenceUtil.h - Tensors for the reference --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Small tensors that a test fills by hand, and the rules of a mask.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_UNITTESTS_REFERENCEUTIL_H
#define FLASHCORE_RUNTIME_UNITTESTS_REFERENCEUTIL_H

#include "flashcore/Runtime/Reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace flashcore::testing {

/// A packed f32 tensor and its view.
struct Tensor {
  Tensor(std::array<int64_t, 4> sizes, std::vector<float> values)
      : values(std::move(values)) {
    int64_t count = sizes[0] * sizes[1] * sizes[2] * sizes[3];
    EXPECT_EQ(static_cast<int64_t>(this->values.size()), count);
    view = {this->values.data(),
            DType::F32,
            sizes,
            {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1}};
  }
  Tensor(const Tensor &) = delete;

  std::vector<float> values;
  TensorView view;
};

inline AttentionInputs makeInputs(const TensorView &q, const TensorView &k,
                                  const TensorView &v, double scale,
                                  Causal causal) {
  AttentionInputs inputs;
  inputs.q = q;
  inputs.k = k;
  inputs.v = v;
  inputs.softmaxScale = scale;
  inputs.mask.causal = causal;
  return inputs;
}

/// i32 of one axis, as lengths are.
struct Lengths {
  explicit Lengths(std::vector<int32_t> values) : values(std::move(values)) {
    view = {this->values.data(),
            DType::I32,
            {static_cast<int64_t>(this->values.size()), 1, 1, 1},
            {1, 0, 0, 0}};
  }
  Lengths(const Lengths &) = delete;

  std::vector<int32_t> values;
  TensorView view;
};

inline constexpr double infinity = std::numeric_limits<double>::infinity();

inline void expectNear(const std::vector<double> &actual,
                       const std::vector<double> &expected,
                       double tolerance = 1e-7) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    if (std::isinf(expected[i]))
      EXPECT_EQ(actual[i], expected[i]) << i;
    else
      EXPECT_NEAR(actual[i], expected[i], tolerance) << i;
}

/// The rules of a mask for one pair, word for word from the op's description.
inline bool isVisible(const Mask &mask, int64_t i, int64_t j, int64_t seqlenQ,
                      int64_t seqlenK) {
  int64_t p = i + seqlenK - seqlenQ;
  if (mask.causal == Causal::BottomRight && j > p)
    return false;
  if (mask.causal == Causal::TopLeft && j > i)
    return false;
  if (mask.windowLeft && j < p - *mask.windowLeft)
    return false;
  return !mask.windowRight || j <= p + *mask.windowRight;
}

inline constexpr Causal allCausals[] = {Causal::None, Causal::BottomRight,
                                        Causal::TopLeft};
using Window = std::optional<int64_t>;

} // namespace flashcore::testing

#endif // FLASHCORE_RUNTIME_UNITTESTS_REFERENCEUTIL_H
