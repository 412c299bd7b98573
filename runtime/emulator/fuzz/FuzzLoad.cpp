//===- FuzzLoad.cpp - Hostile PTX against parser and loader ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Any bytes must give either kernels or an error that says something and whose
// position lies inside the text.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Emulator/Emulator.h"

#include <algorithm>
#include <cstdlib>

using namespace flashcore::emu;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void checkError(const Error &error, const std::string &text) {
  size_t lines =
      1 + static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  if (error.message.empty() || error.loc.line > lines ||
      error.loc.column > text.size() + 1)
    std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  constexpr size_t maxKernels = 4;
  std::string text(reinterpret_cast<const char *>(data), size);
  Expected<Module> module = Module::parse(text);
  if (!module) {
    checkError(module.error(), text);
    return 0;
  }
  std::vector<std::string> names = module->kernels();
  for (size_t i = 0; i < std::min(names.size(), maxKernels); ++i) {
    Expected<Kernel> kernel = module->load(names[i]);
    if (!kernel)
      checkError(kernel.error(), text);
  }
  if (names.size() <= maxKernels && module->describe().empty())
    std::abort();
  return 0;
}
