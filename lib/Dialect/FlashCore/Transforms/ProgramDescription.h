//===- ProgramDescription.h - What a manifest says of a program -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_PROGRAMDESCRIPTION_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_PROGRAMDESCRIPTION_H

#include "ProgramTensors.h"

namespace mlir::flashcore {

/// `fcgpu.program` of the gpu.module with the kernels of `ops`: what they
/// compute, on which tensors and sizes, and what is launched in which order.
/// `getKernel` names the function of a kernel of one of the op's programs.
DictionaryAttr describeProgram(
    MLIRContext *context, ArrayRef<OpPrograms> ops,
    function_ref<StringRef(unsigned op, unsigned program, unsigned kernel)>
        getKernel);

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_PROGRAMDESCRIPTION_H
