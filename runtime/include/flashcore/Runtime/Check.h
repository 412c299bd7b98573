//===- Check.h - Run a bundle and judge its results -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs a bundle on a device with chosen inputs and compares the outputs with
// the reference. The criterion is FlashAttention's: the largest error is at
// most twice that of the same formula done in the input precision, plus 1e-5. A
// kernel may sum P as rounded to the input type, so lse may be off by the unit
// roundoff of that type more.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_CHECK_H
#define FLASHCORE_RUNTIME_CHECK_H

#include "flashcore/Runtime/TensorSet.h"

namespace flashcore {

/// The largest error of one output and what it is compared with.
struct ErrorReport {
  double error = 0;
  double allowed = 0;
  /// Packed index of the element with the largest error.
  int64_t worst = 0;
  /// Of a whole output: the largest error of the same formula done in the input
  /// precision, and the Euclidean norms of all errors of both.
  double yardstick = 0, norm = 0, yardstickNorm = 0;

  /// False as well when either number is NaN, or the limit is infinite because
  /// the yardstick itself overflowed.
  bool pass() const;
};

struct CheckReport {
  ErrorReport o;
  std::optional<ErrorReport> lse;
  /// The comparison of the stage itself; absent for Stage::All.
  std::optional<ErrorReport> stage;

  bool pass() const;
};

/// Compares the outputs in `set` with the reference for its inputs.
StatusOr<CheckReport> checkOutputs(const TensorSet &set, Stage stage,
                                   unsigned threads = 0);

/// Upload, launch everything, wait, download.
Status runOnce(Device &device, LoadedModule &module, TensorSet &set);

/// Times the problem on as many sets of random inputs, at most 8, as it takes
/// to cover 200 MB, so that the L2 cache does not hold them all.
StatusOr<Timing> timeProblem(Device &device, LoadedModule &module,
                             const Problem &problem, uint64_t seed,
                             const TimingOptions &options);

/// Floating point operations by the formula of the field: 4*B*H*Sq*Sk*D, and
/// half of it when causal with equal lengths. For windows, and for causal with
/// unequal lengths, Sq*Sk becomes the number of pairs that the mask shows.
double attentionFlops(const Problem &problem);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_CHECK_H
