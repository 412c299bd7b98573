//===- AttentionSyntax.cpp - The text of flashcore.attention --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parser and printer by hand: what follows `ins` may be written in any order,
// which no declarative format allows for a clause that must be there (`outs`).
// The printer knows one order only.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::flashcore;

static constexpr StringLiteral kOtherClauses[] = {
    "causal",     "window_left", "window_right", "scale", "softcap", "dropout",
    "block_size", "stage",       "style",        "score", "mask"};

/// Whether the operand is the second one of the clause before it.
static bool isSecond(unsigned row) {
  ArrayRef<OperandInfo> table = getOperandTable();
  return row < table.size() && table[row].clause == table[row - 1].clause;
}

namespace {
using Properties = AttentionOp::Properties;

/// Collects the clauses; operands are resolved at the end, in their own order.
class AttentionParser {
public:
  AttentionParser(OpAsmParser &parser, OperationState &result)
      : parser(parser), result(result),
        properties(result.getOrAddProperties<Properties>()) {}

  ParseResult parse();

private:
  struct Operands {
    SmallVector<OpAsmParser::UnresolvedOperand, 3> values;
    SmallVector<Type, 3> types;
    SMLoc loc;
  };

  ParseResult parseInputs();
  ParseResult parseClauses();
  ParseResult parseOperandClause(unsigned operand);
  ParseResult parseClause(StringRef keyword);
  ParseResult parseCausal();
  ParseResult parseStage();
  ParseResult parseStyle();
  ParseResult parseBlockSize();
  ParseResult parseRegion(Region &region);
  template <typename AttrT> ParseResult parseAttr(AttrT &attr, Type type);
  ParseResult parseAttributesAndResults();
  ParseResult resolve();

  OpAsmParser &parser;
  OperationState &result;
  Properties &properties;
  /// Of query, key and value together in the first.
  Operands operands[kNumOperandRows];
  std::unique_ptr<Region> score = std::make_unique<Region>();
  std::unique_ptr<Region> mask = std::make_unique<Region>();
  std::unique_ptr<Region> program; ///< null without one
};
} // namespace

ParseResult AttentionParser::parse() {
  if (parseInputs() || parseClauses() || parseAttributesAndResults())
    return failure();
  result.addRegion(std::move(score));
  result.addRegion(std::move(mask));
  if (program)
    result.addRegion(std::move(program));
  return resolve();
}

/// `ins` `(` query `,` key `,` value `:` types `)`
ParseResult AttentionParser::parseInputs() {
  Operands &inputs = operands[0];
  if (parser.parseKeyword("ins") || parser.parseLParen())
    return failure();
  inputs.loc = parser.getCurrentLocation();
  if (parser.parseOperandList(inputs.values, kNumInputs) ||
      parser.parseColonTypeList(inputs.types) || parser.parseRParen())
    return failure();
  if (inputs.types.size() != kNumInputs)
    return parser.emitError(inputs.loc, "expects the types of query, key and "
                                        "value, but got ")
           << inputs.types.size();
  return success();
}

/// Every clause at most once, and `outs` once.
ParseResult AttentionParser::parseClauses() {
  SmallVector<StringRef> keywords;
  for (unsigned row = kNumInputs; row < kNumOperandRows; ++row)
    if (!isSecond(row))
      keywords.push_back(getOperandTable()[row].clause);
  llvm::append_range(keywords, kOtherClauses);
  llvm::SmallDenseSet<StringRef> seen;
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  while (succeeded(parser.parseOptionalKeyword(&keyword, keywords))) {
    if (!seen.insert(keyword).second)
      return parser.emitError(loc, "expects '")
             << keyword << "' once, but got it twice";
    const OperandInfo *row =
        llvm::find_if(getOperandTable(), [&](const OperandInfo &row) {
          return row.clause == keyword;
        });
    if (row != getOperandTable().end()
            ? parseOperandClause(row - getOperandTable().begin())
            : parseClause(keyword))
      return failure();
    loc = parser.getCurrentLocation();
  }
  if (seen.contains("outs"))
    return success();
  // Behind `outs` a word may be the next op; here it is a clause, misspelt.
  if (succeeded(parser.parseOptionalKeyword(&keyword)))
    return parser.emitError(loc, "expects 'outs(%output : type)' or another "
                                 "clause (")
           << llvm::join(keywords, ", ") << "), but got '" << keyword << "'";
  return parser.emitError(loc, "expects 'outs(%output : type)', but got no "
                               "'outs'");
}

ParseResult AttentionParser::parseOperandClause(unsigned operand) {
  Operands *clause = &operands[operand],
           *end = clause + (isSecond(operand + 1) ? 2 : 1);
  if (parser.parseLParen())
    return failure();
  for (Operands *each = clause; each != end; ++each) {
    if (each != clause && parser.parseComma())
      return failure();
    each->loc = parser.getCurrentLocation();
    if (parser.parseOperand(each->values.emplace_back()))
      return failure();
  }
  if (parser.parseColon())
    return failure();
  for (Operands *each = clause; each != end; ++each)
    if ((each != clause && parser.parseComma()) ||
        parser.parseType(each->types.emplace_back()))
      return failure();
  return parser.parseRParen();
}

template <typename AttrT>
ParseResult AttentionParser::parseAttr(AttrT &attr, Type type) {
  return failure(parser.parseLParen() || parser.parseAttribute(attr, type) ||
                 parser.parseRParen());
}

ParseResult AttentionParser::parseCausal() {
  StringRef name;
  if (parser.parseLParen())
    return failure();
  SMLoc loc = parser.getCurrentLocation();
  if (failed(parser.parseOptionalKeyword(&name)))
    return parser.emitError(loc, "expects causal to be bottom_right or "
                                 "top_left");
  auto alignment = symbolizeCausalAlignment(name);
  if (!alignment)
    return parser.emitError(loc, "expects causal to be bottom_right or "
                                 "top_left, but got ")
           << name;
  properties.causal = CausalAlignmentAttr::get(parser.getContext(), *alignment);
  return parser.parseRParen();
}

ParseResult AttentionParser::parseStage() {
  StringRef name;
  if (parser.parseLParen())
    return failure();
  SMLoc loc = parser.getCurrentLocation();
  constexpr StringLiteral expects =
      "expects stage to be scaled, capped, changed, masked or probabilities";
  if (failed(parser.parseOptionalKeyword(&name)))
    return parser.emitError(loc, expects);
  auto stage = symbolizeScoresStage(name);
  if (!stage)
    return parser.emitError(loc, expects) << ", but got " << name;
  properties.stage = ScoresStageAttr::get(parser.getContext(), *stage);
  return parser.parseRParen();
}

ParseResult AttentionParser::parseStyle() {
  StringRef name;
  if (parser.parseLParen())
    return failure();
  SMLoc loc = parser.getCurrentLocation();
  constexpr StringLiteral expects = "expects style to be interleaved or half";
  if (failed(parser.parseOptionalKeyword(&name)))
    return parser.emitError(loc, expects);
  auto style = symbolizeRotaryStyle(name);
  if (!style)
    return parser.emitError(loc, expects) << ", but got " << name;
  properties.style = RotaryStyleAttr::get(parser.getContext(), *style);
  return parser.parseRParen();
}

ParseResult AttentionParser::parseBlockSize() {
  SmallVector<int64_t> size;
  if (parser.parseCommaSeparatedList(
          OpAsmParser::Delimiter::Paren,
          [&] { return parser.parseInteger(size.emplace_back()); },
          " in block_size"))
    return failure();
  properties.block_size = parser.getBuilder().getDenseI64ArrayAttr(size);
  return success();
}

ParseResult AttentionParser::parseRegion(Region &region) {
  if (parser.parseRegion(region))
    return failure();
  if (region.empty())
    region.emplaceBlock();
  return success();
}

ParseResult AttentionParser::parseClause(StringRef keyword) {
  Builder &builder = parser.getBuilder();
  Type i64 = builder.getI64Type(), f32 = builder.getF32Type();
  if (keyword == "causal")
    return parseCausal();
  if (keyword == "window_left")
    return parseAttr(properties.window_left, i64);
  if (keyword == "window_right")
    return parseAttr(properties.window_right, i64);
  if (keyword == "scale")
    return parseAttr(properties.softmax_scale, f32);
  if (keyword == "softcap")
    return parseAttr(properties.softcap, f32);
  if (keyword == "dropout")
    return parseAttr(properties.dropout, f32);
  if (keyword == "stage")
    return parseStage();
  if (keyword == "style")
    return parseStyle();
  if (keyword == "block_size")
    return parseBlockSize();
  return parseRegion(keyword == "score" ? *score : *mask);
}

ParseResult AttentionParser::parseAttributesAndResults() {
  SMLoc loc = parser.getCurrentLocation();
  auto emitError = [&] {
    return parser.emitError(loc)
           << "'" << result.name.getStringRef() << "' op ";
  };
  if (parser.parseOptionalAttrDict(result.attributes) ||
      failed(AttentionOp::verifyInherentAttrs(result.name, result.attributes,
                                              emitError)))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("program"))) {
    program = std::make_unique<Region>();
    if (parseRegion(*program))
      return failure();
  }
  if (failed(parser.parseOptionalArrow()))
    return success();
  return parser.parseTypeList(result.types);
}

ParseResult AttentionParser::resolve() {
  auto &sizes = properties.operandSegmentSizes;
  static_assert(std::tuple_size_v<std::decay_t<decltype(sizes)>> ==
                    kNumOperandRows,
                "the op has other operands than the clauses");
  for (auto [segment, parsed] : llvm::enumerate(operands)) {
    sizes[segment] = static_cast<int32_t>(parsed.values.size());
    if (parser.resolveOperands(parsed.values, parsed.types, parsed.loc,
                               result.operands))
      return failure();
  }
  std::fill_n(sizes.begin(), kNumInputs, 1);
  return success();
}

ParseResult AttentionOp::parse(OpAsmParser &parser, OperationState &result) {
  return AttentionParser(parser, result).parse();
}

void AttentionOp::print(OpAsmPrinter &printer) {
  auto inputs = getOperands().take_front(kNumInputs);
  printer << " ins(" << inputs << " : " << inputs.getTypes() << ")";
  for (unsigned row = kNumInputs; row < kNumOperandRows; ++row) {
    SmallVector<Value> clause(getODSOperands(row));
    if (isSecond(row) || clause.empty())
      continue;
    if (isSecond(row + 1))
      llvm::append_range(clause, getODSOperands(row + 1));
    printer << ' ' << getOperandTable()[row].clause << '(' << clause << " : "
            << ValueRange(clause).getTypes() << ')';
  }
  if (auto causal = getCausal())
    printer << " causal(" << stringifyCausalAlignment(*causal) << ')';
  for (auto [keyword, attr] :
       {std::pair<StringRef, Attribute>("window_left", getWindowLeftAttr()),
        {"window_right", getWindowRightAttr()},
        {"scale", getSoftmaxScaleAttr()},
        {"softcap", getSoftcapAttr()},
        {"dropout", getDropoutAttr()}}) {
    if (!attr)
      continue;
    printer << ' ' << keyword << '(';
    printer.printAttributeWithoutType(attr);
    printer << ')';
  }
  if (auto size = getBlockSize()) {
    printer << " block_size(";
    llvm::interleaveComma(*size, printer);
    printer << ')';
  }
  if (auto stage = getStage())
    printer << " stage(" << stringifyScoresStage(*stage) << ')';
  if (auto style = getStyle())
    printer << " style(" << stringifyRotaryStyle(*style) << ')';
  for (auto [keyword, region] :
       {std::pair<StringRef, Region *>("score", findScoreRegion()),
        {"mask", findMaskRegion()}}) {
    if (!region)
      continue;
    printer << ' ' << keyword << ' ';
    printer.printRegion(*region);
  }
  printer.printOptionalAttrDict((*this)->getAttrs(),
                                {"operandSegmentSizes", "causal", "window_left",
                                 "window_right", "softmax_scale", "softcap",
                                 "dropout", "block_size", "stage", "style"});
  if (Region *program = findProgram()) {
    printer << " program ";
    printer.printRegion(*program);
  }
  if (getNumResults() != 0)
    printer << " -> " << getResults().getTypes();
}
