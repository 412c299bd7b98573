//===- Main.cpp - The command line inside the library ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore-c/Main.h"
#include "../../tools/StandardStreams.h"

int flashcoreAllToolsMain(int argc, char **argv);

int flashcoreMain(int argc, char **argv) {
  flashcore::openStandardStreams();
  return flashcoreAllToolsMain(argc, argv);
}
