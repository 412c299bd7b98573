//===- Grid.cpp - Many runs from one file ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An unknown key is an error: a misspelt "sead" must not be ignored.
//
//===----------------------------------------------------------------------===//

#include "Grid.h"

#include "Options.h"

#include "flashcore/Runtime/FileUtils.h"
#include "flashcore/Runtime/JsonReader.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace flashcore;
using namespace flashcore::run;
using Field = JsonReader::Field;

static constexpr std::string_view knownKeys[] = {
    "bundle", "dims", "tensors", "layout", "offset",
    "seed",   "kind", "stage",   "check",  "time"};

/// Reads the text of `field` with a parser of a command line option.
template <typename T, typename Parser>
static T readOption(JsonReader &reader, Field field, Parser &&parse) {
  StatusOr<T> value = parse(field.string());
  if (value.ok())
    return *value;
  reader.fail(value.status());
  return T();
}

static TensorLayout readLayout(Field field) {
  TensorLayout layout;
  for (Field stride : field["strides"].elements())
    layout.strides.push_back(stride.integer());
  layout.offset = field["offset"].integer();
  return layout;
}

static RunRequest readEntry(JsonReader &reader, Field entry,
                            const std::filesystem::path &directory,
                            const RunRequest &defaults,
                            const std::function<uint64_t()> &chooseSeed) {
  RunRequest request = defaults;
  for (const std::string &key : entry.keys())
    if (std::find(std::begin(knownKeys), std::end(knownKeys), key) ==
        std::end(knownKeys))
      entry.refuse("an entry without the unknown key '" + key + "'");
  request.bundle = directory / entry["bundle"].string();
  if (entry.has("dims"))
    for (const std::string &name : entry["dims"].keys())
      request.problem.dims[name] = entry["dims"][name].integer();
  if (entry.has("tensors"))
    for (const std::string &name : entry["tensors"].keys())
      request.problem.tensors[name] = readLayout(entry["tensors"][name]);
  if (entry.has("layout"))
    request.layout = readOption<Layout>(reader, entry["layout"], parseLayout);
  if (entry.has("offset"))
    request.problem.offset = entry["offset"].integer();
  request.seed = entry.has("seed")
                     ? static_cast<uint64_t>(entry["seed"].integer())
                     : chooseSeed();
  if (entry.has("kind"))
    request.kind = readOption<InputKind>(reader, entry["kind"], parseInputKind);
  if (entry.has("stage"))
    if (Status status = parseStage(entry["stage"].string(), request);
        !status.ok())
      reader.fail(status);
  if (entry.has("check"))
    request.check = entry["check"].boolean();
  if (entry.has("time"))
    request.time = entry["time"].boolean();
  return request;
}

StatusOr<std::vector<RunRequest>>
flashcore::run::loadGrid(const std::filesystem::path &path,
                         const RunRequest &defaults,
                         const std::function<uint64_t()> &chooseSeed) {
  StatusOr<std::string> text = readFile(path);
  if (!text.ok())
    return text.status();
  StatusOr<nlohmann::json> document = parseJson(path.string(), *text);
  if (!document.ok())
    return document.status();
  JsonReader reader(
      path.string(),
      "an entry has the key bundle, and may have dims, tensors, layout, "
      "offset, seed, kind, stage, check and time");
  std::vector<RunRequest> requests;
  for (Field entry : reader.root(*document).elements())
    requests.push_back(
        readEntry(reader, entry, path.parent_path(), defaults, chooseSeed));
  if (!reader.ok())
    return reader.status();
  return requests;
}
