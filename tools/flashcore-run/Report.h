//===- Report.h - Results as text and JSON ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How flashcore-run shows results: a line a run, a table, JSON, and the summary
// of a bundle.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUN_REPORT_H
#define FLASHCORE_RUN_REPORT_H

#include "Session.h"

namespace flashcore::run {

/// One line, for a run that ended with an error too, whose text goes elsewhere.
/// Where a check failed, more lines name the worst element of each output and
/// what is not finite. No trailing newline.
std::string formatLine(const RunResult &result);

/// All runs below each other in columns, then the number of passes.
std::string formatTable(const std::vector<RunResult> &results);

Status writeJson(const std::filesystem::path &path,
                 const std::vector<RunResult> &results);

/// Chips, sizes, tensors, and for each kernel of each variant of a bundle
/// registers, spills and shared memory. `source` is what the bundle was
/// compiled from for this.
std::string formatInfo(std::span<const Bundle> variants,
                       const std::optional<Source> &source = {});

} // namespace flashcore::run

#endif // FLASHCORE_RUN_REPORT_H
