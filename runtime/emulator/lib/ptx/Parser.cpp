//===- Parser.cpp - Module level of PTX -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Directives, variables and function headers. Bodies are in ParseBody.cpp.
// Directives that cannot change a result (.pragma, .section, ...) are skipped
// by name; any other unknown directive is an error.
//
//===----------------------------------------------------------------------===//

#include "Parser.h"
#include "flashcore/Emulator/Printable.h"

#include <algorithm>
#include <cstring>

using namespace flashcore::emu;

/// More than any chip has; also keeps size arithmetic far from overflow.
static constexpr uint64_t maxVariableBytes = uint64_t(1) << 32;

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

bool Parser::fail(SrcLoc loc, std::string message) {
  if (!hasError)
    firstError = {loc, printable(message)};
  hasError = true;
  return false;
}

bool Parser::advance() {
  token = lexer.next();
  if (token.kind == Token::Kind::Bad)
    return fail(token.loc, std::string(lexer.badReason()));
  return true;
}

std::string Parser::describe(const Token &t) const {
  if (t.kind == Token::Kind::End)
    return "the end of the file";
  return "'" + std::string(t.text.substr(0, 40)) + "'";
}

bool Parser::expect(char punct, const char *where) {
  if (!token.is(punct))
    return fail(token.loc, std::string("expects '") + punct + "' " + where +
                               ", but got " + describe(token));
  return advance();
}

bool Parser::consume(char punct, bool &found) {
  found = token.is(punct);
  return !found || advance();
}

bool Parser::parseInteger(const char *what, uint64_t max, uint64_t &value) {
  if (token.kind != Token::Kind::Integer)
    return fail(token.loc, std::string("expects an integer as ") + what +
                               ", but got " + describe(token));
  if (token.value > max)
    return fail(token.loc, std::string("expects ") + what + " of at most " +
                               std::to_string(max) + ", but got " +
                               std::to_string(token.value));
  value = token.value;
  return advance();
}

/// Skips to the end of a directive: ';' or a balanced pair of braces.
bool Parser::skipDirective() {
  while (token.kind != Token::Kind::End) {
    if (token.is('{'))
      return skipBraces();
    if (token.is(';'))
      return advance();
    if (!advance())
      return false;
  }
  return fail(token.loc, "directive has no end");
}

bool Parser::skipBraces() {
  unsigned open = 0;
  do {
    if (token.kind == Token::Kind::End)
      return fail(token.loc, "expects '}', but got the end of the file");
    open += token.is('{');
    open -= token.is('}');
    if (!advance())
      return false;
  } while (open);
  return true;
}

//===----------------------------------------------------------------------===//
// Module
//===----------------------------------------------------------------------===//

bool Parser::parseModule() {
  if (!advance())
    return false;
  if (!token.isDotted("version"))
    return fail(token.loc,
                "expects '.version' at the start of a PTX module, but got " +
                    describe(token));
  while (token.kind != Token::Kind::End)
    if (!parseTopLevel())
      return false;
  return true;
}

bool Parser::parseVersion() {
  std::string text(token.text);
  size_t dot = text.find('.');
  if (token.kind != Token::Kind::Double || dot == std::string::npos ||
      text.size() > 5)
    return fail(token.loc,
                "expects a version such as 8.7, but got " + describe(token));
  module.versionMajor = static_cast<unsigned>(std::atoi(text.c_str()));
  module.versionMinor =
      static_cast<unsigned>(std::atoi(text.c_str() + dot + 1));
  if (module.versionMajor < 6 || module.versionMajor > 9 ||
      (module.versionMajor == 9 && module.versionMinor > 0))
    return fail(token.loc,
                "expects a PTX version from 6.0 to 9.0, but got " + text);
  return advance();
}

bool Parser::parseTarget() {
  module.target = token.text;
  bool more = true;
  while (more) {
    if (token.kind != Token::Kind::Identifier)
      return fail(token.loc,
                  "expects a target such as sm_89, but got " + describe(token));
    if (!advance() || !consume(',', more))
      return false;
  }
  return true;
}

bool Parser::parseFile() {
  uint64_t number = 0;
  if (!parseInteger("a file number", UINT32_MAX, number))
    return false;
  if (token.kind != Token::Kind::String)
    return fail(token.loc, "expects a file name, but got " + describe(token));
  module.files[static_cast<uint32_t>(number)] = std::string(token.text);
  bool more = false;
  if (!advance() || !consume(',', more))
    return false;
  while (more) {
    uint64_t ignored = 0;
    if (!parseInteger("a file stamp", UINT64_MAX, ignored) ||
        !consume(',', more))
      return false;
  }
  return true;
}

bool Parser::parseTopLevel() {
  bool isExtern = false;
  while (token.isDotted("visible") || token.isDotted("weak") ||
         token.isDotted("extern") || token.isDotted("common")) {
    isExtern |= token.isDotted("extern");
    if (!advance())
      return false;
  }
  if (token.kind != Token::Kind::Dotted)
    return fail(token.loc, "expects a directive at module level, but got " +
                               describe(token));
  std::string_view word = token.dottedWord();
  if (word == "entry" || word == "func")
    return advance() && parseFunction(word == "entry", isExtern);
  if (word == "global" || word == "const" || word == "shared")
    return parseVariable(isExtern, module.variables);
  if (word == "section" || word == "pragma" || word == "alias")
    return skipDirective();

  SrcLoc loc = token.loc;
  if (!advance())
    return false;
  if (word == "version")
    return parseVersion();
  if (word == "target")
    return parseTarget();
  if (word == "file")
    return parseFile();
  if (word == "address_size") {
    uint64_t size = 0;
    if (!parseInteger("an address size", 64, size))
      return false;
    module.addressSize = static_cast<unsigned>(size);
    return size == 64 || fail(loc, "expects '.address_size 64', but got " +
                                       std::to_string(size));
  }
  return fail(loc,
              "unknown directive '." + std::string(word.substr(0, 40)) + "'");
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

bool Parser::parseParams(std::vector<PtxVariable> &params) {
  bool close = false;
  if (!expect('(', "before parameters") || !consume(')', close))
    return false;
  while (!close) {
    size_t before = params.size();
    if (!parseVariable(/*isExtern=*/false, params))
      return false;
    if (params.size() != before + 1)
      return fail(token.loc, "expects one name a parameter");
    bool comma = false;
    if (!consume(',', comma))
      return false;
    if (!comma && !expect(')', "after parameters"))
      return false;
    close = !comma;
  }
  return true;
}

bool Parser::parseDims(uint32_t (&dims)[3]) {
  dims[1] = dims[2] = 1;
  bool more = true;
  for (unsigned i = 0; more; ++i) {
    uint64_t value = 0;
    if (i == 3)
      return fail(token.loc, "expects at most 3 dimensions");
    if (!parseInteger("a block dimension", 1024, value) || !consume(',', more))
      return false;
    dims[i] = static_cast<uint32_t>(value);
  }
  return true;
}

bool Parser::parseFunctionDirectives(PtxFunction &function) {
  while (token.kind == Token::Kind::Dotted) {
    std::string_view word = token.dottedWord();
    SrcLoc loc = token.loc;
    if (word == "pragma") {
      if (!skipDirective())
        return false;
      continue;
    }
    if (!advance())
      return false;
    uint32_t ignored[3];
    uint64_t number = 0;
    bool ok = true;
    if (word == "reqntid")
      ok = parseDims(function.reqntid);
    else if (word == "maxntid")
      ok = parseDims(function.maxntid);
    else if (word == "reqnctapercluster" || word == "maxclusterrank")
      ok = parseDims(ignored);
    else if (word == "minnctapersm" || word == "maxnctapersm" ||
             word == "maxnreg")
      ok = parseInteger("a limit", UINT32_MAX, number);
    else if (word == "noreturn" || word == "explicitcluster" ||
             word == "blocksareclusters" || word == "abi_preserve" ||
             word == "abi_preserve_control")
      ok = true;
    else
      return fail(loc, "unknown function directive '." +
                           std::string(word.substr(0, 40)) + "'");
    if (!ok)
      return false;
  }
  return true;
}

bool Parser::parseFunction(bool isEntry, bool isExtern) {
  PtxFunction function;
  function.isEntry = isEntry;
  if (token.is('(') && !parseParams(function.returns))
    return false;
  function.loc = token.loc;
  function.name = token.text;
  if (token.kind != Token::Kind::Identifier)
    return fail(token.loc,
                "expects a function name, but got " + describe(token));
  if (!advance())
    return false;
  if (token.is('(') && !parseParams(function.params))
    return false;
  if (!parseFunctionDirectives(function))
    return false;
  if (token.is('{')) {
    if (isExtern)
      return fail(token.loc, "an extern function has no body");
    function.hasBody = true;
    if (!parseBody(function))
      return false;
  } else if (!expect(';', "after a function declaration")) {
    return false;
  }
  const PtxFunction *other = module.find(function.name);
  if (other && other->hasBody && function.hasBody)
    return fail(function.loc, "function '" + std::string(function.name) +
                                  "' is defined twice");
  module.functions.push_back(std::move(function));
  return true;
}

//===----------------------------------------------------------------------===//
// Variables
//===----------------------------------------------------------------------===//

static StateSpace spaceFromName(std::string_view word) {
  if (word == "reg")
    return StateSpace::Reg;
  if (word == "param" || word.substr(0, 7) == "param::")
    return StateSpace::Param;
  if (word == "const")
    return StateSpace::Const;
  if (word == "global")
    return StateSpace::Global;
  if (word == "shared" || word.substr(0, 8) == "shared::")
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
        if (spaceFromName(token.dottedWord()) != StateSpace::Generic &&
            !advance())
          return false;
        if (token.isDotted("align") &&
            (!advance() || !parseInteger("an alignment", 1 << 20, align)))
          return false;
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
    ScalarType type = typeFromName(word);
    if (type == ScalarType::None && word != "attribute")
      return fail(token.loc,
                  "expects a type such as .b32, but got " + describe(token));
    variable.type = type;
    if (!advance())
      return false;
  }
  if (variable.type == ScalarType::None)
    return fail(token.loc,
                "expects a type before the name, but got " + describe(token));
  return parseVariableTail(std::move(variable), out);
}

bool Parser::parseVariableTail(PtxVariable prototype,
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
    if (!consume('=', hasInit) || (hasInit && !parseInitializer(variable)))
      return false;
    out.push_back(std::move(variable));
    if (!isList)
      return true;
    if (!consume(',', more))
      return false;
  }
  return expect(';', "after a declaration");
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
  if (value.kind == PtxOperand::Kind::Float &&
      (value.isDouble ? 8u : 4u) != size)
    return fail(value.loc, "expects a float literal of the variable's width");
  if (!isAddress)
    std::memcpy(variable.init.data() + offset, &value.value,
                std::min<size_t>(size, 8));
  offset += size;
  return true;
}

Expected<PtxModule> flashcore::emu::parsePtx(std::string text) {
  PtxModule module;
  module.source = std::make_unique<std::string>(std::move(text));
  Parser parser(module);
  if (!parser.parseModule())
    return parser.error();
  return module;
}
