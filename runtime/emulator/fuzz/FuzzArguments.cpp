//===- FuzzArguments.cpp - Fuzzing the arguments of flashcore-emu ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The notation of --arg, and its JSON, from any text: an argument whose bytes
// hold together, or an error with a message. See Replay.cpp.
//
//===----------------------------------------------------------------------===//

#include "../tools/flashcore-emu/TypedArgument.h"

#include <algorithm>
#include <cstdlib>

using namespace flashcore::emu;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/// Whether the text asks for no buffer so large that filling it takes long, and
/// names no file.
static bool isSmall(const std::string &text) {
  size_t digits = 0, longest = 0;
  bool isShape = false;
  for (char c : text) {
    isShape = c == '[' || (isShape && c != ']');
    digits = isShape && c >= '0' && c <= '9' ? digits + 1
             : isShape                       ? digits
                                             : 0;
    longest = std::max(longest, digits);
  }
  return longest <= 5 && text.find("npy") == std::string::npos;
}

static void checkArgument(const TypedArgument &argument) {
  for (const ArgumentMember &member : argument.members) {
    if (member.offset + member.value.valueBytes() > argument.data.size())
      std::abort();
    checkArgument(member.value);
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(reinterpret_cast<const char *>(data), size);
  if (!isSmall(text))
    return 0;
  bool isJson = text.starts_with("{") || text.starts_with("[");
  Expected<std::vector<TypedArgument>> arguments =
      isJson ? parseJsonArguments(text, "fuzz.json") : parseArguments(text);
  if (!arguments) {
    if (arguments.error().message.empty())
      std::abort();
    return 0;
  }
  for (const TypedArgument &argument : *arguments)
    checkArgument(argument);
  return 0;
}
