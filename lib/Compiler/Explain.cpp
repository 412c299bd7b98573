//===- Explain.cpp - What was chosen, and why -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Prints what flashcore-configure said of its decision, and what follows from
// it.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Compiler/Explain.h"
#include "flashcore/Schedule/OpenSizes.h"
#include "flashcore/Schedule/ResourceModel.h"
#include "flashcore/Target/Atoms.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::flashcore;

static std::string describe(const AttentionProblem &problem) {
  auto size = [](std::optional<int64_t> value) {
    return value ? std::to_string(*value) : "?";
  };
  return llvm::formatv("batch {0}, heads {1}, seqlen {2} x {3}, head_dim {4}{5}"
                       "{6}{7}",
                       size(problem.batch), size(problem.headsQ),
                       size(problem.seqlenQ), size(problem.seqlenK),
                       problem.headDim,
                       problem.headDim == problem.headDimV
                           ? ""
                           : "/" + std::to_string(problem.headDimV),
                       problem.isCausal ? ", causal" : "",
                       problem.hasRegion ? ", score or mask region" : "");
}

static const Cubin *getCubin(const BundleVariant *variant) {
  return variant && !variant->cubins.empty() ? &variant->cubins.front()
                                             : nullptr;
}

/// What ptxas says of the kernel of the attention; of three kernels the most
/// that one of them takes.
static KernelResources getResources(const BundleVariant &variant,
                                    const Explanation &explanation) {
  const Cubin &cubin = variant.cubins.front();
  KernelResources most =
      cubin.kernels.lookup(getMainKernel(variant.program, explanation.op));
  if (explanation.report.decision.choice.isUnfused())
    for (const BundleKernel &kernel : variant.kernels) {
      if (kernel.op != explanation.op)
        continue;
      KernelResources used = cubin.kernels.lookup(kernel.name);
      most.registers = std::max(most.registers, used.registers);
      most.spillStores = std::max(most.spillStores, used.spillStores);
    }
  return most;
}

/// Blocks of the grid; of a persistent one the first of two numbers, the other
/// being that of the tiles.
static std::optional<std::pair<int64_t, int64_t>>
getGrid(const Explanation &explanation, const TargetInfo &target) {
  const ScheduleChoice &choice = explanation.report.decision.choice;
  auto blocks =
      getNumBlocks(explanation.problem, choice.blockM, choice.headGroup);
  auto splits = getNumSplits(explanation.problem, choice);
  if (!blocks || !splits)
    return std::nullopt;
  int64_t tiles = *blocks * *splits;
  if (choice.isUnfused()) { // those of the first kernel
    if (!explanation.problem.seqlenK)
      return std::nullopt;
    tiles *= llvm::divideCeil(*explanation.problem.seqlenK, choice.blockN);
  }
  if (choice.grid == fcgpu::Grid::Full)
    return std::pair(tiles, tiles);
  return std::pair(
      std::min(tiles, target.device.numSMs * choice.getBlocksPerSM()), tiles);
}

/// What a mask region costs.
static std::string describe(AttentionProblem::MaskProof proof,
                            fcgpu::Grid grid) {
  if (proof.hasDataOfQueries && grid == fcgpu::Grid::Persistent)
    return "bounds of keys by data of the queries, for which blocks of a "
           "persistent grid do not look: each tile evaluates it";
  const char *data = proof.hasDataOfQueries ? ", some by data of the queries"
                     : proof.hasData ? ", some by lengths of a batch entry"
                                     : "";
  if (proof.numRanges > 1)
    return std::to_string(proof.numRanges) + " ranges of keys" + data +
           ": tiles between them are skipped" +
           (proof.isComplete ? ", full tiles have no mask"
                             : ", tiles that are not proved full have a mask");
  if (proof.isComplete)
    return std::string("bounds of keys") + data +
           ": tiles outside are skipped, full tiles have no mask";
  return proof.hasBounds
             ? std::string("bounds of keys") + data +
                   ", outside of which tiles are skipped, and more, which each "
                   "other tile evaluates"
             : "no bounds of keys were found: each tile evaluates it";
}

/// Why rows move less than a chunk at a time.
static std::string describeRows(const AttentionProblem &problem) {
  return llvm::formatv("of Q, K, V or O {0} bytes at a time{1}: {2} need a "
                       "head_dim, strides and "
                       "an offset that are multiples of 8",
                       problem.accessBytes,
                       problem.accessBytes > 2 ? "" : ", by registers",
                       fcgpu::kChunkBytes);
}

static std::string describeBlocks(const AttentionProblem &problem) {
  return llvm::formatv("the tiles of listed blocks of {0} x {1}, {2}",
                       problem.blocks->queries, problem.blocks->keys,
                       problem.blocks->ofHeads ? "of each head"
                                               : "the same for all heads");
}

std::string mlir::flashcore::explainSpills(const Explanation &explanation,
                                           const TargetInfo &target,
                                           const BundleVariant *variant) {
  const AttentionProblem &problem = explanation.problem;
  const ScheduleChoice &choice = explanation.report.decision.choice;
  bool isKnown = getCubin(variant) != nullptr;
  if (isKnown ? getResources(*variant, explanation).spillStores == 0
              : !mustSpill(problem, choice))
    return {};
  std::string cost = isKnown ? "to local memory, which costs time: "
                             : "expected, to local memory, which costs time: ";
  if (choice.product != fcgpu::Product::Thread)
    return cost + "use more warps or a smaller block-n";
  auto hasF16 = [&](fcgpu::Product product) {
    return !findMmaAtoms(target, fcgpu::getRightPlace(product),
                         ElementKind::F16, ElementKind::F32)
                .empty();
  };
  bool isBetter =
      problem.element == ElementKind::BF16 &&
      (hasF16(fcgpu::Product::Warp) || hasF16(fcgpu::Product::Wmma));
  return cost +
         llvm::formatv("a thread has a row of O and S, {0} values, for {1} "
                       "registers; use a smaller head_dim_v{2}",
                       getFragmentRegisters(problem, choice),
                       kMaxRegistersPerThread,
                       isBetter ? llvm::formatv(" or f16, for which {0} has "
                                                "tensor cores",
                                                target.chip)
                                      .str()
                                : "")
             .str();
}

void mlir::flashcore::print(llvm::raw_ostream &os,
                            const Explanation &explanation, StringRef name,
                            const TargetInfo &target,
                            const BundleVariant *variant) {
  const AttentionProblem &problem = explanation.problem;
  const ScheduleChoice &choice = explanation.report.decision.choice;
  auto line = [&](StringRef name, const Twine &text) {
    os << llvm::formatv("  {0,-12} {1}\n", name, text.str());
  };
  os << "attention " << name << (name.empty() ? "" : " ") << "on "
     << target.chip << ": " << describe(problem) << "\n";
  if (problem.accessBytes < fcgpu::kChunkBytes)
    line("rows", describeRows(problem));
  if (problem.maskProof)
    line("mask region", describe(*problem.maskProof, choice.grid));
  if (problem.blocks)
    line("block lists", describeBlocks(problem));
  if (explanation.report.decision.reasons.empty())
    line("schedule", "given in the IR");
  for (const ScheduleReason &reason : explanation.report.decision.reasons)
    line(reason.field,
         llvm::formatv("{0,-16} {1}", reason.value, reason.reason).str());

  int64_t sharedBytes = getSharedMemoryBytes(problem, choice);
  line("shared", llvm::formatv("{0} bytes a block, of {1}", sharedBytes,
                               target.sharedMemoryPerBlock)
                     .str());
  if (const Cubin *cubin = getCubin(variant)) {
    KernelResources used = getResources(*variant, explanation);
    line("registers",
         llvm::formatv("{0} a thread, {1} bytes spilled ({2})", used.registers,
                       used.spillStores, cubin->assembler)
             .str());
    Occupancy occupancy =
        getOccupancy(target, choice.getAllWarps(), used.registers, sharedBytes);
    line("occupancy",
         llvm::formatv("{0} x {1} warps an SM, limited by {2}",
                       occupancy.blocks, choice.getAllWarps(), occupancy.limit)
             .str());
  } else {
    line("registers", "unknown: ptxas was not run (--emit=cubin or bundle)");
  }
  if (std::string why = explainSpills(explanation, target, variant);
      !why.empty())
    line("spills", why);
  if (auto grid = getGrid(explanation, target))
    line("blocks",
         llvm::formatv("{0} on {1} SMs", grid->first, target.device.numSMs)
                 .str() +
             (choice.grid == fcgpu::Grid::Full
                  ? ""
                  : llvm::formatv(", for {0} tiles", grid->second).str()));
  line("limiter", predictLimiter(problem, target, choice));
  if (auto few = explanation.report.fewQueries)
    line("few queries",
         llvm::formatv("calls of at most {0} have kernels of their own: {1}",
                       few->expectedQueries, describeChange(choice, *few))
             .str());
  for (const std::string &warning : explanation.report.openSizes)
    line("open sizes", warning);
  for (const std::string &calls : explanation.report.callClasses)
    line("calls", calls);
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

namespace json = llvm::json;

static json::Object toJSON(const AttentionProblem &problem) {
  auto size = [](std::optional<int64_t> value) {
    return value ? json::Value(*value) : json::Value(nullptr);
  };
  return json::Object{
      {"batch", size(problem.batch)},      {"heads_q", size(problem.headsQ)},
      {"seqlen_q", size(problem.seqlenQ)}, {"seqlen_k", size(problem.seqlenK)},
      {"head_dim", problem.headDim},       {"head_dim_v", problem.headDimV},
      {"causal", problem.isCausal}};
}

static json::Value fieldToJSON(int64_t number) { return number; }
template <typename Enum> static json::Value fieldToJSON(Enum value) {
  return fcgpu::stringifyEnum(value);
}

/// The fields of `#fcgpu.schedule`, under its names.
static json::Object toJSON(const ScheduleChoice &choice) {
  json::Object result;
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  result[key] = fieldToJSON(choice.name);
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
  return result;
}

/// As in the manifest; without a cubin resources are null.
static json::Array describeKernels(const BundleVariant &variant, unsigned op) {
  json::Array result;
  for (const BundleKernel &kernel : variant.kernels) {
    if (kernel.op != op)
      continue;
    json::Value resources = nullptr;
    if (const Cubin *cubin = getCubin(&variant)) {
      KernelResources used = cubin->kernels.lookup(kernel.name);
      resources =
          json::Object{{"registers", used.registers},
                       {"spill_stores", used.spillStores},
                       {"spill_loads", used.spillLoads},
                       {"static_shared_memory", used.staticSharedMemory}};
    }
    result.push_back(json::Object{
        {"name", kernel.name},
        {"dynamic_shared_memory",
         kernel.description.getAs<IntegerAttr>("shared_memory").getInt()},
        {"resources", std::move(resources)}});
  }
  return result;
}

json::Object mlir::flashcore::toJSON(const Explanation &explanation,
                                     StringRef name, const TargetInfo &target,
                                     const BundleVariant *variant) {
  const AttentionProblem &problem = explanation.problem;
  const ScheduleChoice &choice = explanation.report.decision.choice;
  json::Object reasons;
  for (const ScheduleReason &reason : explanation.report.decision.reasons)
    reasons[reason.field] = reason.reason;
  int64_t sharedBytes = getSharedMemoryBytes(problem, choice);
  json::Value blocks = nullptr, occupancy = nullptr, assembler = nullptr;
  if (auto grid = getGrid(explanation, target))
    blocks = grid->first;
  if (const Cubin *cubin = getCubin(variant)) {
    assembler = cubin->assembler;
    Occupancy found = getOccupancy(
        target, choice.getAllWarps(),
        getResources(*variant, explanation).registers, sharedBytes);
    occupancy =
        json::Object{{"blocks_per_sm", found.blocks},
                     {"warps_per_sm", found.blocks * choice.getAllWarps()},
                     {"limit", found.limit}};
  }
  json::Value few = nullptr;
  if (explanation.report.fewQueries)
    few = ::toJSON(*explanation.report.fewQueries);
  return json::Object{
      {"name", json::fixUTF8(name)}, // of a function may be any bytes
      {"chip", target.chip},
      {"problem", ::toJSON(problem)},
      {"schedule", ::toJSON(choice)},
      {"few_queries", std::move(few)},
      {"call_classes", json::Array(explanation.report.callClasses)},
      {"reasons", std::move(reasons)},
      {"shared_memory", sharedBytes},
      {"shared_memory_limit", target.sharedMemoryPerBlock},
      {"blocks", std::move(blocks)},
      {"sms", target.device.numSMs},
      {"occupancy", std::move(occupancy)},
      {"limiter", predictLimiter(problem, target, choice)},
      {"assembler", std::move(assembler)},
      {"kernels",
       variant ? describeKernels(*variant, explanation.op) : json::Array()}};
}
