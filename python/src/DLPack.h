//===- DLPack.h - What we use of DLPack 1.3 ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Written after the specification: the structures of DLPack 1.3 and its C
// exchange API, with the members in the order that the ABI has them. A producer
// of another major version may be told apart, but not read.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_PYTHON_DLPACK_H
#define FLASHCORE_PYTHON_DLPACK_H

#include <cstdint>

namespace flashcore::python::dlpack {

constexpr uint32_t majorVersion = 1;

struct Version {
  uint32_t major, minor;
};

enum DeviceType : int32_t {
  CPU = 1,
  CUDA = 2,
  CUDAHost = 3,
  CUDAManaged = 13,
};
struct Device {
  int32_t type, id;
};

enum TypeCode : uint8_t {
  Int = 0,
  UInt = 1,
  Float = 2,
  BFloat = 4,
  Complex = 5,
  Bool = 6,
};
struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};

struct Tensor {
  void *data;
  Device device;
  int32_t rank;
  DataType type;
  int64_t *sizes;
  int64_t *strides; ///< In elements; null before 1.2 stands for contiguous.
  uint64_t byteOffset;
};

/// In a capsule named "dltensor".
struct ManagedTensor {
  Tensor tensor;
  void *context;
  void (*deleter)(ManagedTensor *self);
};

constexpr uint64_t flagReadOnly = 1;

/// In a capsule named "dltensor_versioned".
struct ManagedTensorVersioned {
  Version version;
  void *context;
  void (*deleter)(ManagedTensorVersioned *self);
  uint64_t flags;
  Tensor tensor;
};

/// What `type(tensor).__dlpack_c_exchange_api__` holds in a capsule named
/// "dlpack_exchange_api". Functions return 0, or -1 with a Python exception.
struct ExchangeApi {
  Version version;
  /// An older table, for consumers that do not know this one.
  ExchangeApi *previous;
  int (*allocate)(Tensor *prototype, ManagedTensorVersioned **result,
                  void *errorContext,
                  void (*setError)(void *errorContext, const char *kind,
                                   const char *message));
  int (*fromObject)(void *object, ManagedTensorVersioned **result);
  int (*toObject)(ManagedTensorVersioned *tensor, void **object);
  /// May be null. What it gives is valid while the caller keeps control.
  int (*borrow)(void *object, Tensor *result);
  int (*currentStream)(DeviceType device, int32_t id, void **stream);
};

} // namespace flashcore::python::dlpack

#endif // FLASHCORE_PYTHON_DLPACK_H
