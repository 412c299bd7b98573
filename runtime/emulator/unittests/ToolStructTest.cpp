//===- ToolStructTest.cpp - Structs and pointers from the command line ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Arguments made of others (tools/flashcore-emu/StructArgument.cpp), with the
// kernels of Inputs/structs.cu: struct { const float *x; float *y; int n;
// struct { float factor; bool doubles; } scale; }, which has 32 bytes, and a
// buffer of pointers.
//
//===----------------------------------------------------------------------===//

#include "ToolUtil.h"

using namespace flashcore::emu::test;

namespace {
struct ToolStruct : Tool {
  const std::string structs =
      std::string("'") + FLASHCORE_EMU_TEST_INPUTS + "/structs.ptx'";

  ToolResult runScale(const std::string &argument,
                      const std::string &more = "") const {
    return run(structs + " -k scale --block 32 -q --arg '" + argument + "' " +
               more);
  }
  ToolResult runSums(const std::string &arguments,
                     const std::string &more = "") const {
    return run(structs + " -k sumRows --block 2 -q --arg " + arguments + " " +
               more);
  }
};
} // namespace

TEST_F(ToolStruct, ByValueWithPointersNamesAndNumbers) {
  expectClean(runScale("struct:32,0=f32[8]:iota,8:y=f32[8]:poison,16=i32:8,"
                       "20=f32:3",
                       "--out y=" + file("y.npy")));
  // As JSON, with the struct in the struct as one.
  write("params.json",
        R"({"struct": 32, "0:x": "f32[8]:iota", "8": "f32[8]:poison",
            "16": "i32:8", "20": {"struct": 8, "0": "f32:1.5", "4": "u8:1"}})");
  expectClean(run(structs + " -k scale --block 32 -q --arg " +
                  file("params.json") + " --expect 0.8=" + file("y.npy")));
  // On the command line it stands in brackets.
  expectClean(runScale("struct:32,20=[struct:8,4=u8:1,0=f32:1.5],0=f32[8]:iota,"
                       "8=f32[8]:poison,16=i32:8",
                       "--expect 0.8=" + file("y.npy")));
}

TEST_F(ToolStruct, FindingsAndNotesNameTheMember) {
  ToolResult result =
      runScale("struct:32,0:input=f32[7]:iota,8:y=f32[9]:poison,16=i32:8");
  EXPECT_EQ(result.exitCode, 1);
  EXPECT_TRUE(contains(result.out, "past the end of 'input' (28 bytes)"))
      << result.out;
  EXPECT_TRUE(
      contains(result.out, "bytes of argument 0.8 ('y') were never written"))
      << result.out;
  result = runScale("struct:32,0=f32[7]:iota,8=f32[8]:poison,16=i32:8");
  EXPECT_TRUE(contains(result.out, "past the end of 'scale_param_0+0'"))
      << result.out;
}

TEST_F(ToolStruct, PointersInsideBuffers) {
  std::string rows = "'ptr[f32[3]:ones,f32[5]:ones]' 'ptr[i32:3,i32:5]'";
  expectClean(runSums(rows + " f32[2]:poison", "--out 2=" + file("s.npy")));
  write("all.json", R"([{"ptr": ["f32[3]:ones", "@0.0"]},
                        {"ptr": ["i32:3", "i32:3"]}, "f32[2]:poison"])");
  ToolResult same = run(structs + " -k sumRows --block 2 -q --arg " +
                        file("all.json") + " --expect 2=" + file("s.npy"));
  EXPECT_EQ(same.exitCode, 1);
  EXPECT_TRUE(contains(same.out, "largest difference 2 at element 1"))
      << same.out;
  // Numbers of one type are a buffer of that type.
  expectClean(runSums(rows + " f32[2]:poison", "--out 1=" + file("n.npy")));
  EXPECT_TRUE(contains(read(file("n.npy")), "'<i4'"));
}

TEST_F(ToolStruct, ReferencesPointIntoBuffersThatCameBefore) {
  expectClean(runScale("struct:32,0:x=f32[16]:iota,8=@x+32,16=i32:8,20=f32:1",
                       "--out x=" + file("x.npy")));
  expectClean(runScale("struct:32,0=f32[16]:iota,8=@0.0+32,16=i32:8,20=f32:1",
                       "--expect 0.0=" + file("x.npy")));
  ToolResult result =
      runScale("struct:32,0:x=f32[16]:iota,8=@x+36,16=i32:8,20=f32:1");
  EXPECT_EQ(result.exitCode, 1);
  EXPECT_TRUE(contains(result.out, "0 bytes past the end of 'x'"))
      << result.out;
}

/// Copies one tile of 8 x 64 elements at column 0 and row 4 from a to b.
static const char *const tileKernel =
    ".version 8.0\n.target sm_90a\n.address_size 64\n"
    ".entry tile(.param .align 64 .b8 a[128], .param .align 64 .b8 b[128])\n{"
    ".shared .align 1024 .b8 t[1024]; .shared .align 8 .b8 bar[8];"
    ".reg .b64 %a, %b; .reg .pred %p;"
    "mov.b64 %a, a; cvta.param.u64 %a, %a; mov.b64 %b, b;"
    "cvta.param.u64 %b, %b; mbarrier.init.shared.b64 [bar], 1;"
    "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;"
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::"
    "complete_tx::bytes [t], [%a, {0, 4}], [bar];\n"
    "W: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0; @!%p bra W;\n"
    "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%b, {0, 0}], "
    "[t]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret; }\n";

TEST_F(ToolStruct, TensorMaps) {
  write("tile.ptx", tileKernel);
  auto runTile = [&](const std::string &arguments, const std::string &more) {
    return run(file("tile.ptx") + " --block 1 -q --arg " + arguments + " " +
               more);
  };
  expectClean(runTile("'tensormap128[8,64]:f16[12,64]:iota' "
                      "'tensormap128[8,64]:f16[8,64]:poison'",
                      "--expect-written --out 1=" + file("tile.npy")));
  // With strides, and of a buffer that came before.
  expectClean(runTile("'tensormap128[8,64]:f16[12,64:64,1]:iota' "
                      "'tensormap128[8,64]:f16[8,64]:poison'",
                      "--expect 1=" + file("tile.npy")));
  expectClean(runTile("'tensormap128[8,64]:f16[12,64]:iota' "
                      "'tensormap128[8,64]:f16[8,64:72,1+8]:poison'",
                      "--expect-written"));
  expectClean(runTile("'tensormap128[8,64]:f16[12,64]:iota' "
                      "'tensormap128[8,64]:@a'",
                      "--out 0=" + file("a.npy")));
  // No address depends on the stride of an axis of one element.
  expectClean(runTile("'tensormap128[8,64]:f16[12,64]:iota' "
                      "'tensormap128[1,64]:f16[1,64:7,1]:poison'",
                      "--expect-written"));
  // Boxes outside of a buffer without elements are zeros, as of any other.
  expectClean(runTile("'tensormap128[8,64]:f16[0,64]:iota' "
                      "'tensormap128[8,64]:f16[8,64]:poison'",
                      "--expect-written"));
  for (auto [argument, message] :
       {std::pair("tensormap128[1,1,1,8,64/8]:f16[8,64]:ones",
                  "expects a buffer of 4 axes, of which no other than 2 is "
                  "ragged, for groups of rows, but got 2 axes"),
        std::pair("tensormap128[1,1,1,8,64/8]:f16[1,1,12,64]:ones",
                  "expects rows and columns in multiples of 8 and 64, but got "
                  "12 and 64"),
        std::pair("tensormap128[8,64/0]:f16[8,64]:ones",
                  "expects tensormap[BOX]"),
        std::pair("tensormap[8,64]", "expects tensormap[BOX]:BUFFER or"),
        std::pair("tensormap[8,x]:f16[8,64]:ones", "expects tensormap[BOX]"),
        std::pair("tensormap16[8,64]:f16[8,64]:ones",
                  "expects a swizzle of 32, 64 or 128 bytes, but got 16"),
        std::pair("tensormap[8,64]:i32:5", "expects a buffer or an @NAME"),
        std::pair("tensormap128[8,80]:f16[8,80]:ones",
                  "at most the 128 bytes of its swizzle, but got 160"),
        std::pair("tensormap[8,64]:f16[64]:ones",
                  "a box of at most as many, but got 1 and 2")})
    expectRefused(runTile("'" + std::string(argument) + "' i32:0", ""),
                  message);
}

TEST_F(ToolStruct, RefusesWhatIsNoStruct) {
  for (const auto &[argument, message] :
       {std::pair("struct:24,0=f32[8]:iota",
                  "argument 0 ('scale_param_0') expects 32 bytes, but got 24"),
        std::pair("struct:32,28=f32[8]:iota",
                  "expects members within its 32 bytes, but '28=f32[8]:iota' "
                  "has bytes 28 to 35"),
        std::pair("struct:32,4=i32:1,0=f32[8]:iota",
                  "expects members that do not overlap, but '4=i32:1' has "
                  "bytes 4 to 7, and '0=f32[8]:iota' ends with byte 7"),
        std::pair("struct:32,18446744073709551615=i32:1", "within its 32"),
        std::pair("struct:0", "expects a struct of 1 to 16777216 bytes, but "
                              "got 0"),
        std::pair("struct:99999999999", "but got 99999999999"),
        std::pair("struct:big", "expects struct:BYTES, but got 'struct:big'"),
        std::pair("struct:32,i32:1", "expects OFFSET=VALUE or "
                                     "OFFSET:NAME=VALUE"),
        std::pair("struct:32,-4=i32:1", "but got '-4=i32:1'"),
        std::pair("struct:32,0:1x=i32:1", "a name that starts with no digit"),
        std::pair("struct:32,0=i33:1", "argument 'i33:1': expects a type"),
        std::pair("struct:32,0=f32[8:iota", "expects ']' for each '['"),
        std::pair("struct:32,0=ptr[]", "argument '': expects TYPE:VALUE"),
        std::pair("struct:32,0=@y", "expects the name, index or path of a "
                                    "buffer that comes before, but got 'y'"),
        std::pair("struct:32,0=@", "expects @NAME"),
        std::pair("struct:32,0:x=f32[8]:ones,8=@x+33",
                  "expects an offset within the 32 bytes of 'x', but got 33"),
        std::pair("struct:32,0:x=f32[8]:ones,8:x=f32[8]:ones",
                  "expects a name of its own for each value, but 'x' is given "
                  "twice")})
    expectRefused(runScale(argument), message);
  std::string deep = "i32:1";
  for (int i = 0; i < 40; ++i)
    deep = "ptr[" + deep + "]";
  expectRefused(runScale("struct:32,0=" + deep), "nested more than 32 deep");
}

TEST_F(ToolStruct, RefusesResultsThatAreNoBuffers) {
  std::string good = "struct:32,0=f32[8]:iota,8=f32[8]:poison,16=i32:8";
  for (const auto &[name, message] :
       {std::pair("0", "argument 0 is a struct, not a buffer"),
        std::pair("0.16", "argument 0.16 is a number, not a buffer"),
        std::pair("0.4", "expects one of 0.0, 0.8, 0.16, but got '0.4'"),
        std::pair("1", "expects an argument from 0 to 0, but got 1")})
    expectRefused(
        runScale(good, std::string("--out ") + name + "=" + file("o.npy")),
        message);
}

TEST_F(ToolStruct, RefusesBadJson) {
  auto expectBad = [&](const std::string &text, const std::string &message) {
    write("a.json", text);
    expectRefused(run(structs + " -k scale --block 32 --arg " + file("a.json")),
                  message);
  };
  expectBad("{", "a.json': expects a JSON document");
  expectBad("3", "but got number");
  expectBad(R"({"bytes": 8})", "expects \"TYPE:VALUE\"");
  expectBad(R"({"struct": "8"})", "expects a number of bytes at \"struct\"");
  expectBad(R"({"struct": 8, "x": "i32:1"})", "but got 'x'");
  expectBad(R"({"struct": 8, "4": "u64:1"})", "within its 8 bytes");
  expectBad("[\"i32:1\", \"i32:2\"]", "takes 1 arguments, but got 2");
  expectBad(std::string(100000, '['), "expects a JSON document");
  expectBad(std::string(1000, '[') + std::string(1000, ']'), "but got array");
  expectRefused(run(structs + " -k scale --arg " + file("none.json")),
                "none.json': cannot read it: No such file or directory");
}
