//===- OptionsTest.cpp - The command line and the grid file ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What each option does, and the full text of refusals.
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include "Grid.h"
#include "TestBundle.h"

#include <algorithm>

using namespace flashcore;
using namespace flashcore::run;
using namespace flashcore::testing;

static std::string refusal(const std::vector<std::string> &arguments) {
  return text(parseOptions(arguments));
}

TEST(OptionsTest, defaults) {
  StatusOr<Options> options = parseOptions({"a.fcb"});
  ASSERT_EQ(text(options), "");
  EXPECT_EQ(options->input, "a.fcb");
  EXPECT_EQ(options->device, "auto");
  EXPECT_FALSE(options->info);
  EXPECT_EQ(options->runs, 1);
  EXPECT_EQ(options->seed, std::nullopt);
  EXPECT_TRUE(options->request.check);
  EXPECT_FALSE(options->request.time);
  EXPECT_EQ(options->request.stageName(), "all");
  EXPECT_TRUE(options->request.problem.dims.empty());
  EXPECT_EQ(options->request.layout, std::nullopt);
  EXPECT_EQ(options->shape, std::nullopt);
  EXPECT_FALSE(options->request.npy.convert);
  EXPECT_EQ(options->request.npy.layout, Layout::BHSD);
}

TEST(OptionsTest, aShapeStandsInPlaceOfAFile) {
  StatusOr<Options> options =
      parseOptions({"--shape", "b1 h8 causal", "--", "--chip=sm_90"});
  ASSERT_EQ(text(options), "");
  EXPECT_EQ(options->shape, "b1 h8 causal");
  EXPECT_EQ(options->compilerArguments,
            std::vector<std::string>{"--chip=sm_90"});
  // No words are the default shape.
  EXPECT_EQ(parseOptions({"--shape", ""})->shape, "");
}

TEST(OptionsTest, theVersionIsAMessage) {
  StatusOr<Options> options = parseOptions({"--version"});
  ASSERT_EQ(text(options), "");
  EXPECT_EQ(options->message, "flashcore " FLASHCORE_VERSION "\n");
}

TEST(OptionsTest, readsEveryOption) {
  StatusOr<Options> options = parseOptions({"--device=cuda",
                                            "--batch=2",
                                            "--heads-q=8",
                                            "--heads-kv",
                                            "4",
                                            "--seqlen-q=100",
                                            "--seqlen-k=0",
                                            "--cu-seqlens=5",
                                            "--pages=7",
                                            "--pages-per-sequence=3",
                                            "--layout=bshd",
                                            "--convert",
                                            "--npy-layout=bshd",
                                            "--offset=8",
                                            "--seed=5",
                                            "--input-kind=rising",
                                            "--q=q.npy",
                                            "--k=k.npy",
                                            "--v=v.npy",
                                            "--bias=b.npy",
                                            "--sink_logits=s.npy",
                                            "--seqused_k=u.npy",
                                            "--cu_seqlens_q=cq.npy",
                                            "--cu_seqlens_k=ck.npy",
                                            "--page_table=pt.npy",
                                            "--out-o=o.npy",
                                            "--out-lse=l.npy",
                                            "--no-check",
                                            "--time",
                                            "--runs=3",
                                            "--json=r.json",
                                            "--compiler=fc",
                                            "a.mlir",
                                            "--",
                                            "--sm=90",
                                            "--"});
  ASSERT_EQ(text(options), "");
  EXPECT_EQ(options->device, "cuda");
  const RunRequest &request = options->request;
  EXPECT_EQ(request.problem.dims.at("batch"), 2);
  EXPECT_EQ(request.problem.dims.at("heads_q"), 8);
  EXPECT_EQ(request.problem.dims.at("heads_kv"), 4);
  EXPECT_EQ(request.problem.dims.at("seqlen_q"), 100);
  EXPECT_EQ(request.problem.dims.at("seqlen_k"), 0);
  EXPECT_EQ(request.layout, Layout::BSHD);
  EXPECT_TRUE(request.npy.convert);
  EXPECT_EQ(request.npy.layout, Layout::BSHD);
  EXPECT_EQ(request.problem.offset, 8);
  EXPECT_EQ(options->seed, 5u);
  EXPECT_EQ(request.kind, InputKind::Rising);
  EXPECT_EQ(request.inputFiles.at("k"), "k.npy");
  EXPECT_EQ(request.inputFiles.at("bias"), "b.npy");
  EXPECT_EQ(request.problem.dims.at("cu_seqlens"), 5);
  EXPECT_EQ(request.inputFiles.at("sink_logits"), "s.npy");
  EXPECT_EQ(request.inputFiles.at("seqused_k"), "u.npy");
  EXPECT_EQ(request.inputFiles.at("cu_seqlens_q"), "cq.npy");
  EXPECT_EQ(request.inputFiles.at("cu_seqlens_k"), "ck.npy");
  EXPECT_EQ(request.problem.dims.at("pages"), 7);
  EXPECT_EQ(request.problem.dims.at("pages_per_sequence"), 3);
  EXPECT_EQ(request.inputFiles.at("page_table"), "pt.npy");
  EXPECT_EQ(request.outputFiles.at("o"), "o.npy");
  EXPECT_EQ(request.outputFiles.at("lse"), "l.npy");
  EXPECT_FALSE(request.check);
  EXPECT_TRUE(request.time);
  EXPECT_EQ(options->runs, 3);
  EXPECT_EQ(parseOptions({"--stage=tile", "a.fcb"})->request.stageName(),
            "tile");
  EXPECT_EQ(options->json, "r.json");
  EXPECT_EQ(options->compiler, "fc");
  EXPECT_EQ(options->compilerArguments,
            (std::vector<std::string>{"--sm=90", "--"}));
}

TEST(OptionsTest, readsOptionsOfTheEmulator) {
  StatusOr<Options> options =
      parseOptions({"--emu-check=memory,race", "--emu-mma=plain",
                    "--emu-schedule=skew", "--emu-async=random:7",
                    "--emu-threads=2", "--device=emulator", "a.fcb"});
  ASSERT_EQ(text(options), "");
  EXPECT_EQ(options->emulator, (EmulatorOptions{{"check", "memory,race"},
                                                {"mma", "plain"},
                                                {"schedule", "skew"},
                                                {"async", "random:7"},
                                                {"threads", "2"}}));
  EXPECT_TRUE(parseOptions({"a.fcb"})->emulator.empty());
  EXPECT_EQ(refusal({"a.fcb", "--device=cuda", "--emu-mma=plain"}),
            "expects --emu-mma only with the emulator, but got --device=cuda");
  EXPECT_EQ(text(openDevice("emulator", {{"threads", "x"}})),
            "option 'threads' of the emulator expects 0 to 1024 threads, but "
            "got 'x'");
  EXPECT_EQ(text(openDevice("emulator", options->emulator)), "");
}

TEST(OptionsTest, keepsWhatTheCompilerWrites) {
  for (const char *word : {"--emit=ptx", "-emit", "-o", "--o=x"})
    EXPECT_TRUE(text(parseOptions({"a.mlir", "--", "--chip=sm_90", word, "x"}))
                    .starts_with("expects no --emit and no -o after '--', but "
                                 "got '" +
                                 std::string(word) + "'\n"))
        << word;
  EXPECT_EQ(text(parseOptions({"a.mlir", "--", "--output", "o", "--", "-"})),
            "");
}

TEST(OptionsTest, helpIsAMessage) {
  StatusOr<Options> options = parseOptions({"--help"});
  ASSERT_EQ(text(options), "");
  EXPECT_NE(options->message.find("--device"), std::string::npos);
}

TEST(OptionsTest, refusesBadValues) {
  const std::string help = "\n  note: see flashcore-run --help";
  EXPECT_EQ(refusal({}),
            "expects one of INPUT, --shape and --grid, but got none" + help);
  for (const std::vector<std::string> &words :
       {std::vector<std::string>{"a.fcb", "--grid=g.json"},
        {"a.fcb", "--shape=b1"},
        {"--shape=b1", "--grid=g.json"}})
    EXPECT_EQ(refusal(words),
              "expects one of INPUT, --shape and --grid, but got several" +
                  help);
  EXPECT_EQ(refusal({"a.fcb", "--layout=sbhd"}),
            "expects the layout to be 'bhsd' or 'bshd', but got 'sbhd'");
  EXPECT_EQ(
      refusal({"a.fcb", "--input-kind=flat"}),
      "expects the input kind to be 'normal', 'rising', 'falling', 'shifted', "
      "'spiked', 'masked', 'large', 'sinks' or 'infinite', but got 'flat'");
  EXPECT_EQ(refusal({"a.fcb", "--stage=kv"}),
            "expects the stage to be 'all', 'qk', 'softmax', 'pv' or 'tile', "
            "but got 'kv'");
  EXPECT_EQ(refusal({"a.fcb", "--npy-layout=sbhd"}),
            "expects the layout to be 'bhsd' or 'bshd', but got 'sbhd'");
  EXPECT_EQ(refusal({"a.fcb", "--stage=tile", "--v=v.npy"}),
            "expects no input file with --stage=tile, but got one for 'v'\n"
            "  note: a stage chooses its own inputs");
  EXPECT_EQ(refusal({"a.fcb", "--stage=qk", "--v=v.npy"}),
            "expects no input file with --stage=qk, but got one for 'v'\n"
            "  note: a stage chooses its own inputs");
  EXPECT_EQ(
      refusal({"--grid=g.json", "--batch=2"}),
      "expects --grid without --info, --overhead, --runs, sizes and files of "
      "tensors, but got one of them\n"
      "  note: write the sizes into the entries of the grid");
  for (const char *name : {"--seqlen-q", "--batch", "--seed", "--offset"})
    EXPECT_NE(refusal({"a.fcb", std::string(name) + "=9223372036854775808"})
                  .find("expects a number of less than 2^63, but got "
                        "9223372036854775808"),
              std::string::npos)
        << name;
  EXPECT_EQ(refusal({"a.fcb", "--seqlen-q=9223372036854775807"}), "");
  // The texts of these come from CLI11, of which the versions differ.
  EXPECT_NE(refusal({"a.fcb", "--device=tpu"}), "");
  EXPECT_NE(refusal({"a.fcb", "--batch=-1"}), "");
  EXPECT_NE(refusal({"a.fcb", "--batch=x"}), "");
  EXPECT_NE(refusal({"a.fcb", "--runs=0"}), "");
  EXPECT_NE(refusal({"a.fcb", "--seed=-1"}), "");
  EXPECT_NE(refusal({"a.fcb", "--unknown"}), "");
}

namespace {
class GridTest : public ::testing::Test {
protected:
  StatusOr<std::vector<RunRequest>> load(const std::string &contents,
                                         const RunRequest &defaults = {}) {
    scratch.write("grid.json", contents);
    return loadGrid(scratch.file("grid.json"), defaults, [] { return 99; });
  }
  /// The refusal without the path of the file.
  std::string refusal(const std::string &contents) {
    std::string message = text(load(contents));
    return message.substr(std::min(message.size(), scratch.file("").size()));
  }

  ScratchDirectory scratch;
};
const std::string remedy = "\n  note: an entry has the key bundle, and may "
                           "have dims, tensors, layout, "
                           "offset, seed, kind, stage, check and time";
} // namespace

TEST_F(GridTest, readsEntries) {
  StatusOr<std::vector<RunRequest>> grid = load(R"([
    {"bundle": "a.fcb"},
    {"bundle": "/b.fcb", "dims": {"batch": 2, "seqlen_k": 0, "cu_seqlens": 9},
     "layout": "bshd",
     "tensors": {"q": {"strides": [64, 8, 24, 1], "offset": 16}},
     "offset": 8, "seed": 5, "kind": "rising", "stage": "pv", "check": false,
     "time": true}])");
  ASSERT_EQ(text(grid), "");
  ASSERT_EQ(grid->size(), 2u);
  const RunRequest &first = (*grid)[0], &second = (*grid)[1];
  EXPECT_EQ(first.bundle, scratch.file("a.fcb"));
  EXPECT_EQ(first.seed, 99u);
  EXPECT_TRUE(first.check);
  EXPECT_EQ(second.bundle, "/b.fcb");
  EXPECT_EQ(second.problem.dims.at("seqlen_k"), 0);
  EXPECT_EQ(second.problem.dims.at("cu_seqlens"), 9);
  EXPECT_EQ(first.layout, std::nullopt);
  EXPECT_EQ(second.layout, Layout::BSHD);
  EXPECT_EQ(second.problem.offset, 8);
  EXPECT_EQ(second.problem.tensors.at("q").strides,
            (std::vector<int64_t>{64, 8, 24, 1}));
  EXPECT_EQ(second.problem.tensors.at("q").offset, 16);
  EXPECT_EQ(second.seed, 5u);
  EXPECT_EQ(second.kind, InputKind::Rising);
  EXPECT_EQ(second.stage, Stage::PV);
  EXPECT_FALSE(second.check);
  EXPECT_TRUE(second.time);
}

TEST_F(GridTest, takesDefaultsFromTheCommandLine) {
  RunRequest defaults;
  defaults.time = true;
  defaults.kind = InputKind::Rising;
  StatusOr<std::vector<RunRequest>> grid =
      load(R"([{"bundle": "a"}, {"bundle": "b", "time": false}])", defaults);
  ASSERT_EQ(text(grid), "");
  EXPECT_TRUE((*grid)[0].time);
  EXPECT_FALSE((*grid)[1].time);
  EXPECT_EQ((*grid)[1].kind, InputKind::Rising);
}

TEST_F(GridTest, refusesBadEntries) {
  EXPECT_EQ(refusal("{}"), "grid.json: expects the document to be an array, "
                           "but got an object of 0 keys" +
                               remedy);
  EXPECT_EQ(refusal(R"([{"seed": 1}])"),
            "grid.json: expects the key '[0].bundle', but there is none" +
                remedy);
  EXPECT_EQ(refusal(R"([{"bundle": "a", "sead": 1}])"),
            "grid.json: expects '[0]' to be an entry without the unknown key "
            "'sead', but got an object of 2 keys" +
                remedy);
  EXPECT_EQ(refusal(R"([{"bundle": "a", "time": 1}])"),
            "grid.json: expects '[0].time' to be true or false, but got 1" +
                remedy);
  EXPECT_EQ(refusal(R"([{"bundle": "a", "dims": {"batch": "x"}}])"),
            "grid.json: expects '[0].dims.batch' to be an integer of at least "
            "0, but got \"x\"" +
                remedy);
  EXPECT_EQ(refusal(R"([{"bundle": "a", "tensors": {"q": {"offset": 0}}}])"),
            "grid.json: expects the key '[0].tensors.q.strides', but there is "
            "none" +
                remedy);
  EXPECT_EQ(refusal(R"([{"bundle": "a", "tensors": {"q": {"offset": 0,
                         "strides": [1, -1]}}}])"),
            "grid.json: expects '[0].tensors.q.strides[1]' to be an integer of "
            "at least 0, but got -1" +
                remedy);
  EXPECT_EQ(text(load(R"([{"bundle": "a", "layout": "x"}])")),
            "expects the layout to be 'bhsd' or 'bshd', but got 'x'");
  EXPECT_EQ(text(load(R"([{"bundle": "a", "stage": "x"}])")),
            "expects the stage to be 'all', 'qk', 'softmax', 'pv' or 'tile', "
            "but got 'x'");
}
