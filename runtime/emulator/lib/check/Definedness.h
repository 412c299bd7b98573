//===- Definedness.h - Which bits hold a value ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Registers and memory start undefined, and what is computed from undefined
// bits is undefined; nothing is said until it matters (docs/EmulatorChecks.md).
// A register has a mask of the lanes that are defined through and through,
// which is all that a kernel without undefined data ever looks at. Beside it,
// in a second half of the frame, lie the undefined bits of the other lanes.
// Shared and local memory have one shadow bit a bit, global memory one a byte.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_CHECK_DEFINEDNESS_H
#define FLASHCORE_EMULATOR_LIB_CHECK_DEFINEDNESS_H

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace flashcore::emu {

/// The widest access of a lane.
inline constexpr unsigned maxAccessBytes = 32;

/// Where undefined data came into being: the load of memory that nobody wrote,
/// or the first use of a register that nothing wrote.
struct Origin {
  enum class Kind : uint8_t { None, Register, Shared, Global, Local };
  /// Of memory; the granule of a register.
  uint64_t address = 0;
  uint32_t pc = 0;
  uint32_t cta = 0;
  uint8_t warp = 0;
  uint8_t lane = 0;
  uint8_t bytes = 0;
  Kind kind = Kind::None;

  explicit operator bool() const { return kind != Kind::None; }
};

/// The undefined bits of the shared memory of a CTA or the local memory of a
/// warp, and where those that were stored came from.
class UndefinedBits {
public:
  void reset(uint64_t bytes) {
    bits.assign(bytes, 0xff);
    origins.clear();
  }
  bool isDefined(uint64_t offset, unsigned bytes) const {
    const uint8_t *at = bits.data() + offset;
    switch (bytes) {
    case 4:
      return read<uint32_t>(at) == 0;
    case 8:
      return read<uint64_t>(at) == 0;
    case 16:
      return (read<uint64_t>(at) | read<uint64_t>(at + 8)) == 0;
    default:
      return std::all_of(at, at + bytes, [](uint8_t b) { return b == 0; });
    }
  }
  const uint8_t *at(uint64_t offset) const { return bits.data() + offset; }
  void define(uint64_t offset, unsigned bytes) {
    uint8_t *at = bits.data() + offset;
    switch (bytes) {
    case 4:
      std::memset(at, 0, 4);
      break;
    case 16:
      std::memset(at, 0, 16);
      break;
    default:
      std::memset(at, 0, bytes);
    }
  }
  void store(uint64_t offset, unsigned bytes, const uint8_t *undefined,
             const Origin &origin);
  /// Of the first undefined byte; none if nobody wrote it.
  Origin originOf(uint64_t offset, unsigned bytes) const;

private:
  template <typename T> static T read(const uint8_t *at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  std::vector<uint8_t> bits;
  /// One for each four bytes; empty until undefined data is stored.
  std::vector<Origin> origins;
};

/// Undefined data that a kernel has stored to a cell of global memory.
struct UndefinedStore {
  Origin origin;
  uint32_t pc = 0;
  uint32_t cta = 0;
  uint8_t warp = 0;
  uint8_t lane = 0;
  /// The kernel has loaded it since; it follows it from there.
  bool wasLoaded = false;
};

/// A branch, or a guarded instruction, that only chooses between values.
struct ValueChoice {
  /// Where the ways meet again; 0 if it does more than that.
  uint32_t join = 0;
  /// The instructions on the way.
  std::vector<uint32_t> writers;
};

/// Lanes on their way from an undefined choice to its join.
struct PendingChoice {
  const ValueChoice *choice = nullptr;
  uint32_t lanes = 0;
  Origin origin;
};

/// How the undefined bits of a result follow from those of the sources.
enum class FollowRule : uint8_t {
  /// One undefined bit makes the whole result undefined.
  All,
  /// The bits from the lowest undefined one on: sums and low products.
  Upward,
  /// All, in each half by itself: pairs of 16 bits.
  Halves,
  /// The instruction moves bits: it moves the undefined ones alike. The sources
  /// that say where to have to be defined.
  Move,
  /// A bit that is the same for all values of the undefined ones is defined.
  Logic,
  /// `not`: bit for bit.
  Same,
  /// cvt, by the types.
  Convert,
  /// selp: the chosen source, or where both agree.
  Select,
  /// setp: what no value of the undefined bits changes is defined.
  Compare,
  /// and, or, xor, not, mov of predicates.
  Predicate,
  /// testp.
  Test,
  /// add.cc and its like: Upward, and the carry.
  Carry,
};

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_CHECK_DEFINEDNESS_H
