//===- Npy.cpp - NumPy array files ----------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Npy.h. The header is a Python dictionary with three known keys.
//
//===----------------------------------------------------------------------===//

#include "Npy.h"
#include "../../../../tools/OutputFile.h"
#include "flashcore/Emulator/OptionText.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

using namespace flashcore;
using namespace flashcore::emu;

/// Bytes of the array; false if that is more than any file holds.
static bool sizeOf(const std::vector<uint64_t> &shape, uint64_t elementBytes,
                   uint64_t &bytes) {
  bytes = elementBytes;
  for (uint64_t extent : shape) {
    if (extent && bytes > UINT64_MAX / extent)
      return false;
    bytes *= extent;
  }
  return true;
}

static Error bad(const std::string &path, const std::string &why) {
  return {{}, "cannot read '" + path + "': " + why};
}

/// The text after `'key':` in the header.
static std::string valueOf(const std::string &header, const char *key) {
  size_t at = header.find(std::string("'") + key + "'");
  at = at == std::string::npos ? at : header.find(':', at);
  return at == std::string::npos ? std::string() : header.substr(at + 1);
}

namespace {
/// What the header of a file says.
struct NpyHeader {
  std::string type;
  std::vector<uint64_t> shape;
  uint64_t bytes = 0;
};
} // namespace

/// Up to `count` bytes; memory grows with what there is to read, not with what
/// a file claims.
static std::string readBytes(std::istream &in, uint64_t count) {
  constexpr uint64_t step = 1 << 20;
  std::string text;
  while (text.size() < count && in) {
    size_t before = text.size();
    size_t more = static_cast<size_t>(std::min(step, count - before));
    text.resize(before + more);
    in.read(text.data() + before, static_cast<std::streamsize>(more));
    text.resize(before + static_cast<size_t>(in.gcount()));
  }
  return text;
}

/// The numbers of "8, 512, 64"; false at what is none, or does not fit.
static bool parseShape(std::string_view text, std::vector<uint64_t> &shape) {
  while (true) {
    size_t start = text.find_first_not_of(" ,");
    if (start == std::string_view::npos)
      return true;
    text.remove_prefix(start);
    size_t length = std::min(text.find_first_of(" ,"), text.size());
    uint64_t extent = 0;
    auto [last, error] =
        std::from_chars(text.data(), text.data() + length, extent);
    if (error != std::errc() || last != text.data() + length)
      return false;
    shape.push_back(extent);
    text.remove_prefix(length);
  }
}

/// An empty error, or what is wrong.
static std::string parseHeader(const std::string &header, NpyHeader &out) {
  constexpr const char *malformed = "its header is malformed";
  if (valueOf(header, "fortran_order").find("True") < 3)
    return "expects C order, but got Fortran order";
  std::string type = valueOf(header, "descr");
  size_t open = type.find('\''), close = type.find('\'', open + 1);
  std::string shape = valueOf(header, "shape");
  size_t left = shape.find('('), right = shape.find(')');
  if (close == std::string::npos || left == std::string::npos ||
      right == std::string::npos || right < left)
    return malformed;
  out.type = type.substr(open + 1, close - open - 1);
  // "<f2": byte order, kind, bytes.
  uint64_t elementBytes = 0;
  if (out.type.size() < 3 ||
      !parseNumber(std::string_view(out.type).substr(2), elementBytes) ||
      !parseShape(std::string_view(shape).substr(left + 1, right - left - 1),
                  out.shape) ||
      !sizeOf(out.shape, elementBytes, out.bytes))
    return malformed;
  return {};
}

Expected<NpyArray> flashcore::emu::readNpy(const std::string &path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return bad(path, "it is a folder");
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return bad(path, std::strerror(errno));
  std::string start = readBytes(in, 10);
  if (start.size() < 10 || !start.starts_with("\x93NUMPY"))
    return bad(path, "it is no .npy file");
  auto byte = [&](size_t i) {
    return static_cast<size_t>(static_cast<uint8_t>(start[i]));
  };
  size_t length = byte(8) | byte(9) << 8;
  if (byte(6) != 1) {
    start += readBytes(in, 2);
    if (start.size() < 12)
      return bad(path, "its header is cut off");
    length |= byte(10) << 16 | byte(11) << 24;
  }
  std::string text = readBytes(in, length);
  if (text.size() < length)
    return bad(path, "its header is cut off");
  NpyHeader header;
  std::string why = parseHeader(text, header);
  if (!why.empty())
    return bad(path, why);
  std::string data = readBytes(in, header.bytes);
  bool hasMore = in.peek() != std::ifstream::traits_type::eof();
  if (data.size() < header.bytes || hasMore)
    return bad(path, "expects " + std::to_string(header.bytes) +
                         " bytes of data, but got " +
                         (hasMore ? "more" : std::to_string(data.size())));
  NpyArray array;
  array.type = std::move(header.type);
  array.shape = std::move(header.shape);
  array.data.assign(data.begin(), data.end());
  return array;
}

std::string flashcore::emu::writeNpy(const std::string &path,
                                     const NpyArray &array) {
  std::string header =
      "{'descr': '" + array.type + "', 'fortran_order': False, 'shape': (";
  for (uint64_t extent : array.shape)
    header += std::to_string(extent) + ",";
  header += "), }";
  while ((10 + header.size() + 1) % 64)
    header += ' ';
  header += '\n';
  std::string start("\x93NUMPY\x01\x00", 8);
  start += static_cast<char>(header.size() & 0xff);
  start += static_cast<char>(header.size() >> 8);
  start += header;
  OutputFile file(path);
  file.write(start);
  file.write(
      {reinterpret_cast<const char *>(array.data.data()), array.data.size()});
  int error = file.commit();
  return error ? "cannot write '" + path + "': " + std::strerror(error) : "";
}
