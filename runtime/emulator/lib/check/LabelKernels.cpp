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

} // namespace

namespace flashcore::emu::FLASHCORE_EMU_ISA {
extern const LabelKernels labelKernels;
const LabelKernels labelKernels = {merge, matches, fill};
} // namespace flashcore::emu::FLASHCORE_EMU_ISA
