//===- Status.cpp - Errors and strings of the C interface -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A status is its kind and its text, a success a null handle.
//
//===----------------------------------------------------------------------===//

#include "capi/Status.h"

#include <exception>
#include <new>

using namespace flashcore;
using namespace flashcore::capi;

namespace {
struct Failure {
  FlashCoreStatusKind kind;
  std::string message, report;
};
} // namespace

/// For when there is no memory for a status either; never freed.
static Failure outOfMemory{FlashCoreStatusError, "out of memory", {}};

FlashCoreStatus capi::fail(FlashCoreStatusKind kind, std::string_view message) {
  return guarded([&]() -> FlashCoreStatus {
    return {new Failure{kind, std::string(message), {}}};
  });
}

FlashCoreStatus capi::nullError(const char *what) {
  return guarded(
      [&] { return fail(std::string("expects ") + what + ", but got null"); });
}

FlashCoreStatus capi::wrap(const Status &status) {
  if (status.ok())
    return success();
  return guarded([&]() -> FlashCoreStatus {
    FlashCoreStatusKind kind = status.isNoDevice() ? FlashCoreStatusNoDevice
                               : status.isKernelFault()
                                   ? FlashCoreStatusKernelFault
                                   : FlashCoreStatusError;
    return {new Failure{kind, status.str(), status.report()}};
  });
}

FlashCoreString capi::wrapString(std::string text) {
  return {new std::string(std::move(text))};
}

FlashCoreStatus capi::runGuarded(FlashCoreStatus (*run)(void *), void *body) {
  try {
    return run(body);
  } catch (const std::exception &) {
    // FlashCore throws nothing itself; the library does for lack of memory
    // (bad_alloc, length_error).
    return {&outOfMemory};
  }
}

bool flashcoreStatusIsSuccess(FlashCoreStatus status) { return !status.ptr; }
FlashCoreStatusKind flashcoreStatusGetKind(FlashCoreStatus status) {
  return status.ptr ? unwrap<Failure>(status)->kind : FlashCoreStatusSuccess;
}
const char *flashcoreStatusGetMessage(FlashCoreStatus status) {
  return status.ptr ? unwrap<Failure>(status)->message.c_str() : "";
}
const char *flashcoreStatusGetReport(FlashCoreStatus status) {
  return status.ptr ? unwrap<Failure>(status)->report.c_str() : "";
}
void flashcoreStatusDestroy(FlashCoreStatus status) {
  if (status.ptr != &outOfMemory)
    delete unwrap<Failure>(status);
}

const char *flashcoreStringGetData(FlashCoreString text) {
  return text.ptr ? unwrap<std::string>(text)->c_str() : "";
}
size_t flashcoreStringGetLength(FlashCoreString text) {
  return text.ptr ? unwrap<std::string>(text)->size() : 0;
}
void flashcoreStringDestroy(FlashCoreString text) {
  delete unwrap<std::string>(text);
}
