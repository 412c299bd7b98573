//===- KernelSignature.h - What a kernel takes ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place that decides the arguments of an attention kernel. The tile
// pass builds the function and its launch from it, and its dictionary form
// (`fcgpu.kernel`) becomes the manifest of docs/Bundle.md.
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

/// One tensor of the kernel.
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
struct KernelArgument {
  enum Kind { Pointer, Size, Stride, Offset };
  Kind kind;
  unsigned tensor = 0;  ///< Pointer, Stride, Offset: index into tensors
  unsigned axis = 0;    ///< Stride
  Dim dim = Dim::Batch; ///< Size
};

/// Tensors, extents and arguments of the kernel of one attention.
class KernelSignature {
public:
  explicit KernelSignature(AttentionOp op);

  ArrayRef<KernelTensor> getTensors() const { return tensors; }
  ArrayRef<KernelArgument> getArguments() const { return arguments; }
  /// Position in getTensors(). The attention must have the tensor.
  unsigned getTensorIndex(StringRef name) const;
  /// The extent, or none if it is known at run time only.
  std::optional<int64_t> getExtent(Dim dim) const {
    return extents[static_cast<unsigned>(dim)];
  }

  /// The types of the kernel's arguments.
  SmallVector<Type> getArgumentTypes(MLIRContext *context) const;
  /// `fcgpu.kernel` for a kernel with this schedule, whose grid is the product
  /// of ceil(seqlen_q / block_m), heads_q / head_group and batch.
  DictionaryAttr toDictionary(AttentionOp op, fcgpu::ScheduleAttr schedule,
                              int64_t sharedMemoryBytes) const;

private:
  SmallVector<KernelTensor> tensors;
  SmallVector<KernelArgument> arguments;
  std::optional<int64_t> extents[kNumDims + 1];
};

} // namespace mlir::flashcore

#endif // FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_KERNELSIGNATURE_H
