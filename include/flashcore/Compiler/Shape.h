//===- Shape.h - An attention in a few words --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The words of --shape, such as 'b1 h32/8 s4096 d128 bf16 causal', and the
// module that they stand for. This is the one parser of them: the other tools
// hand the text to flashcore-compile, and other languages read describeShape.
//
// What words there are, and the types of operands, follow from the table of
// operands (flashcore/Operands.def): an operand's clause is its word, and a
// size that only it has is a word, too. ShapeWords.cpp has those with a form of
// their own.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_COMPILER_SHAPE_H
#define FLASHCORE_COMPILER_SHAPE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mlir::flashcore {

struct OperandInfo;

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

  /// An operand beside q, k, v and o.
  struct Operand {
    /// A letter for each axis that may be broadcast, 1 where it is: "1h1k".
    std::string axes;
    /// Of operands that have a choice; else empty.
    std::string type;

    bool operator==(const Operand &other) const {
      return axes == other.axes && type == other.type;
    }
  };
  using Operands = std::map<std::string, Operand, std::less<>>;

  int64_t batch = 1, headsQ = 8, headsKV = 8, seqlenQ = 512, seqlenK = 512,
          headDim = 64, headDimV = 64;
  std::string type = "f16";
  std::optional<std::string> causal; ///< "bottom_right" or "top_left"
  std::optional<int64_t> windowLeft, windowRight;
  std::optional<float> softcap, scale, dropout;
  /// Queries and keys of a block of the lists; 0 without lists.
  int64_t blockQueries = 0, blockKeys = 0;
  /// Of scores that are an output, and of a rotary embedding; empty without.
  std::string scoresStage, rotaryStyle;
  /// By their names in the op.
  Operands operands;
  /// Sizes of axes that these alone have, by the table's names: seqlen_new,
  /// rotary_pairs, positions, and page_size, pages and sequences.
  std::map<std::string, int64_t, std::less<>> sizes;
  /// Names behind the % and types of what the regions read, and of operands
  /// whose type the words give as it is.
  std::vector<std::pair<std::string, std::string>> captures;
  /// In braces; empty without.
  std::string scoreRegion, maskRegion;
  Layout layout = Layout::BHSD;

  bool has(llvm::StringRef operand) const {
    return operands.find(operand) != operands.end();
  }
  /// Null without.
  const Operand *find(llvm::StringRef operand) const;
  /// The sizes that every shape has: batch, heads_q and so on.
  std::optional<int64_t> findBase(llvm::StringRef axis) const;
  /// Of those that `sizes` has, if the words say it.
  std::optional<int64_t> findSize(llvm::StringRef axis) const;
  /// Of any axis of the table; what no word says is chosen at run time.
  int64_t getSize(llvm::StringRef axis) const;
  /// The sizes of one of the operands, with 1 where it is broadcast.
  llvm::SmallVector<int64_t> getSizes(const OperandInfo &info) const;
  /// What the attributes and sizes bring along, such as rng with a dropout.
  Operands getImplied() const;
  /// Columns that a rotary embedding turns; 0 without.
  int64_t getRotaryDim() const;
  /// Of lists of blocks, if `blocks=` says all there is of them; else empty.
  std::string getBlockAxes() const;
};

/// An error names the word that is wrong and what is allowed in its place.
llvm::Expected<Shape> parseShape(llvm::StringRef text);

/// The shortest text that reads as the same f32, with the point that MLIR
/// wants.
std::string shortestText(float value);

/// A module with one flashcore.attention on memrefs.
std::string writeShape(const Shape &shape);

/// All that the words say, and what they leave out, by the names of
/// flashcore.Problem in Python: `operands` and `regions` are lists of words
/// that have no other key, `sizes` those of axes by name; a size is null, there
/// "?", where it is chosen at run time.
llvm::json::Object describeShape(const Shape &shape);

/// "bhsd", which lives as long as the program.
const char *stringifyLayout(Shape::Layout layout);

} // namespace mlir::flashcore

#endif // FLASHCORE_COMPILER_SHAPE_H
