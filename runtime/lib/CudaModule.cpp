//===- CudaModule.cpp - A bundle's code on a GPU --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keeps the driver's log in errors, reads what each kernel uses, and opts in to
// the dynamic shared memory past the default of 48 KiB.
//
//===----------------------------------------------------------------------===//

#include "CudaModule.h"

#include "CudaContext.h"
#include "KernelParameters.h"

#include <algorithm>
#include <array>
#include <utility>

using namespace flashcore;
using namespace flashcore::cuda;

namespace {
/// Places for what the driver's assembler says, and the options that name them.
/// The log is the only place where it says which line it rejected, and,
/// verbose, what each kernel takes. The driver writes to them until its linker
/// is gone.
class JitLog {
public:
  unsigned size() const { return static_cast<unsigned>(keys.size()); }
  CUjit_option *options() { return keys.data(); }
  void **arguments() { return values.data(); }

  const char *info() const { return infoText.data(); }
  const char *error() const { return errorText.data(); }

private:
  static void *number(size_t value) { return reinterpret_cast<void *>(value); }

  // A NUL is left at the end.
  std::array<char, 16384> infoText{};
  std::array<char, 8192> errorText{};
  std::array<CUjit_option, 5> keys = {
      CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
      CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
      CU_JIT_LOG_VERBOSE};
  std::array<void *, 5> values = {infoText.data(), number(infoText.size() - 1),
                                  errorText.data(),
                                  number(errorText.size() - 1), number(1)};
};
} // namespace

/// The cubin that the driver's assembler makes of `ptx`.
std::optional<std::string> CudaImage::assemble(const std::string &ptx) {
  CUlinkState state = nullptr;
  JitLog log;
  if (driver.linkCreate(log.size(), log.options(), log.arguments(), &state))
    return std::nullopt;
  void *cubin = nullptr;
  size_t bytes = 0;
  std::optional<std::string> result;
  // The linker does not write to its input. The NUL is a part of it.
  if (driver.linkAddData(state, CU_JIT_INPUT_PTX,
                         const_cast<char *>(ptx.c_str()), ptx.size() + 1,
                         "kernels.ptx", 0, nullptr, nullptr) == CUDA_SUCCESS &&
      driver.linkComplete(state, &cubin, &bytes) == CUDA_SUCCESS)
    result.emplace(static_cast<const char *>(cubin), bytes);
  driver.linkDestroy(state); // with it goes the cubin
  if (result)
    assemblerLog = log.info();
  return result;
}

/// Loads what `cache` holds for `ptx`, or what the linker makes of it. What
/// does not go this way is left to the ordinary one, which explains errors.
bool CudaImage::loadThroughCache(const std::string &ptx,
                                 const CubinCache &cache) {
  if (!cache.isSafe()) {
    codeName += ", cache folder not safe";
    return false;
  }
  CubinCache::Key key = {device.chip, 0, ptx};
  if (driver.driverGetVersion(&key.driverVersion))
    return false;
  std::optional<std::string> cubin = cache.find(key);
  if (cubin && loadImage(*cubin).ok()) {
    codeName += ", cached";
    return true;
  }
  cubin = assemble(ptx);
  // The log of the ordinary way has the same; a cubin is loaded without one.
  std::string log = std::exchange(assemblerLog, {});
  if (!cubin || !loadImage(*cubin).ok())
    return false;
  assemblerLog = std::move(log);
  if (!cache.store(key, *cubin))
    codeName += ", cache not writable";
  return true;
}

CudaImage::~CudaImage() {
  if (!module)
    return;
  CurrentContext current(driver, context); // the last owner may be anywhere
  driver.moduleUnload(module);
}

/// Whether PTX has instructions for which ptxas wants to know that it sees the
/// whole program. The linker makes code that could be linked with other code:
/// there it ignores setmaxnreg and lets each wgmma wait for the one before.
static bool isWholeProgram(const std::string &ptx) {
  return ptx.find("wgmma.") != std::string::npos ||
         ptx.find("setmaxnreg.") != std::string::npos;
}

Status CudaImage::load(const CodeChoice &choice,
                       const std::optional<CubinCache> &cache) {
  codeName = choice.str();
  const std::string &contents = choice.image->contents;
  if (choice.kind == CodeChoice::Kind::PTX) {
    if (isWholeProgram(contents))
      return loadWholeProgram(contents, cache);
    if (cache && loadThroughCache(contents, *cache))
      return Status::success();
  }
  return loadImage(contents);
}

/// The remark with which ptxas gives up what makes a kernel fast, for which the
/// compiler refuses it, too; "" without.
static std::string findRemark(const std::string &log) {
  size_t remark = log.find("(C75");
  return remark == std::string::npos
             ? std::string()
             : log.substr(remark, log.find('\n', remark) - remark);
}

/// The driver keeps what it assembled here in a cache of its own, and gives no
/// cubin for ours. Code that it takes from there has no log, so a remark is
/// kept in the place of the cubin, for the next process to find.
Status CudaImage::loadWholeProgram(const std::string &ptx,
                                   const std::optional<CubinCache> &cache) {
  CubinCache::Key key = {device.chip, 0, ptx + "\n// refused for a remark"};
  bool isKept = cache && cache->isSafe() &&
                driver.driverGetVersion(&key.driverVersion) == CUDA_SUCCESS;
  std::string remark = isKept ? cache->find(key).value_or("") : "";
  if (remark.empty()) {
    if (Status status = loadImage(ptx); !status.ok())
      return status;
    remark = findRemark(assemblerLog);
    if (remark.empty())
      return Status::success();
    if (isKept)
      cache->store(key, remark); // else it is found again, by its log
  }
  return Status::error("the driver's assembler makes slow code of these "
                       "kernels: " +
                       remark)
      .note("compile the bundle with a ptxas, so that it holds a cubin");
}

Status CudaImage::loadImage(const std::string &image) {
  JitLog log;
  // std::string ends in a NUL, which PTX needs.
  if (CUresult result = driver.moduleLoadDataEx(
          &module, image.c_str(), log.size(), log.options(), log.arguments())) {
    module = nullptr;
    return loadError(result, log.error());
  }
  assemblerLog = log.info();
  return Status::success();
}

Status CudaImage::loadError(CUresult result, const char *log) const {
  Status status = cudaError(driver, result, "cuModuleLoadDataEx");
  int version = 0;
  if (result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION &&
      driver.driverGetVersion(&version) == CUDA_SUCCESS)
    status.note("the PTX is newer than the driver, which is for CUDA " +
                std::to_string(version / 1000) + "." +
                std::to_string(version % 1000 / 10) +
                ": install a newer driver, or compile for an older PTX "
                "version");
  return status.note(log);
}

Status CudaModule::load(const Bundle &bundle) {
  for (const KernelSpec &kernel : bundle.kernels)
    if (Status status = loadKernel(kernel); !status.ok())
      return status;
  return Status::success();
}

Status CudaModule::loadKernel(const KernelSpec &kernel) {
  CUfunction function = nullptr;
  if (CUresult result = driver.moduleGetFunction(&function, image->handle(),
                                                 kernel.name.c_str()))
    return cudaError(driver, result, "cuModuleGetFunction")
        .note("looking for kernel '" + kernel.name + "'");
  if (Status status = checkArguments(kernel, function); !status.ok())
    return status;
  auto isMap = [](const ArgumentSpec &argument) {
    return argument.kind == ArgumentSpec::Kind::TensorMap;
  };
  if (!driver.tensorMapEncodeTiled &&
      std::any_of(kernel.arguments.begin(), kernel.arguments.end(), isMap))
    return Status::error("kernel '" + kernel.name +
                         "' takes tensor maps, but the CUDA driver has no "
                         "cuTensorMapEncodeTiled to make them")
        .note("the driver is too old: install one for CUDA 12 or newer");
  if (Status status = inspect(kernel, function); !status.ok())
    return status;
  if (CUresult result = driver.funcSetAttribute(
          function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
          static_cast<int>(kernel.dynamicSharedMemory)))
    return cudaError(driver, result,
                     "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)")
        .note("kernel '" + kernel.name + "', " +
              std::to_string(kernel.dynamicSharedMemory) + " bytes");
  functions.push_back(function);
  return Status::success();
}

/// Asks the driver what the code takes: a cubin may differ from the PTX, which
/// was compared when the bundle was read. A driver before CUDA 12.4 cannot say.
Status CudaModule::checkArguments(const KernelSpec &kernel,
                                  CUfunction function) const {
  if (!driver.funcGetParamInfo)
    return Status::success();
  // Far more parameters than fit into the 32 KiB that a launch can pass.
  constexpr size_t maxParameters = 1 << 16;
  std::vector<int64_t> bytes;
  while (bytes.size() < maxParameters) {
    size_t offset = 0, size = 0;
    CUresult result =
        driver.funcGetParamInfo(function, bytes.size(), &offset, &size);
    if (result == CUDA_ERROR_INVALID_VALUE) // past the last one
      break;
    if (result)
      return cudaError(driver, result, "cuFuncGetParamInfo")
          .note("kernel '" + kernel.name + "'");
    bytes.push_back(static_cast<int64_t>(size));
  }
  return verifyParameters(kernel, bytes);
}

/// Reads what the loaded code uses, which for PTX only the driver knows.
Status CudaModule::inspect(const KernelSpec &kernel, CUfunction function) {
  int registers = 0, local = 0, shared = 0, maxThreads = 0;
  const std::pair<CUfunction_attribute, int *> queries[] = {
      {CU_FUNC_ATTRIBUTE_NUM_REGS, &registers},
      {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &local},
      {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &shared},
      {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &maxThreads}};
  for (const auto &[attribute, value] : queries)
    if (CUresult result = driver.funcGetAttribute(value, attribute, function))
      return cudaError(driver, result,
                       "cuFuncGetAttribute(" + std::to_string(attribute) + ")")
          .note("kernel '" + kernel.name + "'");
  int64_t threads = kernel.block[0] * kernel.block[1] * kernel.block[2];
  if (threads > maxThreads)
    return Status::error(
               "kernel '" + kernel.name + "' needs " + std::to_string(threads) +
               " threads per block, but with " + std::to_string(registers) +
               " registers a thread the device allows " +
               std::to_string(maxThreads))
        .note("use fewer warps or smaller tiles");
  // The bundle's own numbers, which Device::load checks, may be absent or for
  // another chip.
  int64_t sharedBytes = kernel.dynamicSharedMemory + shared;
  if (sharedBytes > device.limits.sharedMemoryPerBlock)
    return Status::error("kernel '" + kernel.name + "' needs " +
                         std::to_string(sharedBytes) +
                         " bytes of shared memory per block, but " +
                         device.name + " allows " +
                         std::to_string(device.limits.sharedMemoryPerBlock))
        .note("use fewer stages or a smaller BLOCK_N");
  kernelInfos.push_back({registers, local, shared});
  return Status::success();
}
