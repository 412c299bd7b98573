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

//===----------------------------------------------------------------------===//
// Warps and CTAs
//===----------------------------------------------------------------------===//

bool LaneEpochs::includes(const LaneEpochs &other) const {
  bool isLess = all < other.all;
  for (unsigned lane = 0; lane < severalLanes; ++lane)
    isLess |= of(lane) < other.lanes[lane];
  return !isLess;
}

void LaneEpochs::add(const LaneEpochs &other) {
  all = std::max(all, other.all);
  for (unsigned lane = 0; lane < severalLanes; ++lane)
    lanes[lane] = std::max(lanes[lane], other.lanes[lane]);
}

void LaneEpochs::normalize() {
  all = std::max(all, *std::min_element(lanes.begin(), lanes.end()));
  for (uint32_t &lane : lanes)
    lane = lane > all ? lane : 0;
}

const LaneEpochs *CtaEpochs::find(uint32_t warp) const {
  auto it = std::find_if(warps.begin(), warps.end(),
                         [&](const Warp &one) { return one.warp >= warp; });
  return it != warps.end() && it->warp == warp ? it->epochs.get() : nullptr;
}

bool CtaEpochs::includes(const CtaEpochs &other) const {
  auto mine = warps.begin();
  for (const Warp &theirs : other.warps) {
    while (mine != warps.end() && mine->warp < theirs.warp)
      ++mine;
    if (mine == warps.end() || mine->warp != theirs.warp ||
        (mine->epochs != theirs.epochs &&
         !mine->epochs->includes(*theirs.epochs)))
      return false;
  }
  return true;
}

using LanePtr = std::shared_ptr<const LaneEpochs>;
using CtaPtr = std::shared_ptr<const CtaEpochs>;

static LanePtr join(const LanePtr &a, const LanePtr &b) {
  if (a == b || a->includes(*b))
    return a;
  if (b->includes(*a))
    return b;
  auto both = std::make_shared<LaneEpochs>(*a);
  both->add(*b);
  both->normalize();
  return both;
}

static CtaPtr join(const CtaPtr &a, const CtaPtr &b) {
  if (a == b || a->includes(*b))
    return a;
  if (b->includes(*a))
    return b;
  auto both = std::make_shared<CtaEpochs>();
  both->warps.reserve(a->warps.size() + b->warps.size());
  auto x = a->warps.begin(), y = b->warps.begin();
  while (x != a->warps.end() || y != b->warps.end()) {
    if (y == b->warps.end() || (x != a->warps.end() && x->warp < y->warp)) {
      both->warps.push_back(*x++);
    } else if (x == a->warps.end() || y->warp < x->warp) {
      both->warps.push_back(*y++);
    } else {
      both->warps.push_back({x->warp, join(x->epochs, y->epochs)});
      ++x;
      ++y;
    }
  }
  return both;
}

//===----------------------------------------------------------------------===//
// Clocks
//===----------------------------------------------------------------------===//

const CtaPtr *Clock::Ctas::find(uint32_t cta) const {
  auto it = std::partition_point(ctas.begin(), ctas.end(),
                                 [&](const Cta &one) { return one.cta < cta; });
  return it != ctas.end() && it->cta == cta ? &it->epochs : nullptr;
}

bool Clock::Ctas::hasEnded(uint32_t cta) const {
  auto it = std::partition_point(ended.begin(), ended.end(),
                                 [&](const Range &r) { return r.last < cta; });
  return it != ended.end() && it->first <= cta;
}

bool Clock::Ctas::hasEnded(const std::vector<Range> &ranges) const {
  return std::all_of(ranges.begin(), ranges.end(), [&](const Range &range) {
    auto it =
        std::partition_point(ended.begin(), ended.end(), [&](const Range &r) {
          return r.last < range.last;
        });
    return it != ended.end() && it->first <= range.first;
  });
}

void Clock::Ctas::set(const Cta &one) {
  auto it =
      std::partition_point(ctas.begin(), ctas.end(), [&](const Cta &other) {
        return other.cta < one.cta;
      });
  bool isThere = it != ctas.end() && it->cta == one.cta;
  if (isThere && one.epochs)
    it->epochs = one.epochs;
  else if (isThere)
    ctas.erase(it);
  else if (one.epochs)
    ctas.insert(it, one);
}

/// Null if there is nothing in it.
ClockPtr Clock::make(Ctas all, uint32_t latest) {
  if (all.ctas.empty() && all.ended.empty())
    return nullptr;
  auto clock = std::make_shared<Clock>();
  clock->latest.cta = latest;
  if (const CtaPtr *epochs = all.find(latest))
    clock->latest.epochs = *epochs;
  all.set({latest, nullptr});
  clock->others = std::make_shared<Ctas>(std::move(all));
  return clock;
}

Clock::Ctas Clock::all() const {
  Ctas all = *others;
  if (latest.epochs)
    all.set(latest);
  return all;
}

const CtaPtr *Clock::find(uint32_t cta) const {
  if (latest.cta == cta && latest.epochs)
    return &latest.epochs;
  return others->find(cta);
}

bool Clock::covers(uint32_t cta, uint32_t warp, unsigned lane,
                   uint32_t epoch) const {
  if (others->hasEnded(cta))
    return true;
  const CtaPtr *epochs = find(cta);
  const LaneEpochs *known = epochs ? (*epochs)->find(warp) : nullptr;
  if (!known)
    return false;
  if (lane != severalLanes)
    return known->of(lane) >= epoch;
  return known->all >= epoch ||
         std::count_if(known->lanes.begin(), known->lanes.end(),
                       [&](uint32_t one) { return one >= epoch; }) >= 2;
}

bool Clock::includes(const Cta &theirs) const {
  const CtaPtr *mine = find(theirs.cta);
  return (mine &&
          (*mine == theirs.epochs || (*mine)->includes(*theirs.epochs))) ||
         others->hasEnded(theirs.cta);
}

bool Clock::includes(const Clock &other) const {
  if (other.latest.epochs && !includes(other.latest))
    return false;
  return others == other.others ||
         (others->hasEnded(other.others->ended) &&
          std::all_of(other.others->ctas.begin(), other.others->ctas.end(),
                      [&](const Cta &theirs) { return includes(theirs); }));
}

void Clock::Ctas::addEnded(Range range) {
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

ClockPtr Clock::join(const ClockPtr &a, const ClockPtr &b) {
  if (!b || a == b || (a && a->includes(*b)))
    return a;
  if (!a || b->includes(*a))
    return b;
  if (a->isLike(*b)) {
    auto both = std::make_shared<Clock>(*a);
    both->latest.epochs = ::join(a->latest.epochs, b->latest.epochs);
    return both;
  }
  const Ctas left = a->all(), right = b->all();
  Ctas both;
  both.ended = left.ended;
  for (const Range &range : right.ended)
    both.addEnded(range);
  both.ctas.reserve(left.ctas.size() + right.ctas.size());
  auto add = [&](const Cta &one) {
    if (both.ended.empty() || !both.hasEnded(one.cta))
      both.ctas.push_back(one);
  };
  auto x = left.ctas.begin(), y = right.ctas.begin();
  while (x != left.ctas.end() || y != right.ctas.end()) {
    if (y == right.ctas.end() || (x != left.ctas.end() && x->cta < y->cta)) {
      add(*x++);
    } else if (x == left.ctas.end() || y->cta < x->cta) {
      add(*y++);
    } else {
      add({x->cta, ::join(x->epochs, y->epochs)});
      ++x;
      ++y;
    }
  }
  return make(std::move(both), a->latest.cta);
}

ClockPtr Clock::ofCta(uint32_t cta, const VectorClock &known) {
  auto epochs = std::make_shared<CtaEpochs>();
  for (uint32_t warp = 0; warp < maxWarps; ++warp) {
    if (!known[warp])
      continue;
    auto lanes = std::make_shared<LaneEpochs>();
    lanes->all = known[warp];
    epochs->warps.push_back({warp, std::move(lanes)});
  }
  if (epochs->warps.empty())
    return nullptr;
  Ctas all;
  all.ctas.push_back({cta, std::move(epochs)});
  return make(std::move(all), cta);
}

ClockPtr Clock::ofOne(const ClockPtr &clock, uint32_t cta) {
  const CtaPtr *epochs = clock ? clock->find(cta) : nullptr;
  if (!epochs)
    return nullptr;
  Ctas one;
  one.ctas.push_back({cta, *epochs});
  return make(std::move(one), cta);
}

static LanePtr with(const LanePtr &epochs, const Clock::Entry &entry) {
  auto lanes = epochs ? std::make_shared<LaneEpochs>(*epochs)
                      : std::make_shared<LaneEpochs>();
  uint32_t lane = entry.threads % Clock::warpStride;
  (lane ? lanes->lanes[lane - 1] : lanes->all) = entry.epoch;
  lanes->normalize();
  return lanes;
}

static CtaPtr with(const CtaPtr &epochs, const Clock::Entry &entry) {
  const uint32_t warp = entry.threads / Clock::warpStride;
  auto more = std::make_shared<CtaEpochs>();
  if (epochs) {
    more->warps.reserve(epochs->warps.size() + 1);
    more->warps = epochs->warps;
  }
  auto it = std::partition_point(
      more->warps.begin(), more->warps.end(),
      [&](const CtaEpochs::Warp &one) { return one.warp < warp; });
  if (it == more->warps.end() || it->warp != warp)
    it = more->warps.insert(it, {warp, nullptr});
  it->epochs = with(it->epochs, entry);
  return more;
}

ClockPtr Clock::with(const ClockPtr &clock, const Entry &entry) {
  const uint32_t warp = entry.threads / warpStride;
  const uint32_t lane = entry.threads % warpStride;
  const CtaPtr *epochs = clock ? clock->find(entry.cta) : nullptr;
  if (const LaneEpochs *known = epochs ? (*epochs)->find(warp) : nullptr)
    if ((lane ? known->of(lane - 1) : known->all) >= entry.epoch)
      return clock;
  if (clock && clock->others->hasEnded(entry.cta))
    return clock;
  Cta more = {entry.cta, ::with(epochs ? *epochs : nullptr, entry)};
  if (clock && clock->latest.cta == entry.cta) {
    auto same = std::make_shared<Clock>(*clock);
    same->latest = std::move(more);
    return same;
  }
  Ctas all = clock ? clock->all() : Ctas();
  all.set(more);
  return make(std::move(all), entry.cta);
}

/// Without what is known of a CTA already; null if nothing is left.
static CtaPtr without(const CtaPtr &epochs, const VectorClock &known) {
  auto isKnown = [&](const CtaEpochs::Warp &one) {
    auto isOld = [&](uint32_t epoch) {
      return epoch && epoch <= known[one.warp];
    };
    return isOld(one.epochs->all) ||
           std::any_of(one.epochs->lanes.begin(), one.epochs->lanes.end(),
                       isOld);
  };
  if (std::none_of(epochs->warps.begin(), epochs->warps.end(), isKnown))
    return epochs;
  auto rest = std::make_shared<CtaEpochs>();
  for (const CtaEpochs::Warp &one : epochs->warps) {
    LaneEpochs lanes = *one.epochs;
    const uint32_t least = known[one.warp];
    lanes.all = lanes.all > least ? lanes.all : 0;
    for (uint32_t &epoch : lanes.lanes)
      epoch = epoch > least ? epoch : 0;
    if (lanes.includes({}) && LaneEpochs().includes(lanes))
      continue;
    rest->warps.push_back({one.warp, std::make_shared<LaneEpochs>(lanes)});
  }
  return rest->warps.empty() ? nullptr : rest;
}

ClockPtr Clock::without(const ClockPtr &clock, uint32_t cta,
                        const VectorClock &known) {
  const CtaPtr *epochs = clock ? clock->find(cta) : nullptr;
  if (!epochs)
    return clock;
  CtaPtr left = ::without(*epochs, known);
  if (left == *epochs)
    return clock;
  Ctas all = clock->all();
  all.set({cta, std::move(left)});
  return make(std::move(all), clock->latest.cta);
}

ClockPtr Clock::fold(const ClockPtr &clock, size_t keep,
                     const std::vector<uint32_t> &running) {
  const Ctas all = clock->all();
  Ctas folded;
  folded.ended = all.ended;
  size_t left = all.ctas.size();
  for (const Cta &one : all.ctas) {
    bool isRunning =
        std::binary_search(running.begin(), running.end(), one.cta);
    if (left-- > keep && !isRunning)
      folded.addEnded({one.cta, one.cta});
    else
      folded.ctas.push_back(one);
  }
  return make(std::move(folded), clock->latest.cta);
}
