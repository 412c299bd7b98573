//===- DropoutTest.cpp - Which elements of P a dropout leaves -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Philox against the known answers of Random123, the formula of docs/Op.md by
// hand, and what the reference makes of it.
//
//===----------------------------------------------------------------------===//

#include "ReferenceUtil.h"
#include "TestBundle.h"

#include "flashcore/Runtime/Dropout.h"

#include <cmath>

using namespace flashcore;
using namespace flashcore::testing;

TEST(DropoutTest, philoxHasTheKnownAnswers) {
  constexpr uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   {0xa4093822, 0x299f31d0}),
            (PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(DropoutTest, sharesAreMultiplesOfTheLeast) {
  EXPECT_TRUE(isDropoutShare(0x1p-17));
  EXPECT_EQ(dropoutThreshold(0x1p-17), 1);
  EXPECT_EQ(dropoutThreshold(0.25), 16384);
  EXPECT_EQ(dropoutThreshold(0.1f), 6554);
  for (double share : {0.0, -0.5, 0x1p-18, 1 - 0x1p-17, 1.0, std::nan("")})
    EXPECT_FALSE(isDropoutShare(share)) << share;
  EXPECT_EQ(DropoutMask(0.75, {}, 0, 0).scale(), 4);
}

TEST(DropoutTest, numbersAreThoseOfTheFormula) {
  const PhiloxWords rng = {1, 2, 3, 4};
  PhiloxWords d = philox({3, 4, /*entry=*/5, /*head=*/6}, {1, 2});
  for (int64_t query : {0, 7, 1000})
    for (int64_t key = 0; key < 100; ++key) {
      auto group = static_cast<uint32_t>(key / 32 * 4 + key % 8 / 2);
      PhiloxWords words = philox(
          {static_cast<uint32_t>(query) ^ d[0], group ^ d[1], d[2], d[3]},
          {0, 0});
      uint32_t word = words[static_cast<size_t>(key % 32 / 8)];
      double number = (key % 2 ? word >> 16 : word & 0xffff) * 0x1p-16;
      // Kept from the number on, dropped below.
      if (isDropoutShare(number))
        EXPECT_TRUE(DropoutMask(number, rng, 5, 6).keeps(query, key));
      EXPECT_FALSE(DropoutMask(number + 0x1p-16, rng, 5, 6).keeps(query, key));
    }
}

TEST(DropoutTest, dropsItsShareWhateverItIsDrawnWith) {
  constexpr int64_t side = 512;
  constexpr double elements = side * side;
  for (double share : {0.1, 0.5, 0.9})
    for (uint32_t word : {0u, 1u, 2u, 0xffffffffu}) {
      DropoutMask mask(share, {word, 0, word / 2, 0}, word % 7, word % 3);
      double kept = 0, both = 0;
      for (int64_t i = 0; i < side; ++i)
        for (int64_t j = 0; j < side; ++j) {
          kept += mask.keeps(i, j);
          both += mask.keeps(i, j) && mask.keeps(i, j + 1);
        }
      double sigma = std::sqrt(share * (1 - share) / elements);
      EXPECT_NEAR(kept / elements, 1 - share, 4 * sigma) << share << word;
      double pairs = (1 - share) * (1 - share);
      EXPECT_NEAR(both / elements, pairs, 6 * sigma) << share << word;
    }
}

TEST(DropoutTest, everyCoordinateCounts) {
  const PhiloxWords rng = {11, 12, 13, 14};
  auto differs = [&](const PhiloxWords &words, int64_t entry, int64_t head) {
    DropoutMask one(0.5, rng, 1, 2), other(0.5, words, entry, head);
    int64_t different = 0;
    for (int64_t j = 0; j < 256; ++j)
      different += one.keeps(3, j) != other.keeps(3, j);
    return different > 64;
  };
  EXPECT_FALSE(differs(rng, 1, 2));
  EXPECT_TRUE(differs(rng, 2, 1));
  EXPECT_TRUE(differs(rng, 1, 3));
  for (size_t i = 0; i < rng.size(); ++i) {
    PhiloxWords changed = rng;
    ++changed[i];
    EXPECT_TRUE(differs(changed, 1, 2)) << i;
  }
}

//===----------------------------------------------------------------------===//
// The reference
//===----------------------------------------------------------------------===//

/// A view of words on the first axis.
static TensorView viewWords(const PhiloxWords &words) {
  return {words.data(), DType::I32, {4, 1, 1, 1}, {1, 0, 0, 0}};
}

TEST(DropoutTest, theReferenceDropsBehindTheSum) {
  // All keys weigh the same, and V is the identity.
  constexpr int64_t keys = 8;
  std::vector<float> identity(keys * keys);
  for (size_t i = 0; i < keys; ++i)
    identity[i * keys + i] = 1;
  Tensor q({1, 2, 3, 1}, std::vector<float>(6)),
      k({1, 2, keys, 1}, std::vector<float>(2 * keys)),
      v({1, 1, keys, keys}, identity);
  v.view.sizes[1] = 2; // of both heads
  v.view.strides[1] = 0;
  AttentionInputs inputs = makeInputs(q.view, k.view, v.view, 1, Causal::None);
  const PhiloxWords rng = {0x80000001, 2, 3, 0xf0000004};
  inputs.dropout = 0.5;
  inputs.rng = viewWords(rng);
  ASSERT_TRUE(verifyShapes(inputs).ok());
  for (const AttentionResult &result :
       {*computeReference(inputs), *computeYardstick(inputs)})
    for (int64_t head = 0; head < 2; ++head)
      for (int64_t i = 0; i < 3; ++i) {
        DropoutMask mask(0.5, rng, 0, head);
        size_t row = static_cast<size_t>(head * 3 + i);
        EXPECT_NEAR(result.lse[row], std::log(keys), 1e-6);
        for (int64_t j = 0; j < keys; ++j)
          EXPECT_NEAR(result.o[row * keys + static_cast<size_t>(j)],
                      mask.keeps(i, j) ? 2.0 / keys : 0, 1e-6);
      }
  inputs.rng->sizes[0] = 3;
  EXPECT_EQ(text(verifyShapes(inputs)),
            "expects the words of seed and offset and the size of rng to be "
            "equal, but got 4 and 3");
}

//===----------------------------------------------------------------------===//
// Bundles
//===----------------------------------------------------------------------===//

TEST(DropoutTest, bundlesHaveWordsAndAShare) {
  Bundle bundle = loadTestBundle(dropoutManifest());
  EXPECT_EQ(bundle.attention.dropout, 0.25);
  ASSERT_TRUE(bundle.findTensor(operand::Rng));
  EXPECT_FALSE(loadTestBundle().attention.dropout);
}
