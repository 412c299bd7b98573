//===- ManifestFuzzTest.cpp - Random changes of a manifest ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A manifest with some values, keys or bytes changed is refused with a message,
// or it is a bundle, whose problems are planned and run. Nothing else may
// happen. The seed is fixed; FLASHCORE_FUZZ_SEED and FLASHCORE_FUZZ_RUNS look
// further, best in a build with sanitizers.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"
#include "TestBundle.h"

#include "flashcore/Runtime/FileUtils.h"

#include <cstdio>
#include <cstdlib>
#include <random>

using namespace flashcore;
using namespace flashcore::testing;
using nlohmann::json;

namespace {
/// Values that readers tend to get wrong.
const json hostileValues[] = {
    nullptr,
    true,
    0,
    1,
    -1,
    3,
    16,
    1024,
    65536,
    int64_t(1) << 31,
    int64_t(1) << 62,
    INT64_MAX,
    INT64_MIN,
    UINT64_MAX,
    0.5,
    -0.0,
    1e308,
    "",
    "q",
    "1",
    "batch",
    "seqlen_k",
    "workspace",
    "batch * heads_q",
    "batch floordiv (seqlen_q - seqlen_k)",
    "9223372036854775807 * batch",
    "multiprocessors",
    "min(",
    "pointer",
    "../manifest.json",
    "manifest.json",
    "/dev/zero",
    "\x1b[2J\n",
    std::string(10000, 'x'),
    json::array(),
    json::object(),
    json::array({1, nullptr, "q"}),
};

class Mutator {
public:
  explicit Mutator(uint64_t seed) : random(seed) {}

  size_t below(size_t limit) {
    return std::uniform_int_distribution<size_t>(0, limit - 1)(random);
  }

  /// Changes one to three places.
  void change(json &manifest) {
    for (size_t i = 0, count = 1 + below(3); i < count; ++i)
      changeOne(manifest);
  }

  /// Changes some bytes of the text.
  void change(std::string &text) {
    for (size_t i = 0, count = 1 + below(3); i < count && !text.empty(); ++i) {
      size_t at = below(text.size());
      if (below(3) == 0)
        text.erase(at, 1 + below(50));
      else if (below(2) == 0)
        text.insert(at, text.substr(below(text.size()), below(50)));
      else
        text[at] = static_cast<char>(below(256));
    }
  }

private:
  void changeOne(json &manifest) {
    json flat = manifest.flatten();
    auto place = std::next(flat.begin(), static_cast<long>(below(flat.size())));
    json::json_pointer pointer(place.key());
    // Often a whole part instead of one value.
    while (!pointer.empty() && below(5) == 0)
      pointer.pop_back();
    if (pointer.empty())
      return;
    json &parent = manifest[pointer.parent_pointer()];
    json &value = manifest[pointer];
    switch (below(8)) {
    case 0: // the value of another place
      value = manifest[json::json_pointer(
          std::next(flat.begin(), static_cast<long>(below(flat.size())))
              .key())];
      break;
    case 1:
      if (parent.is_object())
        parent.erase(pointer.back());
      else if (parent.is_array())
        parent.erase(below(parent.size()));
      break;
    case 2:
      if (parent.is_array()) {
        parent.push_back(json(parent[below(parent.size())]));
        break;
      }
      [[fallthrough]];
    case 3:
      value = hostileValues[below(std::size(hostileValues))];
      break;
    default: // another value of the kind, which gets further
      do
        value = hostileValues[below(std::size(hostileValues))];
      while (value.is_number_integer() != place.value().is_number_integer() &&
             below(20));
    }
  }

  std::mt19937_64 random;
};

uint64_t environmentOr(const char *name, uint64_t otherwise) {
  const char *value = std::getenv(name);
  return value ? std::strtoull(value, nullptr, 10) : otherwise;
}

/// How far manifests came.
struct Counts {
  int refused = 0, loaded = 0, problems = 0, launches = 0;
};

void expectMessage(const Status &status) {
  if (status.ok())
    return;
  EXPECT_FALSE(status.message().empty());
  for (unsigned char c : status.str())
    EXPECT_TRUE(c >= 0x20 || c == '\n' || c == '\t') << status.str();
}

/// Plans `problem` and launches what fits the fake GPU.
void launchAll(Device &device, LoadedModule &module, const Problem &problem,
               Counts &counts) {
  PointerMap pointers;
  for (const TensorGeometry &tensor : problem.tensors())
    pointers[tensor.name] = 1 << 20;
  pointers[std::string(WorkspaceName)] = 1 << 20;
  StatusOr<std::vector<KernelLaunch>> launches =
      planLaunches(problem, pointers, device.info().limits.multiprocessors);
  expectMessage(launches.status());
  if (!launches.ok())
    return;
  for (const KernelLaunch &launch : *launches) {
    Status status = device.launch(module, launch);
    expectMessage(status);
    counts.launches += status.ok();
  }
}

void tryBundle(const std::filesystem::path &path, Counts &counts) {
  StatusOr<Bundle> bundle = Bundle::load(path);
  expectMessage(bundle.status());
  ++(bundle.ok() ? counts.loaded : counts.refused);
  if (!bundle.ok())
    return;
  FakeCuda fake;
  // As many as the loader found in the PTX, so that it must have been right.
  fake.parameters.clear();
  for (const ArgumentSpec &argument : bundle->kernels[0].arguments)
    fake.parameters.push_back(static_cast<size_t>(argument.bytes()));
  auto device = fake.open();
  auto module = device->load(*bundle);
  expectMessage(module.status());
  const ProblemRequest requests[] = {
      {},
      testRequest(),
      testRequest(1, 1, 1, 0, 0),
      testRequest(1 << 20, 1 << 20, 1, int64_t(1) << 40, 1)};
  for (const ProblemRequest &request : requests) {
    StatusOr<Problem> problem = Problem::create(*bundle, request);
    expectMessage(problem.status());
    if (!problem.ok())
      continue;
    ++counts.problems;
    EXPECT_FALSE(problem->str().empty());
    if (module.ok())
      launchAll(*device, **module, *problem, counts);
  }
}
} // namespace

TEST(ManifestFuzzTest, refusesOrRunsWhatItIsGiven) {
  Mutator mutator(environmentOr("FLASHCORE_FUZZ_SEED", 1));
  uint64_t runs = environmentOr("FLASHCORE_FUZZ_RUNS", 2000);
  json withBias = staticManifest();
  addBias(withBias);
  json withMap = testManifest();
  withMap["kernels"][0]["arguments"][1] = {{"kind", "tensor_map"},
                                           {"tensor", "k"},
                                           {"box", {1, 1, 64, 16}},
                                           {"swizzle", 32}};
  setPtx(withMap, ptxFor(withMap));
  json withLengths = varlenManifest(32, 48, 3, "none", true);
  addVector(withLengths, "sink_logits", "f32", "heads_q");
  withLengths["kernels"][0]["grid"][0] =
      "((seqlen_q ceildiv 64) + cu_seqlens) * heads_q";
  withLengths["kernels"][0]["when"] =
      "seqlen_q ceildiv max(1, cu_seqlens - 1) <= 16";
  withLengths["values"] = {
      {{"name", "key_splits"}, {"is", "min(4, seqlen_k floordiv 16)"}}};
  const json seeds[] = {withVariants(testManifest()),
                        withVariants(staticManifest()),
                        withVariants(withBias),
                        withVariants(splitManifest()),
                        withVariants(withMap),
                        withVariants(withLengths),
                        withVariants(pagedManifest(32, 16, 3, 8, 2)),
                        withVariants(pagedVarlenManifest(32, 16, 3, 8, 2))};
  ScratchDirectory scratch;
  for (size_t i = 0; i < std::size(seeds); ++i)
    writeBundle(scratch.path() / std::to_string(i), seeds[i]);
  Counts counts;
  for (uint64_t run = 0; run < runs; ++run) {
    size_t seed = mutator.below(std::size(seeds));
    json manifest = seeds[seed];
    bool changesBytes = mutator.below(4) == 0;
    if (!changesBytes)
      mutator.change(manifest);
    std::string text =
        manifest.dump(1, ' ', false, json::error_handler_t::replace);
    if (changesBytes)
      mutator.change(text);
    std::filesystem::path path = scratch.path() / std::to_string(seed);
    // A file that is overwritten goes to the disk at once, a new one does not.
    std::filesystem::remove(path / "manifest.json");
    ASSERT_TRUE(writeFile(path / "manifest.json", text).ok());
    SCOPED_TRACE("run " + std::to_string(run));
    tryBundle(path, counts);
    if (HasFailure())
      FAIL() << text;
  }
  std::printf("%d refused, %d loaded with %d problems and %d launches\n",
              counts.refused, counts.loaded, counts.problems, counts.launches);
  // Changes that are all refused at once would test nothing behind the loader.
  EXPECT_GT(counts.refused, 0);
  if (runs >= 1000) {
    EXPECT_GT(counts.loaded, static_cast<int>(runs) / 50);
    EXPECT_GT(counts.problems, 0);
    EXPECT_GT(counts.launches, 0);
  }
}
