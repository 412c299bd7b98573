//===- AttentionReader.h - What a manifest says of an attention -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_OPS_ATTENTIONREADER_H
#define FLASHCORE_RUNTIME_LIB_OPS_ATTENTIONREADER_H

#include "flashcore/Runtime/Bundle.h"
#include "flashcore/Runtime/JsonReader.h"

namespace flashcore {

/// Reads the attributes of the op into `bundle`, and checks that the sizes of
/// the manifest, which is `root`, are an attention's.
void readAttention(Bundle &bundle, JsonReader &reader,
                   JsonReader::Field attributes, JsonReader::Field root);

/// Checks that so are the tensors of `bundle`, which are read.
void checkAttention(const Bundle &bundle, const JsonReader &reader,
                    JsonReader::Field attributes, JsonReader::Field root);

/// That of an attention or an append.
RotaryStyle readRotaryStyle(JsonReader::Field field);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_OPS_ATTENTIONREADER_H
