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
// Calls finds the Call of options. They are keys by their types as well: 5.0 is
// not 5, and what may change later is no key.
//
// The maps are guarded by the GIL. An entry is owned while it is used, since
// what allocates may let other threads run, and they may clear the map.
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
  /// The entry that was used last, which calls of equal layers use again.
  const std::pair<const Key, Entry> *last = nullptr;

  /// The action for a key, or null.
  Ref find(const Key &key) {
    if (last && last->first == key)
      return last->second.action;
    auto found = entries.find(key);
    if (found == entries.end())
      return Ref();
    last = &*found;
    return last->second.action;
  }
  void clear() {
    // Entries may own what runs Python code at its end.
    auto old = std::move(entries);
    entries.clear();
    last = nullptr;
  }
};

/// The calls of all options.
struct Calls {
  static PyObject *type;
  static constexpr const char *name = "Calls";
  static constexpr Py_ssize_t numOptions = 9;
  static constexpr size_t numRecent = 4;
  /// Options seen; a program with more starts over.
  static constexpr Py_ssize_t maxEntries = 1024;

  /// A function of the options, which checks them and returns a Call.
  Ref make;
  /// By options, (options, Call).
  Ref entries;
  /// Some of these, for options that are the same objects.
  struct Recent {
    std::array<Ref, numOptions> options;
    Ref call;
  };
  std::array<Recent, numRecent> recent;
  size_t next = 0;
};

/// An argument of a call.
struct Argument {
  PyObject *object = nullptr; // borrowed from the caller
  const Producer *producer = nullptr;
  TensorView view;
  Lease lease;

  bool read(PyObject *from, const char *name, PyObject *stream) {
    object = from;
    return readTensor(from, name, stream, producer, view, lease);
  }
};

struct Arguments {
  Argument q, k, v, bias, o, lse;
  PyObject *stream = nullptr;
};
} // namespace
PyObject *Launch::type = nullptr;
PyObject *Call::type = nullptr;
PyObject *Calls::type = nullptr;

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
  auto read = [&](Argument &argument, PyObject *object, const char *name,
                  uint64_t alignment = 0) {
    if (!argument.read(object, name, arguments.stream))
      return false;
    key.add(argument.view,
            alignment ? alignment : getRowAlignment(argument.view));
    return true;
  };
  if (!read(arguments.q, from[0], "q") || !read(arguments.k, from[1], "k") ||
      !read(arguments.v, from[2], "v"))
    return false;
  // Outputs are allocated by the library of q.
  key.add(static_cast<int64_t>(reinterpret_cast<intptr_t>(Py_TYPE(from[0]))) ^
          (int64_t(bias != Py_None) | int64_t(out != Py_None) << 1 |
           int64_t(lse != Py_None) << 2));
  return (bias == Py_None || read(arguments.bias, bias, "bias", 4)) &&
         (out == Py_None || read(arguments.o, out, "out")) &&
         (lse == Py_None || read(arguments.lse, lse, "the lse of out", 4));
}

/// Blocks of a kernel write o while others still read: no output shares memory
/// with anything else.
static bool checkOutputs(const Arguments &arguments) {
  const std::pair<const Argument *, const char *> all[] = {
      {&arguments.o, "out"}, {&arguments.lse, "the lse of out"},
      {&arguments.q, "q"},   {&arguments.k, "k"},
      {&arguments.v, "v"},   {&arguments.bias, "bias"}};
  for (size_t output = 0; output < 2; ++output)
    for (size_t other = output + 1; other < std::size(all); ++other) {
      auto [a, nameOfA] = all[output];
      auto [b, nameOfB] = all[other];
      if (!a->object || !b->object || !overlap(a->view, b->view))
        continue;
      PyErr_Format(PyExc_ValueError,
                   "expects %s in memory of its own, but it overlaps %s, which "
                   "the call reads or writes: pass another array",
                   nameOfA, nameOfB);
      return false;
    }
  return true;
}

/// Whether PyTorch records gradients on this thread; -1 with an exception. It
/// is asked at each call, so by the function behind the object.
static int isGradEnabled() {
  static PyObject *object = nullptr;
  static PyCFunction function = nullptr;
  if (!object) {
    Ref torch(PyImport_ImportModule("torch"));
    object = torch ? PyObject_GetAttrString(torch.get(), "is_grad_enabled")
                   : nullptr;
    if (object && PyCFunction_Check(object) &&
        PyCFunction_GetFlags(object) == METH_NOARGS)
      function = PyCFunction_GetFunction(object);
  }
  if (!object)
    return -1;
  Ref result(function ? function(PyCFunction_GetSelf(object), nullptr)
                      : PyObject_CallNoArgs(object));
  return result ? PyObject_IsTrue(result.get()) : -1;
}

/// A result without a gradient where one is expected would be a silent error.
static bool checkGradients(const Arguments &arguments) {
  bool wasAsked = false;
  for (const Argument *argument :
       {&arguments.q, &arguments.k, &arguments.v, &arguments.bias}) {
    if (!argument->object || !argument->producer->hasGradients)
      continue;
    int isEnabled = wasAsked ? 1 : isGradEnabled();
    if (isEnabled <= 0)
      return isEnabled == 0;
    wasAsked = true;
    int needs = needsGradient(argument->object, *argument->producer);
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
  argument.object = owner.get();
  return owner &&
         readAllocated(argument.object, "an output", Py_None, argument.producer,
                       argument.view, argument.lease);
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
  if (call.entries.size() >= Call::maxEntries)
    call.clear();
  auto *type = reinterpret_cast<PyObject *>(Py_TYPE(arguments.q.object));
  call.entries.insert_or_assign(key, Call::Entry{entry, Ref::share(type)});
  return entry;
}

/// `from` has q, k, v, bias, out and stream.
static PyObject *runOn(PyObject *self, PyObject *const *from) {
  Arguments arguments;
  Key key;
  if (!readArguments(from, arguments, key))
    return nullptr;
  if ((arguments.o.object || arguments.lse.object) && !checkOutputs(arguments))
    return nullptr;
  Call &call = Boxed<Call>::get(self);
  if (call.refusesGradients && !checkGradients(arguments))
    return nullptr;
  Ref entry = call.find(key);
  if (!entry)
    entry = resolve(self, key, arguments);
  if (!entry)
    return nullptr;
  if (reinterpret_cast<PyObject *>(Py_TYPE(entry.get())) == Launch::type)
    return runLaunch(Boxed<Launch>::get(entry.get()), arguments);
  return PyObject_CallFunctionObjArgs(entry.get(), from[0], from[1], from[2],
                                      from[3], from[4], from[5], nullptr);
}

constexpr Py_ssize_t numArguments = 6;

static PyObject *runCall(PyObject *self, PyObject *const *from,
                         Py_ssize_t count) {
  return expectArguments("run", count, numArguments) ? runOn(self, from)
                                                     : nullptr;
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
  call.clear();
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
// Calls
//===----------------------------------------------------------------------===//

/// An option as a key: None, a bool, an int, a float, a str, or a tuple of
/// these. Null without an exception for what is none. NumPy's float64 is a
/// float, and becomes one of Python's.
static Ref toKey(PyObject *option) {
  PyTypeObject *type = Py_TYPE(option);
  if (option == Py_None || type == &PyBool_Type || type == &PyUnicode_Type ||
      type == &PyLong_Type || type == &PyFloat_Type)
    return Ref::share(option);
  if (PyFloat_Check(option))
    return Ref(PyFloat_FromDouble(PyFloat_AsDouble(option)));
  if (type != &PyTuple_Type)
    return Ref();
  Ref tuple(PyTuple_New(PyTuple_Size(option)));
  for (Py_ssize_t i = 0; tuple && i < PyTuple_Size(option); ++i) {
    Ref item = toKey(PyTuple_GetItem(option, i));
    if (!item)
      return item;
    PyTuple_SetItem(tuple.get(), i, item.release());
  }
  return tuple;
}

/// Whether keys that are equal are of the same types, which 5 and 5.0 are not.
static bool haveSameTypes(PyObject *a, PyObject *b) {
  if (a == b)
    return true;
  if (Py_TYPE(a) != Py_TYPE(b))
    return false;
  for (Py_ssize_t i = 0; Py_TYPE(a) == &PyTuple_Type && i < PyTuple_Size(a);
       ++i)
    if (!haveSameTypes(PyTuple_GetItem(a, i), PyTuple_GetItem(b, i)))
      return false;
  return true;
}

/// What does not change is the same as long as it is the same object.
static Ref findRecent(const Calls &calls, PyObject *const *options) {
  for (const Calls::Recent &recent : calls.recent)
    if (recent.call && std::equal(recent.options.begin(), recent.options.end(),
                                  options, [](const Ref &one, PyObject *other) {
                                    return one.get() == other;
                                  }))
      return recent.call;
  return Ref();
}

/// Keeps options that are keys as they are.
static void addRecent(Calls &calls, PyObject *const *options, const Ref &key,
                      const Ref &call) {
  for (Py_ssize_t i = 0; i < Calls::numOptions; ++i)
    if (PyTuple_GetItem(key.get(), i) != options[i])
      return;
  Calls::Recent &recent = calls.recent[calls.next++ % Calls::numRecent];
  Calls::Recent old = std::exchange(recent, {}); // freed when all is in order
  for (Py_ssize_t i = 0; i < Calls::numOptions; ++i)
    recent.options[static_cast<size_t>(i)] = Ref::share(options[i]);
  recent.call = call;
}

/// The call of options that were not seen before, kept where they have a key.
static Ref makeCallOf(Calls &calls, PyObject *const *options, const Ref &key) {
  Ref all(PyTuple_New(Calls::numOptions));
  for (Py_ssize_t i = 0; all && i < Calls::numOptions; ++i)
    PyTuple_SetItem(all.get(), i, Ref::share(options[i]).release());
  Ref call(all ? PyObject_CallObject(calls.make.get(), all.get()) : nullptr);
  if (!call || !Boxed<Call>::cast(call.get()))
    return Ref();
  if (!key)
    return call;
  if (PyDict_Size(calls.entries.get()) >= Calls::maxEntries)
    calls.entries = Ref(PyDict_New());
  Ref entry(PyTuple_Pack(2, key.get(), call.get()));
  if (!calls.entries || !entry ||
      PyDict_SetItem(calls.entries.get(), key.get(), entry.get()))
    return Ref();
  return call;
}

static Ref findCall(Calls &calls, PyObject *const *options) {
  if (Ref recent = findRecent(calls, options))
    return recent;
  Ref key(PyTuple_New(Calls::numOptions));
  for (Py_ssize_t i = 0; key && i < Calls::numOptions; ++i) {
    Ref option = toKey(options[i]);
    if (option)
      PyTuple_SetItem(key.get(), i, option.release());
    else
      key = Ref();
  }
  if (!key && PyErr_Occurred())
    return Ref();
  if (key) {
    PyObject *entry = PyDict_GetItemWithError(calls.entries.get(), key.get());
    if (entry && haveSameTypes(PyTuple_GetItem(entry, 0), key.get())) {
      Ref call = Ref::share(PyTuple_GetItem(entry, 1));
      addRecent(calls, options, key, call);
      return call;
    }
    if (PyErr_Occurred())
      return Ref();
  }
  return makeCallOf(calls, options, key);
}

static PyObject *runCalls(PyObject *self, PyObject *const *from,
                          Py_ssize_t count) {
  if (!expectArguments("run", count, numArguments + Calls::numOptions))
    return nullptr;
  Ref call = findCall(Boxed<Calls>::get(self), from + numArguments);
  return call ? runOn(call.get(), from) : nullptr;
}

static PyObject *makeCalls(PyObject *, PyObject *make) {
  Calls calls;
  calls.make = Ref::share(make);
  calls.entries = Ref(PyDict_New());
  return Boxed<Calls>::create(std::move(calls)).release();
}

static int traverseCalls(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Calls &calls = Boxed<Calls>::get(self);
  Py_VISIT(calls.make.get());
  Py_VISIT(calls.entries.get());
  for (Calls::Recent &recent : calls.recent)
    Py_VISIT(recent.call.get());
  return 0;
}
static int clearCalls(PyObject *self) {
  Calls old = std::move(Boxed<Calls>::get(self));
  return 0;
}

static PyMethodDef callsMethods[] = {
    {"run", method(runCalls), METH_FASTCALL,
     "run(q, k, v, bias, out, stream, *options): o, or (o, lse)."},
    {nullptr, nullptr, 0, nullptr}};

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
    {"make_calls", makeCalls, METH_O,
     "make_calls(make): the calls of all options, which make(*options) makes."},
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
  static PyType_Slot callsSlots[] = {
      {Py_tp_dealloc, slot(Boxed<Calls>::destroy)},
      {Py_tp_traverse, slot(traverseCalls)},
      {Py_tp_clear, slot(clearCalls)},
      {Py_tp_methods, callsMethods},
      {Py_tp_doc, slot("The attentions of all options.")},
      {0, nullptr}};
  return addType<Calls>(module, "flashcore._core.Calls", callsSlots,
                        Py_TPFLAGS_HAVE_GC) &&
         addType<Launch>(module, "flashcore._core.Launch", launchSlots) &&
         addType<Call>(module, "flashcore._core.Call", callSlots,
                       Py_TPFLAGS_HAVE_GC) &&
         PyModule_AddFunctions(module, functions) == 0;
}
