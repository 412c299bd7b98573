//===- MergeReader.h - What a manifest says of a merge ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_OPS_MERGEREADER_H
#define FLASHCORE_RUNTIME_LIB_OPS_MERGEREADER_H

#include "flashcore/Runtime/Bundle.h"
#include "flashcore/Runtime/JsonReader.h"

namespace flashcore {

/// Checks that there are no attributes, and that the sizes of the manifest,
/// which is `root`, are a merge's.
void readMerge(Bundle &bundle, JsonReader &reader, JsonReader::Field attributes,
               JsonReader::Field root);

/// Checks that so are the tensors of `bundle`, which are read.
void checkMerge(const Bundle &bundle, const JsonReader &reader,
                JsonReader::Field attributes, JsonReader::Field root);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_OPS_MERGEREADER_H
