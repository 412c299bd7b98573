//===- ParseVariable.cpp - Variables of PTX and their initialisers --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declarations of registers, parameters and memory, in a module and in a
// function.
//
//===----------------------------------------------------------------------===//

#include "Parser.h"

#include <algorithm>
#include <cstring>

using namespace flashcore::emu;

/// More than any chip has; also keeps size arithmetic far from overflow.
static constexpr uint64_t maxVariableBytes = uint64_t(1) << 32;

static StateSpace spaceFromName(std::string_view word) {
  if (word == "reg")
    return StateSpace::Reg;
  if (word == "param" || word.starts_with("param::"))
    return StateSpace::Param;
  if (word == "const")
    return StateSpace::Const;
  if (word == "global")
    return StateSpace::Global;
  if (word == "shared" || word.starts_with("shared::"))
    return StateSpace::Shared;
  if (word == "local")
    return StateSpace::Local;
  return StateSpace::Generic;
}

/// `.shared .align 16 .b8 name[64] = {...}, other;` A parameter ends without
/// the semicolon, which parseParams handles.
bool Parser::parseVariable(bool isExtern, std::vector<PtxVariable> &out) {
  PtxVariable variable;
  variable.isExtern = isExtern;
  variable.space = spaceFromName(token.dottedWord());
  if (variable.space == StateSpace::Generic)
    return fail(token.loc, "expects a state space, but got " + describe(token));
  if (!advance())
    return false;
  while (token.kind == Token::Kind::Dotted) {
    std::string_view word = token.dottedWord();
    if (word == "align" || word == "ptr") {
      bool isPtr = word == "ptr";
      if (!advance())
        return false;
      uint64_t align = 0;
      // `.ptr .global .align 16` describes the pointee, not the parameter.
      if (isPtr) {
        variable.isPtr = true;
        variable.pointeeSpace = spaceFromName(token.dottedWord());
        if (variable.pointeeSpace != StateSpace::Generic && !advance())
          return false;
        if (token.isDotted("align") &&
            (!advance() || !parseInteger("an alignment", 1 << 20, align)))
          return false;
        variable.pointeeAlign = static_cast<uint32_t>(align);
        continue;
      }
      if (!parseInteger("an alignment", 1 << 20, align))
        return false;
      if (align == 0 || (align & (align - 1)))
        return fail(token.loc, "expects an alignment that is a power of two, "
                               "but got " +
                                   std::to_string(align));
      variable.align = static_cast<uint32_t>(align);
      continue;
    }
    if (word == "attribute") {
      if (!advance() || !skipAttribute())
        return false;
      continue;
    }
    variable.isTexture =
        word == "texref" || word == "samplerref" || word == "surfref";
    variable.type = variable.isTexture ? ScalarType::B64 : typeFromName(word);
    if (variable.type == ScalarType::None)
      return fail(token.loc,
                  "expects a type such as .b32, but got " + describe(token));
    if (!advance())
      return false;
  }
  if (variable.type == ScalarType::None)
    return fail(token.loc,
                "expects a type before the name, but got " + describe(token));
  return parseVariableTail(variable, out);
}

bool Parser::parseVariableTail(const PtxVariable &prototype,
                               std::vector<PtxVariable> &out) {
  bool isList = depth > 0 || prototype.space != StateSpace::Param;
  bool more = true;
  while (more) {
    PtxVariable variable = prototype;
    variable.loc = token.loc;
    variable.name = token.text;
    if (token.kind != Token::Kind::Identifier)
      return fail(token.loc,
                  "expects a variable name, but got " + describe(token));
    uint64_t elementBytes = typeBytes(variable.type);
    variable.bytes = elementBytes;
    if (!advance())
      return false;
    if (token.is('<')) {
      uint64_t count = 0;
      if (!advance() || !parseInteger("a register count", 1 << 24, count) ||
          !expect('>', "after a register count"))
        return false;
      variable.rangeCount = static_cast<uint32_t>(count);
    }
    while (token.is('[')) {
      uint64_t extent = 0;
      variable.isArray = true;
      if (!advance() ||
          (!token.is(']') &&
           !parseInteger("an array size", maxVariableBytes, extent)) ||
          !expect(']', "after an array size"))
        return false;
      // No product of two factors within the bound overflows 64 bits but that
      // of the bound with itself.
      if (extent && variable.bytes > maxVariableBytes / extent)
        return fail(variable.loc, "variable '" + std::string(variable.name) +
                                      "' is larger than 4 GiB");
      variable.bytes *= extent;
    }
    if (!variable.align)
      variable.align =
          static_cast<uint32_t>(std::max<uint64_t>(1, elementBytes));
    bool hasInit = false;
    if (!consume('=', hasInit))
      return false;
    bool hasFields = variable.isTexture && token.is('{');
    if (hasInit && !(hasFields ? skipBraces() : parseInitializer(variable)))
      return false;
    out.push_back(std::move(variable));
    if (!isList)
      return true;
    if (!consume(',', more))
      return false;
  }
  return expect(';', "after a declaration");
}

/// `(.managed)` or `(.unified(...))`, which say where memory lies.
bool Parser::skipAttribute() {
  unsigned open = 0;
  do {
    open += token.is('(');
    open -= token.is(')');
    if (token.kind == Token::Kind::End)
      return fail(token.loc, "expects ')' after an attribute, but got the end "
                             "of the file");
    if (!advance())
      return false;
  } while (open);
  return true;
}

bool Parser::parseInitializer(PtxVariable &variable) {
  size_t offset = 0;
  return parseInitValue(variable, offset, 0);
}

/// The address of a variable, which the launch fills in.
bool Parser::parseInitAddress(PtxVariable &variable, size_t offset,
                              const PtxOperand &value) {
  if (typeBytes(variable.type) != 8 || !value.suffix.empty())
    return fail(value.loc,
                "expects a 64-bit integer type for the address of '" +
                    std::string(value.name.substr(0, 40)) + "'");
  variable.addresses.push_back({value.loc, offset, value.name, value.value});
  return true;
}

bool Parser::parseInitValue(PtxVariable &variable, size_t &offset,
                            unsigned nesting) {
  if (nesting > 4)
    return fail(token.loc, "initialiser is nested too deeply");
  if (token.is('{')) {
    bool more = true;
    if (!advance())
      return false;
    while (more && !token.is('}'))
      if (!parseInitValue(variable, offset, nesting + 1) || !consume(',', more))
        return false;
    return expect('}', "after an initialiser");
  }
  PtxOperand value;
  if (!parsePrimary(value))
    return false;
  bool isAddress = value.kind == PtxOperand::Kind::Symbol;
  if (!isAddress && value.kind != PtxOperand::Kind::Int &&
      value.kind != PtxOperand::Kind::Float)
    return fail(value.loc, "expects a number or the address of a variable in "
                           "an initialiser");
  size_t size = typeBytes(variable.type);
  if (size == 0)
    return fail(value.loc, std::string("a variable of type .") +
                               typeName(variable.type) +
                               " cannot be initialised");
  if (offset + size > variable.bytes)
    return fail(value.loc, "initialiser is longer than the variable");
  variable.init.resize(offset + size);
  if (isAddress && !parseInitAddress(variable, offset, value))
    return false;
  bool isFloat = value.kind == PtxOperand::Kind::Float;
  if (isFloat && size != 4 && size != 8)
    return fail(value.loc, std::string("a float literal cannot be of type .") +
                               typeName(variable.type));
  uint64_t bits = isFloat ? floatLiteralBits(value, size == 8)
                          : static_cast<uint64_t>(value.value);
  if (!isAddress)
    std::memcpy(variable.init.data() + offset, &bits,
                std::min<size_t>(size, 8));
  offset += size;
  return true;
}
