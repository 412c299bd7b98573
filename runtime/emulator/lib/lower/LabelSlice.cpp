//===- LabelSlice.cpp - Which instructions carry labels -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See LabelSlice.h. The flow of one instruction, from halves of its sources to
// halves of its destinations, is described once and used both for the slice and
// for the plan. What is not described gives up its labels.
//
//===----------------------------------------------------------------------===//

#include "LabelSlice.h"
#include "../math/LaneMath.h"

#include <algorithm>

using namespace flashcore::emu;

namespace {
/// The granules one destination granule gets its labels from.
struct Flow {
  uint32_t to = 0;
  uint32_t from[3] = {noGranule, noGranule, noGranule};
};

struct InstFlow {
  LabelAction action = LabelAction::Merge;
  unsigned count = 0;
  Flow flows[4];

  void add(uint32_t to, uint32_t a, uint32_t b = noGranule,
           uint32_t c = noGranule) {
    flows[count++] = {to, {a, b, c}};
  }
};

class LabelSlicer {
public:
  explicit LabelSlicer(const Program &program)
      : program(program), wanted(program.frameGranules, false) {}
  LabelPlan run();

private:
  const uint32_t *operandsOf(const Inst &inst) const {
    return program.operands.data() + inst.firstOperand;
  }
  bool want(uint32_t granule, unsigned count);
  bool isAnyWanted(uint32_t granule, unsigned count) const;
  void wantFragments(const Inst &inst);
  void wantProduct(const Inst &inst);
  bool visit(const Inst &inst);
  bool visitAlu(const Inst &inst);
  bool visitShuffle(const Inst &inst);
  void followFrom(std::vector<bool> &values) const;
  void wantStored(const std::vector<bool> &values);
  std::vector<bool> findScaled(const std::vector<bool> &products);
  InstFlow flowOf(const Inst &inst) const;
  void convertFlow(const Inst &inst, InstFlow &flow) const;
  void permuteFlow(const uint32_t *ops, InstFlow &flow) const;
  void planSteps(const Inst &inst, LabelOp &op);
  uint32_t slotOf(uint32_t granule) const {
    return granule == noGranule ? noSlot : plan.slots[granule];
  }

  const Program &program;
  std::vector<bool> wanted;
  /// If not null, nothing else is wanted from now on.
  const std::vector<bool> *limit = nullptr;
  LabelPlan plan;
};
} // namespace

//===----------------------------------------------------------------------===//
// The flow of one instruction
//===----------------------------------------------------------------------===//

/// Bytes of the destination register; 0 for a predicate and where the labels
/// are moved together with the data.
static unsigned resultBytes(const Inst &inst) {
  static constexpr uint8_t aluBytes[] = {
#define FC_ALU1(NAME, D, A, EXPR) sizeof(D),
#define FC_ALU2(NAME, D, A, B, EXPR) sizeof(D),
#define FC_ALU3(NAME, D, A, B, C, EXPR) sizeof(D),
#include "flashcore/Emulator/AluOps.def"
  };
  switch (inst.kind) {
  case InstKind::Alu:
    break;
  case InstKind::Clock:
    return inst.regBytes;
  case InstKind::Atomic:
    return inst.elementBytes;
  case InstKind::Vote:
    return inst.mode == uint8_t(VoteMode::Ballot) ? 4 : 0;
  case InstKind::Match:
  case InstKind::Redux:
  case InstKind::ActiveMask:
    return 4;
  default:
    return 0;
  }
  if (size_t(inst.op) < sizeof aluBytes)
    return aluBytes[size_t(inst.op)];
  switch (inst.op) {
  case AluOp::SelpB16:
    return 2;
  case AluOp::SelpB32:
  case AluOp::BfiB32:
    return 4;
  case AluOp::SelpB64:
  case AluOp::BfiB64:
    return 8;
  case AluOp::Convert:
    return inst.conversion->toRegBytes;
  default:
    return 0;
  }
}

static bool isBetween(AluOp op, AluOp first, AluOp last) {
  return op >= first && op <= last;
}

// Ranges are in the order of AluOps.def.

bool flashcore::emu::isFloat32(AluOp op) {
  return isBetween(op, AluOp::AddF32, AluOp::SatF32);
}
static bool isFloat16(AluOp op) {
  return isBetween(op, AluOp::AddF16, AluOp::TanhBF16x2);
}

bool flashcore::emu::isAddition(AluOp op) {
  return op == AluOp::AddF32 || op == AluOp::AddF32Ftz ||
         op == AluOp::AddF32Rnd;
}

bool flashcore::emu::isReduction(AluOp op) {
  return isAddition(op) || isBetween(op, AluOp::MinF32, AluOp::MaxNanF32Ftz) ||
         isBetween(op, AluOp::AddF16, AluOp::AddBF16x2) ||
         isBetween(op, AluOp::MinF16, AluOp::MaxNanBF16x2);
}

/// A byte permutation that moves whole halves, with a constant selector.
void LabelSlicer::permuteFlow(const uint32_t *ops, InstFlow &flow) const {
  auto selector =
      std::find_if(program.constants.begin(), program.constants.end(),
                   [&](const FrameConstant &c) { return c.granule == ops[3]; });
  if (selector == program.constants.end())
    return;
  const uint32_t halves[] = {ops[1], ops[1] + 1, ops[2], ops[2] + 1};
  for (unsigned half = 0; half < 2; ++half) {
    uint64_t bytes = selector->bits >> (8 * half);
    uint64_t low = bytes & 0xf, high = bytes >> 4 & 0xf;
    if (low % 2 == 0 && low < 8 && high == low + 1)
      flow.add(ops[0] + half, halves[low / 2]);
  }
}

/// Conversions between floats of 16 and 32 bits that round or clamp in a way of
/// their own.
void LabelSlicer::convertFlow(const Inst &inst, InstFlow &flow) const {
  const uint32_t *ops = operandsOf(inst);
  auto isFloat = [](ScalarType type) {
    return type == ScalarType::F16 || type == ScalarType::BF16 ||
           type == ScalarType::F32 || type == ScalarType::TF32;
  };
  ScalarType to = inst.conversion->to, from = inst.conversion->from;
  if (isFloat(to) && isFloat(from)) {
    flow.add(ops[0], ops[1]);
  } else if (from == ScalarType::F32 &&
             (to == ScalarType::F16x2 || to == ScalarType::BF16x2)) {
    flow.add(ops[0], ops[2]);
    flow.add(ops[0] + 1, ops[1]);
  }
}

/// Halves that change place: moves, and the taking apart and putting together
/// of registers. False for what is none of these.
static bool moveFlow(const Inst &inst, const uint32_t *ops, InstFlow &flow) {
  switch (inst.op) {
  case AluOp::MovB16:
  case AluOp::MovB32:
  case AluOp::MovB64:
    for (unsigned half = 0; half < resultBytes(inst) / 2; ++half)
      flow.add(ops[0] + half, ops[1] + half);
    return true;
  case AluOp::LowB32:
  case AluOp::HighB32:
    for (unsigned half = 0; half < 2; ++half)
      flow.add(ops[0] + half,
               ops[1] + half + (inst.op == AluOp::HighB32 ? 2 : 0));
    return true;
  case AluOp::LowB16:
  case AluOp::HighB16:
    flow.add(ops[0], ops[1] + (inst.op == AluOp::HighB16));
    return true;
  case AluOp::PackB64:
    for (unsigned half = 0; half < 4; ++half)
      flow.add(ops[0] + half, ops[1 + half / 2] + half % 2);
    return true;
  case AluOp::PackB32:
    flow.add(ops[0], ops[1]);
    flow.add(ops[0] + 1, ops[2]);
    return true;
  default:
    return false;
  }
}

InstFlow LabelSlicer::flowOf(const Inst &inst) const {
  const uint32_t *ops = operandsOf(inst);
  InstFlow flow;
  if (moveFlow(inst, ops, flow))
    return flow;
  auto source = [&](unsigned i, unsigned half) {
    return i <= inst.numSrcs ? ops[i] + half : noGranule;
  };
  if (isFloat32(inst.op) || isFloat16(inst.op)) {
    unsigned halves = isFloat16(inst.op) ? resultBytes(inst) / 2 : 1;
    for (unsigned half = 0; half < halves; ++half)
      flow.add(ops[0] + half, source(1, half), source(2, half),
               source(3, half));
    flow.action =
        isReduction(inst.op) ? LabelAction::MergeSum : LabelAction::Merge;
    return flow;
  }
  switch (inst.op) {
  case AluOp::SelpB16:
  case AluOp::SelpB32:
  case AluOp::SelpB64:
    for (unsigned half = 0; half < resultBytes(inst) / 2; ++half)
      flow.add(ops[0] + half, ops[1] + half, ops[2] + half);
    flow.action = LabelAction::Select;
    break;
  case AluOp::CvtF32F16:
  case AluOp::CvtF32BF16:
  case AluOp::CvtF16F32:
  case AluOp::CvtBF16F32:
    flow.add(ops[0], ops[1]);
    break;
  case AluOp::CvtF16x2F32:
  case AluOp::CvtBF16x2F32:
    flow.add(ops[0], ops[2]);
    flow.add(ops[0] + 1, ops[1]);
    break;
  case AluOp::Convert:
    convertFlow(inst, flow);
    break;
  case AluOp::Prmt:
    permuteFlow(ops, flow);
    break;
  default:
    break;
  }
  return flow;
}

//===----------------------------------------------------------------------===//
// The slice
//===----------------------------------------------------------------------===//

/// True if one of them is new.
bool LabelSlicer::want(uint32_t granule, unsigned count) {
  bool isNew = false;
  for (unsigned i = 0; i < count; ++i) {
    if (limit && !(*limit)[granule + i])
      continue;
    isNew |= !wanted[granule + i];
    wanted[granule + i] = true;
  }
  return isNew;
}

bool LabelSlicer::isAnyWanted(uint32_t granule, unsigned count) const {
  for (unsigned i = 0; i < count; ++i)
    if (wanted[granule + i])
      return true;
  return false;
}

bool flashcore::emu::isFollowed(const Inst &inst) {
  auto type = static_cast<MatrixType>(inst.mode);
  return inst.kind == InstKind::Mma &&
         (type == MatrixType::F16 || type == MatrixType::BF16 ||
          type == MatrixType::TF32);
}

MmaGranules::MmaGranules(const Program &program, const Inst &inst) {
  unsigned numAB = inst.numSrcs - inst.numDsts;
  numB = numAB / 3;
  numA = numAB - numB;
  d = program.operands.data() + inst.firstOperand;
  a = d + inst.numDsts;
  b = a + numA;
  c = b + numB;
  perRegister = inst.mode == uint8_t(MatrixType::TF32) ? 1 : 2;
  isHalf = inst.type == ScalarType::F16;
  depth = inst.vectorLength;
}

/// Operands of a wgmma before its accumulators: descriptors, scale-d.
static constexpr unsigned numDescriptors = 3;
static constexpr unsigned accumulatorsPerTile = 4;

MmaGranules::MmaGranules(const Program &program, const Inst &inst,
                         unsigned tile, unsigned quarter, bool accumulates) {
  const uint32_t *sums =
      program.operands.data() + inst.firstOperand + numDescriptors;
  d = sums + size_t(accumulatorsPerTile) * tile;
  c = accumulates ? d : nullptr;
  if (inst.aux & WgmmaRegistersA) {
    a = sums + size_t(accumulatorsPerTile) * inst.vectorLength;
    numA = 4;
  }
  firstRow = 16 * quarter;
  firstColumn = 8 * tile;
}

/// Of a wgmma its registers, and what shared memory holds.
void LabelSlicer::wantProduct(const Inst &inst) {
  plan.throughShared = true;
  for (unsigned tile = 0; tile < inst.vectorLength; ++tile) {
    MmaGranules mma(program, inst, tile, 0, true);
    for (unsigned i = 0; i < mma.numA; ++i)
      want(mma.a[i], mma.perRegister);
    for (unsigned i = 0; i < accumulatorsPerTile; ++i)
      want(mma.d[i], 1);
  }
}

void LabelSlicer::wantFragments(const Inst &inst) {
  if (inst.kind == InstKind::Wgmma)
    return wantProduct(inst);
  if (!isFollowed(inst))
    return;
  MmaGranules mma(program, inst);
  for (unsigned i = 0; i < mma.numA + mma.numB; ++i)
    want(mma.a[i], mma.perRegister);
  for (unsigned i = 0; i < 4; ++i)
    want(mma.accumulator(mma.c, i), 1);
}

static bool isShared(const Inst &inst) {
  return inst.space == StateSpace::Shared || inst.space == StateSpace::Generic;
}
static bool loadsShared(const Inst &inst) {
  return inst.kind == InstKind::LoadMatrix ||
         (inst.kind == InstKind::Load && isShared(inst));
}
static bool storesShared(const Inst &inst) {
  return inst.kind == InstKind::StoreMatrix ||
         (inst.kind == InstKind::Store && isShared(inst));
}
/// Halves of each register that they move.
static unsigned sharedHalves(const Inst &inst) {
  bool isMatrix =
      inst.kind == InstKind::LoadMatrix || inst.kind == InstKind::StoreMatrix;
  return isMatrix ? 2 : std::max(inst.regBytes / 2u, 1u);
}

bool LabelSlicer::visitAlu(const Inst &inst) {
  bool changed = false;
  InstFlow flow = flowOf(inst);
  for (unsigned i = 0; i < flow.count; ++i)
    if (wanted[flow.flows[i].to])
      for (uint32_t from : flow.flows[i].from)
        changed |= from != noGranule && want(from, 1);
  return changed;
}

bool LabelSlicer::visitShuffle(const Inst &inst) {
  const uint32_t *ops = operandsOf(inst);
  bool changed = false;
  for (unsigned half = 0; half < 2; ++half)
    if (wanted[ops[0] + half])
      changed |= want(ops[2] + half, 1);
  return changed;
}

/// Wants what the wanted results of an instruction come from.
bool LabelSlicer::visit(const Inst &inst) {
  if (inst.kind == InstKind::Alu)
    return visitAlu(inst);
  if (inst.kind == InstKind::Shuffle)
    return visitShuffle(inst);
  const uint32_t *ops = operandsOf(inst);
  unsigned halves = sharedHalves(inst);
  bool changed = false;
  if (loadsShared(inst) && !plan.throughShared) {
    for (unsigned i = 0; i < inst.numDsts; ++i)
      plan.throughShared |= isAnyWanted(ops[i], halves);
    changed = plan.throughShared;
  }
  if (storesShared(inst) && plan.throughShared)
    for (unsigned i = 0; i < inst.vectorLength; ++i)
      changed |= want(ops[1 + i], halves);
  return changed;
}

//===----------------------------------------------------------------------===//
// Products on their way to memory
//===----------------------------------------------------------------------===//

std::vector<bool> flashcore::emu::findProducts(const Program &program) {
  std::vector<bool> products(program.frameGranules, false);
  for (const Inst &inst : program.code) {
    if (isFollowed(inst))
      for (unsigned i = 0; i < 4; ++i) {
        MmaGranules mma(program, inst);
        products[mma.accumulator(mma.d, i)] = true;
      }
    if (inst.kind == InstKind::Wgmma) {
      const uint32_t *sums =
          program.operands.data() + inst.firstOperand + numDescriptors;
      for (unsigned i = 0; i < accumulatorsPerTile * inst.vectorLength; ++i)
        products[sums[i]] = true;
    }
  }
  return products;
}

static bool isProductOfFloats(AluOp op) {
  return op == AluOp::MulF32 || op == AluOp::MulF32Ftz ||
         op == AluOp::MulF32Rnd;
}

/// What is multiplied with something that is reduced over lanes or made of
/// products, such as a row sum: an accumulator that no mma adds to.
std::vector<bool> LabelSlicer::findScaled(const std::vector<bool> &products) {
  std::vector<bool> scaled(wanted.size(), false), isConstant(wanted.size());
  for (const FrameConstant &constant : program.constants)
    isConstant[constant.granule] = true;
  std::vector<bool> reduced = findReduced(program, products);
  auto isFactor = [&](uint32_t granule) {
    return reduced[granule] || products[granule];
  };
  auto isScaled = [&](uint32_t granule, uint32_t by) {
    return isFactor(by) && !isConstant[granule];
  };
  for (size_t pc = 0; pc < program.code.size(); ++pc) {
    const Inst &inst = program.code[pc];
    const uint32_t *ops = operandsOf(inst);
    if (inst.kind != InstKind::Alu || !isProductOfFloats(inst.op) ||
        !(isScaled(ops[1], ops[2]) || isScaled(ops[2], ops[1])))
      continue;
    scaled[ops[0]] = true;
    plan.ops[pc].isScale = true;
  }
  return scaled;
}

/// Adds what becomes of `products`, scaled, rounded, moved and exchanged,
/// through shared memory too, but not summed up: sums such as those of the rows
/// stand for no single product.
void LabelSlicer::followFrom(std::vector<bool> &products) const {
  bool changed = true;
  auto flow = [&](uint32_t from, uint32_t to) {
    bool isNew = from != noGranule && products[from] && !products[to];
    products[to] = products[to] || isNew;
    changed |= isNew;
  };
  // Of shared memory only whether there are products in it.
  bool isShared = false;
  auto flowThroughShared = [&](const Inst &inst) {
    const uint32_t *ops = operandsOf(inst);
    unsigned halves = sharedHalves(inst);
    if (storesShared(inst))
      for (unsigned i = 0; i < inst.vectorLength * halves && !isShared; ++i)
        changed |= isShared = products[ops[1 + i / halves] + i % halves];
    if (loadsShared(inst) && isShared)
      for (unsigned i = 0; i < inst.numDsts * halves; ++i) {
        uint32_t to = ops[i / halves] + i % halves;
        changed |= !products[to];
        products[to] = true;
      }
  };
  while (changed) {
    changed = false;
    for (const Inst &inst : program.code) {
      const uint32_t *ops = operandsOf(inst);
      flowThroughShared(inst);
      if (inst.kind == InstKind::Shuffle)
        for (unsigned half = 0; half < 2; ++half)
          flow(ops[2] + half, ops[0] + half);
      if (inst.kind != InstKind::Alu)
        continue;
      InstFlow alu = flowOf(inst);
      for (unsigned i = 0; i < alu.count; ++i)
        if (alu.action != LabelAction::MergeSum)
          for (uint32_t from : alu.flows[i].from)
            flow(from, alu.flows[i].to);
    }
  }
}

/// Wants those of `values` that are stored to global memory, on their way there
/// and on no other, which keeps the loops as they are.
void LabelSlicer::wantStored(const std::vector<bool> &values) {
  limit = &values;
  for (const Inst &inst : program.code)
    if (inst.kind == InstKind::Store &&
        (inst.space == StateSpace::Global || inst.space == StateSpace::Generic))
      for (unsigned i = 0; i < inst.vectorLength; ++i)
        want(operandsOf(inst)[1 + i], std::max(inst.regBytes / 2u, 1u));
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = program.code.size(); i-- > 0;)
      changed |= visit(program.code[i]);
  }
  limit = nullptr;
}

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

void LabelSlicer::planSteps(const Inst &inst, LabelOp &op) {
  InstFlow flow;
  if (inst.kind == InstKind::Alu)
    flow = flowOf(inst);
  op.action = flow.action;
  for (unsigned i = 0; i < flow.count; ++i) {
    LabelStep step;
    step.to = plan.slots[flow.flows[i].to];
    if (step.to == noSlot)
      continue;
    for (unsigned j = 0; j < 3; ++j)
      step.from[j] = slotOf(flow.flows[i].from[j]);
    plan.steps.push_back(step);
  }
  // The rest of the register, such as the upper half of a float.
  const uint32_t *ops = operandsOf(inst);
  for (unsigned half = 0; half < resultBytes(inst) / 2; ++half) {
    bool isDone = false;
    for (unsigned i = 0; i < flow.count; ++i)
      isDone |= flow.flows[i].to == ops[0] + half;
    if (isDone || plan.slots[ops[0] + half] == noSlot)
      continue;
    LabelStep step; // from nothing
    step.to = plan.slots[ops[0] + half];
    plan.steps.push_back(step);
  }
}

LabelPlan LabelSlicer::run() {
  for (const Inst &inst : program.code)
    wantFragments(inst);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = program.code.size(); i-- > 0;)
      changed |= visit(program.code[i]);
  }
  plan.ops.resize(program.code.size());
  std::vector<bool> products = findProducts(program);
  followFrom(products);
  wantStored(products);
  std::vector<bool> scaled = findScaled(products);
  followFrom(scaled);
  wantStored(scaled);
  // Constants and the sink have no label and need no slot.
  for (const FrameConstant &constant : program.constants)
    std::fill_n(wanted.begin() + constant.granule,
                std::max<unsigned>(constant.bytes / 2u, 1), false);
  std::fill_n(wanted.begin() + sinkGranule, 4, false);
  plan.slots.assign(wanted.size(), noSlot);
  for (size_t granule = 0; granule < wanted.size(); ++granule)
    if (wanted[granule])
      plan.slots[granule] = plan.numSlots++;
  for (size_t pc = 0; pc < program.code.size(); ++pc) {
    LabelOp &op = plan.ops[pc];
    op.firstStep = static_cast<uint32_t>(plan.steps.size());
    planSteps(program.code[pc], op);
    op.numSteps = static_cast<uint8_t>(plan.steps.size() - op.firstStep);
    if (op.numSteps == 0)
      op.action = LabelAction::None;
  }
  if (!plan.isEmpty())
    planReductions(program, products, plan);
  return std::move(plan);
}

LabelPlan flashcore::emu::planLabels(const Program &program) {
  return LabelSlicer(program).run();
}
