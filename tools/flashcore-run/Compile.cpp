//===- Compile.cpp - Calling flashcore-compile ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The compiler inherits the error stream, so its diagnostics reach the user as
// they are.
//
//===----------------------------------------------------------------------===//

#include "Compile.h"

#include "Cleanup.h"

#include <set>

#include <sys/wait.h>

using namespace flashcore;
using namespace flashcore::run;

/// The executable that holds all tools as subcommands.
static constexpr const char *multiCallName = "flashcore";
static bool holdsAllTools = false;

void flashcoreRunHoldsAllTools() { holdsAllTools = true; }

/// The path of this program; empty where there is no /proc.
static std::filesystem::path findSelf() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

static bool isMultiCall(const std::filesystem::path &compiler) {
  return compiler.filename() == multiCallName ||
         (holdsAllTools && compiler == findSelf());
}

std::filesystem::path
flashcore::run::findCompiler(const std::filesystem::path &chosen) {
  if (!chosen.empty())
    return chosen;
  std::error_code error;
  std::filesystem::path self = findSelf();
  if (holdsAllTools && !self.empty())
    return self;
  if (!self.empty())
    for (const char *name : {"flashcore-compile", multiCallName}) {
      std::filesystem::path sibling = self.parent_path() / name;
      if (std::filesystem::exists(sibling, error))
        return sibling;
    }
  return "flashcore-compile";
}

/// As a shell takes it.
static std::string quote(const std::string &word) {
  bool isPlain =
      !word.empty() &&
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyz"
                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                             "0123456789_-+=:,./@%") == std::string::npos;
  if (isPlain)
    return word;
  std::string result = "'";
  for (char c : word)
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string Source::str() const {
  return kind == Kind::File ? text : "--shape " + quote(text);
}

/// The compiler may succeed without the bundle: of a file of several attentions
/// it makes a folder of them, and an option such as --help asks for none.
static Status verifyBundle(const Source &source,
                           const std::filesystem::path &output) {
  std::error_code error;
  if (std::filesystem::exists(output / "manifest.json", error))
    return Status::success();
  std::set<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(output, error))
    if (entry.path().extension() == ".fcb")
      names.insert(entry.path().stem().string());
  if (names.empty())
    return Status::error("expects a bundle of " + source.str() +
                         ", but the compiler wrote none");
  std::string list;
  for (const std::string &name : names)
    list += (list.empty() ? "" : ", ") + name;
  return Status::error("expects one attention in " + source.str() +
                       ", but got " + std::to_string(names.size()) + " (" +
                       list + ")")
      .note("choose one: -- --function=" + quote(*names.begin()));
}

Status flashcore::run::compile(const std::filesystem::path &compiler,
                               const Source &source,
                               const std::filesystem::path &output,
                               const std::vector<std::string> &arguments) {
  std::vector<std::string> words = {compiler.string()};
  if (isMultiCall(compiler))
    words.emplace_back("compile");
  words.push_back(source.kind == Source::Kind::Shape ? "--shape=" + source.text
                                                     : source.text);
  words.insert(words.end(), {"--emit=bundle", "-o", output.string()});
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::string command;
  for (const std::string &word : words)
    command += (command.empty() ? "" : " ") + quote(word);

  StatusOr<int> child = runChild(std::move(words));
  if (!child.ok())
    return Status(child.status())
        .note("name the compiler with --compiler, or put it into PATH");
  int state = *child;
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0)
    return verifyBundle(source, output);
  // posix_spawn reports some failures to start only as exit code 127.
  std::string outcome = WIFEXITED(state)
                            ? "exit code " + std::to_string(WEXITSTATUS(state))
                            : "signal " + std::to_string(WTERMSIG(state));
  return Status::error("compiling " + source.str() + " failed with " + outcome)
      .note("the command was: " + command);
}
