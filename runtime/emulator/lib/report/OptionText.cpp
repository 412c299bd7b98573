//===- OptionText.cpp - Launch options from text --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See OptionText.h.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Emulator/OptionText.h"

#include <algorithm>
#include <charconv>

using namespace flashcore::emu;

bool flashcore::emu::parseNumber(std::string_view text, uint64_t &number) {
  const char *end = text.data() + text.size();
  auto [last, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && last == end && !text.empty();
}

static Error expects(const std::string &what, const std::string &value) {
  return {{}, "expects " + what + ", but got '" + value + "'"};
}

/// Splits "random:7" and stores both parts; other values take no seed.
template <typename T>
static Error setSeeded(const std::string &value, const char *what,
                       const std::pair<const char *, T> (&names)[3], T random,
                       T &option, uint64_t &seed) {
  size_t colon = value.find(':');
  std::string name = value.substr(0, colon);
  auto it =
      std::find_if(std::begin(names), std::end(names),
                   [&](const auto &entry) { return entry.first == name; });
  if (it == std::end(names))
    return expects(what, value);
  uint64_t number = 0;
  if (colon != std::string::npos &&
      (it->second != random ||
       !parseNumber(std::string_view(value).substr(colon + 1), number)))
    return expects(what, value);
  option = it->second;
  seed = number;
  return {};
}

static Error setCheck(LaunchOptions &options, const std::string &value) {
  std::string unknown;
  if (parseChecks(value, options.checks, unknown))
    return {};
  std::string known;
  for (unsigned bit = 1; bit <= CheckSameValue; bit <<= 1)
    known += std::string(", ") + checkName(static_cast<Check>(bit));
  return {{},
          "expects all, none, or a list of" + known.substr(1) + ", but got '" +
              unknown + "'"};
}

static Error setMma(LaunchOptions &options, const std::string &value) {
  static constexpr std::pair<const char *, MmaRounding> names[] = {
      {"auto", MmaRounding::Auto},
      {"plain", MmaRounding::Plain},
      {"sm80", MmaRounding::Sm80},
      {"sm90", MmaRounding::Sm90}};
  for (const auto &[name, rounding] : names)
    if (value == name) {
      options.mma = rounding;
      return {};
    }
  return expects("auto, plain, sm80 or sm90", value);
}

static Error setSchedule(LaunchOptions &options, const std::string &value) {
  return setSeeded<Schedule>(value, "seq, skew, random or random:SEED",
                             {{"seq", Schedule::Sequential},
                              {"skew", Schedule::Skewed},
                              {"random", Schedule::Random}},
                             Schedule::Random, options.schedule,
                             options.scheduleSeed);
}

static Error setAsync(LaunchOptions &options, const std::string &value) {
  return setSeeded<AsyncMode>(value, "lazy, eager, random or random:SEED",
                              {{"lazy", AsyncMode::Lazy},
                               {"eager", AsyncMode::Eager},
                               {"random", AsyncMode::Random}},
                              AsyncMode::Random, options.async,
                              options.asyncSeed);
}

static Error setSharedBase(LaunchOptions &options, const std::string &value) {
  if (value != "driver" && value != "declared")
    return expects("driver or declared", value);
  options.sharedBase =
      value == "driver" ? SharedBase::Driver : SharedBase::Declared;
  return {};
}

static Error setThreads(LaunchOptions &options, const std::string &value) {
  uint64_t number = 0;
  if (!parseNumber(value, number) || number > maxThreads)
    return expects("0 to " + std::to_string(maxThreads) + " threads", value);
  options.threads = static_cast<unsigned>(number);
  return {};
}

static Error setMaxInstructions(LaunchOptions &options,
                                const std::string &value) {
  if (!parseNumber(value, options.maxInstructions))
    return expects("a number of warp instructions", value);
  return {};
}

Error flashcore::emu::setLaunchOption(LaunchOptions &options,
                                      std::string_view name,
                                      const std::string &value) {
  using Setter = Error (*)(LaunchOptions &, const std::string &);
  static constexpr std::pair<std::string_view, Setter> setters[] = {
      {"check", setCheck},           {"mma", setMma},
      {"schedule", setSchedule},     {"async", setAsync},
      {"threads", setThreads},       {"max-instructions", setMaxInstructions},
      {"shared-base", setSharedBase}};
  for (const auto &[known, set] : setters)
    if (name == known)
      return set(options, value);
  return {{}, "is unknown"};
}
