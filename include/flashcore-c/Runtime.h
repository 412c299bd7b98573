/*===- Runtime.h - C interface of the runtime ---------------------*- C -*-===*\
|*                                                                            *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* Loads bundles and launches them on a GPU or on the emulator. A plan is a   *|
|* call with all sizes and strides fixed: made once, launched often, with     *|
|* nothing but pointers to change. Status.h has the rules of ownership,       *|
|* errors and threads; docs/Runtime.md says what is trusted and cached.       *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef FLASHCORE_C_RUNTIME_H
#define FLASHCORE_C_RUNTIME_H

#include "flashcore-c/Status.h"

#ifdef __cplusplus
extern "C" {
#endif

FLASHCORE_DEFINE_HANDLE(FlashCoreBundle);
/** For several threads at once; on the emulator they wait for each other. Each
 *  call leaves the CUDA context of its thread as it was. */
FLASHCORE_DEFINE_HANDLE(FlashCoreDevice);
/** A bundle's code on a device, or one kernel of other PTX. */
FLASHCORE_DEFINE_HANDLE(FlashCoreModule);
/** Not changed by launches, so for several threads at once. */
FLASHCORE_DEFINE_HANDLE(FlashCorePlan);

/* A handle keeps what it was made from alive: destroy them in any order. */

/*===----------------------------------------------------------------------===*\
|* Bundles                                                                    *|
\*===----------------------------------------------------------------------===*/

/** Reads and checks the bundle in the folder `path`. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus
flashcoreBundleLoad(const char *path, FlashCoreBundle *bundle);
FLASHCORE_CAPI_EXPORT void flashcoreBundleDestroy(FlashCoreBundle bundle);
/** The manifest as it stands in the bundle, which has been checked. */
FLASHCORE_CAPI_EXPORT const char *
flashcoreBundleGetManifest(FlashCoreBundle bundle);

/*===----------------------------------------------------------------------===*\
|* Devices                                                                    *|
\*===----------------------------------------------------------------------===*/

/** GPU `ordinal` of the CUDA driver, in its primary context, which PyTorch and
 *  the CUDA runtime use too. FlashCoreStatusNoDevice without GPU or driver. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus
flashcoreDeviceCreateCuda(int ordinal, FlashCoreDevice *device);
/** The emulator, with "name=value" options of flashcore-emu separated by
 *  spaces, such as "check=none threads=2"; null or "" for the defaults. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus
flashcoreDeviceCreateEmulator(const char *options, FlashCoreDevice *device);
FLASHCORE_CAPI_EXPORT void flashcoreDeviceDestroy(FlashCoreDevice device);

/** "cuda" or "emulator". */
FLASHCORE_CAPI_EXPORT const char *
flashcoreDeviceGetKind(FlashCoreDevice device);
/** "NVIDIA H100". */
FLASHCORE_CAPI_EXPORT const char *
flashcoreDeviceGetName(FlashCoreDevice device);
/** "sm_90"; of the emulator, which runs code for all chips, that of which it
 *  takes the kernels where there are several. */
FLASHCORE_CAPI_EXPORT const char *
flashcoreDeviceGetChip(FlashCoreDevice device);
FLASHCORE_CAPI_EXPORT int64_t
flashcoreDeviceGetMultiprocessors(FlashCoreDevice device);
/** Bytes of shared memory that a block may opt in to. */
FLASHCORE_CAPI_EXPORT int64_t
flashcoreDeviceGetSharedMemoryPerBlock(FlashCoreDevice device);
/** Whether the device runs the code of a variant of the bundle and has room for
 *  its kernels, so that flashcoreModuleLoad would try to load it. */
FLASHCORE_CAPI_EXPORT bool flashcoreDeviceRuns(FlashCoreDevice device,
                                               FlashCoreBundle bundle);

/** Findings of the emulator call the buffer `name`, which may be null. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus flashcoreDeviceAllocate(
    FlashCoreDevice device, int64_t bytes, const char *name, uint64_t *pointer);
FLASHCORE_CAPI_EXPORT FlashCoreStatus
flashcoreDeviceFree(FlashCoreDevice device, uint64_t pointer);
/** Both wait for the copy. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus flashcoreDeviceCopyToDevice(
    FlashCoreDevice device, uint64_t to, const void *from, int64_t bytes);
FLASHCORE_CAPI_EXPORT FlashCoreStatus flashcoreDeviceCopyToHost(
    FlashCoreDevice device, void *to, uint64_t from, int64_t bytes);
/** Waits for the work in the device's own stream. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus
flashcoreDeviceSynchronize(FlashCoreDevice device);
/** Waits for the work in a stream, as flashcorePlanLaunch takes it. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus
flashcoreDeviceSynchronizeStream(FlashCoreDevice device, void *stream);

/*===----------------------------------------------------------------------===*\
|* Modules                                                                    *|
\*===----------------------------------------------------------------------===*/

/** Loads the variant of the bundle that is best on the device. PTX without a
 *  cubin for the device is assembled by the driver, and the result kept in the
 *  folder that docs/Runtime.md names. The best is the newest that the device
 *  has room for, a cubin before PTX. Where the best one cannot be loaded,
 *  another that the device runs is, and flashcoreModuleGetWarning says why. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus flashcoreModuleLoad(
    FlashCoreDevice device, FlashCoreBundle bundle, FlashCoreModule *module);
/** Loads one kernel of any PTX text, for launches with this block and so many
 *  bytes of dynamic shared memory. Each parameter of the kernel has 8 bytes. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus flashcoreModuleLoadPtx(
    FlashCoreDevice device, const char *ptx, const char *kernel,
    const int64_t block[3], int64_t sharedBytes, FlashCoreModule *module);
FLASHCORE_CAPI_EXPORT void flashcoreModuleDestroy(FlashCoreModule module);
/** Which code runs, such as "cubin sm_89" or "PTX sm_90, cached". */
FLASHCORE_CAPI_EXPORT const char *
flashcoreModuleGetCode(FlashCoreModule module);
/** What the variant that runs was compiled for, such as "sm_90a". */
FLASHCORE_CAPI_EXPORT const char *
flashcoreModuleGetChip(FlashCoreModule module);
/** Why it is not the variant that is best on the device, which would be faster;
 *  "" if it is. */
FLASHCORE_CAPI_EXPORT const char *
flashcoreModuleGetWarning(FlashCoreModule module);
/** What the driver's assembler said, of each kernel its registers and spills;
 *  "" where it had nothing to do, as for a cubin or what was cached. */
FLASHCORE_CAPI_EXPORT const char *flashcoreModuleGetLog(FlashCoreModule module);

FLASHCORE_CAPI_EXPORT size_t
flashcoreModuleGetNumKernels(FlashCoreModule module);
FLASHCORE_CAPI_EXPORT const char *
flashcoreModuleGetKernelName(FlashCoreModule module, size_t kernel);
/** Registers of a thread, as the loaded code has them; on the emulator 0. */
FLASHCORE_CAPI_EXPORT int64_t
flashcoreModuleGetKernelRegisters(FlashCoreModule module, size_t kernel);
/** Bytes of local memory of a thread: what is spilled lies there. On the
 *  emulator 0. */
FLASHCORE_CAPI_EXPORT int64_t
flashcoreModuleGetKernelLocalBytes(FlashCoreModule module, size_t kernel);
/** Bytes of shared memory of a block, static and dynamic. */
FLASHCORE_CAPI_EXPORT int64_t
flashcoreModuleGetKernelSharedBytes(FlashCoreModule module, size_t kernel);

/** Starts one kernel on `grid` blocks with the caller's `count` arguments,
 * which are as many as its parameters; otherwise as flashcorePlanLaunch. What
 *  pointers lead to, and what sizes and strides say of it, is not checked. A
 *  kernel that takes tensor maps is refused: make a plan. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus flashcoreModuleLaunch(
    FlashCoreModule module, size_t kernel, const int64_t grid[3],
    const uint64_t *arguments, size_t count, void *stream);

/*===----------------------------------------------------------------------===*\
|* Plans                                                                      *|
\*===----------------------------------------------------------------------===*/

/** CU_STREAM_LEGACY and CU_STREAM_PER_THREAD of cuda.h. */
#define FLASHCORE_STREAM_LEGACY ((void *)1)
#define FLASHCORE_STREAM_PER_THREAD ((void *)2)

/** A tensor of a call: sizes in its axes' order (docs/Bundle.md; q, k, v, o:
 *  batch, heads, seqlen, head_dim), strides in elements. Strides of axes of
 *  size 1, and of tensors without elements, may be any number. */
typedef struct FlashCoreTensor {
  const char *name;
  const int64_t *sizes;
  const int64_t *strides;
  size_t rank;
} FlashCoreTensor;

/** Fixes sizes and strides of a call. `tensors` are those of the bundle, each
 *  once, in any order: "q", "k", "v", "o", and "lse", "scores" and "bias" where
 *  it has them, and so on. Launches write rows of "k" and "v" where there are
 *  "k_new" and "v_new". Pointers of a launch are those of element (0, ..., 0).
 * Inputs may have strides of 0, as views have that repeat elements; no stride
 * is negative. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus
flashcorePlanCreate(FlashCoreModule module, const FlashCoreTensor *tensors,
                    size_t count, FlashCorePlan *plan);
FLASHCORE_CAPI_EXPORT void flashcorePlanDestroy(FlashCorePlan plan);
/** Bytes of device memory that a launch writes for itself, aligned to 256
 *  bytes; often 0. Launches in order on one stream may share it. */
FLASHCORE_CAPI_EXPORT int64_t
flashcorePlanGetWorkspaceBytes(FlashCorePlan plan);
/** Words of --shape for the call, such as "B1 H8/8 S512x512 D64 f16". */
FLASHCORE_CAPI_EXPORT const char *flashcorePlanGetText(FlashCorePlan plan);

/** Starts the kernels after what `stream`, a CUstream, holds. Waits for nothing
 *  and allocates no memory, so a capturing stream records it. `pointers` are in
 *  the order of flashcorePlanCreate's tensors; only those of tensors without
 *  elements may be null. The driver has read them when this returns.
 *
 *  What a launch writes (outputs, the workspace, "k" and "v" with "k_new") must
 *  share no byte with anything else: blocks write it while others still read.
 *  Inputs may overlap, and tensors may lie in each other's gaps.
 *
 *  Null is the device's own stream, which does not wait for CUDA's default
 *  streams. Those are FLASHCORE_STREAM_LEGACY and FLASHCORE_STREAM_PER_THREAD:
 *  a caller whose default stream is 0, as PyTorch's is, passes the former.
 *
 *  The emulator has done the work when this returns, whatever the stream. What
 *  it finds is a FlashCoreStatusKernelFault with a note a finding. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus
flashcorePlanLaunch(FlashCorePlan plan, const uint64_t *pointers,
                    uint64_t workspace, void *stream);

/** The part of a launch's checks that asks for overlaps, for pointers of any
 *  memory: who copies tensors to a device asks it of where they come from. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus
flashcorePlanCheckOverlaps(FlashCorePlan plan, const uint64_t *pointers);

/** Whether an element of one tensor has a byte of an element of the other, of
 *  which launches write one. Elements are of `bytesOfA` and `bytesOfB` bytes,
 *  and `pointerOfA` and `pointerOfB`, of any memory, are those of element
 *  (0, ..., 0); strides may be negative here. Tensors may lie in each other's
 *  gaps, as the parts of a packed qkv do. Names are not looked at. Where
 *  finding out would take long, it is true; a null pointer, a size or a number
 *  of bytes below 0 is, too. */
FLASHCORE_CAPI_EXPORT bool
flashcoreTensorsShareBytes(const FlashCoreTensor *a, uint64_t pointerOfA,
                           int64_t bytesOfA, const FlashCoreTensor *b,
                           uint64_t pointerOfB, int64_t bytesOfB);

/*===----------------------------------------------------------------------===*\
|* The reference                                                              *|
\*===----------------------------------------------------------------------===*/

/** Attention in double precision on the CPU, on tensors in host memory. The
 *  outputs are rounded to their types, and rows to append are written to k and
 *  v. `pointers` and `tensors` as for plans,
 *  but of any strides and alignment; scale, mask, softcap and types are those
 *  of the bundle. `threads` of 0 takes all cores. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus flashcoreComputeReference(
    FlashCoreBundle bundle, const FlashCoreTensor *tensors,
    const uint64_t *pointers, size_t count, uint32_t threads);

/** How an output compares with the reference. `pass`: every error is at most
 *  what is allowed, which is twice the largest error (`yardstick`) of the same
 *  formula done in the input precision, plus 1e-5, or one step of the output's
 *  type where that is more. The other numbers are those of the worst element,
 *  which is at (batch, head, query, column), norms those of all errors. */
typedef struct FlashCoreOutputReport {
  bool pass;
  double error, allowed;
  double yardstick, norm, yardstickNorm;
  double expected, actual;
  int64_t at[4];
  /** Elements that are NaN, and that are infinite where the reference is not;
   *  of how many. */
  int64_t nans, infinities, elements;
} FlashCoreOutputReport;

/** Compares outputs in host memory with the reference for the inputs beside
 *  them; otherwise as flashcoreComputeReference. `k` and `v` are of the rows
 * that the call appended, where `pointers` have k and v as it left them: `at`
 * has the row of k_new. Reports may be null; without an lse, scores, or rows to
 * append, theirs are all zeros. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus
flashcoreCheckOutputs(FlashCoreBundle bundle, const FlashCoreTensor *tensors,
                      const uint64_t *pointers, size_t count, uint32_t threads,
                      FlashCoreOutputReport *o, FlashCoreOutputReport *lse,
                      FlashCoreOutputReport *scores, FlashCoreOutputReport *k,
                      FlashCoreOutputReport *v);

#ifdef __cplusplus
}
#endif

#endif /* FLASHCORE_C_RUNTIME_H */
