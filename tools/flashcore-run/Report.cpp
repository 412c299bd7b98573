//===- Report.cpp - Results as text and JSON ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The line and the table are two layouts of the same cells.
//
//===----------------------------------------------------------------------===//

#include "Report.h"

#include "flashcore/Runtime/FileUtils.h"
#include "flashcore/Runtime/Operands.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>

using namespace flashcore;
using namespace flashcore::run;
using nlohmann::ordered_json;

static std::string format(const char *pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), pattern, value);
  return text;
}

static std::string formatErrors(const ErrorReport &report) {
  return format("%.2e", report.error) + " of " + format("%.2e", report.allowed);
}

static std::string verdict(const RunResult &result) {
  if (!result.status.ok())
    return result.failed() ? "FAIL" : "ERROR";
  if (!result.check)
    return "unchecked";
  return result.pass() ? "PASS" : "FAIL";
}

static std::string formatTiming(const RunResult &result) {
  if (!result.timing)
    return "";
  const Timing &timing = *result.timing;
  return format("%.2f us", timing.median) + format(" [%.2f..", timing.min) +
         format("%.2f]", timing.max);
}

using Cells = std::array<std::string, 11>;
static const Cells headings = {"result",       "bundle", "problem", "code",
                               "seed",         "inputs", "O error", "lse error",
                               "scores error", "time",   "TFLOP/s"};
/// The column that a table has where some problem fills it only.
static constexpr size_t scoresCell = 8;

/// The inputs that no file gives. A run that was refused early does not know
/// its tensors; it read no file either.
static std::vector<std::string> randomInputs(const RunResult &result) {
  std::vector<std::string> names;
  for (const TensorGeometry &tensor : result.tensors)
    if (tensor.role != TensorSpec::Role::Output &&
        !result.request.inputFiles.contains(tensor.name))
      names.push_back(tensor.name);
  return names;
}

static bool hasRandomInputs(const RunResult &result) {
  return result.tensors.empty() || !randomInputs(result).empty();
}

static std::string join(const std::vector<std::string> &names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

/// "seed 42, normal/all", or "q from q.npy, k and v from seed 42, normal/all".
static std::string formatInputs(const RunResult &result) {
  const RunRequest &request = result.request;
  std::string text;
  for (const auto &[name, file] : request.inputFiles)
    text += name + " from " + file.string() + ", ";
  if (!hasRandomInputs(result))
    return text.substr(0, text.size() - 2);
  if (!text.empty() && !result.tensors.empty())
    text += join(randomInputs(result)) + " from ";
  return text + "seed " + std::to_string(request.seed) + ", " +
         std::string(stringify(request.kind)) + "/" + request.stageName();
}

/// What was compiled, or the last part of the bundle's path.
static std::string sourceName(const RunRequest &request) {
  if (request.source)
    return request.source->str();
  std::filesystem::path bundle = request.bundle;
  // "dir/x.fcb/" has an empty file name.
  return (bundle.has_filename() ? bundle : bundle.parent_path())
      .filename()
      .string();
}

static Cells makeCells(const RunResult &result) {
  const RunRequest &request = result.request;
  Cells cells;
  cells[0] = verdict(result);
  cells[1] = sourceName(request);
  cells[2] =
      result.problem + (result.problem.empty() ? "" : " ") + result.layout;
  cells[3] = result.code;
  cells[4] = hasRandomInputs(result) ? std::to_string(request.seed) : "-";
  cells[5] = hasRandomInputs(result) ? std::string(stringify(request.kind)) +
                                           "/" + request.stageName()
                                     : "files";
  if (result.check) {
    cells[6] = formatErrors(result.check->o);
    if (result.check->lse)
      cells[7] = formatErrors(*result.check->lse);
    if (result.check->scores)
      cells[scoresCell] = formatErrors(*result.check->scores);
    if (result.check->stage)
      cells[5] += " " + formatErrors(*result.check->stage);
  }
  cells[9] = formatTiming(result);
  if (result.timing)
    cells[10] = format("%.1f", result.teraflops());
  return cells;
}

/// "batch 0, head 3, query 17, column 5", or "(0, 3, 17, 5)" of axes without
/// names. Coordinates behind the axes are 0.
static std::string formatPlace(std::span<const int64_t> at,
                               std::span<const std::string_view> axes) {
  std::string text;
  for (size_t i = 0; i < at.size() && (axes.empty() || i < axes.size()); ++i) {
    text += i ? ", " : "";
    if (!axes.empty())
      text += std::string(axes[i]) + " ";
    text += std::to_string(at[i]);
  }
  return axes.empty() ? "(" + text + ")" : text;
}

/// "3 NaN and 1 infinity", or nothing.
static std::string formatCounts(int64_t nans, int64_t infinities) {
  std::vector<std::string> counts;
  if (nans)
    counts.push_back(std::to_string(nans) + " NaN");
  if (infinities)
    counts.push_back(std::to_string(infinities) +
                     (infinities == 1 ? " infinity" : " infinities"));
  return join(counts);
}

static constexpr std::string_view outputAxes[] = {"batch", "head", "query",
                                                  "column"};
static constexpr std::string_view scoreAxes[] = {"batch", "head", "query",
                                                 "key"};
/// Of k_new and v_new.
static constexpr std::string_view newRowAxes[] = {"batch", "head", "row",
                                                  "column"};

/// The worst element of an output that failed.
static std::string formatFailure(const std::string &name,
                                 const ErrorReport &report,
                                 std::span<const std::string_view> axes) {
  if (report.pass())
    return "";
  std::string text = "\n  " + name + " at " + formatPlace(report.at, axes) +
                     ": expects " + format("%.6g", report.expected) +
                     ", but got " + format("%.6g", report.actual) +
                     ", an error of " + format("%.2e", report.error) +
                     " where " + format("%.2e", report.allowed) + " is allowed";
  std::string counts = formatCounts(report.nans, report.infinities);
  if (!counts.empty())
    text += "\n  " + name + " holds " + counts + " in " +
            std::to_string(report.elements) + " elements";
  return text;
}

/// What a stage compares: scores, sums of rows of P, or O.
static std::string formatStageFailure(const RunResult &result) {
  std::span<const std::string_view> axes = outputAxes;
  std::string name = "O of stage pv";
  if (result.request.stage == Stage::QK) {
    axes = scoreAxes;
    name = "the score of stage qk";
  } else if (result.request.stage == Stage::Softmax) {
    axes = axes.first(3);
    name = "the row sum of stage softmax";
  }
  return formatFailure(name, *result.check->stage, axes);
}

/// What messages call an axis of an operand.
static std::string_view describeAxis(std::string_view axis, bool isPaged) {
  static constexpr std::pair<std::string_view, std::string_view> names[] = {
      {"entries", "batch"},      {"key_entries", "batch"},
      {"heads_q", "head"},       {"heads_kv", "head"},
      {"seqlen_q", "query"},     {"seqlen_k", "key"},
      {"keys", "key"},           {"seqlen_new", "row"},
      {"head_dim", "column"},    {"head_dim_v", "column"},
      {"positions", "position"}, {"rotary_pairs", "pair"}};
  if (isPaged && axis == "key_entries")
    return "page";
  if (isPaged && axis == "keys")
    return "row";
  for (auto [name, word] : names)
    if (name == axis)
      return word;
  return axis;
}

static std::string formatInput(const InputReport &input, bool isPaged) {
  std::vector<std::string_view> axes;
  if (const OperandInfo *operand = findOperand(input.name))
    for (const OperandInfo::Axis &axis : operand->getAxes())
      axes.push_back(describeAxis(axis.name, isPaged));
  return "\n  input " + input.name + " holds " +
         formatCounts(input.nans, input.infinities) + ", the first at " +
         formatPlace(input.first, axes);
}

static std::string formatFailures(const RunResult &result) {
  if (!result.check || result.check->pass())
    return "";
  const CheckReport &check = *result.check;
  std::string text = formatFailure("O", check.o, outputAxes);
  if (check.lse)
    text += formatFailure("lse", *check.lse, std::span(outputAxes).first(3));
  if (check.scores)
    text += formatFailure("scores", *check.scores, scoreAxes);
  for (auto [name, report] : {std::pair("the new row of k", &check.k),
                              {"the new row of v", &check.v}})
    if (*report)
      text += formatFailure(name, **report, newRowAxes);
  if (check.stage)
    text += formatStageFailure(result);
  for (const InputReport &input : check.inputs)
    text += formatInput(input, result.dims.contains(PageSizeDim));
  return text;
}

std::string flashcore::run::formatLine(const RunResult &result) {
  Cells cells = makeCells(result);
  // A problem that was refused has no text.
  std::string line = cells[0] + " " + (cells[2].empty() ? cells[1] : cells[2]);
  if (!result.code.empty())
    line += ", " + cells[3];
  line += ", " + formatInputs(result);
  if (result.check && result.check->stage)
    line += " " + formatErrors(*result.check->stage);
  if (!cells[6].empty())
    line += ", max error O " + cells[6] + " allowed";
  if (!cells[7].empty())
    line += ", lse " + cells[7] + " allowed";
  if (!cells[scoresCell].empty())
    line += ", scores " + cells[scoresCell] + " allowed";
  if (result.timing)
    line += ", " + cells[9] + " " + cells[10] + " TFLOP/s";
  return line + formatFailures(result);
}

std::string flashcore::run::formatTable(const std::vector<RunResult> &results) {
  std::vector<Cells> rows = {headings};
  for (const RunResult &result : results)
    rows.push_back(makeCells(result));
  std::array<size_t, std::tuple_size_v<Cells>> widths = {};
  for (const Cells &row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());

  bool hasScores =
      std::any_of(rows.begin() + 1, rows.end(),
                  [](const Cells &row) { return !row[scoresCell].empty(); });
  std::string table;
  for (const Cells &row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      if (i != scoresCell || hasScores)
        line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    table += line + "\n";
  }
  auto passed = std::count_if(results.begin(), results.end(),
                              [](const RunResult &r) { return r.pass(); });
  return table + std::to_string(passed) + " of " +
         std::to_string(results.size()) + " passed\n";
}

/// `axes` are those of the output.
static ordered_json toJson(const ErrorReport &report,
                           std::span<const std::string_view> axes) {
  ordered_json at;
  for (size_t i = 0; i < axes.size(); ++i)
    at[std::string(axes[i])] = report.at[i];
  // JSON has no NaN; nlohmann writes null for it.
  return {{"error", report.error},       {"allowed", report.allowed},
          {"worst", report.worst},       {"at", at},
          {"expected", report.expected}, {"actual", report.actual},
          {"nans", report.nans},         {"infinities", report.infinities},
          {"pass", report.pass()}};
}

/// Of O, lse or scores, which are compared as a whole.
static ordered_json outputToJson(const ErrorReport &report,
                                 std::span<const std::string_view> axes) {
  ordered_json json = toJson(report, axes);
  json["yardstick"] = report.yardstick;
  json["norm"] = report.norm;
  json["yardstick_norm"] = report.yardstickNorm;
  return json;
}

/// Where each input comes from, and what of it is not finite.
static ordered_json inputsToJson(const RunResult &result) {
  const RunRequest &request = result.request;
  ordered_json json = ordered_json::object();
  for (const TensorGeometry &tensor : result.tensors) {
    if (tensor.role == TensorSpec::Role::Output)
      continue;
    auto file = request.inputFiles.find(tensor.name);
    if (file != request.inputFiles.end())
      json[tensor.name] = {{"file", file->second.string()}};
    else
      json[tensor.name] = {{"seed", request.seed}};
  }
  if (result.check)
    for (const InputReport &input : result.check->inputs) {
      json[input.name]["nans"] = input.nans;
      json[input.name]["infinities"] = input.infinities;
    }
  return json;
}

/// A bundle that was compiled for the run lies nowhere afterwards.
static std::pair<const char *, std::string>
sourceToJson(const RunRequest &request) {
  if (!request.source)
    return {"bundle", request.bundle.string()};
  bool isShape = request.source->kind == Source::Kind::Shape;
  return {isShape ? "shape" : "mlir", request.source->text};
}

static ordered_json toJson(const RunResult &result) {
  const RunRequest &request = result.request;
  auto [sourceKey, source] = sourceToJson(request);
  ordered_json json = {
      {sourceKey, source},         {"result", verdict(result)},
      {"problem", result.problem}, {"dims", result.dims},
      {"layout", result.layout},   {"device", result.device},
      {"code", result.code},       {"inputs", inputsToJson(result)}};
  if (hasRandomInputs(result)) {
    json["seed"] = request.seed;
    json["kind"] = std::string(stringify(request.kind));
  }
  json["stage"] = request.stageName();
  if (!result.status.ok())
    json["error"] = result.status.str();
  for (const LoadedKernelInfo &kernel : result.kernels)
    json["kernels"].push_back(
        {{"registers", kernel.registers},
         {"local_bytes", kernel.localBytes},
         {"static_shared_memory", kernel.staticSharedMemory}});
  if (result.check) {
    json["o"] = outputToJson(result.check->o, outputAxes);
    if (result.check->lse)
      json["lse"] =
          outputToJson(*result.check->lse, std::span(outputAxes).first(3));
    if (result.check->scores)
      json["scores"] = outputToJson(*result.check->scores, scoreAxes);
    for (auto [name, report] :
         {std::pair("k", &result.check->k), {"v", &result.check->v}})
      if (*report)
        json[name] = toJson(**report, newRowAxes);
    if (result.check->stage)
      json["stage_check"] = toJson(*result.check->stage, outputAxes);
  }
  if (result.timing)
    json["time"] = {{"median_us", result.timing->median},
                    {"min_us", result.timing->min},
                    {"max_us", result.timing->max},
                    {"replays", result.timing->replays},
                    {"launches_per_replay", result.timing->launchesPerReplay},
                    {"tflops", result.teraflops()}};
  return json;
}

Status flashcore::run::writeJson(const std::filesystem::path &path,
                                 const std::vector<RunResult> &results) {
  ordered_json json = ordered_json::array();
  for (const RunResult &result : results)
    json.push_back(toJson(result));
  return writeFile(
      path,
      json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

static std::string orDynamic(const std::optional<int64_t> &value) {
  return value ? std::to_string(*value) : "?";
}

static std::string orUnbounded(const std::optional<int64_t> &window) {
  return window ? std::to_string(*window) : "unbounded";
}

static std::string formatAttention(const AttentionSpec &attention) {
  std::string text =
      "  softmax_scale " + format("%g", attention.softmaxScale) + ", softcap " +
      (attention.softcap ? format("%g", *attention.softcap) : "none") +
      (attention.dropout ? ", dropout " + format("%g", *attention.dropout)
                         : "") +
      (attention.rotary
           ? ", rotary " + std::string(stringify(*attention.rotary))
           : "") +
      (attention.blockSize
           ? ", block_size " + std::to_string((*attention.blockSize)[0]) + "x" +
                 std::to_string((*attention.blockSize)[1])
           : "") +
      "\n  causal " + std::string(stringify(attention.mask.causal)) +
      ", window_left " + orUnbounded(attention.mask.windowLeft) +
      ", window_right " + orUnbounded(attention.mask.windowRight) + "\n ";
  return text;
}

/// "attention", and of a program "program of attention, merge".
static std::string formatName(const Bundle &bundle) {
  std::string text = bundle.op;
  for (const ProgramPart &part : bundle.parts)
    text += (&part == bundle.parts.data() ? " of " : ", ") + part.bundle->op;
  return text;
}

static std::string formatOp(const Bundle &bundle) {
  std::string text =
      bundle.op == AttentionOpName ? formatAttention(bundle.attention) : " ";
  for (const auto &[name, size] : bundle.sizes)
    text += " " + name + "=" + orDynamic(size);
  return formatName(bundle) + "\n" + text + "\n";
}

static std::string formatTensor(const TensorSpec &tensor) {
  std::string text =
      "  " + tensor.name + ": " + std::string(stringify(tensor.dtype)) + " (";
  for (size_t i = 0; i < tensor.axes.size(); ++i)
    text += (i ? ", " : "") + tensor.axes[i];
  text += ") strides [";
  for (size_t i = 0; i < tensor.strides.size(); ++i)
    text += (i ? ", " : "") + orDynamic(tensor.strides[i]);
  return text + "] offset " + orDynamic(tensor.offset) + " alignment " +
         std::to_string(tensor.alignment) +
         (tensor.role == TensorSpec::Role::Updated ? ", updated\n" : "\n");
}

/// Of what is for some calls only.
static std::string formatCondition(const std::optional<Expression> &when) {
  return when ? ", when " + when->str() : "";
}

static std::string formatKernel(const KernelSpec &kernel) {
  std::string text = "  " + kernel.name + ": block ";
  for (size_t i = 0; i < 3; ++i)
    text += (i ? "x" : "") + std::to_string(kernel.block[i]);
  text += ", grid (";
  for (size_t i = 0; i < 3; ++i)
    text += (i ? ", " : "") + kernel.grid[i].str();
  text += ")";
  text += ", " + std::to_string(kernel.arguments.size()) + " arguments, " +
          std::to_string(kernel.dynamicSharedMemory) +
          " bytes of dynamic shared memory" + formatCondition(kernel.when) +
          "\n";
  if (!kernel.resources)
    return text + "    resources unknown: no cubin was made\n";
  const KernelResources &used = *kernel.resources;
  return text + "    " + used.chip.str() + ": " +
         std::to_string(used.registers) + " registers, spills " +
         std::to_string(used.spillStores) + " bytes stored and " +
         std::to_string(used.spillLoads) + " loaded, " +
         std::to_string(used.staticSharedMemory) +
         " bytes of static shared memory\n";
}

static std::string
formatWorkspace(const std::vector<WorkspaceTerm> &workspace) {
  std::string text;
  for (const WorkspaceTerm &term : workspace)
    text +=
        "  " + term.bytes.str() + " bytes" + formatCondition(term.when) + "\n";
  return text;
}

static std::string formatImages(const Bundle &variant) {
  std::string text = "  PTX for " + variant.chip.str() + " (" +
                     std::to_string(variant.ptx.contents.size()) + " bytes)";
  for (const CodeImage &cubin : variant.cubins)
    text += ", cubin for " + cubin.chip.str() + " (" +
            std::to_string(cubin.contents.size()) + " bytes)";
  return text + "\n";
}

std::string flashcore::run::formatInfo(std::span<const Bundle> variants,
                                       const std::optional<Source> &source) {
  const Bundle &shared = variants.front();
  std::string text = source ? "bundle compiled from " + source->str() + "\n"
                            : "bundle " + shared.directory.string() + "\n";
  text += "  made by " + shared.compiler + ", " +
          shared.assembler.value_or("no assembler") + "\n";
  for (const Bundle &variant : variants)
    text += formatImages(variant);
  text += formatOp(shared) + "tensors\n";
  for (const TensorSpec &tensor : shared.tensors)
    text += formatTensor(tensor);
  if (!shared.intermediates.empty())
    text += "intermediates\n";
  for (const TensorSpec &tensor : shared.intermediates)
    text += formatTensor(tensor);
  for (const Bundle &variant : variants) {
    std::string name =
        variants.size() == 1 ? "" : " of variant " + variant.chip.str();
    text += "kernels" + name + "\n";
    for (const KernelSpec &kernel : variant.kernels)
      text += formatKernel(kernel);
    if (!variant.workspace.empty())
      text += "workspace" + name + "\n" + formatWorkspace(variant.workspace);
  }
  return text;
}
