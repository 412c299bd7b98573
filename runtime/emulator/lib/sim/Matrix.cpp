//===- Matrix.cpp - ldmatrix, stmatrix, mma -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA 9.7.14.5.15: lane 8 * i + r gives the address of row r of matrix i;
// of each row of 16 bytes, lane 4 * r + j receives bytes 4 j .. 4 j + 3. With
// .trans lane 4 * c + j receives elements (2 j, c) and (2 j + 1, c).
//
//===----------------------------------------------------------------------===//

#include "../math/Half.h"
#include "Machine.h"

using namespace flashcore::emu;

/// Resolves and checks the rows of 16 bytes that the lanes name; those of the
/// result's lanes may be touched.
LaneAccess Machine::accessMatrixRows(Warp &warp, const Inst &inst,
                                     uint32_t granule, uint32_t lanes,
                                     bool isWrite,
                                     uint8_t *(&hosts)[warpSize]) {
  LaneAccess access;
  access.bytes = 16;
  unsigned count = inst.vectorLength;
  uint32_t rows = count == 4 ? ~0u : (1u << (8 * count)) - 1;
  computeAddresses(warp, granule, inst.addressIs64, inst.imm, rows & lanes,
                   access);
  access.lanes &= ~checkAlignment(warp, inst, StateSpace::Shared, access);
  resolveShared(warp, inst, access, hosts);
  if (access.lanes) {
    checkShared(warp, inst, access,
                isWrite ? SharedUse::WriteAsWarp : SharedUse::ReadAsWarp);
    if (options.counters)
      countShared(inst, access);
  }
  return access;
}

void Machine::spreadMatrix(const MatrixRows &rows, bool transposed,
                           uint32_t *registers) {
  if (!transposed) {
    std::memcpy(registers, rows, sizeof rows);
    return;
  }
  for (unsigned lane = 0; lane < warpSize; ++lane) {
    unsigned column = lane / 4, row = lane % 4 * 2;
    registers[lane] = rows[row][column] | uint32_t(rows[row + 1][column]) << 16;
  }
}

void Machine::gatherMatrix(const uint32_t *registers, bool transposed,
                           MatrixRows &rows) {
  for (unsigned lane = 0; lane < warpSize; ++lane) {
    unsigned line = lane / 4, pair = lane % 4 * 2;
    uint16_t low = static_cast<uint16_t>(registers[lane]);
    uint16_t high = static_cast<uint16_t>(registers[lane] >> 16);
    (transposed ? rows[pair][line] : rows[line][pair]) = low;
    (transposed ? rows[pair + 1][line] : rows[line][pair + 1]) = high;
  }
}

void Machine::loadMatrix(Warp &warp, const Inst &inst, uint32_t lanes) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  unsigned count = inst.vectorLength;
  uint8_t *hosts[warpSize];
  LaneAccess access = accessMatrixRows(warp, inst, ops[count], lanes,
                                       /*isWrite=*/false, hosts);
  if (isOn(CheckInit))
    followLoadMatrix(warp, inst, lanes, access);
  if (!cta->labels.empty())
    labelLoadMatrix(warp, inst, access);
  for (unsigned matrix = 0; matrix < count; ++matrix) {
    alignas(16) MatrixRows data;
    for (unsigned row = 0; row < 8; ++row) {
      unsigned lane = matrix * 8 + row;
      if (access.lanes >> lane & 1)
        std::memcpy(data[row], hosts[lane], 16);
      else
        std::memset(data[row], 0xff, 16);
    }
    spreadMatrix(data, inst.transposed, warp.reg<uint32_t>(ops[matrix]));
  }
}

void Machine::storeMatrix(Warp &warp, const Inst &inst, uint32_t lanes) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  unsigned count = inst.vectorLength;
  uint8_t *hosts[warpSize];
  LaneAccess access = accessMatrixRows(warp, inst, ops[0], lanes,
                                       /*isWrite=*/true, hosts);
  if (isOn(CheckInit))
    followStoreMatrix(warp, inst, access);
  ++changes;
  if (!cta->labels.empty())
    labelStoreMatrix(warp, inst, access);
  for (unsigned matrix = 0; matrix < count; ++matrix) {
    alignas(16) MatrixRows data;
    gatherMatrix(warp.reg<uint32_t>(ops[1 + matrix]), inst.transposed, data);
    for (unsigned row = 0; row < 8; ++row)
      if (access.lanes >> (matrix * 8 + row) & 1)
        std::memcpy(hosts[matrix * 8 + row], data[row], 16);
  }
}

/// The lane that holds a pair gives it to the lane of the transposed place.
void Machine::moveMatrix(Warp &warp, const Inst &inst, uint32_t lanes) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  if (isOn(CheckInit))
    followMoveMatrix(warp, inst, lanes);
  alignas(16) MatrixRows data;
  std::memcpy(data, warp.reg<uint32_t>(ops[1]), sizeof data);
  spreadMatrix(data, /*transposed=*/true, warp.reg<uint32_t>(ops[0]));
}

/// D = A B + C with C and D in f32 registers or, for integers, their bits.
void Machine::multiplyMatrices(const Inst &inst, const MmaOperands &operands) {
  MatrixType type = static_cast<MatrixType>(inst.mode);
  MmaModel model = mmaModel;
  model.toHalf = inst.type == ScalarType::F16;
  if (type == MatrixType::F16 || type == MatrixType::BF16)
    handlers.mma(operands, type == MatrixType::BF16, inst.vectorLength, model);
  else
    mmaElementwise(operands, type, static_cast<MatrixType>(inst.aux),
                   inst.vectorLength, inst.saturate, model);
}

void Machine::mma(Warp &warp, const Inst &inst, uint32_t lanes) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  bool isHalf = inst.type == ScalarType::F16;
  unsigned numD = inst.numDsts, numAB = inst.numSrcs - numD;
  unsigned numA = numAB * 2 / 3;
  const uint32_t *c = ops + numD + numAB;
  // D may share registers with C in another order, so it is written at the end.
  alignas(64) float result[4][warpSize], accumulator[4][warpSize];
  MmaOperands operands{};
  for (unsigned i = 0; i < 4; ++i) {
    operands.d[i] = result[i];
    operands.c[i] = isHalf ? accumulator[i] : warp.reg<float>(c[i]);
  }
  for (unsigned i = 0; i < numA; ++i)
    operands.a[i] = warp.reg<uint32_t>(ops[numD + i]);
  for (unsigned i = 0; i < numAB - numA; ++i)
    operands.b[i] = warp.reg<uint32_t>(ops[numD + numA + i]);
  if (isOn(CheckInit))
    followMma(warp, inst, lanes);
  if (!wmmaPlan.isEmpty())
    checkWmma(warp, inst);
  if (labelling)
    checkFragments(warp, inst);
  if (!isHalf) {
    multiplyMatrices(inst, operands);
    for (unsigned i = 0; i < 4; ++i)
      std::memcpy(warp.reg<float>(ops[i]), result[i], sizeof result[i]);
    return;
  }
  // Pairs of f16 accumulators; the sum is rounded to nearest once.
  for (unsigned i = 0; i < 4; ++i) {
    const uint32_t *pairs = warp.reg<uint32_t>(c[i / 2]);
    for (unsigned lane = 0; lane < warpSize; ++lane)
      accumulator[i][lane] =
          floatFromHalf(pairs[lane] >> (16 * (i % 2)) & 0xffffu);
  }
  multiplyMatrices(inst, operands);
  for (unsigned i = 0; i < 2; ++i)
    for (unsigned lane = 0; lane < warpSize; ++lane)
      warp.reg<uint32_t>(ops[i])[lane] =
          halfFromSum(result[2 * i][lane]) |
          uint32_t(halfFromSum(result[2 * i + 1][lane])) << 16;
}
