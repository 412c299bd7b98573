//===- Access.cpp - Loads, stores and atomics -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one way to memory: addresses of all lanes, split by state space, resolved
// to host bytes (or reported and completed with poison), checked, then moved.
//
//===----------------------------------------------------------------------===//

#include "../math/LaneMath.h"
#include "Machine.h"

#include <algorithm>

using namespace flashcore::emu;

void Machine::computeAddresses(Warp &warp, uint32_t granule, bool is64,
                               int64_t offset, uint32_t lanes,
                               LaneAccess &access) {
  access.lanes = lanes;
  if (is64) {
    const uint64_t *base = warp.reg<uint64_t>(granule);
    for (unsigned i = 0; i < warpSize; ++i)
      access.address[i] = base[i] + static_cast<uint64_t>(offset);
  } else {
    const uint32_t *base = warp.reg<uint32_t>(granule);
    for (unsigned i = 0; i < warpSize; ++i)
      access.address[i] =
          static_cast<uint32_t>(base[i] + static_cast<uint32_t>(offset));
  }
}

//===----------------------------------------------------------------------===//
// Loads and stores
//===----------------------------------------------------------------------===//

/// The space a generic address lies in.
static StateSpace spaceOf(uint64_t address, uint64_t &base) {
  base = 0;
  if (address >= globalWindow)
    return StateSpace::Global;
  if (address >= paramWindow) {
    base = paramWindow;
    return StateSpace::Param;
  }
  if (address >= localWindow) {
    base = localWindow;
    return StateSpace::Local;
  }
  if (address >= sharedWindow) {
    base = sharedWindow;
    return StateSpace::Shared;
  }
  return StateSpace::Global; // null and wild pointers: reported there
}

/// Keeps the lanes that share the space of the first one and moves the others
/// to `rest`; true if there are any.
bool Machine::splitGeneric(LaneAccess &access, StateSpace &space,
                           LaneAccess &rest) {
  uint64_t base = 0, ignored = 0;
  unsigned first = static_cast<unsigned>(std::countr_zero(access.lanes));
  space = spaceOf(access.address[first], base);
  rest = access;
  uint32_t same = 0;
  forEachLane(access.lanes, [&](unsigned lane) {
    if (spaceOf(access.address[lane], ignored) != space)
      return;
    same |= 1u << lane;
    access.address[lane] -= base;
  });
  rest.lanes = access.lanes & ~same;
  access.lanes = same;
  return rest.lanes != 0;
}

void Machine::loadStore(Warp &warp, const Inst &inst, uint32_t lanes) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  LaneAccess access;
  access.bytes = unsigned(inst.elementBytes) * inst.vectorLength;
  uint32_t granule = ops[inst.kind == InstKind::Store ? 0 : inst.vectorLength];
  computeAddresses(warp, granule, inst.addressIs64, inst.imm, lanes, access);
  if (inst.space != StateSpace::Generic)
    return accessSpace(warp, inst, inst.space, access);
  LaneAccess rest;
  bool more = true;
  while (more) {
    StateSpace space;
    more = splitGeneric(access, space, rest);
    accessSpace(warp, inst, space, access);
    access = rest;
  }
}

void Machine::accessSpace(Warp &warp, const Inst &inst, StateSpace space,
                          LaneAccess &access) {
  uint8_t *hosts[warpSize];
  Buffer *buffers[warpSize] = {};
  bool isStore = inst.kind == InstKind::Store;
  uint32_t wanted = access.lanes;
  access.lanes &= ~checkAlignment(warp, inst, space, access);
  switch (space) {
  case StateSpace::Shared:
    resolveShared(warp, inst, access, hosts);
    if (!access.lanes)
      break;
    checkShared(warp, inst, access,
                isStore ? SharedUse::Write : SharedUse::Read);
    if (inst.isStrong)
      synchronize(warp, inst, space, access);
    if (options.counters)
      countShared(inst, access);
    break;
  case StateSpace::Local:
    resolveLocal(warp, inst, access, hosts);
    break;
  case StateSpace::Param:
    resolveParam(warp, inst, access, hosts);
    break;
  default:
    resolveGlobal(warp, inst, access, isStore, hosts, buffers);
    if (!access.lanes)
      break;
    checkGlobal(warp, inst, access, buffers, isStore);
    if (inst.isStrong)
      synchronize(warp, inst, space, access);
    if (options.counters)
      countGlobal(inst, access, isStore);
    break;
  }
  if (spin) [[unlikely]] {
    if (isStore)
      noteSpinStore(warp, inst, access, hosts);
    else
      noteSpinRead(inst, space, access, hosts);
  } else {
    changes += isStore && space != StateSpace::Local;
  }
  moveData(warp, inst, access.lanes, hosts, isStore);
  if (isOn(CheckInit))
    isStore ? followStore(warp, inst, space, access, buffers)
            : followLoad(warp, inst, space, access, buffers);
  else if (isStore && space != StateSpace::Shared && space != StateSpace::Local)
    forEachLane(access.lanes, [&](unsigned lane) {
      defineGlobal(*buffers[lane], access.address[lane], access.bytes);
    });
  if (labelling)
    labelAccess(warp, inst, space, access.lanes, hosts, isStore);
  if (isStore && isOn(CheckRace) &&
      (space == StateSpace::Shared || space == StateSpace::Global))
    checkLostStores(warp, inst, space, access, hosts);
  if (!isStore && access.lanes != wanted)
    poisonLanes(warp, inst, wanted & ~access.lanes);
}

uint32_t Machine::checkAlignment(Warp &warp, const Inst &inst, StateSpace space,
                                 const LaneAccess &access) {
  uint64_t low = 0;
  for (unsigned i = 0; i < warpSize; ++i)
    low |= access.lanes >> i & 1 ? access.address[i] : 0;
  if (!(low & (access.bytes - 1))) {
    if (space == StateSpace::Shared && access.lanes) {
      unsigned lane = static_cast<unsigned>(std::countr_zero(access.lanes));
      noteAlignment(warp, inst, lane, access.address[lane], access.bytes);
    }
    return 0;
  }
  uint32_t bad = 0;
  forEachLane(access.lanes, [&](unsigned lane) {
    bad |= access.address[lane] & (access.bytes - 1) ? 1u << lane : 0u;
  });
  uint64_t address = access.address[std::countr_zero(bad)];
  find(
      FindingKind::Misaligned, warp, inst, bad,
      [&] {
        std::string where = space == StateSpace::Shared
                                ? nameShared(address, access.bytes)
                            : space == StateSpace::Global
                                ? nameGlobal(address, access.bytes)
                                : std::string(spaceName(space)) + " address " +
                                      std::to_string(address);
        return Text{
            "access of " + std::to_string(access.bytes) +
                " bytes at an address that is only " +
                std::to_string(uint64_t(1) << std::countr_zero(address)) +
                "-byte aligned: " + where,
            "an address must be a multiple of the access size (PTX ISA "
            "6.4.1); static shared variables stand at exactly their "
            "declared alignment"};
      },
      address, access.bytes);
  return bad;
}

//===----------------------------------------------------------------------===//
// Resolution to host bytes
//===----------------------------------------------------------------------===//

/// Reports the lanes `bad` and takes them out of the access; `describe` makes
/// the text for the address of the first one.
template <typename F>
void Machine::rejectOutside(Warp &warp, const Inst &inst, LaneAccess &access,
                            uint32_t bad, F describe) {
  if (!bad)
    return;
  uint64_t address = access.address[std::countr_zero(bad)];
  find(
      FindingKind::OutOfBounds, warp, inst, bad,
      [&] { return describe(address); }, address, access.bytes);
  access.lanes &= ~bad;
}

void Machine::resolveShared(Warp &warp, const Inst &inst, LaneAccess &access,
                            uint8_t *(&hosts)[warpSize]) {
  uint32_t bad = 0;
  const StorageVar *last = sharedVars.empty() ? nullptr : &sharedVars.back();
  forEachLane(access.lanes, [&](unsigned lane) {
    uint64_t address = access.address[lane];
    auto holds = [&](const StorageVar &var) {
      return address >= var.offset && address < sharedWindow &&
             address + access.bytes <= var.offset + var.bytes;
    };
    if (!last || !holds(*last)) {
      auto it = std::find_if(sharedVars.begin(), sharedVars.end(), holds);
      if (it == sharedVars.end()) {
        bad |= 1u << lane;
        return;
      }
      last = &*it;
    }
    hosts[lane] = cta->shared.data() + address;
  });
  rejectOutside(warp, inst, access, bad, [&](uint64_t address) {
    return Text{"shared access of " + std::to_string(access.bytes) +
                    " bytes: " + nameShared(address, access.bytes),
                "an access must lie inside one variable (PTX ISA 5.1.7)"};
  });
}

void Machine::resolveGlobal(Warp &warp, const Inst &inst, LaneAccess &access,
                            bool isWrite, uint8_t *(&hosts)[warpSize],
                            Buffer *(&buffers)[warpSize]) {
  uint32_t bad = 0;
  Buffer *last = nullptr;
  forEachLane(access.lanes, [&](unsigned lane) {
    uint64_t address = access.address[lane];
    bool same = last && address >= last->base &&
                address - last->base + access.bytes <= last->bytes;
    Buffer *buffer = same ? last : memory.find(address, access.bytes);
    if (!buffer || (isWrite && buffer->readOnly)) {
      bad |= 1u << lane;
      return;
    }
    last = buffers[lane] = buffer;
    hosts[lane] = buffer->data.data() + (address - buffer->base);
  });
  if (!bad) {
    if (speculation)
      claimGlobal(access, buffers, isWrite);
    return;
  }
  uint64_t address = access.address[std::countr_zero(bad)];
  bool known = memory.owner(address) != nullptr;
  find(
      known ? FindingKind::OutOfBounds : FindingKind::InvalidAddress, warp,
      inst, bad,
      [&] {
        return Text{
            std::string(isWrite ? "global store of " : "global load of ") +
                std::to_string(access.bytes) +
                " bytes: " + nameGlobal(address, access.bytes),
            "an access must lie inside one buffer (PTX ISA 5.1.4)"};
      },
      address, access.bytes);
  // What was not claimed must not be touched.
  access.lanes &= speculation ? 0 : ~bad;
}

void Machine::resolveLocal(Warp &warp, const Inst &inst, LaneAccess &access,
                           uint8_t *(&hosts)[warpSize]) {
  uint32_t bad = 0;
  forEachLane(access.lanes, [&](unsigned lane) {
    uint64_t address = access.address[lane];
    if (address > program.localBytes ||
        address + access.bytes > program.localBytes) {
      bad |= 1u << lane;
      return;
    }
    hosts[lane] = warp.local.data() + lane * program.localBytes + address;
  });
  rejectOutside(warp, inst, access, bad, [&](uint64_t address) {
    return Text{"local access of " + std::to_string(access.bytes) +
                    " bytes at " + std::to_string(address) +
                    " of the thread's " + std::to_string(program.localBytes) +
                    " bytes",
                "an access must lie inside one variable (PTX ISA 5.1.5)"};
  });
}

void Machine::resolveParam(Warp &warp, const Inst &inst, LaneAccess &access,
                           uint8_t *(&hosts)[warpSize]) {
  uint32_t bad = 0;
  forEachLane(access.lanes, [&](unsigned lane) {
    uint64_t address = access.address[lane];
    if (inst.kind != InstKind::Load || address > params.size() ||
        address + access.bytes > params.size())
      bad |= 1u << lane;
    else
      hosts[lane] = params.data() + address;
  });
  if (!bad)
    return;
  find(FindingKind::OutOfBounds, warp, inst, bad, [&] {
    return Text{"access outside the " + std::to_string(params.size()) +
                    " bytes of kernel parameters, or a store to them",
                "parameters of a kernel are read-only (PTX ISA 5.1.6.1)"};
  });
  access.lanes &= ~bad;
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

template <typename Reg, typename Memory>
static void moveElement(Reg *reg, uint32_t lanes, uint8_t *const *hosts,
                        size_t offset, bool isStore) {
  if (isStore) {
    forEachLane(lanes, [&](unsigned lane) {
      Memory value = static_cast<Memory>(reg[lane]);
      std::memcpy(hosts[lane] + offset, &value, sizeof value);
    });
    return;
  }
  forEachLane(lanes, [&](unsigned lane) {
    Memory value;
    std::memcpy(&value, hosts[lane] + offset, sizeof value);
    reg[lane] = static_cast<Reg>(value);
  });
}

template <typename Reg>
static void moveByWidth(Reg *reg, uint32_t lanes, uint8_t *const *hosts,
                        size_t offset, bool isStore, unsigned bytes,
                        bool signExtend) {
  switch (bytes) {
  case 1:
    return signExtend
               ? moveElement<Reg, int8_t>(reg, lanes, hosts, offset, isStore)
               : moveElement<Reg, uint8_t>(reg, lanes, hosts, offset, isStore);
  case 2:
    return signExtend
               ? moveElement<Reg, int16_t>(reg, lanes, hosts, offset, isStore)
               : moveElement<Reg, uint16_t>(reg, lanes, hosts, offset, isStore);
  case 4:
    return signExtend
               ? moveElement<Reg, int32_t>(reg, lanes, hosts, offset, isStore)
               : moveElement<Reg, uint32_t>(reg, lanes, hosts, offset, isStore);
  default:
    return moveElement<Reg, uint64_t>(reg, lanes, hosts, offset, isStore);
  }
}

void Machine::moveData(Warp &warp, const Inst &inst, uint32_t lanes,
                       uint8_t *const (&hosts)[warpSize], bool isStore) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand + isStore;
  for (unsigned v = 0; v < inst.vectorLength; ++v) {
    size_t offset = size_t(v) * inst.elementBytes;
    if (!isStore && ops[v] == sinkGranule)
      continue;
    switch (inst.regBytes) {
    case 2:
      moveByWidth(warp.reg<uint16_t>(ops[v]), lanes, hosts, offset, isStore,
                  inst.elementBytes, inst.signExtend);
      break;
    case 4:
      moveByWidth(warp.reg<uint32_t>(ops[v]), lanes, hosts, offset, isStore,
                  inst.elementBytes, inst.signExtend);
      break;
    default:
      moveByWidth(warp.reg<uint64_t>(ops[v]), lanes, hosts, offset, isStore,
                  inst.elementBytes, inst.signExtend);
      break;
    }
  }
}

void Machine::poisonLanes(Warp &warp, const Inst &inst, uint32_t lanes) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  unsigned bytes = std::max<unsigned>(inst.regBytes, 2);
  for (unsigned v = 0; v < inst.numDsts; ++v)
    forEachLane(lanes, [&](unsigned lane) {
      std::memset(warp.reg<uint8_t>(ops[v]) + size_t(lane) * bytes, 0xff,
                  bytes);
      if (labelling)
        for (unsigned half = 0; half < bytes / 2; ++half)
          warp.labels.clear(slotOf(ops[v] + half), 1u << lane);
    });
}

//===----------------------------------------------------------------------===//
// Atomics
//===----------------------------------------------------------------------===//

static uint64_t addFloat(ScalarType type, bool isShared, uint64_t a,
                         uint64_t b);

/// PTX ISA 9.7.13.5: f32 additions flush subnormals in global memory, but not
/// in shared memory. As on sm_90, f64 additions in shared memory treat NaNs as
/// add does with the old value last, those in global memory copy one as it is.
uint64_t Machine::applyAtomic(const Inst &inst, StateSpace space, uint64_t old,
                              uint64_t b, uint64_t c) {
  unsigned bits = inst.elementBytes * 8u;
  bool isSigned = isSignedType(inst.type);
  auto extend = [&](uint64_t x) {
    return static_cast<int64_t>(x << (64 - bits)) >> (64 - bits);
  };
  bool less = isSigned ? extend(b) < extend(old) : b < old;
  switch (static_cast<AtomicOp>(inst.mode)) {
  case AtomicOp::Add:
    return isFloatType(inst.type)
               ? addFloat(inst.type, space == StateSpace::Shared, old, b)
               : old + b;
  case AtomicOp::Min:
    return less ? b : old;
  case AtomicOp::Max:
    return less ? old : b;
  case AtomicOp::Inc:
    return old >= b ? 0 : old + 1;
  case AtomicOp::Dec:
    return old == 0 || old > b ? b : old - 1;
  case AtomicOp::And:
    return old & b;
  case AtomicOp::Or:
    return old | b;
  case AtomicOp::Xor:
    return old ^ b;
  case AtomicOp::Exch:
    return b;
  case AtomicOp::Cas:
    return old == b ? c : old;
  }
  return old;
}

/// Operands: d, address, b, c.
void Machine::atomic(Warp &warp, const Inst &inst, uint32_t lanes) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  LaneAccess access, rest;
  access.bytes = inst.elementBytes;
  computeAddresses(warp, ops[1], inst.addressIs64, inst.imm, lanes, access);
  bool more = true;
  while (more) {
    StateSpace space = inst.space;
    more = space == StateSpace::Generic && splitGeneric(access, space, rest);
    uint8_t *hosts[warpSize];
    Buffer *buffers[warpSize] = {};
    uint32_t wanted = access.lanes;
    access.lanes &= ~checkAlignment(warp, inst, space, access);
    if (space == StateSpace::Shared) {
      resolveShared(warp, inst, access, hosts);
      checkShared(warp, inst, access, SharedUse::Write);
    } else {
      resolveGlobal(warp, inst, access, /*isWrite=*/true, hosts, buffers);
      checkGlobal(warp, inst, access, buffers, /*isWrite=*/true);
    }
    synchronize(warp, inst, space, access);
    if (spin) [[unlikely]]
      noteSpinRead(inst, space, access, hosts);
    uint64_t before = changes;
    forEachLane(access.lanes, [&](unsigned lane) {
      if (isOn(CheckInit))
        followAtomic(warp, inst, space, lane, access.address[lane],
                     buffers[lane]);
      else if (space != StateSpace::Shared)
        defineGlobal(*buffers[lane], access.address[lane], inst.elementBytes);
      uint64_t old = 0, b = 0, c = 0;
      size_t at = size_t(lane) * inst.elementBytes;
      std::memcpy(&old, hosts[lane], inst.elementBytes);
      std::memcpy(&b, warp.reg<uint8_t>(ops[2]) + at, inst.elementBytes);
      std::memcpy(&c, warp.reg<uint8_t>(ops[3]) + at, inst.elementBytes);
      uint64_t value = applyAtomic(inst, space, old, b, c);
      changes += std::memcmp(&value, &old, inst.elementBytes) != 0;
      std::memcpy(hosts[lane], &value, inst.elementBytes);
      if (ops[0] != sinkGranule)
        std::memcpy(warp.reg<uint8_t>(ops[0]) + at, &old, inst.elementBytes);
      if (space == StateSpace::Shared && !cta->labels.empty())
        std::fill_n(&cta->labels[access.address[lane] / 2],
                    (inst.elementBytes + 1) / 2, Label(0));
    });
    if (spin && changes != before)
      spin->hasChanged = true;
    if (!inst.noResult && access.lanes != wanted)
      poisonLanes(warp, inst, wanted & ~access.lanes);
    access = rest;
    access.bytes = inst.elementBytes;
  }
}

static float addF32(float a, float b, bool flush) {
  return flush ? ftz(canon(ftz(a) + ftz(b))) : canon(a + b);
}

static uint64_t addF64(double a, double b, bool isShared) {
  if (isShared)
    return bitsOf(nanOf(a + b, a, b));
  if (isNan(b))
    return bitsOf(b);
  return bitsOf(isNan(a) ? a : nanOf(a + b));
}

static uint64_t addFloat(ScalarType type, bool isShared, uint64_t a,
                         uint64_t b) {
  if (type == ScalarType::F64)
    return addF64(doubleOf(a), doubleOf(b), isShared);
  if (type == ScalarType::F32)
    return bitsOf(addF32(floatOf(static_cast<uint32_t>(a)),
                         floatOf(static_cast<uint32_t>(b)), !isShared));
  bool isBfloat = type == ScalarType::BF16 || type == ScalarType::BF16x2;
  auto add = [=](u32 x, u32 y) -> u32 {
    auto sum = [](float p, float q) { return p + q; };
    return isBfloat ? bfloat2(x, y, sum) : half2(x, y, sum);
  };
  u32 x = static_cast<u32>(a), y = static_cast<u32>(b);
  if (typeBytes(type) == 2)
    return add(x, y);
  return add(x, y) | add(x >> 16, y >> 16) << 16;
}
