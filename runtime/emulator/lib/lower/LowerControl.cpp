//===- LowerControl.cpp - Branches, calls, collectives, mma ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA sections 9.7.12 (control flow), 9.7.13 (barriers, votes), 9.7.9.6
// (shfl) and 9.7.14 (mma). A call is replaced by the body of its function, so
// recursion and unresolved functions are errors at load.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

using namespace flashcore::emu;

//===----------------------------------------------------------------------===//
// Branches and calls
//===----------------------------------------------------------------------===//

bool Lowering::lowerBra() {
  mods.take("uni");
  if (!expectOperands(1))
    return false;
  const PtxOperand &label = inst->operands[0];
  if (label.kind != PtxOperand::Kind::Symbol)
    return fail(label.loc, "expects a label");
  Fixup fixup{static_cast<uint32_t>(program.code.size()),
              -1,
              label.name,
              {},
              label.loc};
  for (const Scope &scope : scopes)
    fixup.scopes.push_back(scope.id);
  emit(InstKind::Branch, InstClass::Control);
  fixups.push_back(std::move(fixup));
  return true;
}

/// brx.idx index, table;
bool Lowering::lowerBrx() {
  mods.take("uni");
  if (!mods.take("idx") || !expectOperands(2))
    return failHere("expects brx.idx index, table");
  uint32_t index;
  if (!source(0, ScalarType::U32, index))
    return false;
  auto it = function->tables.find(inst->operands[1].name);
  if (it == function->tables.end())
    return fail(inst->operands[1].loc, "undefined branch table '" +
                                           std::string(inst->operands[1].name) +
                                           "'");
  int table = static_cast<int>(program.tables.size());
  program.tables.emplace_back();
  for (std::string_view label : it->second) {
    Fixup fixup{0, table, label, {}, inst->loc};
    for (const Scope &scope : scopes)
      fixup.scopes.push_back(scope.id);
    fixups.push_back(std::move(fixup));
  }
  Inst &out = emit(InstKind::BranchTable, InstClass::Control);
  out.target = static_cast<uint32_t>(table);
  setOperands(out, {index}, 0);
  return true;
}

bool Lowering::bindArguments(const std::vector<PtxVariable> &formals,
                             const PtxOperand *actuals, SrcLoc loc) {
  size_t have = actuals ? actuals->elements.size() : 0;
  if (have != formals.size())
    return fail(loc, "call passes " + std::to_string(have) +
                         " parameters, but the function has " +
                         std::to_string(formals.size()));
  for (size_t i = 0; i < formals.size(); ++i) {
    const PtxOperand &actual = actuals->elements[i];
    const PtxVariable &formal = formals[i];
    if (formal.space != StateSpace::Param ||
        actual.kind != PtxOperand::Kind::Symbol)
      return fail(actual.loc, "calls are supported with .param arguments only");
    Symbol *symbol = lookup(actual.name);
    if (!symbol || symbol->kind != Symbol::Kind::Variable ||
        symbol->space != StateSpace::Local)
      return fail(actual.loc, "expects a .param variable, but got '" +
                                  std::string(actual.name) + "'");
    Symbol bound = *symbol;
    scopes.back().symbols.insert({formal.name, bound});
  }
  return true;
}

bool Lowering::inlineCall(const PtxFunction &callee, const PtxOperand *results,
                          const PtxOperand *arguments) {
  SrcLoc loc = inst->loc;
  for (const PtxFunction *active : callStack)
    if (active == &callee)
      return fail(loc, "recursive call of '" + std::string(callee.name) +
                           "' is not supported");
  if (callStack.size() > 64)
    return fail(loc, "calls are nested more than 64 deep");
  // Names of the caller are visible while binding and hidden by the callee's
  // own; PTX names are unique enough that nothing else can be captured.
  pushScope();
  if (!bindArguments(callee.params, arguments, loc) ||
      !bindArguments(callee.returns, results, loc))
    return false;
  callStack.push_back(&callee);
  returnBranches.emplace_back();
  if (!lowerBody(callee))
    return false;
  for (uint32_t branch : returnBranches.back())
    program.code[branch].target = static_cast<uint32_t>(program.code.size());
  returnBranches.pop_back();
  callStack.pop_back();
  popScope();
  return true;
}

bool Lowering::lowerCall() {
  mods.take("uni");
  if (!mods.leftover().empty())
    return failHere("only plain and .uni calls are supported");
  const PtxOperand *results = nullptr, *arguments = nullptr, *name = nullptr;
  for (const PtxOperand &operand : inst->operands) {
    if (!operand.isTuple && !name)
      name = &operand;
    else if (operand.isTuple)
      (name ? arguments : results) = &operand;
    else
      return fail(operand.loc, "indirect calls are not supported");
  }
  if (!name || name->kind != PtxOperand::Kind::Symbol)
    return failHere("expects the name of a function");
  const PtxFunction *callee = module.find(name->name);
  if (!callee || !callee->hasBody)
    return fail(name->loc, "unresolved function '" + std::string(name->name) +
                               "'; link its definition into the module");
  // A guarded call jumps over the body.
  uint32_t skip = noGranule;
  if (guard != noGranule) {
    skip = static_cast<uint32_t>(program.code.size());
    Inst &branch = emit(InstKind::Branch, InstClass::Control);
    branch.guardNegated = !branch.guardNegated;
    branch.hidden = true;
  }
  const PtxInstruction *call = inst;
  if (!inlineCall(*callee, results, arguments))
    return false;
  inst = call;
  mods = Modifiers(call->opcode);
  mods.take("uni");
  if (skip != noGranule)
    program.code[skip].target = static_cast<uint32_t>(program.code.size());
  return true;
}

bool Lowering::lowerRet() {
  mods.take("uni");
  if (!expectOperands(0))
    return false;
  if (returnBranches.empty())
    return lowerExit();
  returnBranches.back().push_back(static_cast<uint32_t>(program.code.size()));
  emit(InstKind::Branch, InstClass::Control);
  return true;
}

bool Lowering::lowerExit() {
  emit(InstKind::Exit, InstClass::Control);
  return expectOperands(0);
}

bool Lowering::lowerTrap() {
  emit(InstKind::Trap, InstClass::Control);
  return expectOperands(0);
}

bool Lowering::lowerNop() {
  mods.takeType();
  emit(InstKind::Prefetch, InstClass::Control);
  return true;
}

//===----------------------------------------------------------------------===//
// Barriers and collectives
//===----------------------------------------------------------------------===//

/// bar{.cta}.{sync,arrive,red}, barrier{.cta}..., bar.warp.sync
bool Lowering::lowerBarrier() {
  bool isBar = mods.base() == "bar";
  if (isBar && mods.take("warp")) {
    uint32_t mask;
    if (!mods.take("sync") || !expectOperands(1) ||
        !source(0, ScalarType::B32, mask))
      return failHere("expects bar.warp.sync mask");
    setOperands(emit(InstKind::BarrierWarp, InstClass::Barrier), {mask}, 0);
    return true;
  }
  if (mods.take("cluster"))
    return failHere("barrier.cluster needs sm_90, which is not supported yet");
  mods.take("cta");
  bool aligned = mods.take("aligned") || isBar;
  int mode = mods.takeOneOf({"sync", "arrive", "red"});
  if (mode < 0)
    return failHere("expects .sync, .arrive or .red on a barrier");
  int red = mode == 2 ? mods.takeOneOf({"popc", "and", "or"}) : 0;
  if (mode == 2)
    mods.takeType();
  unsigned first = mode == 2 ? 1 : 0;
  if (red < 0 || !expectOperands(first + 1, first + 2 + (mode == 2)))
    return false;
  unsigned last =
      static_cast<unsigned>(inst->operands.size()) - (mode == 2 ? 2 : 1);
  uint32_t id, count = constant(4, 0), p = constant(0, 1), d = sinkGranule;
  if (!source(first, ScalarType::U32, id) ||
      (last > first && !source(last, ScalarType::U32, count)))
    return false;
  if (mode == 1 && last == first)
    return failHere("bar.arrive expects a thread count");
  if (mode == 2 && (!predicateSource(inst->operands.back(), p) ||
                    !dest(0, red == 0 ? ScalarType::U32 : ScalarType::Pred, d)))
    return false;
  Inst &out = emit(InstKind::Barrier, InstClass::Barrier);
  out.mode = static_cast<uint8_t>(mode < 2 ? mode : 2 + red);
  out.aligned = aligned;
  setOperands(out, {d, id, count, p}, 1);
  return true;
}

/// shfl.sync.mode.b32 d{|p}, a, b, c, membermask
bool Lowering::lowerShfl() {
  if (!mods.take("sync"))
    return failHere("expects .sync on shfl");
  int mode = mods.takeOneOf({"up", "down", "bfly", "idx"});
  if (mode < 0 || mods.takeType() != ScalarType::B32)
    return failHere("expects shfl.sync.{up,down,bfly,idx}.b32");
  if (!expectOperands(5))
    return false;
  const PtxOperand &to = inst->operands[0];
  uint32_t d, p = sinkGranule, a, b, c, mask;
  if (!destOf(to.isPair ? to.elements[0] : to, ScalarType::B32, d) ||
      (to.isPair && !destOf(to.elements[1], ScalarType::Pred, p)) ||
      !source(1, ScalarType::B32, a) || !source(2, ScalarType::B32, b) ||
      !source(3, ScalarType::B32, c) || !source(4, ScalarType::B32, mask))
    return false;
  Inst &out = emit(InstKind::Shuffle, InstClass::Shuffle);
  out.mode = static_cast<uint8_t>(mode);
  setOperands(out, {d, p, a, b, c, mask}, 2);
  return true;
}

bool Lowering::lowerVote() {
  if (!mods.take("sync"))
    return failHere("expects .sync on vote");
  int mode = mods.takeOneOf({"all", "any", "uni", "ballot"});
  ScalarType type = mods.takeType();
  bool ballot = mode == 3;
  if (mode < 0 || type != (ballot ? ScalarType::B32 : ScalarType::Pred))
    return failHere("expects vote.sync.{all,any,uni}.pred or "
                    "vote.sync.ballot.b32");
  uint32_t d, p, mask;
  if (!expectOperands(3) || !predicateSource(inst->operands[1], p) ||
      !source(2, ScalarType::B32, mask) || !dest(0, type, d))
    return false;
  Inst &out = emit(InstKind::Vote, InstClass::Shuffle);
  out.mode = static_cast<uint8_t>(mode);
  setOperands(out, {d, p, mask}, 1);
  return true;
}

/// match.{any,all}.sync.b32 d{|p}, a, mask
bool Lowering::lowerMatch() {
  int mode = mods.takeOneOf({"any", "all"});
  ScalarType type = mods.takeType();
  if (!mods.take("sync") || mode < 0 ||
      (type != ScalarType::B32 && type != ScalarType::B64))
    return failHere("expects match.{any,all}.sync.{b32,b64}");
  if (!expectOperands(3))
    return false;
  const PtxOperand &to = inst->operands[0];
  uint32_t d, p = sinkGranule, a, mask;
  if (!destOf(to.isPair ? to.elements[0] : to, ScalarType::B32, d) ||
      (to.isPair && !destOf(to.elements[1], ScalarType::Pred, p)) ||
      !source(1, type, a) || !source(2, ScalarType::B32, mask))
    return false;
  Inst &out = emit(InstKind::Match, InstClass::Shuffle);
  out.mode = static_cast<uint8_t>(mode);
  out.regBytes = static_cast<uint8_t>(typeBytes(type));
  setOperands(out, {d, p, a, mask}, 2);
  return true;
}

bool Lowering::lowerActiveMask() {
  uint32_t d;
  if (mods.takeType() != ScalarType::B32 || !expectOperands(1) ||
      !dest(0, ScalarType::B32, d))
    return failHere("expects activemask.b32 d");
  setOperands(emit(InstKind::ActiveMask, InstClass::Shuffle), {d}, 1);
  return true;
}

bool Lowering::lowerRedux() {
  if (!mods.take("sync"))
    return failHere("expects .sync on redux");
  static constexpr AtomicOp ops[] = {AtomicOp::Add, AtomicOp::Min,
                                     AtomicOp::Max, AtomicOp::And,
                                     AtomicOp::Or,  AtomicOp::Xor};
  int op = mods.takeOneOf({"add", "min", "max", "and", "or", "xor"});
  ScalarType type = mods.takeType();
  if (op < 0 || typeBytes(type) != 4 || isFloatType(type))
    return failHere("redux is supported for 32-bit integers");
  uint32_t d, a, mask;
  if (!expectOperands(3) || !source(1, type, a) ||
      !source(2, ScalarType::B32, mask) || !dest(0, type, d))
    return false;
  Inst &out = emit(InstKind::Redux, InstClass::Shuffle);
  out.mode = static_cast<uint8_t>(ops[op]);
  out.type = type;
  setOperands(out, {d, a, mask}, 1);
  return true;
}

//===----------------------------------------------------------------------===//
// mma
//===----------------------------------------------------------------------===//

/// The registers of a `{...}` operand.
bool Lowering::fragment(const PtxOperand &operand, unsigned count,
                        ScalarType type, const char *what, bool isDest,
                        std::vector<uint32_t> &out) {
  std::vector<PtxOperand> single{operand};
  const std::vector<PtxOperand> &elements =
      operand.kind == PtxOperand::Kind::Vector ? operand.elements : single;
  if (elements.size() != count)
    return fail(operand.loc, "expects " + std::to_string(count) +
                                 " registers in " + what + ", but got " +
                                 std::to_string(elements.size()));
  for (const PtxOperand &element : elements) {
    uint32_t granule;
    if (isDest ? !destOf(element, type, granule)
               : !sourceOf(element, type, granule))
      return false;
    out.push_back(granule);
  }
  return true;
}

/// Takes e4m3 (0) or e5m2 (1), in the order they are written; -1 for neither.
int Lowering::fp8Type() {
  std::string_view word = mods.takePrefix("e");
  return word == "e4m3" ? 0 : word == "e5m2" ? 1 : -1;
}

bool Lowering::lowerMma() {
  bool ok = mods.take("sync") && mods.take("aligned");
  int shape = mods.takeOneOf({"m16n8k16", "m16n8k8", "m16n8k32"});
  ok &= mods.take("row") && mods.take("col");
  // The 8-bit types have no registers of their own and no scalar type.
  bool isFp8 = shape == 2;
  int a8 = isFp8 ? fp8Type() : -1, b8 = isFp8 ? fp8Type() : -1;
  ScalarType d = mods.takeType(), c = d;
  MatrixType aType = MatrixType::F16, bType = MatrixType::F16;
  if (isFp8) {
    ok &= a8 >= 0 && b8 >= 0;
    aType = a8 == 0 ? MatrixType::E4M3 : MatrixType::E5M2;
    bType = b8 == 0 ? MatrixType::E4M3 : MatrixType::E5M2;
  } else {
    ScalarType a = mods.takeType();
    ok &=
        a == mods.takeType() && (a == ScalarType::F16 || a == ScalarType::BF16);
    aType = bType = a == ScalarType::F16 ? MatrixType::F16 : MatrixType::BF16;
  }
  c = mods.takeType();
  if (!ok || shape < 0 || d != ScalarType::F32 || c != ScalarType::F32)
    return failHere("expects mma.sync.aligned of m16n8k16 or m16n8k8 with f16 "
                    "or bf16, or m16n8k32 with e4m3 or e5m2, .row.col and f32 "
                    "accumulators, but got '" +
                    std::string(inst->opcode.substr(0, 80)) + "'");
  if (!expectOperands(4))
    return false;
  unsigned numA = shape == 1 ? 2 : 4, numB = shape == 1 ? 1 : 2;
  std::vector<uint32_t> operands;
  const std::vector<PtxOperand> &in = inst->operands;
  if (!fragment(in[0], 4, ScalarType::F32, "D of mma", true, operands) ||
      !fragment(in[1], numA, ScalarType::B32, "A of mma", false, operands) ||
      !fragment(in[2], numB, ScalarType::B32, "B of mma", false, operands) ||
      !fragment(in[3], 4, ScalarType::F32, "C of mma", false, operands))
    return false;
  Inst &out = emit(InstKind::Mma, InstClass::Matrix);
  static constexpr uint8_t depths[] = {16, 8, 32};
  out.mode = static_cast<uint8_t>(aType);
  out.aux = static_cast<int32_t>(bType);
  out.vectorLength = depths[shape];
  out.aligned = true;
  setOperands(out, operands, 4);
  return true;
}
