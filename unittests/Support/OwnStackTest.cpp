//===- OwnStackTest.cpp - Running where there is room to recurse ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Support/OwnStack.h"
#include "gtest/gtest.h"

#include <locale.h>
#include <pthread.h>
#include <sys/resource.h>

using namespace mlir::flashcore;

static size_t getStackSize() {
  pthread_attr_t attributes;
  pthread_getattr_np(pthread_self(), &attributes);
  size_t size = 0;
  void *lowest = nullptr;
  pthread_attr_getstack(&attributes, &lowest, &size);
  pthread_attr_destroy(&attributes);
  return size;
}

TEST(OwnStack, HasTheSameSizeWhoeverCalls) {
  struct Sizes {
    size_t caller = 0, callee = 0;
  } sizes;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  pthread_t caller;
  auto run = [](void *argument) -> void * {
    auto &sizes = *static_cast<Sizes *>(argument);
    sizes.caller = getStackSize();
    llvm::cantFail(runOnOwnStack([&] { sizes.callee = getStackSize(); }));
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&caller, &attributes, run, &sizes), 0);
  pthread_join(caller, nullptr);
  pthread_attr_destroy(&attributes);
  EXPECT_LT(sizes.caller, 1u << 20);
  EXPECT_GE(sizes.callee, 8u << 20);
}

TEST(OwnStack, HasALocaleOfItsOwn) {
  ASSERT_EQ(uselocale(nullptr), LC_GLOBAL_LOCALE);
  locale_t inside = LC_GLOBAL_LOCALE;
  llvm::cantFail(runOnOwnStack([&] { inside = uselocale(nullptr); }));
  EXPECT_NE(inside, LC_GLOBAL_LOCALE);
  EXPECT_EQ(uselocale(nullptr), LC_GLOBAL_LOCALE);
}

TEST(OwnStack, IsAnErrorWhereThereIsNoRoom) {
#if LLVM_ADDRESS_SANITIZER_BUILD || LLVM_THREAD_SANITIZER_BUILD
  GTEST_SKIP() << "a sanitizer ends the process instead";
#endif
  std::string message;
  bool hasRun = false;
  // The first one takes a stack that libc may have kept.
  llvm::cantFail(runOnOwnStack([&] {
    rlimit before;
    getrlimit(RLIMIT_AS, &before);
    rlimit none = before;
    none.rlim_cur = 1;
    setrlimit(RLIMIT_AS, &none);
    llvm::Error error = runOnOwnStack([&] { hasRun = true; });
    setrlimit(RLIMIT_AS, &before);
    message = llvm::toString(std::move(error));
  }));
  EXPECT_EQ(message, "cannot start a thread with a stack of 8 MiB: Resource "
                     "temporarily unavailable");
  EXPECT_FALSE(hasRun);
}
