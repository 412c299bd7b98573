/* Compiles the attention that its first argument describes, for three chips,
   says what was chosen and writes a bundle: attention [WORDS [BUNDLE]] */
#include "flashcore-c/Compiler.h"

#include <stdio.h>
#include <stdlib.h>

static void check(FlashCoreStatus status) {
  if (flashcoreStatusIsSuccess(status))
    return;
  fprintf(stderr, "%s\n", flashcoreStatusGetMessage(status));
  exit(flashcoreStatusGetKind(status) == FlashCoreStatusUnsupported ? 3 : 2);
}

int main(int argc, char **argv) {
  FlashCoreString module;
  check(flashcoreWriteShape(argc > 1 ? argv[1] : "s? d64 causal", &module));
  FlashCoreCompileOptions options;
  check(flashcoreCompileOptionsCreate(&options));
  check(flashcoreCompileOptionsSetChips(options, "sm_80,sm_89,sm_90"));

  FlashCoreCompilation result;
  check(flashcoreCompile(flashcoreStringGetData(module),
                         flashcoreStringGetLength(module), "words", options,
                         &result));
  fputs(flashcoreCompilationGetExplanation(result), stdout);
  check(flashcoreCompilationWriteBundle(result, 0,
                                        argc > 2 ? argv[2] : "attention.fcb"));

  flashcoreCompilationDestroy(result);
  flashcoreCompileOptionsDestroy(options);
  flashcoreStringDestroy(module);
  return 0;
}
