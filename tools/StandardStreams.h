//===- StandardStreams.h - Descriptors 0 to 2 are open ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program that is started with a standard stream closed gets its number for
// the next file that it opens, and then writes its messages into that file.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_TOOLS_STANDARDSTREAMS_H
#define FLASHCORE_TOOLS_STANDARDSTREAMS_H

#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>

namespace flashcore {

/// Opens /dev/null for each standard stream that is closed; where there is none
/// (an empty root), a file that no one else sees. Comes first in every main.
inline void openStandardStreams() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (fcntl(stream, F_GETFD) >= 0 || errno != EBADF)
      continue;
    // Those below are open, so this is the number that a new file gets. What is
    // written to a closed standard output stays an error.
    if (open("/dev/null", stream == 1 ? O_RDONLY : O_RDWR) < 0)
      (void)memfd_create("closed stream", 0);
  }
}

} // namespace flashcore

#endif // FLASHCORE_TOOLS_STANDARDSTREAMS_H
