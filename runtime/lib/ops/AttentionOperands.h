//===- AttentionOperands.h - The tensors of an attention --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_OPS_ATTENTIONOPERANDS_H
#define FLASHCORE_RUNTIME_LIB_OPS_ATTENTIONOPERANDS_H

#include "flashcore/Runtime/Bundle.h"
#include "flashcore/Runtime/JsonReader.h"

namespace flashcore {

/// Refuses tensors of `bundle`, whose attributes and tensors are read, that are
/// not those of an attention: roles, types and axes by the table of operands
/// (Runtime/Operands.h), and what comes with each other or with attributes.
/// `root` is the manifest.
void checkOperands(const Bundle &bundle, const JsonReader &reader,
                   JsonReader::Field root);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_OPS_ATTENTIONOPERANDS_H
