//===- Layout.h - How the tensors of a run lie in memory --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Names for the strides that a problem ended up with, which a bundle may have
// fixed whatever the command line says.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUN_LAYOUT_H
#define FLASHCORE_RUN_LAYOUT_H

#include "flashcore/Runtime/Problem.h"

namespace flashcore::run {

/// "bhsd" or "bshd" where q, k, v and o are all dense in this order; else by
/// tensor, with "strided" for those with gaps: "q,k,v bshd strided, o bshd".
std::string describeLayout(const Problem &problem);

/// The layout to choose where the user names none: the one that fits the
/// strides that the bundle fixes.
Layout defaultLayout(const Bundle &bundle);

} // namespace flashcore::run

#endif // FLASHCORE_RUN_LAYOUT_H
