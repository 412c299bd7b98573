//===- CubinCacheTest.cpp - Assembled code on disk ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What makes an entry a hit, what makes it a miss, and what a cache that does
// not work costs: nothing but the time to assemble.
//
//===----------------------------------------------------------------------===//

#include "../lib/CubinCache.h"
#include "FakeCuda.h"
#include "TestBundle.h"

#include "flashcore/Runtime/FileUtils.h"

#include <cstdlib>
#include <thread>

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace flashcore;
using namespace flashcore::testing;

namespace {
/// Loads PTX: the device is newer than every cubin of the test bundle.
class CubinCacheTest : public ::testing::Test {
protected:
  CubinCacheTest() : bundle(loadTestBundle()) {
    fake.cubinCache = scratch.path() / "a" / "b";
    fake.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 9;
    fake.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR] = 0;
  }

  /// The name of the loaded code, or the error.
  std::string load() {
    std::unique_ptr<Device> device = fake.open();
    StatusOr<std::unique_ptr<LoadedModule>> module = device->load(bundle);
    return module.ok() ? (*module)->code() : text(module);
  }

  /// The only file of the cache.
  std::filesystem::path entry() const {
    std::filesystem::directory_iterator files(*fake.cubinCache);
    EXPECT_EQ(std::distance(begin(files), end(files)), 1);
    return std::filesystem::directory_iterator(*fake.cubinCache)->path();
  }

  ScratchDirectory scratch;
  FakeCuda fake;
  Bundle bundle;
};

/// Sets an environment variable, or unsets it, for as long as it lives.
class Environment {
public:
  Environment(const char *name, const char *value) : name(name) {
    if (const char *old = std::getenv(name))
      before = old;
    set(value);
  }
  ~Environment() { set(before ? before->c_str() : nullptr); }

private:
  void set(const char *value) {
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  const char *name;
  std::optional<std::string> before;
};
} // namespace

TEST_F(CubinCacheTest, assemblesOnce) {
  EXPECT_EQ(load(), "PTX sm_80");
  EXPECT_EQ(fake.image, fake.assembled);
  EXPECT_EQ(fake.calls("cuLinkComplete"), 1);
  fake.image.clear();
  EXPECT_EQ(load(), "PTX sm_80, cached");
  EXPECT_EQ(fake.image, fake.assembled);
  EXPECT_EQ(fake.calls("cuLinkCreate"), 1);
}

TEST_F(CubinCacheTest, keepsWhatTheAssemblerSaid) {
  fake.infoLog = "info : Used 128 registers";
  auto log = [&] {
    std::unique_ptr<Device> device = fake.open();
    StatusOr<std::unique_ptr<LoadedModule>> module = device->load(bundle);
    EXPECT_EQ(text(module), "");
    return (*module)->log();
  };
  EXPECT_EQ(log(), fake.infoLog);
  EXPECT_EQ(log(), ""); // cached
  fake.cubinCache.reset();
  EXPECT_EQ(log(), fake.infoLog);
  // Once, not once for each way that was tried.
  fake.cubinCache = scratch.path() / "c";
  fake.failOnce("cuLinkComplete", 999);
  EXPECT_EQ(log(), fake.infoLog);
  fake.failOnce("cuModuleLoadDataEx", 999); // of what the linker made
  EXPECT_EQ(log(), fake.infoLog);
}

TEST_F(CubinCacheTest, doesNotAssembleWhereACubinFits) {
  fake.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 8;
  fake.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR] = 9;
  EXPECT_EQ(load(), "cubin sm_89");
  EXPECT_FALSE(exists(*fake.cubinCache));
}

// The linker would ignore setmaxnreg there and serialise wgmma.
TEST_F(CubinCacheTest, leavesWholeProgramsToTheOrdinaryWay) {
  const std::string ptx = bundle.ptx.contents;
  for (const char *instruction : {"wgmma.fence", "setmaxnreg.inc"}) {
    bundle.ptx.contents = ptx + "// " + instruction + "\n";
    EXPECT_EQ(load(), "PTX sm_80");
    EXPECT_EQ(fake.image, bundle.ptx.contents);
    EXPECT_EQ(fake.calls("cuLinkCreate"), 0);
    EXPECT_FALSE(exists(*fake.cubinCache));
  }
}

TEST_F(CubinCacheTest, keepsCodeOfOneChipWithoutSuchInstructions) {
  bundle.ptx.chip.number = 90;
  bundle.ptx.chip.suffix = 'a';
  EXPECT_EQ(load(), "PTX sm_90a");
  EXPECT_EQ(load(), "PTX sm_90a, cached");
}

TEST_F(CubinCacheTest, refusesWhatTheAssemblerGaveUp) {
  const std::string refusal =
      "the driver's assembler makes slow code of these kernels: (C7510) "
      "Potential Performance Loss: wgmma is serialized\n"
      "  note: compile the bundle with a ptxas, so that it holds a cubin\n"
      "  note: loading PTX sm_80 from test.fcb/kernels.ptx";
  bundle.ptx.contents += "// wgmma.fence\n";
  const std::string remark = "ptxas info : (C7510) Potential Performance Loss: "
                             "wgmma is serialized\nptxas info : 0 bytes gmem";
  std::filesystem::path folder = *fake.cubinCache;
  fake.infoLog = remark;
  fake.cubinCache.reset();
  EXPECT_EQ(load(), refusal);
  EXPECT_EQ(fake.calls("cuModuleUnload"), 1);
  fake.cubinCache = folder;
  EXPECT_EQ(load(), refusal);
  // The driver takes it from its own cache now, and says nothing.
  fake.infoLog.clear();
  int loads = fake.calls("cuModuleLoadDataEx");
  EXPECT_EQ(load(), refusal);
  EXPECT_EQ(fake.calls("cuModuleLoadDataEx"), loads);
  fake.driverVersion = 13000; // which may do better
  EXPECT_EQ(load(), "PTX sm_80");
}

TEST_F(CubinCacheTest, isOffWithoutAFolder) {
  fake.cubinCache.reset();
  EXPECT_EQ(load(), "PTX sm_80");
  EXPECT_EQ(fake.image, testPtx);
  EXPECT_EQ(fake.calls("cuLinkCreate"), 0);
}

TEST_F(CubinCacheTest, anotherDriverAssemblesAnew) {
  EXPECT_EQ(load(), "PTX sm_80");
  fake.driverVersion = 12050;
  EXPECT_EQ(load(), "PTX sm_80");
  fake.driverVersion = 12040;
  EXPECT_EQ(load(), "PTX sm_80, cached");
}

TEST_F(CubinCacheTest, anotherDeviceAssemblesAnew) {
  EXPECT_EQ(load(), "PTX sm_80");
  fake.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 10;
  EXPECT_EQ(load(), "PTX sm_80");
}

TEST_F(CubinCacheTest, otherPtxAssemblesAnew) {
  EXPECT_EQ(load(), "PTX sm_80");
  bundle.ptx.contents += "// changed\n";
  EXPECT_EQ(load(), "PTX sm_80");
}

TEST_F(CubinCacheTest, replacesAnEntryThatIsDamaged) {
  EXPECT_EQ(load(), "PTX sm_80");
  std::string whole = *readFile(entry());
  std::string flipped = whole;
  flipped.back() ^= 1;
  for (const std::string &damaged :
       {flipped, whole.substr(0, whole.size() - 1), whole + "x",
        whole.substr(0, 20), std::string(), std::string("not an entry")}) {
    ASSERT_TRUE(writeFile(entry(), damaged).ok());
    EXPECT_EQ(load(), "PTX sm_80") << damaged;
    EXPECT_EQ(*readFile(entry()), whole);
    EXPECT_EQ(load(), "PTX sm_80, cached");
  }
}

TEST_F(CubinCacheTest, isOfItsUserAlone) {
  EXPECT_EQ(load(), "PTX sm_80");
  EXPECT_EQ(std::filesystem::status(*fake.cubinCache).permissions(),
            std::filesystem::perms::owner_all);
  EXPECT_EQ(std::filesystem::status(entry()).permissions(),
            std::filesystem::perms::owner_read |
                std::filesystem::perms::owner_write);
}

TEST_F(CubinCacheTest, doesNotTakeWhatOthersMayHaveWritten) {
  EXPECT_EQ(load(), "PTX sm_80");
  std::filesystem::path mine = entry();
  for (mode_t mode : {0620, 0602, 0666}) {
    ASSERT_EQ(chmod(mine.c_str(), mode), 0);
    EXPECT_EQ(load(), "PTX sm_80") << mode;
    EXPECT_EQ(load(), "PTX sm_80, cached") << mode; // replaced
  }
  std::filesystem::rename(mine, scratch.file("moved"));
  std::filesystem::create_symlink(scratch.file("moved"), mine);
  EXPECT_EQ(load(), "PTX sm_80");
  EXPECT_EQ(load(), "PTX sm_80, cached");
  EXPECT_FALSE(std::filesystem::is_symlink(mine));
}

TEST_F(CubinCacheTest, doesNotWaitForAPipe) {
  EXPECT_EQ(load(), "PTX sm_80");
  std::filesystem::path mine = entry();
  std::filesystem::remove(mine);
  ASSERT_EQ(mkfifo(mine.c_str(), 0600), 0);
  EXPECT_EQ(load(), "PTX sm_80");
  EXPECT_EQ(load(), "PTX sm_80, cached");
}

TEST_F(CubinCacheTest, doesNotTakeTheEntryOfAnotherUser) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can make a file of another user";
  constexpr uid_t somebody = 12345;
  EXPECT_EQ(load(), "PTX sm_80");
  ASSERT_EQ(chown(entry().c_str(), somebody, somebody), 0);
  EXPECT_EQ(load(), "PTX sm_80");
  EXPECT_EQ(load(), "PTX sm_80, cached");
  ASSERT_EQ(chown(fake.cubinCache->c_str(), somebody, somebody), 0);
  EXPECT_EQ(load(), "PTX sm_80, cache folder not safe");
  EXPECT_EQ(fake.image, testPtx);
}

TEST_F(CubinCacheTest, doesNotUseAFolderInWhichOthersCanReplaceEntries) {
  EXPECT_EQ(load(), "PTX sm_80");
  ASSERT_EQ(chmod(fake.cubinCache->c_str(), 0777), 0);
  EXPECT_EQ(load(), "PTX sm_80, cache folder not safe");
  EXPECT_EQ(fake.image, testPtx);
  // In a sticky folder, such as /tmp, everybody has entries of his own.
  ASSERT_EQ(chmod(fake.cubinCache->c_str(), 01777), 0);
  EXPECT_EQ(load(), "PTX sm_80, cached");
  ASSERT_EQ(chmod(fake.cubinCache->c_str(), 0775), 0);
  EXPECT_EQ(load(), "PTX sm_80, cached");
}

TEST_F(CubinCacheTest, isNotDeceivedByTheEntryOfAnotherKey) {
  EXPECT_EQ(load(), "PTX sm_80");
  std::filesystem::path mine = entry();
  CubinCache other(scratch.path() / "other");
  ASSERT_TRUE(other.store({Chip{90, 0}, 12040, "other PTX"}, "other cubin"));
  std::filesystem::copy_file(
      *std::filesystem::directory_iterator(scratch.path() / "other"), mine,
      std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(load(), "PTX sm_80");
  EXPECT_EQ(fake.image, fake.assembled);
}

TEST_F(CubinCacheTest, replacesAnEntryThatTheDriverRefuses) {
  EXPECT_EQ(load(), "PTX sm_80");
  fake.failOnce("cuModuleLoadDataEx", cuda::CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(load(), "PTX sm_80");
  EXPECT_EQ(fake.calls("cuLinkComplete"), 2);
  EXPECT_EQ(load(), "PTX sm_80, cached");
}

TEST_F(CubinCacheTest, aFolderThatCannotBeWrittenIsNoError) {
  scratch.write("file", "");
  fake.cubinCache = scratch.path() / "file" / "cache";
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(load(), "PTX sm_80, cache not writable");
  EXPECT_EQ(fake.image, fake.assembled);
}

TEST_F(CubinCacheTest, anEntryThatCannotBeReplacedLeavesNoRest) {
  EXPECT_EQ(load(), "PTX sm_80");
  std::filesystem::path taken = entry();
  std::filesystem::remove(taken);
  std::filesystem::create_directories(taken / "full");
  EXPECT_EQ(load(), "PTX sm_80, cache not writable");
  EXPECT_EQ(entry(), taken); // no temporary file beside it
}

TEST_F(CubinCacheTest, loadsThePtxWhereTheLinkerFails) {
  for (const char *call : {"cuDriverGetVersion", "cuLinkCreate",
                           "cuLinkAddData", "cuLinkComplete"}) {
    fake.failAt(call, 999);
    EXPECT_EQ(load(), "PTX sm_80") << call;
    EXPECT_EQ(fake.image, testPtx);
    EXPECT_FALSE(exists(*fake.cubinCache));
    fake.failAt(call, cuda::CUDA_SUCCESS);
  }
}

TEST_F(CubinCacheTest, writersAndReadersDoNotDisturbEachOther) {
  CubinCache cache(scratch.path());
  CubinCache::Key key = {Chip{90, 0}, 12040, std::string(testPtx)};
  std::string cubin(1 << 16, 'c');
  ASSERT_TRUE(cache.store(key, cubin));
  auto work = [&] {
    for (int i = 0; i < 50; ++i) {
      EXPECT_TRUE(cache.store(key, cubin));
      EXPECT_EQ(cache.find(key), cubin);
    }
  };
  std::thread threads[] = {std::thread(work), std::thread(work),
                           std::thread(work)};
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()),
                          std::filesystem::directory_iterator()),
            1);
}

TEST_F(CubinCacheTest, isWhereTheEnvironmentSays) {
  Environment chosen("FLASHCORE_CACHE_DIR", "/chosen");
  Environment cache("XDG_CACHE_HOME", "/cache");
  Environment home("HOME", "/home/me");
  EXPECT_EQ(defaultCubinCache(), "/chosen");
  {
    Environment off("FLASHCORE_CACHE_DIR", "");
    EXPECT_EQ(defaultCubinCache(), std::nullopt);
  }
  Environment unset("FLASHCORE_CACHE_DIR", nullptr);
  EXPECT_EQ(defaultCubinCache(), "/cache/flashcore");
  Environment relative("XDG_CACHE_HOME", "cache");
  EXPECT_EQ(defaultCubinCache(), "/home/me/.cache/flashcore");
  // That of the user, whatever the working folder is.
  for (const char *none : {static_cast<const char *>(nullptr), ".", ""}) {
    Environment homeless("HOME", none);
    std::optional<std::filesystem::path> found = defaultCubinCache();
    EXPECT_TRUE(!found || found->is_absolute());
    const passwd *user = getpwuid(geteuid());
    EXPECT_EQ(found.has_value(), user && *user->pw_dir == '/');
  }
  Environment here("FLASHCORE_CACHE_DIR", "kernels");
  EXPECT_EQ(defaultCubinCache(), std::filesystem::current_path() / "kernels");
}
