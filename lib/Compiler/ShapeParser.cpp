//===- ShapeParser.cpp - Reads the words of --shape -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which reader a word has, those of sizes and of clauses, and what needs
// several words.
//
//===----------------------------------------------------------------------===//

#include "ShapeParser.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CheckedArithmetic.h"

#include <algorithm>

using namespace mlir::flashcore;
using llvm::Error;
using llvm::StringRef;
using llvm::Twine;

static constexpr std::pair<StringRef, Shape::Layout> kLayouts[] = {
    {"bhsd", Shape::Layout::BHSD},
    {"bshd", Shape::Layout::BSHD},
    {"packed", Shape::Layout::Packed},
    {"strided", Shape::Layout::Strided}};

const char *mlir::flashcore::stringifyLayout(Shape::Layout layout) {
  for (auto [text, each] : kLayouts)
    if (each == layout)
      return text.data();
  llvm_unreachable("every layout has a word");
}

Error mlir::flashcore::makeShapeError(const Twine &text) {
  return llvm::createStringError(text);
}

Error ShapeParser::claim(StringRef part, const ShapeWord &word) {
  auto [entry, isNew] = said.try_emplace(part, word.text.str());
  if (isNew)
    return Error::success();
  return makeShapeError("expects " + part + " once, but got '" + entry->second +
                        "' and '" + word.text + "'");
}

bool mlir::flashcore::readShapeSize(StringRef text, int64_t &size) {
  if (text == "?") {
    size = Shape::Dynamic;
    return true;
  }
  // A sign is not a digit.
  return llvm::all_of(text, llvm::isDigit) && !text.getAsInteger(10, size) &&
         size >= 1;
}

/// Reads "8", or two sizes on both sides of `separator`.
static bool readPair(StringRef text, char separator, int64_t &first,
                     int64_t &second) {
  if (!text.contains(separator)) {
    if (!readShapeSize(text, first))
      return false;
    second = first;
    return true;
  }
  auto [left, right] = text.split(separator);
  return readShapeSize(left, first) && readShapeSize(right, second);
}

/// A letter and its sizes.
Error ShapeParser::readSizes(const ShapeWord &word) {
  StringRef text = word.text.drop_front();
  auto expects = [&](StringRef what) {
    return makeShapeError("expects " + what + ", but got '" + word.text + "'");
  };
  switch (word.text.front()) {
  case 'b':
    if (!readShapeSize(text, shape.batch))
      return expects("b and a batch of at least 1 or ?");
    return claim("the batch", word);
  case 'h':
    if (!readPair(text, '/', shape.headsQ, shape.headsKV))
      return expects("h and heads_q, or heads_q/heads_kv, of at least 1 or ?");
    return claim("the heads", word);
  case 's':
    if (!readPair(text, 'x', shape.seqlenQ, shape.seqlenK))
      return expects("s and a sequence length, or seqlen_q x seqlen_k as in "
                     "s1x4096, of at least 1 or ?");
    if (Error error = claim("seqlen_q", word))
      return error;
    return claim("seqlen_k", word);
  case 'q':
    if (!readShapeSize(text, shape.seqlenQ))
      return expects("q and a seqlen_q of at least 1 or ?");
    return claim("seqlen_q", word);
  case 'k':
    if (!readShapeSize(text, shape.seqlenK))
      return expects("k and a seqlen_k of at least 1 or ?");
    return claim("seqlen_k", word);
  default:
    if (!readPair(text, '/', shape.headDim, shape.headDimV) ||
        shape.headDim == Shape::Dynamic || shape.headDimV == Shape::Dynamic)
      return expects("d and head_dim, or head_dim/head_dim_v, of at least 1");
    return claim("head_dim", word);
  }
}

/// The forms that the word of an operand has, of messages.
static std::string describeForms(StringRef clause, StringRef letters,
                                 const OperandInfo &info, bool hasType) {
  std::string word = clause.str(), types = info.describeElements().str();
  auto quoted = [](const std::string &text) { return "'" + text + "'"; };
  if (letters.empty() && !hasType)
    return quoted(word) + " alone";
  if (letters.empty())
    return quoted(word) + " or " + quoted(word + "=TYPE") + " with a type of " +
           types;
  std::string text = quoted(word) + " or " + quoted(word + "=AXES");
  if (hasType)
    text += " or " + quoted(word + "=AXES:TYPE");
  text += " with the axes " + letters.str() +
          ", each of them 1 where it is broadcast";
  return hasType ? text + ", and a type of " + types : text;
}

/// Whether each of `axes` is its letter, or 1.
static bool isAxes(StringRef axes, StringRef letters) {
  return axes.size() == letters.size() &&
         llvm::all_of(llvm::zip_equal(axes, letters), [](auto pair) {
           auto [axis, letter] = pair;
           return axis == '1' || axis == letter;
         });
}

static bool isFloat(StringRef type) {
  return llvm::is_contained({"f16", "bf16", "f32"}, type);
}

/// An operand's clause, which says that it is there, which of its axes it has
/// and, where there is a choice, of which type it is.
Error ShapeParser::readClause(const ShapeWord &word) {
  for (const OperandInfo *info : getShapeOperands()) {
    if (info->clause != word.name)
      continue;
    std::string letters = getBroadcastLetters(*info);
    bool hasType = info->elements == OperandInfo::Elements::Float;
    // AXES, AXES:TYPE, or TYPE where no axis may be broadcast.
    auto [axes, type] = word.value.split(':');
    bool saysType = word.value.contains(':');
    if (letters.empty() && word.hasValue) {
      std::tie(axes, type) = std::pair(StringRef(), word.value);
      saysType = true;
    }
    if ((word.hasValue && !isAxes(axes, letters)) ||
        (saysType && !(hasType && isFloat(type))))
      return makeShapeError("expects " +
                            describeForms(word.name, letters, *info, hasType) +
                            ", but got '" + word.text + "'");
    shape.operands[info->name.str()] = {axes.str(), type.str()};
  }
  return claim(word.name, word);
}

/// The size of an axis that one operand alone has.
Error ShapeParser::readSize(const ShapeWord &word) {
  int64_t size = 0;
  if (!readShapeSize(word.value, size))
    return makeShapeError("expects '" + word.name +
                          "=' and a size of at least 1 or ?, but got '" +
                          word.text + "'");
  shape.sizes[word.name.str()] = size;
  sizeWords[word.name.str()] = word.text.str();
  return claim(word.name, word);
}

/// The type of a tensor that the regions read, or of an operand.
Error ShapeParser::readCapture(const ShapeWord &word) {
  if (word.name.size() < 2 || word.value.empty())
    return makeShapeError("expects '%NAME=TYPE' with the type of an operand or "
                          "of a tensor that a region reads, but got '" +
                          word.text + "'");
  shape.captures.emplace_back(word.name.drop_front().str(), word.value.str());
  return claim(word.name, word);
}

Error ShapeParser::makeUnknown(const ShapeWord &word) {
  std::vector<std::string> words;
  for (const Form &form : getForms())
    words.push_back(form.name.str() + (form.name == "causal" ? "" : "="));
  auto isForm = [](StringRef name) {
    return llvm::any_of(getForms(),
                        [&](const Form &form) { return form.name == name; });
  };
  for (StringRef clause : getShapeClauses())
    if (!isForm(clause))
      words.push_back(clause.str());
  for (StringRef axis : getSizeWords())
    words.push_back(axis.str() + "=");
  return makeShapeError("expects sizes (b1, h32/8, s4096 or q1 and k4096, "
                        "d128), f16, bf16, " +
                        llvm::join(words, ", ") +
                        ", %NAME=, bhsd, bshd, packed or strided, but got '" +
                        word.text + "'");
}

Error ShapeParser::readWord(const ShapeWord &word) {
  for (const Form &form : getForms())
    if (form.name == word.name)
      return (this->*form.read)(word);
  if (llvm::is_contained(getShapeClauses(), word.name))
    return readClause(word);
  if (word.hasValue && llvm::is_contained(getSizeWords(), word.name))
    return readSize(word);
  StringRef text = word.text;
  if (text.starts_with("%"))
    return readCapture(word);
  if (text == "f16" || text == "bf16") {
    shape.type = text.str();
    return claim("the type", word);
  }
  for (auto [name, layout] : kLayouts)
    if (text == name) {
      shape.layout = layout;
      return claim("the layout", word);
    }
  if (StringRef("bhsqkd").contains(text.front()) &&
      (text.size() == 1 || llvm::isDigit(text[1]) || text[1] == '?' ||
       text[1] == '-'))
    return readSizes(word);
  return makeUnknown(word);
}

//===----------------------------------------------------------------------===//
// What needs several words
//===----------------------------------------------------------------------===//

/// Probabilities are made of it.
Error ShapeParser::checkScores() {
  if (shape.scoresStage != "probabilities" || shape.has("lse"))
    return Error::success();
  return makeShapeError("expects 'lse' with '" + said["the scores"] +
                        "', but got none");
}

/// Keys that are there have been turned already.
Error ShapeParser::checkRotary() {
  if (shape.rotaryStyle.empty() || shape.findSize("seqlen_new"))
    return Error::success();
  return makeShapeError("expects 'append=' with '" +
                        said["the rotary embedding"] + "', but got none");
}

/// A table needs the size of its pages, and the keys are whole ones.
Error ShapeParser::checkPages() {
  std::optional<int64_t> size = shape.findSize("page_size");
  if (!size) {
    if (!shape.has("page_table"))
      return Error::success();
    return makeShapeError("expects 'page_size=' with 'page_table', but got "
                          "none");
  }
  if (shape.seqlenK == Shape::Dynamic || shape.seqlenK % *size == 0)
    return Error::success();
  return makeShapeError("expects a seqlen_k of whole pages with '" +
                        said["the page size"] + "', but got " +
                        sizeText(shape.seqlenK) +
                        "; 'seqused_k' has the keys of each batch entry");
}

/// The size of an axis that no operand has says nothing.
Error ShapeParser::checkSizeWords() {
  for (const auto &[axis, word] : sizeWords) {
    bool isThere = false;
    std::string needed;
    if (axis == "pages") { // of k and v
      isThere = shape.has("page_table");
      needed = "page_size=";
    }
    for (const OperandInfo *info : getShapeOperands())
      if (llvm::is_contained(info->getAxes(), axis)) {
        isThere |= shape.has(info->name);
        needed = info->clause.str();
      }
    if (!isThere)
      return makeShapeError("expects '" + needed + "' with '" + word +
                            "', but got none");
  }
  return Error::success();
}

Error ShapeParser::checkLayout() {
  if (shape.layout != Shape::Layout::Packed)
    return Error::success();
  if (shape.headsQ == Shape::Dynamic || shape.headsKV == Shape::Dynamic)
    return makeShapeError("expects heads that are known with 'packed', but "
                          "got '" +
                          said["the heads"] + "'");
  if (shape.findSize("page_size"))
    return makeShapeError("expects no '" + said["the page size"] +
                          "' with 'packed', but got both: k and v are pages "
                          "then, and no part of one tensor with q");
  if (shape.seqlenQ == shape.seqlenK)
    return Error::success();
  return makeShapeError("expects seqlen_q and seqlen_k to be equal with "
                        "'packed', but got " +
                        sizeText(shape.seqlenQ) + " and " +
                        sizeText(shape.seqlenK));
}

/// Strides are products of sizes and must not overflow.
Error ShapeParser::checkSpans() {
  for (const OperandInfo &info : getOperandTable()) {
    bool isThere = info.clause == "ins" || info.clause == "outs";
    if (!isThere && !shape.has(info.name))
      continue;
    // 4 covers packed q, k and v.
    std::optional<int64_t> elements = 4;
    for (int64_t size : shape.getSizes(info))
      if (elements)
        elements = llvm::checkedMul(*elements, std::max<int64_t>(size, 1));
    if (!elements)
      return makeShapeError("expects tensors of less than 2^61 elements, but "
                            "these sizes make larger ones");
  }
  return Error::success();
}

void ShapeParser::addImplied() {
  for (const auto &[name, operand] : shape.getImplied())
    shape.operands.try_emplace(name, operand);
  for (const OperandInfo *info : getShapeOperands()) {
    bool isOfBlocks = info->axes.contains("query_blocks");
    if (isOfBlocks && !blockAxes.empty())
      shape.operands.try_emplace(info->name.str());
    auto found = shape.operands.find(info->name);
    if (found == shape.operands.end())
      continue;
    Shape::Operand &operand = found->second;
    if (operand.axes.empty())
      operand.axes = isOfBlocks && !blockAxes.empty()
                         ? blockAxes
                         : getBroadcastLetters(*info);
    if (operand.type.empty() && info->elements == OperandInfo::Elements::Float)
      operand.type = shape.type;
  }
}

llvm::Expected<Shape> ShapeParser::parse(StringRef text) {
  llvm::Expected<std::vector<std::string>> words = splitShape(text);
  if (!words)
    return words.takeError();
  for (const std::string &word : *words)
    if (Error error = readWord(ShapeWord(word)))
      return std::move(error);
  addImplied();
  using Check = Error (ShapeParser::*)();
  for (Check check : {&ShapeParser::checkLayout, &ShapeParser::checkScores,
                      &ShapeParser::checkRotary, &ShapeParser::checkPages,
                      &ShapeParser::checkSizeWords, &ShapeParser::checkSpans})
    if (Error error = (this->*check)())
      return std::move(error);
  return std::move(shape);
}

llvm::Expected<Shape> mlir::flashcore::parseShape(StringRef text) {
  return ShapeParser().parse(text);
}
