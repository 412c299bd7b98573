//===- CheckAlignment.cpp - Where dynamic shared memory begins ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A driver lets dynamic shared memory begin at a better place than a kernel
// declares, and many kernels need that. Of those that do not align it
// themselves, the note says what they need.
//
//===----------------------------------------------------------------------===//

#include "../sim/Machine.h"
#include "flashcore/Emulator/Printable.h"

#include <algorithm>

using namespace flashcore::emu;

/// The alignment that a kernel gives addresses of dynamic shared memory itself,
/// by `and` with a power of two that is negated: 1 if it does not.
static uint64_t ownAlignment(const Program &program) {
  std::unordered_map<uint32_t, uint64_t> masks;
  std::vector<bool> isAddress(program.frameGranules, false);
  for (const FrameConstant &constant : program.constants) {
    bool isWide = constant.bytes == 8;
    uint64_t align = 0 - (isWide ? constant.bits
                                 : constant.bits | uint64_t(0xffffffff) << 32);
    if (constant.isDynamicShared)
      isAddress[constant.granule] = true;
    else if (constant.bytes >= 4 && std::has_single_bit(align))
      masks[constant.granule] = align;
  }
  uint64_t align = 1;
  for (bool hasChanged = true; hasChanged;) {
    hasChanged = false;
    for (const Inst &inst : program.code) {
      if (inst.kind != InstKind::Alu)
        continue;
      const uint32_t *ops = program.operands.data() + inst.firstOperand;
      const uint32_t *sources = ops + inst.numDsts;
      bool isOf = std::any_of(sources, sources + inst.numSrcs,
                              [&](uint32_t reg) { return isAddress[reg]; });
      if (!isOf)
        continue;
      if (inst.op == AluOp::AndB32 || inst.op == AluOp::AndB64)
        for (unsigned i = 0; i < inst.numSrcs; ++i)
          if (auto it = masks.find(sources[i]); it != masks.end())
            align = std::max(align, it->second);
      for (unsigned i = 0; i < inst.numDsts; ++i) {
        hasChanged |= !isAddress[ops[i]] && ops[i] != sinkGranule;
        isAddress[ops[i]] = ops[i] != sinkGranule;
      }
    }
  }
  return align;
}

/// An access to shared memory that has to be aligned. Beyond what the kernel
/// declares it leans on the driver if it is aligned from where dynamic shared
/// memory begins.
void Machine::noteAlignment(const Warp &warp, const Inst &inst, unsigned lane,
                            uint64_t address, uint64_t align) {
  if (align <= program.dynamicSharedAlign || align < alignmentNeed.align ||
      sharedVars.empty() || options.sharedBase != SharedBase::Driver)
    return;
  const StorageVar &var = sharedVars.back();
  if (!var.isDynamic || address < var.offset ||
      address >= var.offset + var.bytes || (address - var.offset) % align)
    return;
  addNeed(
      {align, address - var.offset, pcOf(inst), cta->index, warp.index, lane});
}

/// The greatest counts, and of equals the one of the first CTA, so that the
/// number of threads changes nothing.
void Machine::addNeed(const AlignmentNeed &need) {
  if (need.align > alignmentNeed.align ||
      (need.align == alignmentNeed.align && need.cta < alignmentNeed.cta))
    alignmentNeed = need;
}

void Machine::reportAlignment() {
  const AlignmentNeed &need = alignmentNeed;
  if (!need.align || !isOn(CheckMemory) ||
      ownAlignment(program) >= need.align ||
      notes.size() >= options.maxFindings)
    return;
  Finding finding;
  finding.kind = FindingKind::UndeclaredAlignment;
  finding.place = placeOf(need.pc, need.cta, need.warp, need.lane);
  finding.place.source = printable(sourceOf(program.code[need.pc]));
  finding.message = "needs byte " + std::to_string(need.offset) +
                    " of dynamic shared memory to be aligned to " +
                    std::to_string(need.align) +
                    " bytes, but the kernel declares an alignment of " +
                    std::to_string(program.dynamicSharedAlign);
  if (program.staticSharedBytes)
    finding.message += ", behind static shared memory";
  finding.rule =
      "a driver lets dynamic shared memory begin at a multiple of 1024 where "
      "there is no static shared memory; what is promised is the declared "
      "alignment (PTX ISA 5.4.5)";
  const auto key = FindingSet::key(finding.kind, need.pc);
  notes.add(key, std::move(finding));
}
