//===- Runtime.cpp - Bundles, devices, modules and plans ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thin layer over flashcore-c/Runtime.h.
//
//===----------------------------------------------------------------------===//

#include "Runtime.h"

#include "Parts.h"

#include <algorithm>
#include <cstring>

using namespace flashcore::python;

PyObject *Bundle::type = nullptr;
PyObject *Device::type = nullptr;
PyObject *Module::type = nullptr;
PyObject *Plan::type = nullptr;

//===----------------------------------------------------------------------===//
// Tensors of a call
//===----------------------------------------------------------------------===//

int64_t TensorSpec::spanBytes() const {
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) // no memory, and in some libraries no address
      return 0;
    last += (sizes[i] - 1) * strides[i];
  }
  return (last + 1) * elementBytes;
}

static bool readNumbers(PyObject *sequence, std::vector<int64_t> &numbers) {
  Ref tuple(PySequence_Tuple(sequence));
  for (Py_ssize_t i = 0; tuple && i < PyTuple_Size(tuple.get()); ++i) {
    numbers.push_back(PyLong_AsLongLong(PyTuple_GetItem(tuple.get(), i)));
    if (numbers.back() == -1 && PyErr_Occurred())
      return false;
  }
  return bool(tuple);
}

static bool readSpec(PyObject *tuple, TensorSpec &spec) {
  const char *name = nullptr;
  int bytes = 0, isOutput = 0;
  PyObject *sizes = nullptr, *strides = nullptr;
  if (!PyArg_ParseTuple(tuple, "sipOO", &name, &bytes, &isOutput, &sizes,
                        &strides) ||
      !readNumbers(sizes, spec.sizes) || !readNumbers(strides, spec.strides))
    return false;
  spec.name = name;
  spec.elementBytes = bytes;
  spec.isOutput = isOutput;
  if (spec.sizes.size() == spec.strides.size())
    return true;
  PyErr_Format(PyExc_ValueError, "expects as many strides as sizes of %s",
               name);
  return false;
}

bool flashcore::python::readSpecs(PyObject *sequence,
                                  std::vector<TensorSpec> &specs) {
  Ref tuple(PySequence_Tuple(sequence));
  if (!tuple)
    return false;
  specs.resize(static_cast<size_t>(PyTuple_Size(tuple.get())));
  for (size_t i = 0; i < specs.size(); ++i)
    if (!readSpec(PyTuple_GetItem(tuple.get(), static_cast<Py_ssize_t>(i)),
                  specs[i]))
      return false;
  return true;
}

std::vector<FlashCoreTensor>
flashcore::python::toTensors(const std::vector<TensorSpec> &specs) {
  std::vector<FlashCoreTensor> tensors;
  for (const TensorSpec &spec : specs)
    tensors.push_back({spec.name.c_str(), spec.sizes.data(),
                       spec.strides.data(), spec.sizes.size()});
  return tensors;
}

static bool readPointers(PyObject *sequence, size_t count,
                         std::vector<uint64_t> &pointers) {
  Ref tuple(PySequence_Tuple(sequence));
  if (!tuple)
    return false;
  if (static_cast<size_t>(PyTuple_Size(tuple.get())) != count) {
    PyErr_Format(PyExc_ValueError, "expects %zu pointers, but got %zd", count,
                 PyTuple_Size(tuple.get()));
    return false;
  }
  for (size_t i = 0; i < count; ++i)
    pointers.push_back(PyLong_AsUnsignedLongLong(
        PyTuple_GetItem(tuple.get(), static_cast<Py_ssize_t>(i))));
  return !PyErr_Occurred();
}

//===----------------------------------------------------------------------===//
// Bundles
//===----------------------------------------------------------------------===//

static PyObject *loadBundle(PyObject *, PyObject *pathObject) {
  std::string path;
  if (!readPath(pathObject, path))
    return nullptr;
  FlashCoreBundle bundle = {nullptr};
  FlashCoreStatus status;
  {
    WithoutGil withoutGil;
    status = flashcoreBundleLoad(path.c_str(), &bundle);
  }
  if (raised(status))
    return nullptr;
  return Boxed<Bundle>::create(
             Bundle{Owned<FlashCoreBundle, flashcoreBundleDestroy>(bundle)})
      .release();
}

static PyObject *getManifest(PyObject *self, void *) {
  return toText(
             flashcoreBundleGetManifest(Boxed<Bundle>::get(self).handle.get()))
      .release();
}

namespace {
/// Tensors in host memory, and how many threads work on them.
struct HostCall {
  std::vector<TensorSpec> specs;
  std::vector<uint64_t> pointers;
  unsigned threads = 0;

  bool read(PyObject *arguments) {
    PyObject *specsObject = nullptr, *pointersObject = nullptr;
    return PyArg_ParseTuple(arguments, "OOI", &specsObject, &pointersObject,
                            &threads) &&
           readSpecs(specsObject, specs) &&
           readPointers(pointersObject, specs.size(), pointers);
  }
};
} // namespace

/// The attention of a bundle in double precision.
static PyObject *computeReference(PyObject *self, PyObject *arguments) {
  HostCall call;
  if (!call.read(arguments))
    return nullptr;
  FlashCoreStatus status;
  {
    WithoutGil withoutGil;
    std::vector<FlashCoreTensor> tensors = toTensors(call.specs);
    status = flashcoreComputeReference(Boxed<Bundle>::get(self).handle.get(),
                                       tensors.data(), call.pointers.data(),
                                       tensors.size(), call.threads);
  }
  if (raised(status))
    return nullptr;
  Py_RETURN_NONE;
}

static Ref toDict(const FlashCoreOutputReport &report) {
  return Ref(Py_BuildValue(
      "{s:O,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:(LLLL),s:L,s:L,s:L}", "pass",
      report.pass ? Py_True : Py_False, "error", report.error, "allowed",
      report.allowed, "yardstick", report.yardstick, "norm", report.norm,
      "yardstick_norm", report.yardstickNorm, "expected", report.expected,
      "actual", report.actual, "at", static_cast<long long>(report.at[0]),
      static_cast<long long>(report.at[1]),
      static_cast<long long>(report.at[2]),
      static_cast<long long>(report.at[3]), "nans",
      static_cast<long long>(report.nans), "infinities",
      static_cast<long long>(report.infinities), "elements",
      static_cast<long long>(report.elements)));
}

/// Compares the outputs of a call with the reference.
static PyObject *checkOutputs(PyObject *self, PyObject *arguments) {
  HostCall call;
  if (!call.read(arguments))
    return nullptr;
  FlashCoreOutputReport o = {}, lse = {}, scores = {}, k = {}, v = {};
  FlashCoreStatus status;
  {
    WithoutGil withoutGil;
    std::vector<FlashCoreTensor> tensors = toTensors(call.specs);
    status = flashcoreCheckOutputs(Boxed<Bundle>::get(self).handle.get(),
                                   tensors.data(), call.pointers.data(),
                                   tensors.size(), call.threads, &o, &lse,
                                   &scores, &k, &v);
  }
  if (raised(status))
    return nullptr;
  Ref ofO = toDict(o), ofLse = toDict(lse), ofScores = toDict(scores),
      ofK = toDict(k), ofV = toDict(v);
  if (!ofO || !ofLse || !ofScores || !ofK || !ofV)
    return nullptr;
  return PyTuple_Pack(5, ofO.get(), ofLse.get(), ofScores.get(), ofK.get(),
                      ofV.get());
}

static PyMethodDef bundleMethods[] = {
    {"check_outputs", checkOutputs, METH_VARARGS,
     "check_outputs(specs, pointers, threads): how o, lse, scores, k and v "
     "compare with the reference."},
    {"compute_reference", computeReference, METH_VARARGS,
     "compute_reference(specs, pointers, threads)"},
    {nullptr, nullptr, 0, nullptr}};
static PyGetSetDef bundleMembers[] = {
    {"manifest", getManifest, nullptr, "The manifest.json.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

static FlashCoreDevice deviceOf(PyObject *self) {
  return Boxed<Device>::get(self).handle.get();
}

static PyObject *wrapDevice(FlashCoreDevice device) {
  return Boxed<Device>::create(
             Device{Owned<FlashCoreDevice, flashcoreDeviceDestroy>(device)})
      .release();
}

static PyObject *openCuda(PyObject *, PyObject *ordinalObject) {
  long ordinal = PyLong_AsLong(ordinalObject);
  if (ordinal == -1 && PyErr_Occurred())
    return nullptr;
  FlashCoreDevice device = {nullptr};
  FlashCoreStatus status;
  {
    WithoutGil withoutGil;
    status = flashcoreDeviceCreateCuda(static_cast<int>(ordinal), &device);
  }
  return raised(status) ? nullptr : wrapDevice(device);
}

static PyObject *openEmulator(PyObject *, PyObject *options) {
  const char *text = textOf(options);
  FlashCoreDevice device = {nullptr};
  if (!text || raised(flashcoreDeviceCreateEmulator(text, &device)))
    return nullptr;
  return wrapDevice(device);
}

static PyObject *wrapModule(PyObject *device, FlashCoreModule module) {
  return Boxed<Module>::create(
             Module{Ref::share(device),
                    Owned<FlashCoreModule, flashcoreModuleDestroy>(module)})
      .release();
}

static PyObject *loadModule(PyObject *self, PyObject *bundleObject) {
  auto *bundle = Boxed<Bundle>::cast(bundleObject);
  if (!bundle)
    return nullptr;
  FlashCoreModule module = {nullptr};
  FlashCoreStatus status;
  {
    WithoutGil withoutGil;
    status = flashcoreModuleLoad(deviceOf(self), bundle->handle.get(), &module);
  }
  return raised(status) ? nullptr : wrapModule(self, module);
}

static PyObject *runsBundle(PyObject *self, PyObject *bundleObject) {
  auto *bundle = Boxed<Bundle>::cast(bundleObject);
  if (!bundle)
    return nullptr;
  return PyBool_FromLong(
      flashcoreDeviceRuns(deviceOf(self), bundle->handle.get()));
}

/// Reads three sizes: (x, y, z).
static bool readSizes(PyObject *tuple, int64_t sizes[3]) {
  long long x = 0, y = 0, z = 0;
  if (!PyArg_ParseTuple(tuple, "LLL", &x, &y, &z))
    return false;
  sizes[0] = x, sizes[1] = y, sizes[2] = z;
  return true;
}

static PyObject *loadPtx(PyObject *self, PyObject *arguments) {
  const char *ptx = nullptr, *kernel = nullptr;
  PyObject *blockObject = nullptr;
  long long sharedBytes = 0;
  int64_t block[3];
  if (!PyArg_ParseTuple(arguments, "ssO!L", &ptx, &kernel, &PyTuple_Type,
                        &blockObject, &sharedBytes) ||
      !readSizes(blockObject, block))
    return nullptr;
  FlashCoreModule module = {nullptr};
  FlashCoreStatus status;
  {
    WithoutGil withoutGil;
    status = flashcoreModuleLoadPtx(deviceOf(self), ptx, kernel, block,
                                    sharedBytes, &module);
  }
  return raised(status) ? nullptr : wrapModule(self, module);
}

static PyObject *allocate(PyObject *self, PyObject *bytesObject) {
  uint64_t pointer = 0;
  long long bytes = PyLong_AsLongLong(bytesObject);
  if (PyErr_Occurred() ||
      raised(flashcoreDeviceAllocate(deviceOf(self), bytes, nullptr, &pointer)))
    return nullptr;
  return PyLong_FromUnsignedLongLong(pointer);
}

static PyObject *freeMemory(PyObject *self, PyObject *pointerObject) {
  uint64_t pointer = PyLong_AsUnsignedLongLong(pointerObject);
  if (PyErr_Occurred() || raised(flashcoreDeviceFree(deviceOf(self), pointer)))
    return nullptr;
  Py_RETURN_NONE;
}

static PyObject *copyToDevice(PyObject *self, PyObject *arguments) {
  unsigned long long to = 0;
  PyObject *data = nullptr;
  char *from = nullptr;
  Py_ssize_t bytes = 0;
  if (!PyArg_ParseTuple(arguments, "KS", &to, &data) ||
      PyBytes_AsStringAndSize(data, &from, &bytes))
    return nullptr;
  FlashCoreStatus status;
  {
    WithoutGil withoutGil; // the caller holds the bytes
    status = flashcoreDeviceCopyToDevice(deviceOf(self), to, from, bytes);
  }
  if (raised(status))
    return nullptr;
  Py_RETURN_NONE;
}

static PyObject *copyToHost(PyObject *self, PyObject *arguments) {
  unsigned long long from = 0;
  Py_ssize_t bytes = 0;
  if (!PyArg_ParseTuple(arguments, "Kn", &from, &bytes))
    return nullptr;
  Ref data(PyBytes_FromStringAndSize(nullptr, bytes));
  if (!data)
    return nullptr;
  FlashCoreStatus status;
  {
    WithoutGil withoutGil;
    status = flashcoreDeviceCopyToHost(
        deviceOf(self), PyBytes_AsString(data.get()), from, bytes);
  }
  return raised(status) ? nullptr : data.release();
}

static PyObject *synchronize(PyObject *self, PyObject *streamObject) {
  size_t stream = PyLong_AsSize_t(streamObject);
  if (PyErr_Occurred())
    return nullptr;
  FlashCoreStatus status;
  {
    WithoutGil withoutGil;
    status = flashcoreDeviceSynchronizeStream(deviceOf(self),
                                              reinterpret_cast<void *>(stream));
  }
  if (raised(status))
    return nullptr;
  Py_RETURN_NONE;
}

static PyMethodDef deviceMethods[] = {
    {"runs", runsBundle, METH_O,
     "Whether it runs the code of a bundle and has room for its kernels."},
    {"load", loadModule, METH_O, "Loads a bundle."},
    {"load_ptx", loadPtx, METH_VARARGS,
     "load_ptx(ptx, kernel, block, shared): a module of one kernel."},
    {"allocate", allocate, METH_O, "allocate(bytes): a pointer."},
    {"free", freeMemory, METH_O, "free(pointer)"},
    {"copy_to_device", copyToDevice, METH_VARARGS,
     "copy_to_device(pointer, data)"},
    {"copy_to_host", copyToHost, METH_VARARGS,
     "copy_to_host(pointer, bytes): the data."},
    {"synchronize", synchronize, METH_O,
     "synchronize(stream): waits for its work; 0 is the device's own."},
    {nullptr, nullptr, 0, nullptr}};

template <const char *(*get)(FlashCoreDevice)>
static PyObject *getDeviceText(PyObject *self, void *) {
  return toText(get(deviceOf(self))).release();
}
static PyObject *getMultiprocessors(PyObject *self, void *) {
  return PyLong_FromLongLong(flashcoreDeviceGetMultiprocessors(deviceOf(self)));
}

static PyObject *getSharedMemory(PyObject *self, void *) {
  return PyLong_FromLongLong(
      flashcoreDeviceGetSharedMemoryPerBlock(deviceOf(self)));
}

static PyGetSetDef deviceMembers[] = {
    {"kind", getDeviceText<flashcoreDeviceGetKind>, nullptr,
     "'cuda' or 'emulator'.", nullptr},
    {"name", getDeviceText<flashcoreDeviceGetName>, nullptr, "'NVIDIA H100'.",
     nullptr},
    {"chip", getDeviceText<flashcoreDeviceGetChip>, nullptr, "'sm_90'.",
     nullptr},
    {"multiprocessors", getMultiprocessors, nullptr, "Their number.", nullptr},
    {"shared_memory_per_block", getSharedMemory, nullptr,
     "Bytes that a block may have.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

static PyObject *makePlan(PyObject *self, PyObject *specsObject) {
  std::vector<TensorSpec> specs;
  FlashCorePlan handle = {nullptr};
  if (!readSpecs(specsObject, specs))
    return nullptr;
  std::vector<FlashCoreTensor> tensors = toTensors(specs);
  if (raised(flashcorePlanCreate(Boxed<Module>::get(self).handle.get(),
                                 tensors.data(), tensors.size(), &handle)))
    return nullptr;
  Plan plan{Ref::share(self),
            Owned<FlashCorePlan, flashcorePlanDestroy>(handle),
            std::move(specs), flashcorePlanGetWorkspaceBytes(handle)};
  return Boxed<Plan>::create(std::move(plan)).release();
}

template <const char *(*get)(FlashCoreModule)>
static PyObject *getModuleText(PyObject *self, void *) {
  return toText(get(Boxed<Module>::get(self).handle.get())).release();
}
/// A tuple (name, registers, local bytes, shared bytes) a kernel.
static PyObject *getKernels(PyObject *self, void *) {
  FlashCoreModule module = Boxed<Module>::get(self).handle.get();
  auto count = static_cast<Py_ssize_t>(flashcoreModuleGetNumKernels(module));
  Ref kernels(PyTuple_New(count));
  for (Py_ssize_t i = 0; kernels && i < count; ++i) {
    auto number = static_cast<size_t>(i);
    PyObject *kernel =
        Py_BuildValue("(sLLL)", flashcoreModuleGetKernelName(module, number),
                      static_cast<long long>(
                          flashcoreModuleGetKernelRegisters(module, number)),
                      static_cast<long long>(
                          flashcoreModuleGetKernelLocalBytes(module, number)),
                      static_cast<long long>(
                          flashcoreModuleGetKernelSharedBytes(module, number)));
    if (!kernel || PyTuple_SetItem(kernels.get(), i, kernel))
      return nullptr;
  }
  return kernels.release();
}
static PyObject *getDevice(PyObject *self, void *) {
  return Ref(Boxed<Module>::get(self).device).release();
}

static PyObject *launchKernel(PyObject *self, PyObject *arguments) {
  Py_ssize_t kernel = 0;
  PyObject *gridObject = nullptr, *valuesObject = nullptr;
  unsigned long long stream = 0;
  int64_t grid[3];
  std::vector<uint64_t> values;
  if (!PyArg_ParseTuple(arguments, "nO!O!K", &kernel, &PyTuple_Type,
                        &gridObject, &PyTuple_Type, &valuesObject, &stream) ||
      !readSizes(gridObject, grid) ||
      !readPointers(valuesObject,
                    static_cast<size_t>(PyTuple_Size(valuesObject)), values))
    return nullptr;
  FlashCoreStatus status;
  {
    WithoutGil withoutGil;
    status = flashcoreModuleLaunch(
        Boxed<Module>::get(self).handle.get(), static_cast<size_t>(kernel),
        grid, values.data(), values.size(), reinterpret_cast<void *>(stream));
  }
  if (raised(status))
    return nullptr;
  Py_RETURN_NONE;
}

static PyMethodDef moduleMethods[] = {
    {"launch", launchKernel, METH_VARARGS,
     "launch(kernel, grid, arguments, stream): starts kernel number `kernel`."},
    {"plan", makePlan, METH_O, "plan(specs): a call with sizes and strides."},
    {nullptr, nullptr, 0, nullptr}};
static PyGetSetDef moduleMembers[] = {
    {"chip", getModuleText<flashcoreModuleGetChip>, nullptr,
     "What the code was compiled for.", nullptr},
    {"code", getModuleText<flashcoreModuleGetCode>, nullptr,
     "'cubin sm_89' or 'PTX sm_90, cached'.", nullptr},
    {"device", getDevice, nullptr, "Where it is loaded.", nullptr},
    {"kernels", getKernels, nullptr,
     "Of each kernel its name, registers, and bytes of local and shared "
     "memory; registers and local memory are 0 on the emulator.",
     nullptr},
    {"warning", getModuleText<flashcoreModuleGetWarning>, nullptr,
     "Why it is not the variant that is best on the device; '' if it is.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

static PyObject *runPlanOnHost(PyObject *self, PyObject *pointersObject) {
  Plan &plan = Boxed<Plan>::get(self);
  std::vector<uint64_t> pointers;
  if (!readPointers(pointersObject, plan.specs.size(), pointers))
    return nullptr;
  FlashCoreStatus status;
  {
    WithoutGil withoutGil;
    status = runOnHost(plan, pointers);
  }
  if (raised(status))
    return nullptr;
  Py_RETURN_NONE;
}

static PyObject *launchPlan(PyObject *self, PyObject *arguments) {
  Plan &plan = Boxed<Plan>::get(self);
  PyObject *pointersObject = nullptr;
  unsigned long long workspace = 0, stream = 0;
  std::vector<uint64_t> pointers;
  if (!PyArg_ParseTuple(arguments, "OKK", &pointersObject, &workspace,
                        &stream) ||
      !readPointers(pointersObject, plan.specs.size(), pointers) ||
      raised(flashcorePlanLaunch(plan.handle.get(), pointers.data(), workspace,
                                 reinterpret_cast<void *>(stream))))
    return nullptr;
  Py_RETURN_NONE;
}

static PyMethodDef planMethods[] = {
    {"run_on_host", runPlanOnHost, METH_O,
     "run_on_host(pointers): copies there, runs, waits, and copies back."},
    {"launch", launchPlan, METH_VARARGS,
     "launch(pointers, workspace, stream): starts the kernels."},
    {nullptr, nullptr, 0, nullptr}};
static PyGetSetDef planMembers[] = {
    {"workspace_bytes",
     [](PyObject *self, void *) {
       return PyLong_FromLongLong(Boxed<Plan>::get(self).workspaceBytes);
     },
     nullptr, "Device memory that a launch writes for itself.", nullptr},
    {"text",
     [](PyObject *self, void *) {
       return toText(flashcorePlanGetText(Boxed<Plan>::get(self).handle.get()))
           .release();
     },
     nullptr, "Words of --shape for the call.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

static PyMethodDef functions[] = {
    {"load_bundle", loadBundle, METH_O, "Reads and checks a bundle."},
    {"open_cuda", openCuda, METH_O, "GPU of this number."},
    {"open_emulator", openEmulator, METH_O,
     "The emulator with options such as 'check=none threads=2'."},
    {nullptr, nullptr, 0, nullptr}};

template <typename T>
static bool add(PyObject *module, const char *fullName, PyMethodDef *methods,
                PyGetSetDef *members, const char *doc) {
  PyType_Slot slots[] = {{Py_tp_dealloc, slot(Boxed<T>::destroy)},
                         {Py_tp_methods, methods},
                         {Py_tp_getset, members},
                         {Py_tp_doc, slot(doc)},
                         {0, nullptr}};
  return addType<T>(module, fullName, slots);
}

bool flashcore::python::addRuntime(PyObject *module) {
  return add<Bundle>(module, "flashcore._core.Bundle", bundleMethods,
                     bundleMembers, "A bundle that was read and checked.") &&
         add<Device>(module, "flashcore._core.Device", deviceMethods,
                     deviceMembers, "A GPU, or the emulator.") &&
         add<Module>(module, "flashcore._core.Module", moduleMethods,
                     moduleMembers, "A bundle's code on a device.") &&
         add<Plan>(module, "flashcore._core.Plan", planMethods, planMembers,
                   "A call with all sizes and strides fixed.") &&
         PyModule_AddFunctions(module, functions) == 0;
}
