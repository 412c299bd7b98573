//===- Json.cpp - Reports for tools ---------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The same content as Text.cpp. "version" rises when a field changes meaning.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Emulator/Report.h"

#include <nlohmann/json.hpp>

using namespace flashcore::emu;
using nlohmann::json;

static json placeToJson(const Place &place) {
  json out = {{"line", place.line},
              {"cta", {place.cta[0], place.cta[1], place.cta[2]}},
              {"warp", place.warp},
              {"lanes", place.lanes}};
  if (!place.source.empty())
    out["source"] = place.source;
  if (!place.text.empty())
    out["text"] = place.text;
  return out;
}

static json findingToJson(const Finding &finding) {
  json out = {{"kind", findingName(finding.kind)},
              {"check", checkName(findingCheck(finding.kind))},
              {"place", placeToJson(finding.place)},
              {"message", finding.message},
              {"rule", finding.rule},
              {"count", finding.count}};
  if (finding.bytes) {
    out["address"] = finding.address;
    out["bytes"] = finding.bytes;
  }
  if (finding.hasOther) {
    out["other"] = placeToJson(finding.other);
    out["other"]["what"] = finding.otherWhat;
  }
  return out;
}

static json countersToJson(const Counters &c) {
  json lines = json::array(), classes = json::object();
  for (const LineCounters &l : c.lines)
    lines.push_back({{"line", l.line},
                     {"source", l.source},
                     {"executed", l.executed},
                     {"shared_wavefronts", l.wavefronts},
                     {"shared_wavefronts_ideal", l.idealWavefronts},
                     {"global_sectors", l.sectors},
                     {"global_sectors_ideal", l.idealSectors},
                     {"shared_bytes", l.sharedBytes},
                     {"global_bytes", l.globalBytes}});
  for (const auto &[name, count] : c.classes)
    classes[name] = count;
  return {{"warp_instructions", c.warpInstructions},
          {"mma", c.mma},
          {"shared_wavefronts", c.wavefronts},
          {"shared_wavefronts_ideal", c.idealWavefronts},
          {"global_sectors", c.sectors},
          {"global_sectors_ideal", c.idealSectors},
          {"shared_bytes", c.sharedBytes},
          {"global_read_bytes", c.globalReadBytes},
          {"global_write_bytes", c.globalWriteBytes},
          {"classes", classes},
          {"lines", lines}};
}

std::string flashcore::emu::reportToJson(const Report &report,
                                         const std::string &file) {
  json findings = json::array();
  for (const Finding &finding : report.findings)
    findings.push_back(findingToJson(finding));
  json notes = json::array();
  for (const Finding &note : report.notes)
    notes.push_back(findingToJson(note));
  json out = {{"version", 1},
              {"file", file},
              {"kernel", report.kernel},
              {"ctas", report.numCtas},
              {"warps_per_cta", report.warpsPerCta},
              {"shared_bytes_per_cta", report.sharedBytes},
              {"mma_model", report.mmaModel},
              {"uses_approximations", report.usesApproximations},
              {"seconds", report.seconds},
              {"threads", report.threads},
              {"findings", findings},
              {"notes", notes},
              {"counters", countersToJson(report.counters)}};
  if (report.droppedText)
    out["dropped_printf_bytes"] = report.droppedText;
  if (!report.threadsNote.empty())
    out["threads_note"] = report.threadsNote;
  return out.dump(2, ' ', /*ensure_ascii=*/true,
                  json::error_handler_t::replace) +
         "\n";
}
