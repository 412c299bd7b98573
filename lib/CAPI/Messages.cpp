//===- Messages.cpp - What a compilation has to say -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Messages.h"
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace mlir::flashcore;
namespace capi = ::flashcore::capi;

static StringRef stringify(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Error:
    return "error";
  case DiagnosticSeverity::Warning:
    return "warning";
  case DiagnosticSeverity::Remark:
    return "remark";
  case DiagnosticSeverity::Note:
    return "note";
  }
  llvm_unreachable("unknown severity");
}

static void addLine(std::string &text, const Twine &line) {
  text += (text.empty() ? "" : "\n") + line.str();
}

std::string Messages::describePlace(Location place) const {
  auto found = place->findInstanceOf<FileLineColLoc>();
  if (!found || found.getLine() == 0) // a whole file
    return name;
  return (found.getFilename().getValue() + ":" + Twine(found.getLine()) + ":" +
          Twine(found.getColumn()))
      .str();
}

void Messages::add(Diagnostic &diagnostic) {
  bool isError = diagnostic.getSeverity() == DiagnosticSeverity::Error;
  isAnyWrong |= isError && !isUnsupported(diagnostic);
  std::string &text = isError ? errors : warnings;
  std::string place = describePlace(diagnostic.getLocation());
  addLine(text, place + ": " + stringify(diagnostic.getSeverity()) + ": " +
                    diagnostic.str());
  for (Diagnostic &note : diagnostic.getNotes()) {
    std::string notePlace = describePlace(note.getLocation());
    addLine(text, "  note: " + (notePlace == place ? "" : notePlace + ": ") +
                      note.str());
  }
}

void Messages::addError(StringRef text) {
  isAnyWrong = true;
  addLine(errors, text);
}

FlashCoreStatus Messages::getFailure() const {
  if (errors.empty())
    return capi::fail(llvm::json::fixUTF8(name) +
                      ": compiling failed without a reason");
  return capi::fail(
      isAnyWrong ? FlashCoreStatusError : FlashCoreStatusUnsupported, errors);
}
