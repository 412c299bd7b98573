//===- Spin.cpp - Warps that wait for memory ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A warp that comes back to an instruction in the very state it had there, and
// changed no memory on the way, does the same again until another warp changes
// memory; so does a CTA, all warps and barriers of which are in the state they
// had. When all that can run do so, nothing will ever change: the launch ends
// with who waits where for what. A loop that counts, reads the clock or
// changes memory is never taken for one.
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

#include <algorithm>
#include <map>
#include <utility>

using namespace flashcore::emu;

/// A way round is to take no more instructions than this.
static constexpr unsigned maxWayRound = 2048;

/// The same of a CTA, in turns of all warps, in steps of the only one, and in
/// instructions.
static constexpr unsigned maxRounds = 1024, maxSteps = 16384;
static constexpr uint64_t maxRoundInstructions = 8 << 20;

namespace {
/// All that decides what a warp does next, but for memory.
struct WarpState {
  std::vector<char> frame;
  std::vector<uint32_t> defined;
  std::vector<LaneGroup> groups;
  uint32_t turn;

  WarpState(const Warp &warp, size_t frameBytes)
      : frame(warp.frame.get(), warp.frame.get() + frameBytes),
        defined(warp.defined), groups(warp.groups),
        turn(warp.turns % fairnessPeriod) {}

  bool operator==(const WarpState &other) const = default;
  bool mayBe(const Warp &warp) const {
    return warp.turns % fairnessPeriod == turn && warp.groups == groups;
  }
  bool isOf(const Warp &warp) const {
    return mayBe(warp) && warp.defined == defined &&
           std::equal(frame.begin(), frame.end(), warp.frame.get());
  }
};

/// The same of a CTA.
struct CtaState {
  std::vector<WarpState> warps;
  std::vector<CtaBarrier> barriers;

  CtaState(const Cta &cta, size_t frameBytes)
      : barriers(std::begin(cta.barriers), std::end(cta.barriers)) {
    for (const Warp &warp : cta.warps)
      warps.emplace_back(warp, frameBytes);
  }
  bool isOf(const Cta &cta) const {
    auto isWarp = [](const WarpState &state, const Warp &warp) {
      return state.isOf(warp);
    };
    auto isBarrier = [](const CtaBarrier &a, const CtaBarrier &b) {
      return a.isLike(b);
    };
    return std::equal(warps.begin(), warps.end(), cta.warps.begin(), isWarp) &&
           std::equal(barriers.begin(), barriers.end(), cta.barriers,
                      isBarrier);
  }
};
} // namespace

/// Whether the warp goes round and round; it takes some steps to find out.
bool Machine::isSpinning(Warp &warp) {
  WarpState before(warp, frameTemplate.size());
  spin.emplace();
  for (unsigned step = 0; step < maxWayRound; ++step) {
    runWarp(warp, 1);
    if (stopped() || ctaFailed || spin->hasChanged || warp.groups.empty())
      break;
    if (!before.mayBe(warp))
      continue;
    // One that is not the same now may still settle, such as a back-off.
    WarpState now(warp, frameTemplate.size());
    if (now == before) {
      warp.waitsAt = spin->lastRead;
      spin.reset();
      return true;
    }
    if (step > maxWayRound / 2)
      break;
    before = std::move(now);
    spin->lastRead = {};
  }
  spin.reset();
  return false;
}

/// Asked now and then of a warp that runs on and on, and first of all of one
/// that has waited.
void Machine::lookForSpin(Warp &warp) {
  constexpr uint64_t lastGap = 1 << 20;
  if (!std::exchange(warp.hasActed, false) && isSpinning(warp)) {
    warp.waitsSince = changes;
    warp.probeGap = 0;
  } else {
    warp.probeGap = std::clamp(2 * warp.probeGap, firstProbe, lastGap);
  }
  warp.probeAt = warp.executed + warp.probeGap;
}

/// A turn of each warp that is ready; false when none is, or there is nothing
/// to look for any more.
bool Machine::runRound(Cta &owner, const std::vector<unsigned> &order,
                       uint64_t length) {
  bool isAnyReady = false;
  for (unsigned index : order) {
    Warp &warp = owner.warps[index];
    if (!warp.isReady())
      continue;
    isAnyReady = true;
    const uint32_t turns = warp.turns;
    const bool wasWhole = warp.groups.size() == 1;
    runWarp(warp, length);
    // Turns count only for a warp that has diverged.
    if (length == 1 && wasWhole && warp.groups.size() == 1)
      warp.turns = turns;
    if (stopped() || ctaFailed || spin->hasChanged)
      return false;
  }
  return isAnyReady;
}

/// Whether all warps of a CTA come back to where they are, barriers and all.
/// They get the turns that they would get anyway; one that is alone is looked
/// at after each instruction, as it may never be at the same one after a turn.
bool Machine::isRepeating(Cta &owner) {
  const uint64_t start = instructions;
  const std::vector<unsigned> order = orderOfWarps(owner);
  const bool isAlone =
      std::count_if(owner.warps.begin(), owner.warps.end(),
                    [](const Warp &warp) { return warp.live != 0; }) == 1;
  const unsigned rounds = isAlone ? maxSteps : maxRounds;
  CtaState before(owner, frameTemplate.size());
  bool isSame = false;
  spin.emplace().isOfCta = true;
  for (unsigned round = 1; round <= rounds && !isSame; ++round) {
    if (!runRound(owner, order, isAlone ? 1 : warpTurn) ||
        instructions - start > maxRoundInstructions)
      break;
    isSame = before.isOf(owner);
    // One that is not the same now may have been on its way into the loop.
    if (!isSame && round == rounds / 2)
      before = CtaState(owner, frameTemplate.size());
  }
  owner.repeatsAt = spin->barrierPc;
  for (const Warp &warp : owner.warps)
    if (owner.repeatsAt == UINT32_MAX && !warp.groups.empty())
      owner.repeatsAt = warp.groups[0].pc;
  owner.repeatsFor = spin->lastRead;
  owner.executed += instructions - start;
  spin.reset();
  return isSame;
}

/// Asked now and then of a CTA that runs on and on, and first of all of one
/// that did the same again and again until memory changed. In random order
/// nothing follows from being in the same state.
bool Machine::lookForRepeat(Cta &owner) {
  if (repeats(owner))
    return true;
  bool hasRepeated =
      std::exchange(owner.repeatsSince, UINT64_MAX) != UINT64_MAX;
  if (options.schedule == Schedule::Random ||
      (owner.executed < owner.probeAt && !hasRepeated))
    return false;
  if (isRepeating(owner)) {
    owner.repeatsSince = changes - releases;
    return true;
  }
  owner.probeGap = std::max(2 * owner.probeGap, firstCtaProbe);
  owner.probeAt = owner.executed + owner.probeGap;
  return false;
}

/// One turn of a warp, cut short when it is found to wait.
void Machine::runTurn(Warp &warp, uint64_t length) {
  uint64_t end = warp.executed + length;
  while (warp.executed < end && warp.isReady() && !isWaiting(warp) &&
         !stopped() && !ctaFailed) {
    if (warp.executed >= warp.probeAt) {
      lookForSpin(warp);
      continue;
    }
    uint64_t before = changes;
    bool gaveWay = runWarp(warp, std::min(warp.probeAt, end) - warp.executed);
    warp.hasActed |= changes != before;
    if (gaveWay)
      return;
  }
}

/// An instruction other than a load or store of a warp that may be spinning.
void Machine::noteSpinEffect(const Warp &warp, const Inst &inst) {
  switch (inst.kind) {
  case InstKind::Exit:
  case InstKind::Trap:
  case InstKind::CpAsync:
  case InstKind::CpAsyncCommit:
  case InstKind::CpAsyncArrive:
  case InstKind::StoreMatrix:
  case InstKind::SystemCall:
    spin->hasChanged = true;
    break;
  case InstKind::Barrier:
  case InstKind::ClusterArrive:
  case InstKind::ClusterWait:
    spin->hasChanged |= !spin->isOfCta;
    spin->barrierPc = std::min(spin->barrierPc, pcOf(inst));
    break;
  case InstKind::CpAsyncWait:
    spin->hasChanged |= !warp.copies.empty();
    break;
  case InstKind::Mbarrier:
    spin->hasChanged |=
        static_cast<MbarrierOp>(inst.mode) != MbarrierOp::TestWait;
    break;
  case InstKind::BulkCopy:
  case InstKind::BulkCommit:
  case InstKind::BulkWait:
  case InstKind::Wgmma:
  case InstKind::WgmmaCommit:
  case InstKind::WgmmaWait:
  case InstKind::SetMaxRegisters:
    spin->hasChanged = true;
    break;
  default:
    break;
  }
}

static std::string describeUnstarted(uint64_t unstarted, size_t running) {
  if (!unstarted)
    return {};
  return ", and " + std::to_string(unstarted) + " CTAs have not started, as " +
         std::to_string(running) + " run at most";
}

/// Whether what a loop reads is a phase, by mbarrier.test_wait.
bool Machine::isPhaseWait(const SpinRead &read) const {
  return read.bytes && program.code[read.pc].kind == InstKind::Mbarrier;
}

std::string Machine::describeWait(const SpinRead &read) const {
  return describeWait(AsyncWaiter{AsyncWaiter::Kind::Mbarrier, 0, read.pc, 0,
                                  read.address,
                                  static_cast<uint32_t>(read.value)});
}

/// CTAs that do the same again and again: one finding for each barrier at which
/// their warps meet, or instruction to which they come back.
void Machine::reportRepeats(uint64_t unstarted) {
  std::map<uint32_t, std::vector<Cta *>> loops;
  for (Cta &owner : resident)
    if (repeats(owner))
      loops[owner.repeatsAt].push_back(&owner);
  for (const auto &[pc, owners] : loops) {
    cta = owners.front();
    Warp &warp = *std::find_if(cta->warps.begin(), cta->warps.end(),
                               [](const Warp &one) { return one.live; });
    const Inst &inst = program.code[pc];
    find(FindingKind::Deadlock, warp, inst, warp.live, [&] {
      std::string text =
          owners.size() == 1
              ? std::string("all warps of a CTA come")
              : "all warps of " + std::to_string(owners.size()) + " CTAs come";
      const SpinRead &read = cta->repeatsFor;
      return Text{
          text + " back to this " +
              (inst.kind == InstKind::Barrier ? "barrier" : "instruction") +
              " for ever, with the same registers and memory" +
              (isPhaseWait(read) ? "; one waits for " + describeWait(read)
                                 : std::string()) +
              describeUnstarted(unstarted, resident.size()),
          "a loop ends when something that it tests has changed: here "
          "nothing does, and nothing that runs will ever change it"};
    });
  }
}

/// Nothing but loops that wait is left: one finding for each of them.
void Machine::reportSpins(uint64_t unstarted) {
  reportRepeats(unstarted);
  struct Waiters {
    Cta *first;
    Warp *warp;
    uint64_t warps = 0;
  };
  std::map<uint32_t, Waiters> loops; // by the instruction that reads
  for (Cta &owner : resident)
    for (Warp &warp : owner.warps)
      if (warp.isReady() && !repeats(owner)) {
        uint32_t pc = warp.waitsAt.bytes ? warp.waitsAt.pc : warp.groups[0].pc;
        ++loops.try_emplace(pc, Waiters{&owner, &warp}).first->second.warps;
      }
  for (const auto &[pc, waiters] : loops) {
    cta = waiters.first;
    const SpinRead &read = waiters.warp->waitsAt;
    find(
        FindingKind::Deadlock, *waiters.warp, program.code[pc],
        read.bytes ? 1u << read.lane : waiters.warp->live,
        [&] {
          std::string text =
              waiters.warps == 1
                  ? std::string("one warp repeats this loop")
                  : std::to_string(waiters.warps) + " warps repeat this loop";
          if (isPhaseWait(read))
            text += ", which waits for " + describeWait(read);
          else if (read.bytes)
            text += ", which reads " +
                    (read.space == StateSpace::Shared
                         ? nameShared(read.address, read.bytes)
                         : nameGlobal(read.address, read.bytes)) +
                    ", and finds " + std::to_string(read.value);
          text += "; nothing that runs will ever change it";
          text += describeUnstarted(unstarted, resident.size());
          return Text{text,
                      "what a thread waits for must be done by one that runs: "
                      "only the CTAs that fit on the device run at once, and "
                      "none is taken off it before it ends"};
        },
        read.address, read.bytes);
  }
  for (Cta &owner : resident) {
    cta = &owner;
    if (!repeats(owner))
      reportDeadlock(owner);
  }
  halted = true;
}

/// A load or an atomic of a warp that may be spinning.
void Machine::noteSpinRead(const Inst &inst, StateSpace space,
                           const LaneAccess &access,
                           uint8_t *const (&hosts)[warpSize]) {
  if (!access.lanes ||
      (space != StateSpace::Shared && space != StateSpace::Global))
    return;
  // What is no strong read is waited for only where there is none.
  if (spin->lastRead.isStrong && !inst.isStrong)
    return;
  unsigned lane = static_cast<unsigned>(std::countr_zero(access.lanes));
  SpinRead read = {
      pcOf(inst),        lane,          space, access.address[lane],
      inst.elementBytes, inst.isStrong, 0};
  std::memcpy(&read.value, hosts[lane], inst.elementBytes);
  spin->lastRead = read;
}

/// A store of a warp that may be spinning: one of what is there already changes
/// nothing.
void Machine::noteSpinStore(Warp &warp, const Inst &inst,
                            const LaneAccess &access,
                            uint8_t *const (&hosts)[warpSize]) {
  const uint64_t before = changes;
  const uint32_t *values = program.operands.data() + inst.firstOperand + 1;
  for (unsigned v = 0; v < inst.vectorLength; ++v)
    forEachLane(access.lanes, [&](unsigned lane) {
      const uint8_t *value =
          warp.reg<uint8_t>(values[v]) + size_t(lane) * inst.regBytes;
      changes += std::memcmp(value, hosts[lane] + size_t(v) * inst.elementBytes,
                             inst.elementBytes) != 0;
    });
  spin->hasChanged |= changes != before;
}
