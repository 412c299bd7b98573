//===- Main.cpp - The flashcore-emu tool ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs one kernel of a PTX file and reports. Exit code: 0 clean, 1 findings or
// a result that differs from --expect, 2 bad input.
//
//===----------------------------------------------------------------------===//

#include "Results.h"
#include "flashcore/Emulator/OptionText.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <new>
#include <stdexcept>

using namespace flashcore::emu;

namespace {
constexpr int exitClean = 0, exitFindings = 1, exitBadInput = 2;

struct ToolOptions {
  std::string ptxFile;
  std::string kernel;
  std::string grid = "1", block = "1";
  std::string sharedBytes = "0", maxShared = std::to_string(227 << 10);
  std::vector<std::string> arguments, outputs, expected;
  /// Names and values for setLaunchOption.
  std::vector<std::pair<std::string, std::string>> launch;
  std::string stats;
  bool trace = false, list = false, quiet = false;
};
} // namespace

static int badInput(const std::string &message) {
  std::cerr << "flashcore-emu: " << message << "\n";
  return exitBadInput;
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

static constexpr const char *footer =
    R"(Exit code: 0 clean, 1 findings or a result that --expect refuses, 2 bad input.

A kernel of nvcc:
  nvcc -ptx -arch=sm_89 -lineinfo saxpy.cu
  flashcore-emu saxpy.ptx --list
  flashcore-emu saxpy.ptx --kernel _Z5saxpyifPKfPf --grid 4 --block 256 \
    --arg i32:1000 f32:2.0 f32[1000]:randn:1 f32[1000]:zeros
grid, block and dynamic shared memory are those of <<<grid, block, shared>>>;
the arguments are those of the C++ function, pointers as buffers.

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

static void declareOptions(CLI::App &app, ToolOptions &options) {
  app.add_option("ptx", options.ptxFile, "PTX file")->required();
  app.add_flag("--list", options.list,
               "List the kernels of the file with their arguments and stop");
  app.add_option("--kernel,-k", options.kernel,
                 "Kernel to run; may be left out if the file has one");
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
      "A buffer that the kernel writes is best poison: what it "
      "leaves out is noted");
  app.add_option(
      "--out", options.outputs,
      "INDEX=FILE.npy: save the buffer of argument INDEX (from 0) afterwards");
  app.add_option("--expect", options.expected,
                 "INDEX=FILE.npy[:TOLERANCE]: compare the buffer of argument "
                 "INDEX; the tolerance is absolute, 0 if left out");
  declareLaunchOption(app, options, "check",
                      "all (the default), none, or a list of "
                      "memory,init,race,async,sync,layout");
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
  app.add_option("--max-shared", options.maxShared,
                 "Shared memory a CTA may have in bytes");
  app.add_option("--stats", options.stats,
                 "Counters: 'text', or 'json' for the whole report as JSON");
  app.add_flag("--trace", options.trace,
               "Print each instruction of CTA 0, warp 0");
  app.add_flag("--quiet,-q", options.quiet, "Print findings only");
  app.footer(footer);
}

static bool parseDim(const std::string &text, Dim3 &dim) {
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

static std::string translateOptions(const ToolOptions &in, LaunchConfig &config,
                                    LaunchOptions &out) {
  if (!parseDim(in.grid, config.grid))
    return "--grid expects x[,y[,z]], but got '" + in.grid + "'";
  if (!parseDim(in.block, config.block))
    return "--block expects x[,y[,z]], but got '" + in.block + "'";
  if (!parseNumber(in.sharedBytes, config.dynamicSharedBytes))
    return "--shared expects bytes, but got '" + in.sharedBytes + "'";
  if (!parseNumber(in.maxShared, out.maxSharedBytes))
    return "--max-shared expects bytes, but got '" + in.maxShared + "'";
  for (const auto &[name, value] : in.launch) {
    Error error = setLaunchOption(out, name, value);
    if (!error.message.empty())
      return "--" + name + " " + error.message;
  }
  if (!in.stats.empty() && in.stats != "json" && in.stats != "text")
    return "--stats expects text or json, but got '" + in.stats + "'";
  out.counters = !in.stats.empty() || out.checks != CheckNone;
  out.trace = in.trace;
  return {};
}

//===----------------------------------------------------------------------===//
// --list
//===----------------------------------------------------------------------===//

/// What a caller has to give a kernel, in several lines.
static std::string describeKernel(const Kernel &kernel) {
  std::string text = kernel.name() + "\n";
  for (size_t i = 0; i < kernel.numParams(); ++i)
    text += "  argument " + std::to_string(i) + ": " + kernel.paramName(i) +
            ", " + std::to_string(kernel.paramBytes(i)) + " bytes\n";
  Dim3 block = kernel.requiredBlock();
  if (block.x)
    text += "  block: " + std::to_string(block.x) + "," +
            std::to_string(block.y) + "," + std::to_string(block.z) + "\n";
  if (kernel.staticSharedBytes())
    text += "  static shared memory: " +
            std::to_string(kernel.staticSharedBytes()) + " bytes\n";
  return text;
}

static int listKernels(const ToolOptions &options, const std::string &text) {
  Expected<std::vector<std::string>> names = Kernel::list(text);
  if (!names) {
    std::cerr << names.error().str(options.ptxFile) << "\n";
    return exitBadInput;
  }
  for (const std::string &name : *names) {
    Expected<Kernel> kernel = Kernel::load(text, name);
    std::cout << (kernel ? describeKernel(*kernel)
                         : name + "\n  cannot run: " +
                               kernel.error().str(options.ptxFile) + "\n");
  }
  return exitClean;
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

static std::string loadArguments(const ToolOptions &options,
                                 const Kernel &kernel, DeviceMemory &memory,
                                 std::vector<LoadedArgument> &loaded,
                                 Arguments &arguments) {
  if (options.arguments.size() != kernel.numParams())
    return "kernel '" + kernel.name() + "' takes " +
           std::to_string(kernel.numParams()) + " arguments, but got " +
           std::to_string(options.arguments.size()) + " of --arg\n" +
           describeKernel(kernel);
  for (size_t i = 0; i < options.arguments.size(); ++i) {
    Expected<TypedArgument> parsed = parseArgument(options.arguments[i]);
    if (!parsed)
      return parsed.error().message;
    LoadedArgument argument{std::move(*parsed), 0};
    const TypedArgument &value = argument.value;
    if (value.isBuffer) {
      argument.address =
          memory.allocate(kernel.paramName(i), value.data.size());
      if (!argument.address)
        return "argument '" + options.arguments[i] +
               "': expects a buffer of at most " +
               std::to_string(DeviceMemory::maxBufferBytes) +
               " bytes, but got " + std::to_string(value.data.size());
      if (!value.isPoison)
        memory.write(argument.address, value.data.data(), value.data.size());
      const TensorView &view = value.view;
      unsigned bytes = elementBytes(value.type);
      bool isTensor = memory.describe(argument.address + view.offset * bytes,
                                      bytes, view.shape, view.strides);
      if (!isTensor && !view.strides.empty())
        return "argument '" + options.arguments[i] +
               "': expects strides that give every element a place of its own";
      arguments.addPointer(argument.address);
    } else {
      arguments.addBytes(value.data.data(), value.data.size());
    }
    loaded.push_back(std::move(argument));
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

static std::string parseRequests(const ToolOptions &options,
                                 const std::vector<LoadedArgument> &loaded,
                                 std::vector<OutputRequest> &outputs,
                                 std::vector<ExpectRequest> &expected) {
  for (const std::string &text : options.outputs) {
    Expected<OutputRequest> request = parseOutput(text, loaded);
    if (!request)
      return "--out: " + request.error().message;
    outputs.push_back(std::move(*request));
  }
  for (const std::string &text : options.expected) {
    Expected<ExpectRequest> request = parseExpect(text, loaded);
    if (!request)
      return "--expect: " + request.error().message;
    expected.push_back(std::move(*request));
  }
  return {};
}

/// An output that the kernel left partly unwritten is worth a line, though it
/// may be meant.
static void noteUnwritten(std::ostream &out, const DeviceMemory &memory,
                          const Kernel &kernel,
                          const std::vector<LoadedArgument> &loaded) {
  for (size_t i = 0; i < loaded.size(); ++i) {
    if (!loaded[i].value.isPoison)
      continue;
    uint64_t missing = memory.uninitializedBytes(loaded[i].address);
    if (missing)
      out << "note: " << missing << " of " << loaded[i].value.data.size()
          << " bytes of argument " << i << " ('" << kernel.paramName(i)
          << "') were never written\n";
  }
}

//===----------------------------------------------------------------------===//
// The tool
//===----------------------------------------------------------------------===//

static void printReport(const ToolOptions &options, const Report &report) {
  if (options.stats == "json") {
    std::cout << reportToJson(report, options.ptxFile);
    return;
  }
  if (!options.quiet || !report.clean())
    std::cout << formatReport(report, options.ptxFile);
  if (options.stats == "text")
    std::cout << formatCounters(report);
}

static int runKernel(const ToolOptions &options, const std::string &text) {
  Expected<Kernel> kernel = Kernel::load(text, options.kernel);
  if (!kernel) {
    std::cerr << kernel.error().str(options.ptxFile) << "\n";
    return exitBadInput;
  }
  LaunchConfig config;
  LaunchOptions launchOptions;
  std::string error = translateOptions(options, config, launchOptions);
  DeviceMemory memory;
  Arguments arguments;
  std::vector<LoadedArgument> loaded;
  std::vector<OutputRequest> outputs;
  std::vector<ExpectRequest> expected;
  if (error.empty())
    error = loadArguments(options, *kernel, memory, loaded, arguments);
  if (error.empty())
    error = parseRequests(options, loaded, outputs, expected);
  if (!error.empty())
    return badInput(error);

  Expected<Report> report =
      launch(*kernel, memory, config, arguments, launchOptions);
  if (!report)
    return badInput(report.error().message);
  printReport(options, *report);
  // A JSON document stands alone on the standard output.
  std::ostream &notes = options.stats == "json" ? std::cerr : std::cout;
  noteUnwritten(notes, memory, *kernel, loaded);
  for (const OutputRequest &request : outputs) {
    error = writeOutput(request, memory, loaded[request.index]);
    if (!error.empty())
      return badInput(error);
  }
  bool differs = false;
  for (const ExpectRequest &request : expected) {
    Comparison result = compare(request, memory, loaded[request.index]);
    notes << result.text << "\n";
    differs |= result.differs;
  }
  return report->clean() && !differs ? exitClean : exitFindings;
}

/// The command line has been parsed.
static int runTool(const ToolOptions &options) {
  std::error_code ignored;
  if (std::filesystem::is_directory(options.ptxFile, ignored))
    return badInput("cannot read '" + options.ptxFile + "': it is a folder");
  std::ifstream in(options.ptxFile, std::ios::binary);
  if (!in)
    return badInput("cannot read '" + options.ptxFile +
                    "': " + std::strerror(errno));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  return options.list ? listKernels(options, text) : runKernel(options, text);
}

int flashcoreEmuMain(int argc, char **argv) {
  CLI::App app{"Runs a PTX kernel on the CPU and checks every access: memory, "
               "initialisation, races, cp.async, barriers."};
  ToolOptions options;
  declareOptions(app, options);
  try {
    app.parse(argc, argv);
    return runTool(options);
  } catch (const CLI::ParseError &parseError) {
    return app.exit(parseError) == 0 ? exitClean : exitBadInput;
  } catch (const std::bad_alloc &) {
    return badInput("there is not enough memory for these buffers");
  } catch (const std::length_error &) {
    return badInput("there is not enough memory for these buffers");
  }
}
