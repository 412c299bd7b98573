//===- CheckFence.cpp - wgmma.fence before the registers of a product -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Between any other use of a register and a wgmma that has it stands a
// wgmma.fence (PTX ISA 9.7.15.7.1). That is a property of the text: from each
// wgmma the ways back are followed to the fences on them, and what uses one of
// its registers before is found.
//
//===----------------------------------------------------------------------===//

#include "../sim/Machine.h"

#include <unordered_set>

using namespace flashcore::emu;

static constexpr uint32_t none = UINT32_MAX;

/// Whether the instruction behind this one may come next.
static bool fallsThrough(const Inst &inst) {
  return inst.guard != noGranule ||
         (inst.kind != InstKind::Branch && inst.kind != InstKind::BranchTable &&
          inst.kind != InstKind::Exit && inst.kind != InstKind::Trap);
}

/// The branches to each instruction.
static std::unordered_multimap<uint32_t, uint32_t>
findBranches(const Program &program) {
  std::unordered_multimap<uint32_t, uint32_t> branches;
  for (uint32_t pc = 0; pc < program.code.size(); ++pc) {
    const Inst &inst = program.code[pc];
    if (inst.kind == InstKind::Branch)
      branches.insert({inst.target, pc});
    if (inst.kind == InstKind::BranchTable)
      for (uint32_t target : program.tables[inst.target])
        branches.insert({target, pc});
  }
  return branches;
}

/// The nearest use of a register of the wgmma at `pc` that reaches it past no
/// fence; `none` if there is none.
static uint32_t
findUnfenced(const Program &program,
             const std::unordered_multimap<uint32_t, uint32_t> &branches,
             uint32_t pc) {
  const Inst &product = program.code[pc];
  const uint32_t *begin = program.operands.data() + product.firstOperand + 3;
  const uint32_t *end = begin + product.vectorLength * 4u +
                        (product.aux & WgmmaRegistersA ? 4 : 0);
  const std::unordered_set<uint32_t> registers(begin, end);
  std::unordered_set<uint32_t> seen;
  std::vector<uint32_t> pending;
  auto addWaysTo = [&](uint32_t at) {
    auto [first, last] = branches.equal_range(at);
    for (auto it = first; it != last; ++it)
      if (seen.insert(it->second).second)
        pending.push_back(it->second);
    if (at > 0 && fallsThrough(program.code[at - 1]) &&
        seen.insert(at - 1).second)
      pending.push_back(at - 1);
  };
  addWaysTo(pc);
  while (!pending.empty()) {
    uint32_t at = pending.back();
    pending.pop_back();
    const Inst &inst = program.code[at];
    if (inst.kind == InstKind::WgmmaFence)
      continue;
    const uint32_t *operands = program.operands.data() + inst.firstOperand;
    for (unsigned i = 0; i < inst.numDsts + inst.numSrcs; ++i)
      if (registers.count(operands[i]))
        return at;
    addWaysTo(at);
  }
  return none;
}

void Machine::checkFence(Warp &warp, const Inst &inst) {
  if (!isOn(CheckAsync))
    return;
  if (unfenced.empty()) {
    const auto branches = findBranches(program);
    for (uint32_t pc = 0; pc < program.code.size(); ++pc)
      if (program.code[pc].kind == InstKind::Wgmma)
        unfenced[pc] = findUnfenced(program, branches, pc);
  }
  const uint32_t use = unfenced[pcOf(inst)];
  const bool hasFence = cta->async->warps[warp.index].hasFence;
  if (hasFence && use == none)
    return;
  find(FindingKind::RegisterInFlight, warp, inst, warp.live, [&] {
    return Text{hasFence ? "a register of this wgmma is used at line " +
                               lineOf(use) +
                               ", with no wgmma.fence on the way from there"
                         : std::string("no wgmma.fence comes before the first "
                                       "wgmma of the warp"),
                "wgmma.fence must stand between other uses of the registers of "
                "a wgmma and that, and before the first (PTX ISA 9.7.15.7.1)"};
  });
}
