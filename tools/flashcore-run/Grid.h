//===- Grid.h - Many runs from one file -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the file of --grid: a JSON list of runs. An entry has the key "bundle"
// (relative to the file) and may have "dims" (an object of sizes), "layout",
// "offset", "seed", "kind", "stage", "check" and "time", which mean what the
// options of these names mean, and "tensors": an object of "strides" and
// "offset", in elements, by tensor name.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUN_GRID_H
#define FLASHCORE_RUN_GRID_H

#include "Session.h"

namespace flashcore::run {

/// `defaults` holds what an entry does not say; `chooseSeed` gives the seed of
/// an entry that names none.
StatusOr<std::vector<RunRequest>>
loadGrid(const std::filesystem::path &path, const RunRequest &defaults,
         const std::function<uint64_t()> &chooseSeed);

} // namespace flashcore::run

#endif // FLASHCORE_RUN_GRID_H
