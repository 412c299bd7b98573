//===- WmmaSlice.cpp - Where fragments of wmma go -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WmmaSlice.h"

#include <algorithm>
#include <unordered_map>

using namespace flashcore::emu;

static bool isMove(const Inst &inst) {
  return inst.kind == InstKind::Alu && inst.op == AluOp::MovB32;
}

/// Gives a slot to each register that loads write, and to where moves bring
/// them.
static void findRegisters(const Program &program, WmmaPlan &plan) {
  plan.slots.assign(program.frameGranules, WmmaStep::nowhere);
  std::vector<uint32_t> pending;
  auto add = [&](uint32_t granule) {
    if (granule == sinkGranule || plan.slots[granule] != WmmaStep::nowhere)
      return;
    plan.slots[granule] = plan.numSlots++;
    pending.push_back(granule);
  };
  std::unordered_multimap<uint32_t, uint32_t> moves;
  for (const Inst &inst : program.code) {
    const uint32_t *ops = program.operands.data() + inst.firstOperand;
    if (isMove(inst))
      moves.insert({ops[1], ops[0]});
  }
  for (const WmmaRegisters &load : program.wmmaLoads)
    for (uint32_t granule : load.registers)
      add(granule);
  while (!pending.empty()) {
    auto [first, last] = moves.equal_range(pending.back());
    pending.pop_back();
    for (auto it = first; it != last; ++it)
      add(it->second);
  }
}

/// What an instruction does to its results; `load` is the wmma.load that it is
/// of, if any.
static void planSteps(const Program &program, const Inst &inst,
                      const WmmaRegisters *load, WmmaPlan &plan) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  for (unsigned i = 0; i < inst.numDsts; ++i) {
    WmmaStep step;
    step.to = plan.slots[ops[i]];
    if (step.to == WmmaStep::nowhere)
      continue;
    if (load &&
        std::count(load->registers.begin(), load->registers.end(), ops[i]))
      step.load = static_cast<uint32_t>(load - program.wmmaLoads.data()) + 1;
    else if (isMove(inst))
      step.from = plan.slots[ops[1]];
    plan.steps.push_back(step);
  }
}

WmmaPlan flashcore::emu::planWmma(const Program &program) {
  WmmaPlan plan;
  if (program.wmmaLoads.empty() || program.wmmaOperands.empty())
    return plan;
  findRegisters(program, plan);
  auto load = program.wmmaLoads.begin();
  for (uint32_t pc = 0; pc < program.code.size(); ++pc) {
    plan.firstStep.push_back(static_cast<uint32_t>(plan.steps.size()));
    while (load != program.wmmaLoads.end() && load->end <= pc)
      ++load;
    bool isInside = load != program.wmmaLoads.end() && load->begin <= pc;
    planSteps(program, program.code[pc], isInside ? &*load : nullptr, plan);
  }
  plan.firstStep.push_back(static_cast<uint32_t>(plan.steps.size()));
  return plan;
}
