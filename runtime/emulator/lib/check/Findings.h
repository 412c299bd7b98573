//===- Findings.h - Findings, merged ----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The same fault in each iteration and each CTA is one finding with a count.
// The key is the kind, the instruction and, for a race, the other instruction.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_CHECK_FINDINGS_H
#define FLASHCORE_EMULATOR_LIB_CHECK_FINDINGS_H

#include "flashcore/Emulator/Report.h"

#include <unordered_map>

namespace flashcore::emu {

class FindingSet {
public:
  static uint64_t key(FindingKind kind, uint32_t pc, uint32_t otherPc = 0) {
    return uint64_t(kind) << 56 | uint64_t(pc & 0xfffffffu) << 28 |
           (otherPc & 0xfffffffu);
  }
  /// Counts repetitions; false if it is new and wants its text.
  bool countAgain(uint64_t key, uint64_t times = 1) {
    auto it = indices.find(key);
    if (it == indices.end())
      return false;
    list[it->second].count += times;
    return true;
  }
  void add(uint64_t key, Finding finding) {
    finding.count = 1;
    indices[key] = list.size();
    list.push_back(std::move(finding));
  }
  size_t size() const { return list.size(); }
  const std::vector<Finding> &all() const { return list; }

private:
  std::unordered_map<uint64_t, size_t> indices;
  std::vector<Finding> list;
};

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_CHECK_FINDINGS_H
