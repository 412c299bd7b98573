//===- NpyTest.cpp - NumPy files ------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Round trips through strided tensors, headers as NumPy writes them, and every
// refusal.
//
//===----------------------------------------------------------------------===//

#include "TestBundle.h"

#include "flashcore/Runtime/FileUtils.h"
#include "flashcore/Runtime/Npy.h"

using namespace flashcore;
using namespace flashcore::testing;

namespace {
class NpyTest : public ::testing::Test {
protected:
  /// What readNpy says about a file, without its path.
  std::string refusal(const std::string &contents) {
    scratch.write("x.npy", contents);
    return strip(text(readNpy(scratch.file("x.npy"))));
  }
  std::string strip(std::string message) {
    std::string prefix = scratch.file("x.npy");
    if (message.starts_with(prefix))
      message.replace(0, prefix.size(), "x.npy");
    return message;
  }

  /// A file of version 1.0 with `header`.
  static std::string file(const std::string &header, std::string_view data) {
    std::string result("\x93NUMPY\x01\x00", 8);
    result += static_cast<char>(header.size());
    result += '\0';
    return result + header + std::string(data);
  }

  static HostTensor makeTensor(DType dtype) {
    TensorGeometry geometry;
    geometry.name = "q";
    geometry.dtype = dtype;
    geometry.axes = {"batch", "heads_q", "seqlen_q", "head_dim"};
    geometry.sizes = {1, 2, 3, 4};
    geometry.strides = {96, 48, 16, 2}; // gaps between rows and elements
    geometry.offset = 8;
    geometry.span = 8 + 48 + 2 * 16 + 3 * 2 + 1;
    return *HostTensor::create(geometry);
  }

  ScratchDirectory scratch;
};
} // namespace

TEST_F(NpyTest, roundTripsStridedTensors) {
  for (DType dtype : {DType::F16, DType::BF16, DType::F32}) {
    HostTensor out = makeTensor(dtype), in = makeTensor(dtype);
    out.forEach([&](int64_t index, int64_t at) {
      out.store(at, static_cast<float>(index) - 5);
    });
    ASSERT_EQ(text(writeTensor(scratch.file("x.npy"), out)), "");
    ASSERT_EQ(text(readTensor(scratch.file("x.npy"), in)), "");
    in.forEach([&](int64_t index, int64_t at) {
      EXPECT_EQ(in.load(at), static_cast<double>(index) - 5);
    });
    EXPECT_EQ(text(in.verifyWritten()), ""); // the gaps are still poison
  }
}

TEST_F(NpyTest, writesWhatNumPyWrites) {
  ASSERT_EQ(text(writeNpy(scratch.file("x.npy"), {"<f4", {1}, "abcd"})), "");
  std::string contents = *readFile(scratch.file("x.npy"));
  std::string header =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), "
      "}";
  header.append(128 - 10 - header.size() - 1, ' ');
  EXPECT_EQ(contents, file(header + "\n", "abcd"));
}

TEST_F(NpyTest, readsVersionTwo) {
  std::string header = "{'shape': (2,), 'fortran_order': False, 'descr': "
                       "'<u2'}\n";
  std::string contents("\x93NUMPY\x02\x00", 8);
  contents += std::string{static_cast<char>(header.size()), 0, 0, 0} + header;
  scratch.write("x.npy", contents + "wxyz");
  StatusOr<NpyArray> array = readNpy(scratch.file("x.npy"));
  ASSERT_EQ(text(array), "");
  EXPECT_EQ(array->descr, "<u2");
  EXPECT_EQ(array->shape, std::vector<int64_t>{2});
  EXPECT_EQ(array->data, "wxyz");
}

TEST_F(NpyTest, readsAScalar) {
  scratch.write("x.npy", file("{'descr': '<f2', 'fortran_order': False, "
                              "'shape': ()}",
                              "ab"));
  EXPECT_TRUE(readNpy(scratch.file("x.npy"))->shape.empty());
}

TEST_F(NpyTest, refusesFilesThatAreNoArrays) {
  EXPECT_EQ(strip(text(readNpy(scratch.file("x.npy")))),
            "x.npy: cannot read the file: No such file or directory");
  EXPECT_EQ(refusal("PK\x03\x04"),
            "x.npy: expects a .npy file, but the first bytes are not those of "
            "one");
  EXPECT_EQ(refusal(std::string("\x93NUMPY\x09\x00\x00\x00", 10)),
            "x.npy: expects .npy version 1 to 3, but got 9");
  EXPECT_EQ(refusal(std::string("\x93NUMPY\x01\x00\x50\x00{", 11)),
            "x.npy: expects a header of 80 bytes, but the file ends before its "
            "end");
  EXPECT_EQ(refusal(file("{'descr': '<f2'}", "")),
            "x.npy: expects a header with descr, fortran_order and shape, but "
            "got '{'descr': '<f2'}'");
}

TEST_F(NpyTest, refusesOtherElementsAndOrders) {
  EXPECT_EQ(
      refusal(
          file("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", "")),
      "x.npy: expects elements of type '<f2', '<f4' or '<u2' (bits of bf16), "
      "but got '<f8'\n"
      "  note: convert the array with .astype before saving it");
  EXPECT_EQ(refusal(file(
                "{'descr': '<f4', 'fortran_order': True, 'shape': (1,)}", "")),
            "x.npy: expects an array in C order, but got Fortran order\n"
            "  note: save numpy.ascontiguousarray(array)");
}

TEST_F(NpyTest, refusesTruncatedData) {
  EXPECT_EQ(
      refusal(file("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
                   "abcd")),
      "x.npy: expects 24 bytes for shape (2, 3), but got 4\n"
      "  note: the file is truncated or damaged");
}

TEST_F(NpyTest, refusesAnArrayForAnotherTensor) {
  HostTensor tensor = makeTensor(DType::F16);
  ASSERT_EQ(text(writeNpy(scratch.file("x.npy"), {"<f4", {1}, "abcd"})), "");
  EXPECT_EQ(strip(text(readTensor(scratch.file("x.npy"), tensor))),
            "x.npy: expects elements of type '<f2' for 'q' of f16, but got "
            "'<f4'");
  ASSERT_EQ(text(writeNpy(scratch.file("x.npy"), {"<f2", {1, 2}, "abcd"})), "");
  EXPECT_EQ(strip(text(readTensor(scratch.file("x.npy"), tensor))),
            "x.npy: expects shape (1, 2, 3, 4) for 'q', but got (1, 2)");
}

TEST_F(NpyTest, reportsAFileThatCannotBeWritten) {
  EXPECT_EQ(text(writeNpy("/nonexistent/x.npy", {"<f4", {1}, "abcd"})),
            "/nonexistent/x.npy: cannot write the file: No such file or "
            "directory");
}
