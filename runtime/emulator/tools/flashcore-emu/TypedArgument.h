//===- TypedArgument.h - Kernel arguments from the command line -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The notations of --arg:
//
//   i32:512  f32:0.18  u64:0          a scalar
//   f16[8,512,64]:randn:7             a buffer, normal numbers, seed 7
//   f32[64]:uniform:7                 a buffer, uniform in [-1, 1)
//   f16[64]:zeros  f16[64]:ones  f16[64]:iota  f16[64]:poison
//   f16[2,41,64:2952,72,1]:randn:7    the same with strides in elements
//   f16[2,41,64:2952,72,1+8]:randn:7  that starts 8 elements into its buffer
//   q.npy   bf16:q.npy                a buffer from a file
//   struct:48,0=f16[64]:ones,16:n=i32:3   48 bytes by value; the numbers and
//                                     pointers that it holds, by their offsets
//   ptr[i32:0,i32:128]                a buffer of values, one behind the other;
//                                     buffers among them are pointers
//   @q  @0.16  @q+4096                a pointer to a buffer that came before
//   tensormap128[64,64]:q.npy         a tensor map of 128 bytes of a buffer or
//                                     an @q, with its box and swizzle (32, 64,
//                                     128 or none)
//   args.json                         any of these from a file
//
// StructArgument.cpp and TensorMapArgument.cpp read what is made of others. In
// it a value stands in brackets where it has commas of its own:
// ptr[[struct:8,0=i32:1],@q].
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_TOOLS_TYPEDARGUMENT_H
#define FLASHCORE_EMULATOR_TOOLS_TYPEDARGUMENT_H

#include "flashcore/Emulator/Error.h"

#include <optional>
#include <vector>

namespace flashcore::emu {

enum class ElementType : uint8_t {
  F16,
  BF16,
  F32,
  F64,
  I8,
  I16,
  I32,
  I64,
  U8,
  U16,
  U32,
  U64,
};

unsigned elementBytes(ElementType type);
const char *elementName(ElementType type);
/// NumPy's name of the type; bf16 gives "<u2".
const char *npyName(ElementType type);
double elementToDouble(ElementType type, const uint8_t *bits);

/// How a buffer is to be read as a tensor; strides and offset count elements.
/// Without strides it is dense and row-major.
struct TensorView {
  std::vector<uint64_t> shape, strides;
  uint64_t offset = 0;
};

struct ArgumentMember;

/// The box of a tensor map, outermost axis first, and the bytes of its swizzle.
/// A ragged axis of the buffer ends where one more coordinate, in front, says.
/// With the rows of a group, axes are those of groups of panels.
struct TensorBox {
  std::vector<uint32_t> extents;
  unsigned swizzle = 0;
  std::optional<size_t> raggedAxis;
  uint32_t group = 0;
};

struct TypedArgument {
  ElementType type = ElementType::I32;
  bool isBuffer = false;
  /// A buffer that the kernel is to write: nothing in it is defined.
  bool isPoison = false;
  /// Of `data`: one axis for a tensor with strides.
  std::vector<uint64_t> shape;
  std::vector<uint8_t> data;
  TensorView view;
  /// What lies in `data`, by offset. Pointers in it are for the caller to fill
  /// in once their buffers have addresses.
  std::vector<ArgumentMember> members;
  /// Of '@': the name of a buffer, and bytes from its start.
  std::string reference;
  uint64_t referenceOffset = 0;
  /// Of a tensor map; its only member is the buffer.
  std::optional<TensorBox> box;
  /// As it was written, for messages.
  std::string text;

  bool isPointer() const { return isBuffer || !reference.empty(); }
  uint64_t valueBytes() const { return isPointer() ? 8 : data.size(); }
};

/// A value inside a struct or a buffer.
struct ArgumentMember {
  uint64_t offset = 0;
  /// What --out, --expect, '@' and findings may call it; may be empty.
  std::string name;
  TypedArgument value;
};

Expected<TypedArgument> parseArgument(const std::string &text);

/// The arguments that one --arg names: one, but for an array in a JSON file.
Expected<std::vector<TypedArgument>> parseArguments(const std::string &text);

/// The same of the text of such a file, which messages call `file`.
Expected<std::vector<TypedArgument>>
parseJsonArguments(const std::string &text, const std::string &file);

/// What parseArgument takes that is made of other arguments, or refers to one;
/// empty for anything else.
Expected<std::optional<TypedArgument>> parseComposite(const std::string &text,
                                                      unsigned depth);
Expected<TypedArgument> parseArgument(const std::string &text, unsigned depth);

/// The same of a tensor map.
Expected<TypedArgument> parseTensorMap(const std::string &text, unsigned depth);
/// The bytes of a tensor map of a buffer at `address`.
Expected<std::vector<uint8_t>> encodeTensorMap(const TypedArgument &map,
                                               const TypedArgument &buffer,
                                               uint64_t address);

/// "[8,512,64]".
std::string formatShape(const std::vector<uint64_t> &shape);

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_TOOLS_TYPEDARGUMENT_H
