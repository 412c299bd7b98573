//===- Ptx.h - Syntax tree of a PTX module ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tree keeps what the text says and nothing more: opcodes are still text,
// registers and labels are still names. Scopes are markers in one flat list of
// statements, so that hostile nesting cannot exhaust the stack. All views point
// into PtxModule::source.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_PTX_H
#define FLASHCORE_EMULATOR_PTX_H

#include "flashcore/Emulator/Error.h"

#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace flashcore::emu {

/// WARP_SZ of PTX.
inline constexpr unsigned warpSize = 32;

enum class ScalarType : uint8_t {
  None,
  Pred,
  B8,
  B16,
  B32,
  B64,
  B128,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  F16,
  F16x2,
  BF16,
  BF16x2,
  TF32,
  F32,
  F64,
  E4M3x2,
  E5M2x2,
};

/// The type named by a suffix such as "f32" (no dot), or None.
ScalarType typeFromName(std::string_view name);
const char *typeName(ScalarType type);
/// Size in bytes; 0 for predicates and None.
unsigned typeBytes(ScalarType type);
bool isFloatType(ScalarType type);
bool isSignedType(ScalarType type);
bool isUnsignedType(ScalarType type);
bool isBitsType(ScalarType type);

enum class StateSpace : uint8_t {
  Generic,
  Reg,
  Param,
  Const,
  Global,
  Shared,
  Local,
};
const char *spaceName(StateSpace space);

/// An operand as written.
struct PtxOperand {
  enum class Kind : uint8_t { Symbol, Int, Float, Vector, Address, Sink };

  Kind kind = Kind::Sink;
  /// `!p`, or a minus sign in front of a register (an error later).
  bool negated = false;
  /// A 0d literal; otherwise a Float holds f32 bits.
  bool isDouble = false;
  /// Symbol: `name+8`, or `generic(name)`.
  bool hasOffset = false, isGeneric = false;
  SrcLoc loc;
  /// Symbol: its name. Address: the base symbol, empty for a plain number.
  std::string_view name;
  /// Symbol: what follows the dot, as in `%tid.x`.
  std::string_view suffix;
  /// Int: value; Float: bits; Address, and Symbol with hasOffset: offset.
  int64_t value = 0;
  /// Vector: elements. A `p|q` pair is a Vector of two with isPair set.
  /// Address: the coordinates in a tensor.
  std::vector<PtxOperand> elements;
  bool isPair = false;
  /// `(a, b)` of a call.
  bool isTuple = false;
};

/// The bits of a Float operand as an f64, or as an f32.
uint64_t floatLiteralBits(const PtxOperand &operand, bool asDouble);

struct PtxInstruction {
  SrcLoc loc;
  std::string_view guard;
  bool guardNegated = false;
  /// The opcode with all modifiers, e.g. "add.rn.ftz.f32".
  std::string_view opcode;
  std::vector<PtxOperand> operands;
};

/// `generic(name) + addend` in an initialiser.
struct PtxInitAddress {
  SrcLoc loc;
  uint64_t offset = 0;
  std::string_view name;
  int64_t addend = 0;
};

struct PtxVariable {
  SrcLoc loc;
  StateSpace space = StateSpace::Reg;
  ScalarType type = ScalarType::None;
  uint32_t align = 0;
  std::string_view name;
  /// `%r<10>` declares %r0..%r9; 0 for a plain name.
  uint32_t rangeCount = 0;
  /// Bytes of storage; 0 for an unsized array (`extern ... smem[]`).
  uint64_t bytes = 0;
  bool isExtern = false;
  bool isArray = false;
  /// A texref, samplerref or surfref, which nothing here can use.
  bool isTexture = false;
  /// Of a parameter with .ptr: the state space and the alignment of what it
  /// points to.
  bool isPtr = false;
  StateSpace pointeeSpace = StateSpace::Generic;
  uint32_t pointeeAlign = 0;
  /// The bytes given, which may be fewer than the variable has.
  std::vector<uint8_t> init;
  std::vector<PtxInitAddress> addresses;
};

struct PtxStatement {
  enum class Kind : uint8_t { Label, Instruction, Variable, Open, Close, Loc };

  Kind kind;
  SrcLoc loc;
  /// Label: its name.
  std::string_view name;
  /// Index into the list of the kind (instructions, variables).
  uint32_t index = 0;
  /// Loc: file number and source position.
  uint32_t file = 0;
  SrcLoc source;
};

struct PtxFunction {
  SrcLoc loc;
  std::string_view name;
  bool isEntry = false;
  bool hasBody = false;
  std::vector<PtxVariable> params;
  std::vector<PtxVariable> returns;
  std::vector<PtxStatement> body;
  std::vector<PtxInstruction> instructions;
  std::vector<PtxVariable> variables;
  /// Jump tables of brx.idx: name -> labels.
  std::unordered_map<std::string_view, std::vector<std::string_view>> tables;
  /// Zero when not given.
  uint32_t reqntid[3] = {0, 0, 0};
  uint32_t maxntid[3] = {0, 0, 0};
  /// CTAs of the cluster that it asks for.
  uint64_t clusterSize = 1;
  bool isExplicitCluster = false;
  /// .maxnreg, and .minnctapersm.
  uint32_t maxRegisters = 0, minCtas = 1;
  /// Why it could not be parsed; it then has nothing but a name. Other
  /// functions of the module run all the same.
  std::optional<Error> error;
};

struct PtxModule {
  std::unique_ptr<std::string> source;
  unsigned versionMajor = 0, versionMinor = 0;
  std::string_view target;
  unsigned addressSize = 64;
  std::unordered_map<uint32_t, std::string> files;
  std::vector<PtxVariable> variables;
  std::vector<PtxFunction> functions;
  /// Indices into these; that of a function with a body comes before that of a
  /// declaration.
  std::unordered_map<std::string_view, size_t> variableIndices, functionIndices;

  const PtxFunction *find(std::string_view name) const;
  const PtxVariable *findVariable(std::string_view name) const;
  /// The kernels that it defines, in their order.
  std::vector<const PtxFunction *> kernels() const;
  /// With the version of the module, if it is one that came after this code.
  Error explained(Error error) const;
};

/// What an instruction that does not exist here needs, such as "textures";
/// empty for what does, and for what is no instruction of PTX at all.
std::string_view unsupportedFeature(std::string_view opcode);
/// The same for the name of a special register.
std::string_view unsupportedRegister(std::string_view name);
/// The same for a function that the driver or the device runtime defines.
std::string_view unsupportedFunction(std::string_view name);

/// Parses a whole module. An error inside one function is for whoever loads
/// that; the first error outside of functions ends it.
Expected<PtxModule> parsePtx(std::string text);

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_PTX_H
