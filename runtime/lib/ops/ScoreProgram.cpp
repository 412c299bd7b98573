//===- ScoreProgram.cpp - Score and mask regions, evaluated ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The operations are those that the compiler takes in a region
// (lib/Dialect/FlashCore/Transforms/ScoreRegion.cpp). Integers wrap at their
// width; what is undefined in the IR (a division by 0, a shift by more bits
// than there are) is 0 here. Reals are computed in double precision and rounded
// to their type: what a large number swallows in f32 is to be gone here, too.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/ScoreProgram.h"
#include "flashcore/Runtime/Reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

using namespace flashcore;
using Type = ScoreProgram::Type;
using Value = ScoreProgram::Value;
using Field = JsonReader::Field;

static constexpr size_t numArguments = 5;
/// Far more than any region has.
static constexpr size_t maxInstructions = 1 << 12;

static constexpr std::pair<std::string_view, Type> types[] = {
    {"f16", Type::F16},    {"bf16", Type::BF16}, {"f32", Type::F32},
    {"i1", Type::I1},      {"i8", Type::I8},     {"i32", Type::I32},
    {"index", Type::Index}};

static int bitsOf(Type type) {
  return type == Type::I1    ? 1
         : type == Type::I8  ? 8
         : type == Type::I32 ? 32
                             : 64;
}

/// A real as a value of the type.
static double roundReal(double value, Type type) {
  if (type == Type::F32)
    return static_cast<float>(value);
  const DTypeInfo &info = infoOf(type == Type::F16 ? DType::F16 : DType::BF16);
  return info.load(info.round(value));
}

/// An integer as a value of the type.
static int64_t wrap(uint64_t integer, Type type) {
  switch (type) {
  case Type::I1:
    return static_cast<int64_t>(integer & 1);
  case Type::I8:
    return static_cast<int8_t>(static_cast<uint8_t>(integer));
  case Type::I32:
    return static_cast<int32_t>(static_cast<uint32_t>(integer));
  default:
    return static_cast<int64_t>(integer);
  }
}

/// The integer with a sign: an i1 that is true is -1.
static int64_t asSigned(int64_t integer, Type type) {
  return type == Type::I1 ? -integer : integer;
}

static uint64_t asUnsigned(int64_t integer, Type type) {
  return type == Type::I8    ? static_cast<uint8_t>(integer)
         : type == Type::I32 ? static_cast<uint32_t>(integer)
                             : static_cast<uint64_t>(integer);
}

namespace flashcore {
/// The operands of an instruction, and what else it is made of.
class Arguments {
public:
  Arguments(const ScoreProgram::Instruction &instruction,
            const ScoreProgram::Values &values)
      : instruction(instruction), values(values) {}

  double real(size_t i) const { return value(i).real; }
  int64_t integer(size_t i) const {
    return asSigned(value(i).integer, instruction.operandTypes[i]);
  }
  uint64_t bits(size_t i) const {
    return asUnsigned(value(i).integer, instruction.operandTypes[i]);
  }
  const Value &value(size_t i) const { return values[instruction.operands[i]]; }
  Type type() const { return instruction.type; }
  bool holds() const;

private:
  const ScoreProgram::Instruction &instruction;
  const ScoreProgram::Values &values;
};

/// What an instruction takes: of each operand f for a real, i for an integer of
/// the result's type, n for any integer, c for an i1, v for the result's type.
struct ScoreProgram::Operation {
  std::string_view name, operands;
  /// The same of the result.
  char result;
  Value (*evaluate)(const Arguments &);
  bool hasPredicate = false;
};

/// What a comparison asks for.
struct ScoreProgram::Predicate {
  std::string_view name;
  bool (*holds)(const Arguments &);
};

bool Arguments::holds() const { return instruction.predicate->holds(*this); }
} // namespace flashcore

static Value real(double value) { return {value, 0}; }
static Value integer(const Arguments &a, uint64_t value) {
  return {0, wrap(value, a.type())};
}

/// NaN where one of both is.
static double pick(double x, double y, bool larger) {
  if (std::isnan(x) || std::isnan(y))
    return std::numeric_limits<double>::quiet_NaN();
  return larger ? std::max(x, y) : std::min(x, y);
}

/// The quotient rounded to -infinity.
static int64_t floorDivide(int64_t x, int64_t y) {
  int64_t quotient = x / y;
  return x % y != 0 && (x < 0) != (y < 0) ? quotient - 1 : quotient;
}

/// A division with signs, where it is defined.
template <typename Divide>
static Value divide(const Arguments &a, Divide &&quotientOf) {
  int64_t x = a.integer(0), y = a.integer(1);
  bool isDefined =
      y != 0 && !(x == std::numeric_limits<int64_t>::min() && y == -1);
  return integer(a, isDefined ? static_cast<uint64_t>(quotientOf(x, y)) : 0);
}

/// Those with o are false where a NaN is compared, those with u true.
std::span<const ScoreProgram::Predicate> ScoreProgram::predicatesOfReals() {
  using A = const Arguments &;
  static const Predicate table[] = {
      {"false", [](A) { return false; }},
      {"oeq", [](A a) { return a.real(0) == a.real(1); }},
      {"ogt", [](A a) { return a.real(0) > a.real(1); }},
      {"oge", [](A a) { return a.real(0) >= a.real(1); }},
      {"olt", [](A a) { return a.real(0) < a.real(1); }},
      {"ole", [](A a) { return a.real(0) <= a.real(1); }},
      {"one",
       [](A a) { return a.real(0) < a.real(1) || a.real(0) > a.real(1); }},
      {"ord", [](A a) { return !std::isunordered(a.real(0), a.real(1)); }},
      {"ueq",
       [](A a) { return !(a.real(0) < a.real(1) || a.real(0) > a.real(1)); }},
      {"ugt", [](A a) { return !(a.real(0) <= a.real(1)); }},
      {"uge", [](A a) { return !(a.real(0) < a.real(1)); }},
      {"ult", [](A a) { return !(a.real(0) >= a.real(1)); }},
      {"ule", [](A a) { return !(a.real(0) > a.real(1)); }},
      {"une", [](A a) { return a.real(0) != a.real(1); }},
      {"uno", [](A a) { return std::isunordered(a.real(0), a.real(1)); }},
      {"true", [](A) { return true; }},
  };
  return table;
}

std::span<const ScoreProgram::Predicate> ScoreProgram::predicatesOfIntegers() {
  using A = const Arguments &;
  static const Predicate table[] = {
      {"eq", [](A a) { return a.integer(0) == a.integer(1); }},
      {"ne", [](A a) { return a.integer(0) != a.integer(1); }},
      {"slt", [](A a) { return a.integer(0) < a.integer(1); }},
      {"sle", [](A a) { return a.integer(0) <= a.integer(1); }},
      {"sgt", [](A a) { return a.integer(0) > a.integer(1); }},
      {"sge", [](A a) { return a.integer(0) >= a.integer(1); }},
      {"ult", [](A a) { return a.bits(0) < a.bits(1); }},
      {"ule", [](A a) { return a.bits(0) <= a.bits(1); }},
      {"ugt", [](A a) { return a.bits(0) > a.bits(1); }},
      {"uge", [](A a) { return a.bits(0) >= a.bits(1); }},
  };
  return table;
}

/// The nearest integer to 0 from, cut to the type.
static Value truncate(const Arguments &a) {
  double value = std::trunc(a.real(0));
  double limit = std::ldexp(1, bitsOf(a.type()) - 1);
  if (std::isnan(value))
    return integer(a, 0);
  if (value >= limit)
    return integer(a, (uint64_t(1) << (bitsOf(a.type()) - 1)) - 1);
  value = std::max(value, -limit);
  return integer(a, static_cast<uint64_t>(static_cast<int64_t>(value)));
}

template <typename Shift> static Value shift(const Arguments &a, Shift &&by) {
  uint64_t count = a.bits(1);
  return integer(a, count < static_cast<uint64_t>(bitsOf(a.type()))
                        ? static_cast<uint64_t>(by(count))
                        : 0);
}

/// Of reals, comparisons and choices.
std::span<const ScoreProgram::Operation> ScoreProgram::realOperations() {
  using A = const Arguments &;
  static const Operation table[] = {
      {"arith.addf", "ff", 'f',
       [](A a) { return ::real(a.real(0) + a.real(1)); }},
      {"arith.subf", "ff", 'f',
       [](A a) { return ::real(a.real(0) - a.real(1)); }},
      {"arith.mulf", "ff", 'f',
       [](A a) { return ::real(a.real(0) * a.real(1)); }},
      {"arith.divf", "ff", 'f',
       [](A a) { return ::real(a.real(0) / a.real(1)); }},
      {"arith.negf", "f", 'f', [](A a) { return ::real(-a.real(0)); }},
      {"arith.maximumf", "ff", 'f',
       [](A a) { return ::real(pick(a.real(0), a.real(1), true)); }},
      {"arith.minimumf", "ff", 'f',
       [](A a) { return ::real(pick(a.real(0), a.real(1), false)); }},
      {"arith.maxnumf", "ff", 'f',
       [](A a) { return ::real(std::fmax(a.real(0), a.real(1))); }},
      {"arith.minnumf", "ff", 'f',
       [](A a) { return ::real(std::fmin(a.real(0), a.real(1))); }},
      {"arith.cmpf", "ff", 'c', [](A a) { return Value{0, a.holds()}; }, true},
      {"arith.cmpi", "nn", 'c', [](A a) { return Value{0, a.holds()}; }, true},
      {"arith.select", "cvv", 'v',
       [](A a) { return a.value(0).integer ? a.value(1) : a.value(2); }},
  };
  return table;
}

/// Of one real, and fma.
std::span<const ScoreProgram::Operation> ScoreProgram::mathOperations() {
  using A = const Arguments &;
  static const Operation table[] = {
      {"math.absf", "f", 'f', [](A a) { return ::real(std::abs(a.real(0))); }},
      {"math.exp", "f", 'f', [](A a) { return ::real(std::exp(a.real(0))); }},
      {"math.exp2", "f", 'f', [](A a) { return ::real(std::exp2(a.real(0))); }},
      {"math.log", "f", 'f', [](A a) { return ::real(std::log(a.real(0))); }},
      {"math.log2", "f", 'f', [](A a) { return ::real(std::log2(a.real(0))); }},
      {"math.sqrt", "f", 'f', [](A a) { return ::real(std::sqrt(a.real(0))); }},
      {"math.rsqrt", "f", 'f',
       [](A a) { return ::real(1 / std::sqrt(a.real(0))); }},
      {"math.tanh", "f", 'f', [](A a) { return ::real(std::tanh(a.real(0))); }},
      {"math.sin", "f", 'f', [](A a) { return ::real(std::sin(a.real(0))); }},
      {"math.cos", "f", 'f', [](A a) { return ::real(std::cos(a.real(0))); }},
      {"math.floor", "f", 'f',
       [](A a) { return ::real(std::floor(a.real(0))); }},
      {"math.ceil", "f", 'f', [](A a) { return ::real(std::ceil(a.real(0))); }},
      {"math.fma", "fff", 'f',
       [](A a) { return ::real(std::fma(a.real(0), a.real(1), a.real(2))); }},
  };
  return table;
}

/// Arithmetic of integers.
std::span<const ScoreProgram::Operation> ScoreProgram::integerOperations() {
  using A = const Arguments &;
  static const Operation table[] = {
      {"arith.addi", "ii", 'i',
       [](A a) { return ::integer(a, a.bits(0) + a.bits(1)); }},
      {"arith.subi", "ii", 'i',
       [](A a) { return ::integer(a, a.bits(0) - a.bits(1)); }},
      {"arith.muli", "ii", 'i',
       [](A a) { return ::integer(a, a.bits(0) * a.bits(1)); }},
      {"arith.divsi", "ii", 'i',
       [](A a) {
         return divide(a, [](int64_t x, int64_t y) { return x / y; });
       }},
      {"arith.remsi", "ii", 'i',
       [](A a) {
         return divide(a, [](int64_t x, int64_t y) { return x % y; });
       }},
      {"arith.floordivsi", "ii", 'i',
       [](A a) { return divide(a, floorDivide); }},
      {"arith.ceildivsi", "ii", 'i',
       [](A a) {
         return divide(a, [](int64_t x, int64_t y) {
           return floorDivide(x, y) + (x % y != 0);
         });
       }},
      {"arith.divui", "ii", 'i',
       [](A a) { return ::integer(a, a.bits(1) ? a.bits(0) / a.bits(1) : 0); }},
      {"arith.remui", "ii", 'i',
       [](A a) { return ::integer(a, a.bits(1) ? a.bits(0) % a.bits(1) : 0); }},
      {"arith.maxsi", "ii", 'i',
       [](A a) {
         return a.integer(0) > a.integer(1) ? a.value(0) : a.value(1);
       }},
      {"arith.minsi", "ii", 'i',
       [](A a) {
         return a.integer(0) < a.integer(1) ? a.value(0) : a.value(1);
       }},
      {"arith.maxui", "ii", 'i',
       [](A a) { return a.bits(0) > a.bits(1) ? a.value(0) : a.value(1); }},
      {"arith.minui", "ii", 'i',
       [](A a) { return a.bits(0) < a.bits(1) ? a.value(0) : a.value(1); }},
      {"math.absi", "i", 'i',
       [](A a) {
         return ::integer(a, a.integer(0) < 0 ? 0 - a.bits(0) : a.bits(0));
       }},
  };
  return table;
}

/// Of bits, and conversions.
std::span<const ScoreProgram::Operation> ScoreProgram::bitOperations() {
  using A = const Arguments &;
  static const Operation table[] = {
      {"arith.andi", "ii", 'i',
       [](A a) { return ::integer(a, a.bits(0) & a.bits(1)); }},
      {"arith.ori", "ii", 'i',
       [](A a) { return ::integer(a, a.bits(0) | a.bits(1)); }},
      {"arith.xori", "ii", 'i',
       [](A a) { return ::integer(a, a.bits(0) ^ a.bits(1)); }},
      {"arith.shli", "ii", 'i',
       [](A a) {
         return shift(a, [&](uint64_t by) { return a.bits(0) << by; });
       }},
      {"arith.shrui", "ii", 'i',
       [](A a) {
         return shift(a, [&](uint64_t by) { return a.bits(0) >> by; });
       }},
      {"arith.shrsi", "ii", 'i',
       [](A a) {
         return shift(a, [&](uint64_t by) { return a.integer(0) >> by; });
       }},
      {"arith.index_cast", "n", 'i',
       [](A a) { return ::integer(a, static_cast<uint64_t>(a.integer(0))); }},
      {"arith.index_castui", "n", 'i',
       [](A a) { return ::integer(a, a.bits(0)); }},
      {"arith.extsi", "n", 'i',
       [](A a) { return ::integer(a, static_cast<uint64_t>(a.integer(0))); }},
      {"arith.extui", "n", 'i', [](A a) { return ::integer(a, a.bits(0)); }},
      {"arith.trunci", "n", 'i', [](A a) { return ::integer(a, a.bits(0)); }},
      {"arith.sitofp", "n", 'f',
       [](A a) { return ::real(static_cast<double>(a.integer(0))); }},
      {"arith.uitofp", "n", 'f',
       [](A a) { return ::real(static_cast<double>(a.bits(0))); }},
      {"arith.fptosi", "f", 'i', truncate},
      {"arith.extf", "f", 'f', [](A a) { return a.value(0); }},
  };
  return table;
}

const ScoreProgram::Operation *ScoreProgram::find(std::string_view name) {
  for (std::span<const Operation> table :
       {realOperations(), mathOperations(), integerOperations(),
        bitOperations()})
    for (const Operation &operation : table)
      if (operation.name == name)
        return &operation;
  return nullptr;
}

namespace flashcore {
/// Makes a program of a manifest.
class ScoreProgram::Reader {
public:
  Reader(const JsonReader &reader, std::vector<std::string> &tensors)
      : reader(reader), tensors(tensors) {}

  ScoreProgram read(Field field, Type result);

private:
  Type readType(Field field);
  void readInstruction(Field field);
  void readOperands(Instruction &instruction, Field field);
  void checkOperands(const Instruction &instruction, Field field);
  void readPredicate(Instruction &instruction, Field field);
  static bool accepts(char kind, Type type, Type result);

  const JsonReader &reader;
  std::vector<std::string> &tensors;
  ScoreProgram program;
  std::vector<Type> typesOfValues = {Type::F32, Type::Index, Type::Index,
                                     Type::Index, Type::Index};
};
} // namespace flashcore

Type ScoreProgram::Reader::readType(Field field) {
  std::string text = field.string();
  for (const auto &[name, type] : types)
    if (text == name)
      return type;
  field.refuse("'f16', 'bf16', 'f32', 'i1', 'i8', 'i32' or 'index'");
  return Type::F32;
}

bool ScoreProgram::Reader::accepts(char kind, Type type, Type result) {
  switch (kind) {
  case 'f':
    return isReal(type);
  case 'c':
    return type == Type::I1;
  case 'n':
    return !isReal(type);
  case 'i':
    return !isReal(type) && type == result;
  default: // v
    return type == result;
  }
}

void ScoreProgram::Reader::readOperands(Instruction &instruction, Field field) {
  for (Field operand : field["operands"].elements()) {
    int64_t last = static_cast<int64_t>(typesOfValues.size()) - 1;
    auto number = static_cast<size_t>(operand.integer(0, last));
    if (!reader.ok())
      return;
    instruction.operands.push_back(number);
    instruction.operandTypes.push_back(typesOfValues[number]);
  }
}

void ScoreProgram::Reader::readPredicate(Instruction &instruction,
                                         Field field) {
  bool isReal = instruction.operation->operands[0] == 'f';
  std::string name = field["predicate"].string();
  for (const Predicate &predicate :
       isReal ? predicatesOfReals() : predicatesOfIntegers())
    if (predicate.name == name)
      instruction.predicate = &predicate;
  if (!instruction.predicate)
    field["predicate"].refuse(isReal ? "a predicate of arith.cmpf"
                                     : "a predicate of arith.cmpi");
}

void ScoreProgram::Reader::checkOperands(const Instruction &instruction,
                                         Field field) {
  const Operation &operation = *instruction.operation;
  if (instruction.operands.size() != operation.operands.size())
    return field["operands"].refuse(
        "an array of " + std::to_string(operation.operands.size()) +
        " elements, the operands of " + std::string(operation.name));
  for (size_t i = 0; i < operation.operands.size(); ++i)
    if (!accepts(operation.operands[i], instruction.operandTypes[i],
                 instruction.type))
      return field["operands"].elements()[i].refuse(
          "a value of a type that " + std::string(operation.name) + " takes");
  // Both sides of a comparison are alike.
  if (operation.operands == "nn" &&
      instruction.operandTypes[0] != instruction.operandTypes[1])
    return field["operands"].refuse("two values of one type");
  char result = operation.result;
  if (!accepts(result == 'i' ? 'n' : result, instruction.type,
               instruction.type))
    field["type"].refuse("the type of a result of " +
                         std::string(operation.name));
}

void ScoreProgram::Reader::readInstruction(Field field) {
  Instruction instruction;
  instruction.type = readType(field["type"]);
  std::string name = field["op"].string();
  if (name == "constant") {
    int64_t bits = field["bits"].integer(std::numeric_limits<int64_t>::min());
    if (isReal(instruction.type))
      instruction.constant.real =
          std::bit_cast<float>(static_cast<uint32_t>(bits));
    else
      instruction.constant.integer =
          wrap(static_cast<uint64_t>(bits), instruction.type);
    if (instruction.type < Type::F32)
      field["type"].refuse("'f32', 'i1', 'i8', 'i32' or 'index'");
  } else if (name == "load") {
    readOperands(instruction, field);
    std::string tensor = field["tensor"].string();
    auto it = std::find(tensors.begin(), tensors.end(), tensor);
    instruction.tensor = static_cast<size_t>(it - tensors.begin());
    if (it == tensors.end())
      tensors.push_back(tensor);
    for (Type type : instruction.operandTypes)
      if (type != Type::Index)
        field["operands"].refuse("values of type 'index'");
    if (instruction.operands.size() > 4)
      field["operands"].refuse("an array of at most 4 elements");
  } else {
    instruction.operation = find(name);
    if (!instruction.operation)
      return field["op"].refuse(
          "an operation of regions that this runtime knows",
          "the bundle is of another version: compile it again");
    readOperands(instruction, field);
    if (reader.ok())
      checkOperands(instruction, field);
    if (reader.ok() && instruction.operation->hasPredicate)
      readPredicate(instruction, field);
  }
  typesOfValues.push_back(instruction.type);
  program.instructions.push_back(std::move(instruction));
}

ScoreProgram ScoreProgram::Reader::read(Field field, Type result) {
  std::vector<Field> values = field["values"].elements();
  if (values.size() > maxInstructions)
    field["values"].refuse("an array of at most " +
                           std::to_string(maxInstructions) + " elements");
  for (Field value : values) {
    if (!reader.ok())
      return program;
    readInstruction(value);
  }
  if (!reader.ok())
    return program;
  program.result = static_cast<size_t>(field["result"].integer(
      0, static_cast<int64_t>(typesOfValues.size()) - 1));
  if (reader.ok() && typesOfValues[program.result] != result)
    field["result"].refuse(result == Type::I1 ? "a value of type 'i1'"
                                              : "a value of type 'f32'");
  return program;
}

ScoreProgram ScoreProgram::read(const JsonReader &reader, Field field,
                                Type result,
                                std::vector<std::string> &tensors) {
  return Reader(reader, tensors).read(field, result);
}

std::optional<ScoreProgram::Load>
ScoreProgram::findLoad(size_t instruction) const {
  const Instruction &found = instructions[instruction];
  if (!found.tensor)
    return std::nullopt;
  return Load{*found.tensor, found.operands.size()};
}

/// An element; a NaN, or 0, outside of the tensor.
static Value load(const TensorView &tensor, const std::vector<size_t> &operands,
                  const ScoreProgram::Values &values) {
  std::array<int64_t, 4> at = {};
  for (size_t i = 0; i < operands.size(); ++i) {
    at[i] = values[operands[i]].integer;
    if (at[i] < 0 || at[i] >= tensor.sizes[i])
      return {std::numeric_limits<double>::quiet_NaN(), 0};
  }
  double value = tensor.load(at[0], at[1], at[2], at[3]);
  if (!isReal(tensor.dtype))
    return {0, static_cast<int64_t>(value)};
  return {value, 0};
}

Value ScoreProgram::evaluate(double score, const Coordinates &at,
                             std::span<const TensorView> tensors,
                             Values &values) const {
  values.resize(numArguments + instructions.size());
  values[0] = {roundReal(score, Type::F32), 0};
  for (size_t i = 0; i < at.size(); ++i)
    values[1 + i] = {0, at[i]};
  Value *next = values.data() + numArguments;
  for (const Instruction &instruction : instructions) {
    if (instruction.operation)
      *next = instruction.operation->evaluate(Arguments(instruction, values));
    else if (instruction.tensor)
      *next = load(tensors[*instruction.tensor], instruction.operands, values);
    else
      *next = instruction.constant;
    if (isReal(instruction.type))
      next->real = roundReal(next->real, instruction.type);
    ++next;
  }
  return values[result];
}
