//===- NaiveBundle.h - An attention that computes -------------- -*- C++
//-*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A bundle with a kernel written out in PTX, a thread an element of o, for
// tests that want results and not just launches.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_UNITTESTS_NAIVEBUNDLE_H
#define FLASHCORE_RUNTIME_UNITTESTS_NAIVEBUNDLE_H

#include "TestBundle.h"

namespace flashcore::testing {

/// f16 without a mask, scale 1/4, head_dim and head_dim_v 16; all other sizes
/// and all strides but the innermost are dynamic, offsets 0. Write it with
/// writeBundle.
nlohmann::json naiveManifest();

} // namespace flashcore::testing

#endif // FLASHCORE_RUNTIME_UNITTESTS_NAIVEBUNDLE_H
