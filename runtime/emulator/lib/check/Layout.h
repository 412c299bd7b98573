//===- Layout.h - Where a datum comes from ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The layout check gives each 16-bit datum of a described tensor a label and
// lets it travel with the datum through shared memory and registers:
//
//   memory label    the number of an element of a tensor
//   product label   two components: an index along one axis of a tensor for the
//                   row, another for the column; what an mma gives its results
//
// A value of 32 bits has its label at its lower half. At an mma a fragment is a
// matrix of labels. Between k and k + 1 one axis advances, the contracted one;
// between m and m + 1 another one, the row axis. FragmentSummary says where the
// fragment stands on both, or which two of its elements do not fit together.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_CHECK_LAYOUT_H
#define FLASHCORE_EMULATOR_LIB_CHECK_LAYOUT_H

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace flashcore::emu {

struct Buffer;

/// Two words, low and high:
///
///   0, 0                   neutral: a constant, or nothing is known
///   element number, 1      memory label
///   component, component   product label
///
/// A component is a dimension number (8 bits, from 1) and an index (24 bits), 0
/// for neutral, or `mixed`: a sum over several indices, such as a row maximum.
/// An accumulator whose products do not belong together is `muted`, so that one
/// mistake is reported once. The column of one that is still zero, and was
/// scaled for its row, is `blank`.
using Label = uint64_t;
using Component = uint32_t;

inline constexpr Component mixed = UINT32_MAX, muted = mixed - 1,
                           blank = muted - 1;
inline constexpr uint32_t memoryMark = 1;
inline constexpr unsigned indexBits = 24;

constexpr Label productLabel(Component row, Component column) {
  return row | uint64_t(column) << 32;
}
constexpr Label memoryLabel(uint32_t element) {
  return productLabel(element, memoryMark);
}
constexpr uint32_t lowWord(Label label) { return static_cast<uint32_t>(label); }
constexpr uint32_t highWord(Label label) {
  return static_cast<uint32_t>(label >> 32);
}
constexpr bool isMemory(Label label) { return highWord(label) == memoryMark; }
constexpr bool isKnown(Component c) { return c != 0 && c < blank; }
/// Of one row and one column.
constexpr bool isProduct(Label label) {
  return !isMemory(label) && isKnown(lowWord(label)) &&
         isKnown(highWord(label));
}
constexpr unsigned dimOf(Component c) { return c >> indexBits; }
constexpr uint32_t indexOf(Component c) { return c & ((1u << indexBits) - 1); }

/// How a buffer is to be read as a tensor.
struct TensorLayout {
  uint64_t offset = 0; // bytes from the start of the buffer
  unsigned elementBytes = 0;
  std::vector<uint64_t> shape;
  std::vector<uint64_t> strides; // in elements
};

/// Fills in the strides of a dense row-major tensor when there are none; false
/// if the tensor does not fit into `bytes` or elements share a place.
bool completeLayout(TensorLayout &layout, uint64_t bytes);

/// An axis of more than one element; outer ones come first.
struct TensorAxis {
  unsigned dim = 0;
  unsigned position = 0;
  uint64_t extent = 0;
  uint64_t stride = 0;
};

struct Tensor {
  std::string name;
  const uint8_t *begin = nullptr;
  uint64_t bytes = 0;
  unsigned elementBytes = 0;
  unsigned rank = 0;
  uint32_t firstElement = 0;
  uint32_t numElements = 0;
  /// Some of these belong to no index.
  bool hasPadding = false;
  std::vector<TensorAxis> axes;

  /// Of an element, numbered from the start of the tensor.
  uint32_t indexAlong(size_t axis, uint32_t element) const {
    auto stride = [&](size_t i) {
      return static_cast<uint32_t>(axes[i].stride);
    };
    return (axis ? element % stride(axis - 1) : element) / stride(axis);
  }
};

/// Positions in Tensor::axes.
struct ProductAxes {
  int row = -1, column = -1;
};

/// The described tensors of a launch.
class TensorTable {
public:
  static constexpr unsigned maxAxes = 8;

  void add(const Buffer &buffer);
  bool empty() const { return tensors.empty(); }
  /// Of all tensors, and one more.
  uint32_t numElements() const { return nextElement; }
  /// The tensor of the element at `host`, which points into a buffer, and the
  /// number of the element in it; null if there is none.
  const Tensor *find(const uint8_t *host, uint32_t &element) const;
  /// The axes of a tensor that stand for the same as those of a product label,
  /// -1 where there is none. Nothing says that two axes do but their extents
  /// and places, counted from the last one; the last two may have changed
  /// places.
  ProductAxes axesLike(const Tensor &tensor, Label label) const;
  /// The element that is the product of `label` in a tensor: `element`, moved
  /// along those axes.
  uint32_t elementOf(const Tensor &tensor, uint32_t element, Label label,
                     ProductAxes axes) const;
  /// Labels of the 16-bit words from `host` on, which points into a buffer.
  void labelWords(const uint8_t *host, unsigned count, Label *out) const;
  const Tensor *owner(uint32_t element) const;
  const TensorAxis &axis(unsigned dim) const {
    return tensors[dims[dim].first].axes[dims[dim].second];
  }
  bool isSameTensor(unsigned dim, unsigned other) const {
    return dims[dim].first == dims[other].first;
  }
  /// The component an element has on each axis of its tensor; false for
  /// padding.
  bool components(const Tensor &tensor, uint32_t element,
                  Component (&out)[maxAxes]) const;
  /// "'K'[:,37,:]".
  std::string describe(Component component) const;
  /// "'O'[0,37,5]".
  std::string describe(const Tensor &tensor, uint32_t element) const;

private:
  int axisLike(const Tensor &tensor, Component component,
               unsigned fromLast) const;
  unsigned placeFromLast(Component component) const;

  std::vector<Tensor> tensors;
  /// Tensor and axis of each dimension number; number 0 is none.
  std::vector<std::pair<unsigned, unsigned>> dims{{0, 0}};
  uint32_t nextElement = 1;
};

/// Labels of an operand of an mma: A by rows of 16, B by columns of 8, both
/// `depth` products long.
struct FragmentLabels {
  /// [2 * register + half]: 32 labels, one a lane.
  const Label *halves[8] = {};
  unsigned rows = 16, depth = 16;
  /// Elements of a register: two, or one of tf32, which is at its lower half.
  unsigned perRegister = 2;

  /// Products that one register of all lanes has.
  unsigned stretch() const { return 4 * perRegister; }
  unsigned laneOf(unsigned row, unsigned k) const {
    return row % 8 * 4 + k % stretch() / perRegister;
  }
  unsigned registerOf(unsigned row, unsigned k) const {
    return row / 8 + rows / 8 * (k / stretch());
  }
  Label at(unsigned row, unsigned k) const {
    const Label *labels = halves[2 * registerOf(row, k) + k % perRegister];
    return labels ? labels[laneOf(row, k)] : 0;
  }
};

/// Two elements of a fragment that contradict each other on one axis.
struct FragmentConflict {
  bool exists = false;
  unsigned row[2] = {0, 0}, k[2] = {0, 0};
  Component component[2] = {0, 0};
};

struct FragmentSummary {
  /// Some element has a label.
  bool isLabelled = false;
  /// The contracted index at each k, 0 where it is not known.
  Component k[16] = {};
  /// The index of each row of A or column of B.
  Component row[16] = {};
  /// Dimension numbers of these, 0 when there is none.
  unsigned kDim = 0, rowDim = 0;
  /// Rows and products are consecutive.
  bool isStretch = false;
  /// The products are one stretch of the contracted axis, in any order.
  bool isContiguous = false;
  /// Where the fragment stands on all other axes.
  uint32_t outer = 0;
  /// Rows with different contracted indices at one k, and one row with
  /// different row indices at two k.
  FragmentConflict kConflict, rowConflict;
};

/// How a CTA places products along the row and the column axis of a tensor.
/// Each row and each column has a place of its own, wherever it is, and the
/// place of a product is the sum of both. Displacements are from the element
/// that has the product's own indices.
class ProductPlaces {
public:
  /// Forgets all when `outer`, the place on the other axes, is another one.
  void select(uint32_t tensor, uint32_t outer);
  /// Whether a displacement is the one that follows from what is known of the
  /// row and the column, which goes to `expected`; learns from it if so.
  bool agrees(uint32_t row, uint32_t column, int64_t displacement,
              int64_t &expected);
  void reset() { ++generation; }

private:
  /// A row or a column, in a union-find tree of those whose places are known
  /// relative to each other. A displacement is row minus column.
  struct Node {
    uint32_t generation = 0, parent = 0;
    int64_t fromParent = 0;
  };
  /// The root of rows and columns that are at their own places.
  static constexpr uint32_t ownPlaces = 0;

  bool isNew(uint32_t node) const {
    return nodes[node].generation != generation;
  }
  uint32_t findRoot(uint32_t node, int64_t &fromRoot);

  std::vector<Node> nodes;
  uint32_t generation = 1;
  uint32_t tensor = 0, outer = 0;
};

/// Where a CTA has stored products, to find those at two places. Most elements
/// hold the product of their own indices; only the others are kept by name.
class StoredProducts {
public:
  void reset(uint32_t cta) {
    mark = cta + 1;
    holders.clear();
    products.clear();
    places.reset();
  }
  /// Element `at` now holds the product of element `product`; gives the other
  /// element that holds it already, or `at`. Numbers are those of a tensor
  /// table; `own` has one word for each, zero at first.
  uint32_t store(uint32_t at, uint32_t product, uint32_t *own);

  ProductPlaces places;

private:
  /// What `own` says of elements that hold their own product: it is shared by
  /// CTAs that take turns, and never cleared.
  uint32_t mark = 0;
  std::unordered_map<uint32_t, uint32_t> holders;  // product -> element
  std::unordered_map<uint32_t, uint32_t> products; // element -> product
};

/// The kernels of the check, one copy an instruction set (LabelKernels.cpp).
struct LabelKernels {
  /// d = a merged with b, 32 lanes. A sum or a maximum of what has different
  /// labels is mixed. Otherwise mixed gives way, then neutral: s - rowmax keeps
  /// the key of s, and an accumulator that is still zero stays neutral when it
  /// is scaled for its row.
  void (*merge)(Label *d, const Label *a, const Label *b, bool isSum);
  /// labels[lane] == first + lane / 4 * rowStep + lane % 4 * pairStep.
  bool (*matches)(const Label *labels, Label first, uint64_t rowStep,
                  uint64_t pairStep);
  /// Writes labels of that pattern.
  void (*fill)(Label *labels, Label first, uint64_t rowStep, uint64_t pairStep);
  /// The lower and upper halves ldmatrix makes of 8 rows of 8.
  void (*loadMatrix)(const Label *const (&rows)[8], Label *low, Label *high,
                     bool isTransposed);
};

FragmentSummary summarize(const FragmentLabels &labels,
                          const TensorTable &tensors,
                          const LabelKernels &kernels);

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_CHECK_LAYOUT_H
