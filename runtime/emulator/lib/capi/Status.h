//===- Status.h - Handles and errors of the C interface ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each function of the C interface checks its handles, calls the C++ one and
// turns an Error or an exception into a status.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_CAPI_STATUS_H
#define FLASHCORE_EMULATOR_LIB_CAPI_STATUS_H

#include "flashcore-c/Emulator.h"
#include "flashcore/Emulator/Error.h"

#include <new>
#include <string>
#include <utility>

namespace flashcore::emu::capi {

/// The object of a handle, or null.
template <typename T, typename Handle> T *unwrap(Handle handle) {
  return static_cast<T *>(handle.ptr);
}

/// For when there is no memory for a status either; never freed.
inline Error outOfMemory{{}, "out of memory"};

inline FlashCoreEmuStatus success() { return {nullptr}; }

inline FlashCoreEmuStatus fail(Error error) {
  return {new Error(std::move(error))};
}

inline FlashCoreEmuStatus fail(std::string message) {
  return fail(Error{{}, std::move(message)});
}

inline FlashCoreEmuStatus nullError(const char *what) {
  return fail(std::string("expects ") + what + ", but got null");
}

/// Runs `body`, which returns a status; exceptions end here.
template <typename F> FlashCoreEmuStatus guarded(F body) noexcept {
  try {
    return body();
  } catch (const std::exception &) {
    // The emulator throws nothing itself; the library does for lack of memory
    // (bad_alloc, length_error).
    return {&outOfMemory};
  }
}

/// Runs `body` on the object of a handle.
template <typename T, typename Handle, typename F>
FlashCoreEmuStatus with(Handle handle, const char *what, F body) noexcept {
  return guarded([&] {
    T *object = unwrap<T>(handle);
    return object ? body(*object) : nullError(what);
  });
}

/// Makes a new object; `make` fills an Expected.
template <typename T, typename Handle, typename F>
FlashCoreEmuStatus create(Handle *handle, const char *what, F make) noexcept {
  if (handle)
    handle->ptr = nullptr;
  return guarded([&] {
    if (!handle)
      return nullError(what);
    Expected<T> made = make();
    if (!made)
      return fail(made.error());
    handle->ptr = new T(std::move(*made));
    return success();
  });
}

} // namespace flashcore::emu::capi

#endif // FLASHCORE_EMULATOR_LIB_CAPI_STATUS_H
