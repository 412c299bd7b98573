//===- ShapeTest.cpp - The words of --shape -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What each word does to the module, and the full text of refusals.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Compiler/Shape.h"
#include "flashcore/Compiler/Compile.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"

#include <gtest/gtest.h>

#include <set>

using namespace mlir::flashcore;

/// The module without its first and last lines, or the error.
static std::string module(llvm::StringRef text) {
  llvm::Expected<Shape> shape = parseShape(text);
  if (!shape)
    return llvm::toString(shape.takeError());
  return writeShape(*shape);
}

/// Line `number` of the module, counted from 0.
static std::string line(llvm::StringRef text, int number) {
  std::string all = module(text);
  llvm::StringRef rest = all;
  for (int i = 0; i < number; ++i)
    rest = rest.split('\n').second;
  return rest.split('\n').first.str();
}

/// The line of the modifiers, after the outputs.
static std::string modifiers(llvm::StringRef text) {
  std::string all = module(text);
  llvm::StringRef rest = all;
  return rest.split("outs(%o : !o)").second.split('\n').first.ltrim().str();
}

TEST(ShapeTest, noWordsAreTheDefault) {
  EXPECT_EQ(module(""), "!q = memref<1x8x512x64xf16>\n"
                        "!k = memref<1x8x512x64xf16>\n"
                        "!v = memref<1x8x512x64xf16>\n"
                        "!o = memref<1x8x512x64xf16>\n"
                        "func.func @attention(%q: !q, %k: !k, %v: !v, %o: !o) "
                        "{\n"
                        "  flashcore.attention ins(%q, %k, %v : !q, !k, !v)\n"
                        "      outs(%o : !o)\n"
                        "  return\n"
                        "}\n");
  EXPECT_EQ(module("b1 h8 s512 d64 f16 bhsd"), module(""));
}

TEST(ShapeTest, everyWordAtOnce) {
  EXPECT_EQ(module("lse bias=1h1k:f32 scale=0.1 dropout=0.25 softcap=30 "
                   "window=1024,0 causal bf16 "
                   "d192/128 s1x4096 h32/8 b2"),
            "!q = memref<2x32x1x192xbf16>\n"
            "!k = memref<2x8x4096x192xbf16>\n"
            "!v = memref<2x8x4096x128xbf16>\n"
            "!bias = memref<1x32x1x4096xf32>\n"
            "!rng = memref<4xi32>\n"
            "!o = memref<2x32x1x128xbf16>\n"
            "!lse = memref<2x32x1xf32>\n"
            "func.func @attention(%q: !q, %k: !k, %v: !v, %bias: !bias, %rng: "
            "!rng, %o: !o, "
            "%lse: !lse) {\n"
            "  flashcore.attention ins(%q, %k, %v : !q, !k, !v) bias(%bias : "
            "!bias) rng(%rng : !rng)\n"
            "      outs(%o : !o) lse(%lse : !lse) causal(bottom_right) "
            "window_left(1024) window_right(0) scale(1.0e-01) softcap(3.0e+01) "
            "dropout(2.5e-01)\n"
            "  return\n"
            "}\n");
}

TEST(ShapeTest, listsOfBlocks) {
  EXPECT_EQ(module("h2 s200x300 blocks=128x64:1h causal"),
            "!q = memref<1x2x200x64xf16>\n"
            "!k = memref<1x2x300x64xf16>\n"
            "!v = memref<1x2x300x64xf16>\n"
            "!block_counts = memref<1x2x2xi32>\n"
            "!block_indices = memref<1x2x2x5xi32>\n"
            "!full_block_counts = memref<1x2x2xi32>\n"
            "!full_block_indices = memref<1x2x2x5xi32>\n"
            "!o = memref<1x2x200x64xf16>\n"
            "func.func @attention(%q: !q, %k: !k, %v: !v, %block_counts: "
            "!block_counts, %block_indices: !block_indices, "
            "%full_block_counts: !full_block_counts, %full_block_indices: "
            "!full_block_indices, %o: !o) {\n"
            "  flashcore.attention ins(%q, %k, %v : !q, !k, !v)\n"
            "      block_counts(%block_counts : !block_counts)\n"
            "      block_indices(%block_indices : !block_indices)\n"
            "      full_block_counts(%full_block_counts : "
            "!full_block_counts)\n"
            "      full_block_indices(%full_block_indices : "
            "!full_block_indices)\n"
            "      outs(%o : !o) causal(bottom_right) block_size(128, 64)\n"
            "  return\n"
            "}\n");
  EXPECT_EQ(line("b2 s? blocks=128x128", 4), "!block_indices = "
                                             "memref<2x8x?x?xi32>");
  // Any strides, and any number of blocks.
  EXPECT_EQ(line("s1x512 blocks=128x128:11 strided", 4),
            "!block_indices = memref<1x1x?x?xi32>");
  for (const char *word :
       {"blocks", "blocks=128", "blocks=128x?", "blocks=128x128:bq",
        "blocks=128x128:b", "blocks=0x16"})
    EXPECT_EQ(module(word),
              std::string("expects 'blocks=QUERIESxKEYS' or "
                          "'blocks=QUERIESxKEYS:AXES' with the axes bh, each "
                          "of them 1 where it is broadcast, but got '") +
                  word + "'");
}

TEST(ShapeTest, orderAndCaseDoNotMatter) {
  EXPECT_EQ(module("B2 H32/8 Q1 K4096 D128 BF16 Causal"),
            module("causal bf16  d128\ts1x4096 h32/8 b2"));
}

TEST(ShapeTest, readsModifiers) {
  EXPECT_EQ(modifiers("causal"), "causal(bottom_right)");
  EXPECT_EQ(modifiers("causal=bottom_right"), "causal(bottom_right)");
  EXPECT_EQ(modifiers("causal=top_left"), "causal(top_left)");
  EXPECT_EQ(modifiers("window=0"), "window_left(0)");
  EXPECT_EQ(modifiers("window=inf,5"), "window_right(5)");
  EXPECT_EQ(modifiers("window=64,inf"), "window_left(64)");
  EXPECT_EQ(modifiers("scale=0.08838834764831845"), "scale(8.8388346e-02)");
  EXPECT_EQ(modifiers("softcap=1e30"), "softcap(1.0e+30)");
}

TEST(ShapeTest, sizesCanBeOpen) {
  EXPECT_EQ(line("b? h? s? d128", 0), "!q = memref<?x?x?x128xf16>");
  EXPECT_EQ(line("h32/? s1x?", 1), "!k = memref<1x?x?x64xf16>");
  EXPECT_EQ(line("q? k7", 0), "!q = memref<1x8x?x64xf16>");
  EXPECT_EQ(line("q? k7", 1), "!k = memref<1x8x7x64xf16>");
}

TEST(ShapeTest, biasesHaveTheTypeOfQ) {
  EXPECT_EQ(line("bias bf16", 3), "!bias = memref<1x8x512x512xbf16>");
  EXPECT_EQ(line("b2 bias=b1q1", 3), "!bias = memref<2x1x512x1xf16>");
  EXPECT_EQ(line("bias=1111:f32 s?", 3), "!bias = memref<1x1x1x1xf32>");
}

TEST(ShapeTest, rowsToAppendHaveLengthsAndWhatTurnsThem) {
  EXPECT_EQ(line("append=2 b3 h8/2 d64/32", 3), "!used = memref<3xi32>");
  EXPECT_EQ(line("append=2 b3 h8/2 d64/32", 4),
            "!k_new = memref<3x2x2x64xf16>");
  EXPECT_EQ(line("append=? b3 h8/2 d64/32", 5),
            "!v_new = memref<3x2x?x32xf16>");
  EXPECT_EQ(line("append=4 bshd", 4),
            "!k_new = memref<1x8x4x64xf16, strided<[2048, 64, 512, 1]>>");
  EXPECT_EQ(line("append=1 rotary=32:half", 6), "!cos = memref<?x16xf16>");
  EXPECT_NE(module("append=1 rotary=32:interleaved causal")
                .find("seqused_k(%used : !used) append(%k_new, %v_new : "
                      "!k_new, !v_new) rotary(%cos, %sin : !cos, !sin)\n"
                      "      outs(%o : !o) causal(bottom_right) "
                      "style(interleaved)\n"),
            std::string::npos);
}

TEST(ShapeTest, refusesWhatIsNoAppend) {
  for (const char *word : {"append", "append=", "append=0", "append=-1"})
    EXPECT_EQ(module(word),
              "expects 'append=' and a number of rows of at least 1 or ?, but "
              "got '" +
                  std::string(word) + "'");
  for (const char *word : {"rotary", "rotary=64", "rotary=63:half",
                           "rotary=?:half", "rotary=64:whole", "rotary=0:half"})
    EXPECT_EQ(module("append=1 " + std::string(word)),
              "expects 'rotary=DIM:half' or 'rotary=DIM:interleaved' with an "
              "even number of columns of at least 2, but got '" +
                  std::string(word) + "'");
  EXPECT_EQ(module("rotary=64:half"),
            "expects 'append=' with 'rotary=64:half', but got none");
}

TEST(ShapeTest, scoresHaveAStageAndAType) {
  EXPECT_EQ(line("scores=masked h4 s1x300", 4),
            "!scores = memref<1x4x1x300xf32>");
  EXPECT_EQ(line("scores=scaled:bf16 s7", 4), "!scores = memref<1x8x7x7xbf16>");
  EXPECT_EQ(line("strided scores=masked lse", 5),
            "!scores = memref<1x8x512x512xf32, strided<[?, ?, ?, 1], "
            "offset: ?>>");
  EXPECT_NE(module("lse scores=probabilities causal")
                .find("outs(%o : !o) lse(%lse : !lse) scores(%scores : "
                      "!scores) causal(bottom_right) stage(probabilities)\n"),
            std::string::npos);
}

TEST(ShapeTest, refusesBadScores) {
  const char *expects =
      "expects 'scores=STAGE' or 'scores=STAGE:TYPE' with a stage of scaled, "
      "capped, changed, masked or probabilities, and a type of f16, bf16 or "
      "f32, but got '";
  for (const char *word : {"scores", "scores=all", "scores=masked:",
                           "scores=masked:f64", "scores=:f16"})
    EXPECT_EQ(module(word), std::string(expects) + word + "'");
  EXPECT_EQ(module("scores=probabilities"),
            "expects 'lse' with 'scores=probabilities', but got none");
  EXPECT_EQ(module("scores=masked scores=capped"),
            "expects the scores once, but got 'scores=masked' and "
            "'scores=capped'");
}

TEST(ShapeTest, layoutsAreStrides) {
  EXPECT_EQ(line("b2 h4/2 s10 d16 bshd", 0),
            "!q = memref<2x4x10x16xf16, strided<[640, 16, 64, 1]>>");
  EXPECT_EQ(line("b2 h4/2 s10 d16 bshd", 1),
            "!k = memref<2x2x10x16xf16, strided<[320, 16, 32, 1]>>");
  EXPECT_EQ(line("b2 h4 s? d16 bshd", 0),
            "!q = memref<2x4x?x16xf16, strided<[?, 16, 64, 1]>>");
  EXPECT_EQ(line("b2 h? s10 d16 bshd", 0),
            "!q = memref<2x?x10x16xf16, strided<[?, 16, ?, 1]>>");
  EXPECT_EQ(line("strided", 1),
            "!k = memref<1x8x512x64xf16, strided<[?, ?, ?, 1], offset: ?>>");
  EXPECT_EQ(
      line("strided bias", 3),
      "!bias = memref<1x8x512x512xf16, strided<[?, ?, ?, 1], offset: ?>>");
}

TEST(ShapeTest, packedTensorsAreOne) {
  // A row of the tensor: 4 heads of Q, then 2 of K, then 2 of V.
  const char *words = "b2 h4/2 s10 d16/8 packed lse";
  EXPECT_EQ(line(words, 0),
            "!q = memref<2x4x10x16xf16, strided<[1120, 16, 112, 1]>>");
  EXPECT_EQ(line(words, 1), "!k = memref<2x2x10x16xf16, strided<[1120, 16, "
                            "112, 1], offset: 64>>");
  EXPECT_EQ(line(words, 2), "!v = memref<2x2x10x8xf16, strided<[1120, 8, 112, "
                            "1], offset: 96>>");
  EXPECT_EQ(line(words, 3),
            "!o = memref<2x4x10x8xf16, strided<[320, 8, 32, 1]>>");
  EXPECT_EQ(line(words, 4), "!lse = memref<2x4x10xf32>");
  EXPECT_EQ(line("b? h4/2 s? d16 packed", 1),
            "!k = memref<?x2x?x16xf16, strided<[?, 16, 128, 1], offset: 64>>");
}

TEST(ShapeTest, refusesUnknownWords) {
  for (const char *word :
       {"x4", "b", "heads8", "casual", "f32", "=", "bf", "é"})
    EXPECT_EQ(module(word).find("expects "), 0u) << word;
  EXPECT_EQ(module("b1 casual"),
            "expects sizes (b1, h32/8, s4096 or q1 and k4096, d128), "
            "f16, bf16, causal, window=, softcap=, scale=, dropout=, blocks=, "
            "block_size=, scores=, append=, rotary=, page_size=, sequences=, "
            "score=, mask=, head_scale, bias, alibi, sink, cu_seqlens_q, "
            "cu_seqlens_k, "
            "seqused_k, page_table, rng, block_counts, block_indices, "
            "full_block_counts, full_block_indices, lse, pages=, positions=, "
            "%NAME=, bhsd, bshd, packed or strided, but got 'casual'");
}

TEST(ShapeTest, refusesRepeatedWords) {
  EXPECT_EQ(module("b1 b2"), "expects the batch once, but got 'b1' and 'b2'");
  EXPECT_EQ(module("h8 h8/2"),
            "expects the heads once, but got 'h8' and 'h8/2'");
  EXPECT_EQ(module("s4096 q1"),
            "expects seqlen_q once, but got 's4096' and 'q1'");
  EXPECT_EQ(module("k1 s4096"),
            "expects seqlen_k once, but got 'k1' and 's4096'");
  EXPECT_EQ(module("d64 d64"),
            "expects head_dim once, but got 'd64' and 'd64'");
  EXPECT_EQ(module("f16 bf16"),
            "expects the type once, but got 'f16' and 'bf16'");
  EXPECT_EQ(module("causal causal=top_left"),
            "expects the causal mask once, but got 'causal' and "
            "'causal=top_left'");
  EXPECT_EQ(module("window=1 window=1"),
            "expects the window once, but got 'window=1' and "
            "'window=1'");
  EXPECT_EQ(module("scale=1 scale=2"),
            "expects the scale once, but got 'scale=1' and 'scale=2'");
  EXPECT_EQ(module("bias bias=1h1k"),
            "expects bias once, but got 'bias' and 'bias=1h1k'");
  EXPECT_EQ(module("packed bshd"),
            "expects the layout once, but got 'packed' and 'bshd'");
  EXPECT_EQ(module("lse lse"), "expects lse once, but got 'lse' and 'lse'");
}

TEST(ShapeTest, refusesBadNumbers) {
  EXPECT_EQ(module("b0"), "expects b and a batch of at least 1 or ?, "
                          "but got 'b0'");
  EXPECT_EQ(module("b-1"), "expects b and a batch of at least 1 or ?, "
                           "but got 'b-1'");
  EXPECT_EQ(module("h8/"), "expects h and heads_q, or "
                           "heads_q/heads_kv, of at least 1 or ?, but got "
                           "'h8/'");
  EXPECT_EQ(module("s512y512"),
            "expects s and a sequence length, or seqlen_q x seqlen_k "
            "as in s1x4096, of at least 1 or ?, but got 's512y512'");
  EXPECT_EQ(module("q1x2"), "expects q and a seqlen_q of at least 1 "
                            "or ?, but got 'q1x2'");
  EXPECT_EQ(module("k9223372036854775808"),
            "expects k and a seqlen_k of at least 1 or ?, but got "
            "'k9223372036854775808'");
  EXPECT_EQ(module("d?"), "expects d and head_dim, or "
                          "head_dim/head_dim_v, of at least 1, but got 'd?'");
  for (const char *word : {"window", "window=", "window=-1", "window=1,",
                           "window=1,2,3", "window=x"})
    EXPECT_EQ(module(word), std::string("expects 'window=LEFT' or "
                                        "'window=LEFT,RIGHT' with numbers of "
                                        "at least 0 or inf, but got '") +
                                word + "'");
  for (const char *word :
       {"softcap", "softcap=", "softcap=0", "softcap=-1", "softcap=nan",
        "softcap=inf", "softcap=1e39", "softcap=1e-50", "softcap=30x"})
    EXPECT_EQ(module(word),
              std::string("expects 'softcap=' and a number from 2^-126 to "
                          "2^126, but got '") +
                  word + "'");
  // What kernels would flush, or overflow with.
  for (const char *word : {"scale=a", "scale=1e-39", "scale=1.1754942e-38",
                           "scale=9e37", "scale=-1e-39"})
    EXPECT_EQ(module(word),
              std::string("expects 'scale=' and a number from 2^-126 to "
                          "2^126, but got '") +
                  word + "'");
  EXPECT_EQ(modifiers("scale=1.1754944e-38"), "scale(1.1754944e-38)");
  for (const char *word : {"dropout=0", "dropout=-1", "dropout=nan"})
    EXPECT_EQ(module(word), std::string("expects 'dropout=' and a positive "
                                        "number of f32, but got '") +
                                word + "'");
  EXPECT_EQ(module("causal=left"), "expects 'causal', 'causal=bottom_right' or "
                                   "'causal=top_left', but got 'causal=left'");
  for (const char *word :
       {"bias=", "bias=bh", "bias=hbqk", "bias=bhqk:", "bias=bhqk:f64"})
    EXPECT_EQ(module(word),
              std::string("expects 'bias' or 'bias=AXES' or "
                          "'bias=AXES:TYPE' with the axes bhqk, each of them 1 "
                          "where it is broadcast, and a type of f16, bf16 or "
                          "f32, but got '") +
                  word + "'");
}

TEST(ShapeTest, refusesWhatCannotBePacked) {
  EXPECT_EQ(module("h? packed"), "expects heads that are known with "
                                 "'packed', but got 'h?'");
  EXPECT_EQ(module("packed s1x4096"),
            "expects seqlen_q and seqlen_k to be equal with 'packed', "
            "but got 1 and 4096");
  EXPECT_EQ(module("packed q?"),
            "expects seqlen_q and seqlen_k to be equal with 'packed', "
            "but got ? and 512");
}

TEST(ShapeTest, refusesTensorsThatOverflow) {
  EXPECT_EQ(module("b1000000000 h1000000000 s1000000000"),
            "expects tensors of less than 2^61 elements, but these "
            "sizes make larger ones");
  EXPECT_EQ(module("s3000000000 bias h1").find("expects tensors"), 0u);
}

//===----------------------------------------------------------------------===//
// Every operand, attribute and region
//===----------------------------------------------------------------------===//

static const char *const kRegions =
    " %t=memref<?xf32, strided<[?], offset: ?>> "
    "score={ ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):\n"
    "  %x = memref.load %t[%j] : memref<?xf32, strided<[?], offset: ?>>\n"
    "  %Sum = arith.addf %s, %x : f32\n  flashcore.yield %Sum : f32 }"
    " mask={^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):\n"
    "  %m = arith.cmpi ule, %j, %i : index // } is no end\n"
    "  flashcore.yield %m : i1\n}";

/// Words that say all there is, in attentions that the op takes.
static std::vector<std::string> allWords() {
  return {
      "b2 h8/2 s4x64 alibi sink bias=1h1k:f32 causal window=7,3 softcap=30 "
      "scale=0.2 dropout=0.1 lse scores=masked strided" +
          std::string(kRegions),
      "b1 s100 sequences=3 seqused_k sink alibi head_scale",
      "b1 s128 sequences=? page_size=64 pages=40 seqused_k lse causal",
      "b3 h8/2 s1x256 page_size=64 append=1 rotary=64:half positions=300 bshd",
      "s200x300 blocks=128x64:1h",
      "s200x300 block_size=128x64 block_counts=1h block_indices=1h",
  };
}

namespace {
class ShapeModuleTest : public testing::Test {
protected:
  /// The attention of a module, which the verifier takes; null otherwise.
  AttentionOp parse(const std::string &text) {
    modules.push_back(mlir::parseSourceString<mlir::ModuleOp>(text, &*context));
    AttentionOp found;
    if (modules.back())
      modules.back()->walk([&](AttentionOp op) { found = op; });
    return found;
  }

  std::unique_ptr<mlir::MLIRContext> context = createCompilerContext();
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules;
};
} // namespace

TEST_F(ShapeModuleTest, wordsSayEveryOperandAttributeAndRegion) {
  std::set<std::string> operands, attributes;
  bool hasScore = false, hasMask = false;
  for (const std::string &words : allWords()) {
    std::string text = module(words);
    AttentionOp op = parse(text);
    ASSERT_TRUE(op) << words << "\n" << text;
    for (const auto &[info, value] : listOperands(op))
      operands.insert(info.name.str());
    for (mlir::NamedAttribute attribute : op->getAttrs())
      attributes.insert(attribute.getName().str());
    hasScore |= !op.getScoreRegion().empty();
    hasMask |= !op.getMaskRegion().empty();
    for (mlir::Value tensor : op.getCapturedTensors())
      EXPECT_TRUE(mlir::isa<mlir::BlockArgument>(tensor));
  }
  EXPECT_TRUE(hasScore && hasMask);
  for (const OperandInfo &info : getOperandTable())
    EXPECT_TRUE(operands.count(info.name.str()))
        << "no word says " << info.name.str();
  for (llvm::StringRef name : AttentionOp::getAttributeNames())
    EXPECT_TRUE(attributes.count(name.str()) ||
                name == AttentionOp::getOperandSegmentSizeAttr())
        << "no word says " << name.str();
}

/// What has a form of its own says in its error what that is.
TEST(ShapeTest, everyClauseIsAWord) {
  for (const OperandInfo &info : getOperandTable()) {
    if (info.clause == "ins" || info.clause == "outs")
      continue;
    std::string text = module("page_size=64 " + info.clause.str());
    bool hasForm =
        text.find("expects '" + info.clause.str() + "=") != std::string::npos;
    EXPECT_TRUE(hasForm || text.find("\n!") != std::string::npos) << text;
  }
}

TEST(ShapeTest, operandsHaveTheAxesOfTheTable) {
  EXPECT_EQ(line("alibi sink h4 b3", 3), "!alibi_slopes = memref<4xf32>");
  EXPECT_EQ(line("alibi sink h4 b3", 4), "!sink_logits = memref<4xf32>");
  EXPECT_EQ(line("seqused_k b3", 3), "!used = memref<3xi32>");
  EXPECT_EQ(line("sequences=4 seqused_k s100", 3),
            "!cu_seqlens_q = memref<5xi32>");
  EXPECT_EQ(line("sequences=4 seqused_k s100", 5), "!used = memref<4xi32>");
  EXPECT_EQ(line("sequences=?", 4), "!cu_seqlens_k = memref<?xi32>");
  EXPECT_EQ(line("page_size=32 s1x320 b3 h8/2", 1),
            "!k = memref<?x2x32x64xf16>");
  EXPECT_EQ(line("page_size=32 s1x320 b3 pages=77 bshd h8/2", 2),
            "!v = memref<77x2x32x64xf16, strided<[4096, 64, 128, 1]>>");
  EXPECT_EQ(line("page_size=32 s1x320 b3", 3),
            "!page_table = memref<3x10xi32>");
  EXPECT_EQ(line("page_size=32 s1x? b?", 3), "!page_table = memref<?x?xi32>");
  // Pages have the keys of each sequence.
  EXPECT_EQ(line("page_size=32 sequences=2", 4),
            "!page_table = memref<2x16xi32>");
  EXPECT_EQ(line("append=1 rotary=32:half positions=99", 6),
            "!cos = memref<99x16xf16>");
  EXPECT_EQ(module("page_size=32 page_table"), module("page_size=32"));
  EXPECT_EQ(module("append=2 seqused_k"), module("append=2"));
  EXPECT_EQ(module("dropout=0.5 rng"), module("dropout=0.5"));
  EXPECT_EQ(module("block_counts blocks=128x64:11 block_indices=11"),
            module("blocks=128x64:11"));
  EXPECT_EQ(line("block_size=128x64 block_counts=b1 s200", 3),
            "!block_counts = memref<1x1x2xi32>");
}

TEST(ShapeTest, typesOfOperandsMayBeGiven) {
  std::string apart = "memref<1x8x512x64xf16, strided<[282624, 34816, 68, 1], "
                      "offset: 4>>";
  std::string text = module("%q=" + apart + " %o=" + apart);
  EXPECT_EQ(text.find("!q = " + apart + "\n!k = memref<1x8x512x64xf16>\n"), 0u);
  EXPECT_NE(text.find("\n!o = " + apart + "\n"), std::string::npos);
  EXPECT_NE(text.find("%v: !v, %o: !o) {"), std::string::npos);
  EXPECT_EQ(line("append=1 rotary=32:half %cos=memref<9x16xf16>", 6),
            "!cos = memref<9x16xf16>");
}

TEST(ShapeTest, regionsAreTextOrFiles) {
  std::string region =
      "{^bb0(%S: f32):\n  // a } in a comment\n  %a = \"x.y\"() {z = \"}\"} "
      ": () -> f32 }";
  std::string text = module("lse SCORE=" + region +
                            " %T=memref<4x?xf32, "
                            "strided<[?, 1]>> causal");
  EXPECT_NE(text.find(", %T: memref<4x?xf32, strided<[?, 1]>>) {"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(" causal(bottom_right) score " + region + "\n  return"),
            std::string::npos)
      << text;

  llvm::SmallString<128> path;
  int file = 0;
  ASSERT_FALSE(
      llvm::sys::fs::createTemporaryFile("Region", "mlir", file, path));
  llvm::raw_fd_ostream(file, /*shouldClose=*/true) << "\n" << region << "\n";
  EXPECT_EQ(module(("score=@" + path).str()), module("score=" + region));
  EXPECT_NE(module(("score=@" + path + " mask=@" + path).str())
                .find(" mask " + region),
            std::string::npos);
  llvm::sys::fs::remove(path);
  EXPECT_EQ(module(("mask=@" + path).str()),
            ("cannot open input file '" + path + "': No such file or directory")
                .str());
}

TEST(ShapeTest, refusesWhatIsNoRegion) {
  EXPECT_EQ(module("mask={ {}"), "expects 'mask={ {}' to end with the } of its "
                                 "region, but got none");
  EXPECT_EQ(module("%t=memref<4xf32 b1"),
            "expects '%t=memref<4xf32 b1' to end with the > of its type, but "
            "got none");
  for (const char *word : {"mask", "mask=", "mask=x", "mask={}x"})
    EXPECT_EQ(module(word),
              std::string("expects 'mask={...}' or 'mask=@FILE' with a region "
                          "of the op in its braces, but got '") +
                  word + "'");
  for (const char *word : {"%", "%t", "%t=", "%=f32"})
    EXPECT_EQ(module(word),
              std::string("expects '%NAME=TYPE' with the type of an operand or "
                          "of a tensor that a region reads, but got '") +
                  word + "'");
  EXPECT_EQ(module("mask={} mask={}"),
            "expects the mask region once, but got 'mask={}' and 'mask={}'");
  EXPECT_EQ(module("%t=i8 %t=f32"),
            "expects %t once, but got '%t=i8' and '%t=f32'");
}

TEST(ShapeTest, refusesOperandsThatLackASize) {
  EXPECT_EQ(module("page_table"),
            "expects 'page_size=' with 'page_table', but got none");
  EXPECT_EQ(module("page_size=?"), "expects 'page_size=' and a number of keys "
                                   "of at least 1, but got 'page_size=?'");
  EXPECT_EQ(module("page_size=64 s1x100"),
            "expects a seqlen_k of whole pages with 'page_size=64', but got "
            "100; 'seqused_k' has the keys of each batch entry");
  EXPECT_EQ(module("page_size=64 packed"),
            "expects no 'page_size=64' with 'packed', but got both: k and v "
            "are pages then, and no part of one tensor with q");
  EXPECT_EQ(module("pages=7"),
            "expects 'page_size=' with 'pages=7', but got none");
  EXPECT_EQ(module("positions=7"),
            "expects 'rotary' with 'positions=7', but got none");
  EXPECT_EQ(module("positions=x"), "expects 'positions=' and a size of at "
                                   "least 1 or ?, but got 'positions=x'");
  EXPECT_EQ(module("sequences=2147483647"),
            "expects 'sequences=' and a number from 1 to 2147483646 or ?, but "
            "got 'sequences=2147483647'");
  EXPECT_EQ(module("sink=1"), "expects 'sink' alone, but got 'sink=1'");
  EXPECT_EQ(module("block_counts=h1"),
            "expects 'block_counts' or 'block_counts=AXES' with the axes bh, "
            "each of them 1 where it is broadcast, but got 'block_counts=h1'");
  EXPECT_EQ(module("block_size=128"),
            "expects 'block_size=QUERIESxKEYS', but got 'block_size=128'");
  EXPECT_EQ(module("sink sink"),
            "expects sink once, but got 'sink' and 'sink'");
}

//===----------------------------------------------------------------------===//
// What other languages read
//===----------------------------------------------------------------------===//

static std::string describe(llvm::StringRef words) {
  llvm::Expected<Shape> shape = parseShape(words);
  if (!shape)
    return llvm::toString(shape.takeError());
  return llvm::formatv("{0}", llvm::json::Value(describeShape(*shape))).str();
}

TEST(ShapeTest, descriptionsHaveAllThatWordsSay) {
  EXPECT_EQ(
      describe(""),
      R"({"append":null,"batch":1,"bias":null,"bias_dtype":null,"blocks":null,)"
      R"("causal":null,"dropout":null,"dtype":"f16","head_dim":64,)"
      R"("head_dim_v":64,"heads_kv":8,"heads_q":8,"layout":"bhsd","lse":false,)"
      R"("operands":[],"regions":[],"rotary":null,"scale":null,"scores":null,)"
      R"("scores_dtype":null,"seqlen_k":512,"seqlen_q":512,"sizes":{},)"
      R"("softcap":null,"window_left":null,"window_right":null})");
  auto has = [](llvm::StringRef words, const std::string &part) {
    return describe(words).find(part) != std::string::npos;
  };
  EXPECT_TRUE(has("b? q?", R"("batch":null)"));
  EXPECT_TRUE(has("sink alibi seqused_k",
                  R"("operands":["alibi","sink","seqused_k"])"));
  // What other words bring along is said once.
  EXPECT_TRUE(has("cu_seqlens_q cu_seqlens_k sequences=?",
                  R"("operands":[],"regions":[],)"));
  EXPECT_TRUE(has("sequences=?", R"("sizes":{"sequences":"?"})"));
  EXPECT_TRUE(
      has("page_size=64 pages=9", R"("sizes":{"page_size":64,"pages":9})"));
  EXPECT_TRUE(has("dropout=0.1 rng append=? seqused_k", R"("operands":[])"));
  EXPECT_TRUE(
      has("append=? rotary=32:half positions=7", R"("rotary":"32:half")"));
  EXPECT_TRUE(has("append=?", R"("append":"?")"));
  EXPECT_TRUE(has("blocks=128x64:b1", R"("blocks":"128x64:b1")"));
  EXPECT_TRUE(has("block_size=128x64 block_counts=b1 block_indices=b1",
                  R"(["block_size=128x64","block_counts=b1",)"
                  R"("block_indices=b1"])"));
  EXPECT_TRUE(has("mask={%Q} %t=memref<4xf32>",
                  R"("regions":["%t=memref<4xf32>","mask={%Q}"])"));
}
