//===- ReportTest.cpp - Lines, tables, JSON and summaries -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The exact texts that flashcore-run prints.
//
//===----------------------------------------------------------------------===//

#include "Report.h"
#include "TestBundle.h"

#include "flashcore/Runtime/FileUtils.h"

#include <cmath>

using namespace flashcore;
using namespace flashcore::run;
using namespace flashcore::testing;

static RunResult makeResult() {
  RunResult result;
  result.request.bundle = "dir/a.fcb/";
  result.request.seed = 42;
  result.problem = "B1 H2/2 32x48 D16 f16";
  result.code = "cubin sm_89";
  result.device = "Fake GPU";
  result.dims = {{"batch", 1}};
  result.kernels = {{128, 0, 16}};
  result.check = CheckReport{
      {0.001, 0.002, 5, 0.0009, 0.01, 0.02}, ErrorReport{1e-6, 1e-5, 1}, {}};
  return result;
}

static RunResult makeTimed() {
  RunResult result = makeResult();
  result.timing = Timing{10, 9, 12, 15, 100};
  result.flops = 1e9;
  return result;
}

TEST(ReportTest, aLineOfAPass) {
  EXPECT_EQ(formatLine(makeResult()),
            "PASS B1 H2/2 32x48 D16 f16 bhsd, cubin sm_89, seed 42, "
            "normal/all, max error O 1.00e-03 of 2.00e-03 allowed, lse "
            "1.00e-06 of 1.00e-05 allowed");
}

TEST(ReportTest, aLineWithStageAndTime) {
  RunResult result = makeTimed();
  result.request.stage = Stage::PV;
  result.check->stage = ErrorReport{0.5, 0.25, 0};
  EXPECT_EQ(formatLine(result),
            "FAIL B1 H2/2 32x48 D16 f16 bhsd, cubin sm_89, seed 42, normal/pv "
            "5.00e-01 of 2.50e-01, max error O 1.00e-03 of 2.00e-03 allowed, "
            "lse 1.00e-06 of 1.00e-05 allowed, 10.00 us [9.00..12.00] 100.0 "
            "TFLOP/s");
}

TEST(ReportTest, theFirstWordIsTheResult) {
  RunResult result = makeResult();
  result.check->o.error = NAN;
  EXPECT_TRUE(formatLine(result).starts_with("FAIL "));
  EXPECT_NE(formatLine(result).find("O nan of"), std::string::npos);
  result.check.reset();
  EXPECT_TRUE(formatLine(result).starts_with("unchecked "));
  result.status = Status::error("expects a, but got b").note("do c");
  EXPECT_EQ(formatLine(result),
            "ERROR B1 H2/2 32x48 D16 f16 bhsd, cubin sm_89, seed 42, "
            "normal/all\nexpects a, but got b\n  note: do c");
  result.status = Status::kernelFault("the kernel crashed");
  EXPECT_TRUE(formatLine(result).starts_with("FAIL "));
}

TEST(ReportTest, theTableCountsPasses) {
  RunResult failed = makeResult();
  failed.check->o.error = 1;
  EXPECT_EQ(
      formatTable({makeTimed(), failed}),
      "result  bundle  problem                     code         seed  inputs   "
      " "
      "  O error               lse error             time                    "
      "TFLOP/s\n"
      "PASS    a.fcb   B1 H2/2 32x48 D16 f16 bhsd  cubin sm_89  42    "
      "normal/all  1.00e-03 of 2.00e-03  1.00e-06 of 1.00e-05  10.00 us "
      "[9.00..12.00]  100.0\n"
      "FAIL    a.fcb   B1 H2/2 32x48 D16 f16 bhsd  cubin sm_89  42    "
      "normal/all  1.00e+00 of 2.00e-03  1.00e-06 of 1.00e-05\n"
      "1 of 2 passed\n");
}

TEST(ReportTest, writesJson) {
  ScratchDirectory scratch;
  RunResult failed = makeResult();
  failed.status = Status::error("expects a, but got b");
  failed.check->o.error = NAN;
  ASSERT_EQ(text(writeJson(scratch.file("r.json"), {makeTimed(), failed})), "");
  nlohmann::json json =
      nlohmann::json::parse(*readFile(scratch.file("r.json")));
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["result"], "PASS");
  EXPECT_EQ(json[0]["bundle"], "dir/a.fcb/");
  EXPECT_EQ(json[0]["dims"]["batch"], 1);
  EXPECT_EQ(json[0]["kernels"][0]["registers"], 128);
  EXPECT_EQ(json[0]["o"]["worst"], 5);
  EXPECT_EQ(json[0]["o"]["yardstick"], 0.0009);
  EXPECT_EQ(json[0]["o"]["norm"], 0.01);
  EXPECT_EQ(json[0]["o"]["yardstick_norm"], 0.02);
  EXPECT_EQ(json[0]["time"]["median_us"], 10);
  EXPECT_EQ(json[0]["time"]["launches_per_replay"], 100);
  EXPECT_DOUBLE_EQ(json[0]["time"]["tflops"].get<double>(), 100);
  EXPECT_EQ(json[1]["result"], "ERROR");
  EXPECT_EQ(json[1]["error"], "expects a, but got b");
  EXPECT_TRUE(json[1]["o"]["error"].is_null());
  EXPECT_FALSE(json[1]["o"]["pass"].get<bool>());
}

TEST(ReportTest, summarizesABundle) {
  EXPECT_EQ(
      formatInfo(loadTestBundle()),
      "bundle test.fcb\n"
      "  made by flashcore test, ptxas test\n"
      "  PTX for sm_80 (263 bytes), cubin for sm_89 (10 bytes)\n"
      "attention\n"
      "  softmax_scale 0.25, softcap none\n"
      "  causal none, window_left unbounded, window_right unbounded\n"
      "  batch=? head_dim=16 head_dim_v=16 heads_kv=? heads_q=? seqlen_k=? "
      "seqlen_q=?\n"
      "tensors\n"
      "  q: f16 (batch, heads_q, seqlen_q, head_dim) strides [?, ?, ?, 1] "
      "offset ? alignment 16\n"
      "  k: f16 (batch, heads_kv, seqlen_k, head_dim) strides [?, ?, ?, 1] "
      "offset ? alignment 16\n"
      "  v: f16 (batch, heads_kv, seqlen_k, head_dim_v) strides [?, ?, ?, 1] "
      "offset ? alignment 16\n"
      "  o: f16 (batch, heads_q, seqlen_q, head_dim_v) strides [?, ?, ?, 1] "
      "offset ? alignment 16\n"
      "  lse: f32 (batch, heads_q, seqlen_q) strides [?, ?, 1] offset ? "
      "alignment 4\n"
      "kernels\n"
      "  attention: block 128x1x1, grid (ceil(seqlen_q/64) * heads_q * batch, "
      "1, 1), 8 arguments, 49152 bytes of dynamic shared memory\n"
      "    sm_89: 128 registers, spills 0 bytes stored and 0 loaded, 16 bytes "
      "of static shared memory\n");
}

TEST(ReportTest, summarizesAPersistentKernel) {
  nlohmann::json manifest = testManifest();
  manifest["kernels"][0]["max_blocks_per_sm"] = 2;
  std::string info = formatInfo(loadTestBundle(manifest));
  EXPECT_NE(info.find("grid (ceil(seqlen_q/64) * heads_q * batch, 1, 1) of at "
                      "most 2 a multiprocessor, 8 arguments"),
            std::string::npos)
      << info;
}

TEST(ReportTest, summarizesKernelsThatShareAWorkspace) {
  std::string info = formatInfo(loadTestBundle(splitManifest()));
  EXPECT_NE(info.find("  attention: block 128x1x1, grid (ceil(seqlen_q/64) * "
                      "heads_q * batch * 3, 1, 1), 2 arguments"),
            std::string::npos)
      << info;
  EXPECT_NE(info.find("  merge: block 4x1x1, grid (seqlen_q * heads_q * batch, "
                      "1, 1), 2 arguments"),
            std::string::npos)
      << info;
  EXPECT_NE(info.find("workspace\n"
                      "  120 bytes * seqlen_q * heads_q * batch\n"),
            std::string::npos)
      << info;
}

TEST(ReportTest, summarizesWhatChangesTheScores) {
  nlohmann::json manifest = testManifest();
  manifest["attention"]["causal"] = "top_left";
  manifest["attention"]["window_left"] = 64;
  manifest["attention"]["window_right"] = 0;
  manifest["attention"]["softcap"] = 30;
  addBias(manifest, "f32", {"1", "1", "seqlen_q", "seqlen_k"});
  std::string info = formatInfo(loadTestBundle(manifest));
  EXPECT_NE(info.find("  softmax_scale 0.25, softcap 30\n"
                      "  causal top_left, window_left 64, window_right 0\n"),
            std::string::npos)
      << info;
  EXPECT_NE(info.find("  bias: f32 (1, 1, seqlen_q, seqlen_k) strides [?, ?, "
                      "?, ?] offset ? alignment 4\n"),
            std::string::npos)
      << info;
}

TEST(ReportTest, summarizesABundleWithoutCubin) {
  nlohmann::json manifest = testManifest();
  manifest["assembler"] = nullptr;
  manifest["cubins"] = nlohmann::json::array();
  manifest["kernels"][0]["resources"] = nullptr;
  std::string info = formatInfo(loadTestBundle(manifest));
  EXPECT_NE(info.find("  made by flashcore test, no assembler\n"
                      "  PTX for sm_80 (263 bytes)\n"),
            std::string::npos);
  EXPECT_NE(info.find("    resources unknown: no cubin was made\n"),
            std::string::npos);
}
