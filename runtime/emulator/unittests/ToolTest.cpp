//===- ToolTest.cpp - The command line of flashcore-emu -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the tool: each option with good and bad values, exit codes, and files
// that cannot be read or written.
//
//===----------------------------------------------------------------------===//

#include "ToolUtil.h"

#include <nlohmann/json.hpp>

using namespace flashcore::emu::test;

//===----------------------------------------------------------------------===//
// Options that work
//===----------------------------------------------------------------------===//

TEST_F(Tool, HelpHasExamples) {
  ToolResult result = run("--help");
  expectClean(result);
  for (const char *text : {"nvcc -ptx",
                           "compiled.asm[\"ptx\"]",
                           "<<<grid, block, shared>>>",
                           "compiled.metadata.shared",
                           "--kernel",
                           "--grid",
                           "--block",
                           "--shared",
                           "--arg",
                           "--out",
                           "--expect",
                           "--check",
                           "--async",
                           "--schedule",
                           "--threads",
                           "--stats",
                           "--trace",
                           "--max-instructions",
                           "--mma",
                           "Exit code: 0 clean, 1 findings"})
    EXPECT_TRUE(contains(result.out, text)) << text;
}

TEST_F(Tool, ListsKernelsAndWhatTheyTake) {
  ToolResult result = run(ptx + " --list");
  expectClean(result);
  EXPECT_EQ(result.out, "add\n"
                        "  argument 0: to, 8 bytes\n"
                        "  argument 1: from, 8 bytes\n"
                        "  argument 2: n, 4 bytes\n"
                        "  block: 32,1,1\n"
                        "nowait\n"
                        "  argument 0: to, 8 bytes\n"
                        "  argument 1: from, 8 bytes\n"
                        "endless\n");
  write("bad.ptx", ".version 8.0\n.target sm_89\n.address_size 64\n"
                   ".visible .entry f() { bogus; }\n");
  result = run(file("bad.ptx") + " --list");
  EXPECT_EQ(result.exitCode, 0);
  EXPECT_TRUE(contains(result.out, "f\n  cannot run: ")) << result.out;
}

TEST_F(Tool, RunsAndSavesAndCompares) {
  ToolResult result = runAdd("--out 0=" + file("o.npy"));
  expectClean(result);
  EXPECT_TRUE(contains(result.out, "add: 0 findings; 4 CTAs of 1 warps"));
  // Nothing is left beside it.
  EXPECT_EQ(fileNames(), (std::set<std::string>{"o.npy", "stderr", "stdout"}));
  // The file is the input plus 7, so it is also what 8 more differ from by 1.
  expectClean(runAdd("--expect 0=" + file("o.npy")));
  result = runAdd("--expect 0=" + file("o.npy") + ":0.5",
                  "i32[128]:poison i32[128]:iota i32:8");
  EXPECT_EQ(result.exitCode, 1);
  EXPECT_TRUE(contains(result.out, "o.npy: largest difference 1 at element 0, "
                                   "tolerance 0.5: DIFFERS"))
      << result.out;
  expectClean(runAdd("--expect 0=" + file("o.npy") + ":1",
                     "i32[128]:poison i32[128]:iota i32:8"));
  // And it can be an argument.
  expectClean(runAdd("--quiet", "i32[128]:zeros " + file("o.npy") + " i32:-7"));
}

TEST_F(Tool, FindingsGiveExitCode1) {
  ToolResult result = runAdd("--quiet", "i32[127]:poison i32[128]:ones i32:7");
  EXPECT_EQ(result.exitCode, 1);
  EXPECT_TRUE(contains(result.out, "0 bytes past the end of 'to' (508 bytes)"))
      << result.out;
  EXPECT_EQ(runAdd("", "i32[128]:poison i32[128]:poison i32:7").exitCode, 1);
  expectClean(runAdd("--check none", "i32[128]:poison i32[128]:poison i32:7"));
  expectClean(
      runAdd("--check memory,race", "i32[128]:poison i32[128]:poison i32:7"));
}

TEST_F(Tool, WhatIsLeftUnwrittenIsNoted) {
  ToolResult result = runAdd("--quiet", "i32[130]:poison i32[128]:ones i32:7");
  expectClean(result);
  EXPECT_EQ(result.out,
            "note: 8 of 520 bytes of argument 0 ('to') were never written\n");
}

TEST_F(Tool, ExpectWritten) {
  auto run = [&](const std::string &to) {
    return runAdd("--quiet --expect-written", to + " i32[128]:ones i32:7");
  };
  expectClean(run("i32[128]:poison"));
  expectClean(run("i32[130]:zeros"));
  ToolResult result = run("i32[2,65]:poison");
  EXPECT_EQ(result.exitCode, 1);
  EXPECT_EQ(result.out,
            "--expect-written: expects all of argument 0 ('to') to be written, "
            "but got nothing for 2 of 130 elements, the first of them "
            "[1,63]\n");
  // Rows of 66 elements, the last two of which are between the rows.
  result = run("i32[2,64:66,1]:poison");
  EXPECT_EQ(result.exitCode, 1);
  EXPECT_TRUE(contains(result.out, " 2 of 128 elements, the first of them "
                                   "[1,62]\n"))
      << result.out;
}

TEST_F(Tool, AsyncDecidesWhatAMissingWaitGives) {
  std::string save = " --out 0=" + file("o.npy");
  expectClean(runNoWait("--check none --async eager --quiet" + save));
  expectClean(runNoWait("--check none --async eager --quiet --expect 0=" +
                        file("o.npy")));
  auto compare = [&](const std::string &async) {
    return runNoWait("--check none --quiet --expect 0=" + file("o.npy") + " " +
                     async);
  };
  for (const char *lazy : {"", "--async lazy"}) {
    ToolResult result = compare(lazy);
    EXPECT_EQ(result.exitCode, 1) << lazy << result.err;
    EXPECT_TRUE(contains(result.out, "DIFFERS")) << result.out;
  }
  // A seed decides for one or the other, and always the same.
  bool outcomes[2] = {};
  for (int seed = 0; seed < 10; ++seed) {
    std::string random = "--async random:" + std::to_string(seed);
    int exitCode = compare(random).exitCode;
    ASSERT_TRUE(exitCode == 0 || exitCode == 1);
    EXPECT_EQ(compare(random).exitCode, exitCode);
    outcomes[exitCode] = true;
  }
  EXPECT_TRUE(outcomes[0] && outcomes[1]);
  EXPECT_TRUE(contains(runNoWait("--async eager").out, "async-read"));
}

TEST_F(Tool, OptionsOfTheLaunch) {
  for (const char *schedule : {"seq", "skew", "random:7", "random"})
    expectClean(runAdd(std::string("--schedule ") + schedule));
  for (const auto &[mma, text] :
       {std::pair("auto", "sm_80..sm_89"), std::pair("plain", "plain f32 fma"),
        std::pair("sm80", "sm_80..sm_89"), std::pair("sm90", "sm_90")})
    EXPECT_TRUE(contains(runAdd(std::string("--mma ") + mma).out,
                         std::string("(mma: ") + text + ")"));
  EXPECT_TRUE(contains(runAdd("--threads 2").out, " s on 2 threads\n"));
  EXPECT_EQ(runAdd("--threads 0").exitCode, 0);
  EXPECT_FALSE(contains(runAdd("--threads 1").out, "threads"));
  EXPECT_EQ(runAdd("--max-instructions 10").exitCode, 1);
  expectClean(runAdd("--max-instructions 0"));
  ToolResult endless = run(ptx + " --kernel endless --max-instructions 1000");
  EXPECT_EQ(endless.exitCode, 1);
  EXPECT_TRUE(contains(endless.out, "instruction-limit"));
  ToolResult trace = runAdd("--trace");
  EXPECT_EQ(trace.exitCode, 0);
  EXPECT_TRUE(contains(trace.err, "trace: line 22 lanes ffffffff"))
      << trace.err;
  EXPECT_EQ(runNoWait("--max-shared 512").exitCode, 1);
  expectRefused(runNoWait("--max-shared 511"), "the limit is 511");
}

TEST_F(Tool, StatsAsTextAndAsJson) {
  EXPECT_TRUE(contains(runAdd("--stats text").out, "\nglobal sectors:"));
  // Notes stay out of the document.
  ToolResult result =
      runAdd("--stats json --threads 2 --out 0=" + file("o.npy"),
             "i32[130]:poison i32[128]:ones i32:7");
  EXPECT_EQ(result.exitCode, 0);
  EXPECT_TRUE(contains(result.err, "were never written"));
  auto json = nlohmann::json::parse(result.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << result.out;
  EXPECT_EQ(json["kernel"], "add");
  EXPECT_EQ(json["threads"], 2);
  EXPECT_EQ(json["counters"]["global_write_bytes"], 512);
}

//===----------------------------------------------------------------------===//
// Bad input
//===----------------------------------------------------------------------===//

TEST_F(Tool, RefusesBadOptions) {
  for (const auto &[option, message] :
       {std::pair("--check memory,bogus",
                  "--check expects all, none, or a list of memory, init, race"),
        std::pair("--async late", "--async expects lazy, eager, random or "
                                  "random:SEED, but got 'late'"),
        std::pair("--async lazy:3", "but got 'lazy:3'"),
        std::pair("--async random:x", "but got 'random:x'"),
        std::pair("--schedule backwards",
                  "--schedule expects seq, skew, random or random:SEED, but "
                  "got 'backwards'"),
        std::pair("--schedule random:-1", "but got 'random:-1'"),
        std::pair("--mma sm70",
                  "--mma expects auto, plain, sm80 or sm90, but got 'sm70'"),
        std::pair("--threads many",
                  "--threads expects 0 to 1024 threads, but got 'many'"),
        std::pair("--threads 1025", "but got '1025'"),
        std::pair("--threads -1", "but got '-1'"),
        std::pair("--max-instructions 1e9", "--max-instructions expects a "
                                            "number of warp instructions"),
        std::pair("--stats xml", "--stats expects text or json, but got 'xml'"),
        std::pair("--grid 4,0", "expects a grid of 1x1x1 to"),
        std::pair("--grid 4x4", "--grid expects x[,y[,z]], but got '4x4'"),
        std::pair("--grid 1,2,3,4", "but got '1,2,3,4'"),
        std::pair("--block -32", "--block expects x[,y[,z]], but got '-32'"),
        std::pair("--block 64", "requires block 32x1x1, but got 64x1x1"),
        std::pair("--block 4294967296", "but got '4294967296'"),
        std::pair("--shared 48k", "--shared expects bytes, but got '48k'"),
        std::pair("--shared -1", "but got '-1'"),
        std::pair("--shared 18446744073709551615",
                  "needs 18446744073709551615 bytes"),
        std::pair("--max-shared x", "--max-shared expects bytes"),
        std::pair("--shared 999999", "999999 bytes of shared memory"),
        std::pair("--bogus", "--bogus"),
        std::pair("--kernel sub", "'sub'")}) {
    // The option comes instead of the good one.
    std::string text(option);
    std::string all = " --arg i32[128]:poison i32[128]:iota i32:7 " + text;
    for (const char *good : {"--kernel add", "--grid 4", "--block 32"})
      if (text.rfind(std::string(good).substr(0, 7), 0) != 0)
        all = std::string(" ") + good + all;
    expectRefused(run(ptx + all), message);
  }
  expectRefused(run(ptx), "the module has several kernels ('add', 'nowait'");
  expectRefused(run(""), "flashcore-emu: error: expects a PTX file, but got "
                         "none; see flashcore-emu --help\n");
  // Also without a file it is the option that is wrong.
  ToolResult result = run("--bogus");
  expectRefused(result, "flashcore-emu: error: ");
  expectRefused(result, "--bogus; see flashcore-emu --help\n");
}

TEST_F(Tool, RefusesBadArguments) {
  for (const auto &[arguments, message] :
       {std::pair("i32[128]:zeros i32[128]:ones",
                  "kernel 'add' takes 3 arguments, but got 2 of --arg\nadd\n"
                  "  argument 0: to, 8 bytes"),
        std::pair("i32[128]:zeros i32[128]:ones i32:7 i32:7",
                  "takes 3 arguments, but got 4 of --arg"),
        std::pair("i32[128]:zeros i32[128]:ones i64:7",
                  "argument 2 ('n') expects 4 bytes, but got 8"),
        std::pair("i32:0 i32[128]:ones i32:7",
                  "argument 0 ('to') expects 8 bytes, but got 4"),
        std::pair("i32[128]:zeros i32[128]:ones i33:7",
                  "'i33:7': expects a type such as f16"),
        std::pair("i32[128]:zeros i32[128]:ones 7", "'7': expects TYPE:VALUE"),
        std::pair("i32[128]:zeros i32[128]:ones i32:seven",
                  "expects a number of type i32, but got 'seven'"),
        std::pair("i32[128]:zeros i32[128]:ones i32:", "but got ''"),
        std::pair("i32[128]:zeros i32[128]:ones i32:2147483648",
                  "expects a number of type i32, but got '2147483648'"),
        std::pair("i32[128]:zeros i32[128]:ones u32:-1", "but got '-1'"),
        std::pair("i32[128]:zeros i32[128]:ones i32:7x", "but got '7x'"),
        std::pair("i32[128]:zero i32[128]:ones i32:7", "but got 'zero'"),
        std::pair("i32[128]:zeros:1 i32[128]:ones i32:7", "but got 'zeros:1'"),
        std::pair("i32[128]:randn:x i32[128]:ones i32:7", "but got 'randn:x'"),
        std::pair("i32[-1]:zeros i32[128]:ones i32:7", "expects a shape"),
        std::pair("i32[128:zeros i32[128]:ones i32:7",
                  "expects a stride for each axis"),
        std::pair("i32[99999999999999]:zeros i32[128]:ones i32:7",
                  "expects a shape")})
    expectRefused(runAdd(
                      "", std::string("'") +
                              [](std::string text) {
                                for (size_t at = 0; (at = text.find(' ', at)) !=
                                                    std::string::npos;
                                     at += 3)
                                  text.replace(at, 1, "' '");
                                return text;
                              }(arguments) +
                              "'"),
                  message);
  // The ends of the ranges are fine, as are hexadecimal bits.
  for (const char *n : {"i32:-2147483648", "i32:2147483647", "u32:4294967295",
                        "i32:0xffffffff", "f32:-1.5e3"})
    expectClean(runAdd("", std::string("i32[128]:zeros i32[128]:ones ") + n));
}

TEST_F(Tool, RefusesWhatMemoryCannotHold) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer ends the process instead";
#endif
  expectRefused(runAdd("", "'f64[8000000000]:zeros' 'i32[128]:ones' 'i32:7'"),
                "");
}

TEST_F(Tool, RefusesFilesItCannotRead) {
  expectRefused(run(file("none.ptx")), "cannot read '" + file("none.ptx") +
                                           "': No such file or directory");
  expectRefused(run(folder.string()), "it is a folder");
  auto input = [&](const std::string &name) {
    return runAdd("", "i32[128]:zeros " + file(name) + " i32:7");
  };
  expectRefused(input("none.npy"), "No such file or directory");
  std::filesystem::create_directory(file("folder.npy"));
  expectRefused(input("folder.npy"), "it is a folder");
  write("text.npy", "no numbers at all");
  expectRefused(input("text.npy"),
                "expects a .npy file, but the first bytes are not");
  expectClean(runAdd("--out 1=" + file("good.npy")));
  std::string good = read(file("good.npy"));
  write("cut.npy", good.substr(0, good.size() - 1));
  expectRefused(input("cut.npy"), "expects 512 bytes of data, but got 511");
  write("header.npy", good.substr(0, 40));
  expectRefused(input("header.npy"),
                "expects a header of 118 bytes, but the file ends");
  for (const char *shape : {"(-1,) ", "((1,))", "(1x,) ", "(.1,) "}) {
    std::string text = good;
    text.replace(text.find("(128,)"), 6, shape);
    write("shape.npy", text);
    expectRefused(input("shape.npy"),
                  "expects a header with descr, fortran_order and shape, but "
                  "got '{");
  }
  std::string odd = good;
  odd.replace(odd.find("<i4"), 3, "<c8");
  odd.resize(odd.size() * 2);
  write("odd.npy", odd);
  expectRefused(input("odd.npy"), "cannot read");
  expectRefused(runAdd("", "i32[128]:zeros f32:" + file("good.npy") + " i32:7"),
                "the file holds '<i4', which is no f32");
}

TEST_F(Tool, RefusesResultsItCannotCompare) {
  expectClean(runAdd("--out 0=" + file("o.npy")));
  std::string path = file("o.npy");
  for (const auto &[option, message] :
       {std::pair("--expect " + path, "--expect: expects INDEX=FILE.npy"),
        std::pair("--expect 0=" + file("none.npy"), "No such file"),
        std::pair("--expect 3=" + path,
                  "expects an argument from 0 to 2, but got 3"),
        std::pair("--expect 2=" + path, "argument 2 is a number"),
        std::pair("--expect 0=" + path + ":abc",
                  "expects a tolerance such as 1e-3, but got 'abc'"),
        std::pair("--expect 0=" + path + ":-1", "but got '-1'"),
        std::pair("--expect 0=" + path + ":nan", "but got 'nan'")})
    expectRefused(runAdd(option), message);
  expectRefused(
      runAdd("--expect 0=" + path, "i32[2,64]:zeros i32[128]:ones i32:7"),
      "has shape [128], but the buffer has shape [2,64]");
}

TEST_F(Tool, RefusesFilesItCannotWrite) {
  expectRefused(runAdd("--out 0=" + file("none/o.npy")),
                "cannot write '" + file("none/o.npy") +
                    "': there is no folder '" + file("none") + "'");
  expectRefused(runAdd("--out 9=" + file("o.npy")), "from 0 to 2, but got 9");
  expectRefused(runAdd("--out 0="), "--out: expects INDEX=FILE.npy");
  expectRefused(runAdd("--out x=" + file("o.npy")), "expects INDEX=FILE.npy");
  EXPECT_FALSE(std::filesystem::exists(file("o.npy")));

  // What shows only when writing comes after the report.
  auto expectUnwritable = [&](const std::string &path, const char *why) {
    ToolResult result = runAdd("--out 0=" + path);
    EXPECT_EQ(result.exitCode, 2);
    EXPECT_TRUE(contains(result.err, "cannot write '" + path + "': " + why))
        << result.err;
  };
  expectUnwritable(file(std::string(300, 'x')), "File name too long");
  expectUnwritable("/dev/full", "No space left on device");
  std::filesystem::create_directory(file("folder.npy"));
  expectUnwritable(file("folder.npy"), "Is a directory");
}
