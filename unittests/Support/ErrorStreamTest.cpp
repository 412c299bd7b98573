//===- ErrorStreamTest.cpp ------------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Support/ErrorStream.h"
#include "gtest/gtest.h"

using namespace mlir::flashcore;

TEST(ErrorStream, escapesControlCharacters) {
  EXPECT_EQ(escapeControls("a\x1b[31mb\r\x7f\a"), "a\\x1b[31mb\\x0d\\x7f\\x07");
  EXPECT_EQ(escapeControls("a\xc2\x9b"
                           "31mb"),
            "a\\xc2\\x9b31mb");
  EXPECT_EQ(escapeControls(llvm::StringRef("a\0b", 3)), "a\\x00b");
}

// Text from right to left up to the end of the line, and to the end of its
// part; a separator of lines; an escape of one byte in two.
TEST(ErrorStream, escapesDirectionsAndSeparators) {
  EXPECT_EQ(escapeControls("a\xe2\x80\xae"
                           "b\xe2\x81\xa7\xe2\x80\xa8\xd8\x9c"),
            "a\\xe2\\x80\\xaeb\\xe2\\x81\\xa7\\xe2\\x80\\xa8\\xd8\\x9c");
  EXPECT_EQ(escapeControls("\xc0\x9b"), "\\xc0\\x9b");
}

TEST(ErrorStream, keepsLinesAndUTF8) {
  for (llvm::StringRef text :
       {"one\n\ttwo",
        "gr\xc3\xb6\xc3\x9f"
        "e \xc2\xb5m \xe2\x80\x94 \xe6\xb3\xa8\xe6\x84\x8f",
        "\xc2", "\xc2\xc2\xb5", "\xc2x", "\xe2\x80", "\xe2x\xe2\x80y", "\xe2",
        "\xf0\x9f\x99\x82", "\xd7\x90"})
    EXPECT_EQ(escapeControls(text), text);
}

TEST(ErrorStream, escapesWhatComesInPieces) {
  testing::internal::CaptureStderr();
  getErrorStream() << "a\xc2" << "\x9b" << "\xc2" << "\xb5\n";
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "a\\xc2\\x9b\xc2\xb5\n");
  testing::internal::CaptureStderr();
  getErrorStream() << "\xe2" << "\x80" << "\xae\xe2\x82" << "\xac\n";
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "\\xe2\\x80\\xae\xe2\x82\xac\n");
}
