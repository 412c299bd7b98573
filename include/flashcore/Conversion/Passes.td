//===- Passes.td - Phase 7 ---------------------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_CONVERSION_PASSES_TD
#define FLASHCORE_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def FlashCoreToNVVMPass : Pass<"flashcore-to-nvvm", "::mlir::gpu::GPUModuleOp"> {
  let summary = "Lower the kernels of a gpu.module to the LLVM and NVVM dialects";
  let description = [{
    Phase 7. Precondition: flashcore-distribute. Postcondition: the module holds
    only `llvm.` and `nvvm.` ops; a full conversion.

    Beyond upstream's patterns: `nvgpu.mma.sync` on bf16; exp2, log2, fma and
    maxnum as single instructions, without libdevice; denormals are flushed
    (`.ftz`); the block size and the blocks an SM must hold become
    `nvvm.reqntid` and `nvvm.minctasm`; `gpu.dynamic_shared_memory` of all
    kernels is one external symbol, `@flashcore_shared`, aligned to 1024 bytes.
    Kernel arguments are bare pointers and
    64-bit integers. The PTX version of the module's `#nvvm.target`s is raised
    to the `fcgpu.ptx_version` of its kernels.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect",
                           "::mlir::NVVM::NVVMDialect",
                           "::mlir::cf::ControlFlowDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::affine::AffineDialect",
                           "::mlir::arith::ArithDialect"];
}

#endif // FLASHCORE_CONVERSION_PASSES_TD
