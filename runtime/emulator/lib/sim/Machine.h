//===- Machine.h - State of a running grid ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One Machine runs one launch, CTA after CTA, or shares it with the machines of
// other threads (Parallel.h). A warp is a set of groups of
// lanes that stand at the same instruction; the group with the lowest pc runs,
// which makes lanes meet again at the earliest point. CTAs take turns only when
// one cannot finish (spinning on another), so a grid-wide barrier still works.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_SIM_MACHINE_H
#define FLASHCORE_EMULATOR_LIB_SIM_MACHINE_H

#include "../check/Findings.h"
#include "../check/Shadow.h"
#include "../lower/LabelSlice.h"
#include "Handlers.h"
#include "Parallel.h"
#include "flashcore/Emulator/Emulator.h"

#include <array>
#include <bit>
#include <deque>
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
  bool done = false; // the bytes are there already (eager); only rules remain
  uint32_t segment = 0;
  uint32_t group[warpSize];
  uint32_t to[warpSize];
  const uint8_t *from[warpSize];
  uint8_t fromBytes[warpSize];
};

/// Lanes of a warp at one instruction.
struct LaneGroup {
  enum class State : uint8_t { Ready, AtCollective, AtBarrier };
  uint32_t pc = 0;
  uint32_t lanes = 0;
  State state = State::Ready;
  /// Go on although lanes are missing; the finding has been made.
  bool forced = false;
};

struct FrameDelete {
  void operator()(char *p) const {
    ::operator delete[](p, std::align_val_t(64));
  }
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
  /// False: all 32 lanes are neutral, whatever the storage holds.
  std::vector<uint8_t> held;
  std::vector<Origin> origins;
  std::vector<RowDepth> depths;
  /// Of slots whose origin has a depth that varies.
  using LaneDepths = std::array<uint32_t, warpSize>;
  std::unordered_map<uint32_t, LaneDepths> laneDepths;

  void reset(uint32_t numSlots);
  Label *at(uint32_t slot) {
    return reinterpret_cast<Label *>(storage.get()) + size_t(slot) * warpSize;
  }
  const Label *ifHeld(uint32_t slot) {
    return slot != noSlot && held[slot] ? at(slot) : nullptr;
  }
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
  std::unique_ptr<char[], FrameDelete> frame;
  /// Per granule: the lanes that hold a value.
  std::vector<uint32_t> init;
  std::vector<LaneGroup> groups;
  WarpClock clock;
  std::vector<AsyncCopy> copies;
  uint32_t committed[warpSize];
  std::vector<uint8_t> local; // lane after lane
  InitMap localInit;
  LabelFrame labels;
  uint32_t turns = 0;
  uint64_t executed = 0;

  template <typename T> T *reg(uint32_t granule) {
    return reinterpret_cast<T *>(frame.get() +
                                 uint64_t(granule) * granuleBytes);
  }
};

/// One of the 16 barriers of a CTA.
struct CtaBarrier {
  struct Waiter {
    uint32_t warp;
    uint32_t lanes;
    uint32_t pc;
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
  std::unordered_map<uint32_t, VectorClock> joinedCtas;
};

struct Cta {
  uint32_t index = 0;
  uint32_t id[3] = {0, 0, 0};
  std::vector<Warp> warps;
  std::vector<uint8_t> shared;
  SharedShadow shadow;
  /// One for each two bytes of shared memory; empty without the layout check.
  std::vector<Label> labels;
  StoredProducts stored;
  CtaBarrier barriers[16];
  uint32_t liveThreads = 0;
  uint32_t launchedThreads = 0;
  /// Warps that have a lane gone while others run on.
  uint32_t exitedThreads = 0;
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

class Machine {
public:
  Machine(const Program &program, DeviceMemory::Impl &memory,
          const LaunchConfig &config, const LaunchOptions &options);

  Error prepare(const Arguments &arguments);
  /// Runs all CTAs, on several threads if they are asked for and can help.
  void runGrid();
  Report report(double seconds) const;

private:
  enum class Step : uint8_t { Next, Jumped, Blocked };
  enum class Outcome : uint8_t { Done, Progress, Stuck };

  // Launch.cpp.
  Error checkLaunch(const Arguments &arguments) const;
  void placeGlobals();
  void setUpTemplate();
  Error setUp();
  void startCta(Cta &cta, uint32_t index);
  void startWarp(Cta &cta, Warp &warp);
  Outcome runCta(Cta &cta, uint64_t budget);
  Outcome runWarps(Cta &cta, uint64_t budget);
  bool unblock(Cta &cta);
  void reportDeadlock(Cta &cta);
  uint64_t sliceLength(Cta &cta);
  bool stopped() const { return halted; }
  void run(CtaQueue &queue);

  // Parallel.cpp.
  std::string whyInTurn() const;
  void runWorker(CtaQueue &queue, Speculation &shared) noexcept;
  bool runSpeculatively(unsigned threads);
  void addCounters(const Machine &other);
  void claimGlobal(LaneAccess &access, Buffer *const (&buffers)[warpSize],
                   bool isWrite);

  // Interpreter.cpp.
  void runWarp(Warp &warp, uint64_t budget);
  int pickGroup(Warp &warp);
  void mergeGroups(Warp &warp);
  uint32_t meetingPoint(Warp &warp);
  void readClock(Warp &warp, const Inst &inst, uint32_t lanes);
  template <bool Checked, bool Labelled>
  void runGroup(Warp &warp, uint64_t &budget);
  Step executeOther(Warp &warp, const Inst &inst, uint32_t lanes);
  Step branch(Warp &warp, const Inst &inst, uint32_t lanes);
  Step branchTable(Warp &warp, const Inst &inst, uint32_t lanes);
  Step exitLanes(Warp &warp, uint32_t lanes);
  void checkOperands(Warp &warp, const Inst &inst, uint32_t lanes);
  void trace(Warp &warp, const Inst &inst, uint32_t lanes);
  void splitGuarded(Warp &warp, uint32_t lanes);
  LaneGroup &current(Warp &warp) { return warp.groups[active]; }

  // Collectives.cpp.
  Step waitForLanes(Warp &warp, const Inst &inst, uint32_t lanes,
                    uint32_t required);
  Step collective(Warp &warp, const Inst &inst, uint32_t lanes);
  void runCollective(Warp &warp, const Inst &inst, uint32_t lanes,
                     uint32_t members);
  void shuffle(Warp &warp, const Inst &inst, uint32_t lanes, uint32_t members);
  void vote(Warp &warp, const Inst &inst, uint32_t lanes, uint32_t members);
  void match(Warp &warp, const Inst &inst, uint32_t lanes, uint32_t members);
  void redux(Warp &warp, const Inst &inst, uint32_t lanes, uint32_t members);
  Step barrier(Warp &warp, const Inst &inst, uint32_t lanes);
  void arrive(Warp &warp, const Inst &inst, uint32_t lanes, uint32_t id,
              uint32_t count);
  bool completeBarrier(CtaBarrier &barrier);
  void releaseBarrier(CtaBarrier &barrier);
  void tick(Warp &warp);
  void syncLanes(Warp &warp, uint32_t lanes, uint32_t members);
  void setPredicate(Warp &warp, uint32_t granule, uint32_t value,
                    uint32_t lanes);

  // Access.cpp.
  void computeAddresses(Warp &warp, uint32_t granule, bool is64, int64_t offset,
                        uint32_t lanes, LaneAccess &access);
  void loadStore(Warp &warp, const Inst &inst, uint32_t lanes);
  void accessSpace(Warp &warp, const Inst &inst, StateSpace space,
                   LaneAccess &access);
  uint32_t checkAlignment(Warp &warp, const Inst &inst, StateSpace space,
                          const LaneAccess &access);
  template <typename F>
  void rejectOutside(Warp &warp, const Inst &inst, LaneAccess &access,
                     uint32_t bad, F describe);
  void resolveShared(Warp &warp, const Inst &inst, LaneAccess &access,
                     uint8_t *(&hosts)[warpSize]);
  void resolveGlobal(Warp &warp, const Inst &inst, LaneAccess &access,
                     bool isWrite, uint8_t *(&hosts)[warpSize],
                     Buffer *(&buffers)[warpSize]);
  void resolveLocal(Warp &warp, const Inst &inst, LaneAccess &access,
                    bool isWrite, uint8_t *(&hosts)[warpSize]);
  void resolveParam(Warp &warp, const Inst &inst, LaneAccess &access,
                    uint8_t *(&hosts)[warpSize]);
  void moveData(Warp &warp, const Inst &inst, uint32_t lanes,
                uint8_t *const (&hosts)[warpSize], bool isStore);
  void poisonLanes(Warp &warp, const Inst &inst, uint32_t lanes);
  bool splitGeneric(LaneAccess &access, StateSpace &space, LaneAccess &rest);
  void atomic(Warp &warp, const Inst &inst, uint32_t lanes);
  uint64_t applyAtomic(const Inst &inst, StateSpace space, uint64_t old,
                       uint64_t b, uint64_t c);
  void fence(Warp &warp, const Inst &inst);

  // CheckAccess.cpp.
  void checkShared(Warp &warp, const Inst &inst, const LaneAccess &access,
                   bool isWrite, bool asWarp = false);
  void checkSharedLane(Warp &warp, const Inst &inst, unsigned lane,
                       uint64_t address, unsigned bytes, bool isWrite,
                       unsigned owner, bool isAsync);
  void checkGlobal(Warp &warp, const Inst &inst, const LaneAccess &access,
                   Buffer *const (&buffers)[warpSize], bool isWrite);
  void checkGlobalLane(Warp &warp, const Inst &inst, Buffer &buffer,
                       unsigned lane, uint64_t offset, unsigned bytes,
                       bool isWrite);
  void reportUnwritten(Warp &warp, const Inst &inst, StateSpace space,
                       const LaneAccess &access, uint32_t lanes);
  void reportRace(Warp &warp, const Inst &inst, unsigned lane, uint64_t address,
                  unsigned bytes, AccessWord earlier, bool earlierIsWrite,
                  bool isWrite, Buffer *buffer);
  void checkLostStores(Warp &warp, const Inst &inst, StateSpace space,
                       const LaneAccess &access,
                       uint8_t *const (&hosts)[warpSize]);
  void releaseTo(Warp &warp, uint64_t address);
  void acquireFrom(Warp &warp, uint64_t address);

  // Async.cpp.
  void cpAsync(Warp &warp, const Inst &inst, uint32_t lanes);
  AsyncCopy &recordCopy(Warp &warp, const Inst &inst, const LaneAccess &to,
                        uint32_t readable, const uint32_t *sizes,
                        uint8_t *const (&fromHosts)[warpSize]);
  void cpAsyncCommit(Warp &warp, uint32_t lanes);
  void cpAsyncWait(Warp &warp, const Inst &inst, uint32_t lanes);
  void transfer(AsyncCopy &copy, uint32_t lanes);
  void publish(Warp &warp, AsyncCopy &copy, unsigned lane);

  // Matrix.cpp.
  LaneAccess accessMatrixRows(Warp &warp, const Inst &inst, uint32_t granule,
                              uint32_t lanes, bool isWrite,
                              uint8_t *(&hosts)[warpSize]);
  void loadMatrix(Warp &warp, const Inst &inst, uint32_t lanes);
  void storeMatrix(Warp &warp, const Inst &inst, uint32_t lanes);
  void moveMatrix(Warp &warp, const Inst &inst);
  void multiplyMatrices(const Inst &inst, const MmaOperands &operands);
  void mma(Warp &warp, const Inst &inst);

  // CheckLayout.cpp.
  void setUpLabels();
  void propagateLabels(Warp &warp, const Inst &inst, const LabelOp &op,
                       uint32_t lanes);
  void labelAccess(Warp &warp, const Inst &inst, StateSpace space,
                   uint32_t lanes, uint8_t *const (&hosts)[warpSize],
                   bool isStore);
  void labelStoredProducts(Warp &warp, const Inst &inst, uint32_t lanes,
                           uint8_t *const (&hosts)[warpSize]);
  void checkStoredProduct(Warp &warp, const Inst &inst, unsigned lane,
                          Label label, const uint8_t *host);
  void checkStoredElement(Warp &warp, const Inst &inst, unsigned lane,
                          Label label, const uint8_t *host);
  void checkDepth(Warp &warp, const Inst &inst, uint32_t granule);
  void checkLaneDepth(Warp &warp, const Inst &inst, uint32_t slot,
                      unsigned lane);
  void checkOperandDepth(Warp &warp, const Inst &inst, const uint32_t *granules,
                         unsigned count);
  void labelCopy(const AsyncCopy &copy, uint32_t lanes);
  void labelShuffle(Warp &warp, const Inst &inst, uint32_t lanes,
                    const uint8_t (&from)[warpSize]);
  void labelLoadMatrix(Warp &warp, const Inst &inst, const LaneAccess &access);
  void labelStoreMatrix(Warp &warp, const Inst &inst, const LaneAccess &access);
  FragmentLabels fragmentLabels(Warp &warp, const Inst &inst, bool isB);
  void checkFragments(Warp &warp, const Inst &inst);
  bool checkConflicts(Warp &warp, const Inst &inst, const FragmentSummary &a,
                      const FragmentSummary &b);
  void labelProducts(Warp &warp, const Inst &inst, const FragmentSummary &a,
                     const FragmentSummary &b);
  Label accumulate(Warp &warp, const Inst &inst, unsigned reg, unsigned lane,
                   Label before, LabelFrame::Origin origin,
                   const FragmentSummary &a, const FragmentSummary &b);
  std::string describeElement(const Inst &inst, bool isB, unsigned row,
                              unsigned k) const;
  uint32_t slotOf(uint32_t granule) const { return labelPlan.slots[granule]; }
  // SystemCalls.cpp.
  void systemCall(Warp &warp, const Inst &inst, uint32_t lanes);
  const uint8_t *hostBytes(const Warp &warp, unsigned lane, uint64_t address,
                           uint64_t bytes);
  bool readString(const Warp &warp, unsigned lane, uint64_t address,
                  std::string &out);
  bool formatPrintf(const Warp &warp, unsigned lane, uint64_t format,
                    uint64_t arguments, std::string &out, uint32_t &count);

  // Traffic.cpp.
  void countShared(const Inst &inst, const LaneAccess &access);
  void countGlobal(const Inst &inst, const LaneAccess &access, bool isWrite,
                   const LaneAccess *bypass = nullptr);

  // Describe.cpp.
  std::string lineOf(uint32_t pc) const;
  bool isOn(Check check) const { return options.checks & check; }
  Place placeOf(const Warp &warp, const Inst &inst, uint32_t lanes) const;
  Place placeOf(AccessWord access) const;
  std::string sourceOf(const Inst &inst) const;
  std::string nameShared(uint64_t address, uint64_t bytes) const;
  std::string nameGlobal(uint64_t address, uint64_t bytes) const;
  std::string describeOperand(uint32_t granule) const;
  struct Text {
    std::string message, rule;
  };
  /// Records a finding; `describe` gives its Text and runs only if it is new.
  template <typename F>
  void find(FindingKind kind, Warp &warp, const Inst &inst, uint32_t lanes,
            F describe, uint64_t address = 0, unsigned bytes = 0) {
    uint64_t key = FindingSet::key(kind, pcOf(inst));
    if (findings.countAgain(key))
      return;
    Text text = describe();
    Finding finding;
    finding.kind = kind;
    finding.place = placeOf(warp, inst, lanes);
    finding.message = std::move(text.message);
    finding.rule = std::move(text.rule);
    finding.address = address;
    finding.bytes = bytes;
    addFinding(key, std::move(finding));
  }
  void addFinding(uint64_t key, Finding finding);
  uint32_t pcOf(const Inst &inst) const {
    return static_cast<uint32_t>(&inst - program.code.data());
  }
  PcCounters &countersOf(const Inst &inst) { return perPc[pcOf(inst)]; }

  const Program &program;
  DeviceMemory::Impl &memory;
  LaunchConfig config;
  LaunchOptions options;
  const HandlerTable &handlers;
  MmaModel mmaModel;
  std::string mmaModelName;

  std::vector<uint8_t> params;
  std::vector<StorageVar> sharedVars;
  uint64_t sharedSize = 0;
  unsigned numWarps = 0;
  std::vector<char> frameTemplate;
  std::vector<uint32_t> initTemplate;

  std::deque<Cta> resident;
  Cta *cta = nullptr;  // the one that runs
  uint32_t active = 0; // group of the running warp
  uint64_t instructions = 0;
  bool halted = false;
  bool ctaFailed = false;

  SegmentTable segments;
  struct SyncObject {
    std::unordered_map<uint32_t, VectorClock> released;
  };
  std::unordered_map<uint64_t, SyncObject> syncObjects;
  FindingSet findings;
  std::vector<PcCounters> perPc;
  /// Of the layout check; `labelling` is false where it has nothing to follow.
  LabelPlan labelPlan;
  TensorTable tensors;
  bool labelling = false;
  /// See StoredProducts; one word for each element of `tensors`, made by the
  /// first store of a product.
  CellArray<uint32_t> ownProducts;
  uint64_t globalReadBytes = 0, globalWriteBytes = 0;
  /// Per buffer.
  std::vector<GlobalShadow> globalShadows;

  /// Set while this machine is one of several that run CTAs.
  Speculation *speculation = nullptr;
  unsigned threadsUsed = 1;
  std::string threadsNote;
};

/// Calls f(lane) for each lane of a mask.
template <typename F> inline void forEachLane(uint32_t lanes, F f) {
  for (; lanes; lanes &= lanes - 1)
    f(static_cast<unsigned>(std::countr_zero(lanes)));
}

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_SIM_MACHINE_H
