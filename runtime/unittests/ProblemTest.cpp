//===- ProblemTest.cpp - Concrete sizes and layouts -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a caller may choose, the geometry that follows, and every refusal.
//
//===----------------------------------------------------------------------===//

#include "TestBundle.h"

using namespace flashcore;
using namespace flashcore::testing;

static std::string refusal(const ProblemRequest &request,
                           const nlohmann::json &manifest = testManifest()) {
  Bundle bundle = loadTestBundle(manifest);
  return text(Problem::create(bundle, request));
}

TEST(ProblemTest, packsBothLayouts) {
  Bundle bundle = loadTestBundle();
  ProblemRequest request = testRequest(2, 4, 2, 32, 48);
  StatusOr<Problem> problem = Problem::create(bundle, request);
  ASSERT_EQ(text(problem), "");
  using Strides = std::vector<int64_t>;
  EXPECT_EQ(problem->findTensor("q")->strides, (Strides{2048, 512, 16, 1}));
  EXPECT_EQ(problem->findTensor("k")->strides, (Strides{1536, 768, 16, 1}));
  EXPECT_EQ(problem->findTensor("q")->span, 2 * 2048);

  request.layout = Layout::BSHD;
  problem = Problem::create(bundle, request);
  ASSERT_EQ(text(problem), "");
  EXPECT_EQ(problem->findTensor("q")->strides, (Strides{2048, 16, 64, 1}));
  EXPECT_EQ(problem->findTensor("o")->strides, (Strides{2048, 16, 64, 1}));
  // lse has no head_dim and is always (batch, heads_q, seqlen_q).
  EXPECT_EQ(problem->findTensor("lse")->strides, (Strides{128, 32, 1}));
}

TEST(ProblemTest, keepsStaticLayouts) {
  Bundle bundle = loadTestBundle(staticManifest());
  ProblemRequest request;
  request.layout = Layout::BSHD; // nothing is open
  request.offset = 64;
  StatusOr<Problem> problem = Problem::create(bundle, request);
  ASSERT_EQ(text(problem), "");
  EXPECT_EQ(problem->findTensor("q")->strides,
            (std::vector<int64_t>{1024, 512, 16, 1}));
  EXPECT_EQ(problem->findTensor("q")->offset, 0);
}

TEST(ProblemTest, openStridesClearFixedInnerOnes) {
  // Heads are 600 elements apart instead of 32 * 16: the batch entries, whose
  // stride is open, must not overlap.
  nlohmann::json manifest = testManifest();
  for (nlohmann::json &tensor : manifest["tensors"])
    if (tensor["name"] == "o")
      tensor["strides"] = {nullptr, 600, 16, 1};
  Bundle bundle = loadTestBundle(manifest);
  StatusOr<Problem> problem =
      Problem::create(bundle, testRequest(2, 4, 2, 32, 48));
  ASSERT_EQ(text(problem), "");
  EXPECT_EQ(problem->findTensor("o")->strides,
            (std::vector<int64_t>{2400, 600, 16, 1}));
}

TEST(ProblemTest, offsetsLengthenTheSpan) {
  Bundle bundle = loadTestBundle();
  ProblemRequest request = testRequest();
  request.offset = 8;
  StatusOr<Problem> problem = Problem::create(bundle, request);
  ASSERT_EQ(text(problem), "");
  EXPECT_EQ(problem->findTensor("q")->offset, 8);
  EXPECT_EQ(problem->findTensor("q")->span, 8 + 4 * 32 * 16);
}

TEST(ProblemTest, anEmptyProblemIsValid) {
  Bundle bundle = loadTestBundle();
  StatusOr<Problem> problem =
      Problem::create(bundle, testRequest(0, 4, 2, 32, 0));
  ASSERT_EQ(text(problem), "");
  EXPECT_EQ(problem->findTensor("q")->span, 0);
  EXPECT_EQ(*problem->grid(bundle.kernels[0], 1),
            (std::array<int64_t, 3>{0, 1, 1}));
}

TEST(ProblemTest, roundsTheGridUp) {
  Bundle bundle = loadTestBundle();
  for (auto [seqlen, tiles] : {std::pair(1, 1), {64, 1}, {65, 2}, {0, 0}}) {
    StatusOr<Problem> problem =
        Problem::create(bundle, testRequest(3, 4, 2, seqlen, 48));
    EXPECT_EQ(*problem->grid(bundle.kernels[0], 1),
              (std::array<int64_t, 3>{3 * 4 * tiles, 1, 1}));
  }
}

TEST(ProblemTest, multipliesAGridByItsCounts) {
  Bundle bundle = loadTestBundle(splitManifest());
  StatusOr<Problem> problem = Problem::create(bundle, {});
  EXPECT_EQ(*problem->grid(bundle.kernels[0], 1),
            (std::array<int64_t, 3>{2 * 3, 1, 1}));
  EXPECT_EQ(*problem->grid(bundle.kernels[1], 1),
            (std::array<int64_t, 3>{2 * 32, 1, 1}));
  EXPECT_EQ(problem->workspaceBytes(), 2 * 32 * 120);
}

TEST(ProblemTest, sumsTheWorkspace) {
  nlohmann::json manifest = testManifest();
  manifest["workspace"] = {{{"bytes", "(seqlen_k ceildiv 32) * 8"}},
                           {{"bytes", "100"}}};
  Bundle bundle = loadTestBundle(manifest);
  EXPECT_EQ(Problem::create(bundle, testRequest())->workspaceBytes(),
            8 * 2 + 100);
}

TEST(ProblemTest, describesItself) {
  nlohmann::json manifest = testManifest();
  Bundle bundle = loadTestBundle(manifest);
  EXPECT_EQ(Problem::create(bundle, testRequest())->str(),
            "B1 H4/2 S32x48 D16 f16 lse");
  manifest["attention"]["causal"] = "top_left";
  manifest["attention"]["dims"]["head_dim_v"] = 32;
  bundle = loadTestBundle(manifest);
  EXPECT_EQ(Problem::create(bundle, testRequest())->str(),
            "B1 H4/2 S32x48 D16/32 f16 causal=top_left lse");
}

TEST(ProblemTest, describesWhatChangesTheScores) {
  nlohmann::json manifest = testManifest();
  manifest["attention"]["window_left"] = 64;
  manifest["attention"]["window_right"] = 0;
  manifest["attention"]["softcap"] = 30;
  addBias(manifest, "f32", {"1", "1", "seqlen_q", "seqlen_k"});
  Bundle bundle = loadTestBundle(manifest);
  EXPECT_EQ(Problem::create(bundle, testRequest())->str(),
            "B1 H4/2 S32x48 D16 f16 window=64,0 softcap=30 bias=11qk:f32 lse");
  bundle.attention.mask = {Causal::BottomRight, 3, std::nullopt};
  bundle.attention.softcap = 0.123456791f;
  bundle.attention.softmaxScale = 0.1f;
  EXPECT_EQ(Problem::create(bundle, testRequest())->str(),
            "B1 H4/2 S32x48 D16 f16 causal=bottom_right window=3,inf "
            "scale=0.1 softcap=0.12345679 bias=11qk:f32 lse");
}

TEST(ProblemTest, packsABiasInTheOrderOfItsAxes) {
  nlohmann::json manifest = testManifest();
  addBias(manifest);
  Bundle bundle = loadTestBundle(manifest);
  ProblemRequest request = testRequest(2, 4, 2, 32, 47);
  for (Layout layout : {Layout::BHSD, Layout::BSHD}) {
    request.layout = layout;
    StatusOr<Problem> problem = Problem::create(bundle, request);
    ASSERT_EQ(text(problem), "");
    EXPECT_EQ(problem->findTensor("bias")->strides,
              (std::vector<int64_t>{4 * 32 * 47, 32 * 47, 47, 1}));
  }
}

TEST(ProblemTest, aBroadcastAxisHasSizeOne) {
  nlohmann::json manifest = testManifest();
  addBias(manifest, "f16", {"batch", "1", "1", "seqlen_k"});
  Bundle bundle = loadTestBundle(manifest);
  StatusOr<Problem> problem =
      Problem::create(bundle, testRequest(2, 4, 2, 32, 48));
  ASSERT_EQ(text(problem), "");
  const TensorGeometry &bias = *problem->findTensor("bias");
  EXPECT_EQ(bias.sizes, (std::vector<int64_t>{2, 1, 1, 48}));
  EXPECT_EQ(bias.strides, (std::vector<int64_t>{48, 48, 48, 1}));
  EXPECT_EQ(bias.span, 2 * 48);
}

TEST(ProblemTest, rowsAreAsAlignedAsTheTensor) {
  nlohmann::json manifest = testManifest();
  addBias(manifest);
  ProblemRequest request = testRequest();
  request.tensors["bias"] = {{6400, 1601, 51, 1}, 3};
  EXPECT_EQ(refusal(request, manifest), "");
  manifest["tensors"][5]["alignment"] = 4;
  request.tensors["bias"].offset = 2;
  EXPECT_EQ(refusal(request, manifest),
            "expects the stride of axis 1 (heads_q) of 'bias' to be a multiple "
            "of 2 elements, but got 1601\n"
            "  note: rows are copied 4 bytes at a time: pad the rows, or copy "
            "the tensor to a padded one");
  request.tensors["bias"].strides = {6400, 1602, 50, 1};
  EXPECT_EQ(refusal(request, manifest), "");
}

TEST(ProblemTest, refusesAMissingSize) {
  ProblemRequest request = testRequest();
  request.dims.erase("seqlen_k");
  EXPECT_EQ(refusal(request),
            "expects a value for seqlen_k, but got none\n"
            "  note: the bundle was compiled for any seqlen_k: choose one for "
            "this run");
}

TEST(ProblemTest, refusesAnUnknownSize) {
  ProblemRequest request = testRequest();
  request.dims["rows"] = 1;
  EXPECT_EQ(refusal(request),
            "expects a size that the bundle has, but got 'rows'");
}

TEST(ProblemTest, refusesAnotherStaticSize) {
  ProblemRequest request = testRequest();
  request.dims["head_dim"] = 32;
  EXPECT_EQ(refusal(request),
            "expects head_dim 16, the bundle was compiled for it, but got 32: "
            "recompile with a dynamic head_dim");
  request.dims["head_dim"] = 16;
  EXPECT_EQ(refusal(request), "");
}

TEST(ProblemTest, refusesNegativeSizesAndUnequalGroups) {
  EXPECT_EQ(refusal(testRequest(-1)),
            "expects batch to be at least 0, but got -1");
  EXPECT_EQ(refusal(testRequest(1, 8, 3)),
            "expects heads_q to be a multiple of heads_kv, but got 8 and 3");
  EXPECT_EQ(refusal(testRequest(1, 8, 0)),
            "expects heads_q to be a multiple of heads_kv, but got 8 and 0");
}

TEST(ProblemTest, refusesAnUnalignedOffset) {
  ProblemRequest request = testRequest();
  request.offset = 4;
  EXPECT_EQ(refusal(request),
            "expects the offset of 'q' to be a multiple of 8 elements, but got "
            "4\n  note: the kernels read it at addresses aligned to 16 bytes");
  request.offset = -8;
  EXPECT_EQ(refusal(request),
            "expects the offset of 'q' to be at least 0, but got -8");
}

// A manifest asks for as much as the kernels rely on.
TEST(ProblemTest, narrowRowsNeedLessAlignment) {
  nlohmann::json manifest = testManifest();
  for (const char *name : {"q", "k", "v", "o"})
    for (nlohmann::json &tensor : manifest["tensors"])
      if (tensor["name"] == name)
        tensor["alignment"] = 8;
  ProblemRequest request = testRequest();
  request.offset = 4;
  request.tensors["k"] = {{1536, 768, 20, 1}, 4};
  EXPECT_EQ(refusal(request, manifest), "");
  request.tensors["k"] = {{1536, 768, 18, 1}, 4};
  EXPECT_EQ(refusal(request, manifest),
            "expects the stride of axis 2 (seqlen_k) of 'k' to be a multiple "
            "of 4 elements, but got 18\n"
            "  note: rows are copied 8 bytes at a time: pad the rows, or copy "
            "the tensor to a padded one");
}

TEST(ProblemTest, refusesStridesThatBreakCopies) {
  ProblemRequest request = testRequest();
  request.tensors["k"] = {{1536, 768, 20, 1}, 0};
  EXPECT_EQ(refusal(request),
            "expects the stride of axis 2 (seqlen_k) of 'k' to be a multiple "
            "of 8 elements, but got 20\n"
            "  note: rows are copied 16 bytes at a time: pad the rows, or copy "
            "the tensor to a padded one");
  request.tensors["k"] = {{1536, -768, 16, 1}, 0};
  EXPECT_EQ(refusal(request),
            "expects the stride of axis 1 (heads_kv) of 'k' to be at least 0, "
            "but got -768");
  request.tensors["k"] = {{1536, 16, 1}, 0};
  EXPECT_EQ(refusal(request), "expects 4 strides for 'k', but got 3");
  request.tensors["k"] = {{1536, 768, 16, 2}, 0};
  EXPECT_EQ(refusal(request),
            "expects the stride of axis 3 (head_dim) of 'k' to be 1, the "
            "bundle was compiled for it, but got 2: recompile with a dynamic "
            "stride");
}

TEST(ProblemTest, inputsMayBroadcastButOutputsMayNotOverlap) {
  ProblemRequest request = testRequest();
  request.tensors["k"] = {{0, 0, 16, 1}, 0};
  EXPECT_EQ(refusal(request), "");
  request.tensors["o"] = {{2048, 8, 16, 1}, 0};
  EXPECT_EQ(refusal(request),
            "expects the stride of axis 1 (heads_q) of 'o' to be at least 16, "
            "but got 8\n  note: elements of an output must not overlap");
}

TEST(ProblemTest, refusesALayoutThatTheBundleFixes) {
  ProblemRequest request;
  request.tensors["q"] = {{1024, 512, 16, 1}, 8};
  EXPECT_EQ(refusal(request, staticManifest()),
            "expects the offset of 'q' to be 0, the bundle was compiled for "
            "it, but got 8: recompile with a dynamic offset");
  request.tensors = {{"x", {}}};
  EXPECT_EQ(refusal(request, staticManifest()),
            "expects a layout for a tensor of the bundle, but got one for 'x'");
}

TEST(ProblemTest, refusesSizesThatOverflow) {
  EXPECT_EQ(refusal(testRequest(1, 1, 1, int64_t(1) << 62, 1)),
            "expects 'q' to span less than 2^63 bytes, but got sizes [1, 1, "
            "4611686018427387904, 16] and strides [9223372036854775807, "
            "9223372036854775807, 16, 1]");
  // A stride of 0 spans nothing, yet the elements cannot be counted.
  ProblemRequest request = testRequest(1, 1, 1, 8, int64_t(1) << 62);
  request.tensors["k"] = {{0, 0, 0, 1}, 0};
  EXPECT_EQ(refusal(request),
            "expects 'k' to span less than 2^63 bytes, but got sizes [1, 1, "
            "4611686018427387904, 16] and strides [0, 0, 0, 1]");
  // An empty tensor spans nothing, but its other sizes are multiplied too.
  EXPECT_EQ(refusal(testRequest(int64_t(1) << 62, 4, 2, 0, 1)).substr(0, 72),
            "expects 'q' to span less than 2^63 bytes, but got sizes "
            "[461168601842738");
}

TEST(ProblemTest, refusesNegativeLayoutsBeforeTheyAreMultiplied) {
  ProblemRequest request = testRequest(1, 1, 1, 8, 8);
  request.tensors["q"] = {{0, 0, -(int64_t(1) << 60), 1}, int64_t(1) << 62};
  EXPECT_EQ(refusal(request),
            "expects the stride of axis 2 (seqlen_q) of 'q' to be at least 0, "
            "but got -1152921504606846976");
}

TEST(ProblemTest, refusesAWorkspaceThatOverflows) {
  nlohmann::json manifest = testManifest();
  manifest["workspace"] = {{{"bytes", "seqlen_k * 4611686018427387904"}}};
  EXPECT_EQ(refusal(testRequest(), manifest),
            "expects the workspace to be less than 2^63, but got 'seqlen_k * "
            "4611686018427387904' with seqlen_k = 48");
  // It is rounded up when it is allocated.
  manifest["workspace"] = {{{"bytes", "9223372036854775807"}}};
  EXPECT_EQ(refusal(testRequest(), manifest),
            "expects the workspace to be less than 2^63 bytes, but got "
            "'9223372036854775807' = 9223372036854775807");
  manifest["workspace"] = {{{"bytes", "16 - seqlen_k"}}};
  EXPECT_EQ(refusal(testRequest(), manifest),
            "expects the workspace to be at least 0, but got '16 - seqlen_k' = "
            "-32");
}

TEST(ProblemTest, refusesAGridThatOverflows) {
  nlohmann::json manifest = testManifest();
  manifest["kernels"][0]["grid"][0] = "batch * batch * batch * batch";
  EXPECT_EQ(refusal(testRequest(1 << 20, 4, 2, 1 << 10, 1), manifest),
            "expects the grid of kernel 'attention' to be less than 2^63, but "
            "got 'batch * batch * batch * batch' with batch = 1048576");
  manifest["kernels"][0]["grid"][0] = "batch - seqlen_q";
  EXPECT_EQ(refusal(testRequest(), manifest),
            "expects the grid of kernel 'attention' to be at least 0, but got "
            "'batch - seqlen_q' = -31");
  manifest["kernels"][0]["grid"][0] = "batch ceildiv (seqlen_q - 32)";
  EXPECT_EQ(refusal(testRequest(), manifest),
            "expects the grid of kernel 'attention' to divide by positive "
            "numbers, but got 'batch ceildiv (seqlen_q - 32)' with batch = 1, "
            "seqlen_q = 32");
}

TEST(ProblemTest, aGridMayAddASize) {
  nlohmann::json manifest = varlenManifest(130, 48, 3);
  manifest["kernels"][0]["grid"][0] =
      "((seqlen_q ceildiv 128) + cu_seqlens) * heads_q";
  Bundle bundle = loadTestBundle(manifest);
  StatusOr<Problem> problem = Problem::create(bundle, {});
  ASSERT_EQ(text(problem), "");
  EXPECT_EQ((*problem->grid(bundle.kernels[0], 1))[0], (2 + 4) * 2);
}

// A value may be made of another, and all that has numbers may name it.
TEST(ProblemTest, computesValuesInTheirOrder) {
  nlohmann::json manifest = testManifest();
  manifest["values"] = {{{"name", "rows"}, {"is", "batch * seqlen_q"}},
                        {{"name", "pairs"}, {"is", "rows ceildiv 3"}}};
  manifest["kernels"][0]["grid"][1] = "pairs";
  manifest["kernels"][0]["arguments"][5]["dim"] = "rows";
  Bundle bundle = loadTestBundle(manifest);
  StatusOr<Problem> problem = Problem::create(bundle, testRequest(2));
  ASSERT_EQ(text(problem), "");
  EXPECT_EQ(problem->dim("rows"), 64);
  EXPECT_EQ((*problem->grid(bundle.kernels[0], 1))[1], 22);
}

TEST(ProblemTest, queriesOfSequencesAreTheirMean) {
  // 130 rows.
  for (auto [entries, sequences, queries] :
       {std::tuple<int64_t, int64_t, int64_t>{1, 1, 130},
        {2, 1, 130},
        {4, 3, 44},
        {131, 130, 1},
        {200, 199, 1}}) {
    nlohmann::json manifest = varlenManifest(130, 48, entries - 1);
    // As flashcore-compile writes them.
    manifest["values"] = {
        {{"name", "sequences_of_call"}, {"is", "max(1, cu_seqlens - 1)"}},
        {{"name", "queries"}, {"is", "seqlen_q ceildiv sequences_of_call"}}};
    Bundle bundle = loadTestBundle(manifest);
    StatusOr<Problem> problem = Problem::create(bundle, {});
    ASSERT_EQ(text(problem), "");
    EXPECT_EQ(problem->dim("sequences_of_call"), sequences);
    EXPECT_EQ(problem->dim("queries"), queries);
  }
  Bundle bundle = loadTestBundle();
  StatusOr<Problem> problem =
      Problem::create(bundle, testRequest(5, 4, 2, 32, 48));
  EXPECT_EQ(problem->dim("batch"), 5);
  EXPECT_EQ(problem->dim("seqlen_q"), 32);
}

TEST(ProblemTest, refusesASumThatOverflows) {
  nlohmann::json manifest = testManifest();
  // Not the size of any tensor.
  manifest["attention"]["dims"]["more"] = INT64_MAX;
  manifest["kernels"][0]["grid"][0] = "seqlen_q + more";
  EXPECT_EQ(refusal(testRequest(), manifest),
            "expects the grid of kernel 'attention' to be less than 2^63, but "
            "got 'seqlen_q + more' with seqlen_q = 32, more = "
            "9223372036854775807");
}

/// A manifest of sequences whose number, as that of the batch, is open.
static nlohmann::json openVarlenManifest() {
  nlohmann::json manifest = varlenManifest(32, 48, 3, "none", true);
  for (const char *name : {"batch", "cu_seqlens", "sequences"})
    manifest["attention"]["dims"][name] = nullptr;
  return manifest;
}

TEST(ProblemTest, theNumberOfSequencesFollowsFromThatOfTheirEnds) {
  Bundle bundle = loadTestBundle(openVarlenManifest());
  ProblemRequest request;
  request.dims = {{"batch", 1}, {"cu_seqlens", 5}};
  StatusOr<Problem> problem = Problem::create(bundle, request);
  ASSERT_EQ(text(problem), "");
  EXPECT_EQ(problem->dim("sequences"), 4);
  EXPECT_EQ(problem->findTensor("seqused_k")->sizes, std::vector<int64_t>{4});
  EXPECT_EQ(problem->findTensor("cu_seqlens_k")->sizes,
            std::vector<int64_t>{5});
  EXPECT_EQ(problem->str(), "B1 H2/2 S32x48 D16 f16 seqused_k sequences=4 lse");
  request.dims["sequences"] = 4;
  EXPECT_EQ(text(Problem::create(bundle, request)), "");
}

TEST(ProblemTest, refusesSizesOfSequencesThatDoNotMatch) {
  ProblemRequest request;
  request.dims = {{"batch", 1}, {"cu_seqlens", 5}, {"sequences", 5}};
  EXPECT_EQ(refusal(request, openVarlenManifest()),
            "expects sequences to be one less than cu_seqlens (5), but got 5\n"
            "  note: seqused_k has an entry a sequence, cu_seqlens_q one more");
  request.dims["batch"] = 2;
  EXPECT_EQ(refusal(request, openVarlenManifest()),
            "expects batch 1 of an attention with cu_seqlens_q, but got 2\n"
            "  note: sequences lie one after another on the axis of the rows");
  request.dims = {{"batch", 1}, {"cu_seqlens", 0}};
  EXPECT_EQ(refusal(request, openVarlenManifest()),
            "expects cu_seqlens to be at least 1, but got 0\n"
            "  note: it is one more than there are sequences");
  request.dims = {{"batch", 1}};
  EXPECT_EQ(refusal(request, openVarlenManifest()),
            "expects a value for cu_seqlens, but got none\n"
            "  note: the bundle was compiled for any cu_seqlens: choose one "
            "for this run");
}

/// A manifest of keys in pages whose numbers are open.
static nlohmann::json openPagedManifest(bool isVarlen = false) {
  nlohmann::json manifest = isVarlen ? pagedVarlenManifest(32, 16, 3, 8, 2)
                                     : pagedManifest(32, 16, 3, 8, 2);
  for (const char *name : {"batch", "pages", "pages_per_sequence"})
    manifest["attention"]["dims"][name] = nullptr;
  for (nlohmann::json &tensor : manifest["tensors"])
    for (nlohmann::json &stride : tensor["strides"])
      if (stride != 1)
        stride = nullptr;
  return manifest;
}

TEST(ProblemTest, keysMayBeInPages) {
  Bundle bundle = loadTestBundle(openPagedManifest());
  ProblemRequest request;
  request.dims = {{"batch", 3}, {"pages", 10}, {"pages_per_sequence", 4}};
  StatusOr<Problem> problem = Problem::create(bundle, request);
  ASSERT_EQ(text(problem), "");
  EXPECT_EQ(problem->seqlenK(), 64);
  using Numbers = std::vector<int64_t>;
  EXPECT_EQ(problem->findTensor("k")->sizes, (Numbers{10, 2, 16, 16}));
  EXPECT_EQ(problem->findTensor("k")->strides, (Numbers{512, 256, 16, 1}));
  EXPECT_EQ(problem->findTensor("page_table")->sizes, (Numbers{3, 4}));
  EXPECT_EQ(problem->findTensor("page_table")->strides, (Numbers{4, 1}));
  EXPECT_EQ(problem->str(), "B3 H2/2 S32x64 D16 f16 page_size=16 lse");
  request.layout = Layout::BSHD;
  problem = Problem::create(bundle, request);
  ASSERT_EQ(text(problem), "");
  EXPECT_EQ(problem->findTensor("v")->strides, (Numbers{512, 16, 32, 1}));
  EXPECT_EQ(problem->findTensor("page_table")->strides, (Numbers{4, 1}));
}

TEST(ProblemTest, pagesMayBeOfSequences) {
  Bundle bundle = loadTestBundle(openPagedManifest(/*isVarlen=*/true));
  ProblemRequest request;
  request.dims = {{"batch", 1}, {"pages", 0}, {"pages_per_sequence", 4}};
  StatusOr<Problem> problem = Problem::create(bundle, request);
  ASSERT_EQ(text(problem), "");
  EXPECT_EQ(problem->findTensor("page_table")->sizes,
            (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(problem->findTensor("k")->span, 0);
  EXPECT_EQ(problem->str(),
            "B1 H2/2 S32x64 D16 f16 page_size=16 seqused_k sequences=2 lse");
}

TEST(ProblemTest, refusesNoPagesAndSizesOfRows) {
  ProblemRequest request;
  request.dims = {{"batch", 3}, {"pages", 10}, {"pages_per_sequence", 0}};
  EXPECT_EQ(refusal(request, openPagedManifest()),
            "expects pages_per_sequence to be at least 1, but got 0\n"
            "  note: entries of seqused_k may be 0: such have no keys");
  request.dims["pages_per_sequence"] = INT64_MAX;
  EXPECT_EQ(refusal(request, openPagedManifest()),
            "expects pages_per_sequence times page_size to be less than 2^63, "
            "but got 9223372036854775807 times 16");
  request.dims["pages_per_sequence"] = 4;
  request.dims["page_size"] = 32;
  EXPECT_EQ(refusal(request, openPagedManifest()),
            "expects page_size 16, the bundle was compiled for it, but got 32: "
            "recompile with a dynamic page_size");
  request.dims.erase("page_size");
  request.dims["seqlen_k"] = 64;
  EXPECT_EQ(refusal(request, openPagedManifest()),
            "expects a size that the bundle has, but got 'seqlen_k'");
}
