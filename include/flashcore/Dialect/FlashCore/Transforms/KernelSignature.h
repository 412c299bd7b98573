//===- KernelSignature.h - What a kernel takes ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place that decides the arguments of kernels on some tensors, whatever
// they compute. The tile pass builds the functions and their launches from it,
// and its dictionary form (`fcgpu.kernel`) becomes the manifest of
// docs/Bundle.md.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_KERNELSIGNATURE_H
#define FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_KERNELSIGNATURE_H

#include "flashcore/Dialect/FlashCore/Transforms/SizeFormula.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OperationSupport.h"

#include <optional>

namespace mlir::flashcore {

/// One tensor of the problem.
struct KernelTensor {
  /// Of the memref `value`, whose layout is strided. With fewer axes than that
  /// has, the signature gives it axes of its own.
  KernelTensor(StringRef name, bool isOutput, Value value, ArrayRef<Dim> axes,
               int64_t alignment);

  std::string name;
  bool isOutput;
  Value value; ///< memref in the host function
  SmallVector<Dim, 4> axes;
  SmallVector<int64_t, 4> strides; ///< elements; dynamic ones are kDynamic
  int64_t offset;                  ///< elements; may be kDynamic
  int64_t alignment;               ///< bytes, of the pointer plus offset
  bool isUpdated = false;          ///< an input that a kernel writes rows of
  bool isCopied = false; ///< the first kernel writes a copy, others read that

  MemRefType getType() const { return cast<MemRefType>(value.getType()); }
  /// What a manifest calls what kernels do with it.
  StringRef getRole() const {
    return isOutput ? "output" : isUpdated ? "updated" : "input";
  }
};

/// One kernel argument. Pointers are rank-0 memrefs; a tensor map is the 128
/// bytes that describe boxes of a tensor to bulk copies, by value; all others
/// are `index`. Workspace is the pointer to what one kernel leaves for the next
/// (f32).
struct KernelArgument {
  enum Kind { Pointer, Size, Stride, Offset, Workspace, TensorMap };
  Kind kind;
  /// Pointer, Stride, Offset, TensorMap, and of a copy: which tensor
  unsigned tensor = 0;
  unsigned axis = 0;    ///< Stride
  Dim dim = Dim::Batch; ///< Size
  /// TensorMap: the sides of a box in elements, one for each axis of the
  /// tensor, and the bytes of its swizzle. A map with a ragged axis has an axis
  /// more, in front, and copies give it a coordinate that says where the ragged
  /// one ends (docs/Bundle.md).
  SmallVector<int64_t, 5> box = {};
  int64_t swizzle = 0;
  std::optional<unsigned> raggedAxis = {};
  /// TensorMap: the rows of a group, if its axes are those of groups of panels
  /// and not those of the tensor (docs/Bundle.md).
  int64_t group = 0;
  /// Workspace, TensorMap: of the copy of the tensor that is there.
  bool isCopy = false;
  /// Workspace: of elements of that tensor's type, which the kernel reads.
  bool isOfType = false;
  /// Pointer of an input, Workspace: the kernel writes it.
  bool isWritten = false;
};

/// What of a launch does not depend on the tensors.
struct KernelLaunch {
  SizeFormula grid; ///< blocks
  int64_t numThreads;
  int64_t sharedMemory = 0; ///< bytes
};

/// Tensors and extents of one problem, and what kernels of it take.
class KernelSignature {
public:
  explicit KernelSignature(SmallVector<KernelTensor> tensors);

  ArrayRef<KernelTensor> getTensors() const { return tensors; }
  /// Position in getTensors(). The problem must have the tensor.
  unsigned getTensorIndex(StringRef name) const;
  /// The extent, or none if it is known at run time only.
  std::optional<int64_t> getExtent(Dim dim) const {
    return extents[static_cast<unsigned>(dim)];
  }
  /// Whether a tensor of the problem has the dimension: most have no sequences.
  bool hasDim(Dim dim) const;
  /// One past the last Dim of a tensor.
  unsigned getEndOfDims() const { return extents.size(); }

  /// What a kernel does with the workspace, as f32.
  enum WorkspaceUse { NoWorkspace, ReadsWorkspace, WritesWorkspace };
  /// The arguments of a kernel that takes these tensors and sizes, which are
  /// asked for where a tensor or the host has them.
  SmallVector<KernelArgument>
  listArguments(WorkspaceUse workspace,
                function_ref<bool(const KernelTensor &)> takesTensor,
                function_ref<bool(Dim)> takesSize) const;
  /// Lets a kernel of these arguments have the packed copy of a tensor in the
  /// workspace, of which there is one at most.
  void addCopy(SmallVectorImpl<KernelArgument> &arguments, StringRef tensor,
               bool isWritten) const;
  /// Lets it read the workspace as elements of the type of `tensor`.
  void addWorkspaceOf(SmallVectorImpl<KernelArgument> &arguments,
                      StringRef tensor) const;
  /// Elements from a row of the copy of `tensor`, which begins the workspace,
  /// to the next: any kernel can read its rows.
  int64_t getCopyRow(unsigned tensor) const;
  /// Their types.
  SmallVector<Type> getTypes(MLIRContext *context,
                             ArrayRef<KernelArgument> arguments) const;

  /// `fcgpu.kernel` of a kernel: its arguments, and what is the same for all
  /// of its launches.
  DictionaryAttr describeKernel(MLIRContext *context,
                                ArrayRef<KernelArgument> arguments,
                                const KernelLaunch &launch) const;
  /// What a manifest calls the extent.
  StringRef getName(Dim dim) const;
  /// What host code and manifests compute for `size`, which is no tensor's,
  /// under a name of its own.
  void nameSize(Dim size, StringRef name);

private:
  ArrayAttr describeArguments(MLIRContext *context,
                              ArrayRef<KernelArgument> arguments) const;

  SmallVector<KernelTensor> tensors;
  SmallVector<std::optional<int64_t>> extents;
  SmallVector<std::string> ownNames; ///< of the Dims behind One
  DenseMap<unsigned, std::string> givenNames;
};

} // namespace mlir::flashcore

#endif // FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_KERNELSIGNATURE_H
