//===- JsonReader.cpp - Typed access to JSON ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every refusal names the file, the path of the key, the value found and what
// to do about it.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/JsonReader.h"

#include <nlohmann/json.hpp>

using namespace flashcore;
using nlohmann::json;

/// What every access to a missing value yields.
static const json nullJson;

/// Names a value in a message: scalars up to a length, containers by their
/// size.
static std::string describe(const json &value) {
  if (value.is_object())
    return "an object of " + std::to_string(value.size()) + " keys";
  if (value.is_array())
    return "an array of " + std::to_string(value.size()) + " elements";
  constexpr size_t most = 200;
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() > most ? text.substr(0, most) + "..." : text;
}

void JsonReader::Field::refuse(std::string_view expected,
                               std::string_view note) const {
  if (!reader->ok())
    return;
  std::string what = path.empty() ? "the document" : "'" + path + "'";
  reader->fail(
      Status::error(reader->file + ": expects " + what + " to be " +
                    std::string(expected) + ", but got " + describe(*value))
          .note(note.empty() ? std::string_view(reader->remedy) : note));
}

void JsonReader::Field::refuseKey(std::string_view key) const {
  std::string memberPath =
      path.empty() ? std::string(key) : path + "." + std::string(key);
  reader->fail(Status::error(reader->file + ": expects no key '" + memberPath +
                             "', which this version does not know")
                   .note(reader->remedy));
}

JsonReader::Field JsonReader::Field::operator[](std::string_view key) const {
  std::string memberPath =
      path.empty() ? std::string(key) : path + "." + std::string(key);
  if (!value->is_object()) {
    refuse("an object");
    return Field(*reader, nullJson, memberPath);
  }
  auto it = value->find(std::string(key));
  if (it == value->end()) {
    reader->fail(Status::error(reader->file + ": expects the key '" +
                               memberPath + "', but there is none")
                     .note(reader->remedy));
    return Field(*reader, nullJson, memberPath);
  }
  return Field(*reader, *it, memberPath);
}

bool JsonReader::Field::isNull() const { return value->is_null(); }

bool JsonReader::Field::isString() const { return value->is_string(); }

std::vector<JsonReader::Field> JsonReader::Field::elements() const {
  std::vector<Field> result;
  if (!value->is_array()) {
    refuse("an array");
    return result;
  }
  for (const json &element : *value)
    result.emplace_back(*reader, element,
                        path + "[" + std::to_string(result.size()) + "]");
  return result;
}

std::vector<std::string> JsonReader::Field::keys() const {
  std::vector<std::string> result;
  if (!value->is_object()) {
    refuse("an object");
    return result;
  }
  for (const auto &item : value->items())
    result.push_back(item.key());
  return result;
}

std::string JsonReader::Field::string() const {
  if (const auto *text = value->get_ptr<const json::string_t *>())
    return *text;
  refuse("a string");
  return {};
}

bool JsonReader::Field::boolean() const {
  if (value->is_boolean())
    return value->get<bool>();
  refuse("true or false");
  return false;
}

bool JsonReader::Field::has(std::string_view key) const {
  return value->is_object() && value->contains(std::string(key));
}

double JsonReader::Field::number() const {
  if (value->is_number())
    return value->get<double>();
  refuse("a number");
  return 0;
}

std::optional<double> JsonReader::Field::numberOrNull() const {
  if (isNull())
    return std::nullopt;
  if (!value->is_number()) {
    refuse("a number or null");
    return std::nullopt;
  }
  return number();
}

int64_t JsonReader::Field::integer(int64_t min, int64_t max) const {
  // An unsigned value past INT64_MAX would turn negative in get<int64_t>().
  bool fits =
      value->is_number_integer() &&
      !(value->is_number_unsigned() &&
        value->get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max()));
  if (fits) {
    int64_t number = value->get<int64_t>();
    if (number >= min && number <= max)
      return number;
  }
  std::string expected = "an integer of at least " + std::to_string(min);
  if (max != std::numeric_limits<int64_t>::max())
    expected =
        "an integer from " + std::to_string(min) + " to " + std::to_string(max);
  refuse(expected);
  return min;
}

std::optional<int64_t> JsonReader::Field::integerOrNull() const {
  if (isNull())
    return std::nullopt;
  if (!value->is_number_integer()) {
    refuse("an integer or null");
    return std::nullopt;
  }
  return integer();
}
