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

#include <cmath>

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

  /// Reads x.npy into a tensor; what that says, without the path.
  std::string assign(HostTensor &tensor, const NpyOptions &options = {}) {
    StatusOr<NpyArray> array = readNpy(scratch.file("x.npy"));
    EXPECT_EQ(text(array), "");
    StatusOr<std::string> message =
        assignTensor(tensor, *array, "x.npy", options);
    return message.ok() ? *message : message.status().str();
  }
  template <typename T>
  void writeArray(const char *descr, const std::vector<T> &values,
                  std::vector<int64_t> shape = {1, 2, 3, 4}) {
    NpyArray array = {descr, std::move(shape), ""};
    array.data.assign(reinterpret_cast<const char *>(values.data()),
                      values.size() * sizeof(T));
    ASSERT_EQ(text(writeNpy(scratch.file("x.npy"), array)), "");
  }
  static std::vector<double> values(const HostTensor &tensor) {
    std::vector<double> result;
    tensor.forEach([&](int64_t, int64_t position) {
      result.push_back(tensor.load(position));
    });
    return result;
  }
  /// 0, 1, 2 and so on.
  template <typename T> static std::vector<T> counting(int count) {
    std::vector<T> result;
    for (int i = 0; i < count; ++i)
      result.push_back(static_cast<T>(i));
    return result;
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
    ASSERT_EQ(assign(in), "");
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

TEST_F(NpyTest, readsEveryNameOfBfloat16) {
  // ml_dtypes has saved bf16 as '<V2' and as '|V2'.
  for (const char *descr : {"<V2", "|V2", "bfloat16", "<u2"}) {
    std::string header = std::string("{'descr': '") + descr +
                         "', 'fortran_order': False, 'shape': (1, 2, 3, 4)}";
    std::string data;
    for (int i = 0; i < 24; ++i)
      data += std::string("\x80\x3f", 2);
    scratch.write("x.npy", file(header, data));
    HostTensor tensor = makeTensor(DType::BF16);
    EXPECT_EQ(assign(tensor), "") << descr;
    EXPECT_EQ(values(tensor), std::vector<double>(24, 1.0)) << descr;
  }
}

TEST_F(NpyTest, readsFortranOrder) {
  // In memory the first axis runs fastest.
  std::vector<float> reversed(24);
  for (int a = 0, n = 0; a < 4; ++a)
    for (int b = 0; b < 3; ++b)
      for (int c = 0; c < 2; ++c)
        reversed[static_cast<size_t>(n++)] =
            static_cast<float>((c * 3 + b) * 4 + a);
  scratch.write("x.npy",
                file("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2, "
                     "3, 4), }",
                     {reinterpret_cast<const char *>(reversed.data()), 96}));
  HostTensor tensor = makeTensor(DType::F32);
  EXPECT_EQ(assign(tensor), "");
  EXPECT_EQ(values(tensor), counting<double>(24));
}

TEST_F(NpyTest, readsAndWritesFilesWithSeqlenBeforeHeads) {
  // (batch, seqlen, heads, head_dim), of which the tensor has the middle two
  // the other way round.
  writeArray("<f4", counting<float>(24), {1, 3, 2, 4});
  HostTensor tensor = makeTensor(DType::F32);
  NpyOptions options;
  options.layout = Layout::BSHD;
  EXPECT_EQ(assign(tensor, options), "");
  std::vector<double> expected;
  for (int h = 0; h < 2; ++h)
    for (int s = 0; s < 3; ++s)
      for (int d = 0; d < 4; ++d)
        expected.push_back((s * 2 + h) * 4 + d);
  EXPECT_EQ(values(tensor), expected);

  ASSERT_EQ(text(writeTensor(scratch.file("y.npy"), tensor, options)), "");
  StatusOr<NpyArray> written = readNpy(scratch.file("y.npy"));
  EXPECT_EQ(written->shape, (std::vector<int64_t>{1, 3, 2, 4}));
  EXPECT_EQ(written->data, readNpy(scratch.file("x.npy"))->data);
}

TEST_F(NpyTest, onlyTensorsWithHeadDimHaveALayout) {
  std::vector<std::string> bias = {"batch", "heads_q", "seqlen_q", "seqlen_k"};
  EXPECT_EQ(fileAxes(bias, Layout::BSHD), (std::vector<size_t>{0, 1, 2, 3}));
  std::vector<std::string> o = {"batch", "heads_q", "seqlen_q", "head_dim_v"};
  EXPECT_EQ(fileAxes(o, Layout::BSHD), (std::vector<size_t>{0, 2, 1, 3}));
  EXPECT_EQ(fileAxes(o, Layout::BHSD), (std::vector<size_t>{0, 1, 2, 3}));
}

TEST_F(NpyTest, convertsOnRequest) {
  NpyOptions options;
  options.convert = true;
  std::vector<float> singles = counting<float>(24);
  singles[1] = 1 + 0x1.8p-11f; // nearer to 1 + 2^-10
  writeArray("<f4", singles);
  HostTensor half = makeTensor(DType::F16);
  EXPECT_EQ(assign(half, options), "x.npy: converted from f32 to f16");
  EXPECT_EQ(values(half)[1], 1 + 0x1p-10);
  EXPECT_EQ(values(half)[23], 23);

  HostTensor brain = makeTensor(DType::BF16);
  EXPECT_EQ(assign(brain, options), "x.npy: converted from f32 to bf16");
  EXPECT_EQ(values(brain)[23], 23);

  std::vector<uint16_t> ones(24, 0x3f80);
  writeArray("<V2", ones);
  EXPECT_EQ(assign(half, options), "x.npy: converted from bf16 to f16");
  EXPECT_EQ(values(half), std::vector<double>(24, 1.0));
  HostTensor single = makeTensor(DType::F32);
  EXPECT_EQ(assign(single, options), "x.npy: converted from bf16 to f32");

  // The right type is not converted.
  EXPECT_EQ(assign(brain, options), "");
}

TEST_F(NpyTest, roundsDoublesOnce) {
  NpyOptions options;
  options.convert = true;
  // Just above the tie between 1 and 1 + 2^-10, by less than f32 can hold: to
  // f32 first, and it would fall to even.
  std::vector<double> doubles(24, 1 + 0x1p-11 + 0x1p-40);
  doubles[1] = 1 + 0x1p-11;
  doubles[2] = 1 + 0x1p-11 - 0x1p-40;
  doubles[3] = -doubles[0];
  doubles[4] = 1e300;
  doubles[5] = -65520;
  doubles[6] = 65519.999;
  doubles[7] = INFINITY;
  doubles[8] = 1e-300;
  writeArray("<f8", doubles);
  HostTensor tensor = makeTensor(DType::F16);
  EXPECT_EQ(assign(tensor, options),
            "x.npy: converted from f64 to f16, in which 2 values are infinite");
  std::vector<double> found = values(tensor);
  found.resize(9);
  EXPECT_EQ(found,
            (std::vector<double>{1 + 0x1p-10, 1, 1, -1 - 0x1p-10, INFINITY,
                                 -INFINITY, 65504, INFINITY, 0}));
}

TEST_F(NpyTest, bytesAreTakenAsTheyAreWhateverTheirSign) {
  for (const char *type : {"|i1", "|u1", "|b1"}) {
    std::string header = std::string("{'descr': '") + type +
                         "', 'fortran_order': False, 'shape': (1, 2, 3, 4)}";
    scratch.write("x.npy", file(header, std::string(23, '\1') + '\xff'));
    HostTensor tensor = makeTensor(DType::I8);
    EXPECT_EQ(assign(tensor), "") << type;
    std::vector<double> expected(24, 1);
    expected.back() = -1;
    EXPECT_EQ(values(tensor), expected) << type;
  }
}

TEST_F(NpyTest, refusesOtherElements) {
  EXPECT_EQ(refusal(file(
                "{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}", "")),
            "x.npy: expects elements of type '<f2', '<f4', '<f8', '<i4', "
            "'|i1', '|u1', "
            "'|b1', or bf16 as '<V2' or '<u2', but got '<i8'\n"
            "  note: convert the array with .astype before saving it");
  EXPECT_EQ(refusal(file(
                "{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", "")),
            "x.npy: expects elements of type '<f2', '<f4', '<f8', '<i4', "
            "'|i1', '|u1', "
            "'|b1', or bf16 as '<V2' or '<u2', but got '>f4'\n"
            "  note: convert the array with .astype before saving it");
}

TEST_F(NpyTest, refusesAShapeOfTooManyBytes) {
  EXPECT_EQ(refusal(file("{'descr': '<f4', 'fortran_order': False, 'shape': "
                         "(4611686018427387905, 32)}",
                         std::string(128, 'x'))),
            "x.npy: expects less than 2^63 bytes, but got shape "
            "(4611686018427387905, 32)\n"
            "  note: the file is truncated or damaged");
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
  writeArray("<f4", counting<float>(24));
  EXPECT_EQ(assign(tensor),
            "x.npy: expects elements of f16 for 'q', but got f32\n"
            "  note: --convert rounds them to f16");
  // Integers may be bits of anything.
  NpyOptions options;
  options.convert = true;
  writeArray("<u2", counting<uint16_t>(24));
  EXPECT_EQ(assign(tensor, options),
            "x.npy: expects elements of f16 for 'q', but got u16");
  writeArray("<f2", counting<uint16_t>(2), {1, 2});
  EXPECT_EQ(assign(tensor),
            "x.npy: expects shape (1, 2, 3, 4) for 'q', but got (1, 2)");
  options.layout = Layout::BSHD;
  writeArray("<f2", counting<uint16_t>(24));
  EXPECT_EQ(assign(tensor, options),
            "x.npy: expects shape (1, 3, 2, 4) for 'q', but got (1, 2, 3, 4)");
}

TEST_F(NpyTest, reportsAFileThatCannotBeWritten) {
  EXPECT_EQ(text(writeNpy("/nonexistent/x.npy", {"<f4", {1}, "abcd"})),
            "/nonexistent/x.npy: cannot write the file: No such file or "
            "directory");
}
