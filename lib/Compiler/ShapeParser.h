//===- ShapeParser.h - Reads the words of --shape ---------------*- C++ -*-===//
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

#ifndef FLASHCORE_LIB_COMPILER_SHAPEPARSER_H
#define FLASHCORE_LIB_COMPILER_SHAPEPARSER_H

#include "ShapeTable.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/Twine.h"

namespace mlir::flashcore {

/// NAME, or NAME=VALUE, in lower case but for what is MLIR or a path.
struct ShapeWord {
  llvm::StringRef text, name, value;
  bool hasValue;

  explicit ShapeWord(llvm::StringRef text)
      : text(text), name(text.split('=').first), value(text.split('=').second),
        hasValue(text.contains('=')) {}
};

/// The words of a text. Blanks part them, but for those in the brackets of a
/// region or a type.
llvm::Expected<std::vector<std::string>> splitShape(llvm::StringRef text);

/// The region that `word` has as text or in a file.
llvm::Expected<std::string> readRegion(const ShapeWord &word);

llvm::Error makeShapeError(const llvm::Twine &text);

class ShapeParser {
public:
  using Read = llvm::Error (ShapeParser::*)(const ShapeWord &);
  /// A word with a form of its own, by what stands in front of its =.
  struct Form {
    llvm::StringLiteral name;
    Read read;
  };

  llvm::Expected<Shape> parse(llvm::StringRef text);

private:
  static llvm::ArrayRef<Form> getForms();

  llvm::Error readWord(const ShapeWord &word);
  llvm::Error readSizes(const ShapeWord &word);
  llvm::Error readClause(const ShapeWord &word);
  llvm::Error readSize(const ShapeWord &word);
  llvm::Error readCapture(const ShapeWord &word);
  llvm::Error makeUnknown(const ShapeWord &word);

  // In ShapeWords.cpp.
  llvm::Error readMask(const ShapeWord &word);
  llvm::Error readWindow(const ShapeWord &word);
  llvm::Error readSoftcap(const ShapeWord &word);
  llvm::Error readScale(const ShapeWord &word);
  llvm::Error readDropout(const ShapeWord &word);
  llvm::Error readBlocks(const ShapeWord &word);
  llvm::Error readBlockSize(const ShapeWord &word);
  llvm::Error readScores(const ShapeWord &word);
  llvm::Error readAppend(const ShapeWord &word);
  llvm::Error readRotary(const ShapeWord &word);
  llvm::Error readPageSize(const ShapeWord &word);
  llvm::Error readSequences(const ShapeWord &word);
  llvm::Error readScoreRegion(const ShapeWord &word);
  llvm::Error readMaskRegion(const ShapeWord &word);
  llvm::Error readPositive(const ShapeWord &word, std::optional<float> &result,
                           bool isScale);

  llvm::Error checkScores();
  llvm::Error checkRotary();
  llvm::Error checkPages();
  llvm::Error checkSizeWords();
  llvm::Error checkLayout();
  llvm::Error checkSpans();
  void addImplied();

  /// Each part of a shape is said once.
  llvm::Error claim(llvm::StringRef part, const ShapeWord &word);

  Shape shape;
  /// Of `blocks=`; empty without.
  std::string blockAxes;
  /// The word that said each part.
  llvm::StringMap<std::string> said;
  /// The words of sizes by their axes.
  std::map<std::string, std::string> sizeWords;
};

/// Reads "12" or "?".
bool readShapeSize(llvm::StringRef text, int64_t &size);

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_COMPILER_SHAPEPARSER_H
