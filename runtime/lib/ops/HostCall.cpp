//===- HostCall.cpp - A call in the memory of its caller ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostCall.h"

#include <cstring>

using namespace flashcore;

void flashcore::storeRounded(const TensorView &to, int64_t index,
                             double value) {
  const DTypeInfo &info = infoOf(to.dtype);
  uint32_t bits = info.round(value);
  std::memcpy(static_cast<char *>(const_cast<void *>(to.data)) +
                  index * info.bytes,
              &bits, static_cast<size_t>(info.bytes));
}

void flashcore::storeAll(const TensorView &to,
                         const std::vector<double> &values, KeyRange rows) {
  int64_t next = 0;
  for (int64_t b = 0; b < to.sizes[0]; ++b)
    for (int64_t h = 0; h < to.sizes[1]; ++h)
      for (int64_t s = 0; s < to.sizes[2]; ++s)
        for (int64_t d = 0; d < to.sizes[3]; ++d, ++next)
          if (rows.contains(s))
            storeRounded(to,
                         b * to.strides[0] + h * to.strides[1] +
                             s * to.strides[2] + d * to.strides[3],
                         values[static_cast<size_t>(next)]);
}
