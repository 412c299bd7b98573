//===- FlashCorePlugin.cpp - FlashCore for any mlir-opt -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loaded into a process that has its own libMLIR, whose registries it fills.
//
//===----------------------------------------------------------------------===//

#include "flashcore/InitAll.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

using namespace mlir;

extern "C" __attribute__((visibility("default"))) DialectPluginLibraryInfo
mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "FlashCore", FLASHCORE_VERSION,
          [](DialectRegistry *registry) {
            flashcore::registerAllDialects(*registry);
          }};
}

extern "C" __attribute__((visibility("default"))) PassPluginLibraryInfo
mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "FlashCore", FLASHCORE_VERSION,
          [] { flashcore::registerAllPasses(); }};
}
