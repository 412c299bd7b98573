//===- Philox.cpp - Random numbers of a counter ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two products of 32 bits by 32 a round, of which both halves are used. Ops are
// folded where they are built, so that constants stay immediates.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FCGPU/IR/Philox.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::fcgpu;

static constexpr uint32_t kMultipliers[] = {0xD2511F53, 0xCD9E8D57};
static constexpr uint32_t kWeyl[] = {0x9E3779B9, 0xBB67AE85};
static constexpr unsigned kNumRounds = 10;

PhiloxWords mlir::fcgpu::buildPhilox(ImplicitLocOpBuilder &b,
                                     PhiloxWords counter,
                                     std::array<Value, 2> key) {
  auto constant = [&](uint32_t value) -> Value {
    return arith::ConstantOp::create(
        b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  };
  auto multiply = [&](uint32_t factor, Value word) {
    SmallVector<Value> halves; // low, high
    b.OpBuilder::createOrFold<arith::MulUIExtendedOp>(halves, b.getLoc(), word,
                                                      constant(factor));
    return std::pair(halves[0], halves[1]);
  };
  auto mix = [&](Value a, Value word, Value roundKey) {
    return b.createOrFold<arith::XOrIOp>(b.createOrFold<arith::XOrIOp>(a, word),
                                         roundKey);
  };
  for (unsigned round = 0; round < kNumRounds; ++round) {
    std::array<Value, 2> roundKey;
    for (auto [i, word] : llvm::enumerate(key))
      roundKey[i] = b.createOrFold<arith::AddIOp>(
          word, constant(kWeyl[i] * round)); // modulo 2^32
    auto [low0, high0] = multiply(kMultipliers[0], counter[0]);
    auto [low1, high1] = multiply(kMultipliers[1], counter[2]);
    counter = {mix(high1, counter[1], roundKey[0]), low1,
               mix(high0, counter[3], roundKey[1]), low0};
  }
  return counter;
}
