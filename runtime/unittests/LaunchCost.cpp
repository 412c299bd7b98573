//===- LaunchCost.cpp - What a launch of a plan adds ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Launches plans into a driver that does nothing. As a test it checks that a
// launch allocates nothing; by hand, with a number of launches, it prints what
// a launch costs the host.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"
#include "NaiveBundle.h"

#include "capi/Runtime.h"

#include "flashcore/Runtime/Plan.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

using namespace flashcore;
using namespace flashcore::testing;

static size_t numAllocations = 0;

void *operator new(size_t bytes) {
  ++numAllocations;
  if (void *memory = std::malloc(bytes ? bytes : 1))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }

namespace {
constexpr size_t numArguments = 22; // of naiveManifest()
uint64_t received = 0;

/// Reads the arguments, as the driver does, and no more.
cuda::CUresult launchKernel(cuda::CUfunction, unsigned, unsigned, unsigned,
                            unsigned, unsigned, unsigned, unsigned,
                            cuda::CUstream, void **arguments, void **) {
  for (size_t i = 0; i < numArguments; ++i)
    received += *static_cast<const uint64_t *>(arguments[i]);
  return cuda::CUDA_SUCCESS;
}
cuda::CUresult getCurrent(cuda::CUcontext *context) {
  *context = FakeCuda::primaryContext();
  return cuda::CUDA_SUCCESS;
}

cuda::CUresult encodeTensorMap(void *map, cuda::CUtensorMapDataType, uint32_t,
                               void *address, const uint64_t *,
                               const uint64_t *, const uint32_t *,
                               const uint32_t *, cuda::CUtensorMapInterleave,
                               cuda::CUtensorMapSwizzle,
                               cuda::CUtensorMapL2promotion,
                               cuda::CUtensorMapFloatOOBfill) {
  std::memcpy(map, &address, sizeof address);
  return cuda::CUDA_SUCCESS;
}

/// The same kernel with tensor maps in the place of the pointers of q and k.
nlohmann::json mappedManifest() {
  nlohmann::json manifest = naiveManifest();
  for (size_t i : {0, 1})
    manifest["kernels"][0]["arguments"][i] = {{"kind", "tensor_map"},
                                              {"tensor", i ? "k" : "q"},
                                              {"box", {1, 1, 64, 16}},
                                              {"swizzle", 32}};
  setPtx(manifest, ptxFor(manifest));
  return manifest;
}

/// Prints nanoseconds of a launch; false when one allocates.
template <typename Launch>
bool measure(const char *what, size_t count, Launch launch) {
  launch();
  size_t before = numAllocations;
  auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < count; ++i)
    launch();
  std::chrono::duration<double, std::nano> duration =
      std::chrono::steady_clock::now() - start;
  size_t allocations = numAllocations - before;
  std::printf("%-24s %8.1f ns, %zu allocations\n", what,
              duration.count() / static_cast<double>(count),
              allocations / count);
  return allocations == 0;
}
} // namespace

int main(int argc, char **argv) {
  size_t count =
      argc > 1 ? std::max(1ul, std::strtoul(argv[1], nullptr, 10)) : 1000;
  FakeCuda fake;
  fake.parameters.assign(numArguments, 8);
  CudaDriver driver = fake.driver();
  driver.launchKernel = launchKernel;
  driver.ctxGetCurrent = getCurrent;
  driver.tensorMapEncodeTiled = encodeTensorMap;
  FakeCuda::setContext(FakeCuda::primaryContext());

  ScratchDirectory scratch;
  writeBundle(scratch.path(), naiveManifest());
  constexpr int64_t sizes[] = {4, 32, 1024, 16},
                    strides[] = {32 * 1024 * 16, 1024 * 16, 16, 1},
                    lseStrides[] = {32 * 1024, 1024, 1};
  const FlashCoreTensor tensors[] = {{"q", sizes, strides, 4},
                                     {"k", sizes, strides, 4},
                                     {"v", sizes, strides, 4},
                                     {"o", sizes, strides, 4},
                                     {"lse", sizes, lseStrides, 3}};
  // Apart: no two tensors share a byte.
  const uint64_t pointers[] = {0x10000000, 0x20000000, 0x30000000, 0x40000000,
                               0x50000000};
  bool isClean = true;

  uint64_t values[numArguments] = {};
  void *arguments[numArguments];
  for (size_t i = 0; i < numArguments; ++i)
    arguments[i] = &values[i];
  isClean &= measure("the driver alone", count, [&] {
    driver.launchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments,
                        nullptr);
  });

  std::vector<CallTensor> call;
  for (const FlashCoreTensor &tensor : tensors)
    call.push_back({tensor.name,
                    {tensor.sizes, tensor.rank},
                    {tensor.strides, tensor.rank}});
  {
    Bundle bundle = *Bundle::load(scratch.path());
    auto device = std::move(*createCudaDevice(driver, 0, std::nullopt));
    auto module = std::move(*device->load(bundle));
    Plan plan = *Plan::create(*device, *module, bundle, call);
    isClean &=
        measure("Plan::launch", count, [&] { (void)plan.launch(pointers, 0); });
  }

  {
    ScratchDirectory withMaps;
    writeBundle(withMaps.path(), mappedManifest());
    fake.parameters[0] = fake.parameters[1] = 128;
    Bundle bundle = *Bundle::load(withMaps.path());
    auto device = std::move(*createCudaDevice(driver, 0, std::nullopt));
    auto module = std::move(*device->load(bundle));
    Plan plan = *Plan::create(*device, *module, bundle, call);
    isClean &= measure("with two tensor maps", count,
                       [&] { (void)plan.launch(pointers, 0); });
    uint64_t others[] = {0x60000000, 0x70000000, 0x30000000, 0x40000000,
                         0x50000000};
    isClean &= measure("of other pointers", count, [&] {
      others[0] ^= 0x80000000;
      others[1] ^= 0x80000000;
      (void)plan.launch(others, 0);
    });
    fake.parameters.assign(numArguments, 8);
  }

  FlashCoreBundle bundle;
  FlashCoreModule module;
  FlashCorePlan plan;
  FlashCoreDevice device =
      capi::wrapDevice(std::move(*createCudaDevice(driver, 0, std::nullopt)));
  isClean &= flashcoreStatusIsSuccess(
      flashcoreBundleLoad(scratch.path().c_str(), &bundle));
  isClean &=
      flashcoreStatusIsSuccess(flashcoreModuleLoad(device, bundle, &module));
  isClean &=
      flashcoreStatusIsSuccess(flashcorePlanCreate(module, tensors, 5, &plan));
  isClean &= measure("flashcorePlanLaunch", count, [&] {
    flashcoreStatusDestroy(flashcorePlanLaunch(plan, pointers, 0, nullptr));
  });
  flashcorePlanDestroy(plan);
  flashcoreModuleDestroy(module);
  flashcoreBundleDestroy(bundle);
  flashcoreDeviceDestroy(device);
  return isClean && received ? 0 : 1;
}
