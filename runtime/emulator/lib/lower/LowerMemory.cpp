//===- LowerMemory.cpp - Loads, stores, copies, atomics, fences -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA sections 9.7.9 (data movement), 9.7.13 (atomics, membar) and 9.7.14
// (ldmatrix, stmatrix). Cache and eviction hints change no result and are
// dropped; consistency qualifiers are kept for the race check.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include <algorithm>

using namespace flashcore::emu;

/// Takes the state space of a memory instruction; none means generic.
bool Lowering::takeSpace(StateSpace &space) {
  static constexpr StateSpace spaces[] = {
      StateSpace::Global, StateSpace::Shared, StateSpace::Shared,
      StateSpace::Shared, StateSpace::Local,  StateSpace::Param,
      StateSpace::Param,  StateSpace::Param,  StateSpace::Const};
  int index = mods.takeOneOf({"global", "shared", "shared::cta",
                              "shared::cluster", "local", "param",
                              "param::entry", "param::func", "const"});
  space = index < 0 ? StateSpace::Generic : spaces[index];
  return true;
}

/// .weak, .relaxed.gpu and so on (section 8.3).
bool Lowering::takeSemantics(Inst &out) {
  mods.take("mmio");
  int order = mods.takeOneOf(
      {"weak", "volatile", "relaxed", "acquire", "release", "acq_rel"});
  // None is .sys for volatile accesses and .gpu for atomics.
  int scope = mods.takeOneOf({"cta", "cluster", "gpu", "sys"});
  out.scope = scope == 0 || scope == 1 ? MemoryScope::Cta : MemoryScope::Device;
  out.isStrong = order > 0;
  out.isAcquire = order == 3 || order == 5;
  out.isRelease = order == 4 || order == 5;
  return true;
}

static void copySemantics(const Inst &from, Inst &to) {
  to.isStrong = from.isStrong;
  to.scope = from.scope;
  to.isAcquire = from.isAcquire;
  to.isRelease = from.isRelease;
}

void Lowering::dropCacheHints() {
  mods.takeOneOf({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  mods.take("nc");
  mods.takePrefix("L1::");
  while (!mods.takePrefix("L2::").empty())
    ;
  mods.takePrefix("level::");
}

void Lowering::noteAccess(StateSpace space, unsigned bytes) {
  if (space == StateSpace::Shared || space == StateSpace::Generic)
    program.sharedGrain = std::min(program.sharedGrain, bytes);
  if (space == StateSpace::Global || space == StateSpace::Generic)
    program.globalGrain = std::min(program.globalGrain, bytes);
}

/// The registers that give or receive the data. They may be wider than the
/// type, but not of different widths.
bool Lowering::dataRegisters(const std::vector<PtxOperand> &elements,
                             ScalarType type, bool isStore,
                             std::vector<uint32_t> &operands,
                             unsigned &regBytes) {
  for (size_t i = 0; i < elements.size(); ++i) {
    ScalarType reg = type;
    uint32_t &granule = operands[isStore ? i + 1 : i];
    bool ok = isStore ? sourceOf(elements[i], type, granule, true, &reg)
                      : destOf(elements[i], type, granule, true, &reg);
    if (!ok)
      return false;
    unsigned width = std::max(2u, typeBytes(reg));
    if (regBytes && width != regBytes && granule != sinkGranule)
      return failHere("expects registers of one width in a vector access");
    regBytes = granule == sinkGranule && regBytes ? regBytes : width;
  }
  return true;
}

bool Lowering::lowerLoadStore() {
  bool isStore = mods.base() == "st";
  Inst proto;
  StateSpace space;
  takeSemantics(proto);
  takeSpace(space);
  bool isReadOnly = mods.has("nc");
  dropCacheHints();
  int vector = mods.takeOneOf({"v2", "v4", "v8"});
  unsigned length = vector < 0 ? 1 : 2u << vector;
  ScalarType type = mods.takeType();
  unsigned bytes = typeBytes(type);
  if (bytes == 0 || bytes > 8)
    return failHere(std::string("cannot load or store type .") +
                    typeName(type));
  if (length == 8 && bytes != 4)
    return failHere(".v8 expects a 32-bit type");
  if (length * bytes > 32 || (length * bytes > 16 && length != 8))
    return failHere("a vector access is limited to 16 bytes, but got " +
                    std::to_string(length * bytes));
  if (!expectOperands(2, 3)) // an L2 cache policy may follow
    return false;

  const PtxOperand &data = inst->operands[isStore ? 1 : 0];
  const PtxOperand &where = inst->operands[isStore ? 0 : 1];
  std::vector<PtxOperand> single{data};
  const std::vector<PtxOperand> &elements =
      data.kind == PtxOperand::Kind::Vector ? data.elements : single;
  if (elements.size() != length)
    return fail(data.loc, "expects " + std::to_string(length) +
                              " registers, but got " +
                              std::to_string(elements.size()));
  Address addr;
  if (!address(where, space, addr))
    return false;
  if (isStore &&
      (addr.space == StateSpace::Param || addr.space == StateSpace::Const))
    return failHere(std::string("cannot store to state space .") +
                    spaceName(addr.space));
  std::vector<uint32_t> operands(length + 1);
  unsigned regBytes = 0;
  if (!dataRegisters(elements, type, isStore, operands, regBytes))
    return false;
  operands[isStore ? 0 : length] = addr.granule;
  noteAccess(addr.space, length * bytes);
  Inst &out =
      emit(isStore ? InstKind::Store : InstKind::Load, InstClass::Memory);
  out.space = addr.space;
  out.imm = addr.offset;
  out.addressIs64 = addr.is64;
  out.elementBytes = static_cast<uint8_t>(bytes);
  out.vectorLength = static_cast<uint8_t>(length);
  out.regBytes = static_cast<uint8_t>(regBytes);
  out.signExtend = isSignedType(type);
  copySemantics(proto, out);
  out.isReadOnly = isReadOnly;
  setOperands(out, operands, isStore ? 0 : length);
  return true;
}

bool Lowering::lowerAtomic() {
  // `red.async` and vector forms are sm_90 and not supported.
  bool isRed = mods.base() == "red";
  Inst proto;
  StateSpace space;
  takeSemantics(proto);
  takeSpace(space);
  dropCacheHints();
  mods.take("noftz");
  int op = mods.takeOneOf(
      {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"});
  ScalarType type = mods.takeType();
  unsigned bytes = typeBytes(type);
  bool isFloat = isFloatType(type);
  if (op < 0 || bytes < 2 || bytes > 8 || (isFloat && op != 0))
    return failHere("atomic operation is not supported: '" +
                    std::string(inst->opcode.substr(0, 60)) + "'");
  bool isCas = op == 9;
  unsigned numData = isCas ? 2 : 1;
  size_t want = (isRed ? 1 : 2) + numData;
  if (!expectOperands(want, want + 1))
    return false;
  unsigned index = isRed ? 0 : 1;
  Address addr;
  if (!address(inst->operands[index], space, addr))
    return false;
  uint32_t d = sinkGranule, b, c = 0;
  if (!source(index + 1, type, b) || (isCas && !source(index + 2, type, c)) ||
      (!isRed && !dest(0, type, d)))
    return false;
  if (addr.space != StateSpace::Global && addr.space != StateSpace::Shared &&
      addr.space != StateSpace::Generic)
    return failHere("atomics work on .global and .shared only");
  noteAccess(addr.space, bytes);
  Inst &out = emit(InstKind::Atomic, InstClass::Memory);
  out.mode = static_cast<uint8_t>(op);
  out.type = type;
  out.space = addr.space;
  out.imm = addr.offset;
  out.addressIs64 = addr.is64;
  out.elementBytes = out.regBytes = static_cast<uint8_t>(bytes);
  copySemantics(proto, out);
  out.isStrong = true;
  out.noResult = isRed;
  setOperands(out, {d, addr.granule, b, isCas ? c : b}, 1);
  return true;
}

//===----------------------------------------------------------------------===//
// cp.async
//===----------------------------------------------------------------------===//

/// commit_group, wait_group and wait_all; false if it is none of them, and an
/// error is then for the caller to make.
bool Lowering::lowerCpAsyncGroup(bool &isGroup) {
  isGroup = true;
  if (mods.take("commit_group")) {
    emit(InstKind::CpAsyncCommit, InstClass::Async);
    return expectOperands(0);
  }
  if (mods.take("wait_all")) {
    emit(InstKind::CpAsyncWait, InstClass::Async).imm = -1;
    return expectOperands(0);
  }
  isGroup = mods.take("wait_group");
  if (!isGroup)
    return true;
  if (!expectOperands(1))
    return false;
  const PtxOperand &count = inst->operands[0];
  if (count.kind != PtxOperand::Kind::Int || count.value < 0)
    return fail(count.loc, "expects a group count of 0 or more");
  emit(InstKind::CpAsyncWait, InstClass::Async).imm = count.value;
  return true;
}

/// The fourth operand: a byte count, an ignore-src predicate or a cache policy.
bool Lowering::cpAsyncSourceSize(uint32_t &srcSize) {
  if (inst->operands.size() < 4)
    return true;
  const PtxOperand &extra = inst->operands[3];
  Symbol *symbol =
      extra.kind == PtxOperand::Kind::Symbol ? lookup(extra.name) : nullptr;
  if (!symbol || symbol->type != ScalarType::Pred)
    return (symbol && typeBytes(symbol->type) == 8) ||
           source(3, ScalarType::U32, srcSize);
  uint32_t p, count = allocate(ScalarType::U32);
  if (!predicateSource(extra, p))
    return false;
  emitAlu(AluOp::SelpB32, InstClass::Async, {count, constant(4, 0), srcSize, p})
      .hidden = true;
  srcSize = count;
  return true;
}

/// cp.async.{ca,cg}.shared.global [dst], [src], size{, src-size}{, policy}
bool Lowering::lowerCpAsync() {
  if (!mods.take("async"))
    return failHere("expects cp.async");
  if (mods.take("bulk"))
    return lowerBulkCopy();
  if (mods.take("mbarrier"))
    return lowerCopyArrival();
  bool isGroup = false;
  if (!lowerCpAsyncGroup(isGroup) || isGroup)
    return !hasError;
  int cache = mods.takeOneOf({"ca", "cg"});
  bool toShared = mods.take("shared") || mods.take("shared::cta");
  bool fromGlobal = mods.take("global");
  mods.takePrefix("L2::cache_hint");
  mods.takePrefix("L2::");
  if (cache < 0 || !toShared || !fromGlobal)
    return failHere("expects cp.async.{ca,cg}.shared.global");
  if (!expectOperands(3, 5))
    return false;
  const PtxOperand &size = inst->operands[2];
  bool validSize = size.kind == PtxOperand::Kind::Int &&
                   (size.value == 4 || size.value == 8 || size.value == 16);
  if (!validSize || (cache == 1 && size.value != 16))
    return fail(size.loc,
                cache == 1 ? "cp.async.cg copies 16 bytes; use .ca for 4 or 8"
                           : "expects a copy size of 4, 8 or 16 bytes");
  Address to, from;
  if (!address(inst->operands[0], StateSpace::Shared, to) ||
      !address(inst->operands[1], StateSpace::Global, from))
    return false;
  uint32_t srcSize = constant(4, static_cast<uint64_t>(size.value));
  if (!cpAsyncSourceSize(srcSize))
    return false;
  if (from.offset != static_cast<int32_t>(from.offset))
    return failHere("global offset of cp.async does not fit 32 bits");
  noteAccess(StateSpace::Shared, static_cast<unsigned>(size.value));
  Inst &out = emit(InstKind::CpAsync, InstClass::Async);
  out.elementBytes = static_cast<uint8_t>(size.value);
  out.bypassesL1 = cache == 1;
  out.imm = to.offset;
  out.addressIs64 = to.is64;
  out.aux = static_cast<int32_t>(from.offset);
  setOperands(out, {to.granule, from.granule, srcSize}, 0);
  return true;
}

//===----------------------------------------------------------------------===//
// ldmatrix, stmatrix, fences
//===----------------------------------------------------------------------===//

bool Lowering::lowerMatrixMove() {
  bool isStore = mods.base() == "stmatrix";
  bool ok = mods.take("sync") && mods.take("aligned") && mods.take("m8n8");
  int number = mods.takeOneOf({"x1", "x2", "x4"});
  bool transposed = mods.take("trans");
  bool isShared = mods.take("shared") || mods.take("shared::cta");
  ok &= mods.takeType() == ScalarType::B16;
  if (!ok || number < 0)
    return failHere("expects " + std::string(mods.base()) +
                    ".sync.aligned.m8n8.{x1,x2,x4}{.trans}{.shared}.b16");
  if (!expectOperands(2))
    return false;
  unsigned count = 1u << number;
  std::vector<uint32_t> operands;
  Address addr;
  if (!address(inst->operands[isStore ? 0 : 1],
               isShared ? StateSpace::Shared : StateSpace::Generic, addr))
    return false;
  // A generic address has to point to shared memory.
  if (!isShared) {
    uint32_t offset = allocate(ScalarType::U64);
    emitAlu(AluOp::SubB64, InstClass::Matrix,
            {offset, addr.granule, constant(8, sharedWindow)})
        .hidden = true;
    addr.granule = offset;
  }
  if (!fragment(inst->operands[isStore ? 1 : 0], count, ScalarType::B32,
                "a matrix move", !isStore, operands))
    return false;
  operands.insert(isStore ? operands.begin() : operands.end(), addr.granule);
  noteAccess(StateSpace::Shared, 16);
  Inst &out = emit(isStore ? InstKind::StoreMatrix : InstKind::LoadMatrix,
                   InstClass::Matrix);
  out.vectorLength = static_cast<uint8_t>(count);
  out.elementBytes = 16;
  out.transposed = transposed;
  out.aligned = true;
  out.space = StateSpace::Shared;
  out.imm = addr.offset;
  out.addressIs64 = addr.is64;
  setOperands(out, operands, isStore ? 0 : count);
  return true;
}

/// movmatrix.sync.aligned.m8n8.trans.b16 d, a
bool Lowering::lowerMoveMatrix() {
  uint32_t d, a;
  if (!mods.take("sync") || !mods.take("aligned") || !mods.take("m8n8") ||
      !mods.take("trans") || mods.takeType() != ScalarType::B16)
    return failHere("expects movmatrix.sync.aligned.m8n8.trans.b16");
  if (!expectOperands(2) || !source(1, ScalarType::B32, a) ||
      !dest(0, ScalarType::B32, d))
    return false;
  Inst &out = emit(InstKind::MoveMatrix, InstClass::Matrix);
  out.aligned = true;
  setOperands(out, {d, a}, 1);
  return true;
}

bool Lowering::lowerFence() {
  bool isMembar = mods.base() == "membar";
  if (mods.take("proxy"))
    return lowerProxyFence();
  if (!expectOperands(0))
    return false;
  // Of mbarrier.init, for the cluster: of the order of the others it says
  // nothing more than a release does.
  bool isInit = !isMembar && mods.take("mbarrier_init");
  if (isInit && !(mods.has("release") && mods.has("cluster")))
    return failHere("expects fence.mbarrier_init.release.cluster");
  // membar is fence.sc.
  int order =
      isMembar ? 0 : mods.takeOneOf({"sc", "acq_rel", "acquire", "release"});
  int scope = mods.takeOneOf({"cta", "cluster", "gpu", "sys", "gl"});
  if (scope < 0)
    return failHere("expects a scope on a fence");
  Inst &out = emit(InstKind::Fence, InstClass::Barrier);
  out.scope = scope <= 1 ? MemoryScope::Cta : MemoryScope::Device;
  out.isAcquire = order != 3;
  out.isRelease = order != 2;
  return true;
}

bool Lowering::lowerPrefetch() {
  StateSpace space;
  Address where;
  takeSpace(space);
  mods.takeOneOf({"L1", "L2", "tensormap"});
  mods.takePrefix("L2::");
  if (!expectOperands(1, 2) || !address(inst->operands[0], space, where))
    return false;
  emit(InstKind::Prefetch, InstClass::Memory);
  return true;
}
