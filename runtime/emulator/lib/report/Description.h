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
// description whose names and numbers hold together, or an error.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_REPORT_DESCRIPTION_H
#define FLASHCORE_EMULATOR_LIB_REPORT_DESCRIPTION_H

#include "flashcore/Emulator/Emulator.h"

#include <map>
#include <optional>

namespace flashcore::emu {

/// ceil(dim / tile) + plus, or a number where `dim` is empty.
struct SizeFactor {
  std::string dim;
  uint64_t number = 1;
  /// The name of a size; empty adds nothing.
  std::string plus = {};
};
using SizeProduct = std::vector<SizeFactor>;

struct DescribedTensor {
  std::string name, dtype;
  bool isOutput = false;
  /// Names of sizes; "1" is an axis of one element.
  std::vector<std::string> axes;
  /// Empty where the caller may choose.
  std::vector<std::optional<uint64_t>> strides;
  std::optional<uint64_t> offset;
};

struct DescribedArgument {
  enum class Kind : uint8_t { Pointer, Size, Stride, Offset, TensorMap };
  Kind kind = Kind::Pointer;
  /// Of a tensor or, for Size, of a dim; the workspace is a tensor here.
  std::string name;
  size_t axis = 0;
  /// Of a tensor map: elements along each axis of the tensor, and the bytes of
  /// the swizzle. With a ragged axis one side more in front.
  std::vector<uint32_t> box;
  unsigned swizzle = 0;
  std::optional<size_t> raggedAxis;
  uint32_t group = 0; ///< rows, of a map of groups of panels
  /// Of what is in the workspace: the tensor that it is a copy of, empty
  /// without one, and the elements from row to row.
  std::string copyOf;
  uint64_t copyRow = 0;
};

/// The query rows of a sequence that something is for.
struct QueryRange {
  uint64_t least = 0;
  std::optional<uint64_t> most;

  bool has(uint64_t queries) const {
    return queries >= least && (!most || queries <= *most);
  }
};

/// How many blocks share a query tile (docs/Bundle.md).
struct SplitFormula {
  QueryRange queries;
  uint64_t most = 1, blocks = 1, rows = 1, heads = 1, keys = 1;
};

struct DescribedKernel {
  std::string name;
  /// Of calls that launch it.
  QueryRange queries;
  Dim3 block;
  SizeProduct grid[3];
  uint64_t sharedBytes = 0;
  /// Of a persistent kernel.
  std::optional<uint64_t> maxBlocksPerMultiprocessor;
  std::vector<DescribedArgument> arguments;
};

/// Bytes for each element of a product.
struct WorkspaceTerm {
  uint64_t bytes = 0;
  SizeProduct factors;
  QueryRange queries = {};
};

using Sizes = std::map<std::string, uint64_t, std::less<>>;

struct Description {
  static constexpr const char *workspaceName = "workspace";
  /// The size that keySplits give.
  static constexpr const char *keySplitsName = "key_splits";

  /// Empty where the caller chooses.
  std::map<std::string, std::optional<uint64_t>, std::less<>> dims;
  std::vector<DescribedTensor> tensors;
  std::vector<WorkspaceTerm> workspace;
  std::vector<SplitFormula> keySplits;
  std::vector<DescribedKernel> kernels;

  const DescribedTensor *findTensor(std::string_view name) const;
  const DescribedKernel *findKernel(std::string_view name) const;
};

/// The text of the comment, which readDescription reads; empty if there is
/// none.
std::string_view findDescription(std::string_view ptx, SrcLoc &loc);

/// The description in the comments before the first directive, if there is one.
Expected<std::optional<Description>> readDescription(std::string_view ptx);

/// " --dim NAME=N" for each size that the caller chooses, but for those given.
std::string openSizes(const Description &description, const Sizes &given = {});

/// Query rows of a sequence: of those that lie back to back the mean, rounded
/// up.
uint64_t countQueries(const Sizes &sizes);

/// All sizes, of which `given` (NAME=NUMBER, as of --dim) has the open ones,
/// and formulas the others.
Expected<Sizes> bindSizes(const Description &description,
                          const std::vector<std::string> &given);

/// The value of a product, or an error if it does not fit 64 bits.
Expected<uint64_t> evaluate(const SizeProduct &product, const Sizes &sizes);
Expected<uint64_t> workspaceBytes(const Description &description,
                                  const Sizes &sizes);

/// The argument of --arg for a tensor, filled by `fill`, and the strides and
/// the offset it then has. What the caller may choose is dense, without offset.
struct BoundTensor {
  std::string text;
  std::vector<uint64_t> strides;
  uint64_t offset = 0;
};
Expected<BoundTensor> bindTensor(const DescribedTensor &tensor,
                                 const Sizes &sizes, const std::string &fill);

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_REPORT_DESCRIPTION_H
