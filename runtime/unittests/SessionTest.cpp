//===- SessionTest.cpp - Runs from request to result ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A session over the host device: passes, failures, errors, files and
// recovery.
//
//===----------------------------------------------------------------------===//

#include "Session.h"
#include "FakeCuda.h"
#include "HostDevice.h"
#include "TestBundle.h"

#include <cmath>

using namespace flashcore;
using namespace flashcore::run;
using namespace flashcore::testing;

namespace {
class SessionTest : public ::testing::Test {
protected:
  SessionTest() {
    writeBundle(scratch.path() / "a.fcb", staticManifest());
    request.bundle = scratch.path() / "a.fcb";
  }

  Session makeSession(Mistake mistake = Mistake::None) {
    return Session([this, mistake]() -> StatusOr<std::unique_ptr<Device>> {
      ++opened;
      return std::unique_ptr<Device>(
          std::make_unique<HostDevice>(opened == 1 ? mistake : Mistake::None));
    });
  }

  ScratchDirectory scratch;
  RunRequest request;
  int opened = 0;
};
} // namespace

TEST_F(SessionTest, aGoodBundlePasses) {
  Session session = makeSession();
  request.time = true;
  RunResult result = session.run(request);
  EXPECT_EQ(text(result.status), "");
  EXPECT_TRUE(result.pass());
  EXPECT_FALSE(result.failed());
  EXPECT_EQ(result.problem, "B1 H2/2 S32x48 D16 f16 lse");
  EXPECT_EQ(result.code, "cubin sm_89");
  EXPECT_EQ(result.device, "Host");
  EXPECT_EQ(result.kernels.at(0).registers, 100);
  EXPECT_EQ(result.timing->median, 2);
  EXPECT_DOUBLE_EQ(result.teraflops(), 4.0 * 2 * 32 * 48 * 16 / 2 * 1e-6);
}

TEST_F(SessionTest, loadsABundleOnce) {
  Session session = makeSession();
  EXPECT_TRUE(session.run(request).pass());
  std::filesystem::remove_all(request.bundle);
  EXPECT_TRUE(session.run(request).pass());
  EXPECT_EQ(opened, 1);
}

TEST_F(SessionTest, measuresTheOverheadOnAGpuOnly) {
  Session session = makeSession();
  ASSERT_EQ(text(session.open()), "");
  EXPECT_EQ(text(session.measureOverhead(request)),
            "expects a GPU to measure the overhead of a launch on, but got "
            "Host");
}

TEST_F(SessionTest, addsUpTheOverheadOfAllKernels) {
  writeBundle(request.bundle, splitManifest());
  FakeCuda fake;
  fake.parameters.resize(2);
  Session session(
      [&]() -> StatusOr<std::unique_ptr<Device>> { return fake.open(); });
  ASSERT_EQ(text(session.open()), "");
  StatusOr<LaunchOverhead> overhead = session.measureOverhead(request);
  ASSERT_EQ(text(overhead), "");
  EXPECT_GT(overhead->driver, 0);
  EXPECT_GT(overhead->runtime, 0);
  // 4096 launches of each kernel either way.
  EXPECT_EQ(fake.calls("cuLaunchKernel"), 4 * 4096);
}

TEST_F(SessionTest, aWrongResultFails) {
  Session session = makeSession(Mistake::WrongValue);
  RunResult result = session.run(request);
  EXPECT_TRUE(result.status.ok());
  EXPECT_FALSE(result.pass());
  EXPECT_TRUE(result.failed());
}

TEST_F(SessionTest, anUnwrittenOutputFails) {
  Session session = makeSession(Mistake::Unwritten);
  RunResult result = session.run(request);
  EXPECT_FALSE(result.pass());
  EXPECT_TRUE(result.failed());
}

TEST_F(SessionTest, opensTheDeviceAgainAfterACrash) {
  Session session = makeSession(Mistake::Crash);
  RunResult result = session.run(request);
  EXPECT_TRUE(result.failed());
  EXPECT_TRUE(result.status.isKernelFault());
  EXPECT_TRUE(session.run(request).pass());
  EXPECT_EQ(opened, 2);
}

TEST_F(SessionTest, withoutCheckNothingIsCompared) {
  Session session = makeSession(Mistake::WrongValue);
  request.check = false;
  RunResult result = session.run(request);
  EXPECT_TRUE(result.pass());
  EXPECT_FALSE(result.check);
}

TEST_F(SessionTest, readsAndWritesFiles) {
  Session session = makeSession();
  // V of ones: every row of O is one as well.
  NpyArray ones = {"<f2", {1, 2, 48, 16}, ""};
  for (int i = 0; i < 2 * 48 * 16; ++i)
    ones.data += std::string("\x00\x3c", 2);
  ASSERT_TRUE(writeNpy(scratch.file("v.npy"), ones).ok());
  request.inputFiles["v"] = scratch.file("v.npy");
  request.outputFiles["o"] = scratch.file("o.npy");
  EXPECT_TRUE(session.run(request).pass());
  StatusOr<NpyArray> o = readNpy(scratch.file("o.npy"));
  ASSERT_EQ(text(o), "");
  EXPECT_EQ(o->shape, (std::vector<int64_t>{1, 2, 32, 16}));
  EXPECT_EQ(o->data, ones.data.substr(0, o->data.size()));
}

namespace {
/// Bundles that leave sizes open, and files that have them.
class SizesTest : public SessionTest {
protected:
  SizesTest() { writeBundle(request.bundle, testManifest()); }

  /// An input of f16 ones.
  void give(const std::string &name, std::vector<int64_t> shape) {
    NpyArray ones = {"<f2", std::move(shape), ""};
    int64_t count = 1;
    for (int64_t size : ones.shape)
      count *= size;
    for (int64_t i = 0; i < count; ++i)
      ones.data += std::string("\x00\x3c", 2);
    std::string path = scratch.file(name + ".npy");
    ASSERT_TRUE(writeNpy(path, ones).ok());
    request.inputFiles[name] = path;
  }
  /// What validate() says, with the directory left out.
  std::string refusal() {
    Session session = makeSession();
    std::string message = text(session.validate(request));
    std::string directory = scratch.file("");
    for (size_t at; (at = message.find(directory)) != std::string::npos;)
      message.erase(at, directory.size());
    return message;
  }
};
} // namespace

TEST_F(SizesTest, comeFromTheFiles) {
  give("q", {2, 4, 3, 16});
  give("k", {2, 2, 5, 16});
  EXPECT_EQ(refusal(), "");
  request.problem.dims = {{"batch", 2}};
  EXPECT_EQ(refusal(), "");
}

TEST_F(SizesTest, comeFromFilesWithSeqlenBeforeHeads) {
  request.npy.layout = Layout::BSHD;
  give("q", {2, 3, 4, 16});
  give("k", {2, 5, 2, 16});
  EXPECT_EQ(refusal(), "");
  give("v", {2, 5, 4, 16});
  EXPECT_EQ(refusal(),
            "v.npy: expects heads_kv 2 on axis 2, as k.npy has, but got 4\n"
            "  note: the axes of 'v' are (batch, seqlen_k, heads_kv, "
            "head_dim_v)");
}

TEST_F(SizesTest, thatAreMissingAreNamedTogether) {
  give("k", {2, 2, 5, 16});
  EXPECT_EQ(refusal(),
            "expects sizes that the bundle leaves open, but got none for "
            "heads_q, seqlen_q\n"
            "  note: give them as --batch, --seqlen-q and so on, any as "
            "--dim=NAME=N, by .npy files "
            "of the inputs, or in the dims of an entry of a grid");
}

TEST_F(SizesTest, thatDisagreeNameBothSides) {
  give("q", {2, 4, 3, 16});
  give("k", {3, 2, 5, 16});
  const std::string note = "\n  note: the axes of 'q' are (batch, heads_q, "
                           "seqlen_q, head_dim); --npy-layout=bshd takes files "
                           "with seqlen before heads";
  // Files are read in the order of their tensors' names.
  EXPECT_EQ(refusal(),
            "q.npy: expects batch 3 on axis 0, as k.npy has, but got 2" + note);
  give("k", {2, 2, 5, 16});
  request.problem.dims = {{"seqlen_q", 7}};
  EXPECT_EQ(refusal(),
            "q.npy: expects seqlen_q 7 on axis 2, as --seqlen-q says, but got "
            "3" +
                note);
  request.problem.dims.clear();
  give("q", {2, 4, 3, 8});
  EXPECT_EQ(refusal(), "q.npy: expects head_dim 16 on axis 3, for which the "
                       "bundle was compiled, but got 8" +
                           note);
  give("q", {2, 4, 3});
  EXPECT_EQ(refusal(), "q.npy: expects 4 axes, but got 3\n"
                       "  note: the axes of 'q' are (batch, heads_q, seqlen_q, "
                       "head_dim)");
}

TEST_F(SizesTest, ofABroadcastAxisAreOne) {
  nlohmann::json manifest = testManifest();
  addBias(manifest, "f16", {"1", "heads_q", "1", "seqlen_k"});
  writeBundle(request.bundle, manifest);
  give("bias", {1, 4, 2, 5});
  EXPECT_EQ(refusal(),
            "bias.npy: expects size 1 on axis 2, which is broadcast, but got "
            "2\n"
            "  note: the axes of 'bias' are (1, heads_q, 1, seqlen_k)");
}

TEST_F(SizesTest, aFileThatIsNoneIsNamed) {
  request.inputFiles["q"] = "missing.npy";
  EXPECT_EQ(refusal(),
            "missing.npy: cannot read the file: No such file or directory");
}

TEST_F(SizesTest, andTimesAreThoseOfTheFiles) {
  HostDevice *device = nullptr;
  Session session([&]() -> StatusOr<std::unique_ptr<Device>> {
    auto opened = std::make_unique<HostDevice>();
    device = opened.get();
    return std::unique_ptr<Device>(std::move(opened));
  });
  writeBundle(request.bundle, staticManifest());
  give("v", {1, 2, 48, 16});
  request.time = true;
  request.check = false;
  ASSERT_EQ(text(session.run(request).status), "");
  ASSERT_EQ(device->timedInputs.size(), 8u);
  for (const auto &[q, k, v] : device->timedInputs)
    EXPECT_EQ(v, 0x3c00); // one, in every set
  EXPECT_NE(device->timedInputs[0][0], device->timedInputs[1][0]); // random
}

TEST_F(SessionTest, tellsWhatWasConverted) {
  Session session = makeSession();
  NpyArray zeros = {"<f4", {1, 2, 48, 16}, std::string(2 * 48 * 16 * 4, '\0')};
  ASSERT_TRUE(writeNpy(scratch.file("v.npy"), zeros).ok());
  request.inputFiles["v"] = scratch.file("v.npy");
  RunResult refused = session.run(request);
  EXPECT_EQ(text(refused.status), scratch.file("v.npy") +
                                      ": expects elements of f16 for 'v', but "
                                      "got f32\n"
                                      "  note: --convert rounds them to f16");
  EXPECT_FALSE(refused.failed());
  // So early that no device is needed.
  EXPECT_EQ(text(session.validate(request)), text(refused.status));
  request.npy.convert = true;
  RunResult result = session.run(request);
  EXPECT_TRUE(result.pass());
  EXPECT_EQ(result.notes,
            std::vector<std::string>{scratch.file("v.npy") +
                                     ": converted from f32 to f16"});
}

TEST_F(SessionTest, knowsTheTrueLayout) {
  auto layout = [&](const nlohmann::json &manifest) {
    writeBundle(request.bundle, manifest);
    Session session = makeSession();
    return session.run(request).layout;
  };
  // The bundle's strides are fixed, whatever is asked for.
  request.layout = Layout::BSHD;
  EXPECT_EQ(layout(staticManifest()), "bhsd");
  request.layout.reset();
  nlohmann::json manifest = staticManifest(32, 32);
  for (auto &tensor : manifest["tensors"])
    if (tensor["name"] != "lse")
      tensor["strides"] = {1024, 16, 32, 1};
  EXPECT_EQ(layout(manifest), "bshd");
  for (int i = 0; i < 3; ++i)
    manifest["tensors"][i]["strides"] = {3072, 16, 96, 1};
  EXPECT_EQ(layout(manifest), "q,k,v bshd strided, o bshd");
  // Where the bundle fixes no more than the stride of heads, it is bshd.
  for (auto &tensor : manifest["tensors"])
    if (tensor["name"] != "lse")
      tensor["strides"] = {nullptr, 16, nullptr, 1};
  EXPECT_EQ(layout(manifest), "bshd");
}

TEST_F(SessionTest, readsABias) {
  nlohmann::json manifest = staticManifest(8, 2);
  addBias(manifest, "f32", {"1", "1", "1", "seqlen_k"});
  writeBundle(request.bundle, manifest);
  // The first key is hidden, so that O is the second row of V.
  const float values[] = {-INFINITY, 1};
  NpyArray bias = {"<f4", {1, 1, 1, 2}, ""};
  bias.data.assign(reinterpret_cast<const char *>(values), sizeof(values));
  NpyArray v = {"<f2", {1, 2, 2, 16}, ""};
  for (int i = 0; i < 2 * 2 * 16; ++i)
    v.data += i / 16 % 2 ? std::string("\x00\x3c", 2) : std::string(2, '\0');
  ASSERT_TRUE(writeNpy(scratch.file("b.npy"), bias).ok());
  ASSERT_TRUE(writeNpy(scratch.file("v.npy"), v).ok());
  request.inputFiles["bias"] = scratch.file("b.npy");
  request.inputFiles["v"] = scratch.file("v.npy");
  request.outputFiles["o"] = scratch.file("o.npy");
  Session session = makeSession();
  EXPECT_TRUE(session.run(request).pass());
  StatusOr<NpyArray> o = readNpy(scratch.file("o.npy"));
  ASSERT_EQ(text(o), "");
  for (size_t i = 0; i < o->data.size(); i += 2)
    ASSERT_EQ(o->data.substr(i, 2), std::string("\x00\x3c", 2)) << i;
}

/// Writes integers as an array of one axis.
static void writeIntegers(const std::string &path,
                          const std::vector<int32_t> &values,
                          std::vector<int64_t> shape = {}) {
  if (shape.empty())
    shape = {static_cast<int64_t>(values.size())};
  NpyArray array = {"<i4", shape, ""};
  array.data.assign(reinterpret_cast<const char *>(values.data()),
                    values.size() * sizeof(int32_t));
  ASSERT_TRUE(writeNpy(path, array).ok());
}

TEST_F(SessionTest, sizesOfSequencesComeFromOptionsOrFiles) {
  nlohmann::json manifest = varlenManifest(32, 48, 3, "none", true);
  for (const char *name : {"cu_seqlens", "sequences"})
    manifest["attention"]["dims"][name] = nullptr;
  writeBundle(request.bundle, manifest);
  Session session = makeSession();
  EXPECT_EQ(text(session.validate(request)),
            "expects sizes that the bundle leaves open, but got none for "
            "cu_seqlens\n"
            "  note: give them as --batch, --seqlen-q and so on, any as "
            "--dim=NAME=N, by .npy files "
            "of the inputs, or in the dims of an entry of a grid");
  request.problem.dims["cu_seqlens"] = 4;
  EXPECT_EQ(text(session.validate(request)), "");
  request.problem.dims.clear();
  writeIntegers(scratch.file("k.npy"), {0, 1, 2, 4, 5, 48});
  request.inputFiles["cu_seqlens_k"] = scratch.file("k.npy");
  EXPECT_EQ(text(session.validate(request)), "");
  writeIntegers(scratch.file("u.npy"), {0, 1});
  request.inputFiles["seqused_k"] = scratch.file("u.npy");
  EXPECT_EQ(text(session.validate(request)),
            "expects sequences to be one less than cu_seqlens (6), but got 2\n"
            "  note: seqused_k has an entry a sequence, cu_seqlens_q one more");
}

TEST_F(SessionTest, readsLengths) {
  writeBundle(request.bundle, varlenManifest(32, 48, 5, "bottom_right", true));
  Session session = makeSession();
  RunResult result = session.run(request);
  EXPECT_EQ(text(result.status), "");
  EXPECT_TRUE(result.pass());
  EXPECT_EQ(result.problem,
            "B1 H2/2 S32x48 D16 f16 causal=bottom_right seqused_k sequences=5 "
            "lse");
  // Of these keys only, also where seqused_k is random.
  writeIntegers(scratch.file("k.npy"), {0, 1, 2, 4, 5, 48});
  request.inputFiles["cu_seqlens_k"] = scratch.file("k.npy");
  for (request.seed = 0; request.seed < 5; ++request.seed) {
    result = session.run(request);
    EXPECT_EQ(text(result.status), "");
    EXPECT_TRUE(result.pass());
  }
  writeIntegers(scratch.file("u.npy"), {1, 1, 2, 1, 44});
  request.inputFiles["seqused_k"] = scratch.file("u.npy");
  result = session.run(request);
  EXPECT_EQ(text(result.status),
            "expects seqused_k[4] to be from 0 to 43, the keys of sequence 4, "
            "but got 44");
  EXPECT_FALSE(result.failed());
  // Such times are none either.
  request.time = true;
  request.check = false;
  EXPECT_EQ(text(session.run(request).status), text(result.status));
}

TEST_F(SessionTest, sizesOfPagesComeFromOptionsOrFiles) {
  nlohmann::json manifest = pagedManifest(32, 16, 3, 8, 2);
  for (const char *name : {"batch", "pages", "pages_per_sequence"})
    manifest["attention"]["dims"][name] = nullptr;
  for (nlohmann::json &tensor : manifest["tensors"])
    tensor["strides"][0] = nullptr;
  writeBundle(request.bundle, manifest);
  Session session = makeSession();
  // The host device runs static problems only, but they are made before.
  auto sizes = [&] {
    EXPECT_EQ(text(session.validate(request)), "");
    RunResult result = session.run(request);
    return std::vector{result.dims.at("pages"),
                       result.dims.at("pages_per_sequence")};
  };
  EXPECT_EQ(text(session.validate(request)),
            "expects sizes that the bundle leaves open, but got none for "
            "batch, pages_per_sequence\n"
            "  note: give them as --batch, --seqlen-q and so on, any as "
            "--dim=NAME=N, by .npy files "
            "of the inputs, or in the dims of an entry of a grid");
  request.problem.dims = {{"batch", 3}, {"pages_per_sequence", 4}};
  EXPECT_EQ(sizes(), (std::vector<int64_t>{12, 4}));
  request.problem.dims["pages"] = 5;
  EXPECT_EQ(sizes(), (std::vector<int64_t>{5, 4}));
  request.problem.dims = {{"batch", 3}, {"seqlen_k", 33}};
  EXPECT_EQ(sizes(), (std::vector<int64_t>{9, 3}));
  request.problem.dims["pages_per_sequence"] = 2;
  EXPECT_EQ(text(session.validate(request)),
            "expects pages_per_sequence 3 for seqlen_k 33 in pages of 16, but "
            "got 2\n  note: give one of --seqlen-k and --pages-per-sequence");
  request.problem.dims = {{"batch", INT64_MAX}, {"pages_per_sequence", 2}};
  EXPECT_NE(text(session.validate(request)), "");
  request.problem.dims = {{"pages", 10}};
  writeIntegers(scratch.file("t.npy"), {9, 8, 7, 6}, {2, 2});
  request.inputFiles["page_table"] = scratch.file("t.npy");
  EXPECT_EQ(sizes(), (std::vector<int64_t>{10, 2}));
}

TEST_F(SessionTest, readsPages) {
  writeBundle(request.bundle, pagedVarlenManifest(32, 16, 3, 9, 2));
  Session session = makeSession();
  RunResult result = session.run(request);
  EXPECT_EQ(text(result.status), "");
  EXPECT_TRUE(result.pass());
  EXPECT_EQ(result.problem,
            "B1 H2/2 S32x48 D16 f16 page_size=16 seqused_k sequences=2 lse");
  EXPECT_EQ(result.layout, "bhsd");
  writeIntegers(scratch.file("t.npy"), {0, 9, 9, 1, 1, 8}, {2, 3});
  writeIntegers(scratch.file("u.npy"), {16, 48});
  request.inputFiles["page_table"] = scratch.file("t.npy");
  request.inputFiles["seqused_k"] = scratch.file("u.npy");
  request.time = true;
  EXPECT_TRUE(session.run(request).pass());
  writeIntegers(scratch.file("t.npy"), {0, 9, 9, 1, 10, 8}, {2, 3});
  Session again = makeSession();
  result = again.run(request);
  EXPECT_EQ(text(result.status),
            "expects page_table[1, 1] to be from 0 to pages - 1 (8), but got "
            "10\n  note: sequence 1 has 48 keys, in pages of 16");
  EXPECT_FALSE(result.failed());
}

TEST_F(SessionTest, countsTheOperationsOfTheLengths) {
  writeBundle(request.bundle, varlenManifest(32, 48, 2));
  writeIntegers(scratch.file("q.npy"), {0, 5, 30});
  writeIntegers(scratch.file("k.npy"), {8, 18, 48});
  request.inputFiles["cu_seqlens_q"] = scratch.file("q.npy");
  request.inputFiles["cu_seqlens_k"] = scratch.file("k.npy");
  request.time = true;
  Session session = makeSession();
  RunResult result = session.run(request);
  ASSERT_EQ(text(result.status), "");
  EXPECT_DOUBLE_EQ(result.flops, 4.0 * 2 * (5 * 10 + 25 * 30) * 16);
}

TEST_F(SessionTest, refusesAnInputThatIsNotThere) {
  request.inputFiles["bias"] = "b.npy";
  Session session = makeSession();
  EXPECT_EQ(text(session.validate(request)),
            "expects a bundle with the input 'bias' to read b.npy into, but "
            "got one without");
}

TEST_F(SessionTest, refusesAnOutputThatIsNotThere) {
  nlohmann::json manifest = staticManifest();
  manifest["tensors"].erase(4);
  manifest["kernels"][0]["arguments"].erase(4);
  setPtx(manifest, ptxFor(manifest));
  manifest["kernels"][0]["grid"][0] = "batch";
  writeBundle(request.bundle, manifest);
  request.outputFiles["lse"] = "l.npy";
  Session session = makeSession();
  EXPECT_EQ(text(session.validate(request)),
            "expects a bundle with the output 'lse' to write to l.npy, but got "
            "one without");
}

TEST_F(SessionTest, validatesWithoutADevice) {
  Session session = makeSession();
  EXPECT_EQ(text(session.validate(request)), "");
  request.stage = Stage::Softmax;
  EXPECT_EQ(text(session.validate(request)),
            "expects seqlen_k to be at most head_dim_v for stage 'softmax', "
            "but got 48 and 16\n"
            "  note: this stage makes V an identity matrix: use a shorter "
            "seqlen_k");
  request.stage = Stage::All;
  request.isTile = true;
  EXPECT_EQ(text(session.validate(request)),
            "expects seqlen_k 48, the bundle was compiled for it, but got 16: "
            "recompile with a dynamic seqlen_k");
  request.bundle = scratch.path() / "b.fcb";
  EXPECT_EQ(text(session.validate(request)),
            scratch.file("b.fcb") +
                ": cannot read the file: No such file or directory\n"
                "  note: expects a bundle directory, as 'flashcore-compile "
                "--emit=bundle' writes it");
  EXPECT_EQ(opened, 0);
}

TEST_F(SessionTest, aBadRequestIsAnErrorAndNotAFailure) {
  Session session = makeSession();
  request.problem.dims["batch"] = 5;
  RunResult result = session.run(request);
  EXPECT_FALSE(result.pass());
  EXPECT_FALSE(result.failed());
  EXPECT_EQ(text(result.status),
            "expects batch 1, the bundle was compiled for it, but got 5: "
            "recompile with a dynamic batch");
}
