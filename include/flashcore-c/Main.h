/*===- Main.h - The command line inside the library ---------------*- C -*-===*\
|*                                                                            *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef FLASHCORE_C_MAIN_H
#define FLASHCORE_C_MAIN_H

#include "flashcore-c/Status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The executable `flashcore`: runs the tool that `argv` names and returns its
 *  exit code. It is for the main function of a process: it may be called once,
 *  installs signal handlers, and --help ends the process. Other functions of
 *  this interface do none of that. */
FLASHCORE_CAPI_EXPORT int flashcoreMain(int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif /* FLASHCORE_C_MAIN_H */
