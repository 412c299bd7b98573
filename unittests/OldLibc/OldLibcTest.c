//===- OldLibcTest.c - What an older glibc lacks --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include <malloc.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming):
// the names are those of glibc.
// Of newer glibcs, whose headers may not be here.
extern char __libc_single_threaded;
uint32_t arc4random(void);
long __isoc23_strtol(const char *text, char **end, int base);
unsigned long __isoc23_strtoul(const char *text, char **end, int base);
long long __isoc23_strtoll(const char *text, char **end, int base);
unsigned long long __isoc23_strtoull(const char *text, char **end, int base);
int __isoc23_sscanf(const char *text, const char *format, ...);
int __isoc23_fscanf(FILE *file, const char *format, ...);

static int numFailures = 0;

static void expect(int condition, const char *text, int line) {
  if (condition)
    return;
  printf("line %d: expects %s\n", line, text);
  ++numFailures;
}
#define EXPECT(condition) expect((condition), #condition, __LINE__)

static void testNumbers(void) {
  const char *text = "-12 rest";
  char *end;
  EXPECT(__isoc23_strtol(text, &end, 10) == -12 && end == text + 3);
  EXPECT(__isoc23_strtoll(text, &end, 10) == -12 && end == text + 3);
  EXPECT(__isoc23_strtoul("0x1f", NULL, 0) == 31);
  EXPECT(__isoc23_strtoull("18446744073709551615", NULL, 10) == UINT64_MAX);
  int number = 0;
  char word[8];
  EXPECT(__isoc23_sscanf("7 eight", "%d %7s", &number, word) == 2);
  EXPECT(number == 7 && strcmp(word, "eight") == 0);
  char line[] = "9";
  FILE *file = fmemopen(line, sizeof line, "r");
  EXPECT(__isoc23_fscanf(file, "%d", &number) == 1 && number == 9);
  fclose(file);
}

static void testMemory(void) {
  struct mallinfo2 before = mallinfo2();
  char *block = malloc(1 << 16); // below the size that has a mapping of its own
  EXPECT(block != NULL);
  memset(block, 1, 1 << 16);
  EXPECT(mallinfo2().uordblks >= before.uordblks + (1 << 16));
  free(block);
}

static void testMath(void) {
  volatile double one = 1, half = 0.5,
                  eight = 8; // not computed by the compiler
  EXPECT(exp(one) == 2.718281828459045);
  EXPECT(exp2(half) == 1.4142135623730951);
  EXPECT(log(half) == -0.6931471805599453);
  EXPECT(log2(eight) == 3);
  EXPECT(pow(eight, half) == 2.8284271247461903);
  EXPECT(isinf(exp(1000 * one)) && isnan(log(-one)));
}

int main(void) {
  testNumbers();
  testMemory();
  testMath();
  EXPECT(__libc_single_threaded == 0);
  uint32_t first = arc4random();
  EXPECT(first != arc4random() || first != arc4random());
  return numFailures != 0;
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
