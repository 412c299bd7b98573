//===- FindingUtil.h - What a run of the async proxy finds ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_UNITTESTS_FINDINGUTIL_H
#define FLASHCORE_EMULATOR_UNITTESTS_FINDINGUTIL_H

#include "TestUtil.h"

namespace flashcore::emu::test {

inline void expectClean(const RunResult &run) {
  EXPECT_TRUE(run.error.empty() && run.report.clean()) << run.text();
}

/// One finding of a kind, whose message has `text` in it.
inline void expectOne(const RunResult &run, FindingKind kind,
                      const std::string &text) {
  ASSERT_TRUE(run.error.empty()) << run.error;
  ASSERT_EQ(run.report.findings.size(), 1u) << run.text();
  EXPECT_EQ(run.report.findings[0].kind, kind) << run.text();
  EXPECT_NE(run.report.findings[0].message.find(text), std::string::npos)
      << run.text();
}

} // namespace flashcore::emu::test

#endif // FLASHCORE_EMULATOR_UNITTESTS_FINDINGUTIL_H
