//===- Atoms.cpp - What tensor cores multiply at a time -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Target/Atoms.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir::flashcore;

/// The lanes of all operands and results of mma.sync on 16-bit elements: quads
/// along the rows, eight of them down.
static TileLayout makeLayout(TileLayout::Bases registers) {
  return TileLayout(2, std::move(registers),
                    {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}});
}

llvm::ArrayRef<MmaAtom> mlir::flashcore::getMmaAtoms() {
  static const MmaAtom atoms[] = {{"mma.sync.m16n8k16",
                                   {ElementKind::F16, ElementKind::BF16},
                                   ElementKind::F32,
                                   /*capability=*/80,
                                   /*m=*/16,
                                   /*n=*/8,
                                   /*k=*/16,
                                   makeLayout({{0, 1}, {8, 0}, {0, 8}}),
                                   makeLayout({{0, 1}, {0, 8}}),
                                   makeLayout({{0, 1}, {8, 0}})},
                                  {"mma.sync.m16n8k8",
                                   {ElementKind::F16, ElementKind::BF16},
                                   ElementKind::F32,
                                   /*capability=*/80,
                                   /*m=*/16,
                                   /*n=*/8,
                                   /*k=*/8,
                                   makeLayout({{0, 1}, {8, 0}}),
                                   makeLayout({{0, 1}}),
                                   makeLayout({{0, 1}, {8, 0}})}};
  return atoms;
}

llvm::SmallVector<const MmaAtom *>
mlir::flashcore::findMmaAtoms(const TargetInfo &target, ElementKind input,
                              ElementKind result) {
  llvm::SmallVector<const MmaAtom *> found;
  for (const MmaAtom &atom : getMmaAtoms())
    if (llvm::is_contained(atom.inputs, input) && atom.result == result &&
        atom.capability <= target.capability)
      found.push_back(&atom);
  return found;
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
