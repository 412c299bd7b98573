//===- JsonReader.h - Typed access to JSON ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A cursor over JSON that knows its own path and keeps the first error. After
// an error every access yields a harmless default, so a reader is written as
// straight code and asks once, at its end, whether all went well.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_JSONREADER_H
#define FLASHCORE_RUNTIME_JSONREADER_H

#include "flashcore/Runtime/Status.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <limits>

namespace flashcore {

class JsonReader {
public:
  /// Messages start with `file` and end with the note `remedy`.
  JsonReader(std::string file, std::string remedy)
      : file(std::move(file)), remedy(std::move(remedy)) {}

  /// One value of the document.
  class Field {
  public:
    Field(JsonReader &reader, const nlohmann::json &value, std::string path)
        : reader(&reader), value(&value), path(std::move(path)) {}

    /// The member `key` of an object; an error if there is none.
    Field operator[](std::string_view key) const;
    /// The elements of an array.
    std::vector<Field> elements() const;
    /// The names of the members of an object.
    std::vector<std::string> keys() const;
    bool isNull() const;

    std::string string() const;
    double number() const;
    /// nullopt for null.
    std::optional<double> numberOrNull() const;
    int64_t integer(int64_t min = 0,
                    int64_t max = std::numeric_limits<int64_t>::max()) const;
    /// nullopt for null.
    std::optional<int64_t> integerOrNull() const;

    bool isString() const;
    /// As it stands in the document.
    const nlohmann::json &raw() const { return *value; }
    bool boolean() const;
    /// True when this is an object with the member `key`.
    bool has(std::string_view key) const;

    /// Reports that this value is not `expected`.
    void refuse(std::string_view expected, std::string_view note = {}) const;
    /// Reports that the member `key` of this object is none that is known.
    void refuseKey(std::string_view key) const;

  private:
    JsonReader *reader;
    const nlohmann::json *value;
    std::string path;
  };

  Field root(const nlohmann::json &document) {
    return Field(*this, document, "");
  }
  bool ok() const { return !error; }
  /// The first error; success when there is none.
  Status status() const { return error ? *error : Status::success(); }
  /// Records an error unless there is one already.
  void fail(Status status) {
    if (!error)
      error = std::move(status);
  }

private:
  std::string file;
  std::string remedy;
  std::optional<Status> error;
};

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_JSONREADER_H
