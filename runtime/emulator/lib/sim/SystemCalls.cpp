//===- SystemCalls.cpp - printf and assert of a kernel --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The functions that PTX declares and the driver defines. vprintf gets a format
// and a buffer in which each argument lies at its natural alignment; the text
// goes to stderr, as stdout belongs to the report, without what a terminal
// would obey.
//
//===----------------------------------------------------------------------===//

#include "Machine.h"
#include "flashcore/Emulator/Printable.h"

#include <algorithm>
#include <cstdio>

#include <locale.h>

using namespace flashcore::emu;

static constexpr size_t maxString = 1u << 16;

/// The bytes at a generic address, or null where there are none.
const uint8_t *Machine::hostBytes(const Warp &warp, unsigned lane,
                                  uint64_t address, uint64_t bytes) {
  auto inside = [&](uint64_t offset, uint64_t size) {
    return offset <= size && bytes <= size - offset;
  };
  if (address >= globalWindow) {
    const Buffer *buffer = memory.find(address, bytes);
    return buffer ? buffer->data.data() + (address - buffer->base) : nullptr;
  }
  if (address >= paramWindow)
    return inside(address - paramWindow, params.size())
               ? params.data() + (address - paramWindow)
               : nullptr;
  if (address >= localWindow)
    return inside(address - localWindow, program.localBytes)
               ? warp.local.data() + lane * program.localBytes +
                     (address - localWindow)
               : nullptr;
  return address >= sharedWindow &&
                 inside(address - sharedWindow, cta->shared.size())
             ? cta->shared.data() + (address - sharedWindow)
             : nullptr;
}

bool Machine::readString(const Warp &warp, unsigned lane, uint64_t address,
                         std::string &out) {
  out.clear();
  while (out.size() < maxString) {
    const uint8_t *c = hostBytes(warp, lane, address + out.size(), 1);
    if (!c)
      return false;
    if (!*c)
      return true;
    out += static_cast<char>(*c);
  }
  return true;
}

namespace {
/// One conversion such as "%-*.3lld".
struct Conversion {
  std::string flags;
  bool starWidth = false, starPrecision = false;
  int width = -1, precision = -1;
  bool isLong = false;
  char letter = 0;
};
} // namespace

static int parseDecimal(const std::string &text, size_t &at) {
  int value = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
    value = std::min(value * 10 + (text[at] - '0'), 4096);
  return value;
}

/// Reads the conversion after a '%' at `at`.
static Conversion parseConversion(const std::string &text, size_t &at) {
  Conversion result;
  auto accept = [&](const char *set) {
    return at < text.size() && std::strchr(set, text[at]);
  };
  while (accept("-+ #0"))
    result.flags += text[at++];
  if (accept("*")) {
    result.starWidth = true;
    ++at;
  } else if (accept("123456789")) {
    result.width = parseDecimal(text, at);
  }
  if (accept(".")) {
    ++at;
    result.starPrecision = accept("*");
    if (result.starPrecision)
      ++at;
    else
      result.precision = parseDecimal(text, at);
  }
  while (accept("hlLjzt"))
    result.isLong |= text[at++] != 'h';
  result.letter = at < text.size() ? text[at++] : '\0';
  return result;
}

namespace {
/// The C locale for the calling thread: a kernel's numbers look the same in
/// every process.
class InCLocale {
public:
  InCLocale() : before(uselocale(numbers())) {}
  ~InCLocale() { uselocale(before); }
  InCLocale(const InCLocale &) = delete;
  InCLocale &operator=(const InCLocale &) = delete;

private:
  static locale_t numbers() {
    static const locale_t c = newlocale(LC_ALL_MASK, "C", locale_t());
    return c;
  }
  locale_t before;
};
} // namespace

template <typename T>
static void append(std::string &out, const Conversion &conversion,
                   const char *suffix, T value) {
  std::string format = "%" + conversion.flags.substr(0, 8);
  if (conversion.width >= 0)
    format += std::to_string(conversion.width);
  if (conversion.precision >= 0)
    format += "." + std::to_string(conversion.precision);
  format += suffix;
  InCLocale locale;
  int length = std::snprintf(nullptr, 0, format.c_str(), value);
  if (length <= 0)
    return;
  size_t before = out.size();
  out.resize(before + static_cast<size_t>(length) + 1);
  std::snprintf(out.data() + before, static_cast<size_t>(length) + 1,
                format.c_str(), value);
  out.pop_back();
}

/// The arguments of one lane's printf, taken one after the other.
class Machine::PrintfArguments {
public:
  PrintfArguments(Machine &machine, Warp &warp, const Inst &inst, unsigned lane,
                  uint64_t address)
      : machine(machine), warp(warp), inst(inst), lane(lane), cursor(address) {}

  /// What takes the place of the conversion `c`.
  void convert(std::string &out, Conversion c);

  /// None lay outside of memory so far.
  bool ok = true;
  uint32_t count = 0;

private:
  uint64_t next(unsigned bytes) {
    cursor = (cursor + bytes - 1) / bytes * bytes;
    uint64_t value = 0;
    const uint8_t *at = machine.hostBytes(warp, lane, cursor, bytes);
    ok &= at != nullptr;
    if (at) {
      machine.usePrinted(warp, inst, lane, cursor, bytes);
      std::memcpy(&value, at, bytes);
    }
    cursor += bytes;
    ++count;
    return value;
  }
  int star() { return std::clamp(static_cast<int>(next(4)), -4096, 4096); }
  std::string string() {
    std::string text;
    ok = machine.readString(warp, lane, next(8), text) && ok;
    return text;
  }

  Machine &machine;
  Warp &warp;
  const Inst &inst;
  unsigned lane;
  uint64_t cursor;
};

void Machine::PrintfArguments::convert(std::string &out, Conversion c) {
  if (c.starWidth) {
    int width = star();
    c.flags += width < 0 ? "-" : "";
    c.width = std::abs(width);
  }
  if (c.starPrecision)
    c.precision = star();
  char suffix[] = {'l', 'l', c.letter, '\0'};
  switch (c.letter) {
  case '%':
    out += '%';
    break;
  case 'd':
  case 'i':
    append(out, c, suffix,
           c.isLong ? static_cast<long long>(next(8))
                    : static_cast<long long>(static_cast<int32_t>(next(4))));
    break;
  case 'u':
  case 'o':
  case 'x':
  case 'X':
    append(out, c, suffix,
           static_cast<unsigned long long>(next(c.isLong ? 8 : 4)));
    break;
  case 'c':
    append(out, c, "c", static_cast<int>(next(4)));
    break;
  case 'p':
    append(out, c, "#llx", static_cast<unsigned long long>(next(8)));
    break;
  case 's':
    append(out, c, "s", string().c_str());
    break;
  case 'a':
  case 'A':
  case 'e':
  case 'E':
  case 'f':
  case 'F':
  case 'g':
  case 'G':
    append(out, c, suffix + 2, std::bit_cast<double>(next(8)));
    break;
  default:
    out += '%';
    out += c.letter ? std::string(1, c.letter) : "";
    break;
  }
}

/// False when the format or an argument lies outside of memory.
bool Machine::formatPrintf(Warp &warp, const Inst &inst, unsigned lane,
                           uint64_t format, uint64_t arguments,
                           std::string &out, uint32_t &count) {
  std::string text;
  if (!readString(warp, lane, format, text))
    return false;
  PrintfArguments values(*this, warp, inst, lane, arguments);
  for (size_t at = 0;
       values.ok && at < text.size() && out.size() < maxString;) {
    if (text[at] != '%') {
      out += text[at++];
      continue;
    }
    values.convert(out, parseConversion(text, ++at));
  }
  count = values.count;
  return values.ok;
}

/// What comes after the first text that has no room is not printed either.
void Machine::print(const std::string &text) {
  if (droppedText || text.size() > Report::maxText - printedText) {
    droppedText += text.size();
    return;
  }
  printedText += text.size();
  std::fwrite(text.data(), 1, text.size(), stderr);
}

/// Operands: d, and the arguments of the call.
void Machine::systemCall(Warp &warp, const Inst &inst, uint32_t lanes) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  bool isPrintf = static_cast<SystemCall>(inst.mode) == SystemCall::Vprintf;
  const uint64_t *first = warp.reg<uint64_t>(ops[1]);
  const uint64_t *second = warp.reg<uint64_t>(ops[2]);
  uint32_t bad = 0;
  forEachLane(lanes, [&](unsigned lane) {
    if (isPrintf) {
      std::string text;
      uint32_t count = 0;
      if (!formatPrintf(warp, inst, lane, first[lane], second[lane], text,
                        count))
        bad |= 1u << lane;
      print(printable(text, Lines::Keep));
      warp.reg<uint32_t>(ops[0])[lane] = count;
      return;
    }
    std::string message, file, function;
    bool ok =
        readString(warp, lane, first[lane], message) &&
        readString(warp, lane, second[lane], file) &&
        readString(warp, lane, warp.reg<uint64_t>(ops[4])[lane], function);
    bad |= ok ? 0u : 1u << lane;
    uint32_t line = warp.reg<uint32_t>(ops[3])[lane];
    find(FindingKind::Trap, warp, inst, 1u << lane, [&] {
      return Text{"assertion '" + message + "' failed at " + file + ":" +
                      std::to_string(line) + " in " + function,
                  "the kernel stopped itself"};
    });
    ctaFailed = true;
  });
  if (bad)
    find(FindingKind::OutOfBounds, warp, inst, bad, [&] {
      return Text{std::string(isPrintf ? "vprintf" : "__assertfail") +
                      " gets a string or an argument outside of memory",
                  "an access must lie inside one variable (PTX ISA 5.1)"};
    });
}
