//===- TileLayoutTest.cpp - Which lane holds what of a tile ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Target/TileLayout.h"
#include "flashcore/Dialect/FCGPU/IR/Schedule.h"
#include "flashcore/Target/Atoms.h"
#include "gtest/gtest.h"

#include <map>
#include <set>

using namespace mlir::flashcore;

namespace {
struct NamedLayout {
  std::string name;
  TileLayout layout;
};
using Layouts = std::vector<NamedLayout>;

TileLayout makeWarpgroup() {
  return TileLayout(2, {{0, 1}, {8, 0}},
                    {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}},
                    {{16, 0}, {32, 0}});
}

/// Layouts of operands, results and accesses, and one whose registers and lanes
/// share bits of a place.
Layouts getLayouts() {
  Layouts layouts;
  for (const MmaAtom &atom : getMmaAtoms()) {
    layouts.push_back({"lhs", atom.lhs});
    if (atom.rhs)
      layouts.push_back({"rhs", *atom.rhs});
    layouts.push_back({"acc", atom.acc});
    layouts.push_back({"core", atom.acc.getCore()});
    if (atom.rhs)
      layouts.push_back({"turned", atom.rhs->transpose()});
  }
  layouts.push_back({"store", getStoreLayout()});
  layouts.push_back({"warpgroup", makeWarpgroup()});
  layouts.push_back(
      {"mixed", TileLayout(2, {{0, 1}, {0, 4}},
                           {{0, 2}, {0, 12}, {1, 4}, {2, 0}, {4, 8}})});
  return layouts;
}

/// Calls `fn` with each register, lane and warp.
template <typename Fn> void forEach(const TileLayout &layout, Fn fn) {
  for (int64_t warp = 0; warp < layout.getMap().getInputSize(TileLayout::Warp);
       ++warp)
    for (int64_t lane = 0; lane < 32; ++lane)
      for (int64_t reg = 0; reg < layout.getNumRegisters(); ++reg)
        fn(reg, lane, warp);
}
} // namespace

TEST(TileLayout, HoldsEveryPlaceOfItsBoxOnce) {
  for (const NamedLayout &each : getLayouts()) {
    EXPECT_FALSE(TileLayout::check(each.layout.getMap())) << each.name;
    std::map<std::pair<int64_t, int64_t>, int> holders;
    forEach(each.layout, [&](int64_t reg, int64_t lane, int64_t warp) {
      BitPoint place = each.layout.apply(reg, lane, warp);
      ++holders[{place[0], place[1]}];
    });
    auto box = each.layout.getBox();
    EXPECT_EQ(holders.size(), size_t(box[0] * box[1])) << each.name;
    for (const auto &[place, count] : holders)
      EXPECT_EQ(count, 1) << each.name;
  }
}

TEST(TileLayout, CheckRefusesWhatHoldsNotAllOrTwice) {
  auto makeMap = [](TileLayout::Bases registers, TileLayout::Bases lanes) {
    return BitMap(2, {std::move(registers), std::move(lanes), {}});
  };
  EXPECT_TRUE(TileLayout::check(makeMap({{0, 0}}, {{0, 1}})));
  EXPECT_TRUE(TileLayout::check(makeMap({{0, 1}}, {{0, 1}})));
  EXPECT_TRUE(TileLayout::check(makeMap({{0, 1}}, {{0, 4}})));
  EXPECT_FALSE(TileLayout::check(makeMap({{0, 1}}, {{0, 0}})));
}

TEST(TileLayout, SeparatePlacesAdd) {
  for (const NamedLayout &each : getLayouts()) {
    bool adds = true;
    forEach(each.layout, [&](int64_t reg, int64_t lane, int64_t warp) {
      BitPoint place = each.layout.apply(reg, lane, warp);
      for (int axis : {0, 1})
        adds &= place[axis] == each.layout.apply(reg, 0, 0)[axis] +
                                   each.layout.apply(0, lane, 0)[axis] +
                                   each.layout.apply(0, 0, warp)[axis];
    });
    EXPECT_EQ(each.layout.isSeparable(), adds) << each.name;
    EXPECT_EQ(adds, each.name != "mixed");
  }
}

TEST(TileLayout, SliceHoldsOneAxis) {
  for (const NamedLayout &each : getLayouts())
    for (TileLayout::Axis axis : {TileLayout::Row, TileLayout::Column}) {
      TileLayout slice = each.layout.slice(axis);
      if (TileLayout::check(slice.getMap()))
        continue; // of "mixed", whose lanes move along both axes
      // Every lane holds the same numbers along the axis as in the tile.
      std::map<std::pair<int64_t, int64_t>, std::set<int64_t>> inTile, inSlice;
      forEach(each.layout, [&](int64_t reg, int64_t lane, int64_t warp) {
        inTile[{lane, warp}].insert(each.layout.apply(reg, lane, warp)[axis]);
      });
      forEach(slice, [&](int64_t reg, int64_t lane, int64_t warp) {
        inSlice[{lane, warp}].insert(slice.apply(reg, lane, warp)[0]);
      });
      EXPECT_EQ(inTile, inSlice) << each.name;
    }
}

// The lanes that a reduction combines hold all columns of a row, and no other
// row's.
TEST(TileLayout, SpreadNamesTheLanesOfARow) {
  for (const NamedLayout &each : getLayouts()) {
    auto masks = each.layout.getSpread(TileLayout::Lane, TileLayout::Column);
    if (each.name == "mixed") {
      EXPECT_FALSE(masks);
      continue;
    }
    ASSERT_TRUE(masks) << each.name;
    std::set<int64_t> lanes{0};
    for (int64_t mask : *masks)
      for (int64_t lane : std::set<int64_t>(lanes))
        lanes.insert(lane ^ mask);
    std::set<int64_t> columns;
    int64_t row = each.layout.apply(0, 0)[0];
    forEach(each.layout, [&](int64_t reg, int64_t lane, int64_t warp) {
      BitPoint place = each.layout.apply(reg, lane, warp);
      if (place[0] != row)
        return;
      EXPECT_TRUE(lanes.count(lane)) << each.name;
      columns.insert(place[1]);
    });
    EXPECT_EQ(columns.size(), size_t(each.layout.getBox()[1])) << each.name;
  }
}

TEST(TileLayout, ReplicasHoldTheSame) {
  TileLayout rows = getMmaAtoms().front().acc.slice(TileLayout::Row);
  EXPECT_EQ(rows.getReplicas(TileLayout::Lane), 3);
  for (int64_t lane = 0; lane < 32; ++lane)
    EXPECT_EQ(rows.apply(0, lane), rows.apply(0, lane & ~3));
  TileLayout columns = makeWarpgroup().slice(TileLayout::Column);
  EXPECT_EQ(columns.getReplicas(TileLayout::Lane), 4 + 8 + 16);
  EXPECT_EQ(columns.getReplicas(TileLayout::Warp), 3);
  EXPECT_EQ(columns.getNumRegisters(), 2);
}

TEST(TileLayout, RunIsWhatLiesNextToEachOther) {
  for (const NamedLayout &each : getLayouts())
    for (TileLayout::Axis axis : {TileLayout::Row, TileLayout::Column}) {
      int64_t run = 1;
      while (run < each.layout.getNumRegisters()) {
        BitPoint next = each.layout.apply(0, 0);
        next[axis] += run;
        if (each.layout.apply(run, 0) != next)
          break;
        ++run;
      }
      EXPECT_EQ(each.layout.getRun(axis), run) << each.name;
    }
}

// The places of each lane are the same, whatever the order of its registers.
TEST(TileLayout, CoreRepeatsToTheSamePlaces) {
  for (const NamedLayout &each : getLayouts()) {
    TileLayout core = each.layout.getCore();
    TileLayout repeated = core.repeat(each.layout.getBox());
    EXPECT_LE(core.getNumRegisters(), each.layout.getNumRegisters())
        << each.name;
    std::map<std::pair<int64_t, int64_t>, std::set<std::pair<int64_t, int64_t>>>
        a, b;
    forEach(each.layout, [&](int64_t reg, int64_t lane, int64_t warp) {
      BitPoint x = each.layout.apply(reg, lane, warp);
      BitPoint y = repeated.apply(reg, lane, warp);
      a[{lane, warp}].insert({x[0], x[1]});
      b[{lane, warp}].insert({y[0], y[1]});
    });
    EXPECT_EQ(a, b) << each.name;
  }
  EXPECT_EQ(getMmaAtoms().front().lhs.getCore(), getLdMatrixLayout());
  // Rows 8 to 15 of a warp are between those of the next warps.
  EXPECT_EQ(makeWarpgroup().getCore(), makeWarpgroup());
}

TEST(TileLayout, RepeatsInRowMajorOrder) {
  TileLayout tile = getLdMatrixLayout().repeat({16, 32});
  ASSERT_EQ(tile.getNumRegisters(), 16);
  for (int64_t reg = 0; reg < 16; ++reg) {
    int64_t core = reg / 2;
    EXPECT_EQ(tile.apply(reg, 0),
              (BitPoint{core / 4 * 8, core % 4 * 8 + reg % 2}));
  }
}

TEST(TileLayout, ConversionsLeadToTheSamePlace) {
  TileLayout core = getLdMatrixLayout();
  Layouts pairs[] = {
      {{"core", core}, {"turned", core.transpose()}},
      {{"core", core.repeat({8, 32})}, {"store", getStoreLayout()}},
      {{"lhs", getMmaAtoms().front().lhs}, {"repeated", core.repeat({16, 16})}},
      {{"rows", core.slice(TileLayout::Row)},
       {"columns", core.slice(TileLayout::Column)}}};
  for (const Layouts &pair : pairs)
    for (bool isBack : {false, true}) {
      const TileLayout &from = pair[isBack].layout, &to = pair[!isBack].layout;
      BitMap map = convertLayout(from, to);
      forEach(to, [&](int64_t reg, int64_t lane, int64_t warp) {
        BitPoint source = map.apply({reg, lane, warp});
        EXPECT_EQ(from.apply(source[0], source[1], source[2]),
                  to.apply(reg, lane, warp))
            << pair[isBack].name;
      });
    }
}

// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and
// "Register Fragments for wgmma.mma_async.m64nNk16": a, b and c by groupID =
// lane >> 2 and threadID_in_group = lane % 4, 16 rows for each warp.
TEST(Atoms, FragmentsAreThoseOfPTX) {
  for (const MmaAtom &atom : getMmaAtoms())
    for (int64_t warp = 0;
         warp < atom.warps && atom.rhsPlace != OperandPlace::Lanes; ++warp)
      for (int64_t lane = 0; lane < 32; ++lane) {
        int64_t group = lane >> 2, inGroup = lane % 4, row = 16 * warp + group;
        for (int64_t i = 0; i < atom.k / 2; ++i) {
          bool isUpper = i % 4 >= 2;
          int64_t col = inGroup * 2 + (i & 1) + (i >= 4 ? 8 : 0);
          EXPECT_EQ(atom.lhs.apply(i, lane, warp),
                    (BitPoint{isUpper ? row + 8 : row, col}));
        }
        for (int64_t i = 0; atom.rhs && i < atom.k / 4; ++i) {
          int64_t k = inGroup * 2 + (i & 1) + (i >= 2 ? 8 : 0);
          EXPECT_EQ(atom.rhs->apply(i, lane), (BitPoint{group, k}));
        }
        for (int64_t i = 0; i < 4; ++i)
          EXPECT_EQ(atom.acc.apply(i, lane, warp),
                    (BitPoint{i < 2 ? row : row + 8, inGroup * 2 + (i & 1)}));
      }
}

TEST(Atoms, CoverTheirShapes) {
  using Box = llvm::SmallVector<int64_t, 2>;
  for (const MmaAtom &atom : getMmaAtoms()) {
    EXPECT_EQ(atom.lhs.getBox(), (Box{atom.m, atom.k})) << atom.name.str();
    if (atom.rhs)
      EXPECT_EQ(atom.rhs->getBox(), (Box{atom.n, atom.k})) << atom.name.str();
    EXPECT_EQ(atom.acc.getBox(), (Box{atom.m, atom.n})) << atom.name.str();
  }
}

TEST(Atoms, AChipHasThoseOfItsAge) {
  const TargetInfo &ada = *lookupTarget("sm_89");
  auto f16 = findMmaAtoms(ada, OperandPlace::Registers, ElementKind::F16,
                          ElementKind::F32);
  ASSERT_EQ(f16.size(), 2u);
  EXPECT_EQ(f16.front()->k, 16);
  EXPECT_EQ(f16.back()->k, 8);
  EXPECT_EQ(findMmaAtoms(ada, OperandPlace::Registers, ElementKind::BF16,
                         ElementKind::F32)
                .front(),
            f16.front());
  EXPECT_TRUE(findMmaAtoms(ada, OperandPlace::Registers, ElementKind::F32,
                           ElementKind::F32)
                  .empty());
  EXPECT_TRUE(findMmaAtoms(ada, OperandPlace::Registers, ElementKind::F16,
                           ElementKind::F16)
                  .empty());
}

TEST(Atoms, OldChipsHaveFewer) {
  auto count = [](llvm::StringRef chip, OperandPlace place, ElementKind input) {
    return findMmaAtoms(*lookupTarget(chip), place, input, ElementKind::F32)
        .size();
  };
  for (ElementKind input : {ElementKind::F16, ElementKind::BF16}) {
    EXPECT_EQ(count("sm_70", OperandPlace::Registers, input), 0u);
    EXPECT_EQ(count("sm_75", OperandPlace::Registers, input),
              input == ElementKind::F16 ? 1u : 0u);
    EXPECT_EQ(count("sm_70", OperandPlace::Fragments, input),
              input == ElementKind::F16 ? 1u : 0u);
    EXPECT_EQ(count("sm_70", OperandPlace::Lanes, input), 1u);
  }
}

// What makes S and P of a product reads and writes them as its layout says.
TEST(Atoms, ThoseThroughMemoryAreOfSmallTiles) {
  using Box = llvm::SmallVector<int64_t, 2>;
  EXPECT_EQ(getWideLayout().getBox(), (Box{16, 8}));
  EXPECT_EQ(getWideLayout().getRun(TileLayout::Column), 4);
  const MmaAtom &lanes =
      *findMmaAtoms(*lookupTarget("sm_70"), OperandPlace::Lanes,
                    ElementKind::F16, ElementKind::F32)
           .front();
  for (int64_t lane = 0; lane < 32; ++lane)
    EXPECT_EQ(lanes.acc.apply(0, lane), (BitPoint{lane, 0}));
  EXPECT_EQ(lanes.lhs.getCore(), lanes.acc.getCore());
}

TEST(Atoms, OfWarpgroupsAreThoseOfOneChip) {
  for (const TargetInfo &target : getTargets()) {
    auto atoms = findMmaAtoms(target, OperandPlace::SharedMemory,
                              ElementKind::F16, ElementKind::F32);
    ASSERT_EQ(atoms.size(), target.chip == "sm_90a" ? 1u : 0u)
        << target.chip.str();
    if (atoms.empty())
      continue;
    EXPECT_EQ(atoms.front()->rhsPlace, OperandPlace::SharedMemory);
    EXPECT_EQ(atoms.front()->lhsPlace, OperandPlace::Either);
    EXPECT_TRUE(atoms.front()->isAsynchronous());
    // P rounded to 16 bits is its left operand as it stands.
    EXPECT_EQ(atoms.front()->lhs.getCore(), atoms.front()->acc.getCore());
  }
}

// The distance of rows, and so the swizzle, is in what copies take of a row.
TEST(CopyAtoms, TakeChunksAndPanels) {
  for (const TargetInfo &target : getTargets()) {
    const auto *chunks =
        findCopyAtom(target, CopyRoute::GlobalToShared, CopyCompletion::Groups);
    const auto *matrices = findCopyAtom(target, CopyRoute::SharedToRegisters,
                                        CopyCompletion::Immediate);
    EXPECT_EQ(hasAsyncCopies(target), target.capability >= 80);
    ASSERT_EQ(chunks != nullptr, target.capability >= 80) << target.chip.str();
    if (chunks)
      EXPECT_EQ(chunks->bytes, mlir::fcgpu::kChunkBytes);
    ASSERT_EQ(matrices != nullptr, target.capability >= 75)
        << target.chip.str();
    if (matrices)
      EXPECT_EQ(matrices->bytes, mlir::fcgpu::kChunkBytes);
    const auto *boxes = findCopyAtom(target, CopyRoute::GlobalToShared,
                                     CopyCompletion::Barrier);
    ASSERT_EQ(boxes != nullptr, target.capability >= 90) << target.chip.str();
    if (boxes)
      EXPECT_EQ(boxes->bytes, mlir::fcgpu::kPanelBytes);
  }
}

// Rows that begin at other multiples take what fits, the narrowest at once.
TEST(CopyAtoms, AreNoWiderThanAsked) {
  for (const TargetInfo &target : getTargets()) {
    for (int64_t bytes : {16, 8, 4, 2})
      for (auto completion :
           {CopyCompletion::Groups, CopyCompletion::Immediate}) {
        const auto *atom =
            findCopyAtom(target, CopyRoute::GlobalToShared, completion, bytes);
        bool hasOne = completion == CopyCompletion::Immediate ||
                      (hasAsyncCopies(target) && bytes > 2);
        ASSERT_EQ(atom != nullptr, hasOne) << target.chip.str();
        if (atom)
          EXPECT_EQ(atom->bytes, bytes);
      }
  }
}

TEST(CopyAtoms, AreThereWithTheirChip) {
  TargetInfo old = *lookupTarget("sm_80");
  old.capability = 75;
  EXPECT_EQ(
      findCopyAtom(old, CopyRoute::GlobalToShared, CopyCompletion::Groups),
      nullptr);
  EXPECT_NE(findCopyAtom(old, CopyRoute::SharedToRegisters,
                         CopyCompletion::Immediate),
            nullptr);
}

// What flashcore-distribute relies on.
TEST(Atoms, OfOneProductDifferInKOnly) {
  for (const TargetInfo &target : getTargets())
    for (ElementKind input : {ElementKind::F16, ElementKind::BF16}) {
      auto atoms = findMmaAtoms(target, OperandPlace::Registers, input,
                                ElementKind::F32);
      ASSERT_EQ(atoms.empty(),
                target.capability < 75 ||
                    (target.capability < 80 && input == ElementKind::BF16));
      for (size_t i = 1; i < atoms.size(); ++i) {
        EXPECT_EQ(atoms[i - 1]->k % atoms[i]->k, 0);
        EXPECT_EQ(atoms[i - 1]->m, atoms[i]->m);
        EXPECT_EQ(atoms[i - 1]->n, atoms[i]->n);
        EXPECT_EQ(atoms[i - 1]->lhs.getCore(), atoms[i]->lhs.getCore());
        EXPECT_EQ(atoms[i - 1]->rhs->getCore(), atoms[i]->rhs->getCore());
        EXPECT_EQ(atoms[i - 1]->acc.getCore(), atoms[i]->acc.getCore());
      }
    }
}
