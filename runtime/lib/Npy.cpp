//===- Npy.cpp - NumPy array files ----------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The .npy format: "\x93NUMPY", two version bytes, the length of the header,
// the header (a Python dict literal, padded so that data starts at a multiple
// of 64), then the elements. Versions 1 to 3 are read, version 1 is written.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Npy.h"
#include "flashcore/Runtime/FileUtils.h"

#include <charconv>
#include <cstring>

using namespace flashcore;

static constexpr std::string_view magic("\x93NUMPY", 6);

static std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

/// The text after 'key': in the header, or nullopt.
static std::optional<std::string_view> findValue(std::string_view header,
                                                 std::string_view key) {
  size_t at = header.find("'" + std::string(key) + "'");
  if (at == std::string_view::npos)
    return std::nullopt;
  at = header.find(':', at);
  if (at == std::string_view::npos)
    return std::nullopt;
  at = header.find_first_not_of(' ', at + 1);
  if (at == std::string_view::npos)
    return std::nullopt;
  return header.substr(at);
}

/// Reads "(1, 8, 512)"; false when malformed.
static bool parseShape(std::string_view text, std::vector<int64_t> &shape) {
  if (!text.starts_with('('))
    return false;
  size_t close = text.find(')');
  if (close == std::string_view::npos)
    return false;
  std::string_view body = text.substr(1, close - 1);
  while (true) {
    size_t start = body.find_first_not_of(" ,");
    if (start == std::string_view::npos)
      return true;
    body.remove_prefix(start);
    int64_t size = 0;
    auto [end, error] =
        std::from_chars(body.data(), body.data() + body.size(), size);
    if (error != std::errc() || size < 0)
      return false;
    shape.push_back(size);
    body.remove_prefix(static_cast<size_t>(end - body.data()));
  }
}

/// Reads the header's three keys into `array`.
static Status parseHeader(const std::string &file, std::string_view header,
                          NpyArray &array) {
  std::optional<std::string_view> descr = findValue(header, "descr");
  std::optional<std::string_view> order = findValue(header, "fortran_order");
  std::optional<std::string_view> shape = findValue(header, "shape");
  if (!descr || !order || !shape || !descr->starts_with('\'') ||
      !parseShape(*shape, array.shape))
    return Status::error(file +
                         ": expects a header with descr, fortran_order "
                         "and shape, but got '" +
                         std::string(header) + "'");
  array.descr = descr->substr(1, descr->find('\'', 1) - 1);
  if (array.descr != "<f2" && array.descr != "<f4" && array.descr != "<u2")
    return Status::error(file +
                         ": expects elements of type '<f2', '<f4' or "
                         "'<u2' (bits of bf16), but got '" +
                         array.descr + "'")
        .note("convert the array with .astype before saving it");
  if (!order->starts_with("False"))
    return Status::error(file +
                         ": expects an array in C order, but got Fortran order")
        .note("save numpy.ascontiguousarray(array)");
  return Status::success();
}

/// The bytes of the elements; false on overflow.
static bool dataBytes(const NpyArray &array, int64_t &bytes) {
  bytes = array.descr == "<f4" ? 4 : 2;
  for (int64_t size : array.shape)
    if (__builtin_mul_overflow(bytes, size, &bytes))
      return false;
  return true;
}

StatusOr<NpyArray> flashcore::readNpy(const std::filesystem::path &path) {
  StatusOr<std::string> contents = readFile(path);
  if (!contents.ok())
    return contents.status();
  std::string file = path.string();
  std::string_view rest = *contents;
  if (!rest.starts_with(magic) || rest.size() < 10)
    return Status::error(file + ": expects a .npy file, but the first bytes "
                                "are not those of one");
  unsigned version = static_cast<unsigned char>(rest[6]);
  size_t lengthBytes = version == 1 ? 2 : 4;
  if (version < 1 || version > 3)
    return Status::error(file + ": expects .npy version 1 to 3, but got " +
                         std::to_string(version));
  uint32_t length = 0;
  if (rest.size() >= 8 + lengthBytes)
    std::memcpy(&length, rest.data() + 8, lengthBytes);
  if (rest.size() < 8 + lengthBytes + length)
    return Status::error(file + ": expects a header of " +
                         std::to_string(length) +
                         " bytes, but the file ends before its end");
  NpyArray array;
  if (Status status =
          parseHeader(file, rest.substr(8 + lengthBytes, length), array);
      !status.ok())
    return status;
  rest.remove_prefix(8 + lengthBytes + length);
  int64_t bytes = 0;
  if (!dataBytes(array, bytes) || static_cast<int64_t>(rest.size()) != bytes)
    return Status::error(file + ": expects " + std::to_string(bytes) +
                         " bytes for shape " + shapeText(array.shape) +
                         ", but got " + std::to_string(rest.size()))
        .note("the file is truncated or damaged");
  array.data = rest;
  return array;
}

Status flashcore::writeNpy(const std::filesystem::path &path,
                           const NpyArray &array) {
  std::string header =
      "{'descr': '" + array.descr +
      "', 'fortran_order': False, 'shape': " + shapeText(array.shape) + ", }";
  constexpr size_t prefix = 10; // magic, version, length
  size_t total = (prefix + header.size() + 1 + 63) / 64 * 64;
  header.append(total - prefix - header.size() - 1, ' ');
  header += '\n';
  std::string contents(magic);
  contents += {'\x01', '\x00', static_cast<char>(header.size() & 0xff),
               static_cast<char>(header.size() >> 8)};
  return writeFile(path, contents + header + array.data);
}

static std::string_view descrOf(DType dtype) {
  switch (dtype) {
  case DType::F16:
    return "<f2";
  case DType::BF16:
    return "<u2";
  case DType::F32:
    return "<f4";
  }
  return "?";
}

Status flashcore::readTensor(const std::filesystem::path &path,
                             HostTensor &tensor) {
  StatusOr<NpyArray> array = readNpy(path);
  if (!array.ok())
    return array.status();
  const TensorGeometry &geometry = tensor.geometry();
  std::string_view descr = descrOf(geometry.dtype);
  if (array->descr != descr)
    return Status::error(path.string() + ": expects elements of type '" +
                         std::string(descr) + "' for '" + geometry.name +
                         "' of " + std::string(stringify(geometry.dtype)) +
                         ", but got '" + array->descr + "'");
  if (array->shape != geometry.sizes)
    return Status::error(path.string() + ": expects shape " +
                         shapeText(geometry.sizes) + " for '" + geometry.name +
                         "', but got " + shapeText(array->shape));
  int64_t size = byteSize(geometry.dtype);
  tensor.forEach([&](int64_t index, int64_t position) {
    uint32_t bits = 0; // the host is little endian, as the file
    std::memcpy(&bits, array->data.data() + index * size,
                static_cast<size_t>(size));
    tensor.storeBits(position, bits);
  });
  return Status::success();
}

Status flashcore::writeTensor(const std::filesystem::path &path,
                              const HostTensor &tensor) {
  const TensorGeometry &geometry = tensor.geometry();
  NpyArray array;
  array.descr = descrOf(geometry.dtype);
  array.shape = geometry.sizes;
  int64_t size = byteSize(geometry.dtype);
  array.data.resize(static_cast<size_t>(tensor.numElements() * size));
  tensor.forEach([&](int64_t index, int64_t position) {
    uint32_t bits = tensor.bits(position);
    std::memcpy(array.data.data() + index * size, &bits,
                static_cast<size_t>(size));
  });
  return writeNpy(path, array);
}
