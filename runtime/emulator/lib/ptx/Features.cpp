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

#include <algorithm>
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

namespace {
/// A modifier that only some chips, or nobody here, knows.
struct Variant {
  /// Up to the first dot; of any opcode if empty.
  std::string_view base, modifier, name;
};
} // namespace

static constexpr std::string_view sparse = "products of sparse matrices";
static constexpr std::string_view scaled = "block-scaled products of sm_120";
static constexpr std::string_view narrow = "4- and 6-bit floats of sm_100";
static constexpr std::string_view small = "products of 4-bit and 1-bit types";
static constexpr std::string_view vectorAtomics = "vector atomics of sm_90";
static constexpr std::string_view wideAtomics = "atomics of 128 bits of sm_90";
static constexpr std::string_view bytes = "matrices of bytes of sm_100";

static constexpr Variant variants[] = {
    {"", "f32x2", ".f32x2 arithmetic of sm_100"},
    {"mma", "sp", sparse},
    {"mma", "sp::ordered_metadata", sparse},
    {"mma", "block_scale", scaled},
    {"mma", "kind::mxf8f6f4", scaled},
    {"mma", "kind::mxf4", scaled},
    {"mma", "kind::mxf4nvf4", scaled},
    {"mma", "kind::f8f6f4", narrow},
    {"mma", "s4", small},
    {"mma", "u4", small},
    {"mma", "b1", small},
    {"mma", "f64", "products of f64"},
    {"mma", "m8n8k4", "mma of m8n8k4"},
    {"mma", "m8n8k16", "mma of m8n8k16"},
    {"cvt", "e2m1x2", narrow},
    {"cvt", "e2m3x2", narrow},
    {"cvt", "e3m2x2", narrow},
    {"cvt", "e2m1x4", narrow},
    {"cvt", "e2m3x4", narrow},
    {"cvt", "e3m2x4", narrow},
    {"cvt", "ue8m0x2", "scales of ue8m0 of sm_100"},
    {"cvt", "rs", "stochastic rounding of sm_100"},
    {"redux", "f32", "redux of floats of sm_100"},
    {"ldmatrix", "m16n16", bytes},
    {"ldmatrix", "m8n16", bytes},
    {"stmatrix", "m16n8", bytes},
    {"atom", "v2", vectorAtomics},
    {"atom", "v4", vectorAtomics},
    {"atom", "v8", vectorAtomics},
    {"red", "v2", vectorAtomics},
    {"red", "v4", vectorAtomics},
    {"red", "v8", vectorAtomics},
    {"atom", "b128", wideAtomics}};

static bool isOf(const Variant &variant, std::string_view opcode) {
  size_t dot = opcode.find('.');
  if (!variant.base.empty() && opcode.substr(0, dot) != variant.base)
    return false;
  while (dot != std::string_view::npos) {
    size_t next = opcode.find('.', dot + 1);
    if (opcode.substr(dot + 1, next - dot - 1) == variant.modifier)
      return true;
    dot = next;
  }
  return false;
}

static constexpr Feature registers[] = {
    {"%envreg", "the environment registers of the driver"},
    {"%pm", counters},
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
  for (const Variant &variant : variants)
    if (isOf(variant, opcode))
      return variant.name;
  // In a cluster of one CTA these reach its own memory.
  static constexpr std::string_view ownCluster[] = {
      "cvta.",  "isspacep.", "mbarrier.",  "cp.async.bulk.",
      "fence.", "mapa.",     "ld.",        "st.",
      "atom.",  "red.",      "getctarank."};
  bool isOwn = std::any_of(
      std::begin(ownCluster), std::end(ownCluster),
      [&](std::string_view start) { return opcode.starts_with(start); });
  if (opcode.find("multicast::cluster") != std::string_view::npos ||
      (!isOwn && opcode.find("::cluster") != std::string_view::npos))
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
