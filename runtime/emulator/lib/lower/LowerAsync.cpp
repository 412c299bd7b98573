//===- LowerAsync.cpp - mbarriers, bulk copies and roles of warps ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA sections 9.7.9.25 (bulk copies), 9.7.13.15
// (mbarrier, and where cp.async arrives at one) and 9.7.19.5 (setmaxnreg).
// Addresses are made 64 bits wide and free of offsets here; those of shared
// memory count from its start, whether they were written as .shared or generic
// ones.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

using namespace flashcore::emu;

/// Takes the state space of an operand that has to be in shared memory; false
/// if none is written and the address is a generic one. In a cluster of one CTA
/// the spaces of CTA and cluster are the same.
bool Lowering::takeSharedSpace() {
  return mods.takeOneOf({"shared", "shared::cta", "shared::cluster"}) >= 0;
}

uint32_t Lowering::sumOf(uint32_t address, int64_t offset) {
  if (offset == 0)
    return address;
  uint32_t sum = allocate(ScalarType::U64);
  emitAlu(AluOp::AddB64, InstClass::Async,
          {sum, address, constant(8, static_cast<uint64_t>(offset))})
      .hidden = true;
  return sum;
}

bool Lowering::sharedAddress(const PtxOperand &operand, bool isShared,
                             uint32_t &granule) {
  Address where;
  if (!address(operand, isShared ? StateSpace::Shared : StateSpace::Generic,
               where))
    return false;
  granule = where.granule;
  if (!where.is64) {
    granule = allocate(ScalarType::U64);
    emitAlu(AluOp::CvtU32B64, InstClass::Async, {granule, where.granule})
        .hidden = true;
  }
  int64_t window = isShared ? 0 : static_cast<int64_t>(sharedWindow);
  granule = sumOf(granule, where.offset - window);
  return true;
}

//===----------------------------------------------------------------------===//
// mbarrier
//===----------------------------------------------------------------------===//

/// Operands of the instruction: result, address, and two numbers by the
/// operation: arrivals and bytes, or state or parity.
bool Lowering::mbarrierOperands(MbarrierOp op, bool isShared, bool expectsTx,
                                std::vector<uint32_t> &operands) {
  bool isWait = op == MbarrierOp::TestWait || op == MbarrierOp::TryWait;
  bool isArrive = op == MbarrierOp::Arrive || op == MbarrierOp::ArriveDrop;
  bool hasResult = isWait || isArrive;
  const size_t at = hasResult ? 1 : 0;
  size_t least = at + (isWait || !isArrive ? 2 : expectsTx ? 2 : 1);
  size_t most = op == MbarrierOp::Inval ? 1 : at + 2;
  if (op == MbarrierOp::Inval)
    least = 1;
  if (op == MbarrierOp::TryWait)
    ++most; // how long it may take
  if (!expectOperands(least, most))
    return false;
  operands = {sinkGranule, sinkGranule, constant(4, 1), constant(4, 0)};
  ScalarType result = isWait ? ScalarType::Pred : ScalarType::B64;
  if ((hasResult && !dest(0, result, operands[0])) ||
      !sharedAddress(inst->operands[at], isShared, operands[1]))
    return false;
  if (inst->operands.size() <= at + 1)
    return true;
  const unsigned number = static_cast<unsigned>(at + 1);
  bool isState = isWait && !mods.has("parity");
  uint32_t unused;
  if (inst->operands.size() > number + 1 &&
      !source(number + 1, ScalarType::B32, unused))
    return false;
  return source(number, isState ? ScalarType::B64 : ScalarType::B32,
                operands[expectsTx ? 3 : 2]);
}

/// mbarrier.{init,inval,arrive,arrive_drop,expect_tx,complete_tx,test_wait,
/// try_wait,pending_count}
bool Lowering::lowerMbarrier() {
  int index =
      mods.takeOneOf({"init", "inval", "arrive", "arrive_drop", "expect_tx",
                      "complete_tx", "test_wait", "try_wait", "pending_count"});
  if (index < 0)
    return failHere("expects an operation of mbarrier such as .init, .arrive "
                    "or .try_wait");
  MbarrierOp op = static_cast<MbarrierOp>(index);
  bool isArrive = op == MbarrierOp::Arrive || op == MbarrierOp::ArriveDrop;
  bool isWait = op == MbarrierOp::TestWait || op == MbarrierOp::TryWait;
  bool expectsTx = isArrive && mods.take("expect_tx");
  bool noComplete = isArrive && mods.take("noComplete");
  int order = mods.takeOneOf({isArrive ? "release" : "acquire", "relaxed"});
  mods.takeOneOf({"cta", "cluster"});
  bool isShared = takeSharedSpace();
  std::vector<uint32_t> operands;
  if (op == MbarrierOp::PendingCount) {
    operands = {sinkGranule, sinkGranule, constant(4, 0), constant(4, 0)};
    if (!expectOperands(2) || !dest(0, ScalarType::B32, operands[0]) ||
        !source(1, ScalarType::B64, operands[2]))
      return false;
  } else if (!mbarrierOperands(op, isShared, expectsTx, operands)) {
    return false;
  }
  bool isParity = isWait && mods.take("parity");
  if (mods.takeType() != ScalarType::B64)
    return failHere("expects .b64 on an mbarrier");
  noteAccess(StateSpace::Shared, 8);
  program.usesAsyncProxy = true;
  Inst &out = emit(InstKind::Mbarrier, InstClass::Barrier);
  out.mode = static_cast<uint8_t>(op);
  out.aux =
      (isParity ? MbarrierParity : 0) | (noComplete ? MbarrierNoComplete : 0);
  out.isRelease = isArrive && order != 1;
  out.isAcquire = isWait && order != 1;
  setOperands(out, operands, 1);
  return true;
}

/// cp.async.mbarrier.arrive{.noinc}{.shared{::cta}}.b64 [addr]
bool Lowering::lowerCopyArrival() {
  bool isArrive = mods.take("arrive");
  bool isCounted = mods.take("noinc");
  bool isShared = mods.takeOneOf({"shared", "shared::cta"}) >= 0;
  if (!isArrive || mods.takeType() != ScalarType::B64)
    return failHere(
        "expects cp.async.mbarrier.arrive{.noinc}{.shared{::cta}}.b64");
  uint32_t where;
  if (!expectOperands(1) || !sharedAddress(inst->operands[0], isShared, where))
    return false;
  noteAccess(StateSpace::Shared, 8);
  program.usesAsyncProxy = true;
  program.arrivesOnCopies = true;
  Inst &out = emit(InstKind::CpAsyncArrive, InstClass::Async);
  out.aux = isCounted ? MbarrierNoIncrement : 0;
  setOperands(out, {where}, 0);
  return true;
}

//===----------------------------------------------------------------------===//
// Bulk copies
//===----------------------------------------------------------------------===//

/// cp.async.bulk.commit_group, and .wait_group{.read} N
bool Lowering::lowerBulkGroup(bool &isGroup) {
  isGroup = true;
  if (mods.take("commit_group")) {
    emit(InstKind::BulkCommit, InstClass::Async);
    return expectOperands(0);
  }
  isGroup = mods.take("wait_group");
  if (!isGroup)
    return true;
  bool isRead = mods.take("read");
  if (!expectOperands(1))
    return false;
  const PtxOperand &count = inst->operands[0];
  if (count.kind != PtxOperand::Kind::Int || count.value < 0)
    return fail(count.loc, "expects a group count of 0 or more");
  Inst &out = emit(InstKind::BulkWait, InstClass::Async);
  out.imm = count.value;
  out.aux = isRead;
  return true;
}

/// cp.async.bulk{.tensor.Nd}.to.from.completion
bool Lowering::lowerBulkCopy() {
  program.usesAsyncProxy = true;
  bool isGroup = false;
  if (!lowerBulkGroup(isGroup) || isGroup)
    return !hasError;
  if (mods.take("prefetch")) {
    // Moves nothing that a kernel could see.
    mods.take("tensor");
    mods.takeOneOf({"1d", "2d", "3d", "4d", "5d"});
    for (std::string_view word : {"L2", "global", "tile"})
      mods.take(word);
    mods.takePrefix("L2::");
    emit(InstKind::Prefetch, InstClass::Memory);
    return true;
  }
  bool isTensor = mods.take("tensor");
  int rank = isTensor ? mods.takeOneOf({"1d", "2d", "3d", "4d", "5d"}) + 1 : 0;
  for (std::string_view mode :
       {"im2col", "im2col_no_offs", "im2col::w", "im2col::w::128",
        "tile::gather4", "tile::scatter4"})
    if (mods.has(mode))
      return failUnsupported(inst->opcode,
                             "copies in mode ." + std::string(mode));
  mods.take("tile");
  // Destination first; .global stands on both sides.
  bool isLoad = mods.has("mbarrier::complete_tx::bytes");
  bool isStore = mods.has("bulk_group");
  bool hasGlobal = mods.take("global");
  bool hasShared = takeSharedSpace();
  if ((isTensor && rank < 1) || isLoad == isStore || !hasGlobal || !hasShared)
    return failHere(
        "expects cp.async.bulk{.tensor.1d to 5d} of "
        ".shared::cluster.global with .mbarrier::complete_tx::bytes or of "
        ".global.shared::cta with .bulk_group, but got '" +
        std::string(inst->opcode.substr(0, 100)) + "'");
  mods.take("mbarrier::complete_tx::bytes");
  mods.take("bulk_group");
  bool hasPolicy = !mods.takePrefix("L2::cache_hint").empty();
  noteAccess(StateSpace::Shared, 16);
  unsigned count = isTensor ? (isLoad ? 3 : 2) : (isLoad ? 4 : 3);
  if (!expectOperands(count + hasPolicy))
    return false;
  return isTensor ? lowerTileCopy(isLoad, static_cast<unsigned>(rank))
                  : lowerPlainBulkCopy(isLoad);
}

/// Operands of the instruction: shared address, tensor map, mbarrier (or
/// nothing), coordinates.
bool Lowering::lowerTileCopy(bool isLoad, unsigned rank) {
  const std::vector<PtxOperand> &in = inst->operands;
  PtxOperand map = in[isLoad ? 1 : 0];
  if (map.kind != PtxOperand::Kind::Address || map.elements.size() != rank)
    return fail(map.loc, "expects the address of a tensor map and " +
                             std::to_string(rank) +
                             " coordinates, as in [map, {x, y}]");
  std::vector<PtxOperand> coordinates = std::move(map.elements);
  map.elements.clear();
  Address where;
  std::vector<uint32_t> operands(3, constant(8, 0));
  if (!address(map, StateSpace::Generic, where) ||
      !sharedAddress(in[isLoad ? 0 : 1], /*isShared=*/true, operands[0]) ||
      (isLoad && !sharedAddress(in[2], /*isShared=*/true, operands[2])))
    return false;
  operands[1] = sumOf(where.granule, where.offset);
  for (const PtxOperand &coordinate : coordinates) {
    uint32_t granule;
    if (!sourceOf(coordinate, ScalarType::S32, granule))
      return false;
    operands.push_back(granule);
  }
  Inst &out = emit(InstKind::BulkCopy, InstClass::Async);
  out.mode =
      static_cast<uint8_t>(isLoad ? BulkOp::TileLoad : BulkOp::TileStore);
  out.vectorLength = static_cast<uint8_t>(rank);
  setOperands(out, operands, 0);
  return true;
}

/// Operands of the instruction: shared address, global address, mbarrier (or
/// nothing), bytes.
bool Lowering::lowerPlainBulkCopy(bool isLoad) {
  const std::vector<PtxOperand> &in = inst->operands;
  Address global;
  std::vector<uint32_t> operands(4, constant(8, 0));
  if (!address(in[isLoad ? 1 : 0], StateSpace::Global, global) ||
      !sharedAddress(in[isLoad ? 0 : 1], /*isShared=*/true, operands[0]) ||
      !source(2, ScalarType::B32, operands[3]) ||
      (isLoad && !sharedAddress(in[3], /*isShared=*/true, operands[2])))
    return false;
  operands[1] = sumOf(global.granule, global.offset);
  Inst &out = emit(InstKind::BulkCopy, InstClass::Async);
  out.mode = static_cast<uint8_t>(isLoad ? BulkOp::Load : BulkOp::Store);
  setOperands(out, operands, 0);
  return true;
}

//===----------------------------------------------------------------------===//
// Fences, roles, clusters of one CTA
//===----------------------------------------------------------------------===//

/// fence.proxy.{alias,async{.global,.shared::{cta,cluster}}}
bool Lowering::lowerProxyFence() {
  if (mods.has("tensormap::generic"))
    return failUnsupported(inst->opcode, "tensor maps that a kernel changes");
  if (!expectOperands(0))
    return false;
  if (mods.take("alias")) {
    emit(InstKind::Fence, InstClass::Barrier);
    return true;
  }
  if (!mods.take("async"))
    return failHere("expects fence.proxy.alias or .async");
  // What is checked of the proxies is shared memory.
  bool isGlobal = mods.take("global");
  takeSharedSpace();
  program.usesAsyncProxy = true;
  emit(isGlobal ? InstKind::Fence : InstKind::ProxyFence, InstClass::Barrier);
  return true;
}

/// barrier.cluster.arrive{.release,.relaxed}{.aligned} and
/// barrier.cluster.wait{.acquire}{.aligned}
bool Lowering::lowerClusterBarrier() {
  bool isWait = mods.take("wait");
  if ((!isWait && !mods.take("arrive")) || !expectOperands(0))
    return failHere("expects barrier.cluster.arrive or barrier.cluster.wait");
  bool isRelaxed = !isWait && mods.take("relaxed");
  mods.take(isWait ? "acquire" : "release");
  Inst &out = emit(isWait ? InstKind::ClusterWait : InstKind::ClusterArrive,
                   InstClass::Barrier);
  out.isRelease = !isWait && !isRelaxed;
  out.aligned = mods.take("aligned");
  return true;
}

/// getctarank{.shared::cluster}.type d, a. There is one CTA in the cluster.
bool Lowering::lowerGetCtaRank() {
  takeSharedSpace();
  ScalarType type = mods.takeType();
  uint32_t d, a;
  if ((type != ScalarType::U32 && type != ScalarType::U64) ||
      !expectOperands(2))
    return failHere("expects getctarank{.shared::cluster}.{u32,u64} d, a");
  if (!addressSource(1, type, a) || !dest(0, ScalarType::U32, d))
    return false;
  emitAlu(AluOp::MovB32, InstClass::Integer, {d, constant(4, 0)});
  return true;
}

/// elect.sync d|p, membermask
bool Lowering::lowerElect() {
  if (!mods.take("sync") || !expectOperands(2))
    return failHere("expects elect.sync d|p, membermask");
  const PtxOperand &to = inst->operands[0];
  if (!to.isPair)
    return fail(to.loc, "expects a lane and a predicate, as in d|p");
  uint32_t d, p, mask;
  if (!destOf(to.elements[0], ScalarType::B32, d) ||
      !destOf(to.elements[1], ScalarType::Pred, p) ||
      !source(1, ScalarType::B32, mask))
    return false;
  program.usesAsyncProxy = true;
  setOperands(emit(InstKind::Elect, InstClass::Shuffle), {d, p, mask}, 2);
  return true;
}

/// mapa{.shared::cluster}.type d, a, b. There is one CTA in the cluster, with
/// rank 0; what a wrong rank gives is no address of anything.
bool Lowering::lowerMapa() {
  takeSharedSpace();
  ScalarType type = mods.takeType();
  if ((type != ScalarType::U32 && type != ScalarType::U64) ||
      !expectOperands(3))
    return failHere("expects mapa{.shared::cluster}.{u32,u64} d, a, b");
  uint32_t d, a, rank, isOther = allocate(ScalarType::Pred);
  if (!addressSource(1, type, a))
    return false;
  if (!source(2, ScalarType::U32, rank) || !dest(0, type, d))
    return false;
  Inst &compare =
      emitAlu(AluOp::SetpU32, InstClass::Predicate,
              {isOther, sinkGranule, rank, constant(4, 0), constant(0, 1)}, 2);
  compare.aux = static_cast<int32_t>(CmpOp::Ne);
  compare.hidden = true;
  unsigned bytes = typeBytes(type);
  emitAlu(bytes == 8 ? AluOp::SelpB64 : AluOp::SelpB32, InstClass::Integer,
          {d, constant(bytes, ~uint64_t(0)), a, isOther});
  return true;
}

/// One launch at a time runs here: whatever came before it has ended.
bool Lowering::lowerGridDependency() {
  if (mods.takeOneOf({"wait", "launch_dependents"}) < 0 || !expectOperands(0))
    return failHere("expects griddepcontrol.wait or .launch_dependents");
  emit(InstKind::Prefetch, InstClass::Control);
  return true;
}

/// setmaxnreg.{inc,dec}.sync.aligned.u32 N
bool Lowering::lowerSetMaxRegisters() {
  int mode = mods.takeOneOf({"inc", "dec"});
  if (mode < 0 || !mods.take("sync") || !mods.take("aligned") ||
      mods.takeType() != ScalarType::U32 || !expectOperands(1))
    return failHere("expects setmaxnreg.{inc,dec}.sync.aligned.u32");
  const PtxOperand &count = inst->operands[0];
  if (count.kind != PtxOperand::Kind::Int || count.value < 24 ||
      count.value > 256 || count.value % 8)
    return fail(count.loc, "expects a multiple of 8 from 24 to 256 registers, "
                           "but got " +
                               std::to_string(count.value));
  program.usesAsyncProxy = true;
  Inst &out = emit(InstKind::SetMaxRegisters, InstClass::Control);
  out.mode = static_cast<uint8_t>(mode);
  out.imm = count.value;
  out.aligned = true;
  return true;
}
