//===- Phases.cpp - Printing the IR after phases --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Phases.h"
#include "flashcore/Pipelines/Pipelines.h"
#include "flashcore/Support/ErrorStream.h"
#include "flashcore/Support/ToolInit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::flashcore;

static StringRef getName(unsigned phase) {
  return phase == 0 ? StringRef("entry")
                    : StringRef(getPhases()[phase - 1].name);
}

/// What is short enough to type: the first word.
static StringRef getShortName(unsigned phase) {
  return getName(phase).take_until([](char c) { return c == ':' || c == ' '; });
}

llvm::Expected<std::vector<unsigned>>
mlir::flashcore::parsePhases(StringRef text) {
  std::vector<unsigned> result;
  std::string known;
  for (unsigned phase = 0; phase <= getPhases().size(); ++phase) {
    known += llvm::formatv("{0}{1} ({2})", phase ? ", " : "", phase,
                           getShortName(phase));
    if (text == "all")
      result.push_back(phase);
  }
  if (text == "all")
    return result;
  SmallVector<StringRef> words;
  text.split(words, ',');
  for (StringRef word : words) {
    unsigned phase = 0;
    while (phase <= getPhases().size() && word != getShortName(phase) &&
           word != std::to_string(phase))
      ++phase;
    if (phase > getPhases().size())
      return llvm::createStringError(
          "expects --print-phases to be all or some of " + known +
          ", but got '" + word + "'");
    result.push_back(phase);
  }
  return result;
}

llvm::Error mlir::flashcore::printPhase(ModuleOp module, unsigned phase,
                                        StringRef directory, StringRef chip) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (directory.empty()) {
    os << "// ----- phase " << phase << ": " << getName(phase)
       << (chip.empty() ? "" : " (" + chip + ")") << " -----\n"
       << module << "\n";
    getErrorStream() << text;
    return llvm::Error::success();
  }
  os << module << "\n";
  if (std::error_code ec = llvm::sys::fs::create_directory(
          directory, /*IgnoreExisting=*/true, llvm::sys::fs::all_all))
    return llvm::createStringError(ec, "cannot make the directory '" +
                                           directory + "': " + ec.message());
  SmallString<128> path(directory);
  llvm::sys::path::append(path, (chip.empty() ? "" : chip + "-") +
                                    Twine(phase) + "-" + getShortName(phase) +
                                    ".mlir");
  return writeOutput(path, text);
}
