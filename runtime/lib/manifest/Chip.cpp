//===- Chip.cpp - Names of GPU chips --------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rules of PTX about which chip runs what: plain PTX runs on newer chips,
// PTX with the suffix 'a' on its chip only, with 'f' on newer ones of its
// family, that is of its major number.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Chip.h"

#include <charconv>

using namespace flashcore;

std::string Chip::str() const {
  std::string name = "sm_" + std::to_string(number);
  if (suffix)
    name += suffix;
  return name;
}

bool Chip::isOlderThan(Chip other) const {
  auto scope = [](char suffix) {
    return suffix == 'a' ? 2 : suffix == 'f' ? 1 : 0;
  };
  return number != other.number ? number < other.number
                                : scope(suffix) < scope(other.suffix);
}

bool Chip::ptxRunsOn(Chip device) const {
  if (suffix == 'a')
    return number == device.number;
  if (suffix == 'f')
    return major() == device.major() && number <= device.number;
  return number <= device.number;
}

StatusOr<Chip> flashcore::parseChip(std::string_view name) {
  Status malformed = Status::error(
      "expects a chip name such as 'sm_89' or 'sm_90a', but got '" +
      std::string(name) + "'");
  if (!name.starts_with("sm_"))
    return malformed;
  Chip chip;
  const char *end = name.data() + name.size();
  auto [rest, error] = std::from_chars(name.data() + 3, end, chip.number);
  if (error != std::errc() || chip.number < 10 || chip.number > 9999)
    return malformed;
  if (rest != end)
    chip.suffix = *rest++;
  if (rest != end || (chip.suffix && chip.suffix != 'a' && chip.suffix != 'f'))
    return malformed;
  return chip;
}
