/*===- CApiTest.c - The C interface from C99 ------------------------------===*\
|*                                                                            *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* Runs a kernel, gets its result, a finding and errors, and passes null      *|
|* wherever something could be null. Exit code 0 if all holds.                *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include "flashcore-c/Emulator.h"

#include <stdio.h>
#include <string.h>

static int numFailures = 0;

#define EXPECT(condition)                                                      \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "line %d: expects %s\n", __LINE__, #condition);          \
      ++numFailures;                                                           \
    }                                                                          \
  } while (0)

/* A success, or prints the message. */
#define EXPECT_OK(call) expectOk((call), __LINE__)
/* An error whose message contains `text`. */
#define EXPECT_ERROR(call, text) expectError((call), (text), __LINE__)

static void expectOk(FlashCoreEmuStatus status, int line) {
  if (flashcoreEmuStatusIsSuccess(status))
    return;
  fprintf(stderr, "line %d: %s\n", line, flashcoreEmuStatusGetMessage(status));
  flashcoreEmuStatusDestroy(status);
  ++numFailures;
}

static void expectError(FlashCoreEmuStatus status, const char *text, int line) {
  const char *message = flashcoreEmuStatusGetMessage(status);
  if (flashcoreEmuStatusIsSuccess(status) || !strstr(message, text)) {
    fprintf(stderr, "line %d: expects an error with '%s', but got '%s'\n", line,
            text, message);
    ++numFailures;
  }
  flashcoreEmuStatusDestroy(status);
}

static const char ptx[] =
    ".version 8.0\n.target sm_89\n.address_size 64\n"
    ".visible .entry add(.param .u64 to, .param .u64 from, .param .s32 n)\n"
    ".reqntid 32, 1, 1\n"
    "{\n"
    "  .reg .b64 %d<6>; .reg .b32 %r<8>; .shared .align 4 .b8 tile[64];\n"
    "  ld.param.u64 %d0, [to]; ld.param.u64 %d1, [from];\n"
    "  ld.param.s32 %r0, [n];\n"
    "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
    "  mad.lo.u32 %r4, %r1, %r2, %r3; mul.wide.u32 %d2, %r4, 4;\n"
    "  add.u64 %d3, %d0, %d2; add.u64 %d4, %d1, %d2;\n"
    "  ld.global.u32 %r5, [%d4]; add.s32 %r5, %r5, %r0;\n"
    "  st.global.u32 [%d3], %r5;\n"
    "  ret;\n"
    "}\n";

enum { numWords = 128, numBytes = numWords * 4 };
static const FlashCoreEmuDim3 grid = {4, 1, 1}, block = {32, 1, 1};

static const FlashCoreEmuKernel noKernel = {NULL};
static const FlashCoreEmuKernelList noList = {NULL};
static const FlashCoreEmuMemory noMemory = {NULL};
static const FlashCoreEmuArguments noArguments = {NULL};
static const FlashCoreEmuOptions noOptions = {NULL};
static const FlashCoreEmuReport noReport = {NULL};
static const FlashCoreEmuString noString = {NULL};
static const FlashCoreEmuStatus noError = {NULL};

static void testDescribe(void) {
  FlashCoreEmuString json;
  EXPECT_OK(flashcoreEmuDescribe(ptx, &json));
  EXPECT(strstr(flashcoreEmuStringGetData(json), "\"name\": \"add\""));
  EXPECT(
      strstr(flashcoreEmuStringGetData(json), "\"static_shared_memory\": 64"));
  flashcoreEmuStringDestroy(json);
  EXPECT_ERROR(flashcoreEmuDescribe("nonsense", &json), "expects '.version'");
  EXPECT(!json.ptr);
  EXPECT_ERROR(flashcoreEmuDescribe(NULL, &json), "but got null");
  EXPECT_ERROR(flashcoreEmuDescribe(ptx, NULL),
               "a place for the description, but got null");
}

static void testKernel(FlashCoreEmuKernel kernel) {
  FlashCoreEmuKernelList list;
  FlashCoreEmuDim3 required = flashcoreEmuKernelGetRequiredBlock(kernel);
  EXPECT_OK(flashcoreEmuKernelListCreate(ptx, &list));
  EXPECT(flashcoreEmuKernelListGetSize(list) == 1);
  EXPECT(!strcmp(flashcoreEmuKernelListGetName(list, 0), "add"));
  EXPECT(!strcmp(flashcoreEmuKernelListGetName(list, 1), ""));
  flashcoreEmuKernelListDestroy(list);
  EXPECT(!strcmp(flashcoreEmuKernelGetName(kernel), "add"));
  EXPECT(!strcmp(flashcoreEmuKernelGetTarget(kernel), "sm_89"));
  EXPECT(flashcoreEmuKernelGetNumParams(kernel) == 3);
  EXPECT(!strcmp(flashcoreEmuKernelGetParamName(kernel, 2), "n"));
  EXPECT(!strcmp(flashcoreEmuKernelGetParamName(kernel, 3), ""));
  EXPECT(flashcoreEmuKernelGetParamBytes(kernel, 0) == 8);
  EXPECT(flashcoreEmuKernelGetParamBytes(kernel, 2) == 4);
  EXPECT(flashcoreEmuKernelGetParamBytes(kernel, 3) == 0);
  EXPECT(flashcoreEmuKernelGetStaticSharedBytes(kernel) == 64);
  EXPECT(required.x == 32 && required.y == 1 && required.z == 1);
}

/* Runs `add` with 7 and gives the report. */
static FlashCoreEmuReport runAdd(FlashCoreEmuKernel kernel,
                                 FlashCoreEmuMemory memory, uint64_t to,
                                 uint64_t from, FlashCoreEmuOptions options) {
  FlashCoreEmuArguments arguments;
  FlashCoreEmuReport report;
  EXPECT_OK(flashcoreEmuArgumentsCreate(&arguments));
  EXPECT_OK(flashcoreEmuArgumentsAddPointer(arguments, to));
  EXPECT_OK(flashcoreEmuArgumentsAddPointer(arguments, from));
  EXPECT_OK(flashcoreEmuArgumentsAddInt32(arguments, 7));
  EXPECT_OK(flashcoreEmuLaunch(kernel, memory, grid, block, 0, arguments,
                               options, &report));
  flashcoreEmuArgumentsDestroy(arguments);
  return report;
}

static void testRun(FlashCoreEmuKernel kernel) {
  FlashCoreEmuMemory memory;
  FlashCoreEmuOptions options;
  FlashCoreEmuReport report;
  uint64_t to, from, missing;
  uint32_t words[numWords];
  int i;
  EXPECT_OK(flashcoreEmuMemoryCreate(&memory));
  EXPECT_OK(flashcoreEmuMemoryAllocate(memory, "to", numBytes, &to));
  EXPECT_OK(flashcoreEmuMemoryAllocate(memory, "from", numBytes, &from));
  for (i = 0; i < numWords; ++i)
    words[i] = (uint32_t)i;
  EXPECT_OK(flashcoreEmuMemoryWrite(memory, from, words, numBytes));
  EXPECT_OK(flashcoreEmuMemoryGetUninitializedBytes(memory, to, &missing));
  EXPECT(missing == numBytes);

  EXPECT_OK(flashcoreEmuOptionsCreate(&options));
  EXPECT_OK(flashcoreEmuOptionsSetChecks(options, "all"));
  EXPECT_OK(flashcoreEmuOptionsSetMma(options, FlashCoreEmuMmaSm90));
  EXPECT_OK(
      flashcoreEmuOptionsSetSchedule(options, FlashCoreEmuScheduleRandom, 1));
  EXPECT_OK(flashcoreEmuOptionsSetAsync(options, FlashCoreEmuAsyncRandom, 2));
  EXPECT_OK(flashcoreEmuOptionsSetThreads(options, 2));
  EXPECT_OK(flashcoreEmuOptionsSetMaxInstructions(options, 1000000));
  EXPECT_OK(flashcoreEmuOptionsSetMaxSharedBytes(options, 4096));
  EXPECT_OK(flashcoreEmuOptionsSetSharedBase(options,
                                             FlashCoreEmuSharedBaseDeclared));
  EXPECT_OK(flashcoreEmuOptionsSetCounters(options, true));
  report = runAdd(kernel, memory, to, from, options);
  EXPECT(flashcoreEmuReportIsClean(report));
  EXPECT(flashcoreEmuReportGetNumFindings(report) == 0);
  EXPECT(flashcoreEmuReportGetNumNotes(report) == 0);
  EXPECT(flashcoreEmuReportGetNumThreads(report) == 2);
  flashcoreEmuReportDestroy(report);
  flashcoreEmuOptionsDestroy(options);

  EXPECT_OK(flashcoreEmuMemoryRead(memory, to, numBytes, words));
  for (i = 0; i < numWords; ++i)
    EXPECT(words[i] == (uint32_t)i + 7);
  EXPECT_OK(flashcoreEmuMemoryFill(memory, to, 0x11, 4));
  EXPECT_OK(flashcoreEmuMemoryRead(memory, to, 4, words));
  EXPECT(words[0] == 0x11111111);
  EXPECT_OK(flashcoreEmuMemoryRelease(memory, to));
  EXPECT_ERROR(flashcoreEmuMemoryRelease(memory, to), "of a buffer");
  flashcoreEmuMemoryDestroy(memory);
}

static void testFinding(FlashCoreEmuKernel kernel) {
  FlashCoreEmuMemory memory;
  FlashCoreEmuReport report;
  FlashCoreEmuString text;
  uint64_t to, from;
  EXPECT_OK(flashcoreEmuMemoryCreate(&memory));
  EXPECT_OK(flashcoreEmuMemoryAllocate(memory, "to", numBytes - 4, &to));
  EXPECT_OK(flashcoreEmuMemoryAllocate(memory, "from", numBytes, &from));
  EXPECT_OK(flashcoreEmuMemoryFill(memory, from, 1, numBytes));
  report = runAdd(kernel, memory, to, from, noOptions);
  EXPECT(!flashcoreEmuReportIsClean(report));
  EXPECT(flashcoreEmuReportGetNumFindings(report) == 1);
  EXPECT_OK(flashcoreEmuReportGetText(report, "add.ptx", &text));
  EXPECT(strstr(flashcoreEmuStringGetData(text),
                "add.ptx:14: out-of-bounds: global store of 4 bytes: 0 bytes "
                "past the end of 'to' (508 bytes)"));
  EXPECT(flashcoreEmuStringGetLength(text) ==
         strlen(flashcoreEmuStringGetData(text)));
  flashcoreEmuStringDestroy(text);
  EXPECT_OK(flashcoreEmuReportGetJson(report, NULL, &text));
  EXPECT(
      strstr(flashcoreEmuStringGetData(text), "\"kind\": \"out-of-bounds\""));
  flashcoreEmuStringDestroy(text);
  flashcoreEmuReportDestroy(report);

  /* Reading poison is a finding of another kind. */
  EXPECT_OK(flashcoreEmuMemoryPoison(memory, from));
  report = runAdd(kernel, memory, to, from, noOptions);
  EXPECT(flashcoreEmuReportGetNumFindings(report) == 2);
  flashcoreEmuReportDestroy(report);
  flashcoreEmuMemoryDestroy(memory);
}

static void testErrors(FlashCoreEmuKernel kernel) {
  FlashCoreEmuKernel bad = {&bad};
  FlashCoreEmuReport report = {&report};
  FlashCoreEmuKernelList list;
  FlashCoreEmuMemory memory;
  FlashCoreEmuArguments arguments;
  FlashCoreEmuOptions options;
  const uint64_t shape[] = {2, 1};
  uint64_t address;
  uint32_t word = 0;
  FlashCoreEmuStatus status = flashcoreEmuKernelCreate(
      ".version 8.0\n.target sm_89\n.address_size 64\n"
      ".visible .entry f() {\n  .reg .b32 %r<2>;\n  bogus.b32 %r0, %r1;\n}\n",
      "f", &bad);
  EXPECT(!flashcoreEmuStatusIsSuccess(status));
  EXPECT(strstr(flashcoreEmuStatusGetMessage(status), "bogus"));
  EXPECT(flashcoreEmuStatusGetLine(status) == 6);
  EXPECT(flashcoreEmuStatusGetColumn(status) == 3);
  EXPECT(bad.ptr == NULL);
  flashcoreEmuStatusDestroy(status);
  EXPECT_ERROR(flashcoreEmuKernelCreate(ptx, "sub", &bad), "'sub'");
  EXPECT_ERROR(flashcoreEmuKernelListCreate("nonsense", &list), "");

  EXPECT_OK(flashcoreEmuMemoryCreate(&memory));
  EXPECT_ERROR(flashcoreEmuMemoryAllocate(memory, "big", UINT64_MAX, &address),
               "expects a buffer of at most 34359738368 bytes, but got "
               "18446744073709551615");
  EXPECT_OK(flashcoreEmuMemoryAllocate(memory, "b", 4, &address));
  EXPECT_ERROR(flashcoreEmuMemoryWrite(memory, address + 1, &word, 4),
               "expects a range inside one buffer, but got 4 bytes");
  EXPECT_ERROR(flashcoreEmuMemoryRead(memory, 0, 4, &word),
               "inside one buffer");
  EXPECT_ERROR(flashcoreEmuMemoryFill(memory, address, 0, 5),
               "inside one buffer");
  EXPECT_ERROR(flashcoreEmuMemoryPoison(memory, 12), "got 12");
  EXPECT_OK(flashcoreEmuMemoryDescribe(memory, address, 2, 2, shape, NULL));
  EXPECT_ERROR(flashcoreEmuMemoryDescribe(memory, address, 4, 2, shape, NULL),
               "expects a tensor inside one buffer");
  EXPECT_ERROR(flashcoreEmuMemoryDescribe(memory, 12, 2, 2, shape, NULL),
               "elements of 2 bytes and 2 axes at address 12");
  EXPECT_ERROR(flashcoreEmuMemoryDescribe(memory, 12, 2, 2, NULL, NULL),
               "expects a shape, but got null");
  EXPECT_ERROR(flashcoreEmuMemoryGetUninitializedBytes(memory, 12, &address),
               "got 12");

  EXPECT_OK(flashcoreEmuArgumentsCreate(&arguments));
  EXPECT_ERROR(flashcoreEmuLaunch(kernel, memory, grid, block, 0, arguments,
                                  noOptions, &report),
               "takes 3 arguments, but got 0");
  EXPECT(report.ptr == NULL);
  EXPECT_OK(flashcoreEmuArgumentsAddInt64(arguments, 1));
  EXPECT_OK(flashcoreEmuArgumentsAddDouble(arguments, 1.0));
  EXPECT_OK(flashcoreEmuArgumentsAddBytes(arguments, "12", 2));
  EXPECT_ERROR(flashcoreEmuLaunch(kernel, memory, grid, block, 0, arguments,
                                  noOptions, &report),
               "argument 2 ('n') expects 4 bytes, but got 2");
  flashcoreEmuArgumentsDestroy(arguments);
  flashcoreEmuMemoryDestroy(memory);

  EXPECT_OK(flashcoreEmuOptionsCreate(&options));
  EXPECT_ERROR(flashcoreEmuOptionsSetChecks(options, "memory,bogus"),
               "unknown check 'bogus'");
  EXPECT_ERROR(flashcoreEmuOptionsSetMma(options, (FlashCoreEmuMma)4),
               "expects a FlashCoreEmuMma of 0 to 3, but got 4");
  EXPECT_ERROR(
      flashcoreEmuOptionsSetSchedule(options, (FlashCoreEmuSchedule)3, 0),
      "but got 3");
  EXPECT_ERROR(flashcoreEmuOptionsSetAsync(options, (FlashCoreEmuAsync)3, 0),
               "but got 3");
  EXPECT_ERROR(
      flashcoreEmuOptionsSetSharedBase(options, (FlashCoreEmuSharedBase)2),
      "expects a FlashCoreEmuSharedBase of 0 to 1, but got 2");
  flashcoreEmuOptionsDestroy(options);
}

/* Getters and destructors of null handles. */
static void testTensorMap(void) {
  unsigned char bytes[FLASHCORE_EMU_TENSOR_MAP_BYTES];
  FlashCoreEmuTensorMap map;
  memset(&map, 0, sizeof map);
  map.address = 4096;
  map.elementBytes = 2;
  map.rank = 2;
  map.sizes[0] = map.sizes[1] = 64;
  map.strides[1] = 128;
  map.box[0] = 64;
  map.box[1] = 8;
  map.swizzleBytes = 128;
  EXPECT_OK(flashcoreEmuEncodeTensorMap(&map, bytes));
  EXPECT_ERROR(flashcoreEmuEncodeTensorMap(NULL, bytes),
               "expects a tensor map, but got null");
  EXPECT_ERROR(flashcoreEmuEncodeTensorMap(&map, NULL),
               "expects a place for the bytes, but got null");
  map.swizzleBytes = 16;
  EXPECT_ERROR(flashcoreEmuEncodeTensorMap(&map, bytes),
               "expects a swizzle of 0, 32, 64 or 128 bytes, but got 16");
  map.swizzleBytes = 64;
  EXPECT_ERROR(flashcoreEmuEncodeTensorMap(&map, bytes),
               "at most the 64 bytes of its swizzle, but got 128");
}

static void testNullGetters(void) {
  EXPECT(flashcoreEmuStatusIsSuccess(noError));
  EXPECT(!strcmp(flashcoreEmuStatusGetMessage(noError), ""));
  EXPECT(flashcoreEmuStatusGetLine(noError) == 0);
  EXPECT(flashcoreEmuStatusGetColumn(noError) == 0);
  EXPECT(!strcmp(flashcoreEmuStringGetData(noString), ""));
  EXPECT(flashcoreEmuStringGetLength(noString) == 0);
  EXPECT(flashcoreEmuKernelListGetSize(noList) == 0);
  EXPECT(!strcmp(flashcoreEmuKernelListGetName(noList, 0), ""));
  EXPECT(!strcmp(flashcoreEmuKernelGetName(noKernel), ""));
  EXPECT(!strcmp(flashcoreEmuKernelGetTarget(noKernel), ""));
  EXPECT(flashcoreEmuKernelGetNumParams(noKernel) == 0);
  EXPECT(!strcmp(flashcoreEmuKernelGetParamName(noKernel, 0), ""));
  EXPECT(flashcoreEmuKernelGetParamBytes(noKernel, 0) == 0);
  EXPECT(flashcoreEmuKernelGetStaticSharedBytes(noKernel) == 0);
  EXPECT(flashcoreEmuKernelGetRequiredBlock(noKernel).x == 0);
  EXPECT(!flashcoreEmuReportIsClean(noReport));
  EXPECT(flashcoreEmuReportGetNumFindings(noReport) == 0);
  EXPECT(flashcoreEmuReportGetNumNotes(noReport) == 0);
  EXPECT(flashcoreEmuReportGetNumThreads(noReport) == 0);
  flashcoreEmuStatusDestroy(noError);
  flashcoreEmuStringDestroy(noString);
  flashcoreEmuKernelListDestroy(noList);
  flashcoreEmuKernelDestroy(noKernel);
  flashcoreEmuMemoryDestroy(noMemory);
  flashcoreEmuArgumentsDestroy(noArguments);
  flashcoreEmuOptionsDestroy(noOptions);
  flashcoreEmuReportDestroy(noReport);
}

/* Functions that can fail say what is null. */
static void testNullErrors(FlashCoreEmuKernel kernel) {
  const char *null = ", but got null";
  FlashCoreEmuKernelList list;
  FlashCoreEmuKernel other;
  FlashCoreEmuMemory memory;
  FlashCoreEmuArguments arguments;
  FlashCoreEmuReport report;
  FlashCoreEmuString text;
  uint64_t word = 0;
  EXPECT_ERROR(flashcoreEmuKernelListCreate(NULL, &list), null);
  EXPECT_ERROR(flashcoreEmuKernelListCreate(ptx, NULL), null);
  EXPECT_ERROR(flashcoreEmuKernelCreate(NULL, NULL, &other), null);
  EXPECT_ERROR(flashcoreEmuKernelCreate(ptx, NULL, NULL), null);
  EXPECT_ERROR(flashcoreEmuMemoryCreate(NULL), null);
  EXPECT_ERROR(flashcoreEmuMemoryAllocate(noMemory, "b", 4, &word), null);
  EXPECT_ERROR(flashcoreEmuMemoryRelease(noMemory, 0), null);
  EXPECT_ERROR(flashcoreEmuMemoryPoison(noMemory, 0), null);
  EXPECT_ERROR(flashcoreEmuMemoryWrite(noMemory, 0, &word, 4), null);
  EXPECT_ERROR(flashcoreEmuMemoryFill(noMemory, 0, 0, 4), null);
  EXPECT_ERROR(flashcoreEmuMemoryRead(noMemory, 0, 4, &word), null);
  EXPECT_ERROR(flashcoreEmuMemoryGetUninitializedBytes(noMemory, 0, &word),
               null);
  EXPECT_ERROR(flashcoreEmuArgumentsCreate(NULL), null);
  EXPECT_ERROR(flashcoreEmuArgumentsAddPointer(noArguments, 0), null);
  EXPECT_ERROR(flashcoreEmuArgumentsAddFloat(noArguments, 0.0f), null);
  EXPECT_ERROR(flashcoreEmuOptionsCreate(NULL), null);
  EXPECT_ERROR(flashcoreEmuOptionsSetChecks(noOptions, "all"), null);
  EXPECT_ERROR(flashcoreEmuOptionsSetMma(noOptions, FlashCoreEmuMmaAuto), null);
  EXPECT_ERROR(flashcoreEmuOptionsSetThreads(noOptions, 1), null);
  EXPECT_ERROR(flashcoreEmuReportGetText(noReport, "f", &text), null);
  EXPECT_ERROR(flashcoreEmuReportGetJson(noReport, "f", &text), null);

  EXPECT_OK(flashcoreEmuMemoryCreate(&memory));
  EXPECT_OK(flashcoreEmuArgumentsCreate(&arguments));
  EXPECT_ERROR(flashcoreEmuMemoryAllocate(memory, NULL, 4, &word), null);
  EXPECT_ERROR(flashcoreEmuMemoryAllocate(memory, "b", 4, NULL), null);
  EXPECT_OK(flashcoreEmuMemoryAllocate(memory, "b", 4, &word));
  EXPECT_ERROR(flashcoreEmuMemoryWrite(memory, word, NULL, 4), null);
  EXPECT_OK(flashcoreEmuMemoryWrite(memory, word, NULL, 0));
  EXPECT_ERROR(flashcoreEmuMemoryRead(memory, word, 4, NULL), null);
  EXPECT_OK(flashcoreEmuMemoryRead(memory, word, 0, NULL));
  EXPECT_ERROR(flashcoreEmuMemoryGetUninitializedBytes(memory, word, NULL),
               null);
  EXPECT_ERROR(flashcoreEmuArgumentsAddBytes(arguments, NULL, 4), null);
  EXPECT_ERROR(flashcoreEmuLaunch(noKernel, memory, grid, block, 0, arguments,
                                  noOptions, &report),
               "expects a kernel, but got null");
  EXPECT_ERROR(flashcoreEmuLaunch(kernel, noMemory, grid, block, 0, arguments,
                                  noOptions, &report),
               "expects a memory, but got null");
  EXPECT_ERROR(flashcoreEmuLaunch(kernel, memory, grid, block, 0, noArguments,
                                  noOptions, &report),
               "expects arguments, which may be empty, but got null");
  EXPECT_ERROR(flashcoreEmuLaunch(kernel, memory, grid, block, 0, arguments,
                                  noOptions, NULL),
               null);
  flashcoreEmuArgumentsDestroy(arguments);
  flashcoreEmuMemoryDestroy(memory);
}

int main(void) {
  FlashCoreEmuKernel kernel;
  EXPECT_OK(flashcoreEmuKernelCreate(ptx, NULL, &kernel));
  testDescribe();
  testKernel(kernel);
  testRun(kernel);
  testFinding(kernel);
  testErrors(kernel);
  testTensorMap();
  testNullGetters();
  testNullErrors(kernel);
  flashcoreEmuKernelDestroy(kernel);
  return numFailures != 0;
}
