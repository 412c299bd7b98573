//===- CNumbers.h - Numbers as in C, in any locale --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_SUPPORT_CNUMBERS_H
#define FLASHCORE_SUPPORT_CNUMBERS_H

#include <locale.h>

namespace mlir::flashcore {

/// While this exists, what the thread reads and writes as numbers has a decimal
/// point, whatever the locale of the program: LLVM reads JSON with strtod and
/// writes it with printf.
class CNumbers {
public:
  CNumbers() : c(newlocale(LC_ALL_MASK, "C", nullptr)), before(uselocale(c)) {}
  ~CNumbers() {
    uselocale(before);
    if (c)
      freelocale(c);
  }
  CNumbers(const CNumbers &) = delete;
  CNumbers &operator=(const CNumbers &) = delete;

private:
  locale_t c, before;
};

} // namespace mlir::flashcore

#endif // FLASHCORE_SUPPORT_CNUMBERS_H
