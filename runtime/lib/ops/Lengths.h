//===- Lengths.h - Lengths and pages as a call has them ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_OPS_LENGTHS_H
#define FLASHCORE_RUNTIME_LIB_OPS_LENGTHS_H

#include "flashcore/Runtime/Reference.h"

namespace flashcore {

/// Entry `index` of lengths.
inline int64_t loadLength(const TensorView &lengths, int64_t index) {
  return static_cast<int64_t>(lengths.load(index, 0, 0, 0));
}

/// Page `page` of a sequence.
inline int64_t loadPage(const AttentionInputs &inputs, int64_t sequence,
                        int64_t page) {
  return static_cast<int64_t>(inputs.pageTable->load(sequence, page, 0, 0));
}

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_OPS_LENGTHS_H
