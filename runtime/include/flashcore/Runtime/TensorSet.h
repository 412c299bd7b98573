//===- TensorSet.h - The tensors of one run ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All tensors of a problem, on the host and on the device, with the inputs that
// checks and timings use.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_TENSORSET_H
#define FLASHCORE_RUNTIME_TENSORSET_H

#include "flashcore/Runtime/Device.h"
#include "flashcore/Runtime/HostTensor.h"
#include "flashcore/Runtime/InputKind.h"

namespace flashcore {

/// Inputs that isolate one step of the kernel.
enum class Stage {
  All,     ///< nothing isolated
  QK,      ///< V is the identity and scores are small: S = ln(O) + lse
  Softmax, ///< V is the identity: O = P
  PV,      ///< Q and bias are zero: a row of O is the mean of the visible V
};

std::string_view stringify(Stage stage);

/// Checks that `stage` can be run on `problem`.
Status verifyStage(const Problem &problem, Stage stage);

/// The tensors of one run on both sides.
class TensorSet {
public:
  /// Allocates on the host only.
  static StatusOr<TensorSet> create(const Problem &problem);

  /// Fills the inputs for `stage`; a fresh `seed` gives fresh values. Refuses a
  /// kind that changes a tensor which the problem has not.
  Status fillInputs(uint64_t seed, InputKind kind, Stage stage);
  /// Allocates on the device, copies the inputs and poisons the outputs.
  /// Refuses lengths with which kernels would leave the tensors.
  Status upload(Device &device);
  /// Copies the outputs back and checks that they were written, and only they.
  Status download(Device &device);

  /// What the reference computes on. The views point into this set.
  AttentionInputs inputs() const;

  HostTensor &tensor(std::string_view name);
  const HostTensor *findTensor(std::string_view name) const;
  /// After upload to the device.
  StatusOr<std::vector<KernelLaunch>> launches(const Device &device) const;
  const Problem &problem() const { return *source; }

private:
  explicit TensorSet(const Problem &problem) : source(&problem) {}
  Status downloadUpdated(Device &device, size_t number);

  /// The part of a tensor's storage that the device holds: all of it, or all
  /// but the guards where the device finds what they are for.
  std::span<std::byte> deviceBytes(HostTensor &tensor) const;

  const Problem *source;
  /// Bytes before a tensor in its buffer.
  int64_t guardBytes = HostTensor::GuardBytes;
  std::vector<HostTensor> tensors;
  std::vector<DeviceBuffer> buffers;
  std::optional<DeviceBuffer> workspace;
};

/// Draws seqused_k, which the set has, anew for the lengths of cu_seqlens_k:
/// fillInputs drew it for those of its own.
void fillSequsedK(TensorSet &set, uint64_t seed);
/// Makes lists of blocks, which the set has, from the mask and what it reads:
/// consistent ones of normal inputs, else some in which other blocks stand, and
/// rows without any. fillInputs made them for inputs of its own.
void fillBlocks(TensorSet &set, uint64_t seed, InputKind kind);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_TENSORSET_H
