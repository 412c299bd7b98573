//===- FarInputsTest.cpp --------------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// That inputs far from normal ones are what their names say. The numbers come
// from outside: what programs write into masks, and the digits of f32.
//
//===----------------------------------------------------------------------===//

#include "TensorValues.h"
#include "TestBundle.h"

#include "flashcore/Runtime/Reference.h"
#include "flashcore/Runtime/TensorSet.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

using namespace flashcore;
using namespace flashcore::testing;

static constexpr double infinity = std::numeric_limits<double>::infinity();
static constexpr float largest = std::numeric_limits<float>::max();

namespace {
/// The inputs of a manifest.
struct Inputs {
  explicit Inputs(const nlohmann::json &manifest)
      : bundle(loadTestBundle(manifest)), problem(*Problem::create(bundle, {})),
        set(std::move(*TensorSet::create(problem))) {}

  std::string fill(InputKind kind, uint64_t seed = 1) {
    return text(set.fillInputs(seed, kind, Stage::All));
  }
  std::vector<double> values(const char *name) { return valuesOf(set, name); }
  /// q.k of each query and key of each batch entry and head.
  std::vector<double> products() {
    AttentionInputs in = set.inputs();
    std::vector<double> result;
    for (int64_t b = 0; b < in.q.sizes[0]; ++b)
      for (int64_t h = 0; h < in.q.sizes[1]; ++h)
        for (int64_t i = 0; i < in.q.sizes[2]; ++i)
          for (int64_t j = 0; j < in.k.sizes[2]; ++j) {
            double dot = 0;
            int64_t headKV = h * in.k.sizes[1] / in.q.sizes[1];
            for (int64_t d = 0; d < in.q.sizes[3]; ++d) {
              dot += in.q.load(b, h, i, d) * in.k.load(b, headKV, j, d);
              // Exact at every step, in any order of the terms.
              EXPECT_EQ(dot, static_cast<float>(dot));
            }
            result.push_back(dot);
          }
    return result;
  }

  Bundle bundle;
  Problem problem;
  TensorSet set;
};
} // namespace

static nlohmann::json biased(const char *type, int64_t rows = 64,
                             int64_t keys = 96) {
  nlohmann::json manifest = staticManifest(rows, keys);
  addBias(manifest, type);
  return manifest;
}

TEST(FarInputsTest, namesAreInTheOrderOfTheEnum) {
  std::set<std::string_view> names;
  for (const InputKindInfo &info : InputKinds) {
    EXPECT_EQ(stringify(info.kind), info.name);
    EXPECT_FALSE(info.description.empty());
    names.insert(info.name);
  }
  EXPECT_EQ(names.size(), InputKinds.size());
}

TEST(FarInputsTest, aKindNeedsWhatItChanges) {
  Inputs plain(staticManifest(64, 16));
  EXPECT_EQ(plain.fill(InputKind::Masked),
            "expects an attention with a bias or alibi_slopes for inputs of "
            "kind 'masked', but got one without");
  EXPECT_EQ(plain.fill(InputKind::Infinite),
            "expects an attention with a bias for inputs of kind 'infinite', "
            "but got one without");
  EXPECT_EQ(plain.fill(InputKind::Sinks),
            "expects an attention with sink_logits for inputs of kind 'sinks', "
            "but got one without");
  EXPECT_EQ(plain.fill(InputKind::Large), "");
  nlohmann::json manifest = appendManifest(/*isTurned=*/true);
  manifest["attention"]["dims"]["positions"] = 12;
  Inputs turned(manifest);
  EXPECT_EQ(turned.fill(InputKind::Large),
            "expects an attention without rotary_cos for inputs of kind "
            "'large', but got one with it\n  note: rows that are turned have "
            "too many digits for exact scores");
}

TEST(FarInputsTest, masksAreThoseOfPrograms) {
  for (auto [type, masks] :
       {std::pair("f32", std::set<double>{-1e4, -1e9, -largest}),
        {"bf16", {-9984, -998244352, -0x1.FEp127}},
        {"f16", {-1e4, -65504}}}) {
    Inputs inputs(biased(type));
    std::set<double> seen;
    for (uint64_t seed = 1; seed < 9; ++seed) {
      ASSERT_EQ(inputs.fill(InputKind::Masked, seed), "");
      std::vector<double> bias = inputs.values("bias");
      int64_t rows = 0, normal = 0;
      for (size_t row = 0; row < bias.size(); row += 96) {
        auto first = bias.begin() + static_cast<int64_t>(row);
        rows += *first < -1e3 &&
                std::all_of(
                    first, first + 96, [&](double x) { return x == *first; });
        normal += std::count_if(first, first + 96,
                                [](double x) { return std::abs(x) < 10; });
        for (auto it = first; it != first + 96; ++it)
          if (std::abs(*it) >= 10)
            seen.insert(*it);
      }
      EXPECT_GT(rows, 0);
      EXPECT_GT(normal, 0);
    }
    EXPECT_EQ(seen, masks) << type;
  }
}

TEST(FarInputsTest, steepSlopesHideAllButTheNearest) {
  nlohmann::json manifest = staticManifest(8, 16);
  addVector(manifest, "alibi_slopes", "f32", "heads_q");
  Inputs inputs(manifest);
  std::set<double> steep;
  for (uint64_t seed = 1; seed < 7; ++seed) {
    ASSERT_EQ(inputs.fill(InputKind::Masked, seed), "");
    std::vector<double> slopes = inputs.values("alibi_slopes");
    EXPECT_LT(slopes[0], 1);
    steep.insert(slopes[1]);
  }
  // With distances one is finite, and the other is not.
  EXPECT_GT(*steep.begin(), 1e9);
  EXPECT_LT(*steep.begin() * 1e6, largest);
  EXPECT_EQ(*steep.rbegin(), largest);
}

TEST(FarInputsTest, infinitiesAreInEverySecondPlane) {
  Inputs inputs(biased("f16"));
  ASSERT_EQ(inputs.fill(InputKind::Infinite), "");
  std::vector<double> bias = inputs.values("bias");
  int64_t heads = inputs.problem.dim("heads_q"), whole = 0, parts = 0;
  size_t plane = 64 * 96;
  for (size_t at = 0; at < bias.size(); at += plane) {
    auto first = bias.begin() + static_cast<int64_t>(at);
    auto number = static_cast<int64_t>(at / plane);
    bool isHidden = (number / heads + number % heads + 1) % 2 == 0;
    int64_t hidden = std::count(first, first + 64 * 96, -infinity);
    EXPECT_EQ(hidden > 0, isHidden) << number;
    for (size_t row = 0; row < plane; row += 96) {
      auto from = first + static_cast<int64_t>(row);
      int64_t count = std::count(from, from + 96, -infinity);
      whole += count == 96;
      parts += count > 0 && count < 96;
    }
  }
  EXPECT_GT(whole, 0);
  EXPECT_GT(parts, 0);
}

TEST(FarInputsTest, sinksAreOfEverySize) {
  nlohmann::json manifest = staticManifest(8, 16);
  addVector(manifest, "sink_logits", "f32", "heads_q");
  Inputs inputs(manifest);
  std::set<double> seen;
  for (uint64_t seed = 1; seed < 7; ++seed) {
    ASSERT_EQ(inputs.fill(InputKind::Sinks, seed), "");
    for (double sink : inputs.values("sink_logits"))
      seen.insert(std::abs(sink) < 20 ? 0 : sink);
  }
  EXPECT_EQ(seen,
            (std::set<double>{-infinity, -1e30f, 0, 1e4f, 1e30f, largest}));
}

/// The sizes of maxima of rows, in tiles of so many keys; whether some rise and
/// some fall from tile to tile; and the smallest steps.
struct Maxima {
  Maxima(const std::vector<double> &scores, size_t keys, size_t tile) {
    for (size_t row = 0; row < scores.size(); row += keys) {
      double before = 0;
      for (size_t first = row; first < row + keys; first += tile) {
        auto from = scores.begin() + static_cast<int64_t>(first);
        double max = *std::max_element(from, from + static_cast<int64_t>(tile));
        least = std::min(least, std::abs(max));
        most = std::max(most, std::abs(max));
        if (first > row && std::abs(max - before) < 8)
          (max > before ? rises : falls) += max != before;
        leaps += first > row && std::abs(max) > 100 * std::abs(before);
        before = max;
      }
    }
  }

  double least = infinity, most = 0;
  int64_t rises = 0, falls = 0, leaps = 0;
};

static void expectWideMaxima(const std::vector<double> &scores, size_t keys) {
  for (size_t tile : {16, 64, 128, 256}) {
    Maxima maxima(scores, keys, tile);
    EXPECT_GT(maxima.least, 500) << tile;
    EXPECT_LT(maxima.least, 2000) << tile;
    EXPECT_GT(maxima.most, 4e6) << tile;
    EXPECT_LT(maxima.most, 2e7) << tile;
    // From step to step of weights, and from size to size.
    EXPECT_GT(maxima.rises, 0) << tile;
    EXPECT_GT(maxima.falls, 0) << tile;
    EXPECT_GT(maxima.leaps, 0) << tile;
  }
}

TEST(FarInputsTest, largeProductsRiseAndFall) {
  Inputs inputs(staticManifest(64, 1024));
  ASSERT_EQ(inputs.fill(InputKind::Large), "");
  std::vector<double> scores = inputs.products();
  for (double &score : scores)
    score *= inputs.bundle.attention.softmaxScale;
  expectWideMaxima(scores, 1024);
}

TEST(FarInputsTest, aLargeBiasRisesAndFalls) {
  Inputs inputs(biased("f32", 64, 1024));
  ASSERT_EQ(inputs.fill(InputKind::Large), "");
  expectWideMaxima(inputs.values("bias"), 1024);
  for (double product : inputs.products())
    ASSERT_EQ(product, 0);
}

// c * q.k has more digits than f32 where c is no power of two, so adding to it
// would be judged by a rounding that kernels do or do not.
TEST(FarInputsTest, sumsOfRoundedProductsAreSmall) {
  nlohmann::json manifest = biased("f16", 16, 64);
  manifest["attention"]["softmax_scale"] = 0.3;
  Inputs inputs(manifest);
  ASSERT_EQ(inputs.fill(InputKind::Large), "");
  for (double product : inputs.products()) {
    EXPECT_LT(std::abs(product * 0.3), 2500);
    EXPECT_GT(std::abs(product * 0.3), 500);
  }
}
