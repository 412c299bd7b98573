/*===- Expect.h - Checks of a test in C ---------------------------*- C -*-===*\
|*                                                                            *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* A check that fails says where on the standard output: the error stream is  *|
|* the library's, which must write nothing to it.                             *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef FLASHCORE_UNITTESTS_CAPI_EXPECT_H
#define FLASHCORE_UNITTESTS_CAPI_EXPECT_H

#include "flashcore-c/Status.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static atomic_int numFailures = 0;

#define EXPECT(condition)                                                      \
  do {                                                                         \
    if (!(condition)) {                                                        \
      printf("%s:%d: expects %s\n", __FILE__, __LINE__, #condition);           \
      ++numFailures;                                                           \
    }                                                                          \
  } while (0)

/* A success, or prints the message. */
#define EXPECT_OK(call)                                                        \
  expectStatus((call), FlashCoreStatusSuccess, "", __LINE__)
/* An error whose message is `text`, or begins with that if it ends in "...". */
#define EXPECT_ERROR(call, text)                                               \
  expectStatus((call), FlashCoreStatusError, (text), __LINE__)
#define EXPECT_UNSUPPORTED(call, text)                                         \
  expectStatus((call), FlashCoreStatusUnsupported, (text), __LINE__)
#define EXPECT_TEXT(actual, expected) expectText((actual), (expected), __LINE__)

static void expectText(const char *actual, const char *expected, int line) {
  size_t length = strlen(expected);
  int isPrefix = length >= 3 && !strcmp(expected + length - 3, "...");
  if (isPrefix ? !strncmp(actual, expected, length - 3)
               : !strcmp(actual, expected))
    return;
  printf("line %d: expects '%s', but got '%s'\n", line, expected, actual);
  ++numFailures;
}

static void expectStatus(FlashCoreStatus status, FlashCoreStatusKind kind,
                         const char *text, int line) {
  FlashCoreStatusKind actual = flashcoreStatusGetKind(status);
  if (actual != kind) {
    printf("line %d: expects a status of kind %u, but got %u: %s\n", line,
           (unsigned)kind, (unsigned)actual, flashcoreStatusGetMessage(status));
    ++numFailures;
  } else {
    expectText(flashcoreStatusGetMessage(status), text, line);
  }
  EXPECT(flashcoreStatusIsSuccess(status) ==
         (actual == FlashCoreStatusSuccess));
  flashcoreStatusDestroy(status);
}

#endif /* FLASHCORE_UNITTESTS_CAPI_EXPECT_H */
