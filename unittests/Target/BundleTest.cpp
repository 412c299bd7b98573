//===- BundleTest.cpp - Writing bundles -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Target/Bundle.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

#include <atomic>
#include <clocale>
#include <cstdlib>
#include <set>
#include <sys/stat.h>
#include <thread>

using namespace mlir::flashcore;
namespace fs = llvm::sys::fs;
namespace json = llvm::json;

namespace {
/// What is launched of a small kernel.
constexpr llvm::StringLiteral kKernel = R"({
  arguments = [{kind = "pointer", tensor = "q"}, {dim = "seqlen_k", kind = "size"},
               {axis = 2 : i64, kind = "stride", tensor = "q"},
               {kind = "offset", tensor = "q"}],
  grid = "seqlen_q ceildiv 32",
  shared_memory = 4096 : i64,
  threads = 96 : i64
})";

/// The `fcgpu.program` of one op with everything that may be dynamic.
constexpr llvm::StringLiteral kProgram = R"({
  launches = [],
  ops = [{attributes = {causal = "top_left", softcap,
                        softmax_scale = 1.250000e-01 : f32,
                        window_left = 0 : i64, window_right},
          kernel = "attention", op = "attention"}],
  sizes = {batch = 1 : i64, head_dim = 64 : i64, seqlen_k},
  tensors = [{alignment = 16 : i64, axes = ["batch", "seqlen_q"], dtype = bf16,
              name = "q", offset, role = "input", strides = [64 : i64, unit]},
             {alignment = 2 : i64, axes = ["1", "seqlen_k"], dtype = f16,
              name = "bias", offset = 0 : i64, role = "input",
              strides = [64 : i64, 1 : i64]}]
})";

class Bundle : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(fs::createUniqueDirectory("flashcore-bundle", directory));
    variant().program = parse(kProgram);
    variant().kernels.push_back({"attention", parse(kKernel)});
    variant().chip = "sm_89";
    variant().ptx = "foobar";
  }
  void TearDown() override { fs::remove_directories(directory); }

  mlir::DictionaryAttr parse(llvm::StringRef text) {
    return llvm::cast<mlir::DictionaryAttr>(
        mlir::parseAttribute(text, &context));
  }
  void setInProgram(llvm::StringRef key, llvm::StringRef value) {
    mlir::NamedAttrList program(variant().program);
    program.set(key, mlir::parseAttribute(value, &context));
    variant().program = program.getDictionary(&context);
  }
  std::string path(llvm::StringRef name) const {
    return (directory + "/" + name).str();
  }
  void writeText(llvm::StringRef path, llvm::StringRef text) {
    std::error_code ec;
    llvm::raw_fd_ostream(path, ec) << text;
    ASSERT_FALSE(ec);
  }
  static std::string readText(llvm::StringRef path) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    return buffer ? (*buffer)->getBuffer().str() : "cannot be read";
  }
  static std::set<std::string> list(llvm::StringRef path) {
    std::set<std::string> names;
    std::error_code ec;
    for (fs::directory_iterator it(path, ec), end; it != end && !ec;
         it.increment(ec))
      names.insert(llvm::sys::path::filename(it->path()).str());
    return names;
  }
  /// Writes the bundle `name`; the text of the error, or an empty string.
  std::string write(llvm::StringRef name) {
    return llvm::toString(writeBundle(path(name), variants));
  }
  /// Writes a bundle and reads its manifest.
  json::Object writeAndReadManifest() {
    EXPECT_EQ(write("a.fcb"), "");
    auto manifest = json::parse(readText(path("a.fcb/manifest.json")));
    if (!manifest || !manifest->getAsObject()) {
      llvm::consumeError(manifest.takeError());
      ADD_FAILURE() << "the manifest is no JSON object";
      return {};
    }
    return *manifest->getAsObject();
  }
  void addCubin() {
    Cubin cubin;
    cubin.chip = "sm_89";
    cubin.image = "a";
    cubin.assembler = "ptxas 13.0.88";
    cubin.kernels["attention"] = {/*registers=*/168, /*stackFrame=*/24,
                                  /*spillStores=*/16, /*spillLoads=*/12,
                                  /*staticSharedMemory=*/8};
    cubin.kernels["another"] = {/*registers=*/1};
    variant().cubins.push_back(cubin);
  }

  BundleVariant &variant() { return variants.front(); }
  /// That of the first variant.
  json::Object writeAndReadVariant() {
    json::Object manifest = writeAndReadManifest();
    return *(*manifest.getArray("variants"))[0].getAsObject();
  }

  llvm::SmallString<128> directory;
  mlir::MLIRContext context;
  std::vector<BundleVariant> variants{1};
};

/// One spelling for equal values, so that a failure shows both.
std::string normalize(const json::Value &value) {
  return llvm::formatv("{0:2}", value);
}
std::string normalizeText(llvm::StringRef text) {
  return normalize(llvm::cantFail(json::parse(text)));
}

//===----------------------------------------------------------------------===//
// The manifest
//===----------------------------------------------------------------------===//

TEST_F(Bundle, LaunchCommentSaysWhatTheManifestSays) {
  variant().kernels.push_back({"another\nkernel", parse(kKernel)});
  json::Object manifest = writeAndReadManifest();
  for (auto &[key, value] : writeAndReadVariant())
    manifest[key] = value;
  for (json::Value &kernel : *manifest.getArray("kernels"))
    kernel.getAsObject()->erase("resources");
  std::string text = getLaunchComment(variant().program, variant().kernels);
  llvm::StringRef comment = text;
  EXPECT_TRUE(comment.consume_front("// flashcore-launch: "));
  EXPECT_TRUE(comment.consume_back("\n"));
  EXPECT_FALSE(comment.contains('\n'));
  json::Object expected;
  for (llvm::StringRef key :
       {"version", "ops", "sizes", "tensors", "values", "workspace", "kernels"})
    expected[key] = *manifest.get(key);
  EXPECT_EQ(normalizeText(comment), normalize(std::move(expected)));
  EXPECT_EQ(getLaunchComment(nullptr, {}), "");
}

TEST_F(Bundle, NamesFormatVersionAndChip) {
  json::Object manifest = writeAndReadManifest();
  EXPECT_EQ(manifest.getString("format"), "flashcore-bundle");
  EXPECT_EQ(manifest.getInteger("version"), 11);
  EXPECT_EQ(writeAndReadVariant().getString("chip"), "sm_89");
}

TEST_F(Bundle, DescribesTheAttention) {
  json::Object manifest = writeAndReadManifest();
  EXPECT_EQ(normalize(manifest["ops"]),
            normalizeText(R"([{"op": "attention", "attributes": {
                      "softmax_scale": 0.125, "causal": "top_left",
                      "window_left": 0, "window_right": null,
                      "softcap": null}}])"));
  EXPECT_EQ(normalize(manifest["sizes"]),
            normalizeText(R"({"batch": 1, "head_dim": 64, "seqlen_k": null})"));
}

TEST_F(Bundle, DescribesAFeatureThatIsUsed) {
  setInProgram("ops", R"([{attributes = {softcap = 30.5 : f32,
      window_right = 17 : i64}, kernel = "attention", op = "attention"}])");
  json::Object manifest = writeAndReadManifest();
  json::Object &attention =
      *(*manifest.getArray("ops"))[0].getAsObject()->getObject("attributes");
  EXPECT_EQ(attention.getNumber("softcap"), 30.5);
  EXPECT_EQ(attention.getInteger("window_right"), 17);
}

// The alignment is what the kernel says, whatever the type.
TEST_F(Bundle, DescribesTensorsWithTheirAlignment) {
  json::Object manifest = writeAndReadManifest();
  EXPECT_EQ(normalize(manifest["tensors"]),
            normalizeText(R"([{"name": "q", "role": "input", "dtype": "bf16",
                       "axes": ["batch", "seqlen_q"], "strides": [64, null],
                       "offset": null, "alignment": 16},
                      {"name": "bias", "role": "input", "dtype": "f16",
                       "axes": ["1", "seqlen_k"], "strides": [64, 1],
                       "offset": 0, "alignment": 2}])"));
}

TEST_F(Bundle, DescribesTheKernel) {
  json::Object written = writeAndReadVariant();
  EXPECT_EQ(normalize(written["kernels"]),
            normalizeText(R"([{"name": "attention", "block": [96, 1, 1],
                       "grid": ["seqlen_q ceildiv 32", "1", "1"],
                       "dynamic_shared_memory": 4096,
                       "arguments": [
                         {"kind": "pointer", "tensor": "q"},
                         {"kind": "size", "dim": "seqlen_k"},
                         {"kind": "stride", "tensor": "q", "axis": 2},
                         {"kind": "offset", "tensor": "q"}],
                       "resources": null}])"));
}

TEST_F(Bundle, DescribesTensorMaps) {
  mlir::NamedAttrList kernel(variant().kernels[0].description);
  kernel.set("arguments", mlir::parseAttribute(R"([
      {box = [1 : i64, 64 : i64], kind = "tensor_map", swizzle = 128 : i64,
       tensor = "q"}])",
                                               &context));
  variant().kernels[0].description = kernel.getDictionary(&context);
  json::Object written = writeAndReadVariant();
  json::Object &described = *(*written.getArray("kernels"))[0].getAsObject();
  EXPECT_EQ(normalize(described["arguments"]),
            normalizeText(R"([{"kind": "tensor_map", "tensor": "q",
                               "box": [1, 64], "swizzle": 128}])"));
}

TEST_F(Bundle, HasNoWorkspace) {
  json::Object written = writeAndReadVariant();
  EXPECT_EQ(normalize(written["workspace"]), "[]");
}

TEST_F(Bundle, ListsKernelsInOrderAndTheirWorkspace) {
  setInProgram("workspace", R"([{bytes = "batch * 12", when = "batch <= 4"}])");
  setInProgram("values", R"([{is = "batch * 2", name = "pairs"}])");
  mlir::NamedAttrList kernel(variant().kernels[0].description);
  kernel.set("when", mlir::parseAttribute(R"("batch <= 4")", &context));
  variant().kernels[0].description = kernel.getDictionary(&context);
  variant().kernels.push_back({"merge", parse(R"({
      arguments = [{kind = "pointer", tensor = "workspace"}],
      grid = "batch * 3",
      shared_memory = 0 : i64, threads = 16 : i64})")});
  json::Object written = writeAndReadVariant();
  EXPECT_EQ(
      normalize(written["workspace"]),
      normalizeText(R"([{"bytes": "batch * 12", "when": "batch <= 4"}])"));
  EXPECT_EQ(normalize(written["values"]),
            normalizeText(R"([{"name": "pairs", "is": "batch * 2"}])"));
  const json::Array &kernels = *written.getArray("kernels");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].getAsObject()->getString("name"), "attention");
  EXPECT_EQ(kernels[0].getAsObject()->getString("when"), "batch <= 4");
  EXPECT_EQ(normalize(kernels[1]),
            normalizeText(R"({"name": "merge", "block": [16, 1, 1],
                       "grid": ["batch * 3", "1", "1"],
                       "dynamic_shared_memory": 0,
                       "arguments": [
                         {"kind": "pointer", "tensor": "workspace"}],
                       "resources": null})"));
}

// The published FNV-1a test vectors of "foobar" and "a".
TEST_F(Bundle, ChecksumsItsFiles) {
  addCubin();
  json::Object written = writeAndReadVariant();
  EXPECT_EQ(normalize(written["ptx"]),
            normalizeText(R"({"file": "kernels.ptx", "bytes": 6,
                      "fnv1a64": "85944171f73967e8"})"));
  EXPECT_EQ(normalize(written["cubins"]),
            normalizeText(R"([{"chip": "sm_89", "file": "kernels.sm_89.cubin",
                       "bytes": 1, "fnv1a64": "af63dc4c8601ec8c"}])"));
}

TEST_F(Bundle, WithoutCubinHasNoAssembler) {
  json::Object written = writeAndReadVariant();
  EXPECT_EQ(normalize(written["assembler"]), "null");
  EXPECT_EQ(normalize(written["cubins"]), "[]");
}

TEST_F(Bundle, WithCubinReportsResourcesOfEachKernel) {
  addCubin();
  variant().kernels.push_back({"another", variant().kernels[0].description});
  json::Object two = writeAndReadVariant();
  EXPECT_EQ((*two.getArray("kernels"))[1]
                .getAsObject()
                ->getObject("resources")
                ->getInteger("registers"),
            1);
  variant().kernels.pop_back();
  json::Object written = writeAndReadVariant();
  EXPECT_EQ(written.getString("assembler"), "ptxas 13.0.88");
  EXPECT_EQ(
      normalize(
          *(*written.getArray("kernels"))[0].getAsObject()->get("resources")),
      normalizeText(R"({"chip": "sm_89", "registers": 168, "spill_stores": 16,
                      "spill_loads": 12, "static_shared_memory": 8})"));
}

TEST_F(Bundle, HasAVariantForEachChip) {
  addCubin();
  BundleVariant newer = variant();
  newer.chip = "sm_90";
  newer.ptx = "a";
  newer.cubins.clear();
  newer.kernels[0].name = "newer";
  variants.push_back(newer);
  EXPECT_EQ(write("two.fcb"), "");
  EXPECT_EQ(list(path("two.fcb")),
            (std::set<std::string>{"kernels.sm_89.cubin", "kernels.sm_89.ptx",
                                   "kernels.sm_90.ptx", "manifest.json"}));
  EXPECT_EQ(readText(path("two.fcb/kernels.sm_89.ptx")), "foobar");
  EXPECT_EQ(readText(path("two.fcb/kernels.sm_90.ptx")), "a");
  auto manifest =
      llvm::cantFail(json::parse(readText(path("two.fcb/manifest.json"))));
  const json::Array &written = *manifest.getAsObject()->getArray("variants");
  ASSERT_EQ(written.size(), 2u);
  const json::Object &second = *written[1].getAsObject();
  EXPECT_EQ(second.getString("chip"), "sm_90");
  EXPECT_EQ(second.getObject("ptx")->getString("file"), "kernels.sm_90.ptx");
  EXPECT_TRUE(second.getArray("cubins")->empty());
  EXPECT_EQ(second.getString("assembler"), std::nullopt);
  EXPECT_EQ((*second.getArray("kernels"))[0].getAsObject()->getString("name"),
            "newer");
}

//===----------------------------------------------------------------------===//
// The directory
//===----------------------------------------------------------------------===//

TEST_F(Bundle, HoldsItsFilesAndLeavesNothingBeside) {
  addCubin();
  EXPECT_EQ(write("a.fcb"), "");
  EXPECT_EQ(list(directory), std::set<std::string>{"a.fcb"});
  EXPECT_EQ(list(path("a.fcb")),
            (std::set<std::string>{"kernels.ptx", "kernels.sm_89.cubin",
                                   "manifest.json"}));
  EXPECT_EQ(readText(path("a.fcb/kernels.ptx")), "foobar");
  EXPECT_EQ(readText(path("a.fcb/kernels.sm_89.cubin")), "a");
}

TEST_F(Bundle, ReplacesAnOlderBundleWithAllItsFiles) {
  addCubin();
  EXPECT_EQ(write("a.fcb"), "");
  variant().cubins.clear();
  variant().ptx = "newer";
  EXPECT_EQ(write("a.fcb"), "");
  EXPECT_EQ(list(directory), std::set<std::string>{"a.fcb"});
  EXPECT_EQ(list(path("a.fcb")),
            (std::set<std::string>{"kernels.ptx", "manifest.json"}));
  EXPECT_EQ(readText(path("a.fcb/kernels.ptx")), "newer");
}

// A program that embeds the compiler may have a locale in which 0.5 is "0,5".
TEST_F(Bundle, ReplacesAnOlderBundleInAnyLocale) {
  // Made here: a small machine has none but C.
  std::string command =
      "localedef -i de_DE -f UTF-8 " + path("de_DE.UTF-8") + " >/dev/null 2>&1";
  setenv("LOCPATH", directory.c_str(), 1);
  if (std::system(command.c_str()) || !std::setlocale(LC_ALL, "de_DE.UTF-8"))
    GTEST_SKIP() << "localedef cannot make a German locale";
  EXPECT_EQ(write("a.fcb"), "");
  EXPECT_EQ(write("a.fcb"), "");
  std::setlocale(LC_ALL, "C");
  unsetenv("LOCPATH");
}

TEST_F(Bundle, RefusesAnyOtherDirectory) {
  ASSERT_FALSE(fs::create_directory(path("home")));
  writeText(path("home/thesis.tex"), "precious");
  EXPECT_EQ(write("home"),
            "cannot write '" + path("home") +
                "': it exists and is not a bundle; remove it or choose another "
                "name");
  EXPECT_EQ(list(path("home")), std::set<std::string>{"thesis.tex"});
}

TEST_F(Bundle, RefusesADirectoryWithTheManifestOfAnother) {
  ASSERT_FALSE(fs::create_directory(path("app")));
  writeText(path("app/manifest.json"), R"({"name": "web app"})");
  writeText(path("app/index.html"), "precious");
  EXPECT_EQ(write("app"),
            "cannot write '" + path("app") +
                "': it exists and is not a bundle; remove it or choose another "
                "name");
  EXPECT_EQ(readText(path("app/index.html")), "precious");
}

// Whoever put it there, it is not ours to delete.
TEST_F(Bundle, RefusesABundleWithAForeignFile) {
  EXPECT_EQ(write("a.fcb"), "");
  writeText(path("a.fcb/notes.txt"), "precious");
  variant().ptx = "newer";
  EXPECT_EQ(write("a.fcb"),
            "cannot write '" + path("a.fcb") +
                "': it holds 'notes.txt', which is no file of a bundle; move "
                "it away or choose another name");
  EXPECT_EQ(readText(path("a.fcb/notes.txt")), "precious");
  EXPECT_EQ(readText(path("a.fcb/kernels.ptx")), "foobar");
  EXPECT_EQ(list(directory), std::set<std::string>{"a.fcb"});
  ASSERT_FALSE(fs::remove(path("a.fcb/notes.txt")));
  ASSERT_FALSE(fs::create_directory(path("a.fcb/kernels.sm_80.ptx")));
  EXPECT_EQ(
      write("a.fcb"),
      "cannot write '" + path("a.fcb") +
          "': it holds 'kernels.sm_80.ptx', which is no file of a bundle; "
          "move it away or choose another name");
}

// As a compiler's file, whatever the mask: no more and no less than it says.
TEST_F(Bundle, HasTheModesOfTheUmask) {
  mode_t before = umask(0022);
  EXPECT_EQ(write("a.fcb"), "");
  umask(0);
  EXPECT_EQ(write("b.fcb"), "");
  umask(before);
  auto mode = [&](llvm::StringRef name) {
    return static_cast<unsigned>(llvm::cantFail(
        llvm::errorOrToExpected(fs::getPermissions(path(name)))));
  };
  EXPECT_EQ(mode("a.fcb"), 0755u);
  EXPECT_EQ(mode("a.fcb/kernels.ptx"), 0644u);
  EXPECT_EQ(mode("a.fcb/manifest.json"), 0644u);
  EXPECT_EQ(mode("b.fcb"), 0777u);
  EXPECT_EQ(mode("b.fcb/kernels.ptx"), 0666u);
}

// Somebody reads all the time, and finds one of the two in all its parts.
TEST_F(Bundle, ReplacesWhileItIsRead) {
  EXPECT_EQ(write("a.fcb"), "");
  std::atomic<bool> stop = false;
  std::thread reader([&] {
    while (!stop)
      ASSERT_TRUE(fs::is_directory(path("a.fcb")));
  });
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(write("a.fcb"), "");
  stop = true;
  reader.join();
  EXPECT_EQ(list(directory), std::set<std::string>{"a.fcb"});
}

TEST_F(Bundle, IsWrittenByManyAtOnce) {
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i)
    writers.emplace_back([&] {
      for (int j = 0; j < 50; ++j)
        EXPECT_EQ(write("a.fcb"), "");
    });
  for (std::thread &writer : writers)
    writer.join();
  EXPECT_EQ(list(directory), std::set<std::string>{"a.fcb"});
}

TEST_F(Bundle, RefusesAFile) {
  writeText(path("notes"), "precious");
  EXPECT_EQ(write("notes"),
            "cannot write '" + path("notes") +
                "': it exists and is not a bundle; remove it or choose another "
                "name");
  EXPECT_EQ(readText(path("notes")), "precious");
}

TEST_F(Bundle, DoesNotMakeParents) {
  EXPECT_EQ(write("missing/a.fcb"), "cannot write '" + path("missing/a.fcb") +
                                        "': No such file or directory");
  EXPECT_TRUE(list(directory).empty());
}

// The temporary sibling must not land inside of the bundle it replaces.
TEST_F(Bundle, MayBeNamedWithATrailingSlash) {
  EXPECT_EQ(write("a.fcb/"), "");
  variant().ptx = "newer";
  EXPECT_EQ(write("a.fcb/"), "");
  EXPECT_EQ(list(directory), std::set<std::string>{"a.fcb"});
  EXPECT_EQ(readText(path("a.fcb/kernels.ptx")), "newer");
}
} // namespace
