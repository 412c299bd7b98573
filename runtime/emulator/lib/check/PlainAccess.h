//===- PlainAccess.h - Accesses that meet no conflict -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The short way through the race check: where all that an access meets is plain
// and happened before the last barrier, which is nearly everywhere, it is
// recorded without a look at each cell. Inline, and with the number of cells a
// constant where it can be one, as this is the hot loop of the check.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_CHECK_PLAINACCESS_H
#define FLASHCORE_EMULATOR_LIB_CHECK_PLAINACCESS_H

#include "Shadow.h"

#include <algorithm>
#include <bit>

namespace flashcore::emu {

/// Whether the cells of an access hold one word, as those of 16 bytes mostly
/// do.
[[gnu::always_inline]] inline bool isUniform(const AccessWord *words,
                                             size_t count) {
  return count == 4 && words[0] == words[1] && words[0] == words[2] &&
         words[0] == words[3];
}

/// Whether an access happened before all that a warp does from now on, in any
/// lane, by what barriers told it: true of nearly all that an access meets. The
/// cells of one access are mostly of one segment, so the last one is kept.
class KnownBefore {
public:
  KnownBefore(const SegmentTable &segments, const WarpClock &clock)
      : segments(segments), clock(clock) {}

  [[gnu::always_inline]] bool operator()(AccessWord access) {
    if (access.segment() == last)
      return true;
    if (!segments.isKnown(access, clock))
      return false;
    last = access.segment();
    return true;
  }
  /// Nobody wrote these cells, or what did is no conflict for anybody here.
  [[gnu::always_inline]] bool arePlain(const AccessWord *writes, size_t count) {
    if (isUniform(writes, count))
      count = 1;
    for (size_t i = 0; i < count; ++i)
      if (writes[i] && (writes[i].has(AsyncAccess) ||
                        writes[i].has(StrongAccess) || !(*this)(writes[i])))
        return false;
    return true;
  }

private:
  const SegmentTable &segments;
  const WarpClock &clock;
  /// Number 0 is of no segment.
  uint32_t last = 0;
};

/// An earlier read and one of another lane in the same segment: to a later
/// write, the weak one of them counts, and one by lanes rather than ldmatrix.
inline AccessWord merged(AccessWord earlier, AccessWord read) {
  auto isMild = [](AccessWord word) {
    return word.has(StrongAccess) || word.has(MatrixRead);
  };
  AccessWord weak = isMild(earlier) ? read : earlier;
  uint32_t flags = PlainAccess;
  for (AccessFlag flag : {StrongAccess, MatrixRead})
    if (earlier.has(flag) && read.has(flag))
      flags |= flag;
  return {read.segment(), weak.pc(),
          earlier.lane() == read.lane() ? read.lane() : severalLanes, flags};
}

/// Shadow of shared memory as one access sees it. Where nothing is in conflict,
/// which is nearly everywhere, it records the access; where it takes a look at
/// each cell, both give false and do nothing.
class PlainCells {
public:
  PlainCells(SharedShadow &shadow, KnownBefore known, unsigned warp)
      : known(known), writes(shadow.writes.data()),
        readers(shadow.readers.data()), reads(shadow.reads.data()),
        ownReads(shadow.reads[warp].data()), me(1u << warp) {}

  [[gnu::always_inline]] bool read(size_t first, size_t count, AccessWord mine);
  [[gnu::always_inline]] bool write(size_t first, size_t count,
                                    AccessWord mine);

private:
  KnownBefore known;
  AccessWord *writes;
  uint32_t *readers;
  const std::vector<AccessWord> *reads;
  AccessWord *ownReads;
  uint32_t me;
};

inline bool PlainCells::read(size_t first, size_t count, AccessWord mine) {
  if (!known.arePlain(writes + first, count))
    return false;
  AccessWord *own = ownReads + first;
  uint32_t *who = readers + first;
  uint32_t all = 0;
  for (size_t i = 0; i < count; ++i)
    all |= who[i];
  for (size_t i = 0; i < count && all & me; ++i)
    if ((who[i] & me) && own[i].segment() == mine.segment())
      own[i] = merged(own[i], mine);
    else
      own[i] = mine;
  for (size_t i = 0; i < count && !(all & me); ++i)
    own[i] = mine;
  for (size_t i = 0; i < count; ++i)
    who[i] |= me;
  return true;
}

/// A write that is not strong.
inline bool PlainCells::write(size_t first, size_t count, AccessWord mine) {
  if (!known.arePlain(writes + first, count))
    return false;
  uint32_t *who = readers + first;
  uint32_t all = 0, common = ~0u;
  for (size_t i = 0; i < count; ++i) {
    all |= who[i];
    common &= who[i];
  }
  for (uint32_t rest = all; rest; rest &= rest - 1) {
    const uint32_t one = rest & -rest;
    const AccessWord *theirs =
        reads[static_cast<unsigned>(std::countr_zero(rest))].data() + first;
    if ((common & one) && isUniform(theirs, count)) {
      if (!known(theirs[0]))
        return false;
      continue;
    }
    for (size_t i = 0; i < count; ++i)
      if ((who[i] & one) && !known(theirs[i]))
        return false;
  }
  for (size_t i = 0; i < count; ++i) {
    who[i] = 0;
    writes[first + i] = mine;
  }
  return true;
}

/// Records a read by a lane, to which `read` may be unordered.
template <typename F>
inline void recordRead(AccessWord &read, AccessWord &otherRead, AccessWord mine,
                       F isOrdered) {
  if (read && read.segment() == mine.segment()) {
    read = merged(read, mine);
    return;
  }
  // Keep an unordered earlier reader: a later write must meet both.
  if (read && !isOrdered(read))
    otherRead = read;
  read = mine;
}

/// As for shared memory.
template <typename F>
inline bool readPlainCells(GlobalShadow &shadow, KnownBefore &known,
                           F isOrdered, size_t first, size_t count,
                           AccessWord mine) {
  if (shadow.everWritten && !known.arePlain(&shadow.writes[first], count))
    return false;
  AccessWord *reads = &shadow.reads[first];
  AccessWord *others = &shadow.otherReads[first];
  AccessWord read = reads[0];
  if (!isUniform(reads, count) || read.segment() == mine.segment()) {
    for (size_t i = 0; i < count; ++i)
      recordRead(reads[i], others[i], mine, isOrdered);
    return true;
  }
  if (read && !isOrdered(read))
    std::fill_n(others, count, read);
  std::fill_n(reads, count, mine);
  return true;
}

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_CHECK_PLAINACCESS_H
