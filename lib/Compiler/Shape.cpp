//===- Shape.cpp - An attention in a few words ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Words come in any order, so each is read alone and what needs several of them
// is checked at the end. Constraints of the op are left to its verifier, which
// names the sizes just as well.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Compiler/Shape.h"
#include "flashcore/Dialect/FlashCore/IR/Limits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir::flashcore;
using llvm::Error;
using llvm::StringRef;
using llvm::Twine;

const char *const mlir::flashcore::shapeHelp = R"(
WORDS OF --shape, in any order; what is left out is 'b1 h8 s512 d64 f16 bhsd':
  b1                  batch
  h32 or h32/8        heads_q, or heads_q/heads_kv
  s4096 or s1x4096    seqlen_q and seqlen_k (or q1 k4096, one at a time)
  d128 or d192/128    head_dim, or head_dim/head_dim_v
  b?, h32/?, s?, ...  sizes other than those of d that are known at run time
  f16, bf16           type of q, k, v and o
  causal              causal=bottom_right; also causal=top_left
  window=1024         keys to the left of its own that a query sees;
                      window=64,0 on both sides; inf is unbounded
  softcap=30          cap of the scores
  scale=0.1           softmax_scale in place of 1/sqrt(head_dim)
  dropout=0.1         a share of P that meets no V, drawn with rng (4 x i32)
  bias                of (batch, heads_q, seqlen_q, seqlen_k) in the type of q;
                      bias=1h1k: with the axes b, h, q, k, or 1 where it is
                      broadcast; bias=1h1k:f32: of another type
  blocks=128x128      lists of the blocks of 128 queries and keys that have
                      visible scores, and of those that are full, of each batch
                      and head; blocks=128x128:b1: with the axes b, h, or 1
                      where they are broadcast
  lse                 the log-sum-exp of each row, too
  scores=masked       the scores, too, as they are at a stage: scaled, capped,
                      changed (by bias), masked or probabilities, which come
                      with lse; scores=masked:f16: of another type than f32
  append=1            rows that are appended to k and v, from k_new and v_new,
                      behind the keys that are there (seqused_k)
  rotary=64:half      of these rows and of q, 64 columns are turned by cos and
                      sin, c and c + 32 together; rotary=64:interleaved: columns
                      2c and 2c + 1
  bhsd, bshd          order of q, k, v and o in memory: (batch, heads, seqlen,
                      head_dim), or seqlen before heads
  packed              as bshd, but q, k and v are parts of one tensor: (batch,
                      seqlen, heads_q + 2 heads_kv, head_dim)
  strided             any strides and offsets, chosen at run time
--emit=input prints the module that they stand for.
)";

namespace {
class ShapeParser {
public:
  llvm::Expected<Shape> parse(StringRef text);

private:
  Error readWord(StringRef word);
  Error readSizes(StringRef word);
  Error readMask(StringRef word, StringRef value, bool hasValue);
  Error readWindow(StringRef word, StringRef value);
  Error readNumber(StringRef word, StringRef value,
                   std::optional<float> &result, bool isScale);
  Error readBias(StringRef word, StringRef value, bool hasValue);
  Error readBlocks(StringRef word, StringRef value);
  Error readScores(StringRef word, StringRef value);
  Error readAppend(StringRef word, StringRef value);
  Error readRotary(StringRef word, StringRef value);
  Error checkScores();
  Error checkRotary();
  Error checkLayout();
  Error checkSpans();
  /// Each part of a shape is said once.
  Error claim(StringRef part, StringRef word);

  Shape shape;
  /// The word that said each part.
  llvm::StringMap<std::string> said;
};
} // namespace

static std::string sizeText(int64_t size) {
  return size == Shape::Dynamic ? "?" : std::to_string(size);
}

static Error makeError(const Twine &text) {
  return llvm::createStringError(text);
}

Error ShapeParser::claim(StringRef part, StringRef word) {
  auto [entry, isNew] = said.try_emplace(part, word.str());
  if (isNew)
    return Error::success();
  return makeError("expects " + part + " once, but got '" + entry->second +
                   "' and '" + word + "'");
}

/// Reads "12" or "?".
static bool readSize(StringRef text, int64_t &size) {
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
    if (!readSize(text, first))
      return false;
    second = first;
    return true;
  }
  auto [left, right] = text.split(separator);
  return readSize(left, first) && readSize(right, second);
}

/// A letter and its sizes.
Error ShapeParser::readSizes(StringRef word) {
  StringRef text = word.drop_front();
  auto expects = [&](StringRef what) {
    return makeError("expects " + what + ", but got '" + word + "'");
  };
  switch (word.front()) {
  case 'b':
    if (!readSize(text, shape.batch))
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
    if (!readSize(text, shape.seqlenQ))
      return expects("q and a seqlen_q of at least 1 or ?");
    return claim("seqlen_q", word);
  case 'k':
    if (!readSize(text, shape.seqlenK))
      return expects("k and a seqlen_k of at least 1 or ?");
    return claim("seqlen_k", word);
  default:
    if (!readPair(text, '/', shape.headDim, shape.headDimV) ||
        shape.headDim == Shape::Dynamic || shape.headDimV == Shape::Dynamic)
      return expects("d and head_dim, or head_dim/head_dim_v, of at least 1");
    return claim("head_dim", word);
  }
}

Error ShapeParser::readWindow(StringRef word, StringRef value) {
  auto read = [](StringRef text, std::optional<int64_t> &size) {
    int64_t number = 0;
    if (text == "inf")
      return true;
    if (text.empty() || !llvm::all_of(text, llvm::isDigit) ||
        text.getAsInteger(10, number))
      return false;
    size = number;
    return true;
  };
  auto [left, right] = value.split(',');
  if (!read(left, shape.windowLeft) ||
      (value.contains(',') && !read(right, shape.windowRight)))
    return makeError("expects 'window=LEFT' or 'window=LEFT,RIGHT' with "
                     "numbers of at least 0 or inf, but got '" +
                     word + "'");
  return claim("the window", word);
}

Error ShapeParser::readNumber(StringRef word, StringRef value,
                              std::optional<float> &result, bool isScale) {
  StringRef name = word.take_until([](char c) { return c == '='; });
  double number = 0;
  float least =
      isScale ? kLeastScale : std::numeric_limits<float>::denorm_min();
  float most = isScale ? kMostScale : std::numeric_limits<float>::max();
  bool isNumber = !value.getAsDouble(number);
  auto single = static_cast<float>(number);
  // NaN compares false.
  if (!isNumber || !(single >= least && single <= most))
    return makeError(
        "expects '" + name + "=' and a " +
        (isScale ? "number from 2^-126 to 2^126" : "positive number of f32") +
        ", but got '" + word + "'");
  result = single;
  return claim("the " + name.str(), word);
}

Error ShapeParser::readMask(StringRef word, StringRef value, bool hasValue) {
  if (!hasValue)
    value = "bottom_right";
  if (value != "bottom_right" && value != "top_left")
    return makeError("expects 'causal', 'causal=bottom_right' or "
                     "'causal=top_left', but got '" +
                     word + "'");
  shape.causal = value.str();
  return claim("the causal mask", word);
}

static bool isElement(StringRef type) {
  return type == "f16" || type == "bf16" || type == "f32";
}

Error ShapeParser::readBias(StringRef word, StringRef value, bool hasValue) {
  constexpr StringRef allAxes = "bhqk";
  StringRef axes = hasValue ? value.split(':').first : allAxes;
  StringRef type = value.split(':').second;
  bool isType = isElement(type) || !value.contains(':');
  bool isAxes = axes.size() == 4;
  for (size_t i = 0; isAxes && i < 4; ++i)
    isAxes = axes[i] == '1' || axes[i] == allAxes[i];
  if (!isAxes || !isType)
    return makeError(
        "expects 'bias' or 'bias=AXES' or 'bias=AXES:TYPE' with the axes bhqk, "
        "each of them 1 where it is broadcast, and a type of f16, bf16 or f32, "
        "but got '" +
        word + "'");
  shape.biasAxes = axes.str();
  shape.biasType = type.str();
  return claim("the bias", word);
}

Error ShapeParser::readBlocks(StringRef word, StringRef value) {
  auto [sizes, axes] = value.split(':');
  if (!value.contains(':'))
    axes = "bh";
  auto [queries, keys] = sizes.split('x');
  auto isSize = [](StringRef text, int64_t &size) {
    return text != "?" && readSize(text, size);
  };
  bool isAxes = axes.size() == 2 && (axes[0] == 'b' || axes[0] == '1') &&
                (axes[1] == 'h' || axes[1] == '1');
  if (!isAxes || !isSize(queries, shape.blockQueries) ||
      !isSize(keys, shape.blockKeys))
    return makeError("expects 'blocks=QUERIESxKEYS' or "
                     "'blocks=QUERIESxKEYS:AXES' with the axes bh, each of "
                     "them 1 where it is broadcast, but got '" +
                     word + "'");
  shape.blockAxes = axes.str();
  return claim("the blocks", word);
}

Error ShapeParser::readScores(StringRef word, StringRef value) {
  auto [stage, type] = value.split(':');
  if (!value.contains(':'))
    type = "f32";
  if (!llvm::is_contained(
          {"scaled", "capped", "changed", "masked", "probabilities"}, stage) ||
      !isElement(type))
    return makeError(
        "expects 'scores=STAGE' or 'scores=STAGE:TYPE' with a stage of scaled, "
        "capped, changed, masked or probabilities, and a type of f16, bf16 or "
        "f32, but got '" +
        word + "'");
  shape.scoresStage = stage.str();
  shape.scoresType = type.str();
  return claim("the scores", word);
}

/// Probabilities are made of it.
Error ShapeParser::checkScores() {
  if (shape.scoresStage != "probabilities" || shape.hasLse)
    return Error::success();
  return makeError("expects 'lse' with '" + said["the scores"] +
                   "', but got none");
}

Error ShapeParser::readAppend(StringRef word, StringRef value) {
  int64_t rows = 0;
  if (!readSize(value, rows))
    return makeError("expects 'append=' and a number of rows of at least 1 or "
                     "?, but got '" +
                     word + "'");
  shape.seqlenNew = rows;
  return claim("the append", word);
}

Error ShapeParser::readRotary(StringRef word, StringRef value) {
  auto [columns, style] = value.split(':');
  if (!readSize(columns, shape.rotaryDim) ||
      shape.rotaryDim == Shape::Dynamic || shape.rotaryDim % 2 != 0 ||
      (style != "interleaved" && style != "half"))
    return makeError("expects 'rotary=DIM:half' or 'rotary=DIM:interleaved' "
                     "with an even number of columns of at least 2, but got '" +
                     word + "'");
  shape.rotaryStyle = style.str();
  return claim("the rotary embedding", word);
}

/// Keys that are there have been turned already.
Error ShapeParser::checkRotary() {
  if (shape.rotaryDim == 0 || shape.seqlenNew)
    return Error::success();
  return makeError("expects 'append=' with '" + said["the rotary embedding"] +
                   "', but got none");
}

Error ShapeParser::readWord(StringRef word) {
  auto [name, value] = word.split('=');
  bool hasValue = word.contains('=');
  if (name == "causal")
    return readMask(word, value, hasValue);
  if (name == "window")
    return readWindow(word, value);
  if (name == "softcap")
    return readNumber(word, value, shape.softcap, /*isScale=*/true);
  if (name == "scale")
    return readNumber(word, value, shape.scale, /*isScale=*/true);
  if (name == "dropout")
    return readNumber(word, value, shape.dropout, /*isScale=*/false);
  if (name == "bias")
    return readBias(word, value, hasValue);
  if (name == "scores")
    return readScores(word, value);
  if (name == "append")
    return readAppend(word, value);
  if (name == "rotary")
    return readRotary(word, value);
  if (name == "blocks")
    return readBlocks(word, value);
  if (word == "f16" || word == "bf16") {
    shape.type = word.str();
    return claim("the type", word);
  }
  if (word == "lse") {
    shape.hasLse = true;
    return claim("lse", word);
  }
  for (auto [text, layout] : {std::pair("bhsd", Shape::Layout::BHSD),
                              {"bshd", Shape::Layout::BSHD},
                              {"packed", Shape::Layout::Packed},
                              {"strided", Shape::Layout::Strided}})
    if (word == text) {
      shape.layout = layout;
      return claim("the layout", word);
    }
  if (StringRef("bhsqkd").contains(word.front()) &&
      (word.size() == 1 || llvm::isDigit(word[1]) || word[1] == '?' ||
       word[1] == '-'))
    return readSizes(word);
  return makeError(
      "expects sizes (b1, h32/8, s4096 or q1 and k4096, d128), f16, bf16, "
      "causal, window=, softcap=, scale=, dropout=, bias, blocks=, lse, "
      "scores=, append=, rotary=, bhsd, bshd, packed or strided, but got '" +
      word + "'");
}

Error ShapeParser::checkLayout() {
  if (shape.layout != Shape::Layout::Packed)
    return Error::success();
  if (shape.headsQ == Shape::Dynamic || shape.headsKV == Shape::Dynamic)
    return makeError("expects heads that are known with 'packed', but got '" +
                     said["the heads"] + "'");
  if (shape.seqlenQ == shape.seqlenK)
    return Error::success();
  return makeError("expects seqlen_q and seqlen_k to be equal with 'packed', "
                   "but got " +
                   sizeText(shape.seqlenQ) + " and " + sizeText(shape.seqlenK));
}

/// Strides are products of sizes and must not overflow.
Error ShapeParser::checkSpans() {
  int64_t heads = std::max(shape.headsQ, shape.headsKV);
  int64_t seqlen =
      std::max({shape.seqlenQ, shape.seqlenK, shape.seqlenNew.value_or(1)});
  int64_t headDim = std::max(shape.headDim, shape.headDimV);
  // 4 covers packed q, k and v, and the last axis may be seqlen_k of a bias or
  // of scores.
  std::optional<int64_t> elements = 4;
  for (int64_t size : {shape.batch, heads, seqlen,
                       shape.biasAxes.empty() && shape.scoresStage.empty()
                           ? headDim
                           : std::max(seqlen, headDim)})
    if (elements)
      elements = llvm::checkedMul(*elements, std::max<int64_t>(size, 1));
  if (elements)
    return Error::success();
  return makeError("expects tensors of less than 2^61 elements, but these "
                   "sizes make larger ones");
}

llvm::Expected<Shape> ShapeParser::parse(StringRef text) {
  std::string lower = text.lower();
  llvm::SmallVector<StringRef> words;
  llvm::SplitString(lower, words);
  for (StringRef word : words)
    if (Error error = readWord(word))
      return std::move(error);
  if (Error error = checkLayout())
    return std::move(error);
  if (Error error = checkScores())
    return std::move(error);
  if (Error error = checkRotary())
    return std::move(error);
  if (Error error = checkSpans())
    return std::move(error);
  if (!shape.biasAxes.empty() && shape.biasType.empty())
    shape.biasType = shape.type;
  return std::move(shape);
}

llvm::Expected<Shape> mlir::flashcore::parseShape(StringRef text) {
  return ShapeParser().parse(text);
}

static std::string memref(llvm::ArrayRef<int64_t> sizes, StringRef type,
                          const std::string &layout = "") {
  std::string text = "memref<";
  for (int64_t size : sizes)
    text += sizeText(size) + "x";
  return text + type.str() + (layout.empty() ? "" : ", " + layout) + ">";
}

namespace {
/// The types of the operands.
class TypeWriter {
public:
  explicit TypeWriter(const Shape &shape) : shape(shape) {}

  std::string query() const {
    return tensor(shape.layout, shape.headsQ, shape.seqlenQ, shape.headDim, 0);
  }
  std::string key() const {
    return tensor(shape.layout, shape.headsKV, shape.seqlenK, shape.headDim,
                  shape.headsQ * shape.headDim);
  }
  std::string value() const {
    return tensor(shape.layout, shape.headsKV, shape.seqlenK, shape.headDimV,
                  (shape.headsQ + shape.headsKV) * shape.headDim);
  }
  std::string output() const;
  std::string bias() const;
  std::string blocks(bool areIndices) const;
  std::string lse() const;
  std::string scores() const;
  std::string newRows(int64_t headDim) const {
    return ofOutput(shape.headsKV, *shape.seqlenNew, headDim);
  }
  std::string lengths() const { return memref({shape.batch}, "i32"); }
  std::string angles() const {
    return memref({Shape::Dynamic, shape.rotaryDim / 2}, shape.type);
  }

private:
  std::string ofOutput(int64_t heads, int64_t seqlen, int64_t dim) const;
  /// `packedOffset` is that of the first row in the tensor of all three.
  std::string tensor(Shape::Layout layout, int64_t heads, int64_t seqlen,
                     int64_t dim, int64_t packedOffset) const;

  const Shape &shape;
};
} // namespace

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

static const char *const anyLayout = "strided<[?, ?, ?, 1], offset: ?>";

static int64_t multiply(int64_t a, int64_t b) {
  return a == Shape::Dynamic || b == Shape::Dynamic ? Shape::Dynamic : a * b;
}

std::string TypeWriter::tensor(Shape::Layout layout, int64_t heads,
                               int64_t seqlen, int64_t dim,
                               int64_t packedOffset) const {
  bool isPacked = layout == Shape::Layout::Packed;
  int64_t row = isPacked ? shape.headsQ * shape.headDim +
                               shape.headsKV * (shape.headDim + shape.headDimV)
                         : multiply(heads, dim);
  std::string text;
  if (layout == Shape::Layout::Strided)
    text = anyLayout;
  else if (layout != Shape::Layout::BHSD)
    text = strided({multiply(seqlen, row), dim, row, 1},
                   isPacked ? packedOffset : 0);
  return memref({shape.batch, heads, seqlen, dim}, shape.type, text);
}

std::string TypeWriter::output() const {
  return ofOutput(shape.headsQ, shape.seqlenQ, shape.headDimV);
}

/// What is no part of the packed tensor.
std::string TypeWriter::ofOutput(int64_t heads, int64_t seqlen,
                                 int64_t dim) const {
  Shape::Layout layout = shape.layout == Shape::Layout::Packed
                             ? Shape::Layout::BSHD
                             : shape.layout;
  return tensor(layout, heads, seqlen, dim, 0);
}

std::string TypeWriter::bias() const {
  int64_t sizes[] = {shape.batch, shape.headsQ, shape.seqlenQ, shape.seqlenK};
  for (size_t i = 0; i < 4; ++i)
    if (shape.biasAxes[i] == '1')
      sizes[i] = 1;
  return memref(sizes, shape.biasType,
                shape.layout == Shape::Layout::Strided ? anyLayout : "");
}

/// Lists may name more blocks than the rows need. A dense shape has those that
/// it needs; the layout that takes any strides takes any number.
std::string TypeWriter::blocks(bool areIndices) const {
  auto count = [&](int64_t rows, int64_t ofBlock) {
    bool isOpen =
        rows == Shape::Dynamic || shape.layout == Shape::Layout::Strided;
    return isOpen ? Shape::Dynamic : (rows + ofBlock - 1) / ofBlock;
  };
  llvm::SmallVector<int64_t> sizes{shape.blockAxes[0] == '1' ? 1 : shape.batch,
                                   shape.blockAxes[1] == '1' ? 1 : shape.headsQ,
                                   count(shape.seqlenQ, shape.blockQueries)};
  if (areIndices)
    sizes.push_back(count(shape.seqlenK, shape.blockKeys));
  return memref(sizes, "i32");
}

std::string TypeWriter::lse() const {
  return memref({shape.batch, shape.headsQ, shape.seqlenQ}, "f32");
}

std::string TypeWriter::scores() const {
  return memref({shape.batch, shape.headsQ, shape.seqlenQ, shape.seqlenK},
                shape.scoresType,
                shape.layout == Shape::Layout::Strided ? anyLayout : "");
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
  if (shape.rotaryDim)
    add("style", shape.rotaryStyle);
  return text;
}

using Operands = llvm::SmallVector<std::pair<std::string, std::string>>;

static void addAppended(const Shape &shape, const TypeWriter &types,
                        Operands &operands) {
  if (!shape.seqlenNew)
    return;
  operands.emplace_back("used", types.lengths());
  operands.emplace_back("k_new", types.newRows(shape.headDim));
  operands.emplace_back("v_new", types.newRows(shape.headDimV));
  if (shape.rotaryDim == 0)
    return;
  operands.emplace_back("cos", types.angles());
  operands.emplace_back("sin", types.angles());
}

std::string mlir::flashcore::writeShape(const Shape &shape) {
  TypeWriter types(shape);
  Operands operands = {
      {"q", types.query()}, {"k", types.key()}, {"v", types.value()}};
  if (!shape.biasAxes.empty())
    operands.emplace_back("bias", types.bias());
  if (shape.dropout)
    operands.emplace_back("rng", "memref<4xi32>");
  addAppended(shape, types, operands);
  static constexpr StringRef lists[] = {"block_counts", "block_indices",
                                        "full_block_counts",
                                        "full_block_indices"};
  for (StringRef list : lists)
    if (shape.blockQueries)
      operands.emplace_back(list, types.blocks(list.ends_with("indices")));
  operands.emplace_back("o", types.output());
  if (shape.hasLse)
    operands.emplace_back("lse", types.lse());
  if (!shape.scoresStage.empty())
    operands.emplace_back("scores", types.scores());

  std::string text;
  llvm::raw_string_ostream stream(text);
  for (const auto &[name, type] : operands)
    stream << "!" << name << " = " << type << "\n";
  stream << "func.func @attention(";
  llvm::interleaveComma(operands, stream, [&](const auto &operand) {
    stream << "%" << operand.first << ": !" << operand.first;
  });
  stream << ") {\n"
            "  flashcore.attention ins(%q, %k, %v : !q, !k, !v)";
  if (!shape.biasAxes.empty())
    stream << " bias(%bias : !bias)";
  if (shape.dropout)
    stream << " rng(%rng : !rng)";
  if (shape.seqlenNew)
    stream
        << "\n      seqused_k(%used : !used) append(%k_new, %v_new : !k_new, "
           "!v_new)";
  if (shape.rotaryDim)
    stream << " rotary(%cos, %sin : !cos, !sin)";
  for (StringRef list : lists)
    if (shape.blockQueries)
      stream << "\n      " << list << "(%" << list << " : !" << list << ")";
  stream << "\n      outs(%o : !o)";
  if (shape.hasLse)
    stream << " lse(%lse : !lse)";
  if (!shape.scoresStage.empty())
    stream << " scores(%scores : !scores)";
  if (std::string words = modifiers(shape); !words.empty())
    stream << " " << words;
  stream << "\n  return\n}\n";
  return text;
}
