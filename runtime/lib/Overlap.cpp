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
#include <cstdlib>
#include <optional>

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

/// The bytes from the first of a tensor to behind its last.
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

static StridedMemory memoryOf(const PlacedTensor &tensor) {
  const TensorGeometry &geometry = tensor.geometry;
  int64_t bytes = byteSize(geometry.dtype);
  auto offset = static_cast<DevicePointer>(geometry.offset * bytes);
  return {tensor.address + offset, bytes, geometry.sizes, geometry.strides};
}

/// Beyond any memory: sums of such ranges stay in 64 bits.
constexpr int64_t mostBytes = int64_t(1) << 61;

/// How far the elements of an axis lie from its first, in bytes; `mostBytes`
/// where that is farther.
static int64_t reachOf(const StridedMemory &memory, size_t axis) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(memory.sizes[axis] - 1, memory.strides[axis],
                             &bytes) ||
      __builtin_mul_overflow(bytes, memory.elementBytes, &bytes))
    return mostBytes;
  return std::clamp(bytes, -mostBytes, mostBytes);
}

/// From the first byte to behind the last, or nothing where `reach` is too
/// much. Without elements it is empty.
static std::optional<Range> findRange(const StridedMemory &memory) {
  Range range = {memory.address, memory.address};
  for (int64_t size : memory.sizes)
    if (size == 0)
      return range;
  int64_t most = memory.elementBytes;
  range.end += static_cast<DevicePointer>(memory.elementBytes);
  for (size_t axis = 0; axis < memory.sizes.size(); ++axis) {
    int64_t reach = reachOf(memory, axis);
    (reach < 0 ? range.begin : range.end) += static_cast<DevicePointer>(reach);
    most += std::abs(reach);
    if (most >= mostBytes)
      return std::nullopt;
  }
  return range;
}

static Range rangeOf(const PlacedTensor &tensor) {
  auto span = static_cast<DevicePointer>(tensor.geometry.spanBytes());
  return {memoryOf(tensor).address, tensor.address + span};
}

bool flashcore::shareBytes(const StridedMemory &a, const StridedMemory &b) {
  std::optional<Range> ofA = findRange(a), ofB = findRange(b);
  if (!ofA || !ofB)
    return true;
  if (ofA->begin == ofA->end || ofB->begin == ofB->end || !ofA->meets(*ofB))
    return false;
  std::vector<Term> terms;
  for (const StridedMemory *memory : {&a, &b}) {
    terms.push_back({1, memory->elementBytes - 1});
    for (size_t axis = 0; axis < memory->sizes.size(); ++axis)
      if (memory->sizes[axis] > 1)
        terms.push_back({std::abs(memory->strides[axis]) * memory->elementBytes,
                         memory->sizes[axis] - 1});
  }
  // A byte of `a` from its first on, one of `b` back from its last.
  return SumSearch(std::move(terms))
      .reaches(static_cast<int64_t>(ofB->end - 1 - ofA->begin));
}

bool flashcore::shareBytes(const PlacedTensor &a, const PlacedTensor &b) {
  return shareBytes(memoryOf(a), memoryOf(b));
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
