//===- Results.cpp - What a run leaves in its buffers ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Results.h.
//
//===----------------------------------------------------------------------===//

#include "Results.h"
#include "Npy.h"
#include "flashcore/Emulator/OptionText.h"
#include "flashcore/Emulator/Printable.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

using namespace flashcore::emu;

const LoadedArgument *Results::find(std::string_view key) const {
  auto it = std::find_if(list.begin(), list.end(), [&](const auto &each) {
    return (!areTensors && each.path == key) || each.name == key;
  });
  return it == list.end() ? nullptr : &*it;
}

/// All that --out may name, but for arguments, which are counted.
static std::string listKeys(const Results &results) {
  std::string keys;
  for (const LoadedArgument &each : results.list) {
    bool isKey = results.areTensors || each.path.find('.') != std::string::npos;
    if (isKey)
      keys += (keys.empty() ? "" : ", ") +
              (results.areTensors ? each.name : each.path);
  }
  return keys;
}

/// The index of what `name` means; an error if there is nothing of that name.
static Expected<size_t> findResult(const std::string &text,
                                   const std::string &name,
                                   const std::string &form,
                                   const Results &results) {
  auto fail = [](const std::string &message) { return Error{{}, message}; };
  if (const LoadedArgument *found = results.find(name)) {
    if (!found->value.isBuffer)
      return fail("'" + text + "': argument " + name + " is a " +
                  (found->value.members.empty() ? "number" : "struct") +
                  ", not a buffer");
    return static_cast<size_t>(found - results.list.data());
  }
  std::string keys = listKeys(results);
  if (results.areTensors || (!keys.empty() && name.find('.') != name.npos))
    return fail("'" + text + "': expects one of " + keys + ", but got '" +
                name + "'");
  uint64_t number = 0;
  if (!parseNumber(name, number))
    return fail("expects " + form + ", but got '" + text + "'");
  if (results.numArguments == 0)
    return fail("'" + text + "': the kernel takes no arguments");
  return fail("'" + text + "': expects an argument from 0 to " +
              std::to_string(results.numArguments - 1) + ", but got " + name);
}

/// Splits "3=file.npy" and checks that argument 3 is a buffer.
static Error splitIndexed(const std::string &text, const char *file,
                          const Results &results, size_t &index,
                          std::string &path) {
  std::string form =
      std::string(results.areTensors ? "NAME=" : "INDEX=") + file;
  size_t equal = text.find('=');
  if (equal == std::string::npos || equal + 1 == text.size())
    return {{}, "expects " + form + ", but got '" + text + "'"};
  Expected<size_t> found =
      findResult(text, text.substr(0, equal), form, results);
  if (!found)
    return found.error();
  index = *found;
  path = text.substr(equal + 1);
  return {};
}

Expected<OutputRequest> flashcore::emu::parseOutput(const std::string &text,
                                                    const Results &results) {
  OutputRequest request;
  Error error =
      splitIndexed(text, "FILE.npy", results, request.index, request.path);
  if (!error.message.empty())
    return error;
  std::filesystem::path folder =
      std::filesystem::path(request.path).parent_path();
  std::error_code ignored;
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored))
    return Error{{},
                 "cannot write '" + request.path + "': there is no folder '" +
                     folder.string() + "'"};
  return request;
}

Expected<ExpectRequest> flashcore::emu::parseExpect(const std::string &text,
                                                    const Results &results) {
  ExpectRequest request;
  Error error = splitIndexed(text, "FILE.npy[:TOLERANCE]", results,
                             request.index, request.path);
  if (!error.message.empty())
    return error;
  size_t colon = request.path.rfind(".npy:");
  if (colon != std::string::npos) {
    std::string number = request.path.substr(colon + 5);
    request.path.resize(colon + 4);
    const char *end = number.data() + number.size();
    auto [last, failed] =
        std::from_chars(number.data(), end, request.tolerance);
    if (failed != std::errc() || last != end || !(request.tolerance >= 0))
      return Error{{},
                   "'" + text +
                       "': expects a tolerance such as 1e-3, but "
                       "got '" +
                       number + "'"};
  }
  Expected<TypedArgument> reference = parseArgument(request.path);
  if (!reference)
    return reference.error();
  const TypedArgument &buffer = results.list[request.index].value;
  if (!reference->isBuffer || reference->shape != buffer.shape)
    return Error{{},
                 "'" + request.path + "' has shape " +
                     formatShape(reference->shape) +
                     ", but the buffer has shape " + formatShape(buffer.shape)};
  // NumPy has no bf16; such a file holds the bits as u16.
  if (buffer.type == ElementType::BF16 && reference->type == ElementType::U16)
    reference->type = ElementType::BF16;
  request.reference = std::move(*reference);
  return request;
}

static std::vector<uint8_t> readBack(const DeviceMemory &memory,
                                     const LoadedArgument &argument) {
  std::vector<uint8_t> data(argument.value.data.size());
  memory.read(argument.address, data.data(), data.size());
  return data;
}

std::string flashcore::emu::writeOutput(const OutputRequest &request,
                                        const DeviceMemory &memory,
                                        const LoadedArgument &argument) {
  return writeNpy(request.path,
                  {npyName(argument.value.type), argument.value.shape,
                   readBack(memory, argument)});
}

std::string flashcore::emu::describeUnwritten(const DeviceMemory &memory,
                                              const LoadedArgument &argument) {
  const TensorView &view = argument.value.view;
  unsigned bytes = elementBytes(argument.value.type);
  uint64_t count = 1, missing = 0;
  for (uint64_t extent : view.shape)
    count *= extent;
  std::string first;
  std::vector<uint64_t> indices(view.shape.size());
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t rest = i, at = view.strides.empty() ? i : view.offset;
    for (size_t axis = indices.size(); axis-- > 0;) {
      indices[axis] = rest % view.shape[axis];
      rest /= view.shape[axis];
      if (!view.strides.empty())
        at += indices[axis] * view.strides[axis];
    }
    if (memory.isInitialized(argument.address + at * bytes, bytes))
      continue;
    if (missing++ == 0)
      first = formatShape(indices);
  }
  if (missing == 0)
    return {};
  return std::to_string(missing) + " of " + std::to_string(count) +
         " elements, the first of them " + first;
}

/// NaN counts as an infinite difference.
Comparison flashcore::emu::compare(const ExpectRequest &request,
                                   const DeviceMemory &memory,
                                   const LoadedArgument &argument) {
  std::vector<uint8_t> data = readBack(memory, argument);
  const TypedArgument &reference = request.reference;
  unsigned size = elementBytes(argument.value.type);
  unsigned refSize = elementBytes(reference.type);
  double worst = 0;
  size_t worstIndex = 0;
  for (size_t i = 0; i < data.size() / size; ++i) {
    double got = elementToDouble(argument.value.type, data.data() + i * size);
    double want =
        elementToDouble(reference.type, reference.data.data() + i * refSize);
    double difference = got == want ? 0 : std::fabs(got - want);
    if (std::isnan(difference))
      difference = HUGE_VAL;
    if (difference > worst) {
      worst = difference;
      worstIndex = i;
    }
  }
  Comparison result;
  result.differs = worst > request.tolerance;
  result.text = request.path + ": largest difference " + formatShort(worst) +
                " at element " + std::to_string(worstIndex) + ", tolerance " +
                formatShort(request.tolerance) + ": " +
                (result.differs ? "DIFFERS" : "ok");
  return result;
}
