//===- Inputs.cpp - The .npy files of a run -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A size has one source: the bundle, an option, or the first file that has it.
// The others must agree with it.
//
//===----------------------------------------------------------------------===//

#include "Inputs.h"

#include <algorithm>

using namespace flashcore;
using namespace flashcore::run;

StatusOr<const NpyArray *> InputFiles::load(const std::filesystem::path &path) {
  auto found = arrays.find(path);
  if (found == arrays.end()) {
    StatusOr<NpyArray> array = readNpy(path);
    if (!array.ok())
      return array.status();
    found = arrays.emplace(path, std::move(*array)).first;
  }
  return &found->second;
}

/// "(batch, seqlen_q, heads_q, head_dim)": the axes of a file.
static std::string axesText(const TensorSpec &tensor,
                            const std::vector<size_t> &fileAxes) {
  std::vector<std::string> names(tensor.axes.size());
  for (size_t axis = 0; axis < names.size(); ++axis)
    names[fileAxes[axis]] = tensor.axes[axis];
  std::string text = "(";
  for (const std::string &name : names)
    text += (text.size() > 1 ? ", " : "") + name;
  return text + ")";
}

static std::string optionOf(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

namespace {
/// The sizes known so far, each with its source.
struct KnownSizes {
  explicit KnownSizes(const Bundle &bundle) : bundle(bundle) {}

  /// Compares the shape of one file, and learns from it.
  Status compare(const TensorSpec &tensor, const NpyArray &array,
                 const std::string &file, const NpyOptions &options,
                 std::map<std::string, int64_t, std::less<>> &dims);

  const Bundle &bundle;
  /// The file that a size came from.
  std::map<std::string, std::string, std::less<>> files;

private:
  Status compareAxis(const std::string &name, size_t axis, int64_t size,
                     const std::string &file,
                     std::map<std::string, int64_t, std::less<>> &dims);
};
} // namespace

Status
KnownSizes::compareAxis(const std::string &name, size_t axis, int64_t size,
                        const std::string &file,
                        std::map<std::string, int64_t, std::less<>> &dims) {
  auto expects = [&](int64_t expected, const std::string &why) {
    return Status::error(file + ": expects " + name + " " +
                         std::to_string(expected) + " on axis " +
                         std::to_string(axis) + why + ", but got " +
                         std::to_string(size));
  };
  if (name == BroadcastAxis)
    return size == 1
               ? Status::success()
               : Status::error(
                     file + ": expects size 1 on axis " + std::to_string(axis) +
                     ", which is broadcast, but got " + std::to_string(size));
  if (std::optional<int64_t> fixed = bundle.sizes.at(name))
    return *fixed == size
               ? Status::success()
               : expects(*fixed, ", for which the bundle was compiled");
  auto [known, isNew] = dims.try_emplace(name, size);
  if (isNew)
    files[name] = file;
  if (known->second == size)
    return Status::success();
  auto source = files.find(name);
  return expects(known->second, source == files.end()
                                    ? ", as " + optionOf(name) + " says"
                                    : ", as " + source->second + " has");
}

Status KnownSizes::compare(const TensorSpec &tensor, const NpyArray &array,
                           const std::string &file, const NpyOptions &options,
                           std::map<std::string, int64_t, std::less<>> &dims) {
  std::vector<size_t> axes = fileAxes(tensor.axes, options.layout);
  std::string axesNote =
      "the axes of '" + tensor.name + "' are " + axesText(tensor, axes);
  if (axes.size() != array.shape.size())
    return Status::error(file + ": expects " + std::to_string(axes.size()) +
                         " axes, but got " + std::to_string(array.shape.size()))
        .note(axesNote);
  for (size_t axis = 0; axis < axes.size(); ++axis)
    if (Status status = compareAxis(tensor.axes[axis], axes[axis],
                                    array.shape[axes[axis]], file, dims);
        !status.ok()) {
      bool isPlain = options.layout == Layout::BHSD &&
                     fileAxes(tensor.axes, Layout::BSHD) != axes;
      return status.note(axesNote +
                         (isPlain ? "; --npy-layout=bshd takes files with "
                                    "seqlen before heads"
                                  : ""));
    }
  return Status::success();
}

Status
InputFiles::takeSizes(const Bundle &bundle, const FileMap &files,
                      const NpyOptions &options,
                      std::map<std::string, int64_t, std::less<>> &dims) {
  KnownSizes known(bundle);
  for (const auto &[name, path] : files) {
    const TensorSpec *tensor = bundle.findTensor(name);
    if (!tensor)
      return Status::error("expects a bundle with the input '" + name +
                           "' to read " + path.string() +
                           " into, but got one without");
    StatusOr<const NpyArray *> array = load(path);
    if (!array.ok())
      return array.status();
    if (Status status =
            verifyType(**array, path.string(), name, tensor->dtype, options);
        !status.ok())
      return status;
    if (Status status =
            known.compare(*tensor, **array, path.string(), options, dims);
        !status.ok())
      return status;
  }
  return Status::success();
}

Status InputFiles::read(const FileMap &files, const NpyOptions &options,
                        TensorSet &set, std::vector<std::string> &notes) {
  for (const auto &[name, path] : files) {
    StatusOr<const NpyArray *> array = load(path);
    if (!array.ok())
      return array.status();
    StatusOr<std::string> message =
        assignTensor(set.tensor(name), **array, path.string(), options);
    if (!message.ok())
      return message.status();
    bool isNew = std::find(notes.begin(), notes.end(), *message) == notes.end();
    if (!message->empty() && isNew)
      notes.push_back(*message);
  }
  return Status::success();
}
