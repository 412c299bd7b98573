//===- Array.cpp - Device memory of ours as an array ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For callers whose arrays cannot be written, such as JAX's: results lie in an
// Array, which their library takes over by DLPack.
//
//===----------------------------------------------------------------------===//

#include "Parts.h"
#include "Runtime.h"
#include "Tensors.h"

using namespace flashcore::python;

namespace {
struct Array {
  static PyObject *type;
  static constexpr const char *name = "Array";

  Array(Ref device, uint64_t pointer)
      : device(std::move(device)), pointer(pointer) {}
  Array(Array &&other) noexcept
      : device(std::move(other.device)),
        pointer(std::exchange(other.pointer, 0)), sizes(std::move(other.sizes)),
        strides(std::move(other.strides)), dtype(other.dtype),
        place(other.place) {}
  ~Array() {
    if (pointer)
      flashcoreStatusDestroy(flashcoreDeviceFree(
          Boxed<Device>::get(device.get()).handle.get(), pointer));
  }

  Ref device;
  uint64_t pointer;
  std::vector<int64_t> sizes, strides;
  dlpack::DataType dtype = {};
  dlpack::Device place = {dlpack::CUDA, 0};
};
} // namespace
PyObject *Array::type = nullptr;

/// Sizes and contiguous strides; the bytes of all elements.
static int64_t layOut(Array &array) {
  int64_t step = 1;
  array.strides.resize(array.sizes.size());
  for (size_t i = array.sizes.size(); i-- > 0;) {
    array.strides[i] = step;
    step *= array.sizes[i];
  }
  return step * array.dtype.bits / 8;
}

static PyObject *makeArray(PyObject *, PyObject *arguments) {
  PyObject *deviceObject = nullptr, *shape = nullptr;
  int ordinal = 0;
  const char *typeName = nullptr;
  if (!PyArg_ParseTuple(arguments, "OiO!s", &deviceObject, &ordinal,
                        &PyTuple_Type, &shape, &typeName))
    return nullptr;
  Device *device = Boxed<Device>::cast(deviceObject);
  Array array(Ref::share(deviceObject), 0);
  if (!device || !readType(typeName, array.dtype))
    return nullptr;
  array.place.id = ordinal;
  for (Py_ssize_t i = 0; i < PyTuple_Size(shape); ++i)
    array.sizes.push_back(PyLong_AsLongLong(PyTuple_GetItem(shape, i)));
  if (PyErr_Occurred() ||
      raised(flashcoreDeviceAllocate(device->handle.get(), layOut(array),
                                     nullptr, &array.pointer)))
    return nullptr;
  return Boxed<Array>::create(std::move(array)).release();
}

//===----------------------------------------------------------------------===//
// DLPack
//===----------------------------------------------------------------------===//

namespace {
/// A managed tensor that owns a reference to its Array.
template <typename Managed> struct Export {
  Managed managed = {};
  Ref owner;
};
} // namespace

template <typename Managed> static void destroyExport(Managed *managed) {
  PyGILState_STATE state = PyGILState_Ensure();
  delete static_cast<Export<Managed> *>(managed->context);
  PyGILState_Release(state);
}

template <typename Managed>
constexpr const char *capsuleName =
    std::is_same_v<Managed, dlpack::ManagedTensor> ? "dltensor"
                                                   : "dltensor_versioned";

/// A capsule that nobody took over still owns its tensor.
template <typename Managed> static void destroyCapsule(PyObject *capsule) {
  if (!PyCapsule_IsValid(capsule, capsuleName<Managed>))
    return;
  auto *managed = static_cast<Managed *>(
      PyCapsule_GetPointer(capsule, capsuleName<Managed>));
  managed->deleter(managed);
}

template <typename Managed>
static PyObject *exportAs(PyObject *self, Managed &managed) {
  Array &array = Boxed<Array>::get(self);
  managed.deleter = destroyExport<Managed>;
  managed.tensor.data = reinterpret_cast<void *>(array.pointer);
  managed.tensor.device = array.place;
  managed.tensor.rank = static_cast<int32_t>(array.sizes.size());
  managed.tensor.type = array.dtype;
  managed.tensor.sizes = array.sizes.data();
  managed.tensor.strides = array.strides.data();
  PyObject *capsule =
      PyCapsule_New(&managed, capsuleName<Managed>, destroyCapsule<Managed>);
  if (!capsule)
    managed.deleter(&managed);
  return capsule;
}

template <typename Managed> static Managed &newExport(PyObject *self) {
  auto *result = new Export<Managed>{{}, Ref::share(self)};
  result->managed.context = result;
  return result->managed;
}

/// The work that fills an Array is done when it is handed out, so `stream` has
/// nothing to wait for.
static PyObject *toDLPack(PyObject *self, PyObject *arguments,
                          PyObject *options) {
  static const char *names[] = {"stream", "max_version", "dl_device", "copy",
                                nullptr};
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None,
           *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(arguments, options, "|$OOOO",
                                   const_cast<char **>(names), &stream,
                                   &version, &device, &copy))
    return nullptr;
  if (copy == Py_True) {
    PyErr_SetString(PyExc_BufferError, "expects copy to be None or False: an "
                                       "Array is handed over as it is");
    return nullptr;
  }
  if (version == Py_None)
    return exportAs(self, newExport<dlpack::ManagedTensor>(self));
  auto &managed = newExport<dlpack::ManagedTensorVersioned>(self);
  managed.version = {dlpack::majorVersion, 0};
  return exportAs(self, managed);
}

static PyObject *getDLPackDevice(PyObject *self, PyObject *) {
  dlpack::Device place = Boxed<Array>::get(self).place;
  return Py_BuildValue("(ii)", static_cast<int>(place.type),
                       static_cast<int>(place.id));
}

static PyMethodDef methods[] = {
    {"__dlpack__", method(toDLPack), METH_VARARGS | METH_KEYWORDS,
     "Hands the memory over."},
    {"__dlpack_device__", getDLPackDevice, METH_NOARGS,
     "DLPack's device type and number."},
    {nullptr, nullptr, 0, nullptr}};
static PyGetSetDef members[] = {{"pointer",
                                 [](PyObject *self, void *) {
                                   return PyLong_FromUnsignedLongLong(
                                       Boxed<Array>::get(self).pointer);
                                 },
                                 nullptr, "Its address.", nullptr},
                                {nullptr, nullptr, nullptr, nullptr, nullptr}};
static PyMethodDef functions[] = {{"make_array", makeArray, METH_VARARGS,
                                   "make_array(device, ordinal, shape, dtype)"},
                                  {nullptr, nullptr, 0, nullptr}};

bool flashcore::python::addArray(PyObject *module) {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, slot(Boxed<Array>::destroy)},
      {Py_tp_methods, methods},
      {Py_tp_getset, members},
      {Py_tp_doc, slot("Memory of a GPU, for __dlpack__.")},
      {0, nullptr}};
  return addType<Array>(module, "flashcore._core.Array", slots) &&
         PyModule_AddFunctions(module, functions) == 0;
}
