/*===- ThreadTest.c - Compiling on several threads ------------------------===*\
|*                                                                            *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* Threads with small stacks compile different attentions at once, and each   *|
|* gets the PTX that it gets alone. Exit code 0 if all holds.                 *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#define _POSIX_C_SOURCE 200809L
#include "Expect.h"
#include "flashcore-c/Compiler.h"

#include <pthread.h>
#include <stdlib.h>

enum { numThreads = 4, numRounds = 8, stackSize = 128 << 10 };

static const char *const shapes[numThreads] = {
    "b1 h2 s64 d64", "b? h?/? s? d64 causal strided bf16",
    "b1 h4/2 s128 d128 softcap=30 window=32", "b2 h2 q1 k512 d32 bias lse"};

static char *expected[numThreads];

/* The PTX for all chips, to be freed; null and a message after an error. */
static char *compile(const char *words) {
  FlashCoreString text = {NULL};
  FlashCoreCompileOptions options = {NULL};
  FlashCoreCompilation c = {NULL};
  EXPECT_OK(flashcoreWriteShape(words, &text));
  EXPECT_OK(flashcoreCompileOptionsCreate(&options));
  EXPECT_OK(flashcoreCompileOptionsSetChips(options, "sm_80,sm_89"));
  EXPECT_OK(flashcoreCompile(flashcoreStringGetData(text),
                             flashcoreStringGetLength(text), words, options,
                             &c));
  const char *first = flashcoreCompilationGetPtx(c, 0, 0);
  const char *second = flashcoreCompilationGetPtx(c, 0, 1);
  char *both = malloc(strlen(first) + strlen(second) + 1);
  strcat(strcpy(both, first), second);
  flashcoreCompilationDestroy(c);
  flashcoreCompileOptionsDestroy(options);
  flashcoreStringDestroy(text);
  return both;
}

/* The thread with this number goes through the shapes from its own on. */
static void *compileRounds(void *argument) {
  size_t number = *(size_t *)argument;
  size_t numDifferent = 0;
  for (size_t round = 0; round < numRounds; ++round) {
    size_t shape = (number + round) % numThreads;
    char *ptx = compile(shapes[shape]);
    numDifferent += strcmp(ptx, expected[shape]) != 0;
    free(ptx);
    /* One that fails beside those that do not. */
    FlashCoreCompilation c = {NULL};
    EXPECT_ERROR(
        flashcoreCompile("func", 4, "bad", (FlashCoreCompileOptions){0}, &c),
        "bad:1:1: error: custom op 'func' is unknown ...");
  }
  *(size_t *)argument = numDifferent;
  return NULL;
}

/* As deep as a module may be nested. */
static void *compileDeep(void *argument) {
  char text[2048] = "module attributes {test.a = ";
  for (int depth = 0; depth < 250; ++depth)
    strcat(text, "[");
  strcat(text, "1");
  for (int depth = 0; depth < 250; ++depth)
    strcat(text, "]");
  strcat(text, "} {}");
  FlashCoreCompilation c = {NULL};
  EXPECT_ERROR(flashcoreCompile(text, strlen(text), "deep",
                                (FlashCoreCompileOptions){0}, &c),
               "deep:1:1: error: holds no op to compile, such as "
               "flashcore.attention");
  return argument;
}

int main(void) {
  for (size_t shape = 0; shape < numThreads; ++shape) {
    expected[shape] = compile(shapes[shape]);
    EXPECT(strstr(expected[shape], ".target sm_89"));
  }
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stackSize);
  pthread_t threads[numThreads], deep;
  size_t numbers[numThreads];
  EXPECT(!pthread_create(&deep, &attributes, compileDeep, NULL));
  for (size_t i = 0; i < numThreads; ++i) {
    numbers[i] = i;
    EXPECT(
        !pthread_create(&threads[i], &attributes, compileRounds, &numbers[i]));
  }
  pthread_join(deep, NULL);
  for (size_t i = 0; i < numThreads; ++i) {
    pthread_join(threads[i], NULL);
    EXPECT(numbers[i] == 0);
  }
  for (size_t shape = 0; shape < numThreads; ++shape)
    free(expected[shape]);
  pthread_attr_destroy(&attributes);
  return numFailures != 0;
}
