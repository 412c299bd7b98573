//===- DistributeDropout.cpp - Dropped elements to lanes ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// fcgpu.dropout: a call of Philox has the numbers of eight elements of a row,
// in the columns 2c, 2c + 1 and every eight from there on of 32, which is what
// lane c of a quad holds of an accumulator:
//
//   column    0 1   2 3   4 5   6 7   8 9  ...  24 25  26 27  28 29  30 31
//   call      0     1     2     3     0         0      1      2      3
//   word      0     0     0     0     1         3      3      3      3
//
// the first of a pair in the lower half. Any layout will do in which the bits
// of a column that choose among those eight are bits of registers.
//
//===----------------------------------------------------------------------===//

#include "DistributePatterns.h"
#include "flashcore/Dialect/FCGPU/IR/Philox.h"

#include <map>

using namespace mlir;
using namespace mlir::fcgpu;
using flashcore::TileLayout;

/// Columns of a row whose numbers come from the same four calls, and the bits
/// of a column that say which of those calls.
static constexpr int64_t kSpan = 32, kCallBits = 6;

/// Whether lanes and warps differ in calls alone, or in rows.
static bool holdsWholeCalls(const TileLayout &layout) {
  for (auto input : {TileLayout::Lane, TileLayout::Warp})
    for (int64_t basis : getBases(layout, input, TileLayout::Column))
      if (basis & ~kCallBits)
        return false;
  return true;
}

namespace {
/// Makes the random words of one tile, each once.
class RandomTile {
public:
  RandomTile(IndexBuilder &b,
             DropoutOp::GenericAdaptor<ArrayRef<ValueRange>> op, int64_t cols,
             const TileLayout &layout, const ThreadContext &thread)
      : b(b), isAligned(cols % kSpan == 0) {
    for (ValueRange each : op.getStream())
      stream.push_back(each.front());
    query = asWord(b.add(op.getQuery().front(),
                         getPlace(b, layout, TileLayout::Row, thread)));
    key = asWord(op.getKey().front());
    call = asWord(b.div(getPlace(b, layout, TileLayout::Column, thread), 2));
  }

  /// The word with the number of the element that is `row` rows and `col`
  /// columns from the lane's first.
  Value getWord(int64_t row, int64_t col) {
    int64_t eighth = col / 8 % 4;
    if (isAligned)
      return getCall(row, col / kSpan * kSpan, col & kCallBits)[eighth];
    // The tile may begin in the middle of 32 columns.
    constexpr int64_t half = kSpan / 2;
    int64_t first = col / half * half;
    const PhiloxWords &words = getCall(row, first, col & kCallBits);
    Value place = arith::AddIOp::create(b, key, word(first));
    Value isUpper = arith::CmpIOp::create(
        b, arith::CmpIPredicate::ne,
        arith::AndIOp::create(b, place, word(half)), word(0));
    return arith::SelectOp::create(b, isUpper, words[2 + eighth % 2],
                                   words[eighth % 2]);
  }

  Value word(int64_t value) {
    return arith::ConstantOp::create(
        b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  }

private:
  /// The call for some of the 32 columns that begin at, or have, `first`.
  const PhiloxWords &getCall(int64_t row, int64_t first, int64_t bits) {
    auto [it, isNew] = calls.try_emplace({row, first, bits});
    if (isNew) {
      Value i = arith::AddIOp::create(b, query, word(row));
      Value span = arith::DivUIOp::create(
          b, arith::AddIOp::create(b, key, word(first)), word(kSpan));
      Value number =
          arith::AddIOp::create(b, arith::MulIOp::create(b, span, word(4)),
                                arith::AddIOp::create(b, call, word(bits / 2)));
      it->second = buildPhilox(b,
                               {arith::XOrIOp::create(b, i, stream[0]),
                                arith::XOrIOp::create(b, number, stream[1]),
                                stream[2], stream[3]},
                               {word(0), word(0)});
    }
    return it->second;
  }

  Value asWord(Value index) {
    return arith::IndexCastOp::create(b, b.getI32Type(), index);
  }

  IndexBuilder &b;
  SmallVector<Value> stream;
  bool isAligned;
  Value query, key, call;
  std::map<std::tuple<int64_t, int64_t, int64_t>, PhiloxWords> calls;
};

struct DistributeDropout final : ThreadPattern<DropoutOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(DropoutOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    const TileLayout *layout = thread.layouts->lookup(op.getTile());
    if (!layout || *layout != *thread.layouts->lookup(op.getResult()))
      return rewriter.notifyMatchFailure(op, "moves elements to other lanes");
    if (!holdsWholeCalls(*layout))
      return rewriter.notifyMatchFailure(
          op, "has lanes that share the numbers of a call");
    IndexBuilder b(op.getLoc(), rewriter);
    VectorType tile = op.getTile().getType();
    RandomTile random(b, adaptor, tile.getDimSize(1), *layout, thread);
    TileRegisters registers(*layout, tile);
    Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
    // Halves of words are compared where they are highest.
    constexpr int64_t bitsOfHalf = 16;
    Value limit =
        random.word(static_cast<int64_t>(op.getThreshold()) << bitsOfHalf);
    int64_t reg = 0;
    SmallVector<Value> results;
    for (Value part : adaptor.getTile()) {
      auto type = cast<VectorType>(part.getType());
      SmallVector<Value> elements;
      for (int64_t i = 0; i < type.getNumElements(); ++i, ++reg) {
        int64_t col = registers.getColumn(reg);
        Value number = random.getWord(registers.getRow(reg), col);
        if (col % 2 == 0)
          number = arith::ShLIOp::create(b, number, random.word(bitsOfHalf));
        Value isKept =
            arith::CmpIOp::create(b, arith::CmpIPredicate::uge, number, limit);
        elements.push_back(arith::SelectOp::create(
            b, isKept, vector::ExtractOp::create(b, part, i), zero));
      }
      results.push_back(vector::FromElementsOp::create(b, type, elements));
    }
    rewriter.replaceOpWithMultiple(op, {results});
    return success();
  }
};
} // namespace

void mlir::fcgpu::populateDropoutPatterns(const TileTypeConverter &converter,
                                          const ThreadContext &context,
                                          RewritePatternSet &patterns) {
  patterns.add<DistributeDropout>(converter, patterns.getContext(), context);
}
