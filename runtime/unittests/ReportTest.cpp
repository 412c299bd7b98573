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

static std::string infoOf(const nlohmann::json &manifest,
                          const std::optional<Source> &source = {}) {
  ScratchDirectory scratch;
  writeBundle(scratch.path(), manifest);
  std::vector<Bundle> variants = *Bundle::loadVariants(scratch.path());
  variants.front().directory = "test.fcb";
  return formatInfo(variants, source);
}

static RunResult makeResult() {
  RunResult result;
  result.request.bundle = "dir/a.fcb/";
  result.request.seed = 42;
  result.problem = "B1 H2/2 S32x48 D16 f16";
  result.layout = "bhsd";
  for (const char *name : {"q", "k", "v", "o"}) {
    TensorGeometry tensor;
    tensor.name = name;
    tensor.role =
        tensor.name == "o" ? TensorSpec::Role::Output : TensorSpec::Role::Input;
    result.tensors.push_back(tensor);
  }
  result.code = "cubin sm_89";
  result.device = "Fake GPU";
  result.dims = {{"batch", 1}};
  result.kernels = {{128, 0, 16}};
  result.check = CheckReport{
      {.error = 0.001,
       .allowed = 0.002,
       .worst = 5,
       .yardstick = 0.0009,
       .norm = 0.01,
       .yardstickNorm = 0.02,
       .expected = 0.25,
       .actual = 0.251,
       .at = {0, 1, 2, 5},
       .elements = 1024},
      ErrorReport{.error = 1e-6, .allowed = 1e-5, .worst = 1, .at = {0, 0, 1}},
      {},
      {}};
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
            "PASS B1 H2/2 S32x48 D16 f16 bhsd, cubin sm_89, seed 42, "
            "normal/all, max error O 1.00e-03 of 2.00e-03 allowed, lse "
            "1.00e-06 of 1.00e-05 allowed");
}

TEST(ReportTest, aLineWithStageAndTime) {
  RunResult result = makeTimed();
  result.request.stage = Stage::PV;
  result.check->stage =
      ErrorReport{.error = 0.5, .allowed = 0.25, .expected = 1, .actual = 0.5};
  EXPECT_EQ(formatLine(result),
            "FAIL B1 H2/2 S32x48 D16 f16 bhsd, cubin sm_89, seed 42, normal/pv "
            "5.00e-01 of 2.50e-01, max error O 1.00e-03 of 2.00e-03 allowed, "
            "lse 1.00e-06 of 1.00e-05 allowed, 10.00 us [9.00..12.00] 100.0 "
            "TFLOP/s\n"
            "  O of stage pv at batch 0, head 0, query 0, column 0: expects 1, "
            "but got 0.5, an error of 5.00e-01 where 2.50e-01 is allowed");
  result.request.stage = Stage::Softmax;
  EXPECT_NE(formatLine(result).find(
                "\n  the row sum of stage softmax at batch 0, head 0, query 0: "
                "expects 1, but got 0.5, an error"),
            std::string::npos);
  result.request.stage = Stage::QK;
  EXPECT_NE(formatLine(result).find(
                "\n  the score of stage qk at batch 0, head 0, query 0, key 0: "
                "expects 1, but got 0.5, an error"),
            std::string::npos);
}

TEST(ReportTest, aFailureNamesTheWorstElements) {
  RunResult result = makeResult();
  result.check->o.error = 0.125;
  result.check->o.actual = 0.375;
  result.check->lse->error = INFINITY;
  result.check->lse->expected = 2.5;
  result.check->lse->actual = -INFINITY;
  result.check->lse->infinities = 1;
  result.check->lse->elements = 64;
  EXPECT_EQ(formatLine(result),
            "FAIL B1 H2/2 S32x48 D16 f16 bhsd, cubin sm_89, seed 42, "
            "normal/all, max error O 1.25e-01 of 2.00e-03 allowed, lse inf of "
            "1.00e-05 allowed\n"
            "  O at batch 0, head 1, query 2, column 5: expects 0.25, but got "
            "0.375, an error of 1.25e-01 where 2.00e-03 is allowed\n"
            "  lse at batch 0, head 0, query 1: expects 2.5, but got -inf, an "
            "error of inf where 1.00e-05 is allowed\n"
            "  lse holds 1 infinity in 64 elements");
}

TEST(ReportTest, aFailureNamesInputsThatAreNotFinite) {
  RunResult result = makeResult();
  result.check->o.error = result.check->o.actual = NAN;
  result.check->o.nans = 7;
  result.check->o.infinities = 2;
  result.check->inputs = {{"k", 3, 0, {0, 1, 40, 7}},
                          {"bias", 0, 2, {0, 1, 3, 9}}};
  EXPECT_EQ(formatLine(result),
            "FAIL B1 H2/2 S32x48 D16 f16 bhsd, cubin sm_89, seed 42, "
            "normal/all, max error O nan of 2.00e-03 allowed, lse 1.00e-06 of "
            "1.00e-05 allowed\n"
            "  O at batch 0, head 1, query 2, column 5: expects 0.25, but got "
            "nan, an error of nan where 2.00e-03 is allowed\n"
            "  O holds 7 NaN and 2 infinities in 1024 elements\n"
            "  input k holds 3 NaN, the first at batch 0, head 1, key 40, "
            "column 7\n"
            "  input bias holds 2 infinities, the first at batch 0, head 1, "
            "query 3, key 9");
}

TEST(ReportTest, aLineNamesTheSourcesOfTheInputs) {
  RunResult result = makeResult();
  result.check.reset();
  result.request.inputFiles = {{"k", "dir/k.npy"}};
  EXPECT_EQ(formatLine(result),
            "unchecked B1 H2/2 S32x48 D16 f16 bhsd, cubin sm_89, k from "
            "dir/k.npy, q and v from seed 42, normal/all");
  result.request.inputFiles["q"] = "q.npy";
  result.request.inputFiles["v"] = "v.npy";
  EXPECT_EQ(formatLine(result),
            "unchecked B1 H2/2 S32x48 D16 f16 bhsd, cubin sm_89, k from "
            "dir/k.npy, q from q.npy, v from v.npy");
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
            "ERROR B1 H2/2 S32x48 D16 f16 bhsd, cubin sm_89, seed 42, "
            "normal/all");
  result.status = Status::kernelFault("the kernel crashed");
  EXPECT_TRUE(formatLine(result).starts_with("FAIL "));
}

TEST(ReportTest, aRunThatWasRefusedEarlyNamesItsSource) {
  RunResult refused;
  refused.request.bundle = "dir/a.fcb/";
  refused.request.seed = 7;
  refused.status = Status::error("expects a, but got b");
  EXPECT_EQ(formatLine(refused), "ERROR a.fcb, seed 7, normal/all");
  refused.request.source = Source{Source::Kind::Shape, "b1 h8"};
  EXPECT_EQ(formatLine(refused), "ERROR --shape 'b1 h8', seed 7, normal/all");
}

TEST(ReportTest, theTableCountsPasses) {
  RunResult failed = makeResult();
  failed.check->o.error = 1;
  EXPECT_EQ(
      formatTable({makeTimed(), failed}),
      "result  bundle  problem                      code         seed  inputs  "
      " "
      " "
      "  O error               lse error             time                    "
      "TFLOP/s\n"
      "PASS    a.fcb   B1 H2/2 S32x48 D16 f16 bhsd  cubin sm_89  42    "
      "normal/all  1.00e-03 of 2.00e-03  1.00e-06 of 1.00e-05  10.00 us "
      "[9.00..12.00]  100.0\n"
      "FAIL    a.fcb   B1 H2/2 S32x48 D16 f16 bhsd  cubin sm_89  42    "
      "normal/all  1.00e+00 of 2.00e-03  1.00e-06 of 1.00e-05\n"
      "1 of 2 passed\n");
}

static std::string jsonOf(const RunResult &result) {
  ScratchDirectory scratch;
  EXPECT_EQ(text(writeJson(scratch.file("r.json"), {result})), "");
  return *readFile(scratch.file("r.json"));
}

TEST(ReportTest, writesJson) {
  EXPECT_EQ(jsonOf(makeTimed()), R"([
  {
    "bundle": "dir/a.fcb/",
    "result": "PASS",
    "problem": "B1 H2/2 S32x48 D16 f16",
    "dims": {
      "batch": 1
    },
    "layout": "bhsd",
    "device": "Fake GPU",
    "code": "cubin sm_89",
    "inputs": {
      "q": {
        "seed": 42
      },
      "k": {
        "seed": 42
      },
      "v": {
        "seed": 42
      }
    },
    "seed": 42,
    "kind": "normal",
    "stage": "all",
    "kernels": [
      {
        "registers": 128,
        "local_bytes": 0,
        "static_shared_memory": 16
      }
    ],
    "o": {
      "error": 0.001,
      "allowed": 0.002,
      "worst": 5,
      "at": {
        "batch": 0,
        "head": 1,
        "query": 2,
        "column": 5
      },
      "expected": 0.25,
      "actual": 0.251,
      "nans": 0,
      "infinities": 0,
      "pass": true,
      "yardstick": 0.0009,
      "norm": 0.01,
      "yardstick_norm": 0.02
    },
    "lse": {
      "error": 1e-06,
      "allowed": 1e-05,
      "worst": 1,
      "at": {
        "batch": 0,
        "head": 0,
        "query": 1
      },
      "expected": 0.0,
      "actual": 0.0,
      "nans": 0,
      "infinities": 0,
      "pass": true,
      "yardstick": 0.0,
      "norm": 0.0,
      "yardstick_norm": 0.0
    },
    "time": {
      "median_us": 10.0,
      "min_us": 9.0,
      "max_us": 12.0,
      "replays": 15,
      "launches_per_replay": 100,
      "tflops": 100.0
    }
  }
]
)");
}

TEST(ReportTest, jsonOfInputsFromFilesHasNoSeed) {
  RunResult result = makeResult();
  result.check->lse.reset();
  result.check->inputs = {{"k", 1, 2, {0, 0, 0, 3}}};
  result.kernels.clear();
  result.request.source = Source{Source::Kind::Shape, "b1 h2"};
  result.request.bundle = "/tmp/flashcore-run-1/kernel.fcb";
  for (const char *name : {"q", "k", "v"})
    result.request.inputFiles[name] = std::string(name) + ".npy";
  result.check->o.error = NAN;
  EXPECT_EQ(jsonOf(result), R"([
  {
    "shape": "b1 h2",
    "result": "FAIL",
    "problem": "B1 H2/2 S32x48 D16 f16",
    "dims": {
      "batch": 1
    },
    "layout": "bhsd",
    "device": "Fake GPU",
    "code": "cubin sm_89",
    "inputs": {
      "q": {
        "file": "q.npy"
      },
      "k": {
        "file": "k.npy",
        "nans": 1,
        "infinities": 2
      },
      "v": {
        "file": "v.npy"
      }
    },
    "stage": "all",
    "o": {
      "error": null,
      "allowed": 0.002,
      "worst": 5,
      "at": {
        "batch": 0,
        "head": 1,
        "query": 2,
        "column": 5
      },
      "expected": 0.25,
      "actual": 0.251,
      "nans": 0,
      "infinities": 0,
      "pass": false,
      "yardstick": 0.0009,
      "norm": 0.01,
      "yardstick_norm": 0.02
    }
  }
]
)");
}

TEST(ReportTest, jsonOfAnErrorNamesTheFileThatWasCompiled) {
  RunResult result;
  result.request.bundle = "/tmp/flashcore-run-1/kernel.fcb";
  result.request.source = Source{Source::Kind::File, "a.mlir"};
  result.request.seed = 7;
  result.status = Status::error("expects a, but got b").note("do c");
  EXPECT_EQ(jsonOf(result), R"([
  {
    "mlir": "a.mlir",
    "result": "ERROR",
    "problem": "",
    "dims": {},
    "layout": "",
    "device": "",
    "code": "",
    "inputs": {},
    "seed": 7,
    "kind": "normal",
    "stage": "all",
    "error": "expects a, but got b\n  note: do c"
  }
]
)");
}

TEST(ReportTest, theSummaryNamesWhatWasCompiled) {
  std::string info =
      infoOf(testManifest(), Source{Source::Kind::Shape, "b1 h8"});
  EXPECT_TRUE(info.starts_with("bundle compiled from --shape 'b1 h8'\n"))
      << info;
}

TEST(ReportTest, summarizesABundle) {
  EXPECT_EQ(
      infoOf(testManifest()),
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
      "  attention: block 128x1x1, grid ((seqlen_q ceildiv 64) * heads_q * "
      "batch, 1, 1), 8 arguments, 49152 bytes of dynamic shared memory\n"
      "    sm_89: 128 registers, spills 0 bytes stored and 0 loaded, 16 bytes "
      "of static shared memory\n");
}

TEST(ReportTest, summarizesAPersistentKernel) {
  nlohmann::json manifest = testManifest();
  manifest["kernels"][0]["grid"][0] = "min(batch, multiprocessors * 2)";
  std::string info = infoOf(manifest);
  EXPECT_NE(info.find("grid (min(batch, multiprocessors * 2), 1, 1), 8 "
                      "arguments"),
            std::string::npos)
      << info;
}

TEST(ReportTest, summarizesKernelsThatShareAWorkspace) {
  std::string info = infoOf(splitManifest());
  EXPECT_NE(info.find("  attention: block 128x1x1, grid ((seqlen_q ceildiv "
                      "64) * heads_q * batch * 3, 1, 1), 2 arguments"),
            std::string::npos)
      << info;
  EXPECT_NE(info.find("  merge: block 4x1x1, grid (seqlen_q * heads_q * batch, "
                      "1, 1), 2 arguments"),
            std::string::npos)
      << info;
  EXPECT_NE(info.find("workspace\n"
                      "  seqlen_q * heads_q * batch * 120 bytes\n"),
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
  std::string info = infoOf(manifest);
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
  std::string info = infoOf(manifest);
  EXPECT_NE(info.find("  made by flashcore test, no assembler\n"
                      "  PTX for sm_80 (263 bytes)\n"),
            std::string::npos);
  EXPECT_NE(info.find("    resources unknown: no cubin was made\n"),
            std::string::npos);
}

TEST(ReportTest, summarizesEachVariant) {
  nlohmann::json manifest = withVariants(splitManifest());
  nlohmann::json newer = manifest["variants"][0];
  newer["chip"] = "sm_90";
  newer["cubins"] = nlohmann::json::array();
  newer["workspace"] = nlohmann::json::array();
  newer["kernels"].erase(1);
  newer["kernels"][0]["name"] = "newer";
  manifest["variants"].push_back(newer);
  setPtxOfVariants(manifest);
  std::string bytes = manifest["variants"][0]["ptx"]["bytes"].dump();
  std::string info = infoOf(manifest);
  EXPECT_NE(info.find("  PTX for sm_80 (" + bytes +
                      " bytes), cubin for sm_89 (10 bytes)\n"
                      "  PTX for sm_90 (" +
                      bytes +
                      " bytes)\n"
                      "attention\n"),
            std::string::npos)
      << info;
  EXPECT_NE(info.find("kernels of variant sm_80\n  attention: block"),
            std::string::npos)
      << info;
  EXPECT_NE(info.find("workspace of variant sm_80\n  seqlen_q * "),
            std::string::npos)
      << info;
  EXPECT_NE(info.find("kernels of variant sm_90\n  newer: block"),
            std::string::npos)
      << info;
}
