//===- BlockListsTest.cpp - Lists of blocks of queries and keys -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Manifests with lists, the reference against a sum over the keys that they
// show, and what is said of lists that are wrong or not those of the mask.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/BlockLists.h"
#include "ReferenceUtil.h"
#include "TestBundle.h"
#include "flashcore/Runtime/TensorSet.h"

#include <cmath>

using namespace flashcore;
using namespace flashcore::testing;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// Manifests
//===----------------------------------------------------------------------===//

/// Lists of blocks of 16 queries and 32 keys, one for all heads.
static json listManifest(int64_t seqlenQ = 40, int64_t seqlenK = 70,
                         const char *causal = "none") {
  json manifest = staticManifest(seqlenQ, seqlenK, causal);
  json &attention = manifest["attention"];
  attention["block_size"] = {16, 32};
  attention["dims"]["query_blocks"] = nullptr;
  attention["dims"]["key_blocks"] = nullptr;
  for (const char *name : {"block_counts", "block_indices", "full_block_counts",
                           "full_block_indices"}) {
    std::vector<std::string> axes = {"batch", "1", "query_blocks"};
    if (std::string_view(name).ends_with("indices"))
      axes.push_back("key_blocks");
    std::vector<json> strides(axes.size());
    strides.back() = 1;
    manifest["tensors"].push_back({{"name", name},
                                   {"role", "input"},
                                   {"dtype", "i32"},
                                   {"axes", axes},
                                   {"strides", strides},
                                   {"offset", 0},
                                   {"alignment", 4}});
  }
  return manifest;
}

/// What the loader says about `manifest`, without paths and notes.
static std::string refusal(const json &manifest) {
  ScratchDirectory scratch;
  writeBundle(scratch.path(), manifest);
  std::string message = Bundle::load(scratch.path()).status().message();
  EXPECT_TRUE(message.starts_with(scratch.file("")));
  return message.substr(std::min(message.size(), scratch.file("").size()));
}

TEST(BlockListsTest, readsListsOfBlocks) {
  Bundle bundle = loadTestBundle(listManifest());
  EXPECT_TRUE(bundle.hasBlocks());
  EXPECT_EQ(bundle.attention.blockSize, (std::array<int64_t, 2>{16, 32}));
  EXPECT_FALSE(loadTestBundle().hasBlocks());
}

TEST(BlockListsTest, refusesListsThatAreNone) {
  auto refusalAfter = [](auto change) {
    json manifest = listManifest();
    change(manifest);
    return refusal(manifest);
  };
  EXPECT_EQ(refusalAfter([](json &manifest) {
              manifest["attention"].erase("block_size");
            }),
            "manifest.json: expects 'tensors' to be an array without "
            "'block_counts', as 'attributes' has no 'block_size', but got an "
            "array of 9 elements");
  EXPECT_EQ(refusalAfter([](json &manifest) { manifest["tensors"].erase(8); }),
            "manifest.json: expects 'tensors' to be an array with both of "
            "'full_block_counts' and 'full_block_indices', or neither of them, "
            "but got an array of 8 elements");
  EXPECT_EQ(refusalAfter([](json &manifest) {
              manifest["attention"]["block_size"] = {16, 0};
            }),
            "manifest.json: expects 'ops[0].attributes.block_size[1]' to be an "
            "integer "
            "from 1 to 65536, but got 0");
  EXPECT_EQ(refusalAfter([](json &manifest) {
              manifest["tensors"][6]["axes"][1] = "heads_q";
            }),
            "manifest.json: expects 'tensors[6].axes[1]' to be '1', as "
            "'block_counts' has, but got \"heads_q\"");
  EXPECT_EQ(refusalAfter([](json &manifest) {
              manifest["tensors"][6]["axes"][3] = "seqlen_k";
            }),
            "manifest.json: expects 'tensors[6].axes[3]' to be 'key_blocks', "
            "but got \"seqlen_k\"");
  EXPECT_EQ(refusalAfter([](json &manifest) {
              manifest["tensors"][5]["dtype"] = "f32";
            }),
            "manifest.json: expects 'tensors[5].dtype' to be 'i32', but got "
            "\"f32\"");
}

TEST(BlockListsTest, hasAsManyBlocksAsThereAreRows) {
  Bundle bundle = loadTestBundle(listManifest());
  StatusOr<Problem> problem = Problem::create(bundle, {});
  ASSERT_TRUE(problem.ok());
  EXPECT_EQ(problem->dim("query_blocks"), 3);
  EXPECT_EQ(problem->dim("key_blocks"), 3);
  EXPECT_NE(problem->str().find(" blocks=16x32:b1"), std::string::npos);
  ProblemRequest request;
  request.dims["key_blocks"] = 5;
  EXPECT_EQ(Problem::create(bundle, request)->dim("key_blocks"), 5);
  request.dims["key_blocks"] = 2;
  EXPECT_EQ(Problem::create(bundle, request).status().message(),
            "expects key_blocks of at least 3, but got 2");
}

//===----------------------------------------------------------------------===//
// The reference
//===----------------------------------------------------------------------===//

namespace {
/// Five queries and seven keys of head_dim 1, in blocks of 2 x 3.
struct SmallLists {
  SmallLists(std::vector<int32_t> counts, std::vector<int32_t> indices,
             std::vector<int32_t> fullCounts, std::vector<int32_t> fullIndices)
      : lists{std::move(counts), std::move(indices), std::move(fullCounts),
              std::move(fullIndices)} {
    inputs = makeInputs(q.view, k.view, v.view, 1, Causal::TopLeft);
    auto view = [](const std::vector<int32_t> &values, int64_t columns) {
      return TensorView{
          values.data(), DType::I32, {1, 1, 3, columns}, {0, 0, columns, 1}};
    };
    inputs.blocks = {view(lists[0], 1),
                     view(lists[1], 3),
                     view(lists[2], 1),
                     view(lists[3], 3),
                     2,
                     3};
  }

  Tensor q{{1, 1, 5, 1}, {0.5f, -1, 2, 1, -0.25f}};
  Tensor k{{1, 1, 7, 1}, {1, -2, 0.5f, 3, -1, 2, 0.25f}};
  Tensor v{{1, 1, 7, 1}, {1, 2, 3, 4, 5, 6, 7}};
  std::vector<int32_t> lists[4];
  AttentionInputs inputs;
};

/// Of queries in blocks 0, 1 and 2: nothing; keys 0 to 2 as the causal mask
/// says, and all of 6 (block 2, whose other keys do not exist); and nothing of
/// block 0, which is behind the count.
SmallLists makeSmallLists() {
  return {{0, 1, 0},
          {0, 1, 2, 0, 9, 9, 0, 0, 0},
          {0, 1, 1},
          {0, 1, 2, 2, -1, 7, 7, 0, 0}};
}
} // namespace

TEST(BlockListsTest, sumsUpTheKeysOfTheLists) {
  SmallLists small = makeSmallLists();
  StatusOr<AttentionResult> result = computeReference(small.inputs);
  ASSERT_TRUE(result.ok()) << result.status().message();
  const std::vector<int64_t> seen[] = {{}, {}, {0, 1, 2, 6}, {0, 1, 2, 6}, {}};
  for (int64_t i = 0; i < 5; ++i) {
    double sum = 0, output = 0;
    for (int64_t j : seen[i]) {
      double weight = std::exp(double(small.q.values[i]) * small.k.values[j]);
      sum += weight;
      output += weight * small.v.values[j];
    }
    EXPECT_NEAR(result->o[i], sum ? output / sum : 0, 1e-12) << i;
    if (sum)
      EXPECT_NEAR(result->lse[i], std::log(sum), 1e-12) << i;
    else
      EXPECT_EQ(result->lse[i], -infinity) << i;
  }
  // Two rows of four keys, of 2 * (1 + 1) operations each.
  EXPECT_EQ(countListedPairs(small.inputs), 8);
}

TEST(BlockListsTest, asksTheMaskInBlocksThatAreNotFull) {
  SmallLists small = makeSmallLists();
  small.inputs.mask.windowLeft = 2; // own keys are those of i + 2
  StatusOr<AttentionResult> result = computeReference(small.inputs);
  ASSERT_TRUE(result.ok());
  // Query 3 sees of keys 0 to 2 none, and key 6 as ever.
  EXPECT_NEAR(result->lse[3], 0.25, 1e-12);
}

TEST(BlockListsTest, takesCountsThatAreNone) {
  SmallLists small({-5, 1000, 0}, {0, 1, 2, 0, 1, 2, 0, 1, 2}, {0, 0, 0},
                   {0, 0, 0, 0, 0, 0, 0, 0, 0});
  small.inputs.mask = {};
  StatusOr<AttentionResult> result = computeReference(small.inputs);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->lse[0], -infinity);
  double sum = 0;
  for (float key : small.k.values)
    sum += std::exp(2 * double(key));
  EXPECT_NEAR(result->lse[2], std::log(sum), 1e-12);
}

TEST(BlockListsTest, refusesABlockThatStandsTwice) {
  SmallLists small({1, 0, 2}, {1, 0, 0, 0, 0, 0, 0, 2, 0}, {0, 0, 1},
                   {0, 0, 0, 0, 0, 0, 2, 0, 0});
  EXPECT_EQ(computeReference(small.inputs).status().message(),
            "expects the lists to have each block of keys once, but got block "
            "2 twice in batch 0, head 0, block 2 of queries");
}

TEST(BlockListsTest, refusesShapesOfOthers) {
  SmallLists small = makeSmallLists();
  small.inputs.blocks->indices.sizes[1] = 3;
  EXPECT_EQ(text(verifyBlocks(small.inputs)),
            "expects the heads_q of block_indices to be 1 or 1, but got 3");
  small.inputs.blocks->indices.sizes[1] = 1;
  small.inputs.blocks->keys = 2;
  EXPECT_EQ(text(verifyBlocks(small.inputs)),
            "expects key_blocks of at least 4, but got 3");
  small.inputs.blocks->keys = 3;
  small.inputs.blocks->fullCounts->sizes[2] = 2;
  EXPECT_EQ(text(verifyBlocks(small.inputs)),
            "expects the query_blocks of full_block_counts to be that of "
            "block_indices (3), but got 2");
}

TEST(BlockListsTest, comparesListsWithTheMask) {
  // Causal, top left: queries 0 and 1 see keys of block 0, the others of both.
  SmallLists right({1, 2, 1}, {0, 0, 0, 0, 1, 0, 1, 0, 0}, {0, 0, 1},
                   {0, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(text(compareBlocksWithMask(right.inputs)), "");
  SmallLists missing({1, 1, 1}, {0, 0, 0, 0, 0, 0, 1, 0, 0}, {0, 0, 1},
                     {0, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(text(compareBlocksWithMask(missing.inputs)),
            "expects lists of all blocks that the mask shows a key of, but "
            "that of batch 0, head 0, block 1 of queries and 1 of keys is in "
            "none and has key 3, which it shows to query 3");
  SmallLists wrong({0, 2, 1}, {0, 0, 0, 0, 1, 0, 1, 0, 0}, {1, 0, 1},
                   {0, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(text(compareBlocksWithMask(wrong.inputs)),
            "expects full blocks that the mask hides no key of, but that of "
            "batch 0, head 0, block 0 of queries and 0 of keys has key 1, "
            "which it hides from query 0");
}

//===----------------------------------------------------------------------===//
// Inputs of runs
//===----------------------------------------------------------------------===//

TEST(BlockListsTest, fillsListsOfTheMask) {
  Bundle bundle = loadTestBundle(listManifest(100, 300, "bottom_right"));
  Problem problem = std::move(*Problem::create(bundle, {}));
  TensorSet set = std::move(*TensorSet::create(problem));
  int others = 0;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    ASSERT_TRUE(set.fillInputs(seed, InputKind::Normal, Stage::All).ok());
    EXPECT_EQ(text(verifyLengths(set.inputs())), "");
    EXPECT_EQ(text(compareBlocksWithMask(set.inputs())), "");
    ASSERT_TRUE(set.fillInputs(seed, InputKind::Rising, Stage::All).ok());
    EXPECT_EQ(text(verifyLengths(set.inputs())), "");
    others += !compareBlocksWithMask(set.inputs()).ok();
  }
  EXPECT_GT(others, 0);
  EXPECT_FALSE(verifyStage(problem, Stage::PV).ok());
}
