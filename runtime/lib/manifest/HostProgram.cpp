//===- HostProgram.cpp - How kernels of a bundle are launched -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What follows from the sizes of a call. ProgramReader.cpp reads it.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/HostProgram.h"

#include <algorithm>

using namespace flashcore;

template <typename T>
static const T *find(const std::vector<T> &all, std::string_view name) {
  auto it = std::find_if(all.begin(), all.end(),
                         [&](const T &each) { return each.name == name; });
  return it == all.end() ? nullptr : &*it;
}

const TensorSpec *HostProgram::findTensor(std::string_view name) const {
  return find(tensors, name);
}

const TensorSpec *HostProgram::findAnyTensor(std::string_view name) const {
  if (const TensorSpec *tensor = findTensor(name))
    return tensor;
  if (const TensorSpec *tensor = find(intermediates, name))
    return tensor;
  return find(views, name);
}

const KernelSpec *HostProgram::findKernel(std::string_view name) const {
  return find(kernels, name);
}

Status HostProgram::addValues(Numbers &numbers) const {
  for (const ValueSpec &value : values) {
    StatusOr<int64_t> number = value.is.evaluate(numbers, value.name);
    if (!number.ok())
      return number.status();
    numbers[value.name] = *number;
  }
  return Status::success();
}

static StatusOr<bool> isTrue(const std::optional<Expression> &condition,
                             const Numbers &numbers, std::string_view what) {
  if (!condition)
    return true;
  StatusOr<int64_t> number = condition->evaluate(numbers, what);
  if (!number.ok())
    return number.status();
  return *number != 0;
}

StatusOr<bool> HostProgram::launches(const KernelSpec &kernel,
                                     const Numbers &numbers) const {
  return isTrue(kernel.when, numbers,
                "what decides whether kernel '" + kernel.name + "' runs");
}

static Status isNegative(const std::string &what, const Expression &expression,
                         int64_t number) {
  return Status::error("expects " + what + " to be at least 0, but got '" +
                       expression.str() + "' = " + std::to_string(number));
}

StatusOr<int64_t> HostProgram::workspaceBytes(const Numbers &numbers) const {
  // What is allocated is rounded up.
  constexpr int64_t maxBytes = INT64_MAX - 4095;
  int64_t total = 0;
  for (const WorkspaceTerm &term : workspace) {
    StatusOr<bool> isNeeded = isTrue(term.when, numbers, "the workspace");
    if (!isNeeded.ok())
      return isNeeded.status();
    if (!*isNeeded)
      continue;
    StatusOr<int64_t> bytes = term.bytes.evaluate(numbers, "the workspace");
    if (!bytes.ok())
      return bytes.status();
    if (*bytes < 0)
      return isNegative("the workspace", term.bytes, *bytes);
    if (__builtin_add_overflow(total, *bytes, &total) || total > maxBytes)
      return Status::error("expects the workspace to be less than 2^63 bytes, "
                           "but got '" +
                           term.bytes.str() + "' = " + std::to_string(*bytes));
  }
  return total;
}

StatusOr<std::array<int64_t, 3>>
HostProgram::grid(const KernelSpec &kernel, Numbers numbers,
                  int64_t multiprocessors) const {
  std::string what = "the grid of kernel '" + kernel.name + "'";
  numbers[std::string(MultiprocessorsName)] = multiprocessors;
  std::array<int64_t, 3> result = {};
  for (size_t i = 0; i < 3; ++i) {
    StatusOr<int64_t> blocks = kernel.grid[i].evaluate(numbers, what);
    if (!blocks.ok())
      return blocks.status();
    if (*blocks < 0)
      return isNegative(what, kernel.grid[i], *blocks);
    result[i] = *blocks;
  }
  return result;
}
