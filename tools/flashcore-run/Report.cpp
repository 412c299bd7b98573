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

#include <algorithm>
#include <array>
#include <cstdio>

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

using Cells = std::array<std::string, 10>;
static const Cells headings = {"result", "bundle", "problem", "code",
                               "seed",   "inputs", "O error", "lse error",
                               "time",   "TFLOP/s"};

static Cells makeCells(const RunResult &result) {
  const RunRequest &request = result.request;
  Cells cells;
  cells[0] = verdict(result);
  std::filesystem::path bundle = request.bundle;
  // "dir/x.fcb/" has an empty file name.
  cells[1] = (bundle.has_filename() ? bundle : bundle.parent_path())
                 .filename()
                 .string();
  cells[2] = result.problem + (result.problem.empty() ? "" : " ") +
             std::string(stringify(request.problem.layout));
  cells[3] = result.code;
  cells[4] = std::to_string(request.seed);
  cells[5] = std::string(stringify(request.kind)) + "/" + request.stageName();
  if (result.check) {
    cells[6] = formatErrors(result.check->o);
    if (result.check->lse)
      cells[7] = formatErrors(*result.check->lse);
    if (result.check->stage)
      cells[5] += " " + formatErrors(*result.check->stage);
  }
  cells[8] = formatTiming(result);
  if (result.timing)
    cells[9] = format("%.1f", result.teraflops());
  return cells;
}

std::string flashcore::run::formatLine(const RunResult &result) {
  Cells cells = makeCells(result);
  std::string line = cells[0] + " " + cells[2];
  if (!result.code.empty())
    line += ", " + cells[3];
  line += ", seed " + cells[4] + ", " + cells[5];
  if (!cells[6].empty())
    line += ", max error O " + cells[6] + " allowed";
  if (!cells[7].empty())
    line += ", lse " + cells[7] + " allowed";
  if (result.timing)
    line += ", " + cells[8] + " " + cells[9] + " TFLOP/s";
  if (!result.status.ok())
    line += "\n" + result.status.str();
  return line;
}

std::string flashcore::run::formatTable(const std::vector<RunResult> &results) {
  std::vector<Cells> rows = {headings};
  for (const RunResult &result : results)
    rows.push_back(makeCells(result));
  std::array<size_t, std::tuple_size_v<Cells>> widths = {};
  for (const Cells &row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());

  std::string table;
  for (const Cells &row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    table += line + "\n";
  }
  auto passed = std::count_if(results.begin(), results.end(),
                              [](const RunResult &r) { return r.pass(); });
  return table + std::to_string(passed) + " of " +
         std::to_string(results.size()) + " passed\n";
}

static ordered_json toJson(const ErrorReport &report) {
  // JSON has no NaN; nlohmann writes null for it.
  return {{"error", report.error},
          {"allowed", report.allowed},
          {"worst", report.worst},
          {"pass", report.pass()}};
}

/// Of O or lse, which are compared as a whole.
static ordered_json outputToJson(const ErrorReport &report) {
  ordered_json json = toJson(report);
  json["yardstick"] = report.yardstick;
  json["norm"] = report.norm;
  json["yardstick_norm"] = report.yardstickNorm;
  return json;
}

static ordered_json toJson(const RunResult &result) {
  const RunRequest &request = result.request;
  ordered_json json = {
      {"bundle", request.bundle.string()},
      {"result", verdict(result)},
      {"problem", result.problem},
      {"dims", result.dims},
      {"layout", std::string(stringify(request.problem.layout))},
      {"device", result.device},
      {"code", result.code},
      {"seed", request.seed},
      {"kind", std::string(stringify(request.kind))},
      {"stage", request.stageName()}};
  if (!result.status.ok())
    json["error"] = result.status.str();
  for (const LoadedKernelInfo &kernel : result.kernels)
    json["kernels"].push_back(
        {{"registers", kernel.registers},
         {"local_bytes", kernel.localBytes},
         {"static_shared_memory", kernel.staticSharedMemory}});
  if (result.check) {
    json["o"] = outputToJson(result.check->o);
    if (result.check->lse)
      json["lse"] = outputToJson(*result.check->lse);
    if (result.check->stage)
      json["stage_check"] = toJson(*result.check->stage);
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

static std::string formatProduct(const Product &product) {
  std::string text;
  for (const Factor &factor : product) {
    text += text.empty() ? "" : " * ";
    text += factor.count       ? std::to_string(*factor.count)
            : factor.tile == 1 ? factor.dim
                               : "ceil(" + factor.dim + "/" +
                                     std::to_string(factor.tile) + ")";
  }
  return text.empty() ? "1" : text;
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
      "\n  causal " + std::string(stringify(attention.mask.causal)) +
      ", window_left " + orUnbounded(attention.mask.windowLeft) +
      ", window_right " + orUnbounded(attention.mask.windowRight) + "\n ";
  for (const auto &[name, size] : attention.dims)
    text += " " + name + "=" + orDynamic(size);
  return text + "\n";
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
         std::to_string(tensor.alignment) + "\n";
}

static std::string formatKernel(const KernelSpec &kernel) {
  std::string text = "  " + kernel.name + ": block ";
  for (size_t i = 0; i < 3; ++i)
    text += (i ? "x" : "") + std::to_string(kernel.block[i]);
  text += ", grid (";
  for (size_t i = 0; i < 3; ++i)
    text += (i ? ", " : "") + formatProduct(kernel.grid[i]);
  text += ")";
  if (kernel.maxBlocksPerSM)
    text += " of at most " + std::to_string(*kernel.maxBlocksPerSM) +
            " a multiprocessor";
  text += ", " + std::to_string(kernel.arguments.size()) + " arguments, " +
          std::to_string(kernel.dynamicSharedMemory) +
          " bytes of dynamic shared memory\n";
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
    text += "  " + std::to_string(term.bytes) + " bytes * " +
            formatProduct(term.factors) + "\n";
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

std::string flashcore::run::formatInfo(std::span<const Bundle> variants) {
  const Bundle &shared = variants.front();
  std::string text = "bundle " + shared.directory.string() + "\n";
  text += "  made by " + shared.compiler + ", " +
          shared.assembler.value_or("no assembler") + "\n";
  for (const Bundle &variant : variants)
    text += formatImages(variant);
  text += "attention\n" + formatAttention(shared.attention) + "tensors\n";
  for (const TensorSpec &tensor : shared.tensors)
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
