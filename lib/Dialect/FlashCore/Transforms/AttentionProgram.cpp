//===- AttentionProgram.cpp - The kernels of an attention -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the tile pass makes of an attention: the kernels that its program lists,
// in that order, and what is the same for all of them.
//
//===----------------------------------------------------------------------===//

#include "AttentionProgram.h"
#include "AttentionSignature.h"
#include "KernelOps.h"
#include "ScoreRegion.h"
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h"
#include "flashcore/Schedule/ScheduleCheck.h"
#include "flashcore/Target/TargetInfo.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::flashcore;

/// What the manifest calls the causal mask.
static StringRef describeCausal(AttentionOp op) {
  return op.getCausal() ? stringifyCausalAlignment(*op.getCausal())
                        : StringRef("none");
}

/// The attributes of the op, and its regions.
static DictionaryAttr describeAttributes(AttentionOp op) {
  Builder b(op.getContext());
  NamedAttrList result;
  result.set("softmax_scale", b.getF32FloatAttr(op.getEffectiveScale()));
  result.set("causal", b.getStringAttr(describeCausal(op)));
  auto window = [&](std::optional<uint64_t> keys) -> Attribute {
    if (!keys)
      return b.getUnitAttr();
    return b.getI64IntegerAttr(static_cast<int64_t>(*keys));
  };
  result.set("window_left", window(op.getWindowLeft()));
  result.set("window_right", window(op.getWindowRight()));
  result.set("softcap", op.getSoftcapAttr() ? Attribute(op.getSoftcapAttr())
                                            : b.getUnitAttr());
  if (auto stage = op.getStage())
    result.set("scores_stage", b.getStringAttr(stringifyScoresStage(*stage)));
  if (FloatAttr dropout = op.getDropoutAttr())
    result.set("dropout", dropout);
  if (auto style = op.getStyle())
    result.set("rotary", b.getStringAttr(stringifyRotaryStyle(*style)));
  if (auto size = op.getBlockSize())
    result.set("block_size", b.getI64ArrayAttr(*size));
  for (auto [name, region] :
       {std::pair<StringRef, Region *>("score", &op.getScoreRegion()),
        {"mask", &op.getMaskRegion()}})
    if (!region->empty())
      result.set(name, describeRegion(*region, op.getCapturedTensors()));
  return result.getDictionary(op.getContext());
}

static std::string getKernelName(AttentionOp op) {
  std::string type;
  llvm::raw_string_ostream(type) << op.getQueryType().getElementType();
  return "attention_" + type + "_d" + std::to_string(op.getHeadDim()) +
         (op.getCausal() ? "_causal" : "");
}

namespace {
/// Kernels of the program, and the calls that they are for: those of at least
/// `leastQueries` query rows a sequence, and at most `mostQueries`, of
/// sequences back to back the mean, rounded up.
struct Branch {
  Block *block;
  fcgpu::ScheduleAttr schedule;
  int64_t leastQueries = 0;
  std::optional<int64_t> mostQueries = {};
};
} // namespace

/// That of all calls, or that of many queries and then that of few. Null blocks
/// stand for what the program should have.
static SmallVector<Branch, 2> getBranches(AttentionOp op) {
  auto general =
      op->getAttrOfType<fcgpu::ScheduleAttr>(fcgpu::kScheduleAttrName);
  auto few = op->getAttrOfType<fcgpu::ScheduleAttr>(fcgpu::kFewQueriesAttrName);
  Block &body = op.findProgram()->front();
  auto branches = llvm::to_vector(body.getOps<scf::IfOp>());
  if (branches.empty())
    return {{few ? nullptr : &body, general}};
  scf::IfOp branch = branches.front();
  auto most = static_cast<int64_t>(
      branch.getCondition().getDefiningOp<FewQueriesOp>().getMost());
  return {{few ? branch.elseBlock() : nullptr, general, most + 1},
          {few ? branch.thenBlock() : nullptr, few, 0, most}};
}

static SmallVector<WorkspaceRole, 3> getRoles(ValueRange values) {
  return llvm::to_vector<3>(llvm::map_range(values, [](Value value) {
    return value.getDefiningOp<WorkspaceOp>().getRole();
  }));
}

static std::vector<ProgramKernel> readKernels(Block &block) {
  using Kind = ProgramKernel::Kind;
  std::vector<ProgramKernel> kernels;
  for (auto kernel : block.getOps<ProgramKernelInterface>())
    kernels.push_back(
        {llvm::TypeSwitch<Operation *, Kind>(kernel)
             .Case([](AppendKernelOp) { return Kind::Append; })
             .Case([](AttentionKernelOp) { return Kind::Attention; })
             .Case([](ScoresKernelOp) { return Kind::Scores; })
             .Case([](SoftmaxKernelOp) { return Kind::Softmax; })
             .Case([](ValuesKernelOp) { return Kind::Values; })
             .Case([](MergeKernelOp) { return Kind::Merge; }),
         getRoles(kernel.getReads()), getRoles(kernel.getWrites())});
  return kernels;
}

/// Whether they are the same, whatever the order is in which a kernel lists
/// what it has.
static bool areAlike(std::vector<ProgramKernel> x,
                     std::vector<ProgramKernel> y) {
  for (std::vector<ProgramKernel> *kernels : {&x, &y})
    for (ProgramKernel &kernel : *kernels) {
      llvm::sort(kernel.reads);
      llvm::sort(kernel.writes);
    }
  return x == y;
}

/// The program may have been written by hand, or for another schedule.
static LogicalResult checkProgram(AttentionOp op) {
  if (!op.findProgram())
    return op.emitOpError("has no program; run flashcore-decompose first");
  for (const Branch &branch : getBranches(op)) {
    std::unique_ptr<AttentionSignature> signature;
    if (branch.schedule)
      signature = std::make_unique<AttentionSignature>(op, branch.schedule);
    if (!branch.block || !signature ||
        !areAlike(readKernels(*branch.block),
                  listKernels(signature->getNeeds())))
      return op.emitOpError("has a program of other kernels than its schedule "
                            "asks for; leave the program out, and run "
                            "flashcore-decompose");
    for (auto workspace : branch.block->getOps<WorkspaceOp>()) {
      MemRefType type = signature->getPartType(workspace.getRole());
      if (workspace.getMemref().getType() != type)
        return workspace.emitOpError("expects ")
               << stringifyWorkspaceRole(workspace.getRole()) << " to be "
               << type << ", but got " << workspace.getMemref().getType();
    }
  }
  return success();
}

static KernelProgram getProgram(AttentionOp op, const Branch &branch) {
  auto signature = std::make_shared<AttentionSignature>(op, branch.schedule);
  KernelProgram program{
      getKernelName(op),
      branch.schedule.getChip(),
      signature,
      {signature->getMeanQueries(), branch.leastQueries, branch.mostQueries}};
  if (branch.mostQueries) {
    program.name += "_few_queries";
    // Kernels of both kinds of calls may split their keys.
    signature->nameSize(Dim::KeySplits, "key_splits_few_queries");
  }
  if (branch.schedule.getSplitCount() == fcgpu::SplitCount::Call)
    program.values.push_back({Dim::KeySplits, signature->getKeySplits()});
  for (auto workspace : branch.block->getOps<WorkspaceOp>())
    signature->addToWorkspace(workspace.getRole());
  for (const WorkspacePart &part : signature->getWorkspace())
    program.workspace.push_back(part.getBytes());
  for (auto kernel : branch.block->getOps<AttentionKernelOpInterface>())
    program.kernels.push_back(kernel.getKernel(*signature));
  program.attributes = describeAttributes(op);
  return program;
}

LogicalResult mlir::flashcore::checkSchedules(AttentionOp op) {
  if (!op->hasAttr(fcgpu::kScheduleAttrName))
    return op.emitOpError(
        "has no fcgpu.schedule; run flashcore-configure first");
  AttentionProblem problem = AttentionProblem::get(op);
  for (StringRef name :
       {fcgpu::kScheduleAttrName, fcgpu::kFewQueriesAttrName}) {
    auto schedule = op->getAttrOfType<fcgpu::ScheduleAttr>(name);
    if (!schedule)
      continue;
    const TargetInfo *target = lookupTarget(schedule.getChip());
    if (!target)
      return op.emitOpError("has a schedule for an ")
             << unknownChipMessage(schedule.getChip());
    if (auto error = checkSchedule(problem, *target, schedule.getChoice(),
                                   FieldNames::Attribute))
      return op.emitOpError(*error);
  }
  return checkLowerable(op);
}

namespace {
struct AttentionKernels final
    : KernelOpInterface::ExternalModel<AttentionKernels, AttentionOp> {
  LogicalResult checkKernels(Operation *operation) const {
    auto op = cast<AttentionOp>(operation);
    return failure(failed(checkSchedules(op)) || failed(checkProgram(op)));
  }

  std::vector<KernelProgram> getPrograms(Operation *operation) const {
    auto op = cast<AttentionOp>(operation);
    std::vector<KernelProgram> programs;
    for (const Branch &branch : getBranches(op))
      programs.push_back(getProgram(op, branch));
    return programs;
  }
};
} // namespace

void mlir::flashcore::attachAttentionKernels(MLIRContext *context) {
  AttentionOp::attachInterface<AttentionKernels>(*context);
}
