//===- OldLibc.c - What a newer glibc has, for an older one ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is released is compiled with this system's headers and C++ library and
// has to run with glibc 2.28 (cmake/modules/OldLibc.cmake). This is what those
// use and it lacks. Everything is hidden: other libraries of a process have
// their own libc's.
//
//===----------------------------------------------------------------------===//

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming):
// the names are those of glibc.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/single_threaded.h>

/// Since glibc 2.32. True says that no other thread exists, which is not known
/// here, so counts of references are always atomic.
char __libc_single_threaded = 0;

/// Since glibc 2.36. There, too, it is the kernel's, and cannot fail.
uint32_t arc4random(void) {
  uint32_t value;
  while (getrandom(&value, sizeof value, 0) != sizeof value)
    if (errno != EINTR)
      abort();
  return value;
}

/// Since glibc 2.33. The older one counts in int; sizes are right below 4 GiB.
struct mallinfo2 mallinfo2(void) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  struct mallinfo old = mallinfo();
#pragma GCC diagnostic pop
  struct mallinfo2 info = {
      .arena = (unsigned)old.arena,
      .ordblks = (unsigned)old.ordblks,
      .smblks = (unsigned)old.smblks,
      .hblks = (unsigned)old.hblks,
      .hblkhd = (unsigned)old.hblkhd,
      .usmblks = (unsigned)old.usmblks,
      .fsmblks = (unsigned)old.fsmblks,
      .uordblks = (unsigned)old.uordblks,
      .fordblks = (unsigned)old.fordblks,
      .keepcost = (unsigned)old.keepcost,
  };
  return info;
}

// Since glibc 2.38, whose headers have them called where strtol and the others
// are written: numbers may be binary ("0b1") there. The first ones' own names
// are asked for, lest they call themselves.
extern long first_strtol(const char *, char **, int) __asm__("strtol");
extern unsigned long first_strtoul(const char *, char **,
                                   int) __asm__("strtoul");
extern long long first_strtoll(const char *, char **, int) __asm__("strtoll");
extern unsigned long long first_strtoull(const char *, char **,
                                         int) __asm__("strtoull");
extern int first_vsscanf(const char *, const char *,
                         va_list) __asm__("__isoc99_vsscanf");
extern int first_vfscanf(FILE *, const char *,
                         va_list) __asm__("__isoc99_vfscanf");

long __isoc23_strtol(const char *text, char **end, int base) {
  return first_strtol(text, end, base);
}
unsigned long __isoc23_strtoul(const char *text, char **end, int base) {
  return first_strtoul(text, end, base);
}
long long __isoc23_strtoll(const char *text, char **end, int base) {
  return first_strtoll(text, end, base);
}
unsigned long long __isoc23_strtoull(const char *text, char **end, int base) {
  return first_strtoull(text, end, base);
}
int __isoc23_sscanf(const char *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int count = first_vsscanf(text, format, arguments);
  va_end(arguments);
  return count;
}
int __isoc23_fscanf(FILE *file, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int count = first_vfscanf(file, format, arguments);
  va_end(arguments);
  return count;
}

// Since glibc 2.29 these do not look for a handler of errors of System V, and
// have a version of their own. The first version gives the same values.
#ifdef __x86_64__
#define FIRST_VERSION "GLIBC_2.2.5"
#else
#define FIRST_VERSION "GLIBC_2.17"
#endif
#define FIRST(name) __asm__(".symver first_" #name ", " #name "@" FIRST_VERSION)

extern double first_exp(double x);
extern double first_exp2(double x);
extern double first_log(double x);
extern double first_log2(double x);
extern double first_pow(double x, double y);
FIRST(exp);
FIRST(exp2);
FIRST(log);
FIRST(log2);
FIRST(pow);

double exp(double x) { return first_exp(x); }
double exp2(double x) { return first_exp2(x); }
double log(double x) { return first_log(x); }
double log2(double x) { return first_log2(x); }
double pow(double x, double y) { return first_pow(x, y); }
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
