//===- DefinedControl.cpp - Branches on undefined predicates --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A branch on undefined data is a use, unless it only chooses between values:
//
//       setp.eq.f32 %p, %sum, 0         what compilers make of
//       @%p bra JOIN                    sum == 0 ? inf : log(sum) ...
//       lg2.approx.f32 %lse, %sum
//     JOIN:                             ... is no more than a selp
//
// Where all ways from the branch to the place where they meet again consist of
// arithmetic, the registers written on the way are undefined from there on. A
// guarded instruction of arithmetic is a branch around itself.
//
//===----------------------------------------------------------------------===//

#include "../sim/Machine.h"

#include <algorithm>
#include <set>

using namespace flashcore::emu;

/// Longer ways are not looked at.
static constexpr size_t maxChoiceLength = 512;

/// Follows all ways in the order of the text until they are one.
static ValueChoice findChoice(const Program &program, uint32_t pc) {
  const std::vector<Inst> &code = program.code;
  ValueChoice choice;
  std::set<uint32_t> ways = {pc};
  while (choice.writers.size() < maxChoiceLength) {
    uint32_t at = *ways.begin();
    const Inst &inst = code[at];
    ways.erase(ways.begin());
    if (inst.kind == InstKind::Branch && inst.target > at) {
      ways.insert(inst.target);
      if (inst.guard != noGranule)
        ways.insert(at + 1);
    } else if (inst.kind == InstKind::Alu) {
      choice.writers.push_back(at);
      ways.insert(at + 1);
    } else {
      return {};
    }
    if (ways.size() == 1) {
      choice.join = *ways.begin();
      return choice;
    }
  }
  return {};
}

const ValueChoice &Machine::choiceAt(uint32_t pc) {
  auto it = choices.find(pc);
  if (it == choices.end())
    it = choices.emplace(pc, findChoice(program, pc)).first;
  return it->second;
}

/// The guard of `inst` is undefined in some of `lanes`.
void Machine::useGuard(Warp &warp, const Inst &inst, uint32_t lanes) {
  uint32_t undefined = lanes & ~warp.defined[inst.guard];
  const ValueChoice &choice = choiceAt(pcOf(inst));
  if (!choice.join) {
    useOperand(warp, inst, inst.guard, lanes,
               inst.kind == InstKind::Branch ? "the branch" : "the predicate");
    return;
  }
  warp.pendingChoices.push_back(
      {&choice, undefined, originOf(warp, inst, inst.guard, undefined)});
}

/// Where the next ways meet.
uint32_t Machine::nextChoice(const Warp &warp, uint32_t pc) const {
  uint32_t next = UINT32_MAX;
  for (const PendingChoice &pending : warp.pendingChoices)
    if (pending.choice->join > pc)
      next = std::min(next, pending.choice->join);
  return next;
}

/// Lanes that stand where the ways of a choice meet: what was written on any of
/// them is undefined. Gives where that is the case next.
uint32_t Machine::settleChoices(Warp &warp, uint32_t pc, uint32_t lanes) {
  if (warp.pendingChoices.empty()) [[likely]]
    return UINT32_MAX;
  for (PendingChoice &pending : warp.pendingChoices) {
    uint32_t here = pending.choice->join == pc ? pending.lanes & lanes : 0;
    if (!here)
      continue;
    for (uint32_t writer : pending.choice->writers)
      spoilResults(warp, program.code[writer], here, pending.origin);
    pending.lanes &= ~here;
  }
  std::erase_if(warp.pendingChoices, [](const PendingChoice &pending) {
    return pending.lanes == 0;
  });
  return nextChoice(warp, pc);
}
