//===- Bundle.h - Writing bundles -------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The format is that of docs/Bundle.md.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_TARGET_BUNDLE_H
#define FLASHCORE_TARGET_BUNDLE_H

#include "flashcore/Target/Ptxas.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/Support/JSON.h"

namespace mlir::flashcore {

struct BundleKernel {
  std::string name;
  DictionaryAttr description; ///< its `fcgpu.kernel`
};

/// What a bundle holds for one chip, and for newer ones without their own.
struct BundleVariant {
  std::string chip;
  std::string ptx;
  /// In the order in which they run; the first one's description is that of the
  /// attention too, and the same in all variants.
  SmallVector<BundleKernel> kernels;
  std::vector<Cubin> cubins;
};

/// That of the attention, which describes the problem; kernels in front of it
/// prepare what it reads.
const BundleKernel &getMainKernel(ArrayRef<BundleKernel> kernels);

/// The kernels of a module that have a description, in their order.
SmallVector<BundleKernel> getBundleKernels(gpu::GPUModuleOp module);

/// Whether they are an attention's, of which there are bundles, and not a
/// merge's.
bool isAttention(ArrayRef<BundleKernel> kernels);

/// How the kernels are launched, in the words of the manifest, as one line of
/// comment for their PTX; empty without kernels of an attention.
std::string getLaunchComment(ArrayRef<BundleKernel> kernels);

/// The kernel of a merge, its tensors and their sizes, in the words of the
/// manifest.
llvm::json::Object describeMerge(const BundleVariant &variant);

struct BundleFile {
  std::string name;
  std::string contents;
};

/// The files of a bundle with variants of different chips.
std::vector<BundleFile> makeBundle(ArrayRef<BundleVariant> variants);

/// Writes the directory `path`, all of it or nothing. An existing bundle is
/// replaced, so that a reader sees the one or the other; anything else at
/// `path`, and a bundle with files of others in it, is left alone and is an
/// error.
llvm::Error writeBundleFiles(llvm::StringRef path, ArrayRef<BundleFile> files);
llvm::Error writeBundle(llvm::StringRef path, ArrayRef<BundleVariant> variants);

} // namespace mlir::flashcore

#endif // FLASHCORE_TARGET_BUNDLE_H
