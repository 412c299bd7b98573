//===- OwnStack.cpp - Running where there is room to recurse --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Own code and not llvm::thread, which ends the process where no thread can be
// made.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Support/OwnStack.h"
#include "flashcore/Support/Errors.h"

#include <cstring>
#include <locale.h>
#include <pthread.h>

using namespace mlir::flashcore;

static constexpr size_t kStackSize = size_t(8) << 20;

llvm::Error mlir::flashcore::runOnOwnStack(llvm::function_ref<void()> body) {
  // Numbers that are printed here have a point, whatever the process wants.
  static const locale_t plainLocale = newlocale(LC_ALL_MASK, "C", nullptr);
  auto run = [](void *argument) -> void * {
    uselocale(plainLocale);
    (*static_cast<llvm::function_ref<void()> *>(argument))();
    return nullptr;
  };
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackSize);
  pthread_t thread;
  int error = pthread_create(&thread, &attributes, run, &body);
  pthread_attr_destroy(&attributes);
  if (error)
    return formatError("cannot start a thread with a stack of 8 MiB: {0}",
                       std::strerror(error));
  pthread_join(thread, nullptr);
  return llvm::Error::success();
}
