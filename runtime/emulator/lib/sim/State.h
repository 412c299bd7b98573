//===- State.h - What a running grid is made of -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The memory of a device, and the CTAs and warps of a launch with all that the
// checks know of them. A warp is a set of groups of lanes that stand at the
// same instruction. What is done with them is in Machine.h.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_SIM_STATE_H
#define FLASHCORE_EMULATOR_LIB_SIM_STATE_H

#include "../check/Definedness.h"
#include "../check/Layout.h"
#include "../check/Shadow.h"
#include "../lower/LabelSlice.h"
#include "AsyncProxy.h"
#include "flashcore/Emulator/Emulator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <unordered_map>

namespace flashcore::emu {

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

struct Buffer {
  std::string name;
  uint64_t base = 0;
  uint64_t bytes = 0;
  bool live = false;
  bool readOnly = false; // .const
  std::vector<uint8_t> data;
  /// The bytes that hold a defined value.
  InitMap init;
  std::optional<TensorLayout> layout;
};

struct DeviceMemory::Impl {
  std::deque<Buffer> buffers;
  /// Those that were released, longest ago first.
  std::deque<size_t> released;

  /// The buffer whose window holds the address, dead or alive, or null.
  Buffer *owner(uint64_t address);
  /// The live buffer that contains the range, or null.
  Buffer *find(uint64_t address, uint64_t bytes);
  static size_t indexOf(const Buffer &buffer) {
    return static_cast<size_t>((buffer.base - globalWindow) / bufferStride);
  }
  Buffer &create(std::string name, uint64_t bytes);
  /// The same in the window of a buffer that was released long ago.
  Buffer &recreate(std::string name, uint64_t bytes);
};

//===----------------------------------------------------------------------===//
// Warps and CTAs
//===----------------------------------------------------------------------===//

/// Bytes that cp.async will bring, for up to 32 lanes.
struct AsyncCopy {
  uint32_t pc = 0;
  uint32_t lanes = 0; // not completed yet
  uint8_t bytes = 0;
  bool done = false;   // the bytes are there already (eager); only rules remain
  uint32_t number = 0; // among those of the warp, from 1
  uint32_t segment = 0;
  uint32_t group[warpSize];
  uint32_t to[warpSize];
  const uint8_t *from[warpSize];
  uint8_t fromBytes[warpSize];
};

/// A cp.async.commit_group of some lanes: it has their copies up to a number.
struct CopyCommit {
  uint32_t lanes = 0, copies = 0;
};

/// Turns a diverged warp takes before lanes further on get one.
inline constexpr uint32_t fairnessPeriod = 16;

/// Instructions of a turn of a warp.
inline constexpr uint64_t warpTurn = 100'000;

/// Instructions of a warp before it is first asked whether it only waits, and
/// of a CTA before it is asked whether it does the same again and again.
inline constexpr uint64_t firstProbe = 2048, firstCtaProbe = 1 << 18;

/// What a warp that waits for memory reads.
struct SpinRead {
  uint32_t pc = 0;
  unsigned lane = 0;
  StateSpace space = StateSpace::Global;
  uint64_t address = 0;
  unsigned bytes = 0; // 0: nothing
  bool isStrong = false;
  uint64_t value = 0;
};

/// Lanes of a warp at one instruction.
struct LaneGroup {
  enum class State : uint8_t { Ready, AtCollective, AtBarrier, AtWait };
  uint32_t pc = 0;
  uint32_t lanes = 0;
  State state = State::Ready;
  /// Go on although lanes are missing, of which the finding has been made, or
  /// although what a try_wait waits for is not there.
  bool forced = false;

  bool operator==(const LaneGroup &other) const = default;
};

struct FrameDelete {
  void operator()(char *p) const {
    ::operator delete[](p, std::align_val_t(64));
  }
};

/// Which lanes a value is made of, of a register that shfl filled from other
/// lanes (CheckReductions.cpp).
struct LaneReduction {
  /// Lanes of which something is known, and those whose value counts a lane
  /// twice.
  uint32_t known = 0, overlap = 0;
  /// As shfl gave it: not yet put together with the lane's own.
  bool isShuffled = false;
  std::array<uint32_t, warpSize> lanes = {};
};

/// Labels of the registers of a warp, by the slots of a LabelPlan.
struct LabelFrame {
  /// The tiles an accumulator was last multiplied from, and how many products
  /// each of its elements sums; 0 where that is not known, `varying` where
  /// lanes differ, after an exchange.
  static constexpr uint32_t varying = UINT32_MAX;
  struct Origin {
    uint32_t a = 0, b = 0, depth = 0;
  };
  /// What accumulators of one row sum, of those that left since the last mma.
  struct RowDepth {
    Component row = 0;
    unsigned columnDim = 0;
    Origin origin;
  };
  std::unique_ptr<char[], FrameDelete> storage;
  /// 0: all 32 lanes are neutral, whatever the storage holds. Otherwise a
  /// number that no other content of a slot of this warp has had.
  std::vector<uint64_t> stamps;
  uint64_t lastStamp = 0;
  std::vector<Origin> origins;
  std::vector<RowDepth> depths;
  /// Of slots whose origin has a depth that varies.
  using LaneDepths = std::array<uint32_t, warpSize>;
  std::unordered_map<uint32_t, LaneDepths> laneDepths;

  /// What the operands of the last mma were found to be: most A are multiplied
  /// with several B.
  struct Operand {
    std::array<uint64_t, 8> stamps = {};
    unsigned depth = 0, perRegister = 0;
    FragmentSummary summary;
    /// Sums in it were found not to have equally many products.
    bool hasFinding = false;
  };
  Operand a, b;

  std::vector<LaneReduction> reductions;
  /// Of any of them.
  bool hasOverlap = false;

  void reset(const LabelPlan &plan);
  Label *at(uint32_t slot) {
    return reinterpret_cast<Label *>(storage.get()) + size_t(slot) * warpSize;
  }
  const Label *ifHeld(uint32_t slot) {
    return slot != noSlot && stamps[slot] ? at(slot) : nullptr;
  }
  /// Labels or the origin of a slot have changed.
  void hold(uint32_t slot) { stamps[slot] = ++lastStamp; }
  uint32_t depthOf(uint32_t slot, unsigned lane) const {
    uint32_t depth = origins[slot].depth;
    return depth == varying ? laneDepths.at(slot)[lane] : depth;
  }
  /// What `depth(lane)` says of all lanes.
  template <typename F> void setDepths(uint32_t slot, F depth) {
    LaneDepths depths;
    for (unsigned lane = 0; lane < warpSize; ++lane)
      depths[lane] = depth(lane);
    laneDepths[slot] = depths;
    origins[slot].depth = varying;
  }
  /// For writing labels of some lanes.
  Label *write(uint32_t slot);
  void clear(uint32_t slot, uint32_t lanes);
};

struct Warp {
  uint32_t index = 0;
  uint32_t launched = 0, live = 0;
  /// The registers, and behind them as much again for their undefined bits.
  std::unique_ptr<char[], FrameDelete> frame;
  size_t frameBytes = 0;
  /// Per granule that starts a register: the lanes all bits of which are
  /// defined, whatever the shadow holds there.
  std::vector<uint32_t> defined;
  /// Some lane read an undefined bit: the shadow and `origins` hold.
  bool hasUndefined = false;
  /// Per granule, of its undefined lanes.
  std::vector<Origin> origins;
  std::vector<PendingChoice> pendingChoices;
  std::vector<LaneGroup> groups;
  WarpClock clock;
  std::vector<AsyncCopy> copies;
  uint32_t committed[warpSize];
  uint32_t issuedCopies = 0;
  /// Lanes that have arrived at the barrier of the cluster and not waited, in a
  /// phase that is not complete and in one that is.
  uint32_t clusterArrived = 0, clusterDone = 0;
  /// The latest of its cp.async.commit_group, if an mbarrier may hear of
  /// copies.
  std::deque<CopyCommit> commits;
  std::vector<uint8_t> local; // lane after lane
  UndefinedBits localUndefined;
  LabelFrame labels;
  /// By the slots of a WmmaPlan: the number of the wmma.load whose fragment a
  /// register is of, from 1; 0 where that is not known.
  std::vector<uint32_t> wmmaLoads;
  uint32_t turns = 0;
  uint64_t executed = 0;
  /// When to look next whether it only waits for memory (Spin.cpp), what for,
  /// and the number of changes of memory when that was found.
  uint64_t probeAt = 0, probeGap = 0;
  /// It changed something since it was last looked at.
  bool hasActed = false;
  SpinRead waitsAt;
  uint64_t waitsSince = UINT64_MAX;

  bool isReady() const {
    return std::any_of(groups.begin(), groups.end(),
                       [](const LaneGroup &group) {
                         return group.state == LaneGroup::State::Ready;
                       });
  }

  template <typename T> T *reg(uint32_t granule) {
    return reinterpret_cast<T *>(frame.get() +
                                 uint64_t(granule) * granuleBytes);
  }
  template <typename T> T *shadow(uint32_t granule) {
    return reinterpret_cast<T *>(frame.get() + frameBytes +
                                 uint64_t(granule) * granuleBytes);
  }
  /// One lane of a register of 2, 4 or 8 bytes, and of its shadow.
  uint64_t lane(uint32_t granule, unsigned bytes, unsigned lane) const {
    uint64_t value = 0;
    std::memcpy(&value,
                frame.get() + uint64_t(granule) * granuleBytes + lane * bytes,
                bytes);
    return value;
  }
  uint64_t shadowBits(uint32_t granule, unsigned bytes, unsigned lane) const {
    return this->lane(granule +
                          static_cast<uint32_t>(frameBytes / granuleBytes),
                      bytes, lane);
  }
  void setShadow(uint32_t granule, unsigned bytes, unsigned lane,
                 uint64_t bits) {
    std::memcpy(shadow<char>(granule) + lane * bytes, &bits, bytes);
  }
  uint64_t undefinedBits(uint32_t granule, unsigned bytes,
                         unsigned lane) const {
    if (defined[granule] >> lane & 1)
      return 0;
    return hasUndefined ? shadowBits(granule, bytes, lane) : ~uint64_t(0);
  }
};

/// The barrier of the cluster, which is this CTA, among those of the CTA.
inline constexpr unsigned clusterBarrier = 16;

/// What a driver lets dynamic shared memory begin at a multiple of.
inline constexpr uint64_t driverSharedAlign = 1024;

/// One of the 16 barriers of a CTA, or that of the cluster.
struct CtaBarrier {
  struct Waiter {
    uint32_t warp;
    uint32_t lanes;
    uint32_t pc;

    bool operator==(const Waiter &other) const = default;
  };
  bool active = false;
  /// Some warp arrived without all its lanes; that has been reported.
  bool divergent = false;
  uint32_t expected = 0; // explicit count, or 0 for all threads
  uint32_t arrived = 0;
  uint32_t firstPc = 0;
  uint32_t firstWarp = 0;
  uint32_t predicates = 0; // threads whose predicate was true
  uint32_t threads = 0;
  std::vector<Waiter> waiters;
  uint32_t participants = 0; // warps
  VectorClock joined{};
  Knowledge knowledge;

  /// Whether threads that arrive will meet the same.
  bool isLike(const CtaBarrier &other) const {
    return active == other.active && divergent == other.divergent &&
           expected == other.expected && arrived == other.arrived &&
           predicates == other.predicates && threads == other.threads &&
           waiters == other.waiters && participants == other.participants;
  }
};

struct Cta {
  uint32_t index = 0;
  uint32_t id[3] = {0, 0, 0};
  std::vector<Warp> warps;
  std::vector<uint8_t> shared;
  SharedShadow shadow;
  UndefinedBits undefined;
  /// One for each two bytes of shared memory; empty without the layout check.
  std::vector<Label> labels;
  StoredProducts stored;
  CtaBarrier barriers[clusterBarrier + 1];
  /// What the last phase of that of the cluster has to tell who waits for it.
  CtaBarrier clusterDone;
  /// Null unless the program has use for it.
  std::unique_ptr<AsyncState> async;
  /// What was released at addresses of shared memory.
  std::unordered_map<uint64_t, Message> messages;
  uint32_t liveThreads = 0;
  uint32_t launchedThreads = 0;
  /// Warps that have a lane gone while others run on.
  uint32_t exitedThreads = 0;
  /// Instructions so far, and after how many to look next whether it does the
  /// same again and again (Spin.cpp).
  uint64_t executed = 0, probeAt = 0, probeGap = 0;
  /// The number of changes of memory when it was found to, and a barrier on its
  /// way, or any instruction if there is none.
  uint64_t repeatsSince = UINT64_MAX;
  uint32_t repeatsAt = 0;
  /// The last wait for an mbarrier, or read, on this way.
  SpinRead repeatsFor;
  /// Seeded for each CTA, so that nothing depends on who ran before.
  std::mt19937_64 scheduleRandom, asyncRandom;
};

/// An access of up to 32 lanes, resolved to one space.
struct LaneAccess {
  uint32_t lanes = 0;
  unsigned bytes = 0;
  uint64_t address[warpSize];
};

/// Counters of one instruction.
struct PcCounters {
  uint64_t executed = 0;
  uint64_t wavefronts = 0, idealWavefronts = 0;
  uint64_t sectors = 0, idealSectors = 0;
  uint64_t sharedBytes = 0, globalBytes = 0;

  void add(const PcCounters &other) {
    executed += other.executed;
    wavefronts += other.wavefronts;
    idealWavefronts += other.idealWavefronts;
    sectors += other.sectors;
    idealSectors += other.idealSectors;
    sharedBytes += other.sharedBytes;
    globalBytes += other.globalBytes;
  }
};

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_SIM_STATE_H
