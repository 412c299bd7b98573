//===- Overlap.cpp - Tensors that share bytes -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two tensors share a byte where a sum of multiples of their strides, each as
// often as its axis is long, is the distance of one's first byte from the
// other's last. With the largest stride first, few multiples of it are left to
// try, and where all smaller ones together make every number, none.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Overlap.h"

#include <algorithm>

using namespace flashcore;

namespace {
/// `most` multiples of `stride` bytes at most.
struct Term {
  int64_t stride, most;
};

/// Whether a sum of terms is a number.
class SumSearch {
public:
  explicit SumSearch(std::vector<Term> given);
  bool reaches(int64_t sum) { return reachesFrom(0, sum); }

private:
  bool reachesFrom(size_t first, int64_t sum);

  std::vector<Term> terms; ///< with the largest stride first
  /// Of the terms from a position on: their largest sum, and whether they make
  /// every number up to it.
  std::vector<int64_t> largest;
  std::vector<bool> makesAll;
  int steps = 1 << 14;
};

/// The bytes from the first of `tensor` to behind its last.
struct Range {
  DevicePointer begin, end;
  bool meets(const Range &other) const {
    return begin < other.end && other.begin < end;
  }
};
} // namespace

SumSearch::SumSearch(std::vector<Term> given) {
  std::sort(given.begin(), given.end(),
            [](const Term &a, const Term &b) { return a.stride > b.stride; });
  for (const Term &term : given) {
    if (term.stride == 0 || term.most == 0)
      continue;
    if (!terms.empty() && terms.back().stride == term.stride)
      terms.back().most += term.most;
    else
      terms.push_back(term);
  }
  largest.assign(terms.size() + 1, 0);
  makesAll.assign(terms.size() + 1, true);
  for (size_t i = terms.size(); i-- > 0;) {
    largest[i] = largest[i + 1] + terms[i].stride * terms[i].most;
    makesAll[i] = makesAll[i + 1] && terms[i].stride <= largest[i + 1] + 1;
  }
}

bool SumSearch::reachesFrom(size_t first, int64_t sum) {
  if (sum < 0 || sum > largest[first])
    return false;
  if (makesAll[first] || sum == 0 || --steps < 0)
    return true;
  const Term &term = terms[first];
  int64_t rest = largest[first + 1];
  int64_t least = sum > rest ? (sum - rest + term.stride - 1) / term.stride : 0;
  for (int64_t times = std::min(term.most, sum / term.stride); times >= least;
       --times)
    if (reachesFrom(first + 1, sum - times * term.stride))
      return true;
  return false;
}

static Range rangeOf(const PlacedTensor &tensor) {
  auto offset = static_cast<DevicePointer>(tensor.geometry.offset *
                                           byteSize(tensor.geometry.dtype));
  auto span = static_cast<DevicePointer>(tensor.geometry.spanBytes());
  return {tensor.address + offset, tensor.address + span};
}

bool flashcore::shareBytes(const PlacedTensor &a, const PlacedTensor &b) {
  Range ofA = rangeOf(a), ofB = rangeOf(b);
  if (!ofA.meets(ofB))
    return false;
  // Beyond any memory: sums stay in 64 bits.
  constexpr DevicePointer most = DevicePointer(1) << 61;
  if (ofA.end - ofA.begin > most || ofB.end - ofB.begin > most)
    return true;
  std::vector<Term> terms;
  for (const TensorGeometry *tensor : {&a.geometry, &b.geometry}) {
    int64_t bytes = byteSize(tensor->dtype);
    terms.push_back({1, bytes - 1});
    for (size_t axis = 0; axis < tensor->sizes.size(); ++axis)
      terms.push_back({tensor->strides[axis] * bytes, tensor->sizes[axis] - 1});
  }
  // A byte of `a` from its first on, one of `b` back from its last.
  return SumSearch(std::move(terms))
      .reaches(static_cast<int64_t>(ofB.end - 1 - ofA.begin));
}

/// "the output 'o'".
static std::string describe(const TensorGeometry &tensor) {
  const char *role = tensor.role == TensorSpec::Role::Output ? "the output '"
                     : tensor.role == TensorSpec::Role::Updated
                         ? "the updated '"
                         : "the input '";
  return role + tensor.name + "'";
}

Status flashcore::verifyOverlaps(const Problem &problem,
                                 std::span<const DevicePointer> pointers,
                                 DevicePointer workspace) {
  const std::vector<TensorGeometry> &tensors = problem.tensors();
  Range ofWorkspace = {workspace, workspace + static_cast<DevicePointer>(
                                                  problem.workspaceBytes())};
  for (size_t i = 0; i < tensors.size(); ++i) {
    PlacedTensor placed = {tensors[i], pointers[i]};
    Range range = rangeOf(placed);
    if (range.begin < range.end && ofWorkspace.begin < ofWorkspace.end &&
        range.meets(ofWorkspace))
      return Status::error("expects a workspace beside all tensors, but got "
                           "one that overlaps " +
                           describe(tensors[i]))
          .note("a launch writes it: pass memory that nothing else has");
    if (tensors[i].role == TensorSpec::Role::Input || range.begin >= range.end)
      continue;
    for (size_t other = 0; other < tensors.size(); ++other) {
      bool isSeen = other < i && tensors[other].role != TensorSpec::Role::Input;
      // Which of their rows are written, lengths and pages say: k and v may
      // have theirs in one pool.
      bool areUpdated = tensors[i].role == TensorSpec::Role::Updated &&
                        tensors[other].role == TensorSpec::Role::Updated;
      PlacedTensor beside = {tensors[other], pointers[other]};
      if (other == i || isSeen || areUpdated || !shareBytes(placed, beside))
        continue;
      return Status::error("expects " + describe(tensors[i]) +
                           " in memory of its own, but got one that overlaps " +
                           describe(tensors[other]))
          .note("some blocks write it while others still read: pass other "
                "memory, or a copy of '" +
                tensors[other].name + "'");
    }
  }
  return Status::success();
}
