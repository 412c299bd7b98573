//===- consumer.cpp - A user of the C++ interface -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs a kernel on two threads and looks at the word it wrote.
//
//===----------------------------------------------------------------------===//

#include <flashcore/Emulator/Emulator.h>

#include <cstdio>

using namespace flashcore::emu;

int main() {
  Expected<Kernel> kernel =
      Kernel::load(".version 8.0\n.target sm_89\n.address_size 64\n"
                   ".visible .entry store(.param .u64 p) {\n"
                   "  .reg .b64 %d<3>; .reg .b32 %r<2>;\n"
                   "  ld.param.u64 %d0, [p]; mov.u32 %r0, %ctaid.x;\n"
                   "  mul.wide.u32 %d1, %r0, 4; add.u64 %d1, %d1, %d0;\n"
                   "  st.global.u32 [%d1], %r0; ret;\n}\n");
  if (!kernel) {
    std::fprintf(stderr, "%s\n", kernel.error().str().c_str());
    return 1;
  }
  DeviceMemory memory;
  uint64_t out = memory.allocate("out", 16);
  Arguments arguments;
  arguments.addPointer(out);
  LaunchOptions options;
  options.threads = 2;
  Expected<Report> report =
      launch(*kernel, memory, {{4, 1, 1}, {1, 1, 1}, 0}, arguments, options);
  if (!report || !report->clean()) {
    std::fprintf(stderr, "%s\n",
                 report ? formatReport(*report, "store.ptx").c_str()
                        : report.error().str().c_str());
    return 1;
  }
  uint32_t words[4] = {};
  memory.read(out, words, sizeof words);
  return words[3] == 3 ? 0 : 1;
}
