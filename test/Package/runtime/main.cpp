//===- main.cpp - A program that uses the installed runtime ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Opens the emulator as a device of the runtime, reads a missing bundle, and
// runs a kernel of one store.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Emulator/Emulator.h"
#include "flashcore/Runtime/Bundle.h"
#include "flashcore/Runtime/EmulatorDevice.h"

#include <cstdio>

static constexpr const char *ptx = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry store(.param .u64 out) {
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [out];
  st.global.u32 [%rd1], 42;
  ret;
}
)";

static int fail(const char *what) {
  std::fprintf(stderr, "failed: %s\n", what);
  return 1;
}

int main() {
  if (flashcore::createEmulatorDevice()->info().kind != "emulator")
    return fail("the device of the runtime");
  if (flashcore::Bundle::load("/nonexistent.fcb").ok())
    return fail("a bundle that does not exist was loaded");

  using namespace flashcore::emu;
  Expected<Kernel> kernel = Kernel::load(ptx);
  if (!kernel)
    return fail(kernel.error().message.c_str());
  DeviceMemory memory;
  uint64_t out = memory.allocate("out", 4);
  Arguments arguments;
  arguments.addPointer(out);
  Expected<Report> report = launch(*kernel, memory, {}, arguments);
  uint32_t value = 0;
  memory.read(out, &value, sizeof value);
  if (!report || !report->clean() || value != 42)
    return fail("the kernel on the emulator");
  return 0;
}
