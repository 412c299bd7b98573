//===- flashcore-opt.cpp - Run FlashCore's passes on MLIR -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/InitAll.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int flashcoreOptMain(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::flashcore::registerAllDialects(registry);
  mlir::flashcore::registerAllPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "FlashCore optimizer driver\n", registry));
}
