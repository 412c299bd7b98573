//===- ReportTest.cpp - Reports for people and tools ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestUtil.h"

#include <nlohmann/json.hpp>

using namespace flashcore::emu;
using namespace flashcore::emu::test;
using nlohmann::json;

/// Two stores out of bounds, a use of what nobody wrote, and a store again.
static Report severalKinds() {
  RunConfig config;
  config.outputBytes = 40;
  RunResult result = runBody("st.global.u32 [%g0+400], 1;\n"
                             "  st.global.u32 [%g0+404], 2; // why\n"
                             "ld.global.u32 %r2, [%g0];\n"
                             "setp.eq.u32 %p1, %r2, 0;\n"
                             "@%p1 bar.warp.sync -1;\n"
                             "st.global.u32 [%g0+408], 3;\n",
                             config);
  EXPECT_EQ(result.error, "");
  return result.report;
}

TEST(Report, TheFirstOfEachKindComesFirst) {
  std::string text = formatReport(severalKinds(), "k.ptx");
  size_t last = 0;
  for (const char *part :
       {"360 bytes past the end", "uninitialized-memory: ",
        "The first of each kind is above, the other 2 below.\n",
        "364 bytes past the end", "368 bytes past the end",
        "test: 4 findings (3 out-of-bounds, 1 uninitialized-memory); "}) {
    size_t at = text.find(part);
    ASSERT_NE(at, std::string::npos) << part << "\n" << text;
    EXPECT_GT(at, last) << part;
    last = at;
  }
}

TEST(Report, OneKindNeedsNoSummary) {
  RunConfig config;
  config.outputBytes = 40;
  std::string text = formatReport(
      runBody("st.global.u32 [%g0+400], 1;\nst.global.u32 [%g0+404], 2;",
              config)
          .report,
      "k.ptx");
  EXPECT_NE(text.find("test: 2 findings; "), std::string::npos) << text;
  EXPECT_EQ(text.find("first of each kind"), std::string::npos);
}

TEST(Report, PlacesQuoteTheirLines) {
  json report = json::parse(reportToJson(severalKinds(), "k.ptx"));
  ASSERT_EQ(report["findings"].size(), 4u);
  EXPECT_EQ(report["findings"][0]["place"]["text"],
            "st.global.u32 [%g0+400], 1;");
  EXPECT_EQ(report["findings"][1]["place"]["text"],
            "st.global.u32 [%g0+404], 2; // why");
}

TEST(Report, TheOtherPartyIsQuotedToo) {
  RunConfig config;
  config.block = {64, 1, 1};
  RunResult result = runBody("mov.u32 %r0, word;\n"
                             "st.shared.u32 [%r0], %t;\n",
                             config, ".shared .u32 word;");
  json report = json::parse(reportToJson(result.report, "k.ptx"));
  ASSERT_GE(report["findings"].size(), 1u);
  for (const json &finding : report["findings"])
    if (finding.contains("other"))
      EXPECT_EQ(finding["other"]["text"], "st.shared.u32 [%r0], %t;");
  EXPECT_NE(report.dump().find("\"other\""), std::string::npos);
}
