//===- Session.h - Running bundles one after another ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A Session owns the device and the bundles loaded on it, and performs runs.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUN_SESSION_H
#define FLASHCORE_RUN_SESSION_H

#include "Compile.h"
#include "Inputs.h"

#include "flashcore/Runtime/Check.h"
#include "flashcore/Runtime/EmulatorDevice.h"

#include <functional>

namespace flashcore::run {

/// One line of output: which bundle, with which sizes and inputs.
struct RunRequest {
  std::filesystem::path bundle;
  /// Where the bundle was compiled for this run; its path is then temporary.
  std::optional<Source> source;
  ProblemRequest problem;
  /// Chosen by the strides of the bundle where the user names none.
  std::optional<Layout> layout;
  uint64_t seed = 0;
  InputKind kind = InputKind::Normal;
  Stage stage = Stage::All;
  /// Clips both sequences to one tile of 16 rows.
  bool isTile = false;
  bool check = true;
  bool time = false;
  /// By tensor name: files to read inputs from and to write outputs to.
  FileMap inputFiles;
  FileMap outputFiles;
  NpyOptions npy;

  std::string stageName() const {
    return isTile ? "tile" : std::string(stringify(stage));
  }
};

struct RunResult {
  RunRequest request;
  /// An error stops a run; what was found out before it is still filled in.
  Status status = Status::success();
  std::string problem; ///< "B1 H8/8 S512x512 D64 f16"
  std::string layout;  ///< "bhsd"; the true one
  std::vector<TensorGeometry> tensors;
  std::string code; ///< "cubin sm_89"
  std::string device;
  std::map<std::string, int64_t, std::less<>> dims;
  std::vector<LoadedKernelInfo> kernels;
  std::optional<CheckReport> check;
  std::optional<Timing> timing;
  double flops = 0;
  /// What the user should know, of a run that goes well, too.
  std::vector<std::string> notes;

  bool pass() const { return status.ok() && (!check || check->pass()); }
  /// The kernels ran and did wrong, as opposed to a run that was refused.
  bool failed() const { return status.ok() ? !pass() : status.isKernelFault(); }
  double teraflops() const {
    return timing ? flops / timing->median * 1e-6 : 0;
  }
};

class Session {
public:
  /// Opens the device; called again after a device error, because a GPU that
  /// met one refuses all further work in the same context.
  using DeviceFactory = std::function<StatusOr<std::unique_ptr<Device>>()>;

  explicit Session(DeviceFactory factory) : factory(std::move(factory)) {}

  /// Checks all that can be checked without a device.
  Status validate(const RunRequest &request);
  /// Opens the device now, to find out whether there is one.
  Status open();
  /// The opened device.
  const DeviceInfo &deviceInfo() const { return device->info(); }
  RunResult run(const RunRequest &request);
  /// Of all kernels of the bundle together; the device is open.
  StatusOr<LaunchOverhead> measureOverhead(const RunRequest &request);

private:
  struct LoadedBundle {
    std::vector<Bundle> variants;
    const Bundle *bundle = nullptr; ///< of these, once there is a module
    std::unique_ptr<LoadedModule> module;
  };

  StatusOr<LoadedBundle *> loadModule(const std::filesystem::path &path);
  StatusOr<Problem> createProblem(const Bundle &bundle,
                                  const RunRequest &request);
  /// With the random inputs of seed + `number`, and those of files.
  Status fillInputs(const RunRequest &request, uint64_t number, TensorSet &set,
                    std::vector<std::string> &notes);
  Status runLoaded(LoadedBundle &loaded, const Problem &problem,
                   RunResult &result);
  Status runAndCheck(LoadedBundle &loaded, const Problem &problem,
                     RunResult &result);
  void reset();

  DeviceFactory factory;
  std::unique_ptr<Device> device;
  /// After `device`, because modules must be destroyed before it.
  std::map<std::filesystem::path, LoadedBundle> bundles;
  InputFiles files;
};

/// The device that `--device` names. `auto` is the GPU if there is one, else
/// the emulator. A GPU takes no options of the emulator.
StatusOr<std::unique_ptr<Device>> openDevice(const std::string &kind,
                                             const EmulatorOptions &options);

} // namespace flashcore::run

#endif // FLASHCORE_RUN_SESSION_H
