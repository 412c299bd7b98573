//===- MaskRegionTest.cpp - Bounds of mask regions against brute force ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Regions are written with the predicate that they stand for: what they bound
// is held against it at every query and key.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/MaskRegion.h"
#include "RegionFixture.h"
#include "flashcore/Analysis/KeyTileBounds.h"

#include <functional>
#include <random>

using namespace mlir;
using namespace mlir::flashcore;

namespace {
class MaskRegionTest : public RegionFixture {
protected:
  SmallVector<RegionBounds> read(const std::string &body) {
    symbols.clear();
    return getRegionRanges(parse(body).getMaskRegion(), symbols);
  }

  SmallVector<BoundSymbol> symbols;
};

int64_t evaluate(AffineExpr expr, int64_t query) {
  MLIRContext *context = expr.getContext();
  AffineExpr result = simplifyAffineExpr(
      expr.replaceDims(getAffineConstantExpr(query, context)), 0, 0);
  return cast<AffineConstantExpr>(result).getValue();
}

bool contains(const RegionBounds &bounds, int64_t query, int64_t key) {
  for (AffineExpr bound : bounds.first)
    if (key < evaluate(bound, query))
      return false;
  for (AffineExpr bound : bounds.last)
    if (key > evaluate(bound, query))
      return false;
  return true;
}

/// The bound as it is for one value of the data.
SmallVector<RegionBounds> withData(SmallVector<RegionBounds> ranges,
                                   int64_t data) {
  for (RegionBounds &range : ranges)
    for (auto *list : {&range.first, &range.last})
      for (AffineExpr &bound : *list)
        bound = bound.replaceSymbols(
            getAffineConstantExpr(data, bound.getContext()));
  return ranges;
}

/// Every visible key is in a range; in one that is complete, every key is
/// visible. And no bound falls from one query to the next.
void check(ArrayRef<RegionBounds> ranges,
           const std::function<bool(int64_t, int64_t)> &isVisible,
           const std::string &what) {
  ASSERT_FALSE(ranges.empty()) << what;
  ASSERT_LE(ranges.size(), kMaxRegionRanges) << what;
  for (int64_t q = 0; q < kQueries; ++q)
    for (int64_t k = 0; k < kKeys; ++k) {
      bool isWithin = false;
      for (const RegionBounds &range : ranges) {
        bool isInside = contains(range, q, k);
        isWithin |= isInside;
        ASSERT_TRUE(!isInside || !range.isComplete || isVisible(q, k))
            << what << q << " " << k;
      }
      ASSERT_TRUE(isWithin || !isVisible(q, k)) << what << q << " " << k;
    }
  for (const RegionBounds &range : ranges)
    for (const auto &list : {range.first, range.last})
      for (AffineExpr bound : list)
        for (int64_t q = 0; q + 1 < kQueries; ++q)
          ASSERT_LE(evaluate(bound, q), evaluate(bound, q + 1)) << what;
}

bool isComplete(ArrayRef<RegionBounds> ranges) {
  return llvm::all_of(
      ranges, [](const RegionBounds &range) { return range.isComplete; });
}

TEST_F(MaskRegionTest, BoundsOfUsualMasks) {
  struct {
    const char *body;
    bool (*isVisible)(int64_t, int64_t);
    bool isComplete;
    size_t numFirst, numLast; ///< of the first range
    size_t numRanges = 1;
  } cases[] = {
      {"%m = arith.cmpi sle, %k, %q : index\n",
       [](int64_t q, int64_t k) { return k <= q; }, true, 0, 1},
      {"%m = arith.cmpi sgt, %q, %k : index\n",
       [](int64_t q, int64_t k) { return q > k; }, true, 0, 1},
      {"%c = arith.constant 7 : index\n%d = arith.subi %q, %k : index\n"
       "%a = math.absi %d : index\n%m = arith.cmpi slt, %a, %c : index\n",
       [](int64_t q, int64_t k) { return std::abs(q - k) < 7; }, true, 1, 1},
      {"%c = arith.constant 9 : i32\n%x = arith.index_cast %q : index to i32\n"
       "%y = arith.index_cast %k : index to i32\n"
       "%z = arith.addi %y, %c : i32\n%m = arith.cmpi sge, %z, %x : i32\n",
       [](int64_t q, int64_t k) { return k + 9 >= q; }, true, 1, 0},
      {"%c = arith.constant 12 : index\n"
       "%x = arith.divsi %q, %c : index\n%y = arith.floordivsi %k, %c : index\n"
       "%m = arith.cmpi eq, %x, %y : index\n",
       [](int64_t q, int64_t k) { return q / 12 == k / 12; }, true, 1, 1},
      {"%c = arith.constant 12 : index\n%x = arith.divsi %q, %c : index\n"
       "%y = arith.divsi %k, %c : index\n%m = arith.cmpi slt, %y, %x : index\n",
       [](int64_t q, int64_t k) { return k / 12 < q / 12; }, true, 0, 1},
      {"%c = arith.constant 30 : index\n%m = arith.cmpi slt, %k, %c : index\n",
       [](int64_t, int64_t k) { return k < 30; }, true, 0, 1},
      {"%c = arith.constant 3 : index\n%d = arith.subi %q, %k : index\n"
       "%r = arith.remsi %d, %c : index\n%z = arith.constant 0 : index\n"
       "%x = arith.cmpi eq, %r, %z : index\n%y = arith.cmpi sle, %k, %q : "
       "index\n%m = arith.andi %x, %y : i1\n",
       [](int64_t q, int64_t k) { return (q - k) % 3 == 0 && k <= q; }, false,
       0, 1},
      // Falls from query to query: bounds nothing.
      {"%c = arith.constant 80 : index\n%x = arith.addi %q, %k : index\n"
       "%m = arith.cmpi sle, %x, %c : index\n",
       [](int64_t q, int64_t k) { return q + k <= 80; }, false, 0, 0},
      {"%x = arith.cmpi sle, %k, %q : index\n%c = arith.constant 5 : index\n"
       "%y = arith.cmpi slt, %k, %c : index\n%m = arith.ori %x, %y : i1\n",
       [](int64_t q, int64_t k) { return k <= q || k < 5; }, true, 0, 1, 2},
      // Near, or one of the first keys, or by one of the first queries.
      {"%c = arith.constant 7 : index\n%d = arith.subi %q, %k : index\n"
       "%a = math.absi %d : index\n%x = arith.cmpi sle, %a, %c : index\n"
       "%y = arith.cmpi slt, %k, %c : index\n"
       "%z = arith.cmpi slt, %q, %c : index\n%o = arith.ori %y, %z : i1\n"
       "%m = arith.ori %x, %o : i1\n",
       [](int64_t q, int64_t k) {
         return std::abs(q - k) <= 7 || k < 7 || q < 7;
       },
       true, 1, 1, 3},
      // Not of the own block of twelve.
      {"%c = arith.constant 12 : index\n%x = arith.divsi %q, %c : index\n"
       "%y = arith.divsi %k, %c : index\n%e = arith.cmpi eq, %x, %y : index\n"
       "%t = arith.constant true\n%m = arith.xori %e, %t : i1\n",
       [](int64_t q, int64_t k) { return q / 12 != k / 12; }, true, 1, 0, 2},
      // Late queries see the first keys, others those from there on.
      {"%c = arith.constant 40 : index\n%x = arith.cmpi sge, %q, %c : index\n"
       "%y = arith.cmpi slt, %k, %c : index\n"
       "%z = arith.cmpi sge, %k, %c : index\n"
       "%m = arith.select %x, %y, %z : i1\n",
       [](int64_t q, int64_t k) { return q >= 40 ? k < 40 : k >= 40; }, true, 0,
       2, 2},
      {"%m = arith.constant true\n", [](int64_t, int64_t) { return true; },
       true, 0, 0},
      {"%m = arith.constant false\n", [](int64_t, int64_t) { return false; },
       false, 0, 0},
      {"%m = arith.cmpi ne, %k, %q : index\n",
       [](int64_t q, int64_t k) { return k != q; }, true, 0, 1, 2},
  };
  for (auto &each : cases) {
    SmallVector<RegionBounds> ranges = read(each.body);
    EXPECT_EQ(isComplete(ranges), each.isComplete) << each.body;
    EXPECT_EQ(ranges.size(), each.numRanges) << each.body;
    EXPECT_EQ(ranges.front().first.size(), each.numFirst) << each.body;
    EXPECT_EQ(ranges.front().last.size(), each.numLast) << each.body;
    check(ranges, each.isVisible, each.body);
  }
}

// Sums of coordinates and quotients with random factors, compared and joined.
TEST_F(MaskRegionTest, BoundsOfRandomRegionsAreRight) {
  std::mt19937 random(7);
  auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  using Term = std::function<int64_t(int64_t, int64_t)>;
  int64_t numComplete = 0, numWithHoles = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string body;
    int64_t number = 0;
    auto name = [&] { return "%v" + std::to_string(number++); };
    auto add = [&](const std::string &code) {
      std::string result = name();
      body += result + " = " + code + "\n";
      return result;
    };
    auto constant = [&](int64_t value) {
      return add("arith.constant " + std::to_string(value) + " : index");
    };
    auto makeTerm = [&]() -> std::pair<std::string, Term> {
      bool isKey = draw(0, 1);
      std::string text = isKey ? "%k" : "%q";
      Term term = [=](int64_t q, int64_t k) { return isKey ? k : q; };
      if (draw(0, 2) == 0) {
        int64_t by = draw(1, 9);
        text =
            add("arith.floordivsi " + text + ", " + constant(by) + " : index");
        term = [=](int64_t q, int64_t k) { return term(q, k) / by; };
      }
      if (draw(0, 3) == 0) {
        int64_t by = draw(-2, 3);
        text = add("arith.muli " + text + ", " + constant(by) + " : index");
        term = [=](int64_t q, int64_t k) { return term(q, k) * by; };
      }
      if (draw(0, 1)) {
        int64_t by = draw(-20, 20);
        text = add("arith.addi " + text + ", " + constant(by) + " : index");
        term = [=](int64_t q, int64_t k) { return term(q, k) + by; };
      }
      return {text, term};
    };
    const std::pair<const char *, bool (*)(int64_t, int64_t)> predicates[] = {
        {"slt", [](int64_t x, int64_t y) { return x < y; }},
        {"sle", [](int64_t x, int64_t y) { return x <= y; }},
        {"sgt", [](int64_t x, int64_t y) { return x > y; }},
        {"sge", [](int64_t x, int64_t y) { return x >= y; }},
        {"eq", [](int64_t x, int64_t y) { return x == y; }}};
    std::string joined;
    std::function<bool(int64_t, int64_t)> isVisible;
    for (int64_t j = draw(1, 3); j > 0; --j) {
      auto [x, termX] = makeTerm();
      auto [y, termY] = makeTerm();
      auto [predicate, compare] = predicates[draw(0, 4)];
      std::string condition = add(std::string("arith.cmpi ") + predicate +
                                  ", " + x + ", " + y + " : index");
      auto holds = [=, tx = termX, ty = termY, c = compare](
                       int64_t q, int64_t k) { return c(tx(q, k), ty(q, k)); };
      int64_t join = joined.empty() ? 3 : draw(0, 3);
      if (join == 3) {
        joined = joined.empty()
                     ? condition
                     : add("arith.andi " + joined + ", " + condition + " : i1");
        isVisible = [=, before = isVisible](int64_t q, int64_t k) {
          return (!before || before(q, k)) && holds(q, k);
        };
        continue;
      }
      // Or; and not; or a choice between the two.
      std::string invert = add("arith.constant true");
      std::string inverse =
          add("arith.xori " + condition + ", " + invert + " : i1");
      if (join == 0)
        joined = add("arith.ori " + joined + ", " + condition + " : i1");
      else if (join == 1)
        joined = add("arith.andi " + joined + ", " + inverse + " : i1");
      else
        joined = add("arith.select " + joined + ", " + inverse + ", " +
                     condition + " : i1");
      isVisible = [=, before = isVisible](int64_t q, int64_t k) {
        bool was = before(q, k), is = holds(q, k);
        return join == 0 ? was || is : join == 1 ? was && !is : was != is;
      };
    }
    body += "%true = arith.constant true\n%m = arith.andi " + joined +
            ", %true : i1\n";
    SmallVector<RegionBounds> ranges = read(body);
    numComplete += isComplete(ranges);
    numWithHoles += ranges.size() > 1;
    check(ranges, isVisible, body);
  }
  EXPECT_GT(numComplete, 100);
  EXPECT_GT(numWithHoles, 50);
}

// What says the same as a clause is the same mask.
TEST_F(MaskRegionTest, ClausesAndRegionsAreOneMask) {
  const char *causal = "%c = arith.constant 10 : index\n"
                       "%x = arith.addi %q, %c : index\n"
                       "%m = arith.cmpi sle, %k, %x : index\n";
  KeyMask mask = KeyMask::get(parse(causal));
  EXPECT_EQ(mask.windowRight, 0);
  EXPECT_TRUE(mask.last.empty());
  EXPECT_FALSE(mask.hasOpaqueRegion);

  const char *window = "%c = arith.constant 10 : index\n"
                       "%x = arith.addi %q, %c : index\n"
                       "%d = arith.subi %x, %k : index\n"
                       "%z = arith.constant 0 : index\n"
                       "%w = arith.constant 25 : index\n"
                       "%y = arith.cmpi sge, %d, %z : index\n"
                       "%n = arith.cmpi sle, %d, %w : index\n"
                       "%m = arith.andi %y, %n : i1\n";
  mask = KeyMask::get(parse(window));
  EXPECT_EQ(mask.windowRight, 0);
  EXPECT_EQ(mask.windowLeft, 25);
  EXPECT_TRUE(mask.first.empty() && mask.last.empty());

  // Without the lengths, a bound of its own; or the clause top_left.
  mask = KeyMask::get(parse(causal, /*isOpen=*/true));
  EXPECT_FALSE(mask.windowRight);
  EXPECT_EQ(mask.last.size(), 1u);
  mask = KeyMask::get(
      parse("%m = arith.cmpi sle, %k, %q : index\n", /*isOpen=*/true));
  EXPECT_TRUE(mask.isTopLeft);
  EXPECT_TRUE(mask.last.empty());
}

// What a batch entry says of itself is a number like others. Here the number
// of the entry stands for what a region may load by it.
TEST_F(MaskRegionTest, BoundsOfData) {
  const std::string load = "%n = arith.index_cast %b : index to i32\n"
                           "%d = arith.index_cast %n : i32 to index\n";
  struct {
    const char *body;
    bool (*isVisible)(int64_t, int64_t, int64_t);
    size_t numRanges = 1;
  } cases[] = {
      {"%m = arith.cmpi slt, %k, %d : index\n",
       [](int64_t, int64_t k, int64_t d) { return k < d; }},
      {"%x = arith.addi %q, %d : index\n"
       "%m = arith.cmpi sle, %k, %x : index\n",
       [](int64_t q, int64_t k, int64_t d) { return k <= q + d; }},
      {"%x = arith.cmpi slt, %k, %d : index\n"
       "%y = arith.cmpi sle, %k, %q : index\n"
       "%m = arith.ori %x, %y : i1\n",
       [](int64_t q, int64_t k, int64_t d) { return k < d || k <= q; }, 2},
      {"%c = arith.constant 3 : index\n%x = arith.muli %d, %c : index\n"
       "%y = arith.subi %k, %x : index\n%z = math.absi %y : index\n"
       "%w = arith.constant 20 : index\n"
       "%m = arith.cmpi sle, %z, %w : index\n",
       [](int64_t, int64_t k, int64_t d) { return std::abs(k - 3 * d) <= 20; }},
      {"%y = arith.index_cast %k : index to i32\n"
       "%m = arith.cmpi sge, %y, %n : i32\n",
       [](int64_t, int64_t k, int64_t d) { return k >= d; }},
      {"%c = arith.constant 2 : index\n"
       "%x = arith.floordivsi %d, %c : index\n"
       "%m = arith.cmpi sgt, %k, %x : index\n",
       [](int64_t, int64_t k, int64_t d) {
         return k > (d >= 0 ? d / 2 : (d - 1) / 2);
       }}};
  for (const auto &each : cases) {
    SmallVector<RegionBounds> ranges = read(load + each.body);
    EXPECT_TRUE(isComplete(ranges)) << each.body;
    EXPECT_EQ(ranges.size(), each.numRanges) << each.body;
    ASSERT_EQ(symbols.size(), 1u) << each.body;
    EXPECT_FALSE(symbols.front().isOfQuery) << each.body;
    for (int64_t data : {-200, -3, 0, 1, 17, 64, 99, 1000})
      check(
          withData(ranges, data),
          [&](int64_t q, int64_t k) { return each.isVisible(q, k, data); },
          each.body);
  }
}

/// The results of a map for the block that begins at query `first`, of data of
/// queries from `least` to `greatest`.
SmallVector<int64_t> evaluate(AffineMap map, int64_t first, int64_t least,
                              int64_t greatest) {
  SmallVector<Attribute> operands, results;
  Builder b(map.getContext());
  for (int64_t value : {first, kQueries, kKeys, least, greatest})
    operands.push_back(b.getIndexAttr(value));
  EXPECT_TRUE(succeeded(map.constantFold(operands, results)));
  return llvm::map_to_vector(results, [](Attribute result) {
    return cast<IntegerAttr>(result).getInt();
  });
}

// Of data of queries a block takes the least and the greatest: all that one of
// its queries sees is within, and all of them see what is full.
TEST_F(MaskRegionTest, BoundsOfDataOfQueries) {
  const std::string load = "%n = memref.load %ids[%q] : memref<100xi32>\n"
                           "%d = arith.index_cast %n : i32 to index\n";
  struct {
    const char *body;
    bool (*isVisible)(int64_t, int64_t, int64_t);
    bool isComplete = true;
  } cases[] = {
      {"%m = arith.cmpi sge, %k, %d : index\n",
       [](int64_t, int64_t k, int64_t d) { return k >= d; }},
      {"%y = arith.index_cast %k : index to i32\n"
       "%m = arith.cmpi slt, %y, %n : i32\n",
       [](int64_t, int64_t k, int64_t d) { return k < d; }},
      {"%x = arith.cmpi sge, %k, %d : index\n"
       "%y = arith.cmpi sle, %k, %q : index\n"
       "%m = arith.andi %x, %y : i1\n",
       [](int64_t q, int64_t k, int64_t d) { return k >= d && k <= q; }},
      {"%c = arith.constant 5 : index\n%x = arith.muli %d, %c : index\n"
       "%y = arith.subi %k, %x : index\n%z = math.absi %y : index\n"
       "%m = arith.cmpi sle, %z, %c : index\n",
       [](int64_t, int64_t k, int64_t d) { return std::abs(k - 5 * d) <= 5; }},
      {"%x = arith.addi %n, %n : i32\n%y = arith.index_cast %k : index to i32\n"
       "%u = arith.cmpi sge, %y, %x : i32\n"
       "%c = arith.constant 3 : index\n%r = arith.remui %k, %c : index\n"
       "%v = arith.cmpi ult, %r, %c : index\n%m = arith.andi %u, %v : i1\n",
       [](int64_t, int64_t k, int64_t d) { return k >= 2 * d; }, false}};
  std::mt19937 random(7);
  for (const auto &each : cases)
    for (int64_t most : {0, 3, 20, 99, 300}) {
      SmallVector<int64_t> data;
      for (int64_t q = 0; q < kQueries; ++q)
        data.push_back(static_cast<int64_t>(random() % (most + 1)) - most / 8);
      KeyMask mask = KeyMask::get(parse(load + each.body));
      ASSERT_TRUE(mask.hasDataOfQueries()) << each.body;
      ASSERT_EQ(mask.ranges.size(), 1u) << each.body;
      EXPECT_EQ(mask.ranges.front().isComplete, each.isComplete) << each.body;
      constexpr int64_t block = 15;
      KeyBounds bounds =
          getKeyBounds(&context, mask.getMaskOf(mask.ranges.front()), block);
      for (int64_t first = 0; first < kQueries; first += block) {
        auto range = llvm::make_range(data.begin() + first,
                                      data.begin() + first + block);
        int64_t least = *llvm::min_element(range);
        int64_t greatest = *llvm::max_element(range);
        auto get = [&](AffineMap map, bool isEnd) {
          auto results = evaluate(map, first, least, greatest);
          return isEnd ? *llvm::min_element(results)
                       : *llvm::max_element(results);
        };
        for (int64_t q = first; q < first + block; ++q)
          for (int64_t k = 0; k < kKeys; ++k) {
            bool isVisible = each.isVisible(q, k, data[q]);
            ASSERT_TRUE(!isVisible || (k >= get(bounds.visibleBegin, false) &&
                                       k < get(bounds.visibleEnd, true)))
                << each.body << q << " " << k;
            ASSERT_TRUE(isVisible || !each.isComplete ||
                        k < get(bounds.fullBegin, false) ||
                        k >= get(bounds.fullEnd, true))
                << each.body << q << " " << k;
          }
      }
      mask.dropDataOfQueries();
      EXPECT_FALSE(mask.hasDataOfQueries());
      EXPECT_FALSE(mask.ranges.front().isComplete);
    }
}

// Of lengths alone there is nothing to drop.
TEST_F(MaskRegionTest, DataOfBatchEntriesStays) {
  KeyMask mask = KeyMask::get(parse("%n = arith.index_cast %b : index to i32\n"
                                    "%d = arith.index_cast %n : i32 to index\n"
                                    "%m = arith.cmpi slt, %k, %d : index\n"));
  mask.dropDataOfQueries();
  EXPECT_EQ(mask.symbols.size(), 1u);
  EXPECT_EQ(mask.last.size(), 1u);
  EXPECT_FALSE(mask.hasOpaqueRegion);
}

// A number that no bound has is not asked for.
TEST_F(MaskRegionTest, DataOfNoBound) {
  KeyMask mask =
      KeyMask::get(parse("%n = memref.load %ids[%q] : memref<100xi32>\n"
                         "%d = arith.index_cast %n : i32 to index\n"
                         "%x = arith.cmpi sge, %k, %d : index\n"
                         "%c = arith.constant 3 : index\n"
                         "%r = arith.remui %k, %c : index\n"
                         "%y = arith.cmpi eq, %r, %c : index\n"
                         "%m = arith.ori %x, %y : i1\n"));
  EXPECT_TRUE(mask.symbols.empty());
  EXPECT_TRUE(mask.ranges.empty());
  EXPECT_TRUE(mask.hasOpaqueRegion);
}

// Sums of 32 bits may wrap where one of the numbers is data, a quotient of what
// may be negative is not its floor, and a head has no bounds of its own.
TEST_F(MaskRegionTest, DataThatBoundsNothing) {
  for (const char *body :
       {// Falls where the data rises; of heads, and of keys.
        "%n = memref.load %ids[%q] : memref<100xi32>\n"
        "%d = arith.index_cast %n : i32 to index\n"
        "%x = arith.subi %q, %d : index\n"
        "%m = arith.cmpi sge, %k, %x : index\n",
        "%n = memref.load %ids[%h] : memref<100xi32>\n"
        "%d = arith.index_cast %n : i32 to index\n"
        "%m = arith.cmpi sge, %k, %d : index\n",
        "%n = memref.load %ids[%k] : memref<100xi32>\n"
        "%d = arith.index_cast %n : i32 to index\n"
        "%m = arith.cmpi sge, %q, %d : index\n",
        "%n = arith.index_cast %b : index to i32\n"
        "%x = arith.index_cast %q : index to i32\n"
        "%y = arith.index_cast %k : index to i32\n"
        "%z = arith.addi %x, %n : i32\n%m = arith.cmpi sle, %y, %z : i32\n",
        "%n = arith.index_cast %b : index to i32\n"
        "%d = arith.index_cast %n : i32 to index\n"
        "%c = arith.constant 2 : index\n"
        "%x = arith.divsi %d, %c : index\n"
        "%m = arith.cmpi sgt, %k, %x : index\n",
        "%m = arith.cmpi sgt, %k, %h : index\n",
        "%n = arith.index_cast %h : index to i32\n"
        "%y = arith.index_cast %k : index to i32\n"
        "%m = arith.cmpi sle, %y, %n : i32\n"}) {
    SmallVector<RegionBounds> ranges = read(body);
    ASSERT_EQ(ranges.size(), 1u) << body;
    EXPECT_FALSE(ranges.front().isComplete) << body;
    EXPECT_TRUE(ranges.front().first.empty() && ranges.front().last.empty())
        << body;
  }
}

// A load says nothing of keys, beside a comparison that does.
TEST_F(MaskRegionTest, WhatIsReadBoundsNothing) {
  SmallVector<RegionBounds> ranges =
      read("%x = memref.load %ids[%k] : memref<100xi32>\n"
           "%z = arith.constant 3 : i32\n%y = arith.cmpi sle, %x, %z : i32\n"
           "%c = arith.cmpi sle, %k, %q : index\n"
           "%m = arith.andi %y, %c : i1\n");
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_FALSE(ranges.front().isComplete);
  EXPECT_EQ(ranges.front().last.size(), 1u);
  EXPECT_TRUE(ranges.front().first.empty());
}
} // namespace
