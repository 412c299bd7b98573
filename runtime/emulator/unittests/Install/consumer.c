/*===- consumer.c - A user of the C interface -----------------------------===*\
|*                                                                            *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* Loads the kernel that this program is about and prints its name.           *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include <flashcore-c/Emulator.h>

#include <stdio.h>
#include <string.h>

int main(void) {
  FlashCoreEmuKernel kernel;
  FlashCoreEmuStatus status =
      flashcoreEmuKernelCreate(".version 8.0\n.target sm_89\n.address_size 64\n"
                               ".visible .entry nothing() { ret; }\n",
                               NULL, &kernel);
  int wrong;
  if (!flashcoreEmuStatusIsSuccess(status)) {
    fprintf(stderr, "%s\n", flashcoreEmuStatusGetMessage(status));
    flashcoreEmuStatusDestroy(status);
    return 1;
  }
  puts(flashcoreEmuKernelGetName(kernel));
  wrong = strcmp(flashcoreEmuKernelGetName(kernel), "nothing") != 0;
  flashcoreEmuKernelDestroy(kernel);
  return wrong;
}
