//===- Atoms.cpp - What is multiplied and copied at a time ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Target/Atoms.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"

using namespace mlir::flashcore;

int64_t mlir::flashcore::getBytes(ElementKind kind) {
  switch (kind) {
  case ElementKind::F16:
  case ElementKind::BF16:
    return 2;
  case ElementKind::F32:
    return 4;
  }
  llvm_unreachable("no other kind");
}

/// The lanes of all operands and results of products of 16-bit elements: quads
/// along the rows, eight of them down.
static TileLayout makeLayout(TileLayout::Bases registers,
                             TileLayout::Bases warps = {}) {
  return TileLayout(2, std::move(registers),
                    {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}}, std::move(warps));
}

/// mma.sync on 16-bit elements: one warp, all operands in registers.
static MmaAtom makeWarpAtom(llvm::StringLiteral name, unsigned capability,
                            llvm::SmallVector<ElementKind, 2> inputs, int64_t k,
                            TileLayout lhs, TileLayout rhs) {
  return {{name, capability, /*isChipSpecific=*/false,
           /*ptxVersion=*/capability < 80 ? 65u : 70u},
          std::move(inputs),
          ElementKind::F32,
          /*warps=*/1,
          /*m=*/16,
          /*n=*/8,
          k,
          /*maxN=*/8,
          OperandPlace::Registers,
          OperandPlace::Registers,
          std::move(lhs),
          std::move(rhs),
          makeLayout({{0, 1}, {8, 0}})};
}

/// wgmma on 16-bit elements: each warp of a warpgroup has the next 16 rows.
static MmaAtom makeWarpgroupAtom() {
  const TileLayout::Bases warps{{16, 0}, {32, 0}};
  return {{"wgmma.mma_async.m64nNk16", /*capability=*/90,
           /*isChipSpecific=*/true, /*ptxVersion=*/80},
          {ElementKind::F16, ElementKind::BF16},
          ElementKind::F32,
          /*warps=*/4,
          /*m=*/64,
          /*n=*/8,
          /*k=*/16,
          /*maxN=*/256,
          OperandPlace::Either,
          OperandPlace::SharedMemory,
          makeLayout({{0, 1}, {8, 0}, {0, 8}}, warps),
          std::nullopt,
          makeLayout({{0, 1}, {8, 0}}, warps)};
}

/// wmma on 16-bit elements: fragments of its own. The layouts are those of
/// mma.sync, for which all else is made.
static MmaAtom makeFragmentAtom() {
  return {{"wmma.mma.m16n16k16", /*capability=*/70, /*isChipSpecific=*/false,
           /*ptxVersion=*/60},
          {ElementKind::F16},
          ElementKind::F32,
          /*warps=*/1,
          /*m=*/16,
          /*n=*/16,
          /*k=*/16,
          /*maxN=*/16,
          OperandPlace::Fragments,
          OperandPlace::Fragments,
          makeLayout({{0, 1}, {8, 0}, {0, 8}}),
          std::nullopt,
          makeLayout({{0, 1}, {8, 0}, {0, 8}})};
}

/// f32 arithmetic: each lane has a row, two columns at a time.
static MmaAtom makeLaneAtom() {
  const TileLayout rows(2, {{0, 1}}, {{1, 0}, {2, 0}, {4, 0}, {8, 0}, {16, 0}});
  return {{"fma.rn.f32", /*capability=*/20, /*isChipSpecific=*/false,
           /*ptxVersion=*/20},
          {ElementKind::F16, ElementKind::BF16},
          ElementKind::F32,
          /*warps=*/1,
          /*m=*/32,
          /*n=*/2,
          /*k=*/2,
          /*maxN=*/2,
          OperandPlace::Lanes,
          OperandPlace::Lanes,
          rows,
          std::nullopt,
          rows};
}

llvm::ArrayRef<MmaAtom> mlir::flashcore::getMmaAtoms() {
  static const MmaAtom atoms[] = {
      makeWarpAtom("mma.sync.m16n8k16", 80,
                   {ElementKind::F16, ElementKind::BF16}, /*k=*/16,
                   makeLayout({{0, 1}, {8, 0}, {0, 8}}),
                   makeLayout({{0, 1}, {0, 8}})),
      makeWarpAtom("mma.sync.m16n8k8", 75, {ElementKind::F16}, /*k=*/8,
                   makeLayout({{0, 1}, {8, 0}}), makeLayout({{0, 1}})),
      makeWarpAtom("mma.sync.m16n8k8", 80, {ElementKind::BF16}, /*k=*/8,
                   makeLayout({{0, 1}, {8, 0}}), makeLayout({{0, 1}})),
      makeWarpgroupAtom(),
      makeFragmentAtom(),
      makeLaneAtom()};
  return atoms;
}

bool Instruction::isOf(const TargetInfo &target) const {
  if (isChipSpecific)
    return target.isChipSpecific && target.capability == capability;
  return capability <= target.capability;
}

llvm::SmallVector<const MmaAtom *>
mlir::flashcore::findMmaAtoms(const TargetInfo &target, OperandPlace rhsPlace,
                              ElementKind input, ElementKind result) {
  llvm::SmallVector<const MmaAtom *> found;
  for (const MmaAtom &atom : getMmaAtoms())
    if (llvm::is_contained(atom.inputs, input) && atom.result == result &&
        atom.rhsPlace == rhsPlace && atom.isOf(target))
      found.push_back(&atom);
  return found;
}

/// To shared memory by way of registers, which every chip can.
static CopyAtom makeRegisterCopy(llvm::StringLiteral name, int64_t bytes) {
  return {{name, /*capability=*/20, /*isChipSpecific=*/false,
           /*ptxVersion=*/20},
          CopyRoute::GlobalToShared,
          CopyCompletion::Immediate,
          bytes};
}

bool mlir::flashcore::takesConstants(const TargetInfo &target,
                                     ElementKind input) {
  constexpr int64_t leastColumns = 16;
  auto atoms =
      findMmaAtoms(target, OperandPlace::Registers, input, ElementKind::F32);
  return !atoms.empty() && atoms.front()->k >= leastColumns;
}

llvm::ArrayRef<CopyAtom> mlir::flashcore::getCopyAtoms() {
  static const CopyAtom atoms[] = {
      {{"cp.async.cg.shared.global", /*capability=*/80,
        /*isChipSpecific=*/false, /*ptxVersion=*/70},
       CopyRoute::GlobalToShared,
       CopyCompletion::Groups,
       /*bytes=*/16},
      {{"cp.async.ca.shared.global", /*capability=*/80,
        /*isChipSpecific=*/false, /*ptxVersion=*/70},
       CopyRoute::GlobalToShared,
       CopyCompletion::Groups,
       /*bytes=*/8},
      {{"cp.async.ca.shared.global", /*capability=*/80,
        /*isChipSpecific=*/false, /*ptxVersion=*/70},
       CopyRoute::GlobalToShared,
       CopyCompletion::Groups,
       /*bytes=*/4},
      makeRegisterCopy("st.shared.v4.b32", /*bytes=*/16),
      makeRegisterCopy("st.shared.v2.b32", /*bytes=*/8),
      makeRegisterCopy("st.shared.b32", /*bytes=*/4),
      makeRegisterCopy("st.shared.b16", /*bytes=*/2),
      // Of a box with the 128-byte swizzle.
      {{"cp.async.bulk.tensor", /*capability=*/90, /*isChipSpecific=*/false,
        /*ptxVersion=*/80},
       CopyRoute::GlobalToShared,
       CopyCompletion::Barrier,
       /*bytes=*/128},
      // Of a matrix.
      {{"ldmatrix", /*capability=*/75, /*isChipSpecific=*/false,
        /*ptxVersion=*/65},
       CopyRoute::SharedToRegisters,
       CopyCompletion::Immediate,
       /*bytes=*/16},
      {{"stmatrix", /*capability=*/90, /*isChipSpecific=*/false,
        /*ptxVersion=*/78},
       CopyRoute::RegistersToShared,
       CopyCompletion::Immediate,
       /*bytes=*/16},
      {{"cp.async.bulk.tensor", /*capability=*/90, /*isChipSpecific=*/false,
        /*ptxVersion=*/80},
       CopyRoute::SharedToGlobal,
       CopyCompletion::Groups,
       /*bytes=*/128},
      {{"st.global.v4.b32", /*capability=*/20, /*isChipSpecific=*/false,
        /*ptxVersion=*/20},
       CopyRoute::RegistersToGlobal,
       CopyCompletion::Immediate,
       /*bytes=*/16}};
  return atoms;
}

const CopyAtom *mlir::flashcore::findCopyAtom(const TargetInfo &target,
                                              CopyRoute route,
                                              CopyCompletion completion,
                                              int64_t maxBytes) {
  for (const CopyAtom &atom : getCopyAtoms())
    if (atom.route == route && atom.completion == completion &&
        atom.bytes <= maxBytes && atom.isOf(target))
      return &atom;
  return nullptr;
}

bool mlir::flashcore::hasAsyncCopies(const TargetInfo &target) {
  return findCopyAtom(target, CopyRoute::GlobalToShared,
                      CopyCompletion::Groups) != nullptr;
}

const TileLayout &mlir::flashcore::getWideLayout() {
  static const TileLayout layout(2, {{0, 1}, {0, 2}},
                                 {{0, 4}, {1, 0}, {2, 0}, {4, 0}, {8, 0}});
  return layout;
}

const TileLayout &mlir::flashcore::getLdMatrixLayout() {
  static const TileLayout layout = makeLayout({{0, 1}});
  return layout;
}

const TileLayout &mlir::flashcore::getStoreLayout() {
  static const TileLayout layout(2, {{0, 1}, {0, 2}, {0, 4}},
                                 {{0, 8}, {0, 16}, {1, 0}, {2, 0}, {4, 0}});
  return layout;
}
