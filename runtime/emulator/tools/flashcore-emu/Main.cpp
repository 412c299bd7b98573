//===- Main.cpp - The flashcore-emu tool ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs kernels of a PTX file and reports. Exit code: 0 clean, 1 findings or a
// result that differs from --expect, 2 bad input or output.
//
//===----------------------------------------------------------------------===//

#include "../../lib/report/Description.h"
#include "Output.h"
#include "Session.h"

#include <CLI/CLI.hpp>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <sstream>
#include <stdexcept>

using namespace flashcore::emu;

static constexpr int exitClean = 0, exitFindings = 1, exitBadInput = 2;

static int badInput(const std::string &message) {
  printError("flashcore-emu: error: " + message + "\n");
  return exitBadInput;
}

/// An error of the file has a position in it.
static int badInput(const ToolOptions &options, const Error &error) {
  if (!error.loc.line)
    return badInput(error.message);
  printError(error.str(options.ptxFile) + "\n");
  return exitBadInput;
}

//===----------------------------------------------------------------------===//
// --list
//===----------------------------------------------------------------------===//

static int listKernels(const ToolOptions &options, const std::string &text) {
  Expected<Module> module = Module::parse(text);
  if (!module)
    return badInput(options, module.error());
  if (options.stats == "json") {
    printOut(module->describe());
    return exitClean;
  }
  for (const std::string &name : module->kernels()) {
    Expected<Kernel> kernel = module->load(name);
    printOut(kernel ? describeKernel(*kernel)
                    : name + "\n  cannot run: " +
                          kernel.error().str(options.ptxFile) + "\n");
  }
  Expected<std::string> launch = describeLaunch(text);
  if (!launch)
    return badInput(options, launch.error());
  printOut(*launch);
  return exitClean;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

namespace {
/// What --out and --expect ask for.
struct Requests {
  std::vector<OutputRequest> outputs;
  std::vector<ExpectRequest> expected;
};
} // namespace

static Error parseRequests(const ToolOptions &options, const Results &results,
                           Requests &requests) {
  for (const std::string &text : options.outputs) {
    Expected<OutputRequest> request = parseOutput(text, results);
    if (!request)
      return {{}, "--out: " + request.error().message};
    requests.outputs.push_back(std::move(*request));
  }
  for (const std::string &text : options.expected) {
    Expected<ExpectRequest> request = parseExpect(text, results);
    if (!request)
      return {{}, "--expect: " + request.error().message};
    requests.expected.push_back(std::move(*request));
  }
  return {};
}

/// A JSON document stands alone on the standard output.
static void note(const ToolOptions &options, const std::string &text) {
  options.stats == "json" ? printError(text) : printOut(text);
}

/// An output that the kernel left partly unwritten is worth a line, though it
/// may be meant; true if --expect-written says that it is not.
static bool reportUnwritten(const ToolOptions &options,
                            const Session &session) {
  bool isRefused = false;
  for (const LoadedArgument &argument : session.results.list) {
    if (!argument.value.isPoison)
      continue;
    uint64_t missing = session.memory.uninitializedBytes(argument.address);
    if (!missing)
      continue;
    std::string what =
        session.results.areTensors
            ? "'" + argument.name + "'"
            : "argument " + argument.path + " ('" + argument.name + "')";
    bool isOutput = !session.results.areTensors ||
                    argument.name != flashcore::WorkspaceName;
    if (options.expectWritten && isOutput) {
      std::string text = describeUnwritten(session.memory, argument);
      isRefused |= !text.empty();
      if (!text.empty())
        note(options, "--expect-written: expects all of " + what +
                          " to be written, but got nothing for " + text + "\n");
      continue;
    }
    note(options, "note: " + std::to_string(missing) + " of " +
                      std::to_string(argument.value.data.size()) +
                      " bytes of " + what + " were never written\n");
  }
  return isRefused;
}

/// Writes and compares what was asked for.
static int finishResults(const ToolOptions &options, const Session &session,
                         const Requests &requests) {
  const std::vector<LoadedArgument> &list = session.results.list;
  for (const OutputRequest &request : requests.outputs) {
    std::string error =
        writeOutput(request, session.memory, list[request.index]);
    if (!error.empty())
      return badInput(error);
  }
  bool differs = false;
  for (const ExpectRequest &request : requests.expected) {
    Comparison result = compare(request, session.memory, list[request.index]);
    note(options, result.text + "\n");
    differs |= result.differs;
  }
  return differs ? exitFindings : exitClean;
}

//===----------------------------------------------------------------------===//
// The run
//===----------------------------------------------------------------------===//

static void printReport(const ToolOptions &options, const Report &report) {
  if (options.stats == "json")
    return;
  if (!options.quiet || !report.clean())
    printOut(formatReport(report, options.ptxFile));
  if (options.stats == "text")
    printOut(formatCounters(report));
}

/// One report is a document, several are an array of them.
static void printDocuments(const std::vector<std::string> &reports,
                           size_t numLaunches) {
  std::string text;
  for (const std::string &report : reports)
    text += (text.empty() ? "" : ",") + report;
  printOut(numLaunches == 1 ? text : "[" + text + "]\n");
}

/// Runs the kernels up to the first one with findings, as what comes after it
/// would only repeat them.
static Expected<bool> runLaunches(const ToolOptions &options, Session &session,
                                  const LaunchOptions &launchOptions) {
  std::vector<std::string> documents;
  bool isClean = true;
  for (const PlannedLaunch &planned : session.launches) {
    if (planned.config.grid.count() == 0 && session.results.areTensors) {
      note(options, "note: '" + planned.kernel.name() +
                        "' has a grid of no blocks and was not launched\n");
      continue;
    }
    Expected<Report> report =
        launch(planned.kernel, session.memory, planned.config,
               planned.arguments, launchOptions);
    if (!report)
      return report.error();
    printReport(options, *report);
    if (options.stats == "json")
      documents.push_back(reportToJson(*report, options.ptxFile));
    isClean = report->clean();
    if (isClean)
      continue;
    if (&planned != &session.launches.back())
      note(options, "note: the kernels after '" + planned.kernel.name() +
                        "' were not launched\n");
    break;
  }
  if (options.stats == "json")
    printDocuments(documents, session.launches.size());
  return isClean;
}

static int runKernels(const ToolOptions &options, const std::string &text) {
  Expected<LaunchOptions> launchOptions =
      flashcore::emu::launchOptions(options);
  if (!launchOptions)
    return badInput(options, launchOptions.error());
  Expected<Session> session = planSession(options, text);
  if (!session)
    return badInput(options, session.error());
  Requests requests;
  Error error = parseRequests(options, session->results, requests);
  if (!error.message.empty())
    return badInput(options, error);

  if (session->seed && !options.quiet)
    note(options, "inputs: random normal, --seed " +
                      std::to_string(*session->seed) + "\n");
  Expected<bool> isClean = runLaunches(options, *session, *launchOptions);
  if (!isClean)
    return badInput(options, isClean.error());
  bool isComplete = !reportUnwritten(options, *session);
  int code = finishResults(options, *session, requests);
  return code || (*isClean && isComplete) ? code : exitFindings;
}

/// The whole file; an error says why not.
static Expected<std::string> readText(const std::string &path) {
  // Text of a compiler is far smaller; a device may have no end.
  constexpr size_t maxBytes = size_t(256) << 20;
  auto fail = [&](const std::string &why) {
    return Error{{}, "cannot read '" + path + "': " + why};
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return fail("it is a folder");
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return fail(std::strerror(errno));
  std::string text;
  std::vector<char> part(1 << 20);
  while (in) {
    in.read(part.data(), static_cast<std::streamsize>(part.size()));
    text.append(part.data(), static_cast<size_t>(in.gcount()));
    if (text.size() > maxBytes)
      return fail("expects PTX of at most 256 MiB, but there is more");
  }
  return text;
}

/// The command line has been parsed.
static int runTool(const ToolOptions &options) {
  Expected<std::string> text = readText(options.ptxFile);
  if (!text)
    return badInput(text.error().message);
  return options.list ? listKernels(options, *text)
                      : runKernels(options, *text);
}

/// Prints help, version, or what is wrong with the command line.
static int finishParsing(const CLI::App &app, const CLI::ParseError &error) {
  std::ostringstream out, err;
  if (app.exit(error, out, err) != 0)
    return badInput(std::string(error.what()) + "; see flashcore-emu --help");
  printOut(out.str());
  return exitClean;
}

static int parseAndRun(int argc, char **argv) {
  CLI::App app{"Runs a PTX kernel on the CPU and checks every access: memory, "
               "initialisation, races, cp.async, barriers."};
  ToolOptions options;
  declareOptions(app, options);
  try {
    app.parse(argc, argv);
    // CLI11 would say this before it names an option that it does not know.
    if (options.ptxFile.empty())
      return badInput("expects a PTX file, but got none; see flashcore-emu "
                      "--help");
    return runTool(options);
  } catch (const CLI::ParseError &error) {
    return finishParsing(app, error);
  } catch (const std::bad_alloc &) {
    return badInput("there is not enough memory for these buffers");
  } catch (const std::length_error &) {
    return badInput("there is not enough memory for these buffers");
  }
}

int flashcoreEmuMain(int argc, char **argv) {
  reserveStandardStreams();
  // A file over the limit of ulimit -f is an error like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  int code = parseAndRun(argc, argv);
  std::string error = finishOutput();
  return error.empty() ? code : badInput(error);
}
