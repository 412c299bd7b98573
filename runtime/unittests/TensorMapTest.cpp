//===- TensorMapTest.cpp - Kernels that take tensor maps ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What manifests may say of tensor maps, what a driver is told, when a plan
// makes them again, and a kernel on the emulator that copies q to o by them.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"
#include "HostDevice.h"
#include "TestBundle.h"

#include "flashcore/Runtime/EmulatorDevice.h"
#include "flashcore/Runtime/Plan.h"

#include <cstring>
#include <thread>

using namespace flashcore;
using namespace flashcore::testing;
using nlohmann::json;

/// A thread a word of 8 rows of 32 bytes. The rows come swizzled and go as they
/// are; those past the end of o are not stored.
static constexpr std::string_view copyPtx = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry attention(.param .align 64 .b8 p_q[128], .param .u64 p_n,
                          .param .align 64 .b8 p_o[128]) {
  .shared .align 8 .b8 bar[8];
  .shared .align 256 .b8 swizzled[256], rows[256];
  .reg .pred %first, %p; .reg .b32 %t, %s, %h, %b, %at, %bit, %word;
  .reg .b64 %q, %o, %n, %start;
  mov.b64 %q, p_q; cvta.param.u64 %q, %q;
  mov.b64 %o, p_o; cvta.param.u64 %o, %o;
  mov.u32 %t, %tid.x; mov.u32 %h, %ctaid.y; mov.u32 %b, %ctaid.z;
  mov.u32 %s, %ctaid.x; shl.b32 %s, %s, 3;
  ld.param.u64 %n, [p_n]; cvt.u64.u32 %start, %s;
  setp.ge.u64 %p, %start, %n; @%p ret;
  setp.eq.u32 %first, %t, 0; @%first mbarrier.init.shared.b64 [bar], 1;
  bar.sync 0;
  @%first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
  @%first cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [swizzled], [%q, {0, %s, %h, %b}], [bar];
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p, [bar], 0; @!%p bra WAIT;
  shl.b32 %t, %t, 2;
  and.b32 %bit, %t, 128; shr.u32 %bit, %bit, 3; xor.b32 %bit, %bit, %t;
  mov.u32 %at, swizzled; add.u32 %at, %at, %bit; ld.shared.u32 %word, [%at];
  mov.u32 %at, rows; add.u32 %at, %at, %t; st.shared.u32 [%at], %word;
  fence.proxy.async.shared::cta; bar.sync 0;
  @%first cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%o, {0, %s, %h, %b}], [rows];
  @%first cp.async.bulk.commit_group; @%first cp.async.bulk.wait_group 0;
  ret;
}
)";

/// A bundle of that kernel: maps of q and o, and seqlen_q between them.
static json copyManifest() {
  json manifest = testManifest();
  manifest["chip"] = "sm_90a";
  manifest["cubins"] = json::array();
  manifest["assembler"] = nullptr;
  manifest["tensors"].erase(4); // lse
  for (json &tensor : manifest["tensors"])
    tensor["offset"] = 0;
  json &kernel = manifest["kernels"][0];
  kernel["resources"] = nullptr;
  kernel["block"] = {64, 1, 1};
  kernel["dynamic_shared_memory"] = 0;
  kernel["grid"] = {"seqlen_q ceildiv 8", "heads_q", "batch"};
  auto map = [](const char *tensor, int swizzle) {
    return json{{"kind", "tensor_map"},
                {"tensor", tensor},
                {"box", {1, 1, 8, 16}},
                {"swizzle", swizzle}};
  };
  kernel["arguments"] = {
      map("q", 32), {{"kind", "size"}, {"dim", "seqlen_q"}}, map("o", 0)};
  return manifest;
}

namespace {
using Extents = std::vector<int64_t>;

/// Sizes and strides of q, k, v and o.
struct Layouts {
  Extents sizes, q, o;
  Extents sizesK = {2, 3, 5, 16}, k = {240, 80, 16, 1};

  std::vector<CallTensor> tensors() const {
    return {
        {"q", sizes, q}, {"k", sizesK, k}, {"v", sizesK, k}, {"o", sizes, o}};
  }
};

/// Two batches of three heads of 11 rows, o in the order batch, sequence, head.
Layouts usualLayouts() {
  return {{2, 3, 11, 16}, {528, 176, 16, 1}, {528, 16, 48, 1}};
}
} // namespace

//===----------------------------------------------------------------------===//
// The manifest
//===----------------------------------------------------------------------===//

TEST(TensorMapTest, isReadFromTheManifest) {
  Bundle bundle = loadTestBundle(copyManifest());
  const ArgumentSpec &argument = bundle.kernels[0].arguments[0];
  EXPECT_EQ(argument.kind, ArgumentSpec::Kind::TensorMap);
  EXPECT_EQ(argument.tensor, "q");
  EXPECT_EQ(argument.box, (std::vector<uint32_t>{1, 1, 8, 16}));
  EXPECT_EQ(argument.swizzle, 32u);
  EXPECT_EQ(argument.bytes(), 128);
  EXPECT_EQ(bundle.kernels[0].arguments[1].bytes(), 8);
}

namespace {
class TensorMapManifestTest : public ::testing::Test {
protected:
  /// What the loader says after `change` of the manifest and its first map.
  template <typename Change> std::string refusal(Change &&change) {
    json manifest = copyManifest();
    change(manifest, manifest["kernels"][0]["arguments"][0]);
    if (manifest["ptx"] == copyManifest()["ptx"])
      setPtx(manifest, ptxFor(manifest));
    ScratchDirectory scratch;
    writeBundle(scratch.path(), manifest);
    std::string message = text(Bundle::load(scratch.path()));
    std::string prefix = scratch.file("");
    if (message.starts_with(prefix))
      message.erase(0, prefix.size());
    return message.substr(0, message.find("\n  note: "));
  }
  std::string refusal(const char *key, const json &value) {
    return refusal(
        [&](json &, json &map) { map[json::json_pointer(key)] = value; });
  }
  const std::string start =
      "manifest.json: expects 'variants[0].kernels[0].arguments[0].";
};
} // namespace

TEST_F(TensorMapManifestTest, hasABoxOfItsTensor) {
  EXPECT_EQ(refusal("/box", {1, 8, 16}),
            start + "box' to be an array of 4 elements, one an axis of 'q', "
                    "but got an array of 3 elements");
  EXPECT_EQ(refusal("/box/2", 0),
            start + "box[2]' to be an integer from 1 to 256, but got 0");
  EXPECT_EQ(refusal("/box/2", 257),
            start + "box[2]' to be an integer from 1 to 256, but got 257");
  EXPECT_EQ(refusal("/box", 8), start + "box' to be an array, but got 8");
  EXPECT_EQ(refusal([](json &, json &map) { map.erase("box"); }),
            "manifest.json: expects the key "
            "'variants[0].kernels[0].arguments[0].box', but there is none");
  const std::string inner = start + "box[3]' to be elements of a multiple of "
                                    "16 bytes";
  EXPECT_EQ(refusal("/box/3", 12), inner + " and at most the 32 of the swizzle"
                                           ", 2 bytes each, but got 12");
  EXPECT_EQ(refusal("/box/3", 24), inner + " and at most the 32 of the swizzle"
                                           ", 2 bytes each, but got 24");
  EXPECT_EQ(refusal([](json &, json &map) {
              map["swizzle"] = 0;
              map["box"][3] = 4;
            }),
            inner + ", 2 bytes each, but got 4");
  EXPECT_EQ(refusal([](json &, json &map) {
              map["swizzle"] = 0;
              map["box"] = {256, 256, 256, 256};
            }),
            "");
}

TEST_F(TensorMapManifestTest, mayHaveARaggedAxis) {
  auto withRagged = [&](const json &axis, const json &box) {
    return refusal([&](json &, json &map) {
      map["ragged"] = axis;
      map["box"] = box;
    });
  };
  EXPECT_EQ(withRagged(2, {1, 1, 1, 8, 16}), "");
  EXPECT_EQ(withRagged(2, {1, 1, 8, 16}),
            start + "box' to be an array of 5 elements, one an axis of 'q' and "
                    "one in front, but got an array of 4 elements");
  // Bulk copies need the last axis.
  EXPECT_EQ(withRagged(3, {1, 1, 1, 8, 16}),
            start + "ragged' to be an integer from 0 to 2, but got 3");
}

TEST_F(TensorMapManifestTest, mayHaveGroups) {
  auto withGroup = [&](const json &group, const json &box) {
    return refusal([&](json &, json &map) {
      map["group"] = group;
      map["box"] = box;
    });
  };
  EXPECT_EQ(withGroup(8, {1, 2, 1, 8, 16}), "");
  EXPECT_EQ(withGroup(0, {1, 2, 1, 8, 16}),
            start + "group' to be an integer from 1 to 256, but got 0");
  EXPECT_EQ(withGroup(8, {1, 1, 8, 16}),
            start + "box' to be an array of 5 elements, one an axis of groups "
                    "of 'q', but got an array of 4 elements");
  EXPECT_EQ(refusal([](json &, json &map) {
              map["group"] = 8;
              map["ragged"] = 1;
              map["box"] = {1, 1, 1, 8, 16};
            }),
            start + "ragged' to be 2 beside 'group', but got 1");
}

TEST_F(TensorMapManifestTest, hasASwizzleOfTheHardware) {
  for (int swizzle : {32, 64, 128, 0})
    EXPECT_EQ(refusal("/swizzle", swizzle), "");
  EXPECT_EQ(refusal("/swizzle", 16),
            start + "swizzle' to be 0, 32, 64 or 128, but got 16");
  EXPECT_EQ(refusal("/swizzle", 256),
            start + "swizzle' to be an integer from 0 to 128, but got 256");
}

TEST_F(TensorMapManifestTest, isOfATensorThatBulkCopiesCanMove) {
  EXPECT_EQ(refusal("/tensor", "x"),
            start + "tensor' to be the name of a tensor in 'tensors' (q, k, v, "
                    "o), but got \"x\"");
  EXPECT_EQ(refusal("/tensor", "workspace"),
            start + "tensor' to be the name of a tensor in 'tensors' (q, k, v, "
                    "o), but got \"workspace\"");
  EXPECT_EQ(refusal([](json &manifest, json &) {
              manifest["tensors"][0]["strides"][3] = nullptr;
            }),
            start + "tensor' to be a tensor whose last stride is 1, but got "
                    "\"q\"");
  EXPECT_EQ(refusal([](json &manifest, json &) {
              manifest["tensors"][0]["alignment"] = 8;
            }),
            start + "tensor' to be a tensor whose alignment is a multiple of "
                    "16, but got \"q\"");
}

TEST_F(TensorMapManifestTest, isTheParameterOfThePtx) {
  auto withPtx = [&](const char *parameters) {
    return refusal([&](json &manifest, json &) {
      setPtx(manifest, ".visible .entry attention(" + std::string(parameters) +
                           ", .param .u64 n, .param .align 64 .b8 o[128])");
    });
  };
  EXPECT_EQ(withPtx(".param .align 64 .b8 q[128]"), "");
  EXPECT_EQ(withPtx(".param .align 128 .b8 q[128]"), "");
  EXPECT_EQ(withPtx(".param .align 8 .b8 q[128]"),
            "kernels.ptx: expects tensor maps aligned to 64 bytes, but got 8 "
            "in parameter 0 of 'attention'");
  EXPECT_EQ(withPtx(".param .align 64 .b8 q[64]"),
            "kernels.ptx: expects parameters of 8 bytes, or 128 for a tensor "
            "map, but got 64 in parameter 0 of 'attention'");
  EXPECT_EQ(withPtx(".param .u64 .ptr .align 16 q"),
            start + "kind' to be 'pointer' like parameter 0 of 'attention' in "
                    "kernels.ptx, but got \"tensor_map\"");
  EXPECT_EQ(withPtx(".param .u64 q"),
            start + "kind' to be 'size', 'stride' or 'offset' like parameter 0 "
                    "of 'attention' in kernels.ptx, but got \"tensor_map\"");
  EXPECT_EQ(refusal([](json &manifest, json &map) {
              std::string ptx = ptxFor(manifest);
              map = {{"kind", "pointer"}, {"tensor", "q"}};
              setPtx(manifest, ptx);
            }),
            start + "kind' to be 'tensor_map' like parameter 0 of 'attention' "
                    "in kernels.ptx, but got \"pointer\"");
}

TEST_F(TensorMapManifestTest, isThatOfTheLaunchThatThePtxDescribes) {
  auto withLaunch = [&](const char *key, const json &value) {
    return refusal([&](json &manifest, json &) {
      json launch = {{"kernels", manifest["kernels"]}};
      launch["kernels"][0]["arguments"][0][json::json_pointer(key)] = value;
      setPtx(manifest,
             "// flashcore-launch: " + launch.dump() + "\n" + ptxFor(manifest));
    });
  };
  const std::string where = ", as in the launch that kernels.ptx describes, ";
  EXPECT_EQ(withLaunch("/swizzle", 32), "");
  EXPECT_EQ(withLaunch("/swizzle", 64),
            start + "swizzle' to be 64" + where + "but got 32");
  EXPECT_EQ(withLaunch("/box/2", 64),
            start + "box[2]' to be 64" + where + "but got 8");
  EXPECT_EQ(withLaunch("/group", 8), start.substr(0, start.size() - 1) +
                                         "' to be an argument with 'group'" +
                                         where + "but got an object of 4 keys");
  EXPECT_EQ(withLaunch("/box", {16}),
            start + "box' to be an array of 1 elements" + where +
                "but got an array of 4 elements");
}

//===----------------------------------------------------------------------===//
// Sizes and strides
//===----------------------------------------------------------------------===//

/// The maps of the launch of q and o.
static StatusOr<std::vector<KernelLaunch>> plan(const ProblemRequest &request) {
  static const Bundle bundle = loadTestBundle(copyManifest());
  StatusOr<Problem> problem = Problem::create(bundle, request);
  EXPECT_EQ(text(problem), "");
  return planLaunches(*problem, {{"q", 0x1000}, {"o", 0x4000}}, 1);
}

TEST(TensorMapLimitsTest, namesWhatIsTooLarge) {
  ProblemRequest request = testRequest(2, 4, 2, 32, 48);
  // The last stride below 2^40 bytes, and the first that is not.
  request.tensors["q"] = {{549755813880, 512, 16, 1}};
  EXPECT_EQ(text(plan(request)), "");
  request.tensors["q"] = {{549755813888, 512, 16, 1}};
  EXPECT_EQ(text(plan(request)),
            "expects the stride of axis 0 (batch) of 'q' to be at most "
            "549755813880, but got 549755813888\n"
            "  note: the kernels copy it by a tensor map, whose strides are "
            "less than 2^40 bytes: copy the tensor to a packed one\n"
            "  note: it is argument 0 of kernel 'attention'");
  request.dims["batch"] = 1; // no address depends on it
  StatusOr<std::vector<KernelLaunch>> launches = plan(request);
  ASSERT_EQ(text(launches), "");
  EXPECT_EQ(launches->front().maps[0].map.strides[3], 16u);

  EXPECT_EQ(text(plan(testRequest(1, 1, 1, int64_t(1) << 32, 1))), "");
  EXPECT_EQ(text(plan(testRequest(1, 1, 1, (int64_t(1) << 32) + 1, 1))),
            "expects the size of axis 2 (seqlen_q) of 'q' to be at most "
            "4294967296, but got 4294967297\n"
            "  note: the kernels copy it by a tensor map, which has no larger "
            "axes: split the call\n"
            "  note: it is argument 0 of kernel 'attention'");
}

TEST(TensorMapTest, endsWhereACoordinateSays) {
  json manifest = copyManifest();
  json &map = manifest["kernels"][0]["arguments"][0];
  map["ragged"] = 2;
  map["box"] = {1, 1, 1, 8, 16};
  Bundle bundle = loadTestBundle(manifest);
  auto planned = [&](int64_t seqlenQ) {
    StatusOr<Problem> problem =
        Problem::create(bundle, testRequest(2, 4, 2, seqlenQ, 48));
    EXPECT_EQ(text(problem), "");
    auto launches = planLaunches(*problem, {{"q", 0x1000}, {"o", 0x4000}}, 1);
    EXPECT_EQ(text(launches), "");
    return launches->front().maps[0].map;
  };
  TensorMap found = planned(32);
  EXPECT_EQ(found.rank, 5u);
  EXPECT_EQ(found.sizes, (std::array<uint64_t, 5>{16, 32, 4, 2, 32}));
  EXPECT_EQ(found.strides[4], found.strides[1]);
  EXPECT_EQ(found.box, (std::array<uint32_t, 5>{16, 8, 1, 1, 1}));
  // Row r of those that end at row e, for all of both: (R - e + r) + (e - 1)
  // rows from there.
  EXPECT_EQ(found.bytesInFront, 31 * found.strides[1]);
  EXPECT_EQ(planned(1).bytesInFront, 0u);
}

namespace {
/// Pages of 32 rows of two panels of 64, of which a box has 16 in two groups.
struct GroupMap {
  TensorGeometry tensor;
  ArgumentSpec argument;

  GroupMap(const Extents &sizes, const Extents &strides) {
    tensor.name = "k";
    tensor.axes = {"pages", "heads_kv", "page_size", "head_dim"};
    tensor.sizes = sizes;
    tensor.strides = strides;
    argument.kind = ArgumentSpec::Kind::TensorMap;
    argument.group = 8;
    argument.box = {1, 2, 2, 8, 64};
    argument.swizzle = 128;
  }
  TensorMap map() const {
    StatusOr<TensorMap> made = makeTensorMap(tensor, argument);
    EXPECT_EQ(text(made), "");
    return made.ok() ? *made : TensorMap();
  }
};
using Five = std::array<uint64_t, 5>;
} // namespace

TEST(TensorMapTest, hasTheAxesOfGroups) {
  // Heads one after the other in a page: a coordinate counts heads.
  TensorMap map = GroupMap({7, 2, 32, 128}, {8192, 4096, 128, 1}).map();
  EXPECT_EQ(map.rank, 5u);
  EXPECT_EQ(map.sizes, (Five{64, 8, 2, 4, 14}));
  EXPECT_EQ(map.strides, (Five{2, 256, 128, 2048, 8192}));
  EXPECT_EQ(map.box, (std::array<uint32_t, 5>{64, 8, 2, 2, 1}));
  EXPECT_EQ(map.bytesInFront, 0u);
  // Heads side by side, three of them: the power of two that divides both.
  map = GroupMap({7, 3, 32, 128}, {12288, 128, 384, 1}).map();
  EXPECT_EQ(map.sizes[4], 6u * 96 + 2 + 1);
  EXPECT_EQ(map.strides[4], 256u);
  // The stride of an axis of one does not count; then there is a limit.
  map = GroupMap({7, 1, 32, 128}, {8192, 1, 128, 1}).map();
  EXPECT_EQ(map.sizes[4], 7u);
  EXPECT_EQ(map.strides[4], 16384u);
  map = GroupMap({1, 1, 32, 128}, {1, 1, 128, 1}).map();
  EXPECT_EQ(map.sizes[4], 1u);
  EXPECT_EQ(map.strides[4], uint64_t(2) << 20);
}

TEST(TensorMapTest, ofGroupsMayBeRagged) {
  GroupMap ragged({7, 2, 32, 128}, {8192, 4096, 128, 1});
  ragged.argument.raggedAxis = 2;
  ragged.argument.box = {1, 1, 2, 8, 64};
  TensorMap map = ragged.map();
  EXPECT_EQ(map.rank, 5u);
  EXPECT_EQ(map.sizes, (Five{64, 32, 2, 14, 32}));
  EXPECT_EQ(map.strides, (Five{2, 256, 128, 8192, 256}));
  EXPECT_EQ(map.box, (std::array<uint32_t, 5>{64, 8, 2, 1, 1}));
  EXPECT_EQ(map.bytesInFront, 31 * 256u);
}

TEST(TensorMapTest, ofGroupsOfNothingIsThatOfOneElement) {
  TensorMap map = GroupMap({0, 2, 32, 128}, {8192, 4096, 128, 1}).map();
  EXPECT_TRUE(map.isEmpty);
  EXPECT_EQ(map.rank, 5u);
  EXPECT_EQ(map.sizes, (Five{1, 1, 1, 1, 1}));
}

TEST(TensorMapTest, ofGroupsHasLimits) {
  auto refusal = [](const Extents &sizes, const Extents &strides) {
    GroupMap group(sizes, strides);
    return text(makeTensorMap(group.tensor, group.argument));
  };
  EXPECT_EQ(refusal({7, 2, 32, 96}, {8192, 4096, 128, 1}),
            "expects the size of axis 3 (head_dim) of 'k' to be a multiple of "
            "64, but got 96");
  EXPECT_EQ(refusal({7, 2, 12, 128}, {8192, 4096, 128, 1}),
            "expects the size of axis 2 (page_size) of 'k' to be a multiple of "
            "8, but got 12");
  EXPECT_EQ(
      refusal({int64_t(1) << 31, 2, 32, 128}, {8200, 4096, 128, 1}),
      "expects axes 0 (pages) and 1 (heads_kv) of 'k' to reach at most "
      "2147483647 times 16 bytes, the largest power of two that both strides "
      "are multiples of, but got sizes of 2147483648 and 2\n"
      "  note: the kernels copy it by a tensor map that has both as one axis: "
      "use strides that are multiples of more, or fewer pages");
}

TEST(TensorMapTest, ofATensorWithoutElementsBeginsSomewhere) {
  json manifest = copyManifest();
  manifest["kernels"][0]["arguments"][0]["tensor"] = "k";
  Bundle bundle = loadTestBundle(manifest);
  StatusOr<Problem> problem =
      Problem::create(bundle, testRequest(2, 4, 2, 32, /*seqlenK=*/0));
  ASSERT_EQ(text(problem), "");
  auto launches = planLaunches(*problem, {{"k", 0}, {"o", 0x4000}}, 1);
  ASSERT_EQ(text(launches), "");
  EXPECT_TRUE(launches->front().maps[0].map.isEmpty);
  EXPECT_EQ(launches->front().arguments[0], 0x4000u);
}

TEST(TensorMapLimitsTest, rowsAndTheirStartsAreAligned) {
  static const Bundle bundle = loadTestBundle(copyManifest());
  ProblemRequest request = testRequest();
  request.tensors["q"] = {{2048, 512, 20, 1}};
  EXPECT_EQ(text(Problem::create(bundle, request)),
            "expects the stride of axis 2 (seqlen_q) of 'q' to be a multiple "
            "of 8 elements, but got 20\n"
            "  note: rows are copied 16 bytes at a time: pad the rows, or copy "
            "the tensor to a padded one");
  StatusOr<Problem> problem = Problem::create(bundle, testRequest());
  ASSERT_EQ(text(problem), "");
  EXPECT_EQ(text(planLaunches(*problem, {{"q", 0x1008}, {"o", 0x4000}}, 1)),
            "expects 'q' to start at a multiple of 16 bytes, but got the "
            "address 4104");
  EXPECT_EQ(text(planLaunches(*problem, {{"o", 0x4000}}, 1)),
            "expects a pointer for 'q', but got none\n"
            "  note: it is argument 0 of kernel 'attention'");
}

TEST(TensorMapLimitsTest, startsBehindTheOffset) {
  json manifest = copyManifest();
  manifest["tensors"][0]["offset"] = nullptr;
  Bundle bundle = loadTestBundle(manifest);
  ProblemRequest request = testRequest();
  request.offset = 24;
  StatusOr<Problem> problem = Problem::create(bundle, request);
  ASSERT_EQ(text(problem), "");
  auto launches = planLaunches(*problem, {{"q", 0x1000}, {"o", 0x4000}}, 1);
  ASSERT_EQ(text(launches), "");
  EXPECT_EQ(launches->front().arguments,
            (std::vector<uint64_t>{0x1030, 32, 0x4000}));
}

//===----------------------------------------------------------------------===//
// What reaches a driver
//===----------------------------------------------------------------------===//

namespace {
class CudaTensorMapTest : public ::testing::Test {
protected:
  CudaTensorMapTest() {
    fake.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 9;
    fake.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR] = 0;
    fake.parameters = {128, 8, 128};
  }
  void load(const json &manifest = copyManifest()) {
    bundle = loadTestBundle(manifest);
    module.reset(); // before its device
    device = fake.open();
    auto loaded = device->load(bundle);
    ASSERT_EQ(text(loaded), "");
    module = std::move(*loaded);
  }
  Plan plan(const Layouts &layouts = usualLayouts()) {
    auto made = Plan::create(*device, *module, bundle, layouts.tensors());
    EXPECT_EQ(text(made), "");
    return std::move(*made);
  }
  KernelLaunch usualLaunch() {
    ProblemRequest request = testRequest(2, 3, 3, 11, 5);
    StatusOr<Problem> problem = Problem::create(bundle, request);
    EXPECT_EQ(text(problem), "");
    return planLaunches(*problem, {{"q", 0x1000}, {"o", 0x4000}}, 1)->front();
  }

  FakeCuda fake;
  Bundle bundle;
  std::unique_ptr<Device> device;
  std::unique_ptr<LoadedModule> module;
};
} // namespace

TEST_F(CudaTensorMapTest, describesTheTensorInnermostAxisFirst) {
  load();
  EXPECT_EQ(text(plan().launch({{0x1000, 0x2000, 0x3000, 0x4000}}, 0)), "");
  ASSERT_EQ(fake.launches.size(), 1u);
  EXPECT_EQ(fake.launches[0].arguments,
            (std::vector<uint64_t>{0x1000, 11, 0x4000}));
  ASSERT_EQ(fake.tensorMaps.size(), 2u);
  const FakeCuda::TensorMapCall &q = fake.tensorMaps[0];
  EXPECT_EQ(q.type, cuda::CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
  EXPECT_EQ(q.address, 0x1000u);
  EXPECT_EQ(q.sizes, (std::vector<uint64_t>{16, 11, 3, 2}));
  EXPECT_EQ(q.strides, (std::vector<uint64_t>{32, 352, 1056}));
  EXPECT_EQ(q.box, (std::vector<uint32_t>{16, 8, 1, 1}));
  EXPECT_EQ(q.elementStrides, (std::vector<uint32_t>{1, 1, 1, 1}));
  EXPECT_EQ(q.interleave, cuda::CU_TENSOR_MAP_INTERLEAVE_NONE);
  EXPECT_EQ(q.swizzle, cuda::CU_TENSOR_MAP_SWIZZLE_32B);
  EXPECT_EQ(q.promotion, cuda::CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
  EXPECT_EQ(q.fill, cuda::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  const FakeCuda::TensorMapCall &o = fake.tensorMaps[1];
  EXPECT_EQ(o.strides, (std::vector<uint64_t>{96, 32, 1056}));
  EXPECT_EQ(o.swizzle, cuda::CU_TENSOR_MAP_SWIZZLE_NONE);
}

TEST_F(CudaTensorMapTest, knowsTypesAndSwizzles) {
  const std::tuple<const char *, int, int> types[] = {
      {"f16", 2, cuda::CU_TENSOR_MAP_DATA_TYPE_FLOAT16},
      {"bf16", 2, cuda::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16}};
  const std::pair<int, int> swizzles[] = {
      {0, cuda::CU_TENSOR_MAP_SWIZZLE_NONE},
      {32, cuda::CU_TENSOR_MAP_SWIZZLE_32B},
      {64, cuda::CU_TENSOR_MAP_SWIZZLE_64B},
      {128, cuda::CU_TENSOR_MAP_SWIZZLE_128B}};
  for (auto [name, bytes, type] : types)
    for (auto [swizzle, mode] : swizzles) {
      json manifest = copyManifest();
      for (size_t tensor = 0; tensor < 4; ++tensor) // q, k, v and o
        manifest["tensors"][tensor]["dtype"] = name;
      json &map = manifest["kernels"][0]["arguments"][0];
      map["swizzle"] = swizzle;
      map["box"][3] = 32 / bytes;
      load(manifest);
      fake.tensorMaps.clear();
      EXPECT_EQ(text(plan().launch({{0x1000, 0x2000, 0x3000, 0x4000}}, 0)), "");
      ASSERT_EQ(fake.tensorMaps.size(), 2u);
      EXPECT_EQ(fake.tensorMaps[0].type, type);
      EXPECT_EQ(fake.tensorMaps[0].swizzle, mode);
      EXPECT_EQ(fake.tensorMaps[0].strides[0], uint64_t(16 * bytes));
    }
}

TEST_F(CudaTensorMapTest, anAxisOfSizeOneMayHaveAnyStride) {
  load();
  Layouts layouts = {{1, 1, 11, 16}, {7, 1, 16, 1}, {0, 3, 16, 1}};
  layouts.sizesK = {1, 1, 5, 16};
  EXPECT_EQ(text(plan(layouts).launch({{0x1000, 0x2000, 0x3000, 0x4000}}, 0)),
            "");
  ASSERT_EQ(fake.tensorMaps.size(), 2u);
  EXPECT_EQ(fake.tensorMaps[0].strides, (std::vector<uint64_t>{32, 16, 16}));
  EXPECT_EQ(fake.tensorMaps[1].strides, (std::vector<uint64_t>{32, 16, 16}));
}

TEST_F(CudaTensorMapTest, aPlanMakesMapsAnewForOtherPointersOnly) {
  load();
  Plan made = plan();
  auto launch = [&](DevicePointer q, DevicePointer o) {
    EXPECT_EQ(text(made.launch({{q, 0x2000, 0x3000, o}}, 0)), "");
    EXPECT_EQ(fake.launches.back().arguments,
              (std::vector<uint64_t>{q, 11, o}));
    return fake.tensorMaps.size();
  };
  EXPECT_EQ(launch(0x1000, 0x4000), 2u);
  EXPECT_EQ(launch(0x1000, 0x4000), 2u);
  EXPECT_EQ(launch(0x1000, 0x5000), 3u);
  EXPECT_EQ(launch(0x6000, 0x5000), 4u);
  EXPECT_EQ(launch(0x6000, 0x5000), 4u);
  EXPECT_EQ(launch(0x1000, 0x4000), 6u);
  // Other sizes are another plan.
  made = plan({{2, 3, 11, 16}, {528, 16, 48, 1}, {528, 16, 48, 1}});
  EXPECT_EQ(launch(0x1000, 0x4000), 8u);
  EXPECT_EQ(fake.tensorMaps.back().strides,
            (std::vector<uint64_t>{96, 32, 1056}));
}

TEST_F(CudaTensorMapTest, aPlanIsForSeveralThreads) {
  load();
  Plan made = plan();
  std::vector<std::thread> threads;
  for (uint64_t i = 1; i <= 4; ++i)
    threads.emplace_back([&, i] {
      for (int repeat = 0; repeat < 100; ++repeat)
        EXPECT_EQ(
            text(made.launch({{i << 12, 0x2000, 0x3000, 5 * i << 12}}, 0)), "");
    });
  for (std::thread &thread : threads)
    thread.join();
  ASSERT_EQ(fake.launches.size(), 400u);
  for (const FakeCuda::Launch &launch : fake.launches)
    EXPECT_EQ(launch.arguments[2], 5 * launch.arguments[0]);
}

TEST_F(CudaTensorMapTest, aLaunchUnderCaptureTouchesNoStreamButItsOwn) {
  load();
  Plan made = plan();
  fake.log.clear();
  EXPECT_EQ(text(made.launch({{0x1000, 0x2000, 0x3000, 0x4000}}, 0)), "");
  for (const std::string &call : fake.log)
    EXPECT_TRUE(call == "cuCtxGetCurrent" || call == "cuCtxSetCurrent" ||
                call == "cuTensorMapEncodeTiled" || call == "cuLaunchKernel")
        << call;
}

TEST_F(CudaTensorMapTest, aTensorWithoutElementsHasAMapOfZeros) {
  json manifest = copyManifest();
  manifest["kernels"][0]["arguments"][2]["tensor"] = "k";
  load(manifest);
  Layouts layouts = usualLayouts();
  layouts.sizesK = {2, 3, 0, 16};
  EXPECT_EQ(text(plan(layouts).launch({{0x1000, 0, 8, 0x4000}}, 0)), "");
  EXPECT_EQ(fake.tensorMaps.size(), 1u); // that of q
  EXPECT_EQ(fake.launches[0].arguments, (std::vector<uint64_t>{0x1000, 11, 0}));
}

TEST_F(CudaTensorMapTest, launchesAndTimingsHaveMapsToo) {
  load();
  KernelLaunch launch = usualLaunch();
  EXPECT_EQ(text(device->launch(*module, launch)), "");
  EXPECT_EQ(fake.launches.back().arguments,
            (std::vector<uint64_t>{0x1000, 11, 0x4000}));
  TimingOptions options;
  options.launchesPerReplay = 1;
  std::vector<std::vector<KernelLaunch>> sets = {{launch}};
  EXPECT_EQ(text(device->time(*module, sets, options)), "");
  EXPECT_TRUE(fake.launches.back().isCaptured);
  EXPECT_EQ(fake.launches.back().arguments,
            (std::vector<uint64_t>{0x1000, 11, 0x4000}));
  EXPECT_EQ(text(device->measureOverhead(*module, launch, 1)), "");
  EXPECT_EQ(fake.launches.back().arguments,
            (std::vector<uint64_t>{0x1000, 11, 0x4000}));
}

TEST_F(CudaTensorMapTest, refusesALaunchWithoutThem) {
  load();
  const std::string note =
      "\n  note: plan the launch from the bundle that was loaded";
  KernelLaunch launch = usualLaunch(), wrong = launch;
  wrong.maps.pop_back();
  EXPECT_EQ(text(device->launch(*module, wrong)),
            "kernel 'attention' expects a tensor map as argument 2, but got "
            "none" +
                note);
  wrong.maps.clear();
  EXPECT_EQ(text(device->launch(*module, wrong)),
            "kernel 'attention' expects a tensor map as argument 0, but got "
            "none" +
                note);
  wrong = launch;
  wrong.maps.push_back(launch.maps[0]);
  EXPECT_EQ(text(device->launch(*module, wrong)),
            "kernel 'attention' expects 2 tensor maps, but got 3" + note);
  wrong = launch;
  wrong.maps[0].argument = 1;
  EXPECT_EQ(text(device->launch(*module, wrong)),
            "kernel 'attention' expects a tensor map as argument 0, but got "
            "none" +
                note);
  EXPECT_TRUE(fake.launches.empty());
}

TEST_F(CudaTensorMapTest, reportsADriverThatRefuses) {
  load();
  Plan made = plan();
  const std::string message =
      "cuTensorMapEncodeTiled failed: CUDA_ERROR_FAKE (999): as planned\n"
      "  note: making the tensor map that is argument 2 of kernel 'attention'";
  const std::vector<DevicePointer> pointers = {0x1000, 0x2000, 0x3000, 0x4000};
  fake.failAt("cuTensorMapEncodeTiled", 999, 1);
  EXPECT_EQ(text(made.launch(pointers, 0)), message);
  fake.failAt("cuTensorMapEncodeTiled", 999, 1);
  EXPECT_EQ(text(device->launch(*module, usualLaunch())), message);
  fake.failAt("cuTensorMapEncodeTiled", 999, 1);
  EXPECT_EQ(text(device->measureOverhead(*module, usualLaunch(), 1)), message);
  EXPECT_TRUE(fake.launches.empty());
  fake.failAt("cuTensorMapEncodeTiled", 0);
  EXPECT_EQ(text(made.launch(pointers, 0)), "");
  // What failed is not taken for the map that was there before.
  fake.failOnce("cuTensorMapEncodeTiled", 999);
  EXPECT_NE(text(made.launch({{0x6000, 0x2000, 0x3000, 0x4000}}, 0)), "");
  size_t before = fake.tensorMaps.size();
  EXPECT_EQ(text(made.launch(pointers, 0)), "");
  EXPECT_EQ(fake.tensorMaps.size(), before + 1);
  EXPECT_EQ(fake.launches.back().arguments,
            (std::vector<uint64_t>{0x1000, 11, 0x4000}));
}

TEST_F(CudaTensorMapTest, refusesADriverWithoutThem) {
  CudaDriver driver = fake.driver();
  driver.tensorMapEncodeTiled = nullptr;
  auto opened = createCudaDevice(driver, 0, std::nullopt);
  ASSERT_EQ(text(opened), "");
  Bundle withMaps = loadTestBundle(copyManifest());
  EXPECT_EQ(text((*opened)->load(withMaps)),
            "kernel 'attention' takes tensor maps, but the CUDA driver has no "
            "cuTensorMapEncodeTiled to make them\n"
            "  note: the driver is too old: install one for CUDA 12 or newer\n"
            "  note: loading PTX sm_90a from test.fcb/kernels.ptx");
  fake.parameters.assign(8, 8);
  Bundle without = loadTestBundle();
  EXPECT_EQ(text((*opened)->load(without)), "");
}

TEST_F(CudaTensorMapTest, refusesMoreThanALaunchPasses) {
  json manifest = copyManifest();
  json &arguments = manifest["kernels"][0]["arguments"];
  arguments = std::vector<json>(33, arguments[0]);
  bundle = loadTestBundle(manifest);
  fake.parameters.assign(33, 128);
  device = fake.open();
  EXPECT_EQ(text(device->load(bundle)),
            "kernel 'attention' expects 33 tensor maps, but a launch passes at "
            "most 32");
  bundle.kernels[0].arguments.pop_back();
  fake.parameters.pop_back();
  EXPECT_EQ(text(device->load(bundle)), "");
}

TEST_F(CudaTensorMapTest, comparesThemWithTheLoadedCode) {
  fake.parameters = {8, 8, 128};
  bundle = loadTestBundle(copyManifest());
  device = fake.open();
  EXPECT_TRUE(text(device->load(bundle))
                  .starts_with("kernel 'attention' expects 8 bytes as argument "
                               "0, but that of the manifest has 128\n"));
}

//===----------------------------------------------------------------------===//
// The emulator
//===----------------------------------------------------------------------===//

namespace {
class EmulatedCopyTest : public ::testing::Test {
protected:
  EmulatedCopyTest() {
    json manifest = copyManifest();
    setPtx(manifest, std::string(copyPtx));
    ScratchDirectory scratch;
    writeBundle(scratch.path(), manifest);
    auto loaded = Bundle::load(scratch.path(), &device->info());
    EXPECT_EQ(text(loaded), "");
    bundle = std::move(*loaded);
    auto made = device->load(bundle);
    EXPECT_EQ(text(made), "");
    module = std::move(*made);
  }

  static size_t elements(const Extents &sizes, const Extents &strides) {
    int64_t last = 0;
    for (size_t i = 0; i < sizes.size(); ++i)
      last += sizes[i] > 1 ? (sizes[i] - 1) * strides[i] : 0;
    return static_cast<size_t>(last) + 1;
  }
  DeviceBuffer buffer(const char *name, size_t numElements) {
    auto made = DeviceBuffer::create(*device, int64_t(2 * numElements), name);
    EXPECT_EQ(text(made), "");
    return std::move(*made);
  }

  /// Copies q to o, twice and to other places the second time.
  void check(const Layouts &layouts) {
    auto made = Plan::create(*device, *module, bundle, layouts.tensors());
    ASSERT_EQ(text(made), "");
    DeviceBuffer k = buffer("k", elements(layouts.sizesK, layouts.k));
    for (int repeat = 0; repeat < 2; ++repeat)
      checkLaunch(layouts, *made, k, static_cast<uint16_t>(1 + repeat));
  }

private:
  void checkLaunch(const Layouts &layouts, const Plan &made,
                   const DeviceBuffer &k, uint16_t first) {
    std::vector<uint16_t> q(elements(layouts.sizes, layouts.q)),
        o(elements(layouts.sizes, layouts.o), 7);
    for (size_t i = 0; i < q.size(); ++i)
      q[i] = static_cast<uint16_t>(first + 3 * i);
    DeviceBuffer from = buffer("q", q.size()), to = buffer("o", o.size());
    EXPECT_EQ(
        text(device->copyToDevice(from.pointer(), q.data(), from.bytes())), "");
    EXPECT_EQ(text(device->copyToDevice(to.pointer(), o.data(), to.bytes())),
              "");
    EXPECT_EQ(
        text(made.launch(
            {{from.pointer(), k.pointer(), k.pointer(), to.pointer()}}, 0)),
        "");
    std::vector<uint16_t> expected = o;
    forEach(layouts.sizes, [&](const Extents &at) {
      expected[place(at, layouts.o)] = q[place(at, layouts.q)];
    });
    EXPECT_EQ(text(device->copyToHost(o.data(), to.pointer(), to.bytes())), "");
    EXPECT_EQ(o, expected);
  }
  static size_t place(const Extents &at, const Extents &strides) {
    int64_t sum = 0;
    for (size_t i = 0; i < at.size(); ++i)
      sum += at[i] * (at[i] ? strides[i] : 0);
    return static_cast<size_t>(sum);
  }
  template <typename F> static void forEach(const Extents &sizes, F f) {
    for (int64_t b = 0; b < sizes[0]; ++b)
      for (int64_t h = 0; h < sizes[1]; ++h)
        for (int64_t s = 0; s < sizes[2]; ++s)
          for (int64_t d = 0; d < sizes[3]; ++d)
            f({b, h, s, d});
  }

protected:
  std::unique_ptr<Device> device = createEmulatorDevice();
  Bundle bundle;
  std::unique_ptr<LoadedModule> module;
};
} // namespace

TEST_F(EmulatedCopyTest, copiesWhateverTheLayouts) {
  EXPECT_EQ(module->code(), "PTX sm_90a on the emulator");
  check(usualLayouts());
  // Padded rows, packed ones, one row, repeated heads.
  check({{2, 3, 16, 16}, {1536, 512, 24, 1}, {768, 256, 16, 1}});
  check({{2, 3, 1, 16}, {48, 16, 5, 1}, {48, 16, 0, 1}});
  check({{2, 3, 9, 16}, {144, 0, 16, 1}, {432, 144, 16, 1}});
}

TEST_F(EmulatedCopyTest, refusesAnAddressThatIsNotAligned) {
  StatusOr<Problem> problem =
      Problem::create(bundle, testRequest(2, 3, 3, 11, 5));
  ASSERT_EQ(text(problem), "");
  KernelLaunch launch =
      planLaunches(*problem, {{"q", 0x1000}, {"o", 0x4000}}, 1)->front();
  launch.arguments[2] = 0x4008;
  EXPECT_EQ(text(device->launch(*module, launch)),
            "on the emulator a tensor map expects an address that is a "
            "multiple of 16, but got 16392\n"
            "  note: making the tensor map that is argument 2 of kernel "
            "'attention'");
}

TEST(TensorMapTest, isRefusedByADeviceWithoutBulkCopies) {
  json manifest = copyManifest();
  manifest["chip"] = "sm_80";
  Bundle bundle = loadTestBundle(manifest);
  HostDevice device;
  auto module = device.load(bundle);
  ASSERT_EQ(text(module), "");
  StatusOr<Problem> problem = Problem::create(bundle, testRequest());
  ASSERT_EQ(text(problem), "");
  auto launches = planLaunches(*problem, {{"q", 0x1000}, {"o", 0x4000}}, 1);
  KernelLaunch launch = launches->front();
  launch.grid = {1, 1, 1};
  EXPECT_EQ(text(device.launch(**module, launch)),
            "expects a device with bulk copies, but got Host\n"
            "  note: making the tensor map that is argument 0 of kernel "
            "'attention'");
}
