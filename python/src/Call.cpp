//===- Call.cpp - The fast path of a call ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A Call stands for an attention with its options. It reads where its arguments
// lie, finds what to do for their sizes, strides, types and places in a map,
// and does it: for tensors that a kernel takes as they are, allocating the
// outputs and launching, without a line of Python. Everything else is decided
// by the Python function `resolve`, once for each key.
//
// The map is guarded by the GIL. An entry is owned while it is used, since what
// allocates may let other threads run, and they may clear the map.
//
//===----------------------------------------------------------------------===//

#include "Parts.h"
#include "Runtime.h"
#include "Tensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>

using namespace flashcore::python;

namespace {
/// How an output or the workspace is allocated.
struct Allocation {
  Ref function;
  /// Null where the function takes q, which is not kept.
  Ref arguments;
  Ref options;

  explicit operator bool() const { return bool(function); }
  Ref allocate(PyObject *q) const {
    if (!arguments)
      return Ref(PyObject_CallFunctionObjArgs(function.get(), q, nullptr));
    return Ref(PyObject_Call(function.get(), arguments.get(), options.get()));
  }
};

/// Axes of a tensor of an attention; those with more are refused.
constexpr int attentionRank = 4;

/// What to do for tensors that a plan takes as they are.
struct Launch {
  static PyObject *type;
  static constexpr const char *name = "Launch";

  Ref planObject;
  Allocation o, lse, workspace;
  /// Of the device, for producers without a C exchange API; else null.
  Ref currentStream;
  int64_t oStrides[attentionRank] = {};
  bool hasBias = false, hasLse = false;

  const Plan &plan() const { return Boxed<Plan>::get(planObject.get()); }
};

/// What may differ between two calls with the same options.
struct Key {
  static constexpr size_t wordsPerTensor = 2 * attentionRank + 1,
                          maxTensors = 6;
  std::array<int64_t, wordsPerTensor * maxTensors + 1> words;
  size_t count = 0;

  void add(int64_t word) { words[count++] = word; }
  void add(const TensorView &view, uint64_t alignment);
  bool operator==(const Key &other) const {
    return count == other.count &&
           std::equal(words.begin(), words.begin() + count,
                      other.words.begin());
  }
};
struct KeyHash {
  size_t operator()(const Key &key) const {
    uint64_t hash = key.count;
    for (size_t i = 0; i < key.count; ++i) {
      hash =
          (hash ^ static_cast<uint64_t>(key.words[i])) * 0x9e3779b97f4a7c15ull;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

struct Call {
  static PyObject *type;
  static constexpr const char *name = "Call";
  /// Sizes seen; a program with more starts over, which costs it microseconds.
  static constexpr size_t maxEntries = 1024;

  struct Entry {
    /// A Launch, or a function with the parameters of `run`.
    Ref action;
    /// The type of q, whose address is a part of the key.
    Ref type;
  };

  Ref resolve;
  bool refusesGradients = false;
  std::unordered_map<Key, Entry, KeyHash> entries;
};

/// An argument of a call.
struct Argument {
  PyObject *object = nullptr; // borrowed from the caller
  const Producer *producer = nullptr;
  TensorView view;
  Lease lease;

  bool read(PyObject *from, PyObject *stream);
};

struct Arguments {
  Argument q, k, v, bias, o, lse;
  PyObject *stream = nullptr;
};
} // namespace
PyObject *Launch::type = nullptr;
PyObject *Call::type = nullptr;

void Key::add(const TensorView &view, uint64_t alignment) {
  uint64_t isAligned = view.pointer % alignment == 0;
  add(static_cast<int64_t>(static_cast<uint64_t>(view.type) |
                           uint64_t(view.isReadOnly) << 2 | isAligned << 3 |
                           uint64_t(uint8_t(view.rank)) << 8 |
                           uint64_t(uint8_t(view.device.type)) << 16 |
                           uint64_t(uint32_t(view.device.id)) << 32));
  for (int i = 0; i < attentionRank; ++i)
    add(view.sizes[i]);
  for (int i = 0; i < attentionRank; ++i)
    add(view.strides[i]);
}

//===----------------------------------------------------------------------===//
// Reading arguments
//===----------------------------------------------------------------------===//

bool Argument::read(PyObject *from, PyObject *stream) {
  object = from;
  producer = producerOf(from);
  return producer && readTensor(from, *producer, stream, view, lease);
}

/// What a pointer to rows of 16-bit elements is a multiple of (row_step in
/// problem.py).
static uint64_t getRowAlignment(const TensorView &view) {
  constexpr uint64_t elementBytes = 2, most = 16;
  if (view.rank == 0 || view.rank > maxRank)
    return most;
  uint64_t columns = static_cast<uint64_t>(view.sizes[view.rank - 1]);
  return columns ? std::min(elementBytes * (columns & -columns), most) : most;
}

/// The key, or false with an exception.
static bool readArguments(PyObject *const *from, Arguments &arguments,
                          Key &key) {
  PyObject *bias = from[3], *out = from[4];
  PyObject *lse = Py_None;
  arguments.stream = from[5];
  if (PyTuple_Check(out) && PyTuple_Size(out) == 2) {
    lse = PyTuple_GetItem(out, 1);
    out = PyTuple_GetItem(out, 0);
  }
  auto read = [&](Argument &argument, PyObject *object,
                  uint64_t alignment = 0) {
    if (!argument.read(object, arguments.stream))
      return false;
    key.add(argument.view,
            alignment ? alignment : getRowAlignment(argument.view));
    return true;
  };
  if (!read(arguments.q, from[0]) || !read(arguments.k, from[1]) ||
      !read(arguments.v, from[2]))
    return false;
  // Outputs are allocated by the library of q.
  key.add(static_cast<int64_t>(reinterpret_cast<intptr_t>(Py_TYPE(from[0]))) ^
          (int64_t(bias != Py_None) | int64_t(out != Py_None) << 1 |
           int64_t(lse != Py_None) << 2));
  return (bias == Py_None || read(arguments.bias, bias, 4)) &&
         (out == Py_None || read(arguments.o, out)) &&
         (lse == Py_None || read(arguments.lse, lse, 4));
}

/// Whether PyTorch records gradients on this thread; -1 with an exception.
static int isGradEnabled() {
  static PyObject *function = nullptr;
  if (!function) {
    Ref torch(PyImport_ImportModule("torch"));
    function = torch ? PyObject_GetAttrString(torch.get(), "is_grad_enabled")
                     : nullptr;
  }
  Ref result(function ? PyObject_CallNoArgs(function) : nullptr);
  return result ? PyObject_IsTrue(result.get()) : -1;
}

/// A result without a gradient where one is expected would be a silent error.
static bool checkGradients(const Arguments &arguments) {
  for (const Argument *argument :
       {&arguments.q, &arguments.k, &arguments.v, &arguments.bias}) {
    if (!argument->object)
      continue;
    int needs = needsGradient(argument->object, *argument->producer);
    if (needs > 0)
      needs = isGradEnabled();
    if (needs > 0)
      raiseGradientError("flashcore.attention");
    if (needs)
      return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Launching
//===----------------------------------------------------------------------===//

/// A stream as the driver knows it. PyTorch's 0 is CUDA's legacy default
/// stream, for which the driver has a name that cannot be mistaken.
static bool findStream(const Launch &launch, const Arguments &arguments,
                       void *&stream) {
  constexpr uintptr_t legacyStream = 1;
  uintptr_t handle = 0;
  const dlpack::Device &device = arguments.q.view.device;
  if (arguments.stream != Py_None) {
    handle = PyLong_AsSize_t(arguments.stream);
  } else if (arguments.q.producer->api) {
    if (arguments.q.producer->api->currentStream(dlpack::CUDA, device.id,
                                                 &stream))
      return false;
    handle = reinterpret_cast<uintptr_t>(stream);
  } else if (launch.currentStream) {
    Ref result(PyObject_CallFunction(launch.currentStream.get(), "i",
                                     static_cast<int>(device.id)));
    if (!result)
      return false;
    handle = PyLong_AsSize_t(result.get());
  }
  if (handle == static_cast<uintptr_t>(-1) && PyErr_Occurred())
    return false;
  stream = reinterpret_cast<void *>(handle ? handle : legacyStream);
  return true;
}

/// Allocates where the caller gave nothing; `owner` then owns it.
static bool allocate(const Allocation &allocation, PyObject *q,
                     Argument &argument, Ref &owner) {
  if (argument.object || !allocation)
    return true;
  owner = allocation.allocate(q);
  return owner && argument.read(owner.get(), Py_None);
}

/// Strides of axes of size 1 mean nothing.
static bool hasStrides(const TensorView &view, const int64_t *strides) {
  for (int i = 0; i < attentionRank; ++i)
    if (view.sizes[i] != 1 && view.strides[i] != strides[i])
      return false;
  return true;
}

/// The result of a call: `o`, or `(o, lse)`.
static PyObject *makeResult(const Launch &launch, const Arguments &arguments) {
  if (!launch.hasLse)
    return Ref::share(arguments.o.object).release();
  return PyTuple_Pack(2, arguments.o.object, arguments.lse.object);
}

static PyObject *runLaunch(const Launch &launch, Arguments &arguments) {
  Ref o, lse, workspace;
  Argument space;
  void *stream = nullptr;
  const Plan &plan = launch.plan();
  PyObject *q = arguments.q.object;
  if (!allocate(launch.o, q, arguments.o, o) ||
      !allocate(launch.lse, q, arguments.lse, lse) ||
      !allocate(launch.workspace, q, space, workspace) ||
      !findStream(launch, arguments, stream))
    return nullptr;
  if (!hasStrides(arguments.o.view, launch.oStrides))
    return raise("Error", "expects an output with the strides that were asked "
                          "for, but its library gave others; pass out=");
  uint64_t pointers[Key::maxTensors];
  size_t count = 0;
  auto add = [&](const Argument &argument) {
    pointers[count++] = argument.view.pointer;
  };
  add(arguments.q);
  add(arguments.k);
  add(arguments.v);
  if (launch.hasBias)
    add(arguments.bias);
  add(arguments.o);
  if (launch.hasLse)
    add(arguments.lse);
  // The GIL is kept: a launch takes less than giving it away.
  if (raised(flashcorePlanLaunch(plan.handle.get(), pointers,
                                 space.view.pointer, stream)))
    return nullptr;
  return makeResult(launch, arguments);
}

//===----------------------------------------------------------------------===//
// Call
//===----------------------------------------------------------------------===//

/// What to do for a key that was not seen before.
static Ref resolve(PyObject *self, const Key &key, const Arguments &arguments) {
  auto orNone = [](const Argument &argument) {
    return argument.object ? argument.object : Py_None;
  };
  Ref entry(PyObject_CallFunctionObjArgs(
      Boxed<Call>::get(self).resolve.get(), self, arguments.q.object,
      arguments.k.object, arguments.v.object, orNone(arguments.bias),
      orNone(arguments.o), orNone(arguments.lse), arguments.stream, nullptr));
  if (!entry)
    return entry;
  Call &call = Boxed<Call>::get(self);
  if (call.entries.size() >= Call::maxEntries) {
    // Entries may own what runs Python code at its end.
    auto old = std::move(call.entries);
    call.entries.clear();
  }
  auto *type = reinterpret_cast<PyObject *>(Py_TYPE(arguments.q.object));
  call.entries.insert_or_assign(key, Call::Entry{entry, Ref::share(type)});
  return entry;
}

static PyObject *runCall(PyObject *self, PyObject *const *from,
                         Py_ssize_t count) {
  Arguments arguments;
  Key key;
  if (!expectArguments("run", count, 6) || !readArguments(from, arguments, key))
    return nullptr;
  Call &call = Boxed<Call>::get(self);
  if (call.refusesGradients && !checkGradients(arguments))
    return nullptr;
  auto found = call.entries.find(key);
  Ref entry = found != call.entries.end() ? found->second.action
                                          : resolve(self, key, arguments);
  if (!entry)
    return nullptr;
  if (reinterpret_cast<PyObject *>(Py_TYPE(entry.get())) == Launch::type)
    return runLaunch(Boxed<Launch>::get(entry.get()), arguments);
  return PyObject_CallFunctionObjArgs(entry.get(), from[0], from[1], from[2],
                                      from[3], from[4], from[5], nullptr);
}

static PyObject *makeCall(PyObject *, PyObject *const *arguments,
                          Py_ssize_t count) {
  if (!expectArguments("make_call", count, 2))
    return nullptr;
  int refusesGradients = PyObject_IsTrue(arguments[1]);
  if (refusesGradients < 0)
    return nullptr;
  Call call;
  call.resolve = Ref::share(arguments[0]);
  call.refusesGradients = refusesGradients;
  return Boxed<Call>::create(std::move(call)).release();
}

// Entries may be functions that know their Call.
static int traverseCall(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Call &call = Boxed<Call>::get(self);
  Py_VISIT(call.resolve.get());
  for (auto &entry : call.entries) {
    Py_VISIT(entry.second.action.get());
    Py_VISIT(entry.second.type.get());
  }
  return 0;
}
static int clearCall(PyObject *self) {
  Call &call = Boxed<Call>::get(self);
  Ref resolve = std::move(call.resolve);
  auto entries = std::move(call.entries);
  call.entries.clear();
  return 0;
}

static PyMethodDef callMethods[] = {
    {"run", method(runCall), METH_FASTCALL,
     "run(q, k, v, bias, out, stream): o, or (o, lse)."},
    {nullptr, nullptr, 0, nullptr}};
static PyGetSetDef callMembers[] = {
    {"size",
     [](PyObject *self, void *) {
       return PyLong_FromSize_t(Boxed<Call>::get(self).entries.size());
     },
     nullptr, "Sizes and strides that were seen.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

//===----------------------------------------------------------------------===//
// Launch
//===----------------------------------------------------------------------===//

/// Reads (function, arguments or None, options), or None.
static bool readAllocation(PyObject *tuple, Allocation &allocation) {
  if (tuple == Py_None)
    return true;
  PyObject *function = nullptr, *arguments = nullptr, *options = nullptr;
  if (!PyArg_ParseTuple(tuple, "OOO!", &function, &arguments, &PyDict_Type,
                        &options))
    return false;
  allocation.function = Ref::share(function);
  allocation.options = Ref::share(options);
  if (arguments != Py_None)
    allocation.arguments = Ref::share(arguments);
  return true;
}

static bool has(const Plan &plan, const char *tensor) {
  return std::any_of(
      plan.specs.begin(), plan.specs.end(),
      [&](const TensorSpec &spec) { return spec.name == tensor; });
}

static PyObject *makeLaunch(PyObject *, PyObject *const *arguments,
                            Py_ssize_t count) {
  Launch launch;
  if (!expectArguments("make_launch", count, 6))
    return nullptr;
  Plan *plan = Boxed<Plan>::cast(arguments[0]);
  PyObject *strides = arguments[5];
  if (!plan || !readAllocation(arguments[1], launch.o) ||
      !readAllocation(arguments[2], launch.lse) ||
      !readAllocation(arguments[3], launch.workspace) ||
      !PyArg_ParseTuple(strides, "LLLL", &launch.oStrides[0],
                        &launch.oStrides[1], &launch.oStrides[2],
                        &launch.oStrides[3]))
    return nullptr;
  launch.planObject = Ref::share(arguments[0]);
  if (arguments[4] != Py_None)
    launch.currentStream = Ref::share(arguments[4]);
  launch.hasBias = has(*plan, "bias");
  launch.hasLse = has(*plan, "lse");
  return Boxed<Launch>::create(std::move(launch)).release();
}

static PyMethodDef functions[] = {
    {"make_call", method(makeCall), METH_FASTCALL,
     "make_call(resolve, refuses_gradients)"},
    {"make_launch", method(makeLaunch), METH_FASTCALL,
     "make_launch(plan, o, lse, workspace, current_stream, o_strides): the "
     "tensors of the plan are q, k, v, bias, o and lse, in this order."},
    {nullptr, nullptr, 0, nullptr}};

bool flashcore::python::addCall(PyObject *module) {
  static PyType_Slot launchSlots[] = {
      {Py_tp_dealloc, slot(Boxed<Launch>::destroy)},
      {Py_tp_doc, slot("A launch of a plan.")},
      {0, nullptr}};
  static PyType_Slot callSlots[] = {
      {Py_tp_dealloc, slot(Boxed<Call>::destroy)},
      {Py_tp_traverse, slot(traverseCall)},
      {Py_tp_clear, slot(clearCall)},
      {Py_tp_methods, callMethods},
      {Py_tp_getset, callMembers},
      {Py_tp_doc, slot("An attention with its options.")},
      {0, nullptr}};
  return addType<Launch>(module, "flashcore._core.Launch", launchSlots) &&
         addType<Call>(module, "flashcore._core.Call", callSlots,
                       Py_TPFLAGS_HAVE_GC) &&
         PyModule_AddFunctions(module, functions) == 0;
}
