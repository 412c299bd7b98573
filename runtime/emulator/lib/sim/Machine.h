//===- Machine.h - Runs a grid ----------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One Machine runs one launch, CTA after CTA, or shares it with the machines of
// other threads (Parallel.h). Of the groups of lanes of a warp the one with the
// lowest pc runs, which makes lanes meet again at the earliest point. CTAs take
// turns only when one cannot finish (spinning on another), so a grid-wide
// barrier still works.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_SIM_MACHINE_H
#define FLASHCORE_EMULATOR_LIB_SIM_MACHINE_H

#include "../check/Findings.h"
#include "../lower/WmmaSlice.h"
#include "Handlers.h"
#include "Parallel.h"
#include "State.h"

#include <bit>

namespace flashcore::emu {

struct TensorMap;
struct TileRow;
struct WgmmaMatrix;
struct WgmmaOperand;

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
  enum class Outcome : uint8_t { Done, Progress, Waiting, Stuck };

  // Launch.cpp.
  Error checkShared() const;
  Error checkLaunch(const Arguments &arguments) const;
  void placeGlobals();
  void placeDynamicShared();
  // CheckAlignment.cpp.
  struct AlignmentNeed {
    uint64_t align = 0, offset = 0;
    uint32_t pc = 0, cta = 0, warp = 0, lane = 0;
  };
  void noteAlignment(const Warp &warp, const Inst &inst, unsigned lane,
                     uint64_t address, uint64_t align);
  void addNeed(const AlignmentNeed &need);
  void reportAlignment();
  void setUpTemplate();
  Error setUp();
  void startCta(Cta &cta, uint32_t index);
  void startWarp(Cta &cta, Warp &warp);
  Outcome runCta(Cta &cta, uint64_t budget);
  Outcome runWarps(Cta &cta, uint64_t budget);
  bool unblock(Cta &cta);
  void reportDeadlock(Cta &cta);
  uint64_t sliceLength(Cta &cta);
  std::vector<unsigned> orderOfWarps(const Cta &owner) const;
  bool stopped() const { return halted; }
  void run(CtaQueue &queue);

  // Spin.cpp.
  bool isSpinning(Warp &warp);
  bool isWaiting(const Warp &warp) const { return warp.waitsSince == changes; }
  void lookForSpin(Warp &warp);
  bool lookForRepeat(Cta &owner);
  bool isRepeating(Cta &owner);
  bool runRound(Cta &owner, const std::vector<unsigned> &order,
                uint64_t length);
  bool repeats(const Cta &owner) const {
    return owner.repeatsSince == changes - releases;
  }
  void runTurn(Warp &warp, uint64_t length);
  void reportSpins(uint64_t unstarted);
  void reportRepeats(uint64_t unstarted);
  bool isPhaseWait(const SpinRead &read) const;
  std::string describeWait(const SpinRead &read) const;
  void noteSpinRead(const Inst &inst, StateSpace space,
                    const LaneAccess &access,
                    uint8_t *const (&hosts)[warpSize]);
  void noteSpinStore(Warp &warp, const Inst &inst, const LaneAccess &access,
                     uint8_t *const (&hosts)[warpSize]);
  void noteSpinEffect(const Warp &warp, const Inst &inst);

  // Parallel.cpp.
  std::string whyInTurn() const;
  void runWorker(CtaQueue &queue, Speculation &shared) noexcept;
  bool runSpeculatively(unsigned threads);
  void addCounters(const Machine &other);
  void claimGlobal(LaneAccess &access, Buffer *const (&buffers)[warpSize],
                   bool isWrite);

  // Interpreter.cpp.
  bool runWarp(Warp &warp, uint64_t budget);
  int pickGroup(Warp &warp);
  void mergeGroups(Warp &warp);
  uint32_t meetingPoint(Warp &warp);
  void readClock(Warp &warp, const Inst &inst, uint32_t lanes);
  void readActiveMask(Warp &warp, const Inst &inst, uint32_t lanes);
  void defineResults(Warp &warp, const Inst &inst, const uint32_t *ops,
                     uint32_t enabled);
  void followLabels(Warp &warp, const Inst &inst, uint32_t pc,
                    uint32_t enabled);
  template <bool Checked, bool Labelled>
  void runGroup(Warp &warp, uint64_t &budget);
  Step executeOther(Warp &warp, const Inst &inst, uint32_t lanes);
  Step branch(Warp &warp, const Inst &inst, uint32_t lanes);
  Step branchTable(Warp &warp, const Inst &inst, uint32_t lanes);
  Step exitLanes(Warp &warp, uint32_t lanes);
  Step trap(Warp &warp, const Inst &inst, uint32_t lanes);
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
  void wakeAtBarrier(Warp &warp, const CtaBarrier::Waiter &waiter);
  void wakeCollectives(Warp &warp);
  Step clusterArrive(Warp &warp, const Inst &inst, uint32_t lanes);
  Step clusterWait(Warp &warp, const Inst &inst, uint32_t lanes);
  void releaseCluster();
  void noteExited(Warp &warp, const Inst &inst, uint32_t lanes,
                  uint32_t threads, const char *where);
  void releaseBarrier(CtaBarrier &barrier);
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
                    uint8_t *(&hosts)[warpSize]);
  void resolveParam(Warp &warp, const Inst &inst, LaneAccess &access,
                    uint8_t *(&hosts)[warpSize]);
  void moveData(Warp &warp, const Inst &inst, uint32_t lanes,
                uint8_t *const (&hosts)[warpSize], bool isStore);
  void poisonLanes(Warp &warp, const Inst &inst, uint32_t lanes);
  bool splitGeneric(LaneAccess &access, StateSpace &space, LaneAccess &rest);
  void atomic(Warp &warp, const Inst &inst, uint32_t lanes);
  uint64_t applyAtomic(const Inst &inst, StateSpace space, uint64_t old,
                       uint64_t b, uint64_t c);

  // CheckAccess.cpp.
  /// How an instruction uses shared memory: lane by lane, as a warp of which
  /// each lane may get what any of them reads, or by cp.async.
  enum class SharedUse : uint8_t {
    Read,
    Write,
    ReadAsWarp,
    WriteAsWarp,
    Async
  };
  void checkShared(Warp &warp, const Inst &inst, const LaneAccess &access,
                   SharedUse use);
  void checkSharedLane(Warp &warp, const Inst &inst, unsigned lane,
                       uint64_t address, unsigned bytes, bool isWrite,
                       AccessWord mine);
  void checkGlobal(Warp &warp, const Inst &inst, const LaneAccess &access,
                   Buffer *const (&buffers)[warpSize], bool isWrite);
  void checkGlobalLane(Warp &warp, const Inst &inst, Buffer &buffer,
                       unsigned lane, uint64_t offset, unsigned bytes,
                       bool isWrite, AccessWord mine);
  void reportRace(Warp &warp, const Inst &inst, unsigned lane, uint64_t address,
                  unsigned bytes, AccessWord earlier, bool earlierIsWrite,
                  bool isWrite, Buffer *buffer);
  bool isMorallyStrong(AccessWord earlier, const Inst &inst) const;
  bool isGuess(uint32_t pc);
  void checkReadOnly(Warp &warp, const Inst &inst, unsigned lane,
                     uint64_t address, unsigned bytes, AccessWord write);
  bool storesSame(Warp &warp, const Inst &inst, unsigned lane, uint64_t address,
                  const Buffer *buffer) const;
  void checkLostStores(Warp &warp, const Inst &inst, StateSpace space,
                       const LaneAccess &access,
                       uint8_t *const (&hosts)[warpSize]);

  // CheckSync.cpp.
  std::vector<uint32_t> runningCtas() const;
  ClockPtr joined(const ClockPtr &a, const ClockPtr &b);
  ClockPtr knownOf(WarpClock &clock, unsigned lane);
  ClockPtr fencedOf(const WarpClock &clock, unsigned scope, unsigned lane);
  void join(Knowledge &into, const Knowledge &from);
  Knowledge knowledgeOf(const Warp &warp, uint32_t lanes);
  void tick(Warp &warp);
  void syncLanes(Warp &warp, uint32_t lanes, uint32_t members);
  void tellBarrier(CtaBarrier &barrier, const Warp &warp, uint32_t lanes);
  void learnFromBarrier(Warp &warp, const CtaBarrier &barrier);
  void learnFromCluster(Warp &warp, const CtaBarrier &barrier);
  void fence(Warp &warp, const Inst &inst, uint32_t lanes);
  std::unordered_map<uint64_t, Message> &messagesIn(StateSpace space);
  uint64_t messageKey(StateSpace space, uint64_t address) const;
  void release(Warp &warp, const Inst &inst, StateSpace space, unsigned lane,
               uint64_t address);
  void acquire(Warp &warp, const Inst &inst, StateSpace space, unsigned lane,
               uint64_t address);
  void synchronize(Warp &warp, const Inst &inst, StateSpace space,
                   const LaneAccess &access);
  void startSegment(Warp &warp);
  template <typename F> void forEachAccess(F f);
  void collectSegments();

  // Definedness.cpp.
  uint64_t cellOf(uint64_t address) const {
    return address / program.globalGrain;
  }
  void startFollowing(Warp &warp);
  Origin originOf(Warp &warp, const Inst &inst, uint32_t granule,
                  uint32_t undefined);
  Origin originHere(const Warp &warp, const Inst &inst, Origin::Kind kind,
                    uint32_t lanes, uint64_t address, unsigned bytes) const;
  std::string describeOrigin(const Origin &origin) const;
  void reportUndefined(const Place &place, uint32_t pc, const Origin &origin,
                       const std::string &what, uint64_t address = 0,
                       unsigned bytes = 0, uint64_t count = 1);
  void useOperand(Warp &warp, const Inst &inst, uint32_t granule,
                  uint32_t lanes, const char *what);
  void usePrinted(Warp &warp, const Inst &inst, unsigned lane, uint64_t address,
                  unsigned bytes);
  bool followOperands(Warp &warp, const Inst &inst, uint32_t lanes);
  void setDefined(Warp &warp, uint32_t granule, uint32_t lanes,
                  uint32_t undefined, const Origin &origin);
  uint32_t undefinedLanes(const Warp &warp, StateSpace space,
                          const LaneAccess &access,
                          Buffer *const (&buffers)[warpSize]) const;
  Origin readUndefined(Warp &warp, const Inst &inst, StateSpace space,
                       unsigned lane, uint64_t address, unsigned bytes,
                       const Buffer *buffer, uint8_t *bits);
  void storeUndefined(Warp &warp, const Inst &inst, unsigned lane,
                      Buffer &buffer, uint64_t address, unsigned bytes,
                      const uint8_t *bits, const Origin &origin);
  void defineGlobal(Buffer &buffer, uint64_t address, unsigned bytes);
  void reportUndefinedStores();
  void followLoad(Warp &warp, const Inst &inst, StateSpace space,
                  const LaneAccess &access, Buffer *const (&buffers)[warpSize]);
  void followStore(Warp &warp, const Inst &inst, StateSpace space,
                   const LaneAccess &access,
                   Buffer *const (&buffers)[warpSize]);
  void writeDefined(Warp &warp, StateSpace space, unsigned lane,
                    uint64_t address, unsigned bytes, Buffer *buffer);
  void writeUndefined(Warp &warp, const Inst &inst, StateSpace space,
                      unsigned lane, uint64_t address, unsigned bytes,
                      Buffer *buffer, const uint8_t *bits,
                      const Origin &origin);
  void followCopy(Warp &warp, const Inst &inst, const LaneAccess &to,
                  const LaneAccess &from, uint32_t readable,
                  const uint32_t *sizes, Buffer *const (&buffers)[warpSize]);
  void followAtomic(Warp &warp, const Inst &inst, StateSpace space,
                    unsigned lane, uint64_t address, Buffer *buffer);

  // DefinedValues.cpp.
  void followAlu(Warp &warp, const Inst &inst, uint32_t lanes);
  void spoilResults(Warp &warp, const Inst &inst, uint32_t lanes,
                    const Origin &origin);

  // DefinedControl.cpp.
  const ValueChoice &choiceAt(uint32_t pc);
  void useGuard(Warp &warp, const Inst &inst, uint32_t lanes);
  uint32_t nextChoice(const Warp &warp, uint32_t pc) const;
  uint32_t settleChoices(Warp &warp, uint32_t pc, uint32_t lanes);

  // DefinedCollectives.cpp.
  bool areDefined(const Warp &warp, const uint32_t *granules,
                  unsigned count) const;
  Origin firstOrigin(Warp &warp, const Inst &inst, const uint32_t *granules,
                     unsigned count);
  void followShuffle(Warp &warp, const Inst &inst, uint32_t lanes,
                     const uint8_t (&from)[warpSize]);
  void followVote(Warp &warp, const Inst &inst, uint32_t lanes,
                  uint32_t taking);
  void followReduction(Warp &warp, const Inst &inst, uint32_t lanes,
                       uint32_t taking);
  void copyUndefined(const Warp &warp, uint32_t granule,
                     uint32_t (&bits)[warpSize]) const;
  void setUndefined(Warp &warp, uint32_t granule, uint32_t lanes,
                    const uint32_t (&bits)[warpSize], const Origin &origin);
  void followLoadMatrix(Warp &warp, const Inst &inst, uint32_t lanes,
                        const LaneAccess &rows);
  void followStoreMatrix(Warp &warp, const Inst &inst, const LaneAccess &rows);
  void followMoveMatrix(Warp &warp, const Inst &inst, uint32_t lanes);
  void followMma(Warp &warp, const Inst &inst, uint32_t lanes);

  // Async.cpp.
  void cpAsync(Warp &warp, const Inst &inst, uint32_t lanes);
  AsyncCopy &recordCopy(Warp &warp, const Inst &inst, const LaneAccess &to,
                        uint32_t readable, const uint32_t *sizes,
                        uint8_t *const (&fromHosts)[warpSize]);
  void cpAsyncCommit(Warp &warp, uint32_t lanes);
  void cpAsyncWait(Warp &warp, const Inst &inst, uint32_t lanes);
  void learnCopies(Warp &warp, const Inst &inst, uint32_t lanes);
  bool isEager();
  void transfer(AsyncCopy &copy, uint32_t lanes);
  void publish(Warp &warp, const AsyncCopy &copy, uint32_t lanes);
  void complete(Warp &warp, AsyncCopy &copy, uint32_t lanes);
  void endCopies(Warp &warp);
  bool expectArrival(Warp &warp, const Inst &inst, unsigned lane,
                     Mbarrier &barrier, uint64_t address);
  void arriveBehindCopies(Warp &warp, const Inst &inst, uint32_t lanes);
  void completeArrival(const CopyArrival &arrival);
  void dropArrivals(uint64_t mbarrier);

  // Mbarrier.cpp.
  Step asyncProxy(Warp &warp, const Inst &inst, uint32_t lanes);
  Step waitHere(Warp &warp, uint32_t lanes, const AsyncWaiter &waiter);
  void resume(const AsyncWaiter &waiter, bool gaveUp);
  template <typename F> void wake(F isMet);
  void wakeAll(AsyncWaiter::Kind kind);
  void wakeMbarrier(uint64_t address);
  bool endWaits(Cta &owner);
  void reportWaits(Cta &owner);
  std::string describeWait(const AsyncWaiter &waiter) const;
  void elect(Warp &warp, const Inst &inst, uint32_t lanes);
  Step mbarrier(Warp &warp, const Inst &inst, uint32_t lanes);
  void initMbarrier(Warp &warp, const Inst &inst, unsigned lane,
                    uint64_t address, uint32_t count);
  void updateMbarrier(Warp &warp, const Inst &inst, unsigned lane);
  void invalidate(Warp &warp, const Inst &inst, unsigned lane,
                  const Mbarrier &barrier, uint64_t address);
  void checkArrivalPhase(Warp &warp, const Inst &inst, unsigned lane,
                         const Mbarrier &barrier, uint64_t address);
  void arriveAt(Warp &warp, const Inst &inst, unsigned lane, Mbarrier &barrier,
                uint64_t address, uint32_t count);
  void addBytes(Warp &warp, const Inst &inst, unsigned lane, Mbarrier &barrier,
                uint64_t address, int64_t bytes);
  void settle(Mbarrier &barrier, uint64_t address);
  Step waitForPhase(Warp &warp, const Inst &inst, uint32_t lanes);
  Mbarrier *findMbarrier(Warp &warp, const Inst &inst, unsigned lane,
                         uint64_t address);
  bool isOnMbarrier(uint64_t address, uint64_t bytes) const;

  // BulkCopy.cpp.
  void bulkCopy(Warp &warp, const Inst &inst, uint32_t lanes);
  bool isAllowedOutside(Warp &warp, const Inst &inst, const BulkCopy &copy,
                        const TensorMap &map, const int64_t *start);
  bool tensorMapAt(Warp &warp, const Inst &inst, unsigned lane,
                   uint64_t address, TensorMap &map);
  bool copyTile(Warp &warp, const Inst &inst, BulkCopy &copy);
  bool copyPlain(Warp &warp, const Inst &inst, BulkCopy &copy);
  bool addRow(Warp &warp, const Inst &inst, BulkCopy &copy, const TileRow &row);
  uint8_t *bulkGlobal(Warp &warp, const Inst &inst, const BulkCopy &copy,
                      uint64_t address, uint64_t bytes, Buffer *&buffer);
  bool isBulkShared(Warp &warp, const Inst &inst, unsigned lane,
                    uint64_t address, uint64_t bytes, unsigned align);
  void followPiece(Warp &warp, const Inst &inst, const BulkCopy &copy,
                   const BulkCopy::Piece &piece, Buffer *buffer,
                   uint64_t global);
  void issueBulk(Warp &warp, const Inst &inst, BulkCopy copy);
  void limitInFlight();
  void moveBulk(BulkCopy &copy);
  void deliver(uint64_t mbarrier);
  void bulkWait(Warp &warp, const Inst &inst, uint32_t lanes);
  void endBulk(Warp &warp);

  // Warpgroup.cpp.
  void setUpAsync(Cta &owner);
  bool isWarpgroup(Warp &warp, const Inst &inst);
  void wgmma(Warp &warp, const Inst &inst);
  void reportStray(Warp &warp, const Inst &inst, const std::string &what);
  bool joinProduct(Warp &warp, const Inst &inst, Product &product);
  void takeOperands(Warp &warp, const Inst &inst, uint32_t number,
                    Product &product);
  void executeProduct(unsigned group, const Product &product);
  void multiplyProduct(Warp &warp, const Inst &inst, const Product &product,
                       const WgmmaOperand &a, const WgmmaOperand &b);
  void followProduct(Warp &warp, const Inst &inst, const Product &product,
                     const WgmmaOperand &a, const WgmmaOperand &b);
  WgmmaOperand gather(Warp &warp, const Inst &inst, const WgmmaMatrix &matrix);
  bool checkMatrix(Warp &warp, const Inst &inst, const WgmmaMatrix &matrix,
                   unsigned firstRow, unsigned numRows, AccessWord word);
  Step waitForProducts(Warp &warp, const Inst &inst, uint32_t lanes);
  void endProducts(Warp &warp);
  Step setMaxRegisters(Warp &warp, const Inst &inst, uint32_t lanes);
  void checkRegisterChange(Warp &warp, const Inst &inst);

  // CheckFence.cpp.
  void checkFence(Warp &warp, const Inst &inst);

  // CheckAsync.cpp.
  bool ordersAsync() const { return options.checks & (CheckRace | CheckAsync); }
  ClockPtr proxiedOf(const WarpClock &clock, unsigned lane);
  bool isProxied(AccessWord write, const WarpClock &clock, unsigned lane) const;
  void fenceProxy(Warp &warp, uint32_t lanes);
  void giveTo(Released &released, Warp &warp, unsigned lane);
  void notePhases(CopyArrival &arrival, Warp &warp, unsigned lane);
  void giveCopies(Released &released, const CopyArrival &arrival);
  void takeFrom(Warp &warp, uint32_t lanes, const Released &released);
  void learnAgent(Warp &warp, uint32_t lanes, uint32_t agent, uint32_t threads,
                  uint32_t epoch);
  void checkProxyAccess(Warp &warp, const Inst &inst,
                        const ProxyAccess &access);
  void checkAsyncReaders(Warp &warp, const Inst &inst, unsigned lane,
                         uint64_t address, unsigned bytes);
  void checkBesideAsync(Warp &warp, const Inst &inst, const LaneAccess &access,
                        bool isWrite, bool asWarp);
  void reportOverwrite(Warp &warp, const Inst &inst, unsigned lane,
                       uint64_t address, unsigned bytes, AccessWord read);
  void reportNoProxyFence(Warp &warp, const Inst &inst,
                          const ProxyAccess &access, AccessWord write);
  void handToStores(Warp &warp, Buffer &buffer, const BulkCopy &copy,
                    uint64_t address, uint64_t bytes);
  void publishBulk(const BulkCopy &copy, uint32_t epoch, uint32_t agent);
  void takeRegister(Warp &warp, const Inst &inst, uint32_t granule,
                    uint32_t number, bool isAccumulator);
  void giveBack(Warp &warp, const Inst &inst, uint32_t upTo);
  bool touchInFlight(Warp &warp, const Inst &inst, uint32_t lanes);

  // Matrix.cpp.
  LaneAccess accessMatrixRows(Warp &warp, const Inst &inst, uint32_t granule,
                              uint32_t lanes, bool isWrite,
                              uint8_t *(&hosts)[warpSize]);
  /// 8 rows of 8 elements of 16 bits, as they lie in memory.
  using MatrixRows = uint16_t[8][8];
  static void spreadMatrix(const MatrixRows &rows, bool transposed,
                           uint32_t *registers);
  static void gatherMatrix(const uint32_t *registers, bool transposed,
                           MatrixRows &rows);
  void loadMatrix(Warp &warp, const Inst &inst, uint32_t lanes);
  void storeMatrix(Warp &warp, const Inst &inst, uint32_t lanes);
  void moveMatrix(Warp &warp, const Inst &inst, uint32_t lanes);
  void multiplyMatrices(const Inst &inst, const MmaOperands &operands);
  void mma(Warp &warp, const Inst &inst, uint32_t lanes);

  // MoveLabels.cpp, CheckLayout.cpp and CheckStores.cpp.
  void setUpLabels();
  void propagateLabels(Warp &warp, const Inst &inst, const LabelOp &op,
                       uint32_t lanes);
  const Label *blankLabels(Warp &warp, const Inst &inst, uint32_t lanes,
                           Label *scratch);
  void labelAccess(Warp &warp, const Inst &inst, StateSpace space,
                   uint32_t lanes, uint8_t *const (&hosts)[warpSize],
                   bool isStore);
  void labelStoredProducts(Warp &warp, const Inst &inst, uint32_t lanes,
                           uint8_t *const (&hosts)[warpSize]);
  void checkStoredProduct(Warp &warp, const Inst &inst, unsigned lane,
                          Label label, const uint8_t *host);
  void noteMoved(Warp &warp, const Inst &inst, unsigned lane, Label label,
                 const Tensor &tensor, uint32_t element, uint32_t product);
  void checkStoredElement(Warp &warp, const Inst &inst, unsigned lane,
                          Label label, const uint8_t *host);
  void checkStoredBlank(Warp &warp, const Inst &inst, unsigned lane,
                        const uint8_t *host);
  void checkDepth(Warp &warp, const Inst &inst, uint32_t granule);
  void checkLaneDepth(Warp &warp, const Inst &inst, uint32_t slot,
                      unsigned lane);
  bool checkOperandDepth(Warp &warp, const Inst &inst, const uint32_t *granules,
                         unsigned count);
  void labelCopy(const AsyncCopy &copy, uint32_t lanes);
  void labelShuffle(Warp &warp, const Inst &inst, uint32_t lanes,
                    const uint8_t (&from)[warpSize]);
  void labelLoadMatrix(Warp &warp, const Inst &inst, const LaneAccess &access);
  void labelStoreMatrix(Warp &warp, const Inst &inst, const LaneAccess &access);
  const FragmentSummary &summarizeOperand(Warp &warp, const Inst &inst,
                                          const MmaGranules &mma, bool isB);
  void checkFragments(Warp &warp, const Inst &inst);
  void checkProducts(Warp &warp, const Inst &inst, const MmaGranules &mma,
                     const FragmentSummary &a, const FragmentSummary &b);
  std::vector<Label> gatherLabels(const WgmmaMatrix &matrix) const;
  FragmentSummary summarizeGathered(const MmaGranules &mma, bool isB,
                                    const Label *labels) const;
  void checkWarpgroupProduct(unsigned group, const Product &product);
  bool checkConflicts(Warp &warp, const Inst &inst, const MmaGranules &mma,
                      const FragmentSummary &a, const FragmentSummary &b);
  void labelProducts(Warp &warp, const Inst &inst, const MmaGranules &mma,
                     const FragmentSummary &a, const FragmentSummary &b);
  Label accumulate(Warp &warp, const Inst &inst, const MmaGranules &mma,
                   unsigned reg, unsigned lane, Label before,
                   LabelFrame::Origin origin, const FragmentSummary &a,
                   const FragmentSummary &b);
  std::string describeElement(const MmaGranules &mma, bool isB, unsigned row,
                              unsigned k) const;
  // CheckReductions.cpp.
  void followReduction(Warp &warp, const Inst &inst, const LabelOp &op,
                       uint32_t lanes);
  void carryReduction(Warp &warp, const Inst &inst, uint32_t lanes);
  void shuffleReduction(Warp &warp, const Inst &inst, uint32_t lanes,
                        const uint8_t (&from)[warpSize]);
  void checkReduction(Warp &warp, const Inst &inst, uint32_t lanes);
  uint32_t slotOf(uint32_t granule) const { return labelPlan.slots[granule]; }
  // CheckWmma.cpp.
  void followWmma(Warp &warp, uint32_t pc, uint32_t lanes);
  void checkWmma(Warp &warp, const Inst &inst);
  void reportWmma(Warp &warp, const Inst &inst, const WmmaRegisters &operand,
                  uint32_t granule, const WmmaRegisters &load);

  // SystemCalls.cpp.
  void systemCall(Warp &warp, const Inst &inst, uint32_t lanes);
  const uint8_t *hostBytes(const Warp &warp, unsigned lane, uint64_t address,
                           uint64_t bytes);
  bool readString(const Warp &warp, unsigned lane, uint64_t address,
                  std::string &out);
  void print(const std::string &text);
  class PrintfArguments;
  bool formatPrintf(Warp &warp, const Inst &inst, unsigned lane,
                    uint64_t format, uint64_t arguments, std::string &out,
                    uint32_t &count);

  // Traffic.cpp.
  void countShared(const Inst &inst, const LaneAccess &access);
  void countGlobal(const Inst &inst, const LaneAccess &access, bool isWrite,
                   const LaneAccess *bypass = nullptr);

  // Describe.cpp.
  std::string lineOf(uint32_t pc) const;
  bool isOn(Check check) const { return options.checks & check; }
  Place placeOf(const Warp &warp, const Inst &inst, uint32_t lanes) const;
  Place placeOf(AccessWord access) const;
  Place placeOf(uint32_t pc, uint32_t cta, uint32_t warp, unsigned lane) const;
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
    if (isRepeated(kind, key))
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
  /// Told, but no fault.
  bool isNote(FindingKind kind) const {
    return (kind == FindingKind::SameValue && !isOn(CheckSameValue)) ||
           kind == FindingKind::UndeclaredAlignment ||
           kind == FindingKind::ExitedThreads ||
           kind == FindingKind::MovedProducts;
  }
  bool isRepeated(FindingKind kind, uint64_t key) {
    return (isNote(kind) ? notes : findings).countAgain(key);
  }
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
  /// Where dynamic shared memory begins.
  uint64_t dynamicShared = 0;
  AlignmentNeed alignmentNeed;
  unsigned numWarps = 0;
  std::vector<char> frameTemplate;
  std::vector<uint32_t> initTemplate;

  std::deque<Cta> resident;
  Cta *cta = nullptr;    // the one that runs
  uint32_t active = 0;   // group of the running warp
  bool givesWay = false; // it found a phase not complete
  uint64_t instructions = 0;
  bool halted = false;
  bool ctaFailed = false;

  /// Stores and atomics that may have changed memory, and barriers that let
  /// warps go on.
  uint64_t changes = 0;
  /// Barriers among them.
  uint64_t releases = 0;
  /// Set while a warp is looked at that may only wait, or a CTA that may do the
  /// same again and again.
  struct SpinProbe {
    bool hasChanged = false;
    SpinRead lastRead;
    bool isOfCta = false;
    /// The first in the program.
    uint32_t barrierPc = UINT32_MAX;
  };
  std::optional<SpinProbe> spin;
  /// By the pc of a wgmma; see checkFence.
  std::unordered_map<uint32_t, uint32_t> unfenced;
  /// By the pc of a load; see isGuess.
  std::unordered_map<uint32_t, bool> guesses;

  SegmentTable segments;
  /// How many segments there may be before those nobody needs are forgotten.
  size_t segmentLimit = size_t(1) << 20;
  struct {
    ClockPtr a, b, both;
  } lastJoin;
  /// What was released at addresses of global memory.
  std::unordered_map<uint64_t, Message> messages;
  FindingSet findings, notes;
  /// Bytes of printf.
  uint64_t printedText = 0, droppedText = 0;
  std::vector<PcCounters> perPc;
  /// Of the layout check; `labelling` is false where it has nothing to follow.
  LabelPlan labelPlan;
  TensorTable tensors;
  bool labelling = false;
  /// Of its wmma; empty without that check.
  WmmaPlan wmmaPlan;
  /// See StoredProducts; one word for each element of `tensors`, made by the
  /// first store of a product.
  CellArray<uint32_t> ownProducts;
  /// By the cell of global memory (see cellOf).
  std::unordered_map<uint64_t, UndefinedStore> undefinedStores;
  /// By the pc of the branch.
  std::unordered_map<uint32_t, ValueChoice> choices;
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
