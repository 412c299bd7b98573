//===- DefinedValues.cpp - Undefined bits through instructions ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What an instruction makes of sources that are undefined in some lanes, after
// Memcheck: exact where kernels rely on it (moves, logic, shifts by a known
// amount, selection, comparison with a known result), and all bits of the
// result elsewhere. Runs before the instruction itself, while the sources hold
// their values.
//
//===----------------------------------------------------------------------===//

#include "../math/LaneMath.h"
#include "../sim/Machine.h"

#include <string_view>

using namespace flashcore::emu;

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

namespace {
/// Bytes of the registers of an operation, 0 for a predicate, and its rule.
struct AluShape {
  FollowRule rule = FollowRule::All;
  /// Of Move: the sources that hold the bits; the others say where to.
  uint8_t numMoved = 0;
  uint8_t dst = 0;
  uint8_t src[4] = {0, 0, 0, 0};
};
} // namespace

static constexpr AluShape withRule(std::string_view name, unsigned dst,
                                   unsigned a, unsigned b = 0, unsigned c = 0) {
  struct Family {
    std::string_view prefix;
    FollowRule rule;
    uint8_t numMoved = 0;
  };
  // The first prefix decides.
  constexpr Family families[] = {
      {"AddB", FollowRule::Upward},      {"SubB", FollowRule::Upward},
      {"MulB", FollowRule::Upward},      {"MadB", FollowRule::Upward},
      {"MulWide", FollowRule::Upward},   {"MadWide", FollowRule::Upward},
      {"NegB", FollowRule::Upward},      {"And", FollowRule::Logic},
      {"Or", FollowRule::Logic},         {"Xor", FollowRule::Logic},
      {"Lop3", FollowRule::Logic},       {"Not", FollowRule::Same},
      {"CvtF16x2", FollowRule::Convert}, {"CvtBF16x2", FollowRule::Convert},
      {"Mov", FollowRule::Move, 1},      {"Low", FollowRule::Move, 1},
      {"High", FollowRule::Move, 1},     {"Brev", FollowRule::Move, 1},
      {"CvtU16B", FollowRule::Move, 1},  {"CvtS16B", FollowRule::Move, 1},
      {"CvtU32B", FollowRule::Move, 1},  {"CvtS32B", FollowRule::Move, 1},
      {"CvtB64B", FollowRule::Move, 1},  {"Pack", FollowRule::Move, 2},
      {"Copysign", FollowRule::Move, 2}, {"Shl", FollowRule::Move, 1},
      {"Shr", FollowRule::Move, 1},      {"ShfL", FollowRule::Move, 2},
      {"ShfR", FollowRule::Move, 2},     {"Prmt", FollowRule::Move, 2},
      {"Bfe", FollowRule::Move, 1},      {"Szext", FollowRule::Move, 1},
  };
  AluShape shape;
  shape.dst = static_cast<uint8_t>(dst);
  shape.src[0] = static_cast<uint8_t>(a);
  shape.src[1] = static_cast<uint8_t>(b);
  shape.src[2] = static_cast<uint8_t>(c);
  // A type of its own, so that AddBF16 is no AddB16.
  bool isFloat = name.find("F16") != name.npos && !name.starts_with("Cvt");
  for (const Family &family : families) {
    if (isFloat || !name.starts_with(family.prefix))
      continue;
    shape.rule = family.rule;
    shape.numMoved = family.numMoved;
    return shape;
  }
  if (isFloat && name.ends_with("16x2"))
    shape.rule = FollowRule::Halves;
  return shape;
}

static constexpr AluShape shapes[] = {
#define FC_ALU1(NAME, D, A, EXPR) withRule(#NAME, sizeof(D), sizeof(A)),
#define FC_ALU2(NAME, D, A, B, EXPR)                                           \
  withRule(#NAME, sizeof(D), sizeof(A), sizeof(B)),
#define FC_ALU3(NAME, D, A, B, C, EXPR)                                        \
  withRule(#NAME, sizeof(D), sizeof(A), sizeof(B), sizeof(C)),
#include "flashcore/Emulator/AluOps.def"
    {FollowRule::Predicate},                // MovPred
    {FollowRule::Predicate},                // NotPred
    {FollowRule::Predicate},                // AndPred
    {FollowRule::Predicate},                // OrPred
    {FollowRule::Predicate},                // XorPred
    {FollowRule::Select, 0, 2, {2, 2}},     // SelpB16
    {FollowRule::Select, 0, 4, {4, 4}},     // SelpB32
    {FollowRule::Select, 0, 8, {8, 8}},     // SelpB64
    {FollowRule::Compare, 0, 0, {2, 2}},    // SetpU16
    {FollowRule::Compare, 0, 0, {2, 2}},    // SetpS16
    {FollowRule::Compare, 0, 0, {4, 4}},    // SetpU32
    {FollowRule::Compare, 0, 0, {4, 4}},    // SetpS32
    {FollowRule::Compare, 0, 0, {8, 8}},    // SetpU64
    {FollowRule::Compare, 0, 0, {8, 8}},    // SetpS64
    {FollowRule::Compare, 0, 0, {4, 4}},    // SetpF32
    {FollowRule::Compare, 0, 0, {4, 4}},    // SetpF32Ftz
    {FollowRule::Compare, 0, 0, {8, 8}},    // SetpF64
    {FollowRule::Compare, 0, 0, {2, 2}},    // SetpF16
    {FollowRule::Compare, 0, 0, {2, 2}},    // SetpBF16
    {FollowRule::Test, 0, 0, {4}},          // TestpF32
    {FollowRule::Test, 0, 0, {8}},          // TestpF64
    {FollowRule::Carry, 0, 4, {4, 4}},      // AddCarryB32
    {FollowRule::Carry, 0, 8, {8, 8}},      // AddCarryB64
    {FollowRule::Carry, 0, 4, {4, 4}},      // SubCarryB32
    {FollowRule::Carry, 0, 8, {8, 8}},      // SubCarryB64
    {FollowRule::Move, 2, 4, {4, 4, 4, 4}}, // BfiB32
    {FollowRule::Move, 2, 8, {8, 8, 4, 4}}, // BfiB64
    {FollowRule::Convert},                  // Convert
};
static_assert(std::size(shapes) == static_cast<size_t>(AluOp::Count));

/// Of the first destination; 0 for a predicate.
static unsigned resultBytes(const Inst &inst) {
  return inst.op == AluOp::Convert ? inst.conversion->toRegBytes
                                   : shapes[size_t(inst.op)].dst;
}

//===----------------------------------------------------------------------===//
// Bits
//===----------------------------------------------------------------------===//

/// Sums and low products: a bit depends on those below it only.
static uint64_t upward(uint64_t undefined) {
  return undefined | (0 - undefined);
}

static uint64_t wholeIf(bool isUndefined) {
  return isUndefined ? ~uint64_t(0) : 0;
}

/// Each of two halves of `bits` bits by itself.
static uint64_t eachHalf(uint64_t undefined, unsigned bits) {
  uint64_t low = (uint64_t(1) << bits) - 1;
  return (undefined & low ? low : 0) | (undefined & ~low ? low << bits : 0);
}

namespace {
struct LaneValue {
  uint64_t value = 0;
  uint64_t undefined = 0;
};
} // namespace

/// `table` has a bit for each combination of a, b and c, as that of lop3: the
/// result is undefined where the inputs may be combinations that differ in it.
static uint64_t undefinedLogic(unsigned table, const LaneValue (&in)[3]) {
  uint64_t canBeSet = 0, canBeClear = 0;
  for (unsigned row = 0; row < 8; ++row) {
    uint64_t possible = ~uint64_t(0);
    for (unsigned i = 0; i < 3; ++i) {
      uint64_t wanted = row >> (2 - i) & 1 ? in[i].value : ~in[i].value;
      possible &= in[i].undefined | wanted;
    }
    (table >> row & 1 ? canBeSet : canBeClear) |= possible;
  }
  return canBeSet & canBeClear;
}

/// Whether no value of the undefined bits changes how integers compare.
static bool isKnownComparison(CmpOp op, bool isSigned, unsigned bytes,
                              LaneValue a, LaneValue b) {
  if (op == CmpOp::Eq || op == CmpOp::Ne)
    return (a.value ^ b.value) & ~(a.undefined | b.undefined);
  // Signed order is that of unsigned numbers with the sign turned round.
  uint64_t sign = isSigned ? uint64_t(1) << (8 * bytes - 1) : 0;
  a.value ^= sign;
  b.value ^= sign;
  uint64_t lowA = a.value & ~a.undefined, highA = a.value | a.undefined;
  uint64_t lowB = b.value & ~b.undefined, highB = b.value | b.undefined;
  bool isStrict = op == CmpOp::Lt || op == CmpOp::Ge;
  // a < b and its opposite; a <= b and its opposite.
  return isStrict ? highA < lowB || lowA >= highB
                  : highA <= lowB || lowA > highB;
}

//===----------------------------------------------------------------------===//
// Lane-wise instructions
//===----------------------------------------------------------------------===//

namespace {
/// One instruction with an undefined source.
class AluFollower {
public:
  AluFollower(Warp &warp, const Inst &inst, const uint32_t *ops, uint32_t lanes)
      : warp(warp), inst(inst), shape(shapes[size_t(inst.op)]), ops(ops),
        sources(ops + inst.numDsts) {
    for (unsigned i = 0; i < inst.numSrcs; ++i)
      any |= lanes & ~warp.defined[sources[i]];
  }

  /// Lanes with an undefined source; in the others the result is defined.
  uint32_t undefinedLanes() const { return any; }
  /// The undefined bits of the first destination in one lane of these.
  uint64_t bits(unsigned lane) const;
  /// The same for a predicate, all lanes at once.
  uint32_t predicate() const;
  /// Writes those of a Move to the shadow.
  void move(const HandlerTable &handlers, uint32_t frameGranules);

private:
  LaneValue source(unsigned i, unsigned lane) const {
    unsigned bytes = shape.src[i];
    return {warp.lane(sources[i], bytes, lane),
            warp.undefinedBits(sources[i], bytes, lane)};
  }
  uint32_t undefinedSource(unsigned i) const {
    return any & ~warp.defined[sources[i]];
  }
  uint64_t undefinedOf(unsigned i, unsigned lane) const {
    return warp.undefinedBits(sources[i], shape.src[i], lane);
  }
  uint64_t logic(unsigned lane) const;
  uint64_t select(unsigned lane) const;
  uint64_t convert(unsigned lane) const;
  uint32_t compare() const;

  Warp &warp;
  const Inst &inst;
  const AluShape &shape;
  const uint32_t *ops, *sources;
  uint32_t any = 0;
};
} // namespace

uint64_t AluFollower::logic(unsigned lane) const {
  LaneValue in[3];
  for (unsigned i = 0; i < inst.numSrcs; ++i)
    in[i] = source(i, lane);
  switch (inst.op) {
  case AluOp::AndB16:
  case AluOp::AndB32:
  case AluOp::AndB64:
    return undefinedLogic(0xc0, in);
  case AluOp::OrB16:
  case AluOp::OrB32:
  case AluOp::OrB64:
    return undefinedLogic(0xfc, in);
  case AluOp::XorB16:
  case AluOp::XorB32:
  case AluOp::XorB64:
    return undefinedLogic(0x3c, in);
  default:
    return undefinedLogic(static_cast<unsigned>(inst.aux), in);
  }
}

uint64_t AluFollower::select(unsigned lane) const {
  LaneValue a = source(0, lane), b = source(1, lane);
  if (!(warp.defined[sources[2]] >> lane & 1))
    return a.undefined | b.undefined | (a.value ^ b.value);
  bool first = *warp.reg<uint32_t>(sources[2]) >> lane & 1;
  return first ? a.undefined : b.undefined;
}

static bool isPair(ScalarType type) {
  return type == ScalarType::F16x2 || type == ScalarType::BF16x2 ||
         type == ScalarType::E4M3x2 || type == ScalarType::E5M2x2;
}

uint64_t AluFollower::convert(unsigned lane) const {
  if (inst.op != AluOp::Convert) // of two f32, the first is the high half
    return (undefinedOf(0, lane) ? 0xffff0000u : 0u) |
           (undefinedOf(1, lane) ? 0x0000ffffu : 0u);
  const ConvertInfo &info = *inst.conversion;
  unsigned toBits = 8 * typeBytes(info.to), fromBits = 8 * typeBytes(info.from);
  uint64_t a = warp.undefinedBits(sources[0], info.fromRegBytes, lane);
  uint64_t b = warp.undefinedBits(sources[1], info.fromRegBytes, lane);
  if (isPair(info.to)) {
    uint64_t half = (uint64_t(1) << toBits / 2) - 1;
    if (!isPair(info.from))
      return (a ? half << toBits / 2 : 0) | (b ? half : 0);
    uint64_t halves = eachHalf(a, fromBits / 2);
    return (halves >> fromBits / 2 ? half << toBits / 2 : 0) |
           (halves & 1 ? half : 0);
  }
  // A register may be wider than the type.
  if (fromBits < 64)
    a &= (uint64_t(1) << fromBits) - 1;
  bool isInteger = !isFloatType(info.to) && !isFloatType(info.from);
  return isInteger && !info.sat ? convertLane(info, a, a) : wholeIf(a != 0);
}

uint64_t AluFollower::bits(unsigned lane) const {
  switch (shape.rule) {
  case FollowRule::Upward:
    return upward(undefinedOf(0, lane) | undefinedOf(1, lane) |
                  (inst.numSrcs > 2 ? undefinedOf(2, lane) : 0));
  case FollowRule::Carry:
    return upward(undefinedOf(0, lane) | undefinedOf(1, lane) |
                  (undefinedSource(2) >> lane & 1));
  case FollowRule::Halves: {
    uint64_t undefined = 0;
    for (unsigned i = 0; i < inst.numSrcs; ++i)
      undefined |= undefinedOf(i, lane);
    return eachHalf(undefined, 16);
  }
  case FollowRule::Same:
    return undefinedOf(0, lane);
  case FollowRule::Logic:
    return logic(lane);
  case FollowRule::Select:
    return select(lane);
  case FollowRule::Convert:
    return convert(lane);
  default:
    return ~uint64_t(0);
  }
}

uint32_t AluFollower::compare() const {
  uint32_t undefined = undefinedSource(0) | undefinedSource(1);
  bool isSigned = inst.op == AluOp::SetpS16 || inst.op == AluOp::SetpS32 ||
                  inst.op == AluOp::SetpS64;
  bool isInteger = isSigned || inst.op == AluOp::SetpU16 ||
                   inst.op == AluOp::SetpU32 || inst.op == AluOp::SetpU64;
  forEachLane(isInteger ? undefined : 0, [&](unsigned lane) {
    if (isKnownComparison(static_cast<CmpOp>(inst.aux), isSigned, shape.src[0],
                          source(0, lane), source(1, lane)))
      undefined &= ~(1u << lane);
  });
  // A third operand that decides alone.
  uint32_t unknown = undefinedSource(2);
  uint32_t c = *warp.reg<uint32_t>(sources[2]) ^ (inst.boolNegated ? ~0u : 0u);
  switch (inst.boolOp) {
  case BoolOp::None:
    return undefined;
  case BoolOp::And:
    return (undefined | unknown) & (c | unknown);
  case BoolOp::Or:
    return (undefined | unknown) & (~c | unknown);
  case BoolOp::Xor:
    return undefined | unknown;
  }
  return undefined;
}

uint32_t AluFollower::predicate() const {
  if (shape.rule == FollowRule::Compare)
    return compare();
  if (shape.rule != FollowRule::Predicate || inst.numSrcs < 2)
    return any;
  uint32_t a = *warp.reg<uint32_t>(sources[0]), ua = undefinedSource(0);
  uint32_t b = *warp.reg<uint32_t>(sources[1]), ub = undefinedSource(1);
  if (inst.op == AluOp::AndPred)
    return any & (ua | a) & (ub | b);
  if (inst.op == AluOp::OrPred)
    return any & (ua | ~a) & (ub | ~b);
  return any;
}

/// The handler of the instruction does it, on the shadow in place of the
/// registers that are moved.
void AluFollower::move(const HandlerTable &handlers, uint32_t frameGranules) {
  uint32_t shadowOps[5] = {ops[0] + frameGranules};
  uint32_t unknown = 0;
  for (unsigned i = 0; i < inst.numSrcs; ++i) {
    bool isMoved = i < shape.numMoved;
    shadowOps[1 + i] = sources[i] + (isMoved ? frameGranules : 0);
    if (isMoved)
      forEachLane(any & warp.defined[sources[i]], [&](unsigned lane) {
        warp.setShadow(sources[i], shape.src[i], lane, 0);
      });
    else
      unknown |= undefinedSource(i);
  }
  handlers.alu[size_t(inst.op)](warp.frame.get(), shadowOps, inst, any);
  forEachLane(unknown, [&](unsigned lane) {
    warp.setShadow(ops[0], shape.dst, lane, ~uint64_t(0));
  });
}

/// Whatever the instruction wrote, or did not write, is undefined.
void Machine::spoilResults(Warp &warp, const Inst &inst, uint32_t lanes,
                           const Origin &origin) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  if (unsigned bytes = resultBytes(inst))
    forEachLane(lanes, [&](unsigned lane) {
      warp.setShadow(ops[0], bytes, lane, ~uint64_t(0));
    });
  for (unsigned i = 0; i < inst.numDsts; ++i)
    setDefined(warp, ops[i], lanes, lanes, origin);
}

void Machine::followAlu(Warp &warp, const Inst &inst, uint32_t lanes) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  startFollowing(warp);
  AluFollower follower(warp, inst, ops, lanes);
  const AluShape &shape = shapes[size_t(inst.op)];
  const uint32_t any = follower.undefinedLanes();
  Origin origin;
  for (unsigned i = inst.numDsts; !origin; ++i)
    if (uint32_t undefined = lanes & ~warp.defined[ops[i]])
      origin = originOf(warp, inst, ops[i], undefined);
  unsigned bytes = resultBytes(inst);
  if (!bytes) {
    uint32_t undefined = follower.predicate();
    for (unsigned i = 0; i < inst.numDsts; ++i)
      setDefined(warp, ops[i], lanes, undefined, origin);
    return;
  }
  if (shape.rule == FollowRule::Move)
    follower.move(handlers, program.frameGranules);
  else
    forEachLane(any, [&](unsigned lane) {
      warp.setShadow(ops[0], bytes, lane, follower.bits(lane));
    });
  uint32_t undefined = 0;
  forEachLane(any, [&](unsigned lane) {
    undefined |= warp.shadowBits(ops[0], bytes, lane) ? 1u << lane : 0u;
  });
  setDefined(warp, ops[0], lanes, undefined, origin);
  if (inst.numDsts > 1) // the carry out
    setDefined(warp, ops[1], lanes, any, origin);
}
