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

TEST(ErrorStream, keepsLinesAndUTF8) {
  for (llvm::StringRef text :
       {"one\n\ttwo",
        "gr\xc3\xb6\xc3\x9f"
        "e \xc2\xb5m \xe2\x80\x94 \xe6\xb3\xa8\xe6\x84\x8f",
        "\xc2", "\xc2\xc2\xb5", "\xc2x"})
    EXPECT_EQ(escapeControls(text), text);
}

TEST(ErrorStream, escapesWhatComesInPieces) {
  testing::internal::CaptureStderr();
  getErrorStream() << "a\xc2" << "\x9b" << "\xc2" << "\xb5\n";
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "a\\xc2\\x9b\xc2\xb5\n");
}
