//===- Layout.cpp - Tensors, labels and fragments -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns element numbers into indices and judges one operand of an mma. See
// Layout.h. A correct fragment is nearly always one stretch of rows times one
// stretch of products, which is recognised without looking at each element's
// indices; all else goes through analyze().
//
//===----------------------------------------------------------------------===//

#include "Layout.h"
#include "../sim/Machine.h"

#include <algorithm>

using namespace flashcore::emu;

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

bool flashcore::emu::completeLayout(TensorLayout &layout, uint64_t bytes) {
  const std::vector<uint64_t> &shape = layout.shape;
  if (layout.elementBytes == 0 || layout.offset > bytes)
    return false;
  if (layout.strides.empty()) {
    layout.strides.assign(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;)
      if (__builtin_mul_overflow(layout.strides[i],
                                 std::max<uint64_t>(shape[i], 1),
                                 &layout.strides[i - 1]))
        return false;
  }
  if (layout.strides.size() != shape.size())
    return false;
  if (std::find(shape.begin(), shape.end(), 0u) != shape.end())
    return true;
  std::vector<std::pair<uint64_t, uint64_t>> axes; // stride, extent
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] > 1)
      axes.emplace_back(layout.strides[i], shape[i]);
  std::sort(axes.begin(), axes.end());
  // The place of the last element of the axes so far.
  uint64_t last = 0;
  for (auto [stride, extent] : axes) {
    uint64_t span;
    if (stride <= last || __builtin_mul_overflow(stride, extent - 1, &span) ||
        __builtin_add_overflow(last, span, &last))
      return false;
  }
  return last < (bytes - layout.offset) / layout.elementBytes;
}

void TensorTable::add(const Buffer &buffer) {
  const TensorLayout &layout = *buffer.layout;
  Tensor tensor;
  tensor.name = buffer.name;
  tensor.begin = buffer.data.data() + layout.offset;
  tensor.elementBytes = layout.elementBytes;
  tensor.rank = static_cast<unsigned>(layout.shape.size());
  uint64_t elements = 1;
  unsigned nextDim = static_cast<unsigned>(dims.size());
  for (unsigned i = 0; i < tensor.rank; ++i) {
    uint64_t extent = layout.shape[i], stride = layout.strides[i];
    if (extent >> indexBits || extent == 0)
      return;
    if (extent > 1)
      tensor.axes.push_back({nextDim++, i, extent, stride});
    elements += (extent - 1) * stride;
  }
  // Other element sizes have no place in a 16-bit fragment.
  if ((tensor.elementBytes != 2 && tensor.elementBytes != 4) ||
      tensor.axes.size() > maxAxes || nextDim > 255 ||
      elements >= muted - nextElement)
    return;
  std::sort(tensor.axes.begin(), tensor.axes.end(),
            [](const TensorAxis &a, const TensorAxis &b) {
              return a.stride > b.stride;
            });
  uint64_t indices = 1;
  for (const TensorAxis &axis : tensor.axes)
    indices *= axis.extent;
  tensor.hasPadding = indices != elements;
  tensor.bytes = elements * tensor.elementBytes;
  tensor.firstElement = nextElement;
  tensor.numElements = static_cast<uint32_t>(elements);
  nextElement += tensor.numElements;
  dims.resize(nextDim);
  for (unsigned i = 0; i < tensor.axes.size(); ++i)
    dims[tensor.axes[i].dim] = {static_cast<unsigned>(tensors.size()), i};
  tensors.push_back(std::move(tensor));
}

void TensorTable::labelWords(const uint8_t *host, unsigned count,
                             Label *out) const {
  for (const Tensor &tensor : tensors) {
    uint64_t offset = reinterpret_cast<uintptr_t>(host) -
                      reinterpret_cast<uintptr_t>(tensor.begin);
    if (offset >= tensor.bytes || offset % 2)
      continue;
    uint64_t word = offset / 2, step = tensor.elementBytes / 2;
    if (step == 1 && word + count <= tensor.numElements) {
      uint32_t first = tensor.firstElement + static_cast<uint32_t>(word);
      for (unsigned i = 0; i < count; ++i)
        out[i] = memoryLabel(first + i);
      return;
    }
    for (unsigned i = 0; i < count; ++i) {
      uint64_t element = step == 1 ? word + i : (word + i) / step;
      bool isStart = step == 1 || (word + i) % step == 0;
      out[i] = isStart && element < tensor.numElements
                   ? memoryLabel(tensor.firstElement +
                                 static_cast<uint32_t>(element))
                   : 0;
    }
    return;
  }
  std::fill_n(out, count, Label(0));
}

const Tensor *TensorTable::owner(uint32_t element) const {
  for (const Tensor &tensor : tensors)
    if (element - tensor.firstElement < tensor.numElements)
      return &tensor;
  return nullptr;
}

bool TensorTable::components(const Tensor &tensor, uint32_t element,
                             Component (&out)[maxAxes]) const {
  uint32_t rest = element - tensor.firstElement;
  for (size_t i = 0; i < tensor.axes.size(); ++i) {
    const TensorAxis &axis = tensor.axes[i];
    uint32_t stride = static_cast<uint32_t>(axis.stride);
    uint32_t index = rest / stride;
    rest %= stride;
    if (index >= axis.extent)
      return false;
    out[i] = axis.dim << indexBits | index;
  }
  return rest == 0;
}

std::string TensorTable::describe(Component component) const {
  const Tensor &tensor = tensors[dims[dimOf(component)].first];
  const TensorAxis &named = axis(dimOf(component));
  std::string text = "'" + tensor.name + "'[";
  for (unsigned i = 0; i < tensor.rank; ++i) {
    text += i ? "," : "";
    text += i == named.position ? std::to_string(indexOf(component)) : ":";
  }
  return text + "]";
}

//===----------------------------------------------------------------------===//
// Products in memory
//===----------------------------------------------------------------------===//

const Tensor *TensorTable::find(const uint8_t *host, uint32_t &element) const {
  for (const Tensor &tensor : tensors) {
    uint64_t offset = reinterpret_cast<uintptr_t>(host) -
                      reinterpret_cast<uintptr_t>(tensor.begin);
    if (offset >= tensor.bytes)
      continue;
    element = static_cast<uint32_t>(offset / tensor.elementBytes);
    return offset % tensor.elementBytes ? nullptr : &tensor;
  }
  return nullptr;
}

unsigned TensorTable::placeFromLast(Component component) const {
  const Tensor &tensor = tensors[dims[dimOf(component)].first];
  return tensor.rank - axis(dimOf(component)).position;
}

/// The axis of `tensor` at that place from the last if a component of another
/// tensor may be an index of it; -1 if not.
int TensorTable::axisLike(const Tensor &tensor, Component component,
                          unsigned fromLast) const {
  uint64_t extent = axis(dimOf(component)).extent;
  if (&tensors[dims[dimOf(component)].first] != &tensor)
    for (size_t i = 0; i < tensor.axes.size(); ++i)
      if (tensor.axes[i].extent == extent &&
          tensor.rank - tensor.axes[i].position == fromLast)
        return static_cast<int>(i);
  return -1;
}

ProductAxes TensorTable::axesLike(const Tensor &tensor, Label label) const {
  Component components[] = {lowWord(label), highWord(label)};
  int found[] = {-1, -1};
  unsigned place[] = {0, 0};
  for (unsigned i = 0; i < 2; ++i)
    if (isKnown(components[i])) {
      place[i] = placeFromLast(components[i]);
      found[i] = axisLike(tensor, components[i], place[i]);
    }
  // A column is one of the last axis, even if B has it before the contracted
  // one, and a row is one of the axis before. Without the other, that is what
  // tells which axis of a square matrix is meant.
  for (unsigned i = 0; i < 2; ++i) {
    if (place[i] != 1 + i)
      continue;
    int usual = axisLike(tensor, components[i], 2 - i);
    bool isAlone = usual >= 0 && !isKnown(components[1 - i]);
    if (found[i] < 0 || found[i] == found[1 - i] || isAlone)
      found[i] = usual;
  }
  // Square matrices, one of them transposed.
  if (found[0] == found[1])
    return {};
  return {found[0], found[1]};
}

uint32_t TensorTable::elementOf(const Tensor &tensor, uint32_t element,
                                Label label, ProductAxes axes) const {
  uint32_t moved = element;
  auto move = [&](int along, Component component) {
    if (along < 0)
      return;
    auto i = static_cast<size_t>(along);
    moved += (indexOf(component) - tensor.indexAlong(i, element)) *
             static_cast<uint32_t>(tensor.axes[i].stride);
  };
  move(axes.row, lowWord(label));
  move(axes.column, highWord(label));
  return moved;
}

std::string TensorTable::describe(const Tensor &tensor,
                                  uint32_t element) const {
  std::vector<uint32_t> indices(tensor.rank, 0);
  for (size_t i = 0; i < tensor.axes.size(); ++i)
    indices[tensor.axes[i].position] = tensor.indexAlong(i, element);
  std::string text = "'" + tensor.name + "'[";
  for (size_t i = 0; i < indices.size(); ++i) {
    text += i ? "," : "";
    text += std::to_string(indices[i]);
  }
  return text + "]";
}

//===----------------------------------------------------------------------===//
// Labels by axis
//===----------------------------------------------------------------------===//

namespace {
/// What a label says of each axis it can move along.
struct LabelAxes {
  /// 0 where the label does not know the axis.
  Component component[TensorTable::maxAxes] = {};
  /// How much a label grows with the index.
  uint64_t stride[TensorTable::maxAxes] = {};
  unsigned count = 0;
  /// Of a memory label.
  const Tensor *tensor = nullptr;
};
} // namespace

static LabelAxes axesOf(Label label, const TensorTable &tensors) {
  LabelAxes out;
  if (isMemory(label)) {
    out.tensor = tensors.owner(lowWord(label));
    if (!out.tensor ||
        !tensors.components(*out.tensor, lowWord(label), out.component))
      return out;
    out.count = static_cast<unsigned>(out.tensor->axes.size());
    for (unsigned i = 0; i < out.count; ++i)
      out.stride[i] = out.tensor->axes[i].stride;
    return out;
  }
  Component words[] = {lowWord(label), highWord(label)};
  for (Component word : words) {
    out.stride[out.count] = out.count ? productLabel(0, 1) : 1;
    out.component[out.count++] = isKnown(word) ? word : 0;
  }
  return out;
}

//===----------------------------------------------------------------------===//
// Fragments that are one stretch of rows and products
//===----------------------------------------------------------------------===//

/// The axis along which labels grow by `step` and still do after `length`
/// elements; -1 if there is none.
static int advancingAxis(const LabelAxes &axes, uint64_t step, unsigned length,
                         const TensorTable &tensors) {
  for (unsigned i = 0; i < axes.count; ++i) {
    Component first = axes.component[i];
    if (axes.stride[i] == step && first &&
        indexOf(first) + length <= tensors.axis(dimOf(first)).extent)
      return static_cast<int>(i);
  }
  return -1;
}

static bool summarizeStretch(const FragmentLabels &labels,
                             const TensorTable &tensors,
                             const LabelKernels &kernels,
                             FragmentSummary &out) {
  unsigned stretch = labels.stretch(), perRegister = labels.perRegister;
  unsigned numRegisters = labels.rows / 8 * labels.depth / stretch;
  for (unsigned i = 0; i < numRegisters; ++i)
    for (unsigned half = 0; half < perRegister; ++half)
      if (!labels.halves[2 * i + half])
        return false;
  Label first = labels.at(0, 0);
  uint64_t kStep = labels.at(0, 1) - first, rowStep = labels.at(1, 0) - first;
  LabelAxes axes = axesOf(first, tensors);
  int k = advancingAxis(axes, kStep, labels.depth, tensors);
  int row = advancingAxis(axes, rowStep, labels.rows, tensors);
  if (k < 0 || row < 0 || k == row)
    return false;
  for (unsigned k0 = 0; k0 < labels.depth; k0 += stretch)
    for (unsigned row0 = 0; row0 < labels.rows; row0 += 8)
      for (unsigned half = 0; half < perRegister; ++half)
        if (!kernels.matches(
                labels.halves[2 * labels.registerOf(row0, k0) + half],
                first + row0 * rowStep + (k0 + half) * kStep, rowStep,
                perRegister * kStep))
          return false;
  Component firstK = axes.component[k], firstRow = axes.component[row];
  for (unsigned i = 0; i < labels.depth; ++i)
    out.k[i] = firstK + i;
  for (unsigned i = 0; i < labels.rows; ++i)
    out.row[i] = firstRow + i;
  out.isLabelled = out.isStretch = out.isContiguous = true;
  out.kDim = dimOf(firstK);
  out.rowDim = dimOf(firstRow);
  out.outer =
      lowWord(first - indexOf(firstK) * kStep - indexOf(firstRow) * rowStep);
  return true;
}

//===----------------------------------------------------------------------===//
// Any fragment
//===----------------------------------------------------------------------===//

namespace {
/// Positions of axes, -1 for none.
struct FragmentAxes {
  int k = -1, row = -1;
};

/// The components of each element of a fragment on each of its axes.
class FragmentGrid {
public:
  FragmentGrid(const FragmentLabels &labels, const TensorTable &tensors)
      : rows(labels.rows), depth(labels.depth) {
    for (unsigned row = 0; row < rows && isUniform; ++row)
      for (unsigned k = 0; k < depth && isUniform; ++k)
        addElement(labels.at(row, k), row, k, tensors);
  }

  FragmentSummary summarize() const;

private:
  void addElement(Label label, unsigned row, unsigned k,
                  const TensorTable &tensors);
  unsigned countSteps(unsigned axis, bool alongK) const;
  FragmentAxes findAxes() const;
  Component commonAt(unsigned axis, unsigned k, unsigned &row) const;
  void summarizeProducts(unsigned axis, bool hasRows,
                         FragmentSummary &out) const;
  void summarizeRows(unsigned axis, FragmentSummary &out) const;

  unsigned rows, depth;
  Component grid[TensorTable::maxAxes][16][16] = {};
  unsigned numAxes = 0;
  /// Of the first element that has a label; the others must be alike.
  const Tensor *tensor = nullptr;
  unsigned dims[TensorTable::maxAxes] = {};
  bool isUniform = true;
  /// The first label without its place on each axis.
  LabelAxes first;
  Label firstLabel = 0;
};
} // namespace

void FragmentGrid::addElement(Label label, unsigned row, unsigned k,
                              const TensorTable &tensors) {
  if (label == 0)
    return;
  LabelAxes axes = axesOf(label, tensors);
  bool isAnyKnown = false;
  for (unsigned i = 0; i < axes.count; ++i)
    isAnyKnown |= axes.component[i] != 0;
  if (!isAnyKnown)
    return;
  if (numAxes == 0) {
    numAxes = axes.count;
    tensor = axes.tensor;
    first = axes;
    firstLabel = label;
  }
  isUniform &= tensor == axes.tensor;
  for (unsigned i = 0; i < axes.count && isUniform; ++i) {
    Component component = axes.component[i];
    if (!component)
      continue;
    dims[i] = dims[i] ? dims[i] : dimOf(component);
    isUniform &= dims[i] == dimOf(component);
    grid[i][row][k] = component;
  }
}

/// How often the index changes from one element to the next.
unsigned FragmentGrid::countSteps(unsigned axis, bool alongK) const {
  unsigned count = 0;
  for (unsigned row = 0; row + !alongK < rows; ++row)
    for (unsigned k = 0; k + alongK < depth; k += 1 + alongK) {
      Component here = grid[axis][row][k];
      Component next = grid[axis][row + !alongK][k + alongK];
      count += here && next && here != next;
    }
  return count;
}

/// The axis of the products and that of the rows: the two that explain most of
/// the steps. One that moves in both directions, as that of the rows does where
/// each k was read at other rows, leaves k to another that moves along it.
FragmentAxes FragmentGrid::findAxes() const {
  // Shares of the possible steps: depth / 2 in each row, rows - 1 at each k.
  unsigned alongK[TensorTable::maxAxes], alongRows[TensorTable::maxAxes];
  for (unsigned axis = 0; axis < numAxes; ++axis) {
    alongK[axis] = 2 * (rows - 1) * countSteps(axis, /*alongK=*/true);
    alongRows[axis] = rows * countSteps(axis, /*alongK=*/false);
  }
  FragmentAxes best;
  unsigned most = 0;
  const int count = static_cast<int>(numAxes);
  for (int k = 0; k < count; ++k)
    for (int row = -1; row < count && alongK[k]; ++row) {
      const unsigned sum = alongK[k] + (row < 0 ? 0 : alongRows[row]);
      if (row == k || sum <= most)
        continue;
      most = sum;
      best = {k, row};
    }
  return best;
}

/// The component most rows have at one k, and such a row.
Component FragmentGrid::commonAt(unsigned axis, unsigned k,
                                 unsigned &row) const {
  Component best = 0;
  unsigned most = 0;
  for (unsigned i = 0; i < rows; ++i) {
    Component here = grid[axis][i][k];
    unsigned same = 0;
    for (unsigned j = i; j < rows; ++j)
      same += grid[axis][j][k] == here;
    if (here && same > most) {
      best = here;
      most = same;
      row = i;
    }
  }
  return best;
}

void FragmentGrid::summarizeProducts(unsigned axis, bool hasRows,
                                     FragmentSummary &out) const {
  uint32_t low = UINT32_MAX, high = 0;
  bool isDistinct = true;
  for (unsigned k = 0; k < depth; ++k) {
    unsigned row = 0;
    Component common = commonAt(axis, k, row);
    out.k[k] = common;
    if (!common)
      continue;
    for (unsigned other = 0; other < rows; ++other) {
      Component here = grid[axis][other][k];
      if (!here || here == common)
        continue;
      if (!out.kConflict.exists)
        out.kConflict = {true, {row, other}, {k, k}, {common, here}};
      // Without a row axis, rows may be what moves along this one.
      if (!hasRows)
        out.k[k] = 0;
    }
    isDistinct &= std::find(out.k, out.k + k, common) == out.k + k;
    low = std::min(low, common);
    high = std::max(high, common);
  }
  out.kConflict.exists &= hasRows;
  out.isContiguous = isDistinct && high >= low && high - low < depth;
}

void FragmentGrid::summarizeRows(unsigned axis, FragmentSummary &out) const {
  for (unsigned row = 0; row < rows; ++row) {
    unsigned firstK = depth;
    for (unsigned k = 0; k < depth; ++k) {
      Component here = grid[axis][row][k];
      if (!here)
        continue;
      if (firstK == depth) {
        firstK = k;
        out.row[row] = here;
      } else if (here != grid[axis][row][firstK]) {
        if (!out.rowConflict.exists)
          out.rowConflict = {
              true, {row, row}, {firstK, k}, {grid[axis][row][firstK], here}};
        out.row[row] = 0;
        break;
      }
    }
  }
}

FragmentSummary FragmentGrid::summarize() const {
  FragmentSummary out;
  const auto [k, row] = isUniform ? findAxes() : FragmentAxes();
  if (k < 0)
    return out;
  out.isLabelled = true;
  out.kDim = dims[k];
  summarizeProducts(static_cast<unsigned>(k), row >= 0, out);
  uint64_t own = indexOf(first.component[k]) * first.stride[k];
  if (row >= 0) {
    out.rowDim = dims[row];
    summarizeRows(static_cast<unsigned>(row), out);
    own += indexOf(first.component[row]) * first.stride[row];
  }
  out.outer = lowWord(firstLabel - own);
  return out;
}

FragmentSummary flashcore::emu::summarize(const FragmentLabels &labels,
                                          const TensorTable &tensors,
                                          const LabelKernels &kernels) {
  FragmentSummary out;
  bool isAny = std::any_of(std::begin(labels.halves), std::end(labels.halves),
                           [](const Label *half) { return half; });
  if (!isAny || summarizeStretch(labels, tensors, kernels, out))
    return out;
  return FragmentGrid(labels, tensors).summarize();
}
