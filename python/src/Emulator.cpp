//===- Emulator.cpp - Any PTX in the emulator -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One function runs one kernel: flashcore/emulator.py turns its arguments into
// bytes and addresses and its JSON into findings.
//
//===----------------------------------------------------------------------===//

#include "Parts.h"

#include "flashcore-c/Emulator.h"

#include <vector>

using namespace flashcore::python;

namespace {
struct Member;

struct Value {
  /// Of an array, its memory in this process.
  void *host = nullptr;
  uint64_t bytes = 0;
  /// Of a buffer.
  std::string name;
  bool isWritten = false;
  /// Of an array, for the layout check.
  uint32_t elementBytes = 0;
  std::vector<uint64_t> shape;
  /// Of anything but an array, its bytes but for those of its members.
  std::string literal;
  std::vector<Member> members;

  bool isBuffer() const { return !name.empty(); }
};

/// What lies in the bytes of another value.
struct Member {
  uint64_t offset = 0;
  Value value;
};

struct Request {
  const char *ptx = nullptr, *kernel = nullptr, *checks = nullptr;
  FlashCoreEmuDim3 grid = {}, block = {};
  unsigned long long sharedBytes = 0, maxInstructions = 0;
  unsigned threads = 0, schedule = 0, async = 0, sharedBase = 0;
  unsigned long long seed = 0;
  std::vector<Value> values;
};

/// What a run has, destroyed at the end of a scope.
class Session {
public:
  ~Session() {
    flashcoreEmuReportDestroy(report);
    flashcoreEmuOptionsDestroy(options);
    flashcoreEmuArgumentsDestroy(arguments);
    flashcoreEmuMemoryDestroy(memory);
    flashcoreEmuKernelDestroy(kernel);
  }
  /// Each step returns the first error.
  FlashCoreEmuStatus prepare(const Request &request);
  FlashCoreEmuStatus addValues(const Request &request);
  FlashCoreEmuStatus resolve(const Value &value, std::string &bytes);
  FlashCoreEmuStatus placeArray(const Value &value, uint64_t &address);
  FlashCoreEmuStatus setOptions(const Request &request);
  FlashCoreEmuStatus copyBack();
  FlashCoreEmuStatus run(const Request &request);

  FlashCoreEmuReport report = {nullptr};

private:
  FlashCoreEmuKernel kernel = {nullptr};
  FlashCoreEmuMemory memory = {nullptr};
  FlashCoreEmuArguments arguments = {nullptr};
  FlashCoreEmuOptions options = {nullptr};
  /// Arrays and where they are; one that is given twice is one buffer.
  std::vector<std::pair<const Value *, uint64_t>> arrays;
};
} // namespace

#define RETURN_ERROR(call)                                                     \
  if (FlashCoreEmuStatus status = (call);                                      \
      !flashcoreEmuStatusIsSuccess(status))                                    \
  return status

FlashCoreEmuStatus Session::prepare(const Request &request) {
  RETURN_ERROR(flashcoreEmuKernelCreate(request.ptx, request.kernel, &kernel));
  RETURN_ERROR(flashcoreEmuMemoryCreate(&memory));
  RETURN_ERROR(flashcoreEmuArgumentsCreate(&arguments));
  return flashcoreEmuOptionsCreate(&options);
}

FlashCoreEmuStatus Session::addValues(const Request &request) {
  for (const Value &value : request.values) {
    std::string bytes;
    RETURN_ERROR(resolve(value, bytes));
    RETURN_ERROR(
        flashcoreEmuArgumentsAddBytes(arguments, bytes.data(), bytes.size()));
  }
  return {nullptr};
}

FlashCoreEmuStatus Session::placeArray(const Value &value, uint64_t &address) {
  for (const auto &[known, at] : arrays)
    if (known->host == value.host && known->bytes == value.bytes) {
      address = at;
      return {nullptr};
    }
  RETURN_ERROR(flashcoreEmuMemoryAllocate(memory, value.name.c_str(),
                                          value.bytes, &address));
  arrays.emplace_back(&value, address);
  RETURN_ERROR(flashcoreEmuMemoryDescribe(
      memory, address, value.elementBytes, value.shape.size(),
      value.shape.data(), /*strides=*/nullptr));
  return flashcoreEmuMemoryWrite(memory, address, value.host, value.bytes);
}

/// The bytes of a value: those of the address of a buffer, once it has one.
FlashCoreEmuStatus Session::resolve(const Value &value, std::string &bytes) {
  uint64_t address = 0;
  bytes = value.literal;
  for (const Member &member : value.members) {
    std::string part;
    RETURN_ERROR(resolve(member.value, part));
    bytes.replace(member.offset, part.size(), part);
  }
  if (value.host) {
    RETURN_ERROR(placeArray(value, address));
  } else if (value.isBuffer()) {
    RETURN_ERROR(flashcoreEmuMemoryAllocate(memory, value.name.c_str(),
                                            bytes.size(), &address));
    RETURN_ERROR(
        flashcoreEmuMemoryWrite(memory, address, bytes.data(), bytes.size()));
  }
  if (value.isBuffer())
    bytes.assign(reinterpret_cast<const char *>(&address), sizeof address);
  return {nullptr};
}

FlashCoreEmuStatus Session::setOptions(const Request &request) {
  RETURN_ERROR(flashcoreEmuOptionsSetChecks(options, request.checks));
  RETURN_ERROR(flashcoreEmuOptionsSetThreads(options, request.threads));
  RETURN_ERROR(
      flashcoreEmuOptionsSetMaxInstructions(options, request.maxInstructions));
  RETURN_ERROR(flashcoreEmuOptionsSetSchedule(
      options, static_cast<FlashCoreEmuSchedule>(request.schedule),
      request.seed));
  RETURN_ERROR(flashcoreEmuOptionsSetAsync(
      options, static_cast<FlashCoreEmuAsync>(request.async), request.seed));
  RETURN_ERROR(flashcoreEmuOptionsSetSharedBase(
      options, static_cast<FlashCoreEmuSharedBase>(request.sharedBase)));
  return flashcoreEmuOptionsSetCounters(options, true);
}

FlashCoreEmuStatus Session::copyBack() {
  for (const auto &[value, address] : arrays)
    if (value->isWritten)
      RETURN_ERROR(
          flashcoreEmuMemoryRead(memory, address, value->bytes, value->host));
  return {nullptr};
}

FlashCoreEmuStatus Session::run(const Request &request) {
  RETURN_ERROR(prepare(request));
  RETURN_ERROR(addValues(request));
  RETURN_ERROR(setOptions(request));
  FlashCoreEmuDim3 block = request.block;
  if (block.x == 0)
    block = flashcoreEmuKernelGetRequiredBlock(kernel);
  RETURN_ERROR(flashcoreEmuLaunch(kernel, memory, request.grid, block,
                                  request.sharedBytes, arguments, options,
                                  &report));
  return copyBack();
}

static bool raisedEmu(FlashCoreEmuStatus status) {
  if (flashcoreEmuStatusIsSuccess(status))
    return false;
  std::string message = flashcoreEmuStatusGetMessage(status);
  if (uint32_t line = flashcoreEmuStatusGetLine(status))
    message = "line " + std::to_string(line) + ", column " +
              std::to_string(flashcoreEmuStatusGetColumn(status)) + ": " +
              message;
  raise("Error", message);
  flashcoreEmuStatusDestroy(status);
  return true;
}

static bool readBytes(PyObject *object, std::string &bytes) {
  char *data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(object, &data, &size))
    return false;
  bytes.assign(data, static_cast<size_t>(size));
  return true;
}

static bool readValue(PyObject *object, Value &value);

/// Reads (name, bytes, [(offset, value), ...]).
static bool readComposite(PyObject *object, Value &value) {
  const char *name = nullptr;
  PyObject *bytes = nullptr, *members = nullptr;
  if (!PyArg_ParseTuple(object, "sSO!", &name, &bytes, &PyList_Type,
                        &members) ||
      !readBytes(bytes, value.literal))
    return false;
  value.name = name;
  value.members.resize(static_cast<size_t>(PyList_Size(members)));
  for (size_t i = 0; i < value.members.size(); ++i) {
    Member &member = value.members[i];
    unsigned long long offset = 0;
    PyObject *part = nullptr;
    if (!PyArg_ParseTuple(PyList_GetItem(members, static_cast<Py_ssize_t>(i)),
                          "KO", &offset, &part))
      return false;
    member.offset = offset;
    if (Py_EnterRecursiveCall(" while reading the values of a kernel"))
      return false;
    bool isRead = readValue(part, member.value);
    Py_LeaveRecursiveCall();
    if (!isRead)
      return false;
  }
  return true;
}

/// Reads bytes, (name, address, bytes, is written, element bytes, shape) of an
/// array, or what has members. The Python half has checked that members lie
/// inside, and that an array is dense.
static bool readValue(PyObject *object, Value &value) {
  if (PyBytes_Check(object))
    return readBytes(object, value.literal);
  if (PyTuple_Check(object) && PyTuple_Size(object) == 3)
    return readComposite(object, value);
  const char *name = nullptr;
  unsigned long long address = 0, bytes = 0;
  int isWritten = 0;
  unsigned elementBytes = 0;
  PyObject *shape = nullptr;
  if (!PyArg_ParseTuple(object, "sKKpIO!", &name, &address, &bytes, &isWritten,
                        &elementBytes, &PyTuple_Type, &shape))
    return false;
  for (Py_ssize_t i = 0; i < PyTuple_Size(shape); ++i)
    value.shape.push_back(PyLong_AsUnsignedLongLong(PyTuple_GetItem(shape, i)));
  if (PyErr_Occurred())
    return false;
  value.elementBytes = elementBytes;
  value.host = reinterpret_cast<void *>(address);
  value.bytes = bytes;
  value.name = name;
  value.isWritten = isWritten;
  return true;
}

static bool readRequest(PyObject *arguments, Request &request) {
  PyObject *values = nullptr;
  FlashCoreEmuDim3 &grid = request.grid, &block = request.block;
  if (!PyArg_ParseTuple(arguments, "sz(III)(III)KO!sIIIKKI", &request.ptx,
                        &request.kernel, &grid.x, &grid.y, &grid.z, &block.x,
                        &block.y, &block.z, &request.sharedBytes, &PyList_Type,
                        &values, &request.checks, &request.threads,
                        &request.schedule, &request.async, &request.seed,
                        &request.maxInstructions, &request.sharedBase))
    return false;
  request.values.resize(static_cast<size_t>(PyList_Size(values)));
  for (size_t i = 0; i < request.values.size(); ++i)
    if (!readValue(PyList_GetItem(values, static_cast<Py_ssize_t>(i)),
                   request.values[i]))
      return false;
  return true;
}

static PyObject *reportText(FlashCoreEmuReport report,
                            FlashCoreEmuStatus (*get)(FlashCoreEmuReport,
                                                      const char *,
                                                      FlashCoreEmuString *)) {
  FlashCoreEmuString text = {nullptr};
  if (raisedEmu(get(report, nullptr, &text)))
    return nullptr;
  Ref result = toText(flashcoreEmuStringGetData(text));
  flashcoreEmuStringDestroy(text);
  return result.release();
}

static PyObject *runPtx(PyObject *, PyObject *arguments) {
  Request request;
  Session session;
  if (!readRequest(arguments, request))
    return nullptr;
  FlashCoreEmuStatus status;
  {
    WithoutGil withoutGil;
    status = session.run(request);
  }
  if (raisedEmu(status))
    return nullptr;
  Ref json(reportText(session.report, flashcoreEmuReportGetJson));
  Ref text(json ? reportText(session.report, flashcoreEmuReportGetText)
                : nullptr);
  return text ? PyTuple_Pack(2, json.get(), text.get()) : nullptr;
}

static PyObject *describeKernel(FlashCoreEmuKernel kernel) {
  Ref sizes(PyList_New(0));
  for (size_t i = 0; sizes && i < flashcoreEmuKernelGetNumParams(kernel); ++i) {
    Ref pair(Py_BuildValue("(sI)", flashcoreEmuKernelGetParamName(kernel, i),
                           flashcoreEmuKernelGetParamBytes(kernel, i)));
    if (!pair || PyList_Append(sizes.get(), pair.get()))
      return nullptr;
  }
  if (!sizes)
    return nullptr;
  FlashCoreEmuDim3 block = flashcoreEmuKernelGetRequiredBlock(kernel);
  return Py_BuildValue("(ssO(III)K)", flashcoreEmuKernelGetName(kernel),
                       flashcoreEmuKernelGetTarget(kernel), sizes.get(),
                       block.x, block.y, block.z,
                       static_cast<unsigned long long>(
                           flashcoreEmuKernelGetStaticSharedBytes(kernel)));
}

static PyObject *loadPtx(PyObject *, PyObject *arguments) {
  const char *ptx = nullptr, *name = nullptr;
  FlashCoreEmuKernel kernel = {nullptr};
  if (!PyArg_ParseTuple(arguments, "sz", &ptx, &name) ||
      raisedEmu(flashcoreEmuKernelCreate(ptx, name, &kernel)))
    return nullptr;
  PyObject *description = describeKernel(kernel);
  flashcoreEmuKernelDestroy(kernel);
  return description;
}

static PyObject *describePtx(PyObject *, PyObject *ptxObject) {
  const char *ptx = textOf(ptxObject);
  FlashCoreEmuString json = {nullptr};
  if (!ptx || raisedEmu(flashcoreEmuDescribe(ptx, &json)))
    return nullptr;
  Ref result = toText(flashcoreEmuStringGetData(json));
  flashcoreEmuStringDestroy(json);
  return result.release();
}

static PyObject *listKernels(PyObject *, PyObject *ptxObject) {
  const char *ptx = textOf(ptxObject);
  FlashCoreEmuKernelList list = {nullptr};
  if (!ptx || raisedEmu(flashcoreEmuKernelListCreate(ptx, &list)))
    return nullptr;
  size_t count = flashcoreEmuKernelListGetSize(list);
  Ref names(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; names && i < count; ++i)
    PyTuple_SetItem(names.get(), static_cast<Py_ssize_t>(i),
                    toText(flashcoreEmuKernelListGetName(list, i)).release());
  flashcoreEmuKernelListDestroy(list);
  return names.release();
}

static PyMethodDef functions[] = {
    {"run_ptx", runPtx, METH_VARARGS,
     "run_ptx(ptx, kernel, grid, block, shared, values, checks, threads, "
     "schedule, async, seed, max_instructions, shared_base): (json, text)"},
    {"load_ptx", loadPtx, METH_VARARGS,
     "load_ptx(ptx, kernel): (name, target, parameters, block, shared)"},
    {"describe_ptx", describePtx, METH_O, "What is in a module, as JSON."},
    {"ptx_kernels", listKernels, METH_O, "The kernels of a module."},
    {nullptr, nullptr, 0, nullptr}};

bool flashcore::python::addEmulator(PyObject *module) {
  return PyModule_AddFunctions(module, functions) == 0;
}
