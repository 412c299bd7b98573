//===- TypedArgument.cpp - Kernel arguments from the command line ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See TypedArgument.h for the notation.
//
//===----------------------------------------------------------------------===//

#include "TypedArgument.h"
#include "../../lib/math/Half.h"
#include "Npy.h"
#include "flashcore/Emulator/OptionText.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <random>

using namespace flashcore::emu;

namespace {
struct ElementInfo {
  const char *name;
  const char *npy;
  uint8_t bytes;
  char kind; // 'f', 'i', 'u'
};
} // namespace

/// In the order of ElementType.
static constexpr ElementInfo elementTable[] = {
    {"f16", "<f2", 2, 'f'}, {"bf16", "<u2", 2, 'f'}, {"f32", "<f4", 4, 'f'},
    {"f64", "<f8", 8, 'f'}, {"i8", "|i1", 1, 'i'},   {"i16", "<i2", 2, 'i'},
    {"i32", "<i4", 4, 'i'}, {"i64", "<i8", 8, 'i'},  {"u8", "|u1", 1, 'u'},
    {"u16", "<u2", 2, 'u'}, {"u32", "<u4", 4, 'u'},  {"u64", "<u8", 8, 'u'}};

static const ElementInfo &info(ElementType type) {
  return elementTable[static_cast<size_t>(type)];
}
unsigned flashcore::emu::elementBytes(ElementType type) {
  return info(type).bytes;
}
const char *flashcore::emu::elementName(ElementType type) {
  return info(type).name;
}
const char *flashcore::emu::npyName(ElementType type) { return info(type).npy; }

double flashcore::emu::elementToDouble(ElementType type, const uint8_t *bits) {
  uint64_t raw = 0;
  std::memcpy(&raw, bits, elementBytes(type));
  switch (type) {
  case ElementType::F16:
    return floatFromHalf(static_cast<uint32_t>(raw));
  case ElementType::BF16:
    return floatFromBfloat(static_cast<uint32_t>(raw));
  case ElementType::F32:
    return floatOf(static_cast<uint32_t>(raw));
  case ElementType::F64:
    return doubleOf(raw);
  default:
    break;
  }
  unsigned shift = 64 - 8 * elementBytes(type);
  return info(type).kind == 'i'
             ? static_cast<double>(static_cast<int64_t>(raw << shift) >> shift)
             : static_cast<double>(raw);
}

static void storeNumber(uint8_t *out, ElementType type, double value,
                        uint64_t integer) {
  uint64_t raw = integer;
  if (type == ElementType::F16)
    raw = halfFromFloat(static_cast<float>(value));
  else if (type == ElementType::BF16)
    raw = bfloatFromFloat(static_cast<float>(value));
  else if (type == ElementType::F32)
    raw = bitsOf(static_cast<float>(value));
  else if (type == ElementType::F64)
    raw = bitsOf(value);
  std::memcpy(out, &raw, elementBytes(type));
}

static Error bad(const std::string &text, const std::string &why) {
  return {{}, "argument '" + text + "': " + why};
}

static bool parseType(const std::string &name, ElementType &type) {
  for (size_t i = 0; i < std::size(elementTable); ++i)
    if (name == elementTable[i].name) {
      type = static_cast<ElementType>(i);
      return true;
    }
  return false;
}

static Expected<TypedArgument> parseFile(const std::string &text,
                                         const std::string &path,
                                         const std::string &typeName) {
  Expected<NpyArray> array = readNpy(path);
  if (!array)
    return array.error();
  TypedArgument out;
  out.isBuffer = true;
  out.shape = out.view.shape = array->shape;
  out.data = array->data;
  if (!typeName.empty()) {
    if (!parseType(typeName, out.type) || array->type != npyName(out.type))
      return bad(text, "the file holds '" + array->type + "', which is no " +
                           typeName);
    return out;
  }
  for (size_t i = 0; i < std::size(elementTable); ++i)
    if (array->type == elementTable[i].npy && i != size_t(ElementType::BF16)) {
      out.type = static_cast<ElementType>(i);
      return out;
    }
  return bad(text, "cannot use NumPy type '" + array->type + "'");
}

/// Reads an integer that fits into `bytes`, decimal or hexadecimal; its bits
/// are in `raw`.
static bool parseInteger(const std::string &value, bool isSigned,
                         unsigned bytes, uint64_t &raw) {
  bool isNegative = value[0] == '-';
  std::string_view digits = std::string_view(value).substr(isNegative ? 1 : 0);
  bool isHex = digits.starts_with("0x") || digits.starts_with("0X");
  digits.remove_prefix(isHex ? 2 : 0);
  uint64_t number = 0;
  const char *end = digits.data() + digits.size();
  auto [last, error] =
      std::from_chars(digits.data(), end, number, isHex ? 16 : 10);
  if (error != std::errc() || last != end)
    return false;
  // The largest magnitude: a signed type has one more below zero.
  uint64_t most = ~uint64_t(0) >> (64 - 8 * bytes);
  if (isSigned && !isHex)
    most = most / 2 + isNegative;
  if (number > most || (isNegative && (!isSigned || isHex)))
    return false;
  raw = isNegative ? 0 - number : number;
  return true;
}

static Expected<TypedArgument> parseScalar(const std::string &text,
                                           ElementType type,
                                           const std::string &value) {
  TypedArgument out;
  out.type = type;
  double number = 0;
  uint64_t integer = 0;
  bool isValid;
  if (info(type).kind == 'f') {
    const char *end = value.data() + value.size();
    auto [last, error] = std::from_chars(value.data(), end, number);
    isValid = error == std::errc() && last == end;
  } else {
    isValid =
        parseInteger(value, info(type).kind == 'i', info(type).bytes, integer);
  }
  if (!isValid)
    return bad(text, std::string("expects a number of type ") +
                         info(type).name + ", but got '" + value + "'");
  out.data.resize(elementBytes(type));
  storeNumber(out.data.data(), type, number, integer);
  return out;
}

std::string flashcore::emu::formatShape(const std::vector<uint64_t> &shape) {
  std::string text;
  for (uint64_t extent : shape)
    text += (text.empty() ? "" : ",") + std::to_string(extent);
  return "[" + text + "]";
}

namespace {
/// The numbers that libstdc++'s distributions draw, without the long double
/// logarithms it takes for each, and the same with any library.
class RandomNumbers {
public:
  explicit RandomNumbers(uint64_t seed) : bits(seed) {}

  /// From -1 up to 1.
  double uniform() {
    double x = static_cast<double>(bits()) * 0x1p-64;
    return (x < 1 ? x : 0x1.fffffffffffffp-1) * 2 - 1;
  }

  /// Marsaglia's polar method, two at a time.
  double normal() {
    hasSecond = !hasSecond;
    if (!hasSecond)
      return second;
    double x, y, square;
    do {
      x = uniform();
      y = uniform();
      square = x * x + y * y;
    } while (square > 1 || square == 0);
    double scale = std::sqrt(-2 * std::log(square) / square);
    second = x * scale;
    return y * scale;
  }

private:
  std::mt19937_64 bits;
  double second = 0;
  bool hasSecond = false;
};
} // namespace

/// Fills a buffer; false at an unknown way to do so.
static bool fillBuffer(TypedArgument &out, uint64_t count,
                       const std::string &how, uint64_t seed) {
  RandomNumbers random(seed);
  out.isPoison = how == "poison";
  if (how != "zeros" && how != "ones" && how != "iota" && how != "randn" &&
      how != "uniform" && how != "poison")
    return false;
  unsigned bytes = elementBytes(out.type);
  out.data.resize(count * bytes);
  if (how == "zeros" || how == "poison")
    return true;
  for (uint64_t i = 0; i < count; ++i) {
    double value = how == "ones"    ? 1.0
                   : how == "iota"  ? static_cast<double>(i)
                   : how == "randn" ? random.normal()
                                    : random.uniform();
    storeNumber(out.data.data() + i * bytes, out.type, value,
                static_cast<uint64_t>(static_cast<int64_t>(value)));
  }
  return true;
}

static constexpr uint64_t maxElements = uint64_t(1) << 33;

/// Reads digits at `p` up to the end of `text`; null if there is no number of
/// 64 bits.
static const char *parseDigits(const char *p, const std::string &text,
                               uint64_t &number) {
  auto [last, error] = std::from_chars(p, text.data() + text.size(), number);
  return error == std::errc() ? last : nullptr;
}

/// Reads ":2952,72,1+8" at `p`, behind the shape of a view; null if it is no
/// such thing.
static const char *parseStrides(const char *p, const std::string &text,
                                TensorView &view) {
  for (char separator = ':'; p && *p == separator; separator = ',')
    p = parseDigits(p + 1, text, view.strides.emplace_back());
  if (p && *p == '+')
    p = parseDigits(p + 1, text, view.offset);
  return view.strides.size() == view.shape.size() ? p : nullptr;
}

/// Elements of the buffer of a view with strides, up to its last one, or up to
/// its start if it is empty; at most one more than there may be.
static uint64_t countElements(const TensorView &view) {
  uint64_t count = std::min(view.offset, maxElements) + 1;
  if (std::find(view.shape.begin(), view.shape.end(), 0u) != view.shape.end())
    return count - 1;
  for (size_t i = 0; i < view.shape.size(); ++i) {
    uint64_t steps = view.shape[i] - 1, stride = view.strides[i];
    if (steps && stride > maxElements / steps)
      return maxElements + 1;
    count = std::min(count + steps * stride, maxElements + 1);
  }
  return count;
}

/// Parses what is not made of other arguments.
static Expected<TypedArgument> parseSimple(const std::string &text) {
  size_t colon = text.find(':');
  if (text.ends_with(".npy")) {
    bool typed = colon != std::string::npos && colon < 5;
    return parseFile(text, typed ? text.substr(colon + 1) : text,
                     typed ? text.substr(0, colon) : std::string());
  }
  size_t bracket = text.find('[');
  if (colon == std::string::npos)
    return bad(text, "expects TYPE:VALUE, TYPE[SHAPE]:FILL, "
                     "struct:BYTES,OFFSET=VALUE,..., ptr[VALUE,...], "
                     "tensormap[BOX]:BUFFER, @NAME or a .npy file");
  TypedArgument out;
  bool isBuffer = bracket < colon;
  if (!parseType(text.substr(0, isBuffer ? bracket : colon), out.type))
    return bad(text, "expects a type such as f16, bf16, f32, i32 or u64");
  if (!isBuffer)
    return parseScalar(text, out.type, text.substr(colon + 1));

  out.isBuffer = true;
  uint64_t count = 1;
  const char *p = text.c_str() + bracket;
  while (*p == '[' || *p == ',') {
    uint64_t extent = 0;
    const char *end = parseDigits(p + 1, text, extent);
    if (!end || (extent && count > maxElements / extent))
      return bad(text, "expects a shape such as [8,512,64] of at most 8 G "
                       "elements");
    count *= extent;
    out.shape.push_back(extent);
    p = end;
  }
  out.view.shape = out.shape;
  if (*p == ':') {
    p = parseStrides(p, text, out.view);
    count = p ? countElements(out.view) : 0;
    if (!p || count > maxElements)
      return bad(text, "expects a stride for each axis and perhaps an offset, "
                       "such as [2,41,64:2952,72,1+8], within 8 G elements");
    out.shape = {count};
  }
  if (*p != ']' || p[1] != ':')
    return bad(text, "expects ']:' after the shape");
  std::string how = p + 2;
  size_t second = how.find(':');
  std::string name = how.substr(0, second);
  uint64_t seed = 0;
  bool isValid = second == std::string::npos ||
                 ((name == "randn" || name == "uniform") &&
                  parseNumber(std::string_view(how).substr(second + 1), seed));
  if (!isValid || !fillBuffer(out, count, name, seed))
    return bad(text, "expects zeros, ones, iota, randn[:SEED], uniform[:SEED] "
                     "or poison, but got '" +
                         how + "'");
  return out;
}

Expected<TypedArgument> flashcore::emu::parseArgument(const std::string &text,
                                                      unsigned depth) {
  Expected<std::optional<TypedArgument>> composite =
      parseComposite(text, depth);
  if (!composite)
    return composite.error();
  Expected<TypedArgument> out =
      *composite ? std::move(**composite) : parseSimple(text);
  if (out)
    out->text = text;
  return out;
}

Expected<TypedArgument> flashcore::emu::parseArgument(const std::string &text) {
  return parseArgument(text, 0);
}
