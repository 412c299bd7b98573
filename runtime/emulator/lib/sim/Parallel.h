//===- Parallel.h - CTAs on several threads ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CTAs run at the same time on the assumption that none depends on another.
// Before an access to global memory touches a byte, it marks the cells with its
// CTA and looks for the mark of another one. A writer marks first and looks at
// the readers then; a reader does the opposite. All of this is sequentially
// consistent, so of two CTAs in conflict at least one sees the other and gives
// up before the access: host memory is never raced for. Whoever meets a
// conflict, a finding or the instruction limit fails the attempt; memory is
// rolled back, and the CTAs run one after the other, as without threads.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_SIM_PARALLEL_H
#define FLASHCORE_EMULATOR_LIB_SIM_PARALLEL_H

#include "../check/Shadow.h"
#include "flashcore/Emulator/Emulator.h"

#include <atomic>
#include <deque>
#include <mutex>

namespace flashcore::emu {

struct Buffer;

/// Hands the CTAs of a grid out in order, each once.
class CtaQueue {
public:
  explicit CtaQueue(uint64_t total) : total(total) {}
  bool isEmpty() const { return next.load(std::memory_order_relaxed) >= total; }
  uint64_t left() const {
    return isEmpty() ? 0 : total - next.load(std::memory_order_relaxed);
  }
  /// False when all CTAs have been taken.
  bool take(uint32_t &index) {
    uint64_t taken = isEmpty() ? total : next.fetch_add(1);
    index = static_cast<uint32_t>(taken);
    return taken < total;
  }

private:
  const uint64_t total;
  std::atomic<uint64_t> next{0};
};

/// What the threads of one attempt share. Safe to use from all of them.
class Speculation {
public:
  Speculation(DeviceMemory::Impl &memory, uint64_t maxInstructions)
      : memory(memory), maxInstructions(maxInstructions) {}

  /// False when there is no memory for the marks.
  bool prepare(unsigned grain);

  /// Marks bytes as read or written by a CTA; false, and the attempt fails, if
  /// another CTA has written them, or has read what is to be written.
  bool claim(const Buffer &buffer, uint64_t offset, unsigned bytes,
             uint32_t cta, bool isWrite);
  /// Adds to the instructions of all threads; false once the attempt failed.
  bool count(uint64_t instructions);
  void fail() { failed.store(true, std::memory_order_relaxed); }
  bool hasFailed() const { return failed.load(std::memory_order_relaxed); }

  /// Gives all buffers the contents they had before. All threads have ended.
  void rollBack();

private:
  /// The CTA plus one, 0 for none; several readers are one special value.
  struct Cell {
    uint32_t writer, reader;
  };
  struct BufferState {
    CellArray<Cell> cells;
    /// Contents before the first write.
    std::once_flag once;
    bool isSaved = false;
    std::vector<uint8_t> data;
    InitMap init;
  };
  static bool markRead(Cell &cell, uint32_t mark);
  static bool markWritten(Cell &cell, uint32_t mark);

  DeviceMemory::Impl &memory;
  const uint64_t maxInstructions;
  unsigned grainShift = 0;
  std::deque<BufferState> states;
  std::atomic<bool> failed{false};
  std::atomic<uint64_t> instructions{0};
};

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_SIM_PARALLEL_H
