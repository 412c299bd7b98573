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

#include <sys/wait.h>

using namespace flashcore;
using namespace flashcore::run;

/// The executable that holds all tools as subcommands.
static constexpr const char *multiCallName = "flashcore";

std::filesystem::path
flashcore::run::findCompiler(const std::filesystem::path &chosen) {
  if (!chosen.empty())
    return chosen;
  std::error_code error;
  std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error)
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

Status flashcore::run::compile(const std::filesystem::path &compiler,
                               const Source &source,
                               const std::filesystem::path &output,
                               const std::vector<std::string> &arguments) {
  std::vector<std::string> words = {compiler.string()};
  if (compiler.filename() == multiCallName)
    words.push_back("compile");
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
    return Status::success();
  // posix_spawn reports some failures to start only as exit code 127.
  std::string outcome = WIFEXITED(state)
                            ? "exit code " + std::to_string(WEXITSTATUS(state))
                            : "signal " + std::to_string(WTERMSIG(state));
  return Status::error("compiling " + source.str() + " failed with " + outcome)
      .note("the command was: " + command);
}
