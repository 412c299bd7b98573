//===- FakeCuda.h - A CUDA driver for tests ------------------- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fills a CudaDriver with functions that record their calls, keep device
// memory in host memory, and fail where a test says so.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_UNITTESTS_FAKECUDA_H
#define FLASHCORE_RUNTIME_UNITTESTS_FAKECUDA_H

#include "flashcore/Runtime/CudaDevice.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace flashcore::testing {

/// The state behind the fake functions. The functions find the instance that
/// lives, of which there may be one at a time.
class FakeCuda {
public:
  FakeCuda();
  FakeCuda(const FakeCuda &) = delete;
  FakeCuda &operator=(const FakeCuda &) = delete;
  ~FakeCuda();

  CudaDriver driver() const;
  /// Opens the fake GPU; the test fails when that fails.
  std::unique_ptr<Device> open();

  /// Makes call number `skip` + 1 to `symbol` and all later ones fail.
  void failAt(const std::string &symbol, cuda::CUresult result, int skip = 0) {
    failures[symbol] = {result, skip};
  }
  /// Makes only the next call to `symbol` fail.
  void failOnce(const std::string &symbol, cuda::CUresult result) {
    failures[symbol] = {result, 0, true};
  }
  int calls(const std::string &symbol) const;

  struct Launch {
    std::string kernel;
    std::array<unsigned, 3> grid, block;
    unsigned sharedBytes;
    std::vector<uint64_t> arguments;
    bool isCaptured;
    cuda::CUstream stream;
  };

  /// A call of cuTensorMapEncodeTiled. The first 8 bytes of the map that it
  /// makes are the address, so that a launch shows it as an argument.
  struct TensorMapCall {
    cuda::CUtensorMapDataType type;
    uint64_t address;
    std::vector<uint64_t> sizes, strides; ///< one stride less
    std::vector<uint32_t> box, elementStrides;
    cuda::CUtensorMapInterleave interleave;
    cuda::CUtensorMapSwizzle swizzle;
    cuda::CUtensorMapL2promotion promotion;
    cuda::CUtensorMapFloatOOBfill fill;
  };

  // What the fake GPU is.
  int deviceCount = 1;
  int driverVersion = 12040;
  std::map<int, int> attributes;
  // What its code is.
  std::string jitLog;
  /// What the assembler says of PTX that is right.
  std::string infoLog;
  /// Bytes of the parameters of every kernel.
  std::vector<size_t> parameters = std::vector<size_t>(8, 8);
  std::map<int, int> functionAttributes;
  /// Milliseconds of successive event pairs; 1 when used up.
  std::vector<float> elapsed;

  /// What the linker makes of PTX, and where the runtime keeps it.
  std::string assembled = "assembled cubin";
  std::optional<std::filesystem::path> cubinCache;

  // What happened.
  std::vector<std::string> log;
  std::vector<Launch> launches;
  std::vector<TensorMapCall> tensorMaps;
  std::vector<std::string> functionNames;
  std::map<int, int> setAttributes;
  std::string image;
  int liveObjects = 0; ///< modules, streams, events, graphs, contexts, memory
  bool isCapturing = false;

  // The context that is current on this thread, and that of the device.
  static cuda::CUcontext context();
  static void setContext(cuda::CUcontext context);
  static cuda::CUcontext primaryContext();

  /// Where the linker writes infoLog.
  char *linkerLog = nullptr;

  /// Records the call and returns its planned failure or CUDA_SUCCESS.
  cuda::CUresult enter(const std::string &symbol);
  static FakeCuda &current();
  /// Held by every fake function, as calls come from several threads.
  std::recursive_mutex mutex;

private:
  struct Failure {
    cuda::CUresult result;
    int skip = 0;
    bool isOnce = false;
  };
  std::map<std::string, Failure> failures;
};

} // namespace flashcore::testing

#endif // FLASHCORE_RUNTIME_UNITTESTS_FAKECUDA_H
