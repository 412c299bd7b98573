/*===- Tool.c - The compiler's tools as an executable -------------*- C -*-===*\
|*                                                                            *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* What `flashcore opt` and its siblings become: a process of its own, since  *|
|* the tools install signal handlers, end the process and start each other.   *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include "flashcore-c/Main.h"

int main(int argc, char **argv) { return flashcoreMain(argc, argv); }
