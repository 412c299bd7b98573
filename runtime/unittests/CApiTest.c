/*===- CApiTest.c - The C interface from C11 ------------------------------===*\
|*                                                                            *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* Runs an attention on the emulator and compares it with the reference, gets *|
|* a finding and errors, and passes null wherever something could be null.    *|
|* CApiTest.cpp calls it with a bundle.                                       *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include "flashcore-c/Runtime.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int flashcoreRunCApiTest(const char *path);

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
/* An error of `kind` whose message contains `text`. */
#define EXPECT_KIND(call, kind, text)                                          \
  expectError((call), kind, (text), __LINE__)
#define EXPECT_ERROR(call, text) EXPECT_KIND(call, FlashCoreStatusError, text)

static void expectOk(FlashCoreStatus status, int line) {
  if (flashcoreStatusIsSuccess(status) &&
      flashcoreStatusGetKind(status) == FlashCoreStatusSuccess &&
      !*flashcoreStatusGetMessage(status))
    return;
  fprintf(stderr, "line %d: %s\n", line, flashcoreStatusGetMessage(status));
  flashcoreStatusDestroy(status);
  ++numFailures;
}

static void expectError(FlashCoreStatus status, FlashCoreStatusKind kind,
                        const char *text, int line) {
  const char *message = flashcoreStatusGetMessage(status);
  if (flashcoreStatusIsSuccess(status) ||
      flashcoreStatusGetKind(status) != kind || !strstr(message, text)) {
    fprintf(stderr, "line %d: expects an error with '%s', but got '%s'\n", line,
            text, message);
    ++numFailures;
  }
  flashcoreStatusDestroy(status);
}

enum { heads = 2, seqlenQ = 3, seqlenK = 5, headDim = 16, numTensors = 5 };
enum { q, k, v, o, lse };

static const int64_t queries[] = {1, heads, seqlenQ, headDim},
                     keys[] = {1, heads, seqlenK, headDim};
static const int64_t queryStrides[] = {0, headDim, heads *headDim, 1},
                     keyStrides[] = {0, seqlenK *headDim, headDim, 1},
                     lseStrides[] = {0, seqlenQ, 1};
static const FlashCoreTensor tensors[numTensors] = {
    {"q", queries, queryStrides, 4}, {"k", keys, keyStrides, 4},
    {"v", keys, keyStrides, 4},      {"o", queries, queryStrides, 4},
    {"lse", queries, lseStrides, 3},
};

/* The two sides of a call: what the emulator and the reference compute. */
static uint16_t data[4][heads * seqlenK * headDim];
static uint16_t expectedO[heads * seqlenQ * headDim];
static float dataLse[heads * seqlenQ], expectedLse[heads * seqlenQ];
static const int64_t bytes[numTensors] = {
    2 * heads * seqlenQ * headDim, 2 * heads * seqlenK * headDim,
    2 * heads * seqlenK * headDim, 2 * heads * seqlenQ * headDim,
    4 * heads *seqlenQ};

static void *host(int tensor) {
  return tensor == lse ? (void *)dataLse : (void *)data[tensor];
}

/* Numbers from 0.25 to 4, of either sign. */
static void fillInputs(void) {
  uint32_t state = 1;
  for (int tensor = q; tensor <= v; ++tensor)
    for (int i = 0; i < heads * seqlenK * headDim; ++i) {
      state = state * 1664525u + 1013904223u;
      data[tensor][i] = (uint16_t)(0x3400u + (state >> 20) + (state & 0x8000u));
    }
}

static float toFloat(uint16_t half) {
  int exponent = half >> 10 & 31;
  float magnitude = ldexpf((float)(0x400 | (half & 0x3ff)), exponent - 25);
  return half & 0x8000 ? -magnitude : magnitude;
}

static FlashCoreDevice makeEmulator(const char *options) {
  FlashCoreDevice device;
  EXPECT_OK(flashcoreDeviceCreateEmulator(options, &device));
  return device;
}

static FlashCoreBundle noBundle = {NULL};
static FlashCoreDevice noDevice = {NULL};
static FlashCoreModule noModule = {NULL};
static FlashCorePlan noPlan = {NULL};

static void upload(FlashCoreDevice device, uint64_t pointers[numTensors]) {
  for (int i = 0; i < numTensors; ++i) {
    EXPECT_OK(flashcoreDeviceAllocate(device, bytes[i], tensors[i].name,
                                      &pointers[i]));
    EXPECT(pointers[i] % 256 == 0);
    if (i <= v)
      EXPECT_OK(
          flashcoreDeviceCopyToDevice(device, pointers[i], host(i), bytes[i]));
  }
}

static void computeExpected(FlashCoreBundle bundle) {
  uint64_t pointers[numTensors];
  for (int i = q; i <= v; ++i)
    pointers[i] = (uintptr_t)host(i);
  pointers[o] = (uintptr_t)expectedO;
  pointers[lse] = (uintptr_t)expectedLse;
  EXPECT_OK(
      flashcoreComputeReference(bundle, tensors, pointers, numTensors, 1));
  pointers[k] = 0;
  EXPECT_ERROR(
      flashcoreComputeReference(bundle, tensors, pointers, numTensors, 1),
      "expects a pointer for 'k', but got null");
}

/* The reference agrees with itself, up to the rounding of its outputs. */
static void testCheck(FlashCoreBundle bundle) {
  uint64_t pointers[numTensors];
  FlashCoreOutputReport ofO, ofLse;
  for (int i = q; i <= v; ++i)
    pointers[i] = (uintptr_t)host(i);
  pointers[o] = (uintptr_t)expectedO;
  pointers[lse] = (uintptr_t)expectedLse;
  EXPECT_OK(flashcoreCheckOutputs(bundle, tensors, pointers, numTensors, 1,
                                  &ofO, &ofLse, NULL, NULL, NULL));
  EXPECT(ofO.pass && ofLse.pass && ofO.error <= ofO.yardstick);
  EXPECT(ofO.elements == heads * seqlenQ * headDim);
  EXPECT(ofLse.elements == heads * seqlenQ);

  /* Head 1, query 2, column 5 in (batch, seqlen, heads, head_dim). */
  uint16_t *element = &expectedO[(2 * heads + 1) * headDim + 5];
  uint16_t right = *element;
  *element = 0x7e00;
  EXPECT_OK(flashcoreCheckOutputs(bundle, tensors, pointers, numTensors, 1,
                                  &ofO, NULL, NULL, NULL, NULL));
  EXPECT(!ofO.pass && ofO.nans == 1 && isnan(ofO.error));
  EXPECT(ofO.at[1] == 1 && ofO.at[2] == 2 && ofO.at[3] == 5);
  *element = right;
  expectedLse[seqlenQ] += 1;
  EXPECT_OK(flashcoreCheckOutputs(bundle, tensors, pointers, numTensors, 1,
                                  NULL, &ofLse, NULL, NULL, NULL));
  EXPECT(!ofLse.pass && fabs(ofLse.error - 1) < 1e-5);
  EXPECT(ofLse.at[1] == 1 && ofLse.at[2] == 0);
  expectedLse[seqlenQ] -= 1;

  pointers[k] = 0;
  EXPECT_ERROR(flashcoreCheckOutputs(bundle, tensors, pointers, numTensors, 1,
                                     &ofO, &ofLse, NULL, NULL, NULL),
               "expects a pointer for 'k', but got null");
  EXPECT(!ofO.pass && ofO.elements == 0 && ofLse.elements == 0);
}

static void testAttention(FlashCoreBundle bundle) {
  FlashCoreDevice device = makeEmulator("threads=2 multiprocessors=7");
  FlashCoreModule module;
  FlashCorePlan plan;
  uint64_t pointers[numTensors];
  EXPECT(!strcmp(flashcoreDeviceGetKind(device), "emulator"));
  EXPECT(!strcmp(flashcoreDeviceGetName(device), "the PTX emulator"));
  EXPECT(!strcmp(flashcoreDeviceGetChip(device), "sm_90"));
  EXPECT(flashcoreDeviceGetMultiprocessors(device) == 7);
  EXPECT_OK(flashcoreModuleLoad(device, bundle, &module));
  EXPECT(!strcmp(flashcoreModuleGetCode(module), "PTX sm_80 on the emulator"));
  EXPECT(!*flashcoreModuleGetLog(module));
  EXPECT(flashcoreModuleGetNumKernels(module) == 1);
  EXPECT(!strcmp(flashcoreModuleGetKernelName(module, 0), "attention"));
  EXPECT(!*flashcoreModuleGetKernelName(module, 1));
  EXPECT_OK(flashcorePlanCreate(module, tensors, numTensors, &plan));
  EXPECT(flashcorePlanGetWorkspaceBytes(plan) == 0);
  EXPECT(!strcmp(flashcorePlanGetText(plan), "B1 H2/2 S3x5 D16 f16 lse"));

  fillInputs();
  upload(device, pointers);
  EXPECT_OK(flashcorePlanLaunch(plan, pointers, 0, FLASHCORE_STREAM_LEGACY));
  EXPECT_OK(flashcoreDeviceSynchronize(device));
  for (int i = o; i <= lse; ++i)
    EXPECT_OK(
        flashcoreDeviceCopyToHost(device, host(i), pointers[i], bytes[i]));
  computeExpected(bundle);
  testCheck(bundle);
  for (int i = 0; i < heads * seqlenQ * headDim; ++i)
    EXPECT(fabsf(toFloat(data[o][i]) - toFloat(expectedO[i])) < 4e-3f);
  for (int i = 0; i < heads * seqlenQ; ++i)
    EXPECT(fabsf(dataLse[i] - expectedLse[i]) < 1e-4f);

  pointers[k] = 0;
  EXPECT_ERROR(flashcorePlanLaunch(plan, pointers, 0, NULL),
               "expects a pointer for 'k', but got null\n"
               "  note: only a tensor without elements needs none");
  EXPECT_ERROR(flashcorePlanLaunch(plan, NULL, 0, NULL),
               "expects pointers, but got null");
  for (int i = 0; i < numTensors; ++i)
    if (i != k)
      EXPECT_OK(flashcoreDeviceFree(device, pointers[i]));
  flashcorePlanDestroy(plan);
  flashcoreModuleDestroy(module);
  flashcoreDeviceDestroy(device);
}

/* Of pointers of any memory: nothing is launched. */
static void testOverlaps(FlashCoreBundle bundle) {
  FlashCoreDevice device = makeEmulator(NULL);
  FlashCoreModule module;
  FlashCorePlan plan;
  uint64_t pointers[numTensors];
  EXPECT_OK(flashcoreModuleLoad(device, bundle, &module));
  EXPECT_OK(flashcorePlanCreate(module, tensors, numTensors, &plan));
  for (int i = 0; i < numTensors; ++i)
    pointers[i] = 4096 * (uint64_t)(i + 1);
  EXPECT_OK(flashcorePlanCheckOverlaps(plan, pointers));
  pointers[v] = pointers[k];
  EXPECT_OK(flashcorePlanCheckOverlaps(plan, pointers));
  pointers[o] = pointers[q];
  EXPECT_ERROR(flashcorePlanCheckOverlaps(plan, pointers),
               "expects the output 'o' in memory of its own, but got one that "
               "overlaps the input 'q'\n  note: some blocks write it while "
               "others still read: pass other memory, or a copy of 'q'");
  pointers[o] = pointers[q] + (uint64_t)bytes[q] - 2;
  EXPECT_ERROR(flashcorePlanCheckOverlaps(plan, pointers), "the input 'q'");
  pointers[o] += 2;
  EXPECT_OK(flashcorePlanCheckOverlaps(plan, pointers));
  pointers[lse] = pointers[o] + (uint64_t)bytes[o] - 4;
  EXPECT_ERROR(flashcorePlanCheckOverlaps(plan, pointers),
               "expects the output 'o' in memory of its own, but got one that "
               "overlaps the output 'lse'");
  EXPECT_ERROR(flashcorePlanCheckOverlaps(plan, NULL),
               "expects pointers, but got null");
  EXPECT_ERROR(flashcorePlanCheckOverlaps(noPlan, pointers),
               "expects a plan, but got null");
  flashcorePlanDestroy(plan);
  flashcoreModuleDestroy(module);
  flashcoreDeviceDestroy(device);
}

/* Rows of 4 of 2 bytes each, with gaps of 4; the rest of rows and columns is
 * OverlapTest's. */
static void testSharedBytes(void) {
  const int64_t sizes[] = {3, 4}, none[] = {0, 4}, negative[] = {-1, 4};
  const int64_t strides[] = {8, 1}, back[] = {-8, -1};
  FlashCoreTensor rows = {NULL, sizes, strides, 2}, empty = rows, odd = rows,
                  reversed = rows, scalar = {NULL, NULL, NULL, 0};
  empty.sizes = none;
  odd.sizes = negative;
  reversed.strides = back;
  EXPECT(flashcoreTensorsShareBytes(&rows, 1000, 2, &rows, 1000, 2));
  EXPECT(flashcoreTensorsShareBytes(&rows, 1000, 2, &rows, 1007, 2));
  EXPECT(!flashcoreTensorsShareBytes(&rows, 1000, 2, &rows, 1008, 2));
  EXPECT(flashcoreTensorsShareBytes(&rows, 1000, 2, &rows, 1009, 2));
  EXPECT(flashcoreTensorsShareBytes(&rows, 1000, 2, &reversed, 1000, 2));
  EXPECT(!flashcoreTensorsShareBytes(&rows, 1000, 2, &reversed, 998, 2));
  EXPECT(!flashcoreTensorsShareBytes(&rows, 1000, 2, &reversed, 1046, 2));
  EXPECT(flashcoreTensorsShareBytes(&rows, 1000, 2, &scalar, 1004, 4));
  EXPECT(!flashcoreTensorsShareBytes(&rows, 1000, 2, &scalar, 1008, 8));
  EXPECT(!flashcoreTensorsShareBytes(&rows, 1000, 2, &empty, 1000, 2));
  EXPECT(flashcoreTensorsShareBytes(&rows, 1000, 2, NULL, 1000, 2));
  EXPECT(flashcoreTensorsShareBytes(&rows, 1000, 0, &scalar, 0, 2));
  EXPECT(flashcoreTensorsShareBytes(&odd, 1000, 2, &scalar, 0, 2));
}

/* What a kernel reads and nobody wrote is a finding, and it names the tensor.
 */
static void testFinding(FlashCoreBundle bundle) {
  FlashCoreDevice device = makeEmulator(NULL);
  FlashCoreModule module;
  FlashCorePlan plan;
  uint64_t pointers[numTensors];
  FlashCoreStatus status;
  EXPECT_OK(flashcoreModuleLoad(device, bundle, &module));
  EXPECT_OK(flashcorePlanCreate(module, tensors, numTensors, &plan));
  upload(device, pointers);
  EXPECT_OK(flashcoreDeviceAllocate(device, bytes[v], "v", &pointers[v]));
  /* A plan keeps what it was made from, whatever is destroyed first. */
  flashcoreDeviceDestroy(device);
  flashcoreModuleDestroy(module);
  status = flashcorePlanLaunch(plan, pointers, 0, NULL);
  EXPECT(strstr(flashcoreStatusGetMessage(status), "\n  note: "));
  EXPECT(strstr(flashcoreStatusGetMessage(status), "'v'"));
  EXPECT_KIND(status, FlashCoreStatusKernelFault, "kernel 'attention' has ");
  flashcorePlanDestroy(plan);
}

static void testRefusals(FlashCoreBundle bundle) {
  FlashCoreTensor wrong[numTensors];
  FlashCoreDevice device = makeEmulator("");
  FlashCoreModule module;
  FlashCorePlan plan;
  uint64_t pointer;
  char byte = 0;
  EXPECT_OK(flashcoreModuleLoad(device, bundle, &module));
  memcpy(wrong, tensors, sizeof wrong);
  wrong[v].sizes = queries;
  EXPECT_ERROR(flashcorePlanCreate(module, wrong, numTensors, &plan),
               "expects 'v' to have seqlen_k 5, as 'k' has, but got 3");
  EXPECT(!plan.ptr);
  wrong[v] = tensors[k];
  EXPECT_ERROR(flashcorePlanCreate(module, wrong, numTensors, &plan),
               "expects each tensor once, but got 'k' twice");
  wrong[v].name = NULL;
  EXPECT_ERROR(flashcorePlanCreate(module, wrong, numTensors, &plan),
               "expects a name for tensor 2, but got null");
  wrong[v] = tensors[v];
  wrong[v].strides = NULL;
  EXPECT_ERROR(flashcorePlanCreate(module, wrong, numTensors, &plan),
               "expects strides of 'v', but got null");
  EXPECT_ERROR(flashcorePlanCreate(module, NULL, numTensors, &plan),
               "expects tensors, but got null");

  EXPECT_ERROR(flashcoreDeviceAllocate(device, -1, "q", &pointer),
               "expects at least 0 bytes, but got -1");
  EXPECT_ERROR(flashcoreDeviceAllocate(device, (int64_t)1 << 40, "q", &pointer),
               "the emulator has buffers of at most 34359738368 bytes");
  EXPECT(pointer == 0);
  EXPECT_ERROR(flashcoreDeviceFree(device, 7), "cannot free a range");
  EXPECT_OK(flashcoreDeviceAllocate(device, 1, NULL, &pointer));
  EXPECT_ERROR(flashcoreDeviceCopyToDevice(device, pointer, NULL, 1),
               "expects host memory to copy, but got null");
  EXPECT_ERROR(flashcoreDeviceCopyToHost(device, &byte, pointer, -1),
               "expects at least 0 bytes, but got -1");
  EXPECT_ERROR(flashcoreDeviceCopyToHost(device, &byte, pointer, 2),
               "a range that is not inside one buffer");
  flashcoreDeviceDestroy(device);
  EXPECT_ERROR(flashcoreDeviceCreateEmulator("check", &device),
               "expects options of the emulator as name=value, but got "
               "'check'");
  EXPECT(!device.ptr);
  EXPECT_ERROR(flashcoreDeviceCreateEmulator("check=none speed=9", &device),
               "option 'speed' of the emulator is unknown");
  EXPECT_ERROR(flashcoreBundleLoad("/there/is/none", &bundle),
               "/there/is/none");
  EXPECT(!bundle.ptr);
  flashcoreModuleDestroy(module);
}

static void testNull(FlashCoreBundle bundle) {
  FlashCoreBundle madeBundle;
  FlashCoreDevice device = makeEmulator(NULL);
  FlashCoreModule module;
  FlashCorePlan plan;
  uint64_t pointer = 1;
  const FlashCoreStatus noStatus = {NULL};
  const FlashCoreString noString = {NULL};

  EXPECT_ERROR(flashcoreBundleLoad(NULL, &madeBundle),
               "expects the path of a bundle, but got null");
  EXPECT_ERROR(flashcoreBundleLoad(".", NULL),
               "expects a place for the bundle, but got null");
  EXPECT_ERROR(flashcoreDeviceCreateEmulator(NULL, NULL),
               "expects a place for the device, but got null");
  EXPECT_ERROR(flashcoreDeviceCreateCuda(0, NULL),
               "expects a place for the device, but got null");
  EXPECT_ERROR(flashcoreModuleLoad(device, bundle, NULL),
               "expects a place for the module, but got null");
  EXPECT_ERROR(flashcoreModuleLoad(noDevice, bundle, &module),
               "expects a device, but got null");
  EXPECT_ERROR(flashcoreModuleLoad(device, noBundle, &module),
               "expects a bundle, but got null");
  EXPECT_ERROR(flashcorePlanCreate(noModule, tensors, numTensors, &plan),
               "expects a module, but got null");
  EXPECT_ERROR(flashcorePlanCreate(noModule, tensors, numTensors, NULL),
               "expects a place for the plan, but got null");
  EXPECT_ERROR(flashcorePlanLaunch(noPlan, &pointer, 0, NULL),
               "expects a plan, but got null");
  EXPECT_ERROR(flashcoreDeviceAllocate(noDevice, 1, NULL, &pointer),
               "expects a device, but got null");
  EXPECT(pointer == 0);
  EXPECT_ERROR(flashcoreDeviceAllocate(device, 1, NULL, NULL),
               "expects a place for the pointer, but got null");
  EXPECT_ERROR(flashcoreDeviceFree(noDevice, 0), "expects a device");
  EXPECT_ERROR(flashcoreDeviceCopyToDevice(noDevice, 0, NULL, 0),
               "expects a device");
  EXPECT_ERROR(flashcoreDeviceCopyToHost(noDevice, NULL, 0, 0),
               "expects a device");
  EXPECT_ERROR(flashcoreDeviceSynchronize(noDevice), "expects a device");
  EXPECT_ERROR(flashcoreComputeReference(noBundle, tensors, &pointer, 1, 0),
               "expects a bundle, but got null");
  EXPECT_ERROR(flashcoreComputeReference(bundle, tensors, NULL, numTensors, 0),
               "expects pointers, but got null");
  EXPECT_ERROR(flashcoreComputeReference(bundle, NULL, NULL, 0, 0),
               "but got no 'q'");
  EXPECT_ERROR(flashcoreCheckOutputs(noBundle, tensors, &pointer, 1, 0, NULL,
                                     NULL, NULL, NULL, NULL),
               "expects a bundle, but got null");
  EXPECT_ERROR(flashcoreCheckOutputs(bundle, tensors, NULL, numTensors, 0, NULL,
                                     NULL, NULL, NULL, NULL),
               "expects pointers, but got null");

  EXPECT(!*flashcoreBundleGetManifest(noBundle));
  EXPECT(!*flashcoreDeviceGetKind(noDevice));
  EXPECT(!*flashcoreDeviceGetName(noDevice));
  EXPECT(!*flashcoreDeviceGetChip(noDevice));
  EXPECT(flashcoreDeviceGetMultiprocessors(noDevice) == 0);
  EXPECT(!*flashcoreModuleGetCode(noModule));
  EXPECT(!*flashcoreModuleGetChip(noModule));
  EXPECT(!*flashcoreModuleGetWarning(noModule));
  EXPECT(!*flashcoreModuleGetLog(noModule));
  EXPECT(flashcoreModuleGetNumKernels(noModule) == 0);
  EXPECT(!*flashcoreModuleGetKernelName(noModule, 0));
  EXPECT(flashcoreModuleGetKernelRegisters(noModule, 0) == 0);
  EXPECT(flashcoreModuleGetKernelLocalBytes(noModule, 0) == 0);
  EXPECT(flashcoreModuleGetKernelSharedBytes(noModule, 0) == 0);
  EXPECT(flashcorePlanGetWorkspaceBytes(noPlan) == 0);
  EXPECT(!*flashcorePlanGetText(noPlan));
  EXPECT(flashcoreStringGetLength(noString) == 0);
  EXPECT(!*flashcoreStringGetData(noString));

  flashcoreBundleDestroy(noBundle);
  flashcoreDeviceDestroy(noDevice);
  flashcoreModuleDestroy(noModule);
  flashcorePlanDestroy(noPlan);
  flashcoreStatusDestroy(noStatus);
  flashcoreStringDestroy(noString);
  flashcoreDeviceDestroy(device);
}

/* The number of what did not hold. `path` is a bundle of naiveManifest(). */
int flashcoreRunCApiTest(const char *path) {
  FlashCoreBundle bundle;
  EXPECT_OK(flashcoreBundleLoad(path, &bundle));
  EXPECT(strstr(flashcoreBundleGetManifest(bundle), "\"flashcore-bundle\""));
  testAttention(bundle);
  testOverlaps(bundle);
  testSharedBytes();
  testFinding(bundle);
  testRefusals(bundle);
  testNull(bundle);
  flashcoreBundleDestroy(bundle);
  return numFailures;
}
