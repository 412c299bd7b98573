//===- CheckStores.cpp - Products that leave their registers --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of the layout check (see CheckLayout.cpp) that follows the results
// of mma out. At a store to global memory it asks:
//
//   4. Does another element of the tensor, which differs in the axes of the row
//      and the column alone, hold the same product?
//   5. Is the element at the place of the product's row and at that of its
//      column, as other products of this row and of this column say?
//   6. Do products and data of another tensor, or accumulators that no mma has
//      added to, go out side by side?
//
// And where sums leave the accumulators, to memory or to another mma:
//
//   7. Have all sums of a row equally many products?
//
//===----------------------------------------------------------------------===//

#include "../sim/Machine.h"

#include <algorithm>
#include <new>

using namespace flashcore::emu;

static const char *const storeRule =
    "an mma gives one product for each row of A and column of B, so two "
    "elements of a result that differ in these alone cannot be the same "
    "product (PTX ISA 9.7.14.5.8)";
static const char *const placeRule =
    "an mma gives one product for each row of A and column of B, so the place "
    "of a result follows from those of its row and of its column (PTX ISA "
    "9.7.14.5.8)";
static const char *const elementRule =
    "what was staged where products are expected has not been replaced by them";
static const char *const blankRule =
    "the mma that should have added to this accumulator is missing";
static const char *const depthRule =
    "each mma adds its products to all elements of D, so the sums of one row "
    "have equally many when each step of the contraction has its mma (PTX ISA "
    "9.7.14.5.8)";

//===----------------------------------------------------------------------===//
// Places in global memory
//===----------------------------------------------------------------------===//

static std::string describeProduct(Label label, const TensorTable &tensors) {
  bool hasRow = isKnown(lowWord(label)), hasColumn = isKnown(highWord(label));
  return (hasRow ? tensors.describe(lowWord(label)) : "") +
         (hasRow && hasColumn ? " and " : "") +
         (hasColumn ? tensors.describe(highWord(label)) : "");
}

/// The element without its coordinates along rows and columns.
static uint32_t outerOf(const Tensor &tensor, uint32_t element,
                        const ProductAxes &axes) {
  uint32_t outer = element;
  for (int i : {axes.row, axes.column}) {
    auto along = static_cast<size_t>(i);
    outer -= tensor.indexAlong(along, element) *
             static_cast<uint32_t>(tensor.axes[along].stride);
  }
  return outer;
}

/// Asks whether a product is stored where no other of the same tensor is, and
/// where its row and column are.
void Machine::checkStoredProduct(Warp &warp, const Inst &inst, unsigned lane,
                                 Label label, const uint8_t *host) {
  uint32_t element = 0;
  const Tensor *tensor = tensors.find(host, element);
  if (!tensor)
    return;
  auto report = [&](auto describe) {
    find(FindingKind::LayoutMismatch, warp, inst, 1u << lane, describe);
  };
  Component unused[TensorTable::maxAxes];
  if (tensor->hasPadding &&
      !tensors.components(*tensor, tensor->firstElement + element, unused))
    return report([&] {
      return Text{"stores a product of " + describeProduct(label, tensors) +
                      " between the rows of '" + tensor->name + "', " +
                      std::to_string(element) + " elements after its first one",
                  "the strides of a tensor leave that place to others"};
    });
  if (!ownProducts)
    ownProducts.reset(tensors.numElements());
  if (!ownProducts)
    throw std::bad_alloc();
  ProductAxes axes = tensors.axesLike(*tensor, label);
  uint32_t first = tensor->firstElement;
  uint32_t product = tensors.elementOf(*tensor, element, label, axes);
  uint32_t other =
      cta->stored.store(first + element, first + product, &ownProducts[0]);
  if (other != first + element)
    return report([&] {
      return Text{"stores the product of " + describeProduct(label, tensors) +
                      " to " + tensors.describe(*tensor, element) +
                      ", but it has been stored to " +
                      tensors.describe(*tensor, other - first),
                  storeRule};
    });
  if (axes.row < 0 || axes.column < 0)
    return;
  ProductPlaces &places = cta->stored.places;
  places.select(first, outerOf(*tensor, element, axes));
  int64_t displacement = int64_t(element) - product, expected = 0;
  if (places.agrees(indexOf(lowWord(label)), indexOf(highWord(label)),
                    displacement, expected)) {
    if (displacement)
      noteMoved(warp, inst, lane, label, *tensor, element, product);
    return;
  }
  report([&] {
    auto place = static_cast<uint32_t>(product + expected);
    return Text{"stores the product of " + describeProduct(label, tensors) +
                    " to " + tensors.describe(*tensor, element) +
                    ", but other products of this row and of this column "
                    "put it " +
                    (place < tensor->numElements
                         ? "to " + tensors.describe(*tensor, place)
                         : "elsewhere"),
                placeRule};
  });
}

/// Rows and columns may be in an order of their own, but mostly are not.
void Machine::noteMoved(Warp &warp, const Inst &inst, unsigned lane,
                        Label label, const Tensor &tensor, uint32_t element,
                        uint32_t product) {
  find(FindingKind::MovedProducts, warp, inst, 1u << lane, [&] {
    return Text{"stores the product of " + describeProduct(label, tensors) +
                    " to " + tensors.describe(tensor, element) +
                    ", and not to " + tensors.describe(tensor, product),
                "results lie mostly where the rows and columns lie that they "
                "are products of; an order of their own is no fault if it is "
                "wanted"};
  });
}

/// Reports an element of a tensor that goes where products go.
void Machine::checkStoredElement(Warp &warp, const Inst &inst, unsigned lane,
                                 Label label, const uint8_t *host) {
  uint32_t to = 0;
  const Tensor *target = tensors.find(host, to);
  const Tensor *source = tensors.owner(lowWord(label));
  if (!target || !source || source == target)
    return;
  find(FindingKind::LayoutMismatch, warp, inst, 1u << lane, [&] {
    return Text{
        "stores " +
            tensors.describe(*source, lowWord(label) - source->firstElement) +
            " to " + tensors.describe(*target, to) +
            ", next to products of mma",
        elementRule};
  });
}

/// Reports a zero that was scaled as the products next to it are.
void Machine::checkStoredBlank(Warp &warp, const Inst &inst, unsigned lane,
                               const uint8_t *host) {
  uint32_t to = 0;
  const Tensor *target = tensors.find(host, to);
  if (target)
    find(FindingKind::LayoutMismatch, warp, inst, 1u << lane, [&] {
      return Text{"stores an accumulator to " + tensors.describe(*target, to) +
                      " that no mma has added to, next to products of mma",
                  blankRule};
    });
}

void Machine::labelStoredProducts(Warp &warp, const Inst &inst, uint32_t lanes,
                                  uint8_t *const (&hosts)[warpSize]) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand + 1;
  unsigned words = inst.elementBytes / 2u;
  bool anyProduct = false, anyElement = false, anyBlank = false;
  auto forEachLabel = [&](auto visit) {
    for (unsigned v = 0; v < inst.vectorLength; ++v)
      for (unsigned half = 0; half < words; ++half)
        if (const Label *labels = warp.labels.ifHeld(slotOf(ops[v] + half)))
          forEachLane(lanes, [&](unsigned lane) {
            size_t offset = size_t(v) * inst.elementBytes + 2 * half;
            visit(labels[lane], lane, hosts[lane] + offset);
          });
  };
  for (unsigned v = 0; v < inst.vectorLength; ++v)
    for (unsigned half = 0; half < words; ++half)
      checkDepth(warp, inst, ops[v] + half);
  forEachLabel([&](Label label, unsigned lane, const uint8_t *host) {
    if (isMemory(label)) {
      anyElement = true;
    } else if (highWord(label) == blank) {
      anyBlank = true;
    } else if (isKnown(lowWord(label)) || isKnown(highWord(label))) {
      anyProduct |= isProduct(label);
      checkStoredProduct(warp, inst, lane, label, host);
    }
  });
  if (anyProduct && anyElement)
    forEachLabel([&](Label label, unsigned lane, const uint8_t *host) {
      if (isMemory(label))
        checkStoredElement(warp, inst, lane, label, host);
    });
  if (anyProduct && anyBlank)
    forEachLabel([&](Label label, unsigned lane, const uint8_t *host) {
      if (highWord(label) == blank)
        checkStoredBlank(warp, inst, lane, host);
    });
}

//===----------------------------------------------------------------------===//
// Products that sums have
//===----------------------------------------------------------------------===//

static const Label *findProduct(const Label *labels) {
  const Label *end = labels + warpSize;
  const Label *found = std::find_if(labels, end, isProduct);
  return found == end ? nullptr : found;
}

/// Compares the sums of a register with others of the row that have left since
/// the last mma, when all of them were complete.
void Machine::checkDepth(Warp &warp, const Inst &inst, uint32_t granule) {
  LabelFrame &frame = warp.labels;
  uint32_t slot = slotOf(granule);
  const Label *labels = frame.ifHeld(slot);
  if (!labels || !frame.origins[slot].depth)
    return;
  if (frame.origins[slot].depth == LabelFrame::varying) {
    for (unsigned lane = 0; lane < warpSize; ++lane)
      if (isProduct(labels[lane]) && frame.depthOf(slot, lane))
        checkLaneDepth(warp, inst, slot, lane);
  } else if (const Label *label = findProduct(labels)) {
    checkLaneDepth(warp, inst, slot, static_cast<unsigned>(label - labels));
  }
}

void Machine::checkLaneDepth(Warp &warp, const Inst &inst, uint32_t slot,
                             unsigned lane) {
  LabelFrame &frame = warp.labels;
  Label label = frame.at(slot)[lane];
  LabelFrame::RowDepth here{lowWord(label), dimOf(highWord(label)),
                            frame.origins[slot]};
  here.origin.depth = frame.depthOf(slot, lane);
  for (const LabelFrame::RowDepth &other : frame.depths) {
    if (other.row != here.row || other.columnDim != here.columnDim ||
        other.origin.a != here.origin.a || other.origin.b != here.origin.b)
      continue;
    if (other.origin.depth != here.origin.depth)
      find(FindingKind::LayoutMismatch, warp, inst, 1u << lane, [&] {
        return Text{"stores a sum of " + std::to_string(here.origin.depth) +
                        " products of " + describeProduct(label, tensors) +
                        ", but other sums of this row have " +
                        std::to_string(other.origin.depth),
                    depthRule};
      });
    return;
  }
  frame.depths.push_back(here);
}

/// The same for the registers of an operand that are sums themselves; true if
/// they differ.
bool Machine::checkOperandDepth(Warp &warp, const Inst &inst,
                                const uint32_t *granules, unsigned count) {
  LabelFrame &frame = warp.labels;
  uint32_t depth = 0;
  for (unsigned i = 0; i < 2 * count; ++i) {
    uint32_t slot = slotOf(granules[i / 2] + i % 2);
    const Label *labels = frame.ifHeld(slot);
    uint32_t here = labels ? frame.origins[slot].depth : 0;
    if (here == 0 || here == depth || here == LabelFrame::varying)
      continue;
    const Label *label = findProduct(labels);
    if (!label)
      continue;
    if (depth) {
      find(FindingKind::LayoutMismatch, warp, inst,
           1u << static_cast<unsigned>(label - labels), [&] {
             return Text{"multiplies a sum of " + std::to_string(here) +
                             " products of " +
                             describeProduct(*label, tensors) + " (register " +
                             describeOperand(granules[i / 2]) +
                             "), but others of the operand have " +
                             std::to_string(depth),
                         depthRule};
           });
      return true;
    }
    depth = here;
  }
  return false;
}
