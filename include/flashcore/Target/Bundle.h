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

/// A launch of a kernel.
struct BundleKernel {
  std::string name;
  /// Its `fcgpu.kernel`, with the names that the program gives tensors and
  /// sizes, and of the launch `grid` and `when`.
  DictionaryAttr description;
  unsigned op = 0; ///< of the program's ops, which it is of
};

/// What a bundle holds for one chip, and for newer ones without their own.
struct BundleVariant {
  std::string chip;
  std::string ptx;
  /// `fcgpu.program` of their module: what they compute is the same in all
  /// variants.
  DictionaryAttr program;
  /// In the order in which they run.
  SmallVector<BundleKernel> kernels;
  std::vector<Cubin> cubins;
};

/// The ops of a program, by its `fcgpu.program`; none without one.
SmallVector<DictionaryAttr> getProgramOps(DictionaryAttr program);

/// The name of the kernel that an op is about; kernels in front of it prepare
/// what it reads, and those behind it finish what it writes.
StringRef getMainKernel(DictionaryAttr program, unsigned op);

/// What is launched of the kernels of a module, by its `fcgpu.program`.
SmallVector<BundleKernel> getBundleKernels(gpu::GPUModuleOp module);

/// How the kernels are launched, in the words of the manifest, as one line of
/// comment for their PTX; empty without a program.
std::string getLaunchComment(DictionaryAttr program,
                             ArrayRef<BundleKernel> kernels);

/// The kernel of a program that is one merge, its tensors and their sizes, in
/// the words of the manifest; nothing of any other.
std::optional<llvm::json::Object> describeMerge(const BundleVariant &variant);

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
