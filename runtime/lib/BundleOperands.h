//===- BundleOperands.h - What a bundle's tensors must be -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_BUNDLEOPERANDS_H
#define FLASHCORE_RUNTIME_LIB_BUNDLEOPERANDS_H

#include "flashcore/Runtime/Bundle.h"
#include "flashcore/Runtime/JsonReader.h"

namespace flashcore {

/// Refuses tensors of `bundle`, whose attention and tensors are read, that are
/// not those of an attention: roles, types and axes by the table of operands
/// (Runtime/Operands.h), and what comes with each other or with attributes.
/// `attention` and `tensors` are the manifest's.
void checkOperands(const Bundle &bundle, const JsonReader &reader,
                   JsonReader::Field attention, JsonReader::Field tensors);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_BUNDLEOPERANDS_H
