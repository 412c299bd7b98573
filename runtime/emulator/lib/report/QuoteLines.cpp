//===- QuoteLines.cpp - Findings with the lines they are about ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "QuoteLines.h"
#include "flashcore/Emulator/Printable.h"

#include <algorithm>
#include <map>

using namespace flashcore::emu;

void flashcore::emu::quoteLines(Report &report, std::string_view ptx) {
  std::map<uint32_t, std::vector<Place *>> places;
  for (std::vector<Finding> *list : {&report.findings, &report.notes})
    for (Finding &finding : *list) {
      places[finding.place.line].push_back(&finding.place);
      if (finding.hasOther)
        places[finding.other.line].push_back(&finding.other);
    }
  uint32_t line = 1;
  for (const auto &[wanted, all] : places) {
    for (; line < wanted && !ptx.empty(); ++line)
      ptx.remove_prefix(std::min(ptx.find('\n'), ptx.size() - 1) + 1);
    std::string_view text = ptx.substr(0, ptx.find_first_of("\r\n"));
    size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
    text = text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
    constexpr size_t longest = 200;
    for (Place *place : all)
      if (wanted)
        place->text = printable(text.substr(0, longest));
  }
}
