//===- TestUtil.cpp - Small kernels for tests -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See TestUtil.h.
//
//===----------------------------------------------------------------------===//

#include "TestUtil.h"

#include "sim/Handlers.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

using namespace flashcore::emu;
using namespace flashcore::emu::test;

std::string test::kernelText(const std::string &body,
                             const std::string &declarations) {
  return ".version 8.7\n.target sm_89\n.address_size 64\n" + declarations +
         "\n.visible .entry test(.param .u64 p0, .param .u64 p1,"
         " .param .u64 p2, .param .u64 p3)\n{\n"
         ".reg .pred %p<16>; .reg .b16 %h<32>; .reg .b32 %r<64>;"
         " .reg .b64 %d<32>; .reg .f32 %f<32>; .reg .b64 %g<4>;"
         " .reg .b32 %t; .reg .b64 %at;\n"
         "ld.param.u64 %g0, [p0]; ld.param.u64 %g1, [p1];"
         " ld.param.u64 %g2, [p2]; ld.param.u64 %g3, [p3];\n"
         "mov.u32 %t, %tid.x;\n"
         "// body\n" +
         body + "\nret;\n}\n";
}

std::string test::sm90Text(const std::string &body,
                           const std::string &declarations) {
  return ".version 8.0\n.target sm_90a\n.address_size 64\n" + declarations +
         "\n.visible .entry test(.param .u64 p0, .param .u64 p1,"
         " .param .u64 p2, .param .u64 p3, .param .align 64 .b8 m0[128],"
         " .param .align 64 .b8 m1[128])\n{\n"
         ".reg .pred %p<16>; .reg .b16 %h<8>; .reg .b32 %r<64>;"
         " .reg .b64 %d<32>; .reg .f32 %f<260>; .reg .b64 %g<4>;"
         " .reg .b32 %t; .reg .b64 %m<2>; .reg .b64 %at;\n"
         "ld.param.u64 %g0, [p0]; ld.param.u64 %g1, [p1];"
         " ld.param.u64 %g2, [p2]; ld.param.u64 %g3, [p3];\n"
         "mov.b64 %m0, m0; cvta.param.u64 %m0, %m0;"
         " mov.b64 %m1, m1; cvta.param.u64 %m1, %m1;"
         " mov.u32 %t, %tid.x;\n"
         "// body\n" +
         body + "\nret;\n}\n";
}

RunResult test::runSm90(const std::string &body, RunConfig config,
                        const std::string &declarations) {
  // Both maps are parameters, wanted or not.
  TensorMap plain;
  plain.sizes[0] = 8;
  plain.box[0] = 8;
  config.maps.resize(2, plain);
  return runText(sm90Text(body, declarations), config);
}

uint32_t RunResult::word(unsigned buffer, size_t index) const {
  uint32_t value = 0;
  std::memcpy(&value, buffers[buffer].data() + index * 4, 4);
  return value;
}

size_t RunResult::count(FindingKind kind) const {
  size_t n = 0;
  for (const Finding &finding : report.findings)
    n += finding.kind == kind;
  return n;
}

std::string RunResult::text() const {
  return error.empty() ? formatReport(report, "test.ptx") : error;
}

std::string RunResult::comparable() const {
  Report same = report;
  same.seconds = 0;
  same.threads = 1;
  same.threadsNote.clear();
  return error.empty() ? reportToJson(same, "test.ptx") : error;
}

RunResult test::runText(const std::string &text, const RunConfig &config) {
  RunResult result;
  Expected<Kernel> kernel = Kernel::load(text);
  if (!kernel) {
    result.error = kernel.error().str();
    return result;
  }
  DeviceMemory memory;
  Arguments arguments;
  std::vector<uint64_t> addresses;
  for (size_t i = 0; i < config.buffers.size(); ++i) {
    const std::vector<uint8_t> &data = config.buffers[i];
    size_t bytes = data.empty() ? config.outputBytes : data.size();
    addresses.push_back(memory.allocate("p" + std::to_string(i), bytes));
    if (!data.empty())
      memory.write(addresses[i], data.data(), bytes);
    if (i < config.shapes.size())
      EXPECT_TRUE(memory.describe(addresses[i], 2, config.shapes[i]));
    arguments.addPointer(addresses[i]);
    result.buffers.emplace_back(bytes);
  }
  for (TensorMap map : config.maps) {
    if (map.address < std::size(addresses))
      map.address = addresses[map.address];
    Expected<TensorMapBytes> bytes = encodeTensorMap(map);
    if (!bytes) {
      result.error = bytes.error().message;
      return result;
    }
    arguments.addBytes(bytes->data(), bytes->size());
  }
  Expected<Report> report =
      launch(*kernel, memory, {config.grid, config.block, config.shared},
             arguments, config.options);
  if (!report) {
    result.error = report.error().str();
    return result;
  }
  result.report = *report;
  for (size_t i = 0; i < addresses.size(); ++i)
    memory.read(addresses[i], result.buffers[i].data(),
                result.buffers[i].size());
  return result;
}

RunResult test::runBody(const std::string &body, const RunConfig &config,
                        const std::string &declarations) {
  return runText(kernelText(body, declarations), config);
}

std::string test::loadError(const std::string &text) {
  Expected<Kernel> kernel = Kernel::load(text);
  return kernel ? std::string() : kernel.error().str();
}

std::string test::loadBodyError(const std::string &body,
                                const std::string &declarations) {
  Expected<Kernel> kernel = Kernel::load(kernelText(body, declarations));
  return kernel ? std::string() : kernel.error().message;
}

std::string test::readInput(const std::string &name) {
  // Set where ctest has compiled the kernels itself.
  const char *fresh = std::getenv("FLASHCORE_EMU_TEST_INPUTS");
  std::ifstream in(std::string(fresh ? fresh : FLASHCORE_EMU_TEST_INPUTS) +
                       "/" + name,
                   std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<const HandlerTable *> test::allHandlers() {
  std::vector<const HandlerTable *> all = {&baseline::handlers};
  if (&selectHandlers() != &baseline::handlers)
    all.push_back(&selectHandlers());
#ifdef FLASHCORE_EMU_X86_LEVELS
  if (&selectHandlers() == &v4::handlers)
    all.push_back(&v3::handlers);
#endif
  return all;
}
