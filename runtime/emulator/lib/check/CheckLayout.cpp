//===- CheckLayout.cpp - Labels at the mma --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of the labels of its operands (see Layout.h) each mma asks:
//
//   1. Do all rows of A, and all columns of B, have one contracted index at
//      each k?
//   2. Is it the same index for A and B?
//   3. Is a row one row at all k, and are the products those of the row and
//      column that the accumulator already holds?
//
// and whether all of the operand sums equally many products, if it is one of
// sums. MoveLabels.cpp brings the labels here, CheckStores.cpp asks where
// products go, CheckReductions.cpp what they are scaled with.
//
// Questions 2 and 3 need to know that the two operands run over the same axis.
// Nothing says so but the extents, so a convolution, whose operands run over
// axes of different extents, is left alone.
//
//===----------------------------------------------------------------------===//

#include "../sim/Machine.h"
#include "../sim/WgmmaOperand.h"

#include <algorithm>

using namespace flashcore::emu;

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
static FragmentLabels emptyFragment(const MmaGranules &mma, bool isB) {
  FragmentLabels fragment;
  fragment.rows = isB ? 8 : 16;
  fragment.depth = mma.depth;
  fragment.perRegister = mma.perRegister;
  return fragment;
}

/// "row 9 of A at k = 3 (register %r4, lane 5)".
std::string Machine::describeElement(const MmaGranules &mma, bool isB,
                                     unsigned row, unsigned k) const {
  FragmentLabels fragment = emptyFragment(mma, isB);
  const uint32_t *granules = isB ? mma.b : mma.a;
  std::string place =
      granules ? "register " +
                     describeOperand(granules[fragment.registerOf(row, k)]) +
                     ", lane " + std::to_string(fragment.laneOf(row, k))
               : "in shared memory";
  return (isB ? "column " + std::to_string(mma.firstColumn + row) + " of B"
              : "row " + std::to_string(mma.firstRow + row) + " of A") +
         " at k = " + std::to_string(k) + " (" + place + ")";
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
                             const MmaGranules &mma, const FragmentSummary &a,
                             const FragmentSummary &b) {
  auto report = [&](bool isB, const FragmentConflict &c, const char *rule) {
    find(FindingKind::LayoutMismatch, warp, inst,
         1u << emptyFragment(mma, isB).laneOf(c.row[1], c.k[1]), [&] {
           return Text{describeElement(mma, isB, c.row[0], c.k[0]) + " is " +
                           tensors.describe(c.component[0]) + ", but " +
                           describeElement(mma, isB, c.row[1], c.k[1]) +
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
    // Of stretches the first difference is as good as all of them.
    for (unsigned k = 0; k < (a.isStretch && b.isStretch ? 1u : mma.depth);
         ++k) {
      if (!a.k[k] || !b.k[k] || indexOf(a.k[k]) == indexOf(b.k[k]))
        continue;
      find(FindingKind::LayoutMismatch, warp, inst,
           1u << emptyFragment(mma, false).laneOf(0, k), [&] {
             return Text{"multiplies " + tensors.describe(a.k[k]) + ", " +
                             describeElement(mma, false, 0, k) + ", by " +
                             tensors.describe(b.k[k]) + ", " +
                             describeElement(mma, true, 0, k),
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
Label Machine::accumulate(Warp &warp, const Inst &inst, const MmaGranules &mma,
                          unsigned reg, unsigned lane, Label before,
                          LabelFrame::Origin origin, const FragmentSummary &a,
                          const FragmentSummary &b) {
  unsigned row = lane / 4 + reg / 2 * 8, column = lane % 4 * 2 + reg % 2;
  if (isMemory(before))
    before = 0;
  bool sameTiles = origin.a == a.outer && origin.b == b.outer;
  auto join = [&](bool isB, Component old, Component now) {
    // A column of no tensor adds, too, and so does one that stands alone, of
    // which the axis is not known.
    if (old == blank && !now)
      return Component(0);
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
        uint32_t granule = mma.d[mma.isHalf ? reg / 2 : reg];
        return Text{
            "adds products of " + tensors.describe(now) + ", " +
                (isB ? "column " + std::to_string(mma.firstColumn + column) +
                           " of B"
                     : "row " + std::to_string(mma.firstRow + row) + " of A") +
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
                            const MmaGranules &mma, const FragmentSummary &a,
                            const FragmentSummary &b) {
  LabelFrame &frame = warp.labels;
  const LabelKernels &kernels = *handlers.labels;
  bool isStretch = a.isStretch && b.isStretch;
  constexpr uint64_t rowStep = productLabel(1, 0), column = productLabel(0, 1);
  alignas(64) Label results[4][warpSize];
  LabelFrame::Origin origins[4];
  /// The labels of D, and whether they are there already.
  bool isHeld[4] = {}, isThere[4] = {};
  frame.depths.clear();
  for (unsigned reg = 0; reg < 4; ++reg) {
    uint32_t c = mma.c ? slotOf(mma.accumulator(mma.c, reg)) : noSlot;
    const Label *before = frame.ifHeld(c);
    isHeld[reg] = before || a.isLabelled || b.isLabelled;
    LabelFrame::Origin origin;
    if (before)
      origin = frame.origins[c];
    // What is not known of sums stays so. A zero that was scaled for its row is
    // none yet, though it has the row's label.
    bool isSum = before && isProduct(before[0]);
    bool isCounted = origin.depth && origin.depth != LabelFrame::varying;
    uint32_t depth = !isSum      ? mma.depth
                     : isCounted ? origin.depth + mma.depth
                                 : 0;
    origins[reg] = {a.isLabelled ? a.outer : origin.a,
                    b.isLabelled ? b.outer : origin.b, depth};
    Label first = productLabel(a.row[reg / 2 * 8], b.row[reg % 2]);
    if (isStretch &&
        (!before || kernels.matches(before, first, rowStep, 2 * column))) {
      isThere[reg] = before && c == slotOf(mma.accumulator(mma.d, reg));
      if (!isThere[reg])
        kernels.fill(results[reg], first, rowStep, 2 * column);
      continue;
    }
    if (isHeld[reg])
      for (unsigned lane = 0; lane < warpSize; ++lane)
        results[reg][lane] =
            accumulate(warp, inst, mma, reg, lane, before ? before[lane] : 0,
                       origin, a, b);
  }
  for (unsigned reg = 0; reg < 4; ++reg) {
    uint32_t slot = slotOf(mma.accumulator(mma.d, reg));
    if (!mma.isHalf)
      frame.clear(slotOf(mma.d[reg] + 1), ~0u);
    if (slot == noSlot)
      continue;
    frame.origins[slot] = origins[reg];
    if (!isHeld[reg]) {
      frame.clear(slot, ~0u);
      continue;
    }
    frame.hold(slot);
    if (!isThere[reg])
      std::copy_n(results[reg], warpSize, frame.at(slot));
  }
}

/// What an operand is, which is that of the mma before as long as its registers
/// are.
const FragmentSummary &Machine::summarizeOperand(Warp &warp, const Inst &inst,
                                                 const MmaGranules &mma,
                                                 bool isB) {
  LabelFrame &frame = warp.labels;
  LabelFrame::Operand &last = isB ? frame.b : frame.a;
  const uint32_t *granules = isB ? mma.b : mma.a;
  unsigned count = isB ? mma.numB : mma.numA;
  FragmentLabels labels = emptyFragment(mma, isB);
  std::array<uint64_t, 8> stamps = {};
  for (unsigned i = 0; i < count; ++i)
    for (unsigned half = 0; half < mma.perRegister; ++half) {
      uint32_t slot = slotOf(granules[i] + half);
      labels.halves[2 * i + half] = frame.ifHeld(slot);
      stamps[2 * i + half] = slot == noSlot ? 0 : frame.stamps[slot];
    }
  bool isNew = stamps != last.stamps || labels.depth != last.depth ||
               labels.perRegister != last.perRegister;
  if (isNew || last.hasFinding)
    last.hasFinding = checkOperandDepth(warp, inst, granules, count);
  if (isNew) {
    last.stamps = stamps;
    last.depth = labels.depth;
    last.perRegister = labels.perRegister;
    last.summary = summarize(labels, tensors, *handlers.labels);
  }
  return last.summary;
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
  const FragmentSummary &a = summarizeOperand(warp, inst, mma, /*isB=*/false);
  const FragmentSummary &b = summarizeOperand(warp, inst, mma, /*isB=*/true);
  checkProducts(warp, inst, mma, a, b);
}

/// Of fragments that are known.
void Machine::checkProducts(Warp &warp, const Inst &inst,
                            const MmaGranules &mma, const FragmentSummary &a,
                            const FragmentSummary &b) {
  static const FragmentSummary nothing;
  if (checkConflicts(warp, inst, mma, a, b))
    labelProducts(warp, inst, mma, nothing, nothing);
  else
    labelProducts(warp, inst, mma, a, b);
}

//===----------------------------------------------------------------------===//
// At the wgmma
//===----------------------------------------------------------------------===//

/// Labels of an operand in shared memory, 16 a row.
std::vector<Label> Machine::gatherLabels(const WgmmaMatrix &matrix) const {
  constexpr unsigned elements = 8; // of a piece
  std::vector<Label> out(size_t(matrix.rows) * wgmmaDepth);
  const unsigned step = matrix.transposed ? wgmmaDepth : 1;
  matrix.forEachPiece(0, matrix.rows,
                      [&](unsigned mn, unsigned k, uint32_t address) {
                        const Label *from = &cta->labels[address / 2];
                        Label *to = &out[mn * wgmmaDepth + k];
                        for (unsigned i = 0; i < elements; ++i)
                          to[i * step] = from[i];
                      });
  return out;
}

/// What rows of these are, as a fragment.
FragmentSummary Machine::summarizeGathered(const MmaGranules &mma, bool isB,
                                           const Label *labels) const {
  FragmentLabels fragment = emptyFragment(mma, isB);
  alignas(64) Label halves[8][warpSize];
  for (unsigned i = 0; i < (isB ? 4u : 8u); ++i) {
    const unsigned reg = i / 2;
    const unsigned row = isB ? 0 : reg % 2 * 8;
    const unsigned k = (isB ? reg : reg / 2) * fragment.stretch() + i % 2;
    for (unsigned lane = 0; lane < warpSize; ++lane)
      halves[i][lane] =
          labels[(row + lane / 4) * wgmmaDepth + k + lane % 4 * 2];
    fragment.halves[i] = halves[i];
  }
  return summarize(fragment, tensors, *handlers.labels);
}

/// The same questions of a wgmma, which to each warp is an mma for every 8
/// columns.
void Machine::checkWarpgroupProduct(unsigned group, const Product &product) {
  const Inst &inst = program.code[product.pc];
  const bool fromRegisters = inst.aux & WgmmaRegistersA;
  std::vector<Label> labelsA;
  if (!fromRegisters)
    labelsA = gatherLabels({WgmmaDescriptor(product.a),
                            bool(inst.aux & WgmmaTransposeA), wgmmaRows});
  const std::vector<Label> labelsB =
      gatherLabels({WgmmaDescriptor(product.b),
                    bool(inst.aux & WgmmaTransposeB), inst.vectorLength * 8u});
  std::vector<FragmentSummary> b;
  for (unsigned tile = 0; tile < inst.vectorLength; ++tile)
    b.push_back(summarizeGathered(
        MmaGranules(program, inst, tile, 0, product.accumulates),
        /*isB=*/true, &labelsB[size_t(8) * tile * wgmmaDepth]));
  for (unsigned quarter = 0; quarter < warpgroupWarps; ++quarter) {
    Warp &warp = cta->warps[size_t(group) * warpgroupWarps + quarter];
    MmaGranules first(program, inst, 0, quarter, product.accumulates);
    const FragmentSummary a =
        fromRegisters
            ? summarizeOperand(warp, inst, first, /*isB=*/false)
            : summarizeGathered(first, /*isB=*/false,
                                &labelsA[size_t(first.firstRow) * wgmmaDepth]);
    for (unsigned tile = 0; tile < inst.vectorLength; ++tile)
      checkProducts(
          warp, inst,
          MmaGranules(program, inst, tile, quarter, product.accumulates), a,
          b[tile]);
  }
}
