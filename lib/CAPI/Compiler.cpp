//===- Compiler.cpp - C interface of the compiler -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each compilation has an MLIR context and a thread of its own. What it leaves
// is text: contexts are for one thread, and large.
//
//===----------------------------------------------------------------------===//

#include "flashcore-c/Compiler.h"
#include "Messages.h"
#include "flashcore/Compiler/Compile.h"
#include "flashcore/Compiler/ScheduleOptions.h"
#include "flashcore/Compiler/Shape.h"
#include "flashcore/Schedule/CallClass.h"
#include "flashcore/Support/Bytecode.h"
#include "flashcore/Support/OwnStack.h"
#include "flashcore/Support/ToolInit.h"
#include "flashcore/Target/TargetInfo.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"

#include <dlfcn.h>

using namespace mlir;
using namespace mlir::flashcore;
namespace capi = ::flashcore::capi;

namespace {
struct Options {
  std::vector<std::string> chips;
  ConfigurePassOptions schedule;
  /// For findPtxas; none for no cubins.
  std::optional<std::string> ptxas;
  bool keepPhases = false;
};

/// Of one attention, in the order of chips.
struct Kernels {
  std::string name;
  std::vector<std::string> ptx;
  std::vector<BundleFile> bundle;
};

struct Result {
  std::string warnings, report, explanation;
  std::vector<std::string> chips;
  std::vector<Kernels> attentions;
  std::string input;
  /// Of each chip, from phase 1 on.
  std::vector<std::vector<std::string>> phases;
};
} // namespace

static FlashCoreStatus fromError(llvm::Error error) {
  return error
             ? capi::fail(llvm::json::fixUTF8(llvm::toString(std::move(error))))
             : capi::success();
}

/// Runs `body`, which returns a status, where it finds the same stack and
/// locale whoever calls.
template <typename F> static FlashCoreStatus onOwnStack(F body) {
  FlashCoreStatus status = capi::success();
  if (llvm::Error error = runOnOwnStack([&] { status = capi::guarded(body); }))
    return fromError(std::move(error));
  return status;
}

/// The text at `index`, or "".
static const char *at(const std::vector<std::string> &texts, size_t index) {
  return index < texts.size() ? texts[index].c_str() : "";
}

/// What `get` finds in a compilation; a value of no meaning without one.
template <typename F> static auto read(FlashCoreCompilation handle, F get) {
  static const Result empty;
  const Result *result = capi::unwrap<Result>(handle);
  return get(result ? *result : empty);
}

//===----------------------------------------------------------------------===//
// What there is
//===----------------------------------------------------------------------===//

const char *flashcoreGetVersion(void) {
  static const std::string version = getVersion();
  return version.c_str();
}

size_t flashcoreGetNumChips(void) { return getTargets().size(); }

const char *flashcoreGetChip(size_t index) {
  return index < getTargets().size() ? getTargets()[index].chip.data() : "";
}

const char *flashcoreGetChipFor(const char *device,
                                int64_t sharedMemoryPerBlock, size_t rank) {
  if (!device)
    return "";
  std::optional<int64_t> limit;
  if (sharedMemoryPerBlock)
    limit = sharedMemoryPerBlock;
  std::vector<const TargetInfo *> targets = findTargetsFor(device, limit);
  return rank < targets.size() ? targets[rank]->chip.data() : "";
}

const char *flashcoreGetCallClass(const char *chip, int64_t heads,
                                  int64_t seqlenQ, int64_t seqlenK,
                                  int64_t numSMs) {
  const TargetInfo *target = chip ? lookupTarget(chip) : nullptr;
  if (!target)
    return "";
  return fcgpu::stringifyExpectedGrid(
             getCallClass(*target, heads, seqlenQ, seqlenK, numSMs))
      .data();
}

const char *flashcoreGetCallClassAt(const char *chip, size_t index) {
  const TargetInfo *target = chip ? lookupTarget(chip) : nullptr;
  if (!target || index >= getCallClasses(*target).size())
    return "";
  return fcgpu::stringifyExpectedGrid(getCallClasses(*target)[index].grid)
      .data();
}

int64_t flashcoreGetCallSplits(const char *chip, int64_t batch, int64_t headsQ,
                               int64_t headsKV, int64_t seqlenQ,
                               int64_t seqlenK, int64_t numSMs) {
  const TargetInfo *target = chip ? lookupTarget(chip) : nullptr;
  if (!target)
    return 1;
  AttentionProblem call;
  call.batch = batch;
  call.headsQ = headsQ;
  call.headsKV = headsKV;
  call.seqlenQ = seqlenQ;
  call.seqlenK = seqlenK;
  return getCallSplits(*target, call, numSMs);
}

int64_t flashcoreGetCallSplitsAt(const char *chip, size_t index) {
  const TargetInfo *target = chip ? lookupTarget(chip) : nullptr;
  if (!target || index >= getKnownSplits(*target).size())
    return 0;
  return getKnownSplits(*target)[index];
}

/// ptxas may lie beside this library, as beside the executable of a tool.
static std::string getLibraryPath() {
  Dl_info info;
  SmallString<128> path;
  if (!dladdr(reinterpret_cast<void *>(&flashcoreGetVersion), &info) ||
      llvm::sys::fs::real_path(info.dli_fname, path))
    return {};
  return std::string(path);
}

FlashCoreStatus flashcoreFindPtxas(const char *path, FlashCoreString *found) {
  if (found)
    found->ptr = nullptr;
  return capi::guarded([&] {
    if (!path || !found)
      return capi::nullError(path ? "a place for the path" : "a path or \"\"");
    llvm::Expected<std::string> ptxas = findPtxas(path, getLibraryPath());
    if (!ptxas)
      return fromError(ptxas.takeError());
    *found = capi::wrapString(std::move(*ptxas));
    return capi::success();
  });
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

FlashCoreStatus
flashcoreCompileOptionsCreate(FlashCoreCompileOptions *options) {
  if (!options)
    return capi::nullError("a place for the options");
  options->ptr = nullptr;
  return capi::guarded([&] {
    options->ptr = new Options();
    return capi::success();
  });
}

void flashcoreCompileOptionsDestroy(FlashCoreCompileOptions options) {
  delete capi::unwrap<Options>(options);
}

/// Runs `body` on the options.
template <typename F>
static FlashCoreStatus change(FlashCoreCompileOptions handle, F body) {
  return capi::with<Options>(handle, "options", body);
}

FlashCoreStatus flashcoreCompileOptionsSetChips(FlashCoreCompileOptions options,
                                                const char *chips) {
  return change(options, [&](Options &object) {
    if (!chips)
      return capi::nullError("names of chips");
    SmallVector<StringRef> names;
    StringRef(chips).split(names, ',');
    auto ordered =
        orderChips(std::vector<std::string>(names.begin(), names.end()));
    if (!ordered)
      return fromError(ordered.takeError());
    object.chips = std::move(*ordered);
    return capi::success();
  });
}

FlashCoreStatus
flashcoreCompileOptionsSetSchedule(FlashCoreCompileOptions options,
                                   const char *name, const char *value) {
  return change(options, [&](Options &object) {
    if (!name || !value)
      return capi::nullError("the name and the value of a schedule option");
    return fromError(setScheduleOption(object.schedule, name, value));
  });
}

FlashCoreStatus flashcoreCompileOptionsSetPtxas(FlashCoreCompileOptions options,
                                                const char *path) {
  return change(options, [&](Options &object) {
    object.ptxas.reset();
    if (path)
      object.ptxas = path;
    return capi::success();
  });
}

FlashCoreStatus
flashcoreCompileOptionsSetKeepPhases(FlashCoreCompileOptions options,
                                     bool keep) {
  return change(options, [&](Options &object) {
    object.keepPhases = keep;
    return capi::success();
  });
}

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

FlashCoreStatus flashcoreWriteShape(const char *words, FlashCoreString *mlir) {
  if (mlir)
    mlir->ptr = nullptr;
  return capi::guarded([&] {
    if (!words || !mlir)
      return capi::nullError(words ? "a place for the module"
                                   : "the words of a shape, which may be none");
    return onOwnStack([&]() -> FlashCoreStatus {
      llvm::Expected<Shape> shape = parseShape(words);
      if (!shape)
        return fromError(shape.takeError());
      *mlir = capi::wrapString(writeShape(*shape));
      return capi::success();
    });
  });
}

/// That of a text which lives as long as the library, among all there are.
static const char *lasting(StringRef text) {
  for (const char *each :
       {"f16", "bf16", "f32", "none", "bottom_right", "top_left", "scaled",
        "capped", "changed", "masked", "probabilities", "interleaved", "half"})
    if (text == each)
      return each;
  return "";
}

static double toDouble(const std::optional<float> &value) {
  double number = 0;
  if (value)
    (void)StringRef(shortestText(*value)).getAsDouble(number);
  return number;
}

static FlashCoreShape toC(const Shape &shape) {
  static_assert(Shape::Dynamic == -1, "as the header says");
  auto of = [&](StringRef name) {
    const Shape::Operand *operand = shape.find(name);
    return operand ? *operand : Shape::Operand();
  };
  Shape::Operand bias = of("bias");
  std::string blockAxes = shape.getBlockAxes();
  FlashCoreShape result = {shape.batch,
                           shape.headsQ,
                           shape.headsKV,
                           shape.seqlenQ,
                           shape.seqlenK,
                           shape.headDim,
                           shape.headDimV,
                           shape.windowLeft.value_or(-1),
                           shape.windowRight.value_or(-1),
                           toDouble(shape.softcap),
                           toDouble(shape.scale),
                           toDouble(shape.dropout),
                           lasting(shape.type),
                           lasting(shape.causal.value_or("none")),
                           stringifyLayout(shape.layout),
                           {},
                           lasting(bias.type),
                           shape.has("lse"),
                           lasting(shape.scoresStage),
                           lasting(of("scores").type),
                           shape.findSize("seqlen_new").value_or(0),
                           shape.getRotaryDim(),
                           lasting(shape.rotaryStyle),
                           blockAxes.empty() ? 0 : shape.blockQueries,
                           blockAxes.empty() ? 0 : shape.blockKeys,
                           {}};
  bias.axes.copy(result.biasAxes, sizeof result.biasAxes - 1);
  blockAxes.copy(result.blockAxes, sizeof result.blockAxes - 1);
  return result;
}

FlashCoreStatus flashcoreReadShape(const char *words, FlashCoreShape *shape) {
  if (shape)
    *shape = {};
  return capi::guarded([&] {
    if (!words || !shape)
      return capi::nullError(words ? "a place for the shape"
                                   : "the words of a shape, which may be none");
    return onOwnStack([&]() -> FlashCoreStatus {
      llvm::Expected<Shape> parsed = parseShape(words);
      if (!parsed)
        return fromError(parsed.takeError());
      *shape = toC(*parsed);
      return capi::success();
    });
  });
}

FlashCoreStatus flashcoreDescribeShape(const char *words,
                                       FlashCoreString *json) {
  if (json)
    json->ptr = nullptr;
  return capi::guarded([&] {
    if (!words || !json)
      return capi::nullError(words ? "a place for the description"
                                   : "the words of a shape, which may be none");
    return onOwnStack([&]() -> FlashCoreStatus {
      llvm::Expected<Shape> shape = parseShape(words);
      if (!shape)
        return fromError(shape.takeError());
      std::string text;
      llvm::raw_string_ostream(text)
          << llvm::json::Value(describeShape(*shape));
      *json = capi::wrapString(std::move(text));
      return capi::success();
    });
  });
}

/// Null after an error.
static OwningOpRef<ModuleOp> parse(StringRef text, StringRef name,
                                   MLIRContext &context, Messages &messages) {
  // A library does not fork the process that it is in.
  if (isBytecode(text)) {
    messages.addError((name + ": expects MLIR as text, but got bytecode, which "
                              "may crash the process that reads it; make text "
                              "of it with flashcore-opt")
                          .str());
    return nullptr;
  }
  if (std::optional<std::string> error = checkNesting(text)) {
    messages.addError((name + ":" + *error).str());
    return nullptr;
  }
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text, name),
                             llvm::SMLoc());
  return parseSourceFile<ModuleOp>(sources, &context);
}

static CompileRequest makeRequest(const Options &options, Messages &messages,
                                  Result &result) {
  CompileRequest request;
  request.chips = options.chips;
  request.schedule = options.schedule;
  if (options.ptxas) {
    request.stage = CompileStage::Cubin;
    request.ptxas = *options.ptxas;
    request.programPath = getLibraryPath();
  }
  request.onError = [&](llvm::Error error) {
    messages.addError(llvm::toString(std::move(error)));
  };
  if (options.keepPhases)
    request.onPhase = [&](ModuleOp module, unsigned phase, StringRef) {
      if (phase == 1) // chips come one after the other
        result.phases.emplace_back();
      llvm::raw_string_ostream(phase == 0 ? result.input
                                          : result.phases.back().emplace_back())
          << module << "\n";
      return llvm::Error::success();
    };
  return request;
}

static Kernels getKernels(const CompiledAttention &attention) {
  Kernels kernels;
  kernels.name = llvm::json::fixUTF8(attention.name);
  for (const BundleVariant &variant : attention.variants)
    kernels.ptx.push_back(variant.ptx);
  kernels.bundle = makeBundle(attention.variants);
  return kernels;
}

static void fill(Result &result, const Compilation &compilation) {
  result.chips = compilation.chips;
  result.report = makeReport(compilation);
  std::string text;
  llvm::raw_string_ostream explanation(text);
  for (auto [number, attention] : llvm::enumerate(compilation.attentions)) {
    result.attentions.push_back(getKernels(attention));
    for (size_t chip = 0; chip < compilation.chips.size(); ++chip)
      explain(explanation, compilation, number, chip);
  }
  result.explanation = llvm::json::fixUTF8(text);
}

static FlashCoreStatus compileText(StringRef text, StringRef name,
                                   const Options &options, Result &result) {
  Messages messages(name);
  std::unique_ptr<MLIRContext> context = createCompilerContext();
  ScopedDiagnosticHandler handler(
      context.get(), [&](Diagnostic &diagnostic) { messages.add(diagnostic); });
  OwningOpRef<ModuleOp> module = parse(text, name, *context, messages);
  if (!module)
    return messages.getFailure();
  FailureOr<Compilation> compilation =
      compile(*module, makeRequest(options, messages, result));
  if (failed(compilation))
    return messages.getFailure();
  fill(result, *compilation);
  result.warnings = llvm::json::fixUTF8(messages.getWarnings());
  return capi::success();
}

FlashCoreStatus flashcoreCompile(const char *module, size_t length,
                                 const char *name,
                                 FlashCoreCompileOptions options,
                                 FlashCoreCompilation *compilation) {
  if (compilation)
    compilation->ptr = nullptr;
  return capi::guarded([&] {
    if (!module || !name || !compilation)
      return capi::nullError(!module ? "the text of a module"
                             : !name ? "a name for the module"
                                     : "a place for the compilation");
    static const Options defaults;
    const Options *chosen = capi::unwrap<Options>(options);
    auto result = std::make_unique<Result>();
    FlashCoreStatus status = onOwnStack([&] {
      return compileText(StringRef(module, length), name,
                         chosen ? *chosen : defaults, *result);
    });
    if (flashcoreStatusIsSuccess(status))
      compilation->ptr = result.release();
    return status;
  });
}

void flashcoreCompilationDestroy(FlashCoreCompilation compilation) {
  delete capi::unwrap<Result>(compilation);
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

const char *flashcoreCompilationGetWarnings(FlashCoreCompilation compilation) {
  return read(compilation,
              [](const Result &result) { return result.warnings.c_str(); });
}
const char *flashcoreCompilationGetReport(FlashCoreCompilation compilation) {
  return read(compilation,
              [](const Result &result) { return result.report.c_str(); });
}
const char *
flashcoreCompilationGetExplanation(FlashCoreCompilation compilation) {
  return read(compilation,
              [](const Result &result) { return result.explanation.c_str(); });
}

size_t flashcoreCompilationGetNumAttentions(FlashCoreCompilation compilation) {
  return read(compilation,
              [](const Result &result) { return result.attentions.size(); });
}
const char *flashcoreCompilationGetName(FlashCoreCompilation compilation,
                                        size_t attention) {
  return read(compilation, [&](const Result &result) {
    return attention < result.attentions.size()
               ? result.attentions[attention].name.c_str()
               : "";
  });
}
size_t flashcoreCompilationGetNumChips(FlashCoreCompilation compilation) {
  return read(compilation,
              [](const Result &result) { return result.chips.size(); });
}
const char *flashcoreCompilationGetChip(FlashCoreCompilation compilation,
                                        size_t chip) {
  return read(compilation,
              [&](const Result &result) { return at(result.chips, chip); });
}
const char *flashcoreCompilationGetPtx(FlashCoreCompilation compilation,
                                       size_t attention, size_t chip) {
  return read(compilation, [&](const Result &result) {
    return attention < result.attentions.size()
               ? at(result.attentions[attention].ptx, chip)
               : "";
  });
}
const char *flashcoreCompilationGetPhase(FlashCoreCompilation compilation,
                                         size_t chip, size_t phase) {
  return read(compilation, [&](const Result &result) {
    if (chip >= result.chips.size())
      return "";
    if (phase == 0)
      return result.input.c_str();
    return chip < result.phases.size() ? at(result.phases[chip], phase - 1)
                                       : "";
  });
}

FlashCoreStatus
flashcoreCompilationWriteBundle(FlashCoreCompilation compilation,
                                size_t attention, const char *path) {
  return capi::with<Result>(
      compilation, "a compilation", [&](const Result &result) {
        if (!path)
          return capi::nullError("a path for the bundle");
        if (attention >= result.attentions.size())
          return capi::fail(
              "expects one of " + std::to_string(result.attentions.size()) +
              " attentions, but got " + std::to_string(attention));
        return fromError(
            writeBundleFiles(path, result.attentions[attention].bundle));
      });
}
