//===- ScoreProgram.h - Score and mask regions, evaluated -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a region of `flashcore.attention` computes of one score, as the manifest
// of a bundle has it (docs/Bundle.md): the reference evaluates it, in the types
// of the region.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_SCOREPROGRAM_H
#define FLASHCORE_RUNTIME_SCOREPROGRAM_H

#include "flashcore/Runtime/JsonReader.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace flashcore {
struct TensorView;

/// The score's coordinates: batch entry, query head, query and key.
using Coordinates = std::array<int64_t, 4>;

/// Straight code: values 0 to 4 are the score and its coordinates, and each
/// instruction makes one more of those before it.
class ScoreProgram {
public:
  enum class Type { F16, BF16, F32, I1, I8, I32, Index };
  static bool isReal(Type type) { return type <= Type::F32; }

  /// A number of a real type, or an integer: sign-extended, of i1 0 or 1.
  struct Value {
    double real = 0;
    int64_t integer = 0;
  };
  using Values = std::vector<Value>;

  /// Reads and validates `field`. The result is of type `result`; what is
  /// loaded are elements of the tensors called `tensors`. Errors are the
  /// reader's.
  static ScoreProgram read(const JsonReader &reader, JsonReader::Field field,
                           Type result, std::vector<std::string> &tensors);

  struct Load {
    size_t tensor; ///< its place in `tensors`
    size_t rank;   ///< coordinates
  };
  /// That of an instruction, if it is one.
  std::optional<Load> findLoad(size_t instruction) const;

  /// The result. `tensors` are those of `read`; one that is read outside of its
  /// bounds gives a NaN, or 0. `values` is memory that calls use again.
  Value evaluate(double score, const Coordinates &at,
                 std::span<const TensorView> tensors, Values &values) const;

private:
  struct Instruction;
  struct Operation;
  struct Predicate;
  class Reader;
  friend class Arguments;

  static std::span<const Operation> realOperations();
  static std::span<const Operation> mathOperations();
  static std::span<const Operation> integerOperations();
  static std::span<const Operation> bitOperations();
  static std::span<const Predicate> predicatesOfReals();
  static std::span<const Predicate> predicatesOfIntegers();
  /// Null for a name that none has.
  static const Operation *find(std::string_view name);

  struct Instruction {
    const Operation *operation = nullptr; ///< null: a constant or a load
    Type type = Type::F32;
    std::vector<size_t> operands;
    std::vector<Type> operandTypes;
    const Predicate *predicate = nullptr; ///< of a comparison
    Value constant;
    /// Of a load, the place in `tensors`.
    std::optional<size_t> tensor;
  };

  std::vector<Instruction> instructions;
  size_t result = 0;
};

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_SCOREPROGRAM_H
