//===- DefinedCollectives.cpp - Undefined bits between lanes --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Shuffles, votes, matrix moves and mma with undefined operands. An undefined
// row of A makes that row of D undefined and no other, an undefined column of B
// that column: tiles with rows past the end of a sequence, of which nothing is
// stored, rely on it.
//
//===----------------------------------------------------------------------===//

#include "../sim/Machine.h"

using namespace flashcore::emu;

bool Machine::areDefined(const Warp &warp, const uint32_t *granules,
                         unsigned count) const {
  uint32_t held = warp.launched;
  for (unsigned i = 0; i < count; ++i)
    held &= warp.defined[granules[i]];
  return held == warp.launched;
}

Origin Machine::firstOrigin(Warp &warp, const Inst &inst,
                            const uint32_t *granules, unsigned count) {
  for (unsigned i = 0; i < count; ++i)
    if (uint32_t undefined = warp.launched & ~warp.defined[granules[i]])
      return originOf(warp, inst, granules[i], undefined);
  return {};
}

//===----------------------------------------------------------------------===//
// Exchange within a warp
//===----------------------------------------------------------------------===//

void Machine::followShuffle(Warp &warp, const Inst &inst, uint32_t lanes,
                            const uint8_t (&from)[warpSize]) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  if (areDefined(warp, ops + 2, 1))
    return;
  startFollowing(warp);
  Origin origin = firstOrigin(warp, inst, ops + 2, 1);
  uint64_t bits[warpSize];
  uint32_t undefined = 0;
  forEachLane(lanes, [&](unsigned lane) {
    bits[lane] = warp.undefinedBits(ops[2], 4, from[lane]);
    undefined |= bits[lane] ? 1u << lane : 0u;
  });
  forEachLane(lanes, [&](unsigned lane) {
    warp.setShadow(ops[0], 4, lane, bits[lane]);
  });
  setDefined(warp, ops[0], lanes, undefined, origin);
  setDefined(warp, ops[1], lanes, 0, origin);
}

void Machine::followVote(Warp &warp, const Inst &inst, uint32_t lanes,
                         uint32_t taking) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  uint32_t undefined = taking & ~warp.defined[ops[1]];
  Origin origin =
      undefined ? originOf(warp, inst, ops[1], undefined) : Origin();
  uint32_t set = *warp.reg<uint32_t>(ops[1]) & taking & ~undefined;
  uint32_t clear = taking & ~undefined & ~set;
  bool isKnown = !undefined;
  switch (static_cast<VoteMode>(inst.mode)) {
  case VoteMode::All:
    isKnown |= clear != 0;
    break;
  case VoteMode::Any:
    isKnown |= set != 0;
    break;
  case VoteMode::Uni:
    isKnown |= set != 0 && clear != 0;
    break;
  case VoteMode::Ballot:
    if (!undefined)
      break;
    forEachLane(lanes, [&](unsigned lane) {
      warp.setShadow(ops[0], 4, lane, undefined);
    });
    break;
  }
  setDefined(warp, ops[0], lanes, isKnown ? 0 : lanes, origin);
}

/// match and redux: each result depends on all lanes that take part.
void Machine::followReduction(Warp &warp, const Inst &inst, uint32_t lanes,
                              uint32_t taking) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  uint32_t source = ops[inst.numDsts];
  uint32_t undefined = taking & ~warp.defined[source];
  Origin origin =
      undefined ? originOf(warp, inst, source, undefined) : Origin();
  if (undefined)
    forEachLane(lanes, [&](unsigned lane) {
      warp.setShadow(ops[0], 4, lane, ~uint64_t(0));
    });
  for (unsigned i = 0; i < inst.numDsts; ++i)
    setDefined(warp, ops[i], lanes, undefined ? lanes : 0, origin);
}

//===----------------------------------------------------------------------===//
// Matrices
//===----------------------------------------------------------------------===//

/// The shadow of a register of 32 bits, 0 in lanes that are defined.
void Machine::copyUndefined(const Warp &warp, uint32_t granule,
                            uint32_t (&bits)[warpSize]) const {
  for (unsigned lane = 0; lane < warpSize; ++lane)
    bits[lane] = static_cast<uint32_t>(warp.undefinedBits(granule, 4, lane));
}

void Machine::setUndefined(Warp &warp, uint32_t granule, uint32_t lanes,
                           const uint32_t (&bits)[warpSize],
                           const Origin &origin) {
  uint32_t undefined = 0;
  forEachLane(lanes, [&](unsigned lane) {
    warp.setShadow(granule, 4, lane, bits[lane]);
    undefined |= bits[lane] ? 1u << lane : 0u;
  });
  setDefined(warp, granule, lanes, undefined, origin);
}

void Machine::followLoadMatrix(Warp &warp, const Inst &inst, uint32_t lanes,
                               const LaneAccess &rows) {
  uint32_t undefined = 0;
  forEachLane(rows.lanes, [&](unsigned row) {
    undefined |=
        cta->undefined.isDefined(rows.address[row], 16) ? 0u : 1u << row;
  });
  if (!undefined) [[likely]]
    return;
  startFollowing(warp);
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  for (unsigned matrix = 0; matrix < inst.vectorLength; ++matrix) {
    MatrixRows bits = {};
    Origin origin;
    uint32_t mine = undefined >> (8 * matrix) & 0xffu;
    forEachLane(mine, [&](unsigned row) {
      uint8_t copy[16];
      unsigned lane = 8 * matrix + row;
      Origin read = readUndefined(warp, inst, StateSpace::Shared, lane,
                                  rows.address[lane], 16, nullptr, copy);
      origin = origin ? origin : read;
      std::memcpy(bits[row], copy, 16);
    });
    uint32_t result[warpSize];
    spreadMatrix(bits, inst.transposed, result);
    if (mine)
      setUndefined(warp, ops[matrix], lanes, result, origin);
  }
}

void Machine::followStoreMatrix(Warp &warp, const Inst &inst,
                                const LaneAccess &rows) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  for (unsigned matrix = 0; matrix < inst.vectorLength; ++matrix) {
    const uint32_t *a = ops + 1 + matrix;
    MatrixRows bits = {};
    Origin origin;
    if (!areDefined(warp, a, 1)) {
      uint32_t undefined[warpSize];
      origin = firstOrigin(warp, inst, a, 1);
      copyUndefined(warp, *a, undefined);
      gatherMatrix(undefined, inst.transposed, bits);
    }
    for (unsigned row = 0; row < 8; ++row) {
      unsigned lane = 8 * matrix + row;
      if (!(rows.lanes >> lane & 1))
        continue;
      uint8_t copy[16];
      std::memcpy(copy, bits[row], 16);
      writeUndefined(warp, inst, StateSpace::Shared, lane, rows.address[lane],
                     16, nullptr, copy, origin);
    }
  }
}

void Machine::followMoveMatrix(Warp &warp, const Inst &inst, uint32_t lanes) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  if (areDefined(warp, ops + 1, 1))
    return;
  Origin origin = firstOrigin(warp, inst, ops + 1, 1);
  uint32_t bits[warpSize], result[warpSize];
  copyUndefined(warp, ops[1], bits);
  MatrixRows rows;
  std::memcpy(rows, bits, sizeof rows);
  spreadMatrix(rows, /*transposed=*/true, result);
  setUndefined(warp, ops[0], lanes, result, origin);
}

/// Lane 4 * r + j holds elements of rows r and r + 8 of A, of column r of B,
/// and of columns 2 * j and 2 * j + 1 of C and D, whatever the types
/// (PTX ISA 9.7.14.5).
void Machine::followMma(Warp &warp, const Inst &inst, uint32_t lanes) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  if (areDefined(warp, ops + inst.numDsts, inst.numSrcs)) [[likely]]
    return;
  Origin origin = firstOrigin(warp, inst, ops + inst.numDsts, inst.numSrcs);
  bool isHalf = inst.type == ScalarType::F16;
  unsigned numD = inst.numDsts, numAB = inst.numSrcs - numD;
  unsigned numA = numAB * 2 / 3;
  uint32_t rows = 0, columns = 0;
  for (unsigned i = 0; i < numAB; ++i)
    forEachLane(~warp.defined[ops[numD + i]], [&](unsigned lane) {
      if (i < numA)
        rows |= 1u << (lane / 4 + 8 * (i % 2));
      else
        columns |= 1u << lane / 4;
    });
  // D may share registers with C in another order, so it is written at the end.
  uint32_t bits[4][warpSize];
  for (unsigned i = 0; i < numD; ++i) {
    copyUndefined(warp, ops[numD + numAB + i], bits[i]);
    for (unsigned lane = 0; lane < warpSize; ++lane) {
      bool row = rows >> (lane / 4 + 8 * (isHalf ? i : i / 2)) & 1;
      uint32_t pair = row ? 3 : columns >> lane % 4 * 2 & 3;
      uint32_t &word = bits[i][lane];
      if (isHalf)
        word = ((pair & 1) || (word & 0xffffu) ? 0xffffu : 0) |
               ((pair & 2) || word >> 16 ? 0xffff0000u : 0);
      else
        word = (pair >> i % 2 & 1) || word ? ~0u : 0;
    }
  }
  for (unsigned i = 0; i < numD; ++i)
    setUndefined(warp, ops[i], lanes, bits[i], origin);
}
