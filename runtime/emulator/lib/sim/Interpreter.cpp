//===- Interpreter.cpp - The instruction loop -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs one warp until it blocks, ends or has used its turn. While all lanes are
// together the loop is: fetch, guard, check operands, call the handler.
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

#include <algorithm>
#include <cstdio>
#include <utility>

using namespace flashcore::emu;

static constexpr uint64_t divergedTurn = 4096;

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// Joins groups that stand at the same instruction.
void Machine::mergeGroups(Warp &warp) {
  std::vector<LaneGroup> &groups = warp.groups;
  for (size_t i = 0; i < groups.size(); ++i)
    for (size_t j = groups.size() - 1; j > i; --j) {
      if (groups[i].pc != groups[j].pc ||
          groups[i].state == LaneGroup::State::AtBarrier ||
          groups[j].state == LaneGroup::State::AtBarrier)
        continue;
      groups[i].lanes |= groups[j].lanes;
      // More lanes arrived at a collective: let it count them again.
      groups[i].state = LaneGroup::State::Ready;
      groups.erase(groups.begin() + static_cast<ptrdiff_t>(j));
    }
}

/// The ready group with the lowest pc; now and then the one with the highest,
/// so that lanes which spin on a value cannot keep the others from setting it.
int Machine::pickGroup(Warp &warp) {
  mergeGroups(warp);
  bool highest = ++warp.turns % fairnessPeriod == 0;
  int best = -1;
  for (size_t i = 0; i < warp.groups.size(); ++i) {
    if (warp.groups[i].state != LaneGroup::State::Ready)
      continue;
    bool better = best < 0 ||
                  (highest ? warp.groups[i].pc > warp.groups[size_t(best)].pc
                           : warp.groups[i].pc < warp.groups[size_t(best)].pc);
    if (better)
      best = static_cast<int>(i);
  }
  return best;
}

/// True if it gave way to others, as it waits for what they do.
bool Machine::runWarp(Warp &warp, uint64_t budget) {
  while (budget && !halted && !ctaFailed) {
    int group = pickGroup(warp);
    if (group < 0)
      return false;
    active = static_cast<uint32_t>(group);
    uint64_t turn =
        warp.groups.size() > 1 ? std::min(budget, divergedTurn) : budget;
    uint64_t left = turn;
    if (labelling || !wmmaPlan.isEmpty())
      isOn(CheckInit) ? runGroup<true, true>(warp, left)
                      : runGroup<false, true>(warp, left);
    else
      isOn(CheckInit) ? runGroup<true, false>(warp, left)
                      : runGroup<false, false>(warp, left);
    budget -= turn - left;
    instructions += turn - left;
    warp.executed += turn - left;
    if (speculation && !speculation->count(turn - left)) {
      halted = true;
      return false;
    }
    if (options.maxInstructions && instructions > options.maxInstructions) {
      const Inst &inst =
          program.code[warp.groups.empty() ? 0 : warp.groups[0].pc];
      find(FindingKind::InstructionLimit, warp, inst, warp.live, [&] {
        return Text{"stopped after " + std::to_string(instructions) +
                        " warp instructions; the kernel may not terminate",
                    "raise the limit if this is expected"};
      });
      halted = true;
    }
    // Lanes further on may be the ones that it waits for.
    if (std::exchange(givesWay, false) && warp.groups.size() == 1)
      return true;
  }
  return false;
}

/// Where another group waits for this one, to run on together.
uint32_t Machine::meetingPoint(Warp &warp) {
  uint32_t meet = UINT32_MAX;
  for (const LaneGroup &other : warp.groups)
    if (&other != &current(warp) && other.pc > current(warp).pc &&
        other.state != LaneGroup::State::AtBarrier)
      meet = std::min(meet, other.pc);
  return meet;
}

/// The lanes that an instruction's guard lets through.
static uint32_t guardOf(Warp &warp, const Inst &inst) {
  if (inst.guard == noGranule)
    return ~0u;
  uint32_t guard = *warp.reg<uint32_t>(inst.guard);
  return inst.guardNegated ? ~guard : guard;
}

/// Results are defined where all sources are; other lanes are followed apart.
inline void Machine::defineResults(Warp &warp, const Inst &inst,
                                   const uint32_t *ops, uint32_t enabled) {
  uint32_t held = enabled;
  for (unsigned i = 0; i < inst.numSrcs; ++i)
    held &= warp.defined[ops[inst.numDsts + i]];
  if (held == enabled || !followOperands(warp, inst, enabled)) [[likely]]
    for (unsigned i = 0; i < inst.numDsts; ++i)
      warp.defined[ops[i]] |= enabled;
}

inline void Machine::followLabels(Warp &warp, const Inst &inst, uint32_t pc,
                                  uint32_t enabled) {
  if (!wmmaPlan.isEmpty())
    followWmma(warp, pc, enabled);
  if (!labelling)
    return;
  const LabelOp &op = labelPlan.ops[pc];
  if (op.action != LabelAction::None)
    propagateLabels(warp, inst, op, enabled);
  if (op.reduction != ReductionAction::None)
    followReduction(warp, inst, op, enabled);
}

template <bool Checked, bool Labelled>
void Machine::runGroup(Warp &warp, uint64_t &budget) {
  const Inst *code = program.code.data();
  const uint32_t *operands = program.operands.data();
  char *frame = warp.frame.get();
  bool counting = options.counters;
  uint32_t pc = current(warp).pc, lanes = current(warp).lanes;
  uint32_t meet = meetingPoint(warp);
  // Before the next undefined choice is settled.
  uint32_t stop =
      Checked ? std::min(meet, settleChoices(warp, pc, lanes)) : meet;
  while (budget && !halted) {
    if (pc >= stop) [[unlikely]] {
      if (pc >= meet)
        break;
      stop = std::min(meet, settleChoices(warp, pc, lanes));
    }
    const Inst &inst = code[pc];
    --budget;
    if (counting)
      ++perPc[pc].executed;
    uint32_t enabled = lanes & guardOf(warp, inst);
    if (Checked && inst.guard != noGranule &&
        (warp.defined[inst.guard] & lanes) != lanes) [[unlikely]] {
      useGuard(warp, inst, lanes);
      stop = std::min(stop, nextChoice(warp, pc));
    }
    if (!enabled) {
      ++pc;
      continue;
    }
    const uint32_t *ops = operands + inst.firstOperand;
    if (Checked)
      defineResults(warp, inst, ops, enabled);
    if (options.trace) [[unlikely]]
      trace(warp, inst, enabled);
    if (Labelled)
      followLabels(warp, inst, pc, enabled);
    if (inst.kind == InstKind::Alu) {
      handlers.alu[size_t(inst.op)](frame, ops, inst, enabled);
      ++pc;
    } else if (inst.kind == InstKind::Branch && enabled == lanes) {
      pc = inst.target;
    } else {
      current(warp).pc = pc;
      Step step = executeOther(warp, inst, enabled);
      bool isJump = step == Step::Jumped;
      if (step == Step::Blocked || (isJump && warp.groups.size() != 1))
        return;
      if (isJump) {
        active = 0;
        pc = warp.groups[0].pc;
        lanes = warp.groups[0].lanes;
        meet = UINT32_MAX;
        stop = Checked ? settleChoices(warp, pc, lanes) : meet;
        continue;
      }
      ++pc;
    }
  }
  current(warp).pc = pc;
}

void Machine::trace(Warp &warp, const Inst &inst, uint32_t lanes) {
  if (cta->index != 0 || warp.index != 0)
    return;
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  std::fprintf(stderr, "trace: line %u lanes %08x", inst.line, lanes);
  for (unsigned i = 0; i < inst.numDsts + inst.numSrcs && i < 6; ++i)
    std::fprintf(stderr, " %s%s=%08x", i == inst.numDsts ? "<- " : "",
                 describeOperand(ops[i]).c_str(), *warp.reg<uint32_t>(ops[i]));
  std::fputc('\n', stderr);
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

/// A clock that counts warp instructions: monotonic, and the same each run.
void Machine::readClock(Warp &warp, const Inst &inst, uint32_t lanes) {
  uint32_t d = program.operands[inst.firstOperand];
  uint64_t now = instructions + warp.executed;
  forEachLane(lanes, [&](unsigned lane) {
    if (inst.regBytes == 8)
      warp.reg<uint64_t>(d)[lane] = now;
    else
      warp.reg<uint32_t>(d)[lane] =
          static_cast<uint32_t>(inst.aux ? now >> 32 : now);
  });
}

void Machine::readActiveMask(Warp &warp, const Inst &inst, uint32_t lanes) {
  forEachLane(lanes, [&](unsigned lane) {
    warp.reg<uint32_t>(program.operands[inst.firstOperand])[lane] = lanes;
  });
}

Machine::Step Machine::trap(Warp &warp, const Inst &inst, uint32_t lanes) {
  find(FindingKind::Trap, warp, inst, lanes, [] {
    return Text{"trap executed",
                "the kernel stopped itself (PTX ISA 9.7.19.4)"};
  });
  ctaFailed = true;
  return exitLanes(warp, lanes);
}

Machine::Step Machine::executeOther(Warp &warp, const Inst &inst,
                                    uint32_t lanes) {
  if (spin) [[unlikely]]
    noteSpinEffect(warp, inst);
  switch (inst.kind) {
  case InstKind::Load:
  case InstKind::Store:
    loadStore(warp, inst, lanes);
    return Step::Next;
  case InstKind::CpAsync:
    cpAsync(warp, inst, lanes);
    return Step::Next;
  case InstKind::CpAsyncCommit:
    cpAsyncCommit(warp, lanes);
    return Step::Next;
  case InstKind::CpAsyncWait:
    cpAsyncWait(warp, inst, lanes);
    return Step::Next;
  case InstKind::Atomic:
    atomic(warp, inst, lanes);
    return Step::Next;
  case InstKind::Fence:
    fence(warp, inst, lanes);
    return Step::Next;
  case InstKind::Branch:
    return branch(warp, inst, lanes);
  case InstKind::BranchTable:
    return branchTable(warp, inst, lanes);
  case InstKind::Exit:
    return exitLanes(warp, lanes);
  case InstKind::Trap:
    return trap(warp, inst, lanes);
  case InstKind::Clock:
    readClock(warp, inst, lanes);
    return Step::Next;
  case InstKind::ActiveMask:
    readActiveMask(warp, inst, lanes);
    return Step::Next;
  case InstKind::SystemCall:
    systemCall(warp, inst, lanes);
    return Step::Next;
  case InstKind::Barrier:
  case InstKind::ClusterArrive:
  case InstKind::ClusterWait:
    return barrier(warp, inst, lanes);
  case InstKind::BarrierWarp:
  case InstKind::Shuffle:
  case InstKind::Vote:
  case InstKind::Match:
  case InstKind::Redux:
  case InstKind::LoadMatrix:
  case InstKind::StoreMatrix:
  case InstKind::MoveMatrix:
  case InstKind::Mma:
    return collective(warp, inst, lanes);
  case InstKind::Alu:
  case InstKind::Prefetch:
    return Step::Next;
  default:
    return asyncProxy(warp, inst, lanes);
  }
}

/// Some lanes of the group take the branch, others do not.
Machine::Step Machine::branch(Warp &warp, const Inst &inst, uint32_t lanes) {
  LaneGroup &group = current(warp);
  uint32_t stay = group.lanes & ~lanes;
  uint32_t next = group.pc + 1;
  if (!stay) {
    group.pc = inst.target;
    return Step::Jumped;
  }
  group.lanes = stay;
  group.pc = next;
  warp.groups.push_back({inst.target, lanes, LaneGroup::State::Ready, false});
  return Step::Jumped;
}

Machine::Step Machine::branchTable(Warp &warp, const Inst &inst,
                                   uint32_t lanes) {
  const std::vector<uint32_t> &table = program.tables[inst.target];
  const uint32_t *index =
      warp.reg<uint32_t>(program.operands[inst.firstOperand]);
  LaneGroup group = current(warp);
  std::vector<LaneGroup> parts;
  uint32_t stay = group.lanes & ~lanes;
  if (stay)
    parts.push_back({group.pc + 1, stay, LaneGroup::State::Ready, false});
  forEachLane(lanes, [&](unsigned lane) {
    uint32_t entry = index[lane];
    if (entry >= table.size()) {
      find(FindingKind::InvalidBranch, warp, inst, 1u << lane, [&] {
        return Text{"index " + std::to_string(entry) +
                        " is outside a branch table of " +
                        std::to_string(table.size()) + " labels",
                    "the behaviour is undefined (PTX ISA 9.7.12.4)"};
      });
      entry = 0;
    }
    uint32_t pc = table.empty() ? group.pc + 1 : table[entry];
    for (LaneGroup &part : parts)
      if (part.pc == pc) {
        part.lanes |= 1u << lane;
        return;
      }
    parts.push_back({pc, 1u << lane, LaneGroup::State::Ready, false});
  });
  warp.groups.erase(warp.groups.begin() + active);
  warp.groups.insert(warp.groups.end(), parts.begin(), parts.end());
  return Step::Jumped;
}

Machine::Step Machine::exitLanes(Warp &warp, uint32_t lanes) {
  LaneGroup &group = current(warp);
  uint32_t stay = group.lanes & ~lanes;
  warp.live &= ~lanes;
  uint32_t gone = static_cast<uint32_t>(std::popcount(lanes));
  cta->liveThreads -= gone;
  cta->exitedThreads += gone;
  if (stay) {
    group.lanes = stay;
    ++group.pc;
  } else {
    warp.groups.erase(warp.groups.begin() + active);
  }
  if (!warp.live)
    endCopies(warp);
  if (!warp.live && cta->async) {
    endBulk(warp);
    endProducts(warp);
  }
  // A barrier or a collective may have been waiting for these threads only.
  cta->barriers[clusterBarrier].arrived -=
      static_cast<uint32_t>(std::popcount(warp.clusterArrived & lanes));
  warp.clusterArrived &= ~lanes;
  for (CtaBarrier &waiting : cta->barriers)
    if (waiting.active && completeBarrier(waiting))
      releaseBarrier(waiting);
  wakeCollectives(warp);
  return warp.groups.size() == 1 && stay ? Step::Jumped : Step::Blocked;
}

/// Lanes whose guard is false do not take part; they go on by themselves.
void Machine::splitGuarded(Warp &warp, uint32_t lanes) {
  LaneGroup &group = current(warp);
  uint32_t skip = group.lanes & ~lanes;
  if (!skip)
    return;
  LaneGroup rest = {group.pc + 1, skip, LaneGroup::State::Ready, false};
  group.lanes = lanes;
  warp.groups.push_back(rest);
}
