//===- ParseBody.cpp - Function bodies of PTX -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Statements, instructions and operands. Scopes become Open and Close markers;
// names are resolved when the function is lowered.
//
//===----------------------------------------------------------------------===//

#include "Parser.h"
#include "flashcore/Emulator/Printable.h"

using namespace flashcore::emu;

static constexpr unsigned maxScopeDepth = 256;
static constexpr size_t maxOperands = 160; // wgmma m64n256 has 128 registers

bool Parser::parseBody(PtxFunction &function) {
  depth = 1;
  if (!advance())
    return false;
  while (depth > 0)
    if (!parseStatement(function))
      return false;
  return true;
}

bool Parser::parseStatement(PtxFunction &function) {
  PtxStatement statement{};
  statement.loc = token.loc;
  if (token.kind == Token::Kind::End)
    return fail(token.loc, "expects '}' at the end of function '" +
                               std::string(function.name) +
                               "', but got the end of the file");
  if (token.is('{') || token.is('}')) {
    bool open = token.is('{');
    depth = open ? depth + 1 : depth - 1;
    if (depth > maxScopeDepth)
      return fail(token.loc, "scopes are nested more than 256 deep");
    statement.kind =
        open ? PtxStatement::Kind::Open : PtxStatement::Kind::Close;
    if (depth > 0)
      function.body.push_back(statement);
    return advance();
  }
  if (token.is(';'))
    return advance();
  if (token.kind == Token::Kind::Dotted)
    return parseBodyDirective(function);
  return parseInstruction(function);
}

bool Parser::parseBodyDirective(PtxFunction &function) {
  std::string_view word = token.dottedWord();
  if (word == "loc")
    return parseLoc(function);
  if (word == "pragma" || word == "section")
    return skipDirective();
  if (word == "extern" && !advance())
    return false;
  PtxStatement statement{};
  statement.kind = PtxStatement::Kind::Variable;
  statement.loc = token.loc;
  size_t first = function.variables.size();
  if (!parseVariable(word == "extern", function.variables))
    return false;
  for (size_t i = first; i < function.variables.size(); ++i) {
    statement.index = static_cast<uint32_t>(i);
    function.body.push_back(statement);
  }
  return true;
}

/// `.loc 1 12 3 [, function_name $sym [+ 4], inlined_at 1 10 3]`; the directive
/// ends with its line.
bool Parser::parseLoc(PtxFunction &function) {
  PtxStatement statement{};
  statement.kind = PtxStatement::Kind::Loc;
  statement.loc = token.loc;
  uint64_t file = 0, line = 0, column = 0;
  if (!advance() || !parseInteger("a file number", UINT32_MAX, file) ||
      !parseInteger("a line", UINT32_MAX, line) ||
      !parseInteger("a column", UINT32_MAX, column))
    return false;
  statement.file = static_cast<uint32_t>(file);
  statement.source = {static_cast<uint32_t>(line),
                      static_cast<uint32_t>(column)};
  function.body.push_back(statement);
  uint32_t thisLine = statement.loc.line;
  while (token.kind != Token::Kind::End && token.loc.line == thisLine)
    if (!advance())
      return false;
  return true;
}

/// `name: .branchtargets L0, L1;`
bool Parser::parseTable(PtxFunction &function, std::string_view name) {
  std::vector<std::string_view> &labels = function.tables[name];
  bool more = true;
  if (!advance())
    return false;
  while (more) {
    if (token.kind != Token::Kind::Identifier)
      return fail(token.loc, "expects a label, but got " + describe(token));
    labels.push_back(token.text);
    if (!advance() || !consume(',', more))
      return false;
  }
  return expect(';', "after .branchtargets");
}

bool Parser::parseInstruction(PtxFunction &function) {
  PtxInstruction inst;
  inst.loc = token.loc;
  if (token.is('@')) {
    if (!advance() || !consume('!', inst.guardNegated))
      return false;
    inst.guard = token.text;
    if (token.kind != Token::Kind::Identifier)
      return fail(token.loc,
                  "expects a predicate after '@', but got " + describe(token));
    if (!advance())
      return false;
  }
  if (token.kind != Token::Kind::Identifier)
    return fail(token.loc,
                "expects an instruction, but got " + describe(token));
  Token first = token;
  if (!advance())
    return false;
  PtxStatement statement{};
  statement.loc = first.loc;
  if (token.is(':') && inst.guard.empty()) {
    if (!advance())
      return false;
    if (token.isDotted("branchtargets"))
      return parseTable(function, first.text);
    if (token.isDotted("callprototype") || token.isDotted("calltargets"))
      return skipDirective();
    statement.kind = PtxStatement::Kind::Label;
    statement.name = first.text;
    function.body.push_back(statement);
    return true;
  }

  const char *begin = first.text.data();
  const char *end = begin + first.text.size();
  // A modifier is glued to the opcode; "bra .x" would not be one.
  while (token.kind == Token::Kind::Dotted) {
    end = token.text.data() + token.text.size();
    if (!advance())
      return false;
  }
  inst.opcode = std::string_view(begin, static_cast<size_t>(end - begin));
  if (!parseOperands(inst)) {
    // Operands that are written unlike others are of such an instruction.
    std::string_view feature = unsupportedFeature(inst.opcode);
    if (!feature.empty())
      firstError = {inst.loc,
                    printable("'" + std::string(inst.opcode.substr(0, 60)) +
                              "' needs " + std::string(feature) +
                              ", which the emulator does not have")};
    return false;
  }
  statement.kind = PtxStatement::Kind::Instruction;
  statement.index = static_cast<uint32_t>(function.instructions.size());
  function.body.push_back(statement);
  function.instructions.push_back(std::move(inst));
  return true;
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

bool Parser::parseOperands(PtxInstruction &inst) {
  bool more = !token.is(';'), ofCall = inst.opcode.starts_with("call");
  while (more) {
    if (inst.operands.size() >= maxOperands)
      return fail(token.loc, "instruction has too many operands");
    inst.operands.emplace_back();
    if (!parseOperand(inst.operands.back(), ofCall) || !consume(',', more))
      return false;
  }
  return expect(';', "after an instruction");
}

bool Parser::parseOperand(PtxOperand &operand, bool ofCall) {
  operand.loc = token.loc;
  if (token.is('['))
    return parseAddress(operand);
  if (token.is('{'))
    return parseList(operand, '}');
  if (token.is('(') && ofCall) {
    operand.isTuple = true;
    return parseList(operand, ')');
  }
  if (!parsePrimary(operand))
    return false;
  if (!token.is('|'))
    return true;
  PtxOperand pair;
  pair.kind = PtxOperand::Kind::Vector;
  pair.isPair = true;
  pair.loc = operand.loc;
  pair.elements.resize(2);
  pair.elements[0] = std::move(operand);
  if (!advance() || !parsePrimary(pair.elements[1]))
    return false;
  operand = std::move(pair);
  return true;
}

bool Parser::parseList(PtxOperand &operand, char close) {
  operand.kind = PtxOperand::Kind::Vector;
  if (!advance())
    return false;
  bool more = !token.is(close);
  while (more) {
    if (operand.elements.size() >= maxOperands)
      return fail(token.loc, "vector has too many elements");
    operand.elements.emplace_back();
    PtxOperand &element = operand.elements.back();
    bool ok = operand.isTuple && token.is('[') ? parseAddress(element)
                                               : parsePrimary(element);
    if (!ok || !consume(',', more))
      return false;
  }
  return expect(close, "after a vector");
}

bool Parser::parsePrimary(PtxOperand &operand) {
  operand.loc = token.loc;
  if (startsConstant())
    return parseConstant(operand);
  if (!consume('!', operand.negated))
    return false;
  if (token.kind != Token::Kind::Identifier)
    return fail(token.loc, "expects an operand, but got " + describe(token));
  operand.name = token.text;
  operand.kind =
      token.text == "_" ? PtxOperand::Kind::Sink : PtxOperand::Kind::Symbol;
  if (!advance())
    return false;
  if (token.kind == Token::Kind::Dotted) {
    operand.suffix = token.dottedWord();
    return advance();
  }
  operand.isGeneric = operand.name == "generic" && token.is('(');
  if (operand.isGeneric) {
    if (!advance())
      return false;
    operand.name = token.text;
    if (token.kind != Token::Kind::Identifier)
      return fail(token.loc,
                  "expects a variable name, but got " + describe(token));
    if (!advance() || !expect(')', "after the name of a variable"))
      return false;
  }
  return parseOffset(operand);
}

/// What may follow a name: nothing, `+8`, `-8`, `+-8` or `+4*2`.
bool Parser::parseOffset(PtxOperand &operand) {
  bool plus = false;
  operand.hasOffset = token.is('+') || token.is('-');
  if (!operand.hasOffset)
    return true;
  if (!consume('+', plus))
    return false;
  PtxOperand number;
  number.loc = token.loc;
  if (!startsConstant())
    return fail(token.loc,
                "expects a constant offset, but got " + describe(token));
  if (!parseConstant(number))
    return false;
  if (number.kind != PtxOperand::Kind::Int)
    return fail(number.loc, "expects an integer as an offset");
  operand.value = number.value;
  return true;
}

/// `[%rd1+16]`, `[smem+-4]`, `[%r1]`, `[1024]`, and with the coordinates of a
/// tensor `[map, {%r1, %r2}]`.
bool Parser::parseAddress(PtxOperand &operand) {
  operand.loc = token.loc;
  operand.kind = PtxOperand::Kind::Address;
  if (!advance())
    return false;
  if (token.kind == Token::Kind::Identifier) {
    operand.name = token.text;
    if (!advance() || !parseOffset(operand))
      return false;
  } else {
    PtxOperand number;
    if (token.kind != Token::Kind::Integer && !token.is('('))
      return fail(token.loc, "expects an address, but got " + describe(token));
    if (!parseConstant(number))
      return false;
    if (number.kind != PtxOperand::Kind::Int)
      return fail(operand.loc, "expects an integer as an address");
    operand.value = number.value;
  }
  bool hasCoordinates = false;
  if (!consume(',', hasCoordinates))
    return false;
  if (hasCoordinates && !token.is('{'))
    return fail(token.loc,
                "expects coordinates in braces, but got " + describe(token));
  if (hasCoordinates) {
    PtxOperand coordinates;
    if (!parseList(coordinates, '}'))
      return false;
    operand.elements = std::move(coordinates.elements);
  }
  return expect(']', "after an address");
}
