//===- Object.cpp - Python objects in C++ ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The exception classes live in flashcore.errors, so that they have docstrings
// and can be imported where this extension cannot.
//
//===----------------------------------------------------------------------===//

#include "Object.h"

#include <cstring>

using namespace flashcore::python;

static PyObject *errors;

bool flashcore::python::importErrors() {
  errors = PyImport_ImportModule("flashcore.errors");
  return errors;
}

PyObject *flashcore::python::raise(const char *name,
                                   const std::string &message) {
  Ref type(PyObject_GetAttrString(errors, name));
  if (type)
    PyErr_SetString(type.get(), message.c_str());
  return nullptr;
}

void flashcore::python::raiseGradientError(const char *function) {
  Ref text(PyObject_CallMethod(errors, "no_backward", "s", function));
  if (text)
    raise("GradientError", textOf(text.get()));
}

/// A KernelFault with what the emulator found, as JSON.
static void raiseFault(const char *message, const char *report) {
  Ref type(PyObject_GetAttrString(errors, "KernelFault"));
  Ref text = toText(message), json = toText(report);
  Ref fault(type && text && json
                ? PyObject_CallFunctionObjArgs(type.get(), text.get(),
                                               json.get(), nullptr)
                : nullptr);
  if (fault)
    PyErr_SetObject(type.get(), fault.get());
}

static const char *errorName(FlashCoreStatusKind kind) {
  switch (kind) {
  case FlashCoreStatusNoDevice:
    return "NoDeviceError";
  case FlashCoreStatusKernelFault:
    return "KernelFault";
  case FlashCoreStatusUnsupported:
    return "UnsupportedError";
  default:
    return "Error";
  }
}

bool flashcore::python::raised(FlashCoreStatus status) {
  if (flashcoreStatusIsSuccess(status))
    return false;
  const char *report = flashcoreStatusGetReport(status);
  if (*report) {
    raiseFault(flashcoreStatusGetMessage(status), report);
    flashcoreStatusDestroy(status);
    return true;
  }
  Ref type(PyObject_GetAttrString(errors,
                                  errorName(flashcoreStatusGetKind(status))));
  return raised(status, type.get());
}

bool flashcore::python::raised(FlashCoreStatus status, PyObject *type) {
  if (flashcoreStatusIsSuccess(status))
    return false;
  if (type)
    PyErr_SetString(type, flashcoreStatusGetMessage(status));
  flashcoreStatusDestroy(status);
  return true;
}

bool flashcore::python::expectArguments(const char *function, Py_ssize_t got,
                                        Py_ssize_t expected) {
  if (got == expected)
    return true;
  PyErr_Format(PyExc_TypeError, "%s expects %zd arguments, but got %zd",
               function, expected, got);
  return false;
}

const char *flashcore::python::textOf(PyObject *object) {
  return PyUnicode_AsUTF8AndSize(object, nullptr);
}

bool flashcore::python::optionalText(PyObject *object, const char *&text) {
  text = nullptr;
  return object == Py_None || (text = textOf(object));
}

Ref flashcore::python::toText(const char *text) {
  // PTX and paths may hold any bytes; nothing of ours should fail for that.
  return Ref(PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(strlen(text)),
                                  "surrogateescape"));
}

bool flashcore::python::readPath(PyObject *object, std::string &path) {
  PyObject *bytes = nullptr;
  if (!PyUnicode_FSConverter(object, &bytes))
    return false;
  Ref owner(bytes);
  path = PyBytes_AsString(bytes);
  return true;
}
