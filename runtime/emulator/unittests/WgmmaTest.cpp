//===- WgmmaTest.cpp - Products of a warpgroup ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every layout of an operand and every width, against sums of small integers,
// which no rounding touches; the rounding against mma.sync; what is reported of
// queues, registers and shared memory.
//
//===----------------------------------------------------------------------===//

#include "../lib/math/Half.h"
#include "TestUtil.h"

#include <cmath>

using namespace flashcore::emu;
using namespace flashcore::emu::test;

static constexpr unsigned imageBytes = 32768, baseB = 16384;
static const std::string storage =
    ".shared .align 1024 .b8 image[32768]; .shared .align 8 .b8 bar[8];";

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

namespace {
/// How an operand lies in shared memory: K-major or MN-major, in groups of 8
/// lines whose pieces are swapped by line.
struct OperandLayout {
  unsigned swizzleBytes = 128; // 0: none
  bool isTransposed = false;
  unsigned leading = 0, stride = 0;

  uint64_t descriptor(uint64_t start) const {
    uint64_t code = swizzleBytes == 128  ? 1
                    : swizzleBytes == 64 ? 2
                    : swizzleBytes == 32 ? 3
                                         : 0;
    return start >> 4 | uint64_t(leading >> 4) << 16 |
           uint64_t(stride >> 4) << 32 | code << 62;
  }
  /// Of element (mn, k), as the figures of the PTX ISA (9.7.15.5) draw it.
  uint64_t place(unsigned mn, unsigned k) const {
    const unsigned along = isTransposed ? mn : k, line = isTransposed ? k : mn;
    if (!swizzleBytes)
      return isTransposed
                 ? mn / 8 * stride + k / 8 * leading + k % 8 * 16 + mn % 8 * 2
                 : mn / 8 * stride + k / 8 * leading + mn % 8 * 16 + k % 8 * 2;
    const unsigned width = swizzleBytes / 2; // elements of a line
    const unsigned piece = along % width / 8;
    const unsigned shift = 128 / swizzleBytes; // lines that swap alike
    return along / width * leading + line / 8 * stride +
           line % 8 * swizzleBytes + (piece ^ line % 8 / shift) * 16 +
           along % 8 * 2;
  }
};

struct Problem {
  unsigned columns = 8;
  OperandLayout a, b;
  bool isBfloat = false, accumulates = false;
  int scaleA = 1, scaleB = 1;
  std::vector<float> valuesA, valuesB; // [64][16], [columns][16]
};
} // namespace

static uint16_t encode(float value, bool isBfloat) {
  return static_cast<uint16_t>(isBfloat ? bfloatFromFloat(value)
                                        : halfFromFloat(value));
}

/// Small integers, other ones at each place.
static float integer(unsigned i, unsigned salt) {
  return static_cast<float>(int((i * 2654435761u + salt * 40503u) >> 13 & 7) -
                            3);
}

static void fillIntegers(Problem &p) {
  for (unsigned i = 0; i < 64 * 16; ++i)
    p.valuesA.push_back(integer(i, 1));
  for (unsigned i = 0; i < p.columns * 16; ++i)
    p.valuesB.push_back(integer(i, 2));
}

static std::vector<uint8_t> imageOf(const Problem &p) {
  std::vector<uint8_t> image(imageBytes, 0x5a);
  auto put = [&](uint64_t at, float value) {
    uint16_t bits = encode(value, p.isBfloat);
    std::memcpy(image.data() + at, &bits, 2);
  };
  for (unsigned k = 0; k < 16; ++k) {
    for (unsigned row = 0; row < 64; ++row)
      put(p.a.place(row, k), p.valuesA[row * 16 + k]);
    for (unsigned column = 0; column < p.columns; ++column)
      put(baseB + p.b.place(column, k), p.valuesB[column * 16 + k]);
  }
  return image;
}

static std::string list(const char *name, unsigned count, unsigned first = 0) {
  std::string text = "{";
  for (unsigned i = 0; i < count; ++i)
    text += (i ? ", " : "") + std::string(name) + std::to_string(first + i);
  return text + "}";
}

/// p0 to shared memory, with a fence for the async proxy.
static const std::string fill =
    "mov.u32 %r1, image; shl.b32 %r2, %t, 4;\nF: add.u32 %r3, %r1, %r2;"
    "cvt.u64.u32 %d1, %r2; add.u64 %d1, %d1, %g0;"
    "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d1];"
    "st.shared.v4.u32 [%r3], {%r4, %r5, %r6, %r7}; add.u32 %r2, %r2, 2048;"
    "setp.lt.u32 %p2, %r2, 32768; @%p2 bra F;\n"
    "fence.proxy.async.shared::cta; bar.sync 0;\n";
/// The descriptors of p2, relative to the image, in %d2 and %d3.
static const std::string descriptors =
    "ld.global.u64 %d2, [%g2]; ld.global.u64 %d3, [%g2+8]; shr.u32 %r1, %r1, 4;"
    "cvt.u64.u32 %d4, %r1; add.u64 %d2, %d2, %d4; add.u64 %d3, %d3, %d4;\n";
static const std::string await = "wgmma.commit_group.sync.aligned;"
                                 "wgmma.wait_group.sync.aligned 0;\n";

static std::string initial(unsigned count) {
  std::string text = "cvt.rn.f32.u32 %f259, %t;";
  for (unsigned i = 0; i < count; ++i)
    text +=
        "add.f32 %f" + std::to_string(i) + ", %f259, 0f" + "40000000;"; // t + 2
  return text + "\n";
}

/// Accumulator i of thread t to p1[i * 128 + t].
static std::string dump(unsigned count) {
  std::string text = "mul.wide.u32 %d5, %t, 4; add.u64 %d5, %d5, %g1;";
  for (unsigned i = 0; i < count; ++i)
    text += "st.global.f32 [%d5+" + std::to_string(i * 512) + "], %f" +
            std::to_string(i) + ";";
  return text + "\n";
}

static std::string mma(const Problem &p, const std::string &a = "%d2",
                       const std::string &b = "%d3") {
  bool fromRegisters = a[0] == '{';
  std::string type = p.isBfloat ? "bf16" : "f16";
  return "wgmma.mma_async.sync.aligned.m64n" + std::to_string(p.columns) +
         "k16.f32." + type + "." + type + " " + list("%f", p.columns / 2) +
         ", " + a + ", " + b + ", " + (p.accumulates ? "1" : "0") + ", " +
         std::to_string(p.scaleA) + ", " + std::to_string(p.scaleB) +
         (fromRegisters      ? ""
          : p.a.isTransposed ? ", 1"
                             : ", 0") +
         (p.b.isTransposed ? ", 1;\n" : ", 0;\n");
}

static RunConfig launchOf(const Problem &p) {
  RunConfig config;
  config.block = {128, 1, 1};
  config.buffers[0] = imageOf(p);
  config.buffers[2] =
      bytesOf(std::vector<uint64_t>{p.a.descriptor(0), p.b.descriptor(baseB)});
  config.outputBytes = p.columns * 256;
  return config;
}

static void expectClean(const RunResult &run) {
  EXPECT_TRUE(run.error.empty() && run.report.clean()) << run.text();
}

static float output(const RunResult &run, unsigned i, unsigned thread) {
  uint32_t bits = run.word(1, i * 128 + thread);
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// Thread and register of element (row, column).
static float element(const RunResult &run, unsigned row, unsigned column) {
  unsigned thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
  unsigned reg = column / 8 * 4 + row % 16 / 8 * 2 + column % 2;
  return output(run, reg, thread);
}

static void checkProduct(const Problem &p) {
  RunResult run = runSm90(fill + descriptors + initial(p.columns / 2) +
                              "wgmma.fence.sync.aligned;" + mma(p) + await +
                              dump(p.columns / 2),
                          launchOf(p), storage);
  expectClean(run);
  unsigned wrong = 0;
  for (unsigned row = 0; row < 64; ++row)
    for (unsigned column = 0; column < p.columns; ++column) {
      unsigned thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
      float sum = p.accumulates ? static_cast<float>(thread) + 2 : 0;
      for (unsigned k = 0; k < 16; ++k)
        sum += static_cast<float>(p.scaleA * p.scaleB) *
               p.valuesA[row * 16 + k] * p.valuesB[column * 16 + k];
      wrong += element(run, row, column) != sum;
    }
  EXPECT_EQ(wrong, 0u) << "n " << p.columns << " A " << p.a.swizzleBytes
                       << p.a.isTransposed << " B " << p.b.swizzleBytes
                       << p.b.isTransposed;
}

/// A layout with distances that are larger than they need to be.
static OperandLayout layoutOf(unsigned swizzle, bool transposed,
                              unsigned rows) {
  OperandLayout layout{swizzle, transposed, 0, 0};
  if (!swizzle) {
    layout.leading = transposed ? 128 : rows * 16 + 256;
    layout.stride = transposed ? 256 : 128;
  } else if (transposed) {
    layout.stride = swizzle * 8;
    layout.leading = swizzle * 16;
  } else {
    layout.stride = swizzle * 8;
    layout.leading = 16;
  }
  return layout;
}

TEST(Wgmma, LayoutsOfB) {
  for (unsigned swizzle : {0u, 32u, 64u, 128u})
    for (bool transposed : {false, true})
      for (unsigned columns : {8u, 72u, 128u}) {
        Problem p;
        p.columns = columns;
        p.a = layoutOf(128, false, 64);
        p.b = layoutOf(swizzle, transposed, columns);
        fillIntegers(p);
        checkProduct(p);
      }
}

TEST(Wgmma, LayoutsOfA) {
  for (unsigned swizzle : {0u, 32u, 64u, 128u})
    for (bool transposed : {false, true}) {
      Problem p;
      p.columns = 16;
      p.a = layoutOf(swizzle, transposed, 64);
      p.b = layoutOf(128, false, 16);
      fillIntegers(p);
      checkProduct(p);
    }
}

TEST(Wgmma, EveryWidth) {
  for (unsigned columns = 8; columns <= 256; columns += 8) {
    Problem p;
    p.columns = columns;
    p.a = layoutOf(128, false, 64);
    p.b = layoutOf(32, false, columns);
    fillIntegers(p);
    checkProduct(p);
  }
}

TEST(Wgmma, TypesAndScales) {
  for (bool isBfloat : {false, true})
    for (bool accumulates : {false, true})
      for (int scaleA : {1, -1})
        for (int scaleB : {1, -1}) {
          Problem p;
          p.columns = 24;
          p.a = layoutOf(64, false, 64);
          p.b = layoutOf(128, false, 24);
          p.isBfloat = isBfloat;
          p.accumulates = accumulates;
          p.scaleA = scaleA;
          p.scaleB = scaleB;
          fillIntegers(p);
          checkProduct(p);
        }
}

TEST(Wgmma, StepsAlongKWithinASwizzle) {
  // Lines of 64 elements; the product starts with element 32 of them.
  Problem p;
  p.a = layoutOf(128, false, 64);
  p.b = layoutOf(128, false, 8);
  fillIntegers(p);
  RunConfig config = launchOf(p);
  std::vector<uint8_t> image(imageBytes, 0x5a);
  auto put = [&](uint64_t at, float value) {
    uint16_t bits = encode(value, false);
    std::memcpy(image.data() + at, &bits, 2);
  };
  for (unsigned k = 0; k < 16; ++k) {
    for (unsigned row = 0; row < 64; ++row)
      put(p.a.place(row, 32 + k), p.valuesA[row * 16 + k]);
    for (unsigned column = 0; column < 8; ++column)
      put(baseB + p.b.place(column, 32 + k), p.valuesB[column * 16 + k]);
  }
  config.buffers[0] = image;
  RunResult run = runSm90(fill + descriptors +
                              "add.u64 %d2, %d2, 4; add.u64 %d3, %d3, 4;"
                              "wgmma.fence.sync.aligned;" +
                              mma(p) + await + dump(4),
                          config, storage);
  expectClean(run);
  for (unsigned row = 0; row < 64; ++row) {
    float sum = 0;
    for (unsigned k = 0; k < 16; ++k)
      sum += p.valuesA[row * 16 + k] * p.valuesB[3 * 16 + k];
    ASSERT_EQ(element(run, row, 3), sum) << row;
  }
}

TEST(Wgmma, PatternsThatStartAtABaseOffset) {
  // Both tiles start 256 bytes, or 2 lines, behind a multiple of 1024, and the
  // pattern with them.
  constexpr uint64_t shift = 256, base = uint64_t(2) << 49;
  Problem p;
  p.a = layoutOf(128, false, 64);
  p.b = layoutOf(128, false, 8);
  fillIntegers(p);
  RunConfig config = launchOf(p);
  std::vector<uint8_t> image = imageOf(p);
  image.insert(image.begin(), shift, 0x5a);
  image.resize(imageBytes);
  config.buffers[0] = image;
  config.buffers[2] = bytesOf(std::vector<uint64_t>{
      p.a.descriptor(shift) | base, p.b.descriptor(baseB + shift) | base});
  RunResult run = runSm90(fill + descriptors + "wgmma.fence.sync.aligned;" +
                              mma(p) + await + dump(4),
                          config, storage);
  expectClean(run);
  for (unsigned row = 0; row < 64; ++row) {
    float sum = 0;
    for (unsigned k = 0; k < 16; ++k)
      sum += p.valuesA[row * 16 + k] * p.valuesB[5 * 16 + k];
    ASSERT_EQ(element(run, row, 5), sum) << row;
  }
}

TEST(Wgmma, RoundsAsMmaSync) {
  // The same registers of A, and of B what both read from memory.
  Problem p;
  p.columns = 8;
  p.accumulates = true;
  p.a = layoutOf(128, false, 64);
  p.b = layoutOf(0, false, 8);
  uint32_t state = 1;
  auto draw = [&] {
    state = state * 1664525 + 1013904223;
    return std::ldexp(static_cast<float>(int(state >> 8) - (1 << 23)),
                      -20 - int(state >> 28));
  };
  for (unsigned i = 0; i < 64 * 16; ++i)
    p.valuesA.push_back(draw());
  for (unsigned i = 0; i < 8 * 16; ++i)
    p.valuesB.push_back(draw());
  // ldmatrix gives the fragments of A (from the 128-byte lines) and B.
  const std::string fragments =
      "mov.u32 %r20, image; and.b32 %r21, %t, 31; shr.u32 %r22, %t, 5;"
      "shl.b32 %r22, %r22, 11; add.u32 %r22, %r22, %r20;" // the warp's 16 rows
      "and.b32 %r23, %r21, 15; shl.b32 %r24, %r23, 7; add.u32 %r22, %r22, %r24;"
      "shr.u32 %r25, %r21, 4; and.b32 %r26, %r23, 7; xor.b32 %r25, %r25, %r26;"
      "shl.b32 %r25, %r25, 4; add.u32 %r22, %r22, %r25;"
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, "
      "[%r22];"
      "and.b32 %r27, %r21, 7; shl.b32 %r27, %r27, 4; shr.u32 %r28, %r21, 3;"
      "and.b32 %r28, %r28, 1; mul.lo.u32 %r28, %r28, " +
      std::to_string(p.b.leading) +
      "; add.u32 %r27, %r27, %r28; add.u32 %r27, %r27, %r20;"
      "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r14, %r15}, "
      "[%r27+16384];\n";
  const std::string sync =
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3},"
      " {%r10, %r11, %r12, %r13}, {%r14, %r15}, {%f0, %f1, %f2, %f3};\n";
  auto run = [&](const std::string &product) {
    RunResult result =
        runSm90(fill + descriptors + fragments + initial(4) + product + dump(4),
                launchOf(p), storage);
    expectClean(result);
    return result.buffers[1];
  };
  const std::vector<uint8_t> expected = run(sync);
  EXPECT_EQ(run("wgmma.fence.sync.aligned;" + mma(p) + await), expected);
  EXPECT_EQ(run("wgmma.fence.sync.aligned;" +
                mma(p, "{%r10, %r11, %r12, %r13}") + await),
            expected);
}

//===----------------------------------------------------------------------===//
// What is reported
//===----------------------------------------------------------------------===//

static Problem smallProblem() {
  Problem p;
  p.a = layoutOf(128, false, 64);
  p.b = layoutOf(128, false, 8);
  fillIntegers(p);
  return p;
}

static RunResult runSmall(const std::string &body, uint32_t threads = 128) {
  RunConfig config = launchOf(smallProblem());
  config.block = {threads, 1, 1};
  return runSm90(body, config, storage);
}

static const std::string ready = fill + descriptors;
static const std::string start = "wgmma.fence.sync.aligned;";
static const std::string commit = "wgmma.commit_group.sync.aligned;";
static std::string waitFor(unsigned groups) {
  return "wgmma.wait_group.sync.aligned " + std::to_string(groups) + ";\n";
}

static void expectFinding(const RunResult &run, FindingKind kind,
                          const std::string &text) {
  ASSERT_TRUE(run.error.empty()) << run.error;
  ASSERT_GE(run.count(kind), 1u) << run.text();
  EXPECT_NE(run.text().find(text), std::string::npos) << run.text();
}

TEST(Wgmma, RegistersInFlight) {
  const Problem p = smallProblem();
  const std::string product = start + mma(p), use = "add.f32 %f20, %f1, %f1;";
  expectClean(runSmall(ready + product + commit + waitFor(0) + use));
  for (const std::string &early : {commit + waitFor(1), commit, waitFor(0)})
    expectFinding(runSmall(ready + product + early + use + commit + waitFor(0)),
                  FindingKind::RegisterInFlight, "reads %f1, which the wgmma");
  expectFinding(runSmall(ready + product + commit + "mov.f32 %f1, 0f00000000;" +
                         waitFor(0)),
                FindingKind::RegisterInFlight,
                "%f1 was written while the wgmma");
  // Not waited for at the end.
  expectFinding(runSmall(ready + product + commit),
                FindingKind::RegisterInFlight,
                "the warp ends while 1 wgmma have not been waited for");
}

TEST(Wgmma, FragmentsInFlight) {
  const std::string values = "mov.u32 %r10, 0; mov.u32 %r11, 0;"
                             "mov.u32 %r12, 0; mov.u32 %r13, 0;";
  const std::string product =
      start + mma(smallProblem(), "{%r10, %r11, %r12, %r13}") + commit;
  expectClean(runSmall(ready + values + product + waitFor(0) + values));
  expectFinding(
      runSmall(ready + values + product + "mov.u32 %r12, 1;" + waitFor(0)),
      FindingKind::RegisterInFlight, "%r12 was written while");
  expectFinding(
      runSmall(ready + values + product + "add.u32 %r9, %r12, 1;" + waitFor(0)),
      FindingKind::RegisterInFlight, "reads %r12");
  // Written behind the fence.
  expectFinding(runSmall(ready + start + values +
                         mma(smallProblem(), "{%r10, %r11, %r12, %r13}") +
                         commit + waitFor(0)),
                FindingKind::RegisterInFlight, "with no wgmma.fence");
}

TEST(Wgmma, FencesOnAllWays) {
  const Problem p = smallProblem();
  expectFinding(runSmall(ready + mma(p) + commit + waitFor(0)),
                FindingKind::RegisterInFlight,
                "no wgmma.fence comes before the first wgmma");
  // Round a loop: what reads the sums comes before the next product.
  auto loop = [&](const std::string &fence) {
    return ready + "mov.u32 %r30, 0;" + start + "\nL:" + fence + mma(p) +
           commit + waitFor(0) +
           "add.f32 %f20, %f1, %f1; add.u32 %r30, %r30, 1;"
           "setp.lt.u32 %p5, %r30, 3; @%p5 bra L;";
  };
  expectClean(runSmall(loop(start)));
  expectFinding(runSmall(loop("")), FindingKind::RegisterInFlight,
                "with no wgmma.fence on the way from there");
}

TEST(Wgmma, SharedOperandsInFlight) {
  const std::string product = start + mma(smallProblem());
  const std::string overwrite =
      "bar.sync 0; setp.eq.u32 %p5, %t, 5; @%p5 st.shared.u32 [image+16384], "
      "%t;";
  expectClean(runSmall(ready + product + commit + waitFor(0) + overwrite));
  expectFinding(
      runSmall(ready + product + commit + overwrite + waitFor(0)),
      FindingKind::AsyncOverwrite,
      "writes byte 16384 of 'image' (32768 bytes), which a wgmma that "
      "has not been waited for may still read");
  expectFinding(
      runSmall(ready + product + commit + waitFor(1) + overwrite + waitFor(0)),
      FindingKind::AsyncOverwrite, "may still read");
  // Freed for a producer before and after the wait.
  auto ring = [&](const std::string &before, const std::string &after) {
    return "setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [bar], 1;" +
           ready + "setp.gt.u32 %p1, %t, 127; @%p1 bra P;\n" + product +
           commit + before + waitFor(0) + after +
           "bra E;\nP: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;"
           "@!%p2 bra P;\nsetp.eq.u32 %p5, %t, 128;"
           "@%p5 st.shared.u32 [image+16384], %t;\nE:";
  };
  const std::string arrive = "@%p0 mbarrier.arrive.shared.b64 _, [bar];";
  expectClean(runSmall(ring("", arrive), 256));
  expectFinding(runSmall(ring(arrive, ""), 256), FindingKind::AsyncOverwrite,
                "may still read");
}

TEST(Wgmma, ReadsWhatIsWrittenAndFenced) {
  const std::string body = start + mma(smallProblem()) + commit + waitFor(0);
  auto without = [&](const std::string &what) {
    std::string text = ready;
    return text.replace(text.find(what), what.size(), "") + body;
  };
  expectFinding(runSmall(without("fence.proxy.async.shared::cta;")),
                FindingKind::MissingProxyFence,
                ", which a thread has written, with no fence.proxy.async");
  expectFinding(runSmall(without("bar.sync 0;")), FindingKind::SharedRace,
                "wgmma reads");
}

TEST(Wgmma, UndefinedOperands) {
  const std::string product = start + mma(smallProblem()) + commit + waitFor(0);
  // A row of A and a column of B that nobody wrote.
  std::string part = fill;
  part.replace(part.find("st.shared.v4"), 12,
               "and.b32 %r8, %r2, 0x3f80; setp.ne.u32 %p3, %r8, 128;"
               "@%p3 st.shared.v4");
  auto storeOf = [](unsigned thread) {
    return "setp.eq.u32 %p6, %t, " + std::to_string(thread) +
           "; @%p6 st.global.f32 [%g1], %f0;";
  };
  expectClean(runSmall(part + descriptors + product + storeOf(0)));
  // Row 1 of A: thread 4; column 1 of B: register 1.
  expectFinding(runSmall(part + descriptors + product + storeOf(4)),
                FindingKind::UninitializedMemory, "stores undefined data");
  expectFinding(runSmall(part + descriptors + product +
                         "setp.eq.u32 %p6, %t, 0;"
                         "@%p6 st.global.f32 [%g1], %f1;"),
                FindingKind::UninitializedMemory, "stores undefined data");
  // A sum that starts from nothing.
  Problem sums = smallProblem();
  sums.accumulates = true;
  expectFinding(
      runSmall(ready + start + mma(sums) + commit + waitFor(0) + storeOf(0)),
      FindingKind::UninitializedRegister, "%f0");
}

TEST(Wgmma, WarpsMustAgree) {
  const std::string product = mma(smallProblem());
  // Half a warpgroup, another product, another descriptor, none at all.
  expectFinding(runSmall(ready + start + product, 96),
                FindingKind::DivergentCollective,
                "are no whole warpgroup: the CTA has 96 threads");
  expectFinding(runSmall(ready + start +
                         "setp.lt.u32 %p5, %t, 32; @%p5 add.u64 %d2, %d2, 64;" +
                         product + commit + waitFor(0)),
                FindingKind::InvalidDescriptor, "issues another product");
  RunResult run =
      runSmall(ready + start + "setp.lt.u32 %p5, %t, 32; @%p5 bra E;\n" +
               product + commit + waitFor(0) + "E:");
  expectFinding(run, FindingKind::Deadlock,
                "warp 1, warp 2, warp 3 wait for a wgmma that not all warps of "
                "its warpgroup have issued");
  run = runSmall(ready + start + "add.u64 %d2, %d2, 4096;" + product + commit +
                 waitFor(0));
  expectFinding(run, FindingKind::OutOfBounds, "shared access of 16 bytes");
}

TEST(Wgmma, OneWarpRunsAhead) {
  // Products that the other warps never issue are not kept without end.
  RunResult run =
      runSmall(ready + start + "setp.ge.u32 %p5, %t, 32; @%p5 exit;\nL:" +
               mma(smallProblem()) + commit + "bra L;");
  expectFinding(run, FindingKind::InvalidDescriptor,
                "is 1025 products ahead of its warpgroup");
}

TEST(Wgmma, FormsThatAreRefused) {
  auto error = [](const std::string &body) {
    return loadError(sm90Text(body, storage));
  };
  for (const char *types : {"k32.f32.e4m3.e4m3", "k8.f32.tf32.tf32",
                            "k32.s32.s8.s8", "k16.f16.f16.f16"})
    EXPECT_NE(error("wgmma.mma_async.sync.aligned.m64n8" + std::string(types) +
                    " {%f0, %f1, %f2, %f3}, %d2, %d3, 1, 1, 1;")
                  .find("needs products of a warpgroup other than of f16 or "
                        "bf16 into f32"),
              std::string::npos)
        << types;
  EXPECT_NE(error("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f0, "
                  "%f1, %f2, %f3}, %d2, %d3, %r0, 0, 1, 1, 1, 0, 0;")
                .find("needs products of sparse matrices"),
            std::string::npos);
  EXPECT_NE(error("wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {%f0, "
                  "%f1, %f2, %f3}, %d2, %d3, 1, 1, 1, 0, 0;")
                .find("N a multiple of 8"),
            std::string::npos);
  EXPECT_NE(error("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, "
                  "%f1}, %d2, %d3, 1, 1, 1, 0, 0;")
                .find("expects 4 registers in D of wgmma, but got 2"),
            std::string::npos);
  EXPECT_NE(error("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, "
                  "%f1, %f2, %f3}, %d2, %d3, 1, 2, 1, 0, 0;")
                .find("expects a scale of 1 or -1"),
            std::string::npos);
}
