//===- PlanTest.cpp - Calls that are made often ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Plans on the emulator with results that are compared with the reference, what
// a plan refuses, and what reaches a driver.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"
#include "HostDevice.h"
#include "NaiveBundle.h"

#include "flashcore/Runtime/EmulatorDevice.h"
#include "flashcore/Runtime/Float16.h"
#include "flashcore/Runtime/Overlap.h"
#include "flashcore/Runtime/Plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <thread>

using namespace flashcore;
using namespace flashcore::testing;

namespace {
using Extents = std::vector<int64_t>;

/// A caller's tensor of 2-byte elements, f32 for lse, in host memory.
struct HostArray {
  HostArray(std::string name, Extents sizes, Extents strides)
      : name(std::move(name)), sizes(std::move(sizes)),
        strides(std::move(strides)) {
    int64_t last = 0;
    for (size_t i = 0; i < this->sizes.size(); ++i)
      if (this->sizes[i] > 1)
        last += (this->sizes[i] - 1) * this->strides[i];
    bytes.resize(size_t(tensor().isEmpty() ? 0 : last + 1) * elementBytes());
  }

  size_t elementBytes() const { return name == "lse" ? 4 : 2; }
  CallTensor tensor() const { return {name, sizes, strides}; }
  double load(size_t index) const {
    if (name == "lse")
      return reinterpret_cast<const float *>(bytes.data())[index];
    return halfToFloat(reinterpret_cast<const uint16_t *>(bytes.data())[index]);
  }
  void fill(unsigned seed) {
    auto *elements = reinterpret_cast<uint16_t *>(bytes.data());
    for (size_t i = 0; i < bytes.size() / 2; ++i) {
      seed = seed * 1664525 + 1013904223;
      elements[i] = floatToHalf(static_cast<float>(seed >> 8) * 0x1p-22f - 2);
    }
  }

  std::string name;
  Extents sizes, strides;
  std::vector<std::byte> bytes;
};

/// Strides of a tensor without gaps.
Extents packed(const Extents &sizes) {
  Extents strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<int64_t>(sizes[i], 1);
  return strides;
}

struct Sizes {
  int64_t batch = 2, headsQ = 4, headsKV = 2, seqlenQ = 3, seqlenK = 5;
};

/// The tensors of a call in the order q, k, v, o, lse; packed.
std::vector<HostArray> makeArrays(const Sizes &sizes) {
  const auto &[batch, headsQ, headsKV, seqlenQ, seqlenK] = sizes;
  std::vector<HostArray> arrays;
  for (auto [name, shape] :
       {std::pair("q", Extents{batch, headsQ, seqlenQ, 16}),
        std::pair("k", Extents{batch, headsKV, seqlenK, 16}),
        std::pair("v", Extents{batch, headsKV, seqlenK, 16}),
        std::pair("o", Extents{batch, headsQ, seqlenQ, 16}),
        std::pair("lse", Extents{batch, headsQ, seqlenQ})})
    arrays.emplace_back(name, shape, packed(shape));
  return arrays;
}

std::vector<CallTensor> tensorsOf(const std::vector<HostArray> &arrays) {
  std::vector<CallTensor> tensors;
  for (const HostArray &array : arrays)
    tensors.push_back(array.tensor());
  return tensors;
}

class PlanTest : public ::testing::Test {
protected:
  PlanTest() : device(createEmulatorDevice()), bundle(write()) {
    auto loaded = device->load(bundle);
    EXPECT_EQ(text(loaded), "");
    module = std::move(*loaded);
  }

  Bundle write() {
    writeBundle(scratch.path(), naiveManifest());
    StatusOr<Bundle> loaded = Bundle::load(scratch.path());
    EXPECT_EQ(text(loaded), "");
    return std::move(*loaded);
  }

  StatusOr<Plan> plan(const std::vector<HostArray> &arrays) {
    return Plan::create(*device, *module, bundle, tensorsOf(arrays));
  }
  std::string refusal(const std::vector<HostArray> &arrays) {
    return text(plan(arrays));
  }

  DeviceBuffer allocate(size_t bytes, const std::string &name) {
    StatusOr<DeviceBuffer> buffer =
        DeviceBuffer::create(*device, static_cast<int64_t>(bytes), name);
    EXPECT_EQ(text(buffer), "");
    return std::move(*buffer);
  }

  /// Runs the call on both sides and compares the outputs.
  void check(std::vector<HostArray> arrays) {
    unsigned seed = 1;
    for (HostArray &array : arrays)
      if (array.name != "o" && array.name != "lse")
        array.fill(seed++);
    std::vector<HostArray> expected = arrays;
    std::vector<void *> data;
    for (HostArray &array : expected)
      data.push_back(array.bytes.data());
    ASSERT_EQ(text(computeReference(bundle, tensorsOf(expected), data, 1)), "");

    StatusOr<Plan> made = plan(arrays);
    ASSERT_EQ(text(made), "");
    std::vector<DeviceBuffer> buffers;
    std::vector<DevicePointer> pointers;
    for (const HostArray &array : arrays) {
      buffers.push_back(allocate(array.bytes.size(), array.name));
      pointers.push_back(buffers.back().pointer());
      // Outputs too: gaps between their elements are not to be written.
      ASSERT_EQ(text(device->copyToDevice(pointers.back(), array.bytes.data(),
                                          array.bytes.size())),
                "");
    }
    ASSERT_EQ(text(made->launch(pointers, 0)), "");
    for (size_t i = 0; i < arrays.size(); ++i) {
      ASSERT_EQ(text(device->copyToHost(arrays[i].bytes.data(), pointers[i],
                                        arrays[i].bytes.size())),
                "");
      size_t count = arrays[i].bytes.size() / arrays[i].elementBytes();
      for (size_t at = 0; at < count; ++at) {
        double got = arrays[i].load(at), want = expected[i].load(at);
        if (std::isinf(want))
          EXPECT_EQ(got, want) << arrays[i].name << " " << at;
        else
          EXPECT_NEAR(got, want, 2e-3) << arrays[i].name << " " << at;
      }
    }
  }

  ScratchDirectory scratch;
  std::unique_ptr<Device> device;
  Bundle bundle;
  std::unique_ptr<LoadedModule> module;
};
} // namespace

TEST_F(PlanTest, computesForAnySizes) {
  check(makeArrays({}));
  check(makeArrays({1, 3, 1, 7, 2}));
  check(makeArrays({1, 1, 1, 1, 1}));
}

TEST_F(PlanTest, computesForAnyOrderOfTensors) {
  std::vector<HostArray> arrays = makeArrays({});
  std::reverse(arrays.begin(), arrays.end());
  check(arrays);
}

TEST_F(PlanTest, computesForOtherLayouts) {
  std::vector<HostArray> arrays = makeArrays({});
  for (HostArray &array : arrays)
    if (array.name != "lse") // (batch, seqlen, heads, 24), a third of it unused
      array = {
          array.name,
          array.sizes,
          {array.sizes[1] * array.sizes[2] * 24, 24, array.sizes[1] * 24, 1}};
  check(arrays);
}

// PyTorch gives axes of size 1 any stride.
TEST_F(PlanTest, ignoresTheStridesOfAxesOfSize1) {
  std::vector<HostArray> arrays = makeArrays({1, 1, 1, 1, 5});
  arrays[0].strides = {0, 1, 3, 1};
  arrays[1].strides[0] = INT64_MAX;
  arrays[1].strides[1] = 7;
  arrays[2].strides[1] = -5;
  arrays[3].strides = {0, 0, 0, 1};
  arrays[4].strides = {1, 0, 9};
  check(arrays);
}

TEST_F(PlanTest, ignoresTheStridesOfTensorsWithoutElements) {
  std::vector<HostArray> arrays = makeArrays({1, 2, 2, 3, 0});
  arrays[1].strides = {0, 0, 3, 7};
  arrays[2].strides = {-1, 1, 1, 1};
  check(arrays); // o = 0 and lse = -infinity
  arrays = makeArrays({0, 4, 2, 3, 5});
  for (HostArray &array : arrays)
    array.strides.assign(array.strides.size(), 3);
  StatusOr<Plan> nothing = plan(arrays);
  ASSERT_EQ(text(nothing), "");
  EXPECT_EQ(text(nothing->launch(std::vector<DevicePointer>(5), 0)), "");
}

TEST_F(PlanTest, readsInputsThatRepeatElements) {
  std::vector<HostArray> arrays = makeArrays({});
  arrays[0] = {"q", arrays[0].sizes, {0, 48, 16, 1}};
  arrays[1] = {"k", arrays[1].sizes, {80, 0, 16, 1}};
  arrays[2] = {"v", arrays[2].sizes, {0, 0, 0, 1}};
  check(arrays);
}

TEST_F(PlanTest, takesPartsOfOneBuffer) {
  // (batch, seqlen, 3, heads, head_dim), as flash-attn's packed functions.
  constexpr int64_t batch = 2, seqlen = 3, heads = 2;
  Extents strides = {seqlen * 3 * heads * 16, 16, 3 * heads * 16, 1};
  std::vector<HostArray> arrays =
      makeArrays({batch, heads, heads, seqlen, seqlen});
  for (size_t i = 0; i < 3; ++i)
    arrays[i] = {arrays[i].name, arrays[i].sizes, strides};
  StatusOr<Plan> made = plan(arrays);
  ASSERT_EQ(text(made), "");
  HostArray whole("qkv", {batch * seqlen * 3 * heads * 16}, {1});
  whole.fill(3);
  int64_t bytes = static_cast<int64_t>(whole.bytes.size());
  DeviceBuffer qkv = allocate(bytes, "qkv");
  ASSERT_EQ(
      text(device->copyToDevice(qkv.pointer(), whole.bytes.data(), bytes)), "");
  std::vector<DevicePointer> pointers;
  std::vector<void *> data;
  for (size_t i = 0; i < 3; ++i) {
    pointers.push_back(qkv.pointer() + i * heads * 16 * 2);
    data.push_back(whole.bytes.data() + i * heads * 16 * 2);
  }
  std::vector<DeviceBuffer> outputs;
  for (size_t i = 3; i < 5; ++i) {
    outputs.push_back(allocate(arrays[i].bytes.size(), arrays[i].name));
    pointers.push_back(outputs.back().pointer());
    data.push_back(arrays[i].bytes.data());
  }
  ASSERT_EQ(text(computeReference(bundle, tensorsOf(arrays), data, 1)), "");
  ASSERT_EQ(text(made->launch(pointers, 0)), "");
  HostArray o = arrays[3];
  ASSERT_EQ(
      text(device->copyToHost(o.bytes.data(), pointers[3], o.bytes.size())),
      "");
  for (size_t i = 0; i < o.bytes.size() / 2; ++i)
    EXPECT_NEAR(o.load(i), arrays[3].load(i), 2e-3) << i;
}

TEST_F(PlanTest, saysWhatItIs) {
  StatusOr<Plan> made = plan(makeArrays({}));
  ASSERT_EQ(text(made), "");
  EXPECT_EQ(made->problem().str(), "B2 H4/2 S3x5 D16 f16 lse");
  EXPECT_EQ(made->workspaceBytes(), 0);
}

TEST_F(PlanTest, findingsNameTheTensor) {
  std::vector<HostArray> arrays = makeArrays({1, 1, 1, 2, 2});
  StatusOr<Plan> made = plan(arrays);
  ASSERT_EQ(text(made), "");
  std::vector<DeviceBuffer> buffers;
  std::vector<DevicePointer> pointers;
  for (const HostArray &array : arrays) {
    int64_t bytes = array.bytes.size();
    buffers.push_back(
        allocate(array.name == "v" ? bytes - 2 : bytes, array.name));
    pointers.push_back(buffers.back().pointer());
    ASSERT_EQ(text(device->fill(pointers.back(), 0, bytes - 4)), "");
  }
  Status status = made->launch(pointers, 0);
  EXPECT_TRUE(status.isKernelFault());
  EXPECT_NE(status.str().find("past the end of 'v' (62 bytes)"),
            std::string::npos)
      << status.str();
}

// A device that checks keeps one layout a buffer.
TEST(PlanDescriptionTest, describesWhatDoesNotShareMemory) {
  HostDevice device;
  Bundle bundle = loadTestBundle(staticManifest());
  auto module = device.load(bundle);
  ASSERT_EQ(text(module), "");
  std::vector<HostArray> arrays = makeArrays({1, 2, 2, 32, 48});
  StatusOr<Plan> made =
      Plan::create(device, **module, bundle, tensorsOf(arrays));
  ASSERT_EQ(text(made), "");
  std::vector<DeviceBuffer> buffers;
  std::vector<DevicePointer> pointers;
  for (const HostArray &array : arrays) {
    // With guards, and room for a tensor that starts a little later.
    int64_t bytes = array.bytes.size() + 2 * HostTensor::GuardBytes + 16;
    buffers.push_back(std::move(*DeviceBuffer::create(device, bytes)));
    ASSERT_EQ(text(device.fill(buffers.back().pointer(), 0, bytes)), "");
    pointers.push_back(buffers.back().pointer() + HostTensor::GuardBytes);
  }
  ASSERT_EQ(text(made->launch(pointers, 0)), "");
  EXPECT_EQ(device.descriptions.size(), 0u);

  device.setChecksBounds();
  ASSERT_EQ(text(made->launch(pointers, 0)), "");
  ASSERT_EQ(device.descriptions.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(device.descriptions[i].pointer, pointers[i]);
    EXPECT_EQ(device.descriptions[i].elementBytes, i == 4 ? 4 : 2);
    EXPECT_EQ(device.descriptions[i].sizes, arrays[i].sizes);
    EXPECT_EQ(device.descriptions[i].strides, arrays[i].strides);
  }

  device.descriptions.clear();
  pointers[2] = pointers[1] + 16; // v starts in k
  ASSERT_EQ(text(made->launch(pointers, 0)), "");
  ASSERT_EQ(device.descriptions.size(), 5u);
  for (size_t i = 0; i < 5; ++i)
    EXPECT_EQ(device.descriptions[i].sizes,
              i == 1 || i == 2 ? Extents(4, 0) : arrays[i].sizes);
}

//===----------------------------------------------------------------------===//
// Refusals
//===----------------------------------------------------------------------===//

TEST_F(PlanTest, refusesTensorsThatDisagree) {
  std::vector<HostArray> arrays = makeArrays({});
  arrays[2].sizes[1] = 8;
  EXPECT_EQ(refusal(arrays),
            "expects 'v' to have heads_kv 2, as 'k' has, but got 8");
  arrays = makeArrays({});
  arrays[1].sizes[3] = 32;
  EXPECT_EQ(refusal(arrays),
            "expects 'k' to have head_dim 16, as 'q' has, but got 32");
  EXPECT_EQ(refusal(makeArrays({1, 4, 3, 2, 2})),
            "expects heads_q to be a multiple of heads_kv, but got 4 and 3");
  arrays = makeArrays({});
  arrays[0].sizes[0] = -2;
  EXPECT_EQ(refusal(arrays),
            "expects the sizes of 'q' to be at least 0, but got -2");
}

TEST_F(PlanTest, refusesOtherTensorsThanTheBundles) {
  std::vector<HostArray> arrays = makeArrays({});
  arrays.pop_back();
  EXPECT_EQ(refusal(arrays), "expects all tensors of the bundle (q, k, v, o, "
                             "lse), but got no 'lse'");
  arrays = makeArrays({});
  arrays[4].name = "bias";
  EXPECT_EQ(refusal(arrays), "expects tensors of the bundle (q, k, v, o, lse), "
                             "but got 'bias'");
  arrays = makeArrays({});
  arrays[2].name = "k";
  EXPECT_EQ(refusal(arrays), "expects each tensor once, but got 'k' twice");
  arrays = makeArrays({});
  arrays[0].sizes.pop_back();
  EXPECT_EQ(refusal(arrays), "expects 'q' to have 4 sizes (batch, heads_q, "
                             "seqlen_q, head_dim), but got 3");
  arrays = makeArrays({});
  arrays[4].strides.push_back(1);
  EXPECT_EQ(refusal(arrays), "expects 'lse' to have 3 strides (batch, heads_q, "
                             "seqlen_q), but got 4");
}

TEST_F(PlanTest, refusesStridesThatKernelsCannotFollow) {
  std::vector<HostArray> arrays = makeArrays({});
  arrays[0].strides[3] = 2;
  EXPECT_EQ(refusal(arrays),
            "expects the elements of 'q' to lie side by side along head_dim "
            "(stride 1), but got stride 2\n"
            "  note: copy the tensor to one where they do");
  arrays = makeArrays({});
  arrays[1].strides[2] = -16;
  EXPECT_EQ(refusal(arrays), "expects the stride of axis 2 (seqlen_k) of 'k' "
                             "to be at least 0, but got -16");
  arrays = makeArrays({});
  arrays[1].strides[2] = 20;
  EXPECT_EQ(refusal(arrays),
            "expects the stride of axis 2 (seqlen_k) of 'k' to be a multiple "
            "of 8 elements, but got 20\n"
            "  note: rows are copied 16 bytes at a time: pad the rows, or copy "
            "the tensor to a padded one");
  arrays = makeArrays({});
  arrays[3].strides[1] = 0;
  EXPECT_EQ(refusal(arrays),
            "expects the stride of axis 1 (heads_q) of 'o' to be at least 1, "
            "but got 0\n"
            "  note: elements of an output must not overlap");
}

TEST_F(PlanTest, refusesWhatAStaticBundleIsNotFor) {
  Bundle fixed = loadTestBundle(staticManifest());
  FakeCuda fake;
  std::unique_ptr<Device> gpu = fake.open();
  auto loaded = gpu->load(fixed);
  ASSERT_EQ(text(loaded), "");
  auto refuse = [&](const std::vector<HostArray> &arrays) {
    return text(Plan::create(*gpu, **loaded, fixed, tensorsOf(arrays)));
  };
  EXPECT_EQ(refuse(makeArrays({1, 2, 2, 32, 48})), "");
  EXPECT_EQ(refuse(makeArrays({1, 2, 2, 32, 40})),
            "expects seqlen_k 48, the bundle was compiled for it, but got 40: "
            "recompile with a dynamic seqlen_k");
  std::vector<HostArray> arrays = makeArrays({1, 2, 2, 32, 48});
  arrays[1].strides = {1536, 16, 32, 1};
  EXPECT_EQ(refuse(arrays),
            "expects the stride of axis 1 (heads_kv) of 'k' to be 768, the "
            "bundle was compiled for it, but got 16: recompile with a dynamic "
            "stride");
}

TEST_F(PlanTest, refusesABroadcastAxisThatIsNot) {
  nlohmann::json manifest = testManifest();
  addBias(manifest, "f16", {"1", "heads_q", "seqlen_q", "seqlen_k"});
  Bundle withBias = loadTestBundle(manifest);
  FakeCuda fake;
  fake.parameters.resize(9, 8);
  std::unique_ptr<Device> gpu = fake.open();
  auto loaded = gpu->load(withBias);
  ASSERT_EQ(text(loaded), "");
  std::vector<HostArray> arrays = makeArrays({});
  arrays.emplace_back("bias", Extents{1, 4, 3, 5}, Extents{0, 0, 0, 7});
  EXPECT_EQ(text(Plan::create(*gpu, **loaded, withBias, tensorsOf(arrays))),
            "");
  arrays.back().sizes[0] = 2;
  EXPECT_EQ(text(Plan::create(*gpu, **loaded, withBias, tensorsOf(arrays))),
            "expects broadcast axes of 'bias' to have size 1, but got 2");
}

//===----------------------------------------------------------------------===//
// What reaches a driver
//===----------------------------------------------------------------------===//

namespace {
class CudaPlanTest : public ::testing::Test {
protected:
  void load(const nlohmann::json &manifest) {
    bundle = loadTestBundle(manifest);
    module.reset(); // before its device
    device = fake.open();
    auto loaded = device->load(bundle);
    ASSERT_EQ(text(loaded), "");
    module = std::move(*loaded);
  }
  StatusOr<Plan> plan(const std::vector<HostArray> &arrays) {
    return Plan::create(*device, *module, bundle, tensorsOf(arrays));
  }
  /// Of two kernels and a workspace, with the tensors in another order.
  StatusOr<Plan> planSplit() {
    fake.parameters.resize(2);
    load(splitManifest());
    std::vector<HostArray> arrays = makeArrays({1, 2, 2, 32, 48});
    std::reverse(arrays.begin(), arrays.end());
    return plan(arrays);
  }

  FakeCuda fake;
  Bundle bundle;
  std::unique_ptr<Device> device;
  std::unique_ptr<LoadedModule> module;
  /// lse, o, v, k and q.
  const std::vector<DevicePointer> pointers = {0x50004, 0x40000, 0x30000,
                                               0x20000, 0x10000};
};
} // namespace

TEST_F(CudaPlanTest, passesArgumentsInTheOrderOfTheKernel) {
  load(testManifest());
  std::vector<HostArray> arrays = makeArrays({2, 4, 2, 70, 5});
  std::reverse(arrays.begin(), arrays.end());
  StatusOr<Plan> made = plan(arrays);
  ASSERT_EQ(text(made), "");
  int stream = 0;
  EXPECT_EQ(text(made->launch(pointers, 0, {&stream})), "");
  EXPECT_EQ(text(made->launch(pointers, 0)), "");
  ASSERT_EQ(fake.launches.size(), 2u);
  const FakeCuda::Launch &launch = fake.launches[0];
  EXPECT_EQ(launch.arguments,
            (std::vector<uint64_t>{0x10000, 0x20000, 0x30000, 0x40000, 0x50004,
                                   5, 80, 0}));
  EXPECT_EQ(launch.grid, (std::array<unsigned, 3>{16, 1, 1}));
  EXPECT_EQ(launch.sharedBytes, 49152u);
  EXPECT_EQ(static_cast<void *>(launch.stream), &stream);
  EXPECT_NE(static_cast<void *>(fake.launches[1].stream), &stream);
}

TEST_F(CudaPlanTest, launchesAllKernelsAndTheWorkspace) {
  StatusOr<Plan> made = planSplit();
  ASSERT_EQ(text(made), "");
  EXPECT_EQ(made->workspaceBytes(), 120 * 64);
  EXPECT_EQ(text(made->launch(pointers, 0x70000)), "");
  ASSERT_EQ(fake.launches.size(), 2u);
  EXPECT_EQ(fake.launches[0].kernel, "attention");
  EXPECT_EQ(fake.launches[0].arguments,
            (std::vector<uint64_t>{0x10000, 0x70000}));
  EXPECT_EQ(fake.launches[1].kernel, "merge");
  EXPECT_EQ(fake.launches[1].arguments,
            (std::vector<uint64_t>{0x40000, 0x70000}));
  EXPECT_EQ(text(made->launch(pointers, 0)),
            "expects 7680 bytes of workspace, but got null");
  EXPECT_EQ(text(made->launch(pointers, 0x70010)),
            "expects the workspace to start at a multiple of 256 bytes, but "
            "got the address 458768");
}

TEST_F(CudaPlanTest, leavesTheDriverTheLastWord) {
  load(testManifest());
  StatusOr<Plan> made = plan(makeArrays({}));
  ASSERT_EQ(text(made), "");
  fake.failOnce("cuLaunchKernel", 999);
  EXPECT_TRUE(text(made->launch({{0x1000, 0x2000, 0x3000, 0x4000, 0x5000}}, 0))
                  .starts_with("cuLaunchKernel failed: CUDA_ERROR_FAKE (999)"));
  EXPECT_EQ(text(made->launch({{0x1000, 0x2000, 0x3000, 0x4000, 0x5000}}, 0)),
            "");
}

TEST_F(CudaPlanTest, refusesPointersThatKernelsCannotRead) {
  load(testManifest());
  StatusOr<Plan> made = plan(makeArrays({}));
  ASSERT_EQ(text(made), "");
  EXPECT_EQ(text(made->launch({{0x1000, 0, 0x3000, 0x4000, 0x5000}}, 0)),
            "expects a pointer for 'k', but got null\n"
            "  note: only a tensor without elements needs none");
  EXPECT_EQ(text(made->launch({{0x1000, 0x2000, 4104, 0x4000, 0x5000}}, 0)),
            "expects 'v' to start at a multiple of 16 bytes, but got the "
            "address 4104");
  EXPECT_EQ(text(made->launch({{0x1000, 0x2000, 0x3000, 0x4000, 0x5002}}, 0)),
            "expects 'lse' to start at a multiple of 4 bytes, but got the "
            "address 20482");
  EXPECT_EQ(fake.calls("cuLaunchKernel"), 0);
  // Nothing is read at these.
  StatusOr<Plan> empty = plan(makeArrays({1, 4, 2, 3, 0}));
  ASSERT_EQ(text(empty), "");
  EXPECT_EQ(text(empty->launch({{0x1000, 0, 1, 0x4000, 0x5000}}, 0)), "");
  EXPECT_EQ(fake.calls("cuLaunchKernel"), 1);
}

// q and o have 768 bytes, k and v 640, lse 96.
TEST_F(CudaPlanTest, refusesOutputsThatOverlap) {
  load(testManifest());
  StatusOr<Plan> made = plan(makeArrays({}));
  ASSERT_EQ(text(made), "");
  auto refusal = [](const char *what, const char *other, const char *name) {
    return "expects the " + std::string(what) +
           " in memory of its own, but got one that overlaps the " + other +
           " '" + name +
           "'\n  note: some blocks write it while others still read: pass "
           "other memory, or a copy of '" +
           name + "'";
  };
  auto launch = [&](std::vector<DevicePointer> pointers) {
    return text(made->launch(pointers, 0));
  };
  const std::vector<DevicePointer> apart = {0x1000, 0x2000, 0x3000, 0x4000,
                                            0x5000};
  EXPECT_EQ(launch(apart), "");
  EXPECT_EQ(launch({0x1000, 0x1000, 0x1000, 0x4000, 0x5000}), "");
  int64_t launches = fake.calls("cuLaunchKernel");
  EXPECT_EQ(launch({0x1000, 0x2000, 0x3000, 0x1000, 0x5000}),
            refusal("output 'o'", "input", "q"));
  EXPECT_EQ(launch({0x1000, 0x2000, 0x3000, 0x3000, 0x5000}),
            refusal("output 'o'", "input", "v"));
  EXPECT_EQ(launch({0x1000, 0x2000, 0x3000, 0x4000, 0x4000}),
            refusal("output 'o'", "output", "lse"));
  EXPECT_EQ(launch({0x1000, 0x2000, 0x3000, 0x4000, 0x2000}),
            refusal("output 'lse'", "input", "k"));
  EXPECT_EQ(fake.calls("cuLaunchKernel"), launches);
  // The last byte of one, and the first behind it.
  EXPECT_EQ(launch({0x1000, 0x2000, 0x3000, 0x1000 + 752, 0x5000}),
            refusal("output 'o'", "input", "q"));
  EXPECT_EQ(launch({0x1000, 0x2000, 0x3000, 0x1000 + 768, 0x5000}), "");
  EXPECT_EQ(launch({0x1000, 0x2000, 0x3000, 0x2000 - 768, 0x5000}), "");
  // The same of memory that nothing is launched for.
  EXPECT_EQ(text(made->checkOverlaps(
                std::vector<DevicePointer>{1, 5000, 9000, 3, 20000})),
            refusal("output 'o'", "input", "q"));
}

TEST_F(CudaPlanTest, refusesAWorkspaceThatOverlaps) {
  StatusOr<Plan> made = planSplit();
  ASSERT_EQ(text(made), "");
  EXPECT_EQ(text(made->launch(pointers, 0x30000)),
            "expects a workspace beside all tensors, but got one that overlaps "
            "the input 'v'\n  note: a launch writes it: pass memory that "
            "nothing else has");
}

// (batch, seqlen, 4, heads, head_dim): o is the fourth part beside q, k and v.
TEST_F(CudaPlanTest, takesAnOutputInTheGapsOfInputs) {
  load(testManifest());
  constexpr int64_t seqlen = 3, heads = 2, part = heads * 16 * 2;
  std::vector<HostArray> arrays = makeArrays({2, heads, heads, seqlen, seqlen});
  Extents strides = {seqlen * 4 * heads * 16, 16, 4 * heads * 16, 1};
  for (size_t i = 0; i < 4; ++i)
    arrays[i] = {arrays[i].name, arrays[i].sizes, strides};
  StatusOr<Plan> made = plan(arrays);
  ASSERT_EQ(text(made), "");
  auto launch = [&](DevicePointer o) {
    return text(made->launch(
        {{0x1000, 0x1000 + part, 0x1000 + 2 * part, o, 0x5000}}, 0));
  };
  EXPECT_EQ(launch(0x1000 + 3 * part), "");
  EXPECT_TRUE(launch(0x1000 + 2 * part).starts_with("expects the output 'o'"));
  EXPECT_TRUE(launch(0x1000 + 3 * part - 16)
                  .starts_with("expects the output 'o' in memory of its own, "
                               "but got one that overlaps the input 'v'"));
}

namespace {
/// Two axes, which are enough for all that strides can do.
struct Shape {
  int64_t elementBytes;
  std::array<int64_t, 2> sizes, strides;

  StridedMemory at(DevicePointer address) const {
    return {address, elementBytes, sizes, strides};
  }
  std::set<DevicePointer> bytesAt(DevicePointer address) const {
    std::set<DevicePointer> bytes;
    for (int64_t i = 0; i < sizes[0]; ++i)
      for (int64_t j = 0; j < sizes[1]; ++j)
        for (int64_t byte = 0; byte < elementBytes; ++byte)
          bytes.insert(
              address +
              static_cast<DevicePointer>(
                  (i * strides[0] + j * strides[1]) * elementBytes + byte));
    return bytes;
  }
};
} // namespace

// All placements of two small tensors, against the sets of their bytes.
TEST(OverlapTest, isThatOfTheBytes) {
  const Shape shapes[] = {
      {2, {3, 4}, {8, 1}},  {2, {3, 4}, {4, 1}},   {2, {2, 3}, {3, 5}},
      {2, {4, 2}, {0, 6}},  {2, {5, 1}, {7, 9}},   {2, {2, 2}, {1, 10}},
      {4, {3, 2}, {-5, 1}}, {2, {3, 4}, {-8, -1}}, {1, {4, 5}, {-11, 2}},
      {2, {0, 3}, {4, 1}},  {8, {2, 1}, {4, -7}}};
  int64_t shared = 0, apart = 0;
  for (const Shape &first : shapes)
    for (const Shape &second : shapes) {
      std::set<DevicePointer> ofFirst = first.bytesAt(1000);
      for (DevicePointer address = 900; address < 1100; ++address) {
        std::set<DevicePointer> ofSecond = second.bytesAt(address);
        bool isShared =
            std::any_of(ofFirst.begin(), ofFirst.end(),
                        [&](auto byte) { return ofSecond.count(byte) != 0; });
        ASSERT_EQ(shareBytes(first.at(1000), second.at(address)), isShared)
            << address;
        ++(isShared ? shared : apart);
      }
    }
  EXPECT_GT(shared, 500);
  EXPECT_GT(apart, 500);
}

// No memory is as large: sums of such strides do not fit in 64 bits.
TEST(OverlapTest, takesTooMuchForShared) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  const Shape small = {2, {3, 4}, {8, 1}};
  for (int64_t stride : {most, most / 2, -most, int64_t(1) << 60})
    EXPECT_TRUE(
        shareBytes(small.at(1000), Shape{2, {3, 3}, {stride, 1}}.at(1 << 20)));
}

TEST_F(CudaPlanTest, launchesNothingForAnEmptyGrid) {
  load(testManifest());
  StatusOr<Plan> made = plan(makeArrays({0, 4, 2, 3, 5}));
  ASSERT_EQ(text(made), "");
  EXPECT_EQ(text(made->launch(std::vector<DevicePointer>(5), 0)), "");
  EXPECT_EQ(fake.calls("cuLaunchKernel"), 0);
}

TEST_F(CudaPlanTest, refusesAGridThatTheDeviceHasNot) {
  nlohmann::json manifest = testManifest();
  std::swap(manifest["kernels"][0]["grid"][0],
            manifest["kernels"][0]["grid"][1]);
  load(manifest);
  EXPECT_EQ(text(plan(makeArrays({16384, 4, 2, 1, 1}))),
            "kernel 'attention' needs 65536 blocks in direction y, but Fake "
            "GPU allows 65535\n"
            "  note: split the batch into several calls");
}

TEST_F(CudaPlanTest, refusesTheModuleOfAnotherBundle) {
  load(testManifest());
  nlohmann::json manifest = testManifest();
  manifest["kernels"][0]["block"] = {64, 1, 1};
  Bundle other = loadTestBundle(manifest);
  EXPECT_EQ(
      text(Plan::create(*device, *module, other, tensorsOf(makeArrays({})))),
      "kernel 'attention' expects blocks of 128x1x1 threads, but got "
      "64x1x1\n"
      "  note: plan the launch from the bundle that was loaded");
}

TEST_F(CudaPlanTest, isForSeveralThreads) {
  load(testManifest());
  StatusOr<Plan> made = plan(makeArrays({}));
  ASSERT_EQ(text(made), "");
  std::vector<std::thread> threads;
  for (uint64_t i = 1; i <= 4; ++i)
    threads.emplace_back([&, i] {
      for (int repeat = 0; repeat < 100; ++repeat)
        EXPECT_EQ(text(made->launch({{i << 12, 2 * i << 12, 3 * i << 12,
                                      4 * i << 12, 5 * i << 12}},
                                    0)),
                  "");
    });
  for (std::thread &thread : threads)
    thread.join();
  ASSERT_EQ(fake.launches.size(), 400u);
  for (const FakeCuda::Launch &launch : fake.launches)
    for (size_t i = 1; i < 5; ++i)
      EXPECT_EQ(launch.arguments[i], (i + 1) * launch.arguments[0]);
}
