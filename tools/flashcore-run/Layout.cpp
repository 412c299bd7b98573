//===- Layout.cpp - How the tensors of a run lie in memory ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The stride of an axis of size 1 means nothing, so it is never looked at.
//
//===----------------------------------------------------------------------===//

#include "Layout.h"

#include <algorithm>

using namespace flashcore;
using namespace flashcore::run;

/// b, h, s or d. Pages are like entries of a batch.
static char letter(const std::string &axis) {
  return axis.starts_with("head_dim") ? 'd'
         : axis == PagesDim           ? 'b'
         : axis == PageSizeDim        ? 's'
                                      : axis[0];
}

static bool isDense(const TensorGeometry &tensor, std::string_view order) {
  int64_t step = 1;
  for (size_t place = order.size(); place-- > 0;)
    for (size_t axis = 0; axis < tensor.axes.size(); ++axis) {
      if (letter(tensor.axes[axis]) != order[place])
        continue;
      if (tensor.sizes[axis] != 1 && tensor.strides[axis] != step)
        return false;
      step *= tensor.sizes[axis];
    }
  return true;
}

static std::string describe(const TensorGeometry &tensor) {
  for (Layout layout : {Layout::BHSD, Layout::BSHD})
    if (isDense(tensor, stringify(layout)))
      return std::string(stringify(layout));
  std::vector<std::pair<int64_t, char>> axes; // outermost first
  for (size_t axis = 0; axis < tensor.axes.size(); ++axis)
    axes.emplace_back(-tensor.strides[axis], letter(tensor.axes[axis]));
  std::sort(axes.begin(), axes.end());
  std::string order;
  for (const auto &[stride, name] : axes)
    order += name;
  return order + " strided";
}

std::string flashcore::run::describeLayout(const Problem &problem) {
  std::vector<const TensorGeometry *> tensors;
  for (const char *name : {"q", "k", "v", "o"})
    if (const TensorGeometry *tensor = problem.findTensor(name))
      tensors.push_back(tensor);
  // A tensor of one head is dense in both orders, so all are asked at once.
  for (Layout layout : {Layout::BHSD, Layout::BSHD})
    if (std::all_of(tensors.begin(), tensors.end(), [&](auto *tensor) {
          return isDense(*tensor, stringify(layout));
        }))
      return std::string(stringify(layout));

  // Neighbours of the same layout are named together.
  std::vector<std::pair<std::string, std::string>> groups;
  for (const TensorGeometry *tensor : tensors) {
    std::string text = describe(*tensor);
    if (!groups.empty() && groups.back().second == text)
      groups.back().first += "," + tensor->name;
    else
      groups.emplace_back(tensor->name, text);
  }
  if (groups.size() == 1)
    return groups.front().second;
  std::string result;
  for (const auto &[names, text] : groups)
    result += (result.empty() ? "" : ", ") + names + " " + text;
  return result;
}

Layout flashcore::run::defaultLayout(const Bundle &bundle) {
  const TensorSpec *q = bundle.findTensor("q");
  auto headDim = bundle.sizes.find("head_dim");
  if (!q || headDim == bundle.sizes.end() || !headDim->second)
    return Layout::BHSD;
  // Of one query, or of one head, both begin every head_dim elements.
  auto isInnermost = [&](std::string_view name) {
    for (size_t axis = 0; axis < q->axes.size(); ++axis)
      if (q->axes[axis] == name)
        return q->strides[axis] == headDim->second;
    return false;
  };
  return isInnermost("heads_q") && !isInnermost("seqlen_q") ? Layout::BSHD
                                                            : Layout::BHSD;
}
