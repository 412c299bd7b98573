//===- ToolFiles.cpp - The input and output of a tool ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../../tools/OutputFile.h"
#include "flashcore/Support/ToolInit.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace mlir::flashcore;

static llvm::Error makeError(const llvm::Twine &text) {
  return llvm::createStringError(std::make_error_code(std::errc::io_error),
                                 text);
}

namespace {
/// The brackets that are open at a place in a text.
class OpenBrackets {
public:
  void add(char open) { stack.push_back(open); }
  /// Also closes each `<` in it that is no bracket but a comparison.
  void close(char open) {
    size_t size = stack.size();
    while (size > 0 && stack[size - 1] == '<' && open != '<')
      --size;
    if (size > 0 && stack[size - 1] == open)
      stack.resize(size - 1);
  }
  size_t depth() const { return stack.size(); }

private:
  std::string stack;
};
} // namespace

/// The position of the last character of the string or comment at `at`.
static size_t skipToken(llvm::StringRef text, size_t at) {
  if (text[at] == '/')
    return std::min(text.find('\n', at), text.size()) - 1;
  for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
    if (text[at] == '\\')
      ++at;
  return at < text.size() && text[at] == '"' ? at : at - 1;
}

std::optional<std::string> mlir::flashcore::checkNesting(llvm::StringRef text) {
  OpenBrackets brackets;
  for (size_t i = 0; i < text.size(); ++i) {
    llvm::StringRef rest = text.substr(i);
    if (rest.starts_with("\"") || rest.starts_with("//"))
      i = skipToken(text, i);
    else if (rest.starts_with("->") || rest.starts_with(">=") ||
             rest.starts_with("<="))
      ++i;
    else if (size_t open = llvm::StringRef("([{<").find(text[i]);
             open != llvm::StringRef::npos)
      brackets.add(text[i]);
    else if (size_t close = llvm::StringRef(")]}>").find(text[i]);
             close != llvm::StringRef::npos)
      brackets.close("([{<"[close]);
    if (brackets.depth() > kMaxNesting) {
      llvm::StringRef before = text.take_front(i);
      return llvm::formatv(
                 "{0}:{1}: error: expects brackets and regions nested at "
                 "most {2} deep, but got more",
                 before.count('\n') + 1, i - (before.rfind('\n') + 1) + 1,
                 kMaxNesting)
          .str();
    }
  }
  return std::nullopt;
}

/// Reads a stream to its end, which some devices do not have.
static llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readStream(llvm::sys::fs::file_t file, llvm::StringRef name) {
  constexpr size_t chunk = 1 << 16;
  llvm::SmallString<0> text;
  for (size_t read = 1; read != 0;) {
    size_t size = text.size();
    text.resize_for_overwrite(size + chunk);
    auto got = llvm::sys::fs::readNativeFile(
        file, llvm::MutableArrayRef(text.data() + size, chunk));
    if (!got)
      return makeError("cannot read '" + name +
                       "': " + llvm::toString(got.takeError()));
    read = *got;
    text.truncate(size + read);
    if (text.size() > kMaxStream)
      return makeError("expects at most " + llvm::Twine(kMaxStream >> 20) +
                       " MiB from '" + name +
                       "', which is no regular file, but got more");
  }
  return std::make_unique<llvm::SmallVectorMemoryBuffer>(std::move(text), name);
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
mlir::flashcore::readInput(llvm::StringRef path) {
  using namespace llvm::sys;
  if (path == "-")
    return readStream(fs::getStdinHandle(), "<stdin>");
  fs::file_status status;
  if (!fs::status(path, status) && fs::is_other(status)) {
    llvm::Expected<fs::file_t> file = fs::openNativeFileForRead(path);
    if (!file)
      return makeError("cannot open input file '" + path +
                       "': " + llvm::toString(file.takeError()));
    auto text = readStream(*file, path);
    fs::closeFile(*file);
    return text;
  }
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> file = openInputFile(path, &message);
  if (!file)
    return makeError(message);
  return std::move(file);
}

llvm::Error mlir::flashcore::writeOutput(llvm::StringRef path,
                                         llvm::StringRef data) {
  auto fail = [](const llvm::Twine &what, std::error_code ec) {
    return makeError("cannot write " + what + ": " + ec.message());
  };
  if (path != "-") {
    if (int error = ::flashcore::writeWholeFile(path.str(), data.str()))
      return fail("'" + path + "'", {error, std::generic_category()});
    return llvm::Error::success();
  }
  llvm::raw_fd_ostream &os = llvm::outs();
  os << data;
  os.flush();
  std::error_code ec = os.error();
  os.clear_error();
  return ec ? fail("the standard output", ec) : llvm::Error::success();
}
