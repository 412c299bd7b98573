//===- WarpSpecialisedTest.cpp - Attention by warps of two roles ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A forward attention kernel as they are written for sm_90a: a producer that
// fills two rings of two slots by bulk copies, a warpgroup that multiplies,
// mbarriers between them, the output stored from shared memory by a bulk copy.
// 64 columns, 64 queries a CTA, tiles of 64 keys. It gives attention and no
// finding; each mistake made in it is reported.
//
//===----------------------------------------------------------------------===//

#include "../lib/math/Half.h"
#include "TestUtil.h"

#include <cmath>

using namespace flashcore::emu;
using namespace flashcore::emu::test;

static constexpr unsigned tile = 64, columns = 64;

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

static std::string number(unsigned value) { return std::to_string(value); }

static std::string registers(const char *name, unsigned first, unsigned count) {
  std::string text = "{";
  for (unsigned i = 0; i < count; ++i)
    text += (i ? ", %" : "%") + (name + number(first + i));
  return text + "}";
}

/// Waits for a phase: `label` makes the loop one of its own.
static std::string await(const std::string &label, const std::string &barrier,
                         const std::string &parity) {
  return label + ": mbarrier.try_wait.parity.shared.b64 %done, [" + barrier +
         "], " + parity + "; @!%done bra " + label + ";\n";
}

static std::string copy(const std::string &to, const std::string &map,
                        const std::string &row, const std::string &barrier) {
  return "mbarrier.arrive.expect_tx.shared.b64 _, [" + barrier +
         "], 8192;\ncp.async.bulk.tensor.3d.shared::cluster.global.tile."
         "mbarrier::complete_tx::bytes [" +
         to + "], [%" + map + ", {0, " + row + ", %head}], [" + barrier +
         "];\n";
}

/// Barriers: Q at 0; full K, empty K, full V and empty V of the two slots from
/// 16, 32, 48 and 64.
static std::string producer() {
  return "setmaxnreg.dec.sync.aligned.u32 24;\n"
         "setp.ge.u32 %p, %thread, 32; @%p bra END;\n"
         "elect.sync _|%p, 0xffffffff; @!%p bra END;\n"
         "mov.u32 %slot, 0; mov.u32 %parity, 1; mov.u32 %i, 0;\n"
         "shl.b32 %row, %block, 6;\n" +
         copy("tiles", "mq", "%row", "bars") +
         "PRODUCE: shl.b32 %at, %slot, 3; mov.u32 %bar, bars;"
         "add.u32 %bar, %bar, %at; shl.b32 %at, %slot, 13;"
         "mov.u32 %to, tiles; add.u32 %to, %to, %at; shl.b32 %row, %i, 6;\n" +
         await("EK", "%bar+32", "%parity") +
         copy("%to+16384", "mk", "%row", "%bar+16") +
         await("EV", "%bar+64", "%parity") +
         copy("%to+32768", "mv", "%row", "%bar+48") +
         "add.u32 %i, %i, 1; xor.b32 %slot, %slot, 1;"
         "setp.eq.u32 %p, %slot, 0; @%p xor.b32 %parity, %parity, 1;\n"
         "setp.lt.u32 %p, %i, %n; @%p bra PRODUCE;\nbra END;\n";
}

/// S = Q K^T.
static std::string scores() {
  std::string text = "wgmma.fence.sync.aligned; // S\n";
  for (unsigned k = 0; k < 4; ++k)
    text += "add.u64 %da, %dq, " + number(2 * k) + "; add.u64 %db, %dk, " +
            number(2 * k) +
            "; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " +
            registers("s", 0, 32) + ", %da, %db, " + (k ? "1" : "0") +
            ", 1, 1, 0, 0;\n";
  return text + "wgmma.commit_group.sync.aligned; // S\n"
                "wgmma.wait_group.sync.aligned 0; // S\n";
}

/// O += P V.
static std::string output() {
  std::string text = "wgmma.fence.sync.aligned; // O\n";
  for (unsigned k = 0; k < 4; ++k)
    text += "add.u64 %db, %dv, " + number(128 * k) +
            "; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " +
            registers("o", 0, 32) + ", " + registers("q", 4 * k, 4) +
            ", %db, 1, 1, 1, 1;\n";
  return text + "wgmma.commit_group.sync.aligned; // O\n"
                "wgmma.wait_group.sync.aligned 0; // O\n";
}

static std::string exchange(const std::string &op, const std::string &value) {
  std::string text;
  for (const char *lane : {"1", "2"})
    text += "mov.b32 %x, " + value + "; shfl.sync.bfly.b32 %x, %x, " + lane +
            ", 31, 0xffffffff; mov.b32 %y, %x; " + op + " " + value + ", " +
            value + ", %y;\n";
  return text;
}

/// P, the maxima and sums of two rows, and O rescaled.
static std::string softmax() {
  std::string text;
  for (unsigned row = 0; row < 2; ++row) {
    std::string r = number(row);
    text += "mov.f32 %new" + r + ", %max" + r + ";\n";
    for (unsigned i = 0; i < 32; ++i)
      if (i / 2 % 2 == row)
        text += "max.f32 %new" + r + ", %new" + r + ", %s" + number(i) + ";";
    text += exchange("max.f32", "%new" + r) + "mul.f32 %neg, %new" + r +
            ", %scale; neg.f32 %neg, %neg; fma.rn.f32 %y, %max" + r +
            ", %scale, %neg; ex2.approx.ftz.f32 %y, %y; mov.f32 %max" + r +
            ", %new" + r + "; mul.f32 %sum" + r + ", %sum" + r + ", %y;\n";
    for (unsigned i = 0; i < 32; ++i)
      if (i / 2 % 2 == row)
        text += "fma.rn.f32 %s" + number(i) + ", %s" + number(i) +
                ", %scale, %neg; ex2.approx.ftz.f32 %s" + number(i) + ", %s" +
                number(i) + "; add.f32 %sum" + r + ", %sum" + r + ", %s" +
                number(i) + "; mul.f32 %o" + number(i) + ", %o" + number(i) +
                ", %y;\n";
  }
  for (unsigned i = 0; i < 16; ++i)
    text += "cvt.rn.f16x2.f32 %q" + number(i) + ", %s" + number(2 * i + 1) +
            ", %s" + number(2 * i) + ";";
  return text + "\n";
}

static std::string consumer() {
  std::string text = "CONSUME: setmaxnreg.inc.sync.aligned.u32 232;\n"
                     "mov.u32 %slot, 0; mov.u32 %parity, 0; mov.u32 %i, 0;\n";
  for (unsigned i = 0; i < 32; ++i)
    text += "mov.f32 %o" + number(i) + ", 0f00000000;";
  for (const char *row : {"0", "1"})
    text += std::string("mov.f32 %max") + row + ", 0fFF800000; mov.f32 %sum" +
            row + ", 0f00000000;\n";
  // Lines of 128 bytes, groups of eight 1024 bytes apart.
  text += "mov.u32 %at, tiles; shr.u32 %at, %at, 4; cvt.u64.u32 %dq, %at;"
          "or.b64 %dq, %dq, 0x4000004000000000;\n" +
          await("FQ", "bars", "0") +
          "LOOP: shl.b32 %at, %slot, 3; mov.u32 %bar, bars;"
          "add.u32 %bar, %bar, %at; shl.b32 %at, %slot, 9; cvt.u64.u32 %db, "
          "%at; add.u64 %dk, %dq, %db; add.u64 %dk, %dk, 1024;"
          "add.u64 %dv, %dk, 1024;\n" +
          await("FK", "%bar+16", "%parity") + scores() +
          "@%leader mbarrier.arrive.shared.b64 _, [%bar+32];\n" + softmax() +
          await("FV", "%bar+48", "%parity") + output() +
          "@%leader mbarrier.arrive.shared.b64 _, [%bar+64];\n"
          "add.u32 %i, %i, 1; xor.b32 %slot, %slot, 1;"
          "setp.eq.u32 %p, %slot, 0; @%p xor.b32 %parity, %parity, 1;\n"
          "setp.lt.u32 %p, %i, %n; @%p bra LOOP;\n";
  for (unsigned row = 0; row < 2; ++row) {
    std::string r = number(row);
    text += exchange("add.f32", "%sum" + r) + "rcp.rn.f32 %y, %sum" + r + ";\n";
    for (unsigned i = 0; i < 32; ++i)
      if (i / 2 % 2 == row)
        text += "mul.f32 %o" + number(i) + ", %o" + number(i) + ", %y;";
  }
  return text;
}

/// O into the tile of Q's neighbour, 16 columns at a time, and away.
static std::string epilogue() {
  std::string text =
      "\nand.b32 %lane, %thread, 31; and.b32 %row, %lane, 15; shr.u32 %at, "
      "%thread, "
      "5; and.b32 %at, %at, 3; shl.b32 %at, %at, 4; add.u32 %row, %row, %at;"
      "shl.b32 %at, %row, 7; mov.u32 %to, tiles; add.u32 %to, %to, %at;"
      "and.b32 %row, %row, 7; shr.u32 %lane, %lane, 4;\n";
  for (unsigned pair = 0; pair < 4; ++pair) {
    for (unsigned i = 0; i < 4; ++i)
      text += "cvt.rn.f16x2.f32 %q" + number(i) + ", %o" +
              number(8 * pair + 2 * i + 1) + ", %o" + number(8 * pair + 2 * i) +
              ";";
    text += "add.u32 %at, %lane, " + number(2 * pair) +
            "; xor.b32 %at, %at, %row; shl.b32 %at, %at, 4; add.u32 %at, %at, "
            "%to;\nstmatrix.sync.aligned.m8n8.x4.shared.b16 [%at+8192], "
            "{%q0, %q1, %q2, %q3};\n";
  }
  return text +
         "fence.proxy.async.shared::cta;\nbar.sync 1, 128;\n"
         "@!%leader bra END; shl.b32 %row, %block, 6;\n"
         "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%mo, {0, "
         "%row, %head}], [tiles+8192];\ncp.async.bulk.commit_group;\n"
         "cp.async.bulk.wait_group 0;\nEND: ret;\n}\n";
}

static std::string attention() {
  return ".version 8.0\n.target sm_90a\n.address_size 64\n"
         ".visible .entry attention(.param .u64 p0, .param .u64 p1, .param "
         ".u64 p2, .param .u64 p3, .param .align 64 .b8 q[128], .param .align "
         "64 .b8 k[128], .param .align 64 .b8 v[128], .param .align 64 .b8 "
         "o[128])\n.reqntid 256\n.minnctapersm 2\n{\n"
         ".shared .align 1024 .b8 tiles[49152]; .shared .align 8 .b8 bars[80];"
         ".reg .f32 %s<32>, %o<32>, %new<2>, %max<2>, %sum<2>, %scale, %neg, "
         "%y; .reg .b32 %q<16>, %x; .reg .b64 %dq, %dk, %dv, %da, %db, %mq, "
         "%mk, %mv, %mo; .reg .pred %p, %done, %leader; .reg .b32 %thread, "
         "%slot, "
         "%parity, %i, %n, %row, %at, %to, %bar, %block, %head, %lane;\n"
         "mov.b64 %mq, q; cvta.param.u64 %mq, %mq; mov.b64 %mk, k;"
         "cvta.param.u64 %mk, %mk; mov.b64 %mv, v; cvta.param.u64 %mv, %mv;"
         "mov.b64 %mo, o; cvta.param.u64 %mo, %mo;\n"
         "mov.u32 %thread, %tid.x; mov.u32 %block, %ctaid.x; mov.u32 %head, "
         "%ctaid.y; mov.u32 %n, %nctaid.x; mov.f32 %scale, 0f3E38AA3B;\n"
         "setp.eq.u32 %leader, %thread, 128; setp.ne.u32 %p, %thread, 0;"
         "@%p bra READY;\nmov.u32 %i, 0;\nINIT: mov.u32 %bar, bars;"
         "shl.b32 %at, %i, 3; add.u32 %bar, %bar, %at;"
         "mbarrier.init.shared.b64 [%bar], 1; add.u32 %i, %i, 1;"
         "setp.lt.u32 %p, %i, 10; @%p bra INIT;\n"
         "fence.mbarrier_init.release.cluster;\nREADY: bar.sync 0;\n"
         "setp.gt.u32 %p, %thread, 127; @%p bra CONSUME;\n" +
         producer() + consumer() + epilogue();
}

//===----------------------------------------------------------------------===//
// Running it
//===----------------------------------------------------------------------===//

namespace {
struct Tensors {
  unsigned heads, rows;
  std::vector<uint16_t> q, k, v;
};
} // namespace

static Tensors draw(unsigned heads, unsigned rows) {
  Tensors all{heads, rows, {}, {}, {}};
  uint32_t state = 7;
  for (std::vector<uint16_t> *one : {&all.q, &all.k, &all.v})
    for (unsigned i = 0; i < heads * rows * columns; ++i) {
      float sum = 0;
      for (unsigned j = 0; j < 4; ++j) {
        state = state * 1664525 + 1013904223;
        sum += static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
      }
      one->push_back(static_cast<uint16_t>(halfFromFloat(sum * 1.7f)));
    }
  return all;
}

static RunConfig launchOf(const Tensors &all) {
  RunConfig config;
  config.grid = {all.rows / tile, all.heads, 1};
  config.block = {256, 1, 1};
  config.buffers = {bytesOf(all.q), bytesOf(all.k), bytesOf(all.v), {}};
  config.outputBytes = all.q.size() * 2;
  for (unsigned i = 0; i < 4; ++i) {
    TensorMap map;
    map.address = i;
    map.rank = 3;
    map.swizzle = TensorSwizzle::Bytes128;
    const uint64_t sizes[] = {columns, all.rows, all.heads};
    const uint64_t strides[] = {2, columns * 2, columns * 2 * all.rows};
    const uint32_t box[] = {columns, tile, 1};
    std::copy_n(sizes, 3, map.sizes);
    std::copy_n(strides, 3, map.strides);
    std::copy_n(box, 3, map.box);
    config.maps.push_back(map);
  }
  return config;
}

/// The largest distance of an output from attention in double precision.
static double largestError(const Tensors &all, const RunResult &run) {
  double worst = 0;
  auto at = [&](const std::vector<uint16_t> &values, unsigned row, unsigned c) {
    return static_cast<double>(floatFromHalf(values[row * columns + c]));
  };
  for (unsigned row = 0; row < all.heads * all.rows; ++row) {
    const unsigned first = row / all.rows * all.rows;
    std::vector<double> p(all.rows), sums(columns, 0.0);
    double total = 0;
    for (unsigned key = 0; key < all.rows; ++key) {
      double score = 0;
      for (unsigned c = 0; c < columns; ++c)
        score += at(all.q, row, c) * at(all.k, first + key, c);
      total += p[key] = std::exp(score / 8);
      for (unsigned c = 0; c < columns; ++c)
        sums[c] += p[key] * at(all.v, first + key, c);
    }
    for (unsigned c = 0; c < columns; ++c) {
      uint16_t bits;
      std::memcpy(&bits, run.buffers[3].data() + (row * columns + c) * 2, 2);
      double error = std::abs(floatFromHalf(bits) - sums[c] / total);
      worst = std::max(worst, std::isfinite(error) ? error : 1e9);
    }
  }
  return worst;
}

static void expectAttention(const Tensors &all, const RunResult &run) {
  ASSERT_TRUE(run.error.empty() && run.report.clean()) << run.text();
  EXPECT_LT(largestError(all, run), 1e-3);
}

TEST(WarpSpecialised, IsAttention) {
  Tensors all = draw(2, 320);
  RunConfig config = launchOf(all);
  RunResult first = runText(attention(), config);
  expectAttention(all, first);
  for (Schedule schedule : {Schedule::Skewed, Schedule::Random})
    for (AsyncMode async : {AsyncMode::Eager, AsyncMode::Random}) {
      config.options.schedule = schedule;
      config.options.async = async;
      RunResult run = runText(attention(), config);
      expectAttention(all, run);
      EXPECT_EQ(run.buffers[3], first.buffers[3]);
    }
}

TEST(WarpSpecialised, OnSeveralThreads) {
  Tensors all = draw(2, 192);
  RunConfig config = launchOf(all);
  RunResult alone = runText(attention(), config);
  config.options.threads = 3;
  RunResult together = runText(attention(), config);
  EXPECT_EQ(together.report.threads, 3u) << together.report.threadsNote;
  EXPECT_EQ(together.comparable(), alone.comparable());
  EXPECT_EQ(together.buffers[3], alone.buffers[3]);
}

TEST(WarpSpecialised, WithoutChecks) {
  Tensors all = draw(1, 128);
  RunConfig config = launchOf(all);
  for (unsigned checks : {CheckNone, CheckInit, CheckRace, CheckAsync}) {
    config.options.checks = checks;
    expectAttention(all, runText(attention(), config));
  }
}

//===----------------------------------------------------------------------===//
// Mistakes
//===----------------------------------------------------------------------===//

namespace {
struct Mistake {
  const char *name;
  std::string from, to;
  /// One of these kinds is among the findings.
  std::vector<FindingKind> kinds;
};
} // namespace

static const std::string arriveK =
    "@%leader mbarrier.arrive.shared.b64 _, [%bar+32];\n";
static const std::string arriveV =
    "@%leader mbarrier.arrive.shared.b64 _, [%bar+64];\n";

static std::vector<Mistake> mistakes() {
  using K = FindingKind;
  const std::vector<K> deadlock = {K::Deadlock};
  const std::vector<K> unready = {K::AsyncRead};
  const std::vector<K> unfree = {K::AsyncOverwrite};
  const std::vector<K> inFlight = {K::RegisterInFlight};
  const std::string waitS = "wgmma.wait_group.sync.aligned 0; // S\n",
                    waitO = "wgmma.wait_group.sync.aligned 0; // O\n";
  return {
      {"no wait for Q", await("FQ", "bars", "0"), "", unready},
      {"no wait for K", await("FK", "%bar+16", "%parity"), "", unready},
      {"no wait for V", await("FV", "%bar+48", "%parity"), "", unready},
      {"no wait for an empty K", await("EK", "%bar+32", "%parity"), "", unfree},
      {"no wait for an empty V", await("EV", "%bar+64", "%parity"), "", unfree},
      {"K's parity", await("FK", "%bar+16", "%parity"),
       await("FK", "%bar+16", "1"), unready},
      {"V's parity", await("FV", "%bar+48", "%parity"),
       await("FV", "%bar+48", "1"), unready},
      {"the producer's first parity", "mov.u32 %parity, 1;",
       "mov.u32 %parity, 0;", deadlock},
      {"no change of parity",
       "@%p xor.b32 %parity, %parity, 1;",
       "",
       {K::Deadlock, K::AsyncOverwrite}},
      {"K released before the wait", waitS, arriveK + waitS, unfree},
      {"V released before the wait", waitO, arriveV + waitO, unfree},
      {"K never released", arriveK, "", deadlock},
      {"V never released", arriveV, "", deadlock},
      {"no wait for S", waitS, "", inFlight},
      {"no wait for O", waitO, "", inFlight},
      {"S not committed", "wgmma.commit_group.sync.aligned; // S\n", "",
       inFlight},
      {"O not committed", "wgmma.commit_group.sync.aligned; // O\n", "",
       inFlight},
      {"no fence before S", "wgmma.fence.sync.aligned; // S\n", "", inFlight},
      {"no fence before O", "wgmma.fence.sync.aligned; // O\n", "", inFlight},
      {"too few bytes", "[bars], 8192;", "[bars], 8176;", deadlock},
      {"too many bytes", "[%bar+16], 8192;", "[%bar+16], 8208;", deadlock},
      {"no copy of V to wait for",
       "[%bar+48], 8192;",
       "[%bar+48], 0;",
       {K::AsyncRead, K::Deadlock}},
      {"no proxy fence",
       "fence.proxy.async.shared::cta;\n",
       "",
       {K::MissingProxyFence}},
      {"no barrier before the store",
       "bar.sync 1, 128;\n",
       "",
       {K::SharedRace}},
      {"no barrier after the init",
       "READY: bar.sync 0;\n",
       "READY:",
       {K::InvalidMbarrier}},
      {"the store not waited for", "cp.async.bulk.wait_group 0;\n", "", unfree},
      {"the store not committed", "cp.async.bulk.commit_group;\n", "", unfree},
      {"too many registers", "u32 232;", "u32 240;", {K::InvalidRegisterCount}},
      {"no registers given",
       "setmaxnreg.dec.sync.aligned.u32 24;\n",
       "",
       {K::InvalidRegisterCount}},
      {"one arrival more than come", "[%bar], 1;", "[%bar], 2;", deadlock},
      {"two arrivals instead of one",
       arriveK,
       arriveK + arriveK,
       {K::Deadlock, K::AsyncOverwrite}},
      {"arrivals of all threads",
       arriveV,
       "mbarrier.arrive.shared.b64 _, [%bar+64];\n",
       {K::Deadlock, K::InvalidMbarrier}},
      {"an mbarrier made twice",
       "mbarrier.init.shared.b64 [%bar], 1;",
       "mbarrier.init.shared.b64 [%bar], 1; mbarrier.init.shared.b64 [%bar], "
       "1;",
       {K::InvalidMbarrier}},
      {"K released at V's mbarrier",
       arriveK,
       "@%leader mbarrier.arrive.shared.b64 _, [%bar+64];\n",
       {K::Deadlock, K::AsyncOverwrite}},
      {"K into V's slot",
       "[%to+16384], [%mk",
       "[%to+32768], [%mk",
       {K::AsyncRead, K::SharedRace, K::AsyncOverwrite}},
      {"K tells V's mbarrier", "%head}], [%bar+16]", "%head}], [%bar+48]",
       deadlock},
      {"a group that may stay in flight", waitS,
       "wgmma.wait_group.sync.aligned 1; // S\n", inFlight},
      {"the fence of S behind a product",
       "wgmma.fence.sync.aligned; // S\nadd.u64 %da, %dq, 0; add.u64 %db, "
       "%dk, 0; ",
       "add.u64 %da, %dq, 0; add.u64 %db, %dk, 0; ", inFlight},
      {"no copy of K to wait for",
       "[%bar+16], 8192;",
       "[%bar+16], 0;",
       {K::AsyncRead, K::Deadlock}},
      {"Q's tile too far",
       "[tiles], [%mq",
       "[tiles+49152], [%mq",
       {K::OutOfBounds}},
      {"Q's tile not aligned",
       "[tiles], [%mq",
       "[tiles+16], [%mq",
       {K::Misaligned}}};
}

TEST(WarpSpecialised, MistakesAreReported) {
  Tensors all = draw(1, 320);
  const std::string right = attention();
  for (const Mistake &mistake : mistakes()) {
    std::string text = right;
    bool found = false;
    for (size_t at = 0; (at = text.find(mistake.from, at)) != text.npos;
         at += mistake.to.size()) {
      text.replace(at, mistake.from.size(), mistake.to);
      found = true;
    }
    ASSERT_TRUE(found) << mistake.name;
    for (Schedule schedule : {Schedule::Sequential, Schedule::Random}) {
      RunConfig config = launchOf(all);
      config.options.schedule = schedule;
      RunResult run = runText(text, config);
      size_t count = 0;
      for (FindingKind kind : mistake.kinds)
        count += run.count(kind);
      EXPECT_GE(count, 1u) << mistake.name << "\n" << run.text();
      // Nothing of it takes long.
      EXPECT_LT(run.report.counters.warpInstructions, 300000u) << mistake.name;
    }
  }
}
