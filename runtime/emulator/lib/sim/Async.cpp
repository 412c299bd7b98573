//===- Async.cpp - cp.async -----------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A copy is in flight from its issue to the wait_group of its own thread. The
// issue counts as a write (a slot must be free by then); until the wait, any
// access to the bytes is an error; after it they are that thread's write. The
// bytes themselves move at the wait (lazy), at the issue (eager), or either.
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

#include <algorithm>

using namespace flashcore::emu;

/// Puts a copy in flight.
AsyncCopy &Machine::recordCopy(Warp &warp, const Inst &inst,
                               const LaneAccess &to, uint32_t readable,
                               const uint32_t *sizes,
                               uint8_t *const (&fromHosts)[warpSize]) {
  startSegment(warp);
  AsyncCopy &copy = warp.copies.emplace_back();
  copy.pc = pcOf(inst);
  copy.lanes = to.lanes;
  copy.bytes = inst.elementBytes;
  copy.segment = warp.clock.segment;
  forEachLane(to.lanes, [&](unsigned lane) {
    copy.group[lane] = warp.committed[lane];
    copy.to[lane] = static_cast<uint32_t>(to.address[lane]);
    bool reads = readable >> lane & 1;
    copy.from[lane] = reads ? fromHosts[lane] : nullptr;
    copy.fromBytes[lane] = static_cast<uint8_t>(
        reads ? std::min<uint32_t>(sizes[lane], inst.elementBytes) : 0);
  });
  return copy;
}

/// Operands: shared address, global address, source bytes.
void Machine::cpAsync(Warp &warp, const Inst &inst, uint32_t lanes) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  LaneAccess to, from;
  uint8_t *toHosts[warpSize], *fromHosts[warpSize];
  Buffer *buffers[warpSize];
  to.bytes = from.bytes = inst.elementBytes;
  computeAddresses(warp, ops[0], inst.addressIs64, inst.imm, lanes, to);
  computeAddresses(warp, ops[1], /*is64=*/true, inst.aux, lanes, from);
  const uint32_t *sizes = warp.reg<uint32_t>(ops[2]);
  // A source of zero bytes is not touched and may be any address.
  uint32_t full = 0, empty = 0;
  forEachLane(lanes, [&](unsigned lane) {
    full |= sizes[lane] >= inst.elementBytes ? 1u << lane : 0u;
    empty |= sizes[lane] == 0 ? 1u << lane : 0u;
  });
  to.lanes &= ~checkAlignment(warp, inst, StateSpace::Shared, to);
  resolveShared(warp, inst, to, toHosts);
  from.lanes = to.lanes & ~empty;
  from.lanes &= ~checkAlignment(warp, inst, StateSpace::Global, from);
  LaneAccess part = from;
  part.lanes = from.lanes & full;
  resolveGlobal(warp, inst, part, /*isWrite=*/false, fromHosts, buffers);
  uint32_t readable = part.lanes;
  checkGlobal(warp, inst, part, buffers, /*isWrite=*/false);
  if (options.counters && part.lanes)
    countGlobal(inst, part, /*isWrite=*/false, inst.bypassesL1 ? &to : nullptr);
  forEachLane(from.lanes & ~full, [&](unsigned lane) {
    LaneAccess one = from;
    one.lanes = 1u << lane;
    one.bytes = sizes[lane];
    resolveGlobal(warp, inst, one, /*isWrite=*/false, fromHosts, buffers);
    checkGlobal(warp, inst, one, buffers, /*isWrite=*/false);
    readable |= one.lanes;
  });

  AsyncCopy &copy = recordCopy(warp, inst, to, readable, sizes, fromHosts);
  if (isOn(CheckInit))
    followCopy(warp, inst, to, from, readable, sizes, buffers);
  checkShared(warp, inst, to, SharedUse::Async);
  if (options.counters)
    countShared(inst, to);
  bool eager = options.async == AsyncMode::Eager ||
               (options.async == AsyncMode::Random && cta->asyncRandom() & 1);
  if (eager)
    transfer(copy, copy.lanes);
  copy.done = eager;
}

void Machine::cpAsyncCommit(Warp &warp, uint32_t lanes) {
  forEachLane(lanes, [&](unsigned lane) { ++warp.committed[lane]; });
}

/// Moves the bytes; a source shorter than the copy is padded with zeros.
void Machine::transfer(AsyncCopy &copy, uint32_t lanes) {
  if (copy.done)
    return;
  ++changes;
  if (!cta->labels.empty())
    labelCopy(copy, lanes);
  uint8_t *shared = cta->shared.data();
  forEachLane(lanes, [&](unsigned lane) {
    uint8_t *to = shared + copy.to[lane];
    unsigned bytes = copy.fromBytes[lane];
    if (bytes == 16 && copy.bytes == 16) {
      std::memcpy(to, copy.from[lane], 16);
      return;
    }
    if (bytes)
      std::memcpy(to, copy.from[lane], bytes);
    std::memset(to + bytes, 0, copy.bytes - bytes);
  });
}

/// From now on the bytes are an ordinary write of this thread.
void Machine::publish(Warp &warp, const AsyncCopy &copy, uint32_t lanes) {
  if (!lanes || !(options.checks & (CheckRace | CheckAsync)))
    return;
  startSegment(warp);
  const unsigned shift = cta->shadow.grainShift;
  AccessWord *writes = cta->shadow.writes.data();
  forEachLane(lanes, [&](unsigned lane) {
    const AccessWord pending(copy.segment, copy.pc, lane, AsyncAccess);
    const AccessWord mine(warp.clock.segment, copy.pc, lane);
    size_t first = copy.to[lane] >> shift;
    size_t last = (copy.to[lane] + copy.bytes - 1u) >> shift;
    for (size_t cell = first; cell <= last; ++cell)
      if (writes[cell] == pending)
        writes[cell] = mine;
  });
}

/// imm: groups that may stay in flight; -1 for wait_all.
void Machine::cpAsyncWait(Warp &warp, const Inst &inst, uint32_t lanes) {
  bool anyLeft = false;
  for (AsyncCopy &copy : warp.copies) {
    uint32_t arrived = 0;
    forEachLane(copy.lanes & lanes, [&](unsigned lane) {
      int64_t committed = warp.committed[lane];
      // wait_all also completes copies that were never committed.
      int64_t newest = inst.imm < 0 ? committed : committed - 1 - inst.imm;
      arrived |= int64_t(copy.group[lane]) <= newest ? 1u << lane : 0u;
    });
    transfer(copy, arrived);
    publish(warp, copy, arrived);
    copy.lanes &= ~arrived;
    anyLeft |= copy.lanes != 0;
  }
  if (!anyLeft)
    warp.copies.clear();
  else
    std::erase_if(warp.copies,
                  [](const AsyncCopy &copy) { return copy.lanes == 0; });
}
