//===- AttentionProgram.cpp - Which kernels an attention is ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels of an attention in the order in which they run: that of the
// append is in front of the others, which read what it writes, and that of the
// scores behind them, since probabilities need the log-sum-exp of all keys.
//
//===----------------------------------------------------------------------===//

#include "AttentionKernels.h"
#include "KernelOps.h"
#include "ScoreRegion.h"
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h"
#include "flashcore/Schedule/ScheduleCheck.h"
#include "flashcore/Target/TargetInfo.h"

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

static SmallVector<Kernel> getKernels(AttentionOp op,
                                      const AttentionSignature &signature) {
  SmallVector<Kernel> kernels;
  if (op.getKNew())
    kernels.push_back(getAppendKernel(op, signature));
  if (signature.getSchedule().isUnfused()) {
    kernels.push_back(getUnfusedScoresKernel(op, signature));
    kernels.push_back(getSoftmaxKernel(op, signature));
    kernels.push_back(getValuesKernel(op, signature));
  } else {
    kernels.push_back(getAttentionKernel(op, signature));
  }
  if (signature.getKeyParts().isSplit())
    kernels.push_back(getMergeKernel(signature));
  if (op.getScores())
    kernels.push_back(getScoresKernel(op, signature));
  return kernels;
}

static std::string getKernelName(AttentionOp op) {
  std::string type;
  llvm::raw_string_ostream(type) << op.getQueryType().getElementType();
  return "attention_" + type + "_d" + std::to_string(op.getHeadDim()) +
         (op.getCausal() ? "_causal" : "");
}

/// Of calls of at least `leastQueries` query rows a sequence, and at most
/// `mostQueries`: of sequences back to back the mean, rounded up.
static KernelProgram getProgram(AttentionOp op, fcgpu::ScheduleAttr schedule,
                                int64_t leastQueries,
                                std::optional<int64_t> mostQueries) {
  auto signature = std::make_shared<AttentionSignature>(op, schedule);
  KernelProgram program{
      getKernelName(op),
      schedule.getChip(),
      signature,
      {signature->getMeanQueries(), leastQueries, mostQueries}};
  if (mostQueries) {
    program.name += "_few_queries";
    // Kernels of both kinds of calls may split their keys.
    signature->nameSize(Dim::KeySplits, "key_splits_few_queries");
  }
  if (schedule.getSplitCount() == fcgpu::SplitCount::Call)
    program.values.push_back({Dim::KeySplits, signature->getKeySplits()});
  program.workspace = signature->getWorkspace();
  program.kernels = getKernels(op, *signature);
  program.attributes = describeAttributes(op);
  return program;
}

namespace {
struct AttentionKernels final
    : KernelOpInterface::ExternalModel<AttentionKernels, AttentionOp> {
  LogicalResult checkKernels(Operation *operation) const {
    auto op = cast<AttentionOp>(operation);
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

  std::vector<KernelProgram> getPrograms(Operation *operation) const {
    auto op = cast<AttentionOp>(operation);
    auto find = [&](StringRef name) {
      return op->getAttrOfType<fcgpu::ScheduleAttr>(name);
    };
    std::vector<KernelProgram> programs;
    fcgpu::ScheduleAttr general = find(fcgpu::kScheduleAttrName),
                        few = find(fcgpu::kFewQueriesAttrName);
    int64_t most = few ? few.getExpectedQueries() : 0;
    programs.push_back(
        getProgram(op, general, few ? most + 1 : 0, /*mostQueries=*/{}));
    if (few)
      programs.push_back(getProgram(op, few, /*leastQueries=*/0, most));
    return programs;
  }
};
} // namespace

void mlir::flashcore::attachAttentionKernels(MLIRContext *context) {
  AttentionOp::attachInterface<AttentionKernels>(*context);
}
