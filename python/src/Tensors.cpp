//===- Tensors.cpp - Arrays of any library --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a type offers is looked up once a type, so that a call of PyTorch's
// tensors costs a function pointer each.
//
//===----------------------------------------------------------------------===//

#include "Tensors.h"

#include "flashcore-c/Runtime.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

using namespace flashcore::python;

namespace {
/// Interned names.
struct Names {
  PyObject *exchangeApi, *arrayInterface, *dlpack, *dlpackDevice, *requiresGrad;
  PyObject *dataPtr, *shape, *stride, *dtype, *device, *type, *index, *name;
  PyObject *maxVersion, *stream, *mro, *module, *isNegative;
};
Names names;
/// For `__dlpack__`: (1, 3), and the stream that asks for no wait, -1.
PyObject *maxVersion, *noWait;
} // namespace

bool flashcore::python::initTensors() {
  const std::pair<PyObject **, const char *> all[] = {
      {&names.exchangeApi, "__dlpack_c_exchange_api__"},
      {&names.arrayInterface, "__array_interface__"},
      {&names.dlpack, "__dlpack__"},
      {&names.dlpackDevice, "__dlpack_device__"},
      {&names.requiresGrad, "requires_grad"},
      {&names.dataPtr, "data_ptr"},
      {&names.shape, "shape"},
      {&names.stride, "stride"},
      {&names.dtype, "dtype"},
      {&names.device, "device"},
      {&names.type, "type"},
      {&names.index, "index"},
      {&names.name, "name"},
      {&names.maxVersion, "max_version"},
      {&names.stream, "stream"},
      {&names.mro, "__mro__"},
      {&names.module, "__module__"},
      {&names.isNegative, "is_neg"}};
  for (auto [place, text] : all)
    if (!(*place = PyUnicode_InternFromString(text)))
      return false;
  maxVersion = Py_BuildValue("(ii)", 1, 3);
  noWait = PyLong_FromLong(-1);
  return maxVersion && noWait;
}

Lease::~Lease() {
  if (!(old && old->deleter) && !(versioned && versioned->deleter))
    return;
  // Deleters may run Python, where an exception that is on its way to the
  // caller must not be found.
  PendingException pending;
  if (old && old->deleter)
    old->deleter(old);
  if (versioned && versioned->deleter)
    versioned->deleter(versioned);
}

//===----------------------------------------------------------------------===//
// Producers
//===----------------------------------------------------------------------===//

/// The table of our major version, or null.
static const dlpack::ExchangeApi *findApi(PyObject *capsule) {
  constexpr const char *name = "dlpack_exchange_api";
  if (!PyCapsule_IsValid(capsule, name))
    return nullptr;
  auto *api =
      static_cast<dlpack::ExchangeApi *>(PyCapsule_GetPointer(capsule, name));
  while (api && api->version.major != dlpack::majorVersion)
    api = api->previous;
  return api;
}

/// An attribute, or null without an exception.
static Ref find(PyObject *object, PyObject *name) {
  Ref found(PyObject_GetAttr(object, name));
  if (!found)
    PyErr_Clear();
  return found;
}

/// Whether the type or a base of it is CuPy's, the one library without the C
/// exchange API whose current stream flashcore.arrays asks for.
static bool isOfCuPy(PyObject *type) {
  Ref mro = find(type, names.mro);
  Py_ssize_t count =
      mro && PyTuple_Check(mro.get()) ? PyTuple_Size(mro.get()) : 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Ref module = find(PyTuple_GetItem(mro.get(), i), names.module);
    const char *name = nullptr;
    if (module && PyUnicode_Check(module.get()))
      name = PyUnicode_AsUTF8AndSize(module.get(), nullptr);
    if (name && (!std::strcmp(name, "cupy") || !std::strncmp(name, "cupy.", 5)))
      return true;
    PyErr_Clear();
  }
  return false;
}

static Producer inspect(PyObject *type) {
  Producer producer;
  producer.requiresGrad = find(type, names.requiresGrad);
  producer.hasGradients = bool(producer.requiresGrad);
  if (producer.requiresGrad &&
      Py_TYPE(producer.requiresGrad.get()) == &PyGetSetDescr_Type)
    producer.getRequiresGrad = reinterpret_cast<descrgetfunc>(
        PyType_GetSlot(&PyGetSetDescr_Type, Py_tp_descr_get));
  producer.hasNegativeBit = bool(find(type, names.isNegative));
  if (Ref capsule = find(type, names.exchangeApi))
    producer.api = findApi(capsule.get());
  if (producer.api)
    producer.kind = Producer::Kind::Exchange;
  else if (find(type, names.arrayInterface))
    producer.kind = Producer::Kind::ArrayInterface;
  else if (producer.hasGradients && find(type, names.dataPtr) &&
           find(type, names.stride))
    producer.kind = Producer::Kind::Torch;
  else if (find(type, names.dlpack))
    producer.kind = Producer::Kind::DLPack;
  producer.isInStream = isOfCuPy(type);
  return producer;
}

const Producer *flashcore::python::producerOfType(PyObject *type) {
  // A type that is listed is kept alive, so its address is its name. Types are
  // few; what makes them at each call must not fill the memory.
  static auto &known = *new std::unordered_map<PyObject *, Producer>;
  static PyObject *lastType = nullptr;
  static const Producer *last = nullptr;
  constexpr size_t limit = 256;
  if (type == lastType)
    return last;
  auto found = known.find(type);
  if (found == known.end()) {
    if (known.size() >= limit) {
      auto old = std::move(known);
      known.clear();
      lastType = nullptr;
      for (auto &entry : old)
        Py_DECREF(entry.first);
    }
    Producer producer = inspect(type);
    Py_INCREF(type);
    found = known.emplace(type, producer).first;
  }
  if (found->second.kind == Producer::Kind::None) {
    PyErr_Format(PyExc_TypeError,
                 "expects an array with __dlpack__ (PyTorch, NumPy, CuPy, "
                 "JAX), but got %R",
                 type);
    return nullptr;
  }
  lastType = type;
  last = &found->second;
  return last;
}

int flashcore::python::needsGradient(PyObject *object,
                                     const Producer &producer) {
  if (!producer.hasGradients)
    return 0;
  Ref value(producer.getRequiresGrad
                ? producer.getRequiresGrad(
                      producer.requiresGrad.get(), object,
                      reinterpret_cast<PyObject *>(Py_TYPE(object)))
                : PyObject_GetAttr(object, names.requiresGrad));
  return value ? PyObject_IsTrue(value.get()) : -1;
}

//===----------------------------------------------------------------------===//
// DLPack
//===----------------------------------------------------------------------===//

static ElementType elementType(dlpack::DataType type) {
  if (type.lanes != 1)
    return ElementType::Other;
  if (type.code == dlpack::Float && type.bits == 16)
    return ElementType::F16;
  if (type.code == dlpack::Float && type.bits == 32)
    return ElementType::F32;
  if (type.code == dlpack::BFloat && type.bits == 16)
    return ElementType::BF16;
  return ElementType::Other;
}

static void fillContiguous(TensorView &view) {
  int64_t step = 1;
  for (int i = std::min(view.rank, maxRank); i-- > 0;) {
    view.strides[i] = step;
    step *= view.sizes[i];
  }
}

static bool readDLTensor(const dlpack::Tensor &from, TensorView &view) {
  if (from.rank < 0 || (from.rank > 0 && !from.sizes)) {
    PyErr_Format(PyExc_BufferError,
                 "expects a DLPack tensor with a size for each axis, but got "
                 "one of %d axes without sizes",
                 static_cast<int>(from.rank));
    return false;
  }
  view.pointer = reinterpret_cast<uint64_t>(from.data) + from.byteOffset;
  view.rank = from.rank;
  view.dtype = from.type;
  view.type = elementType(from.type);
  view.device = from.device;
  for (int i = 0; i < std::min(view.rank, maxRank); ++i) {
    view.sizes[i] = from.sizes[i];
    view.strides[i] = from.strides ? from.strides[i] : 0;
  }
  if (!from.strides)
    fillContiguous(view);
  return true;
}

static bool readManaged(dlpack::ManagedTensorVersioned &from,
                        TensorView &view) {
  if (from.version.major != dlpack::majorVersion) {
    PyErr_Format(PyExc_BufferError, "expects DLPack 1.x, but got %u.%u",
                 from.version.major, from.version.minor);
    return false;
  }
  view.isReadOnly = from.flags & dlpack::flagReadOnly;
  return readDLTensor(from.tensor, view);
}

static bool readExchange(PyObject *object, const dlpack::ExchangeApi &api,
                         TensorView &view, Lease &lease) {
  dlpack::Tensor tensor;
  if (api.borrow)
    return api.borrow(object, &tensor) == 0 && readDLTensor(tensor, view);
  return api.fromObject(object, &lease.versioned) == 0 &&
         readManaged(*lease.versioned, view);
}

/// Calls `__dlpack__`, in the way that producers before DLPack 1.0 know too.
static Ref callDLPack(PyObject *object, PyObject *stream) {
  Ref function(PyObject_GetAttr(object, names.dlpack));
  Ref noArguments(PyTuple_New(0)), options(PyDict_New());
  if (!function || !noArguments || !options)
    return Ref();
  if (stream && stream != Py_None &&
      PyDict_SetItem(options.get(), names.stream, stream))
    return Ref();
  if (PyDict_SetItem(options.get(), names.maxVersion, maxVersion))
    return Ref();
  Ref capsule(PyObject_Call(function.get(), noArguments.get(), options.get()));
  if (capsule || !PyErr_ExceptionMatches(PyExc_TypeError))
    return capsule;
  PyErr_Clear();
  if (PyDict_DelItem(options.get(), names.maxVersion))
    return Ref();
  return Ref(PyObject_Call(function.get(), noArguments.get(), options.get()));
}

static bool readDLPack(PyObject *object, PyObject *stream, TensorView &view,
                       Lease &lease) {
  Ref capsule = callDLPack(object, stream);
  if (!capsule)
    return false;
  // The name says that the tensor is ours to delete.
  if (PyCapsule_IsValid(capsule.get(), "dltensor_versioned")) {
    lease.versioned = static_cast<dlpack::ManagedTensorVersioned *>(
        PyCapsule_GetPointer(capsule.get(), "dltensor_versioned"));
    return !PyCapsule_SetName(capsule.get(), "used_dltensor_versioned") &&
           readManaged(*lease.versioned, view);
  }
  lease.old = static_cast<dlpack::ManagedTensor *>(
      PyCapsule_GetPointer(capsule.get(), "dltensor"));
  return lease.old && !PyCapsule_SetName(capsule.get(), "used_dltensor") &&
         readDLTensor(lease.old->tensor, view);
}

//===----------------------------------------------------------------------===//
// NumPy
//===----------------------------------------------------------------------===//

/// Of "<f2"; bfloat16 is a void type of ml_dtypes. What it does not know, and
/// what has the other byte order, is of 0 bits.
static dlpack::DataType readTypeText(const char *text, PyObject *object) {
  dlpack::DataType type = {dlpack::Int, 0, 1};
  if (std::strlen(text) < 3 || text[0] == '>')
    return type;
  type.bits = static_cast<uint8_t>(std::min(8 * std::atoi(text + 2), 255));
  switch (text[1]) {
  case 'f':
    type.code = dlpack::Float;
    break;
  case 'u':
    type.code = dlpack::UInt;
    break;
  case 'b':
    type.code = dlpack::Bool;
    break;
  case 'c':
    type.code = dlpack::Complex;
    break;
  case 'i':
    break;
  default: {
    Ref dtype = find(object, names.dtype);
    Ref name = dtype ? find(dtype.get(), names.name) : Ref();
    if (name && !PyUnicode_CompareWithASCIIString(name.get(), "bfloat16"))
      type.code = dlpack::BFloat;
    else
      type.bits = 0;
  }
  }
  return type;
}

static bool readSizes(PyObject *sequence, int64_t *values, int32_t &rank) {
  Py_ssize_t length = PySequence_Size(sequence);
  if (length < 0)
    return false;
  rank = static_cast<int32_t>(length);
  for (int i = 0; i < std::min(rank, maxRank); ++i) {
    Ref item(PySequence_GetItem(sequence, i));
    if (!item)
      return false;
    values[i] = PyLong_AsLongLong(item.get());
    if (values[i] == -1 && PyErr_Occurred())
      return false;
  }
  return true;
}

/// NumPy counts strides in bytes, which may be no whole elements: those of a
/// field of a record.
static bool toElements(TensorView &view, PyObject *strides) {
  int64_t bytes = view.dtype.bits / 8;
  for (int i = 0; bytes && i < std::min(view.rank, maxRank); ++i) {
    if (view.sizes[i] > 1 && view.strides[i] % bytes) {
      PyErr_Format(PyExc_ValueError,
                   "expects strides of whole elements, but got %R bytes for "
                   "elements of %d: numpy.ascontiguousarray copies them",
                   strides, static_cast<int>(bytes));
      return false;
    }
    view.strides[i] /= bytes;
  }
  return true;
}

static bool readArrayInterface(PyObject *object, TensorView &view) {
  Ref interface(PyObject_GetAttr(object, names.arrayInterface));
  if (!interface)
    return false;
  auto item = [&](const char *key) {
    return PyDict_GetItemString(interface.get(), key);
  };
  PyObject *data = item("data"), *typeText = item("typestr"),
           *shape = item("shape"), *strides = item("strides");
  if (!data || !typeText || !shape || !PyTuple_Check(data) ||
      PyTuple_Size(data) != 2) {
    PyErr_Format(PyExc_BufferError,
                 "expects __array_interface__ with data, typestr and shape, "
                 "but got %R",
                 interface.get());
    return false;
  }
  view.pointer = PyLong_AsUnsignedLongLong(PyTuple_GetItem(data, 0));
  int isReadOnly = PyObject_IsTrue(PyTuple_GetItem(data, 1));
  const char *text = textOf(typeText);
  if (PyErr_Occurred() || !readSizes(shape, view.sizes, view.rank))
    return false;
  view.isReadOnly = isReadOnly != 0;
  view.device = {dlpack::CPU, 0};
  view.dtype = readTypeText(text, object);
  view.type = elementType(view.dtype);
  if (!strides || strides == Py_None) {
    fillContiguous(view);
    return true;
  }
  int32_t rank = 0;
  if (!readSizes(strides, view.strides, rank))
    return false;
  return toElements(view, strides);
}

//===----------------------------------------------------------------------===//
// PyTorch before 2.10
//===----------------------------------------------------------------------===//

/// Of "torch.float16".
static bool readTorchType(PyObject *object, TensorView &view) {
  Ref dtype(PyObject_GetAttr(object, names.dtype));
  Ref text(dtype ? PyObject_Str(dtype.get()) : nullptr);
  const char *name = text ? textOf(text.get()) : nullptr;
  if (!name)
    return false;
  // Those are qint8, quint8 and others, of which the memory is no number.
  if (!std::strncmp(name, "torch.q", std::strlen("torch.q"))) {
    PyErr_Format(PyExc_TypeError, "expects plain numbers, but got %s", name);
    return false;
  }
  const std::pair<const char *, dlpack::DataType> known[] = {
      {"torch.float16", {dlpack::Float, 16, 1}},
      {"torch.bfloat16", {dlpack::BFloat, 16, 1}},
      {"torch.float32", {dlpack::Float, 32, 1}},
      {"torch.float64", {dlpack::Float, 64, 1}},
      {"torch.int8", {dlpack::Int, 8, 1}},
      {"torch.int16", {dlpack::Int, 16, 1}},
      {"torch.int32", {dlpack::Int, 32, 1}},
      {"torch.int64", {dlpack::Int, 64, 1}},
      {"torch.uint8", {dlpack::UInt, 8, 1}},
      {"torch.bool", {dlpack::Bool, 8, 1}}};
  for (auto &[spelling, type] : known)
    if (!std::strcmp(name, spelling))
      view.dtype = type;
  view.type = elementType(view.dtype);
  return true;
}

static bool readTorchDevice(PyObject *object, TensorView &view) {
  Ref device(PyObject_GetAttr(object, names.device));
  Ref type(device ? PyObject_GetAttr(device.get(), names.type) : nullptr);
  Ref index(type ? PyObject_GetAttr(device.get(), names.index) : nullptr);
  if (!index)
    return false;
  if (!PyUnicode_CompareWithASCIIString(type.get(), "cpu")) {
    view.device = {dlpack::CPU, 0};
    return true;
  }
  if (PyUnicode_CompareWithASCIIString(type.get(), "cuda")) {
    PyErr_Format(PyExc_ValueError,
                 "expects a tensor on cpu or cuda, but got one on %R",
                 device.get());
    return false;
  }
  long id = index.get() == Py_None ? 0 : PyLong_AsLong(index.get());
  view.device = {dlpack::CUDA, static_cast<int32_t>(id)};
  return !PyErr_Occurred();
}

static bool readTorch(PyObject *object, TensorView &view) {
  Ref pointer(PyObject_CallMethodObjArgs(object, names.dataPtr, nullptr));
  Ref shape(pointer ? PyObject_GetAttr(object, names.shape) : nullptr);
  Ref strides(shape ? PyObject_CallMethodObjArgs(object, names.stride, nullptr)
                    : nullptr);
  if (!strides)
    return false;
  view.pointer = PyLong_AsUnsignedLongLong(pointer.get());
  int32_t rank = 0;
  return !PyErr_Occurred() && readSizes(shape.get(), view.sizes, view.rank) &&
         readSizes(strides.get(), view.strides, rank) &&
         readTorchType(object, view) && readTorchDevice(object, view);
}

static bool readAs(PyObject *object, const Producer &producer, PyObject *stream,
                   TensorView &view, Lease &lease) {
  switch (producer.kind) {
  case Producer::Kind::Exchange:
    return readExchange(object, *producer.api, view, lease);
  case Producer::Kind::ArrayInterface:
    return readArrayInterface(object, view);
  case Producer::Kind::Torch:
    return readTorch(object, view);
  default:
    if (producer.isInStream && (!stream || stream == Py_None))
      stream = noWait;
    return readDLPack(object, stream, view, lease);
  }
}

//===----------------------------------------------------------------------===//
// What an array says beside its memory
//===----------------------------------------------------------------------===//

static bool hasElements(const TensorView &view) {
  return std::none_of(view.sizes, view.sizes + std::min(view.rank, maxRank),
                      [](int64_t size) { return size == 0; });
}

/// Whether PyTorch reads the memory with the other sign; -1 with an exception.
/// It is asked at each call, so by the function behind the method.
static int isNegative(PyObject *object, const Producer &producer) {
  if (!producer.hasNegativeBit)
    return 0;
  if (!producer.isNegative) {
    Ref bound(PyObject_GetAttr(object, names.isNegative));
    if (!bound)
      return -1;
    bool isPlain = PyCFunction_Check(bound.get()) &&
                   PyCFunction_GetFlags(bound.get()) == METH_NOARGS;
    if (!isPlain) {
      Ref result(PyObject_CallNoArgs(bound.get()));
      return result ? PyObject_IsTrue(result.get()) : -1;
    }
    producer.isNegative = PyCFunction_GetFunction(bound.get());
  }
  Ref result(producer.isNegative(object, nullptr));
  return result ? PyObject_IsTrue(result.get()) : -1;
}

/// Raises what flashcore.arrays says of an array that gives no elements, in the
/// place of its library's exception, if there is one. Returns false.
static bool refuse(PyObject *object, const char *name) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Ref ownedType(type), cause(value), ownedTraceback(traceback);
  Ref module(PyImport_ImportModule("flashcore.arrays"));
  Ref error(module ? PyObject_CallMethod(module.get(), "error_of_view", "sOO",
                                         name, object, value ? value : Py_None)
                   : nullptr);
  if (!error)
    return false;
  if (error.get() == value)
    PyErr_Restore(ownedType.release(), cause.release(),
                  ownedTraceback.release());
  else
    PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error.get())),
                    error.get());
  return false;
}

bool flashcore::python::readAllocated(PyObject *object, const char *name,
                                      PyObject *stream,
                                      const Producer *&producer,
                                      TensorView &view, Lease &lease) {
  producer = producerOf(object);
  if (!producer || !readAs(object, *producer, stream, view, lease))
    return refuse(object, name);
  if (view.pointer == 0 && hasElements(view))
    return refuse(object, name);
  return true;
}

bool flashcore::python::readTensor(PyObject *object, const char *name,
                                   PyObject *stream, const Producer *&producer,
                                   TensorView &view, Lease &lease) {
  if (!readAllocated(object, name, stream, producer, view, lease))
    return false;
  int other = isNegative(object, *producer);
  return other == 0 || refuse(object, name);
}

//===----------------------------------------------------------------------===//
// View
//===----------------------------------------------------------------------===//

std::string flashcore::python::nameOf(dlpack::DataType type) {
  auto sized = [&](const char *name) {
    return name + std::to_string(type.bits);
  };
  if (type.lanes != 1 || type.bits == 0)
    return "";
  switch (type.code) {
  case dlpack::Int:
    return sized("int");
  case dlpack::UInt:
    return sized("uint");
  case dlpack::Float:
    return sized("float");
  case dlpack::BFloat:
    return sized("bfloat");
  case dlpack::Complex:
    return sized("complex");
  case dlpack::Bool:
    return "bool";
  default:
    return "";
  }
}

bool flashcore::python::readType(const char *name, dlpack::DataType &type) {
  const std::pair<const char *, dlpack::DataType> known[] = {
      {"float16", {dlpack::Float, 16, 1}},
      {"bfloat16", {dlpack::BFloat, 16, 1}},
      {"float32", {dlpack::Float, 32, 1}},
      {"uint8", {dlpack::UInt, 8, 1}}};
  for (auto &[spelling, value] : known)
    if (!std::strcmp(spelling, name)) {
      type = value;
      return true;
    }
  PyErr_Format(PyExc_ValueError, "expects a type of arrays, but got %s", name);
  return false;
}

namespace {
/// A tensor view for Python, which keeps what it lies in alive.
struct View {
  static PyObject *type;
  static constexpr const char *name = "View";

  TensorView tensor;
  Lease lease;
  Ref owner;
};
} // namespace
PyObject *View::type = nullptr;

static PyObject *getSizes(const int64_t *values, int32_t rank) {
  Ref tuple(PyTuple_New(std::min(rank, maxRank)));
  for (int i = 0; tuple && i < std::min(rank, maxRank); ++i) {
    PyObject *item = PyLong_FromLongLong(values[i]);
    if (!item)
      return nullptr;
    PyTuple_SetItem(tuple.get(), i, item);
  }
  return tuple.release();
}

static TensorView &tensorOf(PyObject *self) {
  return Boxed<View>::get(self).tensor;
}

bool flashcore::python::overlap(const TensorView &a, const TensorView &b) {
  if (a.rank > maxRank || b.rank > maxRank || a.dtype.bits == 0 ||
      b.dtype.bits == 0)
    return false; // others refuse these
  auto toTensor = [](const TensorView &view) {
    return FlashCoreTensor{nullptr, view.sizes, view.strides,
                           static_cast<size_t>(view.rank)};
  };
  FlashCoreTensor ofA = toTensor(a), ofB = toTensor(b);
  return flashcoreTensorsShareBytes(&ofA, a.pointer, (a.dtype.bits + 7) / 8,
                                    &ofB, b.pointer, (b.dtype.bits + 7) / 8);
}

uint64_t flashcore::python::getRowAlignment(const TensorView &view) {
  constexpr uint64_t most = 16;
  uint64_t elementBytes = std::max<uint64_t>(view.dtype.bits / 8, 1);
  if (view.rank == 0 || view.rank > maxRank)
    return most;
  uint64_t columns = static_cast<uint64_t>(view.sizes[view.rank - 1]);
  return columns ? std::min(elementBytes * (columns & -columns), most) : most;
}

/// Whether columns lie side by side, and rows where kernels move them.
static bool hasRows(const TensorView &view) {
  if (view.rank == 0 || view.rank > maxRank || view.strides[view.rank - 1] != 1)
    return false;
  uint64_t alignment = getRowAlignment(view);
  auto step = static_cast<int64_t>(alignment / 2);
  for (int i = 0; i < view.rank - 1; ++i)
    if (view.sizes[i] > 1 && (view.strides[i] < 0 || view.strides[i] % step))
      return false;
  return view.pointer % alignment == 0;
}

/// DLPack's name of the type, or for others what the library calls it.
static PyObject *getTypeName(PyObject *self) {
  std::string name = nameOf(tensorOf(self).dtype);
  if (!name.empty())
    return toText(name.c_str()).release();
  Ref dtype = find(Boxed<View>::get(self).owner.get(), names.dtype);
  Ref text(dtype ? PyObject_Str(dtype.get())
                 : toText("a type without a name").release());
  return text.release();
}

static PyGetSetDef viewMembers[] = {
    {"pointer",
     [](PyObject *self, void *) {
       return PyLong_FromUnsignedLongLong(tensorOf(self).pointer);
     },
     nullptr, "Address of the element (0, ..., 0).", nullptr},
    {"shape",
     [](PyObject *self, void *) {
       return getSizes(tensorOf(self).sizes, tensorOf(self).rank);
     },
     nullptr, "Sizes of the first four axes.", nullptr},
    {"strides",
     [](PyObject *self, void *) {
       return getSizes(tensorOf(self).strides, tensorOf(self).rank);
     },
     nullptr, "Strides of these axes, in elements.", nullptr},
    {"rank",
     [](PyObject *self, void *) {
       return PyLong_FromLong(tensorOf(self).rank);
     },
     nullptr, "Number of axes.", nullptr},
    {"dtype", [](PyObject *self, void *) { return getTypeName(self); }, nullptr,
     "Such as 'float16', 'bfloat16', 'float32', 'bool'.", nullptr},
    {"device",
     [](PyObject *self, void *) {
       return Py_BuildValue("(ii)",
                            static_cast<int>(tensorOf(self).device.type),
                            static_cast<int>(tensorOf(self).device.id));
     },
     nullptr, "DLPack's device type and number.", nullptr},
    {"read_only",
     [](PyObject *self, void *) {
       return PyBool_FromLong(tensorOf(self).isReadOnly);
     },
     nullptr, "Whether the producer forbids writing.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

static PyObject *viewFunction(PyObject *, PyObject *const *arguments,
                              Py_ssize_t count) {
  const char *name = "an array";
  if (count != 3 && !expectArguments("view", count, 2))
    return nullptr;
  if (count == 3 && !(name = textOf(arguments[2])))
    return nullptr;
  const Producer *producer = nullptr;
  View view;
  if (!readTensor(arguments[0], name, arguments[1], producer, view.tensor,
                  view.lease))
    return nullptr;
  view.owner = Ref::share(arguments[0]);
  return Boxed<View>::create(std::move(view)).release();
}

static PyObject *hasRowsFunction(PyObject *, PyObject *const *arguments,
                                 Py_ssize_t count) {
  const Producer *producer = nullptr;
  TensorView view;
  Lease lease;
  const char *name = nullptr;
  if (!expectArguments("has_rows", count, 2) ||
      !(name = textOf(arguments[1])) ||
      !readTensor(arguments[0], name, Py_None, producer, view, lease))
    return nullptr;
  return PyBool_FromLong(hasRows(view));
}

static PyObject *overlapFunction(PyObject *, PyObject *const *arguments,
                                 Py_ssize_t count) {
  if (!expectArguments("overlap", count, 2))
    return nullptr;
  View *a = Boxed<View>::cast(arguments[0]),
       *b = a ? Boxed<View>::cast(arguments[1]) : nullptr;
  return b ? PyBool_FromLong(overlap(a->tensor, b->tensor)) : nullptr;
}

//===----------------------------------------------------------------------===//
// Allocation by the C exchange API
//===----------------------------------------------------------------------===//

static PyObject *hasExchangeApi(PyObject *, PyObject *array) {
  const Producer *producer = producerOf(array);
  return producer ? PyBool_FromLong(producer->api != nullptr) : nullptr;
}

/// What a library's allocator reports its errors with.
static void setError(void *, const char *kind, const char *message) {
  PyGILState_STATE state = PyGILState_Ensure();
  if (!PyErr_Occurred())
    PyErr_Format(PyExc_RuntimeError, "%s: %s", kind, message);
  PyGILState_Release(state);
}

/// An array of a library that has the API, with its own memory.
static PyObject *exchangeEmpty(PyObject *, PyObject *arguments) {
  PyObject *type = nullptr, *shape = nullptr;
  const char *typeName = nullptr;
  int device = 0, index = 0;
  dlpack::Tensor prototype = {};
  int64_t sizes[maxRank] = {};
  if (!PyArg_ParseTuple(arguments, "OO!sii", &type, &PyTuple_Type, &shape,
                        &typeName, &device, &index) ||
      !readType(typeName, prototype.type) ||
      !readSizes(shape, sizes, prototype.rank))
    return nullptr;
  const Producer *producer = producerOfType(type);
  if (!producer)
    return nullptr;
  if (!producer->api) {
    PyErr_Format(PyExc_TypeError,
                 "expects a type with DLPack's C exchange API, but got %R",
                 type);
    return nullptr;
  }
  prototype.device = {device, index};
  prototype.sizes = sizes;
  dlpack::ManagedTensorVersioned *tensor = nullptr;
  void *object = nullptr;
  if (producer->api->allocate(&prototype, &tensor, nullptr, setError) ||
      producer->api->toObject(tensor, &object))
    return nullptr;
  return static_cast<PyObject *>(object);
}

static PyMethodDef functions[] = {
    {"has_exchange_api", hasExchangeApi, METH_O,
     "Whether an array's type has DLPack's C exchange API."},
    {"exchange_empty", exchangeEmpty, METH_VARARGS,
     "exchange_empty(type, shape, dtype, device, index)"},
    {"view", method(viewFunction), METH_FASTCALL,
     "view(array, stream, name): where the elements of an argument lie."},
    {"has_rows", method(hasRowsFunction), METH_FASTCALL,
     "has_rows(array, name): whether kernels take the rows of an argument of "
     "16-bit elements as they are."},
    {"overlap", method(overlapFunction), METH_FASTCALL,
     "overlap(view, view): whether they share memory, or may."},
    {nullptr, nullptr, 0, nullptr}};

bool flashcore::python::addTensors(PyObject *module) {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, slot(Boxed<View>::destroy)},
      {Py_tp_getset, viewMembers},
      {Py_tp_doc, slot("Where the elements of an array lie.")},
      {0, nullptr}};
  return initTensors() &&
         addType<View>(module, "flashcore._core.View", slots) &&
         PyModule_AddFunctions(module, functions) == 0;
}
