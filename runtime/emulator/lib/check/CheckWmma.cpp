//===- CheckWmma.cpp - The wmma.load of what a wmma.mma takes -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A wmma.mma must say of A and B what the wmma.load of each said: which of the
// two it is, its layout, shape and type. From sm_80 on a fragment is the same
// in both layouts, and a wrong word changes no result, neither here nor on such
// a card; before, it does. So each warp remembers of which wmma.load its
// registers are (WmmaSlice.h), and the words are compared.
//
//===----------------------------------------------------------------------===//

#include "../sim/Machine.h"

#include <algorithm>

using namespace flashcore::emu;

/// Before the instruction at `pc` is executed by `lanes`. A register that only
/// some lanes have written is of no load.
void Machine::followWmma(Warp &warp, uint32_t pc, uint32_t lanes) {
  for (uint32_t i = wmmaPlan.firstStep[pc]; i < wmmaPlan.firstStep[pc + 1];
       ++i) {
    const WmmaStep &step = wmmaPlan.steps[i];
    uint32_t load =
        step.from == WmmaStep::nowhere ? step.load : warp.wmmaLoads[step.from];
    warp.wmmaLoads[step.to] = lanes == warp.live ? load : 0;
  }
}

/// As an opcode says it: "b.col.m16n16k16.f16".
static std::string describe(const WmmaTile &tile) {
  return std::string(1, tile.matrix) + (tile.isColumnMajor ? ".col" : ".row") +
         ".m" + std::to_string(tile.m) + "n" + std::to_string(tile.n) + "k" +
         std::to_string(tile.k) + "." + typeName(tile.type);
}

void Machine::reportWmma(Warp &warp, const Inst &inst,
                         const WmmaRegisters &operand, uint32_t granule,
                         const WmmaRegisters &load) {
  // By the load too, so that A does not hide B.
  uint32_t loadPc = load.begin;
  uint64_t key =
      FindingSet::key(FindingKind::FragmentMismatch, pcOf(inst), loadPc);
  if (isRepeated(FindingKind::FragmentMismatch, key))
    return;
  Finding finding;
  finding.kind = FindingKind::FragmentMismatch;
  finding.place = placeOf(warp, inst, warp.live);
  finding.hasOther = true;
  finding.other = placeOf(warp, program.code[loadPc], warp.live);
  finding.otherWhat = "wmma.load";
  finding.message = "wmma.mma takes register " + describeOperand(granule) +
                    " as " + describe(operand.tile) +
                    ", but wmma.load gave it as " + describe(load.tile);
  finding.rule = "the layout, shape and type that a wmma.mma says of A and B "
                 "must be those of the wmma.load of their fragments (PTX ISA "
                 "9.7.14.4.5)";
  addFinding(key, std::move(finding));
}

/// At an mma, which may be the first of a wmma.mma.
void Machine::checkWmma(Warp &warp, const Inst &inst) {
  uint32_t pc = pcOf(inst);
  const std::vector<WmmaRegisters> &operands = program.wmmaOperands;
  auto operand = std::lower_bound(
      operands.begin(), operands.end(), pc,
      [](const WmmaRegisters &each, uint32_t at) { return each.begin < at; });
  for (; operand != operands.end() && operand->begin == pc; ++operand)
    for (uint32_t granule : operand->registers) {
      uint32_t slot = wmmaPlan.slots[granule];
      uint32_t number = slot == WmmaStep::nowhere ? 0 : warp.wmmaLoads[slot];
      if (!number || program.wmmaLoads[number - 1].tile == operand->tile)
        continue;
      reportWmma(warp, inst, *operand, granule, program.wmmaLoads[number - 1]);
      break; // the others are as wrong
    }
}
