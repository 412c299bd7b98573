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
/** A GPU may be used by several threads at once, the emulator by one at a
 *  time. Destroy it after its modules. */
FLASHCORE_DEFINE_HANDLE(FlashCoreDevice);
/** A bundle's code on a device. It holds what it needs of the bundle. Destroy
 *  it after its plans. */
FLASHCORE_DEFINE_HANDLE(FlashCoreModule);
/** Not changed by launches, so for as many threads as its device. */
FLASHCORE_DEFINE_HANDLE(FlashCorePlan);

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
 *  the CUDA runtime use too. Without a GPU or driver FlashCoreStatusNoDevice. */
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
/** "sm_90"; of the emulator, which runs all, the newest it knows. */
FLASHCORE_CAPI_EXPORT const char *
flashcoreDeviceGetChip(FlashCoreDevice device);
FLASHCORE_CAPI_EXPORT int64_t
flashcoreDeviceGetMultiprocessors(FlashCoreDevice device);

/** Findings of the emulator call the buffer `name`, which may be null. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus
flashcoreDeviceAllocate(FlashCoreDevice device, int64_t bytes, const char *name,
                        uint64_t *pointer);
FLASHCORE_CAPI_EXPORT FlashCoreStatus
flashcoreDeviceFree(FlashCoreDevice device, uint64_t pointer);
/** Both wait for the copy. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus
flashcoreDeviceCopyToDevice(FlashCoreDevice device, uint64_t to,
                            const void *from, int64_t bytes);
FLASHCORE_CAPI_EXPORT FlashCoreStatus
flashcoreDeviceCopyToHost(FlashCoreDevice device, void *to, uint64_t from,
                          int64_t bytes);
/** Waits for the work in the device's own stream. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus
flashcoreDeviceSynchronize(FlashCoreDevice device);

/*===----------------------------------------------------------------------===*\
|* Modules                                                                    *|
\*===----------------------------------------------------------------------===*/

/** Loads the variant of the bundle that the device runs. PTX without a cubin
 *  for the device is assembled by the driver, and the result kept. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus
flashcoreModuleLoad(FlashCoreDevice device, FlashCoreBundle bundle,
                    FlashCoreModule *module);
FLASHCORE_CAPI_EXPORT void flashcoreModuleDestroy(FlashCoreModule module);
/** Which code runs, such as "cubin sm_89" or "PTX sm_90, cached". */
FLASHCORE_CAPI_EXPORT const char *
flashcoreModuleGetCode(FlashCoreModule module);

/*===----------------------------------------------------------------------===*\
|* Plans                                                                      *|
\*===----------------------------------------------------------------------===*/

/** A tensor of a call: sizes in its axes' order (docs/Bundle.md; q, k, v, o:
 *  batch, heads, seqlen, head_dim), strides in elements. */
typedef struct FlashCoreTensor {
  const char *name;
  const int64_t *sizes;
  const int64_t *strides;
  size_t rank;
} FlashCoreTensor;

/** Fixes sizes and strides of a call. `tensors` are those of the bundle, each
 *  once, in any order: "q", "k", "v", "o", and "lse" and "bias" where it has
 *  them. Pointers of a launch are those of element (0, ..., 0). */
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

/** Starts the kernels after what `stream` holds (a CUstream; null is the
 *  device's own stream, which is not CUDA's default stream; CUDA's legacy
 *  default stream is CU_STREAM_LEGACY). Waits for nothing and allocates no
 *  device memory, so a capturing stream records it. `pointers` are in the
 *  order of flashcorePlanCreate's tensors; the driver has read them when this
 *  returns. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus
flashcorePlanLaunch(FlashCorePlan plan, const uint64_t *pointers,
                    uint64_t workspace, void *stream);

/*===----------------------------------------------------------------------===*\
|* The reference                                                              *|
\*===----------------------------------------------------------------------===*/

/** Attention in double precision on the CPU, on tensors in host memory. The
 *  outputs are rounded to their types. `pointers` and `tensors` as for plans,
 *  the attention (scale, mask, softcap, types) that of the bundle. */
FLASHCORE_CAPI_EXPORT FlashCoreStatus flashcoreComputeReference(
    FlashCoreBundle bundle, const FlashCoreTensor *tensors,
    const uint64_t *pointers, size_t count, uint32_t threads);

#ifdef __cplusplus
}
#endif

#endif /* FLASHCORE_C_RUNTIME_H */
