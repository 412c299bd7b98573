//===- Configure.cpp - Phase 1: choose a schedule -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the shapes of each attention, asks chooseSchedule, and writes the
// answer onto the op. Also the gate for what the op can say and no phase lowers
// yet.
//
//===----------------------------------------------------------------------===//

#include "ScoreRegion.h"
#include "SharedViews.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "flashcore/Dialect/FlashCore/IR/Overlaps.h"
#include "flashcore/Dialect/FlashCore/Transforms/GPUTarget.h"
#include "flashcore/Dialect/FlashCore/Transforms/KernelOpInterface.h"
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h"
#include "flashcore/Schedule/NamedSchedules.h"
#include "flashcore/Schedule/OpenSizes.h"
#include "flashcore/Schedule/ScheduleCheck.h"
#include "flashcore/Schedule/ScoresChoice.h"
#include "flashcore/Schedule/TuningFile.h"

namespace mlir::flashcore {
#define GEN_PASS_DEF_CONFIGUREPASS
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h.inc"
} // namespace mlir::flashcore

using namespace mlir;
using namespace mlir::flashcore;

/// What marks the errors of checkLowerable; it is not printed.
static constexpr StringLiteral kUnsupported = "flashcore.unsupported";

InFlightDiagnostic mlir::flashcore::emitUnsupported(Operation *op) {
  InFlightDiagnostic error = op->emitOpError();
  if (Diagnostic *diagnostic = error.getUnderlyingDiagnostic())
    diagnostic->getMetadata().emplace_back(kUnsupported);
  return error;
}

bool mlir::flashcore::isUnsupported(Diagnostic &diagnostic) {
  return llvm::any_of(
      diagnostic.getMetadata(), [](const DiagnosticArgument &argument) {
        return argument.getKind() ==
                   DiagnosticArgument::DiagnosticArgumentKind::String &&
               argument.getAsString() == kUnsupported;
      });
}

/// That it has elements, which numbers of rows may not say, in global memory.
static LogicalResult checkOperand(AttentionOp op, const OperandInfo &row,
                                  Value value) {
  auto type = cast<ShapedType>(value.getType());
  bool hasRows = row.elements != OperandInfo::Elements::I32;
  for (auto [axis, size] : llvm::zip_equal(row.getAxes(), type.getShape()))
    if (size == 0 && hasRows)
      return emitUnsupported(op)
             << "has a " << row.name << " of "
             << OperandInfo::describeAxis(axis)
             << " 0: there is nothing to compute; sizes that may be 0 must "
                "be dynamic";
  auto memref = dyn_cast<MemRefType>(type);
  if (memref && !isGlobalMemory(memref.getMemorySpace()))
    return emitUnsupported(op)
           << "has " << row.name << " in memory space "
           << memref.getMemorySpace()
           << ", but this version lowers global memory only: the default "
              "space, #gpu.address_space<global> or 1";
  return success();
}

LogicalResult mlir::flashcore::checkColumns(Operation *op, int64_t headDim,
                                            int64_t headDimV) {
  constexpr int64_t most = 256;
  for (auto [name, dim] :
       {std::pair("head_dim", headDim), {"head_dim_v", headDimV}})
    if (dim > most)
      return emitUnsupported(op) << "has " << name << " " << dim
                                 << ", but this version lowers 1 to " << most;
  return success();
}

LogicalResult mlir::flashcore::checkLowerable(AttentionOp op) {
  if (auto pair = findUnloweredPair(op))
    return emitUnsupported(op)
           << "uses " << pair->first << " with " << pair->second
           << ", which this version cannot lower yet";
  if (failed(checkRegions(op)))
    return failure();
  for (auto [row, value] : listOperands(op))
    if (failed(checkOperand(op, row, value)))
      return failure();
  if (failed(checkColumns(op, op.getHeadDim(), op.getHeadDimV())))
    return failure();
  if (!op.getScores())
    return success();
  AttentionProblem problem = AttentionProblem::get(op);
  if (auto error = checkScoresGrid(problem, chooseScoresSchedule(problem, {})))
    return op.emitOpError(*error);
  return success();
}

static std::optional<std::string> parseOption(StringRef, int64_t value,
                                              int64_t &field) {
  field = value;
  return std::nullopt;
}

template <typename Enum>
static std::optional<std::string> parseOption(StringRef name, StringRef text,
                                              std::optional<Enum> &field) {
  if (!text.empty() && !(field = fcgpu::symbolizeEnum<Enum>(text)))
    return ("expects " + name + " to be " +
            fcgpu::joinWords(fcgpu::getWords<Enum>()) + ", but got '" + text +
            "'")
        .str();
  return std::nullopt;
}

std::variant<ScheduleOptions, std::string>
mlir::flashcore::getScheduleOptions(const ConfigurePassOptions &options) {
  ScheduleOptions result;
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  if (auto error = parseOption(option, options.name, result.name))             \
    return *error;
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
  if (!options.schedule.empty())
    if (auto error = applyNamedSchedule(options.schedule, result))
      return *error;
  return result;
}

namespace {
struct ConfigurePass final
    : mlir::flashcore::impl::ConfigurePassBase<ConfigurePass> {
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  std::string name##Help = fcgpu::describeOption<Type>(text) +                 \
                           (std::is_enum_v<Type> ? "; empty" : "; 0") +        \
                           " lets the compiler choose";                        \
  Option<fcgpu::FieldOption<Type>> name{                                       \
      *this, option, llvm::cl::desc(name##Help),                               \
      llvm::cl::init(fcgpu::FieldOption<Type>())};
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"

  void getDependentDialects(DialectRegistry &registry) const override {
    ConfigurePassBase::getDependentDialects(registry);
    // Whoever embeds the pass need not know of it.
    registerKernelOpInterfaceExternalModels(registry);
  }

  ConfigurePass() = default;
  /// The values of options are copied by clone().
  ConfigurePass(const ConfigurePass &other)
      : ConfigurePassBase(other), onSchedule(other.onSchedule) {}
  explicit ConfigurePass(const ConfigurePassOptions &options)
      : ConfigurePassBase(options), onSchedule(options.onSchedule) {
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  name = options.name;
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
  }

  ConfigurePassOptions getOptions() const {
    ConfigurePassOptions options;
    options.chip = chip;
    options.tuningFile = tuningFile;
    options.schedule = schedule;
    options.fewQueries = fewQueries;
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  options.name = name;
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
    return options;
  }

  static std::optional<ScheduleChoice> getFew(AttentionOp op) {
    auto few =
        op->getAttrOfType<fcgpu::ScheduleAttr>(fcgpu::kFewQueriesAttrName);
    return few ? std::optional(few.getChoice()) : std::nullopt;
  }

  /// The schedule for calls of few queries.
  LogicalResult addFewQueries(AttentionOp op, const AttentionProblem &problem,
                              const TargetInfo &target,
                              ScheduleOptions options) {
    options.expectedQueries = fewQueries;
    ScheduleResult result = chooseSchedule(problem, target, options);
    if (auto *error = std::get_if<std::string>(&result))
      return op.emitOpError()
             << *error << " (for few-queries = " << fewQueries.getValue()
             << ")";
    op->setAttr(
        fcgpu::kFewQueriesAttrName,
        fcgpu::ScheduleAttr::get(&getContext(), target.chip,
                                 std::get<ScheduleDecision>(result).choice));
    return success();
  }

  LogicalResult configure(AttentionOp op, const TargetInfo &target,
                          const ScheduleOptions &options,
                          const TuningFile *tuning) {
    if (failed(checkLowerable(op)) ||
        failed(checkOutputsApart(op, shareElements)))
      return failure();
    warnOfSwappedAxes(op);
    auto problem = AttentionProblem::get(op);
    if (auto schedule =
            op->getAttrOfType<fcgpu::ScheduleAttr>(fcgpu::kScheduleAttrName)) {
      if (schedule.getChip() != target.chip)
        return op.emitOpError("has a schedule for ")
               << schedule.getChip() << ", but the target is " << target.chip;
      if (auto error = checkSchedule(problem, target, schedule.getChoice(),
                                     FieldNames::Attribute))
        return op.emitOpError(*error);
      if (onSchedule)
        onSchedule(op, {{schedule.getChoice(), {}}, {}, {}, getFew(op)});
      return success();
    }
    if (auto error = checkSupported(problem, target))
      return emitUnsupported(op) << *error;
    auto choose = [&](const AttentionProblem &problem) {
      return tuning ? chooseTunedSchedule(problem, target, options, *tuning)
                    : TunedChoice{chooseSchedule(problem, target, options), ""};
    };
    if (fewQueries && !problem.seqlenQ &&
        failed(addFewQueries(op, problem, target, options)))
      return failure();
    auto [result, refusal] = choose(problem);
    if (!refusal.empty())
      op.emitRemark(refusal);
    if (auto *error = std::get_if<std::string>(&result))
      return op.emitOpError(*error);
    auto &decision = std::get<ScheduleDecision>(result);
    op->setAttr(
        fcgpu::kScheduleAttrName,
        fcgpu::ScheduleAttr::get(&getContext(), target.chip, decision.choice));
    ++numConfigured;
    if (onSchedule) {
      auto openSizes = describeOpenSizes(
          problem, decision.choice,
          [&](const AttentionProblem &other) { return choose(other).result; });
      auto callClasses = describeCallClasses(
          problem, target, decision.choice, [&](fcgpu::ExpectedGrid grid) {
            ScheduleOptions ofClass = options;
            ofClass.expectedGrid = grid;
            return chooseSchedule(problem, target, ofClass);
          });
      onSchedule(op, {std::move(decision), std::move(openSizes),
                      std::move(callClasses), getFew(op)});
    }
    return success();
  }

  /// Of an op that has no schedule the chip alone.
  LogicalResult configure(KernelOpInterface op, const TargetInfo &target) {
    auto chip = op->getAttrOfType<StringAttr>(fcgpu::kChipAttrName);
    if (chip && chip != target.chip)
      return op->emitOpError("is for ")
             << chip.getValue() << ", but the target is " << target.chip;
    if (auto onHost = dyn_cast<HostOpInterface>(op.getOperation()))
      if (failed(checkOutputsApart(onHost, shareElements)))
        return failure();
    op->setAttr(fcgpu::kChipAttrName,
                StringAttr::get(&getContext(), target.chip));
    return success();
  }

  void runOnOperation() override {
    FailureOr<std::string> name = findChip(getOperation(), chip);
    if (failed(name))
      return signalPassFailure();
    const TargetInfo *target = lookupTarget(*name);
    auto parsed = getScheduleOptions(getOptions());
    if (auto *error = std::get_if<std::string>(&parsed)) {
      emitError(getOperation()->getLoc()) << *error;
      return signalPassFailure();
    }
    const auto &options = std::get<ScheduleOptions>(parsed);
    std::optional<TuningFile> tuning;
    if (!tuningFile.empty()) {
      llvm::Expected<TuningFile> read = TuningFile::read(tuningFile);
      if (!read) {
        emitError(getOperation()->getLoc()) << llvm::toString(read.takeError());
        return signalPassFailure();
      }
      tuning = std::move(*read);
    }
    if (fewQueries < 0 || fewQueries > fcgpu::kMaxRows) {
      emitError(getOperation()->getLoc())
          << "expects few-queries from 0 to " << fcgpu::kMaxRows << ", but got "
          << fewQueries.getValue();
      return signalPassFailure();
    }
    bool anyFailed = false;
    getOperation()->walk([&](AttentionOp op) {
      anyFailed |=
          failed(configure(op, *target, options, tuning ? &*tuning : nullptr));
    });
    getOperation()->walk([&](KernelOpInterface op) {
      if (!isa<AttentionOp>(op))
        anyFailed |= failed(configure(op, *target));
    });
    if (anyFailed)
      signalPassFailure();
  }

  std::function<void(AttentionOp, ScheduleReport)> onSchedule;
};
} // namespace
