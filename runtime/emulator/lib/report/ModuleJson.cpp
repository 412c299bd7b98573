//===- ModuleJson.cpp - What is in a module -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Module::describe: what a caller has to know to launch the kernels of a module
// it did not write. "version" rises when a field changes meaning.
//
//===----------------------------------------------------------------------===//

#include "Description.h"
#include "flashcore/Emulator/Emulator.h"
#include "flashcore/Emulator/Printable.h"
#include "flashcore/Emulator/Program.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>

using namespace flashcore::emu;
using nlohmann::json;

static json errorToJson(const Error &error) {
  return {{"message", error.message},
          {"line", error.loc.line},
          {"column", error.loc.column}};
}

static json dimsToJson(const uint32_t (&dims)[3]) {
  return dims[0] ? json({dims[0], dims[1], dims[2]}) : json();
}

/// "struct" is bytes by value; without .ptr an integer of 64 bits may be a
/// pointer, too.
static json paramToJson(const KernelParam &param) {
  json out = {{"name", param.name},
              {"kind", param.isPtr                    ? "pointer"
                       : param.type == ScalarType::B8 ? "struct"
                                                      : "number"},
              {"type", typeName(param.type)},
              {"bytes", param.bytes},
              {"align", param.align},
              {"offset", param.offset}};
  if (param.isPtr)
    out["points_to"] = {{"space", spaceName(param.pointeeSpace)},
                        {"align", param.pointeeAlign}};
  return out;
}

/// Names of what the kernel uses, for whoever looks for it.
static json usesToJson(const Program &program) {
  static constexpr std::pair<InstKind, const char *> names[] = {
      {InstKind::Mma, "mma"},
      {InstKind::LoadMatrix, "ldmatrix"},
      {InstKind::StoreMatrix, "stmatrix"},
      {InstKind::CpAsync, "cp.async"},
      {InstKind::Atomic, "atomics"},
      {InstKind::Fence, "fences"},
      {InstKind::Barrier, "barriers"},
      {InstKind::Mbarrier, "mbarriers"},
      {InstKind::BulkCopy, "bulk copies"},
      {InstKind::Wgmma, "wgmma"},
      {InstKind::SetMaxRegisters, "setmaxnreg"},
      {InstKind::Shuffle, "shuffles"},
      {InstKind::SystemCall, "printf or assert"},
      {InstKind::Clock, "clock"}};
  json uses = json::array();
  for (const auto &[kind, name] : names)
    if (std::any_of(
            program.code.begin(), program.code.end(),
            [kind = kind](const Inst &inst) { return inst.kind == kind; }))
      uses.push_back(name);
  if (program.usesApproximations)
    uses.push_back("approximate functions");
  return uses;
}

static json kernelToJson(const Program &program) {
  json params = json::array(), globals = json::array();
  for (const KernelParam &param : program.params)
    params.push_back(paramToJson(param));
  for (const StorageVar &variable : program.globals)
    globals.push_back({{"name", variable.name}, {"bytes", variable.bytes}});
  bool hasDynamic = std::any_of(program.shared.begin(), program.shared.end(),
                                [](const auto &var) { return var.isDynamic; });
  return {{"parameters", params},
          {"parameter_bytes", program.paramBytes},
          {"static_shared_memory", program.staticSharedBytes},
          {"uses_dynamic_shared_memory", hasDynamic},
          {"local_memory", program.localBytes},
          {"required_block", dimsToJson(program.reqntid)},
          {"max_block", dimsToJson(program.maxntid)},
          {"variables", globals},
          {"uses", usesToJson(program)}};
}

std::string Module::describe() const {
  json kernels = json::array();
  for (const std::string &name : this->kernels()) {
    Expected<Kernel> kernel = load(name);
    json entry = kernel ? kernelToJson(kernel->program())
                        : json{{"error", errorToJson(kernel.error())}};
    entry["name"] = name;
    kernels.push_back(std::move(entry));
  }
  json out = {{"version", 1},
              {"ptx_version", {impl->versionMajor, impl->versionMinor}},
              {"target", std::string(impl->target)},
              {"kernels", kernels}};
  Expected<std::optional<flashcore::HostProgram>> launch =
      readDescription(*impl->source);
  if (!launch)
    out["launch_error"] = errorToJson(launch.error());
  std::string text =
      out.dump(2, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  // As it stands there: writing what may be nested without end would take as
  // much stack.
  SrcLoc loc;
  if (launch && *launch)
    text.replace(text.size() - 2, 2,
                 ",\n  \"launch\": " +
                     std::string(findDescription(*impl->source, loc)) + "\n}");
  return text + "\n";
}
