//===- Types.cpp - Scalar types and state spaces of PTX -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one table of scalar types, and the small lookups on the syntax tree.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Emulator/Ptx.h"

#include <bit>
#include <iterator>

using namespace flashcore::emu;

/// The version of the PTX ISA that this code was written by.
static constexpr unsigned newestMajor = 9, newestMinor = 0;

namespace {
struct TypeInfo {
  const char *name;
  uint8_t bytes;
  /// 'b'its, 'u'nsigned, 's'igned, 'f'loat, 'p'redicate.
  char kind;
};
} // namespace

/// In the order of ScalarType.
static constexpr TypeInfo typeTable[] = {
    {"none", 0, '-'},  {"pred", 0, 'p'}, {"b8", 1, 'b'},     {"b16", 2, 'b'},
    {"b32", 4, 'b'},   {"b64", 8, 'b'},  {"b128", 16, 'b'},  {"u8", 1, 'u'},
    {"u16", 2, 'u'},   {"u32", 4, 'u'},  {"u64", 8, 'u'},    {"s8", 1, 's'},
    {"s16", 2, 's'},   {"s32", 4, 's'},  {"s64", 8, 's'},    {"f16", 2, 'f'},
    {"f16x2", 4, 'f'}, {"bf16", 2, 'f'}, {"bf16x2", 4, 'f'}, {"tf32", 4, 'f'},
    {"f32", 4, 'f'},   {"f64", 8, 'f'},  {"e4m3x2", 2, 'f'}, {"e5m2x2", 2, 'f'},
};

static const TypeInfo &info(ScalarType type) {
  return typeTable[static_cast<size_t>(type)];
}

ScalarType flashcore::emu::typeFromName(std::string_view name) {
  for (size_t i = 1; i < std::size(typeTable); ++i)
    if (name == typeTable[i].name)
      return static_cast<ScalarType>(i);
  return ScalarType::None;
}

const char *flashcore::emu::typeName(ScalarType type) {
  return info(type).name;
}
unsigned flashcore::emu::typeBytes(ScalarType type) { return info(type).bytes; }
bool flashcore::emu::isFloatType(ScalarType type) {
  return info(type).kind == 'f';
}
bool flashcore::emu::isSignedType(ScalarType type) {
  return info(type).kind == 's';
}
bool flashcore::emu::isUnsignedType(ScalarType type) {
  return info(type).kind == 'u';
}
bool flashcore::emu::isBitsType(ScalarType type) {
  return info(type).kind == 'b';
}

const char *flashcore::emu::spaceName(StateSpace space) {
  static constexpr const char *names[] = {"generic", "reg",    "param", "const",
                                          "global",  "shared", "local"};
  return names[static_cast<size_t>(space)];
}

uint64_t flashcore::emu::floatLiteralBits(const PtxOperand &operand,
                                          bool asDouble) {
  uint64_t bits = static_cast<uint64_t>(operand.value);
  if (operand.isDouble == asDouble)
    return bits;
  if (asDouble)
    return std::bit_cast<uint64_t>(
        double(std::bit_cast<float>(static_cast<uint32_t>(bits))));
  return std::bit_cast<uint32_t>(
      static_cast<float>(std::bit_cast<double>(bits)));
}

std::string Error::str(const std::string &file) const {
  std::string out = file.empty() ? "" : file + ":";
  if (loc.line)
    out += std::to_string(loc.line) + ":" + std::to_string(loc.column) + ":";
  return (out.empty() ? "" : out + " ") + "error: " + message;
}

const PtxFunction *PtxModule::find(std::string_view name) const {
  auto it = functionIndices.find(name);
  return it == functionIndices.end() ? nullptr : &functions[it->second];
}

const PtxVariable *PtxModule::findVariable(std::string_view name) const {
  auto it = variableIndices.find(name);
  return it == variableIndices.end() ? nullptr : &variables[it->second];
}

std::vector<const PtxFunction *> PtxModule::kernels() const {
  std::vector<const PtxFunction *> kernels;
  for (const PtxFunction &function : functions)
    if (function.isEntry && function.hasBody)
      kernels.push_back(&function);
  return kernels;
}

Error PtxModule::explained(Error error) const {
  bool isNewer = versionMajor > newestMajor ||
                 (versionMajor == newestMajor && versionMinor > newestMinor);
  if (isNewer)
    error.message += " (the module is PTX " + std::to_string(versionMajor) +
                     "." + std::to_string(versionMinor) +
                     ", of which what came after " +
                     std::to_string(newestMajor) + "." +
                     std::to_string(newestMinor) + " is not known)";
  return error;
}
