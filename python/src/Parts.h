//===- Parts.h - The parts of the extension module --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each adds its types and functions to the module; false with an exception.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_PYTHON_PARTS_H
#define FLASHCORE_PYTHON_PARTS_H

#include "Object.h"

namespace flashcore::python {

bool addArray(PyObject *module);
bool addCall(PyObject *module);
bool addCompile(PyObject *module);
bool addEmulator(PyObject *module);
bool addRuntime(PyObject *module);

} // namespace flashcore::python

#endif // FLASHCORE_PYTHON_PARTS_H
