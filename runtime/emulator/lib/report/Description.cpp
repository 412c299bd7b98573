//===- Description.cpp - The launch that a PTX file describes -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Description.h. What the words mean is the runtime's matter.
//
//===----------------------------------------------------------------------===//

#include "Description.h"
#include "../../../lib/manifest/ProgramReader.h"
#include "flashcore/Emulator/OptionText.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace flashcore;
using namespace flashcore::emu;
using nlohmann::json;

static constexpr std::string_view prefix = "// flashcore-launch: ";

Error flashcore::emu::toError(const Status &status) {
  std::string text = status.message();
  for (const std::string &note : status.notes())
    text += ": " + note;
  return {{}, text};
}

std::string_view flashcore::emu::findDescription(std::string_view ptx,
                                                 SrcLoc &loc) {
  for (uint32_t number = 1; !ptx.empty(); ++number) {
    size_t end = std::min(ptx.find('\n'), ptx.size());
    std::string_view line = ptx.substr(0, end);
    ptx.remove_prefix(std::min(end + 1, ptx.size()));
    if (line.starts_with(prefix)) {
      loc = {number, static_cast<uint32_t>(prefix.size() + 1)};
      return line.substr(prefix.size());
    }
    bool isBlank = line.find_first_not_of(" \t\r") == std::string_view::npos;
    if (!isBlank && !line.starts_with("//"))
      break;
  }
  return {};
}

Expected<std::optional<HostProgram>>
flashcore::emu::readDescription(std::string_view ptx) {
  SrcLoc loc;
  std::string_view text = findDescription(ptx, loc);
  if (!loc.line)
    return std::optional<HostProgram>();
  // Null where it is no JSON.
  json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded())
    return Error{loc, "flashcore-launch: expects one JSON object on this line"};
  JsonReader reader("flashcore-launch", /*remedy=*/"");
  std::string op;
  HostProgram program = readLaunchComment(reader, reader.root(document), op);
  if (!reader.ok())
    return Error{loc, toError(reader.status()).message};
  return std::optional(std::move(program));
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

static std::string listNames(const HostProgram &program) {
  std::string names;
  for (const auto &[name, size] : program.sizes)
    names += (names.empty() ? "" : ", ") + name;
  return names;
}

std::string flashcore::emu::openSizes(const HostProgram &program,
                                      const Numbers &given) {
  std::string open;
  for (const auto &[name, size] : program.sizes)
    if (!size && !given.contains(name))
      open += " --dim " + name + "=N";
  return open;
}

/// No kernel checks this, and with other sizes each would read past its
/// tensors.
static Error verifyHeads(const Numbers &sizes) {
  auto q = sizes.find("heads_q"), kv = sizes.find("heads_kv");
  if (q == sizes.end() || kv == sizes.end())
    return {};
  bool isMultiple = kv->second ? q->second % kv->second == 0 : q->second == 0;
  if (isMultiple)
    return {};
  return {{},
          "expects heads_q to be a multiple of heads_kv, but got " +
              std::to_string(q->second) + " and " + std::to_string(kv->second)};
}

Expected<Numbers>
flashcore::emu::bindSizes(const HostProgram &program,
                          const std::vector<std::string> &given) {
  Numbers sizes;
  for (const std::string &text : given) {
    size_t equal = std::min(text.find('='), text.size());
    std::string name = text.substr(0, equal);
    uint64_t number = 0;
    if (equal == text.size() ||
        !parseNumber(std::string_view(text).substr(equal + 1), number) ||
        number > INT64_MAX)
      return Error{{}, "--dim expects NAME=NUMBER, but got '" + text + "'"};
    auto it = program.sizes.find(name);
    if (it == program.sizes.end())
      return Error{{},
                   "--dim expects a name of " + listNames(program) +
                       ", but got '" + name + "'"};
    if (static_cast<uint64_t>(
            it->second.value_or(static_cast<int64_t>(number))) != number)
      return Error{{},
                   "--dim " + text + ": the kernel was compiled for " + name +
                       " = " + std::to_string(*it->second)};
    if (!sizes.insert({name, static_cast<int64_t>(number)}).second)
      return Error{{}, "--dim gives " + name + " twice"};
  }
  for (const auto &[name, size] : program.sizes)
    if (size)
      sizes.insert({name, *size});
  std::string missing = openSizes(program, sizes);
  if (!missing.empty())
    return Error{{},
                 "the kernel leaves sizes open: expects" + missing +
                     " with numbers for N"};
  Error error = verifyHeads(sizes);
  if (!error.message.empty())
    return error;
  if (Status status = program.addValues(sizes); !status.ok())
    return toError(status);
  return sizes;
}

Expected<BoundTensor> flashcore::emu::bindTensor(const TensorSpec &tensor,
                                                 const Numbers &numbers,
                                                 const std::string &fill) {
  BoundTensor out;
  std::vector<int64_t> extents;
  for (const std::string &axis : tensor.axes)
    extents.push_back(axis == BroadcastAxis ? 1 : numbers.find(axis)->second);
  out.offset = tensor.offset.value_or(0);
  out.strides.resize(extents.size());
  int64_t dense = 1;
  for (size_t i = extents.size(); i-- > 0;) {
    out.strides[i] = tensor.strides[i].value_or(dense);
    if (__builtin_mul_overflow(dense, std::max<int64_t>(extents[i], 1), &dense))
      return Error{{},
                   "tensor '" + tensor.name +
                       "' does not fit 64 bits at these sizes"};
  }
  std::string shape, strides;
  for (size_t i = 0; i < extents.size(); ++i) {
    shape += (i ? "," : "") + std::to_string(extents[i]);
    strides += (i ? "," : "") + std::to_string(out.strides[i]);
  }
  out.text = std::string(stringify(tensor.dtype)) + "[" + shape + ":" +
             strides + "+" + std::to_string(out.offset) + "]:" + fill;
  return out;
}
