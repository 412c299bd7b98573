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

#include <iterator>

using namespace flashcore::emu;

static constexpr size_t maxFixups = 2u << 20;
static constexpr size_t maxCalls = 1u << 14;

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
  fixups.push_back({static_cast<uint32_t>(program.code.size()), -1, label.name,
                    scopes.back().id, label.loc});
  emit(InstKind::Branch, InstClass::Control);
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
  for (std::string_view label : it->second)
    fixups.push_back({0, table, label, scopes.back().id, inst->loc});
  if (fixups.size() > maxFixups)
    return failHere("kernel has more than 2097152 branch targets after "
                    "inlining");
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
  if (++numCalls > maxCalls)
    return fail(loc, "kernel has more than 16384 calls after inlining");
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

/// vprintf and __assertfail, which the driver defines; false for any other
/// name, and when it is called wrongly.
bool Lowering::lowerSystemCall(std::string_view name, const PtxOperand *results,
                               const PtxOperand *arguments) {
  bool isPrintf = name == "vprintf";
  if (!isPrintf && name != "__assertfail")
    return false;
  // vprintf(format, arguments); __assertfail(message, file, line, function,
  // size of a character).
  static constexpr ScalarType printfTypes[] = {ScalarType::U64,
                                               ScalarType::U64};
  static constexpr ScalarType assertTypes[] = {ScalarType::U64, ScalarType::U64,
                                               ScalarType::U32, ScalarType::U64,
                                               ScalarType::U64};
  const ScalarType *types = isPrintf ? printfTypes : assertTypes;
  size_t count = isPrintf ? std::size(printfTypes) : std::size(assertTypes);
  size_t have = arguments ? arguments->elements.size() : 0;
  size_t numResults = results ? results->elements.size() : 0;
  if (have != count || numResults > (isPrintf ? 1u : 0u))
    return failHere("'" + std::string(name) + "' expects " +
                    std::to_string(count) + " arguments, but got " +
                    std::to_string(have));
  auto move = [&](InstKind kind, const PtxOperand &operand, ScalarType type,
                  uint32_t granule) {
    Symbol *symbol = lookup(operand.name);
    if (!symbol || symbol->kind != Symbol::Kind::Variable ||
        symbol->space != StateSpace::Local)
      return fail(operand.loc, "expects a .param variable, but got '" +
                                   std::string(operand.name) + "'");
    uint32_t address = constant(8, symbol->address);
    Inst &out = emit(kind, InstClass::Control);
    out.space = StateSpace::Local;
    out.addressIs64 = true;
    out.elementBytes = out.regBytes = static_cast<uint8_t>(typeBytes(type));
    out.hidden = true;
    if (kind == InstKind::Load)
      setOperands(out, {granule, address}, 1);
    else
      setOperands(out, {address, granule}, 0);
    return true;
  };
  std::vector<uint32_t> operands = {allocate(ScalarType::U32)};
  for (size_t i = 0; i < count; ++i) {
    operands.push_back(allocate(types[i]));
    if (!move(InstKind::Load, arguments->elements[i], types[i],
              operands.back()))
      return false;
  }
  Inst &out = emit(InstKind::SystemCall, InstClass::Control);
  out.mode = static_cast<uint8_t>(isPrintf ? SystemCall::Vprintf
                                           : SystemCall::AssertFail);
  setOperands(out, operands, 1);
  return numResults == 0 || move(InstKind::Store, results->elements[0],
                                 ScalarType::U32, operands[0]);
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
      return failUnsupported(inst->opcode, "function pointers");
  }
  if (!name || name->kind != PtxOperand::Kind::Symbol)
    return failHere("expects the name of a function");
  if (name->hasOffset || name->isGeneric)
    return fail(name->loc, "expects the name of a function, but got an "
                           "address");
  const PtxFunction *callee = module.find(name->name);
  if (!callee || !callee->hasBody) {
    if (lowerSystemCall(name->name, results, arguments))
      return true;
    if (hasError)
      return false;
  }
  if (!callee || !callee->hasBody) {
    std::string_view feature = unsupportedFunction(name->name);
    std::string quoted = "'" + std::string(name->name) + "'";
    if (!feature.empty())
      return failUnsupported(name->name, feature);
    if (lookup(name->name))
      return failUnsupported(inst->opcode, "function pointers");
    return fail(name->loc, "unresolved function " + quoted +
                               "; link its definition into the module");
  }
  if (callee->error)
    return fail(callee->error->loc, callee->error->message);
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
  mods.take("mask"); // of pmevent
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
    return lowerClusterBarrier();
  mods.take("cta");
  bool aligned = mods.take("aligned") || isBar;
  int mode = mods.takeOneOf({"sync", "arrive", "red"});
  if (mode < 0)
    return failHere("expects .sync, .arrive or .red on a barrier");
  int red = mode == 2 ? mods.takeOneOf({"popc", "and", "or"}) : 0;
  if (red < 0)
    return failHere("expects .popc, .and or .or on a barrier with .red");
  if (mode == 2)
    mods.takeType();
  unsigned first = mode == 2 ? 1 : 0;
  if (!expectOperands(first + 1, first + 2 + (mode == 2)))
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

/// Takes the type of A or B. The 8-bit floats have no registers of their own
/// and are no scalar types.
bool Lowering::takeMatrixType(MatrixType &type) {
  std::string_view word = mods.takePrefix("e");
  if (!word.empty()) {
    type = word == "e4m3" ? MatrixType::E4M3 : MatrixType::E5M2;
    return word == "e4m3" || word == "e5m2";
  }
  switch (mods.takeType()) {
  case ScalarType::F16:
    type = MatrixType::F16;
    return true;
  case ScalarType::BF16:
    type = MatrixType::BF16;
    return true;
  case ScalarType::TF32:
    type = MatrixType::TF32;
    return true;
  case ScalarType::U8:
    type = MatrixType::U8;
    return true;
  case ScalarType::S8:
    type = MatrixType::S8;
    return true;
  default:
    return false;
  }
}

/// Bytes of an element of A or B.
static unsigned matrixTypeBytes(MatrixType type) {
  switch (type) {
  case MatrixType::TF32:
    return 4;
  case MatrixType::F16:
  case MatrixType::BF16:
    return 2;
  default:
    return 1;
  }
}

static bool isMatrixInteger(MatrixType type) {
  return type == MatrixType::U8 || type == MatrixType::S8;
}

/// Whether there is a multiplication of these types at this depth.
static bool isMmaShape(unsigned depth, MatrixType a, MatrixType b,
                       ScalarType accumulator) {
  unsigned bytes = matrixTypeBytes(a);
  bool mayDiffer = bytes == 1 && isMatrixInteger(a) == isMatrixInteger(b);
  if ((a != b && !mayDiffer) || (depth != 16 / bytes && depth != 32 / bytes))
    return false;
  if (isMatrixInteger(a))
    return accumulator == ScalarType::S32;
  bool halfExists = a != MatrixType::BF16 && a != MatrixType::TF32;
  return accumulator == ScalarType::F32 ||
         (accumulator == ScalarType::F16 && halfExists);
}

bool Lowering::lowerMma() {
  static constexpr uint8_t depths[] = {4, 8, 16, 32};
  bool ok = mods.take("sync") && mods.take("aligned");
  int shape = mods.takeOneOf({"m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32"});
  ok &= mods.take("row") && mods.take("col") && shape >= 0;
  bool saturate = mods.take("satfinite");
  MatrixType aType = MatrixType::F16, bType = MatrixType::F16;
  ScalarType d = mods.takeType();
  ok &= takeMatrixType(aType) && takeMatrixType(bType);
  ok &= mods.takeType() == d && (!saturate || d == ScalarType::S32);
  if (!ok || !isMmaShape(depths[shape], aType, bType, d))
    return failHere(
        "expects mma.sync.aligned.row.col of m16n8k8 or m16n8k16 with f16 or "
        "bf16, m16n8k4 or m16n8k8 with tf32, m16n8k16 or m16n8k32 with e4m3, "
        "e5m2, s8 or u8, and accumulators of f32, of f16 (f16 and 8-bit "
        "floats) or of s32 (integers), but got '" +
        std::string(inst->opcode.substr(0, 80)) + "'");
  if (!expectOperands(4))
    return false;
  // A is 16 x depth, B depth x 8 elements over 32 lanes.
  unsigned numA = depths[shape] * matrixTypeBytes(aType) / 8, numB = numA / 2;
  bool isHalf = d == ScalarType::F16;
  unsigned numD = isHalf ? 2 : 4;
  ScalarType reg = isHalf ? ScalarType::B32 : d;
  std::vector<uint32_t> operands;
  const std::vector<PtxOperand> &in = inst->operands;
  if (!fragment(in[0], numD, reg, "D of mma", true, operands) ||
      !fragment(in[1], numA, ScalarType::B32, "A of mma", false, operands) ||
      !fragment(in[2], numB, ScalarType::B32, "B of mma", false, operands) ||
      !fragment(in[3], numD, reg, "C of mma", false, operands))
    return false;
  Inst &out = emit(InstKind::Mma, InstClass::Matrix);
  out.mode = static_cast<uint8_t>(aType);
  out.aux = static_cast<int32_t>(bType);
  out.type = d;
  out.saturate = saturate;
  out.vectorLength = depths[shape];
  out.aligned = true;
  setOperands(out, operands, numD);
  return true;
}
