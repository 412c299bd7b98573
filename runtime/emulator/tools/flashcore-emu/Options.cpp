//===- Options.cpp - Command line of flashcore-emu ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Options.h.
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include "flashcore/Emulator/OptionText.h"

#include <CLI/CLI.hpp>

#include <algorithm>

using namespace flashcore::emu;

static constexpr const char *footer =
    R"(Exit code: 0 clean, 1 findings or a result that --expect refuses, 2 bad input.

A kernel of flashcore-compile says in its PTX how it is launched:
  flashcore-compile attention.mlir -o attention.ptx
  flashcore-emu attention.ptx
runs all its kernels on random inputs; sizes that it leaves open are given as
--dim seqlen_q=512.

A kernel of nvcc:
  nvcc -ptx -arch=sm_89 -lineinfo saxpy.cu
  flashcore-emu saxpy.ptx --list
  flashcore-emu saxpy.ptx --kernel _Z5saxpyifPKfPf --grid 4 --block 256 \
    --arg i32:1000 f32:2.0 f32[1000]:randn:1 f32[1000]:zeros
grid, block and dynamic shared memory are those of <<<grid, block, shared>>>;
the arguments are those of the C++ function, pointers as buffers. A struct by
value, such as { const float *x; float *y; int n; }, takes its members at their
offsets, and a member can have a name for --out:
  --arg struct:24,0=f32[1000]:randn:1,8:y=f32[1000]:poison,16=i32:1000 \
  --out y=y.npy

A kernel of Triton:
  compiled = kernel[grid](q, k, v, o, scale, BLOCK=64)
  open("kernel.ptx", "w").write(compiled.asm["ptx"])
  flashcore-emu kernel.ptx --grid 8,8 --block 128 --shared 49152 \
    --arg f16[8,512,64]:randn:1 f16[8,512,64]:randn:2 \
          f16[8,512,64]:randn:3 f16[8,512,64]:poison f32:0.125 u64:0
block is 32 * num_warps (--list prints it), shared is compiled.metadata.shared,
and the arguments are those that are not constexpr. Newer versions of Triton
add pointers for scratch memory at the end; pass u64:0 for each.
)";

/// Declares an option of the launch, kept as text.
static void declareLaunchOption(CLI::App &app, ToolOptions &options,
                                const std::string &name,
                                const std::string &help) {
  app.add_option_function<std::string>(
      "--" + name,
      [&options, name](const std::string &value) {
        options.launch.emplace_back(name, value);
      },
      help);
}

/// What is launched, and on what.
static void declareKernel(CLI::App &app, ToolOptions &options) {
  app.add_option("ptx", options.ptxFile, "PTX file");
  app.add_flag("--list", options.list,
               "List the kernels of the file with their arguments and stop; "
               "as JSON with --stats json");
  app.add_option("--kernel,-k", options.kernel,
                 "Kernel to run; may be left out if the file has one or says "
                 "how to launch several");
  app.add_option("--grid", options.grid, "CTAs: x[,y[,z]]");
  app.add_option("--block", options.block, "Threads of a CTA: x[,y[,z]]");
  app.add_option("--shared", options.sharedBytes,
                 "Dynamic shared memory of a CTA in bytes");
  app.add_option(
      "--arg,-a", options.arguments,
      "The kernel's arguments in order, each one of\n"
      "  i32:512  f32:0.18           a number (f16, bf16, f32, f64,\n"
      "                              i8 to i64, u8 to u64)\n"
      "  f16[8,512,64]:randn:7       a buffer (zeros, ones, iota,\n"
      "                              randn:SEED, uniform:SEED, "
      "poison)\n"
      "  f16[2,41,64:2952,72,1+8]:randn:7   the same with strides and an "
      "offset,\n"
      "                              in elements\n"
      "  q.npy  bf16:q.npy           a buffer from a file\n"
      "  struct:48,0=f16[64]:ones,16:n=i32:3   48 bytes by value, with what "
      "is at\n"
      "                              these offsets; a buffer is a pointer\n"
      "  ptr[f16[8]:ones,i32:3]      a buffer of values and pointers\n"
      "  tensormap128[64,64]:f16[512,64]:ones   a tensor map of a buffer, with "
      "its box\n"
      "                              and a swizzle of 32, 64, 128 bytes or "
      "none\n"
      "  tensormap128[1,64,64;0]:@0  one whose axis 0 ends where a coordinate "
      "more says\n"
      "  tensormap128[1,2,2,8,64/8]:@0   one of groups of 8 rows with all "
      "panels inside\n"
      "  @0.16  @n  @0+64            a pointer to a buffer that came before\n"
      "  args.json                   any of these from a file\n"
      "A buffer that the kernel writes is best poison: what it "
      "leaves out is noted");
  app.add_option("--dim", options.dims,
                 "NAME=NUMBER: a size that the file's own launch leaves open");
  app.add_option("--seed", options.seed,
                 "Seed of the random inputs of the file's own launch (default "
                 "1)");
  app.add_option("--multiprocessors", options.multiprocessors,
                 "For how many a persistent kernel is launched (default 132)");
}

/// What becomes of the buffers afterwards.
static void declareResults(CLI::App &app, ToolOptions &options) {
  app.add_option(
      "--out", options.outputs,
      "INDEX=FILE.npy: save the buffer of argument INDEX (from 0) afterwards; "
      "0.16 is what byte 16 of argument 0 points to, or its name; of the "
      "file's own launch NAME=FILE.npy with the name of a tensor");
  app.add_option("--expect", options.expected,
                 "INDEX=FILE.npy[:TOLERANCE]: compare the buffer of argument "
                 "INDEX, or of the tensor NAME; the tolerance is absolute, 0 "
                 "if left out");
  app.add_flag("--expect-written", options.expectWritten,
               "Refuse a run that leaves an element of a poison buffer, or of "
               "an output of the file's own launch, unwritten");
}

/// What is checked, and what the machine is like.
static void declareMachine(CLI::App &app, ToolOptions &options) {
  declareLaunchOption(app, options, "check",
                      "all (the default), none, or a list of "
                      "memory,init,race,async,sync,layout\n"
                      "(and same-value: several warps store one value, which "
                      "is a note otherwise)");
  declareLaunchOption(app, options, "async",
                      "When cp.async moves its bytes: lazy (at the wait, the "
                      "default), eager (at the issue), random:SEED");
  declareLaunchOption(app, options, "schedule",
                      "Order of warps: seq (the default), skew (last warp "
                      "first), random:SEED");
  declareLaunchOption(app, options, "threads",
                      "Threads to run CTAs on (default 1); 0 takes all cores. "
                      "Results and findings do not depend on it");
  declareLaunchOption(app, options, "mma",
                      "Rounding of mma: auto (by .target, the default), sm80, "
                      "sm90, plain");
  declareLaunchOption(app, options, "max-instructions",
                      "Warp instructions after which to stop (default 4000 "
                      "million); 0 means no limit");
  declareLaunchOption(app, options, "shared-base",
                      "Where dynamic shared memory begins behind the static "
                      "part: driver (at a multiple of 1024, the default), "
                      "declared (at a multiple of what the kernel declares "
                      "and of nothing more)");
  app.add_option("--max-shared", options.maxShared,
                 "Shared memory a CTA may have in bytes (default: as on the "
                 "chips of the .target)");
}

void flashcore::emu::declareOptions(CLI::App &app, ToolOptions &options) {
  declareKernel(app, options);
  declareResults(app, options);
  declareMachine(app, options);
  app.add_option("--stats", options.stats,
                 "Counters: 'text', or 'json' for the whole report as JSON");
  app.add_flag("--trace", options.trace,
               "Print each instruction of CTA 0, warp 0");
  app.add_flag("--quiet,-q", options.quiet, "Print findings only");
  app.set_version_flag("--version", "flashcore-emu " FLASHCORE_EMU_VERSION);
  app.footer(footer);
}

static bool parseDim(const std::string &text, Dim3 &dim) {
  dim = Dim3();
  uint32_t *const extents[] = {&dim.x, &dim.y, &dim.z};
  size_t begin = 0;
  for (uint32_t *extent : extents) {
    size_t end = std::min(text.find(',', begin), text.size());
    uint64_t number = 0;
    if (!parseNumber(std::string_view(text).substr(begin, end - begin),
                     number) ||
        number > UINT32_MAX)
      return false;
    *extent = static_cast<uint32_t>(number);
    if (end == text.size())
      return true;
    begin = end + 1;
  }
  return false;
}

static Error expects(const char *option, const char *what,
                     const std::string &value) {
  return {{},
          std::string("--") + option + " expects " + what + ", but got '" +
              value + "'"};
}

Expected<uint64_t> flashcore::emu::numberOption(const char *name,
                                                const std::string &value) {
  uint64_t number = 0;
  if (!parseNumber(value, number))
    return expects(name, "a number", value);
  return number;
}

Error flashcore::emu::overrideConfig(const ToolOptions &options,
                                     LaunchConfig &config) {
  if (options.grid && !parseDim(*options.grid, config.grid))
    return expects("grid", "x[,y[,z]]", *options.grid);
  if (options.block && !parseDim(*options.block, config.block))
    return expects("block", "x[,y[,z]]", *options.block);
  if (options.sharedBytes &&
      !parseNumber(*options.sharedBytes, config.dynamicSharedBytes))
    return expects("shared", "bytes", *options.sharedBytes);
  return {};
}

Expected<LaunchOptions>
flashcore::emu::launchOptions(const ToolOptions &options) {
  LaunchOptions out;
  if (!parseNumber(options.maxShared, out.maxSharedBytes))
    return expects("max-shared", "bytes", options.maxShared);
  for (const auto &[name, value] : options.launch) {
    Error error = setLaunchOption(out, name, value);
    if (!error.message.empty())
      return Error{{}, "--" + name + " " + error.message};
  }
  const std::string &stats = options.stats;
  if (!stats.empty() && stats != "json" && stats != "text")
    return expects("stats", "text or json", stats);
  out.counters = !stats.empty() || out.checks != CheckNone;
  out.trace = options.trace;
  return out;
}
