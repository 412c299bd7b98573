//===- Object.h - Python objects in C++ -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The limited API of CPython 3.10 with owning references, types around a C++
// value, and statuses of the C interface as exceptions of flashcore.errors.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_PYTHON_OBJECT_H
#define FLASHCORE_PYTHON_OBJECT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "flashcore-c/Status.h"

#include <new>
#include <string>
#include <utility>

namespace flashcore::python {

/// Owns a reference, or is null.
class Ref {
public:
  Ref() = default;
  /// Takes over a new reference.
  explicit Ref(PyObject *taken) : object(taken) {}
  static Ref share(PyObject *borrowed) {
    Py_XINCREF(borrowed);
    return Ref(borrowed);
  }
  Ref(Ref &&other) noexcept : object(std::exchange(other.object, nullptr)) {}
  Ref(const Ref &other) : object(other.object) { Py_XINCREF(object); }
  Ref &operator=(Ref other) {
    std::swap(object, other.object);
    return *this;
  }
  ~Ref() { Py_XDECREF(object); }

  explicit operator bool() const { return object; }
  PyObject *get() const { return object; }
  PyObject *release() { return std::exchange(object, nullptr); }

private:
  PyObject *object = nullptr;
};

/// Takes the current exception away in its scope.
class PendingException {
public:
  PendingException() { PyErr_Fetch(&type, &value, &traceback); }
  ~PendingException() { PyErr_Restore(type, value, traceback); }
  PendingException(const PendingException &) = delete;
  PendingException &operator=(const PendingException &) = delete;

private:
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
};

/// Lets other threads of Python run in its scope.
class WithoutGil {
public:
  WithoutGil() : state(PyEval_SaveThread()) {}
  ~WithoutGil() { PyEval_RestoreThread(state); }
  WithoutGil(const WithoutGil &) = delete;
  WithoutGil &operator=(const WithoutGil &) = delete;

private:
  PyThreadState *state;
};

/// Reads the exception classes. Returns false with an exception.
bool importErrors();
/// Whether a status is an error, which is then the current exception. Destroys
/// the status.
bool raised(FlashCoreStatus status);
/// The same as an exception of another class.
bool raised(FlashCoreStatus status, PyObject *type);
/// Raises `flashcore.errors.<name>`; returns null.
PyObject *raise(const char *name, const std::string &message);
/// Raises the error of a function that has no backward pass.
void raiseGradientError(const char *function);

/// A Python object that holds a T. `T::type` is its type once `addType` has
/// made it; objects are made by `create` alone.
template <typename T> struct Boxed {
  PyObject_HEAD T value;

  static T &get(PyObject *self) {
    return reinterpret_cast<Boxed *>(self)->value;
  }
  /// Null with an exception if `object` is something else.
  static T *cast(PyObject *object) {
    int isOne = PyObject_IsInstance(object, T::type);
    if (isOne > 0)
      return &get(object);
    if (isOne == 0)
      PyErr_Format(PyExc_TypeError, "expects a %s, but got %R", T::name,
                   object);
    return nullptr;
  }
  static Ref create(T &&value) {
    auto *type = reinterpret_cast<PyTypeObject *>(T::type);
    Ref self(PyType_GenericAlloc(type, 0));
    if (self)
      new (&get(self.get())) T(std::move(value));
    return self;
  }
  static void destroy(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    if (PyType_HasFeature(type, Py_TPFLAGS_HAVE_GC))
      PyObject_GC_UnTrack(self);
    get(self).~T();
    auto *release =
        reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
    release(self);
    Py_DECREF(type);
  }
};

/// Makes T::type from its slots, and adds it to `module`.
template <typename T>
bool addType(PyObject *module, const char *fullName, PyType_Slot *slots,
             unsigned flags = 0) {
  PyType_Spec spec = {
      fullName, static_cast<int>(sizeof(Boxed<T>)), 0,
      static_cast<unsigned>(Py_TPFLAGS_DEFAULT) |
          static_cast<unsigned>(Py_TPFLAGS_DISALLOW_INSTANTIATION) | flags,
      slots};
  T::type = PyType_FromSpec(&spec);
  if (!T::type)
    return false;
  Py_INCREF(T::type);
  if (PyModule_AddObject(module, T::name, T::type) == 0)
    return true;
  Py_DECREF(T::type);
  return false;
}

/// A slot's pointer, which the slots of all kinds share.
template <typename T> void *slot(T *pointer) {
  return reinterpret_cast<void *>(pointer);
}
inline void *slot(const char *text) { return const_cast<char *>(text); }
template <typename T> PyCFunction method(T *function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

/// Raises a TypeError unless a function got its arguments.
bool expectArguments(const char *function, Py_ssize_t got, Py_ssize_t expected);
/// The UTF-8 of a str, or null with an exception. Lives as long as the str.
const char *textOf(PyObject *object);
/// As `textOf`; None is null without an exception.
bool optionalText(PyObject *object, const char *&text);
Ref toText(const char *text);
/// As file systems have it.
bool readPath(PyObject *object, std::string &path);

} // namespace flashcore::python

#endif // FLASHCORE_PYTHON_OBJECT_H
