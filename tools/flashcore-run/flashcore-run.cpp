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

#include "Cleanup.h"
#include "Compile.h"
#include "Grid.h"
#include "Options.h"
#include "Report.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <random>
#include <set>

using namespace flashcore;
using namespace flashcore::run;

namespace {
enum ExitCode { Passed = 0, CheckFailed = 1, BadInput = 2 };
} // namespace

static void printError(const char *kind, const std::string &text) {
  std::fprintf(stderr, "flashcore-run: %s: %s\n", kind, text.c_str());
}

static ExitCode fail(const Status &status) {
  printError("error", status.str());
  return BadInput;
}

/// The first error of writing to the standard output, 0 if there was none.
static int outputError = 0;

/// A path may hold anything.
static void print(const std::string &raw) {
  std::string text = escapeControls(raw, "\n");
  bool isWritten =
      std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  if (!isWritten && !outputError)
    outputError = errno ? errno : EIO;
}

static uint64_t freshSeed() { return std::random_device()(); }

static ExitCode printInfo(const std::filesystem::path &path,
                          const std::optional<Source> &source) {
  StatusOr<std::vector<Bundle>> variants = Bundle::loadVariants(path);
  if (!variants.ok())
    return fail(variants.status());
  print(formatInfo(*variants, source));
  return Passed;
}

/// What is to be compiled, or nothing for a bundle.
static std::optional<Source> findSource(const Options &options) {
  if (options.shape)
    return Source{Source::Kind::Shape, *options.shape};
  if (options.input.extension() == ".mlir")
    return Source{Source::Kind::File, options.input.string()};
  return std::nullopt;
}

/// What the compiler is told. The emulator takes PTX, so that there need be no
/// ptxas; `session` is opened only where that cannot hide bad input.
static std::vector<std::string> getCompilerArguments(const Options &options,
                                                     Session &session) {
  std::vector<std::string> arguments = options.compilerArguments;
  bool mayEmulate = options.device != "cuda" && !options.info;
  if (mayEmulate && session.open().ok() &&
      session.deviceInfo().kind == "emulator")
    arguments.emplace_back("--no-cubin");
  return arguments;
}

/// The bundle that the command line names. A source is compiled into
/// `temporary`, which keeps the result.
static StatusOr<std::filesystem::path>
findBundle(const Options &options, const std::optional<Source> &source,
           std::optional<TemporaryDirectory> &temporary, Session &session) {
  if (!source) {
    if (options.compilerArguments.empty())
      return options.input;
    return Status::error("expects arguments after '--' only with an .mlir "
                         "file or --shape, but got the bundle " +
                         options.input.string());
  }
  StatusOr<TemporaryDirectory> directory = TemporaryDirectory::create();
  if (!directory.ok())
    return directory.status();
  temporary.emplace(std::move(*directory));
  std::filesystem::path bundle = temporary->path() / "kernel.fcb";
  if (Status status = compile(findCompiler(options.compiler), *source, bundle,
                              getCompilerArguments(options, session));
      !status.ok())
    return status;
  return bundle;
}

/// One request a run, each with fresh inputs.
static std::vector<RunRequest>
repeatRequest(const Options &options, const std::filesystem::path &bundle,
              const std::optional<Source> &source) {
  RunRequest request = options.request;
  request.bundle = bundle;
  request.source = source;
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
  std::set<std::string> said;
  bool anyFailed = false, anyError = false;
  for (const RunRequest &request : requests) {
    results.push_back(session.run(request));
    const RunResult &result = results.back();
    // The same files are read for each of several runs.
    for (const std::string &note : result.notes)
      if (said.insert(note).second)
        printError("note", note);
    print(formatLine(result) + "\n");
    if (!result.status.ok())
      printError("error", result.status.str());
    anyFailed |= result.failed();
    anyError |= !result.pass() && !result.failed();
    // Written after each run: a later one may take the process with it.
    if (!options.json.empty())
      if (Status status = writeJson(options.json, results); !status.ok())
        return fail(status);
  }
  if (!options.grid.empty())
    print("\n" + formatTable(results));
  return anyFailed ? CheckFailed : anyError ? BadInput : Passed;
}

/// An error of the only run there is: for programs, a result like others.
static ExitCode failRun(const Options &options, const Status &error) {
  if (!options.json.empty() && !options.info && options.grid.empty()) {
    RunResult result;
    result.request = options.request;
    result.request.bundle = options.input;
    result.request.source = findSource(options);
    result.status = error;
    if (Status status = writeJson(options.json, {result}); !status.ok())
      return fail(status);
  }
  return fail(error);
}

static ExitCode printOverhead(Session &session, const RunRequest &request) {
  StatusOr<LaunchOverhead> overhead = session.measureOverhead(request);
  if (!overhead.ok())
    return fail(overhead.status());
  char text[128];
  std::snprintf(text, sizeof(text),
                "launch overhead: driver %.2f us, runtime %.2f us, "
                "difference %.2f us\n",
                overhead->driver, overhead->runtime, overhead->added());
  print(text);
  return Passed;
}

/// All but the parsing of the command line.
static ExitCode runTool(const Options &options) {
  Session session([&] { return openDevice(options.device, options.emulator); });
  std::optional<TemporaryDirectory> temporary;
  std::vector<RunRequest> requests;
  // Bad input is reported even where there is no device. A grid reports it with
  // the line of the entry instead.
  if (!options.grid.empty()) {
    StatusOr<std::vector<RunRequest>> grid =
        loadGrid(options.grid, options.request,
                 [&] { return options.seed ? *options.seed : freshSeed(); });
    if (!grid.ok())
      return fail(grid.status());
    requests = std::move(*grid);
  } else {
    std::optional<Source> source = findSource(options);
    StatusOr<std::filesystem::path> bundle =
        findBundle(options, source, temporary, session);
    if (!bundle.ok())
      return failRun(options, bundle.status());
    if (options.info)
      return printInfo(*bundle, source);
    requests = repeatRequest(options, *bundle, source);
    if (Status status = session.validate(requests.front()); !status.ok())
      return failRun(options, status);
  }
  if (Status status = session.open(); !status.ok())
    return failRun(options, status);
  if (options.overhead)
    return printOverhead(session, requests.front());
  if (options.device == "auto" && session.deviceInfo().kind == "emulator") {
    print("no GPU here: running on the emulator, which checks every access "
          "but does not time\n");
    for (RunRequest &request : requests)
      request.time = false;
  }
  return runAll(session, options, requests);
}

static ExitCode parseAndRun(int argc, char **argv) {
  StatusOr<Options> options =
      parseOptions(std::vector<std::string>(argv + 1, argv + argc));
  if (!options.ok())
    return fail(options.status());
  if (!options->message.empty()) {
    print(options->message);
    return Passed;
  }
  return runTool(*options);
}

int flashcoreRunMain(int argc, char **argv) {
  // A reader that is gone, or a file over the limit of ulimit -f, is an error
  // like a full disk, and no signal that leaves temporary files behind.
  for (int signal : {SIGPIPE, SIGXFSZ})
    std::signal(signal, SIG_IGN);
  ExitCode code = BadInput;
  try {
    code = parseAndRun(argc, argv);
  } catch (const std::bad_alloc &) { // where nothing larger was asked for
    return fail(Status::error("cannot go on: the host has no memory left"));
  }
  if (outputError)
    return fail(Status::error("cannot write to the standard output: " +
                              std::string(std::strerror(outputError))));
  return code;
}
