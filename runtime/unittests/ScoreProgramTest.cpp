//===- ScoreProgramTest.cpp - Regions, one operation at a time ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/ScoreProgram.h"
#include "flashcore/Runtime/Reference.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

using namespace flashcore;
using nlohmann::json;
using Type = ScoreProgram::Type;

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

/// A list of values, with more than the five arguments.
class Writer {
public:
  int64_t constant(const char *type, int64_t bits) {
    return add({{"op", "constant"}, {"type", type}, {"bits", bits}});
  }
  int64_t real(float value) {
    return constant("f32", std::bit_cast<uint32_t>(value));
  }
  int64_t apply(const char *op, const char *type,
                const std::vector<int64_t> &operands,
                const char *predicate = nullptr) {
    json entry = {{"op", op}, {"type", type}, {"operands", operands}};
    if (predicate)
      entry["predicate"] = predicate;
    return add(entry);
  }
  int64_t add(const json &entry) {
    values.push_back(entry);
    return 4 + static_cast<int64_t>(values.size());
  }
  json finish(int64_t result) const {
    return {{"values", values}, {"result", result}};
  }

private:
  json values = json::array();
};

struct Outcome {
  ScoreProgram program;
  std::vector<std::string> tensors;
  std::string error;
};

Outcome read(const json &document, Type result = Type::F32) {
  Outcome outcome;
  JsonReader reader("test", "");
  outcome.program = ScoreProgram::read(reader, reader.root(document), result,
                                       outcome.tensors);
  if (!reader.ok())
    outcome.error = reader.status().message();
  return outcome;
}

ScoreProgram::Value run(const json &document, Type result, double score = 0.5,
                        std::vector<TensorView> tensors = {}) {
  Outcome outcome = read(document, result);
  EXPECT_EQ(outcome.error, "");
  ScoreProgram::Values values;
  return outcome.program.evaluate(score, {1, 2, 3, 4}, tensors, values);
}

double unary(const char *op, float x) {
  Writer writer;
  int64_t operand = writer.real(x);
  return run(writer.finish(writer.apply(op, "f32", {operand})), Type::F32).real;
}
double binary(const char *op, float x, float y) {
  Writer writer;
  int64_t first = writer.real(x), second = writer.real(y);
  return run(writer.finish(writer.apply(op, "f32", {first, second})), Type::F32)
      .real;
}
int64_t runInteger(const json &document, std::string_view type) {
  Type result = type == "i1"    ? Type::I1
                : type == "i8"  ? Type::I8
                : type == "i32" ? Type::I32
                                : Type::Index;
  return run(document, result).integer;
}
int64_t integers(const char *op, const char *type, int64_t x, int64_t y) {
  Writer writer;
  int64_t first = writer.constant(type, x), second = writer.constant(type, y);
  return runInteger(writer.finish(writer.apply(op, type, {first, second})),
                    type);
}
bool compare(const char *op, const char *predicate, int64_t x, int64_t y,
             const char *type = "i32") {
  Writer writer;
  int64_t first = writer.constant(type, x), second = writer.constant(type, y);
  return run(writer.finish(writer.apply(op, "i1", {first, second}, predicate)),
             Type::I1)
             .integer != 0;
}
bool compareReals(const char *predicate, float x, float y) {
  return compare("arith.cmpf", predicate, std::bit_cast<uint32_t>(x),
                 std::bit_cast<uint32_t>(y), "f32");
}

TEST(ScoreProgramTest, argumentsAreTheFirstValues) {
  EXPECT_EQ(run(Writer().finish(0), Type::F32, 0.75).real, 0.75);
  for (int64_t i = 1; i <= 4; ++i) {
    Writer writer;
    EXPECT_EQ(
        run(writer.finish(writer.apply("arith.sitofp", "f32", {i})), Type::F32)
            .real,
        static_cast<double>(i));
  }
}

TEST(ScoreProgramTest, realsAreThoseOfTheMathLibrary) {
  auto round = [](double value) { return static_cast<float>(value); };
  EXPECT_EQ(binary("arith.addf", 1.5, 2), 3.5);
  EXPECT_EQ(binary("arith.subf", 1.5, 2), -0.5);
  EXPECT_EQ(binary("arith.mulf", 1.5, 2), 3);
  EXPECT_EQ(binary("arith.divf", 1.5, 2), 0.75);
  EXPECT_EQ(unary("arith.negf", 1.5), -1.5);
  EXPECT_EQ(unary("math.absf", -1.5), 1.5);
  EXPECT_EQ(unary("math.floor", -1.5), -2);
  EXPECT_EQ(unary("math.ceil", -1.5), -1);
  EXPECT_EQ(unary("math.exp", 1.5), round(std::exp(1.5)));
  EXPECT_EQ(unary("math.exp2", 1.5), round(std::exp2(1.5)));
  EXPECT_EQ(unary("math.log", 1.5), round(std::log(1.5)));
  EXPECT_EQ(unary("math.log2", 1.5), round(std::log2(1.5)));
  EXPECT_EQ(unary("math.sqrt", 1.5), round(std::sqrt(1.5)));
  EXPECT_EQ(unary("math.rsqrt", 4), 0.5);
  EXPECT_EQ(unary("math.tanh", 1.5), round(std::tanh(1.5)));
  EXPECT_EQ(unary("math.sin", 1.5), round(std::sin(1.5)));
  EXPECT_EQ(unary("math.cos", 1.5), round(std::cos(1.5)));
  float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(binary("arith.maximumf", 1, nan)));
  EXPECT_EQ(binary("arith.maxnumf", 1, nan), 1);
  EXPECT_TRUE(std::isnan(binary("arith.minimumf", nan, 1)));
  EXPECT_EQ(binary("arith.minnumf", nan, 1), 1);
  EXPECT_EQ(binary("arith.maximumf", 1, 2), 2);
  EXPECT_EQ(binary("arith.minimumf", 1, 2), 1);
  EXPECT_EQ(unary("arith.negf", std::numeric_limits<float>::infinity()),
            -infinity);
}

TEST(ScoreProgramTest, divisionsRoundAsTheirNamesSay) {
  EXPECT_EQ(integers("arith.divsi", "i32", -7, 2), -3);
  EXPECT_EQ(integers("arith.remsi", "i32", -7, 2), -1);
  EXPECT_EQ(integers("arith.floordivsi", "i32", -7, 2), -4);
  EXPECT_EQ(integers("arith.ceildivsi", "i32", -7, 2), -3);
  EXPECT_EQ(integers("arith.ceildivsi", "index", 7, 2), 4);
  EXPECT_EQ(integers("arith.divui", "i32", -1, 2), 0x7fffffff);
  EXPECT_EQ(integers("arith.remui", "index", 7, 4), 3);
  // Undefined: no crash.
  for (const char *op : {"arith.divsi", "arith.remsi", "arith.divui",
                         "arith.remui", "arith.floordivsi", "arith.ceildivsi"})
    EXPECT_EQ(integers(op, "index", 7, 0), 0) << op;
  EXPECT_EQ(
      integers("arith.divsi", "index", std::numeric_limits<int64_t>::min(), -1),
      0);
}

TEST(ScoreProgramTest, integersWrapAtTheirWidth) {
  EXPECT_EQ(integers("arith.addi", "i32", 0x7fffffff, 1), -0x80000000LL);
  EXPECT_EQ(integers("arith.addi", "index", 0x7fffffff, 1), 0x80000000LL);
  EXPECT_EQ(integers("arith.subi", "i32", 1, 2), -1);
  EXPECT_EQ(integers("arith.muli", "i32", 0x10000, 0x10000), 0);
  EXPECT_EQ(integers("arith.andi", "i32", 12, 10), 8);
  EXPECT_EQ(integers("arith.ori", "i32", 12, 10), 14);
  EXPECT_EQ(integers("arith.xori", "i32", 12, 10), 6);
  EXPECT_EQ(integers("arith.shli", "i32", 1, 31), -0x80000000LL);
  EXPECT_EQ(integers("arith.shrsi", "i32", -8, 1), -4);
  EXPECT_EQ(integers("arith.shrui", "i32", -8, 1), 0x7ffffffc);
  EXPECT_EQ(integers("arith.shli", "i32", 1, 32), 0); // undefined
  EXPECT_EQ(integers("arith.maxsi", "i32", -1, 1), 1);
  EXPECT_EQ(integers("arith.minsi", "i32", -1, 1), -1);
  EXPECT_EQ(integers("arith.maxui", "i32", -1, 1), -1);
  EXPECT_EQ(integers("arith.minui", "i32", -1, 1), 1);
}

TEST(ScoreProgramTest, comparisonsKnowSigns) {
  const char *op = "arith.cmpi";
  EXPECT_TRUE(compare(op, "slt", -1, 1));
  EXPECT_FALSE(compare(op, "ult", -1, 1));
  EXPECT_TRUE(compare(op, "ugt", -1, 1));
  EXPECT_TRUE(compare(op, "sle", 1, 1));
  EXPECT_TRUE(compare(op, "sge", 1, 1));
  EXPECT_FALSE(compare(op, "sgt", 1, 1));
  EXPECT_TRUE(compare(op, "ule", 1, 1));
  EXPECT_TRUE(compare(op, "uge", 1, 1));
  EXPECT_TRUE(compare(op, "eq", 1, 1));
  EXPECT_FALSE(compare(op, "ne", 1, 1));
}

TEST(ScoreProgramTest, comparisonsOfRealsKnowNaNs) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  for (const char *predicate : {"oeq", "ole", "oge", "ord", "ueq", "true"})
    EXPECT_TRUE(compareReals(predicate, 1, 1)) << predicate;
  for (const char *predicate :
       {"one", "olt", "ogt", "uno", "une", "ult", "ugt", "false"})
    EXPECT_FALSE(compareReals(predicate, 1, 1)) << predicate;
  for (const char *predicate :
       {"ueq", "une", "ult", "ule", "ugt", "uge", "uno", "true"})
    EXPECT_TRUE(compareReals(predicate, 1, nan)) << predicate;
  for (const char *predicate :
       {"oeq", "one", "olt", "ole", "ogt", "oge", "ord", "false"})
    EXPECT_FALSE(compareReals(predicate, nan, 1)) << predicate;
  EXPECT_TRUE(compareReals("olt", 1, 2));
  EXPECT_TRUE(compareReals("ogt", 2, 1));
}

TEST(ScoreProgramTest, conversionsKeepOrCutTheValue) {
  auto convert = [](const char *op, const char *from, int64_t bits,
                    const char *to) {
    Writer writer;
    int64_t value = writer.constant(from, bits);
    return runInteger(writer.finish(writer.apply(op, to, {value})), to);
  };
  EXPECT_EQ(convert("arith.index_cast", "index", 0x100000005, "i32"), 5);
  EXPECT_EQ(convert("arith.index_cast", "i32", -5, "index"), -5);
  EXPECT_EQ(convert("arith.index_castui", "i32", -1, "index"), 0xffffffff);
  EXPECT_EQ(convert("arith.extsi", "i1", 1, "i32"), -1);
  EXPECT_EQ(convert("arith.extui", "i1", 1, "i32"), 1);
  EXPECT_EQ(convert("arith.trunci", "i32", 6, "i1"), 0);
  EXPECT_EQ(convert("arith.extsi", "i8", 0xfe, "i32"), -2);
  EXPECT_EQ(convert("arith.extui", "i8", 0xfe, "i32"), 0xfe);
  EXPECT_EQ(convert("math.absi", "i32", -6, "i32"), 6);
  auto truncate = [&](float value) {
    return convert("arith.fptosi", "f32", std::bit_cast<uint32_t>(value),
                   "i32");
  };
  EXPECT_EQ(truncate(-2.75f), -2);
  EXPECT_EQ(truncate(1e20f), 0x7fffffff);
  EXPECT_EQ(truncate(-1e20f), -0x80000000LL);
  EXPECT_EQ(truncate(std::numeric_limits<float>::quiet_NaN()), 0);
}

TEST(ScoreProgramTest, realsAreRoundedToTheirType) {
  float most = std::numeric_limits<float>::max();
  EXPECT_EQ(binary("arith.addf", -1e9f, 3), -1e9);
  EXPECT_EQ(binary("arith.addf", -most, -most), -infinity);
  // So is the score that a region gets.
  EXPECT_EQ(run(Writer().finish(0), Type::F32, 1e9 + 3).real, 1e9);
  const uint16_t table[] = {0x6800, 0x3c00}; // 2048 and 1
  TensorView view{table, DType::F16, {2, 1, 1, 1}, {1, 0, 0, 0}};
  Writer writer;
  auto load = [&](int64_t at) {
    return writer.add({{"op", "load"},
                       {"type", "f16"},
                       {"operands", {writer.constant("index", at)}},
                       {"tensor", "table"}});
  };
  int64_t first = load(0), second = load(1);
  int64_t sum = writer.apply("arith.addf", "f16", {first, second});
  int64_t result = writer.apply("arith.extf", "f32", {sum});
  EXPECT_EQ(run(writer.finish(result), Type::F32, 0, {view}).real, 2048);
}

TEST(ScoreProgramTest, selectAndFmaTakeThree) {
  Writer writer;
  int64_t yes = writer.constant("i1", 1), two = writer.real(2);
  int64_t chosen = writer.apply("arith.select", "f32", {yes, 0, two});
  int64_t result = writer.apply("math.fma", "f32", {chosen, two, two});
  EXPECT_EQ(run(writer.finish(result), Type::F32, 0.25).real, 2.5);
}

TEST(ScoreProgramTest, loadsAreOfTheTensorOrNaN) {
  const float table[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  TensorView view{table, DType::F32, {3, 4, 1, 1}, {4, 1, 0, 0}};
  auto load = [&](std::vector<int64_t> at) {
    Writer writer;
    int64_t result = writer.add({{"op", "load"},
                                 {"type", "f32"},
                                 {"operands", std::move(at)},
                                 {"tensor", "table"}});
    return run(writer.finish(result), Type::F32, 0, {view}).real;
  };
  EXPECT_EQ(load({1, 2}), 7);            // of (batch, head) = (1, 2)
  EXPECT_TRUE(std::isnan(load({3, 1}))); // there is no row 3
  EXPECT_TRUE(std::isnan(load({1, 4}))); // nor a column 4
}

TEST(ScoreProgramTest, tensorsAreListedInTheOrderOfTheirFirstUse) {
  Writer writer;
  for (const char *name : {"b", "a", "b"})
    writer.add(
        {{"op", "load"}, {"type", "f32"}, {"operands", {1}}, {"tensor", name}});
  EXPECT_EQ(read(writer.finish(5)).tensors,
            (std::vector<std::string>{"b", "a"}));
}

TEST(ScoreProgramTest, refusesWhatItCannotEvaluate) {
  auto expectRefusal = [](const json &entry, const char *text,
                          int64_t result = 5) {
    Writer writer;
    writer.add(entry);
    std::string error = read(writer.finish(result)).error;
    EXPECT_NE(error.find(text), std::string::npos) << error;
  };
  auto apply = [](const char *op, const char *type, json operands) {
    return json{{"op", op}, {"type", type}, {"operands", std::move(operands)}};
  };
  expectRefusal(apply("arith.addf", "f32", {0, 5}),
                "'values[0].operands[1]' to be");
  expectRefusal(apply("arith.addf", "f32", {0}),
                "an array of 2 elements, the operands of arith.addf");
  expectRefusal(apply("arith.addf", "f32", {0, 1}),
                "a value of a type that arith.addf takes");
  expectRefusal(apply("arith.addf", "i32", {0, 0}),
                "the type of a result of arith.addf");
  expectRefusal(apply("math.erf", "f32", {0}),
                "an operation of regions that this runtime knows");
  json compare = apply("arith.cmpi", "i1", {1, 2});
  compare["predicate"] = "olt";
  expectRefusal(compare, "a predicate of arith.cmpi");
  expectRefusal(apply("arith.addi", "index", {1, 2}), "a value of type 'f32'");
  json load = apply("load", "f32", {0});
  load["tensor"] = "t";
  expectRefusal(load, "values of type 'index'");
  expectRefusal({{"op", "constant"}, {"type", "f64"}, {"bits", 0}},
                "'f16', 'bf16', 'f32', 'i1', 'i8', 'i32' or 'index'");
  expectRefusal({{"op", "constant"}, {"type", "f32"}, {"bits", 0}}, "'result'",
                /*result=*/6);
}
} // namespace
