//===- Module.cpp - The extension module flashcore._core ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Binds the C interface for the package, which is what users see. One file for
// CPython 3.10 and newer: nothing beyond its limited API is used.
//
//===----------------------------------------------------------------------===//

#include "Parts.h"
#include "Tensors.h"

using namespace flashcore::python;

PyMODINIT_FUNC PyInit__core() {
  static PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                   "flashcore._core",
                                   "The C interface of FlashCore.",
                                   -1,
                                   nullptr,
                                   nullptr,
                                   nullptr,
                                   nullptr,
                                   nullptr};
  Ref module(PyModule_Create(&definition));
  if (module && importErrors() && addTensors(module.get()) &&
      addCompile(module.get()) && addRuntime(module.get()) &&
      addCall(module.get()) && addArray(module.get()) &&
      addEmulator(module.get()))
    return module.release();
  return nullptr;
}
