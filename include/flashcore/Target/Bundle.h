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

namespace mlir::flashcore {

struct BundleKernel {
  std::string name;
  DictionaryAttr description; ///< its `fcgpu.kernel`
};

/// Everything that goes into a bundle.
struct BundleContents {
  /// In the order in which they run; the first one's description is that of the
  /// attention too.
  SmallVector<BundleKernel> kernels;
  std::string chip;
  std::string ptx;
  std::vector<Cubin> cubins;
};

/// The kernels of a module that have a description, in their order.
SmallVector<BundleKernel> getBundleKernels(gpu::GPUModuleOp module);

/// How the kernels are launched, in the words of the manifest, as one line of
/// comment for their PTX; empty without kernels.
std::string getLaunchComment(ArrayRef<BundleKernel> kernels);

/// Writes the directory `path`, all of it or nothing. An existing bundle is
/// replaced; anything else at `path` is left alone and is an error.
llvm::Error writeBundle(llvm::StringRef path, const BundleContents &contents);

} // namespace mlir::flashcore

#endif // FLASHCORE_TARGET_BUNDLE_H
