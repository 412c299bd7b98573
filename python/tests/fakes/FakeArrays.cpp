//===- FakeArrays.cpp - A library of arrays with the C exchange API -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// fake_arrays.Array(shape, strides, dtype, device, index) is an array in host
// memory that says that it is on a GPU. Its current stream is what
// set_stream(device, stream) says.
//
//===----------------------------------------------------------------------===//

#include "DLPack.h"
#include "Object.h"

#include <cstdlib>
#include <cstring>

using namespace flashcore::python;

namespace {
struct Array {
  static PyObject *type;
  static constexpr const char *name = "Array";

  dlpack::Tensor tensor = {};
  int64_t sizes[5] = {}, strides[5] = {};
};
uintptr_t streams[8];
} // namespace
PyObject *Array::type = nullptr;

static Ref makeArray(dlpack::Device device, dlpack::DataType dtype,
                     const int64_t *sizes, const int64_t *strides, int rank) {
  int64_t span = 1, step = 1;
  Array array;
  for (int i = rank; i-- > 0;) {
    array.sizes[i] = sizes[i];
    array.strides[i] = strides ? strides[i] : step;
    step *= sizes[i];
    span += (sizes[i] - 1) * array.strides[i];
  }
  array.tensor.data = std::aligned_alloc(
      256, (static_cast<size_t>(span) * dtype.bits / 8 + 255) / 256 * 256);
  array.tensor.device = device;
  array.tensor.rank = rank;
  array.tensor.type = dtype;
  Ref self = Boxed<Array>::create(std::move(array));
  if (self) {
    Array &made = Boxed<Array>::get(self.get());
    made.tensor.sizes = made.sizes;
    made.tensor.strides = made.strides;
  }
  return self;
}

static void destroyArray(PyObject *self) {
  std::free(Boxed<Array>::get(self).tensor.data);
  Boxed<Array>::destroy(self);
}

//===----------------------------------------------------------------------===//
// The exchange API
//===----------------------------------------------------------------------===//

static int borrow(void *object, dlpack::Tensor *tensor) {
  *tensor = Boxed<Array>::get(static_cast<PyObject *>(object)).tensor;
  return 0;
}

/// The tensor's context is the Array, which toObject hands out.
static int allocate(dlpack::Tensor *prototype,
                    dlpack::ManagedTensorVersioned **result, void *context,
                    void (*setError)(void *, const char *, const char *)) {
  if (prototype->type.bits == 8 && prototype->sizes[0] > 1 << 30) {
    setError(context, "MemoryError", "too large");
    return -1;
  }
  Ref array = makeArray(prototype->device, prototype->type, prototype->sizes,
                        nullptr, prototype->rank);
  auto *managed = new dlpack::ManagedTensorVersioned();
  managed->version = {1, 3};
  managed->context = array.release();
  *result = managed;
  return 0;
}
static int toObject(dlpack::ManagedTensorVersioned *tensor, void **object) {
  *object = tensor->context;
  delete tensor;
  return 0;
}
static int currentStream(dlpack::DeviceType, int32_t id, void **stream) {
  *stream = reinterpret_cast<void *>(streams[id]);
  return 0;
}

static dlpack::ExchangeApi api = {{1, 3},   nullptr, allocate,     nullptr,
                                  toObject, borrow,  currentStream};
/// Of a version to come, with the one above behind it.
static dlpack::ExchangeApi newer = {{2, 0},  &api,    nullptr, nullptr,
                                    nullptr, nullptr, nullptr};

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

static PyObject *newArray(PyObject *, PyObject *arguments) {
  PyObject *sizesObject = nullptr, *stridesObject = nullptr;
  const char *dtype = nullptr;
  int device = 0, index = 0;
  if (!PyArg_ParseTuple(arguments, "O!Osii", &PyTuple_Type, &sizesObject,
                        &stridesObject, &dtype, &device, &index))
    return nullptr;
  int64_t sizes[5], strides[5];
  auto rank = static_cast<int>(PyTuple_Size(sizesObject));
  for (int i = 0; i < rank; ++i) {
    sizes[i] = PyLong_AsLongLong(PyTuple_GetItem(sizesObject, i));
    if (stridesObject != Py_None)
      strides[i] = PyLong_AsLongLong(PyTuple_GetItem(stridesObject, i));
  }
  dlpack::DataType type = {dlpack::Float, 16, 1};
  if (!std::strcmp(dtype, "bfloat16"))
    type.code = dlpack::BFloat;
  if (!std::strncmp(dtype, "int", 3))
    type.code = dlpack::Int;
  if (std::strstr(dtype, "32"))
    type.bits = 32;
  if (std::strstr(dtype, "64"))
    type.bits = 64;
  return makeArray({device, index}, type, sizes,
                   stridesObject == Py_None ? nullptr : strides, rank)
      .release();
}

static PyObject *setStream(PyObject *, PyObject *arguments) {
  int index = 0;
  unsigned long long stream = 0;
  if (!PyArg_ParseTuple(arguments, "iK", &index, &stream))
    return nullptr;
  streams[index] = stream;
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"array", newArray, METH_VARARGS, nullptr},
    {"set_stream", setStream, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyMODINIT_FUNC PyInit_fake_arrays() {
  static PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                   "fake_arrays",
                                   nullptr,
                                   -1,
                                   functions,
                                   nullptr,
                                   nullptr,
                                   nullptr,
                                   nullptr};
  static PyGetSetDef getters[] = {
      {"pointer",
       [](PyObject *self, void *) {
         return PyLong_FromVoidPtr(Boxed<Array>::get(self).tensor.data);
       },
       nullptr, nullptr, nullptr},
      {"shape",
       [](PyObject *self, void *) {
         Array &array = Boxed<Array>::get(self);
         Ref shape(PyTuple_New(array.tensor.rank));
         for (int i = 0; i < array.tensor.rank; ++i)
           PyTuple_SetItem(shape.get(), i, PyLong_FromLongLong(array.sizes[i]));
         return shape.release();
       },
       nullptr, nullptr, nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, slot(destroyArray)},
                                {Py_tp_getset, getters},
                                {0, nullptr}};
  Ref module(PyModule_Create(&definition));
  if (!module || !addType<Array>(module.get(), "fake_arrays.Array", slots))
    return nullptr;
  Ref capsule(PyCapsule_New(&newer, "dlpack_exchange_api", nullptr));
  if (PyObject_SetAttrString(Array::type, "__dlpack_c_exchange_api__",
                             capsule.get()))
    return nullptr;
  return module.release();
}
