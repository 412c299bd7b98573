//===- BulkCopyTest.cpp - Bulk copies and tensor maps ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where each byte of a box goes, by formulas that know nothing of addresses;
// what a copy needs before and behind it; what is no tensor map.
//
//===----------------------------------------------------------------------===//

#include "FindingUtil.h"

using namespace flashcore::emu;
using namespace flashcore::emu::test;

static constexpr unsigned tileBytes = 16384;
static const std::string storage =
    ".shared .align 8 .b8 bar[8]; .shared .align 1024 .b8 tile[16384];";

static const std::string init =
    "setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [bar], 1;"
    "bar.sync 0;\n";
static const std::string await =
    "W: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra W;\n";
/// tile to p1, 4 bytes a thread at a time.
static const std::string dump =
    "mov.u32 %r1, tile; shl.b32 %r2, %t, 2;\nD: setp.ge.u32 %p2, %r2, BYTES;"
    "@%p2 bra DONE; add.u32 %r3, %r1, %r2; ld.shared.u32 %r4, [%r3]; "
    "cvt.u64.u32 %d1, %r2;"
    "add.u64 %d1, %d1, %g1; st.global.u32 [%d1], %r4;"
    "add.u32 %r2, %r2, 512; bra D;\nDONE:";
/// p0 to tile.
static const std::string fill =
    "mov.u32 %r1, tile; shl.b32 %r2, %t, 2;\nF: add.u32 %r3, %r1, %r2;"
    "cvt.u64.u32 %d1, %r2; add.u64 %d1, %d1, %g0; ld.global.u32 %r4, [%d1];"
    "st.shared.u32 [%r3], %r4; add.u32 %r2, %r2, 512;"
    "setp.lt.u32 %p2, %r2, BYTES; @%p2 bra F;\n";

static std::string with(std::string text, const std::string &name,
                        const std::string &value) {
  for (size_t at = 0; (at = text.find(name, at)) != text.npos;
       at += value.size())
    text.replace(at, name.size(), value);
  return text;
}

static std::string coordinates(const std::vector<int> &values) {
  std::string text;
  for (int value : values)
    text += (text.empty() ? "{" : ", ") + std::to_string(value);
  return text + "}";
}

static std::string load(const std::vector<int> &at, uint64_t bytes) {
  return "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], " +
         std::to_string(bytes) + "; @%p0 cp.async.bulk.tensor." +
         std::to_string(at.size()) +
         "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], "
         "[%m0, " +
         coordinates(at) + "], [bar];\n";
}

static std::string store(const std::vector<int> &at) {
  return "@%p0 cp.async.bulk.tensor." + std::to_string(at.size()) +
         "d.global.shared::cta.tile.bulk_group [%m0, " + coordinates(at) +
         "], [tile];\n";
}
static const std::string settle =
    "@%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0;\n";

/// A tensor of p0, dense but for `padding` bytes behind each row.
static TensorMap tensor(unsigned bytes, const std::vector<uint64_t> &sizes,
                        const std::vector<uint32_t> &box,
                        TensorSwizzle swizzle = TensorSwizzle::None,
                        unsigned padding = 0) {
  TensorMap map;
  map.elementBytes = bytes;
  map.rank = static_cast<uint32_t>(sizes.size());
  map.swizzle = swizzle;
  uint64_t stride = bytes;
  for (unsigned axis = 0; axis < map.rank; ++axis) {
    map.sizes[axis] = sizes[axis];
    map.box[axis] = box[axis];
    map.strides[axis] = stride;
    stride *= sizes[axis];
    stride += axis == 0 ? padding : 0;
  }
  return map;
}

static uint64_t bytesOfTensor(const TensorMap &map) {
  return map.strides[map.rank - 1] * map.sizes[map.rank - 1];
}

/// A byte that tells where it is from.
static uint8_t mark(uint64_t at) {
  return static_cast<uint8_t>(1 + (at * 7 + at / 251) % 255);
}

static std::vector<uint8_t> marks(uint64_t bytes) {
  std::vector<uint8_t> out(bytes);
  for (uint64_t i = 0; i < bytes; ++i)
    out[i] = mark(i);
  return out;
}

/// The place of byte `inner` of line `line` of a box with lines of `width`
/// bytes, where pieces of 16 bytes are swapped within groups of lines, as the
/// figures of the PTX ISA (5.5) draw it.
static uint64_t place(uint64_t line, uint64_t inner, uint64_t width,
                      TensorSwizzle swizzle) {
  uint64_t at = line * width + inner;
  // Lines of 128 bytes, however long those of the box are.
  uint64_t long128 = at / 128 % 8, piece = at / 16 % 8;
  uint64_t swapped = piece;
  if (swizzle == TensorSwizzle::Bytes128)
    swapped = piece ^ long128;
  if (swizzle == TensorSwizzle::Bytes64)
    swapped = piece / 4 * 4 + (piece % 4 ^ long128 % 4);
  if (swizzle == TensorSwizzle::Bytes32)
    swapped = piece / 2 * 2 + (piece % 2 ^ long128 % 2);
  return at / 128 * 128 + swapped * 16 + at % 16;
}

/// Calls f(line, inner byte, byte of the tensor or -1) for each byte of a box.
template <typename F>
static void forEachByte(const TensorMap &map, const std::vector<int> &at, F f) {
  uint64_t width = uint64_t(map.box[0]) * map.elementBytes;
  uint64_t lines = map.boxBytes() / width;
  for (uint64_t line = 0; line < lines; ++line)
    for (uint64_t inner = 0; inner < width; ++inner) {
      int64_t first = at[0] + static_cast<int64_t>(inner / map.elementBytes);
      bool isInside = first >= 0 && first < int64_t(map.sizes[0]);
      int64_t from = first * int64_t(map.elementBytes) +
                     static_cast<int64_t>(inner % map.elementBytes);
      uint64_t rest = line;
      for (unsigned axis = 1; axis < map.rank; ++axis) {
        uint64_t step = map.elementStrides[axis];
        uint64_t extent = (map.box[axis] + step - 1) / step;
        int64_t index = at[axis] + int64_t(rest % extent * step);
        rest /= extent;
        isInside = isInside && index >= 0 && index < int64_t(map.sizes[axis]);
        from += index * int64_t(map.strides[axis]);
      }
      f(line, inner, isInside ? from : -1);
    }
}

static RunConfig launchOf(const TensorMap &map, uint64_t inputBytes) {
  RunConfig config;
  config.block = {128, 1, 1};
  config.buffers[0] = marks(inputBytes);
  config.outputBytes = tileBytes;
  config.maps = {map};
  return config;
}

static void checkLoad(const TensorMap &map, const std::vector<int> &at,
                      AsyncMode async = AsyncMode::Lazy) {
  RunConfig config = launchOf(map, bytesOfTensor(map));
  config.options.async = async;
  std::string bytes = std::to_string(map.boxBytes());
  RunResult run = runSm90(init + load(at, map.boxBytes()) + await +
                              with(dump, "BYTES", bytes),
                          config, storage);
  expectClean(run);
  uint64_t wrong = 0;
  uint64_t width = uint64_t(map.box[0]) * map.elementBytes;
  forEachByte(map, at, [&](uint64_t line, uint64_t inner, int64_t from) {
    uint8_t expected = from < 0 ? 0 : mark(static_cast<uint64_t>(from));
    wrong += run.buffers[1][place(line, inner, width, map.swizzle)] != expected;
  });
  EXPECT_EQ(wrong, 0u) << "of " << bytes << " bytes, at " << coordinates(at);
}

static void checkStore(const TensorMap &map, const std::vector<int> &at,
                       AsyncMode async = AsyncMode::Lazy) {
  TensorMap target = map;
  target.address = 1; // p1
  RunConfig config = launchOf(target, tileBytes);
  config.options.async = async;
  config.buffers[1].assign(bytesOfTensor(map), 0);
  std::string bytes = std::to_string(map.boxBytes());
  RunResult run = runSm90(
      "setp.eq.u32 %p0, %t, 0;" + with(fill, "BYTES", bytes) +
          "fence.proxy.async.shared::cta; bar.sync 0;\n" + store(at) + settle,
      config, storage);
  expectClean(run);
  std::vector<uint8_t> expected(bytesOfTensor(map), 0);
  uint64_t width = uint64_t(map.box[0]) * map.elementBytes;
  forEachByte(map, at, [&](uint64_t line, uint64_t inner, int64_t to) {
    if (to >= 0)
      expected[static_cast<size_t>(to)] =
          mark(place(line, inner, width, map.swizzle));
  });
  EXPECT_EQ(run.buffers[1], expected) << coordinates(at);
}

static constexpr TensorSwizzle swizzles[] = {
    TensorSwizzle::None, TensorSwizzle::Bytes32, TensorSwizzle::Bytes64,
    TensorSwizzle::Bytes128};

//===----------------------------------------------------------------------===//
// Where bytes go
//===----------------------------------------------------------------------===//

TEST(BulkCopy, SwizzlesOfTwoAxes) {
  for (TensorSwizzle swizzle : swizzles) {
    uint32_t span = 16u << static_cast<unsigned>(swizzle);
    for (unsigned bytes : {1u, 2u, 4u, 8u}) {
      TensorMap map =
          tensor(bytes, {256 / bytes, 40}, {span / bytes, 32}, swizzle);
      for (const std::vector<int> &at :
           {std::vector<int>{0, 0}, {int(32 / bytes), 5}}) {
        checkLoad(map, at);
        checkStore(map, at);
      }
    }
  }
}

TEST(BulkCopy, OutsideIsZeroAndNotStored) {
  for (TensorSwizzle swizzle : swizzles) {
    uint32_t span = 8u << static_cast<unsigned>(swizzle);
    TensorMap map = tensor(2, {70, 21}, {span, 16}, swizzle, 4);
    const int last = 70 - int(span) / 2;
    for (const std::vector<int> &at :
         {std::vector<int>{last, 10}, {-3, -2}, {100, 0}, {0, 21}, {0, -16}}) {
      checkLoad(map, at);
      if (at[1] != -16)
        checkStore(map, at);
    }
  }
}

TEST(BulkCopy, ABoxOutsideReadsWhereTheMapBegins) {
  TensorMap map = tensor(2, {64, 40}, {64, 16}, TensorSwizzle::Bytes128);
  RunConfig config = launchOf(map, bytesOfTensor(map));
  config.maps[0].address = uint64_t(1) << 30 | 16;
  RunResult run =
      runSm90(init + load({0, 40}, map.boxBytes()) + await, config, storage);
  ASSERT_FALSE(run.report.findings.empty()) << run.error;
  EXPECT_EQ(run.report.findings[0].kind, FindingKind::OutOfBounds);
  EXPECT_NE(run.text().find("begins at no buffer: at (0, 40)"),
            std::string::npos)
      << run.text();
}

TEST(BulkCopy, AStoreOutsideHasNoNegativeCoordinate) {
  TensorMap map = tensor(2, {64, 40}, {64, 16}, TensorSwizzle::Bytes128);
  RunResult run =
      runSm90("setp.eq.u32 %p0, %t, 0;" + with(fill, "BYTES", "2048") +
                  "fence.proxy.async.shared::cta; bar.sync 0;\n" +
                  store({0, -16}) + settle,
              launchOf(map, bytesOfTensor(map)), storage);
  expectOne(run, FindingKind::OutOfBounds,
            "at a negative coordinate: at (0, -16)");
}

TEST(BulkCopy, OneToFiveAxes) {
  const std::vector<uint64_t> sizes = {64, 6, 5, 4, 3};
  const std::vector<uint32_t> box = {32, 3, 2, 3, 2};
  const std::vector<int> at = {16, 4, 1, 2, -1};
  for (unsigned rank = 1; rank <= 5; ++rank) {
    auto first = [&](const auto &all) {
      return std::decay_t<decltype(all)>(all.begin(), all.begin() + rank);
    };
    TensorMap map = tensor(2, first(sizes), first(box), TensorSwizzle::Bytes64);
    checkLoad(map, first(at));
    checkStore(map, first(at));
  }
}

TEST(BulkCopy, ElementStrides) {
  TensorMap map = tensor(2, {64, 30}, {64, 16}, TensorSwizzle::Bytes128);
  map.elementStrides[1] = 3;
  EXPECT_EQ(map.boxBytes(), 128u * 6);
  checkLoad(map, {0, 2});
  checkLoad(map, {0, 20});
}

TEST(BulkCopy, MovesWheneverItMay) {
  TensorMap map = tensor(2, {64, 40}, {64, 32}, TensorSwizzle::Bytes128);
  for (AsyncMode async : {AsyncMode::Eager, AsyncMode::Random}) {
    checkLoad(map, {0, 16}, async);
    checkStore(map, {0, 16}, async);
  }
}

TEST(BulkCopy, PlainBytes) {
  const std::string there =
      "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 2048;"
      "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [tile+16], [%g0+32], 2048, [bar];\n";
  RunResult run =
      runSm90(init + there + await +
                  "@%p0 cp.async.bulk.global.shared::cta.bulk_group [%g1+48], "
                  "[tile+16], 2048;" +
                  settle,
              launchOf(tensor(2, {64}, {64}), 4096), storage);
  expectClean(run);
  for (unsigned i = 0; i < 2048; ++i)
    ASSERT_EQ(run.buffers[1][48 + i], mark(32 + i)) << i;
}

//===----------------------------------------------------------------------===//
// What a copy needs before and behind it
//===----------------------------------------------------------------------===//

static const TensorMap tileMap =
    tensor(2, {64, 64}, {64, 32}, TensorSwizzle::Bytes128);

static RunResult runLoad(const std::string &body) {
  return runSm90(body, launchOf(tileMap, bytesOfTensor(tileMap)), storage);
}

static const std::string readOne =
    "ld.shared.u32 %r1, [tile]; st.global.u32 [%g1], %r1;\n";

TEST(BulkCopy, ALoadMustBeWaitedFor) {
  const std::string there = init + load({0, 0}, 4096);
  expectClean(runLoad(there + await + "bar.sync 0;" + readOne));
  RunResult run = runLoad(there + readOne + await);
  EXPECT_EQ(run.count(FindingKind::AsyncRead), 1u) << run.text();
  EXPECT_NE(run.text().find("to which a bulk copy is in flight"),
            std::string::npos)
      << run.text();
  // Others have waited, and this warp has not.
  run = runLoad(there + "setp.lt.u32 %p3, %t, 32; @%p3 bra R;\n" + await +
                "bra E;\nR: nanosleep.u32 1;" + readOne + "E:");
  EXPECT_GE(run.report.findings.size(), 1u) << run.text();
  // The phase before is over without it.
  run = runLoad(there + with(await, "], 0", "], 1") + readOne);
  EXPECT_EQ(run.count(FindingKind::AsyncRead), 1u) << run.text();
  // Nobody waits at all.
  run = runLoad(there);
  expectOne(run, FindingKind::AsyncOverwrite, "the CTA ends while");
}

TEST(BulkCopy, ALoadNeedsAFreeSlot) {
  // Read by others before, with and without an arrival that says so.
  const std::string writeAndRead =
      init + "@%p0 st.shared.u32 [tile], %t; fence.proxy.async; bar.sync 0;" +
      readOne;
  expectClean(
      runLoad(writeAndRead + "bar.sync 0;" + load({0, 0}, 4096) + await));
  RunResult run = runLoad(writeAndRead + load({0, 0}, 4096) + await);
  EXPECT_GE(run.count(FindingKind::SharedRace), 1u) << run.text();
  EXPECT_NE(run.text().find("a bulk copy writes byte 0 of 'tile'"),
            std::string::npos)
      << run.text();
  // A slot that is being filled.
  std::string second = load({0, 32}, 0);
  second.erase(0, second.find("@%p0 cp"));
  run = runLoad(init + load({0, 0}, 8192) + second + await);
  EXPECT_GE(run.count(FindingKind::AsyncOverwrite), 1u) << run.text();
}

TEST(BulkCopy, WrongBytesAreADeadlock) {
  expectOne(runLoad(init + load({0, 0}, 4112) + await), FindingKind::Deadlock,
            "16 bytes have not come");
  expectOne(runLoad(init + load({0, 0}, 4080) + await), FindingKind::Deadlock,
            "16 bytes more have come than were expected");
}

TEST(BulkCopy, AStoreNeedsAProxyFence) {
  TensorMap target = tileMap;
  target.address = 1;
  RunConfig config = launchOf(target, tileBytes);
  config.buffers[1].assign(8192, 0);
  auto run = [&](const std::string &before, const std::string &behind) {
    return runSm90("setp.eq.u32 %p0, %t, 0;" + with(fill, "BYTES", "4096") +
                       before + store({0, 0}) + behind,
                   config, storage);
  };
  // By those who wrote, or by the one that they met at a barrier.
  expectClean(run("fence.proxy.async; bar.sync 0;", settle));
  expectClean(run("bar.sync 0; @%p0 fence.proxy.async.shared::cta;", settle));
  for (const char *none : {"bar.sync 0;",
                           "bar.sync 0; fence.proxy.async.global"
                           ";",
                           "bar.sync 0; fence.acq_rel.cta;"})
    expectOne(run(none, settle), FindingKind::MissingProxyFence,
              "a bulk copy reads byte 0 of 'tile' (16384 bytes), which a "
              "thread has written, with no fence.proxy.async in between");
  // The fence does not order by itself.
  EXPECT_EQ(run("fence.proxy.async;", settle).count(FindingKind::SharedRace),
            1u);
}

TEST(BulkCopy, AFenceReachesOthersByAnMbarrier) {
  TensorMap target = tileMap;
  target.address = 1;
  RunConfig config = launchOf(target, tileBytes);
  config.buffers[1].assign(8192, 0);
  auto run = [&](const std::string &fence) {
    return runSm90(
        "setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [bar], 128;"
        "bar.sync 0;" +
            with(fill, "BYTES", "4096") + fence +
            "mbarrier.arrive.shared.b64 _, [bar]; @!%p0 bra END;\n" + await +
            with(store({0, 0}), "@%p0 ", "") + with(settle, "@%p0 ", "") +
            "END:",
        config, storage);
  };
  expectClean(run("fence.proxy.async.shared::cta;"));
  expectOne(run(""), FindingKind::MissingProxyFence, "a bulk copy reads");
}

TEST(BulkCopy, WhatThreadsHaveWrittenIsOverwritten) {
  RunConfig config = launchOf(tileMap, tileBytes);
  config.buffers[0] = marks(8192);
  auto run = [&](const std::string &between) {
    return runSm90(init +
                       "shl.b32 %r2, %t, 2; mov.u32 %r1, tile;"
                       "add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %t;" +
                       between + load({0, 0}, tileMap.boxBytes()) + await,
                   config, storage);
  };
  expectClean(run("fence.proxy.async.shared::cta; bar.sync 0;"));
  expectOne(run("bar.sync 0;"), FindingKind::MissingProxyFence,
            "a bulk copy writes byte 0 of 'tile' (16384 bytes), which a thread "
            "has written, with no fence.proxy.async in between");
}

TEST(BulkCopy, AStoreMustBeWaitedFor) {
  TensorMap target = tileMap;
  target.address = 1;
  RunConfig config = launchOf(target, tileBytes);
  config.buffers[1].assign(8192, 0);
  auto run = [&](const std::string &behind) {
    return runSm90("setp.eq.u32 %p0, %t, 0;" + with(fill, "BYTES", "4096") +
                       "fence.proxy.async; bar.sync 0;" + store({0, 0}) +
                       behind,
                   config, storage);
  };
  const std::string again = "bar.sync 0; @%p0 st.shared.u32 [tile], %t;";
  const std::string commit = "@%p0 cp.async.bulk.commit_group;",
                    read = "@%p0 cp.async.bulk.wait_group.read 0;";
  expectClean(run(commit + read + again));
  // Not waited for, not committed, waited for with one group left.
  for (const std::string &behind :
       {commit + again + read, read + again + commit + read,
        commit + "@%p0 cp.async.bulk.wait_group.read 1;" + again + read}) {
    RunResult result = run(behind);
    expectOne(result, FindingKind::AsyncOverwrite,
              "which a bulk copy that has not been waited for may still read");
  }
  // By another thread than the one that issued it.
  EXPECT_GE(run(commit + "cp.async.bulk.wait_group 0; setp.eq.u32 %p4, %t, 1;"
                         "@%p4 st.shared.u32 [tile], %t;")
                .count(FindingKind::AsyncOverwrite),
            1u);
  expectOne(run(commit), FindingKind::AsyncOverwrite, "the thread ends while");
}

TEST(BulkCopy, UndefinedDataIsFollowed) {
  TensorMap target = tileMap;
  target.address = 1;
  RunConfig config = launchOf(target, tileBytes);
  // Half of the tile is never written.
  RunResult run =
      runSm90("setp.eq.u32 %p0, %t, 0;" + with(fill, "BYTES", "2048") +
                  "fence.proxy.async; bar.sync 0;" + store({0, 0}) + settle,
              config, storage);
  expectOne(run, FindingKind::UninitializedMemory, "stores undefined data");
  // A tensor that nobody has filled, up to where it is used.
  RunConfig poison = launchOf(tileMap, 0);
  poison.buffers[0].clear();
  poison.outputBytes = 8192;
  run = runSm90(init + load({0, 0}, 4096) + await, poison, storage);
  expectClean(run);
  run = runSm90(init + load({0, 0}, 4096) + await + readOne, poison, storage);
  expectOne(run, FindingKind::UninitializedMemory,
            "global memory nobody has "
            "written");
}

TEST(BulkCopy, CopiesThatNobodyWaitsForAreNotKept) {
  TensorMap target = tileMap;
  target.address = 1;
  RunConfig config = launchOf(target, tileBytes);
  config.buffers[1].assign(8192, 0);
  RunResult run =
      runSm90("setp.ne.u32 %p0, %t, 0; @%p0 exit; setp.eq.u32 %p0, %t, 0;"
              "mov.u32 %r1, 0; st.shared.u32 [tile], %r1;"
              "fence.proxy.async; mov.u32 %r9, 0;\nL:" +
                  store({0, 0}) +
                  "add.u32 %r9, %r9, 1; setp.lt.u32 %p5, %r9, 3000;"
                  "@%p5 bra L;",
              config, storage);
  EXPECT_EQ(run.count(FindingKind::AsyncOverwrite), 1u) << run.text();
}

TEST(BulkCopy, Bounds) {
  // The tensor is larger than its buffer.
  RunResult run = runSm90(init + load({0, 40}, 4096) + await,
                          launchOf(tileMap, 6000), storage);
  EXPECT_EQ(run.count(FindingKind::OutOfBounds), 1u) << run.text();
  run = runLoad(init + with(load({0, 0}, 4096), "[tile]", "[tile+12416]") +
                await);
  EXPECT_EQ(run.count(FindingKind::OutOfBounds), 1u) << run.text();
  run = runLoad(init + with(load({0, 0}, 4096), "[tile]", "[tile+64]") + await);
  EXPECT_EQ(run.count(FindingKind::Misaligned), 1u) << run.text();
  run = runLoad(with(load({0, 0}, 4096), "@%p0 mb",
                     "setp.eq.u32 %p0, %t, 0; "
                     "@%p0 mb"));
  EXPECT_EQ(run.count(FindingKind::InvalidMbarrier), 2u) << run.text();
}

TEST(BulkCopy, OnSeveralThreads) {
  // Four CTAs load and store tiles of their own.
  TensorMap from = tensor(2, {64, 128}, {64, 32}, TensorSwizzle::Bytes128);
  TensorMap to = from;
  to.address = 1;
  RunConfig config = launchOf(from, bytesOfTensor(from));
  config.maps = {from, to};
  config.grid = {4, 1, 1};
  config.outputBytes = bytesOfTensor(from);
  const std::string body =
      init + "mov.u32 %r1, %ctaid.x; shl.b32 %r1, %r1, 5;" +
      with(load({0, 7}, 4096), "{0, 7}", "{0, %r1}") + await +
      with(with(store({0, 7}), "{0, 7}", "{0, %r1}"), "%m0", "%m1") + settle;
  RunResult alone = runSm90(body, config, storage);
  expectClean(alone);
  EXPECT_EQ(alone.buffers[1], config.buffers[0]);
  config.options.threads = 4;
  RunResult together = runSm90(body, config, storage);
  EXPECT_EQ(together.comparable(), alone.comparable());
  EXPECT_EQ(together.buffers[1], alone.buffers[1]);
}

//===----------------------------------------------------------------------===//
// Tensor maps
//===----------------------------------------------------------------------===//

TEST(TensorMap, RoundTrip) {
  TensorMap map = tensor(4, {100, 7, 3}, {8, 2, 1}, TensorSwizzle::Bytes32, 16);
  map.address = 4096;
  map.elementStrides[1] = 2;
  Expected<TensorMapBytes> bytes = encodeTensorMap(map);
  ASSERT_TRUE(bool(bytes)) << bytes.error().message;
  std::optional<TensorMap> back = decodeTensorMap(bytes->data());
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->address, map.address);
  EXPECT_EQ(back->elementBytes, 4u);
  EXPECT_EQ(back->rank, 3u);
  EXPECT_EQ(back->swizzle, TensorSwizzle::Bytes32);
  for (unsigned axis = 0; axis < 3; ++axis) {
    EXPECT_EQ(back->sizes[axis], map.sizes[axis]);
    EXPECT_EQ(back->box[axis], map.box[axis]);
    EXPECT_EQ(back->elementStrides[axis], map.elementStrides[axis]);
    EXPECT_EQ(back->strides[axis], map.strides[axis]);
  }
  // Any other bytes are none.
  for (size_t i = 0; i < 96; ++i) {
    TensorMapBytes broken = *bytes;
    broken[i] ^= 1;
    EXPECT_FALSE(decodeTensorMap(broken.data()).has_value()) << i;
  }
}

TEST(TensorMap, RefusesWhatTheDriverRefuses) {
  auto error = [](auto change) {
    TensorMap map = tensor(2, {64, 64}, {64, 32}, TensorSwizzle::Bytes128);
    map.address = 4096;
    change(map);
    Expected<TensorMapBytes> bytes = encodeTensorMap(map);
    return bytes ? std::string() : bytes.error().message;
  };
  EXPECT_EQ(error([](TensorMap &) {}), "");
  EXPECT_EQ(error([](TensorMap &m) { m.rank = 6; }),
            "a tensor map expects a rank from 1 to 5, but got 6");
  EXPECT_EQ(error([](TensorMap &m) { m.elementBytes = 3; }),
            "a tensor map expects elements of 1, 2, 4 or 8 bytes, but got 3");
  EXPECT_EQ(error([](TensorMap &m) { m.address = 8; }),
            "a tensor map expects an address that is a multiple of 16, but got "
            "8");
  EXPECT_EQ(error([](TensorMap &m) { m.sizes[1] = 0; }),
            "a tensor map expects a size of axis 1 from 1 to 2^32, but got 0");
  EXPECT_EQ(error([](TensorMap &m) { m.box[1] = 257; }),
            "a tensor map expects a box of axis 1 from 1 to 256 elements, but "
            "got 257");
  EXPECT_EQ(error([](TensorMap &m) { m.elementStrides[1] = 9; }),
            "a tensor map expects an element stride of axis 1 from 1 to 8, but "
            "got 9");
  EXPECT_EQ(error([](TensorMap &m) { m.strides[1] = 130; }),
            "a tensor map expects a stride of axis 1 that is a multiple of 16 "
            "bytes below 2^40, but got 130");
  EXPECT_EQ(error([](TensorMap &m) { m.box[0] = 4; }),
            "a tensor map expects an innermost axis of the box of a multiple "
            "of 16 bytes, but got 8");
  EXPECT_EQ(error([](TensorMap &m) { m.box[0] = 72; }),
            "a tensor map expects an innermost axis of the box of at most the "
            "128 bytes of its swizzle, but got 144");
}

TEST(TensorMap, WhatIsNoneIsNamed) {
  // A parameter of zeros, the wrong rank, an address of nothing.
  RunConfig config = launchOf(tileMap, 8192);
  config.maps.clear();
  std::string body = init + load({0, 0}, 4096);
  auto message = [&](const std::string &map) {
    RunResult run = runSm90(with(body, "%m0", map), config, storage);
    EXPECT_EQ(run.count(FindingKind::InvalidDescriptor), 1u) << run.text();
    return run.text();
  };
  EXPECT_NE(message("%m0").find("has another rank: 1 instead of 2"),
            std::string::npos);
  EXPECT_NE(message("%g0").find("holds no tensor map of the emulator: it is "
                                "made by flashcoreEmuEncodeTensorMap"),
            std::string::npos);
  EXPECT_NE(message("%d9").find("is neither in a parameter nor in global"),
            std::string::npos);
  EXPECT_NE(message("%m0+8").find("is not aligned to 64 bytes"),
            std::string::npos);
}

TEST(BulkCopy, FormsThatAreRefused) {
  const std::pair<const char *, const char *> cases[] = {
      {"cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::"
       "complete_tx::bytes.multicast::cluster [tile], [%m0, {0, 0}], [bar], "
       "%h0;",
       "needs clusters of sm_90"},
      {"cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::"
       "complete_tx::bytes [tile], [%m0, {0, 0, 0, 0}], [bar], {%h0, %h1};",
       "needs copies in mode .im2col"},
      {"cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group "
       "[%m0, {0}], [tile];",
       "needs reductions by bulk asynchronous copies"},
      {"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::"
       "bytes [tile], [%m0, {0}], [bar];",
       "and 2 coordinates"},
      {"fence.proxy.tensormap::generic.acquire.gpu [%m0], 128;",
       "needs tensor maps that a kernel changes"},
      {"tensormap.replace.tile.rank.global.b1024.b32 [%g0], 3;",
       "needs tensor maps that a kernel changes"}};
  for (const auto &[body, text] : cases)
    EXPECT_NE(loadError(sm90Text(body, storage)).find(text), std::string::npos)
        << loadError(sm90Text(body, storage));
  EXPECT_EQ(
      loadError(sm90Text("prefetch.param.tensormap [%m0];"
                         "prefetch.tensormap [%m0];"
                         "cp.async.bulk.prefetch.tensor.2d.L2.global.tile "
                         "[%m0, {0, 0}]; griddepcontrol.wait;"
                         "griddepcontrol.launch_dependents;",
                         storage)),
      "");
}
