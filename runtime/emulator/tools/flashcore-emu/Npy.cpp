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

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

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

Expected<NpyArray> flashcore::emu::readNpy(const std::string &path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return bad(path, "it is a folder");
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return bad(path, std::strerror(errno));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  if (text.size() < 12 || text.compare(0, 6, "\x93NUMPY") != 0)
    return bad(path, "it is no .npy file");
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  bool isV1 = byte(6) == 1;
  size_t length = byte(8) | byte(9) << 8;
  if (!isV1)
    length |= size_t(byte(10)) << 16 | size_t(byte(11)) << 24;
  size_t start = isV1 ? 10 : 12;
  if (start + length > text.size())
    return bad(path, "its header is cut off");
  std::string header = text.substr(start, length);
  if (valueOf(header, "fortran_order").find("True") < 3)
    return bad(path, "expects C order, but got Fortran order");

  NpyArray array;
  std::string type = valueOf(header, "descr");
  size_t open = type.find('\''), close = type.find('\'', open + 1);
  std::string shape = valueOf(header, "shape");
  size_t left = shape.find('('), right = shape.find(')');
  if (close == std::string::npos || left == std::string::npos ||
      right == std::string::npos)
    return bad(path, "its header is malformed");
  array.type = type.substr(open + 1, close - open - 1);
  for (const char *p = shape.c_str() + left + 1; *p && *p != ')';) {
    char *end = nullptr;
    uint64_t extent = std::strtoull(p, &end, 10);
    if (end != p)
      array.shape.push_back(extent);
    p = end == p ? p + 1 : end;
  }
  // "<f2": byte order, kind, bytes.
  uint64_t bytes = 0;
  if (array.type.size() < 3 ||
      !sizeOf(array.shape, std::strtoull(array.type.c_str() + 2, nullptr, 10),
              bytes))
    return bad(path, "its header is malformed");
  if (bytes != text.size() - start - length)
    return bad(path, "expects " + std::to_string(bytes) +
                         " bytes of data, but got " +
                         std::to_string(text.size() - start - length));
  array.data.assign(text.begin() + static_cast<ptrdiff_t>(start + length),
                    text.end());
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
  // Written beside the file and then renamed: there is never half a file.
  auto failure = [&](const std::string &why) {
    return "cannot write '" + path + "': " + why;
  };
  std::error_code error;
  if (std::filesystem::exists(path, error) &&
      !std::filesystem::is_regular_file(path, error))
    return failure("it is no regular file");
  std::string partial = path + ".partial";
  std::ofstream out(partial, std::ios::binary);
  if (!out)
    return failure(std::strerror(errno));
  out.write("\x93NUMPY\x01\x00", 8);
  out.put(static_cast<char>(header.size() & 0xff));
  out.put(static_cast<char>(header.size() >> 8));
  out << header;
  out.write(reinterpret_cast<const char *>(array.data.data()),
            static_cast<std::streamsize>(array.data.size()));
  out.close();
  if (out)
    std::filesystem::rename(partial, path, error);
  else
    error = std::make_error_code(std::errc::io_error);
  if (!error)
    return {};
  std::error_code ignored;
  std::filesystem::remove(partial, ignored);
  return failure(error.message());
}
