//===- Clock.cpp - What happened before -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Clock.h.
//
//===----------------------------------------------------------------------===//

#include "Clock.h"

#include <algorithm>

using namespace flashcore::emu;

/// More stretches of ended CTAs than this become one.
static constexpr size_t maxRanges = 1024;

void Clock::count() {
  ctas = 0;
  for (size_t i = 0; i < entries.size(); ++i)
    ctas += i == 0 || entries[i].cta != entries[i - 1].cta;
}

ClockPtr Clock::make(std::vector<Entry> entries) {
  if (entries.empty())
    return nullptr;
  auto clock = std::make_shared<Clock>();
  clock->entries = std::move(entries);
  clock->count();
  return clock;
}

bool Clock::hasEnded(uint32_t cta) const {
  auto it = std::partition_point(ended.begin(), ended.end(),
                                 [&](const Range &r) { return r.last < cta; });
  return it != ended.end() && it->first <= cta;
}

bool Clock::covers(uint32_t cta, uint32_t warp, unsigned lane,
                   uint32_t epoch) const {
  if (hasEnded(cta))
    return true;
  const Entry first = {cta, allLanes(warp), 0};
  auto it = std::partition_point(
      entries.begin(), entries.end(),
      [&](const Entry &entry) { return entry.isBefore(first); });
  unsigned lanes = 0;
  for (; it != entries.end() && it->cta == cta &&
         it->threads < allLanes(warp + 1);
       ++it) {
    if (it->epoch < epoch)
      continue;
    if (it->threads == allLanes(warp) || it->threads == oneLane(warp, lane))
      return true;
    ++lanes;
  }
  return lane == severalLanes && lanes >= 2;
}

bool Clock::includes(const Clock &other) const {
  for (const Range &range : other.ended) {
    auto it =
        std::partition_point(ended.begin(), ended.end(), [&](const Range &r) {
          return r.last < range.last;
        });
    if (it == ended.end() || it->first > range.first)
      return false;
  }
  auto mine = entries.begin();
  for (const Entry &entry : other.entries) {
    while (mine != entries.end() && mine->isBefore(entry))
      ++mine;
    bool same = mine != entries.end() && !entry.isBefore(*mine);
    if (same ? mine->epoch >= entry.epoch
             : entry.threads % warpStride &&
                   covers(entry.cta, entry.threads / warpStride,
                          entry.threads % warpStride - 1, entry.epoch))
      continue;
    if (!hasEnded(entry.cta))
      return false;
  }
  return true;
}

void Clock::addEnded(Range range) {
  auto first =
      std::partition_point(ended.begin(), ended.end(), [&](const Range &r) {
        return uint64_t(r.last) + 1 < range.first;
      });
  auto last = first;
  for (; last != ended.end() && last->first <= uint64_t(range.last) + 1;
       ++last) {
    range.first = std::min(range.first, last->first);
    range.last = std::max(range.last, last->last);
  }
  if (first == last) {
    ended.insert(first, range);
  } else {
    *first = range;
    ended.erase(first + 1, last);
  }
  if (ended.size() > maxRanges) {
    ended[1].first = ended[0].first;
    ended.erase(ended.begin());
  }
}

/// Adds an entry that comes after all others. What is known of each lane of a
/// warp is known of the warp, which keeps clocks short.
void Clock::append(const Entry &entry) {
  const uint32_t warp = entry.threads / warpStride;
  auto isOfWarp = [&](const Entry &other) {
    return other.cta == entry.cta && other.threads / warpStride == warp;
  };
  size_t first = entries.size();
  while (first > 0 && isOfWarp(entries[first - 1]))
    --first;
  bool hasWhole =
      first < entries.size() && entries[first].threads % warpStride == 0;
  if (hasWhole && entry.epoch <= entries[first].epoch)
    return;
  entries.push_back(entry);
  if (entries.size() - first - hasWhole < severalLanes)
    return;
  auto lanes = entries.begin() + static_cast<ptrdiff_t>(first + hasWhole);
  uint32_t least = UINT32_MAX;
  for (auto lane = lanes; lane != entries.end(); ++lane)
    least = std::min(least, lane->epoch);
  if (!hasWhole)
    lanes = entries.insert(lanes, {entry.cta, allLanes(warp), 0}) + 1;
  (lanes - 1)->epoch = least;
  entries.erase(
      std::remove_if(lanes, entries.end(),
                     [&](const Entry &lane) { return lane.epoch <= least; }),
      entries.end());
}

ClockPtr Clock::join(const ClockPtr &a, const ClockPtr &b) {
  if (!b || a == b || (a && a->includes(*b)))
    return a;
  if (!a || b->includes(*a))
    return b;
  auto clock = std::make_shared<Clock>();
  clock->ended = a->ended;
  for (const Range &range : b->ended)
    clock->addEnded(range);
  clock->entries.reserve(a->entries.size() + b->entries.size());
  auto add = [&](const Entry &entry) {
    if (clock->ended.empty() || !clock->hasEnded(entry.cta))
      clock->append(entry);
  };
  auto x = a->entries.begin(), y = b->entries.begin();
  while (x != a->entries.end() || y != b->entries.end()) {
    if (y == b->entries.end() || (x != a->entries.end() && x->isBefore(*y))) {
      add(*x++);
    } else if (x == a->entries.end() || y->isBefore(*x)) {
      add(*y++);
    } else {
      add(x->epoch >= y->epoch ? *x : *y);
      ++x;
      ++y;
    }
  }
  clock->count();
  return clock;
}

ClockPtr Clock::without(const ClockPtr &clock, uint32_t cta,
                        const VectorClock &known) {
  auto isKnown = [&](const Entry &entry) {
    return entry.cta == cta && entry.epoch <= known[entry.threads / warpStride];
  };
  if (!clock ||
      std::none_of(clock->entries.begin(), clock->entries.end(), isKnown))
    return clock;
  auto rest = std::make_shared<Clock>(*clock);
  std::erase_if(rest->entries, isKnown);
  if (rest->entries.empty() && rest->ended.empty())
    return nullptr;
  rest->count();
  return rest;
}

ClockPtr Clock::fold(const ClockPtr &clock, size_t keep,
                     const std::vector<uint32_t> &running) {
  auto folded = std::make_shared<Clock>(*clock);
  size_t left = clock->ctas;
  auto isFolded = [&](uint32_t cta) {
    return !std::binary_search(running.begin(), running.end(), cta);
  };
  std::vector<Entry> kept;
  for (size_t i = 0; i < folded->entries.size();) {
    uint32_t cta = folded->entries[i].cta;
    bool drop = left > keep && isFolded(cta);
    --left;
    if (drop)
      folded->addEnded({cta, cta});
    for (; i < folded->entries.size() && folded->entries[i].cta == cta; ++i)
      if (!drop)
        kept.push_back(folded->entries[i]);
  }
  folded->entries = std::move(kept);
  folded->count();
  return folded;
}
