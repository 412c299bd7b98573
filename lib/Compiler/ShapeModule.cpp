//===- ShapeModule.cpp - The module that words stand for ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One loop over the table of operands: their types follow from axes, elements
// and the order in memory that the words say.
//
//===----------------------------------------------------------------------===//

#include "ShapeTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir::flashcore;
using llvm::StringRef;

static std::string memrefText(llvm::ArrayRef<int64_t> sizes, StringRef type,
                              const std::string &layout = "") {
  std::string text = "memref<";
  for (int64_t size : sizes)
    text += sizeText(size) + "x";
  return text + type.str() + (layout.empty() ? "" : ", " + layout) + ">";
}

static std::string strided(llvm::ArrayRef<int64_t> strides, int64_t offset) {
  std::string text = "strided<[";
  llvm::raw_string_ostream stream(text);
  llvm::interleaveComma(strides, stream,
                        [&](int64_t stride) { stream << sizeText(stride); });
  stream << "]";
  if (offset != 0)
    stream << ", offset: " << sizeText(offset);
  stream << ">";
  return text;
}

static int64_t multiply(int64_t a, int64_t b) {
  return a == Shape::Dynamic || b == Shape::Dynamic ? Shape::Dynamic : a * b;
}

static StringRef elementOf(const Shape &shape, const OperandInfo &info) {
  using Elements = OperandInfo::Elements;
  switch (info.elements) {
  case Elements::Half:
    return shape.type;
  case Elements::Float:
    return shape.find(info.name)->type;
  case Elements::F32:
    return "f32";
  case Elements::I32:
    return "i32";
  }
  llvm_unreachable("every kind of elements has a case");
}

/// Rows of a head dim, (entries, heads, rows, columns), which are laid out as
/// the words say.
static std::string rowsLayout(const Shape &shape, const OperandInfo &info,
                              llvm::ArrayRef<int64_t> sizes) {
  int64_t heads = sizes[1], rows = sizes[2], columns = sizes[3];
  int64_t ofQ = multiply(shape.headsQ, shape.headDim);
  int64_t ofK = multiply(shape.headsKV, shape.headDim);
  int64_t ofV = multiply(shape.headsKV, shape.headDimV);
  // What is no part of the packed tensor is as in bshd.
  bool isPacked = shape.layout == Shape::Layout::Packed && info.clause == "ins";
  int64_t row = isPacked ? ofQ + ofK + ofV : multiply(heads, columns);
  int64_t offset = !isPacked || info.name == "query" ? 0
                   : info.name == "key"              ? ofQ
                                                     : ofQ + ofK;
  return strided({multiply(rows, row), columns, row, 1}, offset);
}

static std::string layoutOf(const Shape &shape, const OperandInfo &info,
                            llvm::ArrayRef<int64_t> sizes) {
  bool isRows = info.getAxes().back().starts_with("head_dim");
  bool isStrided = shape.layout == Shape::Layout::Strided;
  if (isStrided && (isRows || info.elements == OperandInfo::Elements::Float)) {
    llvm::SmallVector<int64_t> strides(sizes.size(), Shape::Dynamic);
    strides.back() = 1;
    return strided(strides, Shape::Dynamic);
  }
  if (!isRows || isStrided || shape.layout == Shape::Layout::BHSD)
    return "";
  return rowsLayout(shape, info, sizes);
}

std::string mlir::flashcore::shortestText(float value) {
  std::string text;
  for (int digits = 1; digits <= 9; ++digits) {
    text.clear();
    llvm::raw_string_ostream(text) << llvm::format("%.*e", digits, value);
    double back = 0;
    if (!StringRef(text).getAsDouble(back) && static_cast<float>(back) == value)
      break;
  }
  return text;
}

static std::string modifiers(const Shape &shape) {
  std::string text;
  auto add = [&](const char *name, const std::string &value) {
    text += std::string(text.empty() ? "" : " ") + name + "(" + value + ")";
  };
  if (shape.causal)
    add("causal", *shape.causal);
  if (shape.windowLeft)
    add("window_left", std::to_string(*shape.windowLeft));
  if (shape.windowRight)
    add("window_right", std::to_string(*shape.windowRight));
  if (shape.scale)
    add("scale", shortestText(*shape.scale));
  if (shape.softcap)
    add("softcap", shortestText(*shape.softcap));
  if (shape.dropout)
    add("dropout", shortestText(*shape.dropout));
  if (shape.blockQueries)
    add("block_size", std::to_string(shape.blockQueries) + ", " +
                          std::to_string(shape.blockKeys));
  if (!shape.scoresStage.empty())
    add("stage", shape.scoresStage);
  if (!shape.rotaryStyle.empty())
    add("style", shape.rotaryStyle);
  return text;
}

/// What the module calls an operand: as a manifest does, or shorter.
static StringRef nameOf(const OperandInfo &info) {
  return llvm::StringSwitch<StringRef>(info.name)
      .Case("seqused_k", "used")
      .Case("rotary_cos", "cos")
      .Case("rotary_sin", "sin")
      .Default(info.tensor);
}

/// As a word says it, or as the table and other words do.
static std::string typeOf(const Shape &shape, const OperandInfo &info) {
  for (const auto &[name, type] : shape.captures)
    if (name == nameOf(info))
      return type;
  llvm::SmallVector<int64_t> sizes = shape.getSizes(info);
  return memrefText(sizes, elementOf(shape, info),
                    layoutOf(shape, info, sizes));
}

/// The operands that a shape has, in the op's order.
static llvm::SmallVector<const OperandInfo *>
getOperandsOf(const Shape &shape) {
  llvm::SmallVector<const OperandInfo *> rows;
  for (const OperandInfo &info : getOperandTable())
    if (info.clause == "ins" || info.clause == "outs" || shape.has(info.name))
      rows.push_back(&info);
  return rows;
}

/// " append(%k_new, %v_new : !k_new, !v_new)", of operands with one word. What
/// says which rows there are begins a line.
static void writeClause(llvm::raw_ostream &stream,
                        llvm::ArrayRef<const OperandInfo *> operands) {
  const OperandInfo &first = *operands.front();
  bool isOfRows =
      first.elements == OperandInfo::Elements::I32 && first.name != "rng";
  stream << (isOfRows || first.clause == "outs" ? "\n      " : " ")
         << first.clause << "(";
  auto write = [&](char sign) {
    llvm::interleaveComma(operands, stream, [&](const OperandInfo *info) {
      stream << sign << nameOf(*info);
    });
  };
  write('%');
  stream << " : ";
  write('!');
  stream << ")";
}

std::string mlir::flashcore::writeShape(const Shape &shape) {
  llvm::SmallVector<const OperandInfo *> operands = getOperandsOf(shape);
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (const OperandInfo *info : operands)
    stream << "!" << nameOf(*info) << " = " << typeOf(shape, *info) << "\n";
  std::vector<std::string> arguments;
  for (const OperandInfo *info : operands)
    arguments.push_back(("%" + nameOf(*info) + ": !" + nameOf(*info)).str());
  auto isOperand = [&](StringRef name) {
    return llvm::any_of(operands, [&](const OperandInfo *info) {
      return nameOf(*info) == name;
    });
  };
  for (const auto &[name, type] : shape.captures)
    if (!isOperand(name))
      arguments.push_back("%" + name + ": " + type);
  stream << "func.func @attention(" << llvm::join(arguments, ", ")
         << ") {\n"
            "  flashcore.attention";
  llvm::ArrayRef<const OperandInfo *> rest = operands;
  while (!rest.empty()) {
    size_t count = 1;
    while (count < rest.size() && rest[count]->clause == rest[0]->clause)
      ++count;
    writeClause(stream, rest.take_front(count));
    rest = rest.drop_front(count);
  }
  if (std::string words = modifiers(shape); !words.empty())
    stream << " " << words;
  if (!shape.scoreRegion.empty())
    stream << " score " << shape.scoreRegion;
  if (!shape.maskRegion.empty())
    stream << " mask " << shape.maskRegion;
  stream << "\n  return\n}\n";
  return text;
}
