//===- Replay.cpp - Fuzz inputs without libFuzzer -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gives each file of the named directories to the fuzz target it is linked
// with, so that the corpus is a regression test with any compiler.
//
//===----------------------------------------------------------------------===//

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv) {
  size_t numInputs = 0;
  for (int i = 1; i < argc; ++i) {
    std::error_code error;
    for (const auto &entry :
         std::filesystem::directory_iterator(argv[i], error)) {
      std::ifstream in(entry.path(), std::ios::binary);
      std::string text{std::istreambuf_iterator<char>(in), {}};
      // Named first, so that a crash tells its input.
      std::fprintf(stderr, "%s\n", entry.path().c_str());
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(text.data()),
                             text.size());
      ++numInputs;
    }
    if (error) {
      std::fprintf(stderr, "%s: %s\n", argv[i], error.message().c_str());
      return 2;
    }
  }
  std::printf("%zu inputs survived\n", numInputs);
  return numInputs ? 0 : 2;
}
