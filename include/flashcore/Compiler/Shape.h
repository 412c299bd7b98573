//===- Shape.h - An attention in a few words --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The words of --shape, such as 'b1 h32/8 s4096 d128 bf16 causal', and the
// module that they stand for. This is the one parser of them: the other tools
// hand the text to flashcore-compile.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_COMPILER_SHAPE_H
#define FLASHCORE_COMPILER_SHAPE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace mlir::flashcore {

/// What --help says of the words.
extern const char *const shapeHelp;

struct Shape {
  /// The order of q, k, v and o in memory.
  enum class Layout {
    BHSD,
    BSHD,
    Packed,  ///< q, k and v in one tensor, (batch, seqlen, heads, head_dim)
    Strided, ///< strides and offsets are chosen at run time
  };
  /// A size that is chosen at run time.
  static constexpr int64_t Dynamic = -1;

  int64_t batch = 1, headsQ = 8, headsKV = 8, seqlenQ = 512, seqlenK = 512,
          headDim = 64, headDimV = 64;
  std::string type = "f16";
  std::optional<std::string> causal; ///< "bottom_right" or "top_left"
  std::optional<int64_t> windowLeft, windowRight;
  std::optional<float> softcap, scale, dropout;
  /// Of (batch, heads_q, seqlen_q, seqlen_k) those the bias has: "1h1k". Empty
  /// without a bias.
  std::string biasAxes, biasType;
  /// Queries and keys of a block of the lists, and of (batch, heads_q) the axes
  /// that they have: "b1". 0 and empty without lists.
  int64_t blockQueries = 0, blockKeys = 0;
  std::string blockAxes;
  bool hasLse = false;
  /// Of scores that are an output; empty without.
  std::string scoresStage, scoresType;
  /// Rows that are appended to key and value, and what turns them: columns, 0
  /// without, and the style.
  std::optional<int64_t> seqlenNew;
  int64_t rotaryDim = 0;
  std::string rotaryStyle;
  Layout layout = Layout::BHSD;
};

/// An error names the word that is wrong and what is allowed in its place.
llvm::Expected<Shape> parseShape(llvm::StringRef text);

/// The shortest text that reads as the same f32, with the point that MLIR
/// wants.
std::string shortestText(float value);

/// A module with one flashcore.attention on memrefs.
std::string writeShape(const Shape &shape);

} // namespace mlir::flashcore

#endif // FLASHCORE_COMPILER_SHAPE_H
