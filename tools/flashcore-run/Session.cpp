//===- Session.cpp - Running bundles one after another --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each run has fresh tensors; bundles stay loaded, since the driver's assembler
// takes longer than most runs.
//
//===----------------------------------------------------------------------===//

#include "Session.h"

#include "Layout.h"

#include "flashcore/Runtime/BlockLists.h"
#include "flashcore/Runtime/CudaDevice.h"

using namespace flashcore;
using namespace flashcore::run;

/// Query and key rows of stage "tile": the smallest tile of the tensor cores.
static constexpr int64_t tileRows = 16;

StatusOr<std::unique_ptr<Device>>
flashcore::run::openDevice(const std::string &kind,
                           const EmulatorOptions &options) {
  if (kind == "emulator")
    return createEmulatorDevice(options);
  StatusOr<std::unique_ptr<Device>> cuda = createCudaDevice();
  // Without a GPU the emulator stands in, unless a GPU was asked for.
  if (kind == "auto" && !cuda.ok() && cuda.status().isNoDevice())
    return createEmulatorDevice(options);
  if (cuda.ok() && !options.empty())
    return Status::error("expects --emu-" + options.begin()->first +
                         " only with the emulator, but runs on " +
                         (*cuda)->info().name)
        .note("add --device=emulator");
  return cuda;
}

Status Session::open() {
  if (device)
    return Status::success();
  StatusOr<std::unique_ptr<Device>> opened = factory();
  if (!opened.ok())
    return opened.status();
  device = std::move(*opened);
  return Status::success();
}

void Session::reset() {
  bundles.clear();
  device.reset();
}

StatusOr<Session::LoadedBundle *>
Session::loadModule(const std::filesystem::path &path) {
  LoadedBundle &loaded = bundles[path];
  if (loaded.module)
    return &loaded;
  StatusOr<std::vector<Bundle>> variants = Bundle::loadVariants(path);
  if (!variants.ok())
    return variants.status();
  loaded.variants = std::move(*variants);
  StatusOr<LoadedVariant> best = device->loadBest(loaded.variants);
  if (!best.ok())
    return best.status();
  loaded.bundle = &loaded.variants[best->variant];
  loaded.module = std::move(best->module);
  return &loaded;
}

using Dims = std::map<std::string, int64_t, std::less<>>;

/// Turns seqlen_k, which an attention of pages has not, into pages for as many
/// keys.
static Status takeSeqlenK(const Bundle &bundle, Dims &dims) {
  auto seqlenK = dims.find("seqlen_k");
  if (!bundle.isPaged() || seqlenK == dims.end())
    return Status::success();
  int64_t keys = seqlenK->second;
  int64_t pageSize = *bundle.sizes.find(PageSizeDim)->second;
  int64_t pages = keys / pageSize + (keys % pageSize != 0);
  auto [known, isNew] =
      dims.try_emplace(std::string(PagesPerSequenceDim), pages);
  if (known->second != pages)
    return Status::error("expects pages_per_sequence " + std::to_string(pages) +
                         " for seqlen_k " + std::to_string(keys) +
                         " in pages of " + std::to_string(pageSize) +
                         ", but got " + std::to_string(known->second))
        .note("give one of --seqlen-k and --pages-per-sequence");
  dims.erase(seqlenK);
  return Status::success();
}

/// As many pages as page_table has entries, where nothing says how many. The
/// other sizes are known.
static void choosePages(const Bundle &bundle, Dims &dims) {
  auto sizeOf = [&](std::string_view name) {
    auto fixed = bundle.sizes.find(name)->second;
    return fixed ? *fixed : dims.find(name)->second;
  };
  if (!bundle.isPaged() || bundle.sizes.find(PagesDim)->second)
    return;
  int64_t rows = bundle.hasCuSeqlens()
                     ? std::max<int64_t>(sizeOf(CuSeqlensDim) - 1, 0)
                     : sizeOf("batch");
  int64_t pages = 0;
  if (__builtin_mul_overflow(rows, sizeOf(PagesPerSequenceDim), &pages))
    pages = INT64_MAX; // which the span of k refuses
  dims.try_emplace(std::string(PagesDim), pages);
}

/// As many positions as there may be keys or queries, where nothing says how
/// many. The other sizes are known.
static void choosePositions(const Bundle &bundle, Dims &dims) {
  auto known = bundle.sizes.find(PositionsDim);
  if (known == bundle.sizes.end() || known->second || !bundle.parts.empty())
    return;
  // An append may have no queries.
  auto sizeOf = [&](std::string_view name) {
    auto size = bundle.sizes.find(name);
    if (size == bundle.sizes.end())
      return int64_t(0);
    return size->second ? *size->second : dims.find(name)->second;
  };
  int64_t keys = 0;
  if (!bundle.isPaged())
    keys = sizeOf("seqlen_k");
  else if (__builtin_mul_overflow(sizeOf(PageSizeDim),
                                  sizeOf(PagesPerSequenceDim), &keys))
    keys = INT64_MAX; // which Problem refuses
  dims.try_emplace(std::string(PositionsDim),
                   std::max({keys, sizeOf("seqlen_q"), int64_t(1)}));
}

/// Names all sizes that are missing at once. Others follow from those.
static Status verifySizes(const Bundle &bundle, const ProblemRequest &problem) {
  std::string missing, sequences = bundle.sequencesDim();
  auto isChosen = [&](const std::string &name) {
    return bundle.parts.empty() &&
           (name == sequences || name == PagesDim || name == PositionsDim ||
            name == QueryBlocksDim || name == KeyBlocksDim);
  };
  for (const auto &[name, size] : bundle.sizes)
    if (!size && !problem.dims.contains(name) && !isChosen(name))
      missing += (missing.empty() ? "" : ", ") + name;
  if (missing.empty())
    return Status::success();
  return Status::error("expects sizes that the bundle leaves open, but got "
                       "none for " +
                       missing)
      .note("give them as --batch, --seqlen-q and so on, any as --dim=NAME=N, "
            "by .npy files of the inputs, or in the dims of an entry of a "
            "grid");
}

StatusOr<Problem> Session::createProblem(const Bundle &bundle,
                                         const RunRequest &request) {
  ProblemRequest problem = request.problem;
  problem.layout = request.layout.value_or(defaultLayout(bundle));
  if (request.isTile)
    problem.dims["seqlen_q"] = problem.dims["seqlen_k"] = tileRows;
  if (Status status = takeSeqlenK(bundle, problem.dims); !status.ok())
    return status;
  if (Status status = files.takeSizes(bundle, request.inputFiles, request.npy,
                                      problem.dims);
      !status.ok())
    return status;
  if (Status status = verifySizes(bundle, problem); !status.ok())
    return status;
  choosePages(bundle, problem.dims);
  choosePositions(bundle, problem.dims);
  return Problem::create(bundle, problem);
}

/// Checks what the problem alone does not.
static Status verifyRequest(const Problem &problem, const RunRequest &request) {
  for (const auto &[name, file] : request.outputFiles)
    if (!problem.findTensor(name))
      return Status::error("expects a bundle with the output '" + name +
                           "' to write to " + file.string() +
                           ", but got one without");
  return verifyStage(problem, request.stage);
}

Status Session::validate(const RunRequest &request) {
  // Which variant will run is not known yet, nor does it matter here.
  StatusOr<Bundle> bundle = Bundle::load(request.bundle);
  if (!bundle.ok())
    return bundle.status();
  StatusOr<Problem> problem = createProblem(*bundle, request);
  if (!problem.ok())
    return problem.status();
  return verifyRequest(*problem, request);
}

Status Session::fillInputs(const RunRequest &request, uint64_t number,
                           TensorSet &set, std::vector<std::string> &notes) {
  if (Status status =
          set.fillInputs(request.seed + number, request.kind, request.stage);
      !status.ok())
    return status;
  if (Status status = files.read(request.inputFiles, request.npy, set, notes);
      !status.ok())
    return status;
  if (!set.problem().bundle().parts.empty())
    return Status::success();
  // Those of other sequences may not fit those of a file.
  if (set.findTensor(operand::SequsedK) &&
      request.inputFiles.contains(std::string(operand::CuSeqlensK)) &&
      !request.inputFiles.contains(std::string(operand::SequsedK)))
    fillSequsedK(set, request.seed + number);
  // Nor those of other masks.
  auto isList = [](const auto &input) { return isBlockList(input.first); };
  if (set.problem().bundle().hasBlocks() && !request.inputFiles.empty() &&
      std::none_of(request.inputFiles.begin(), request.inputFiles.end(),
                   isList))
    fillBlocks(set, request.seed + number, request.kind);
  return Status::success();
}

Status Session::runAndCheck(LoadedBundle &loaded, const Problem &problem,
                            RunResult &result) {
  const RunRequest &request = result.request;
  StatusOr<TensorSet> set = TensorSet::create(problem);
  if (!set.ok())
    return set.status();
  if (Status status = fillInputs(request, 0, *set, result.notes); !status.ok())
    return status;
  if (Status status = runOnce(*device, *loaded.module, *set); !status.ok())
    return status;
  for (const auto &[name, file] : request.outputFiles) {
    if (Status status = writeTensor(file, set->tensor(name), request.npy);
        !status.ok())
      return status;
  }
  if (!request.check)
    return Status::success();
  // What files say is the caller's, who may mean it.
  if (problem.bundle().hasBlocks() &&
      request.inputFiles.contains(std::string(operand::BlockIndices)))
    if (Status status = compareBlocksWithMask(set->inputs()); !status.ok())
      result.notes.push_back("the lists of blocks are not those of the mask: " +
                             status.message());
  StatusOr<CheckReport> report = checkOutputs(*set, request.stage);
  if (!report.ok())
    return report.status();
  result.check = *report;
  return Status::success();
}

Status Session::runLoaded(LoadedBundle &loaded, const Problem &problem,
                          RunResult &result) {
  const RunRequest &request = result.request;
  bool mustRun = request.check || !request.outputFiles.empty() || !request.time;
  if (mustRun)
    if (Status status = runAndCheck(loaded, problem, result); !status.ok())
      return status;
  if (!request.time)
    return Status::success();
  double flops = 0, sets = 0;
  auto fill = [&](TensorSet &set, uint64_t number) {
    Status status = fillInputs(request, number, set, result.notes);
    // Each set has lengths of its own.
    flops += status.ok() ? countFlops(set) : 0;
    ++sets;
    return status;
  };
  StatusOr<Timing> timing =
      timeProblem(*device, *loaded.module, problem, fill, {});
  if (!timing.ok())
    return timing.status();
  result.timing = *timing;
  result.flops = flops / sets;
  return Status::success();
}

StatusOr<LaunchOverhead> Session::measureOverhead(const RunRequest &request) {
  StatusOr<LoadedBundle *> loaded = loadModule(request.bundle);
  if (!loaded.ok())
    return loaded.status();
  StatusOr<Problem> problem = createProblem(*(*loaded)->bundle, request);
  if (!problem.ok())
    return problem.status();
  StatusOr<TensorSet> set = TensorSet::create(*problem);
  if (!set.ok())
    return set.status();
  std::vector<std::string> notes; // of conversions, which cost no launch
  if (Status status = fillInputs(request, 0, *set, notes); !status.ok())
    return status;
  if (Status status = set->upload(*device); !status.ok())
    return status;
  StatusOr<std::vector<KernelLaunch>> launches = set->launches(*device);
  if (!launches.ok())
    return launches.status();
  LaunchOverhead total;
  for (const KernelLaunch &launch : *launches) {
    StatusOr<LaunchOverhead> overhead =
        device->measureOverhead(*(*loaded)->module, launch);
    if (!overhead.ok())
      return overhead.status();
    total.driver += overhead->driver;
    total.runtime += overhead->runtime;
  }
  return total;
}

RunResult Session::run(const RunRequest &request) {
  RunResult result;
  result.request = request;
  result.status = open();
  if (!result.status.ok())
    return result;
  result.device = device->info().name;

  StatusOr<LoadedBundle *> loaded = loadModule(request.bundle);
  if (!loaded.ok()) {
    result.status = loaded.status();
    return result;
  }
  result.code = (*loaded)->module->code();
  result.kernels = (*loaded)->module->kernels();
  if (const std::string &warning = (*loaded)->module->warning();
      !warning.empty())
    result.notes.push_back(warning);

  StatusOr<Problem> problem = createProblem(*(*loaded)->bundle, request);
  if (!problem.ok()) {
    result.status = problem.status();
    return result;
  }
  result.problem = problem->str();
  result.layout = describeLayout(*problem);
  result.tensors = problem->tensors();
  result.dims = problem->dims();
  result.status = verifyRequest(*problem, request);
  if (result.status.ok())
    result.status = runLoaded(**loaded, *problem, result);
  // A fault of the kernel spoils the context, and synchronize() then fails.
  if (!result.status.ok() && !device->synchronize().ok())
    reset();
  return result;
}
