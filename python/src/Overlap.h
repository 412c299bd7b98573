//===- Overlap.h - Whether tensors share memory -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_PYTHON_OVERLAP_H
#define FLASHCORE_PYTHON_OVERLAP_H

#include "Tensors.h"

namespace flashcore::python {

/// Whether an element of one tensor has a byte that is one of the other, too.
/// Those of one array that interleave, such as q and o in (batch, seqlen, 4,
/// heads, dim), do not. Also true where that is hard to tell.
bool overlap(const TensorView &a, const TensorView &b);

} // namespace flashcore::python

#endif // FLASHCORE_PYTHON_OVERLAP_H
