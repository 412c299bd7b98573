//===- LayoutUtil.h - Fragments of matrices, in PTX -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX that loads the fragments of an m16n8k16 from buffers of 16-bit elements,
// in the order of PTX ISA 9.7.14.5.8, and multiplies them.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_UNITTESTS_LAYOUTUTIL_H
#define FLASHCORE_EMULATOR_UNITTESTS_LAYOUTUTIL_H

#include "TestUtil.h"

namespace flashcore::emu::test {

inline std::string num(int value) { return std::to_string(value); }
inline std::string reg(int index) { return "%r" + num(index); }

/// %r60 = lane / 4, %r61 = lane % 4 * 2.
inline const std::string lanes =
    "shr.u32 %r60, %t, 2; and.b32 %r61, %t, 3; shl.b32 %r61, %r61, 1;\n";

/// %at = address of element (%r60 + row, %r61 + column) of a buffer of 16-bit
/// elements; exchanged when transposed.
inline std::string addressOf(int buffer, int row, int column, int pitch,
                             bool isTransposed = false) {
  std::string line = isTransposed ? "%r61" : "%r60",
              place = isTransposed ? "%r60" : "%r61";
  return "mad.lo.u32 %r62, " + line + ", " + num(pitch) + ", " + place +
         "; add.u32 %r62, %r62, " + num(row * pitch + column) +
         "; mul.wide.u32 %at, %r62, 2; add.u64 %at, %at, %g" + num(buffer) +
         ";\n";
}

/// 8 rows and 8 products: lane / 4 is the row.
inline std::string loadBlock(int to, int buffer, int row, int column,
                             int pitch) {
  return addressOf(buffer, row, column, pitch) + "ld.global.b32 " + reg(to) +
         ", [%at];\n";
}

/// The same from a tensor whose rows are the products.
inline std::string loadTransposed(int to, int buffer, int row, int column,
                                  int pitch) {
  return addressOf(buffer, row, column, pitch, true) +
         "ld.global.b16 %h0, [%at]; ld.global.b16 %h1, [%at+" + num(2 * pitch) +
         "]; mov.b32 " + reg(to) + ", {%h0, %h1};\n";
}

/// A to registers to .. to + 3.
inline std::string loadA(int to, int buffer, int row, int column, int pitch) {
  return loadBlock(to, buffer, row, column, pitch) +
         loadBlock(to + 1, buffer, row + 8, column, pitch) +
         loadBlock(to + 2, buffer, row, column + 8, pitch) +
         loadBlock(to + 3, buffer, row + 8, column + 8, pitch);
}
/// B to registers to, to + 1.
inline std::string loadB(int to, int buffer, int row, int column, int pitch) {
  return loadBlock(to, buffer, row, column, pitch) +
         loadBlock(to + 1, buffer, row, column + 8, pitch);
}

inline const std::string clearAccumulator =
    "mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0;"
    "mov.f32 %f3, %f0;\n";

inline std::string mma(const std::string &d, const std::string &a,
                       const std::string &b) {
  return "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {" + d + "}, {" +
         a + "}, {" + b + "}, {" + d + "};\n";
}
inline const std::string accumulator = "%f0,%f1,%f2,%f3";
inline const std::string multiply =
    mma(accumulator, "%r0,%r1,%r2,%r3", "%r4,%r5");

inline void expectClean(const RunResult &run) {
  EXPECT_TRUE(run.error.empty() && run.report.clean()) << run.text();
}

/// All findings are of the layout, and the first says `message`.
inline void expectMismatch(const RunResult &run,
                           const std::string &message = {}) {
  EXPECT_GE(run.count(FindingKind::LayoutMismatch), 1u) << run.text();
  EXPECT_EQ(run.count(FindingKind::LayoutMismatch), run.report.findings.size())
      << run.text();
  if (!message.empty() && !run.report.findings.empty()) {
    EXPECT_EQ(run.report.findings[0].message, message);
  }
}

} // namespace flashcore::emu::test

#endif // FLASHCORE_EMULATOR_UNITTESTS_LAYOUTUTIL_H
