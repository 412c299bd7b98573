//===- KernelSignature.h - What a kernel takes ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place that decides the arguments of the kernels of an attention. The
// tile pass builds the functions and their launches from it, and its dictionary
// form (`fcgpu.kernel`) becomes the manifest of docs/Bundle.md.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_KERNELSIGNATURE_H
#define FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_KERNELSIGNATURE_H

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"

#include <optional>

namespace mlir::flashcore {

/// The extents an attention is made of; One is that of a broadcast axis.
enum class Dim {
  Batch,
  HeadsQ,
  HeadsKV,
  SeqlenQ,
  SeqlenK,
  HeadDim,
  HeadDimV,
  One
};
/// One is no dimension of the problem.
inline constexpr unsigned kNumDims = 7;
StringRef stringifyDim(Dim dim);

/// One tensor of the attention.
struct KernelTensor {
  StringRef name;
  bool isOutput;
  Value value; ///< memref in the host function
  SmallVector<Dim, 4> axes;
  SmallVector<int64_t, 4> strides; ///< elements; dynamic ones are kDynamic
  int64_t offset;                  ///< elements; may be kDynamic
  int64_t alignment;               ///< bytes, of the pointer plus offset

  MemRefType getType() const { return cast<MemRefType>(value.getType()); }
};

/// One kernel argument. Pointers are rank-0 memrefs, all others `index`.
/// Workspace is the pointer to the partial results (f32).
struct KernelArgument {
  enum Kind { Pointer, Size, Stride, Offset, Workspace };
  Kind kind;
  unsigned tensor = 0;  ///< Pointer, Stride, Offset: index into tensors
  unsigned axis = 0;    ///< Stride
  Dim dim = Dim::Batch; ///< Size
};

/// Tensors, extents and arguments of the kernels of one attention. With
/// key_splits N > 1 there are two: the first leaves N partial results a query
/// row in the workspace, the second merges them into the outputs.
class KernelSignature {
public:
  KernelSignature(AttentionOp op, fcgpu::ScheduleAttr schedule);

  ArrayRef<KernelTensor> getTensors() const { return tensors; }
  /// Of the attention kernel.
  ArrayRef<KernelArgument> getArguments() const { return arguments; }
  /// Of the merge kernel; empty without one.
  ArrayRef<KernelArgument> getMergeArguments() const { return mergeArguments; }
  /// Position in getTensors(). The attention must have the tensor.
  unsigned getTensorIndex(StringRef name) const;
  /// The extent, or none if it is known at run time only.
  std::optional<int64_t> getExtent(Dim dim) const {
    return extents[static_cast<unsigned>(dim)];
  }

  /// The types of `arguments`, those of one of the kernels.
  SmallVector<Type> getTypes(MLIRContext *context,
                             ArrayRef<KernelArgument> arguments) const;
  /// `fcgpu.kernel` of the attention kernel, whose grid is the product of
  /// ceil(seqlen_q / block_m), heads_q / head_group, batch and key_splits: of a
  /// persistent one at most max_blocks_per_sm blocks an SM are launched.
  DictionaryAttr toDictionary(AttentionOp op, fcgpu::ScheduleAttr schedule,
                              int64_t sharedMemoryBytes) const;
  /// `fcgpu.kernel` of the merge kernel: a block of `numThreads` a query row.
  DictionaryAttr toMergeDictionary(MLIRContext *context,
                                   int64_t numThreads) const;

private:
  SmallVector<KernelArgument>
  listArguments(bool needsWorkspace,
                function_ref<bool(const KernelTensor &)> takesTensor,
                function_ref<bool(Dim)> takesSize) const;
  ArrayAttr describeArguments(MLIRContext *context,
                              ArrayRef<KernelArgument> arguments) const;

  SmallVector<KernelTensor> tensors;
  SmallVector<KernelArgument> arguments, mergeArguments;
  std::optional<int64_t> extents[kNumDims + 1];
};

} // namespace mlir::flashcore

#endif // FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_KERNELSIGNATURE_H
