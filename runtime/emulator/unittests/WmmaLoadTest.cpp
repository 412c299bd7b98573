//===- WmmaLoadTest.cpp - The wmma.load of what a wmma.mma takes ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A wmma.mma must say of A and B what their wmma.load said. What is not known
// of a fragment is never reported.
//
//===----------------------------------------------------------------------===//

#include "TestUtil.h"

using namespace flashcore::emu;
using namespace flashcore::emu::test;

namespace {
/// A product of which each word may be another one.
struct Product {
  std::string layouts = "row.col", loadA = "a.sync.aligned.row",
              loadB = "b.sync.aligned.col";
  std::string shape = "m16n16k16", loadShape = shape, type = "f16",
              sums = "f32.f32", zero = "0f00000000";
  int numA = 8, numB = 8, numSums = 8;
  /// Between the loads and the product.
  std::string between;

  std::string load(const std::string &what, const std::string &to, int count,
                   int buffer) const;
  std::string multiply() const;
  std::string text() const;
};
} // namespace

static std::string list(const std::string &name, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i)
    text += (i ? ", %" : "%") + name + std::to_string(i);
  return text + "}";
}

std::string Product::load(const std::string &what, const std::string &to,
                          int count, int buffer) const {
  return "wmma.load." + what + "." + loadShape + ".global." + type + " " +
         list(to, count) + ", [%g" + std::to_string(buffer) + "], 32;\n";
}

std::string Product::multiply() const {
  return "wmma.mma.sync.aligned." + layouts + "." + shape + "." + sums + " " +
         list("wd", numSums) + ", " + list("wa", numA) + ", " +
         list("wb", numB) + ", " + list("wd", numSums) + ";\n";
}

/// On lines of their own: declarations 1 and 2, zeros 3, the loads 4 and 5,
/// what is between from 6 on.
std::string Product::text() const {
  std::string sum = zero.substr(0, 2) == "0f" ? "f32" : "b32";
  std::string body =
      "\n.reg .b32 %wa<8>, %wb<8>, %wn<8>;\n.reg ." + sum + " %wd<8>;\n";
  for (int i = 0; i < 8; ++i)
    body += "mov." + sum + " %wd" + std::to_string(i) + ", " + zero + "; ";
  return body + "\n" + load(loadA, "wa", numA, 0) + load(loadB, "wb", numB, 1) +
         between + multiply();
}

static RunResult run(const Product &product, unsigned checks = CheckAll) {
  RunConfig config;
  config.options.checks = checks;
  for (std::vector<uint8_t> &buffer : config.buffers)
    buffer.assign(8192, 0);
  return runBody(product.text(), config);
}

static void expectClean(const RunResult &result) {
  EXPECT_TRUE(result.error.empty() && result.report.clean()) << result.text();
}

/// One finding, of that text.
static void expectMismatch(const RunResult &result,
                           const std::string &message) {
  ASSERT_EQ(result.error, "");
  ASSERT_EQ(result.report.findings.size(), 1u) << result.text();
  const Finding &finding = result.report.findings[0];
  EXPECT_EQ(finding.kind, FindingKind::FragmentMismatch);
  EXPECT_EQ(finding.message, message);
}

/// wn moves to wa, or what `one` makes of each register.
static std::string moveAll(const std::string &one = "mov.b32 %waN, %wnN;") {
  std::string text;
  for (int i = 0; i < 8; ++i) {
    std::string line = one;
    for (size_t at; (at = line.find('N')) != std::string::npos;)
      line.replace(at, 1, std::to_string(i));
    text += line + "\n";
  }
  return text;
}

TEST(WmmaLoad, WordsThatAgreeAreClean) {
  for (const char *a : {"row", "col"})
    for (const char *b : {"row", "col"}) {
      Product product;
      product.loadA = std::string("a.sync.aligned.") + a;
      product.loadB = std::string("b.sync.aligned.") + b;
      product.layouts = std::string(a) + "." + b;
      expectClean(run(product));
    }
}

TEST(WmmaLoad, TheOtherLayoutIsReported) {
  Product product;
  product.layouts = "row.row";
  RunResult result = run(product);
  expectMismatch(result,
                 "wmma.mma takes register %wb0 as b.row.m16n16k16.f16, but "
                 "wmma.load gave it as b.col.m16n16k16.f16");
  const Finding &finding = result.report.findings[0];
  EXPECT_TRUE(finding.hasOther);
  EXPECT_EQ(finding.otherWhat, "wmma.load");
  EXPECT_EQ(finding.place.line, finding.other.line + 1);
  EXPECT_EQ(
      finding.rule,
      "the layout, shape and type that a wmma.mma says of A and B must "
      "be those of the wmma.load of their fragments (PTX ISA 9.7.14.4.5)");
  product.layouts = "col.col";
  expectMismatch(run(product),
                 "wmma.mma takes register %wa0 as a.col.m16n16k16.f16, but "
                 "wmma.load gave it as a.row.m16n16k16.f16");
  // The order of the words counts.
  product.layouts = "col.row";
  EXPECT_EQ(run(product).report.findings.size(), 2u);
}

TEST(WmmaLoad, NoShapeOrTypeIsExempt) {
  struct Form {
    const char *shape, *type, *sums, *zero;
    int numA, numB, numSums;
  };
  for (const Form &form :
       {Form{"m32n8k16", "f16", "f32.f32", "0f00000000", 8, 8, 8},
        Form{"m8n32k16", "f16", "f16.f16", "0", 8, 8, 4},
        Form{"m16n16k16", "bf16", "f32.bf16.bf16.f32", "0f00000000", 4, 4, 8},
        Form{"m16n16k16", "s8", "s32.s8.s8.s32", "0", 2, 2, 8},
        Form{"m16n16k8", "tf32", "f32.tf32.tf32.f32", "0f00000000", 4, 4, 8}}) {
    SCOPED_TRACE(std::string(form.shape) + form.type);
    Product product;
    product.shape = product.loadShape = form.shape;
    product.type = form.type;
    product.sums = form.sums;
    product.zero = form.zero;
    product.numA = form.numA;
    product.numB = form.numB;
    product.numSums = form.numSums;
    expectClean(run(product));
    std::string tile = std::string(form.shape) + "." + form.type;
    product.layouts = "row.row";
    expectMismatch(run(product),
                   "wmma.mma takes register %wb0 as b.row." + tile +
                       ", but wmma.load gave it as b.col." + tile);
  }
}

TEST(WmmaLoad, AnotherMatrixOrShapeIsReported) {
  Product product;
  product.loadB = "a.sync.aligned.col";
  expectMismatch(run(product),
                 "wmma.mma takes register %wb0 as b.col.m16n16k16.f16, but "
                 "wmma.load gave it as a.col.m16n16k16.f16");
  product = {};
  product.loadShape = "m32n8k16";
  EXPECT_EQ(run(product).count(FindingKind::FragmentMismatch), 2u);
}

TEST(WmmaLoad, MovesAreFollowed) {
  Product product;
  product.between = product.load("a.sync.aligned.col", "wn", 8, 2) + moveAll();
  expectMismatch(run(product),
                 "wmma.mma takes register %wa0 as a.row.m16n16k16.f16, but "
                 "wmma.load gave it as a.col.m16n16k16.f16");
  // One register is enough.
  product.between =
      product.load("a.sync.aligned.col", "wn", 8, 2) + "mov.b32 %wa5, %wn5;\n";
  expectMismatch(run(product),
                 "wmma.mma takes register %wa5 as a.row.m16n16k16.f16, but "
                 "wmma.load gave it as a.col.m16n16k16.f16");
  product.between = product.load("a.sync.aligned.row", "wn", 8, 2) + moveAll();
  expectClean(run(product));
}

TEST(WmmaLoad, LoopsAreFollowed) {
  // The second time round the fragment is that of the load in the loop.
  for (const char *layout : {"row", "col"}) {
    Product product;
    product.between =
        "mov.u32 %r1, 0;\nLOOP:\n" + product.multiply() +
        product.load(std::string("a.sync.aligned.") + layout, "wn", 8, 2) +
        moveAll() +
        "add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 3;\n@%p1 bra LOOP;\n" +
        product.load("a.sync.aligned.row", "wa", 8, 0);
    RunResult result = run(product);
    if (layout == std::string("row")) {
      expectClean(result);
      continue;
    }
    expectMismatch(result,
                   "wmma.mma takes register %wa0 as a.row.m16n16k16.f16, but "
                   "wmma.load gave it as a.col.m16n16k16.f16");
    EXPECT_EQ(result.report.findings[0].count, 2u);
  }
}

TEST(WmmaLoad, WhatWasNotLoadedIsNotReported) {
  Product product;
  product.layouts = "col.col";
  const std::string other = product.load("a.sync.aligned.row", "wn", 8, 2);
  for (const std::string &between :
       {moveAll("mov.b32 %waN, 0x3c003c00;"),
        moveAll("add.f16x2 %waN, %waN, %wbN;"),
        other + moveAll("xor.b32 %waN, %wnN, %wbN;"),
        // A branch that is not taken, and what half of the lanes move.
        moveAll("mov.b32 %waN, 0;") + "bra OUT;\n" + other + moveAll() +
            "OUT:\n",
        other + "setp.lt.u32 %p1, %t, 16;\n" +
            moveAll("@%p1 mov.b32 %waN, %wnN;")}) {
    product.between = between;
    expectClean(run(product));
  }
}

TEST(WmmaLoad, BelongsToTheLayoutCheck) {
  Product product;
  product.layouts = "row.row";
  expectClean(run(product, CheckAll & ~CheckLayout));
  EXPECT_STREQ(findingName(FindingKind::FragmentMismatch), "fragment-mismatch");
}
