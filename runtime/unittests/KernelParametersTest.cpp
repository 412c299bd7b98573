//===- KernelParametersTest.cpp - Arguments against code ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parameter lists that compilers write, and what each stage says about a
// manifest that does not fit: reading, loading on a GPU and on the emulator.
//
//===----------------------------------------------------------------------===//

#include "../lib/KernelParameters.h"
#include "FakeCuda.h"
#include "TestBundle.h"

#include "flashcore/Runtime/EmulatorDevice.h"

using namespace flashcore;
using namespace flashcore::testing;
using nlohmann::json;

/// "8p 8 4" of the parameters of `name`, or "none".
static std::string parametersOf(std::string_view ptx, std::string_view name) {
  auto parameters = readPtxParameters(ptx, name);
  if (!parameters)
    return "none";
  std::string result;
  for (const PtxParameter &parameter : *parameters)
    result += (result.empty() ? "" : " ") + std::to_string(parameter.bytes) +
              (parameter.isPointer ? "p" : "");
  return result;
}

TEST(PtxParametersTest, readsWhatLlvmWrites) {
  EXPECT_EQ(parametersOf(testPtx, "attention"), "8p 8p 8p 8p 8p 8 8 8");
  EXPECT_EQ(parametersOf(".visible .entry k(\n\t.param .u64 .ptr .global "
                         ".align 16 k_param_0,\n\t.param .f32 k_param_1\n)\n"
                         ".reqntid 128, 1, 1\n{",
                         "k"),
            "8p 4");
}

TEST(PtxParametersTest, readsStructuresAndArrays) {
  EXPECT_EQ(parametersOf(".entry k(.param .align 8 .b8 a[24], .param .b16 b[2]"
                         "[3], .param .u8 c, .param .f16x2 d)",
                         "k"),
            "24 12 1 4");
}

TEST(PtxParametersTest, readsTheRightKernel) {
  std::string ptx = "// .entry k(.param .u8 x)\n/* .entry k(.param .u16 x) */\n"
                    ".file 1 \".entry k(.param .u32 x)\"\n"
                    ".func k2(.param .u8 x) {}\n"
                    ".visible .entry k2(.param .u32 x) { mov k, k; }\n"
                    ".weak .entry k() {}\n.entry bare { ret; }";
  EXPECT_EQ(parametersOf(ptx, "k"), "");
  EXPECT_EQ(parametersOf(ptx, "k2"), "4");
  EXPECT_EQ(parametersOf(ptx, "bare"), "");
  EXPECT_EQ(parametersOf(ptx, "k3"), "none");
}

TEST(PtxParametersTest, refusesWhatItCannotRead) {
  for (const char *list :
       {"(.param .u64", "(.param .u64 a", "(.param .u64 a,", "(.param a)",
        "(.param .u64 a[0])", "(.param .u64 a[-1])", "(.param .u64 a[x])",
        "(.param .u64 a[99999999999999999999])", "(.param .u64 a[9)",
        "(.param .u64 a[60000][60000])", "(.param .u64 a; .param .u64 b)",
        "(.param .texref t)", "(.reg .u64 a)"})
    EXPECT_EQ(parametersOf(".entry k" + std::string(list), "k"), "none")
        << list;
}

namespace {
class ArgumentsTest : public ::testing::Test {
protected:
  /// What the loader says of the test bundle after `change`.
  template <typename Change> std::string refusal(Change &&change) {
    ScratchDirectory scratch;
    json manifest = testManifest();
    change(manifest, manifest["kernels"][0]["arguments"]);
    writeBundle(scratch.path(), manifest);
    std::string message = text(Bundle::load(scratch.path()));
    std::string prefix = scratch.file("");
    if (message.starts_with(prefix))
      message.erase(0, prefix.size());
    return message.substr(0, message.find("\n  note: "));
  }
};
} // namespace

TEST_F(ArgumentsTest, mustBeAsManyAsThoseOfThePtx) {
  EXPECT_EQ(refusal([](json &, json &list) { list.erase(7); }),
            "manifest.json: expects 'variants[0].kernels[0].arguments' to be "
            "an array of 8 "
            "elements, the parameters of 'attention' in kernels.ptx, but got "
            "an array of 7 elements");
  EXPECT_EQ(refusal([](json &, json &list) { list.push_back(list[7]); }),
            "manifest.json: expects 'variants[0].kernels[0].arguments' to be "
            "an array of 8 "
            "elements, the parameters of 'attention' in kernels.ptx, but got "
            "an array of 9 elements");
}

TEST_F(ArgumentsTest, mustBePointersWhereThePtxHasPointers) {
  EXPECT_EQ(
      refusal([](json &, json &list) { std::swap(list[0], list[5]); }),
      "manifest.json: expects 'variants[0].kernels[0].arguments[0].kind' to be "
      "'pointer' like parameter 0 of 'attention' in kernels.ptx, but got "
      "\"size\"");
  EXPECT_EQ(
      refusal([](json &, json &list) { list[7] = list[4]; }),
      "manifest.json: expects 'variants[0].kernels[0].arguments[7].kind' to be "
      "'size', 'stride' or 'offset' like parameter 7 of 'attention' in "
      "kernels.ptx, but got \"pointer\"");
}

TEST_F(ArgumentsTest, areNotToldApartWhereThePtxMarksNoPointers) {
  EXPECT_EQ(refusal([](json &manifest, json &list) {
              std::string ptx(testPtx);
              for (size_t at; (at = ptx.find(".ptr ")) != ptx.npos;)
                ptx.erase(at, 5);
              setPtx(manifest, ptx);
              std::swap(list[0], list[5]);
            }),
            "");
}

TEST_F(ArgumentsTest, mustHaveTheSizeOfTheParameters) {
  EXPECT_EQ(refusal([](json &manifest, json &) {
              std::string ptx(testPtx);
              ptx.replace(ptx.find(".u64 seqlen_k"), 4, ".u32");
              setPtx(manifest, ptx);
            }),
            "kernels.ptx: expects parameters of 8 bytes, or 128 for a tensor "
            "map, but got 4 in parameter 5 of 'attention'");
}

TEST_F(ArgumentsTest, mustBeThoseOfAKernelThatIsThere) {
  EXPECT_EQ(refusal([](json &manifest, json &) {
              manifest["kernels"][0]["name"] = "merge";
            }),
            "manifest.json: expects 'variants[0].kernels[0].name' to be the "
            "name of a "
            "kernel (.entry) in kernels.ptx, but got \"merge\"");
}

static const std::string mismatchRemedy =
    "\n  note: the code and the manifest of the bundle do not belong together: "
    "compile the bundle again";
static const std::string fromCubin =
    "\n  note: loading cubin sm_89 from test.fcb/kernels.sm_89.cubin";

/// What loading the test bundle on a GPU says.
static std::string load(FakeCuda &fake, CudaDriver driver) {
  auto device = createCudaDevice(driver, 0, std::nullopt);
  EXPECT_EQ(text(device), "");
  Bundle bundle = loadTestBundle();
  auto module = (*device)->load(bundle);
  EXPECT_EQ(fake.calls("cuLaunchKernel"), 0);
  return text(module);
}

TEST(CudaArgumentsTest, mustBeThoseOfTheLoadedCode) {
  for (size_t count : {0, 7, 9, 200}) {
    FakeCuda fake;
    fake.parameters.assign(count, 8);
    EXPECT_EQ(load(fake, fake.driver()),
              "kernel 'attention' expects " + std::to_string(count) +
                  " arguments, but the manifest lists 8" + mismatchRemedy +
                  fromCubin);
  }
  FakeCuda fake;
  fake.parameters[3] = 4;
  EXPECT_EQ(load(fake, fake.driver()),
            "kernel 'attention' expects 4 bytes as argument 3, but that of the "
            "manifest has 8" +
                mismatchRemedy + fromCubin);
}

TEST(CudaArgumentsTest, areNotAskedForFromAnOldDriver) {
  FakeCuda fake;
  fake.parameters.resize(7);
  CudaDriver driver = fake.driver();
  driver.funcGetParamInfo = nullptr;
  EXPECT_EQ(load(fake, driver), "");
}

TEST(CudaArgumentsTest, reportAFailingQuery) {
  FakeCuda fake;
  fake.failAt("cuFuncGetParamInfo", 999);
  EXPECT_EQ(load(fake, fake.driver()),
            "cuFuncGetParamInfo failed: CUDA_ERROR_FAKE (999): as planned\n"
            "  note: kernel 'attention'" +
                fromCubin);
}

TEST(EmulatorArgumentsTest, mustBeThoseOfTheProgram) {
  Bundle bundle = loadTestBundle();
  bundle.kernels[0].resources.reset();
  auto load = [&](const std::string &parameters) {
    bundle.ptx.contents = ".version 8.0\n.target sm_80\n.address_size 64\n"
                          ".visible .entry attention(" +
                          parameters + ") { ret; }";
    auto device = createEmulatorDevice();
    return text(device->load(bundle));
  };
  const std::string from =
      "\n  note: loading PTX sm_80 from test.fcb/kernels.ptx";
  std::string list = ".param .u64 p0";
  for (int i = 1; i < 8; ++i)
    list += ", .param .u64 p" + std::to_string(i);
  EXPECT_EQ(load(list), "");
  EXPECT_EQ(load(list + ", .param .u64 p8"),
            "kernel 'attention' expects 9 arguments, but the manifest lists 8" +
                mismatchRemedy + from);
  EXPECT_EQ(load(".param .u32 q" + list.substr(list.find(','))),
            "kernel 'attention' expects 4 bytes as argument 0, but that of the "
            "manifest has 8" +
                mismatchRemedy + from);
}

TEST(LaunchCommentTest, standsBeforeTheFirstDirective) {
  EXPECT_EQ(findLaunchComment("// a\n\n// flashcore-launch: {}\n.version 8.0"),
            "{}");
  EXPECT_EQ(findLaunchComment("// flashcore-launch: {}"), "{}");
  EXPECT_EQ(findLaunchComment(".version 8.0\n// flashcore-launch: {}\n"),
            std::nullopt);
  EXPECT_EQ(findLaunchComment("// a"), std::nullopt);
  EXPECT_EQ(findLaunchComment(""), std::nullopt);
}
