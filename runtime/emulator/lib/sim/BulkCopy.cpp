//===- BulkCopy.cpp - Bulk copies and tensor maps -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cp.async.bulk and cp.async.bulk.tensor (PTX ISA 9.7.9.25.4, .5). A copy is
// pieces of 16 bytes of shared memory. What it touches is checked when it is
// issued; the bytes move as late as the rules allow (lazy), at the issue
// (eager), or either: a load when somebody waits for its mbarrier and nothing
// but bytes is missing there, a store when its thread waits for its group.
//
//===----------------------------------------------------------------------===//

#include "Machine.h"
#include "flashcore/Emulator/TensorMap.h"

#include <algorithm>

using namespace flashcore::emu;

static constexpr unsigned pieceBytes = 16;
/// Copies in flight of which all pieces are kept.
static constexpr size_t maxInFlight = 1024;

namespace flashcore::emu {
/// A line of a box along its innermost axis.
struct TileRow {
  uint64_t shared = 0;
  /// Where element 0 of the line would be; it is inside of the tensor if all
  /// other coordinates are.
  uint64_t global = 0;
  bool isInside = false;
  int64_t first = 0, size = 0; // elements: of the box's start, of the axis
  uint32_t length = 0, elementBytes = 1;
  TensorSwizzle swizzle = TensorSwizzle::None;
};
} // namespace flashcore::emu

static BulkOp opOf(const Inst &inst) { return static_cast<BulkOp>(inst.mode); }

//===----------------------------------------------------------------------===//
// What a copy touches
//===----------------------------------------------------------------------===//

/// Reports what does not lie in one variable of shared memory or is not
/// aligned.
bool Machine::isBulkShared(Warp &warp, const Inst &inst, unsigned lane,
                           uint64_t address, uint64_t bytes, unsigned align) {
  bool isInside = std::any_of(
      sharedVars.begin(), sharedVars.end(), [&](const StorageVar &var) {
        return address >= var.offset && bytes <= var.bytes &&
               address - var.offset <= var.bytes - bytes;
      });
  if (isInside && address % align == 0) {
    noteAlignment(warp, inst, lane, address, align);
    return true;
  }
  find(
      isInside ? FindingKind::Misaligned : FindingKind::OutOfBounds, warp, inst,
      1u << lane,
      [&] {
        if (!isInside)
          return Text{"shared access of " + std::to_string(bytes) +
                          " bytes: " + nameShared(address, bytes),
                      "an access must lie inside one variable (PTX ISA 5.1.7)"};
        return Text{
            nameShared(address, bytes) + " is no multiple of " +
                std::to_string(align) +
                " bytes from the start of "
                "shared memory",
            "mbarriers are aligned to 8 bytes, bulk copies to 16, those "
            "of tensors to 128 (PTX ISA 9.7.9.25.4, .5)"};
      },
      address, static_cast<unsigned>(bytes));
  return false;
}

/// Global memory that a copy touches; null after a finding.
uint8_t *Machine::bulkGlobal(Warp &warp, const Inst &inst, const BulkCopy &copy,
                             uint64_t address, uint64_t bytes,
                             Buffer *&buffer) {
  LaneAccess access;
  access.lanes = 1u << copy.lane;
  access.bytes = static_cast<unsigned>(bytes);
  access.address[copy.lane] = address;
  uint8_t *hosts[warpSize];
  Buffer *buffers[warpSize] = {};
  resolveGlobal(warp, inst, access, /*isWrite=*/!copy.isLoad, hosts, buffers);
  if (!access.lanes)
    return nullptr;
  checkGlobal(warp, inst, access, buffers, /*isWrite=*/!copy.isLoad);
  if (!copy.isLoad && isOn(CheckRace))
    handToStores(warp, *buffers[copy.lane], copy, address, bytes);
  if (options.counters)
    (copy.isLoad ? globalReadBytes : globalWriteBytes) += bytes;
  buffer = buffers[copy.lane];
  return hosts[copy.lane];
}

/// Undefined bytes and labels go where the bytes go.
void Machine::followPiece(Warp &warp, const Inst &inst, const BulkCopy &copy,
                          const BulkCopy::Piece &piece, Buffer *buffer,
                          uint64_t global) {
  if (copy.isLoad && !cta->labels.empty()) {
    Label *labels = &cta->labels[piece.shared / 2];
    std::fill_n(labels, pieceBytes / 2, Label(0));
    if (piece.bytes)
      tensors.labelWords(piece.global, piece.bytes / 2u,
                         labels + piece.skip / 2);
  }
  uint64_t shared = piece.shared + piece.skip;
  uint8_t bits[pieceBytes] = {};
  if (!copy.isLoad) {
    if (!isOn(CheckInit) || cta->undefined.isDefined(shared, piece.bytes)) {
      defineGlobal(*buffer, global, piece.bytes);
      return;
    }
    Origin origin = readUndefined(warp, inst, StateSpace::Shared, copy.lane,
                                  shared, piece.bytes, nullptr, bits);
    storeUndefined(warp, inst, copy.lane, *buffer, global, piece.bytes, bits,
                   origin);
    return;
  }
  if (!isOn(CheckInit))
    return;
  cta->undefined.define(piece.shared, pieceBytes);
  if (!piece.bytes || buffer->init.isSet(global - buffer->base, piece.bytes))
    return;
  Origin origin = readUndefined(warp, inst, StateSpace::Global, copy.lane,
                                global, piece.bytes, buffer, bits);
  cta->undefined.store(shared, piece.bytes, bits, origin);
}

/// Adds the pieces of a line; what is outside of the tensor is zero, or not
/// stored.
bool Machine::addRow(Warp &warp, const Inst &inst, BulkCopy &copy,
                     const TileRow &row) {
  const int64_t size = row.isInside ? row.size : 0;
  const int64_t begin = std::clamp<int64_t>(row.first, 0, size);
  const int64_t end = std::clamp<int64_t>(row.first + row.length, begin, size);
  const uint64_t from =
      row.global + static_cast<uint64_t>(begin) * row.elementBytes;
  Buffer *buffer = nullptr;
  uint8_t *host = nullptr;
  if (begin < end) {
    uint64_t bytes = static_cast<uint64_t>(end - begin) * row.elementBytes;
    host = bulkGlobal(warp, inst, copy, from, bytes, buffer);
    if (!host)
      return false;
  }
  const int64_t step = pieceBytes / row.elementBytes;
  for (int64_t i = 0; i < row.length / step; ++i) {
    int64_t first = row.first + i * step;
    int64_t low = std::clamp(first, begin, end);
    int64_t high = std::clamp(first + step, low, end);
    BulkCopy::Piece piece;
    piece.shared = static_cast<uint32_t>(swizzled(
        row.shared + static_cast<uint64_t>(i) * pieceBytes, row.swizzle));
    piece.bytes = static_cast<uint8_t>((high - low) * row.elementBytes);
    piece.skip = static_cast<uint8_t>(
        piece.bytes ? (low - first) * row.elementBytes : 0);
    uint64_t offset = static_cast<uint64_t>(low - begin) * row.elementBytes;
    piece.global = piece.bytes ? host + offset : nullptr;
    if (!copy.isLoad && !piece.bytes)
      continue;
    followPiece(warp, inst, copy, piece, buffer, from + offset);
    copy.pieces.push_back(piece);
  }
  return true;
}

/// The tensor map at a generic address; false after a finding.
bool Machine::tensorMapAt(Warp &warp, const Inst &inst, unsigned lane,
                          uint64_t address, TensorMap &map) {
  const uint8_t *bytes = nullptr;
  if (address >= paramWindow && address - paramWindow < params.size() &&
      params.size() - (address - paramWindow) >= sizeof(TensorMapBytes))
    bytes = params.data() + (address - paramWindow);
  else if (const Buffer *buffer = memory.find(address, sizeof(TensorMapBytes)))
    bytes = buffer->data.data() + (address - buffer->base);
  std::optional<TensorMap> decoded;
  if (bytes)
    decoded = decodeTensorMap(bytes);
  const char *what =
      !bytes         ? "is neither in a parameter nor in global memory"
      : address % 64 ? "is not aligned to 64 bytes"
      : !decoded
          ? "holds no tensor map of the emulator: it is made by "
            "flashcoreEmuEncodeTensorMap, encodeTensorMap or the argument "
            "tensormap of flashcore-emu, as that of the driver is not public"
      : decoded->rank != inst.vectorLength ? "has another rank"
                                           : nullptr;
  if (!what) {
    map = *decoded;
    return true;
  }
  find(FindingKind::InvalidDescriptor, warp, inst, 1u << lane, [&] {
    std::string text = "the address of the tensor map ";
    text += what;
    if (decoded && decoded->rank != inst.vectorLength)
      text += ": " + std::to_string(decoded->rank) + " instead of " +
              std::to_string(inst.vectorLength);
    return Text{text, "a tensor map is an object of 128 bytes in a .param, "
                      ".const or .global (PTX ISA 5.5.8)"};
  });
  return false;
}

/// Operands: shared address, tensor map, mbarrier, coordinates.
bool Machine::copyTile(Warp &warp, const Inst &inst, BulkCopy &copy) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  const uint64_t shared = warp.reg<uint64_t>(ops[0])[copy.lane];
  TensorMap map;
  if (!tensorMapAt(warp, inst, copy.lane, warp.reg<uint64_t>(ops[1])[copy.lane],
                   map))
    return false;
  copy.bytes = map.boxBytes();
  if (!isBulkShared(warp, inst, copy.lane, shared, copy.bytes, 128))
    return false;
  noteAlignment(warp, inst, copy.lane, shared, swizzleAtom(map.swizzle));
  int64_t start[maxTensorRank];
  for (unsigned axis = 0; axis < map.rank; ++axis)
    start[axis] = warp.reg<int32_t>(ops[3 + axis])[copy.lane];
  TileRow row;
  row.first = start[0];
  row.size = static_cast<int64_t>(map.sizes[0]);
  row.length = map.extent(0);
  row.elementBytes = map.elementBytes;
  row.swizzle = map.swizzle;
  row.shared = shared;
  uint32_t index[maxTensorRank] = {};
  while (true) {
    row.isInside = true;
    row.global = map.address;
    for (unsigned axis = 1; axis < map.rank; ++axis) {
      int64_t at =
          start[axis] + int64_t(index[axis]) * map.elementStrides[axis];
      row.isInside &= at >= 0 && at < static_cast<int64_t>(map.sizes[axis]);
      row.global += static_cast<uint64_t>(at) * map.strides[axis];
    }
    if (!addRow(warp, inst, copy, row))
      return false;
    row.shared += uint64_t(row.length) * row.elementBytes;
    unsigned axis = 1;
    while (axis < map.rank && ++index[axis] == map.extent(axis))
      index[axis++] = 0;
    if (axis >= map.rank)
      break;
  }
  return isAllowedOutside(warp, inst, copy, map, start);
}

/// A box with nothing in its tensor must do no harm either: a load reads where
/// the map begins, and a store traps at a negative coordinate.
bool Machine::isAllowedOutside(Warp &warp, const Inst &inst,
                               const BulkCopy &copy, const TensorMap &map,
                               const int64_t *start) {
  if (std::any_of(copy.pieces.begin(), copy.pieces.end(),
                  [](const BulkCopy::Piece &piece) { return piece.bytes; }))
    return true;
  if (copy.isLoad ? memory.find(map.address, 0) != nullptr
                  : std::all_of(start, start + map.rank,
                                [](int64_t at) { return at >= 0; }))
    return true;
  find(FindingKind::OutOfBounds, warp, inst, 1u << copy.lane, [&] {
    std::string coordinates;
    for (unsigned axis = 0; axis < map.rank; ++axis)
      coordinates += (axis ? ", " : "") + std::to_string(start[axis]);
    std::string what = copy.isLoad
                           ? "a bulk load of a box with nothing in its tensor, "
                             "of a tensor map that begins at no buffer"
                           : "a bulk store of a box with nothing in its tensor "
                             "at a negative coordinate";
    return Text{what + ": at (" + coordinates + ")",
                copy.isLoad ? "such a load reads at the address of the map "
                              "(measured on an H100: an illegal address)"
                            : "such a store is refused (measured on an H100: "
                              "an illegal instruction)"};
  });
  return false;
}

/// Operands: shared address, global address, mbarrier, bytes.
bool Machine::copyPlain(Warp &warp, const Inst &inst, BulkCopy &copy) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  const uint64_t shared = warp.reg<uint64_t>(ops[0])[copy.lane];
  const uint64_t global = warp.reg<uint64_t>(ops[1])[copy.lane];
  copy.bytes = warp.reg<uint32_t>(ops[3])[copy.lane];
  if (copy.bytes % pieceBytes || global % pieceBytes) {
    find(FindingKind::Misaligned, warp, inst, 1u << copy.lane, [&] {
      return Text{"bulk copy of " + std::to_string(copy.bytes) +
                      " bytes, in global memory at " +
                      nameGlobal(global, copy.bytes),
                  "size and addresses must be multiples of 16 bytes (PTX ISA "
                  "9.7.9.25.4)"};
    });
    return false;
  }
  if (!copy.bytes)
    return true;
  if (!isBulkShared(warp, inst, copy.lane, shared, copy.bytes, pieceBytes))
    return false;
  TileRow row;
  row.shared = shared;
  row.global = global;
  row.isInside = true;
  row.size = row.length = static_cast<uint32_t>(copy.bytes);
  return addRow(warp, inst, copy, row);
}

//===----------------------------------------------------------------------===//
// Issue, movement, waits
//===----------------------------------------------------------------------===//

void Machine::bulkCopy(Warp &warp, const Inst &inst, uint32_t lanes) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  BulkOp op = opOf(inst);
  forEachLane(lanes, [&](unsigned lane) {
    BulkCopy copy;
    copy.pc = pcOf(inst);
    copy.warp = warp.index;
    copy.lane = lane;
    copy.isLoad = op == BulkOp::TileLoad || op == BulkOp::Load;
    if (copy.isLoad) {
      copy.mbarrier = warp.reg<uint64_t>(ops[2])[lane];
      if (!findMbarrier(warp, inst, lane, copy.mbarrier))
        return;
    } else {
      copy.group = cta->async->bulk[warp.index * warpSize + lane].committed;
    }
    bool isTile = op == BulkOp::TileLoad || op == BulkOp::TileStore;
    if (isTile ? copyTile(warp, inst, copy) : copyPlain(warp, inst, copy))
      issueBulk(warp, inst, std::move(copy));
  });
}

void Machine::issueBulk(Warp &warp, const Inst &inst, BulkCopy copy) {
  ProxyAccess access;
  access.owner = copy.lane;
  access.isWrite = copy.isLoad;
  access.reader = bulkReader;
  if (ordersAsync()) {
    startSegment(warp);
    copy.pending =
        AccessWord(warp.clock.segment, copy.pc, copy.lane, AsyncAccess);
    access.word = copy.pending;
    if (!copy.isLoad)
      access.word = AccessWord(segments.add({AsyncAgent::cta(cta->index),
                                             AsyncAgent::bulkOf(warp.index),
                                             copy.group + 1, warp.index}),
                               copy.pc, copy.lane);
    for (const BulkCopy::Piece &piece : copy.pieces) {
      access.address = piece.shared + (copy.isLoad ? 0u : piece.skip);
      access.bytes = copy.isLoad ? pieceBytes : piece.bytes;
      checkProxyAccess(warp, inst, access);
    }
  }
  bool eager = isEager();
  const uint64_t address = copy.mbarrier;
  const bool isLoad = copy.isLoad;
  if (eager)
    moveBulk(copy);
  cta->async->copies.push_back(std::move(copy));
  limitInFlight();
  if (!isLoad)
    return;
  Mbarrier &barrier = cta->async->mbarriers.at(address);
  if (eager)
    deliver(address);
  else if (barrier.missing() <= 0)
    wakeMbarrier(address);
}

/// A kernel that never waits must not take memory without bound: the oldest
/// copy moves.
void Machine::limitInFlight() {
  std::deque<BulkCopy> &copies = cta->async->copies;
  if (copies.size() <= maxInFlight)
    return;
  BulkCopy &oldest = copies.front();
  if (oldest.isLoad && cta->async->mbarriers.count(oldest.mbarrier)) {
    deliver(oldest.mbarrier);
    return;
  }
  moveBulk(oldest);
  copies.pop_front();
}

void Machine::moveBulk(BulkCopy &copy) {
  if (copy.done)
    return;
  copy.done = true;
  ++changes;
  for (const BulkCopy::Piece &piece : copy.pieces) {
    uint8_t *shared = cta->shared.data() + piece.shared;
    if (!copy.isLoad) {
      std::memcpy(piece.global, shared + piece.skip, piece.bytes);
      continue;
    }
    std::memset(shared, 0, pieceBytes);
    if (piece.bytes)
      std::memcpy(shared + piece.skip, piece.global, piece.bytes);
  }
}

/// The loads that an mbarrier hears of arrive, and so does cp.async there.
void Machine::deliver(uint64_t mbarrier) {
  AsyncState &async = *cta->async;
  Mbarrier &barrier = async.mbarriers.at(mbarrier);
  bool any = false;
  std::erase_if(async.arrivals, [&](const CopyArrival &arrival) {
    if (arrival.mbarrier != mbarrier)
      return false;
    completeArrival(arrival);
    return any = true;
  });
  std::erase_if(async.copies, [&](BulkCopy &copy) {
    if (!copy.isLoad || copy.mbarrier != mbarrier)
      return false;
    moveBulk(copy);
    publishBulk(copy, barrier.phase + 1, barrier.agent);
    addBytes(cta->warps[copy.warp], program.code[copy.pc], copy.lane, barrier,
             mbarrier, -static_cast<int64_t>(copy.bytes));
    return any = true;
  });
  if (!any)
    return;
  if (spin)
    spin->hasChanged = true;
  settle(barrier, mbarrier);
}

/// imm: groups of the thread that may stay in flight.
void Machine::bulkWait(Warp &warp, const Inst &inst, uint32_t lanes) {
  AsyncState &async = *cta->async;
  forEachLane(lanes, [&](unsigned lane) {
    BulkGroups &groups = async.bulk[warp.index * warpSize + lane];
    int64_t upTo = int64_t(groups.committed) - inst.imm;
    if (!inst.aux && upTo > 0)
      learnAgent(warp, 1u << lane, AsyncAgent::storesOf(warp.index), 1 + lane,
                 static_cast<uint32_t>(upTo));
    if (upTo <= int64_t(groups.waited))
      return;
    groups.waited = static_cast<uint32_t>(upTo);
    std::erase_if(async.copies, [&](BulkCopy &copy) {
      bool isOurs = !copy.isLoad && copy.warp == warp.index &&
                    copy.lane == lane && copy.group < groups.waited;
      if (isOurs)
        moveBulk(copy);
      return isOurs;
    });
    learnAgent(warp, 1u << lane, AsyncAgent::bulkOf(warp.index), 1 + lane,
               groups.waited);
  });
}

/// A warp has ended. Its stores go on, but shared memory may be another CTA's
/// before they have read it.
void Machine::endBulk(Warp &warp) {
  const bool isLast = cta->liveThreads == 0;
  std::erase_if(cta->async->copies, [&](BulkCopy &copy) {
    bool isOurs = !copy.isLoad && copy.warp == warp.index;
    if (!isOurs && !(isLast && copy.isLoad))
      return false;
    moveBulk(copy);
    if (isOn(CheckAsync))
      find(FindingKind::AsyncOverwrite, cta->warps[copy.warp],
           program.code[copy.pc], 1u << copy.lane, [&] {
             return Text{
                 copy.isLoad
                     ? "the CTA ends while this bulk copy to it is in flight"
                     : "the thread ends while this bulk copy may still read "
                       "shared memory",
                 "shared memory is gone with the CTA: wait for the mbarrier of "
                 "a load, and for the group of a store by "
                 "cp.async.bulk.wait_group (PTX ISA 9.7.9.25.4)"};
           });
    return true;
  });
}
