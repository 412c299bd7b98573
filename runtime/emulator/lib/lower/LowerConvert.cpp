//===- LowerConvert.cpp - cvt ---------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA section 9.7.9.21. Common conversions become an operation of their
// own; all others share AluOp::Convert, which reads a ConvertInfo.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include <algorithm>

using namespace flashcore::emu;

bool Lowering::emitConvert(const ConvertInfo &info, uint32_t d, uint32_t a,
                           uint32_t b) {
  uint32_t index = static_cast<uint32_t>(program.conversions.size());
  program.conversions.push_back(info);
  emitAlu(AluOp::Convert, InstClass::Convert, {d, a, b}).target = index;
  return true;
}

/// Integer to integer without saturation; false when no fast form exists.
bool Lowering::lowerIntegerCvt(const ConvertInfo &info, uint32_t d,
                               uint32_t a) {
  if (info.sat || isFloatType(info.to) || isFloatType(info.from) ||
      info.toRegBytes != typeBytes(info.to) ||
      info.fromRegBytes != typeBytes(info.from))
    return false;
  unsigned to = info.toRegBytes, from = info.fromRegBytes;
  bool isSigned = isSignedType(info.from);
  AluOp op = AluOp::Count;
  if (to == from)
    op = to == 2 ? AluOp::MovB16 : to == 4 ? AluOp::MovB32 : AluOp::MovB64;
  else if (from == 4 && to == 8)
    op = isSigned ? AluOp::CvtS32B64 : AluOp::CvtU32B64;
  else if (from == 2 && to == 4)
    op = isSigned ? AluOp::CvtS16B32 : AluOp::CvtU16B32;
  else if (from == 2 && to == 8)
    op = isSigned ? AluOp::CvtS16B64 : AluOp::CvtU16B64;
  else if (from == 8 && to == 4)
    op = AluOp::LowB32;
  else if (from == 4 && to == 2)
    op = AluOp::LowB16;
  else if (from == 8 && to == 2)
    op = AluOp::CvtB64B16;
  if (op == AluOp::Count)
    return false;
  emitAlu(op, InstClass::Convert, {d, a});
  return true;
}

static bool isPacked(ScalarType type) {
  return type == ScalarType::F16x2 || type == ScalarType::BF16x2 ||
         type == ScalarType::E4M3x2 || type == ScalarType::E5M2x2;
}

/// `cvt.rn.f16x2.f32 d, a, b`: a is the high half.
bool Lowering::lowerPackedCvt(ConvertInfo info) {
  bool twoSources = info.from == ScalarType::F32;
  uint32_t d, a, b;
  if (!expectOperands(twoSources ? 3 : 2) || !source(1, info.from, a))
    return false;
  b = a;
  if ((twoSources && !source(2, info.from, b)) || !dest(0, info.to, d))
    return false;
  info.fromRegBytes = static_cast<uint8_t>(typeBytes(info.from));
  info.toRegBytes = static_cast<uint8_t>(typeBytes(info.to));
  bool plain = info.rounding == Rounding::Rn && !info.relu && !info.satFinite;
  if (plain && twoSources &&
      (info.to == ScalarType::F16x2 || info.to == ScalarType::BF16x2)) {
    emitAlu(info.to == ScalarType::F16x2 ? AluOp::CvtF16x2F32
                                         : AluOp::CvtBF16x2F32,
            InstClass::Convert, {d, a, b});
    return true;
  }
  bool fromFp8 =
      info.from == ScalarType::E4M3x2 || info.from == ScalarType::E5M2x2;
  bool toFp8 = info.to == ScalarType::E4M3x2 || info.to == ScalarType::E5M2x2;
  if (!twoSources && !(fromFp8 && info.to == ScalarType::F16x2) &&
      !(toFp8 && info.from == ScalarType::F16x2))
    return failHere(std::string("cvt from .") + typeName(info.from) + " to ." +
                    typeName(info.to) + " is not supported");
  return emitConvert(info, d, a, b);
}

bool Lowering::lowerCvt() {
  ConvertInfo info;
  int rounding = mods.takeOneOf({"rn", "rz", "rm", "rp", "rna"});
  int integral = mods.takeOneOf({"rni", "rzi", "rmi", "rpi"});
  info.rounding =
      static_cast<Rounding>(rounding >= 0 ? rounding : std::max(integral, 0));
  info.ftz = mods.take("ftz");
  info.sat = mods.take("sat");
  info.satFinite = mods.take("satfinite");
  info.relu = mods.take("relu");
  info.to = mods.takeType();
  info.from = mods.takeType();
  if (info.to == ScalarType::None || info.from == ScalarType::None ||
      info.to == ScalarType::Pred || info.from == ScalarType::Pred)
    return failHere("expects two types on cvt");
  if (isPacked(info.to) || isPacked(info.from))
    return lowerPackedCvt(info);

  bool toFloat = isFloatType(info.to), fromFloat = isFloatType(info.from);
  info.toIntegral = toFloat && fromFloat && integral >= 0;
  bool narrows =
      toFloat && (!fromFloat || typeBytes(info.to) < typeBytes(info.from));
  if (fromFloat && !toFloat && integral < 0)
    return failHere("expects .rni, .rzi, .rmi or .rpi on a float-to-integer "
                    "conversion");
  if (narrows && rounding < 0)
    return failHere("expects a rounding modifier such as .rn on this "
                    "conversion");
  uint32_t d, a;
  ScalarType toReg, fromReg;
  if (!expectOperands(2) ||
      !sourceOf(inst->operands[1], info.from, a, /*allowWider=*/true,
                &fromReg) ||
      !destOf(inst->operands[0], info.to, d, /*allowWider=*/true, &toReg))
    return false;
  info.toRegBytes = static_cast<uint8_t>(std::max(2u, typeBytes(toReg)));
  info.fromRegBytes = static_cast<uint8_t>(std::max(2u, typeBytes(fromReg)));
  bool sameWidths = info.toRegBytes == typeBytes(info.to) &&
                    info.fromRegBytes == typeBytes(info.from);
  AluOp fast = AluOp::Count;
  if (info.from == ScalarType::F16 && info.to == ScalarType::F32)
    fast = AluOp::CvtF32F16;
  else if (info.from == ScalarType::BF16 && info.to == ScalarType::F32)
    fast = AluOp::CvtF32BF16;
  else if (info.from == ScalarType::F32 && info.to == ScalarType::F16)
    fast = AluOp::CvtF16F32;
  else if (info.from == ScalarType::F32 && info.to == ScalarType::BF16)
    fast = AluOp::CvtBF16F32;
  else if (info.from == ScalarType::S32 && info.to == ScalarType::F32)
    fast = AluOp::CvtF32S32;
  else if (info.from == ScalarType::U32 && info.to == ScalarType::F32)
    fast = AluOp::CvtF32U32;
  bool plain = rounding <= 0 && integral < 0 && !info.sat && !info.relu &&
               !info.satFinite && !info.ftz;
  if (fast != AluOp::Count && plain && sameWidths) {
    emitAlu(fast, InstClass::Convert, {d, a});
    return true;
  }
  return lowerIntegerCvt(info, d, a) || emitConvert(info, d, a, a);
}
