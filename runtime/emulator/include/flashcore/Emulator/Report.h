//===- Report.h - What a launch found and counted ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Findings are merged by kind and instruction: a broken loop gives one line
// with a count, not a million lines. Counters are kept per PTX line.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_REPORT_H
#define FLASHCORE_EMULATOR_REPORT_H

#include <cstdint>
#include <string>
#include <vector>

namespace flashcore::emu {

/// The families of checks; a set of them is their sum.
enum Check : unsigned {
  CheckNone = 0,
  CheckMemory =
      1,          // bounds, alignment, state space; bounds cannot be turned off
  CheckInit = 2,  // what memory and registers held before the first write
  CheckRace = 4,  // shared memory, and global memory between CTAs
  CheckAsync = 8, // cp.async not waited for, slots overwritten too early
  CheckSync = 16, // divergent collectives, barrier mismatch, deadlock
  CheckLayout = 32, // fragments of mma whose elements do not belong together
  CheckAll = 63,
  /// Several warps that store one value to one place: a finding instead of a
  /// note. Not part of "all", and includes the race check.
  CheckSameValue = 64,
};

/// The name of one check, and the set a comma-separated list names ("all",
/// "none", "memory,race"); returns false and leaves `set` at an unknown name.
const char *checkName(Check check);
bool parseChecks(const std::string &list, unsigned &set, std::string &unknown);

enum class FindingKind : uint8_t {
  OutOfBounds,
  InvalidAddress,
  Misaligned,
  UninitializedMemory,
  UninitializedRegister,
  SharedRace,
  GlobalRace,
  AsyncRead,
  AsyncOverwrite,
  DivergentCollective,
  BarrierMismatch,
  Deadlock,
  LayoutMismatch,
  Trap,
  InstructionLimit,
  InvalidBranch,
  SameValue,
  /// An operation that the state of an mbarrier does not allow.
  InvalidMbarrier,
  /// What one proxy wrote is used by the other with no fence between them.
  MissingProxyFence,
  /// A register of a product that has not been waited for.
  RegisterInFlight,
  /// A tensor map or a descriptor that is none, or what does not fit it.
  InvalidDescriptor,
  /// Of setmaxnreg.
  InvalidRegisterCount,
  /// A wmma.mma that says of a fragment what its wmma.load did not.
  FragmentMismatch,
  /// A note: what a kernel needs of the start of dynamic shared memory, beyond
  /// what it declares.
  UndeclaredAlignment,
  /// A note: a barrier or a collective that went on without threads that had
  /// exited.
  ExitedThreads,
  /// A note: products whose rows or columns have changed places.
  MovedProducts,
};
const char *findingName(FindingKind kind);
Check findingCheck(FindingKind kind);

/// Where in the program something happened.
struct Place {
  uint32_t line = 0;  // of the PTX text
  std::string source; // "file:line:column" from .loc, or empty
  std::string text;   // the line of the PTX text, without the blanks around it
  uint32_t cta[3] = {0, 0, 0};
  uint32_t warp = 0;
  /// The lanes it happened in; 0 when unknown.
  uint32_t lanes = 0;
};

struct Finding {
  FindingKind kind = FindingKind::OutOfBounds;
  Place place;
  /// One line that says what is wrong, with values.
  std::string message;
  /// One line that says why, and the section of the PTX ISA.
  std::string rule;
  uint64_t address = 0;
  uint32_t bytes = 0;
  /// The other party of a race.
  bool hasOther = false;
  Place other;
  std::string otherWhat;
  /// How often this kind was found at this instruction.
  uint64_t count = 0;
};

struct LineCounters {
  uint32_t line = 0;
  std::string source;
  uint64_t executed = 0;
  uint64_t wavefronts = 0, idealWavefronts = 0;
  uint64_t sectors = 0, idealSectors = 0;
  uint64_t sharedBytes = 0, globalBytes = 0;
};

struct Counters {
  uint64_t warpInstructions = 0;
  uint64_t mma = 0;
  uint64_t wavefronts = 0, idealWavefronts = 0;
  uint64_t sectors = 0, idealSectors = 0;
  uint64_t sharedBytes = 0, globalReadBytes = 0, globalWriteBytes = 0;
  /// Instructions by class, in the order of InstClass.
  std::vector<std::pair<std::string, uint64_t>> classes;
  std::vector<LineCounters> lines;
};

struct Report {
  std::string kernel;
  std::vector<Finding> findings;
  /// What is worth knowing, but no fault: a report with notes alone is clean.
  std::vector<Finding> notes;
  Counters counters;
  uint64_t numCtas = 0;
  uint32_t warpsPerCta = 0;
  uint64_t sharedBytes = 0;
  /// Bytes of the text of printf that a launch prints, as the default buffer of
  /// CUDA has, and how many more there were.
  static constexpr uint64_t maxText = uint64_t(1) << 20;
  uint64_t droppedText = 0;
  double seconds = 0;
  /// Threads that ran CTAs, and why not more of those asked for; results,
  /// findings and counters do not depend on them.
  unsigned threads = 1;
  std::string threadsNote;
  std::string mmaModel;
  bool usesApproximations = false;

  bool clean() const { return findings.empty(); }
};

/// One finding as text of several lines; `file` is the name of the PTX file.
std::string formatFinding(const Finding &finding, const std::string &file,
                          const std::string &kernel);
/// All findings and a summary line.
std::string formatReport(const Report &report, const std::string &file);
/// A table of counters, the worst lines first.
std::string formatCounters(const Report &report, unsigned maxLines = 10);
/// The whole report as a JSON document.
std::string reportToJson(const Report &report, const std::string &file);

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_REPORT_H
