//===- ShapeText.cpp - The words of a text --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A region is MLIR and may hold blanks, so its word ends where its brackets do.
//
//===----------------------------------------------------------------------===//

#include "ShapeParser.h"
#include "flashcore/Support/ToolInit.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir::flashcore;
using llvm::StringRef;

static constexpr StringRef kBlanks = " \t\n\v\f\r";

/// Of a word in a message, which is short.
static std::string abridge(StringRef word) {
  constexpr size_t most = 40;
  StringRef line = word.take_until([](char c) { return c == '\n'; });
  bool isWhole = line.size() == word.size() && line.size() <= most;
  return line.take_front(most).str() + (isWhole ? "" : "...");
}

/// How many characters of `text`, which begins with a bracket of `opening`, it
/// takes until all of them are closed; npos if they are not. Brackets in
/// strings and comments are none, nor is that of an arrow.
static size_t findClosing(StringRef text, StringRef opening,
                          StringRef closing) {
  size_t depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    StringRef rest = text.drop_front(i);
    if (rest.starts_with("//")) {
      i += rest.find('\n') == StringRef::npos ? rest.size() : rest.find('\n');
    } else if (rest.starts_with("->")) {
      ++i;
    } else if (rest.front() == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\')
          ++i;
    } else if (opening.contains(rest.front())) {
      ++depth;
    } else if (closing.contains(rest.front()) && depth-- <= 1) {
      return i + 1;
    }
  }
  return StringRef::npos;
}

/// Where the word ends that `text` begins with.
static llvm::Expected<size_t> findEnd(StringRef text) {
  size_t blank = std::min(text.find_first_of(kBlanks), text.size());
  bool isCapture = text.starts_with("%");
  StringRef name = text.take_front(blank).split('=').first;
  bool isRegion =
      name.equals_insensitive("score") || name.equals_insensitive("mask");
  size_t bracket = text.find_first_of(isCapture ? "<" : "{");
  bool hasBracket =
      isRegion ? bracket == name.size() + 1 : isCapture && bracket < blank;
  if (!hasBracket)
    return blank;
  size_t length = isCapture
                      ? findClosing(text.drop_front(bracket), "<[({", ">])}")
                      : findClosing(text.drop_front(bracket), "{", "}");
  if (length == StringRef::npos)
    return makeShapeError("expects '" + abridge(text) + "' to end with the " +
                          (isCapture ? "> of its type" : "} of its region") +
                          ", but got none");
  size_t end = bracket + length;
  return end + std::min(text.drop_front(end).find_first_of(kBlanks),
                        text.size() - end);
}

llvm::Expected<std::vector<std::string>>
mlir::flashcore::splitShape(StringRef text) {
  std::vector<std::string> words;
  for (text = text.ltrim(kBlanks); !text.empty(); text = text.ltrim(kBlanks)) {
    llvm::Expected<size_t> end = findEnd(text);
    if (!end)
      return end.takeError();
    StringRef word = text.take_front(*end);
    text = text.drop_front(*end);
    auto [name, value] = word.split('=');
    std::string lower = name.lower();
    bool keepsCase = lower == "score" || lower == "mask";
    if (word.starts_with("%"))
      words.push_back(word.str());
    else if (keepsCase && word.contains('='))
      words.push_back(lower + "=" + value.str());
    else
      words.push_back(word.lower());
  }
  return words;
}

llvm::Expected<std::string> mlir::flashcore::readRegion(const ShapeWord &word) {
  auto isRegion = [](StringRef text) {
    return text.starts_with("{") && findClosing(text, "{", "}") == text.size();
  };
  std::string expects = ("expects '" + word.name + "={...}' or '" + word.name +
                         "=@FILE' with a region of the op in its braces")
                            .str();
  StringRef path = word.value;
  if (!path.consume_front("@")) {
    if (isRegion(path))
      return path.str();
    return makeShapeError(expects + ", but got '" + abridge(word.text) + "'");
  }
  // A library reads no standard input.
  auto file = readInput(path == "-" ? "./-" : path);
  if (!file)
    return file.takeError();
  StringRef text = (*file)->getBuffer().trim(kBlanks);
  if (isRegion(text))
    return text.str();
  return makeShapeError(expects + ", but got a file '" + path +
                        "' that begins with '" + abridge(text) + "'");
}
