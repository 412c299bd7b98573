//===- Problem.h - One call of a compiled attention -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A bundle leaves sizes, strides and offsets open; a Problem fixes them all.
// Problem::create checks the caller's choice against what the bundle was
// compiled for, so that a launch built from a Problem fits its kernels.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_PROBLEM_H
#define FLASHCORE_RUNTIME_PROBLEM_H

#include "flashcore/Runtime/Bundle.h"

namespace flashcore {

/// The order in memory that is used for strides the caller leaves open in q, k,
/// v and o. The other tensors are packed in the order of their axes.
enum class Layout {
  BHSD, ///< (batch, heads, seqlen, head_dim)
  BSHD, ///< (batch, seqlen, heads, head_dim)
};
std::string_view stringify(Layout layout);

/// Strides and offset of one tensor, in elements.
struct TensorLayout {
  std::vector<int64_t> strides;
  int64_t offset = 0;
};

/// What the caller chooses. A static size or layout need not be given; if it
/// is, it must be the one that the bundle was compiled for. Nor need that of
/// Bundle::sequencesDim, which follows from cu_seqlens, nor those of lists of
/// blocks.
struct ProblemRequest {
  std::map<std::string, int64_t, std::less<>> dims;
  /// By tensor name. Tensors that are not listed are packed as `layout` says,
  /// with `offset` where the offset is dynamic.
  std::map<std::string, TensorLayout, std::less<>> tensors;
  Layout layout = Layout::BHSD;
  int64_t offset = 0;
};

/// A tensor with every number known.
struct TensorGeometry {
  std::string name;
  TensorSpec::Role role = TensorSpec::Role::Input;
  DType dtype = DType::F16;
  std::vector<std::string> axes;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  int64_t alignment = 1;
  /// Elements from the pointer to just past the last element, so with the
  /// offset. An empty tensor spans nothing but its offset.
  int64_t span = 0;

  int64_t spanBytes() const { return span * byteSize(dtype); }
};

class Problem {
public:
  /// `bundle` must outlive the problem.
  static StatusOr<Problem> create(const Bundle &bundle,
                                  const ProblemRequest &request);

  const Bundle &bundle() const { return *source; }
  /// `name` must be a size or a value of the bundle.
  int64_t dim(std::string_view name) const;
  /// The most keys that an entry of the batch has, or the rows of all
  /// sequences: seqlen_k, or those of the pages that page_table names for one.
  int64_t seqlenK() const;
  /// Whether the call launches `kernel`, one of the bundle's.
  bool launches(const KernelSpec &kernel) const {
    return launched[static_cast<size_t>(&kernel - source->kernels.data())];
  }
  /// All sizes, and the values that follow from them.
  const Numbers &dims() const { return numbers; }
  const std::vector<TensorGeometry> &tensors() const { return geometries; }
  /// One that the caller gives, an intermediate or a view.
  const TensorGeometry *findTensor(std::string_view name) const;
  /// Where a tensor lies: in one that the caller gives, or so many bytes behind
  /// the beginning of the workspace (WorkspaceName).
  struct Place {
    std::string_view name;
    int64_t bytes = 0;
  };
  Place locate(std::string_view tensor) const;
  /// What of a program each of its ops is; none of a bundle of one.
  const std::vector<Problem> &parts() const { return ofParts; }
  int64_t workspaceBytes() const { return workspaceSize; }
  /// Blocks of `kernel` in each direction, any of which may be 0, on a device
  /// of so many multiprocessors.
  StatusOr<std::array<int64_t, 3>> grid(const KernelSpec &kernel,
                                        int64_t multiprocessors) const {
    return source->grid(kernel, numbers, multiprocessors);
  }
  /// "B1 H8/8 S512x512 D64 f16", and what changes the scores if anything does:
  /// words of flashcore-compile --shape, for one line of output.
  std::string str() const;

private:
  explicit Problem(const Bundle &bundle) : source(&bundle) {}
  Status resolveDims(const ProblemRequest &request);
  Status resolveTensor(const TensorSpec &spec, const ProblemRequest &request);
  TensorGeometry geometryOf(const TensorSpec &spec) const;
  Status resolveIntermediates();
  Status resolveView(const ViewSpec &spec);
  Status resolvePart(const ProgramPart &part);
  Status resolveLaunches();

  const Bundle *source;
  Numbers numbers;
  std::vector<TensorGeometry> geometries;
  std::vector<TensorGeometry> derived; ///< intermediates, then views
  std::vector<Place> places;           ///< of these
  std::vector<Problem> ofParts;
  int64_t workspaceSize = 0;
  std::vector<bool> launched; ///< of each kernel of the bundle
};

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_PROBLEM_H
