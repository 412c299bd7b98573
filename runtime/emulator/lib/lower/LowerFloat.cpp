//===- LowerFloat.cpp - Floating-point instructions -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA sections 9.7.3 (f32, f64), 9.7.4 (f16, bf16). `.sat` becomes a second
// instruction on the result, which costs nothing to those that lack it.
//
//===----------------------------------------------------------------------===//

#include "../math/Rounding.h"
#include "Lowering.h"

#include <algorithm>
#include <array>

using namespace flashcore::emu;

static std::string badType(std::string_view opcode, ScalarType type) {
  return "'" + std::string(opcode) + "' does not exist for type ." +
         typeName(type);
}

static bool isHalf(ScalarType type) {
  return type == ScalarType::F16 || type == ScalarType::F16x2 ||
         type == ScalarType::BF16 || type == ScalarType::BF16x2;
}

/// The member of four operations F16 F16x2 BF16 BF16x2 that fits `type`.
static AluOp byHalf(ScalarType type, AluOp f16) {
  unsigned step = type == ScalarType::F16     ? 0
                  : type == ScalarType::F16x2 ? 1
                  : type == ScalarType::BF16  ? 2
                                              : 3;
  return static_cast<AluOp>(static_cast<unsigned>(f16) + step);
}

static AluOp next(AluOp op, unsigned steps) {
  return static_cast<AluOp>(static_cast<unsigned>(op) + steps);
}

/// Appends `.sat` to the instruction just emitted.
bool Lowering::finishSat(bool sat, ScalarType type) {
  if (!sat)
    return true;
  if (type != ScalarType::F32)
    return failHere(".sat is supported for f32 only");
  uint32_t d = program.operands[program.code.back().firstOperand];
  emitAlu(AluOp::SatF32, InstClass::Float, {d, d}).hidden = true;
  return true;
}

/// A register with `operand` of type f16 or f16x2, its subnormals flushed.
uint32_t Lowering::flushHalf(ScalarType type, uint32_t operand) {
  uint32_t flushed = allocate(type);
  emitAlu(typeBytes(type) == 4 ? AluOp::FtzF16x2 : AluOp::FtzF16,
          InstClass::Half, {flushed, operand})
      .hidden = true;
  return flushed;
}

/// A 16-bit operation with .ftz and .sat around it.
bool Lowering::lowerHalf(AluOp op, ScalarType type, unsigned numSources,
                         int aux, bool ftz, bool sat) {
  bool isPacked = typeBytes(type) == 4;
  if ((ftz || sat) && type != ScalarType::F16 && type != ScalarType::F16x2)
    return failHere(".ftz and .sat are supported for f16 and f32 only");
  if (!expectOperands(numSources + 1))
    return false;
  std::vector<uint32_t> operands(numSources + 1);
  AluOp flush = isPacked ? AluOp::FtzF16x2 : AluOp::FtzF16;
  for (unsigned i = 1; i <= numSources; ++i) {
    if (!source(i, type, operands[i]))
      return false;
    if (ftz)
      operands[i] = flushHalf(type, operands[i]);
  }
  if (!dest(0, type, operands[0]))
    return false;
  Inst &out = emit(InstKind::Alu, InstClass::Half);
  out.op = op;
  out.aux = aux;
  setOperands(out, operands, 1);
  uint32_t d = operands[0];
  if (ftz)
    emitAlu(flush, InstClass::Half, {d, d}).hidden = true;
  if (sat)
    emitAlu(isPacked ? AluOp::SatF16x2 : AluOp::SatF16, InstClass::Half, {d, d})
        .hidden = true;
  return true;
}

bool Lowering::lowerFloatArith(ScalarType type) {
  std::string_view base = mods.base();
  int rounding = mods.takeOneOf({"rn", "rz", "rm", "rp"});
  bool ftz = mods.take("ftz"), sat = mods.take("sat");
  unsigned which = base == "add" ? 0 : base == "sub" ? 1 : 2;
  if (isHalf(type)) {
    static constexpr AluOp ops[] = {AluOp::AddF16, AluOp::SubF16,
                                    AluOp::MulF16};
    if (rounding > 0)
      return failHere("only .rn is supported for 16-bit floats");
    return lowerHalf(byHalf(type, ops[which]), type, 2, 0, ftz, sat);
  }
  if (type == ScalarType::F64) {
    static constexpr AluOp nearest[] = {AluOp::AddF64, AluOp::SubF64,
                                        AluOp::MulF64};
    static constexpr AluOp directed[] = {AluOp::AddF64Rnd, AluOp::SubF64Rnd,
                                         AluOp::MulF64Rnd};
    return lowerUniform((rounding > 0 ? directed : nearest)[which], type, 2,
                        InstClass::Float, std::max(rounding, 0));
  }
  if (type != ScalarType::F32)
    return failHere(badType(base, type));
  static constexpr AluOp plain[] = {AluOp::AddF32, AluOp::SubF32,
                                    AluOp::MulF32};
  static constexpr AluOp flushed[] = {AluOp::AddF32Ftz, AluOp::SubF32Ftz,
                                      AluOp::MulF32Ftz};
  static constexpr AluOp rounded[] = {AluOp::AddF32Rnd, AluOp::SubF32Rnd,
                                      AluOp::MulF32Rnd};
  bool ok = rounding > 0
                ? lowerUniform(rounded[which], type, 2, InstClass::Float,
                               rounding + (ftz ? roundingFtz : 0))
                : lowerUniform((ftz ? flushed : plain)[which], type, 2,
                               InstClass::Float);
  return ok && finishSat(sat, type);
}

bool Lowering::lowerFma() {
  int rounding = mods.takeOneOf({"rn", "rz", "rm", "rp"});
  bool ftz = mods.take("ftz"), sat = mods.take("sat");
  bool relu = mods.take("relu");
  // lowerMulMad has already taken the type of `mad`.
  ScalarType type = mods.takeType();
  if (type == ScalarType::None && mods.base() == "mad")
    type = inst->opcode.ends_with("f64") ? ScalarType::F64 : ScalarType::F32;
  if (rounding < 0)
    return failHere("expects a rounding modifier such as .rn on fma");
  if (isHalf(type)) {
    if (rounding > 0)
      return failHere("only .rn is supported for 16-bit floats");
    return lowerHalf(byHalf(type, AluOp::FmaF16), type, 3,
                     (sat ? 1 : 0) | (relu ? 2 : 0), ftz, /*sat=*/false);
  }
  if (relu)
    return failHere(".relu is supported for 16-bit floats only");
  if (type == ScalarType::F64)
    return lowerUniform(rounding > 0 ? AluOp::FmaF64Rnd : AluOp::FmaF64, type,
                        3, InstClass::Float, rounding);
  if (type != ScalarType::F32)
    return failHere(badType("fma", type));
  bool ok = rounding > 0
                ? lowerUniform(AluOp::FmaF32Rnd, type, 3, InstClass::Float,
                               rounding + (ftz ? roundingFtz : 0))
                : lowerUniform(ftz ? AluOp::FmaF32Ftz : AluOp::FmaF32, type, 3,
                               InstClass::Float);
  return ok && finishSat(sat, type);
}

bool Lowering::lowerFloatMinMax(ScalarType type) {
  bool isMin = mods.base() == "min";
  bool ftz = mods.take("ftz"), nan = mods.take("NaN");
  bool xorSign = mods.take("xorsign");
  // Order in AluOps.def: Min Max MinFtz MaxFtz MinNan MaxNan MinNanFtz ...
  AluOp op =
      next(AluOp::MinF32, (isMin ? 0 : 1) + (ftz ? 2 : 0) + (nan ? 4 : 0));
  if (inst->operands.size() == 4 && !xorSign && type == ScalarType::F32)
    return lowerThreeInputs(op);
  if (xorSign && !mods.take("abs"))
    return failHere("expects .abs after .xorsign");
  if (isHalf(type)) {
    AluOp f16 = nan ? (isMin ? AluOp::MinNanF16 : AluOp::MaxNanF16)
                    : (isMin ? AluOp::MinF16 : AluOp::MaxF16);
    if (xorSign && !ftz)
      return lowerXorSign(byHalf(type, f16), type);
    if (xorSign)
      return failHere(".ftz and .xorsign together are not supported for f16");
    return lowerHalf(byHalf(type, f16), type, 2, 0, ftz, /*sat=*/false);
  }
  if (type == ScalarType::F64 && !nan && !ftz && !xorSign)
    return lowerUniform(isMin ? AluOp::MinF64 : AluOp::MaxF64, type, 2,
                        InstClass::Float);
  if (type != ScalarType::F32)
    return failHere(badType(mods.base(), type));
  if (xorSign)
    return lowerXorSign(op, type);
  return lowerUniform(op, type, 2, InstClass::Float);
}

/// min or max of three f32, or of their magnitudes, of sm_100 and newer.
bool Lowering::lowerThreeInputs(AluOp op) {
  bool isAbs = mods.take("abs");
  std::array<uint32_t, 4> operands;
  for (unsigned i = 1; i <= 3; ++i) {
    if (!source(i, ScalarType::F32, operands[i]))
      return false;
    if (!isAbs)
      continue;
    uint32_t magnitude = allocate(ScalarType::F32);
    emitAlu(AluOp::AbsF32, InstClass::Float, {magnitude, operands[i]}).hidden =
        true;
    operands[i] = magnitude;
  }
  if (!dest(0, ScalarType::F32, operands[0]))
    return false;
  uint32_t ofTwo = allocate(ScalarType::F32);
  emitAlu(op, InstClass::Float, {ofTwo, operands[1], operands[2]}).hidden =
      true;
  emitAlu(op, InstClass::Float, {operands[0], ofTwo, operands[3]});
  return true;
}

/// min and max of the magnitudes, with the product of the signs. The last step
/// makes a NaN canonical.
bool Lowering::lowerXorSign(AluOp op, ScalarType type) {
  unsigned bytes = typeBytes(type);
  bool isWord = bytes == 4;
  uint64_t signs = type == ScalarType::F32 ? 0x80000000u
                   : isWord                ? 0x80008000u
                                           : 0x8000u;
  AluOp andOp = isWord ? AluOp::AndB32 : AluOp::AndB16;
  uint32_t d, a, b;
  if (!expectOperands(3) || !source(1, type, a) || !source(2, type, b) ||
      !dest(0, type, d))
    return false;
  uint32_t sign = allocate(type), x = allocate(type), y = allocate(type);
  auto step = [&](AluOp part, uint32_t to, uint32_t from, uint32_t with) {
    emitAlu(part, InstClass::Float, {to, from, with}).hidden = true;
  };
  step(isWord ? AluOp::XorB32 : AluOp::XorB16, sign, a, b);
  step(andOp, sign, sign, constant(bytes, signs));
  step(andOp, x, a, constant(bytes, ~signs));
  step(andOp, y, b, constant(bytes, ~signs));
  step(op, x, x, y);
  step(isWord ? AluOp::OrB32 : AluOp::OrB16, x, x, sign);
  emitAlu(op, InstClass::Float, {d, x, x});
  return true;
}

bool Lowering::lowerFloatAbsNeg(ScalarType type) {
  bool isNeg = mods.base() == "neg";
  bool ftz = mods.take("ftz");
  switch (type) {
  case ScalarType::F32:
    return lowerUniform(isNeg ? AluOp::NegF32 : AluOp::AbsF32, type, 1,
                        InstClass::Float, ftz);
  case ScalarType::F64:
    if (ftz)
      return failHere(".ftz is supported for f16 and f32 only");
    return lowerUniform(isNeg ? AluOp::NegF64 : AluOp::AbsF64, type, 1,
                        InstClass::Float);
  case ScalarType::F16:
  case ScalarType::BF16:
  case ScalarType::F16x2:
  case ScalarType::BF16x2:
    return lowerHalf(byHalf(type, isNeg ? AluOp::NegF16 : AluOp::AbsF16), type,
                     1, 0, ftz, /*sat=*/false);
  default:
    return failHere(badType(mods.base(), type));
  }
}

bool Lowering::lowerFloatDiv(ScalarType type) {
  int mode = mods.takeOneOf({"rn", "rz", "rm", "rp", "approx", "full"});
  bool ftz = mods.take("ftz");
  if (mode < 0)
    return failHere("expects a rounding modifier, .approx or .full on div");
  if (type == ScalarType::F64 && mode < 4)
    return lowerUniform(mode ? AluOp::DivF64Rnd : AluOp::DivF64, type, 2,
                        InstClass::Special, mode);
  if (type != ScalarType::F32)
    return failHere(badType("div", type));
  program.usesApproximations |= mode >= 4;
  if (mode == 4)
    return lowerUniform(ftz ? AluOp::DivF32ApproxFtz : AluOp::DivF32Approx,
                        type, 2, InstClass::Special);
  if (mode >= 1 && mode <= 3)
    return lowerUniform(AluOp::DivF32Rnd, type, 2, InstClass::Special,
                        mode + (ftz ? roundingFtz : 0));
  return lowerUniform(ftz ? AluOp::DivF32Ftz : AluOp::DivF32, type, 2,
                      InstClass::Special);
}

bool Lowering::lowerUnaryFloat() {
  std::string_view base = mods.base();
  ScalarType type = mods.takeType();
  int mode = mods.takeOneOf({"rn", "rz", "rm", "rp", "approx"});
  bool ftz = mods.take("ftz");
  bool exactExists = base == "rcp" || base == "sqrt";
  if (mode < 0 || (mode < 4 && !exactExists))
    return failHere("expects .approx" +
                    std::string(exactExists ? " or a rounding modifier" : "") +
                    " on " + std::string(base));
  program.usesApproximations |= mode == 4;
  if (isHalf(type) && (base == "ex2" || base == "tanh"))
    return lowerUniform(
        byHalf(type, base == "ex2" ? AluOp::Ex2F16 : AluOp::TanhF16), type, 1,
        InstClass::Special);
  if (type == ScalarType::F64 && mode == 0 && exactExists)
    return lowerUniform(base == "rcp" ? AluOp::RcpF64 : AluOp::SqrtF64, type, 1,
                        InstClass::Special);
  if (type == ScalarType::F64 && mode == 4 && base == "rcp" && ftz)
    return lowerUniform(AluOp::RcpF64ApproxFtz, type, 1, InstClass::Special);
  if (type == ScalarType::F64 && mode == 4 && base == "rsqrt")
    return lowerUniform(ftz ? AluOp::RsqrtF64ApproxFtz : AluOp::RsqrtF64Approx,
                        type, 1, InstClass::Special);
  bool isDouble = type == ScalarType::F64;
  bool isDirected = mode >= 1 && mode <= 3;
  if (type != ScalarType::F32 && !(isDouble && isDirected))
    return failHere(badType(base, type));
  if (isDirected) {
    int aux = mode + (ftz ? roundingFtz : 0);
    if (base == "sqrt")
      return lowerUniform(isDouble ? AluOp::SqrtF64Rnd : AluOp::SqrtF32Rnd,
                          type, 1, InstClass::Special, aux);
    uint32_t d, a;
    if (!expectOperands(2) || !source(1, type, a) || !dest(0, type, d))
      return false;
    uint32_t one =
        isDouble ? constant(8, 0x3ff0000000000000u) : constant(4, 0x3f800000u);
    emitAlu(isDouble ? AluOp::DivF64Rnd : AluOp::DivF32Rnd, InstClass::Special,
            {d, one, a})
        .aux = aux;
    return true;
  }
  if (base == "tanh")
    return lowerUniform(AluOp::TanhF32, type, 1, InstClass::Special);
  AluOp op = base == "rcp"     ? AluOp::RcpF32
             : base == "sqrt"  ? AluOp::SqrtF32
             : base == "rsqrt" ? AluOp::RsqrtF32
             : base == "ex2"   ? AluOp::Ex2F32
             : base == "lg2"   ? AluOp::Lg2F32
             : base == "sin"   ? AluOp::SinF32
                               : AluOp::CosF32;
  return lowerUniform(next(op, ftz ? 1 : 0), type, 1, InstClass::Special);
}

bool Lowering::lowerCopysign() {
  ScalarType type = mods.takeType();
  if (type != ScalarType::F32 && type != ScalarType::F64)
    return failHere(badType("copysign", type));
  return lowerUniform(type == ScalarType::F32 ? AluOp::CopysignB32
                                              : AluOp::CopysignB64,
                      type, 2, InstClass::Float);
}
