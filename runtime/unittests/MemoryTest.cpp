//===- MemoryTest.cpp - A host without memory -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What asks for more than there is says what and how much, and does not end the
// process.
//
//===----------------------------------------------------------------------===//

#include "TestBundle.h"

#include "flashcore/Runtime/EmulatorDevice.h"
#include "flashcore/Runtime/FileUtils.h"
#include "flashcore/Runtime/Npy.h"
#include "flashcore/Runtime/TensorSet.h"

#include <fstream>

#include <sys/resource.h>
#include <unistd.h>

using namespace flashcore;
using namespace flashcore::testing;

namespace {
/// Lets the process grow by 512 MiB at most, so that the tests do not depend on
/// the machine.
class MemoryTest : public ::testing::Test {
protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer ends the process instead";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    GTEST_SKIP() << "a sanitizer ends the process instead";
#endif
#endif
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    ASSERT_GT(pages, 0u);
    getrlimit(RLIMIT_AS, &before);
    struct rlimit limit = before;
    limit.rlim_cur =
        pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + (512u << 20);
    ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  }
  void TearDown() override {
    if (before.rlim_cur)
      setrlimit(RLIMIT_AS, &before);
  }

  struct rlimit before = {};
};
} // namespace

TEST_F(MemoryTest, isTooSmallForAFile) {
  ScratchDirectory scratch;
  scratch.write("file", "");
  // Holes take no room on the disk.
  std::filesystem::resize_file(scratch.file("file"), 1 << 30);
  EXPECT_EQ(text(readFile(scratch.file("file"))),
            scratch.file("file") + ": cannot allocate 1073741824 bytes of host "
                                   "memory to read the file");
}

TEST_F(MemoryTest, isTooSmallForATensor) {
  Bundle bundle = loadTestBundle();
  StatusOr<Problem> problem =
      Problem::create(bundle, testRequest(1, 4, 2, 1 << 24, 1));
  ASSERT_EQ(text(problem), "");
  EXPECT_EQ(text(TensorSet::create(*problem)),
            "cannot allocate 2147483648 bytes of host memory for 'q'");
}

TEST_F(MemoryTest, isTooSmallToLookForStrayWrites) {
  TensorGeometry geometry;
  geometry.name = "o";
  geometry.dtype = DType::F32;
  geometry.axes = {"seqlen_q"};
  geometry.sizes = geometry.strides = {1};
  geometry.span = 100 << 20; // 400 MiB
  StatusOr<HostTensor> tensor = HostTensor::create(geometry);
  ASSERT_EQ(text(tensor), "");
  EXPECT_EQ(text(tensor->verifyWritten()),
            "cannot allocate 419430912 bytes of host memory to look for writes "
            "outside 'o'");
}

TEST_F(MemoryTest, isTooSmallForTheElementsOfAFile) {
  ScratchDirectory scratch;
  // A file of holes, whose elements are to be brought into C order.
  scratch.write("a.npy", std::string("\x93NUMPY\x01\x00\x76\x00", 10) +
                             "{'descr': '<f2', 'fortran_order': True, "
                             "'shape': (2, 104857600), }" +
                             std::string(51, ' ') + "\n");
  ASSERT_EQ(std::filesystem::file_size(scratch.file("a.npy")), 128u);
  std::filesystem::resize_file(scratch.file("a.npy"), 128 + 4 * 104857600l);
  EXPECT_EQ(text(readNpy(scratch.file("a.npy"))),
            scratch.file("a.npy") + ": cannot allocate 419430400 bytes of host "
                                    "memory for its elements");

  TensorGeometry geometry;
  geometry.name = "o";
  geometry.dtype = DType::F32;
  geometry.axes = {"seqlen_q"};
  geometry.sizes = {100 << 20};
  geometry.strides = {1};
  geometry.span = 100 << 20;
  StatusOr<HostTensor> tensor = HostTensor::create(geometry);
  ASSERT_EQ(text(tensor), "");
  EXPECT_EQ(text(writeTensor(scratch.file("o.npy"), *tensor)),
            scratch.file("o.npy") + ": cannot allocate 419430400 bytes of host "
                                    "memory for its elements");
  EXPECT_FALSE(std::filesystem::exists(scratch.file("o.npy")));
}

TEST_F(MemoryTest, isTooSmallForTheReference) {
  float zero = 0;
  AttentionInputs inputs;
  inputs.q = {&zero, DType::F32, {1, 2, 1 << 24, 8}, {0, 0, 0, 0}};
  inputs.k = inputs.v = {&zero, DType::F32, {1, 2, 4, 8}, {0, 0, 0, 0}};
  EXPECT_EQ(text(computeReference(inputs, 2)),
            "cannot allocate 2415919104 bytes of host memory for the "
            "reference, and 1073743104 for each of its 2 threads\n"
            "  note: use a smaller problem, or do not check it");
  EXPECT_EQ(text(computeYardstick(inputs, 2)),
            "cannot allocate 2415919104 bytes of host memory for the "
            "reference, and 536871552 for each of its 2 threads\n"
            "  note: use a smaller problem, or do not check it");
  inputs.q.sizes[2] = int64_t(1) << 60;
  EXPECT_EQ(text(computeReference(inputs)),
            "expects a reference of less than 2^63 bytes, but got more for 1 x "
            "2 x 1152921504606846976 queries and 4 keys");
}

TEST_F(MemoryTest, isTooSmallForABufferOfTheEmulator) {
  auto device = createEmulatorDevice();
  EXPECT_EQ(text(device->allocate(int64_t(1) << 32, "workspace")),
            "cannot allocate 4294967296 bytes of host memory for 'workspace' "
            "on the emulator");
  // What failed leaves nothing behind, and later buffers work.
  StatusOr<DevicePointer> small = device->allocate(1 << 16, "small");
  ASSERT_EQ(text(small), "");
  EXPECT_EQ(text(device->fill(*small, 7, 1 << 16)), "");
  uint32_t last = 0;
  EXPECT_EQ(text(device->copyToHost(&last, *small + (1 << 16) - 4, 4)), "");
  EXPECT_EQ(last, 7u);
}

TEST_F(MemoryTest, isEnoughToFillALargeBufferOfTheEmulator) {
  auto device = createEmulatorDevice();
  StatusOr<DevicePointer> buffer = device->allocate(300 << 20, "large");
  ASSERT_EQ(text(buffer), "");
  EXPECT_EQ(text(device->fill(*buffer, 7, 300 << 20)), "");
}
