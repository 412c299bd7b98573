//===- Options.cpp - The command line of flashcore-run --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CLI11 reports errors as exceptions; they end here.
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include "flashcore/Runtime/Operands.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <functional>

using namespace flashcore;
using namespace flashcore::run;

static constexpr const char *description =
    "Runs a compiled attention on a device and checks it against a double\n"
    "precision reference. INPUT is a bundle directory, or an .mlir file that\n"
    "is compiled first with the arguments after '--'; --shape describes an\n"
    "attention without a file.\n"
    "Exit code: 0 all passed, 1 a check failed, 2 bad input or no device.";

/// What `textOf` makes of each kind, as a sentence lists them.
template <typename Text>
static std::string listKinds(std::string_view separator,
                             std::string_view lastSeparator, Text &&textOf) {
  std::string list;
  for (const InputKindInfo &info : InputKinds) {
    if (&info == &InputKinds.back())
      list += lastSeparator;
    else if (!list.empty())
      list += separator;
    list += textOf(info);
  }
  return list;
}

StatusOr<InputKind> flashcore::run::parseInputKind(std::string_view name) {
  for (const InputKindInfo &info : InputKinds)
    if (info.name == name)
      return info.kind;
  std::string names = listKinds(", ", " or ", [](const InputKindInfo &info) {
    return "'" + std::string(info.name) + "'";
  });
  return Status::error("expects the input kind to be " + names + ", but got '" +
                       std::string(name) + "'");
}

StatusOr<Layout> flashcore::run::parseLayout(std::string_view name) {
  for (Layout layout : {Layout::BHSD, Layout::BSHD})
    if (stringify(layout) == name)
      return layout;
  return Status::error("expects the layout to be 'bhsd' or 'bshd', but got '" +
                       std::string(name) + "'");
}

Status flashcore::run::parseStage(std::string_view name, RunRequest &request) {
  request.isTile = name == "tile";
  request.stage = Stage::All;
  if (request.isTile)
    return Status::success();
  for (Stage stage : {Stage::All, Stage::QK, Stage::Softmax, Stage::PV})
    if (stringify(stage) == name) {
      request.stage = stage;
      return Status::success();
    }
  return Status::error("expects the stage to be 'all', 'qk', 'softmax', 'pv' "
                       "or 'tile', but got '" +
                       std::string(name) + "'");
}

/// Tensors of attentions and merges that may be read, each with an empty file.
static std::vector<std::pair<std::string, std::string>> listInputs() {
  std::vector<std::pair<std::string, std::string>> inputs = {{"outputs", ""},
                                                             {"lses", ""}};
  for (const OperandInfo &operand : getOperands())
    if (operand.role != OperandInfo::Role::Output)
      inputs.emplace_back(operand.name, "");
  for (int i = 0; i < 4; ++i)
    inputs.emplace_back("capture" + std::to_string(i), "");
  return inputs;
}

/// Those that may be written.
static std::vector<std::pair<std::string, std::string>> listOutputs() {
  std::vector<std::pair<std::string, std::string>> outputs;
  for (const OperandInfo &operand : getOperands())
    if (operand.role != OperandInfo::Role::Input)
      outputs.emplace_back(operand.name, "");
  return outputs;
}

namespace {
/// Options that CLI11 fills as text or numbers, before they are checked.
struct RawOptions {
  std::map<std::string, std::optional<int64_t>> dims = {
      {"batch", {}},    {"heads_q", {}},
      {"heads_kv", {}}, {"seqlen_q", {}},
      {"seqlen_k", {}}, {"cu_seqlens", {}},
      {"pages", {}},    {"pages_per_sequence", {}},
      {"parts", {}},    {"seqlen_new", {}},
      {"positions", {}}};
  /// Files by tensors, in the order of the help.
  std::vector<std::pair<std::string, std::string>> inputs = listInputs(),
                                                   outputs = listOutputs();
  /// NAME=VALUE, of whatever a bundle has.
  std::vector<std::string> anyDims, anyInputs, anyOutputs;
  std::string input, kind = "normal", stage = "all";
  std::string layout, npyLayout = "bhsd";
  std::string json, grid, compiler;
  EmulatorOptions emulator = {{"check", ""},      {"mma", ""},
                              {"schedule", ""},   {"async", ""},
                              {"threads", ""},    {"multiprocessors", ""},
                              {"shared-base", ""}};
  std::optional<int64_t> seed;
  bool noCheck = false;
};
} // namespace

/// CLI11 takes the largest number in place of one that is larger.
static std::string refuseOverflow(const std::string &text) {
  errno = 0;
  std::strtoll(text.c_str(), nullptr, 0);
  return errno == ERANGE ? "expects a number of less than 2^63, but got " + text
                         : std::string();
}

static void addProblemOptions(CLI::App &app, RawOptions &raw,
                              Options &options) {
  for (auto &[name, value] : raw.dims) {
    std::string flag = "--" + name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    app.add_option(flag, value,
                   name + ", where neither the bundle nor a file fixes it" +
                       (name == PagesDim ? " (default: one for each entry of "
                                           "page_table)"
                        : name == PositionsDim
                            ? " (default: as many as keys or queries)"
                            : ""))
        ->check(CLI::NonNegativeNumber)
        ->check(refuseOverflow);
  }
  app.add_option("--dim", raw.anyDims,
                 "NAME=N: any other size that the bundle leaves open, as those "
                 "of a program of several ops")
      ->allow_extra_args(false);
  app.add_option("--layout", raw.layout,
                 "Order in memory where strides are open: bhsd or bshd "
                 "(default: bhsd, unless the bundle fixes the other one)");
  app.add_option("--offset", options.request.problem.offset,
                 "Elements before the first one, where offsets are open")
      ->check(refuseOverflow);
  app.add_option("--seed", raw.seed,
                 "Of the random inputs; run i uses seed + i (default: random)")
      ->check(CLI::NonNegativeNumber)
      ->check(refuseOverflow);
  app.add_option("--input-kind", raw.kind,
                 listKinds("; ", "; or ", [](const InputKindInfo &info) {
                   return std::string(info.name) + ": " +
                          std::string(info.description);
                 }));
  for (auto &[name, file] : raw.inputs)
    app.add_option("--" + name, file,
                   "Read " + name + " from this .npy file" +
                       (name == "capture0"
                            ? "; it is the first tensor that the regions read"
                            : ""));
  app.add_option("--in", raw.anyInputs,
                 "NAME=FILE: read any other tensor from this .npy file")
      ->allow_extra_args(false);
  app.add_flag("--convert", options.request.npy.convert,
               "Round .npy files of another floating point type to that of the "
               "bundle");
  app.add_option("--npy-layout", raw.npyLayout,
                 "Axes of .npy files of q, k, v and o: bhsd (the default) or "
                 "bshd, which is (batch, seqlen, heads, head_dim)");
  for (auto &[name, file] : raw.outputs)
    app.add_option("--out-" + name, file,
                   "Write " + name + " to this .npy file");
  app.add_option("--out", raw.anyOutputs,
                 "NAME=FILE: write any other tensor to this .npy file")
      ->allow_extra_args(false);
}

static void addModeOptions(CLI::App &app, RawOptions &raw, Options &options) {
  app.add_option("input", raw.input, "Bundle directory or .mlir file");
  app.add_option("--shape", options.shape,
                 "Compile and run the attention that these words describe, "
                 "such as 'b1 h32/8 s4096 d128 bf16 causal window=1024'; "
                 "flashcore-compile --help lists them");
  app.add_option("--device", options.device,
                 "cuda, emulator, or auto: cuda if there is a GPU, "
                 "else the emulator")
      ->check(CLI::IsMember({"auto", "cuda", "emulator"}));
  app.add_option("--stage", raw.stage,
                 "Inputs that isolate a step: all (nothing isolated), qk, "
                 "softmax, pv, or tile (both sequences of 16 rows)");
  app.add_flag("--no-check", raw.noCheck, "Do not compare with the reference");
  app.add_flag("--time", options.request.time,
               "Also time the kernels: median of 15 CUDA graph replays");
  app.add_option("--runs", options.runs, "Runs with fresh random inputs")
      ->check(CLI::PositiveNumber);
  app.add_option("--json", raw.json, "Write all results to this file");
  app.add_flag("--info", options.info,
               "Print a summary of the bundle and stop; needs no device");
  app.add_flag("--overhead", options.overhead,
               "Print the host time of a launch, by the driver's call alone "
               "and by the runtime, and stop; needs a GPU");
  app.add_option("--grid", raw.grid,
                 "Run the list of entries in this JSON file in one process; "
                 "other options are the defaults of the entries");
  app.add_option("--compiler", raw.compiler,
                 "The flashcore-compile for .mlir files and --shape (default: "
                 "beside this tool, else in PATH)");
}

static void addEmulatorOptions(CLI::App &app, RawOptions &raw) {
  static const std::map<std::string, std::string> help = {
      {"check", "all (the default), none, or a list of checks"},
      {"mma",
       "rounding of mma: auto (by chip, the default), sm80, sm90, plain"},
      {"schedule", "order of warps: seq (the default), skew, random:SEED"},
      {"async", "when cp.async moves its bytes: lazy (the default), eager, "
                "random:SEED"},
      {"threads", "threads to run blocks on (default 1); 0 takes all cores"},
      {"multiprocessors",
       "multiprocessors to launch persistent kernels for (default 132)"},
      {"shared-base",
       "where dynamic shared memory begins: driver (at a multiple of 1024, the "
       "default), declared (at a multiple of what the kernel declares)"}};
  for (auto &[name, value] : raw.emulator)
    app.add_option("--emu-" + name, value, "On the emulator: " + help.at(name));
}

/// Checks what options rule out each other.
static Status verifySources(const RawOptions &raw, const Options &options) {
  const RunRequest &request = options.request;
  if (options.device == "cuda" && !options.emulator.empty())
    return Status::error("expects --emu-" + options.emulator.begin()->first +
                         " only with the emulator, but got --device=cuda");
  int sources =
      !raw.input.empty() + !raw.grid.empty() + options.shape.has_value();
  if (sources != 1)
    return Status::error("expects one of INPUT, --shape and --grid, but got " +
                         std::string(sources ? "several" : "none"))
        .note("see flashcore-run --help");
  if (!raw.grid.empty() &&
      (options.info || options.overhead || options.runs != 1 ||
       !request.problem.dims.empty() || !request.inputFiles.empty() ||
       !request.outputFiles.empty()))
    return Status::error(
               "expects --grid without --info, --overhead, --runs, sizes and "
               "files of tensors, but got one of them")
        .note("write the sizes into the entries of the grid");
  return Status::success();
}

/// What is compiled, and where to, is not the user's to choose.
static Status verifyCompilerArguments(const std::vector<std::string> &words) {
  for (const std::string &word : words) {
    // One dash or two are the same to the compiler.
    size_t start = word.find_first_not_of('-');
    if (start == 0 || start == std::string::npos)
      continue;
    std::string name = word.substr(start, word.find('=') - start);
    if (name == "emit" || name == "o")
      return Status::error("expects no --emit and no -o after '--', but got '" +
                           word + "'")
          .note("flashcore-run compiles to a bundle of its own; to keep one, "
                "call flashcore-compile and run what it writes");
  }
  return Status::success();
}

/// Calls `take(name, value)` for each NAME=VALUE of an option.
static Status forEachPair(
    std::string_view option, const std::vector<std::string> &pairs,
    const std::function<bool(const std::string &, const std::string &)> &take,
    std::string_view value) {
  for (const std::string &pair : pairs) {
    size_t equal = pair.find('=');
    if (equal == pair.npos || equal == 0 ||
        !take(pair.substr(0, equal), pair.substr(equal + 1)))
      return Status::error("expects --" + std::string(option) +
                           " of NAME=" + std::string(value) +
                           ", each name once, but got '" + pair + "'");
  }
  return Status::success();
}

/// Sizes and files under any names.
static Status takePairs(const RawOptions &raw, RunRequest &request) {
  auto takeSize = [&](const std::string &name, const std::string &text) {
    int64_t size = 0;
    auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), size);
    return error == std::errc() && end == text.data() + text.size() &&
           size >= 0 && request.problem.dims.try_emplace(name, size).second;
  };
  auto takeFile = [](auto &files) {
    return [&files](const std::string &name, const std::string &file) {
      return !file.empty() && files.try_emplace(name, file).second;
    };
  };
  if (Status status = forEachPair("dim", raw.anyDims, takeSize, "N");
      !status.ok())
    return status;
  if (Status status = forEachPair("in", raw.anyInputs,
                                  takeFile(request.inputFiles), "FILE");
      !status.ok())
    return status;
  return forEachPair("out", raw.anyOutputs, takeFile(request.outputFiles),
                     "FILE");
}

/// Moves `raw` into `options` and checks what CLI11 cannot.
static Status finish(const RawOptions &raw, Options &options) {
  RunRequest &request = options.request;
  for (const auto &[name, value] : raw.dims)
    if (value)
      request.problem.dims[name] = *value;
  for (const auto &[name, file] : raw.inputs)
    if (!file.empty())
      request.inputFiles[name] = file;
  for (const auto &[name, file] : raw.outputs)
    if (!file.empty())
      request.outputFiles[name] = file;
  if (Status status = takePairs(raw, request); !status.ok())
    return status;
  for (const auto &[name, value] : raw.emulator)
    if (!value.empty())
      options.emulator[name] = value;
  if (raw.seed)
    options.seed = static_cast<uint64_t>(*raw.seed);
  options.input = raw.input;
  options.json = raw.json;
  options.grid = raw.grid;
  options.compiler = raw.compiler;
  request.check = !raw.noCheck;

  if (Status status = verifySources(raw, options); !status.ok())
    return status;
  if (Status status = verifyCompilerArguments(options.compilerArguments);
      !status.ok())
    return status;
  if (!raw.layout.empty()) {
    StatusOr<Layout> layout = parseLayout(raw.layout);
    if (!layout.ok())
      return layout.status();
    request.layout = *layout;
  }
  StatusOr<Layout> npyLayout = parseLayout(raw.npyLayout);
  if (!npyLayout.ok())
    return npyLayout.status();
  request.npy.layout = *npyLayout;
  StatusOr<InputKind> kind = parseInputKind(raw.kind);
  if (!kind.ok())
    return kind.status();
  request.kind = *kind;
  if (Status status = parseStage(raw.stage, request); !status.ok())
    return status;
  bool ownsInputs = request.stage != Stage::All || request.isTile;
  if (ownsInputs && !request.inputFiles.empty())
    return Status::error("expects no input file with --stage=" + raw.stage +
                         ", but got one for '" +
                         request.inputFiles.begin()->first + "'")
        .note("a stage chooses its own inputs");
  return Status::success();
}

StatusOr<Options>
flashcore::run::parseOptions(const std::vector<std::string> &arguments) {
  Options options;
  RawOptions raw;
  auto separator = std::find(arguments.begin(), arguments.end(), "--");
  if (separator != arguments.end())
    options.compilerArguments.assign(separator + 1, arguments.end());
  // CLI11 takes the arguments from the back of the vector.
  std::vector<std::string> reversed(arguments.begin(), separator);
  std::reverse(reversed.begin(), reversed.end());

  CLI::App app(description, "flashcore-run");
  try {
    addModeOptions(app, raw, options);
    addProblemOptions(app, raw, options);
    addEmulatorOptions(app, raw);
    app.set_version_flag("--version", "flashcore " FLASHCORE_VERSION,
                         "Print the version and stop");
    app.parse(reversed);
  } catch (const CLI::CallForHelp &) {
    options.message = app.help();
    return options;
  } catch (const CLI::CallForVersion &version) {
    options.message = std::string(version.what()) + "\n";
    return options;
  } catch (const CLI::ParseError &error) {
    return Status::error(error.what()).note("see flashcore-run --help");
  }
  if (Status status = finish(raw, options); !status.ok())
    return status;
  return options;
}
