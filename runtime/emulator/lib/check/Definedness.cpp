//===- Definedness.cpp - Undefined data, and where it is used -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where undefined data comes from, and the uses that are reported. Runs only
// where some bit is undefined. DefinedMemory.cpp has memory, DefinedValues.cpp
// the arithmetic, DefinedCollectives.cpp the warp, DefinedControl.cpp branches.
//
//===----------------------------------------------------------------------===//

#include "../sim/Machine.h"

using namespace flashcore::emu;

//===----------------------------------------------------------------------===//
// Origins
//===----------------------------------------------------------------------===//

/// From now on the shadow half of the frame holds; until then all that is not
/// defined is a register that nothing has written.
void Machine::startFollowing(Warp &warp) {
  if (warp.hasUndefined)
    return;
  warp.hasUndefined = true;
  std::memset(warp.shadow<char>(0), 0xff, frameTemplate.size());
  warp.origins.assign(program.frameGranules, Origin());
}

/// The lanes `undefined` of a register that `inst` reads.
Origin Machine::originOf(Warp &warp, const Inst &inst, uint32_t granule,
                         uint32_t undefined) {
  startFollowing(warp);
  Origin &origin = warp.origins[granule];
  if (!origin)
    origin =
        originHere(warp, inst, Origin::Kind::Register, undefined, granule, 0);
  return origin;
}

Origin Machine::originHere(const Warp &warp, const Inst &inst,
                           Origin::Kind kind, uint32_t lanes, uint64_t address,
                           unsigned bytes) const {
  Origin origin;
  origin.address = address;
  origin.pc = pcOf(inst);
  origin.cta = cta->index;
  origin.warp = static_cast<uint8_t>(warp.index);
  origin.lane = static_cast<uint8_t>(std::countr_zero(lanes));
  origin.bytes = static_cast<uint8_t>(bytes);
  origin.kind = kind;
  return origin;
}

/// "shared memory that nobody has written, byte 16 of 'tile' (64 bytes)".
std::string Machine::describeOrigin(const Origin &origin) const {
  switch (origin.kind) {
  case Origin::Kind::Shared:
    return "shared memory nobody has written, " +
           nameShared(origin.address, origin.bytes);
  case Origin::Kind::Global:
    return "global memory nobody has written, " +
           nameGlobal(origin.address, origin.bytes);
  case Origin::Kind::Local:
    return "local memory that the thread has not written, byte " +
           std::to_string(origin.address) + " of " +
           std::to_string(program.localBytes);
  default:
    return "register " +
           describeOperand(static_cast<uint32_t>(origin.address)) +
           ", which nothing has written";
  }
}

static const char *ruleOf(Origin::Kind kind) {
  switch (kind) {
  case Origin::Kind::Shared:
    return "shared memory starts with undefined contents (PTX ISA 5.1.7)";
  case Origin::Kind::Global:
    return "a buffer starts with undefined contents (PTX ISA 5.1.4)";
  case Origin::Kind::Local:
    return "local memory starts with undefined contents (PTX ISA 5.1.5)";
  default:
    return "a register has no defined value before its first write (PTX ISA "
           "5.1.1)";
  }
}

/// Undefined data got to where it matters: `what` says how, as in "the address
/// is computed from".
void Machine::reportUndefined(const Place &place, uint32_t pc,
                              const Origin &origin, const std::string &what,
                              uint64_t address, unsigned bytes,
                              uint64_t count) {
  FindingKind kind = origin.kind == Origin::Kind::Register
                         ? FindingKind::UninitializedRegister
                         : FindingKind::UninitializedMemory;
  uint64_t key = FindingSet::key(kind, pc);
  if (findings.countAgain(key, count))
    return;
  Finding finding;
  finding.kind = kind;
  finding.place = place;
  finding.message = what + " " + describeOrigin(origin);
  finding.rule = ruleOf(origin.kind);
  finding.address = address;
  finding.bytes = bytes;
  finding.hasOther = true;
  finding.other = placeOf(origin.pc, origin.cta, origin.warp, origin.lane);
  finding.otherWhat =
      origin.kind == Origin::Kind::Register ? "first read" : "loaded";
  addFinding(key, std::move(finding));
  if (count > 1)
    findings.countAgain(key, count - 1);
}

//===----------------------------------------------------------------------===//
// Uses
//===----------------------------------------------------------------------===//

/// Reports the lanes of an operand that are undefined. They count as defined
/// afterwards, so that one mistake is not reported by all that follows.
void Machine::useOperand(Warp &warp, const Inst &inst, uint32_t granule,
                         uint32_t lanes, const char *what) {
  uint32_t undefined = lanes & ~warp.defined[granule];
  if (!undefined)
    return;
  reportUndefined(placeOf(warp, inst, undefined), pcOf(inst),
                  originOf(warp, inst, granule, undefined),
                  std::string(what) + " depends on");
  warp.defined[granule] |= undefined;
}

/// What printf is about to write: bytes at a generic address, which is that of
/// a local variable unless PTX is written by hand.
void Machine::usePrinted(Warp &warp, const Inst &inst, unsigned lane,
                         uint64_t address, unsigned bytes) {
  if (!isOn(CheckInit) || address < localWindow || address >= paramWindow)
    return;
  uint64_t offset = address - localWindow;
  uint64_t at = lane * program.localBytes + offset;
  if (warp.localUndefined.isDefined(at, bytes))
    return;
  uint8_t bits[maxAccessBytes];
  Origin origin = readUndefined(warp, inst, StateSpace::Local, lane, offset,
                                bytes, nullptr, bits);
  reportUndefined(placeOf(warp, inst, 1u << lane), pcOf(inst), origin,
                  "what is printed depends on");
}

/// The sources, first and count, that are data and not a use by themselves.
static std::pair<unsigned, unsigned> dataOperands(const Inst &inst) {
  switch (inst.kind) {
  case InstKind::Store:
  case InstKind::StoreMatrix:
    return {1, inst.numSrcs - 1u};
  case InstKind::Atomic:
    return {1, 2};
  case InstKind::Shuffle:
  case InstKind::Vote:
  case InstKind::Match:
  case InstKind::Redux:
    return {0, 1};
  case InstKind::MoveMatrix:
  case InstKind::Mma:
    return {0, inst.numSrcs};
  default:
    return {0, 0};
  }
}

static const char *nameOfUse(const Inst &inst) {
  switch (inst.kind) {
  case InstKind::Load:
  case InstKind::Store:
  case InstKind::Atomic:
  case InstKind::LoadMatrix:
  case InstKind::StoreMatrix:
    return "the address";
  case InstKind::CpAsync:
    return "an address or the size";
  case InstKind::BulkCopy:
    return "an address, a coordinate or the size";
  case InstKind::Mbarrier:
  case InstKind::CpAsyncArrive:
    return "an operand of the mbarrier";
  case InstKind::Wgmma:
    return "a descriptor or the predicate of the product";
  case InstKind::BranchTable:
    return "the branch";
  case InstKind::Barrier:
  case InstKind::BarrierWarp:
    return "an operand of the barrier";
  case InstKind::SystemCall:
    return "an argument of the call";
  default:
    return "the lane or the membermask";
  }
}

/// Some source is undefined in some lane. True if the results have been dealt
/// with, or will be where the instruction is executed.
bool Machine::followOperands(Warp &warp, const Inst &inst, uint32_t lanes) {
  if (cta->async && touchInFlight(warp, inst, lanes))
    return false;
  if (inst.kind == InstKind::Alu) {
    followAlu(warp, inst, lanes);
    return true;
  }
  const uint32_t *sources =
      program.operands.data() + inst.firstOperand + inst.numDsts;
  auto [first, count] = dataOperands(inst);
  uint32_t held = lanes;
  for (unsigned i = 0; i < inst.numSrcs; ++i)
    if (i >= first && i < first + count)
      held &= warp.defined[sources[i]];
    else
      useOperand(warp, inst, sources[i], lanes, nameOfUse(inst));
  return held != lanes;
}

/// What an instruction writes in `lanes`; the undefined bits of the lanes
/// `undefined` are in the shadow.
void Machine::setDefined(Warp &warp, uint32_t granule, uint32_t lanes,
                         uint32_t undefined, const Origin &origin) {
  if (granule == sinkGranule)
    return;
  warp.defined[granule] =
      (warp.defined[granule] & ~lanes) | (lanes & ~undefined);
  if (undefined)
    warp.origins[granule] = origin;
}
