//===- Check.h - Run a bundle and judge its results -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs a bundle on a device with chosen inputs and compares the outputs with
// the reference. The criterion is FlashAttention's: the largest error is at
// most twice that of the same formula done in the input precision, plus 1e-5,
// and never less than one step of the output's type at the value expected: with
// inputs of few digits that formula may happen to be exact. lse is a result in
// f32, whatever P is rounded to: it is within 2e-5, relative to 1 + |lse|, or,
// where functions of scores are approximations, as good as O.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_CHECK_H
#define FLASHCORE_RUNTIME_CHECK_H

#include "flashcore/Runtime/TensorSet.h"

#include <functional>

namespace flashcore {

/// The worst element of one output, which is the one that is furthest beyond
/// its limit or comes closest to it, and what it is compared with.
struct ErrorReport {
  double error = 0;
  double allowed = 0;
  /// Packed index of the worst element.
  int64_t worst = 0;
  /// Of a whole output: the largest error of the same formula done in the input
  /// precision, and the Euclidean norms of all errors of both.
  double yardstick = 0, norm = 0, yardstickNorm = 0;
  /// Of the worst element.
  double expected = 0, actual = 0;
  /// Batch, head, query and column of the worst element; lse has column 0.
  std::array<int64_t, 4> at = {};
  /// Elements that are NaN, and that are infinite where the reference is not;
  /// of how many.
  int64_t nans = 0, infinities = 0, elements = 0;

  /// False as well when either number is NaN, or the limit is infinite because
  /// the yardstick itself overflowed.
  bool pass() const;
};

/// An input with values that are not finite. A bias or sink of -infinity hides
/// and does not count.
struct InputReport {
  std::string name;
  int64_t nans = 0, infinities = 0;
  /// The coordinates of the first of them, by the axes of the tensor.
  std::vector<int64_t> first;
};

struct CheckReport {
  ErrorReport o;
  std::optional<ErrorReport> lse;
  /// The comparison of the stage itself; absent for Stage::All.
  std::optional<ErrorReport> stage;
  /// Only those that are not finite.
  std::vector<InputReport> inputs;
  std::optional<ErrorReport> scores = {};
  /// Of the rows of an append, in k and v: copies are exact, and what was
  /// turned is off by one step at most.
  std::optional<ErrorReport> k = {}, v = {};

  bool pass() const;
};

/// What a kernel wrote.
struct AttentionOutputs {
  TensorView o;
  /// Its last axis has size 1.
  std::optional<TensorView> lse;
  /// At the stage of the inputs.
  std::optional<TensorView> scores = {};
};

/// Compares outputs, and the rows that were appended to k and v, with the
/// reference for their inputs. The report says nothing of inputs and stages.
/// Rows of no sequence are not compared.
StatusOr<CheckReport> checkOutputs(const AttentionInputs &inputs,
                                   const AttentionOutputs &outputs,
                                   unsigned threads = 0);

/// Compares the outputs in `set` with the reference for its inputs.
StatusOr<CheckReport> checkOutputs(const TensorSet &set, Stage stage,
                                   unsigned threads = 0);

/// Upload, launch everything, wait, download.
Status runOnce(Device &device, LoadedModule &module, TensorSet &set);

/// Fills the inputs of one of several sets.
using InputFiller = std::function<Status(TensorSet &set, uint64_t number)>;

/// Set i gets the inputs of `seed` + i.
InputFiller randomInputs(uint64_t seed, InputKind kind = InputKind::Normal,
                         Stage stage = Stage::All);

/// Times the problem on as many sets of inputs, at most 8, as it takes to cover
/// 200 MB, so that the L2 cache does not hold them all.
StatusOr<Timing> timeProblem(Device &device, LoadedModule &module,
                             const Problem &problem, const InputFiller &fill,
                             const TimingOptions &options);

/// Floating point operations of the products of a call, of whatever op, and of
/// one with the lengths and lists that a set has; 0 where these are wrong.
double countFlops(const Problem &problem);
double countFlops(const TensorSet &set);

/// Those of an attention by the formula of the field: 4*B*H*Sq*Sk*D, and half
/// of it when causal with equal lengths. For windows, and for causal with
/// unequal lengths, Sq*Sk becomes the number of pairs that the mask shows.
double attentionFlops(const Problem &problem);
/// Of sequences of their lengths, which verifyLengths checked.
double attentionFlops(const AttentionInputs &inputs);
struct AttentionSizes {
  int64_t batch, headsQ, seqlenQ, seqlenK, headDim, headDimV;
};
double attentionFlops(const Mask &mask, const AttentionSizes &sizes);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_CHECK_H
