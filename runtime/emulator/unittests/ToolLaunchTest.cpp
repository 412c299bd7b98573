//===- ToolLaunchTest.cpp - PTX that says how it is launched --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tool on a file with a '// flashcore-launch:' comment: what it runs, what
// options change, and that no comment can confuse it.
//
//===----------------------------------------------------------------------===//

#include "ToolUtil.h"

#include <nlohmann/json.hpp>

using namespace flashcore::emu::test;
using nlohmann::json;

namespace {
struct ToolLaunch : Tool {
  /// Two kernels: the first doubles q into the workspace, the second copies the
  /// workspace to o, which may have strides.
  const std::string kernels = R"(.version 8.0
.target sm_89
.address_size 64
.visible .entry twice(.param .u64 q, .param .u64 w, .param .u64 n) {
  .reg .b64 %d<8>;
  .reg .b32 %r<4>;
  .reg .f32 %f<4>;
  .reg .pred %p;
  ld.param.u64 %d0, [q];
  ld.param.u64 %d1, [w];
  ld.param.u64 %d5, [n];
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r3, %r0, %r1, %r2;
  cvt.u64.u32 %d6, %r3;
  setp.ge.u64 %p, %d6, %d5;
  @%p ret;
  mul.wide.u32 %d2, %r3, 4;
  add.u64 %d3, %d0, %d2;
  add.u64 %d4, %d1, %d2;
  ld.global.f32 %f0, [%d3];
  add.f32 %f0, %f0, %f0;
  st.global.f32 [%d4], %f0;
  ret;
}
.visible .entry copy(.param .u64 w, .param .u64 o, .param .u64 s, .param .u64 a) {
  .reg .b64 %d<8>;
  .reg .b32 %r<4>;
  .reg .f32 %f<4>;
  ld.param.u64 %d0, [w];
  ld.param.u64 %d1, [o];
  ld.param.u64 %d5, [s];
  ld.param.u64 %d7, [a];
  mov.u32 %r0, %ctaid.x;
  mul.wide.u32 %d2, %r0, 4;
  cvt.u64.u32 %d6, %r0;
  mad.lo.u64 %d6, %d6, %d5, %d7;
  shl.b64 %d6, %d6, 2;
  add.u64 %d3, %d0, %d2;
  add.u64 %d4, %d1, %d6;
  ld.global.f32 %f0, [%d3];
  st.global.f32 [%d4], %f0;
  ret;
}
)";
  json launch = json::parse(R"({
    "version": 11,
    "ops": [{"op": "copy", "attributes": {}}],
    "sizes": {"n": null, "one": 1},
    "tensors": [
      {"name": "q", "role": "input", "dtype": "f32", "axes": ["one", "n"],
       "strides": [null, 1], "offset": 0, "alignment": 4},
      {"name": "o", "role": "output", "dtype": "f32", "axes": ["1", "n"],
       "strides": [null, 2], "offset": 3, "alignment": 4}],
    "values": [],
    "workspace": [{"bytes": "n * 4"}],
    "kernels": [
      {"name": "twice", "block": [32, 1, 1], "dynamic_shared_memory": 0,
       "grid": ["n ceildiv 32", "1", "1"],
       "arguments": [{"kind": "pointer", "tensor": "q"},
                     {"kind": "pointer", "tensor": "workspace"},
                     {"kind": "size", "dim": "n"}]},
      {"name": "copy", "block": [1, 1, 1], "dynamic_shared_memory": 64,
       "grid": ["n", "1", "1"],
       "arguments": [{"kind": "pointer", "tensor": "workspace"},
                     {"kind": "pointer", "tensor": "o"},
                     {"kind": "stride", "tensor": "o", "axis": 1},
                     {"kind": "offset", "tensor": "o"}]}]})");

  ToolResult runLaunch(const std::string &arguments) const {
    return runComment(launch.dump(), arguments);
  }
  ToolResult runComment(const std::string &comment,
                        const std::string &arguments) const {
    write("k.ptx", "// Made by hand\n\n// flashcore-launch: " + comment + "\n" +
                       kernels);
    return run("'" + file("k.ptx") + "' " + arguments);
  }
  /// What is wrong with the comment, at its place.
  void expectComment(const json &comment, const std::string &message) const {
    ToolResult result = runComment(comment.dump(), "--dim n=40");
    EXPECT_EQ(result.exitCode, 2) << result.out;
    EXPECT_EQ(result.err, file("k.ptx") + ":3:22: error: flashcore-launch: " +
                              message + "\n");
    EXPECT_EQ(result.out, "");
  }
};
} // namespace

TEST_F(ToolLaunch, RunsAllKernels) {
  ToolResult result = runLaunch("--dim n=40");
  expectClean(result);
  EXPECT_TRUE(result.out.starts_with(
      "inputs: random normal, --seed 1\ntwice: 0 findings; 2 CTAs of 1 warps"))
      << result.out;
  EXPECT_TRUE(contains(result.out, "\ncopy: 0 findings; 40 CTAs of 1 warps"));
  // Only the elements of o between the strides are left out.
  EXPECT_TRUE(contains(result.out,
                       "note: 168 of 328 bytes of 'o' were never written\n"));
}

TEST_F(ToolLaunch, ListSaysWhatTheFileSays) {
  EXPECT_TRUE(runLaunch("--list").out.ends_with(
      "\nlaunch, as the file says: twice, copy\n  sizes to give: --dim n=N\n"));
  launch["sizes"]["n"] = 4;
  EXPECT_TRUE(runLaunch("--list").out.ends_with(
      "\nlaunch, as the file says: twice, copy\n"));
  ToolResult result = runComment("{", "--list");
  EXPECT_EQ(result.exitCode, 2);
  EXPECT_TRUE(contains(result.err, "expects one JSON object on this line"));
}

TEST_F(ToolLaunch, SeedsAndResults) {
  std::string save = "--dim n=40 -q --out o=" + file("o.npy");
  expectClean(runLaunch(save));
  EXPECT_TRUE(std::filesystem::exists(file("o.npy")));
  std::string same = "--dim n=40 --expect o=" + file("o.npy");
  // The places in between are poison, a NaN.
  launch["tensors"][1]["strides"] = {nullptr, 1};
  launch["tensors"][1]["offset"] = 0;
  expectClean(runLaunch(save));
  expectClean(runLaunch(same));
  expectClean(runLaunch(same + " --seed 1"));
  EXPECT_EQ(runLaunch(same + " --seed 2").exitCode, 1);
  expectRefused(runLaunch("--dim n=40 --out 1=" + file("o.npy")),
                "--out: '1=" + file("o.npy") +
                    "': expects one of q, o, workspace, but got '1'");
  expectRefused(runLaunch("--dim n=40 --out o"),
                "--out: expects NAME=FILE.npy, but got 'o'");
  expectRefused(runLaunch("--dim n=40 --seed x"),
                "--seed expects a number, but got 'x'");
}

TEST_F(ToolLaunch, Sizes) {
  expectRefused(runLaunch(""), "the kernel leaves sizes open: expects --dim "
                               "n=N with numbers for N\n");
  expectRefused(runLaunch("--dim m=4"),
                "--dim expects a name of n, one, but got 'm'");
  expectRefused(runLaunch("--dim n"), "--dim expects NAME=NUMBER, but got 'n'");
  expectRefused(runLaunch("--dim n=4x"), "but got 'n=4x'");
  expectRefused(runLaunch("--dim n=-4"), "but got 'n=-4'");
  expectRefused(runLaunch("--dim n=4 one=2"),
                "--dim one=2: the kernel was compiled for one = 1");
  expectClean(runLaunch("--dim n=4 one=1 -q"));
  expectRefused(runLaunch("--dim n=4 n=4"), "--dim gives n twice");
  expectRefused(runLaunch("--dim n=9223372036854775807"),
                "at most 8 G elements");
  expectRefused(runAdd("--dim n=4"), "--dim is for PTX that says how it is "
                                     "launched");
  ToolResult result = runLaunch("--dim n=0");
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "note: 'copy' has a grid of no blocks and "
                                   "was not launched"));
  launch["tensors"][0]["axes"] = {"n", "n"};
  expectRefused(runLaunch("--dim n=4611686018427387904"),
                "tensor 'q' does not fit 64 bits at these sizes");
}

TEST_F(ToolLaunch, AGridMayAddASize) {
  launch["sizes"]["more"] = nullptr;
  launch["kernels"][1]["grid"][0] = "(n ceildiv 40) + more";
  ToolResult result = runLaunch("--dim n=40 more=39");
  expectClean(result);
  EXPECT_TRUE(contains(result.out, "\ncopy: 0 findings; 40 CTAs of 1 warps"))
      << result.out;
  launch["kernels"][1]["grid"][0] = "n + m";
  expectComment(launch, "expects 'kernels[1].grid[0]' to be an expression of "
                        "sizes and values (more, n, one), but got \"n + m\": "
                        "there is no 'm'");
}

TEST_F(ToolLaunch, KernelsAndPartsFollowTheSizes) {
  launch["sizes"]["seqlen_q"] = nullptr;
  launch["sizes"]["batch"] = 2;
  launch["sizes"]["seqlen_k"] = 500;
  launch["kernels"][0]["when"] = "seqlen_q >= 9";
  launch["kernels"][1]["when"] = "seqlen_q <= 8";
  launch["values"] = {
      {{"name", "key_splits"},
       {"is", "max(1, min(5, 40 floordiv max(1, (seqlen_q ceildiv 4) * batch), "
              "seqlen_k floordiv 100))"}}};
  launch["kernels"][1]["grid"][0] = "key_splits";
  launch["workspace"][0]["when"] = launch["kernels"][1]["when"];
  // Two sequences of two tiles each share 40 blocks: 10, but for 5 at most.
  ToolResult few = runLaunch("--dim n=40 seqlen_q=8");
  EXPECT_TRUE(contains(few.out, "copy: ") && contains(few.out, "; 5 CTAs"))
      << few.out;
  EXPECT_FALSE(contains(few.out, "twice")) << few.out;
  // A workspace of no bytes has no address.
  ToolResult many = runLaunch("--dim n=40 seqlen_q=9");
  EXPECT_TRUE(contains(many.out, "twice: ")) << many.out;
  EXPECT_FALSE(contains(many.out, "copy")) << many.out;
  launch["kernels"][0]["when"] = "n ceildiv (seqlen_q - 9) > 0";
  expectRefused(runLaunch("--dim n=40 seqlen_q=9"),
                "expects what decides whether kernel 'twice' runs to divide by "
                "positive numbers, but got 'n ceildiv (seqlen_q - 9) > 0' with "
                "n = 40, seqlen_q = 9");
}

TEST_F(ToolLaunch, HeadsOfQueriesAreShared) {
  launch["sizes"]["heads_q"] = nullptr;
  launch["sizes"]["heads_kv"] = nullptr;
  for (const auto &[heads, message] :
       {std::pair("heads_q=4 heads_kv=3", "but got 4 and 3\n"),
        std::pair("heads_q=1 heads_kv=2", "but got 1 and 2\n"),
        std::pair("heads_q=1 heads_kv=0", "but got 1 and 0\n")})
    expectRefused(
        runLaunch(std::string("--dim n=4 ") + heads),
        std::string("expects heads_q to be a multiple of heads_kv, ") +
            message);
  for (const char *heads :
       {"heads_q=6 heads_kv=3", "heads_q=0 heads_kv=3", "heads_q=0 heads_kv=0"})
    expectClean(runLaunch(std::string("-q --dim n=4 ") + heads));
}

TEST_F(ToolLaunch, OptionsWin) {
  expectRefused(runLaunch("--dim n=4 --grid 2"),
                "--grid, --block, --shared and --arg are of one kernel, but "
                "the file says how to launch twice, copy; name one with "
                "--kernel");
  ToolResult result =
      runLaunch("--dim n=40 --kernel twice --grid 4 --block 16");
  expectClean(result);
  EXPECT_TRUE(contains(result.out, "twice: 0 findings; 4 CTAs")) << result.out;
  EXPECT_FALSE(contains(result.out, "copy: "));
  // Arguments of the command line, the rest of the file.
  result = runLaunch("--dim n=40 --kernel twice --arg f32[40]:ones "
                     "f32[40]:poison u64:40");
  expectClean(result);
  EXPECT_TRUE(contains(result.out, "twice: 0 findings; 2 CTAs")) << result.out;
  expectClean(runLaunch("--kernel twice --grid 1 --arg f32[32]:ones "
                        "f32[32]:poison u64:32"));
  // A description that nothing asks for is not read.
  write("k.ptx", "// flashcore-launch: {\n" + kernels);
  expectClean(run(file("k.ptx") + " --kernel twice --grid 1 --block 32 "
                                  "--shared 0 --arg f32[32]:ones "
                                  "f32[32]:poison u64:32"));
}

TEST_F(ToolLaunch, PersistentKernels) {
  launch["kernels"][0]["grid"][0] = "min(n ceildiv 32, multiprocessors * 2)";
  auto count = [&](const std::string &options) {
    return runLaunch("--dim n=3200 --kernel twice " + options).out;
  };
  EXPECT_TRUE(contains(count(""), "twice: 0 findings; 100 CTAs"));
  EXPECT_TRUE(contains(count("--multiprocessors 3"), "; 6 CTAs"));
  expectRefused(runLaunch("--dim n=4 --multiprocessors x"),
                "--multiprocessors expects a number, but got 'x'");
}

TEST_F(ToolLaunch, FindingsStopTheRun) {
  launch["kernels"][0]["grid"][0] = "1";
  launch["kernels"][0]["arguments"][0]["tensor"] = "o";
  ToolResult result = runLaunch("--dim n=4");
  EXPECT_EQ(result.exitCode, 1);
  EXPECT_TRUE(contains(result.out, "uninitialized-memory")) << result.out;
  EXPECT_TRUE(contains(result.out, "note: the kernels after 'twice' were not "
                                   "launched\n"));
  EXPECT_FALSE(contains(result.out, "copy: "));
}

TEST_F(ToolLaunch, JsonOfSeveralKernels) {
  ToolResult result = runLaunch("--dim n=40 --stats json");
  EXPECT_EQ(result.exitCode, 0);
  json reports = json::parse(result.out, nullptr, false);
  ASSERT_TRUE(reports.is_array() && reports.size() == 2) << result.out;
  EXPECT_EQ(reports[1]["kernel"], "copy");
  result = runLaunch("--dim n=40 --kernel twice --stats json");
  EXPECT_EQ(json::parse(result.out)["kernel"], "twice");
}

TEST_F(ToolLaunch, RefusesWhatIsNoDescription) {
  for (const char *text : {"", "{", "nul", "{\"version\": 4"})
    expectRefused(runComment(text, ""),
                  ":3:22: error: flashcore-launch: expects one JSON object on "
                  "this line\n");
  expectRefused(runComment(std::string(2'000'000, '['), ""),
                "expects one JSON object on this line");
  std::string nested =
      std::string(1'000'000, '[') + std::string(1'000'000, ']');
  expectRefused(runComment(nested, ""),
                "flashcore-launch: expects the document to be an object, but "
                "got an array of 1 elements\n");
}

TEST_F(ToolLaunch, RefusesWrongFields) {
  expectComment(json::array(), "expects the document to be an object, but got "
                               "an array of 0 elements");
  auto with = [&](const char *pointer, const json &value) {
    json changed = launch;
    changed[json::json_pointer(pointer)] = value;
    return changed;
  };
  expectComment(with("/version", 10), "expects 'version' to be 11, but got 10");
  expectComment(with("/later", 1),
                "expects no key 'later', which this version does not know");
  expectComment(with("/sizes/n", -1), "expects 'sizes.n' to be an integer of "
                                      "at least 0, but got -1");
  expectComment(with("/tensors/0/axes/1", "m"),
                "expects 'tensors[0].axes[1]' to be the name of a size in "
                "'sizes' or 'values' (n, one), but got \"m\"");
  expectComment(with("/tensors/0/strides", json::array()),
                "expects 'tensors[0].strides' to be an array of 2 elements, "
                "one an axis, but got an array of 0 elements");
  expectComment(with("/tensors/1/name", "q"),
                "expects 'tensors[1].name' to be a name that no other tensor "
                "has, but got \"q\"");
  expectComment(with("/tensors/0/dtype", "f8"),
                "expects 'tensors[0].dtype' to be 'f16' or 'bf16' or 'f32' or "
                "'i32' or 'i8', but got \"f8\"");
  expectComment(with("/tensors/0/role", 3),
                "expects 'tensors[0].role' to be a string, but got 3");
  expectComment(with("/workspace/0/bytes", "n *"),
                "expects 'workspace[0].bytes' to be an expression of sizes, "
                "but got \"n *\": expects a number, a name or '(', but got the "
                "end in the expression 'n *'");
  expectComment(with("/kernels/1/block", json::array({1, 1})),
                "expects 'kernels[1].block' to be an array of 3 elements, but "
                "got an array of 2 elements");
  expectComment(with("/kernels/0/arguments/0/tensor", "x"),
                "expects 'kernels[0].arguments[0].tensor' to be the name of a "
                "tensor in 'tensors' (q, o), but got \"x\"");
  expectComment(with("/kernels/1/arguments/2/axis", 2),
                "expects 'kernels[1].arguments[2].axis' to be an integer from "
                "0 to 1, but got 2");
  expectComment(with("/kernels/0/arguments/2/kind", "sise"),
                "expects 'kernels[0].arguments[2].kind' to be 'pointer' or "
                "'size' or 'stride' or 'offset' or 'tensor_map', but got "
                "\"sise\"");
  expectComment(with("/kernels", json::array()),
                "expects 'kernels' to be an array of at least one kernel, but "
                "got an array of 0 elements");
}

TEST_F(ToolLaunch, TheKernelMustAgree) {
  launch["kernels"][0]["name"] = "thrice";
  expectRefused(runLaunch("--dim n=4"),
                "no kernel 'thrice' in this module; it has twice, copy");
  launch["kernels"][0]["name"] = "twice";
  launch["kernels"][0]["arguments"].erase(2);
  expectRefused(runLaunch("--dim n=4 -q"),
                "kernel 'twice' takes 3 arguments, but got 2");
}

namespace {
/// Copies q to o in tiles of 8 rows of 64 elements, by tensor maps.
struct ToolMapLaunch : Tool {
  const std::string kernels =
      ".version 8.0\n.target sm_90a\n.address_size 64\n"
      ".visible .entry copy(.param .align 64 .b8 q[128], .param .u64 n,"
      " .param .align 64 .b8 o[128])\n{"
      ".shared .align 1024 .b8 t[1024]; .shared .align 8 .b8 bar[8];"
      ".reg .b64 %q, %o, %n, %d; .reg .pred %p; .reg .b32 %h, %s;"
      "mov.b64 %q, q; cvta.param.u64 %q, %q; mov.b64 %o, o;"
      "cvta.param.u64 %o, %o; mov.u32 %s, %ctaid.x; shl.b32 %s, %s, 3;"
      "mov.u32 %h, %ctaid.y; ld.param.u64 %n, [n]; cvt.u64.u32 %d, %s;"
      "setp.ge.u64 %p, %d, %n; @%p ret;"
      "mbarrier.init.shared.b64 [bar], 1;"
      "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;"
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::"
      "complete_tx::bytes [t], [%q, {0, %s, %h}], [bar];\n"
      "W: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0; @!%p bra W;\n"
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
      "[%o, {0, %s, %h}], [t]; cp.async.bulk.commit_group;"
      "cp.async.bulk.wait_group 0; ret; }\n";
  json launch = json::parse(R"({
    "version": 11,
    "ops": [{"op": "copy", "attributes": {}}],
    "sizes": {"h": null, "n": null, "d": 64},
    "tensors": [
      {"name": "q", "role": "input", "dtype": "f16", "axes": ["h", "n", "d"],
       "strides": [null, null, 1], "offset": 0, "alignment": 16},
      {"name": "o", "role": "output", "dtype": "f16", "axes": ["h", "n", "d"],
       "strides": [null, null, 1], "offset": 0, "alignment": 16}],
    "values": [],
    "workspace": [],
    "kernels": [
      {"name": "copy", "block": [1, 1, 1], "dynamic_shared_memory": 0,
       "grid": ["n ceildiv 8", "h", "1"],
       "arguments": [
         {"kind": "tensor_map", "tensor": "q", "box": [1, 8, 64],
          "swizzle": 128},
         {"kind": "size", "dim": "n"},
         {"kind": "tensor_map", "tensor": "o", "box": [1, 8, 64],
          "swizzle": 128}]}]})");

  ToolResult runLaunch(const std::string &arguments) const {
    write("k.ptx", "// flashcore-launch: " + launch.dump() + "\n" + kernels);
    return run("'" + file("k.ptx") + "' " + arguments);
  }
  void expectArgument(const char *pointer, const json &value,
                      const std::string &message) {
    const json kept = launch;
    launch["kernels"][0]["arguments"][0][json::json_pointer(pointer)] = value;
    ToolResult result = runLaunch("--dim h=2 n=12");
    EXPECT_EQ(result.exitCode, 2) << result.out;
    EXPECT_EQ(result.err, file("k.ptx") +
                              ":1:22: error: flashcore-launch: expects "
                              "'kernels[0].arguments[0]" +
                              message + "\n");
    launch = kept;
  }
};
} // namespace

TEST_F(ToolMapLaunch, MakesTheMapsOfItsTensors) {
  // The second tile is half outside of the tensor.
  expectClean(
      runLaunch("--dim h=2 n=12 -q --expect-written --out o=" + file("o.npy")));
  expectClean(runLaunch("--dim h=2 n=12 -q --expect q=" + file("o.npy")));
  // Strides and an offset of the file.
  launch["tensors"][1]["strides"] = {1600, 72, 1};
  launch["tensors"][1]["offset"] = 8;
  expectClean(runLaunch("--dim h=2 n=12 -q --expect-written"));
  // Those of an axis of one element may be any.
  launch["tensors"][0]["strides"] = {7, nullptr, 1};
  expectClean(runLaunch("--dim h=1 n=12 -q --expect-written"));
  ToolResult result = runLaunch("--dim h=2 n=0");
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "'copy' has a grid of no blocks"));
}

TEST_F(ToolMapLaunch, ATensorWithoutElementsHasNothingToRead) {
  launch["sizes"]["m"] = nullptr;
  launch["tensors"][0]["axes"][1] = "m";
  expectClean(runLaunch("--dim h=2 n=12 m=12 -q --expect-written"));
  ToolResult result = runLaunch("--dim h=2 n=12 m=0");
  EXPECT_EQ(result.exitCode, 1);
  EXPECT_TRUE(contains(result.out, "past the end of 'q' (0 bytes)"))
      << result.out << result.err;
}

TEST_F(ToolMapLaunch, RefusesWhatIsNoMap) {
  expectArgument("/tensor", "x",
                 ".tensor' to be the name of a tensor in 'tensors' (q, o), but "
                 "got \"x\"");
  expectArgument("/tensor", "workspace",
                 ".tensor' to be the name of a tensor in 'tensors' (q, o), but "
                 "got \"workspace\"");
  expectArgument("/box", {8, 64},
                 ".box' to be an array of 3 elements, one an axis of 'q', but "
                 "got an array of 2 elements");
  expectArgument("/box/1", 257,
                 ".box[1]' to be an integer from 1 to 256, but got 257");
  expectArgument("/swizzle", 48,
                 ".swizzle' to be 0, 32, 64 or 128, but got 48");
  launch["tensors"][0]["strides"] = {1024, 68, 1};
  expectRefused(runLaunch("--dim h=2 n=12"),
                "kernel 'copy', tensor 'q': a tensor map expects a stride of "
                "axis 1 that is a multiple of 16 bytes below 2^40, but got "
                "136");
}
