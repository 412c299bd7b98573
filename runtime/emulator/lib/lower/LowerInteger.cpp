//===- LowerInteger.cpp - Integer and bit instructions --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA sections 9.7.1 (integer arithmetic) and 9.7.8 (logic and shift), and
// the opcode table. Where an opcode also has float types, the type sends it to
// LowerFloat.cpp.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

using namespace flashcore::emu;

/// The member of three operations in order of width that fits `type`.
static AluOp byWidth(ScalarType type, AluOp b16) {
  unsigned bytes = typeBytes(type);
  unsigned step = bytes == 2 ? 0 : bytes == 4 ? 1 : 2;
  return static_cast<AluOp>(static_cast<unsigned>(b16) + step);
}

/// The member of six operations U16 U32 U64 S16 S32 S64 that fits `type`.
static AluOp bySign(ScalarType type, AluOp u16) {
  AluOp op = byWidth(type, u16);
  return isSignedType(type) ? static_cast<AluOp>(static_cast<unsigned>(op) + 3)
                            : op;
}

static bool isArithType(ScalarType type) {
  return (isSignedType(type) || isUnsignedType(type)) && typeBytes(type) >= 2;
}

static std::string badType(std::string_view opcode, ScalarType type) {
  return "'" + std::string(opcode) + "' does not exist for type ." +
         typeName(type);
}

bool Lowering::lowerAddSub() {
  ScalarType type = mods.takeType();
  if (isFloatType(type))
    return lowerFloatArith(type);
  if (!isArithType(type))
    return failHere(badType(mods.base(), type));
  bool isSub = mods.base() == "sub" || mods.base() == "subc";
  bool carryIn = mods.base().ends_with("c"), carryOut = mods.take("cc");
  if (carryIn || carryOut) {
    uint32_t d, a, b;
    return expectOperands(3) && source(1, type, a) && source(2, type, b) &&
           dest(0, type, d) &&
           emitCarry(isSub, type, d, a, b, carryIn, carryOut);
  }
  if (mods.take("sat")) {
    if (type != ScalarType::S32)
      return failHere(".sat is supported for .s32 only");
    return lowerUniform(isSub ? AluOp::SubSatS32 : AluOp::AddSatS32, type, 2,
                        InstClass::Integer);
  }
  return lowerUniform(byWidth(type, isSub ? AluOp::SubB16 : AluOp::AddB16),
                      type, 2, InstClass::Integer);
}

/// d = a +- b with the condition code (9.7.2), which is one predicate.
bool Lowering::emitCarry(bool isSub, ScalarType type, uint32_t d, uint32_t a,
                         uint32_t b, bool carryIn, bool carryOut) {
  unsigned bytes = typeBytes(type);
  if (bytes < 4)
    return failHere("extended precision expects a 32- or 64-bit type");
  if (carryFlag == noGranule)
    carryFlag = allocate(ScalarType::Pred, "CC.CF");
  AluOp op = isSub ? (bytes == 4 ? AluOp::SubCarryB32 : AluOp::SubCarryB64)
                   : (bytes == 4 ? AluOp::AddCarryB32 : AluOp::AddCarryB64);
  emitAlu(op, InstClass::Integer,
          {d, carryOut ? carryFlag : sinkGranule, a, b,
           carryIn ? carryFlag : constant(0, isSub)},
          2);
  return true;
}

/// The multiplication that gives the low or high half of a product.
static AluOp productOf(ScalarType type, bool isHigh) {
  if (!isHigh)
    return byWidth(type, AluOp::MulB16);
  unsigned bytes = typeBytes(type);
  AluOp op = bytes == 2   ? AluOp::MulHiU16
             : bytes == 4 ? AluOp::MulHiU32
                          : AluOp::MulHiU64;
  // The signed form of each follows the unsigned one.
  return static_cast<AluOp>(static_cast<unsigned>(op) + isSignedType(type));
}

/// `mad` as a product and a sum, for the forms without an operation of their
/// own: .hi, .sat, .cc and madc.
bool Lowering::lowerProductSum(AluOp product, ScalarType type, int aux) {
  bool carryIn = mods.base() == "madc", carryOut = mods.take("cc");
  bool sat = mods.take("sat");
  uint32_t d, a, b, c, t = allocate(type);
  if (!expectOperands(4) || !source(1, type, a) || !source(2, type, b) ||
      !source(3, type, c) || !dest(0, type, d))
    return false;
  Inst &out = emitAlu(product, InstClass::Integer, {t, a, b});
  out.aux = aux;
  out.hidden = true;
  if (carryIn || carryOut)
    return emitCarry(/*isSub=*/false, type, d, t, c, carryIn, carryOut);
  if (sat && type != ScalarType::S32)
    return failHere(".sat is supported for .s32 only");
  emitAlu(sat ? AluOp::AddSatS32 : byWidth(type, AluOp::AddB16),
          InstClass::Integer, {d, t, c});
  return true;
}

/// mul24 and mad24: 48-bit products of the low 24 bits.
bool Lowering::lowerMul24() {
  ScalarType type = mods.takeType();
  int part = mods.takeOneOf({"lo", "hi"});
  if (part < 0 || typeBytes(type) != 4 || !isArithType(type))
    return failHere("expects " + std::string(mods.base()) +
                    ".{lo,hi}.{u32,s32}");
  AluOp op = isSignedType(type) ? AluOp::Mul24S32 : AluOp::Mul24U32;
  int shift = part == 1 ? 16 : 0;
  return mods.base() == "mad24"
             ? lowerProductSum(op, type, shift)
             : lowerUniform(op, type, 2, InstClass::Integer, shift);
}

/// dp4a.atype.btype and dp2a.mode.atype.btype d, a, b, c
bool Lowering::lowerDotProduct() {
  bool isDp4a = mods.base() == "dp4a";
  int half = isDp4a ? 0 : mods.takeOneOf({"lo", "hi"});
  ScalarType a = mods.takeType(), b = mods.takeType();
  auto isWord = [](ScalarType type) {
    return type == ScalarType::U32 || type == ScalarType::S32;
  };
  if (half < 0 || !isWord(a) || !isWord(b))
    return failHere("expects dp4a or dp2a.{lo,hi} with two types .u32 or .s32");
  int aux = (isSignedType(a) ? 1 : 0) | (isSignedType(b) ? 2 : 0) | half << 2;
  return lowerUniform(isDp4a ? AluOp::Dp4a : AluOp::Dp2a, ScalarType::B32, 3,
                      InstClass::Integer, aux);
}

bool Lowering::lowerMulMad() {
  bool isMad = mods.base() != "mul";
  ScalarType type = mods.takeType();
  if (isFloatType(type))
    return isMad ? lowerFma() : lowerFloatArith(type);
  if (!isArithType(type))
    return failHere(badType(mods.base(), type));
  int part = mods.takeOneOf({"lo", "hi", "wide"});
  if (part < 0)
    return failHere("expects .lo, .hi or .wide on an integer multiply");
  unsigned numSources = isMad ? 3 : 2;
  bool isSigned = isSignedType(type);
  bool isPlain = mods.base() != "madc" && !mods.has("cc");
  if (part == 0 && isMad && isPlain)
    return lowerUniform(byWidth(type, AluOp::MadB16), type, 3,
                        InstClass::Integer);
  if (part < 2)
    return isMad ? lowerProductSum(productOf(type, part == 1), type, 0)
                 : lowerUniform(productOf(type, part == 1), type, 2,
                                InstClass::Integer);
  unsigned bytes = typeBytes(type);
  if (bytes == 8)
    return failHere("'.wide' expects a 16- or 32-bit type");
  AluOp op = isMad ? (bytes == 2 ? AluOp::MadWideU16 : AluOp::MadWideU32)
                   : (bytes == 2 ? AluOp::MulWideU16 : AluOp::MulWideU32);
  op = static_cast<AluOp>(static_cast<unsigned>(op) + isSigned);
  ScalarType wide = bytes == 2 ? (isSigned ? ScalarType::S32 : ScalarType::U32)
                               : (isSigned ? ScalarType::S64 : ScalarType::U64);
  uint32_t d, a, b, c = 0;
  if (!expectOperands(numSources + 1) || !source(1, type, a) ||
      !source(2, type, b) || (isMad && !source(3, wide, c)) ||
      !dest(0, wide, d))
    return false;
  if (isMad)
    emitAlu(op, InstClass::Integer, {d, a, b, c});
  else
    emitAlu(op, InstClass::Integer, {d, a, b});
  return true;
}

bool Lowering::lowerDivRem() {
  ScalarType type = mods.takeType();
  if (isFloatType(type))
    return mods.base() == "div" ? lowerFloatDiv(type)
                                : failHere(badType("rem", type));
  if (!isArithType(type))
    return failHere(badType(mods.base(), type));
  return lowerUniform(
      bySign(type, mods.base() == "div" ? AluOp::DivU16 : AluOp::RemU16), type,
      2, InstClass::Integer);
}

bool Lowering::lowerMinMax() {
  ScalarType type = mods.takeType();
  if (isFloatType(type))
    return lowerFloatMinMax(type);
  if (!isArithType(type))
    return failHere(badType(mods.base(), type));
  bool relu = mods.take("relu");
  if (relu && type != ScalarType::S32)
    return failHere(".relu is supported for .s32 integers only");
  bool ok = lowerUniform(
      bySign(type, mods.base() == "min" ? AluOp::MinU16 : AluOp::MaxU16), type,
      2, InstClass::Integer);
  if (!ok || !relu)
    return ok;
  uint32_t d = program.operands[program.code.back().firstOperand];
  emitAlu(bySign(type, AluOp::MaxU16), InstClass::Integer,
          {d, d, constant(4, 0)})
      .hidden = true;
  return true;
}

bool Lowering::lowerAbsNeg() {
  ScalarType type = mods.takeType();
  if (isFloatType(type))
    return lowerFloatAbsNeg(type);
  if (!isSignedType(type) || typeBytes(type) < 2)
    return failHere(badType(mods.base(), type));
  return lowerUniform(
      byWidth(type, mods.base() == "abs" ? AluOp::AbsS16 : AluOp::NegB16), type,
      1, InstClass::Integer);
}

bool Lowering::lowerLogic() {
  ScalarType type = mods.takeType();
  std::string_view base = mods.base();
  if (type == ScalarType::Pred) {
    AluOp op = base == "and"  ? AluOp::AndPred
               : base == "or" ? AluOp::OrPred
                              : AluOp::XorPred;
    uint32_t d, a, b;
    if (!expectOperands(3) || !predicateSource(inst->operands[1], a) ||
        !predicateSource(inst->operands[2], b) || !dest(0, ScalarType::Pred, d))
      return false;
    emitAlu(op, InstClass::Predicate, {d, a, b});
    return true;
  }
  if (!isBitsType(type) || typeBytes(type) < 2 || typeBytes(type) > 8)
    return failHere(badType(base, type));
  AluOp op = base == "and"  ? AluOp::AndB16
             : base == "or" ? AluOp::OrB16
                            : AluOp::XorB16;
  return lowerUniform(byWidth(type, op), type, 2, InstClass::Integer);
}

bool Lowering::lowerNot() {
  ScalarType type = mods.takeType();
  if (type == ScalarType::Pred && mods.base() == "not") {
    uint32_t d, a;
    if (!expectOperands(2) || !predicateSource(inst->operands[1], a) ||
        !dest(0, type, d))
      return false;
    emitAlu(AluOp::NotPred, InstClass::Predicate, {d, a});
    return true;
  }
  if (!isBitsType(type) || typeBytes(type) < 2 || typeBytes(type) > 8)
    return failHere(badType(mods.base(), type));
  return lowerUniform(
      byWidth(type, mods.base() == "not" ? AluOp::NotB16 : AluOp::CnotB16),
      type, 1, InstClass::Integer);
}

bool Lowering::lowerShift() {
  ScalarType type = mods.takeType();
  bool isLeft = mods.base() == "shl";
  bool ok = isLeft ? isBitsType(type) : !isFloatType(type);
  if (!ok || typeBytes(type) < 2 || typeBytes(type) > 8)
    return failHere(badType(mods.base(), type));
  AluOp op = isLeft               ? AluOp::ShlB16
             : isSignedType(type) ? AluOp::ShrS16
                                  : AluOp::ShrU16;
  uint32_t d, a, b;
  if (!expectOperands(3) || !source(1, type, a) ||
      !source(2, ScalarType::U32, b) || !dest(0, type, d))
    return false;
  emitAlu(byWidth(type, op), InstClass::Integer, {d, a, b});
  return true;
}

bool Lowering::lowerFunnelShift() {
  int direction = mods.takeOneOf({"l", "r"});
  int mode = mods.takeOneOf({"wrap", "clamp"});
  if (direction < 0 || mode < 0 || mods.takeType() != ScalarType::B32)
    return failHere("expects shf.{l,r}.{wrap,clamp}.b32");
  AluOp op = direction == 0 ? (mode == 0 ? AluOp::ShfLWrap : AluOp::ShfLClamp)
                            : (mode == 0 ? AluOp::ShfRWrap : AluOp::ShfRClamp);
  return lowerUniform(op, ScalarType::B32, 3, InstClass::Integer);
}

bool Lowering::lowerLop3() {
  int boolOp = mods.takeOneOf({"and", "or"});
  if (mods.takeType() != ScalarType::B32)
    return failHere("expects lop3.b32");
  if (boolOp >= 0)
    return lowerLop3Pred(boolOp == 0 ? BoolOp::And : BoolOp::Or);
  if (!expectOperands(5))
    return false;
  const PtxOperand &table = inst->operands[4];
  if (table.kind != PtxOperand::Kind::Int || table.value < 0 ||
      table.value > 255)
    return fail(table.loc, "expects a truth table from 0 to 255");
  uint32_t d, a, b, c;
  if (!source(1, ScalarType::B32, a) || !source(2, ScalarType::B32, b) ||
      !source(3, ScalarType::B32, c) || !dest(0, ScalarType::B32, d))
    return false;
  emitAlu(AluOp::Lop3, InstClass::Integer, {d, a, b, c}).aux =
      static_cast<int32_t>(table.value);
  return true;
}

/// lop3.BoolOp.b32 d|p, a, b, c, table, q: also p = (d != 0) BoolOp q.
bool Lowering::lowerLop3Pred(BoolOp boolOp) {
  if (!expectOperands(6))
    return false;
  const PtxOperand &to = inst->operands[0], &table = inst->operands[4];
  if (table.kind != PtxOperand::Kind::Int || table.value < 0 ||
      table.value > 255)
    return fail(table.loc, "expects a truth table from 0 to 255");
  if (!to.isPair)
    return fail(to.loc, "expects a register and a predicate, as in d|p");
  uint32_t d, p, a, b, c, q;
  if (!source(1, ScalarType::B32, a) || !source(2, ScalarType::B32, b) ||
      !source(3, ScalarType::B32, c) ||
      !predicateSource(inst->operands[5], q) ||
      !destOf(to.elements[0], ScalarType::B32, d) ||
      !destOf(to.elements[1], ScalarType::Pred, p))
    return false;
  if (d == sinkGranule)
    d = allocate(ScalarType::B32);
  emitAlu(AluOp::Lop3, InstClass::Integer, {d, a, b, c}).aux =
      static_cast<int32_t>(table.value);
  Inst &out = emitAlu(AluOp::SetpU32, InstClass::Integer,
                      {p, sinkGranule, d, constant(4, 0), q}, 2);
  out.aux = static_cast<int32_t>(CmpOp::Ne);
  out.boolOp = boolOp;
  out.hidden = true;
  return true;
}

bool Lowering::lowerPrmt() {
  if (mods.takeType() != ScalarType::B32)
    return failHere("expects prmt.b32");
  int mode = mods.takeOneOf({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
  if (mode >= 0)
    return lowerUniform(AluOp::PrmtMode, ScalarType::B32, 3, InstClass::Integer,
                        mode + 1);
  return lowerUniform(AluOp::Prmt, ScalarType::B32, 3, InstClass::Integer);
}

bool Lowering::lowerBitField() {
  ScalarType type = mods.takeType();
  if (!isArithType(type) || typeBytes(type) < 4)
    return failHere(badType("bfe", type));
  bool is64 = typeBytes(type) == 8;
  AluOp op = isSignedType(type) ? (is64 ? AluOp::BfeS64 : AluOp::BfeS32)
                                : (is64 ? AluOp::BfeU64 : AluOp::BfeU32);
  uint32_t d, a, b, c;
  if (!expectOperands(4) || !source(1, type, a) ||
      !source(2, ScalarType::U32, b) || !source(3, ScalarType::U32, c) ||
      !dest(0, type, d))
    return false;
  emitAlu(op, InstClass::Integer, {d, a, b, c});
  return true;
}

bool Lowering::lowerBitInsert() {
  ScalarType type = mods.takeType();
  if (type != ScalarType::B32 && type != ScalarType::B64)
    return failHere(badType("bfi", type));
  uint32_t d, a, b, c, e;
  if (!expectOperands(5) || !source(1, type, a) || !source(2, type, b) ||
      !source(3, ScalarType::U32, c) || !source(4, ScalarType::U32, e) ||
      !dest(0, type, d))
    return false;
  emitAlu(type == ScalarType::B32 ? AluOp::BfiB32 : AluOp::BfiB64,
          InstClass::Integer, {d, a, b, c, e});
  return true;
}

bool Lowering::lowerBitCount() {
  ScalarType type = mods.takeType();
  bool is64 = typeBytes(type) == 8;
  std::string_view base = mods.base();
  bool ok = base == "bfind" ? isArithType(type) : isBitsType(type);
  if (!ok || (typeBytes(type) != 4 && !is64))
    return failHere(badType(base, type));
  AluOp op = AluOp::PopcB32;
  if (base == "clz")
    op = AluOp::ClzB32;
  else if (base == "brev")
    op = AluOp::BrevB32;
  else if (base == "bfind")
    op = isSignedType(type) ? AluOp::BfindS32 : AluOp::BfindU32;
  // The 64-bit form of each follows the 32-bit one.
  op = static_cast<AluOp>(static_cast<unsigned>(op) + is64);
  ScalarType result = base == "brev" ? type : ScalarType::U32;
  uint32_t d, a;
  if (!expectOperands(2) || !source(1, type, a) || !dest(0, result, d))
    return false;
  bool fromTop = base == "bfind" && mods.take("shiftamt");
  emitAlu(op, InstClass::Integer, {d, a}).aux =
      fromTop ? static_cast<int>(typeBytes(type) * 8 - 1) : 0;
  return true;
}

bool Lowering::lowerSad() {
  ScalarType type = mods.takeType();
  if (!isArithType(type))
    return failHere(badType("sad", type));
  return lowerUniform(bySign(type, AluOp::SadU16), type, 3, InstClass::Integer);
}

/// bmsk, szext and fns.
bool Lowering::lowerBitSearch() {
  std::string_view base = mods.base();
  int mode = base == "fns" ? 0 : mods.takeOneOf({"wrap", "clamp"});
  ScalarType type = mods.takeType();
  bool ok = base == "szext" ? isArithType(type) : isBitsType(type);
  if (mode < 0 || !ok || typeBytes(type) != 4)
    return failHere("expects fns.b32, bmsk.{wrap,clamp}.b32 or "
                    "szext.{wrap,clamp}.{u32,s32}");
  AluOp op = base == "fns"        ? AluOp::Fns
             : base == "bmsk"     ? AluOp::Bmsk
             : isSignedType(type) ? AluOp::SzextS32
                                  : AluOp::SzextU32;
  return lowerUniform(op, ScalarType::B32, base == "fns" ? 3 : 2,
                      InstClass::Integer, mode);
}

//===----------------------------------------------------------------------===//
// The opcode table
//===----------------------------------------------------------------------===//

const std::unordered_map<std::string_view, Lowering::LowerFn> &
Lowering::opcodeTable() {
  static const std::unordered_map<std::string_view, LowerFn> table = {
#define FC_OPCODE(NAME, FUNCTION) {NAME, &Lowering::FUNCTION},
#include "Opcodes.def"
  };
  return table;
}
