//===- LayoutWmmaTest.cpp - The layout check of wmma ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// p2[32,64] = p0[32,48] p1[48,64] by wmma, two tiles side by side a warp: right
// for each shape and layout, and with one mistake of those that people make.
//
//===----------------------------------------------------------------------===//

#include "LayoutUtil.h"

using namespace flashcore::emu;
using namespace flashcore::emu::test;

namespace {
constexpr int numRows = 32, numColumns = 64, depth = 48, step = 16;

/// A kernel, and its mistakes.
struct WmmaGemm {
  int tileRows = 16, tileColumns = 16;
  bool isColumnMajorB = false;
  std::string loadALayout = "row";
  /// Added to the k of B in its second step.
  int shiftB = 0;
  /// The second tile lacks its last wmma.mma.
  bool isStepMissing = false;
  /// The second tile multiplies, but the first is stored in its place.
  bool isStoredTwice = false;

  std::string shape() const {
    return "m" + num(tileRows) + "n" + num(tileColumns) + "k" + num(step);
  }
  std::string text() const;
  RunResult run() const;
};
} // namespace

static std::string registers(const std::string &name, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i)
    text += (i ? ", %" : "%") + name + num(i);
  return text + "}";
}

std::string WmmaGemm::text() const {
  std::string body = ".reg .b32 %wa<8>, %wb<8>, %wx<4>, %wy<4>;\n";
  auto load = [&](const std::string &matrix, const std::string &layout,
                  int buffer, int element, int stride) {
    body += "wmma.load." + matrix + ".sync.aligned." + layout + "." + shape() +
            ".global.f16 " + registers("w" + matrix, 8) + ", [%g" +
            num(buffer) + "+" + num(2 * element) + "], " + num(stride) + ";\n";
  };
  const std::string layoutB = isColumnMajorB ? "col" : "row";
  const int strideB = isColumnMajorB ? depth : numColumns;
  for (const char *sum : {"wx", "wy"})
    for (int i = 0; i < 4; ++i)
      body += std::string("mov.b32 %") + sum + num(i) + ", 0;\n";
  for (int k = 0; k < depth; k += step) {
    load("a", loadALayout, 0, k, depth);
    for (int tile = 0; tile < 2; ++tile) {
      int column = tile * tileColumns, from = k == step ? k + shiftB : k;
      load("b", layoutB, 1,
           isColumnMajorB ? column * strideB + from : from * strideB + column,
           strideB);
      if (tile == 1 && k + step == depth && isStepMissing)
        continue;
      const std::string sum = registers(tile ? "wy" : "wx", 4);
      body += "wmma.mma.sync.aligned." + loadALayout + "." + layoutB + "." +
              shape() + ".f16.f16 " + sum + ", " + registers("wa", 8) + ", " +
              registers("wb", 8) + ", " + sum + ";\n";
    }
  }
  for (int tile = 0; tile < 2; ++tile)
    body += "wmma.store.d.sync.aligned.row." + shape() + ".global.f16 [%g2+" +
            num(2 * tile * tileColumns) + "], " +
            registers(tile && !isStoredTwice ? "wy" : "wx", 4) + ", " +
            num(numColumns) + ";\n";
  return body;
}

RunResult WmmaGemm::run() const {
  RunConfig config;
  for (std::vector<uint8_t> &buffer : config.buffers)
    buffer = bytesOf(std::vector<uint16_t>(depth * numColumns, 0x3c00));
  config.shapes = {
      {numRows, depth}, {depth, numColumns}, {numRows, numColumns}};
  if (isColumnMajorB)
    config.shapes[1] = {numColumns, depth};
  return runBody(text(), config);
}

TEST(LayoutWmma, ProductsOfEachShapeAreClean) {
  for (auto [rows, columns] : {std::pair(16, 16), {32, 8}, {8, 32}})
    for (bool isColumnMajor : {false, true}) {
      WmmaGemm gemm;
      gemm.tileRows = rows;
      gemm.tileColumns = columns;
      gemm.isColumnMajorB = isColumnMajor;
      RunResult run = gemm.run();
      expectClean(run);
      EXPECT_EQ(run.report.counters.mma, 12u);
      // 48 products of ones.
      EXPECT_EQ(run.buffers[2][0] | run.buffers[2][1] << 8, 0x5200);
    }
}

TEST(LayoutWmma, FactorsShareTheirIndex) {
  WmmaGemm gemm;
  gemm.shiftB = step;
  expectMismatch(gemm.run(),
                 "multiplies 'p0'[:,16], row 0 of A at k = 0 (register %wa0, "
                 "lane 0), by 'p1'[32,:], column 0 of B at k = 0 (register "
                 "%wb0, lane 0)");
  gemm.isColumnMajorB = true;
  expectMismatch(gemm.run());
}

TEST(LayoutWmma, ATileReadInTheOtherLayoutIsReported) {
  for (auto [rows, columns] : {std::pair(16, 16), {32, 8}}) {
    WmmaGemm gemm;
    gemm.tileRows = rows;
    gemm.tileColumns = columns;
    gemm.loadALayout = "col";
    expectMismatch(gemm.run());
  }
}

TEST(LayoutWmma, AMissingStepIsReported) {
  WmmaGemm gemm;
  gemm.isStepMissing = true;
  expectMismatch(gemm.run(),
                 "stores a sum of 32 products of 'p0'[0,:] and 'p1'[:,16], but "
                 "other sums of this row have 48");
}

TEST(LayoutWmma, AProductIsStoredOnce) {
  WmmaGemm gemm;
  gemm.isStoredTwice = true;
  expectMismatch(gemm.run(),
                 "stores the product of 'p0'[0,:] and 'p1'[:,0] to 'p2'[0,16], "
                 "but it has been stored to 'p2'[0,0]");
}
