//===- TensorValues.h - What a tensor of a set holds ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_UNITTESTS_TENSORVALUES_H
#define FLASHCORE_RUNTIME_UNITTESTS_TENSORVALUES_H

#include "flashcore/Runtime/TensorSet.h"

namespace flashcore::testing {

/// In the order of the elements.
inline std::vector<double> valuesOf(TensorSet &set, const char *name) {
  HostTensor &tensor = set.tensor(name);
  std::vector<double> result;
  tensor.forEach(
      [&](int64_t, int64_t at) { result.push_back(tensor.load(at)); });
  return result;
}

} // namespace flashcore::testing

#endif // FLASHCORE_RUNTIME_UNITTESTS_TENSORVALUES_H
