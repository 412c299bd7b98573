//===- ModuleTest.cpp - Modules of which not all can run ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What one kernel needs and the emulator lacks is named, and is no error of the
// others; and what Module::describe says.
//
//===----------------------------------------------------------------------===//

#include "TestUtil.h"

#include <nlohmann/json.hpp>

#include <chrono>

using namespace flashcore::emu;
using namespace flashcore::emu::test;
using nlohmann::json;

static const std::string header =
    ".version 8.7\n.target sm_90a\n.address_size 64\n";
/// Registers of all widths, on one line.
static const std::string registers =
    "{ .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<9>; .reg .b64 %d<9>; "
    ".reg .f32 %f<9>;\n";

/// The error of kernel 'bad', whose body is `body` on line 5 and further; the
/// kernel 'good' of the module runs.
static std::string refusal(const std::string &body,
                           const std::string &declarations = {},
                           const std::string &head = header) {
  Expected<Module> module =
      Module::parse(head + ".entry bad() " + registers + body + "\nret; }\n" +
                    declarations + "\n.entry good() { ret; }\n");
  if (!module)
    return "module: " + module.error().str();
  EXPECT_EQ(module->kernels(), (std::vector<std::string>{"bad", "good"}));
  Expected<Kernel> good = module->load("good");
  EXPECT_TRUE(good) << good.error().str();
  DeviceMemory memory;
  Expected<Report> report = launch(*good, memory, {}, {});
  EXPECT_TRUE(report && report->clean());
  Expected<Kernel> bad = module->load("bad");
  return bad ? "" : bad.error().str();
}

static std::string needs(const std::string &place, const std::string &what,
                         const std::string &feature) {
  return place + ": error: '" + what + "' needs " + feature +
         ", which the emulator does not have";
}

TEST(Module, RefusalsNameWhatIsMissing) {
  struct Case {
    const char *body, *what, *feature;
  };
  for (const Case &test : std::initializer_list<Case>{
           {"tex.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [image, {%f4,%f5}];",
            "tex.2d.v4.f32.f32", "textures"},
           {"tld4.r.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [image, {%f4,%f5}];",
            "tld4.r.2d.v4.f32.f32", "textures"},
           {"suld.b.2d.b32.trap {%r0}, [image, {%r1,%r2}];",
            "suld.b.2d.b32.trap", "surfaces"},
           {"cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group "
            "[%d0, {%r1}], [%r3];",
            "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_g",
            "reductions by bulk asynchronous copies"},
           {"wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f0,%f1,"
            "%f2,%f3}, %d0, %d1, %r0, 0, 1, 1, 1, 0, 0;",
            "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16",
            "products of sparse matrices"},
           {"tensormap.replace.tile.rank.global.b1024.b32 [%d0], 3;",
            "tensormap.replace.tile.rank.global.b1024.b32",
            "tensor maps that a kernel changes"},
           {"clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p0, %d0;",
            "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128",
            "clusters of sm_90"},
           {"mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16."
            "f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r2,%r3}, "
            "{%f0,%f1,%f2,%f3}, %r4, 0;",
            "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f",
            "products of sparse matrices"},
           {"mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e2m1.e4m3.f32 "
            "{%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, "
            "{%f0,%f1,%f2,%f3};",
            "mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e2m1.e4m3",
            "4- and 6-bit floats of sm_100"},
           {"mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32 "
            "{%r0,%r1,%r2,%r3}, {%r4,%r5}, {%r6}, {%r0,%r1,%r2,%r3};",
            "mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32",
            "products of 4-bit and 1-bit types"},
           {"add.rn.f32x2 %d0, %d1, %d2;", "add.rn.f32x2",
            ".f32x2 arithmetic of sm_100"},
           {"atom.global.add.v2.f32 {%f0, %f1}, [%d0], {%f2, %f3};",
            "atom.global.add.v2.f32", "vector atomics of sm_90"},
           {"red.global.add.noftz.v4.f16 [%d0], {%r0, %r1, %r2, %r3};",
            "red.global.add.noftz.v4.f16", "vector atomics of sm_90"},
           {"redux.sync.max.f32 %f0, %f1, -1;", "redux.sync.max.f32",
            "redux of floats of sm_100"},
           {"cvt.rn.satfinite.e2m1x2.f32 %r0, %f0, %f1;",
            "cvt.rn.satfinite.e2m1x2.f32", "4- and 6-bit floats of sm_100"},
           {"tcgen05.wait::ld.sync.aligned;", "tcgen05.wait::ld.sync.aligned",
            "tcgen05, the tensor memory of sm_100"},
           {"alloca.u64 %d0, 16;", "alloca.u64", "stack allocation"},
           {"vadd.u32.u32.u32 %r0, %r1.b0, -%r2.b1;", "vadd.u32.u32.u32",
            "SIMD video instructions"}})
    EXPECT_EQ(refusal(test.body), needs("5:1", test.what, test.feature));
  EXPECT_EQ(
      refusal("mov.u32 %r0, %envreg3;"),
      needs("5:14", "%envreg3", "the environment registers of the driver"));
  EXPECT_EQ(refusal("mov.u32 %r0, %pm0;"),
            needs("5:14", "%pm0", "performance counters"));
}

TEST(Module, FunctionsThatTheDriverCallsAreRefused) {
  EXPECT_EQ(refusal("call.uni cudaLaunchDeviceV2, ();"),
            needs("5:1", "cudaLaunchDeviceV2", "dynamic parallelism"));
  EXPECT_EQ(refusal("call.uni malloc, ();"),
            needs("5:1", "malloc", "memory that a kernel allocates"));
  for (const char *call : {"call %d0, (), prototype;", "call %d0, ();"})
    EXPECT_EQ(refusal(call), needs("5:1", "call", "function pointers"));
  // In a table of the module.
  EXPECT_EQ(refusal("mov.u64 %d0, table;",
                    ".func f() { ret; }\n.global .u64 table[1] = {f};"),
            "8:26: error: 'table' holds the address of function 'f': it needs "
            "function pointers, which the emulator does not have");
  // What nobody defines may still be a mistake.
  EXPECT_EQ(refusal("call.uni missing, ();"),
            "5:10: error: unresolved function 'missing'; link its definition "
            "into the module");
}

TEST(Module, TexturesAndClustersAreOfTheKernelsThatUseThem) {
  std::string image = ".global .texref image;\n"
                      ".global .samplerref s = {addr_mode_0 = mirror, "
                      "filter_mode = linear};";
  EXPECT_EQ(refusal("ret;", image), "");
  EXPECT_EQ(refusal("mov.u64 %d0, image;", image),
            "7:17: error: 'image' needs textures or surfaces, which the "
            "emulator does not have");
  EXPECT_EQ(refusal("ret;", ".global .attribute(.managed) .u32 x;"), "");

  Expected<Module> module = Module::parse(
      header + ".entry one() .reqnctapercluster 1, 1, 1 { ret; }\n"
               ".entry two() .reqnctapercluster 2, 1, 1 { ret; }\n");
  ASSERT_TRUE(module);
  EXPECT_TRUE(module->load("one"));
  Expected<Kernel> two = module->load("two");
  ASSERT_FALSE(two);
  EXPECT_EQ(two.error().str(), "5:8: error: '.reqnctapercluster' of 2 CTAs "
                               "needs clusters of sm_90, which the emulator "
                               "does not have");
}

TEST(Module, ErrorsAreOfTheFunctionsTheyAreIn) {
  EXPECT_EQ(refusal("add.s32 %r0 %r1;"),
            "5:13: error: expects ';' after an instruction, but got '%r1'");
  // Where its end cannot be told, it is an error of the module.
  EXPECT_EQ(refusal("{ .reg .bogus %x; {{"),
            "module: 5:8: error: expects a type such as .b32, but got "
            "'.bogus'");
  EXPECT_EQ(refusal("call.uni f, ();", ".func f() { frob 1 2; }"),
            "7:20: error: expects ';' after an instruction, but got '2'");
  EXPECT_EQ(refusal("ret;", ".func f() .frobnicate { ret; }"), "");
  EXPECT_EQ(refusal("ret;", ".func (.reg .bogus r) f(.param .b32 x) { }"), "");
}

TEST(Module, VersionsThatCameLaterRunWhatIsKnown) {
  std::string newer = ".version 9.7\n.target sm_100\n.address_size 64\n";
  EXPECT_EQ(refusal("ret;", "", newer), "");
  EXPECT_EQ(refusal("frob.u32 %r0;", "", newer),
            "5:1: error: unknown instruction 'frob.u32' (the module is PTX "
            "9.7, of which what came after 9.0 is not known)");
  EXPECT_EQ(refusal("ret;", ".frob x;", newer),
            "module: 7:1: error: unknown directive '.frob' (the module is PTX "
            "9.7, of which what came after 9.0 is not known)");
}

TEST(Module, LoadingDoesNotDependOnWhatElseThereIs) {
  // Each kernel has a variable and calls a function of its own.
  auto parse = [](unsigned count) {
    std::string text = header;
    for (unsigned i = 0; i < count; ++i) {
      std::string n = std::to_string(i);
      text += ".global .u32 x" + n + ";\n.func f" + n + "() { ret; }\n" +
              ".entry k" + n + "() { .reg .b64 %d; mov.u64 %d, x" + n +
              "; call f" + n + ", (); ret; }\n";
    }
    auto start = std::chrono::steady_clock::now();
    Expected<Module> module = Module::parse(text);
    EXPECT_TRUE(module);
    for (const std::string &name : module->kernels())
      EXPECT_TRUE(module->load(name));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start)
        .count();
  };
  // Eight times as many take 8 times as long, and 64 times if each one looks at
  // all; in between is room for a busy machine.
  double few = parse(1000), many = parse(8000);
  EXPECT_LT(many, 30 * few);
}

TEST(Module, DescribesWhatACallerHasToKnow) {
  Expected<Module> module = Module::parse(
      header + ".global .align 8 .b8 table[24];\n"
               ".extern .shared .align 16 .b8 dynamic[];\n"
               ".entry k(.param .u64 .ptr .global .align 16 x, .param .f32 y,\n"
               ".param .align 8 .b8 z[20]) .reqntid 64, 2 {\n"
               ".reg .b32 %r<4>; .reg .b64 %d;\n.shared .b32 s[5];\n"
               "mov.u32 %r0, dynamic; mov.u64 %d, table; mov.u32 %r0, s;\n"
               "bar.sync 0; atom.global.add.u32 %r1, [%d], 1; ret; }\n"
               ".entry none() .reqnctapercluster 2 { ret; }\n");
  ASSERT_TRUE(module) << module.error().str();
  json all = json::parse(module->describe());
  EXPECT_EQ(all["version"], 1);
  EXPECT_EQ(all["target"], "sm_90a");
  EXPECT_EQ(all["ptx_version"], json({8, 7}));
  json k = all["kernels"][0];
  EXPECT_EQ(k["name"], "k");
  EXPECT_EQ(k["parameters"], json::parse(R"([
    {"name": "x", "kind": "pointer", "type": "u64", "bytes": 8, "align": 8,
     "offset": 0, "points_to": {"space": "global", "align": 16}},
    {"name": "y", "kind": "number", "type": "f32", "bytes": 4, "align": 4,
     "offset": 8},
    {"name": "z", "kind": "struct", "type": "b8", "bytes": 20, "align": 8,
     "offset": 16}])"));
  EXPECT_EQ(k["parameter_bytes"], 36);
  EXPECT_EQ(k["static_shared_memory"], 32); // the dynamic part starts behind
  EXPECT_EQ(k["uses_dynamic_shared_memory"], true);
  EXPECT_EQ(k["required_block"], json({64, 2, 1}));
  EXPECT_EQ(k["max_block"], json());
  EXPECT_EQ(k["variables"], json::parse(R"([{"name": "table", "bytes": 24}])"));
  EXPECT_EQ(k["uses"], json({"atomics", "barriers"}));
  json none = all["kernels"][1];
  EXPECT_EQ(none["name"], "none");
  EXPECT_EQ(none["error"]["line"], 12);
  EXPECT_NE(none["error"]["message"].get<std::string>().find("clusters"),
            std::string::npos);
  EXPECT_FALSE(all.contains("launch"));
}

TEST(Module, DescribesTheLaunchThatTheFileSays) {
  std::string comment =
      R"(// flashcore-launch: {"version": 11, "ops": [{"op": "k", )"
      R"("attributes": )" +
      std::string(50000, '[') + std::string(50000, ']') +
      R"(}], "sizes": {"n": 8}, "tensors": [], "values": [], )"
      R"("workspace": [], "kernels": [{"name": "k", "block": [32, 1, 1], )"
      R"("grid": ["1", "1", "1"], "dynamic_shared_memory": 0, )"
      R"("arguments": []}]})";
  Expected<Module> module =
      Module::parse(comment + "\n" + header + ".entry k() { ret; }\n");
  ASSERT_TRUE(module) << module.error().str();
  json all = json::parse(module->describe());
  EXPECT_EQ(all["launch"]["kernels"][0]["block"], json({32, 1, 1}));
  module = Module::parse("// flashcore-launch: {}\n" + header);
  ASSERT_TRUE(module);
  all = json::parse(module->describe());
  EXPECT_FALSE(all.contains("launch"));
  EXPECT_EQ(all["launch_error"]["line"], 1);
}
