//===- LowerWgmma.cpp - Products of a warpgroup ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// wgmma (PTX ISA section 9.7.15). The registers of accumulators and A follow
// the operands that are read at the issue, and are counted neither as sources
// nor as destinations: they belong to the product until it is waited for.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

using namespace flashcore::emu;

static constexpr unsigned maxColumns = 256;

/// The N of m64nNk16, or 0.
static unsigned columnsOf(std::string_view shape) {
  constexpr std::string_view before = "m64n", after = "k16";
  if (!shape.starts_with(before) || !shape.ends_with(after))
    return 0;
  unsigned columns = 0;
  shape.remove_prefix(before.size());
  shape.remove_suffix(after.size());
  for (char digit : shape.substr(0, 4)) {
    if (digit < '0' || digit > '9')
      return 0;
    columns = columns * 10 + static_cast<unsigned>(digit - '0');
  }
  return columns >= 8 && columns <= maxColumns && columns % 8 == 0 ? columns
                                                                   : 0;
}

bool Lowering::lowerWgmma() {
  program.usesAsyncProxy = true;
  if (mods.take("mma_async"))
    return lowerWgmmaMma();
  int which = mods.takeOneOf({"fence", "commit_group", "wait_group"});
  if (which < 0 || !mods.take("sync") || !mods.take("aligned") ||
      !expectOperands(which == 2))
    return failHere("expects wgmma.{mma_async,fence,commit_group,wait_group}"
                    ".sync.aligned");
  static constexpr InstKind kinds[] = {
      InstKind::WgmmaFence, InstKind::WgmmaCommit, InstKind::WgmmaWait};
  int64_t groups = 0;
  if (which == 2) {
    const PtxOperand &count = inst->operands[0];
    if (count.kind != PtxOperand::Kind::Int || count.value < 0 ||
        count.value > 7)
      return fail(count.loc, "expects a group count from 0 to 7");
    groups = count.value;
  }
  Inst &out = emit(kinds[which], InstClass::Matrix);
  out.aligned = true;
  out.imm = groups;
  return true;
}

/// A as a descriptor, or as four registers a lane.
bool Lowering::wgmmaOperandA(std::vector<uint32_t> &operands,
                             std::vector<uint32_t> &fragmentA, int32_t &flags) {
  const PtxOperand &a = inst->operands[1];
  if (a.kind != PtxOperand::Kind::Vector)
    return source(1, ScalarType::B64, operands[0]);
  flags |= WgmmaRegistersA;
  return fragment(a, 4, ScalarType::B32, "A of wgmma", false, fragmentA);
}

/// scale-a, scale-b, and trans-a (of a descriptor), trans-b.
bool Lowering::wgmmaImmediates(unsigned first, int32_t &flags) {
  bool fromRegisters = flags & WgmmaRegistersA;
  static constexpr int32_t transposes[] = {WgmmaTransposeA, WgmmaTransposeB};
  for (unsigned i = first; i < inst->operands.size(); ++i) {
    const PtxOperand &operand = inst->operands[i];
    bool isScale = i < first + 2;
    bool isValid = operand.kind == PtxOperand::Kind::Int &&
                   (operand.value == 1 || operand.value == (isScale ? -1 : 0));
    if (!isValid)
      return fail(operand.loc, isScale ? "expects a scale of 1 or -1"
                                       : "expects 0 or 1 for a transposed "
                                         "operand");
    if (isScale && operand.value == -1)
      flags |= i == first ? WgmmaNegateA : WgmmaNegateB;
    if (!isScale && operand.value == 1)
      flags |= transposes[fromRegisters ? 1 : i - first - 2];
  }
  return true;
}

/// wgmma.mma_async.sync.aligned.m64nNk16.f32.type.type d, a, b-desc, scale-d,
/// scale-a, scale-b{, trans-a}, trans-b
bool Lowering::lowerWgmmaMma() {
  bool ok = mods.take("sync") && mods.take("aligned");
  std::string_view shape = mods.takePrefix("m64n");
  ScalarType d = mods.takeType();
  MatrixType a = MatrixType::TF32, b = MatrixType::TF32;
  ok &= takeMatrixType(a) && takeMatrixType(b);
  bool isHalf = a == MatrixType::F16 || a == MatrixType::BF16;
  if (ok && (!isHalf || d != ScalarType::F32))
    return failUnsupported(inst->opcode,
                           "products of a warpgroup other than of f16 or bf16 "
                           "into f32");
  unsigned columns = columnsOf(shape);
  if (!ok || a != b || !columns)
    return failHere("expects wgmma.mma_async.sync.aligned.m64nNk16.f32.f16.f16 "
                    "or .f32.bf16.bf16 with N a multiple of 8 from 8 to 256, "
                    "but got '" +
                    std::string(inst->opcode.substr(0, 80)) + "'");
  bool fromRegisters = inst->operands.size() > 1 &&
                       inst->operands[1].kind == PtxOperand::Kind::Vector;
  if (!expectOperands(fromRegisters ? 7 : 8))
    return false;
  std::vector<uint32_t> operands(3, constant(8, 0)), sums, fragmentA;
  int32_t flags = 0;
  if (!fragment(inst->operands[0], columns / 2, ScalarType::F32, "D of wgmma",
                true, sums) ||
      !wgmmaOperandA(operands, fragmentA, flags) ||
      !source(2, ScalarType::B64, operands[1]) ||
      !predicateSource(inst->operands[3], operands[2]) ||
      !wgmmaImmediates(4, flags))
    return false;
  for (uint32_t granule : sums)
    if (granule == sinkGranule)
      return fail(inst->operands[0].loc, "an accumulator cannot be '_'");
  noteAccess(StateSpace::Shared, 16);
  Inst &out = emit(InstKind::Wgmma, InstClass::Matrix);
  out.mode = static_cast<uint8_t>(a);
  out.aux = flags;
  out.vectorLength = static_cast<uint8_t>(columns / 8);
  out.aligned = true;
  setOperands(out, operands, 0);
  program.operands.insert(program.operands.end(), sums.begin(), sums.end());
  program.operands.insert(program.operands.end(), fragmentA.begin(),
                          fragmentA.end());
  return true;
}
