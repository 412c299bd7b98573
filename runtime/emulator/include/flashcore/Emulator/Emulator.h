//===- Emulator.h - Run and check PTX on a CPU ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The public interface. A launch needs a kernel, memory and arguments:
//
//   Expected<Kernel> kernel = Kernel::load(ptxText, "flash_fwd");
//   DeviceMemory memory;
//   uint64_t q = memory.allocate("Q", bytes);
//   memory.write(q, data, bytes);
//   Arguments args;
//   args.addPointer(q).addValue<int>(512);
//   Expected<Report> report = launch(*kernel, memory, {grid, block}, args);
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_EMULATOR_H
#define FLASHCORE_EMULATOR_EMULATOR_H

#include "flashcore/Emulator/Error.h"
#include "flashcore/Emulator/Report.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace flashcore::emu {

struct Program;
struct PtxModule;

struct LaunchConfig;
struct LaunchOptions;
class Arguments;
class DeviceMemory;

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t(x) * y * z; }
};

/// A parsed, checked and predecoded kernel. Cheap to copy.
class Kernel {
public:
  /// Refuses unknown opcodes, type mismatches and unresolved names, with the
  /// line and column. An empty name takes the only kernel of the module.
  static Expected<Kernel> load(std::string ptx, std::string_view name = {});
  /// The kernels a module defines; to load more than one of them, Module is
  /// faster.
  static Expected<std::vector<std::string>> list(std::string ptx);

  const std::string &name() const;
  /// The sm_NN the module is written for.
  const std::string &target() const;
  size_t numParams() const;
  uint32_t paramBytes(size_t index) const;
  const std::string &paramName(size_t index) const;
  uint64_t staticSharedBytes() const;
  /// The required block size (.reqntid), zeros if there is none.
  Dim3 requiredBlock() const;
  const Program &program() const { return *impl; }

private:
  friend class Module;
  friend Expected<Report> launch(const Kernel &, DeviceMemory &,
                                 const LaunchConfig &, const Arguments &,
                                 const LaunchOptions &);
  std::shared_ptr<const Program> impl;
  std::shared_ptr<const PtxModule> module;
};

/// A parsed module, to load several kernels of. A function that cannot be
/// parsed is an error for the kernels that need it alone. Cheap to copy.
class Module {
public:
  static Expected<Module> parse(std::string ptx);

  /// The kernels it defines, in their order, also those that cannot run.
  std::vector<std::string> kernels() const;
  /// As Kernel::load.
  Expected<Kernel> load(std::string_view name = {}) const;
  /// As a JSON document: the kernels with their parameters, what they use and
  /// why one cannot run, and how flashcore-compile says they are launched
  /// (docs/Emulator.md).
  std::string describe() const;

private:
  std::shared_ptr<const PtxModule> impl;
};

/// Global memory: named buffers that lie far apart. Bytes nobody wrote are
/// poison, and using what was read from them is a finding.
class DeviceMemory {
public:
  DeviceMemory();
  ~DeviceMemory();
  DeviceMemory(DeviceMemory &&) noexcept;
  DeviceMemory &operator=(DeviceMemory &&) noexcept;

  static constexpr uint64_t maxBufferBytes = uint64_t(32) << 30;

  /// A new buffer, aligned as cudaMalloc does; gives its device address, or 0
  /// if it is too big.
  uint64_t allocate(std::string name, uint64_t bytes);
  /// Whether the range is inside one buffer.
  bool contains(uint64_t address, uint64_t bytes = 0) const;
  /// False when the address is no start of a buffer.
  bool release(uint64_t address);
  /// False when the range is not inside one buffer.
  bool write(uint64_t address, const void *data, uint64_t bytes);
  bool read(uint64_t address, void *data, uint64_t bytes) const;
  bool fill(uint64_t address, uint8_t value, uint64_t bytes);
  /// Says that a tensor lies at `address`, so that the layout check can name
  /// its elements; strides count elements, and without them the tensor is dense
  /// and row-major. Replaces what was said of the buffer before. False when the
  /// tensor does not fit into one buffer or two elements share a place.
  bool describe(uint64_t address, unsigned elementBytes,
                std::vector<uint64_t> shape,
                std::vector<uint64_t> strides = {});
  /// Makes the buffer poison again.
  bool poison(uint64_t address);
  /// Number of bytes of the buffer that hold no defined value: they were never
  /// written, or with what itself is undefined.
  uint64_t uninitializedBytes(uint64_t address) const;
  /// Whether all bytes of a range, which lies in one buffer, were written.
  bool isInitialized(uint64_t address, uint64_t bytes) const;

  struct Impl;
  Impl &internals() { return *impl; }

private:
  std::unique_ptr<Impl> impl;
};

/// Kernel arguments in order, as raw bytes.
class Arguments {
public:
  Arguments &addPointer(uint64_t address) { return addValue(address); }
  template <typename T> Arguments &addValue(T value) {
    return addBytes(&value, sizeof value);
  }
  Arguments &addBytes(const void *data, size_t bytes) {
    const uint8_t *begin = static_cast<const uint8_t *>(data);
    values.emplace_back(begin, begin + bytes);
    return *this;
  }
  const std::vector<std::vector<uint8_t>> &list() const { return values; }

private:
  std::vector<std::vector<uint8_t>> values;
};

enum class MmaRounding : uint8_t {
  Auto,  // by the target of the module
  Plain, // f32 fma, one product after the other; fastest
  Sm80,  // steps of 8 products, 24 fraction bits (sm_80, sm_86, sm_89)
  Sm90,  // one step of 16 products, 25 fraction bits (sm_90 and newer)
};
enum class Schedule : uint8_t { Sequential, Skewed, Random };
enum class AsyncMode : uint8_t { Lazy, Eager, Random };
/// Where dynamic shared memory begins behind the static part.
enum class SharedBase : uint8_t {
  Driver,   // at a multiple of 1024, as a driver has it without a static part
  Declared, // at a multiple of what the kernel declares and of nothing more
};

/// More threads than this are refused as a slip of the pen.
inline constexpr unsigned maxThreads = 1024;

/// Shared memory, in bytes, that a CTA may have on the chips of a .target, such
/// as "sm_89".
uint64_t sharedBytesOf(std::string_view target);

struct LaunchOptions {
  unsigned checks = CheckAll;
  bool counters = true;
  MmaRounding mma = MmaRounding::Auto;
  Schedule schedule = Schedule::Sequential;
  uint64_t scheduleSeed = 0;
  /// When a cp.async is carried out: lazy (at the wait) shows missing waits.
  AsyncMode async = AsyncMode::Lazy;
  uint64_t asyncSeed = 0;
  /// Warp instructions of the whole launch; 0 means no limit.
  uint64_t maxInstructions = 4'000'000'000;
  /// Shared memory that a CTA may have; 0: as on the chips of the .target.
  uint64_t maxSharedBytes = 0;
  SharedBase sharedBase = SharedBase::Driver;
  /// Stops once this many different findings are known.
  unsigned maxFindings = 100;
  /// Threads to run CTAs on; 0 means as many as the host has. CTAs that depend
  /// on each other run one after the other on one thread. At most maxThreads.
  unsigned threads = 1;
  /// Prints each warp instruction of CTA 0, warp 0 to stderr.
  bool trace = false;
};

struct LaunchConfig {
  Dim3 grid;
  Dim3 block;
  uint64_t dynamicSharedBytes = 0;
};

/// Runs a grid. An Error means that the launch itself was wrong (argument
/// sizes, block size, shared memory); what the kernel did wrong is in the
/// Report.
Expected<Report> launch(const Kernel &kernel, DeviceMemory &memory,
                        const LaunchConfig &config, const Arguments &arguments,
                        const LaunchOptions &options = {});

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_EMULATOR_H
