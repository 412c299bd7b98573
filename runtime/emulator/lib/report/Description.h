//===- Description.h - The launch that a PTX file describes -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX of flashcore-compile says in a comment how it is launched, in the words
// of the manifest of a bundle (docs/Bundle.md):
//
//   // flashcore-launch: {"version": ..., "tensors": [...], "kernels": [...]}
//
// Such a comment is input like the PTX: whatever is in it, reading it gives a
// program whose names and numbers hold together, or an error.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_REPORT_DESCRIPTION_H
#define FLASHCORE_EMULATOR_LIB_REPORT_DESCRIPTION_H

#include "flashcore/Emulator/Emulator.h"
#include "flashcore/Runtime/HostProgram.h"

namespace flashcore::emu {

/// The text of the comment, which readDescription reads; empty if there is
/// none.
std::string_view findDescription(std::string_view ptx, SrcLoc &loc);

/// The launches in the comments before the first directive, if there are some.
Expected<std::optional<HostProgram>> readDescription(std::string_view ptx);

/// " --dim NAME=N" for each size that the caller chooses, but for those given.
std::string openSizes(const HostProgram &program, const Numbers &given = {});

/// All sizes, of which `given` (NAME=NUMBER, as of --dim) has the open ones,
/// and the values that follow from them.
Expected<Numbers> bindSizes(const HostProgram &program,
                            const std::vector<std::string> &given);

/// What the runtime's error says.
Error toError(const Status &status);

/// The argument of --arg for a tensor, filled by `fill`, and the strides and
/// the offset it then has. What the caller may choose is dense, without offset.
struct BoundTensor {
  std::string text;
  std::vector<int64_t> strides;
  int64_t offset = 0;
};
Expected<BoundTensor> bindTensor(const TensorSpec &tensor,
                                 const Numbers &numbers,
                                 const std::string &fill);

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_REPORT_DESCRIPTION_H
