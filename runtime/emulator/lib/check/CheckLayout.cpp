//===- CheckLayout.cpp - Labels on their way, and at the mma --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Moves labels beside the data (see Layout.h), and at each mma asks:
//
//   1. Do all rows of A, and all columns of B, have one contracted index at
//      each k?
//   2. Is it the same index for A and B?
//   3. Is a row one row at all k, and are the products those of the row and
//      column that the accumulator already holds?
//
// and whether all of the operand sums equally many products, if it is one of
// sums. CheckStores.cpp asks where products go.
//
// Questions 2 and 3 need to know that the two operands run over the same axis.
// Nothing says so but the extents, so a convolution, whose operands run over
// axes of different extents, is left alone.
//
//===----------------------------------------------------------------------===//

#include "../sim/Machine.h"

#include <algorithm>

using namespace flashcore::emu;

//===----------------------------------------------------------------------===//
// Storage of labels
//===----------------------------------------------------------------------===//

void LabelFrame::reset(uint32_t numSlots) {
  if (held.size() != numSlots)
    storage.reset(static_cast<char *>(::operator new[](
        size_t(numSlots) * warpSize * sizeof(Label), std::align_val_t(64))));
  held.assign(numSlots, 0);
  origins.assign(numSlots, {});
}

Label *LabelFrame::write(uint32_t slot) {
  if (!held[slot])
    std::fill_n(at(slot), warpSize, Label(0));
  held[slot] = 1;
  return at(slot);
}

void LabelFrame::clear(uint32_t slot, uint32_t lanes) {
  if (slot == noSlot || !held[slot])
    return;
  if (lanes == ~0u)
    held[slot] = 0;
  else
    forEachLane(lanes, [&](unsigned lane) { at(slot)[lane] = 0; });
}

void Machine::setUpLabels() {
  for (const Buffer &buffer : memory.buffers)
    if (buffer.live && buffer.layout)
      tensors.add(buffer);
  if (tensors.empty())
    return;
  labelPlan = planLabels(program);
  labelling = !labelPlan.isEmpty();
}

//===----------------------------------------------------------------------===//
// Registers
//===----------------------------------------------------------------------===//

/// The labels of one half register after an instruction, or null for none.
static const Label *resultLabels(LabelFrame &frame, const LabelStep &step,
                                 const LabelKernels &kernels, bool isSum,
                                 Label *scratch) {
  alignas(64) static constexpr Label neutral[warpSize] = {};
  const Label *result = nullptr;
  bool isAnyHeld = false;
  for (uint32_t from : step.from) {
    if (from == noSlot)
      continue;
    const Label *labels = frame.held[from] ? frame.at(from) : neutral;
    isAnyHeld |= labels != neutral;
    if (result && isAnyHeld)
      kernels.merge(scratch, result, labels, isSum);
    result = result && isAnyHeld ? scratch : labels;
  }
  return isAnyHeld ? result : nullptr;
}

/// Where a result was summed up: as the products that it is made of, or nowhere
/// known if these were summed up in several ways. A factor of the row, such as
/// exp(old max - new max), has an origin but stands for no column. `slot` is
/// that of the products.
static LabelFrame::Origin resultOrigin(LabelFrame &frame, const LabelStep &step,
                                       uint32_t &slot) {
  LabelFrame::Origin result;
  unsigned numHeld = 0, numProducts = 0;
  for (uint32_t from : step.from) {
    const Label *labels = frame.ifHeld(from);
    if (!labels)
      continue;
    LabelFrame::Origin last = frame.origins[from];
    bool isOfProducts = isProduct(labels[0]);
    if (numHeld++ && !isOfProducts)
      continue;
    bool isSame = numProducts == 0 || result.depth == last.depth;
    numProducts += isOfProducts;
    result = last;
    result.depth = isSame ? last.depth : 0;
    slot = from;
  }
  if (numHeld > 1 && numProducts == 0)
    result.depth = 0;
  return result;
}

/// What is masked away has no origin; the value it is masked with may have.
/// Data of a tensor that stand in for products are neither.
static const Label *selectedLabels(LabelFrame &frame, const LabelStep &step,
                                   uint32_t predicate, Label *scratch) {
  const Label *a = frame.ifHeld(step.from[0]);
  const Label *b = frame.ifHeld(step.from[1]);
  if (!a && !b)
    return nullptr;
  for (unsigned lane = 0; lane < warpSize; ++lane) {
    const Label *from = predicate >> lane & 1 ? a : b;
    scratch[lane] = from ? from[lane] : 0;
    if (a && b && isMemory(a[lane]) != isMemory(b[lane]))
      scratch[lane] = 0;
  }
  return scratch;
}

void Machine::propagateLabels(Warp &warp, const Inst &inst, const LabelOp &op,
                              uint32_t lanes) {
  LabelFrame &frame = warp.labels;
  // Halves may change places, so all are read before any is written.
  alignas(64) Label scratch[4][warpSize];
  const Label *results[4];
  LabelFrame::Origin origins[4];
  LabelFrame::LaneDepths depths[4];
  const LabelStep *steps = &labelPlan.steps[op.firstStep];
  auto originOf = [&](unsigned i) {
    uint32_t slot = noSlot;
    LabelFrame::Origin origin = resultOrigin(frame, steps[i], slot);
    uint32_t a = steps[i].from[0], b = steps[i].from[1];
    bool isSelection = op.action == LabelAction::Select && frame.ifHeld(a) &&
                       frame.ifHeld(b) &&
                       (frame.origins[a].depth != frame.origins[b].depth ||
                        frame.origins[a].depth == LabelFrame::varying);
    if (!isSelection && origin.depth != LabelFrame::varying)
      return origin;
    uint32_t predicate =
        isSelection
            ? *warp.reg<uint32_t>(program.operands[inst.firstOperand + 3])
            : 0;
    for (unsigned lane = 0; lane < warpSize; ++lane)
      depths[i][lane] = frame.depthOf(
          isSelection ? (predicate >> lane & 1 ? a : b) : slot, lane);
    origin.depth = LabelFrame::varying;
    return origin;
  };
  for (unsigned i = 0; i < op.numSteps; ++i) {
    if (op.action == LabelAction::Select)
      results[i] = selectedLabels(
          frame, steps[i],
          *warp.reg<uint32_t>(program.operands[inst.firstOperand + 3]),
          scratch[i]);
    else
      results[i] = resultLabels(frame, steps[i], *handlers.labels,
                                op.action == LabelAction::MergeSum, scratch[i]);
    if (results[i])
      origins[i] = originOf(i);
    if (op.numSteps > 1 && results[i] && results[i] != scratch[i])
      results[i] = std::copy_n(results[i], warpSize, scratch[i]) - warpSize;
  }
  for (unsigned i = 0; i < op.numSteps; ++i) {
    uint32_t to = steps[i].to;
    if (!results[i]) {
      frame.clear(to, lanes);
      continue;
    }
    if (lanes == ~0u) {
      frame.held[to] = 1;
      if (results[i] != frame.at(to))
        std::copy_n(results[i], warpSize, frame.at(to));
    } else {
      Label *out = frame.write(to);
      forEachLane(lanes, [&](unsigned lane) { out[lane] = results[i][lane]; });
    }
    frame.origins[to] = origins[i];
    if (origins[i].depth == LabelFrame::varying)
      frame.laneDepths[to] = depths[i];
  }
}

void Machine::labelShuffle(Warp &warp, const Inst &inst, uint32_t lanes,
                           const uint8_t (&from)[warpSize]) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  for (unsigned half = 0; half < 2; ++half) {
    uint32_t to = slotOf(ops[0] + half);
    if (to == noSlot)
      continue;
    const Label *source = warp.labels.ifHeld(slotOf(ops[2] + half));
    if (!source) {
      warp.labels.clear(to, lanes);
      continue;
    }
    Label values[warpSize];
    std::copy_n(source, warpSize, values);
    uint32_t slot = slotOf(ops[2] + half);
    warp.labels.origins[to] = warp.labels.origins[slot];
    if (warp.labels.origins[slot].depth == LabelFrame::varying) {
      LabelFrame::LaneDepths depths = warp.labels.laneDepths.at(slot);
      warp.labels.setDepths(to, [&](unsigned lane) {
        return depths[lanes >> lane & 1 ? from[lane] : lane];
      });
    }
    Label *out = warp.labels.write(to);
    forEachLane(lanes, [&](unsigned lane) { out[lane] = values[from[lane]]; });
  }
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

void Machine::labelAccess(Warp &warp, const Inst &inst, StateSpace space,
                          uint32_t lanes, uint8_t *const (&hosts)[warpSize],
                          bool isStore) {
  bool isShared = space == StateSpace::Shared;
  if (space == StateSpace::Global && isStore)
    return labelStoredProducts(warp, inst, lanes, hosts);
  if (isShared ? cta->labels.empty() : isStore)
    return;
  const uint32_t *ops = program.operands.data() + inst.firstOperand + isStore;
  unsigned words = std::max(inst.elementBytes / 2u, 1u);
  unsigned halves = std::max<unsigned>(inst.regBytes / 2u, words);
  bool isLabelled =
      inst.elementBytes > 1 && (isShared || space == StateSpace::Global);
  for (unsigned v = 0; v < inst.vectorLength; ++v)
    for (unsigned half = 0; half < halves; ++half) {
      uint32_t slot = slotOf(ops[v] + half);
      size_t offset = size_t(v) * inst.elementBytes + 2 * half;
      if (!isStore && slot == noSlot)
        continue;
      if (!isStore && (!isLabelled || half >= words)) {
        warp.labels.clear(slot, lanes);
        continue;
      }
      if (half >= words)
        break;
      const Label *stored = isStore ? warp.labels.ifHeld(slot) : nullptr;
      Label *loaded = isStore ? nullptr : warp.labels.write(slot);
      if (isStore)
        checkDepth(warp, inst, ops[v] + half);
      else
        warp.labels.origins[slot] = {};
      forEachLane(lanes, [&](unsigned lane) {
        const uint8_t *host = hosts[lane] + offset;
        if (!isShared) {
          tensors.labelWords(host, 1, &loaded[lane]);
          return;
        }
        Label &cell = cta->labels[size_t(host - cta->shared.data()) / 2];
        if (isStore)
          cell = stored && isLabelled ? stored[lane] : 0;
        else
          loaded[lane] = cell;
      });
    }
}

/// Bytes that cp.async brings into shared memory.
void Machine::labelCopy(const AsyncCopy &copy, uint32_t lanes) {
  forEachLane(lanes, [&](unsigned lane) {
    Label *to = &cta->labels[copy.to[lane] / 2];
    unsigned read = copy.fromBytes[lane] / 2u;
    if (read)
      tensors.labelWords(copy.from[lane], read, to);
    std::fill(to + read, to + copy.bytes / 2, Label(0));
  });
}

/// The labels of ldmatrix and stmatrix, which lie as their data do (see
/// Matrix.cpp).
void Machine::labelLoadMatrix(Warp &warp, const Inst &inst,
                              const LaneAccess &access) {
  alignas(64) static constexpr Label neutral[8] = {};
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  for (unsigned matrix = 0; matrix < inst.vectorLength; ++matrix) {
    uint32_t low = slotOf(ops[matrix]), high = slotOf(ops[matrix] + 1);
    if (low == noSlot || high == noSlot)
      continue;
    const Label *rows[8];
    for (unsigned row = 0; row < 8; ++row) {
      unsigned lane = matrix * 8 + row;
      rows[row] = access.lanes >> lane & 1
                      ? &cta->labels[access.address[lane] / 2]
                      : neutral;
    }
    warp.labels.held[low] = warp.labels.held[high] = 1;
    warp.labels.origins[low] = warp.labels.origins[high] = {};
    handlers.labels->loadMatrix(rows, warp.labels.at(low), warp.labels.at(high),
                                inst.transposed);
  }
}

void Machine::labelStoreMatrix(Warp &warp, const Inst &inst,
                               const LaneAccess &access) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand + 1;
  for (unsigned matrix = 0; matrix < inst.vectorLength; ++matrix)
    for (unsigned half = 0; half < 2; ++half) {
      const Label *labels = warp.labels.ifHeld(slotOf(ops[matrix] + half));
      checkDepth(warp, inst, ops[matrix] + half);
      for (unsigned lane = 0; lane < warpSize; ++lane) {
        unsigned line = lane / 4, place = lane % 4 * 2 + half;
        unsigned row = matrix * 8 + (inst.transposed ? place : line);
        if (access.lanes >> row & 1)
          cta->labels[access.address[row] / 2 +
                      (inst.transposed ? line : place)] =
              labels ? labels[lane] : 0;
      }
    }
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

static const char *const contractionRule =
    "an mma adds A[m,k] * B[k,n] over k, so each k must stand for one index of "
    "the contracted axis in all rows of A and all columns of B (PTX ISA "
    "9.7.14.5.8)";
static const char *const rowRule =
    "element (m,n) of an mma belongs to one row of A and one column of B, at "
    "each k and in each mma that adds to it (PTX ISA 9.7.14.5.8)";

/// Of an operand, without its labels.
static FragmentLabels emptyFragment(const Inst &inst, bool isB) {
  FragmentLabels fragment;
  fragment.rows = isB ? 8 : 16;
  fragment.depth = inst.vectorLength;
  fragment.perRegister = inst.mode == uint8_t(MatrixType::TF32) ? 1 : 2;
  return fragment;
}

/// "row 9 of A at k = 3 (register %r4, lane 5)".
std::string Machine::describeElement(const Inst &inst, bool isB, unsigned row,
                                     unsigned k) const {
  MmaGranules mma(program, inst);
  FragmentLabels fragment = emptyFragment(inst, isB);
  uint32_t granule = (isB ? mma.b : mma.a)[fragment.registerOf(row, k)];
  return (isB ? "column " : "row ") + std::to_string(row) +
         (isB ? " of B" : " of A") + " at k = " + std::to_string(k) +
         " (register " + describeOperand(granule) + ", lane " +
         std::to_string(fragment.laneOf(row, k)) + ")";
}

//===----------------------------------------------------------------------===//
// At the mma
//===----------------------------------------------------------------------===//

static uint64_t extentOf(unsigned dim, const TensorTable &tensors) {
  return dim ? tensors.axis(dim).extent : 0;
}

/// Whether a row of `own` that moves by `distance` while it is multiplied with
/// `other` is wrong. It is when both run over one axis; and when `other` runs
/// over the axis that `own` takes for its rows, which is a transposed tile, as
/// long as the move is one of whole matrices and not of a sliding window.
static bool isRowFixed(const FragmentSummary &own, const FragmentSummary &other,
                       uint32_t distance, const TensorTable &tensors) {
  uint64_t extent = extentOf(own.kDim, tensors);
  uint64_t otherExtent = extentOf(other.kDim, tensors);
  if (extent && extent == otherExtent && own.isContiguous && other.isContiguous)
    return true;
  return otherExtent && extentOf(own.rowDim, tensors) == otherExtent &&
         distance >= 8;
}

/// Whether `own` runs over the very axis that the accumulator has as its row:
/// one of the two tiles was read transposed, if `other` of another tensor fits
/// either reading.
static bool isTransposed(const FragmentSummary &own,
                         const FragmentSummary &other, Component before,
                         const TensorTable &tensors) {
  uint64_t extent = extentOf(other.kDim, tensors);
  return own.kDim && extent && dimOf(before) == own.kDim &&
         !tensors.isSameTensor(own.kDim, other.kDim) &&
         (extent == extentOf(own.kDim, tensors) ||
          extent == extentOf(own.rowDim, tensors));
}

static uint32_t distance(Component a, Component b) {
  return std::max(a, b) - std::min(a, b);
}

/// Reports the first thing that is wrong with the operands; false if nothing
/// is.
bool Machine::checkConflicts(Warp &warp, const Inst &inst,
                             const FragmentSummary &a,
                             const FragmentSummary &b) {
  auto report = [&](bool isB, const FragmentConflict &c, const char *rule) {
    find(FindingKind::LayoutMismatch, warp, inst,
         1u << emptyFragment(inst, isB).laneOf(c.row[1], c.k[1]), [&] {
           return Text{describeElement(inst, isB, c.row[0], c.k[0]) + " is " +
                           tensors.describe(c.component[0]) + ", but " +
                           describeElement(inst, isB, c.row[1], c.k[1]) +
                           " is " + tensors.describe(c.component[1]),
                       rule};
         });
    return true;
  };
  if (a.kConflict.exists)
    return report(false, a.kConflict, contractionRule);
  if (b.kConflict.exists)
    return report(true, b.kConflict, contractionRule);
  if (extentOf(a.kDim, tensors) == extentOf(b.kDim, tensors))
    for (unsigned k = 0; k < inst.vectorLength; ++k) {
      if (!a.k[k] || !b.k[k] || indexOf(a.k[k]) == indexOf(b.k[k]))
        continue;
      find(FindingKind::LayoutMismatch, warp, inst,
           1u << emptyFragment(inst, false).laneOf(0, k), [&] {
             return Text{"multiplies " + tensors.describe(a.k[k]) + ", " +
                             describeElement(inst, false, 0, k) + ", by " +
                             tensors.describe(b.k[k]) + ", " +
                             describeElement(inst, true, 0, k),
                         contractionRule};
           });
      return true;
    }
  auto checkRow = [&](bool isB, const FragmentSummary &own,
                      const FragmentSummary &other) {
    const FragmentConflict &c = own.rowConflict;
    uint32_t moved = distance(c.component[0], c.component[1]);
    return c.exists && isRowFixed(own, other, moved, tensors) &&
           report(isB, c, rowRule);
  };
  return checkRow(false, a, b) || checkRow(true, b, a);
}

/// The label of an accumulator that held products labelled `before`.
Label Machine::accumulate(Warp &warp, const Inst &inst, unsigned reg,
                          unsigned lane, Label before,
                          LabelFrame::Origin origin, const FragmentSummary &a,
                          const FragmentSummary &b) {
  unsigned row = lane / 4 + reg / 2 * 8, column = lane % 4 * 2 + reg % 2;
  if (isMemory(before))
    before = 0;
  bool sameTiles = origin.a == a.outer && origin.b == b.outer;
  auto join = [&](bool isB, Component old, Component now) {
    if (!now || old == now || old == muted)
      return old;
    if (!isKnown(old))
      return now;
    const FragmentSummary &own = isB ? b : a, &other = isB ? a : b;
    bool isWrong = dimOf(old) == dimOf(now)
                       ? isRowFixed(own, other, distance(old, now), tensors)
                       : isTransposed(own, other, old, tensors);
    if (sameTiles && isWrong)
      find(FindingKind::LayoutMismatch, warp, inst, 1u << lane, [&] {
        MmaGranules mma(program, inst);
        uint32_t granule = mma.d[mma.isHalf ? reg / 2 : reg];
        return Text{"adds products of " + tensors.describe(now) + ", " +
                        (isB ? "column " + std::to_string(column) + " of B"
                             : "row " + std::to_string(row) + " of A") +
                        ", to an accumulator of " + tensors.describe(old) +
                        " (register " + describeOperand(granule) + ", lane " +
                        std::to_string(lane) + ")",
                    rowRule};
      });
    return muted;
  };
  return productLabel(join(false, lowWord(before), a.row[row]),
                      join(true, highWord(before), b.row[column]));
}

/// Gives D its labels and compares them with those of C.
void Machine::labelProducts(Warp &warp, const Inst &inst,
                            const FragmentSummary &a,
                            const FragmentSummary &b) {
  MmaGranules mma(program, inst);
  LabelFrame &frame = warp.labels;
  const LabelKernels &kernels = *handlers.labels;
  bool isStretch = a.isStretch && b.isStretch;
  constexpr uint64_t rowStep = productLabel(1, 0), column = productLabel(0, 1);
  alignas(64) Label results[4][warpSize];
  LabelFrame::Origin origins[4];
  bool isHeld[4] = {};
  frame.depths.clear();
  for (unsigned reg = 0; reg < 4; ++reg) {
    uint32_t c = slotOf(mma.accumulator(mma.c, reg));
    const Label *before = frame.ifHeld(c);
    isHeld[reg] = before || a.isLabelled || b.isLabelled;
    LabelFrame::Origin origin;
    if (before)
      origin = frame.origins[c];
    // What is not known of sums stays so. A zero that was scaled for its row is
    // none yet, though it has the row's label.
    bool isSum = before && isProduct(before[0]);
    bool isCounted = origin.depth && origin.depth != LabelFrame::varying;
    uint32_t depth = !isSum      ? inst.vectorLength
                     : isCounted ? origin.depth + inst.vectorLength
                                 : 0;
    origins[reg] = {a.isLabelled ? a.outer : origin.a,
                    b.isLabelled ? b.outer : origin.b, depth};
    Label first = productLabel(a.row[reg / 2 * 8], b.row[reg % 2]);
    if (isStretch &&
        (!before || kernels.matches(before, first, rowStep, 2 * column))) {
      kernels.fill(results[reg], first, rowStep, 2 * column);
      continue;
    }
    if (isHeld[reg])
      for (unsigned lane = 0; lane < warpSize; ++lane)
        results[reg][lane] = accumulate(
            warp, inst, reg, lane, before ? before[lane] : 0, origin, a, b);
  }
  for (unsigned reg = 0; reg < 4; ++reg) {
    uint32_t slot = slotOf(mma.accumulator(mma.d, reg));
    if (!mma.isHalf)
      frame.clear(slotOf(mma.d[reg] + 1), ~0u);
    if (slot == noSlot)
      continue;
    frame.held[slot] = isHeld[reg];
    frame.origins[slot] = origins[reg];
    if (isHeld[reg])
      std::copy_n(results[reg], warpSize, frame.at(slot));
  }
}

FragmentLabels Machine::fragmentLabels(Warp &warp, const Inst &inst, bool isB) {
  MmaGranules mma(program, inst);
  FragmentLabels labels = emptyFragment(inst, isB);
  for (unsigned i = 0; i < (isB ? mma.numB : mma.numA); ++i)
    for (unsigned half = 0; half < mma.perRegister; ++half)
      labels.halves[2 * i + half] =
          warp.labels.ifHeld(slotOf((isB ? mma.b : mma.a)[i] + half));
  return labels;
}

void Machine::checkFragments(Warp &warp, const Inst &inst) {
  if (!isFollowed(inst)) {
    const uint32_t *d = program.operands.data() + inst.firstOperand;
    for (unsigned i = 0; i < inst.numDsts; ++i)
      for (unsigned half = 0; half < 2; ++half)
        warp.labels.clear(slotOf(d[i] + half), ~0u);
    return;
  }
  MmaGranules mma(program, inst);
  checkOperandDepth(warp, inst, mma.a, mma.numA);
  checkOperandDepth(warp, inst, mma.b, mma.numB);
  FragmentSummary a = summarize(fragmentLabels(warp, inst, /*isB=*/false),
                                tensors, *handlers.labels);
  FragmentSummary b = summarize(fragmentLabels(warp, inst, /*isB=*/true),
                                tensors, *handlers.labels);
  if (checkConflicts(warp, inst, a, b))
    a = b = FragmentSummary();
  labelProducts(warp, inst, a, b);
}
