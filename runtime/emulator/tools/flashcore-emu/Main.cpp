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

#include "Npy.h"
#include "TypedArgument.h"
#include "flashcore/Emulator/Emulator.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>

using namespace flashcore::emu;

namespace {
constexpr int exitClean = 0, exitFindings = 1, exitBadInput = 2;

struct ToolOptions {
  std::string ptxFile;
  std::string kernel;
  std::string grid = "1", block = "1";
  uint64_t sharedBytes = 0;
  std::vector<std::string> arguments, outputs, expected;
  std::string checks = "all", async = "lazy", schedule = "seq", mma = "auto";
  std::string stats;
  uint64_t maxInstructions = 4'000'000'000;
  uint64_t maxShared = 227 << 10;
  bool trace = false, list = false, quiet = false;
};

struct LoadedArgument {
  TypedArgument value;
  uint64_t address = 0;
};
} // namespace

static int badInput(const std::string &message) {
  std::cerr << "flashcore-emu: " << message << "\n";
  return exitBadInput;
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

static void declareOptions(CLI::App &app, ToolOptions &options) {
  app.add_option("ptx", options.ptxFile, "PTX file")->required();
  app.add_option("--kernel,-k", options.kernel,
                 "Kernel to run; may be left out if the file has one");
  app.add_option("--grid", options.grid, "CTAs: x[,y[,z]]");
  app.add_option("--block", options.block, "Threads of a CTA: x[,y[,z]]");
  app.add_option("--shared", options.sharedBytes,
                 "Dynamic shared memory of a CTA in bytes");
  app.add_option("--arg,-a", options.arguments,
                 "The kernel's arguments in order, each one of\n"
                 "  i32:512  f32:0.18           a scalar\n"
                 "  f16[8,512,64]:randn:7       a buffer (zeros, ones, iota,\n"
                 "                              randn:SEED, uniform:SEED, "
                 "poison)\n"
                 "  q.npy  bf16:q.npy           a buffer from a file");
  app.add_option(
      "--out", options.outputs,
      "INDEX=FILE.npy: save the buffer of argument INDEX afterwards");
  app.add_option("--expect", options.expected,
                 "INDEX=FILE.npy[:TOL]: compare the buffer of argument INDEX");
  app.add_option("--check", options.checks,
                 "all, none, or a list of memory,init,race,async,sync");
  app.add_option("--async", options.async,
                 "When cp.async moves its bytes: lazy (at the wait), eager (at "
                 "the issue), random:SEED");
  app.add_option("--schedule", options.schedule,
                 "Order of warps: seq, skew, random:SEED");
  app.add_option("--mma", options.mma,
                 "Rounding of mma: auto (by .target), sm80, sm90, plain");
  app.add_option("--stats", options.stats,
                 "Counters: 'text', or 'json' for the whole report as JSON");
  app.add_option("--max-instructions", options.maxInstructions,
                 "Warp instructions after which to stop; 0 means no limit");
  app.add_option("--max-shared", options.maxShared,
                 "Shared memory a CTA may have in bytes");
  app.add_flag("--trace", options.trace,
               "Print each instruction of CTA 0, warp 0");
  app.add_flag("--list", options.list, "List the kernels of the file and stop");
  app.add_flag("--quiet,-q", options.quiet, "Print findings only");
  app.footer(
      "Example:\n"
      "  flashcore-emu attn.ptx --grid 8,8 --block 128 --shared 49152 \\\n"
      "    --arg f16[8,512,64]:randn:1 f16[8,512,64]:randn:2 \\\n"
      "          f16[8,512,64]:randn:3 f16[8,512,64]:poison f32:0.125\n"
      "Exit code: 0 clean, 1 findings, 2 bad input.");
}

static bool parseDim(const std::string &text, Dim3 &dim) {
  uint32_t values[3] = {1, 1, 1};
  const char *p = text.c_str();
  for (unsigned i = 0; i < 3; ++i) {
    char *end = nullptr;
    unsigned long value = std::strtoul(p, &end, 10);
    if (end == p || value > UINT32_MAX)
      return false;
    values[i] = static_cast<uint32_t>(value);
    if (*end == '\0') {
      dim = {values[0], values[1], values[2]};
      return true;
    }
    if (*end != ',')
      return false;
    p = end + 1;
  }
  return false;
}

/// Splits "random:7".
static std::string takeSeed(const std::string &text, uint64_t &seed) {
  size_t colon = text.find(':');
  if (colon != std::string::npos)
    seed = std::strtoull(text.c_str() + colon + 1, nullptr, 10);
  return text.substr(0, colon);
}

static std::string translateOptions(const ToolOptions &in, LaunchOptions &out) {
  std::string unknown;
  if (!parseChecks(in.checks, out.checks, unknown))
    return "--check: unknown check '" + unknown +
           "'; expects all, none, memory, init, race, async or sync";
  std::string async = takeSeed(in.async, out.asyncSeed);
  if (async == "lazy")
    out.async = AsyncMode::Lazy;
  else if (async == "eager")
    out.async = AsyncMode::Eager;
  else if (async == "random")
    out.async = AsyncMode::Random;
  else
    return "--async expects lazy, eager or random:SEED, but got '" + async +
           "'";
  std::string schedule = takeSeed(in.schedule, out.scheduleSeed);
  if (schedule == "seq")
    out.schedule = Schedule::Sequential;
  else if (schedule == "skew")
    out.schedule = Schedule::Skewed;
  else if (schedule == "random")
    out.schedule = Schedule::Random;
  else
    return "--schedule expects seq, skew or random:SEED, but got '" + schedule +
           "'";
  if (in.mma == "auto")
    out.mma = MmaRounding::Auto;
  else if (in.mma == "sm80")
    out.mma = MmaRounding::Sm80;
  else if (in.mma == "sm90")
    out.mma = MmaRounding::Sm90;
  else if (in.mma == "plain")
    out.mma = MmaRounding::Plain;
  else
    return "--mma expects auto, sm80, sm90 or plain, but got '" + in.mma + "'";
  if (!in.stats.empty() && in.stats != "json" && in.stats != "text")
    return "--stats expects text or json, but got '" + in.stats + "'";
  out.counters = !in.stats.empty() || out.checks != CheckNone;
  out.maxInstructions = in.maxInstructions;
  out.maxSharedBytes = in.maxShared;
  out.trace = in.trace;
  return {};
}

//===----------------------------------------------------------------------===//
// Arguments and results
//===----------------------------------------------------------------------===//

static std::string loadArguments(const ToolOptions &options,
                                 const Kernel &kernel, DeviceMemory &memory,
                                 std::vector<LoadedArgument> &loaded,
                                 Arguments &arguments) {
  for (size_t i = 0; i < options.arguments.size(); ++i) {
    Expected<TypedArgument> parsed = parseArgument(options.arguments[i]);
    if (!parsed)
      return parsed.error().message;
    LoadedArgument argument{std::move(*parsed), 0};
    const TypedArgument &value = argument.value;
    if (value.isBuffer) {
      std::string name =
          i < kernel.numParams() ? kernel.paramName(i) : std::to_string(i);
      argument.address = memory.allocate(name, value.data.size());
      if (!value.isPoison)
        memory.write(argument.address, value.data.data(), value.data.size());
      arguments.addPointer(argument.address);
    } else {
      arguments.addBytes(value.data.data(), value.data.size());
    }
    loaded.push_back(std::move(argument));
  }
  return {};
}

/// Splits "3=file.npy" and finds the buffer.
static std::string splitIndexed(const std::string &text,
                                std::vector<LoadedArgument> &loaded,
                                LoadedArgument *&argument, std::string &path) {
  size_t equal = text.find('=');
  char *end = nullptr;
  unsigned long index = std::strtoul(text.c_str(), &end, 10);
  if (equal == std::string::npos || end != text.c_str() + equal)
    return "expects INDEX=FILE.npy, but got '" + text + "'";
  if (index >= loaded.size() || !loaded[index].value.isBuffer)
    return "argument " + std::to_string(index) + " is no buffer";
  argument = &loaded[index];
  path = text.substr(equal + 1);
  return {};
}

static void readBack(const DeviceMemory &memory, LoadedArgument &argument) {
  memory.read(argument.address, argument.value.data.data(),
              argument.value.data.size());
}

/// Largest difference from a reference; NaN counts as infinite.
static std::string compare(const DeviceMemory &memory, LoadedArgument &argument,
                           std::string path, bool &differs) {
  double tolerance = 0;
  size_t colon = path.rfind(".npy:");
  if (colon != std::string::npos) {
    tolerance = std::strtod(path.c_str() + colon + 5, nullptr);
    path.resize(colon + 4);
  }
  Expected<TypedArgument> reference = parseArgument(path);
  if (!reference)
    return reference.error().message;
  readBack(memory, argument);
  unsigned size = elementBytes(argument.value.type);
  unsigned refSize = elementBytes(reference->type);
  size_t count = argument.value.data.size() / size;
  if (count != reference->data.size() / refSize)
    return "'" + path + "' has " +
           std::to_string(reference->data.size() / refSize) +
           " elements, but the buffer has " + std::to_string(count);
  double worst = 0;
  size_t worstIndex = 0;
  for (size_t i = 0; i < count; ++i) {
    double got = elementToDouble(argument.value.type,
                                 argument.value.data.data() + i * size);
    double want =
        elementToDouble(reference->type, reference->data.data() + i * refSize);
    double difference = got == want ? 0 : std::fabs(got - want);
    if (std::isnan(difference))
      difference = HUGE_VAL;
    if (difference > worst) {
      worst = difference;
      worstIndex = i;
    }
  }
  differs = worst > tolerance;
  std::printf("%s: largest difference %g at element %zu, tolerance %g: %s\n",
              path.c_str(), worst, worstIndex, tolerance,
              differs ? "DIFFERS" : "ok");
  return {};
}

/// An output that the kernel left partly unwritten is worth a line, though it
/// may be meant.
static void noteUnwritten(const DeviceMemory &memory, const Kernel &kernel,
                          const std::vector<LoadedArgument> &loaded) {
  for (size_t i = 0; i < loaded.size(); ++i) {
    if (!loaded[i].value.isPoison)
      continue;
    uint64_t missing = memory.uninitializedBytes(loaded[i].address);
    if (missing)
      std::cout << "note: " << missing << " of " << loaded[i].value.data.size()
                << " bytes of argument " << i << " ('" << kernel.paramName(i)
                << "') were never written\n";
  }
}

static std::string finishOutputs(const ToolOptions &options,
                                 const DeviceMemory &memory,
                                 std::vector<LoadedArgument> &loaded,
                                 bool &differs) {
  for (const std::string &text : options.outputs) {
    LoadedArgument *argument = nullptr;
    std::string path;
    std::string error = splitIndexed(text, loaded, argument, path);
    if (!error.empty())
      return "--out: " + error;
    readBack(memory, *argument);
    error = writeNpy(path, {npyName(argument->value.type),
                            argument->value.shape, argument->value.data});
    if (!error.empty())
      return error;
  }
  for (const std::string &text : options.expected) {
    LoadedArgument *argument = nullptr;
    std::string path;
    bool one = false;
    std::string error = splitIndexed(text, loaded, argument, path);
    if (error.empty())
      error = compare(memory, *argument, path, one);
    if (!error.empty())
      return "--expect: " + error;
    differs |= one;
  }
  return {};
}

//===----------------------------------------------------------------------===//
// The tool
//===----------------------------------------------------------------------===//

static int runKernel(const ToolOptions &options, const std::string &text) {
  Expected<Kernel> kernel = Kernel::load(text, options.kernel);
  if (!kernel) {
    std::cerr << kernel.error().str(options.ptxFile) << "\n";
    return exitBadInput;
  }
  LaunchConfig config;
  LaunchOptions launchOptions;
  if (!parseDim(options.grid, config.grid))
    return badInput("--grid expects x[,y[,z]], but got '" + options.grid + "'");
  if (!parseDim(options.block, config.block))
    return badInput("--block expects x[,y[,z]], but got '" + options.block +
                    "'");
  config.dynamicSharedBytes = options.sharedBytes;
  std::string error = translateOptions(options, launchOptions);
  DeviceMemory memory;
  Arguments arguments;
  std::vector<LoadedArgument> loaded;
  if (error.empty())
    error = loadArguments(options, *kernel, memory, loaded, arguments);
  if (!error.empty())
    return badInput(error);

  Expected<Report> report =
      launch(*kernel, memory, config, arguments, launchOptions);
  if (!report)
    return badInput(report.error().message);
  if (options.stats == "json") {
    std::cout << reportToJson(*report, options.ptxFile);
  } else {
    if (!options.quiet || !report->clean())
      std::cout << formatReport(*report, options.ptxFile);
    noteUnwritten(memory, *kernel, loaded);
    if (options.stats == "text")
      std::cout << formatCounters(*report);
  }
  bool differs = false;
  error = finishOutputs(options, memory, loaded, differs);
  if (!error.empty())
    return badInput(error);
  return report->clean() && !differs ? exitClean : exitFindings;
}

int flashcoreEmuMain(int argc, char **argv) {
  CLI::App app{"Runs a PTX kernel on the CPU and checks every access: memory, "
               "initialisation, races, cp.async, barriers."};
  ToolOptions options;
  declareOptions(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &parseError) {
    return app.exit(parseError) == 0 ? exitClean : exitBadInput;
  }
  std::ifstream in(options.ptxFile, std::ios::binary);
  if (!in)
    return badInput("cannot open '" + options.ptxFile + "'");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  if (!options.list)
    return runKernel(options, text);
  Expected<std::vector<std::string>> names = Kernel::list(text);
  if (!names) {
    std::cerr << names.error().str(options.ptxFile) << "\n";
    return exitBadInput;
  }
  for (const std::string &name : *names)
    std::cout << name << "\n";
  return exitClean;
}
