//===- Text.cpp - Reports for people --------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A finding looks like a compiler's message: position, what, then notes.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Emulator/Printable.h"
#include "flashcore/Emulator/Report.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <map>
#include <set>

using namespace flashcore::emu;

const char *flashcore::emu::findingName(FindingKind kind) {
  static constexpr const char *names[] = {"out-of-bounds",
                                          "invalid-address",
                                          "misaligned",
                                          "uninitialized-memory",
                                          "uninitialized-register",
                                          "shared-race",
                                          "global-race",
                                          "async-read",
                                          "async-overwrite",
                                          "divergent-collective",
                                          "barrier-mismatch",
                                          "deadlock",
                                          "layout-mismatch",
                                          "trap",
                                          "instruction-limit",
                                          "invalid-branch",
                                          "same-value",
                                          "invalid-mbarrier",
                                          "missing-proxy-fence",
                                          "register-in-flight",
                                          "invalid-descriptor",
                                          "invalid-register-count",
                                          "fragment-mismatch",
                                          "undeclared-alignment",
                                          "exited-threads",
                                          "moved-products"};
  return names[static_cast<size_t>(kind)];
}

Check flashcore::emu::findingCheck(FindingKind kind) {
  switch (kind) {
  case FindingKind::UninitializedMemory:
  case FindingKind::UninitializedRegister:
    return CheckInit;
  case FindingKind::SharedRace:
  case FindingKind::GlobalRace:
    return CheckRace;
  case FindingKind::AsyncRead:
  case FindingKind::AsyncOverwrite:
  case FindingKind::MissingProxyFence:
  case FindingKind::RegisterInFlight:
    return CheckAsync;
  case FindingKind::DivergentCollective:
  case FindingKind::BarrierMismatch:
  case FindingKind::Deadlock:
  case FindingKind::InvalidMbarrier:
  case FindingKind::InvalidRegisterCount:
  case FindingKind::ExitedThreads:
    return CheckSync;
  case FindingKind::LayoutMismatch:
  case FindingKind::FragmentMismatch:
  case FindingKind::MovedProducts:
    return CheckLayout;
  case FindingKind::SameValue:
    return CheckSameValue;
  default:
    return CheckMemory;
  }
}

static constexpr std::pair<const char *, Check> checkNames[] = {
    {"memory", CheckMemory},
    {"init", CheckInit},
    {"race", CheckRace},
    {"async", CheckAsync},
    {"sync", CheckSync},
    {"layout", CheckLayout},
    {"all", CheckAll},
    {"none", CheckNone},
    {"same-value", CheckSameValue}};

const char *flashcore::emu::checkName(Check check) {
  for (const auto &[name, value] : checkNames)
    if (value == check)
      return name;
  return "several";
}

bool flashcore::emu::parseChecks(const std::string &list, unsigned &set,
                                 std::string &unknown) {
  unsigned result = CheckNone;
  for (size_t begin = 0; begin <= list.size();) {
    size_t end = std::min(list.find(',', begin), list.size());
    std::string word = list.substr(begin, end - begin);
    auto it =
        std::find_if(std::begin(checkNames), std::end(checkNames),
                     [&](const auto &entry) { return word == entry.first; });
    if (it == std::end(checkNames)) {
      unknown = word;
      return false;
    }
    result |= it->second;
    begin = end + 1;
  }
  set = result;
  return true;
}

static std::string describeLanes(uint32_t lanes) {
  if (lanes == 0)
    return "";
  if (lanes == ~0u)
    return ", all lanes";
  std::string text = std::popcount(lanes) == 1 ? ", lane " : ", lanes ";
  bool first = true;
  for (int i = 0; i < 32; ++i) {
    if (!(lanes >> i & 1))
      continue;
    int end = i;
    while (end < 31 && lanes >> (end + 1) & 1)
      ++end;
    text += (first ? "" : " ") + std::to_string(i);
    if (end > i)
      text += "-" + std::to_string(end);
    first = false;
    i = end;
  }
  return text;
}

static std::string describePlace(const Place &place) {
  return "CTA (" + std::to_string(place.cta[0]) + "," +
         std::to_string(place.cta[1]) + "," + std::to_string(place.cta[2]) +
         "), warp " + std::to_string(place.warp) + describeLanes(place.lanes);
}

static std::string at(const Place &place, const std::string &file) {
  std::string text = file + ":" + std::to_string(place.line);
  return place.source.empty() ? text : text + " (" + place.source + ")";
}

std::string flashcore::emu::formatFinding(const Finding &finding,
                                          const std::string &file,
                                          const std::string &kernel) {
  std::string text = at(finding.place, file) + ": " +
                     findingName(finding.kind) + ": " + finding.message + "\n";
  text += "  in " + kernel + ", " + describePlace(finding.place);
  char hex[48];
  std::snprintf(hex, sizeof hex, ", address 0x%llx",
                static_cast<unsigned long long>(finding.address));
  if (finding.bytes)
    text += std::string(hex) + ", " + std::to_string(finding.bytes) + " bytes";
  text += "\n";
  if (finding.hasOther)
    text += "  other: " + finding.otherWhat + " at " + at(finding.other, file) +
            ", " + describePlace(finding.other) + "\n";
  text += "  rule: " + finding.rule + "\n";
  if (finding.count > 1)
    text += "  seen " + std::to_string(finding.count) + " times\n";
  return text;
}

/// Of each kind the first finding, and then the rest.
static std::string formatFindings(const Report &report,
                                  const std::string &file) {
  std::string text, rest;
  std::set<FindingKind> known;
  size_t numRest = 0;
  for (const Finding &finding : report.findings) {
    bool isFirst = known.insert(finding.kind).second;
    numRest += !isFirst;
    (isFirst ? text : rest) +=
        formatFinding(finding, file, report.kernel) + "\n";
  }
  if (known.size() > 1 && numRest)
    text += "The first of each kind is above, the other " +
            std::to_string(numRest) + " below.\n\n";
  return text + rest;
}

/// " (3 out-of-bounds, 1 shared-race)" where there are several kinds.
static std::string countKinds(const Report &report) {
  std::map<FindingKind, size_t> counts;
  for (const Finding &finding : report.findings)
    ++counts[finding.kind];
  if (counts.size() < 2)
    return {};
  std::string text;
  for (const auto &[kind, count] : counts)
    text += (text.empty() ? " (" : ", ") + std::to_string(count) + " " +
            findingName(kind);
  return text + ")";
}

std::string flashcore::emu::formatReport(const Report &report,
                                         const std::string &file) {
  std::string text = formatFindings(report, file);
  for (const Finding &note : report.notes)
    text += "note: " + formatFinding(note, file, report.kernel) + "\n";
  const Counters &c = report.counters;
  text += report.kernel + ": " + std::to_string(report.findings.size()) +
          (report.findings.size() == 1 ? " finding" : " findings") +
          countKinds(report);
  if (!report.notes.empty())
    text += ", " + std::to_string(report.notes.size()) +
            (report.notes.size() == 1 ? " note" : " notes");
  text += "; " + std::to_string(report.numCtas) + " CTAs of " +
          std::to_string(report.warpsPerCta) + " warps, " +
          std::to_string(c.warpInstructions) + " warp instructions";
  // Without counters the number of mma is not known.
  if (c.mma)
    text += ", " + std::to_string(c.mma) + " mma";
  text += " (mma: " + report.mmaModel + "), " + formatFixed(report.seconds, 3) +
          " s";
  if (report.threads > 1)
    text += " on " + std::to_string(report.threads) + " threads";
  if (!report.threadsNote.empty())
    text += " on one thread: " + report.threadsNote;
  return text + "\n";
}

static std::string over(uint64_t actual, uint64_t ideal) {
  double percent =
      ideal
          ? 100.0 *
                (static_cast<double>(actual) / static_cast<double>(ideal) - 1.0)
          : 0.0;
  return std::to_string(actual) + " of " + std::to_string(ideal) + " ideal (" +
         (percent < 0 ? "" : "+") + formatFixed(percent, 1) + " %)";
}

std::string flashcore::emu::formatCounters(const Report &report,
                                           unsigned maxLines) {
  const Counters &c = report.counters;
  std::string text =
      "shared wavefronts: " + over(c.wavefronts, c.idealWavefronts) +
      "\nglobal sectors:    " + over(c.sectors, c.idealSectors) +
      "\nbytes: " + std::to_string(c.sharedBytes) + " shared, " +
      std::to_string(c.globalReadBytes) + " read, " +
      std::to_string(c.globalWriteBytes) + " written\ninstructions:";
  for (const auto &[name, count] : c.classes)
    if (count)
      text += " " + name + " " + std::to_string(count);
  text += "\n";
  std::vector<LineCounters> lines = c.lines;
  auto excess = [](const LineCounters &l) {
    return (l.wavefronts - l.idealWavefronts) + (l.sectors - l.idealSectors);
  };
  std::sort(lines.begin(), lines.end(),
            [&](const LineCounters &a, const LineCounters &b) {
              return excess(a) != excess(b) ? excess(a) > excess(b)
                                            : a.line < b.line;
            });
  for (size_t i = 0; i < lines.size() && i < maxLines; ++i) {
    const LineCounters &l = lines[i];
    if (excess(l) == 0)
      break;
    text += "  line " + std::to_string(l.line) + ":";
    if (l.wavefronts)
      text += " wavefronts " + over(l.wavefronts, l.idealWavefronts);
    if (l.sectors)
      text += " sectors " + over(l.sectors, l.idealSectors);
    text += l.source.empty() ? "\n" : " " + l.source + "\n";
  }
  return text;
}
