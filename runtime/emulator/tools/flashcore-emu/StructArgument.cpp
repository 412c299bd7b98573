//===- StructArgument.cpp - Arguments made of other arguments -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Structs by value, buffers of values and pointers, and references to buffers
// that came before; from the command line or from a JSON file:
//
//   struct:BYTES,OFFSET[:NAME]=VALUE,...   {"struct": BYTES,
//                                           "OFFSET[:NAME]": VALUE, ...}
//   ptr[VALUE,...]                         {"ptr": [VALUE, ...]}
//   @NAME[+BYTES]                          "@NAME[+BYTES]"
//
// A text is input like any other: values nest only so deep, and their bytes are
// counted before there is memory for them.
//
//===----------------------------------------------------------------------===//

#include "TypedArgument.h"
#include "flashcore/Emulator/OptionText.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

using namespace flashcore::emu;
using nlohmann::json;

static constexpr unsigned maxDepth = 32;
/// A struct by value has at most the bytes of a kernel's parameters; one in a
/// buffer may have more.
static constexpr uint64_t maxStructBytes = uint64_t(1) << 24;

static Error bad(const std::string &text, const std::string &why) {
  return {{},
          "argument '" +
              (text.size() > 200 ? text.substr(0, 200) + "..." : text) +
              "': " + why};
}

//===----------------------------------------------------------------------===//
// Putting values into bytes
//===----------------------------------------------------------------------===//

/// Puts the bytes of the members in their places; those between are zero.
static Expected<TypedArgument>
finishStruct(const std::string &text, uint64_t bytes,
             std::vector<ArgumentMember> members) {
  if (bytes == 0 || bytes > maxStructBytes)
    return bad(text, "expects a struct of 1 to " +
                         std::to_string(maxStructBytes) + " bytes, but got " +
                         std::to_string(bytes));
  std::sort(members.begin(), members.end(),
            [](const ArgumentMember &a, const ArgumentMember &b) {
              return a.offset < b.offset;
            });
  TypedArgument out;
  out.type = ElementType::U8;
  out.data.resize(bytes);
  const ArgumentMember *last = nullptr;
  for (const ArgumentMember &member : members) {
    uint64_t size = member.value.valueBytes();
    std::string what = "'" + std::to_string(member.offset) + "=" +
                       member.value.text + "' has bytes " +
                       std::to_string(member.offset) + " to " +
                       std::to_string(member.offset + size - 1);
    if (member.offset > bytes || size > bytes - member.offset)
      return bad(text, "expects members within its " + std::to_string(bytes) +
                           " bytes, but " + what);
    if (last && last->offset + last->value.valueBytes() > member.offset)
      return bad(text, "expects members that do not overlap, but " + what +
                           ", and '" + std::to_string(last->offset) + "=" +
                           last->value.text + "' ends with byte " +
                           std::to_string(last->offset +
                                          last->value.valueBytes() - 1));
    if (!member.value.isPointer())
      std::copy(member.value.data.begin(), member.value.data.end(),
                out.data.begin() + static_cast<ptrdiff_t>(member.offset));
    last = &member;
  }
  out.members = std::move(members);
  return out;
}

/// What a value is aligned to in an array of its kind.
static uint64_t alignmentOf(const TypedArgument &value) {
  if (value.isPointer())
    return 8;
  return value.members.empty() ? value.data.size() : 1;
}

/// A buffer of values, each at a multiple of its size. Numbers of one type make
/// a buffer of that type.
static Expected<TypedArgument> finishBuffer(const std::string &text,
                                            std::vector<TypedArgument> values) {
  uint64_t bytes = 0;
  std::vector<ArgumentMember> members;
  bool isUniform = true;
  for (TypedArgument &value : values) {
    isUniform &= !value.isPointer() && value.members.empty() &&
                 value.type == values.front().type;
    uint64_t align = alignmentOf(value);
    bytes = (bytes + align - 1) / align * align;
    uint64_t offset = bytes;
    bytes += value.valueBytes();
    members.push_back({offset, {}, std::move(value)});
  }
  ElementType type =
      members.empty() ? ElementType::U8 : members.front().value.type;
  uint64_t count = members.size();
  Expected<TypedArgument> out = finishStruct(text, bytes, std::move(members));
  if (!out)
    return out.error();
  out->isBuffer = true;
  out->type = isUniform ? type : ElementType::U8;
  out->shape = out->view.shape = {isUniform ? count : bytes};
  return out;
}

//===----------------------------------------------------------------------===//
// The notation of the command line
//===----------------------------------------------------------------------===//

/// The values between the commas that are in no brackets; null where brackets
/// do not match.
static std::optional<std::vector<std::string>>
splitValues(const std::string &text) {
  std::vector<std::string> values(1);
  int depth = 0;
  for (char c : text) {
    depth += (c == '[') - (c == ']');
    if (depth < 0)
      return std::nullopt;
    if (c == ',' && depth == 0)
      values.emplace_back();
    else
      values.back() += c;
  }
  if (depth)
    return std::nullopt;
  return values;
}

/// Without the brackets around the whole of it.
static std::string withoutBrackets(const std::string &text) {
  bool isWhole = text.size() > 1 && text.front() == '[' && text.back() == ']';
  return isWhole ? text.substr(1, text.size() - 2) : text;
}

/// "16", or "16:name".
static bool parseKey(const std::string &key, ArgumentMember &member) {
  size_t colon = std::min(key.find(':'), key.size());
  if (colon < key.size())
    member.name = key.substr(colon + 1);
  bool isNamed = colon == key.size() ||
                 (!member.name.empty() &&
                  !(member.name[0] >= '0' && member.name[0] <= '9') &&
                  member.name.find_first_of("=+@,[]") == std::string::npos);
  return isNamed &&
         parseNumber(std::string_view(key).substr(0, colon), member.offset);
}

static Error badKey(const std::string &text, const std::string &got) {
  return bad(text, "expects OFFSET=VALUE or OFFSET:NAME=VALUE, with an offset "
                   "in bytes and a name that starts with no digit, but got '" +
                       got + "'");
}

/// "struct:48,0=f16[64]:ones,16=i32:3", of which `values` are the parts.
static Expected<TypedArgument>
parseStruct(const std::string &text, const std::vector<std::string> &values,
            unsigned depth) {
  uint64_t bytes = 0;
  std::string size = values[0].substr(std::strlen("struct:"));
  if (!parseNumber(size, bytes))
    return bad(text, "expects struct:BYTES, but got '" + values[0] + "'");
  std::vector<ArgumentMember> members;
  for (size_t i = 1; i < values.size(); ++i) {
    size_t equal = values[i].find('=');
    ArgumentMember member;
    if (equal == std::string::npos ||
        !parseKey(values[i].substr(0, equal), member))
      return badKey(text, values[i]);
    Expected<TypedArgument> value =
        parseArgument(withoutBrackets(values[i].substr(equal + 1)), depth + 1);
    if (!value)
      return value.error();
    member.value = std::move(*value);
    members.push_back(std::move(member));
  }
  return finishStruct(text, bytes, std::move(members));
}

static Expected<TypedArgument> parsePointer(const std::string &text,
                                            const std::string &content,
                                            unsigned depth) {
  auto parts = splitValues(content);
  if (!parts)
    return bad(text, "expects ']' for each '['");
  // A struct has the commas that follow it.
  if (content.starts_with("struct:"))
    parts = {content};
  std::vector<TypedArgument> values;
  for (const std::string &part : *parts) {
    Expected<TypedArgument> value =
        parseArgument(withoutBrackets(part), depth + 1);
    if (!value)
      return value.error();
    values.push_back(std::move(*value));
  }
  return finishBuffer(text, std::move(values));
}

/// "@q+4096"
static Expected<TypedArgument> parseReference(const std::string &text) {
  TypedArgument out;
  size_t plus = std::min(text.find('+'), text.size());
  out.reference = text.substr(1, plus - 1);
  bool hasOffset = plus < text.size();
  if (out.reference.empty() ||
      (hasOffset && !parseNumber(std::string_view(text).substr(plus + 1),
                                 out.referenceOffset)))
    return bad(text, "expects @NAME, @INDEX, @INDEX.OFFSET, and perhaps a "
                     "number of bytes from its start, such as @q+4096");
  return out;
}

Expected<std::optional<TypedArgument>>
flashcore::emu::parseComposite(const std::string &text, unsigned depth) {
  if (depth > maxDepth)
    return bad(text, "values are nested more than " + std::to_string(maxDepth) +
                         " deep");
  auto wrap = [](Expected<TypedArgument> parsed)
      -> Expected<std::optional<TypedArgument>> {
    if (!parsed)
      return parsed.error();
    return std::optional(std::move(*parsed));
  };
  if (text.starts_with("@"))
    return wrap(parseReference(text));
  if (text.starts_with("ptr[") && text.ends_with("]"))
    return wrap(parsePointer(text, text.substr(4, text.size() - 5), depth));
  if (text.starts_with("tensormap"))
    return wrap(parseTensorMap(text, depth));
  if (!text.starts_with("struct:"))
    return std::optional<TypedArgument>();
  auto values = splitValues(text);
  if (!values)
    return bad(text, "expects ']' for each '['");
  return wrap(parseStruct(text, *values, depth));
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static Expected<TypedArgument>
readValue(const json &value, const std::string &file, unsigned depth);

static Expected<TypedArgument>
readStruct(const json &object, const std::string &file, unsigned depth) {
  if (!object.at("struct").is_number_unsigned())
    return bad(file, "expects a number of bytes at \"struct\"");
  std::vector<ArgumentMember> members;
  for (const auto &[key, value] : object.items()) {
    if (key == "struct")
      continue;
    ArgumentMember member;
    if (!parseKey(key, member))
      return badKey(file, key);
    Expected<TypedArgument> read = readValue(value, file, depth + 1);
    if (!read)
      return read.error();
    member.value = std::move(*read);
    members.push_back(std::move(member));
  }
  return finishStruct(file, object.at("struct").get<uint64_t>(),
                      std::move(members));
}

static Expected<TypedArgument>
readValue(const json &value, const std::string &file, unsigned depth) {
  if (depth > maxDepth)
    return bad(file, "values are nested more than " + std::to_string(maxDepth) +
                         " deep");
  if (value.is_string())
    return parseArgument(value.get<std::string>(), depth);
  Expected<TypedArgument> out = TypedArgument();
  if (value.is_object() && value.contains("struct")) {
    out = readStruct(value, file, depth);
  } else if (value.is_object() && value.size() == 1 && value.contains("ptr") &&
             value["ptr"].is_array()) {
    std::vector<TypedArgument> values;
    for (const json &element : value["ptr"]) {
      Expected<TypedArgument> read = readValue(element, file, depth + 1);
      if (!read)
        return read.error();
      values.push_back(std::move(*read));
    }
    out = finishBuffer(file, std::move(values));
  } else {
    return bad(file, "expects \"TYPE:VALUE\" and the like, {\"struct\": BYTES, "
                     "\"OFFSET\": VALUE, ...} or {\"ptr\": [VALUE, ...]}, but "
                     "got " +
                         std::string(value.type_name()));
  }
  if (out)
    out->text = file;
  return out;
}

Expected<std::vector<TypedArgument>>
flashcore::emu::parseJsonArguments(const std::string &text,
                                   const std::string &file) {
  json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded())
    return bad(file, "expects a JSON document");
  std::vector<TypedArgument> out;
  bool isList = document.is_array();
  for (size_t i = 0; i < (isList ? document.size() : 1); ++i) {
    Expected<TypedArgument> value =
        readValue(isList ? document[i] : document, file, 0);
    if (!value)
      return value.error();
    out.push_back(std::move(*value));
  }
  return out;
}

Expected<std::vector<TypedArgument>>
flashcore::emu::parseArguments(const std::string &text) {
  if (!text.ends_with(".json") || text.starts_with("struct:")) {
    Expected<TypedArgument> value = parseArgument(text);
    if (!value)
      return value.error();
    return std::vector{std::move(*value)};
  }
  std::ifstream in(text, std::ios::binary);
  if (!in)
    return bad(text, std::string("cannot read it: ") + std::strerror(errno));
  std::string document(std::istreambuf_iterator<char>(in), {});
  return parseJsonArguments(document, text);
}
