//===- LowerMove.cpp - Moves, comparisons, selections ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA sections 9.7.6 (comparison), 9.7.9.2 (mov), 9.7.9.19 (cvta).
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include <algorithm>

using namespace flashcore::emu;

static AluOp movOf(ScalarType type) {
  switch (typeBytes(type)) {
  case 2:
    return AluOp::MovB16;
  case 4:
    return AluOp::MovB32;
  default:
    return AluOp::MovB64;
  }
}

/// `mov.b64 %rd, {%r0, %r1}` and its inverse, for two elements.
bool Lowering::lowerMovVector(ScalarType type) {
  if (type == ScalarType::B64 && (inst->operands[0].elements.size() == 4 ||
                                  inst->operands[1].elements.size() == 4))
    return lowerMovHalves();
  const PtxOperand &to = inst->operands[0], &from = inst->operands[1];
  bool unpack = to.kind == PtxOperand::Kind::Vector;
  const PtxOperand &vector = unpack ? to : from;
  if (unpack && from.kind == PtxOperand::Kind::Vector)
    return failHere("expects one scalar operand on a vector mov");
  bool holdsBytes = std::any_of(vector.elements.begin(), vector.elements.end(),
                                [&](const PtxOperand &element) {
                                  Symbol *symbol = lookup(element.name);
                                  return symbol && typeBytes(symbol->type) == 1;
                                });
  if (type == ScalarType::B16 || (type == ScalarType::B32 && holdsBytes))
    return lowerMovBytes(type, vector, unpack);
  if (vector.elements.size() != 2)
    return fail(vector.loc, "expects two elements on a vector mov, but got " +
                                std::to_string(vector.elements.size()));
  ScalarType element = type == ScalarType::B64   ? ScalarType::B32
                       : type == ScalarType::B32 ? ScalarType::B16
                                                 : ScalarType::None;
  if (element == ScalarType::None)
    return failHere("expects type .b32 or .b64 on a vector mov");
  bool is64 = type == ScalarType::B64;
  uint32_t whole, low, high;
  if (!unpack) {
    if (!sourceOf(from.elements[0], element, low) ||
        !sourceOf(from.elements[1], element, high) || !dest(0, type, whole))
      return false;
    emitAlu(is64 ? AluOp::PackB64 : AluOp::PackB32, InstClass::Move,
            {whole, low, high});
    return true;
  }
  if (!source(1, type, whole) || !destOf(to.elements[0], element, low) ||
      !destOf(to.elements[1], element, high))
    return false;
  if (low != sinkGranule)
    emitAlu(is64 ? AluOp::LowB32 : AluOp::LowB16, InstClass::Move,
            {low, whole});
  // Unpacking is one instruction of the program, so count it once.
  if (high != sinkGranule)
    emitAlu(is64 ? AluOp::HighB32 : AluOp::HighB16, InstClass::Move,
            {high, whole})
        .hidden = low != sinkGranule;
  return true;
}

/// `mov.b64 %rd, {%h0, %h1, %h2, %h3}` and its inverse.
bool Lowering::lowerMovHalves() {
  const PtxOperand &to = inst->operands[0], &from = inst->operands[1];
  bool unpack = to.kind == PtxOperand::Kind::Vector;
  if (unpack && from.kind == PtxOperand::Kind::Vector)
    return failHere("expects one scalar operand on a vector mov");
  const PtxOperand &vector = unpack ? to : from;
  uint32_t whole, half[4];
  for (unsigned i = 0; i < 4; ++i)
    if (!(unpack ? destOf(vector.elements[i], ScalarType::B16, half[i])
                 : sourceOf(vector.elements[i], ScalarType::B16, half[i])))
      return false;
  if (!(unpack ? source(1, ScalarType::B64, whole)
               : dest(0, ScalarType::B64, whole)))
    return false;
  // One instruction of the program, so the last one alone is counted.
  uint32_t low = allocate(ScalarType::B32), high = allocate(ScalarType::B32);
  auto step = [&](AluOp op, std::initializer_list<uint32_t> operands) {
    emitAlu(op, InstClass::Move, operands).hidden = true;
  };
  if (unpack) {
    step(AluOp::LowB32, {low, whole});
    step(AluOp::HighB32, {high, whole});
    step(AluOp::LowB16, {half[0], low});
    step(AluOp::HighB16, {half[1], low});
    step(AluOp::LowB16, {half[2], high});
    step(AluOp::HighB16, {half[3], high});
  } else {
    step(AluOp::PackB32, {low, half[0], half[1]});
    step(AluOp::PackB32, {high, half[2], half[3]});
    step(AluOp::PackB64, {whole, low, high});
  }
  program.code.back().hidden = false;
  return true;
}

/// `mov.b32 %r, {%b0, %b1, %b2, %b3}`, `mov.b16 %h, {%b0, %b1}` and their
/// inverses, where the vector holds bytes.
bool Lowering::lowerMovBytes(ScalarType type, const PtxOperand &vector,
                             bool unpack) {
  unsigned count = typeBytes(type);
  if (vector.elements.size() != count)
    return fail(vector.loc, "expects " + std::to_string(count) +
                                " bytes on this vector mov, but got " +
                                std::to_string(vector.elements.size()));
  uint32_t whole, byte[4];
  for (unsigned i = 0; i < count; ++i)
    if (!(unpack ? destOf(vector.elements[i], ScalarType::B8, byte[i])
                 : sourceOf(vector.elements[i], ScalarType::B8, byte[i])))
      return false;
  if (!(unpack ? source(1, type, whole) : dest(0, type, whole)))
    return false;
  auto step = [&](AluOp op, std::initializer_list<uint32_t> operands) {
    emitAlu(op, InstClass::Move, operands).hidden = true;
  };
  uint32_t word = allocate(ScalarType::B32), part = allocate(ScalarType::B32);
  uint32_t mask = constant(4, 0xff);
  if (unpack) {
    step(count == 2 ? AluOp::CvtU16B32 : AluOp::MovB32, {word, whole});
    for (unsigned i = 0; i < count; ++i) {
      step(AluOp::ShrU32, {part, word, constant(4, 8 * i)});
      step(AluOp::AndB32, {part, part, mask});
      step(AluOp::LowB16, {byte[i], part});
    }
  } else {
    step(AluOp::MovB32, {word, constant(4, 0)});
    for (unsigned i = 0; i < count; ++i) {
      step(AluOp::CvtU16B32, {part, byte[i]});
      step(AluOp::AndB32, {part, part, mask});
      step(AluOp::ShlB32, {part, part, constant(4, 8 * i)});
      step(AluOp::OrB32, {word, word, part});
    }
    step(count == 2 ? AluOp::LowB16 : AluOp::MovB32, {whole, word});
  }
  program.code.back().hidden = false;
  return true;
}

bool Lowering::lowerMovClock(ScalarType type) {
  uint32_t d;
  if (!dest(0, type, d))
    return false;
  Inst &out = emit(InstKind::Clock, InstClass::Move);
  out.regBytes = static_cast<uint8_t>(typeBytes(type));
  out.aux = inst->operands[1].name.ends_with("_hi");
  setOperands(out, {d}, 1);
  return true;
}

bool Lowering::lowerMov() {
  ScalarType type = mods.takeType();
  if (!expectOperands(2))
    return false;
  if (type == ScalarType::Pred) {
    uint32_t d, a;
    if (!predicateSource(inst->operands[1], a) || !dest(0, type, d))
      return false;
    emitAlu(AluOp::MovPred, InstClass::Move, {d, a});
    return true;
  }
  unsigned bytes = typeBytes(type);
  if (bytes != 2 && bytes != 4 && bytes != 8)
    return failHere(std::string("'mov' does not exist for type .") +
                    typeName(type));
  const PtxOperand &from = inst->operands[1];
  if (from.kind == PtxOperand::Kind::Vector ||
      inst->operands[0].kind == PtxOperand::Kind::Vector)
    return lowerMovVector(type);
  if (from.kind == PtxOperand::Kind::Symbol) {
    std::string_view name = from.name;
    if (name == "%clock" || name == "%clock64" || name == "%clock_hi" ||
        name == "%globaltimer" || name == "%globaltimer_lo" ||
        name == "%globaltimer_hi")
      return lowerMovClock(type);
    Symbol *symbol = lookup(name);
    if (!symbol && module.find(name))
      return fail(from.loc, "the address of function '" + std::string(name) +
                                "' needs function pointers, which the emulator "
                                "does not have");
    if (symbol && symbol->kind == Symbol::Kind::Variable) {
      uint32_t d;
      if (isFloatType(type) || bytes < 4)
        return fail(from.loc, "expects a 32- or 64-bit integer type to take an "
                              "address");
      if (!dest(0, type, d))
        return false;
      uint32_t a = addressConstant(*symbol, from.isGeneric, bytes, from.value);
      emitAlu(movOf(type), InstClass::Move, {d, a});
      return true;
    }
  }
  return lowerUniform(movOf(type), type, 1, InstClass::Move);
}

bool Lowering::lowerCvta() {
  bool to = mods.take("to");
  ScalarType type = mods.takeType();
  int which =
      mods.takeOneOf({"global", "const", "shared", "shared::cta",
                      "shared::cluster", "local", "param", "param::entry"});
  if (which < 0 || !expectOperands(2) ||
      (type != ScalarType::U64 && type != ScalarType::U32))
    return failHere("expects cvta[.to].space.u64");
  static constexpr uint64_t windows[] = {
      0,           0,           sharedWindow, sharedWindow, sharedWindow,
      localWindow, paramWindow, paramWindow};
  uint64_t window = windows[which];
  uint32_t d, a;
  if (!addressSource(1, type, a))
    return false;
  if (!dest(0, type, d))
    return false;
  if (window == 0 || type == ScalarType::U32)
    emitAlu(movOf(type), InstClass::Move, {d, a});
  else
    emitAlu(to ? AluOp::SubB64 : AluOp::AddB64, InstClass::Move,
            {d, a, constant(8, window)});
  return true;
}

//===----------------------------------------------------------------------===//
// Comparisons
//===----------------------------------------------------------------------===//

static bool parseCompare(Modifiers &mods, ScalarType type, CmpOp &op) {
  int index = mods.takeOneOf({"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu",
                              "ltu", "leu", "gtu", "geu", "num", "nan"});
  if (index < 0 && !isFloatType(type)) {
    // lo, ls, hi and hs say "unsigned" once more.
    static constexpr CmpOp unsignedOps[] = {CmpOp::Lt, CmpOp::Le, CmpOp::Gt,
                                            CmpOp::Ge};
    index = mods.takeOneOf({"lo", "ls", "hi", "hs"});
    if (index < 0 || isSignedType(type))
      return false;
    op = unsignedOps[index];
    return true;
  }
  op = static_cast<CmpOp>(index);
  if (index < 0 || (index > 5 && !isFloatType(type)))
    return false;
  return !isBitsType(type) || index < 2;
}

static AluOp setpOf(ScalarType type, bool ftz) {
  switch (type) {
  case ScalarType::F32:
    return ftz ? AluOp::SetpF32Ftz : AluOp::SetpF32;
  case ScalarType::F64:
    return AluOp::SetpF64;
  case ScalarType::F16:
    return AluOp::SetpF16;
  case ScalarType::BF16:
    return AluOp::SetpBF16;
  default:
    break;
  }
  bool isSigned = isSignedType(type);
  switch (typeBytes(type)) {
  case 2:
    return isSigned ? AluOp::SetpS16 : AluOp::SetpU16;
  case 4:
    return isSigned ? AluOp::SetpS32 : AluOp::SetpU32;
  case 8:
    return isSigned ? AluOp::SetpS64 : AluOp::SetpU64;
  default:
    return AluOp::Count;
  }
}

/// Compares operands `first` and `first + 1`; an operand after them is the
/// predicate that .and, .or or .xor combine with.
bool Lowering::lowerCompare(ScalarType type, uint32_t p, uint32_t q,
                            unsigned first) {
  CmpOp cmp;
  bool ftz = mods.take("ftz");
  AluOp op = setpOf(type, ftz);
  if (op == AluOp::Count || type == ScalarType::F16x2 ||
      type == ScalarType::BF16x2)
    return failHere(std::string("comparisons of type .") + typeName(type) +
                    " are not supported");
  if (!parseCompare(mods, type, cmp))
    return failHere(std::string("expects a comparison that exists for type .") +
                    typeName(type));
  int boolOp = mods.takeOneOf({"and", "or", "xor"});
  if (!expectOperands(first + (boolOp >= 0 ? 3 : 2)))
    return false;
  uint32_t a, b, c = constant(0, 1);
  bool negated = false;
  if (!source(first, type, a) || !source(first + 1, type, b))
    return false;
  if (ftz && type == ScalarType::F16) {
    a = flushHalf(type, a);
    b = flushHalf(type, b);
  }
  if (boolOp >= 0) {
    PtxOperand operand = inst->operands[first + 2];
    negated = operand.negated;
    operand.negated = false;
    if (!predicateSource(operand, c))
      return false;
  }
  Inst &out = emitAlu(op, InstClass::Predicate, {p, q, a, b, c}, 2);
  out.aux = static_cast<int32_t>(cmp);
  out.boolOp = static_cast<BoolOp>(boolOp + 1);
  out.boolNegated = negated;
  return true;
}

/// A comparison of f16x2 or bf16x2: p of the low half, q of the high one.
bool Lowering::lowerPackedCompare(ScalarType type, uint32_t p, uint32_t q,
                                  unsigned first) {
  CmpOp cmp;
  bool ftz = mods.take("ftz");
  if (!parseCompare(mods, type, cmp))
    return failHere(std::string("expects a comparison that exists for type .") +
                    typeName(type));
  int boolOp = mods.takeOneOf({"and", "or", "xor"});
  uint32_t a, b, c = constant(0, 1);
  if (!expectOperands(first + (boolOp >= 0 ? 3 : 2)) ||
      !source(first, type, a) || !source(first + 1, type, b) ||
      (boolOp >= 0 && !predicateSource(inst->operands[first + 2], c)))
    return false;
  if (ftz && type == ScalarType::F16x2) {
    a = flushHalf(type, a);
    b = flushHalf(type, b);
  }
  AluOp op = type == ScalarType::F16x2 ? AluOp::SetpF16 : AluOp::SetpBF16;
  for (AluOp half : {AluOp::LowB16, AluOp::HighB16}) {
    uint32_t x = allocate(ScalarType::B16), y = allocate(ScalarType::B16);
    emitAlu(half, InstClass::Predicate, {x, a}).hidden = true;
    emitAlu(half, InstClass::Predicate, {y, b}).hidden = true;
    Inst &out =
        emitAlu(op, InstClass::Predicate,
                {half == AluOp::LowB16 ? p : q, sinkGranule, x, y, c}, 2);
    out.aux = static_cast<int32_t>(cmp);
    out.boolOp = static_cast<BoolOp>(boolOp + 1);
    out.hidden = half == AluOp::LowB16;
  }
  return true;
}

static bool isPackedHalf(ScalarType type) {
  return type == ScalarType::F16x2 || type == ScalarType::BF16x2;
}

bool Lowering::lowerSetp() {
  ScalarType type = mods.takeType();
  if (inst->operands.empty())
    return expectOperands(3);
  const PtxOperand &target = inst->operands[0];
  uint32_t p, q = sinkGranule;
  if (target.isPair) {
    if (!destOf(target.elements[0], ScalarType::Pred, p) ||
        !destOf(target.elements[1], ScalarType::Pred, q))
      return false;
  } else if (!destOf(target, ScalarType::Pred, p)) {
    return false;
  }
  if (isPackedHalf(type) && !target.isPair)
    return fail(target.loc, "expects two predicates, as in p|q, for a packed "
                            "comparison");
  return isPackedHalf(type) ? lowerPackedCompare(type, p, q, 1)
                            : lowerCompare(type, p, q, 1);
}

/// All ones, or 1.0, in a type; of packed ones in one half.
static uint64_t trueValue(ScalarType type) {
  switch (type) {
  case ScalarType::F32:
    return 0x3f800000u;
  case ScalarType::F16:
  case ScalarType::F16x2:
    return 0x3c00u;
  case ScalarType::BF16:
  case ScalarType::BF16x2:
    return 0x3f80u;
  default:
    return ~uint64_t(0);
  }
}

/// `set.lt.u32.f32 d, a, b`: all ones, or 1.0, where the comparison holds.
bool Lowering::lowerSet() {
  ScalarType to = mods.takeType();
  ScalarType from = mods.takeType();
  unsigned bytes = typeBytes(to);
  bool isPacked = isPackedHalf(from);
  if (isBitsType(to) || (bytes != 2 && bytes != 4) ||
      from == ScalarType::None || isPackedHalf(to) > isPacked ||
      (isPacked && bytes != 4))
    return failHere("expects set with a destination of 16 or 32 bits and a "
                    "type that can be compared");
  uint32_t p = allocate(ScalarType::Pred), d;
  if (!isPacked) {
    if (!lowerCompare(from, p, sinkGranule, 1) || !dest(0, to, d))
      return false;
    program.code.back().hidden = true;
    emitAlu(bytes == 2 ? AluOp::SelpB16 : AluOp::SelpB32, InstClass::Predicate,
            {d, constant(bytes, trueValue(to)), constant(bytes, 0), p});
    return true;
  }
  uint32_t q = allocate(ScalarType::Pred), no = constant(2, 0);
  uint32_t yes = constant(2, trueValue(to));
  uint32_t low = allocate(ScalarType::B16), high = allocate(ScalarType::B16);
  if (!lowerPackedCompare(from, p, q, 1) || !dest(0, to, d))
    return false;
  program.code.back().hidden = true;
  emitAlu(AluOp::SelpB16, InstClass::Predicate, {low, yes, no, p}).hidden =
      true;
  emitAlu(AluOp::SelpB16, InstClass::Predicate, {high, yes, no, q}).hidden =
      true;
  emitAlu(AluOp::PackB32, InstClass::Predicate, {d, low, high});
  return true;
}

static AluOp selpOf(unsigned bytes) {
  return bytes == 2   ? AluOp::SelpB16
         : bytes == 4 ? AluOp::SelpB32
                      : AluOp::SelpB64;
}

bool Lowering::lowerSelp() {
  ScalarType type = mods.takeType();
  uint32_t d, a, b, p;
  unsigned bytes = typeBytes(type);
  if (bytes != 2 && bytes != 4 && bytes != 8)
    return failHere(std::string("'selp' does not exist for type .") +
                    typeName(type));
  if (!expectOperands(4) || !source(1, type, a) || !source(2, type, b) ||
      !predicateSource(inst->operands[3], p) || !dest(0, type, d))
    return false;
  emitAlu(selpOf(bytes), InstClass::Predicate, {d, a, b, p});
  return true;
}

/// d = c >= 0 ? a : b
bool Lowering::lowerSlct() {
  bool ftz = mods.take("ftz");
  ScalarType type = mods.takeType(), by = mods.takeType();
  unsigned bytes = typeBytes(type);
  if ((bytes != 2 && bytes != 4 && bytes != 8) ||
      (by != ScalarType::S32 && by != ScalarType::F32))
    return failHere("expects slct of 16 to 64 bits with a selector of type "
                    ".s32 or .f32");
  uint32_t d, a, b, c, p = allocate(ScalarType::Pred);
  if (!expectOperands(4) || !source(1, type, a) || !source(2, type, b) ||
      !source(3, by, c) || !dest(0, type, d))
    return false;
  Inst &compare =
      emitAlu(setpOf(by, ftz), InstClass::Predicate,
              {p, sinkGranule, c, constant(4, 0), constant(0, 1)}, 2);
  compare.aux = static_cast<int32_t>(CmpOp::Ge);
  compare.hidden = true;
  emitAlu(selpOf(bytes), InstClass::Predicate, {d, a, b, p});
  return true;
}

bool Lowering::lowerTestp() {
  int which = mods.takeOneOf(
      {"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  ScalarType type = mods.takeType();
  if (which < 0 || (type != ScalarType::F32 && type != ScalarType::F64))
    return failHere("expects testp of f32 or f64 with one of its six tests");
  uint32_t d, a;
  if (!expectOperands(2) || !source(1, type, a) ||
      !dest(0, ScalarType::Pred, d))
    return false;
  emitAlu(type == ScalarType::F32 ? AluOp::TestpF32 : AluOp::TestpF64,
          InstClass::Predicate, {d, a})
      .aux = which;
  return true;
}

/// Whether a generic address lies in the window of a space. Constant memory
/// shares the window of global memory, so `.const` is never sure.
bool Lowering::lowerIsspacep() {
  int which = mods.takeOneOf(
      {"global", "shared", "shared::cta", "local", "param", "param::entry"});
  if (which < 0 || !expectOperands(2))
    return failHere("expects isspacep.{global,shared,local,param}");
  static constexpr uint64_t windows[] = {globalWindow, sharedWindow,
                                         sharedWindow, localWindow,
                                         paramWindow,  paramWindow};
  constexpr unsigned windowBits = 40;
  uint32_t p, a, number = allocate(ScalarType::U64);
  if (!source(1, ScalarType::U64, a) || !dest(0, ScalarType::Pred, p))
    return false;
  emitAlu(AluOp::ShrU64, InstClass::Predicate,
          {number, a, constant(4, windowBits)})
      .hidden = true;
  Inst &out =
      emitAlu(AluOp::SetpU64, InstClass::Predicate,
              {p, sinkGranule, number,
               constant(8, windows[which] >> windowBits), constant(0, 1)},
              2);
  // Everything from the global window upwards is global.
  out.aux = static_cast<int32_t>(which == 0 ? CmpOp::Ge : CmpOp::Eq);
  return true;
}

/// A cache policy changes no result; any value will do.
bool Lowering::lowerCreatePolicy() {
  if (mods.takeOneOf({"fractional", "range", "cvt"}) == 2)
    mods.take("L2");
  mods.take("global");
  while (!mods.takePrefix("L2::").empty())
    ;
  uint32_t d;
  if (mods.takeType() != ScalarType::B64 || !expectOperands(1, 5) ||
      !dest(0, ScalarType::B64, d))
    return failHere("expects createpolicy with a .b64 result");
  emitAlu(AluOp::MovB64, InstClass::Move, {d, constant(8, 0)});
  return true;
}
