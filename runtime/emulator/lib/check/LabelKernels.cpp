//===- LabelKernels.cpp - Labels of 32 lanes ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The hot loops of the layout check. Compiled once for each instruction set,
// like Alu.cpp, under the same rules.
//
//===----------------------------------------------------------------------===//

#include "../math/Half.h"
#include "../sim/Handlers.h"

using namespace flashcore::emu;

namespace {

using Label8 [[gnu::vector_size(64)]] = uint64_t;
using Word16 [[gnu::vector_size(64)]] = uint32_t;

constexpr unsigned numVectors = warpSize / 8;

FC_INLINE Label8 load(const Label *labels) {
  Label8 v;
  __builtin_memcpy(&v, labels, sizeof v);
  return v;
}
FC_INLINE void store(Label *labels, Label8 v) {
  __builtin_memcpy(labels, &v, sizeof v);
}
FC_INLINE Label8 isMemory8(Label8 v) {
  return reinterpret_cast<Label8>((v >> 32) == uint64_t(memoryMark));
}

/// Component by component; equal ones stay.
template <bool IsSum>
FC_INLINE Label8 mergeComponents(Label8 left, Label8 right) {
  Word16 a = reinterpret_cast<Word16>(left);
  Word16 b = reinterpret_cast<Word16>(right);
  Word16 both = a == b ? a : mixed - (Word16){};
  if (!IsSum) {
    both = b == 0 ? a : both;
    both = a == 0 ? b : both;
    both = b == mixed ? a : both;
    both = a == mixed ? b : both;
  }
  return reinterpret_cast<Label8>(both);
}

template <bool IsSum>
FC_INLINE void mergeLanes(Label *d, const Label *pa, const Label *pb) {
  for (unsigned i = 0; i < numVectors; ++i) {
    Label8 a = load(pa + 8 * i), b = load(pb + 8 * i);
    Label8 aMemory = isMemory8(a), bMemory = isMemory8(b);
    // A factor or an addend from memory says nothing against a product.
    Label8 aProduct = ~aMemory & reinterpret_cast<Label8>(a != 0);
    Label8 bProduct = ~bMemory & reinterpret_cast<Label8>(b != 0);
    Label8 v = mergeComponents<IsSum>(a & ~(aMemory & bProduct),
                                      b & ~(bMemory & aProduct));
    // Two elements of memory: no single origin any more.
    Label8 isLost =
        isMemory8(v) &
        reinterpret_cast<Label8>((v & uint64_t(mixed)) == uint64_t(mixed));
    store(d + 8 * i, v | isLost);
  }
}

void merge(Label *d, const Label *a, const Label *b, bool isSum) {
  if (isSum)
    mergeLanes<true>(d, a, b);
  else
    mergeLanes<false>(d, a, b);
}

/// Lanes 0 to 7 of a pattern, that is its first two rows.
FC_INLINE Label8 twoRows(Label first, uint64_t rowStep, uint64_t pairStep) {
  Label8 pairs = {0, 1, 2, 3, 0, 1, 2, 3}, rows = {0, 0, 0, 0, 1, 1, 1, 1};
  return first + pairs * pairStep + rows * rowStep;
}

bool matches(const Label *labels, Label first, uint64_t rowStep,
             uint64_t pairStep) {
  Label8 expected = twoRows(first, rowStep, pairStep), different = {};
  for (unsigned i = 0; i < numVectors; ++i) {
    different |= load(labels + 8 * i) ^ expected;
    expected += 2 * rowStep;
  }
  uint64_t any = 0;
  for (unsigned i = 0; i < 8; ++i)
    any |= different[i];
  return any == 0;
}

void fill(Label *labels, Label first, uint64_t rowStep, uint64_t pairStep) {
  Label8 value = twoRows(first, rowStep, pairStep);
  for (unsigned i = 0; i < numVectors; ++i) {
    store(labels + 8 * i, value);
    value += 2 * rowStep;
  }
}

/// Lanes 8 i to 8 i + 7: the even or the odd places of rows 2 i and 2 i + 1.
template <unsigned Half>
FC_INLINE void gatherRows(const Label8 (&rows)[8], Label *out) {
  for (unsigned i = 0; i < numVectors; ++i)
    store(out + 8 * i,
          __builtin_shufflevector(rows[2 * i], rows[2 * i + 1], Half, Half + 2,
                                  Half + 4, Half + 6, Half + 8, Half + 10,
                                  Half + 12, Half + 14));
}

/// Lanes 8 i to 8 i + 7: columns 2 i and 2 i + 1 of the even or the odd rows.
template <unsigned Half>
FC_INLINE void gatherColumns(const Label8 (&rows)[8], Label *out) {
#define FC_LEFT(A, B) __builtin_shufflevector(A, B, 0, 8, 1, 9, 2, 10, 3, 11)
#define FC_RIGHT(A, B) __builtin_shufflevector(A, B, 4, 12, 5, 13, 6, 14, 7, 15)
  const Label8 left[] = {FC_LEFT(rows[Half], rows[Half + 2]),
                         FC_LEFT(rows[Half + 4], rows[Half + 6])};
  const Label8 right[] = {FC_RIGHT(rows[Half], rows[Half + 2]),
                          FC_RIGHT(rows[Half + 4], rows[Half + 6])};
#undef FC_LEFT
#undef FC_RIGHT
  unsigned i = 0;
  for (const Label8 *pair : {left, right}) {
    store(out + 8 * i++,
          __builtin_shufflevector(pair[0], pair[1], 0, 1, 8, 9, 2, 3, 10, 11));
    store(out + 8 * i++, __builtin_shufflevector(pair[0], pair[1], 4, 5, 12, 13,
                                                 6, 7, 14, 15));
  }
}

void loadMatrix(const Label *const (&from)[8], Label *low, Label *high,
                bool isTransposed) {
  Label8 rows[8];
  for (unsigned i = 0; i < 8; ++i)
    rows[i] = load(from[i]);
  if (isTransposed) {
    gatherColumns<0>(rows, low);
    gatherColumns<1>(rows, high);
  } else {
    gatherRows<0>(rows, low);
    gatherRows<1>(rows, high);
  }
}

} // namespace

namespace flashcore::emu::FLASHCORE_EMU_ISA {
extern const LabelKernels labelKernels;
const LabelKernels labelKernels = {merge, matches, fill, loadMatrix};
} // namespace flashcore::emu::FLASHCORE_EMU_ISA
