//===- Parser.cpp - Module level of PTX -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Directives and function headers. Bodies are in ParseBody.cpp, variables in
// ParseVariable.cpp.
// Directives that cannot change a result (.pragma, .section, ...) are skipped
// by name; any other unknown directive is an error.
//
//===----------------------------------------------------------------------===//

#include "Parser.h"
#include "flashcore/Emulator/Printable.h"

#include <cstdlib>

using namespace flashcore::emu;

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

bool Parser::fail(SrcLoc loc, const std::string &message) {
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
  if (token.kind == Token::Kind::Identifier && token.text == "WARP_SZ") {
    value = warpSize;
    return advance();
  }
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
  if (module.versionMajor < 6)
    return fail(token.loc, "expects a PTX version from 6.0, but got " + text);
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
    return parseModuleVariables(isExtern);
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

/// The first of several variables of one name is the one that counts.
bool Parser::parseModuleVariables(bool isExtern) {
  size_t first = module.variables.size();
  if (!parseVariable(isExtern, module.variables))
    return false;
  for (size_t i = first; i < module.variables.size(); ++i)
    module.variableIndices.insert({module.variables[i].name, i});
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
    uint32_t cluster[3];
    uint64_t number = 0;
    bool ok = true;
    function.isExplicitCluster |=
        word == "reqnctapercluster" || word == "explicitcluster";
    if (word == "reqntid")
      ok = parseDims(function.reqntid);
    else if (word == "maxntid")
      ok = parseDims(function.maxntid);
    else if (word == "reqnctapercluster") {
      ok = parseDims(cluster);
      function.clusterSize = uint64_t(cluster[0]) * cluster[1] * cluster[2];
    } else if (word == "maxclusterrank")
      ok = parseDims(cluster);
    else if (word == "minnctapersm" || word == "maxnctapersm" ||
             word == "maxnreg") {
      ok = parseInteger("a limit", UINT32_MAX, number);
      if (word == "maxnreg")
        function.maxRegisters = static_cast<uint32_t>(number);
      if (word == "minnctapersm")
        function.minCtas = std::max(1u, static_cast<uint32_t>(number));
    } else if (word == "noreturn" || word == "explicitcluster" ||
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
  Lexer startLexer = lexer;
  Token start = token;
  if (!parseFunctionText(function, isExtern)) {
    // An error of this function alone, if its end can be found.
    Error error = firstError;
    lexer = startLexer;
    token = start;
    hasError = false;
    function = PtxFunction();
    function.isEntry = isEntry;
    if (!skipFunction(function)) {
      firstError = error;
      return false;
    }
    function.error = error;
  }
  return addFunction(std::move(function));
}

bool Parser::addFunction(PtxFunction function) {
  auto [it, inserted] =
      module.functionIndices.insert({function.name, module.functions.size()});
  if (!inserted && function.hasBody) {
    if (module.functions[it->second].hasBody)
      return fail(function.loc, "function '" + std::string(function.name) +
                                    "' is defined twice");
    it->second = module.functions.size();
  }
  module.functions.push_back(std::move(function));
  return true;
}

/// Goes to the end of a function and takes nothing but its name.
bool Parser::skipFunction(PtxFunction &function) {
  auto skipParentheses = [&] {
    unsigned open = 0;
    do {
      open += token.is('(');
      open -= token.is(')');
      if (token.kind == Token::Kind::End || !advance())
        return false;
    } while (open);
    return true;
  };
  depth = 0;
  if (token.is('(') && !skipParentheses())
    return false;
  function.loc = token.loc;
  function.name = token.text;
  if (token.kind != Token::Kind::Identifier)
    return false;
  while (!token.is('{') && !token.is(';'))
    if (token.kind == Token::Kind::End || !advance())
      return false;
  function.hasBody = token.is('{');
  return function.hasBody ? skipBraces() : advance();
}

bool Parser::parseFunctionText(PtxFunction &function, bool isExtern) {
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
  return true;
}

Expected<PtxModule> flashcore::emu::parsePtx(std::string text) {
  PtxModule module;
  module.source = std::make_unique<std::string>(std::move(text));
  Parser parser(module);
  if (!parser.parseModule())
    return module.explained(parser.error());
  return module;
}
