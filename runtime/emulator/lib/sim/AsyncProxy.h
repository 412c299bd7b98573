//===- AsyncProxy.h - What runs beside the threads of a CTA -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mbarriers, bulk copies and products of warpgroups of one CTA. A CTA has them
// only if its program uses them.
//
// To the order of accesses (Shadow.h), what the async proxy does is done by
// agents: one for each mbarrier (the copies that complete on it), one for each
// warpgroup (what its products read), and one for each thread (what its bulk
// stores read). So are the copies of cp.async, one agent for each thread, in
// programs where an mbarrier may hear of them. They belong to a CTA of their
// own, so that no thread ever knows of them but by waiting: a wait adds an
// entry "this agent, up to this epoch" to what the thread knows, and from there
// on it passes on like any other.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_SIM_ASYNCPROXY_H
#define FLASHCORE_EMULATOR_LIB_SIM_ASYNCPROXY_H

#include "../check/Shadow.h"
#include "flashcore/Emulator/TensorMap.h"

#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

namespace flashcore::emu {

inline constexpr unsigned warpgroupWarps = 4;
/// Arrivals that an mbarrier can count, and bytes either way.
inline constexpr int64_t maxMbarrierCount = (1 << 20) - 1;
inline constexpr unsigned maxWarpgroups = maxWarps / warpgroupWarps;
/// Slots of those who read shared memory asynchronously: the warpgroups, and
/// all bulk stores together.
inline constexpr unsigned bulkReader = maxWarpgroups;
inline constexpr unsigned numAsyncReaders = maxWarpgroups + 1;

/// Bytes after which the pattern of a swizzle begins anew, at a multiple of
/// which a tile has to begin.
inline uint64_t swizzleAtom(TensorSwizzle swizzle) {
  return uint64_t(128) << static_cast<unsigned>(swizzle);
}

/// The agents of a CTA, as warps of `cta`.
struct AsyncAgent {
  static uint32_t cta(uint32_t index) { return index | 1u << 31; }
  static bool isAgent(uint32_t cta) { return cta >> 31; }
  static uint32_t bulkOf(uint32_t warp) { return warp; }
  static uint32_t warpgroup(uint32_t group) { return maxWarps + group; }
  static uint32_t copiesOf(uint32_t warp) {
    return maxWarps + maxWarpgroups + warp;
  }
  /// What bulk stores of a warp write to global memory, which comes later than
  /// their reads of shared memory.
  static uint32_t storesOf(uint32_t warp) {
    return 2 * maxWarps + maxWarpgroups + warp;
  }
  static uint32_t mbarrier(uint32_t number) {
    return 3 * maxWarps + maxWarpgroups + number;
  }
  /// What cp.async writes it writes as its thread would, past no proxy.
  static bool isOfProxy(const Segment &segment) {
    return isAgent(segment.cta) &&
           (segment.warp < copiesOf(0) || segment.warp >= copiesOf(maxWarps));
  }
};

/// What an arrival gives to those who wait.
struct Released {
  ClockPtr known, proxied;
};

struct Mbarrier {
  uint32_t expected = 0; // arrivals of a phase
  int64_t pending = 0;   // that have not come in this one
  int64_t coming = 0;    // of these, on their way behind cp.async
  int64_t bytes = 0;     // expected but not complete
  uint32_t phase = 0;    // phases that are complete
  uint32_t agent = 0;
  /// Who has arrived in this phase: 1 + its number in the CTA, or several.
  static constexpr uint32_t nobody = 0, several = UINT32_MAX;
  uint32_t arriver = nobody;
  AccessWord init;
  Released arriving, complete;

  int64_t missing() const { return pending - coming; }
};

/// A cp.async.mbarrier.arrive: one arrival of each of some lanes, on its way
/// until the copies are done that they had issued.
struct CopyArrival {
  uint64_t mbarrier = 0;
  uint32_t warp = 0, lanes = 0;
  uint32_t copies = 0; // those of the warp that have a number up to this
  /// The ends of phases that the lanes knew of.
  ClockPtr phases;
};

/// Lanes that wait; Launch.cpp's unblock lets them try again when nothing else
/// can run.
struct AsyncWaiter {
  enum class Kind : uint8_t { Mbarrier, Product, Registers };
  Kind kind = Kind::Mbarrier;
  uint32_t warp = 0, pc = 0, lanes = 0;
  /// Of an mbarrier: its address, and the phase that is waited for.
  uint64_t object = 0;
  uint32_t phase = 0;
};

/// A bulk copy of one thread that is in flight.
struct BulkCopy {
  struct Piece { // 16 bytes in shared memory
    uint32_t shared;
    uint8_t *global; // of its first byte inside of the tensor
    uint8_t skip, bytes;
  };
  uint32_t pc = 0, warp = 0;
  unsigned lane = 0;
  bool isLoad = false;
  /// Of a load: the mbarrier that hears of it. Of a store: its group.
  uint64_t mbarrier = 0;
  uint32_t group = 0;
  uint64_t bytes = 0; // that complete_tx counts
  bool done = false;  // the bytes have moved; only rules remain
  /// Of a load: what its writes are while it is in flight.
  AccessWord pending;
  std::vector<Piece> pieces;
};

/// What a bulk copy or a product does to shared memory.
struct ProxyAccess {
  unsigned owner = 0; // the lane that issued it, or severalLanes
  uint64_t address = 0;
  unsigned bytes = 0;
  bool isWrite = false;
  unsigned reader = 0; // slot, of a read
  AccessWord word;
};

/// Bulk groups of one thread: how many were committed, and how many of these
/// have been waited for.
struct BulkGroups {
  uint32_t committed = 0, waited = 0;
};

/// A register that a product has taken until it is waited for.
struct RegisterInFlight {
  uint32_t product = 0; // its number in the warpgroup
  uint32_t pc = 0;
  uint32_t defined = 0; // lanes, when it is given back
  uint8_t columns = 0;  // of an accumulator, in units of 8; 0 for A
};

/// One wgmma, from the first warp that issues it to the last.
struct Product {
  uint32_t pc = 0;
  uint64_t a = 0, b = 0; // descriptors
  bool accumulates = false;
  bool isReadable = true; // its operands are in shared memory
  uint32_t issued = 0;    // warps
  AccessWord reads;       // what it does to shared memory
  uint32_t fragmentA[warpgroupWarps][4][warpSize];
};

struct Warpgroup {
  /// Those not all warps have issued, and the number of the first of them.
  std::deque<Product> products;
  uint32_t executed = 0;
  std::vector<uint32_t> registerChanges; // the setmaxnreg of its warps
};

/// What a warp has to do with products and registers.
struct AsyncWarp {
  uint32_t issued = 0;         // products
  std::deque<uint32_t> groups; // the last product of each, oldest first
  uint32_t waited = 0;         // products
  uint32_t committed = 0;      // products that are in a group
  bool hasFence = false;
  std::unordered_map<uint32_t, RegisterInFlight> inFlight; // by granule
  uint32_t registers = 0;                                  // of a thread
  uint32_t registerChanges = 0;
};

struct AsyncState {
  std::map<uint64_t, Mbarrier> mbarriers; // by address
  uint32_t numMbarriers = 0;              // that ever were
  std::vector<AsyncWaiter> waiters;
  /// How often waits were given up in a row; see Machine::endWaits.
  unsigned giveUps = 0;
  std::deque<BulkCopy> copies;
  std::deque<CopyArrival> arrivals;
  std::vector<BulkGroups> bulk; // by thread
  Warpgroup warpgroups[maxWarpgroups];
  std::vector<AsyncWarp> warps;
  /// Who read a cell of shared memory last; empty until somebody does.
  CellArray<AccessWord> readers[numAsyncReaders];
  int64_t freeRegisters = 0;

  /// Calls f(word) for each access that is remembered.
  template <typename F> void forEachWord(F f) {
    for (CellArray<AccessWord> &cells : readers)
      for (size_t i = 0; i < cells.size(); ++i)
        if (cells[i])
          f(cells[i]);
    for (auto &[address, barrier] : mbarriers)
      if (barrier.init)
        f(barrier.init);
    for (BulkCopy &copy : copies)
      if (copy.pending)
        f(copy.pending);
    for (Warpgroup &group : warpgroups)
      for (Product &product : group.products)
        if (product.reads)
          f(product.reads);
  }
};

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_SIM_ASYNCPROXY_H
