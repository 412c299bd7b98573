//===- Npy.cpp - NumPy array files ----------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Npy.h; what stands before the data is read and written in NpyHeader.h.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Npy.h"
#include "../../tools/NpyHeader.h"
#include "flashcore/Runtime/FileUtils.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

using namespace flashcore;

namespace {
/// An element type of a file. Bits that are integers are not converted.
struct FileType {
  std::string_view descr;
  /// As users call it.
  std::string_view name;
  int64_t bytes;
};
} // namespace

static constexpr FileType fileTypes[] = {
    {"<f2", "f16", 2}, {"<f4", "f32", 4},  {"<f8", "f64", 8},
    {"<i4", "i32", 4}, {"<V2", "bf16", 2}, {"<u2", "u16", 2},
    {"|i1", "i8", 1},  {"|u1", "u8", 1},   {"|b1", "bool", 1}};

static constexpr const FileType *findType(std::string_view descr) {
  const auto *found =
      std::find_if(std::begin(fileTypes), std::end(fileTypes),
                   [&](const FileType &type) { return type.descr == descr; });
  return found == std::end(fileTypes) ? nullptr : found;
}
static_assert(std::all_of(DTypes.begin(), DTypes.end(),
                          [](const DTypeInfo &info) {
                            return findType(info.npyDescr) != nullptr;
                          }),
              "what is written can be read");

/// Takes over what the header of `file` says, if its elements are known.
static Status takeHeader(const std::string &file, NpyHeader header,
                         NpyArray &array) {
  array.descr = std::move(header.descr);
  array.shape = std::move(header.shape);
  if (array.descr == "|V2" || array.descr == "bfloat16")
    array.descr = "<V2";
  if (!findType(array.descr))
    return Status::error(file +
                         ": expects elements of type '<f2', '<f4', '<f8', "
                         "'<i4', '|i1', '|u1', '|b1', or bf16 as '<V2' or "
                         "'<u2', but got '" +
                         array.descr + "'")
        .note("convert the array with .astype before saving it");
  return Status::success();
}

/// Walks the packed order of `shape` and calls `visit` with the position of
/// each element under `strides`.
template <typename Visitor>
static void walk(const std::vector<int64_t> &shape,
                 const std::vector<int64_t> &strides, Visitor &&visit) {
  if (std::count(shape.begin(), shape.end(), 0))
    return;
  std::vector<int64_t> at(shape.size());
  int64_t position = 0;
  while (true) {
    visit(position);
    size_t axis = shape.size();
    for (; axis > 0; --axis) {
      position += strides[axis - 1];
      if (++at[axis - 1] < shape[axis - 1])
        break;
      position -= strides[axis - 1] * shape[axis - 1];
      at[axis - 1] = 0;
    }
    if (axis == 0)
      return;
  }
}

/// From the first axis as the innermost to the last one.
static void reverseOrder(NpyArray &array) {
  size_t bytes = static_cast<size_t>(findType(array.descr)->bytes);
  std::vector<int64_t> strides;
  int64_t step = 1;
  for (int64_t size : array.shape) {
    strides.push_back(step);
    step *= size;
  }
  std::string data;
  data.reserve(array.data.size());
  walk(array.shape, strides, [&](int64_t position) {
    data.append(array.data, static_cast<size_t>(position) * bytes, bytes);
  });
  array.data = std::move(data);
}

static Status cannotAllocate(const std::string &file, int64_t bytes) {
  return Status::error(file + ": cannot allocate " + std::to_string(bytes) +
                       " bytes of host memory for its elements");
}

StatusOr<NpyArray> flashcore::readNpy(const std::filesystem::path &path) {
  StatusOr<std::string> contents = readFile(path);
  if (!contents.ok())
    return contents.status();
  std::string file = path.string();
  std::string_view rest = *contents;
  auto next = [&](size_t count) {
    std::string_view bytes = rest.substr(0, count);
    rest.remove_prefix(bytes.size());
    return bytes;
  };
  NpyHeader header;
  if (std::string why = readNpyHeader(next, header); !why.empty())
    return Status::error(file + ": " + why);
  const bool isFortran = header.isFortran;
  NpyArray array;
  if (Status status = takeHeader(file, std::move(header), array); !status.ok())
    return status;
  std::optional<int64_t> bytes =
      npyBytes(array.shape, findType(array.descr)->bytes);
  if (!bytes)
    return Status::error(file +
                         ": expects less than 2^63 bytes, but got shape " +
                         npyShape(array.shape))
        .note("the file is truncated or damaged");
  if (static_cast<int64_t>(rest.size()) != *bytes)
    return Status::error(file + ": expects " + std::to_string(*bytes) +
                         " bytes for shape " + npyShape(array.shape) +
                         ", but got " + std::to_string(rest.size()))
        .note("the file is truncated or damaged");
  contents->erase(0, contents->size() - rest.size());
  array.data = std::move(*contents);
  try {
    if (isFortran)
      reverseOrder(array);
  } catch (const std::bad_alloc &) {
    return cannotAllocate(file, *bytes);
  }
  return array;
}

Status flashcore::writeNpy(const std::filesystem::path &path,
                           const NpyArray &array) {
  std::string contents = formatNpyHeader(array.descr, array.shape);
  try {
    contents += array.data;
  } catch (const std::exception &) { // bad_alloc or length_error
    return cannotAllocate(path.string(),
                          static_cast<int64_t>(array.data.size()));
  }
  return writeFile(path, contents);
}

std::vector<size_t> flashcore::fileAxes(const std::vector<std::string> &axes,
                                        Layout layout) {
  std::vector<size_t> order(axes.size());
  for (size_t axis = 0; axis < axes.size(); ++axis)
    order[axis] = axis;
  bool isTransposed = layout == Layout::BSHD && axes.size() == 4 &&
                      axes[3].starts_with("head_dim");
  if (isTransposed)
    std::swap(order[1], order[2]);
  return order;
}

/// The positions in a packed array of `shape` for steps along the axes of a
/// tensor.
static std::vector<int64_t> stridesOfFile(const std::vector<int64_t> &shape,
                                          const std::vector<size_t> &fileAxes) {
  std::vector<int64_t> packed(shape.size(), 1), strides;
  for (size_t axis = shape.size(); axis-- > 1;)
    packed[axis - 1] = packed[axis] * shape[axis];
  for (size_t axis : fileAxes)
    strides.push_back(packed[axis]);
  return strides;
}

static std::vector<int64_t> shapeOfFile(const TensorGeometry &geometry,
                                        const std::vector<size_t> &fileAxes) {
  std::vector<int64_t> shape(geometry.sizes.size());
  for (size_t axis = 0; axis < shape.size(); ++axis)
    shape[fileAxes[axis]] = geometry.sizes[axis];
  return shape;
}

template <typename T> static T loadAs(const char *from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

static double loadElement(const FileType &type, const char *from) {
  for (const DTypeInfo &info : DTypes)
    if (type.name == info.name) {
      uint32_t bits = 0;
      std::memcpy(&bits, from, static_cast<size_t>(info.bytes));
      return info.load(bits);
    }
  if (type.bytes == 1)
    return loadAs<uint8_t>(from);
  return loadAs<double>(from);
}

namespace {
/// Reads elements of a file as those of a tensor.
class Converter {
public:
  Converter(const FileType &type, DType to) : type(type), to(infoOf(to)) {}

  uint32_t convert(const char *from) {
    double value = loadElement(type, from);
    uint32_t bits = to.round(value);
    overflows += std::isfinite(value) && to.magnitude(bits) == to.infinity;
    return bits;
  }

  std::string message(const std::string &file) const {
    std::string text = file + ": converted from " + std::string(type.name) +
                       " to " + std::string(to.name);
    if (overflows)
      text += ", in which " + std::to_string(overflows) +
              (overflows == 1 ? " value is infinite" : " values are infinite");
    return text;
  }

private:
  const FileType &type;
  const DTypeInfo &to;
  int64_t overflows = 0;
};
} // namespace

/// Whether the bits of the file are those of the tensor.
static bool isSameType(const FileType &type, DType dtype) {
  bool isByte = dtype == DType::I8 && type.bytes == 1; // of whatever sign
  return isByte || type.name == stringify(dtype) ||
         type.descr == infoOf(dtype).npyDescr;
}

Status flashcore::verifyType(const NpyArray &array, const std::string &file,
                             std::string_view name, DType dtype,
                             const NpyOptions &options) {
  const FileType &type = *findType(array.descr);
  // Integers may be the bits of anything.
  bool canConvert = type.descr != "<u2";
  if (isSameType(type, dtype) || (options.convert && canConvert))
    return Status::success();
  Status status = Status::error(
      file + ": expects elements of " + std::string(stringify(dtype)) +
      " for '" + std::string(name) + "', but got " + std::string(type.name));
  if (canConvert)
    status.note("--convert rounds them to " + std::string(stringify(dtype)));
  return status;
}

StatusOr<std::string> flashcore::assignTensor(HostTensor &tensor,
                                              const NpyArray &array,
                                              const std::string &file,
                                              const NpyOptions &options) {
  const TensorGeometry &geometry = tensor.geometry();
  const FileType &type = *findType(array.descr);
  bool isSame = isSameType(type, geometry.dtype);
  if (Status status =
          verifyType(array, file, geometry.name, geometry.dtype, options);
      !status.ok())
    return status;
  std::vector<size_t> axes = fileAxes(geometry.axes, options.layout);
  std::vector<int64_t> shape = shapeOfFile(geometry, axes);
  if (array.shape != shape)
    return Status::error(file + ": expects shape " + npyShape(shape) +
                         " for '" + geometry.name + "', but got " +
                         npyShape(array.shape));
  if (tensor.numElements() == 0)
    return std::string();
  Converter converter(type, geometry.dtype);
  size_t bytes = static_cast<size_t>(byteSize(geometry.dtype));
  int64_t index = 0;
  walk(geometry.sizes, stridesOfFile(shape, axes), [&](int64_t position) {
    const char *from = array.data.data() + position * type.bytes;
    uint32_t bits = 0;
    if (isSame)
      std::memcpy(&bits, from, bytes);
    else
      bits = converter.convert(from);
    tensor.storeBits(tensor.position(index++), bits);
  });
  return isSame ? std::string() : converter.message(file);
}

Status flashcore::writeTensor(const std::filesystem::path &path,
                              const HostTensor &tensor,
                              const NpyOptions &options) {
  const TensorGeometry &geometry = tensor.geometry();
  std::vector<size_t> axes = fileAxes(geometry.axes, options.layout);
  NpyArray array;
  array.descr = infoOf(geometry.dtype).npyDescr;
  array.shape = shapeOfFile(geometry, axes);
  int64_t size = byteSize(geometry.dtype), index = 0;
  try {
    array.data.resize(static_cast<size_t>(tensor.numElements() * size));
  } catch (const std::exception &) { // bad_alloc or length_error
    return cannotAllocate(path.string(), tensor.numElements() * size);
  }
  if (array.data.empty())
    return writeNpy(path, array);
  walk(geometry.sizes, stridesOfFile(array.shape, axes), [&](int64_t position) {
    uint32_t bits = tensor.bits(tensor.position(index++));
    std::memcpy(array.data.data() + position * size, &bits,
                static_cast<size_t>(size));
  });
  return writeNpy(path, array);
}
