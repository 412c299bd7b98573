//===- NpyHeader.h - What stands before the data of a .npy file -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The .npy format: "\x93NUMPY", two version bytes, the length of the header,
// the header (a Python dict literal, padded so that data starts at a multiple
// of 64), then the elements. Versions 1 to 3 are read, version 1 is written.
// The host is little endian, as the files are.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_TOOLS_NPYHEADER_H
#define FLASHCORE_TOOLS_NPYHEADER_H

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flashcore {

struct NpyHeader {
  /// NumPy's name of the element type, such as "<f2".
  std::string descr;
  /// The first axis is the innermost.
  bool isFortran = false;
  std::vector<int64_t> shape;
};

inline constexpr std::string_view npyMagic("\x93NUMPY", 6);

/// Bytes of the elements, or nothing if they are 2^63 or more.
inline std::optional<int64_t> npyBytes(const std::vector<int64_t> &shape,
                                       int64_t elementBytes) {
  int64_t bytes = elementBytes;
  for (int64_t size : shape)
    if (__builtin_mul_overflow(bytes, size, &bytes))
      return std::nullopt;
  return bytes;
}

/// The text after 'key': in a dict literal.
inline std::optional<std::string_view> findNpyValue(std::string_view dict,
                                                    std::string_view key) {
  size_t at = dict.find("'" + std::string(key) + "'");
  at = at == std::string_view::npos ? at : dict.find(':', at);
  at = at == std::string_view::npos ? at : dict.find_first_not_of(' ', at + 1);
  if (at == std::string_view::npos)
    return std::nullopt;
  return dict.substr(at);
}

/// Reads "(1, 8, 512)"; false when malformed.
inline bool parseNpyShape(std::string_view text, std::vector<int64_t> &shape) {
  size_t close = text.find(')');
  if (!text.starts_with('(') || close == std::string_view::npos)
    return false;
  std::string_view body = text.substr(1, close - 1);
  while (true) {
    size_t start = body.find_first_not_of(" ,");
    if (start == std::string_view::npos)
      return true;
    body.remove_prefix(start);
    size_t length = std::min(body.find_first_of(" ,"), body.size());
    int64_t size = 0;
    auto [end, error] =
        std::from_chars(body.data(), body.data() + length, size);
    if (error != std::errc() || end != body.data() + length || size < 0)
      return false;
    shape.push_back(size);
    body.remove_prefix(length);
  }
}

/// Reads the dict literal; false when it lacks something.
inline bool parseNpyDict(std::string_view dict, NpyHeader &header) {
  std::optional<std::string_view> descr = findNpyValue(dict, "descr");
  std::optional<std::string_view> order = findNpyValue(dict, "fortran_order");
  std::optional<std::string_view> shape = findNpyValue(dict, "shape");
  if (!descr || !order || !shape || !descr->starts_with('\''))
    return false;
  size_t close = descr->find('\'', 1);
  if (close == std::string_view::npos || !parseNpyShape(*shape, header.shape))
    return false;
  header.descr = descr->substr(1, close - 1);
  header.isFortran = order->starts_with("True");
  return true;
}

/// Reads all before the data from `next`, which gives that many bytes of the
/// file, or fewer at its end. Returns what is wrong, or nothing.
template <typename Next>
std::string readNpyHeader(Next next, NpyHeader &header) {
  // Of a header that is none; it may have gigabytes.
  constexpr size_t maxShown = 200;
  std::string start(next(npyMagic.size() + 2));
  if (start.size() < npyMagic.size() + 2 || !start.starts_with(npyMagic))
    return "expects a .npy file, but the first bytes are not those of one";
  unsigned version = static_cast<unsigned char>(start[npyMagic.size()]);
  if (version < 1 || version > 3)
    return "expects .npy version 1 to 3, but got " + std::to_string(version);
  std::string bytes(next(version == 1 ? 2 : 4));
  uint32_t length = 0;
  std::memcpy(&length, bytes.data(), bytes.size());
  std::string dict(next(length));
  if (bytes.size() < (version == 1 ? 2 : 4) || dict.size() < length)
    return "expects a header of " + std::to_string(length) +
           " bytes, but the file ends before its end";
  if (!parseNpyDict(dict, header))
    return "expects a header with descr, fortran_order and shape, but got '" +
           dict.substr(0, maxShown) + "'";
  return {};
}

/// "(1, 8, 512)".
inline std::string npyShape(const std::vector<int64_t> &shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

/// All before the data of an array in C order.
inline std::string formatNpyHeader(std::string_view descr,
                                   const std::vector<int64_t> &shape) {
  std::string dict = "{'descr': '" + std::string(descr) +
                     "', 'fortran_order': False, 'shape': " + npyShape(shape) +
                     ", }";
  constexpr size_t prefix = npyMagic.size() + 4; // version, length
  size_t total = (prefix + dict.size() + 1 + 63) / 64 * 64;
  dict.append(total - prefix - dict.size() - 1, ' ');
  dict += '\n';
  std::string text(npyMagic);
  text += {'\x01', '\x00', static_cast<char>(dict.size() & 0xff),
           static_cast<char>(dict.size() >> 8)};
  return text + dict;
}

} // namespace flashcore

#endif // FLASHCORE_TOOLS_NPYHEADER_H
