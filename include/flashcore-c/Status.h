/*===- Status.h - Errors and strings of the C interface -----------*- C -*-===*\
|*                                                                            *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* Ownership: whatever a function gives through its last parameter belongs to *|
|* the caller and is released by the Destroy function of its type, which      *|
|* accepts a null handle. A `const char *` that a function returns lives as   *|
|* long as the object it came from. Strings that go in are copied.            *|
|*                                                                            *|
|* Errors: functions that can fail return a FlashCoreStatus, also owned by    *|
|* the caller. On an error what they were to give is a null handle or 0. A    *|
|* null handle or null pointer where none is allowed is such an error;        *|
|* functions that return a plain value then return 0, false or "". No C++     *|
|* exception leaves this interface, and bad input never ends the process.     *|
|*                                                                            *|
|* Threads: functions may be called by several threads at once. An object may *|
|* be changed by one thread at a time, and used by several while none does;   *|
|* what else holds is said at the type.                                       *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef FLASHCORE_C_STATUS_H
#define FLASHCORE_C_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define FLASHCORE_CAPI_EXPORT
#else
#define FLASHCORE_CAPI_EXPORT __attribute__((visibility("default")))
#endif

#define FLASHCORE_DEFINE_HANDLE(name)                                          \
  typedef struct name {                                                        \
    void *ptr;                                                                 \
  } name

/* C callers may pass what is no value of an enumeration; in C++ one that names
   its type, which is the one C gives it, can hold that and report it. */
#ifdef __cplusplus
#define FLASHCORE_ENUM_TYPE : unsigned
extern "C" {
#else
#define FLASHCORE_ENUM_TYPE
#endif

FLASHCORE_DEFINE_HANDLE(FlashCoreStatus);
FLASHCORE_DEFINE_HANDLE(FlashCoreString);

typedef enum FlashCoreStatusKind FLASHCORE_ENUM_TYPE {
  FlashCoreStatusSuccess,
  FlashCoreStatusError,
  /** There is no device of the kind asked for. */
  FlashCoreStatusNoDevice,
  /** A kernel ran and misbehaved: a fault, or a finding of the emulator. */
  FlashCoreStatusKernelFault,
  /** The attention is right, but the compiler has no kernel for it. */
  FlashCoreStatusUnsupported
} FlashCoreStatusKind;

/** True for a success; a success needs no Destroy. */
FLASHCORE_CAPI_EXPORT bool flashcoreStatusIsSuccess(FlashCoreStatus status);
FLASHCORE_CAPI_EXPORT FlashCoreStatusKind
flashcoreStatusGetKind(FlashCoreStatus status);
/** What is wrong, "expects X, but got Y", then a line "  note: ..." a note;
 *  "" for a success. */
FLASHCORE_CAPI_EXPORT const char *
flashcoreStatusGetMessage(FlashCoreStatus status);
/** What the emulator found, as the JSON document of flashcore-emu; "" for any
 *  other error. */
FLASHCORE_CAPI_EXPORT const char *
flashcoreStatusGetReport(FlashCoreStatus status);
FLASHCORE_CAPI_EXPORT void flashcoreStatusDestroy(FlashCoreStatus status);

FLASHCORE_CAPI_EXPORT const char *flashcoreStringGetData(FlashCoreString text);
FLASHCORE_CAPI_EXPORT size_t flashcoreStringGetLength(FlashCoreString text);
FLASHCORE_CAPI_EXPORT void flashcoreStringDestroy(FlashCoreString text);

#ifdef __cplusplus
}
#endif

#endif /* FLASHCORE_C_STATUS_H */
