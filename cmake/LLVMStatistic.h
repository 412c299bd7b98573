//===- LLVMStatistic.h - Statistics as LLVM has them ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// llvm/ADT/Statistic.h asks NDEBUG whether a statistic has any fields, but the
// constructor of those of a pass is in MLIR's library. With assertions here and
// none there, nobody would initialize them. AddFlashCore.cmake includes this
// file before all others then: here alone, NDEBUG is that of the library.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_CMAKE_LLVMSTATISTIC_H
#define FLASHCORE_CMAKE_LLVMSTATISTIC_H

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/Compiler.h"
#include <atomic>
#include <memory>
#include <vector>

#define NDEBUG
#include "llvm/ADT/Statistic.h"
#undef NDEBUG

#endif // FLASHCORE_CMAKE_LLVMSTATISTIC_H
