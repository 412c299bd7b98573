//===- TestUtil.h - Small kernels for tests ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A test kernel has up to four pointer parameters p0..p3, already converted to
// global addresses in %g0..%g3, its thread number in %t, and registers of each
// width: %h (b16), %r (b32), %d (b64), %f (f32), %p (pred).
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_UNITTESTS_TESTUTIL_H
#define FLASHCORE_EMULATOR_UNITTESTS_TESTUTIL_H

#include "flashcore/Emulator/Emulator.h"
#include "flashcore/Emulator/TensorMap.h"

#include <gtest/gtest.h>

namespace flashcore::emu {
struct HandlerTable;
}

namespace flashcore::emu::test {

/// The whole module around a body.
std::string kernelText(const std::string &body,
                       const std::string &declarations = {});

struct RunResult {
  Report report;
  /// Contents of the buffers afterwards.
  std::vector<std::vector<uint8_t>> buffers;
  std::string error;

  uint32_t word(unsigned buffer, size_t index) const;
  /// Number of findings of one kind.
  size_t count(FindingKind kind) const;
  std::string text() const;
  /// The report as JSON, without what may differ from run to run: the time it
  /// took and the threads it used.
  std::string comparable() const;
};

struct RunConfig {
  Dim3 grid;
  Dim3 block{32, 1, 1};
  uint64_t shared = 0;
  LaunchOptions options;
  /// Buffers p0..p3; an empty one is a poisoned buffer of `outputBytes`.
  std::vector<std::vector<uint8_t>> buffers = {{}, {}, {}, {}};
  size_t outputBytes = 4096;
  /// Shapes of p0..p3 for the layout check, of 16-bit elements.
  std::vector<std::vector<uint64_t>> shapes;
  /// Tensor maps that follow the pointers; each has the number of a buffer in
  /// place of its address, or an address where there is none.
  std::vector<TensorMap> maps = {};
};

/// A module for sm_90a around a body: after p0..p3 come two tensor maps, whose
/// generic addresses are in %m0 and %m1. There are 260 registers %f.
std::string sm90Text(const std::string &body,
                     const std::string &declarations = {});
RunResult runSm90(const std::string &body, RunConfig config,
                  const std::string &declarations = {});

RunResult runBody(const std::string &body, const RunConfig &config = {},
                  const std::string &declarations = {});
RunResult runText(const std::string &text, const RunConfig &config);

template <typename T> std::vector<uint8_t> bytesOf(const std::vector<T> &v) {
  const uint8_t *p = reinterpret_cast<const uint8_t *>(v.data());
  return {p, p + v.size() * sizeof(T)};
}

/// The message of the error that loading `text` gives, with its position.
std::string loadError(const std::string &text);
std::string loadBodyError(const std::string &body,
                          const std::string &declarations = {});
std::string readInput(const std::string &name);
/// The vector kernels of each instruction set that this machine can run.
std::vector<const HandlerTable *> allHandlers();

} // namespace flashcore::emu::test

#endif // FLASHCORE_EMULATOR_UNITTESTS_TESTUTIL_H
