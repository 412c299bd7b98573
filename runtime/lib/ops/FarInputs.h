//===- FarInputs.h - Inputs far from normal ones ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_FARINPUTS_H
#define FLASHCORE_RUNTIME_LIB_FARINPUTS_H

#include "flashcore/Runtime/HostTensor.h"

#include <functional>

namespace flashcore {

/// Over the normal values that a bias has.
void maskBias(HostTensor &bias, uint64_t seed);
void hideInPlanes(HostTensor &bias, uint64_t seed);
/// Of ALiBi: those of every second head hide all keys but the nearest. Where
/// each row has a key at distance 0 (`hasOwnKeys`) they go up to the largest
/// f32: where a slope times another distance overflows is up to the kernel.
void steepenSlopes(HostTensor &slopes, uint64_t seed, bool hasOwnKeys);
void fillFarSinks(HostTensor &sinks, uint64_t seed);

/// Scores of InputKind::Large.
class LargeScores {
public:
  /// `isAdded` where something is added to products that `scale` multiplies:
  /// their sums are rounded, and how often depends on the kernel, so that
  /// scores are small enough for a rounding not to matter, or exact.
  LargeScores(uint64_t seed, double scale, bool isAdded);

  /// A bias of f32; Q is 0 then.
  void fillBias(HostTensor &bias) const;
  void fillQueries(HostTensor &q) const;
  /// The columns of K that Q reads; others stay. `numberOf` has the number of
  /// an element's key.
  void fillKeys(HostTensor &k,
                const std::function<int64_t(int64_t)> &numberOf) const;

private:
  /// What a row's largest scores are about.
  struct Row {
    double base;
    /// Whether tiles leap from 1e3 to this, else all are near it.
    bool isLeaping;
    double sign;
  };
  Row rowOf(int64_t head, int64_t query) const;
  /// 0 to 15, as whole tiles of 16, 64, 256 and 1024 keys and single ones have
  /// it; and whether a tile of 64 leaps, of which
  /// there are some in every second tile of 256.
  int levelOf(int64_t key) const;
  bool isLeap(int64_t key) const;

  uint64_t seed;
  double scale;
  bool isRounded;
};

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_FARINPUTS_H
