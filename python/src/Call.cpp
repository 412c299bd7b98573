//===- Call.cpp - The fast path of a call ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A Call stands for an attention with its options. It reads where its arguments
// lie, those of clauses and what functions read among them, finds what to do
// for their sizes, strides, types and places in a map, and does it: for tensors
// that a kernel takes as they are, allocating the outputs and launching,
// without a line of Python. Everything else is decided by the Python function
// `resolve`, once for each key.
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
#include <string>
#include <unordered_map>
#include <vector>

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

/// Tensors of every attention; those of clauses and functions are behind them.
enum : size_t { Q, K, V, Bias, O, Lse, Scores, NumFixed };

/// What to do for tensors that a plan takes as they are.
struct Launch {
  static PyObject *type;
  static constexpr const char *name = "Launch";

  Ref planObject;
  /// Of o, the LSE and scores, and of the workspace.
  Allocation o, lse, scores, workspace;
  /// Of the device, for producers without a C exchange API; else null.
  Ref currentStream;
  int64_t oStrides[attentionRank] = {};
  /// Whether the caller wants it, which scores may need too.
  bool returnsLse = false;
  /// Which argument each tensor of the plan is: one of the fixed, or of those
  /// behind them that are given.
  std::vector<size_t> sources;

  const Plan &plan() const { return Boxed<Plan>::get(planObject.get()); }
};

/// What may differ between two calls with the same options.
struct Key {
  std::vector<int64_t> words;

  /// With memory that an earlier key has left.
  Key() : words(std::move(spare)) { words.clear(); }
  Key(const Key &) = default;
  Key(Key &&) = default;
  ~Key() {
    if (words.capacity() > spare.capacity())
      spare = std::move(words);
  }
  void add(int64_t word) { words.push_back(word); }
  void add(const TensorView &view, uint64_t alignment);
  bool operator==(const Key &other) const { return words == other.words; }

private:
  static std::vector<int64_t> &spare;
};
std::vector<int64_t> &Key::spare = *new std::vector<int64_t>;
struct KeyHash {
  size_t operator()(const Key &key) const {
    uint64_t hash = key.words.size();
    for (int64_t word : key.words) {
      hash = (hash ^ static_cast<uint64_t>(word)) * 0x9e3779b97f4a7c15ull;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

/// What a call writes beside its outputs.
enum class Writes { Nothing, Caches, PagedCaches };

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
    Writes writes = Writes::Nothing;
  };

  Ref resolve;
  /// What messages call the tensor in the place of q, and those of clauses;
  /// what functions read comes behind these.
  Ref first, names;
  bool refusesGradients = false;
  std::unordered_map<Key, Entry, KeyHash> entries;
  /// The entry that was used last, which calls of equal layers use again.
  const std::pair<const Key, Entry> *last = nullptr;

  /// The entry of a key, owned; without an action where there is none.
  Entry find(const Key &key) {
    if (last && last->first == key)
      return last->second;
    auto found = entries.find(key);
    if (found == entries.end())
      return Entry();
    last = &*found;
    return last->second;
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
  static constexpr Py_ssize_t numOptions = 16;
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
  Py_ssize_t place = 0;       // in the tuple of those beside the fixed ones
  const Producer *producer = nullptr;
  TensorView view;
  Lease lease;

  bool read(PyObject *from, const char *name, PyObject *stream) {
    object = from;
    return readTensor(from, name, stream, producer, view, lease);
  }
};

struct Arguments {
  std::array<Argument, NumFixed> fixed;
  /// Of clauses, and what functions read: those that are given.
  std::vector<Argument> beside;
  /// The tuple of these that the caller gave, or None.
  PyObject *besideTuple = Py_None;
  PyObject *stream = nullptr;

  Argument &at(size_t index) {
    return index < NumFixed ? fixed[index] : beside[index - NumFixed];
  }
  size_t size() const { return NumFixed + beside.size(); }
};
} // namespace
PyObject *Launch::type = nullptr;
PyObject *Call::type = nullptr;
PyObject *Calls::type = nullptr;

void Key::add(const TensorView &view, uint64_t alignment) {
  uint64_t isAligned = view.pointer % alignment == 0;
  uint64_t isVector = view.dtype.lanes != 1;
  add(static_cast<int64_t>(
      uint64_t(view.dtype.code) | uint64_t(view.dtype.bits) << 8 |
      uint64_t(uint8_t(view.rank)) << 16 | uint64_t(view.isReadOnly) << 24 |
      isAligned << 25 | isVector << 26 |
      uint64_t(uint32_t(view.device.type) & 31) << 27 |
      uint64_t(uint32_t(view.device.id)) << 32));
  int rank = std::min<int>(view.rank, maxRank);
  words.insert(words.end(), view.sizes, view.sizes + rank);
  words.insert(words.end(), view.strides, view.strides + rank);
}

//===----------------------------------------------------------------------===//
// Reading arguments
//===----------------------------------------------------------------------===//

/// What messages call an argument behind the fixed ones.
static std::string nameOfBeside(const Call &call, Py_ssize_t place) {
  Py_ssize_t count = PyTuple_Size(call.names.get());
  if (place >= count)
    return "capture" + std::to_string(place - count);
  const char *name = textOf(PyTuple_GetItem(call.names.get(), place));
  return name ? name : "";
}

/// Reads those of clauses and functions that are given.
static bool readBeside(const Call &call, Arguments &arguments, Key &key) {
  PyObject *tuple = arguments.besideTuple;
  Py_ssize_t count = tuple == Py_None ? 0 : PyTuple_Size(tuple);
  if (count < 0)
    return false;
  uint64_t given = 0; // what functions read is always given
  Py_ssize_t numGiven = 0, numNamed = PyTuple_Size(call.names.get());
  for (Py_ssize_t i = 0; i < count; ++i) {
    bool isGiven = PyTuple_GetItem(tuple, i) != Py_None;
    numGiven += isGiven;
    given |= i < numNamed ? uint64_t(isGiven) << i : 0;
  }
  key.add(static_cast<int64_t>(given));
  arguments.beside.resize(static_cast<size_t>(numGiven));
  auto *argument = arguments.beside.data();
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *object = PyTuple_GetItem(tuple, i);
    if (object == Py_None)
      continue;
    argument->place = i;
    if (!argument->read(object, nameOfBeside(call, i).c_str(),
                        arguments.stream))
      return false;
    key.add(argument->view, getRowAlignment(argument->view));
    ++argument;
  }
  return true;
}

/// The key, or false with an exception.
static bool readArguments(const Call &call, PyObject *const *from,
                          Arguments &arguments, Key &key) {
  PyObject *bias = from[3], *out = from[4];
  PyObject *lse = Py_None;
  arguments.stream = from[5];
  if (PyTuple_Check(out) && PyTuple_Size(out) == 2) {
    lse = PyTuple_GetItem(out, 1);
    out = PyTuple_GetItem(out, 0);
  }
  auto read = [&](size_t index, PyObject *object, const char *name,
                  uint64_t alignment = 0) {
    Argument &argument = arguments.fixed[index];
    if (!argument.read(object, name, arguments.stream))
      return false;
    key.add(argument.view,
            alignment ? alignment : getRowAlignment(argument.view));
    return true;
  };
  const char *first = textOf(call.first.get());
  if (!first || !read(Q, from[0], first) ||
      (from[1] != Py_None && !read(K, from[1], "k")) ||
      (from[2] != Py_None && !read(V, from[2], "v")))
    return false;
  // Outputs are allocated by the library of q.
  key.add(static_cast<int64_t>(reinterpret_cast<intptr_t>(Py_TYPE(from[0]))));
  key.add(int64_t(bias != Py_None) | int64_t(out != Py_None) << 1 |
          int64_t(lse != Py_None) << 2 | int64_t(from[1] != Py_None) << 3 |
          int64_t(from[2] != Py_None) << 4);
  return (bias == Py_None || read(Bias, bias, "bias", 4)) &&
         (out == Py_None || read(O, out, "out")) &&
         (lse == Py_None || read(Lse, lse, "the lse of out", 4)) &&
         readBeside(call, arguments, key);
}

static std::string nameOfArgument(const Call &call, Arguments &arguments,
                                  size_t index) {
  static constexpr const char *names[] = {
      "q", "k", "v", "bias", "out", "the lse of out", "scores"};
  if (index == Q)
    if (const char *first = textOf(call.first.get()))
      return first;
  return index < NumFixed ? names[index]
                          : nameOfBeside(call, arguments.at(index).place);
}

/// Blocks of a kernel write while others still read: what a call writes shares
/// no memory with anything else.
static bool checkMemory(const Call &call, Arguments &arguments, Writes writes) {
  auto isWritten = [&](size_t index) {
    return index == O || index == Lse ||
           (writes != Writes::Nothing && (index == K || index == V));
  };
  for (size_t one = 0; one < arguments.size(); ++one) {
    if (!isWritten(one) || !arguments.at(one).object)
      continue;
    for (size_t other = 0; other < arguments.size(); ++other) {
      // Tables say which rows of a pool are written.
      bool arePools = writes == Writes::PagedCaches && other < O && one < O &&
                      isWritten(other);
      if (other == one || !arguments.at(other).object || arePools ||
          !overlap(arguments.at(one).view, arguments.at(other).view))
        continue;
      PyErr_Format(PyExc_ValueError,
                   "expects %s in memory of its own, but it overlaps %s, which "
                   "the call reads or writes: pass another array",
                   nameOfArgument(call, arguments, one).c_str(),
                   nameOfArgument(call, arguments, other).c_str());
      return false;
    }
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
static bool checkGradients(Arguments &arguments) {
  bool wasAsked = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument *argument = &arguments.at(i);
    bool isOutput = i == O || i == Lse;
    if (!argument->object || isOutput || !argument->producer->hasGradients)
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
  const Argument &q = arguments.fixed[Q];
  const dlpack::Device &device = q.view.device;
  if (arguments.stream != Py_None) {
    handle = PyLong_AsSize_t(arguments.stream);
  } else if (q.producer->api) {
    if (q.producer->api->currentStream(dlpack::CUDA, device.id, &stream))
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

/// Strides of axes of size 1 mean nothing. Without the axis of a batch of one,
/// those behind it count.
static bool hasStrides(const TensorView &view, const int64_t *strides) {
  if (view.rank > attentionRank)
    return false;
  strides += attentionRank - view.rank;
  for (int i = 0; i < view.rank; ++i)
    if (view.sizes[i] != 1 && view.strides[i] != strides[i])
      return false;
  return true;
}

/// The result of a call: o, or it with the LSE, the scores or both.
static PyObject *makeResult(const Launch &launch, const Arguments &arguments) {
  PyObject *o = arguments.fixed[O].object;
  PyObject *lse = launch.returnsLse ? arguments.fixed[Lse].object : nullptr;
  PyObject *scores = arguments.fixed[Scores].object;
  if (lse && scores)
    return PyTuple_Pack(3, o, lse, scores);
  if (lse || scores)
    return PyTuple_Pack(2, o, lse ? lse : scores);
  return Ref::share(o).release();
}

static PyObject *runLaunch(const Launch &launch, Arguments &arguments) {
  Ref o, lse, scores, workspace;
  Argument space;
  void *stream = nullptr;
  PyObject *q = arguments.fixed[Q].object;
  if (!allocate(launch.o, q, arguments.fixed[O], o) ||
      !allocate(launch.lse, q, arguments.fixed[Lse], lse) ||
      !allocate(launch.scores, q, arguments.fixed[Scores], scores) ||
      !allocate(launch.workspace, q, space, workspace) ||
      !findStream(launch, arguments, stream))
    return nullptr;
  if (!hasStrides(arguments.fixed[O].view, launch.oStrides))
    return raise("Error", "expects an output with the strides that were asked "
                          "for, but its library gave others; pass out=");
  std::vector<uint64_t> pointers;
  pointers.reserve(launch.sources.size());
  for (size_t source : launch.sources)
    pointers.push_back(arguments.at(source).view.pointer);
  // The GIL is kept: a launch takes less than giving it away.
  if (raised(flashcorePlanLaunch(launch.plan().handle.get(), pointers.data(),
                                 space.view.pointer, stream)))
    return nullptr;
  return makeResult(launch, arguments);
}

//===----------------------------------------------------------------------===//
// Call
//===----------------------------------------------------------------------===//

/// What to do for a key that was not seen before; without an action where that
/// has raised an exception.
static Call::Entry resolve(PyObject *self, const Key &key,
                           const Arguments &arguments) {
  auto orNone = [&](size_t index) {
    PyObject *object = arguments.fixed[index].object;
    return object ? object : Py_None;
  };
  Ref resolved(PyObject_CallFunctionObjArgs(
      Boxed<Call>::get(self).resolve.get(), self, orNone(Q), orNone(K),
      orNone(V), orNone(Bias), orNone(O), orNone(Lse), arguments.stream,
      arguments.besideTuple, nullptr));
  PyObject *action = nullptr;
  int writes = 0;
  if (!resolved || !PyArg_ParseTuple(resolved.get(), "Oi", &action, &writes))
    return Call::Entry();
  Call &call = Boxed<Call>::get(self);
  if (call.entries.size() >= Call::maxEntries)
    call.clear();
  auto *type = reinterpret_cast<PyObject *>(Py_TYPE(arguments.fixed[Q].object));
  Call::Entry entry{Ref::share(action), Ref::share(type),
                    static_cast<Writes>(writes)};
  call.entries.insert_or_assign(key, entry);
  return entry;
}

/// Reads what a call is of: `from` has q, k, v, bias, out, stream and the tuple
/// of those beside. False with an exception.
static bool readCall(const Call &call, PyObject *const *from, PyObject *beside,
                     Arguments &arguments, Key &key) {
  arguments.besideTuple = beside;
  return readArguments(call, from, arguments, key) &&
         (!call.refusesGradients || checkGradients(arguments));
}

static bool checkMemory(const Call &call, Arguments &arguments,
                        const Call::Entry &entry) {
  bool writesArguments = arguments.fixed[O].object ||
                         arguments.fixed[Lse].object ||
                         entry.writes != Writes::Nothing;
  return !writesArguments || checkMemory(call, arguments, entry.writes);
}

static PyObject *perform(const Call::Entry &entry, PyObject *const *from,
                         Arguments &arguments) {
  if (reinterpret_cast<PyObject *>(Py_TYPE(entry.action.get())) == Launch::type)
    return runLaunch(Boxed<Launch>::get(entry.action.get()), arguments);
  return PyObject_CallFunctionObjArgs(entry.action.get(), from[0], from[1],
                                      from[2], from[3], from[4], from[5],
                                      arguments.besideTuple, nullptr);
}

static PyObject *runOn(PyObject *self, PyObject *const *from,
                       PyObject *beside) {
  Arguments arguments;
  Key key;
  Call &call = Boxed<Call>::get(self);
  if (!readCall(call, from, beside, arguments, key))
    return nullptr;
  Call::Entry entry = call.find(key);
  if (!entry.action)
    entry = resolve(self, key, arguments);
  if (!entry.action || !checkMemory(call, arguments, entry))
    return nullptr;
  return perform(entry, from, arguments);
}

constexpr Py_ssize_t numArguments = 7;

static PyObject *runCall(PyObject *self, PyObject *const *from,
                         Py_ssize_t count) {
  if (count == numArguments - 1)
    return runOn(self, from, Py_None);
  return expectArguments("run", count, numArguments)
             ? runOn(self, from, from[numArguments - 1])
             : nullptr;
}

static PyObject *makeCall(PyObject *, PyObject *const *arguments,
                          Py_ssize_t count) {
  constexpr Py_ssize_t mostNames = 64; // bits of a word
  if (!expectArguments("make_call", count, 4))
    return nullptr;
  int refusesGradients = PyObject_IsTrue(arguments[1]);
  Py_ssize_t numNames = PyTuple_Size(arguments[2]);
  if (refusesGradients < 0 || numNames < 0)
    return nullptr;
  if (numNames > mostNames)
    return PyErr_Format(PyExc_ValueError,
                        "expects at most %zd names of arguments, but got %zd",
                        mostNames, numNames);
  Call call;
  call.resolve = Ref::share(arguments[0]);
  call.refusesGradients = refusesGradients;
  call.names = Ref::share(arguments[2]);
  call.first = Ref::share(arguments[3]);
  return Boxed<Call>::create(std::move(call)).release();
}

// Entries may be functions that know their Call.
static int traverseCall(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Call &call = Boxed<Call>::get(self);
  Py_VISIT(call.resolve.get());
  Py_VISIT(call.names.get());
  Py_VISIT(call.first.get());
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
     "run(q, k, v, bias, out, stream, beside=None): o, or it with lse, scores "
     "or both. beside has the arguments of clauses, None for those that are "
     "not given, and then what functions read."},
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

/// An option as a key: None, a bool, an int, a float, a str, a tuple of these,
/// or the pairs of a dict of these. Null without an exception for what is none.
/// NumPy's float64 is a float, and becomes one of Python's. What is a key as it
/// is stays the same object.
static Ref toKey(PyObject *option) {
  PyTypeObject *type = Py_TYPE(option);
  if (option == Py_None || type == &PyBool_Type || type == &PyUnicode_Type ||
      type == &PyLong_Type || type == &PyFloat_Type)
    return Ref::share(option);
  if (PyFloat_Check(option))
    return Ref(PyFloat_FromDouble(PyFloat_AsDouble(option)));
  if (type == &PyDict_Type) {
    Ref items(PyDict_Items(option));
    Ref pairs(items ? PyList_AsTuple(items.get()) : nullptr);
    return pairs ? toKey(pairs.get()) : Ref();
  }
  if (type != &PyTuple_Type)
    return Ref();
  Ref tuple(PyTuple_New(PyTuple_Size(option)));
  bool isSame = bool(tuple);
  for (Py_ssize_t i = 0; tuple && i < PyTuple_Size(option); ++i) {
    Ref item = toKey(PyTuple_GetItem(option, i));
    if (!item)
      return item;
    isSame &= item.get() == PyTuple_GetItem(option, i);
    PyTuple_SetItem(tuple.get(), i, item.release());
  }
  return isSame ? Ref::share(option) : std::move(tuple);
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

/// What does not change is the same as long as it is the same object; tuples,
/// such as windows, are often made anew of the same ones.
static bool isSame(PyObject *one, PyObject *other) {
  if (one == other)
    return true;
  if (Py_TYPE(one) != &PyTuple_Type || Py_TYPE(other) != &PyTuple_Type ||
      PyTuple_Size(one) != PyTuple_Size(other))
    return false;
  for (Py_ssize_t i = 0; i < PyTuple_Size(one); ++i)
    if (PyTuple_GetItem(one, i) != PyTuple_GetItem(other, i))
      return false;
  return true;
}

static Ref findRecent(const Calls &calls, PyObject *const *options) {
  for (const Calls::Recent &recent : calls.recent)
    if (recent.call && std::equal(recent.options.begin(), recent.options.end(),
                                  options, [](const Ref &one, PyObject *other) {
                                    return isSame(one.get(), other);
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

/// Options as a key; null where they are none, with an exception where that
/// failed.
static Ref toKeys(PyObject *const *options) {
  Ref key(PyTuple_New(Calls::numOptions));
  for (Py_ssize_t i = 0; key && i < Calls::numOptions; ++i) {
    Ref option = toKey(options[i]);
    if (option)
      PyTuple_SetItem(key.get(), i, option.release());
    else
      key = Ref();
  }
  return key;
}

/// The call of options that were seen before. Null where there is none, with an
/// exception where looking has failed.
static Ref findSeen(Calls &calls, PyObject *const *options, const Ref &key) {
  PyObject *entry = PyDict_GetItemWithError(calls.entries.get(), key.get());
  if (!entry || !haveSameTypes(PyTuple_GetItem(entry, 0), key.get()))
    return Ref();
  Ref call = Ref::share(PyTuple_GetItem(entry, 1));
  addRecent(calls, options, key, call);
  return call;
}

/// The same, of those seen last among them; `key` becomes that of options that
/// are not, null where they are none.
static Ref findKnown(Calls &calls, PyObject *const *options, Ref &key) {
  if (Ref recent = findRecent(calls, options))
    return recent;
  key = toKeys(options);
  return key ? findSeen(calls, options, key) : Ref();
}

/// The call of options, made where they are new. Null with an exception or,
/// where only such as can be found again are wanted, without one.
static Ref findCall(Calls &calls, PyObject *const *options,
                    bool wantsKey = false) {
  Ref key;
  Ref known = findKnown(calls, options, key);
  if (known || PyErr_Occurred() || (wantsKey && !key))
    return known;
  return makeCallOf(calls, options, key);
}

static PyObject *runCalls(PyObject *self, PyObject *const *from,
                          Py_ssize_t count) {
  if (!expectArguments("run", count, numArguments + Calls::numOptions))
    return nullptr;
  Ref call = findCall(Boxed<Calls>::get(self), from + numArguments);
  return call ? runOn(call.get(), from, from[numArguments - 1]) : nullptr;
}

/// Whether tensors are all those of the library of q.
static bool areOfOneLibrary(Arguments &arguments) {
  const Producer &first = *arguments.fixed[Q].producer;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument &argument = arguments.at(i);
    if (argument.object && (argument.producer->kind != first.kind ||
                            argument.producer->api != first.api))
      return false;
  }
  return true;
}

/// What to do where options and tensors were seen; without an action where they
/// were not, or, with an exception, where something is wrong.
static Call::Entry findEntry(Calls &calls, PyObject *const *from,
                             Arguments &arguments) {
  PyObject *const *options = from + numArguments;
  Ref optionKey;
  Ref object = findKnown(calls, options, optionKey);
  if (!object)
    return Call::Entry();
  Call &call = Boxed<Call>::get(object.get());
  Key key;
  if (!readCall(call, from, from[numArguments - 1], arguments, key) ||
      !areOfOneLibrary(arguments))
    return Call::Entry();
  Call::Entry entry = call.find(key);
  bool isRight = entry.action && checkMemory(call, arguments, entry);
  return isRight ? entry : Call::Entry();
}

/// Forgets what is wrong with a call, for which another path has better words;
/// false for an interrupt, which is not.
static bool passOver() {
  if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
    return false;
  PyErr_Clear();
  return true;
}

static PyObject *runSeen(PyObject *self, PyObject *const *from,
                         Py_ssize_t count) {
  if (!expectArguments("run_seen", count, numArguments + Calls::numOptions))
    return nullptr;
  Arguments arguments;
  Call::Entry entry = findEntry(Boxed<Calls>::get(self), from, arguments);
  if (entry.action)
    return perform(entry, from, arguments);
  return passOver() ? Ref::share(Py_NotImplemented).release() : nullptr;
}

static PyObject *see(PyObject *self, PyObject *const *from, Py_ssize_t count) {
  if (!expectArguments("see", count, numArguments + Calls::numOptions))
    return nullptr;
  Ref object = findCall(Boxed<Calls>::get(self), from + numArguments,
                        /*wantsKey=*/true);
  if (!object)
    return PyErr_Occurred() ? nullptr : Ref::share(Py_None).release();
  Call &call = Boxed<Call>::get(object.get());
  Arguments arguments;
  Key key;
  if (!readCall(call, from, from[numArguments - 1], arguments, key))
    return passOver() ? Ref::share(Py_None).release() : nullptr;
  if (!call.find(key).action && !resolve(object.get(), key, arguments).action)
    return nullptr;
  return Ref::share(Py_None).release();
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
     "run(q, k, v, bias, out, stream, beside, *options), as Call.run."},
    {"run_seen", method(runSeen), METH_FASTCALL,
     "The same of tensors and options that see(...) was told of, and of one "
     "library; NotImplemented for others, and where run would raise."},
    {"see", method(see), METH_FASTCALL,
     "see(q, k, v, bias, out, stream, beside, *options): remembers what run "
     "does for these, without doing it; nothing where it would raise."},
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

/// Reads which argument each tensor of a plan is.
static bool readSources(PyObject *tuple, std::vector<size_t> &sources) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); ++i) {
    sources.push_back(PyLong_AsSize_t(PyTuple_GetItem(tuple, i)));
    if (PyErr_Occurred())
      return false;
  }
  return !PyErr_Occurred();
}

static PyObject *makeLaunch(PyObject *, PyObject *const *arguments,
                            Py_ssize_t count) {
  Launch launch;
  if (!expectArguments("make_launch", count, 9))
    return nullptr;
  Plan *plan = Boxed<Plan>::cast(arguments[0]);
  PyObject *strides = arguments[6];
  if (!plan || !readAllocation(arguments[1], launch.o) ||
      !readAllocation(arguments[2], launch.lse) ||
      !readAllocation(arguments[3], launch.scores) ||
      !readAllocation(arguments[4], launch.workspace) ||
      !PyArg_ParseTuple(strides, "LLLL", &launch.oStrides[0],
                        &launch.oStrides[1], &launch.oStrides[2],
                        &launch.oStrides[3]) ||
      !readSources(arguments[7], launch.sources))
    return nullptr;
  launch.planObject = Ref::share(arguments[0]);
  if (arguments[5] != Py_None)
    launch.currentStream = Ref::share(arguments[5]);
  int returnsLse = PyObject_IsTrue(arguments[8]);
  if (returnsLse < 0)
    return nullptr;
  launch.returnsLse = returnsLse;
  return Boxed<Launch>::create(std::move(launch)).release();
}

static PyMethodDef functions[] = {
    {"make_call", method(makeCall), METH_FASTCALL,
     "make_call(resolve, refuses_gradients, names, first): names has those of "
     "the arguments of clauses; first is that of the tensor in the place of "
     "q, of a merge that of its outputs, which has no k or v."},
    {"make_calls", makeCalls, METH_O,
     "make_calls(make): the calls of all options, which make(*options) makes."},
    {"make_launch", method(makeLaunch), METH_FASTCALL,
     "make_launch(plan, o, lse, scores, workspace, current_stream, o_strides, "
     "sources, returns_lse): sources says which argument each tensor of the "
     "plan is, of q, k, v, bias, o, lse and scores, and then of those beside "
     "that are given."},
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
