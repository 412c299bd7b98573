//===- Overlap.cpp - Whether tensors share memory -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Most tensors lie apart, which their first and last bytes say. Of others we
// ask for whole numbers i and j within the sizes with
//
//   a + sum(i * strides of a) + byte = b + sum(j * strides of b) + byte,
//
// from the largest stride to the smallest. What the smaller ones can reach
// leaves few choices of each, since strides of one memory are much alike: equal
// ones become one unknown, i - j.
//
//===----------------------------------------------------------------------===//

#include "Overlap.h"

#include <algorithm>
#include <array>

using namespace flashcore::python;

namespace {
/// An unknown from `low` to `high`, counted in steps of `stride` bytes.
struct Term {
  int64_t stride, low, high;
};

/// The terms of an equation.
class Equation {
public:
  void add(int64_t stride, int64_t low, int64_t high);
  /// Whether the terms can be `sum`.
  bool canBe(int64_t sum);

private:
  bool search(size_t term, int64_t sum);

  std::array<Term, 2 * maxRank + 1> terms = {};
  /// What the terms from each on can be, at least and at most.
  std::array<int64_t, 2 * maxRank + 2> least = {}, most = {};
  size_t count = 0;
  int stepsLeft = 4096;
};
} // namespace

void Equation::add(int64_t stride, int64_t low, int64_t high) {
  if (stride < 0)
    return add(-stride, -high, -low);
  if (stride == 0 || (low == 0 && high == 0))
    return;
  for (size_t i = 0; i < count; ++i)
    if (terms[i].stride == stride) {
      terms[i].low += low;
      terms[i].high += high;
      return;
    }
  terms[count++] = {stride, low, high};
}

bool Equation::canBe(int64_t sum) {
  std::sort(terms.begin(), terms.begin() + count,
            [](const Term &a, const Term &b) { return a.stride > b.stride; });
  for (size_t i = count; i-- > 0;) {
    least[i] = least[i + 1] + terms[i].stride * terms[i].low;
    most[i] = most[i + 1] + terms[i].stride * terms[i].high;
  }
  return search(0, sum);
}

static int64_t floorDiv(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && a < 0);
}

bool Equation::search(size_t term, int64_t sum) {
  if (term == count)
    return sum == 0;
  if (--stepsLeft < 0)
    return true;
  const Term &mine = terms[term];
  int64_t low =
      std::max(mine.low, -floorDiv(most[term + 1] - sum, mine.stride));
  int64_t high =
      std::min(mine.high, floorDiv(sum - least[term + 1], mine.stride));
  for (int64_t i = low; i <= high; ++i)
    if (search(term + 1, sum - i * mine.stride))
      return true;
  return false;
}

namespace {
/// The bytes from the first element to the end of the last.
struct Span {
  uint64_t first = 0, end = 0;
};
} // namespace

static Span spanOf(const TensorView &view) {
  uint64_t bytes = (view.dtype.bits + 7) / 8;
  Span span = {view.pointer, view.pointer + bytes};
  for (int i = 0; i < view.rank; ++i) {
    if (view.sizes[i] == 0)
      return {};
    auto reach = static_cast<uint64_t>((view.sizes[i] - 1) * view.strides[i]);
    (view.strides[i] < 0 ? span.first : span.end) += reach * bytes;
  }
  return span;
}

bool flashcore::python::overlap(const TensorView &a, const TensorView &b) {
  if (a.rank > maxRank || b.rank > maxRank || a.dtype.bits == 0 ||
      b.dtype.bits == 0)
    return false; // others refuse these
  Span ofA = spanOf(a), ofB = spanOf(b);
  if (ofA.end <= ofB.first || ofB.end <= ofA.first)
    return false;
  Equation equation;
  int64_t bytesOfA = (a.dtype.bits + 7) / 8, bytesOfB = (b.dtype.bits + 7) / 8;
  for (int i = 0; i < a.rank; ++i)
    equation.add(a.strides[i] * bytesOfA, 0, a.sizes[i] - 1);
  for (int i = 0; i < b.rank; ++i)
    equation.add(b.strides[i] * bytesOfB, 1 - b.sizes[i], 0);
  equation.add(1, 1 - bytesOfB, bytesOfA - 1);
  return equation.canBe(static_cast<int64_t>(b.pointer - a.pointer));
}
