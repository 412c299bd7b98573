//===- Warpgroup.cpp - wgmma and setmaxnreg -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA 9.7.15. A product starts when the fourth warp of its warpgroup issues
// it; a warp that waits before waits for that. Nobody may touch what it reads
// and writes from the issue to the wait, so when it is computed shows in no
// kernel that is right: at its start. Accumulator register 4 j + i of a warp is
// register i of mma.sync for columns 8 j to 8 j + 7, and the four warps have 16
// rows each.
//
//===----------------------------------------------------------------------===//

#include "Machine.h"
#include "WgmmaOperand.h"

#include <algorithm>

using namespace flashcore::emu;

/// Registers of a multiprocessor, and the most a thread has.
static constexpr uint32_t allRegisters = 65536;
static constexpr uint32_t maxThreadRegisters = 256;
static constexpr unsigned numDescriptors = 3; // operands before the registers
/// Products that one warp of a warpgroup may be ahead of another.
static constexpr size_t maxAhead = 1024;

static unsigned groupOf(const Warp &warp) {
  return warp.index / warpgroupWarps;
}

void Machine::setUpAsync(Cta &owner) {
  owner.async = std::make_unique<AsyncState>();
  AsyncState &async = *owner.async;
  async.bulk.resize(size_t(numWarps) * warpSize);
  async.warps.resize(numWarps);
  // What ptxas gives a thread where a kernel says how many there are.
  uint32_t each = allRegisters / program.minCtas / (numWarps * warpSize);
  if (program.maxRegisters)
    each = std::min(each, program.maxRegisters);
  each = std::min(each / 8 * 8, maxThreadRegisters);
  for (AsyncWarp &warp : async.warps)
    warp.registers = each;
}

/// Reports a warp whose warpgroup has not got four whole warps.
bool Machine::isWarpgroup(Warp &warp, const Inst &inst) {
  unsigned first = groupOf(warp) * warpgroupWarps;
  bool isWhole = first + warpgroupWarps <= numWarps &&
                 cta->warps[first + warpgroupWarps - 1].launched == ~0u;
  if (!isWhole)
    find(FindingKind::DivergentCollective, warp, inst, warp.live, [&] {
      return Text{"warps " + std::to_string(first) + " to " +
                      std::to_string(first + 3) +
                      " are no whole warpgroup: the CTA has " +
                      std::to_string(config.block.count()) + " threads",
                  "a warpgroup is four warps, the first of which is a multiple "
                  "of 4 (PTX ISA 9.7.15.1)"};
    });
  return isWhole;
}

//===----------------------------------------------------------------------===//
// Issue
//===----------------------------------------------------------------------===//

/// A warp does not go with its warpgroup: nothing that follows could make
/// sense.
void Machine::reportStray(Warp &warp, const Inst &inst,
                          const std::string &what) {
  ctaFailed = true;
  find(FindingKind::InvalidDescriptor, warp, inst, warp.live, [&] {
    return Text{"a warp " + what + " of its warpgroup",
                "all threads of a warpgroup must execute the same wgmma with "
                "the same descriptors and scale-d (PTX ISA 9.7.15.6)"};
  });
}

/// The second to fourth warp must issue what the first did.
bool Machine::joinProduct(Warp &warp, const Inst &inst, Product &product) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  const uint64_t *a = warp.reg<uint64_t>(ops[0]),
                 *b = warp.reg<uint64_t>(ops[1]);
  bool fromRegisters = inst.aux & WgmmaRegistersA;
  uint32_t p = *warp.reg<uint32_t>(ops[2]);
  if (!product.issued) {
    product.pc = pcOf(inst);
    product.a = fromRegisters ? 0 : a[0];
    product.b = b[0];
    product.accumulates = p & 1;
  }
  bool same = product.pc == pcOf(inst) && p == (product.accumulates ? ~0u : 0u);
  for (unsigned lane = 0; lane < warpSize; ++lane)
    same &= (fromRegisters || a[lane] == product.a) && b[lane] == product.b;
  ++product.issued;
  return same;
}

/// What a warp gives to a product and what it lets it read.
void Machine::takeOperands(Warp &warp, const Inst &inst, uint32_t number,
                           Product &product) {
  const uint32_t *sums =
      program.operands.data() + inst.firstOperand + numDescriptors;
  const unsigned numSums = inst.vectorLength * 4u;
  const unsigned quarter = warp.index % warpgroupWarps;
  checkFence(warp, inst);
  if (ordersAsync())
    startSegment(warp);
  for (unsigned i = 0; i < numSums; ++i)
    takeRegister(warp, inst, sums[i], number, /*isAccumulator=*/true);
  if (!product.reads && ordersAsync())
    product.reads =
        AccessWord(segments.add({AsyncAgent::cta(cta->index),
                                 AsyncAgent::warpgroup(groupOf(warp)), number,
                                 warp.index}),
                   product.pc, severalLanes);
  bool ok = true;
  if (inst.aux & WgmmaRegistersA) {
    for (unsigned i = 0; i < 4; ++i) {
      std::memcpy(product.fragmentA[quarter][i],
                  warp.reg<uint32_t>(sums[numSums + i]),
                  sizeof product.fragmentA[quarter][i]);
      takeRegister(warp, inst, sums[numSums + i], number,
                   /*isAccumulator=*/false);
    }
  } else {
    WgmmaMatrix a{WgmmaDescriptor(product.a), bool(inst.aux & WgmmaTransposeA),
                  wgmmaRows};
    ok = checkMatrix(warp, inst, a, 16 * quarter, 16, product.reads);
  }
  WgmmaMatrix b{WgmmaDescriptor(product.b), bool(inst.aux & WgmmaTransposeB),
                inst.vectorLength * 8u};
  ok &= checkMatrix(warp, inst, b, 0, b.rows, product.reads);
  product.isReadable &= ok;
}

void Machine::wgmma(Warp &warp, const Inst &inst) {
  if (!isWarpgroup(warp, inst))
    return;
  AsyncWarp &mine = cta->async->warps[warp.index];
  Warpgroup &group = cta->async->warpgroups[groupOf(warp)];
  const uint32_t number = ++mine.issued;
  const size_t index = number - group.executed - 1;
  if (index > maxAhead) {
    reportStray(warp, inst, "is " + std::to_string(index) + " products ahead");
    return;
  }
  if (index == group.products.size())
    group.products.emplace_back();
  Product &product = group.products[index];
  if (!joinProduct(warp, inst, product)) {
    reportStray(warp, inst,
                "issues another product, or one with another descriptor or "
                "scale-d, than that at line " +
                    lineOf(product.pc) + " of the others");
    return;
  }
  takeOperands(warp, inst, number, product);
  if (product.issued < warpgroupWarps)
    return;
  executeProduct(groupOf(warp), product);
  ++group.executed;
  group.products.pop_front();
  wakeAll(AsyncWaiter::Kind::Product);
}

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

void Machine::executeProduct(unsigned group, const Product &product) {
  const Inst &inst = program.code[product.pc];
  ++changes;
  if (!product.isReadable)
    return;
  Warp *warps = &cta->warps[size_t(group) * warpgroupWarps];
  WgmmaMatrix matrix{WgmmaDescriptor(product.b),
                     bool(inst.aux & WgmmaTransposeB), inst.vectorLength * 8u};
  WgmmaOperand b = gather(warps[0], inst, matrix), a;
  if (!(inst.aux & WgmmaRegistersA))
    a = gather(warps[0], inst,
               {WgmmaDescriptor(product.a), bool(inst.aux & WgmmaTransposeA),
                wgmmaRows});
  if (labelling)
    checkWarpgroupProduct(group, product);
  for (unsigned i = 0; i < warpgroupWarps; ++i) {
    if (isOn(CheckInit))
      followProduct(warps[i], inst, product, a, b);
    multiplyProduct(warps[i], inst, product, a, b);
  }
}

/// D = A B + C of the 16 rows of one warp, in tiles of 8 columns.
void Machine::multiplyProduct(Warp &warp, const Inst &inst,
                              const Product &product, const WgmmaOperand &a,
                              const WgmmaOperand &b) {
  constexpr uint32_t signs = 0x80008000;
  const uint32_t *sums =
      program.operands.data() + inst.firstOperand + numDescriptors;
  const unsigned quarter = warp.index % warpgroupWarps;
  const uint32_t negateA = inst.aux & WgmmaNegateA ? signs : 0;
  const uint32_t negateB = inst.aux & WgmmaNegateB ? signs : 0;
  alignas(64) uint32_t fragmentA[4][warpSize], fragmentB[2][warpSize];
  alignas(64) static constexpr float zeros[warpSize] = {};
  MmaOperands operands{};
  for (unsigned i = 0; i < 4; ++i) {
    for (unsigned lane = 0; lane < warpSize; ++lane) {
      unsigned row = 16 * quarter + lane / 4 + i % 2 * 8;
      uint32_t pair = inst.aux & WgmmaRegistersA
                          ? product.fragmentA[quarter][i][lane]
                          : a.pair(row, lane % 4 * 2 + i / 2 * 8);
      fragmentA[i][lane] = pair ^ negateA;
    }
    operands.a[i] = fragmentA[i];
  }
  MmaModel model = mmaModel;
  for (unsigned tile = 0; tile < inst.vectorLength; ++tile) {
    for (unsigned i = 0; i < 2; ++i) {
      for (unsigned lane = 0; lane < warpSize; ++lane)
        fragmentB[i][lane] =
            b.pair(8 * tile + lane / 4, lane % 4 * 2 + i * 8) ^ negateB;
      operands.b[i] = fragmentB[i];
    }
    for (unsigned i = 0; i < 4; ++i) {
      float *sum = warp.reg<float>(sums[4 * tile + i]);
      operands.c[i] = product.accumulates ? sum : zeros;
      operands.d[i] = sum;
    }
    handlers.mma(operands,
                 static_cast<MatrixType>(inst.mode) == MatrixType::BF16,
                 wgmmaDepth, model);
  }
}

/// A row or column with something undefined is undefined, as of mma.sync.
void Machine::followProduct(Warp &warp, const Inst &inst,
                            const Product &product, const WgmmaOperand &a,
                            const WgmmaOperand &b) {
  const uint32_t *sums =
      program.operands.data() + inst.firstOperand + numDescriptors;
  const unsigned numSums = inst.vectorLength * 4u;
  auto &inFlight = cta->async->warps[warp.index].inFlight;
  uint32_t rows = 0; // of the warp's 16
  Origin origin = b.origin ? b.origin : a.origin;
  for (unsigned row = 0; row < 16; ++row)
    rows |=
        a.undefined[16 * (warp.index % warpgroupWarps) + row] ? 1u << row : 0u;
  for (unsigned i = 0; i < 4 && (inst.aux & WgmmaRegistersA); ++i) {
    uint32_t granule = sums[numSums + i];
    auto it = inFlight.find(granule);
    uint32_t undefined = it == inFlight.end() ? 0 : ~it->second.defined;
    if (undefined)
      origin = originOf(warp, inst, granule, undefined);
    forEachLane(undefined,
                [&](unsigned lane) { rows |= 1u << (lane / 4 + i % 2 * 8); });
  }
  for (unsigned i = 0; i < numSums; ++i) {
    auto it = inFlight.find(sums[i]);
    if (it == inFlight.end())
      continue;
    uint32_t undefined = 0;
    for (unsigned lane = 0; lane < warpSize && (rows || b.undefined.any());
         ++lane) {
      bool isRow = rows >> (lane / 4 + i % 4 / 2 * 8) & 1;
      bool isColumn = b.undefined[8 * (i / 4) + lane % 4 * 2 + i % 2];
      undefined |= isRow || isColumn ? 1u << lane : 0u;
    }
    uint32_t before = product.accumulates ? it->second.defined : ~0u;
    it->second.defined = before & ~undefined;
    if (!undefined)
      continue;
    startFollowing(warp);
    forEachLane(undefined, [&](unsigned lane) {
      warp.setShadow(sums[i], 4, lane, 0xffffffffu);
    });
    warp.origins[sums[i]] = origin;
  }
}

//===----------------------------------------------------------------------===//
// Waits
//===----------------------------------------------------------------------===//

Machine::Step Machine::waitForProducts(Warp &warp, const Inst &inst,
                                       uint32_t lanes) {
  AsyncWarp &mine = cta->async->warps[warp.index];
  const size_t kept = static_cast<size_t>(inst.imm);
  if (mine.groups.size() <= kept)
    return Step::Next;
  const uint32_t last = mine.groups[mine.groups.size() - kept - 1];
  if (cta->async->warpgroups[groupOf(warp)].executed < last)
    return waitHere(warp, lanes,
                    {AsyncWaiter::Kind::Product, warp.index, pcOf(inst), lanes,
                     groupOf(warp), 0});
  mine.groups.erase(mine.groups.begin(),
                    mine.groups.end() - static_cast<ptrdiff_t>(kept));
  mine.waited = last;
  giveBack(warp, inst, last);
  learnAgent(warp, warp.live, AsyncAgent::warpgroup(groupOf(warp)), 0, last);
  return Step::Next;
}

/// A warp has ended.
void Machine::endProducts(Warp &warp) {
  const AsyncWarp &mine = cta->async->warps[warp.index];
  const Warpgroup &group = cta->async->warpgroups[groupOf(warp)];
  const Inst &exit = program.code.back();
  if (mine.waited < mine.issued && isOn(CheckAsync))
    find(FindingKind::RegisterInFlight, warp, exit, warp.launched, [&] {
      return Text{"the warp ends while " +
                      std::to_string(mine.issued - mine.waited) +
                      " wgmma have not been waited for",
                  "shared memory and registers are gone with the CTA: commit "
                  "them, and wait for their group (PTX ISA 9.7.15.7)"};
    });
  if (mine.registerChanges < group.registerChanges.size())
    checkRegisterChange(warp, program.code[group.registerChanges.back()]);
}

//===----------------------------------------------------------------------===//
// setmaxnreg
//===----------------------------------------------------------------------===//

/// The warps of a warpgroup must execute the same setmaxnreg, one after the
/// other.
void Machine::checkRegisterChange(Warp &warp, const Inst &inst) {
  if (isOn(CheckSync))
    find(FindingKind::InvalidRegisterCount, warp, inst, warp.launched, [&] {
      return Text{"not all warps of the warpgroup execute this setmaxnreg",
                  "all warps of a warpgroup must execute the same setmaxnreg "
                  "(PTX ISA 9.7.19.5)"};
    });
}

Machine::Step Machine::setMaxRegisters(Warp &warp, const Inst &inst,
                                       uint32_t lanes) {
  if (!isWarpgroup(warp, inst))
    return Step::Next;
  AsyncState &async = *cta->async;
  AsyncWarp &mine = async.warps[warp.index];
  Warpgroup &group = async.warpgroups[groupOf(warp)];
  const int64_t count = inst.imm, have = mine.registers;
  const bool isMore = inst.mode == 0;
  if ((isMore ? count < have : count > have) && isOn(CheckSync))
    find(FindingKind::InvalidRegisterCount, warp, inst, lanes, [&] {
      return Text{std::string(isMore ? "setmaxnreg.inc" : "setmaxnreg.dec") +
                      " to " + std::to_string(count) +
                      " registers of a warp that has " + std::to_string(have),
                  ".inc must not take registers away, nor .dec give them; the "
                  "launch gave each thread what 65536 registers, .maxnreg and "
                  ".minnctapersm leave (PTX ISA 9.7.19.5)"};
    });
  const int64_t more = (count - have) * warpSize;
  if (more > async.freeRegisters)
    return waitHere(warp, lanes,
                    {AsyncWaiter::Kind::Registers, warp.index, pcOf(inst),
                     lanes, static_cast<uint64_t>(more), 0});
  async.freeRegisters -= more;
  mine.registers = static_cast<uint32_t>(count);
  if (mine.registerChanges == group.registerChanges.size())
    group.registerChanges.push_back(pcOf(inst));
  if (group.registerChanges[mine.registerChanges++] != pcOf(inst))
    checkRegisterChange(warp, inst);
  for (unsigned i = 0; i < warpgroupWarps; ++i) {
    unsigned other = groupOf(warp) * warpgroupWarps + i;
    if (!cta->warps[other].live &&
        async.warps[other].registerChanges < mine.registerChanges)
      checkRegisterChange(warp, inst);
  }
  wakeAll(AsyncWaiter::Kind::Registers);
  return Step::Next;
}
