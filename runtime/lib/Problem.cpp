//===- Problem.cpp - One call of a compiled attention ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fixes sizes first, then the layout of each tensor, then the workspace. Every
// product is checked for overflow: sizes come from users.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Problem.h"

#include "ops/Op.h"

#include <algorithm>
#include <cassert>
#include <numeric>

using namespace flashcore;

std::string_view flashcore::stringify(Layout layout) {
  return layout == Layout::BHSD ? "bhsd" : "bshd";
}

static std::string str(const std::vector<int64_t> &values) {
  std::string result = "[";
  for (size_t i = 0; i < values.size(); ++i)
    result += (i ? ", " : "") + std::to_string(values[i]);
  return result + "]";
}

/// The axes from the outermost in memory to the innermost.
static std::vector<size_t> memoryOrder(const std::vector<std::string> &axes,
                                       Layout layout) {
  std::vector<size_t> order(axes.size());
  std::iota(order.begin(), order.end(), size_t(0));
  // The layout is that of q, k, v and o; lse and a bias stay as they are.
  bool hasHeadDim = std::any_of(axes.begin(), axes.end(), [](auto &axis) {
    return axis.starts_with("head_dim");
  });
  auto heads = std::find_if(axes.begin(), axes.end(), [](auto &axis) {
    return axis.starts_with("heads");
  });
  // Rows stand behind heads, whatever a program calls their number.
  auto axis = static_cast<size_t>(heads - axes.begin());
  if (layout == Layout::BSHD && hasHeadDim && axis + 1 < axes.size())
    std::swap(order[axis], order[axis + 1]);
  return order;
}

/// Strides in the order of `layout`: those the bundle fixes, and for the others
/// the smallest that leave room for all axes inside. Saturates on overflow,
/// which computeSpan reports.
static std::vector<int64_t> packedStrides(const TensorGeometry &tensor,
                                          const TensorSpec &spec,
                                          Layout layout) {
  std::vector<int64_t> strides(tensor.axes.size());
  std::vector<size_t> order = memoryOrder(tensor.axes, layout);
  int64_t step = 1;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    strides[*it] = spec.strides[*it].value_or(step);
    int64_t reach = 0;
    if (__builtin_mul_overflow(strides[*it],
                               std::max<int64_t>(tensor.sizes[*it], 1), &reach))
      reach = INT64_MAX;
    step = std::max(step, reach);
  }
  return strides;
}

static Status tooLarge(const TensorGeometry &tensor) {
  return Status::error("expects '" + tensor.name +
                       "' to span less than 2^63 bytes, but got sizes " +
                       str(tensor.sizes) + " and strides " +
                       str(tensor.strides));
}

/// Computes `span`. No stride is negative.
static Status computeSpan(TensorGeometry &tensor) {
  bool isEmpty = std::count(tensor.sizes.begin(), tensor.sizes.end(), 0);
  int64_t last = tensor.offset, bytes = 0, elements = 4;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    int64_t extent = 0, size = std::max<int64_t>(tensor.sizes[i], 1);
    // A stride of 0 keeps the span short, so the elements are counted as well,
    // and even of an empty tensor, whose other sizes are multiplied elsewhere.
    if (__builtin_mul_overflow(elements, size, &elements))
      return tooLarge(tensor);
    if (!isEmpty &&
        (__builtin_mul_overflow(size - 1, tensor.strides[i], &extent) ||
         __builtin_add_overflow(last, extent, &last)))
      return tooLarge(tensor);
  }
  // 4096 leaves room for guards around the tensor.
  if (__builtin_add_overflow(last, int64_t(4096), &bytes) ||
      __builtin_mul_overflow(bytes, byteSize(tensor.dtype), &bytes))
    return tooLarge(tensor);
  tensor.span = isEmpty ? tensor.offset : last + 1;
  return Status::success();
}

/// Two elements of an output must not share memory.
static Status checkNoOverlap(const TensorGeometry &tensor) {
  std::vector<size_t> order(tensor.axes.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return tensor.strides[a] < tensor.strides[b];
  });
  int64_t covered = 1; // elements that the axes so far reach
  for (size_t axis : order) {
    if (tensor.sizes[axis] <= 1)
      continue;
    if (tensor.strides[axis] < covered)
      return Status::error("expects the stride of axis " +
                           std::to_string(axis) + " (" + tensor.axes[axis] +
                           ") of '" + tensor.name + "' to be at least " +
                           std::to_string(covered) + ", but got " +
                           std::to_string(tensor.strides[axis]))
          .note(tensor.role == TensorSpec::Role::Output
                    ? "elements of an output must not overlap"
                    : "rows are appended to it: elements must not overlap");
    covered += (tensor.sizes[axis] - 1) * tensor.strides[axis];
  }
  return Status::success();
}

static std::string expectsStride(const TensorGeometry &tensor, size_t axis) {
  return "expects the stride of axis " + std::to_string(axis) + " (" +
         tensor.axes[axis] + ") of '" + tensor.name + "' ";
}

static Status checkNotNegative(const TensorGeometry &tensor) {
  if (tensor.offset < 0)
    return Status::error("expects the offset of '" + tensor.name +
                         "' to be at least 0, but got " +
                         std::to_string(tensor.offset));
  for (size_t i = 0; i < tensor.strides.size(); ++i)
    if (tensor.strides[i] < 0)
      return Status::error(expectsStride(tensor, i) +
                           "to be at least 0, but got " +
                           std::to_string(tensor.strides[i]));
  return Status::success();
}

static Status checkAlignment(const TensorGeometry &tensor) {
  int64_t elementBytes = byteSize(tensor.dtype);
  if (tensor.offset * elementBytes % tensor.alignment)
    return Status::error("expects the offset of '" + tensor.name +
                         "' to be a multiple of " +
                         std::to_string(tensor.alignment / elementBytes) +
                         " elements, but got " + std::to_string(tensor.offset))
        .note("the kernels read it at addresses aligned to " +
              std::to_string(tensor.alignment) + " bytes");
  for (size_t i = 0; i < tensor.strides.size(); ++i) {
    int64_t stride = tensor.strides[i];
    // Every row is to start at an aligned address.
    bool isInnermost = i + 1 == tensor.strides.size();
    if (!isInnermost && stride % (tensor.alignment / elementBytes))
      return Status::error(expectsStride(tensor, i) + "to be a multiple of " +
                           std::to_string(tensor.alignment / elementBytes) +
                           " elements, but got " + std::to_string(stride))
          .note("rows are copied " + std::to_string(tensor.alignment) +
                " bytes at a time: pad the rows, or copy the tensor to a "
                "padded one");
  }
  return Status::success();
}

StatusOr<Problem> Problem::create(const Bundle &bundle,
                                  const ProblemRequest &request) {
  Problem problem(bundle);
  if (Status status = problem.resolveDims(request); !status.ok())
    return status;
  for (const auto &[name, layout] : request.tensors)
    if (!bundle.findTensor(name))
      return Status::error("expects a layout for a tensor of the bundle, but "
                           "got one for '" +
                           name + "'");
  for (const TensorSpec &spec : bundle.tensors)
    if (Status status = problem.resolveTensor(spec, request); !status.ok())
      return status;
  if (Status status = bundle.addValues(problem.numbers); !status.ok())
    return status;
  StatusOr<int64_t> workspace = bundle.workspaceBytes(problem.numbers);
  if (!workspace.ok())
    return workspace.status();
  problem.workspaceSize = *workspace;
  if (Status status = problem.resolveIntermediates(); !status.ok())
    return status;
  for (const ViewSpec &view : bundle.views)
    if (Status status = problem.resolveView(view); !status.ok())
      return status;
  for (const ProgramPart &part : bundle.parts)
    if (Status status = problem.resolvePart(part); !status.ok())
      return status.note("it is " + bundle.nameOfPart(problem.ofParts.size()));
  if (Status status = problem.resolveLaunches(); !status.ok())
    return status;
  return problem;
}

/// They lie behind all else that kernels have in the workspace.
Status Problem::resolveIntermediates() {
  constexpr int64_t alignment = 16;
  auto align = [&](int64_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  };
  for (const TensorSpec &spec : source->intermediates) {
    TensorGeometry tensor = geometryOf(spec);
    tensor.strides = packedStrides(tensor, spec, Layout::BHSD);
    if (Status status = computeSpan(tensor); !status.ok())
      return status;
    if (Status status = checkAlignment(tensor); !status.ok())
      return status;
    places.push_back({WorkspaceName, align(workspaceSize)});
    if (__builtin_add_overflow(places.back().bytes, tensor.spanBytes(),
                               &workspaceSize) ||
        workspaceSize > INT64_MAX - alignment)
      return tooLarge(tensor);
    derived.push_back(std::move(tensor));
  }
  return Status::success();
}

/// A view lies in its base and has the strides that kernels were made for.
Status Problem::resolveView(const ViewSpec &spec) {
  const TensorGeometry &base = *findTensor(spec.base);
  TensorGeometry tensor = geometryOf(spec);
  tensor.offset = base.offset;
  size_t next = 0;
  for (size_t axis = 0; axis < base.sizes.size(); ++axis) {
    bool isKept = next < spec.baseAxes.size() && spec.baseAxes[next] == axis;
    int64_t size = isKept ? tensor.sizes[next] : 1;
    if (spec.begin[axis] > base.sizes[axis] - size)
      return Status::error("expects axis " + std::to_string(axis) + " (" +
                           base.axes[axis] + ") of '" + base.name +
                           "' to have at least " +
                           std::to_string(spec.begin[axis] + size) +
                           " elements, but got " +
                           std::to_string(base.sizes[axis]))
          .note("the program works on a part of it");
    tensor.offset += spec.begin[axis] * base.strides[axis];
    if (isKept) {
      tensor.strides.push_back(base.strides[axis]);
      ++next;
    }
  }
  for (size_t i = 0; i < spec.strides.size(); ++i)
    if (spec.strides[i] && tensor.sizes[i] > 1 &&
        *spec.strides[i] != tensor.strides[i])
      return Status::error(expectsStride(tensor, i) + "to be " +
                           std::to_string(*spec.strides[i]) +
                           ", the bundle was compiled for it, but got " +
                           std::to_string(tensor.strides[i]));
  if (spec.offset && *spec.offset != tensor.offset)
    return Status::error("expects the offset of '" + tensor.name + "' to be " +
                         std::to_string(*spec.offset) +
                         ", the bundle was compiled for it, but got " +
                         std::to_string(tensor.offset));
  if (Status status = computeSpan(tensor); !status.ok())
    return status;
  if (Status status = checkAlignment(tensor); !status.ok())
    return status;
  places.push_back(locate(spec.base));
  derived.push_back(std::move(tensor));
  return Status::success();
}

/// Its sizes must be ones that its op takes.
Status Problem::resolvePart(const ProgramPart &part) {
  ProblemRequest request;
  for (const auto &[own, name] : part.sizes)
    request.dims[own] = dim(name);
  for (const auto &[own, name] : part.tensors) {
    const TensorGeometry &tensor = *findTensor(name);
    request.tensors[own] = {tensor.strides, tensor.offset};
  }
  StatusOr<Problem> problem = create(*part.bundle, request);
  if (!problem.ok())
    return problem.status();
  ofParts.push_back(std::move(*problem));
  return Status::success();
}

Problem::Place Problem::locate(std::string_view tensor) const {
  for (size_t i = 0; i < derived.size(); ++i)
    if (derived[i].name == tensor)
      return places[i];
  const TensorSpec *given = source->findTensor(tensor);
  return {given ? std::string_view(given->name) : tensor, 0};
}

/// Which kernels run, and that their grids can be told: a launch would only say
/// it later.
Status Problem::resolveLaunches() {
  for (const KernelSpec &kernel : source->kernels) {
    StatusOr<bool> isLaunched = source->launches(kernel, numbers);
    if (!isLaunched.ok())
      return isLaunched.status();
    launched.push_back(*isLaunched);
    if (!*isLaunched)
      continue;
    if (auto blocks = grid(kernel, UnknownMultiprocessors); !blocks.ok())
      return blocks.status();
  }
  if (source->kernels.empty() || // an op of a program
      std::find(launched.begin(), launched.end(), true) != launched.end())
    return Status::success();
  std::string conditions;
  for (const KernelSpec &kernel : source->kernels)
    conditions +=
        (conditions.empty() ? "'" : " or '") + kernel.when->str() + "'";
  return Status::error("expects sizes that the bundle has a kernel for (" +
                       conditions + "), but got " + str());
}

Status Problem::resolveDims(const ProblemRequest &request) {
  const auto &known = source->sizes;
  const Op &op = findOp(*source);
  for (const auto &[name, size] : request.dims)
    if (!known.contains(name))
      return Status::error("expects a size that the bundle has, but got '" +
                           name + "'");
  for (const auto &[name, compiled] : known) {
    auto chosen = request.dims.find(name);
    if (chosen == request.dims.end()) {
      // They follow from others.
      if (!compiled && op.isDerived(*source, name))
        continue;
      if (!compiled)
        return Status::error("expects a value for " + name + ", but got none")
            .note("the bundle was compiled for any " + name +
                  ": choose one for this run");
      numbers[name] = *compiled;
      continue;
    }
    if (compiled && *compiled != chosen->second)
      return Status::error("expects " + name + " " + std::to_string(*compiled) +
                           ", the bundle was compiled for it, but got " +
                           std::to_string(chosen->second) +
                           ": recompile with a dynamic " + name);
    if (chosen->second < 0)
      return Status::error("expects " + name + " to be at least 0, but got " +
                           std::to_string(chosen->second));
    numbers[name] = chosen->second;
  }
  return op.resolveSizes(*source, numbers);
}

/// All but where its elements lie.
TensorGeometry Problem::geometryOf(const TensorSpec &spec) const {
  TensorGeometry tensor;
  tensor.name = spec.name;
  tensor.role = spec.role;
  tensor.dtype = spec.dtype;
  tensor.axes = spec.axes;
  tensor.alignment = spec.alignment;
  for (const std::string &axis : spec.axes)
    tensor.sizes.push_back(axis == BroadcastAxis ? 1 : dim(axis));
  return tensor;
}

Status Problem::resolveTensor(const TensorSpec &spec,
                              const ProblemRequest &request) {
  TensorGeometry tensor = geometryOf(spec);
  auto chosen = request.tensors.find(spec.name);
  bool isChosen = chosen != request.tensors.end();
  if (isChosen && chosen->second.strides.size() != spec.axes.size())
    return Status::error("expects " + std::to_string(spec.axes.size()) +
                         " strides for '" + spec.name + "', but got " +
                         std::to_string(chosen->second.strides.size()));
  tensor.strides = isChosen ? chosen->second.strides
                            : packedStrides(tensor, spec, request.layout);
  tensor.offset = isChosen ? chosen->second.offset : request.offset;

  for (size_t i = 0; i < spec.strides.size(); ++i) {
    if (!spec.strides[i])
      continue;
    if (isChosen && tensor.strides[i] != *spec.strides[i])
      return Status::error("expects the stride of axis " + std::to_string(i) +
                           " (" + spec.axes[i] + ") of '" + spec.name +
                           "' to be " + std::to_string(*spec.strides[i]) +
                           ", the bundle was compiled for it, but got " +
                           std::to_string(tensor.strides[i]) +
                           ": recompile with a dynamic stride");
    tensor.strides[i] = *spec.strides[i];
  }
  if (spec.offset && isChosen && tensor.offset != *spec.offset)
    return Status::error("expects the offset of '" + spec.name + "' to be " +
                         std::to_string(*spec.offset) +
                         ", the bundle was compiled for it, but got " +
                         std::to_string(tensor.offset) +
                         ": recompile with a dynamic offset");
  if (spec.offset)
    tensor.offset = *spec.offset;

  if (Status status = checkNotNegative(tensor); !status.ok())
    return status;
  if (Status status = computeSpan(tensor); !status.ok())
    return status;
  if (Status status = checkAlignment(tensor); !status.ok())
    return status;
  if (tensor.role != TensorSpec::Role::Input)
    if (Status status = checkNoOverlap(tensor); !status.ok())
      return status;
  geometries.push_back(std::move(tensor));
  return Status::success();
}

int64_t Problem::dim(std::string_view name) const {
  auto it = numbers.find(name);
  assert(it != numbers.end() && "neither a size nor a value of the bundle");
  return it->second;
}

int64_t Problem::seqlenK() const {
  return source->isPaged() ? dim(PageSizeDim) * dim(PagesPerSequenceDim)
                           : dim("seqlen_k");
}

const TensorGeometry *Problem::findTensor(std::string_view name) const {
  for (const auto *tensors : {&geometries, &derived})
    for (const TensorGeometry &tensor : *tensors)
      if (tensor.name == name)
        return &tensor;
  return nullptr;
}

/// The shortest text that reads as the same f32, in every locale.
std::string Problem::str() const { return findOp(*source).describe(*this); }
