//===- StoredProducts.cpp - Where a CTA has stored products ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What CheckStores.cpp remembers of the stores of a CTA. See Layout.h.
//
//===----------------------------------------------------------------------===//

#include "Layout.h"

#include <algorithm>

using namespace flashcore::emu;

void ProductPlaces::select(uint32_t newTensor, uint32_t newOuter) {
  if (tensor != newTensor || outer != newOuter)
    reset();
  tensor = newTensor;
  outer = newOuter;
}

uint32_t ProductPlaces::findRoot(uint32_t node, int64_t &fromRoot) {
  fromRoot = 0;
  while (nodes[node].parent != node) {
    Node &here = nodes[node];
    const Node &parent = nodes[here.parent];
    // The parent of a root is itself, at distance 0.
    here.fromParent += parent.fromParent;
    here.parent = parent.parent;
    fromRoot += here.fromParent;
    node = here.parent;
  }
  return node;
}

bool ProductPlaces::agrees(uint32_t rowIndex, uint32_t columnIndex,
                           int64_t displacement, int64_t &expected) {
  uint32_t row = 2 * rowIndex + 1, column = 2 * columnIndex + 2;
  if (nodes.size() <= std::max(row, column))
    nodes.resize(std::max(row, column) + 1);
  for (uint32_t node : {ownPlaces, row, column})
    if (isNew(node))
      nodes[node] = {generation, displacement ? node : ownPlaces, 0};
  int64_t rowFromRoot, columnFromRoot;
  uint32_t rowRoot = findRoot(row, rowFromRoot);
  uint32_t columnRoot = findRoot(column, columnFromRoot);
  expected = rowFromRoot - columnFromRoot;
  if (rowRoot == columnRoot)
    return expected == displacement;
  if (rowRoot == ownPlaces)
    nodes[columnRoot] = {generation, rowRoot, expected - displacement};
  else
    nodes[rowRoot] = {generation, columnRoot, displacement - expected};
  return true;
}

uint32_t StoredProducts::store(uint32_t at, uint32_t product, uint32_t *own) {
  // Most kernels never get past this.
  if (at == product && holders.empty()) {
    own[at] = mark;
    return at;
  }
  if (auto before = products.find(at); before != products.end()) {
    holders.erase(before->second);
    products.erase(before);
  }
  own[at] = at == product ? mark : 0;
  if (at == product) {
    auto holder = holders.find(product);
    return holder == holders.end() ? at : holder->second;
  }
  if (own[product] == mark)
    return product;
  auto [holder, isNew] = holders.insert({product, at});
  if (isNew)
    products[at] = product;
  return holder->second;
}
