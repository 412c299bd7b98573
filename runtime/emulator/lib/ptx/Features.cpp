//===- Features.cpp - What the emulator does not have ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Names for what a kernel may use and cannot run with here, so that a refusal
// says what it is and not only how it is spelled.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Emulator/Ptx.h"

#include <iterator>

using namespace flashcore::emu;

namespace {
struct Feature {
  /// Of an opcode: whole words between dots.
  std::string_view prefix;
  std::string_view name;
};
} // namespace

static constexpr std::string_view textures = "textures";
static constexpr std::string_view surfaces = "surfaces";
static constexpr std::string_view clusters = "clusters of sm_90";
static constexpr std::string_view video = "SIMD video instructions";
static constexpr std::string_view stack = "stack allocation";
static constexpr std::string_view counters = "performance counters";

static constexpr Feature opcodes[] = {
    {"tex", textures},
    {"tld4", textures},
    {"txq", textures},
    {"istypep", textures},
    {"suld", surfaces},
    {"sust", surfaces},
    {"sured", surfaces},
    {"suq", surfaces},
    {"cp.reduce.async", "reductions by bulk asynchronous copies"},
    {"tensormap", "tensor maps that a kernel changes"},
    {"st.async", "asynchronous stores of sm_90"},
    {"st.bulk", "bulk stores of sm_100"},
    {"red.async", "asynchronous reductions of sm_90"},
    {"wgmma.mma_async.sp", "products of sparse matrices"},
    {"tcgen05", "tcgen05, the tensor memory of sm_100"},
    {"barrier.cluster", clusters},
    {"getctarank", clusters},
    {"clusterlaunchcontrol", clusters},
    {"multimem", "multicast memory of sm_90"},
    {"alloca", stack},
    {"stacksave", stack},
    {"stackrestore", stack},
    {"vadd", video},
    {"vadd2", video},
    {"vadd4", video},
    {"vsub", video},
    {"vsub2", video},
    {"vsub4", video},
    {"vavrg2", video},
    {"vavrg4", video},
    {"vabsdiff", video},
    {"vabsdiff2", video},
    {"vabsdiff4", video},
    {"vmin", video},
    {"vmin2", video},
    {"vmin4", video},
    {"vmax", video},
    {"vmax2", video},
    {"vmax4", video},
    {"vset", video},
    {"vset2", video},
    {"vset4", video},
    {"vshl", video},
    {"vshr", video},
    {"vmad", video}};

static constexpr Feature registers[] = {
    {"%envreg", "the environment registers of the driver"},
    {"%pm", counters},
    {"%cluster", clusters},
    {"%ncluster", clusters},
    {"%is_explicit_cluster", clusters},
    {"%current_graph_exec", "device graphs"}};

static constexpr Feature functions[] = {
    {"cuda", "dynamic parallelism"},
    {"malloc", "memory that a kernel allocates"},
    {"free", "memory that a kernel allocates"}};

std::string_view flashcore::emu::unsupportedFeature(std::string_view opcode) {
  for (const Feature &feature : opcodes) {
    size_t size = feature.prefix.size();
    if (opcode.substr(0, size) == feature.prefix &&
        (opcode.size() == size || opcode[size] == '.'))
      return feature.name;
  }
  // In a cluster of one CTA these reach its own memory.
  bool ownCluster = opcode.starts_with("cvta.") ||
                    opcode.starts_with("mbarrier.") ||
                    opcode.starts_with("cp.async.bulk.") ||
                    opcode.starts_with("fence.") || opcode.starts_with("mapa");
  if (opcode.find("multicast::cluster") != std::string_view::npos ||
      (!ownCluster && opcode.find("::cluster") != std::string_view::npos))
    return clusters;
  return {};
}

std::string_view flashcore::emu::unsupportedRegister(std::string_view name) {
  for (const Feature &feature : registers)
    if (name.starts_with(feature.prefix))
      return feature.name;
  return {};
}

std::string_view flashcore::emu::unsupportedFunction(std::string_view name) {
  for (const Feature &feature : functions)
    if (name == feature.prefix ||
        (feature.prefix == "cuda" && name.starts_with("cuda")))
      return feature.name;
  return {};
}
