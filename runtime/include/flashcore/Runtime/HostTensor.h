//===- HostTensor.h - Tensors in host memory --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The host copy of one tensor of a problem, gaps and guards included. All bytes
// that are not elements hold a NaN pattern: a kernel that reads them spoils its
// result, and one that writes them is found afterwards.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_HOSTTENSOR_H
#define FLASHCORE_RUNTIME_HOSTTENSOR_H

#include "flashcore/Runtime/Problem.h"
#include "flashcore/Runtime/Reference.h"

#include <cstddef>
#include <span>

namespace flashcore {

/// A quiet NaN as f32, and as both halves in f16 and in bf16. No GPU computes
/// it (they return 0x7fff and 0x7fffffff), so it also marks unwritten elements.
inline constexpr uint32_t PoisonPattern = 0x7fed7fed;

/// The bits of an unwritten element.
inline constexpr uint32_t poisonOf(DType dtype) {
  return byteSize(dtype) == 2 ? PoisonPattern & 0xffff : PoisonPattern;
}

/// Fills memory of a multiple of 4 bytes.
void fillWithPoison(std::span<std::byte> bytes);

/// A rank 4 view of a tensor of a bundle, whose axes are the first ones in
/// their order, (batch, heads, seqlen, head_dim) of most; further ones have
/// size 1. A vector of heads lies on the axis of heads. `data` is element 0.
TensorView makeView(const TensorGeometry &shape, const void *data);

/// Where element `index` of the packed order lies, in elements from element 0.
int64_t findPlace(const TensorGeometry &shape, int64_t index);

/// Element `index` of the packed order of a tensor whose element 0 is at
/// `data`.
double loadElement(const TensorGeometry &shape, const void *data,
                   int64_t index);

class HostTensor {
public:
  /// Bytes of poison before and after the tensor; a multiple of the alignment
  /// that cudaMalloc gives, so that guards do not change any alignment.
  static constexpr int64_t GuardBytes = 256;

  /// Allocates and poisons.
  static StatusOr<HostTensor> create(const TensorGeometry &geometry);

  const TensorGeometry &geometry() const { return shape; }
  /// Number of elements, gaps not counted.
  int64_t numElements() const;
  /// The position of element `index` of the packed order, in elements from the
  /// tensor's pointer.
  int64_t position(int64_t index) const;
  /// Calls `visit(index, position)` for every element in packed order. Much
  /// faster than position() for each.
  template <typename Visitor> void forEach(Visitor &&visit) const {
    int64_t inner = shape.sizes.empty() ? 1 : shape.sizes.back();
    int64_t step = shape.sizes.empty() ? 0 : shape.strides.back();
    for (int64_t index = 0, end = numElements(); index < end;) {
      int64_t start = position(index);
      for (int64_t i = 0; i < inner; ++i, ++index)
        visit(index, start + i * step);
    }
  }

  // Access by position.
  double load(int64_t position) const;
  void store(int64_t position, float value);
  uint32_t bits(int64_t position) const;
  void storeBits(int64_t position, uint32_t value);

  void poison();
  /// Checks that every element was written and nothing else. Where `isOutput`
  /// is given, only the elements of packed indices that it names were to be.
  Status
  verifyWritten(const std::function<bool(int64_t index)> &isOutput = {}) const;

  /// Checks that nothing but the elements of packed indices that `isUpdated`
  /// names differs from `before`, the storage of then.
  Status
  verifyUpdated(std::span<const std::byte> before,
                const std::function<bool(int64_t index)> &isUpdated) const;

  TensorView view() const;

  /// The whole allocation with guards, a multiple of 4 bytes.
  std::byte *storage() { return bytes.data(); }
  const std::byte *storage() const { return bytes.data(); }
  int64_t storageBytes() const { return static_cast<int64_t>(bytes.size()); }

private:
  explicit HostTensor(TensorGeometry geometry) : shape(std::move(geometry)) {}
  const std::byte *base() const { return bytes.data() + GuardBytes; }

  TensorGeometry shape;
  std::vector<std::byte> bytes;
};

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_HOSTTENSOR_H
