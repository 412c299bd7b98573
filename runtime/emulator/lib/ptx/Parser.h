//===- Parser.h - PTX parser state ------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A predictive parser with one token of lookahead. Every parse function returns
// false after it has recorded the first error; callers pass that on.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_PTX_PARSER_H
#define FLASHCORE_EMULATOR_LIB_PTX_PARSER_H

#include "Lexer.h"
#include "flashcore/Emulator/Ptx.h"

namespace flashcore::emu {

class Parser {
public:
  explicit Parser(PtxModule &module) : module(module), lexer(*module.source) {}

  bool parseModule();
  const Error &error() const { return firstError; }

private:
  // Tokens.
  bool advance();
  bool fail(SrcLoc loc, const std::string &message);
  bool expect(char punct, const char *where);
  bool consume(char punct, bool &found);
  bool parseInteger(const char *what, uint64_t max, uint64_t &value);
  bool skipDirective();
  bool skipBraces();
  std::string describe(const Token &token) const;

  // Module level (Parser.cpp).
  bool parseTopLevel();
  bool parseVersion();
  bool parseTarget();
  bool parseFile();
  bool parseModuleVariables(bool isExtern);
  bool parseFunction(bool isEntry, bool isExtern);
  bool parseFunctionText(PtxFunction &function, bool isExtern);
  bool skipFunction(PtxFunction &function);
  bool addFunction(PtxFunction function);
  bool skipAttribute();
  bool parseParams(std::vector<PtxVariable> &params);
  bool parseFunctionDirectives(PtxFunction &function);
  bool parseDims(uint32_t (&dims)[3]);
  bool parseVariable(bool isExtern, std::vector<PtxVariable> &out);
  bool parseVariableTail(const PtxVariable &prototype,
                         std::vector<PtxVariable> &out);
  bool parseInitializer(PtxVariable &variable);
  bool parseInitValue(PtxVariable &variable, size_t &offset, unsigned depth);
  bool parseInitAddress(PtxVariable &variable, size_t offset,
                        const PtxOperand &value);

  // Function bodies (ParseBody.cpp).
  bool parseBody(PtxFunction &function);
  bool parseStatement(PtxFunction &function);
  bool parseBodyDirective(PtxFunction &function);
  bool parseLoc(PtxFunction &function);
  bool parseTable(PtxFunction &function, std::string_view name);
  bool parseInstruction(PtxFunction &function);
  bool parseOperands(PtxInstruction &inst);
  bool parseOperand(PtxOperand &operand, bool ofCall);
  bool parsePrimary(PtxOperand &operand);
  bool parseOffset(PtxOperand &operand);
  bool parseAddress(PtxOperand &operand);
  bool parseList(PtxOperand &operand, char close);

  // ConstantExpression.cpp.
  struct Constant {
    enum class Kind : uint8_t { Integer, Float, Double };
    Kind kind = Kind::Integer;
    bool isUnsigned = false;
    /// Of the value; of a Float, those of an f32.
    uint64_t bits = 0;
  };
  bool startsConstant() const;
  bool parseConstant(PtxOperand &operand);
  bool parseTernary(Constant &out);
  bool parseBinary(unsigned level, Constant &out);
  bool parseUnary(Constant &out);
  bool parseConstantPrimary(Constant &out);
  bool parseCast(Constant &out);
  bool applyUnary(SrcLoc loc, char op, Constant &value);
  bool applyBinary(SrcLoc loc, std::string_view op, Constant &left,
                   const Constant &right);

  PtxModule &module;
  Lexer lexer;
  Token token;
  Error firstError;
  bool hasError = false;
  unsigned depth = 0;
  /// Of constant expressions in each other.
  unsigned constantDepth = 0;
};

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_PTX_PARSER_H
