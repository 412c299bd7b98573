/*===- Emulator.h - C interface of the PTX emulator ---------------*- C -*-===*\
|*                                                                            *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* Runs and checks PTX on a CPU. See flashcore/Emulator/Emulator.h for what   *|
|* the pieces mean, and docs/Emulator.md for an example.                      *|
|*                                                                            *|
|* Ownership: whatever a function gives through its last parameter belongs to *|
|* the caller and is released by the Destroy function of its type, which      *|
|* accepts a null handle. A `const char *` that a function returns lives as   *|
|* long as the object it came from. Strings that go in are copied.            *|
|*                                                                            *|
|* Errors: functions that can fail return a FlashCoreEmuStatus, also owned by *|
|* the caller. On an error what they were to give is a null handle or 0. A    *|
|* null handle or null pointer where none is allowed is such an error;        *|
|* functions that return a plain value then return 0, false or "". No C++     *|
|* exception leaves this interface.                                           *|
|*                                                                            *|
|* Threads: an object may be used by one thread at a time.                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef FLASHCORE_C_EMULATOR_H
#define FLASHCORE_C_EMULATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FLASHCORE_EMU_DEFINE_HANDLE(name)                                      \
  typedef struct name {                                                        \
    void *ptr;                                                                 \
  } name

FLASHCORE_EMU_DEFINE_HANDLE(FlashCoreEmuStatus);
FLASHCORE_EMU_DEFINE_HANDLE(FlashCoreEmuString);
FLASHCORE_EMU_DEFINE_HANDLE(FlashCoreEmuKernelList);
FLASHCORE_EMU_DEFINE_HANDLE(FlashCoreEmuKernel);
FLASHCORE_EMU_DEFINE_HANDLE(FlashCoreEmuMemory);
FLASHCORE_EMU_DEFINE_HANDLE(FlashCoreEmuArguments);
FLASHCORE_EMU_DEFINE_HANDLE(FlashCoreEmuOptions);
FLASHCORE_EMU_DEFINE_HANDLE(FlashCoreEmuReport);

#undef FLASHCORE_EMU_DEFINE_HANDLE

typedef struct FlashCoreEmuDim3 {
  uint32_t x, y, z;
} FlashCoreEmuDim3;

/*===----------------------------------------------------------------------===*\
|* Status and strings                                                         *|
\*===----------------------------------------------------------------------===*/

/** True for a success; a success needs no Destroy. */
bool flashcoreEmuStatusIsSuccess(FlashCoreEmuStatus status);
/** What is wrong; "" for a success. */
const char *flashcoreEmuStatusGetMessage(FlashCoreEmuStatus status);
/** The place in the PTX text, counted from 1; 0 when there is none. */
uint32_t flashcoreEmuStatusGetLine(FlashCoreEmuStatus status);
uint32_t flashcoreEmuStatusGetColumn(FlashCoreEmuStatus status);
void flashcoreEmuStatusDestroy(FlashCoreEmuStatus status);

const char *flashcoreEmuStringGetData(FlashCoreEmuString string);
size_t flashcoreEmuStringGetLength(FlashCoreEmuString string);
void flashcoreEmuStringDestroy(FlashCoreEmuString string);

/*===----------------------------------------------------------------------===*\
|* Kernels                                                                    *|
\*===----------------------------------------------------------------------===*/

/** The names of the kernels of a module. */
FlashCoreEmuStatus flashcoreEmuKernelListCreate(const char *ptx,
                                                FlashCoreEmuKernelList *list);
size_t flashcoreEmuKernelListGetSize(FlashCoreEmuKernelList list);
const char *flashcoreEmuKernelListGetName(FlashCoreEmuKernelList list,
                                          size_t index);
void flashcoreEmuKernelListDestroy(FlashCoreEmuKernelList list);

/** Loads one kernel. A null or empty `name` takes the only one there is. */
FlashCoreEmuStatus flashcoreEmuKernelCreate(const char *ptx, const char *name,
                                            FlashCoreEmuKernel *kernel);
const char *flashcoreEmuKernelGetName(FlashCoreEmuKernel kernel);
/** The sm_NN that the module is written for. */
const char *flashcoreEmuKernelGetTarget(FlashCoreEmuKernel kernel);
size_t flashcoreEmuKernelGetNumParams(FlashCoreEmuKernel kernel);
const char *flashcoreEmuKernelGetParamName(FlashCoreEmuKernel kernel,
                                           size_t index);
uint32_t flashcoreEmuKernelGetParamBytes(FlashCoreEmuKernel kernel,
                                         size_t index);
uint64_t flashcoreEmuKernelGetStaticSharedBytes(FlashCoreEmuKernel kernel);
/** The block size that .reqntid asks for; zeros if it does not. */
FlashCoreEmuDim3 flashcoreEmuKernelGetRequiredBlock(FlashCoreEmuKernel kernel);
void flashcoreEmuKernelDestroy(FlashCoreEmuKernel kernel);

/** What is in a module, as a JSON document: its kernels with their parameters
 *  (name, kind, type, size, alignment, offset), shared memory, blocks and what
 *  they use, or why one cannot run; and how flashcore-compile says that they
 *  are launched. docs/Emulator.md says what its fields are. */
FlashCoreEmuStatus flashcoreEmuDescribe(const char *ptx,
                                        FlashCoreEmuString *json);

/*===----------------------------------------------------------------------===*\
|* Global memory                                                              *|
\*===----------------------------------------------------------------------===*/

FlashCoreEmuStatus flashcoreEmuMemoryCreate(FlashCoreEmuMemory *memory);
void flashcoreEmuMemoryDestroy(FlashCoreEmuMemory memory);

/** A new buffer, at most 32 GiB, aligned as cudaMalloc does. Findings call it
 *  `name`. What nobody writes is poison, and reading it is a finding. */
FlashCoreEmuStatus flashcoreEmuMemoryAllocate(FlashCoreEmuMemory memory,
                                              const char *name, uint64_t bytes,
                                              uint64_t *address);
/** `address` is the start of a buffer. */
FlashCoreEmuStatus flashcoreEmuMemoryRelease(FlashCoreEmuMemory memory,
                                             uint64_t address);
/** Makes a whole buffer poison again; `address` lies in it. */
FlashCoreEmuStatus flashcoreEmuMemoryPoison(FlashCoreEmuMemory memory,
                                            uint64_t address);
/** The ranges of these must lie inside one buffer. */
FlashCoreEmuStatus flashcoreEmuMemoryWrite(FlashCoreEmuMemory memory,
                                           uint64_t address, const void *data,
                                           uint64_t bytes);
FlashCoreEmuStatus flashcoreEmuMemoryFill(FlashCoreEmuMemory memory,
                                          uint64_t address, uint8_t value,
                                          uint64_t bytes);
FlashCoreEmuStatus flashcoreEmuMemoryRead(FlashCoreEmuMemory memory,
                                          uint64_t address, uint64_t bytes,
                                          void *data);
/** Says that a tensor of `rank` axes, outermost first, lies at `address`, so
 * that the layout check can follow its elements; `strides` count elements, and
 * null is dense and row-major. Replaces what was said of the buffer before. An
 * error if it does not fit into one buffer or two elements share a place. */
FlashCoreEmuStatus
flashcoreEmuMemoryDescribe(FlashCoreEmuMemory memory, uint64_t address,
                           uint32_t elementBytes, size_t rank,
                           const uint64_t *shape, const uint64_t *strides);
/** Bytes that hold no defined value of the buffer in which `address` lies:
    nobody has written them, or with what itself is undefined. */
FlashCoreEmuStatus
flashcoreEmuMemoryGetUninitializedBytes(FlashCoreEmuMemory memory,
                                        uint64_t address, uint64_t *bytes);

/*===----------------------------------------------------------------------===*\
|* Arguments, in the order of the kernel's parameters                         *|
\*===----------------------------------------------------------------------===*/

FlashCoreEmuStatus
flashcoreEmuArgumentsCreate(FlashCoreEmuArguments *arguments);
void flashcoreEmuArgumentsDestroy(FlashCoreEmuArguments arguments);
FlashCoreEmuStatus flashcoreEmuArgumentsAddPointer(FlashCoreEmuArguments to,
                                                   uint64_t address);
FlashCoreEmuStatus flashcoreEmuArgumentsAddInt32(FlashCoreEmuArguments to,
                                                 int32_t value);
FlashCoreEmuStatus flashcoreEmuArgumentsAddInt64(FlashCoreEmuArguments to,
                                                 int64_t value);
FlashCoreEmuStatus flashcoreEmuArgumentsAddFloat(FlashCoreEmuArguments to,
                                                 float value);
FlashCoreEmuStatus flashcoreEmuArgumentsAddDouble(FlashCoreEmuArguments to,
                                                  double value);
/** Any other parameter, as its bytes. */
FlashCoreEmuStatus flashcoreEmuArgumentsAddBytes(FlashCoreEmuArguments to,
                                                 const void *data,
                                                 size_t bytes);

/** Bytes of a tensor map, which a kernel takes as one parameter. */
#define FLASHCORE_EMU_TENSOR_MAP_BYTES 128

/** What cuTensorMapEncodeTiled takes, innermost axis first: nothing is
 *  interleaved, and what lies outside of the tensor is zero. */
typedef struct FlashCoreEmuTensorMap {
  uint64_t address;
  uint32_t elementBytes; /**< 1, 2, 4 or 8 */
  uint32_t rank;         /**< 1 to 5 */
  uint64_t sizes[5];
  /** Bytes between elements along an axis; that of axis 0 is not looked at. */
  uint64_t strides[5];
  uint32_t box[5];
  uint32_t elementStrides[5]; /**< 0 is 1 */
  uint32_t swizzleBytes;      /**< 0 (none), 32, 64 or 128 */
} FlashCoreEmuTensorMap;

/** Writes the FLASHCORE_EMU_TENSOR_MAP_BYTES bytes of a tensor map to `bytes`.
 *  They mean something to the emulator only, which takes no map of a driver. */
FlashCoreEmuStatus flashcoreEmuEncodeTensorMap(const FlashCoreEmuTensorMap *map,
                                               void *bytes);

/*===----------------------------------------------------------------------===*\
|* Options                                                                    *|
\*===----------------------------------------------------------------------===*/

/* C callers may pass what is no value of an enumeration; in C++ one that names
   its type, which is the one C gives it, can hold that and report it. */
#ifdef __cplusplus
#define FLASHCORE_EMU_ENUM_TYPE : unsigned
#else
#define FLASHCORE_EMU_ENUM_TYPE
#endif

typedef enum FlashCoreEmuMma FLASHCORE_EMU_ENUM_TYPE {
  FlashCoreEmuMmaAuto,  /**< by the target of the module */
  FlashCoreEmuMmaPlain, /**< f32 fma, one product after the other */
  FlashCoreEmuMmaSm80,  /**< as sm_80, sm_86 and sm_89 round */
  FlashCoreEmuMmaSm90   /**< as sm_90 rounds, and newer chips here */
} FlashCoreEmuMma;

/** The order of the warps of a CTA. */
typedef enum FlashCoreEmuSchedule FLASHCORE_EMU_ENUM_TYPE {
  FlashCoreEmuScheduleSequential,
  FlashCoreEmuScheduleSkewed,
  FlashCoreEmuScheduleRandom
} FlashCoreEmuSchedule;

/** When cp.async moves its bytes. */
typedef enum FlashCoreEmuAsync FLASHCORE_EMU_ENUM_TYPE {
  FlashCoreEmuAsyncLazy,  /**< at the wait */
  FlashCoreEmuAsyncEager, /**< at the issue */
  FlashCoreEmuAsyncRandom
} FlashCoreEmuAsync;

/** Where dynamic shared memory begins behind the static part. */
typedef enum FlashCoreEmuSharedBase FLASHCORE_EMU_ENUM_TYPE {
  FlashCoreEmuSharedBaseDriver,  /**< at a multiple of 1024 */
  FlashCoreEmuSharedBaseDeclared /**< at what the kernel declares, no better */
} FlashCoreEmuSharedBase;

/** Options with their defaults: all checks, one thread. */
FlashCoreEmuStatus flashcoreEmuOptionsCreate(FlashCoreEmuOptions *options);
void flashcoreEmuOptionsDestroy(FlashCoreEmuOptions options);
/** "all", "none", or a list such as "memory,race". */
FlashCoreEmuStatus flashcoreEmuOptionsSetChecks(FlashCoreEmuOptions options,
                                                const char *checks);
FlashCoreEmuStatus flashcoreEmuOptionsSetMma(FlashCoreEmuOptions options,
                                             FlashCoreEmuMma mma);
FlashCoreEmuStatus flashcoreEmuOptionsSetSchedule(FlashCoreEmuOptions options,
                                                  FlashCoreEmuSchedule schedule,
                                                  uint64_t seed);
FlashCoreEmuStatus flashcoreEmuOptionsSetAsync(FlashCoreEmuOptions options,
                                               FlashCoreEmuAsync async,
                                               uint64_t seed);
/** Threads to run CTAs on; 0 means as many as the host has. */
FlashCoreEmuStatus flashcoreEmuOptionsSetThreads(FlashCoreEmuOptions options,
                                                 uint32_t threads);
/** Warp instructions after which a launch stops; 0 means no limit. */
FlashCoreEmuStatus
flashcoreEmuOptionsSetMaxInstructions(FlashCoreEmuOptions options,
                                      uint64_t maxInstructions);
/** Shared memory that a CTA may have; 0, the default: as on the chips of the
 *  .target. */
FlashCoreEmuStatus
flashcoreEmuOptionsSetMaxSharedBytes(FlashCoreEmuOptions options,
                                     uint64_t maxSharedBytes);
FlashCoreEmuStatus
flashcoreEmuOptionsSetSharedBase(FlashCoreEmuOptions options,
                                 FlashCoreEmuSharedBase base);
/** Whether to count instructions and memory traffic. */
FlashCoreEmuStatus flashcoreEmuOptionsSetCounters(FlashCoreEmuOptions options,
                                                  bool counters);

/*===----------------------------------------------------------------------===*\
|* Launch and report                                                          *|
\*===----------------------------------------------------------------------===*/

/** Runs a grid. An error means that the launch itself was wrong; what the
 *  kernel did wrong is in the report. Null `options` are the defaults. */
FlashCoreEmuStatus
flashcoreEmuLaunch(FlashCoreEmuKernel kernel, FlashCoreEmuMemory memory,
                   FlashCoreEmuDim3 grid, FlashCoreEmuDim3 block,
                   uint64_t dynamicSharedBytes, FlashCoreEmuArguments arguments,
                   FlashCoreEmuOptions options, FlashCoreEmuReport *report);

/** True if nothing was found; false for a null handle. */
bool flashcoreEmuReportIsClean(FlashCoreEmuReport report);
size_t flashcoreEmuReportGetNumFindings(FlashCoreEmuReport report);
/** What is worth knowing but no fault; a report with notes alone is clean. */
size_t flashcoreEmuReportGetNumNotes(FlashCoreEmuReport report);
/** Threads that ran CTAs. */
uint32_t flashcoreEmuReportGetNumThreads(FlashCoreEmuReport report);
/** The report for people or for tools; null `file` names no PTX file. */
FlashCoreEmuStatus flashcoreEmuReportGetText(FlashCoreEmuReport report,
                                             const char *file,
                                             FlashCoreEmuString *text);
FlashCoreEmuStatus flashcoreEmuReportGetJson(FlashCoreEmuReport report,
                                             const char *file,
                                             FlashCoreEmuString *json);
void flashcoreEmuReportDestroy(FlashCoreEmuReport report);

#ifdef __cplusplus
}
#endif

#endif /* FLASHCORE_C_EMULATOR_H */
