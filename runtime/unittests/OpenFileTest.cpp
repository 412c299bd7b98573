//===- OpenFileTest.cpp - Reading files that others made ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is no regular file, changes, or leads out of its folder, is refused, and
// nothing waits.
//
//===----------------------------------------------------------------------===//

#include "../lib/OpenFile.h"
#include "TestBundle.h"

#include "flashcore/Runtime/FileUtils.h"

#include <fstream>

#include <sys/stat.h>
#include <unistd.h>

using namespace flashcore;
using namespace flashcore::testing;

namespace {
class OpenFileTest : public ::testing::Test {
protected:
  /// What reading `name` of the scratch folder says, without the folder.
  std::string refusal(const std::string &name) {
    return shorten(text(readFile(scratch.file(name))));
  }
  std::string shorten(std::string message) {
    std::string prefix = scratch.file("");
    for (size_t at; (at = message.find(prefix)) != std::string::npos;)
      message.erase(at, prefix.size());
    return message;
  }

  ScratchDirectory scratch;
};
} // namespace

TEST_F(OpenFileTest, readsAFileWhole) {
  std::string contents("a\0b\n", 4);
  scratch.write("file", contents);
  EXPECT_EQ(*readFile(scratch.file("file")), contents);
  scratch.write("empty", "");
  EXPECT_EQ(*readFile(scratch.file("empty")), "");
}

TEST_F(OpenFileTest, followsALinkThatTheUserNames) {
  scratch.write("file", "text");
  std::filesystem::create_symlink("file", scratch.file("link"));
  EXPECT_EQ(*readFile(scratch.file("link")), "text");
}

TEST_F(OpenFileTest, refusesWhatIsNoRegularFile) {
  ASSERT_EQ(mkfifo(scratch.file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(refusal("pipe"), "pipe: expects a file, but got a pipe");
  std::filesystem::create_directory(scratch.file("folder"));
  EXPECT_EQ(refusal("folder"), "folder: expects a file, but got a directory");
  EXPECT_EQ(text(readFile("/dev/zero")),
            "/dev/zero: expects a file, but got a device");
  EXPECT_EQ(refusal("none"),
            "none: cannot read the file: No such file or directory");
}

TEST_F(OpenFileTest, refusesALargerFileThanAllowed) {
  scratch.write("file", "12345");
  EXPECT_TRUE(readFile(scratch.file("file"), 5).ok());
  EXPECT_EQ(shorten(text(readFile(scratch.file("file"), 4))),
            "file: expects at most 4 bytes, but got 5");
}

TEST_F(OpenFileTest, refusesAFileThatChangesMeanwhile) {
  const std::string expected = "file: the file changed while it was read\n"
                               "  note: wait until its writer is done";
  scratch.write("file", "12345");
  StatusOr<OpenFile> file = OpenFile::file(scratch.file("file"));
  ASSERT_EQ(text(file), "");
  std::ofstream(scratch.file("file")) << "123"; // in place
  EXPECT_EQ(shorten(text(file->read(100))), expected);
  scratch.write("file", "12345");
  StatusOr<OpenFile> grown = OpenFile::file(scratch.file("file"));
  std::ofstream(scratch.file("file")) << "1234567";
  EXPECT_EQ(shorten(text(grown->read(100))), expected);
}

TEST_F(OpenFileTest, refusesLinksOfAFolder) {
  scratch.write("outside", "secret");
  std::filesystem::create_directory(scratch.file("folder"));
  std::filesystem::create_symlink("../outside", scratch.file("folder/link"));
  StatusOr<OpenFile> folder = OpenFile::folder(scratch.file("folder"));
  ASSERT_EQ(text(folder), "");
  EXPECT_EQ(shorten(text(folder->child("link"))),
            "folder/link: expects a file, but got a link\n"
            "  note: a link may lead anywhere: put the file itself there");
}

TEST_F(OpenFileTest, staysInItsFolder) {
  std::filesystem::create_directory(scratch.file("folder"));
  scratch.write("folder/file", "old");
  StatusOr<OpenFile> folder = OpenFile::folder(scratch.file("folder"));
  ASSERT_EQ(text(folder), "");
  EXPECT_TRUE(folder->isCurrent());
  std::filesystem::rename(scratch.file("folder"), scratch.file("aside"));
  EXPECT_FALSE(folder->isCurrent());
  std::filesystem::create_directory(scratch.file("folder"));
  scratch.write("folder/file", "new");
  EXPECT_FALSE(folder->isCurrent());
  EXPECT_EQ(*folder->child("file")->read(100), "old");
}

TEST_F(OpenFileTest, saysWhyAFileCannotBeWritten) {
  EXPECT_EQ(text(writeFile("/dev/full", "text")),
            "/dev/full: cannot write the file: No space left on device");
  EXPECT_EQ(shorten(text(writeFile(scratch.file("none/file"), "text"))),
            "none/file: cannot write the file: No such file or directory");
}

TEST(JsonDepthTest, refusesADeepDocument) {
  auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') +
           std::string(static_cast<size_t>(depth), ']');
  };
  EXPECT_EQ(text(parseJson("a.json", nested(MaxJsonDepth))), "");
  const std::string start = "a.json: expects JSON of at most 64 levels, but "
                            "got a deeper one at line 1, column 65\n"
                            "  note: the file was edited or is no JSON";
  EXPECT_EQ(text(parseJson("a.json", nested(MaxJsonDepth + 1))), start);
  EXPECT_EQ(text(parseJson("a.json", nested(2'000'000))), start);
  EXPECT_EQ(text(parseJson("a.json", std::string(2'000'000, '['))), start);
}

TEST(JsonDepthTest, bracketsInStringsAreNoLevels) {
  std::string brackets(100, '[');
  EXPECT_EQ(text(parseJson("a.json", "[\"\\\"" + brackets + "\\\\\"]")), "");
}

TEST(StatusTest, showsControlCharactersAsEscapes) {
  Status status = Status::error("a\x1b[31mred\x7f\n\xc2\x9b"
                                "2J \xc3\xa9")
                      .note("x\ty\r\nz");
  EXPECT_EQ(status.message(), "a\\x1b[31mred\\x7f\\x0a\\xc2\\x9b2J \xc3\xa9");
  EXPECT_EQ(status.str(), "a\\x1b[31mred\\x7f\\x0a\\xc2\\x9b2J \xc3\xa9\n"
                          "  note: x\ty\\x0d\nz");
}
