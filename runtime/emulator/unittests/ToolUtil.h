//===- ToolUtil.h - Running flashcore-emu in tests --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each test has a folder of its own, and runs the tool as a process.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_UNITTESTS_TOOLUTIL_H
#define FLASHCORE_EMULATOR_UNITTESTS_TOOLUTIL_H

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

namespace flashcore::emu::test {

struct ToolResult {
  int exitCode = -1;
  std::string out, err;
};

struct Tool : testing::Test {
  std::filesystem::path folder;

  void SetUp() override {
    const auto *test = testing::UnitTest::GetInstance()->current_test_info();
    folder = std::filesystem::path(testing::TempDir()) /
             ("flashcore-emu-" + std::to_string(getpid()) + test->name());
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string file(const std::string &name) const {
    return (folder / name).string();
  }
  static std::string read(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string &name, const std::string &text) const {
    std::ofstream(file(name), std::ios::binary) << text;
  }

  /// Names in the folder of the test.
  std::set<std::string> fileNames() const {
    std::set<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(folder))
      names.insert(entry.path().filename().string());
    return names;
  }

  /// `redirections` come after those to the files of the result; `before` is
  /// run by the same shell.
  ToolResult run(const std::string &arguments,
                 const std::string &redirections = "",
                 const std::string &before = "") const {
    std::string command = before + "'" + FLASHCORE_EMU_TOOL + "' " + arguments +
                          " > '" + file("stdout") + "' 2> '" + file("stderr") +
                          "' " + redirections;
    int status = std::system(command.c_str());
    ToolResult result;
    result.exitCode = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    result.out = read(file("stdout"));
    result.err = read(file("stderr"));
    return result;
  }
  ToolResult runAdd(const std::string &more, const std::string &arguments =
                                                 "i32[128]:poison "
                                                 "i32[128]:iota i32:7") const {
    return run(ptx + " --kernel add --grid 4 --block 32 --arg " + arguments +
               " " + more);
  }
  ToolResult runNoWait(const std::string &more) const {
    return run(ptx +
               " --kernel nowait --block 32 --shared 512 --arg "
               "u32[128]:poison u32[128]:iota " +
               more);
  }

  void expectClean(const ToolResult &result) {
    EXPECT_EQ(result.exitCode, 0) << result.out << result.err;
    EXPECT_EQ(result.err, "");
  }
  /// Bad input: exit code 2, and one message.
  void expectRefused(const ToolResult &result, const std::string &message) {
    EXPECT_EQ(result.exitCode, 2) << result.out << result.err;
    EXPECT_NE(result.err.find(message), std::string::npos)
        << "expects: " << message << "\ngot: " << result.err;
    EXPECT_EQ(result.out, "");
  }

  const std::string ptx =
      std::string("'") + FLASHCORE_EMU_TEST_INPUTS + "/tool.ptx'";
};

inline bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace flashcore::emu::test

#endif // FLASHCORE_EMULATOR_UNITTESTS_TOOLUTIL_H
