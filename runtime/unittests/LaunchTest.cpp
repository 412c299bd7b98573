//===- LaunchTest.cpp - Packing of kernel arguments -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Values of every kind of argument, several kernels, and pointers that are
// missing or unaligned.
//
//===----------------------------------------------------------------------===//

#include "TestBundle.h"

#include "flashcore/Runtime/Launch.h"

using namespace flashcore;
using namespace flashcore::testing;

static const PointerMap pointers = {{"q", 0x1000},
                                    {"k", 0x2000},
                                    {"v", 0x3000},
                                    {"o", 0x4000},
                                    {"lse", 0x5000}};

TEST(LaunchTest, packsEveryKind) {
  nlohmann::json manifest = testManifest();
  manifest["workspace"] = {{{"bytes", "64"}}};
  manifest["kernels"][0]["arguments"] = {
      {{"kind", "pointer"}, {"tensor", "workspace"}},
      {{"kind", "pointer"}, {"tensor", "o"}},
      {{"kind", "size"}, {"dim", "batch"}},
      {{"kind", "size"}, {"dim", "head_dim"}},
      {{"kind", "stride"}, {"tensor", "q"}, {"axis", 0}},
      {{"kind", "stride"}, {"tensor", "q"}, {"axis", 2}},
      {{"kind", "offset"}, {"tensor", "q"}}};
  Bundle bundle = loadTestBundle(manifest);
  ProblemRequest request = testRequest(2, 4, 2, 32, 48);
  request.offset = 16;
  StatusOr<Problem> problem = Problem::create(bundle, request);
  PointerMap withWorkspace = pointers;
  withWorkspace["workspace"] = 0x6000;
  StatusOr<std::vector<KernelLaunch>> launches =
      planLaunches(*problem, withWorkspace, 1);
  ASSERT_EQ(text(launches), "");
  EXPECT_EQ(
      (*launches)[0].arguments,
      (std::vector<uint64_t>{0x6000, 0x4000, 2, 16, 4 * 32 * 16, 16, 16}));
}

// 2 * 4 * 1 blocks of 64 query rows.
TEST(LaunchTest, limitsAPersistentKernelToTheDevice) {
  nlohmann::json manifest = testManifest();
  manifest["kernels"][0]["grid"][0] =
      "min((seqlen_q ceildiv 64) * heads_q * batch, multiprocessors * 2)";
  Bundle bundle = loadTestBundle(manifest);
  StatusOr<Problem> problem = Problem::create(bundle, testRequest(2));
  for (auto [multiprocessors, blocks] :
       {std::pair<int64_t, int64_t>{1, 2}, {3, 6}, {4, 8}, {132, 8}}) {
    StatusOr<std::vector<KernelLaunch>> launches =
        planLaunches(*problem, pointers, multiprocessors);
    ASSERT_EQ(text(launches), "");
    EXPECT_EQ((*launches)[0].grid, (std::array<int64_t, 3>{blocks, 1, 1}));
  }
}

TEST(LaunchTest, leavesOtherGridsWhole) {
  Bundle bundle = loadTestBundle(testManifest());
  StatusOr<Problem> problem = Problem::create(bundle, testRequest(2));
  StatusOr<std::vector<KernelLaunch>> launches =
      planLaunches(*problem, pointers, 1);
  ASSERT_EQ(text(launches), "");
  EXPECT_EQ((*launches)[0].grid, (std::array<int64_t, 3>{8, 1, 1}));
}

TEST(LaunchTest, refusesADeviceWithoutMultiprocessors) {
  Bundle bundle = loadTestBundle(testManifest());
  StatusOr<Problem> problem = Problem::create(bundle, testRequest());
  EXPECT_EQ(text(planLaunches(*problem, pointers, 0)),
            "expects a device of at least one multiprocessor, but got 0");
}

/// Kernels for calls of up to 16 queries, whose keys are split, and one for
/// others.
static nlohmann::json fewQueriesManifest() {
  nlohmann::json manifest = testManifest();
  nlohmann::json few = manifest["kernels"][0];
  manifest["kernels"][0]["when"] = "seqlen_q >= 17";
  few["name"] = "few";
  few["when"] = "seqlen_q <= 16";
  manifest["values"] = {
      {{"name", "key_splits"},
       {"is",
        "max(1, min(32, 256 floordiv max(1, (seqlen_q ceildiv 16) * batch "
        "* (heads_q floordiv 2)), seqlen_k floordiv 100))"}}};
  multiplyGrid(few, "key_splits");
  few["arguments"].push_back({{"kind", "size"}, {"dim", "key_splits"}});
  manifest["kernels"].push_back(few);
  manifest["workspace"] = {
      {{"bytes", "8 * key_splits"}, {"when", few["when"]}}};
  return manifest;
}

TEST(LaunchTest, launchesTheKernelsOfItsQueries) {
  Bundle bundle = loadTestBundle(fewQueriesManifest());
  // 4 heads in two groups, 256 blocks over the tiles.
  struct Case {
    int64_t batch, seqlenQ, seqlenK, splits;
  };
  for (auto [batch, seqlenQ, seqlenK, splits] :
       {Case{1, 1, 100000, 32}, Case{1, 1, 750, 7}, Case{1, 16, 99, 1},
        Case{1, 0, 750, 7}, Case{10, 3, 100000, 12}, Case{200, 3, 100000, 1},
        Case{0, 3, 100000, 32}}) {
    ProblemRequest request = testRequest(batch, 4, 2, seqlenQ, seqlenK);
    StatusOr<Problem> problem = Problem::create(bundle, request);
    ASSERT_EQ(text(problem), "");
    EXPECT_EQ(problem->dim("key_splits"), splits);
    EXPECT_EQ(problem->workspaceBytes(), 8 * splits);
    PointerMap withWorkspace = pointers;
    withWorkspace["workspace"] = 0x6000;
    StatusOr<std::vector<KernelLaunch>> launches =
        planLaunches(*problem, withWorkspace, 1);
    ASSERT_EQ(text(launches), "");
    ASSERT_EQ(launches->size(), 1u);
    EXPECT_EQ((*launches)[0].name, "few");
    EXPECT_EQ((*launches)[0].kernel, 1u);
    EXPECT_EQ((*launches)[0].arguments.back(), static_cast<uint64_t>(splits));
  }
}

TEST(LaunchTest, launchesTheOthersForMoreQueries) {
  Bundle bundle = loadTestBundle(fewQueriesManifest());
  StatusOr<Problem> problem =
      Problem::create(bundle, testRequest(1, 4, 2, 17, 1000));
  ASSERT_EQ(text(problem), "");
  EXPECT_EQ(problem->workspaceBytes(), 0);
  StatusOr<std::vector<KernelLaunch>> launches =
      planLaunches(*problem, pointers, 1);
  ASSERT_EQ(text(launches), "");
  ASSERT_EQ(launches->size(), 1u);
  EXPECT_EQ((*launches)[0].name, "attention");
}

TEST(LaunchTest, refusesQueriesThatNoKernelIsFor) {
  nlohmann::json manifest = fewQueriesManifest();
  manifest["kernels"][0]["when"] = "seqlen_q >= 20";
  Bundle bundle = loadTestBundle(manifest);
  EXPECT_EQ(text(Problem::create(bundle, testRequest(1, 4, 2, 18, 1000))),
            "expects sizes that the bundle has a kernel for ('seqlen_q >= 20' "
            "or 'seqlen_q <= 16'), but got B1 H4/2 S18x1000 D16 f16 lse");
}

TEST(LaunchTest, keepsTheOrderOfTheKernels) {
  nlohmann::json manifest = testManifest();
  nlohmann::json merge = manifest["kernels"][0];
  merge["name"] = "merge";
  merge["block"] = {32, 2, 1};
  merge["grid"] = {"1", "seqlen_k ceildiv 16", "batch"};
  manifest["kernels"].push_back(merge);
  Bundle bundle = loadTestBundle(manifest);
  StatusOr<Problem> problem = Problem::create(bundle, testRequest());
  StatusOr<std::vector<KernelLaunch>> launches =
      planLaunches(*problem, pointers, 1);
  ASSERT_EQ(text(launches), "");
  ASSERT_EQ(launches->size(), 2u);
  EXPECT_EQ((*launches)[0].name, "attention");
  EXPECT_EQ((*launches)[1].name, "merge");
  EXPECT_EQ((*launches)[1].kernel, 1u);
  EXPECT_EQ((*launches)[1].grid, (std::array<int64_t, 3>{1, 3, 1}));
  EXPECT_EQ((*launches)[1].block, (std::array<int64_t, 3>{32, 2, 1}));
}

TEST(LaunchTest, anEmptyGridIsEmpty) {
  KernelLaunch launch;
  EXPECT_FALSE(launch.empty());
  launch.grid = {4, 0, 1};
  EXPECT_TRUE(launch.empty());
}

TEST(LaunchTest, refusesAMissingPointer) {
  Bundle bundle = loadTestBundle();
  StatusOr<Problem> problem = Problem::create(bundle, testRequest());
  PointerMap incomplete = pointers;
  incomplete.erase("k");
  EXPECT_EQ(text(planLaunches(*problem, incomplete, 1)),
            "expects a pointer for 'k', but got none\n"
            "  note: it is argument 1 of kernel 'attention'");
}

TEST(LaunchTest, refusesANullPointer) {
  Bundle bundle = loadTestBundle();
  StatusOr<Problem> problem = Problem::create(bundle, testRequest());
  PointerMap null = pointers;
  null["k"] = 0;
  EXPECT_EQ(text(planLaunches(*problem, null, 1)),
            "expects a pointer for 'k', but got null\n"
            "  note: only a tensor without elements needs none");
  StatusOr<Problem> empty =
      Problem::create(bundle, testRequest(1, 4, 2, 32, 0));
  null["v"] = 0;
  EXPECT_EQ(text(planLaunches(*empty, null, 1)), "");
}

TEST(LaunchTest, anEmptyProblemNeedsNoWorkspace) {
  nlohmann::json manifest = splitManifest();
  manifest["attention"]["dims"]["batch"] = nullptr;
  Bundle bundle = loadTestBundle(manifest);
  ProblemRequest request;
  request.dims["batch"] = 0;
  StatusOr<Problem> empty = Problem::create(bundle, request);
  ASSERT_EQ(text(empty), "");
  StatusOr<std::vector<KernelLaunch>> launches =
      planLaunches(*empty, pointers, 1);
  ASSERT_EQ(text(launches), "");
  EXPECT_TRUE((*launches)[0].empty());
  EXPECT_TRUE((*launches)[1].empty());
  request.dims["batch"] = 1;
  StatusOr<Problem> problem = Problem::create(bundle, request);
  EXPECT_EQ(text(planLaunches(*problem, pointers, 1)),
            "expects a pointer for 'workspace', but got none\n"
            "  note: it is argument 1 of kernel 'attention'");
}

TEST(LaunchTest, refusesANullWorkspace) {
  nlohmann::json manifest = testManifest();
  manifest["workspace"] = {{{"bytes", "64"}}};
  Bundle bundle = loadTestBundle(manifest);
  StatusOr<Problem> problem = Problem::create(bundle, testRequest());
  PointerMap null = pointers;
  null["workspace"] = 0;
  EXPECT_EQ(text(planLaunches(*problem, null, 1)),
            "expects 64 bytes of workspace, but got null");
  null["workspace"] = 0x6000;
  EXPECT_EQ(text(planLaunches(*problem, null, 1)), "");
}

TEST(LaunchTest, refusesAnUnalignedPointer) {
  Bundle bundle = loadTestBundle();
  ProblemRequest request = testRequest();
  request.offset = 8;
  StatusOr<Problem> problem = Problem::create(bundle, request);
  PointerMap unaligned = pointers;
  unaligned["v"] = 4104;
  EXPECT_EQ(text(planLaunches(*problem, unaligned, 1)),
            "expects 'v' to start at a multiple of 16 bytes, but got the "
            "address 4104 and an offset of 16 bytes");
}
