//===- Status.h - What the C interface is written with ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes the statuses and strings of flashcore-c/Status.h, and ends exceptions
// before they leave. Also for the compiler's half, which is C++17 built without
// exceptions: those that memory raises pass through it and end in `guarded`.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_CAPI_STATUS_H
#define FLASHCORE_RUNTIME_LIB_CAPI_STATUS_H

#include "flashcore-c/Status.h"

#include "flashcore/Runtime/Status.h"

namespace flashcore::capi {

inline FlashCoreStatus success() { return {nullptr}; }

/// An error of `kind`. Without memory for it, one that says so.
FlashCoreStatus fail(FlashCoreStatusKind kind, std::string_view message);
inline FlashCoreStatus fail(std::string_view message) {
  return fail(FlashCoreStatusError, message);
}
/// "expects `what`, but got null".
FlashCoreStatus nullError(const char *what);
FlashCoreStatus wrap(const Status &status);

/// Throws std::bad_alloc, so call it in `guarded`.
FlashCoreString wrapString(std::string text);

FlashCoreStatus runGuarded(FlashCoreStatus (*run)(void *body), void *body);

/// Runs `body`, which returns a FlashCoreStatus; exceptions end here.
template <typename F> FlashCoreStatus guarded(F body) {
  return runGuarded([](void *each) { return (*static_cast<F *>(each))(); },
                    &body);
}

/// The object of a handle, or null.
template <typename T, typename Handle> T *unwrap(Handle handle) {
  return static_cast<T *>(handle.ptr);
}

/// Runs `body` on the object of a handle.
template <typename T, typename Handle, typename F>
FlashCoreStatus with(Handle handle, const char *what, F body) {
  return guarded([&] {
    T *object = unwrap<T>(handle);
    return object ? body(*object) : nullError(what);
  });
}

/// Puts what `make`, which returns a StatusOr<T>, makes into a new handle.
template <typename T, typename Handle, typename F>
FlashCoreStatus create(Handle *handle, const char *what, F make) {
  if (handle)
    handle->ptr = nullptr;
  return guarded([&] {
    if (!handle)
      return nullError(what);
    StatusOr<T> made = make();
    if (!made.ok())
      return wrap(made.status());
    handle->ptr = new T(std::move(*made));
    return success();
  });
}

} // namespace flashcore::capi

#endif // FLASHCORE_RUNTIME_LIB_CAPI_STATUS_H
