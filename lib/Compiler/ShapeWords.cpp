//===- ShapeWords.cpp - Words with a form of their own --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Those of attributes, of regions, and of operands that come with one of them.
//
//===----------------------------------------------------------------------===//

#include "ShapeParser.h"
#include "flashcore/Dialect/FlashCore/IR/Limits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <limits>

using namespace mlir::flashcore;
using llvm::Error;
using llvm::StringRef;

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
  head_scale          a number a head that its scores are multiplied by, before
                      the softcap
  bias                of (batch, heads_q, seqlen_q, seqlen_k) in the type of q;
                      bias=1h1k: with the axes b, h, q, k, or 1 where it is
                      broadcast; bias=1h1k:f32: of another type
  alibi               a slope a head, which lowers the scores of far keys
  sink                a logit a head, which takes part in the softmax alone
  seqused_k           how many of the keys of each batch entry are there
  sequences=4         4 sequences back to back in a batch of 1, which end at
                      cu_seqlens_q and cu_seqlens_k; sequences=?: any number
  page_size=64        keys in pages of 64, which page_table names; with
                      sequences, seqused_k has the numbers of keys; pages=100:
                      of that many, any number without
  blocks=128x128      lists of the blocks of 128 queries and keys that have
                      visible scores, and of those that are full, of each batch
                      and head; blocks=128x128:b1: with the axes b, h, or 1
                      where they are broadcast; block_size=128x128, and of the
                      lists those that are there by name: block_counts=b1
                      block_indices=b1
  lse                 the log-sum-exp of each row, too
  scores=masked       the scores, too, as they are at a stage: scaled, capped,
                      changed (by bias), masked or probabilities, which come
                      with lse; scores=masked:f16: of another type than f32
  append=1            rows that are appended to k and v, from k_new and v_new,
                      behind the keys that are there (seqused_k)
  rotary=64:half      of these rows and of q, 64 columns are turned by cos and
                      sin, c and c + 32 together; rotary=64:interleaved: columns
                      2c and 2c + 1; positions=4096: by as many rows of them
  score={...}         the region of the op that changes scores, as MLIR in its
  mask={...}          braces, and the one that hides keys; mask=@FILE: of a file
  %t=memref<8xf32>    a tensor that the regions read, %t there, and its type; %q=
                      and so on: the type of an operand, as that of the module,
                      with strides or sizes that no other word says
  bhsd, bshd          order of q, k, v and o in memory: (batch, heads, seqlen,
                      head_dim), or seqlen before heads
  packed              as bshd, but q, k and v are parts of one tensor: (batch,
                      seqlen, heads_q + 2 heads_kv, head_dim)
  strided             any strides and offsets, chosen at run time
--emit=input prints the module that they stand for.
)";

llvm::ArrayRef<ShapeParser::Form> ShapeParser::getForms() {
  static constexpr Form forms[] = {
      {"causal", &ShapeParser::readMask},
      {"window", &ShapeParser::readWindow},
      {"softcap", &ShapeParser::readSoftcap},
      {"scale", &ShapeParser::readScale},
      {"dropout", &ShapeParser::readDropout},
      {"blocks", &ShapeParser::readBlocks},
      {"block_size", &ShapeParser::readBlockSize},
      {"scores", &ShapeParser::readScores},
      {"append", &ShapeParser::readAppend},
      {"rotary", &ShapeParser::readRotary},
      {"page_size", &ShapeParser::readPageSize},
      {"sequences", &ShapeParser::readSequences},
      {"score", &ShapeParser::readScoreRegion},
      {"mask", &ShapeParser::readMaskRegion},
  };
  return forms;
}

Error ShapeParser::readWindow(const ShapeWord &word) {
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
  auto [left, right] = word.value.split(',');
  if (!read(left, shape.windowLeft) ||
      (word.value.contains(',') && !read(right, shape.windowRight)))
    return makeShapeError("expects 'window=LEFT' or 'window=LEFT,RIGHT' with "
                          "numbers of at least 0 or inf, but got '" +
                          word.text + "'");
  return claim("the window", word);
}

Error ShapeParser::readPositive(const ShapeWord &word,
                                std::optional<float> &result, bool isScale) {
  double number = 0;
  float least =
      isScale ? kLeastScale : std::numeric_limits<float>::denorm_min();
  float most = isScale ? kMostScale : std::numeric_limits<float>::max();
  bool isNumber = !word.value.getAsDouble(number);
  auto single = static_cast<float>(number);
  // NaN compares false.
  if (!isNumber || !(single >= least && single <= most))
    return makeShapeError(
        "expects '" + word.name + "=' and a " +
        (isScale ? "number from 2^-126 to 2^126" : "positive number of f32") +
        ", but got '" + word.text + "'");
  result = single;
  return claim("the " + word.name.str(), word);
}

Error ShapeParser::readSoftcap(const ShapeWord &word) {
  return readPositive(word, shape.softcap, /*isScale=*/true);
}

Error ShapeParser::readScale(const ShapeWord &word) {
  return readPositive(word, shape.scale, /*isScale=*/true);
}

Error ShapeParser::readDropout(const ShapeWord &word) {
  return readPositive(word, shape.dropout, /*isScale=*/false);
}

Error ShapeParser::readMask(const ShapeWord &word) {
  StringRef value = word.hasValue ? word.value : "bottom_right";
  if (value != "bottom_right" && value != "top_left")
    return makeShapeError("expects 'causal', 'causal=bottom_right' or "
                          "'causal=top_left', but got '" +
                          word.text + "'");
  shape.causal = value.str();
  return claim("the causal mask", word);
}

/// Reads "128x64".
static bool readBlock(StringRef text, int64_t &queries, int64_t &keys) {
  auto [left, right] = text.split('x');
  auto isSize = [](StringRef text, int64_t &size) {
    return text != "?" && readShapeSize(text, size);
  };
  return isSize(left, queries) && isSize(right, keys);
}

Error ShapeParser::readBlocks(const ShapeWord &word) {
  auto [sizes, axes] = word.value.split(':');
  if (!word.value.contains(':'))
    axes = "bh";
  bool isAxes = axes.size() == 2 && (axes[0] == 'b' || axes[0] == '1') &&
                (axes[1] == 'h' || axes[1] == '1');
  if (!isAxes || !readBlock(sizes, shape.blockQueries, shape.blockKeys))
    return makeShapeError("expects 'blocks=QUERIESxKEYS' or "
                          "'blocks=QUERIESxKEYS:AXES' with the axes bh, each "
                          "of them 1 where it is broadcast, but got '" +
                          word.text + "'");
  blockAxes = axes.str();
  return claim("the blocks", word);
}

Error ShapeParser::readBlockSize(const ShapeWord &word) {
  if (!readBlock(word.value, shape.blockQueries, shape.blockKeys))
    return makeShapeError("expects 'block_size=QUERIESxKEYS', but got '" +
                          word.text + "'");
  return claim("the blocks", word);
}

Error ShapeParser::readScores(const ShapeWord &word) {
  auto [stage, type] = word.value.split(':');
  if (!word.value.contains(':'))
    type = "f32";
  if (!llvm::is_contained(
          {"scaled", "capped", "changed", "masked", "probabilities"}, stage) ||
      !llvm::is_contained({"f16", "bf16", "f32"}, type))
    return makeShapeError(
        "expects 'scores=STAGE' or 'scores=STAGE:TYPE' with a stage of scaled, "
        "capped, changed, masked or probabilities, and a type of f16, bf16 or "
        "f32, but got '" +
        word.text + "'");
  shape.scoresStage = stage.str();
  shape.operands["scores"] = {"", type.str()};
  return claim("the scores", word);
}

Error ShapeParser::readAppend(const ShapeWord &word) {
  int64_t rows = 0;
  if (!readShapeSize(word.value, rows))
    return makeShapeError("expects 'append=' and a number of rows of at least "
                          "1 or ?, but got '" +
                          word.text + "'");
  shape.sizes["seqlen_new"] = rows;
  shape.operands["k_new"] = shape.operands["v_new"] = {};
  return claim("the append", word);
}

Error ShapeParser::readRotary(const ShapeWord &word) {
  auto [columns, style] = word.value.split(':');
  int64_t size = 0;
  if (!readShapeSize(columns, size) || size == Shape::Dynamic ||
      size % 2 != 0 || (style != "interleaved" && style != "half"))
    return makeShapeError("expects 'rotary=DIM:half' or "
                          "'rotary=DIM:interleaved' with an even number of "
                          "columns of at least 2, but got '" +
                          word.text + "'");
  shape.sizes["rotary_pairs"] = size / 2;
  shape.rotaryStyle = style.str();
  shape.operands["rotary_cos"] = shape.operands["rotary_sin"] = {};
  return claim("the rotary embedding", word);
}

Error ShapeParser::readPageSize(const ShapeWord &word) {
  int64_t size = 0;
  if (!readShapeSize(word.value, size) || size == Shape::Dynamic)
    return makeShapeError("expects 'page_size=' and a number of keys of at "
                          "least 1, but got '" +
                          word.text + "'");
  shape.sizes["page_size"] = size;
  return claim("the page size", word);
}

Error ShapeParser::readSequences(const ShapeWord &word) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max() - 1;
  int64_t count = 0;
  if (!readShapeSize(word.value, count) || count > most)
    return makeShapeError("expects 'sequences=' and a number from 1 to " +
                          std::to_string(most) + " or ?, but got '" +
                          word.text + "'");
  shape.sizes["sequences"] = count;
  return claim("the sequences", word);
}

Error ShapeParser::readScoreRegion(const ShapeWord &word) {
  llvm::Expected<std::string> region = readRegion(word);
  if (!region)
    return region.takeError();
  shape.scoreRegion = std::move(*region);
  return claim("the score region", word);
}

Error ShapeParser::readMaskRegion(const ShapeWord &word) {
  llvm::Expected<std::string> region = readRegion(word);
  if (!region)
    return region.takeError();
  shape.maskRegion = std::move(*region);
  return claim("the mask region", word);
}
