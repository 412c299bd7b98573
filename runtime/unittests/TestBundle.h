//===- TestBundle.h - Bundles for tests ----------------------- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Builds manifests and bundle directories. Tests change one key and see what
// the loader says.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_UNITTESTS_TESTBUNDLE_H
#define FLASHCORE_RUNTIME_UNITTESTS_TESTBUNDLE_H

#include "flashcore/Runtime/Problem.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace flashcore::testing {

/// A directory that is removed with its owner.
class ScratchDirectory {
public:
  ScratchDirectory();
  ScratchDirectory(const ScratchDirectory &) = delete;
  ScratchDirectory &operator=(const ScratchDirectory &) = delete;
  ~ScratchDirectory();

  const std::filesystem::path &path() const { return directory; }
  std::string file(std::string_view name) const {
    return (directory / name).string();
  }
  void write(std::string_view name, std::string_view contents) const;

private:
  std::filesystem::path directory;
};

/// The head of the kernel of testManifest(), which is all that is read of it.
inline constexpr std::string_view testPtx = R"(.visible .entry attention(
  .param .u64 .ptr .align 16 q,
  .param .u64 .ptr .align 16 k,
  .param .u64 .ptr .align 16 v,
  .param .u64 .ptr .align 16 o,
  .param .u64 .ptr .align 4 lse,
  .param .u64 seqlen_k,
  .param .u64 k_stride_1,
  .param .u64 v_offset
)
)";
inline constexpr std::string_view testCubin = "test cubin";

/// A bundle of one kernel for sm_80 with a cubin for sm_89. All sizes but
/// head_dim and head_dim_v, which are 16, and all layouts are dynamic. The keys
/// of its only variant stand among the others, and `attention` has the
/// attributes and, as `dims`, the sizes; writeBundle moves them.
nlohmann::json testManifest();
/// The same with static sizes, batch 1 and 2 heads, and packed layouts.
nlohmann::json staticManifest(int64_t seqlenQ = 32, int64_t seqlenK = 48,
                              const char *causal = "none");

/// The same in two kernels, "attention" and "merge", of which the first writes
/// 120 bytes of workspace a query row and the second reads them.
nlohmann::json splitManifest();

/// Adds a bias with dynamic strides and offset, and its pointer as the last
/// argument of the kernel.
void addBias(nlohmann::json &manifest, const char *dtype = "f16",
             std::vector<std::string> axes = {"batch", "heads_q", "seqlen_q",
                                              "seqlen_k"});

/// Two rows to append to twelve keys, of three queries of two heads, and with
/// `isTurned` four pairs of columns that any number of positions turn.
nlohmann::json appendManifest(bool isTurned);

/// Adds a packed input of one axis, and its pointer as the last argument of the
/// kernel.
void addVector(nlohmann::json &manifest, const char *name, const char *dtype,
               const char *axis);
/// A static problem that drops a quarter of P.
nlohmann::json dropoutManifest();
/// A static problem of `sequences` sequences on the axes of the rows, and
/// optionally with seqused_k, whose axis is called "sequences".
nlohmann::json varlenManifest(int64_t seqlenQ, int64_t seqlenK,
                              int64_t sequences, const char *causal = "none",
                              bool hasSequsedK = false);

/// A static problem of `entries` batch entries, whose keys are in pages.
nlohmann::json pagedManifest(int64_t seqlenQ, int64_t pageSize,
                             int64_t pagesPerSequence, int64_t pages,
                             int64_t entries, const char *causal = "none");
/// The same of sequences on the axis of the query rows, with seqused_k.
nlohmann::json pagedVarlenManifest(int64_t seqlenQ, int64_t pageSize,
                                   int64_t pagesPerSequence, int64_t pages,
                                   int64_t sequences,
                                   const char *causal = "none");

/// A tensor of a manifest whose strides but the last are open.
nlohmann::json describeTensor(const char *name, const char *role,
                              const char *dtype, std::vector<std::string> axes,
                              const nlohmann::json &offset = 0);

/// What the loader says, from the file's name on, of a manifest with another
/// value at `pointer`.
std::string refusalWith(nlohmann::json manifest, const char *pointer,
                        const nlohmann::json &value);

/// Makes `text` the PTX of `manifest`, for writeBundle to write.
void setPtx(nlohmann::json &manifest, const std::string &text);
/// A PTX with the head of each kernel of `manifest`, as its arguments are.
std::string ptxFor(const nlohmann::json &manifest);

/// Multiplies the blocks of a kernel in direction x.
void multiplyGrid(nlohmann::json &kernel, const char *factor);

/// The manifest with `variants`, into whose only element go the keys that
/// belong there, and with `ops` and `sizes` in the place of `attention`. What
/// is in its place already is kept.
nlohmann::json withVariants(nlohmann::json manifest);

/// Gives all variants one PTX with the kernels of all.
void setPtxOfVariants(nlohmann::json &manifest);

/// Writes the manifest and both code files into `directory`.
void writeBundle(const std::filesystem::path &directory,
                 const nlohmann::json &manifest);
/// Writes and loads; the test fails when the loader refuses the bundle.
Bundle loadTestBundle(const nlohmann::json &manifest = testManifest());

/// Sizes for testManifest().
ProblemRequest testRequest(int64_t batch = 1, int64_t headsQ = 4,
                           int64_t headsKV = 2, int64_t seqlenQ = 32,
                           int64_t seqlenK = 48);

/// The full text of an error, notes included, and "" for a success.
inline std::string text(const Status &status) {
  return status.ok() ? "" : status.str();
}
template <typename T> std::string text(const StatusOr<T> &value) {
  return value.ok() ? "" : value.status().str();
}

} // namespace flashcore::testing

#endif // FLASHCORE_RUNTIME_UNITTESTS_TESTBUNDLE_H
