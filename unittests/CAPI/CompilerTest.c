/*===- CompilerTest.c - The compiler from C11 -----------------------------===*\
|*                                                                            *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* Every function, with what is right, wrong and null. The process must be as *|
|* it was afterwards: nothing on the error stream, no signal handler.         *|
|* Usage: CompilerTest DIRECTORY, an empty one. Exit code 0 if all holds.     *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#define _POSIX_C_SOURCE 200809L
#include "flashcore-c/Compiler.h"
#include "Expect.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const FlashCoreStatus noStatus = {NULL};
static const FlashCoreString noString = {NULL};
static const FlashCoreCompileOptions noOptions = {NULL};
static const FlashCoreCompilation noCompilation = {NULL};

static const char twoAttentions[] =
    "!t = memref<1x2x64x64xf16>\n"
    "func.func @first(%q: !t, %o: !t) {\n"
    "  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)\n"
    "  return\n"
    "}\n"
    "func.func @second(%q: !t, %o: !t) {\n"
    "  flashcore.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t)\n"
    "      causal(bottom_right)\n"
    "  return\n"
    "}\n";

static FlashCoreStatus compile(const char *text,
                               FlashCoreCompileOptions options,
                               FlashCoreCompilation *compilation) {
  return flashcoreCompile(text, strlen(text), "test.mlir", options,
                          compilation);
}

static FlashCoreStatus compileShape(const char *words,
                                    FlashCoreCompileOptions options,
                                    FlashCoreCompilation *compilation) {
  FlashCoreString text = noString;
  EXPECT_OK(flashcoreWriteShape(words, &text));
  FlashCoreStatus status = flashcoreCompile(flashcoreStringGetData(text),
                                            flashcoreStringGetLength(text),
                                            "shape", options, compilation);
  flashcoreStringDestroy(text);
  return status;
}

static int contains(const char *text, const char *part) {
  return strstr(text, part) != NULL;
}

static char directory[1024];

/* A path in the directory of the test; the last one only. */
static const char *path(const char *name) {
  static char buffer[2048];
  snprintf(buffer, sizeof buffer, "%s/%s", directory, name);
  return buffer;
}

static void readFile(const char *name, char *text, size_t size) {
  FILE *file = fopen(path(name), "r");
  size_t length = file ? fread(text, 1, size - 1, file) : 0;
  text[length] = 0;
  if (file)
    fclose(file);
}

/*===----------------------------------------------------------------------===*\
|* What is there                                                              *|
\*===----------------------------------------------------------------------===*/

static void testConstants(void) {
  EXPECT_TEXT(flashcoreGetVersion(), "flashcore 0...");
  EXPECT(contains(flashcoreGetVersion(), ", LLVM 22."));
  EXPECT(flashcoreGetNumChips() == 9);
  EXPECT_TEXT(flashcoreGetChip(0), "sm_70");
  EXPECT_TEXT(flashcoreGetChip(5), "sm_90");
  EXPECT_TEXT(flashcoreGetChip(6), "sm_90a");
  EXPECT_TEXT(flashcoreGetChip(8), "sm_121");
  EXPECT_TEXT(flashcoreGetChip(9), "");
  EXPECT_TEXT(flashcoreGetChipFor("sm_90", 0, 0), "sm_90a");
  EXPECT_TEXT(flashcoreGetChipFor("sm_100", 0, 0), "sm_90");
  EXPECT_TEXT(flashcoreGetChipFor("sm_61", 0, 0), "");
  EXPECT_TEXT(flashcoreGetChipFor(0, 0, 0), "");
  EXPECT_TEXT(flashcoreGetChipFor("sm_90", 0, 1), "sm_90");
  EXPECT_TEXT(flashcoreGetChipFor("sm_90", 0, 7), "");
  EXPECT_TEXT(flashcoreGetChipFor("sm_90", 99 * 1024, 0), "sm_89");
  EXPECT_TEXT(flashcoreGetChipFor("sm_90", 99, 0), "");
}

static void testShape(void) {
  FlashCoreString text = noString;
  EXPECT_OK(flashcoreWriteShape("s64 d64 scale=0.125", &text));
  EXPECT_TEXT(flashcoreStringGetData(text), "!q = memref<1x8x64x64xf16>\n...");
  EXPECT(contains(flashcoreStringGetData(text), "scale(1.25"));
  EXPECT(strlen(flashcoreStringGetData(text)) ==
         flashcoreStringGetLength(text));
  flashcoreStringDestroy(text);
  EXPECT_ERROR(flashcoreWriteShape("b1 b2", &text),
               "expects the batch once, but got 'b1' and 'b2'");
  EXPECT(text.ptr == NULL);
  EXPECT_ERROR(flashcoreWriteShape(NULL, &text),
               "expects the words of a shape, which may be none, but got null");
  EXPECT_ERROR(flashcoreWriteShape("", NULL),
               "expects a place for the module, but got null");
}

static void testReadShape(void) {
  FlashCoreShape shape;
  EXPECT_OK(flashcoreReadShape("b? h32/8 S1x4096 d192/128 BF16 causal window=7 "
                               "scale=0.1 dropout=0.2 bias=1h1k:f32 lse bshd",
                               &shape));
  EXPECT(shape.batch == -1 && shape.headsQ == 32 && shape.headsKV == 8);
  EXPECT(shape.seqlenQ == 1 && shape.seqlenK == 4096);
  EXPECT(shape.headDim == 192 && shape.headDimV == 128 && shape.hasLse);
  EXPECT(shape.windowLeft == 7 && shape.windowRight == -1);
  EXPECT(shape.scale == 0.1 && shape.dropout == 0.2 && shape.softcap == 0);
  EXPECT_TEXT(shape.type, "bf16");
  EXPECT_TEXT(shape.causal, "bottom_right");
  EXPECT_TEXT(shape.layout, "bshd");
  EXPECT_TEXT(shape.biasAxes, "1h1k");
  EXPECT_TEXT(shape.biasType, "f32");
  EXPECT(flashcoreShapeCountFlops(&shape) == 0);

  EXPECT_OK(flashcoreReadShape("b2 h3 s100 d64/32 causal", &shape));
  EXPECT(flashcoreShapeCountFlops(&shape) == 2.0 * 2 * 3 * 5000 * 96);
  EXPECT_OK(flashcoreReadShape("b2 h3 s4 d64/32 window=1,0", &shape));
  EXPECT(flashcoreShapeCountFlops(&shape) == 2.0 * 2 * 3 * 7 * 96);
  EXPECT_OK(flashcoreReadShape("", &shape));
  EXPECT_TEXT(shape.causal, "none");
  EXPECT_TEXT(shape.biasType, "");
  EXPECT(shape.blockQueries == 0 && shape.blockKeys == 0);
  EXPECT_TEXT(shape.blockAxes, "");
  EXPECT_OK(flashcoreReadShape("blocks=128x64:b1", &shape));
  EXPECT(shape.blockQueries == 128 && shape.blockKeys == 64);
  EXPECT_TEXT(shape.blockAxes, "b1");

  EXPECT_ERROR(flashcoreReadShape("b1 b2", &shape),
               "expects the batch once, but got 'b1' and 'b2'");
  EXPECT(shape.headDim == 0);
  EXPECT_ERROR(flashcoreReadShape(NULL, &shape),
               "expects the words of a shape, which may be none, but got null");
  EXPECT_ERROR(flashcoreReadShape("", NULL),
               "expects a place for the shape, but got null");
}

static void testDescribeShape(void) {
  FlashCoreString json = noString;
  EXPECT_OK(
      flashcoreDescribeShape("b? s1x256 page_size=64 sink mask={%A}", &json));
  const char *text = flashcoreStringGetData(json);
  EXPECT_TEXT(text, "{\"append\":null,\"batch\":null,...");
  EXPECT(contains(text, "\"operands\":[\"sink\"]"));
  EXPECT(contains(text, "\"sizes\":{\"page_size\":64}"));
  EXPECT(contains(text, "\"regions\":[\"mask={%A}\"]"));
  flashcoreStringDestroy(json);
  /* What is no UTF-8 becomes the sign for that. */
  EXPECT_OK(flashcoreDescribeShape("b1 mask={%A // \xff\n}", &json));
  EXPECT(contains(flashcoreStringGetData(json), "%A // \xef\xbf\xbd\\n}"));
  flashcoreStringDestroy(json);
  EXPECT_ERROR(flashcoreDescribeShape("b1 b2", &json),
               "expects the batch once, but got 'b1' and 'b2'");
  EXPECT(json.ptr == NULL);
  EXPECT_ERROR(flashcoreDescribeShape(NULL, &json),
               "expects the words of a shape, which may be none, but got null");
  EXPECT_ERROR(flashcoreDescribeShape("", NULL),
               "expects a place for the description, but got null");
}

/* What a call of ReadShape has no field for compiles, too. */
static void testShapesOfEverything(void) {
  static const char *const shapes[] = {
      "b? h8/2 s1x? d128 page_size=64 seqused_k sink lse strided",
      "b1 h8 s? d64 sequences=? page_size=64 seqused_k causal",
      "b2 h4/2 s8x256 append=8 page_size=64 rotary=64:half alibi",
      "b1 h2 s100 %t=memref<?xf32> score={\n"
      "^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):\n"
      "  %x = memref.load %t[%j] : memref<?xf32>\n"
      "  %r = arith.addf %s, %x : f32\n"
      "  flashcore.yield %r : f32\n"
      "} mask={^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):\n"
      "  %m = arith.cmpi ule, %j, %i : index\n"
      "  flashcore.yield %m : i1 }",
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    FlashCoreCompilation c = noCompilation;
    EXPECT_OK(compileShape(shapes[i], noOptions, &c));
    EXPECT(contains(flashcoreCompilationGetPtx(c, 0, 0), "mma.sync"));
    flashcoreCompilationDestroy(c);
  }
}

/*===----------------------------------------------------------------------===*\
|* Compiling                                                                  *|
\*===----------------------------------------------------------------------===*/

static void testDefaults(void) {
  FlashCoreCompilation c = noCompilation;
  EXPECT_OK(compileShape("s64 d64", noOptions, &c));
  EXPECT(flashcoreCompilationGetNumAttentions(c) == 1);
  EXPECT(flashcoreCompilationGetNumChips(c) == 1);
  EXPECT_TEXT(flashcoreCompilationGetName(c, 0), "attention");
  EXPECT_TEXT(flashcoreCompilationGetName(c, 1), "");
  EXPECT_TEXT(flashcoreCompilationGetChip(c, 0), "sm_89");
  EXPECT_TEXT(flashcoreCompilationGetChip(c, 1), "");
  const char *ptx = flashcoreCompilationGetPtx(c, 0, 0);
  EXPECT_TEXT(ptx, "// flashcore-launch: {...");
  EXPECT(contains(ptx, ".target sm_89") && contains(ptx, "mma.sync"));
  EXPECT_TEXT(flashcoreCompilationGetPtx(c, 1, 0), "");
  EXPECT_TEXT(flashcoreCompilationGetPtx(c, 0, 1), "");
  EXPECT_TEXT(flashcoreCompilationGetWarnings(c), "");
  EXPECT_TEXT(flashcoreCompilationGetPhase(c, 0, 0), "");
  EXPECT_TEXT(flashcoreCompilationGetPhase(c, 0, 3), "");
  const char *report = flashcoreCompilationGetReport(c);
  EXPECT_TEXT(report, "{\n  \"attentions\": [...");
  EXPECT(contains(report, "\"block_m\":"));
  EXPECT(contains(report, "\"resources\": null"));
  EXPECT_TEXT(flashcoreCompilationGetExplanation(c),
              "attention on sm_89: batch 1, heads 8, seqlen 64 x 64, head_dim "
              "64\n...");
  EXPECT(contains(flashcoreCompilationGetExplanation(c), "limiter"));
  flashcoreCompilationDestroy(c);
}

static void testOptions(void) {
  FlashCoreCompileOptions options = noOptions;
  FlashCoreCompilation c = noCompilation;
  EXPECT_OK(flashcoreCompileOptionsCreate(&options));
  EXPECT_OK(flashcoreCompileOptionsSetChips(options, "sm_90,sm_80"));
  EXPECT_OK(flashcoreCompileOptionsSetSchedule(options, "block-n", "32"));
  EXPECT_OK(flashcoreCompileOptionsSetSchedule(options, "row-max", "stale"));
  EXPECT_OK(flashcoreCompileOptionsSetKeepPhases(options, true));
  EXPECT_OK(compile(twoAttentions, options, &c));
  EXPECT(flashcoreCompilationGetNumAttentions(c) == 2);
  EXPECT(flashcoreCompilationGetNumChips(c) == 2);
  EXPECT_TEXT(flashcoreCompilationGetName(c, 1), "second");
  EXPECT_TEXT(flashcoreCompilationGetChip(c, 0), "sm_80");
  EXPECT_TEXT(flashcoreCompilationGetChip(c, 1), "sm_90");
  EXPECT(contains(flashcoreCompilationGetPtx(c, 1, 1), ".target sm_90"));
  EXPECT(strcmp(flashcoreCompilationGetPtx(c, 0, 0),
                flashcoreCompilationGetPtx(c, 1, 0)));
  EXPECT(contains(flashcoreCompilationGetReport(c), "\"block_n\": 32,"));
  EXPECT(contains(flashcoreCompilationGetReport(c), "\"row_max\": \"stale\""));
  EXPECT(contains(flashcoreCompilationGetExplanation(c),
                  "attention second on sm_90: "));

  EXPECT(!contains(flashcoreCompilationGetPhase(c, 0, 0), "fcgpu"));
  EXPECT_TEXT(flashcoreCompilationGetPhase(c, 1, 0),
              flashcoreCompilationGetPhase(c, 0, 0));
  EXPECT(contains(flashcoreCompilationGetPhase(c, 0, 1), "chip = \"sm_80\""));
  EXPECT(contains(flashcoreCompilationGetPhase(c, 1, 1), "chip = \"sm_90\""));
  EXPECT(contains(flashcoreCompilationGetPhase(c, 1, 7), "nvvm.mma.sync"));
  EXPECT_TEXT(flashcoreCompilationGetPhase(c, 1, 8), "");
  EXPECT_TEXT(flashcoreCompilationGetPhase(c, 2, 0), "");
  flashcoreCompilationDestroy(c);
  flashcoreCompileOptionsDestroy(options);
}

static void testBadOptions(void) {
  FlashCoreCompileOptions options = noOptions;
  FlashCoreCompilation c = noCompilation;
  EXPECT_OK(flashcoreCompileOptionsCreate(&options));
  EXPECT_ERROR(flashcoreCompileOptionsSetChips(options, "sm_89,gfx90a"),
               "unknown chip 'gfx90a': expects one of sm_70, sm_75, sm_80, "
               "sm_86, sm_89, "
               "sm_90, sm_90a, sm_120, sm_121");
  EXPECT_ERROR(flashcoreCompileOptionsSetChips(options, ""),
               "unknown chip '': expects one of ...");
  EXPECT_ERROR(flashcoreCompileOptionsSetSchedule(options, "--block-n", "64"),
               "expects a schedule option (tuning-file, few-queries, ...");
  EXPECT_ERROR(flashcoreCompileOptionsSetSchedule(options, "block-n", "6x"),
               "expects block-n to be a number, but got '6x'");
  EXPECT_ERROR(flashcoreCompileOptionsSetSchedule(options, "query", "local"),
               "expects query to be registers, shared or split, but got "
               "'local'");
  /* What only the attention can tell. */
  EXPECT_OK(flashcoreCompileOptionsSetSchedule(options, "block-n", "24"));
  EXPECT_ERROR(compileShape("s64 d64", options, &c),
               "shape:6:3: error: 'flashcore.attention' op expects block-n "
               "to be a positive multiple of 16, but got 24");
  EXPECT(c.ptr == NULL);
  flashcoreCompileOptionsDestroy(options);
}

static void testBadModules(void) {
  FlashCoreCompilation c = noCompilation;
  FlashCoreString text = noString;
  char deep[512];
  memset(deep, '(', sizeof deep - 1);
  deep[sizeof deep - 1] = 0;
  EXPECT_ERROR(compile(deep, noOptions, &c),
               "test.mlir:1:257: error: expects brackets and regions nested at "
               "most 256 deep, but got more");
  EXPECT_ERROR(compile("", noOptions, &c),
               "test.mlir: error: holds no op to compile, such as "
               "flashcore.attention");
  EXPECT_ERROR(compile("\n  attention", noOptions, &c),
               "test.mlir:2:3: error: custom op 'attention' is unknown ...");
  EXPECT_ERROR(compile("module {", noOptions, &c), "test.mlir:1:7: error: ...");
  EXPECT_ERROR(flashcoreCompile("module {}\0}", 11, "nul", noOptions, &c),
               "nul:1:11: error: ...");
  EXPECT_ERROR(flashcoreCompile("ML\xefR", 4, "bytes", noOptions, &c),
               "bytes: expects MLIR as text, but got bytecode, ...");
  /* What is no UTF-8 becomes the sign for that. */
  EXPECT_ERROR(compile("func.func @f() { b\xff }", noOptions, &c),
               "test.mlir:1:19: error: ...");
  EXPECT_ERROR(
      flashcoreWriteShape("\xff", &text),
      "expects sizes (b1, h32/8, s4096 or q1 and k4096, d128), f16, "
      "bf16, causal, window=, softcap=, scale=, dropout=, blocks=, "
      "block_size=, scores=, append=, rotary=, page_size=, "
      "sequences=, score=, mask=, head_scale, bias, alibi, sink, cu_seqlens_q, "
      "cu_seqlens_k, seqused_k, page_table, rng, block_counts, "
      "block_indices, full_block_counts, full_block_indices, lse, "
      "pages=, positions=, %NAME=, bhsd, bshd, packed or strided, "
      "but got '\xef\xbf\xbd'");
  EXPECT_OK(compile("func.func @\"\\FF\"(%q: memref<1x1x64x64xf16>,\n"
                    "    %o: memref<1x1x64x64xf16>) {\n"
                    "  flashcore.attention ins(%q, %q, %q :\n"
                    "      memref<1x1x64x64xf16>, memref<1x1x64x64xf16>,\n"
                    "      memref<1x1x64x64xf16>)\n"
                    "      outs(%o : memref<1x1x64x64xf16>)\n"
                    "  return\n"
                    "}\n",
                    noOptions, &c));
  EXPECT_TEXT(flashcoreCompilationGetName(c, 0), "\xef\xbf\xbd");
  flashcoreCompilationDestroy(c);
  /* The length counts, not a null character. */
  EXPECT_ERROR(flashcoreCompile(twoAttentions, 20, "part", noOptions, &c),
               "part:1:20: error: ...");
  EXPECT_ERROR(compile("#t = #nvvm.target<chip = \"sm_61\">\n"
                       "module attributes {gpu.container_module} {\n"
                       "  gpu.module @other [#t] {}\n"
                       "  func.func @f(%q: memref<1x1x64x64xf16>,\n"
                       "      %o: memref<1x1x64x64xf16>) {\n"
                       "    flashcore.attention ins(%q, %q, %q :\n"
                       "        memref<1x1x64x64xf16>, memref<1x1x64x64xf16>,\n"
                       "        memref<1x1x64x64xf16>)\n"
                       "        outs(%o : memref<1x1x64x64xf16>)\n"
                       "    return\n"
                       "  }\n"
                       "}\n",
                       noOptions, &c),
               "test.mlir:2:1: error: unknown chip 'sm_61': expects one of "
               "sm_70, sm_75, sm_80, sm_86, sm_89, sm_90, sm_90a, sm_120, "
               "sm_121; older chips "
               "have no tensor cores\n"
               "  note: test.mlir:3:3: the chip comes from the target of this "
               "module; the option chip names another");
  EXPECT(c.ptr == NULL);
}

/* Of a right attention without a kernel the status says so; an error beside it
   is an error. */
static void testUnsupported(void) {
  FlashCoreCompilation c = noCompilation;
  EXPECT_UNSUPPORTED(compileShape("d264", noOptions, &c),
                     "shape:6:3: error: 'flashcore.attention' op has head_dim "
                     "264, but this version lowers 1 to 256");
  EXPECT_UNSUPPORTED(
      compile(
          "!t = memref<1x8x512x64xf16>\n"
          "func.func @f(%q: !t, %o: !t, %b: memref<1x1x1x512xf32>, "
          "%u: memref<3xi32>, %p: memref<1x4xi32>, %c: memref<1x1x1x1xf32>) "
          "{\n"
          "  flashcore.attention ins(%q, %q, %q : !t, !t, !t)\n"
          "      bias(%c : memref<1x1x1x1xf32>) page_table(%p : "
          "memref<1x4xi32>) outs(%o : !t)\n"
          "  flashcore.attention ins(%q, %q, %q : !t, !t, !t)\n"
          "      bias(%b : memref<1x1x1x512xf32>) cu_seqlens_q(%u : "
          "memref<3xi32>) cu_seqlens_k(%u : memref<3xi32>) outs(%o : !t)\n"
          "  return\n"
          "}\n",
          noOptions, &c),
      "test.mlir:3:3: error: 'flashcore.attention' op uses bias "
      "with page_table, which this version cannot lower yet\n"
      "test.mlir:5:3: error: 'flashcore.attention' op uses bias "
      "with cu_seqlens_q, which this version cannot lower yet");
  EXPECT_UNSUPPORTED(
      compile("!t = memref<1x8x512x64xf16>\n"
              "func.func @f(%q: !t, %o: !t) {\n"
              "  flashcore.attention ins(%q, %q, %q : !t, !t, !t)\n"
              "      outs(%o : !t) score {\n"
              "  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):\n"
              "    %r = math.erf %s : f32\n"
              "    flashcore.yield %r : f32\n"
              "  }\n"
              "  return\n"
              "}\n",
              noOptions, &c),
      "test.mlir:3:3: error: 'flashcore.attention' op has a score region with "
      "'math.erf', ...");
  FlashCoreCompileOptions options = noOptions;
  EXPECT_OK(flashcoreCompileOptionsCreate(&options));
  EXPECT_OK(flashcoreCompileOptionsSetSchedule(options, "block-n", "24"));
  EXPECT_ERROR(compile("!t = memref<1x8x512x264xf16>\n"
                       "!u = memref<1x8x512x64xf16>\n"
                       "func.func @f(%q: !t, %r: !u, %o: !t, %p: !u) {\n"
                       "  flashcore.attention ins(%q, %q, %q : !t, !t, !t)\n"
                       "      outs(%o : !t)\n"
                       "  flashcore.attention ins(%r, %r, %r : !u, !u, !u)\n"
                       "      outs(%p : !u)\n"
                       "  return\n"
                       "}\n",
                       options, &c),
               "test.mlir:4:3: error: 'flashcore.attention' op has head_dim "
               "264, ...");
  flashcoreCompileOptionsDestroy(options);
}

static void testWarnings(void) {
  FlashCoreCompileOptions options = noOptions;
  FlashCoreCompilation c = noCompilation;
  EXPECT_OK(flashcoreCompileOptionsCreate(&options));
  EXPECT_OK(flashcoreCompileOptionsSetChips(options, "sm_80,sm_89"));
  /* Heads that look like tokens; said once, not for each chip. */
  EXPECT_OK(compileShape("b1 h512 s16 d64", options, &c));
  const char *warnings = flashcoreCompilationGetWarnings(c);
  EXPECT_TEXT(warnings,
              "shape:6:3: warning: query of type "
              "'memref<1x512x16x64xf16>' has 512 heads of 16 rows: ...");
  EXPECT(!strchr(warnings, '\n'));
  flashcoreCompilationDestroy(c);
  flashcoreCompileOptionsDestroy(options);
}

/*===----------------------------------------------------------------------===*\
|* Files                                                                      *|
\*===----------------------------------------------------------------------===*/

static void testBundle(void) {
  static char manifest[1 << 16];
  FlashCoreCompilation c = noCompilation;
  EXPECT_OK(compile(twoAttentions, noOptions, &c));
  EXPECT_OK(flashcoreCompilationWriteBundle(c, 0, path("a.fcb")));
  readFile("a.fcb/manifest.json", manifest, sizeof manifest);
  EXPECT(contains(manifest, "\"causal\": \"none\""));
  EXPECT(contains(manifest, "\"kernels.ptx\""));
  EXPECT_OK(flashcoreCompilationWriteBundle(c, 1, path("a.fcb")));
  readFile("a.fcb/manifest.json", manifest, sizeof manifest);
  EXPECT(contains(manifest, "\"causal\": \"bottom_right\""));
  EXPECT(!access(path("a.fcb/kernels.ptx"), R_OK));
  EXPECT_ERROR(flashcoreCompilationWriteBundle(c, 2, path("b.fcb")),
               "expects one of 2 attentions, but got 2");
  EXPECT(access(path("b.fcb"), F_OK));

  mkdir(path("other"), 0700);
  FlashCoreStatus status = flashcoreCompilationWriteBundle(c, 0, path("other"));
  EXPECT(contains(flashcoreStatusGetMessage(status), "is not a bundle"));
  flashcoreStatusDestroy(status);
  /* A manifest that its reader could not read in time. */
  FILE *file = fopen(path("other/manifest.json"), "w");
  for (int i = 0; i < 1000000; ++i)
    fputc('[', file);
  fclose(file);
  status = flashcoreCompilationWriteBundle(c, 0, path("other"));
  EXPECT(contains(flashcoreStatusGetMessage(status), "is not a bundle"));
  flashcoreStatusDestroy(status);
  flashcoreCompilationDestroy(c);
}

/* Stands in for NVIDIA's: says what it is, or writes a file that looks right.
 */
static const char assembler[] =
    "#!/bin/sh\n"
    "[ \"$1\" = --version ] && { echo 'Build, V13.0.88'; exit 0; }\n"
    "name=$(sed -n 's/^.visible .entry \\([^(]*\\)(.*/\\1/p' \"$4\")\n"
    "echo \"ptxas info : Compiling entry function '$name' for 'sm_89'\"\n"
    "echo '    0 bytes stack frame, 4 bytes spill stores, 8 bytes spill "
    "loads'\n"
    "echo 'ptxas info : Used 123 registers'\n"
    "printf '\\177ELF' > \"$6\"\n";

static void testPtxas(void) {
  FlashCoreCompileOptions options = noOptions;
  FlashCoreCompilation c = noCompilation;
  FlashCoreString found = noString;
  FILE *file = fopen(path("ptxas"), "w");
  fputs(assembler, file);
  fclose(file);
  chmod(path("ptxas"), 0700);
  EXPECT_OK(flashcoreFindPtxas(path("ptxas"), &found));
  EXPECT_TEXT(flashcoreStringGetData(found), path("ptxas"));
  flashcoreStringDestroy(found);
  EXPECT_ERROR(flashcoreFindPtxas("/none/ptxas", &found),
               "cannot run ptxas at '/none/ptxas': no such program");
  EXPECT(found.ptr == NULL);
  setenv("CUDA_HOME", "relative", 1);
  EXPECT_ERROR(flashcoreFindPtxas("", &found),
               "expects CUDA_HOME to be an absolute path, but got 'relative'"
               "...");
  unsetenv("CUDA_HOME");

  EXPECT_OK(flashcoreCompileOptionsCreate(&options));
  EXPECT_OK(flashcoreCompileOptionsSetPtxas(options, path("ptxas")));
  EXPECT_OK(compileShape("s64 d64", options, &c));
  const char *report = flashcoreCompilationGetReport(c);
  EXPECT(contains(report, "\"registers\": 123"));
  EXPECT(contains(report, "\"spill_loads\": 8"));
  EXPECT(contains(report, "\"assembler\": \"ptxas 13.0.88\""));
  EXPECT(contains(flashcoreCompilationGetExplanation(c), "occupancy"));
  EXPECT_OK(flashcoreCompilationWriteBundle(c, 0, path("cubin.fcb")));
  EXPECT(!access(path("cubin.fcb/kernels.sm_89.cubin"), R_OK));
  flashcoreCompilationDestroy(c);

  EXPECT_OK(flashcoreCompileOptionsSetPtxas(options, "/none/ptxas"));
  EXPECT_ERROR(compileShape("s64 d64", options, &c),
               "cannot run ptxas at '/none/ptxas': no such program");
  EXPECT_OK(flashcoreCompileOptionsSetPtxas(options, NULL));
  EXPECT_OK(compileShape("s64 d64", options, &c));
  flashcoreCompilationDestroy(c);
  flashcoreCompileOptionsDestroy(options);
}

/*===----------------------------------------------------------------------===*\
|* Null                                                                       *|
\*===----------------------------------------------------------------------===*/

static void testNullHandles(void) {
  EXPECT(flashcoreStatusIsSuccess(noStatus));
  EXPECT(flashcoreStatusGetKind(noStatus) == FlashCoreStatusSuccess);
  EXPECT_TEXT(flashcoreStatusGetMessage(noStatus), "");
  EXPECT_TEXT(flashcoreStringGetData(noString), "");
  EXPECT(flashcoreStringGetLength(noString) == 0);
  EXPECT(flashcoreCompilationGetNumAttentions(noCompilation) == 0);
  EXPECT(flashcoreCompilationGetNumChips(noCompilation) == 0);
  EXPECT_TEXT(flashcoreCompilationGetWarnings(noCompilation), "");
  EXPECT_TEXT(flashcoreCompilationGetReport(noCompilation), "");
  EXPECT_TEXT(flashcoreCompilationGetExplanation(noCompilation), "");
  EXPECT_TEXT(flashcoreCompilationGetName(noCompilation, 0), "");
  EXPECT_TEXT(flashcoreCompilationGetChip(noCompilation, 0), "");
  EXPECT_TEXT(flashcoreCompilationGetPtx(noCompilation, 0, 0), "");
  EXPECT_TEXT(flashcoreCompilationGetPhase(noCompilation, 0, 0), "");
  flashcoreStatusDestroy(noStatus);
  flashcoreStringDestroy(noString);
  flashcoreCompileOptionsDestroy(noOptions);
  flashcoreCompilationDestroy(noCompilation);
}

static void testNullErrors(void) {
  const char *null = "expects options, but got null";
  FlashCoreCompileOptions options = noOptions;
  FlashCoreCompilation c = noCompilation;
  FlashCoreString text = noString;
  EXPECT_ERROR(flashcoreCompileOptionsCreate(NULL),
               "expects a place for the options, but got null");
  EXPECT_ERROR(flashcoreCompileOptionsSetChips(noOptions, "sm_80"), null);
  EXPECT_ERROR(flashcoreCompileOptionsSetSchedule(noOptions, "grid", "full"),
               null);
  EXPECT_ERROR(flashcoreCompileOptionsSetPtxas(noOptions, ""), null);
  EXPECT_ERROR(flashcoreCompileOptionsSetKeepPhases(noOptions, true), null);
  EXPECT_OK(flashcoreCompileOptionsCreate(&options));
  EXPECT_ERROR(flashcoreCompileOptionsSetChips(options, NULL),
               "expects names of chips, but got null");
  EXPECT_ERROR(flashcoreCompileOptionsSetSchedule(options, NULL, "full"),
               "expects the name and the value of a schedule option, but got "
               "null");
  EXPECT_ERROR(flashcoreCompileOptionsSetSchedule(options, "grid", NULL),
               "expects the name and the value of a schedule option, but got "
               "null");
  flashcoreCompileOptionsDestroy(options);
  EXPECT_ERROR(flashcoreFindPtxas(NULL, &text),
               "expects a path or \"\", but got null");
  EXPECT_ERROR(flashcoreFindPtxas("", NULL),
               "expects a place for the path, but got null");
  EXPECT_ERROR(flashcoreCompile(NULL, 0, "name", noOptions, &c),
               "expects the text of a module, but got null");
  EXPECT_ERROR(flashcoreCompile("", 0, NULL, noOptions, &c),
               "expects a name for the module, but got null");
  EXPECT_ERROR(flashcoreCompile("", 0, "name", noOptions, NULL),
               "expects a place for the compilation, but got null");
  EXPECT_ERROR(flashcoreCompilationWriteBundle(noCompilation, 0, "a.fcb"),
               "expects a compilation, but got null");
  EXPECT_OK(compileShape("s64 d64", noOptions, &c));
  EXPECT_ERROR(flashcoreCompilationWriteBundle(c, 0, NULL),
               "expects a path for the bundle, but got null");
  flashcoreCompilationDestroy(c);
}

/*===----------------------------------------------------------------------===*\
|* The process                                                                *|
\*===----------------------------------------------------------------------===*/

#ifndef __has_feature
#define __has_feature(name) 0
#endif

/* The handlers that a sanitizer has set before main; without one, no other. */
static void (*ofSanitizer[32])(int);

static void noteSignals(void) {
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||     \
    defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  for (int number = 1; number < 32; ++number) {
    struct sigaction action;
    if (sigaction(number, NULL, &action) == 0)
      ofSanitizer[number] = action.sa_handler;
  }
#endif
}

static void checkSignals(void) {
  for (int number = 1; number < 32; ++number) {
    struct sigaction action;
    if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
        action.sa_handler != SIG_IGN &&
        action.sa_handler != ofSanitizer[number]) {
      printf("expects no handler of signal %d, but got one\n", number);
      ++numFailures;
    }
  }
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fputs("usage: CompilerTest DIRECTORY\n", stderr);
    return 2;
  }
  snprintf(directory, sizeof directory, "%s", argv[1]);
  if (!freopen(path("errors"), "w", stderr))
    return 2;
  noteSignals();
  testConstants();
  testShape();
  testReadShape();
  testDescribeShape();
  testShapesOfEverything();
  testDefaults();
  testOptions();
  testBadOptions();
  testBadModules();
  testUnsupported();
  testWarnings();
  testBundle();
  testPtxas();
  testNullHandles();
  testNullErrors();
  checkSignals();
  char said[256];
  readFile("errors", said, sizeof said);
  EXPECT_TEXT(said, "");
  return numFailures != 0;
}
