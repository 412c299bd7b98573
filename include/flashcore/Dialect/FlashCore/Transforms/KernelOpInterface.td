//===- KernelOpInterface.td - Ops that become kernels ------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_KERNELOPINTERFACE_TD
#define FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_KERNELOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def KernelOpInterface : OpInterface<"KernelOpInterface"> {
  let cppNamespace = "::mlir::flashcore";
  let description = [{
    An op on the host that flashcore-tile replaces by launches of kernels. The
    op says what they are: the tensors and sizes that they are about, what each
    takes, its grid, its shared memory and its body. Functions, launches, the
    workspace and what a manifest says of all of it are made of that, the same
    way for every op.

    Models are attached by registerKernelOpInterfaceExternalModels, since what
    they make is no part of the dialect.
  }];
  let methods = [
    InterfaceMethod<[{
        Checks, and reports at the op, what its kernels rely on beyond the
        verifier: what flashcore-configure leaves on the op.
      }],
      "::llvm::LogicalResult", "checkKernels">,
    InterfaceMethod<[{
        What is launched in the place of the op, which is on memrefs: one
        program, or one for calls of many queries and then one for calls of few.
      }],
      "::std::vector<::mlir::flashcore::KernelProgram>", "getPrograms">,
  ];
}

def AttentionKernelOpInterface : OpInterface<"AttentionKernelOpInterface"> {
  let cppNamespace = "::mlir::flashcore";
  let description = [{
    A kernel in the program of an attention (ProgramKernelInterface), and how it
    is built. Models are attached as those of the KernelOpInterface are, each in
    the file of its kernel.
  }];
  let methods = [
    InterfaceMethod<[{
        The kernel, of an attention with this signature, which outlives it.
      }],
      "::mlir::flashcore::Kernel", "getKernel",
      (ins "const ::mlir::flashcore::AttentionSignature &":$signature)>,
  ];
}

#endif // FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_KERNELOPINTERFACE_TD
