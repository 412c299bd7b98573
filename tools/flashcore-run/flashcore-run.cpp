//===- flashcore-run.cpp - Run and check compiled attention ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The command line tool over the runtime. Results go to the standard output,
// errors to the error stream. Exit codes: 0 all passed, 1 a check failed, 2 bad
// input or no device.
//
//===----------------------------------------------------------------------===//

#include "Compile.h"
#include "Grid.h"
#include "Options.h"
#include "Report.h"

#include <cstdio>
#include <random>

using namespace flashcore;
using namespace flashcore::run;

namespace {
enum ExitCode { Passed = 0, CheckFailed = 1, BadInput = 2 };
} // namespace

static ExitCode fail(const Status &status) {
  std::fprintf(stderr, "flashcore-run: error: %s\n", status.str().c_str());
  return BadInput;
}

static void print(const std::string &text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

static uint64_t freshSeed() { return std::random_device()(); }

static ExitCode printInfo(const std::filesystem::path &path) {
  StatusOr<Bundle> bundle = Bundle::load(path);
  if (!bundle.ok())
    return fail(bundle.status());
  print(formatInfo(*bundle));
  return Passed;
}

/// The runs that the command line asks for. `temporary` keeps a bundle that was
/// compiled for them.
static StatusOr<std::vector<RunRequest>>
collectRequests(const Options &options,
                std::optional<TemporaryDirectory> &temporary) {
  if (!options.grid.empty())
    return loadGrid(options.grid, freshSeed);
  RunRequest request = options.request;
  request.bundle = options.input;
  if (options.input.extension() == ".mlir") {
    StatusOr<TemporaryDirectory> directory = TemporaryDirectory::create();
    if (!directory.ok())
      return directory.status();
    temporary.emplace(std::move(*directory));
    request.bundle =
        temporary->path() / options.input.stem().replace_extension(".fcb");
    if (Status status = compile(findCompiler(options.compiler), options.input,
                                request.bundle, options.compilerArguments);
        !status.ok())
      return status;
  } else if (!options.compilerArguments.empty()) {
    return Status::error("expects arguments after '--' only with an .mlir "
                         "file, but got the bundle " +
                         options.input.string());
  }
  uint64_t seed = options.seed ? *options.seed : freshSeed();
  std::vector<RunRequest> requests;
  for (int i = 0; i < options.runs; ++i) {
    request.seed = seed + static_cast<uint64_t>(i);
    requests.push_back(request);
    request.time = false; // once is enough: all runs have the same sizes
  }
  return requests;
}

static ExitCode runAll(Session &session, const Options &options,
                       const std::vector<RunRequest> &requests) {
  std::vector<RunResult> results;
  bool allPassed = true, anyError = false;
  for (const RunRequest &request : requests) {
    results.push_back(session.run(request));
    const RunResult &result = results.back();
    print(formatLine(result) + "\n");
    allPassed &= result.pass();
    anyError |= !result.status.ok();
    // Written after each run: a later one may take the process with it.
    if (!options.json.empty())
      if (Status status = writeJson(options.json, results); !status.ok())
        return fail(status);
  }
  if (!options.grid.empty()) {
    print("\n" + formatTable(results));
    return allPassed ? Passed : CheckFailed;
  }
  return anyError ? BadInput : allPassed ? Passed : CheckFailed;
}

int main(int argc, char **argv) {
  StatusOr<Options> options =
      parseOptions(std::vector<std::string>(argv + 1, argv + argc));
  if (!options.ok())
    return fail(options.status());
  if (!options->message.empty()) {
    print(options->message);
    return Passed;
  }
  if (!options->info.empty())
    return printInfo(options->info);

  Session session([&] { return openDevice(options->device); });
  if (Status status = session.open(); !status.ok()) {
    if (!status.isNoDevice() || !options->allowNoDevice)
      return fail(status);
    print(status.str() + "\n");
    return Passed;
  }
  std::optional<TemporaryDirectory> temporary;
  StatusOr<std::vector<RunRequest>> requests =
      collectRequests(*options, temporary);
  if (!requests.ok())
    return fail(requests.status());
  return runAll(session, *options, *requests);
}
