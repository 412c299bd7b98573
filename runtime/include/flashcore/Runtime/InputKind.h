//===- InputKind.h - Kinds of random inputs ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kinds after Spiked are numbers that programs use and a normal distribution
// never draws. Each changes the tensor that can hold them, so an attention
// without it is refused.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_INPUTKIND_H
#define FLASHCORE_RUNTIME_INPUTKIND_H

#include "flashcore/Runtime/Status.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace flashcore {
class Problem;

enum class InputKind : uint8_t {
  Normal, ///< standard normal
  /// Q doubled, K growing along the sequence: the row max keeps moving. One
  /// element of the bias in eight is -infinity.
  Rising,
  /// The same with K shrinking along the sequence, which moves the row max of
  /// kernels that walk from the last key down.
  Falling,
  /// Q and K away from 0: all scores of a row are far above 0 or far below, in
  /// turn.
  Shifted,
  /// The score of key 0 is above all others of a row by more than f32
  /// exponentials have room for, or below them, in turn.
  Spiked,
  /// The bias hides keys with -1e4, -1e9 and the lowest number of its type:
  /// those behind a length, and whole rows. Slopes of ALiBi are so steep, up to
  /// the largest f32, that sums of both overflow.
  Masked,
  /// Row maxima of +-1e3 to +-1e7 that rise and fall from tile to tile, and
  /// weights that depend on their last digits. Scores are exact in f32: those
  /// of a bias of f32 and a Q of 0, else products of few digits.
  Large,
  /// Sinks of 1e30, -1e30, -infinity, the largest f32 and 1e4, and some that
  /// are as large as scores.
  Sinks,
  /// The bias of every second batch entry and head is -infinity in parts of
  /// rows and whole ones; others are finite.
  Infinite,
};

struct InputKindInfo {
  InputKind kind;
  std::string_view name, description;
};

/// In the order of the enum.
inline constexpr std::array<InputKindInfo, 9> InputKinds{{
    {InputKind::Normal, "normal", "standard normal values"},
    {InputKind::Rising, "rising",
     "K grows along the sequence, so that the row maximum keeps moving, and a "
     "bias hides some keys"},
    {InputKind::Falling, "falling", "K shrinks, without hidden keys"},
    {InputKind::Shifted, "shifted", "scores far above and far below 0"},
    {InputKind::Spiked, "spiked",
     "those of key 0 alone, by more than exponentials have room for"},
    {InputKind::Masked, "masked",
     "a bias or ALiBi hides keys and whole rows with finite numbers, -1e4 to "
     "the lowest of the type"},
    {InputKind::Large, "large",
     "row maxima of 1e3 to 1e7, which rise and fall from tile to tile"},
    {InputKind::Sinks, "sinks", "sinks from -infinity to the largest f32"},
    {InputKind::Infinite, "infinite",
     "a bias of -infinity in parts of rows and whole ones"},
}};

std::string_view stringify(InputKind kind);

/// That the problem has what the kind changes.
Status verifyKind(const Problem &problem, InputKind kind);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_INPUTKIND_H
