//===- DefinedMemory.cpp - Undefined bits through memory ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What loads, stores, copies and atomics do to the shadow. Undefined data in
// global memory is reported when the kernel has ended.
//
//===----------------------------------------------------------------------===//

#include "../sim/Machine.h"

#include <algorithm>
#include <map>

using namespace flashcore::emu;

/// A kernel that stores more cells of undefined data to global memory than this
/// hears of the next one at once.
static constexpr size_t maxUndefinedStores = size_t(1) << 20;

//===----------------------------------------------------------------------===//
// Shadow of shared and local memory
//===----------------------------------------------------------------------===//

void UndefinedBits::store(uint64_t offset, unsigned bytes,
                          const uint8_t *undefined, const Origin &origin) {
  std::memcpy(bits.data() + offset, undefined, bytes);
  if (origins.empty())
    origins.resize(bits.size() / 4 + 1);
  for (uint64_t at = offset / 4; at <= (offset + bytes - 1) / 4; ++at)
    origins[at] = origin;
}

Origin UndefinedBits::originOf(uint64_t offset, unsigned bytes) const {
  for (uint64_t at = offset; at < offset + bytes && !origins.empty(); ++at)
    if (bits[at])
      return origins[at / 4];
  return {};
}

//===----------------------------------------------------------------------===//
// Access
//===----------------------------------------------------------------------===//

/// The lanes that touch some undefined bit.
uint32_t Machine::undefinedLanes(const Warp &warp, StateSpace space,
                                 const LaneAccess &access,
                                 Buffer *const (&buffers)[warpSize]) const {
  uint32_t undefined = 0;
  forEachLane(access.lanes, [&](unsigned lane) {
    uint64_t address = access.address[lane];
    bool isDefined = true;
    if (space == StateSpace::Shared)
      isDefined = cta->undefined.isDefined(address, access.bytes);
    else if (space == StateSpace::Local)
      isDefined = warp.localUndefined.isDefined(
          lane * program.localBytes + address, access.bytes);
    else if (space != StateSpace::Param)
      isDefined = buffers[lane]->init.isSet(address - buffers[lane]->base,
                                            access.bytes);
    undefined |= isDefined ? 0u : 1u << lane;
  });
  return undefined;
}

/// The undefined bits of memory, and where they come from; `inst` reads them.
Origin Machine::readUndefined(Warp &warp, const Inst &inst, StateSpace space,
                              unsigned lane, uint64_t address, unsigned bytes,
                              const Buffer *buffer, uint8_t *bits) {
  Origin origin;
  auto here = [&](Origin::Kind kind) {
    return originHere(warp, inst, kind, 1u << lane, address, bytes);
  };
  if (space == StateSpace::Shared || space == StateSpace::Local) {
    bool isShared = space == StateSpace::Shared;
    uint64_t at = isShared ? address : lane * program.localBytes + address;
    UndefinedBits &shadow = isShared ? cta->undefined : warp.localUndefined;
    std::memcpy(bits, shadow.at(at), bytes);
    origin = shadow.originOf(at, bytes);
    return origin ? origin
                  : here(isShared ? Origin::Kind::Shared : Origin::Kind::Local);
  }
  for (unsigned i = 0; i < bytes; ++i) {
    bits[i] = buffer->init.isSet(address + i - buffer->base, 1) ? 0 : 0xff;
    if (undefinedStores.empty() || !bits[i])
      continue;
    auto it = undefinedStores.find(cellOf(address + i));
    if (it == undefinedStores.end())
      continue;
    it->second.wasLoaded = true;
    origin = it->second.origin;
  }
  return origin ? origin : here(Origin::Kind::Global);
}

/// A store of undefined data to global memory. It is reported when the kernel
/// has ended, unless the data is overwritten or loaded until then.
void Machine::storeUndefined(Warp &warp, const Inst &inst, unsigned lane,
                             Buffer &buffer, uint64_t address, unsigned bytes,
                             const uint8_t *bits, const Origin &origin) {
  if (speculation) {
    // Whether it stays is known only once all CTAs have ended.
    speculation->fail();
    halted = true;
    return;
  }
  defineGlobal(buffer, address, bytes);
  UndefinedStore store;
  store.origin = origin;
  store.pc = pcOf(inst);
  store.cta = cta->index;
  store.warp = static_cast<uint8_t>(warp.index);
  store.lane = static_cast<uint8_t>(lane);
  for (unsigned i = 0; i < bytes; ++i) {
    if (!bits[i])
      continue;
    buffer.init.fill(address + i - buffer.base, 1, false);
    undefinedStores[cellOf(address + i)] = store;
  }
  if (undefinedStores.size() > maxUndefinedStores)
    reportUndefinedStores();
}

void Machine::defineGlobal(Buffer &buffer, uint64_t address, unsigned bytes) {
  buffer.init.setShared(address - buffer.base, bytes);
  if (undefinedStores.empty()) [[likely]]
    return;
  for (uint64_t cell = cellOf(address); cell <= cellOf(address + bytes - 1);
       ++cell)
    undefinedStores.erase(cell);
}

/// Undefined data that is in global memory when the kernel ends. It counts as
/// defined afterwards, as all that has been reported.
void Machine::reportUndefinedStores() {
  // Each instruction once, the lowest address first.
  struct Left {
    uint64_t cell = UINT64_MAX;
    const UndefinedStore *store = nullptr;
    uint64_t count = 0;
  };
  std::map<uint32_t, Left> byPc;
  for (const auto &[cell, store] : undefinedStores) {
    if (store.wasLoaded)
      continue;
    uint64_t address = cell * program.globalGrain;
    if (Buffer *buffer = memory.find(address, program.globalGrain))
      buffer->init.fill(address - buffer->base, program.globalGrain, true);
    Left &left = byPc[store.pc];
    ++left.count;
    if (cell >= left.cell)
      continue;
    left.cell = cell;
    left.store = &store;
  }
  for (const auto &[pc, left] : byPc) {
    const UndefinedStore &store = *left.store;
    uint64_t address = left.cell * program.globalGrain;
    reportUndefined(
        placeOf(pc, store.cta, store.warp, store.lane), pc, store.origin,
        "stores undefined data to " + nameGlobal(address, program.globalGrain) +
            ", where it stays; it depends on",
        address, program.globalGrain, left.count);
  }
  undefinedStores.clear();
}

/// Undefined bits of memory go into registers.
void Machine::followLoad(Warp &warp, const Inst &inst, StateSpace space,
                         const LaneAccess &access,
                         Buffer *const (&buffers)[warpSize]) {
  uint32_t undefined = undefinedLanes(warp, space, access, buffers);
  if (!undefined) [[likely]]
    return;
  startFollowing(warp);
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  Origin first;
  forEachLane(undefined, [&](unsigned lane) {
    uint8_t bits[maxAccessBytes];
    Origin origin = readUndefined(warp, inst, space, lane, access.address[lane],
                                  access.bytes, buffers[lane], bits);
    first = first ? first : origin;
    for (unsigned v = 0; v < inst.vectorLength; ++v) {
      uint64_t value = 0;
      std::memcpy(&value, bits + size_t(v) * inst.elementBytes,
                  inst.elementBytes);
      unsigned unused = 64 - 8u * inst.elementBytes;
      if (inst.signExtend)
        value = static_cast<uint64_t>(static_cast<int64_t>(value << unused) >>
                                      unused);
      warp.setShadow(ops[v], inst.regBytes, lane, value);
      setDefined(warp, ops[v], 1u << lane, value ? 1u << lane : 0u, first);
    }
  });
}

/// Registers go into memory, with their undefined bits.
void Machine::followStore(Warp &warp, const Inst &inst, StateSpace space,
                          const LaneAccess &access,
                          Buffer *const (&buffers)[warpSize]) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand + 1;
  uint32_t undefined = 0;
  for (unsigned v = 0; v < inst.vectorLength; ++v)
    undefined |= access.lanes & ~warp.defined[ops[v]];
  forEachLane(access.lanes & ~undefined, [&](unsigned lane) {
    writeDefined(warp, space, lane, access.address[lane], access.bytes,
                 buffers[lane]);
  });
  forEachLane(undefined, [&](unsigned lane) {
    uint8_t bits[maxAccessBytes];
    Origin origin;
    for (unsigned v = 0; v < inst.vectorLength; ++v) {
      if (!origin && !(warp.defined[ops[v]] >> lane & 1))
        origin = originOf(warp, inst, ops[v], 1u << lane);
      uint64_t value = warp.undefinedBits(ops[v], inst.regBytes, lane);
      std::memcpy(bits + size_t(v) * inst.elementBytes, &value,
                  inst.elementBytes);
    }
    writeUndefined(warp, inst, space, lane, access.address[lane], access.bytes,
                   buffers[lane], bits, origin);
  });
}

void Machine::writeDefined(Warp &warp, StateSpace space, unsigned lane,
                           uint64_t address, unsigned bytes, Buffer *buffer) {
  if (space == StateSpace::Shared)
    cta->undefined.define(address, bytes);
  else if (space == StateSpace::Local)
    warp.localUndefined.define(lane * program.localBytes + address, bytes);
  else
    defineGlobal(*buffer, address, bytes);
}

void Machine::writeUndefined(Warp &warp, const Inst &inst, StateSpace space,
                             unsigned lane, uint64_t address, unsigned bytes,
                             Buffer *buffer, const uint8_t *bits,
                             const Origin &origin) {
  // A register may be undefined in bits that are not stored.
  if (std::all_of(bits, bits + bytes, [](uint8_t b) { return b == 0; }))
    writeDefined(warp, space, lane, address, bytes, buffer);
  else if (space == StateSpace::Shared)
    cta->undefined.store(address, bytes, bits, origin);
  else if (space == StateSpace::Local)
    warp.localUndefined.store(lane * program.localBytes + address, bytes, bits,
                              origin);
  else
    storeUndefined(warp, inst, lane, *buffer, address, bytes, bits, origin);
}

/// cp.async: global memory goes to shared memory; what the source lacks is
/// zero. Lanes whose source is not `readable` have been reported.
void Machine::followCopy(Warp &warp, const Inst &inst, const LaneAccess &to,
                         const LaneAccess &from, uint32_t readable,
                         const uint32_t *sizes,
                         Buffer *const (&buffers)[warpSize]) {
  forEachLane(to.lanes, [&](unsigned lane) {
    unsigned bytes = std::min<uint32_t>(sizes[lane], to.bytes);
    uint64_t source = from.address[lane];
    if (!(readable >> lane & 1) ||
        buffers[lane]->init.isSet(source - buffers[lane]->base, bytes)) {
      cta->undefined.define(to.address[lane], to.bytes);
      return;
    }
    uint8_t bits[maxAccessBytes] = {};
    Origin origin = readUndefined(warp, inst, StateSpace::Global, lane, source,
                                  bytes, buffers[lane], bits);
    cta->undefined.store(to.address[lane], to.bytes, bits, origin);
  });
}

/// One lane of an atomic: memory becomes undefined by what was there or by what
/// is combined with it; the result is what was there.
void Machine::followAtomic(Warp &warp, const Inst &inst, StateSpace space,
                           unsigned lane, uint64_t address, Buffer *buffer) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  const uint32_t me = 1u << lane;
  unsigned bytes = inst.elementBytes;
  bool isShared = space == StateSpace::Shared;
  bool held = isShared ? cta->undefined.isDefined(address, bytes)
                       : buffer->init.isSet(address - buffer->base, bytes);
  uint32_t given = warp.defined[ops[2]] & warp.defined[ops[3]] & me;
  if (held && given) [[likely]] {
    writeDefined(warp, space, lane, address, bytes, buffer);
    setDefined(warp, ops[0], me, 0, {});
    return;
  }
  startFollowing(warp);
  uint8_t before[maxAccessBytes] = {}, after[maxAccessBytes];
  Origin origin, stored;
  if (!held)
    origin = stored =
        readUndefined(warp, inst, space, lane, address, bytes, buffer, before);
  bool isExchange = static_cast<AtomicOp>(inst.mode) == AtomicOp::Exch;
  for (unsigned i = 2; i < 4; ++i)
    if ((!stored || isExchange) && !(warp.defined[ops[i]] & me))
      stored = originOf(warp, inst, ops[i], me);
  std::memset(after, isExchange && given ? 0 : 0xff, sizeof after);
  writeUndefined(warp, inst, space, lane, address, bytes, buffer, after,
                 stored);
  uint64_t bits = 0;
  std::memcpy(&bits, before, bytes);
  warp.setShadow(ops[0], bytes, lane, bits);
  setDefined(warp, ops[0], me, bits ? me : 0, origin);
}
