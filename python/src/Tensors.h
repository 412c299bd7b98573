//===- Tensors.h - Arrays of any library ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where the elements of a Python array lie. In order of preference: DLPack's C
// exchange API (PyTorch from 2.10 on), NumPy's array interface, the methods of
// older PyTorch, and `__dlpack__` of anything else.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_PYTHON_TENSORS_H
#define FLASHCORE_PYTHON_TENSORS_H

#include "DLPack.h"
#include "Object.h"

namespace flashcore::python {

constexpr int maxRank = 5;

enum class ElementType : uint8_t { Other, F16, BF16, F32 };
inline int64_t bytesOf(ElementType type) {
  return type == ElementType::F32 ? 4 : 2;
}

/// A tensor of rank `rank`; only the first `maxRank` axes are kept.
struct TensorView {
  uint64_t pointer = 0;
  int64_t sizes[maxRank] = {}, strides[maxRank] = {};
  int32_t rank = 0;
  dlpack::DataType dtype = {};
  ElementType type = ElementType::Other;
  bool isReadOnly = false;
  dlpack::Device device = {};
};

/// How a Python type gives its elements.
struct Producer {
  enum class Kind { Exchange, ArrayInterface, Torch, DLPack, None };
  Kind kind = Kind::None;
  const dlpack::ExchangeApi *api = nullptr;
  /// PyTorch's tensors say whether they record gradients, by an attribute of
  /// the type that `getRequiresGrad` reads where it is a descriptor.
  bool hasGradients = false;
  Ref requiresGrad;
  descrgetfunc getRequiresGrad = nullptr;
  /// They may also be read with the other sign than memory has, which this
  /// function tells once a tensor was looked at.
  bool hasNegativeBit = false;
  mutable PyCFunction isNegative = nullptr;
  /// Whether we run in the stream that the library uses: `__dlpack__` has
  /// nothing to wait for, and a stream that records a graph must not.
  bool isInStream = false;
};

/// Owns what an array gave that must live as long as its view is used.
class Lease {
public:
  Lease() = default;
  Lease(Lease &&other) noexcept
      : old(std::exchange(other.old, nullptr)),
        versioned(std::exchange(other.versioned, nullptr)) {}
  Lease &operator=(Lease other) {
    std::swap(old, other.old);
    std::swap(versioned, other.versioned);
    return *this;
  }
  ~Lease();

  dlpack::ManagedTensor *old = nullptr;
  dlpack::ManagedTensorVersioned *versioned = nullptr;
};

/// Names and constants that reading needs.
bool initTensors();

/// Of a type. Null with an exception.
const Producer *producerOfType(PyObject *type);
inline const Producer *producerOf(PyObject *object) {
  return producerOfType(reinterpret_cast<PyObject *>(Py_TYPE(object)));
}
/// Reads the argument `name`, and says how its type gives elements. `stream`
/// goes to `__dlpack__` and may be null. False with an exception, by the name
/// of the argument, for arrays that say more than where their elements lie:
/// flashcore.arrays lists what.
bool readTensor(PyObject *object, const char *name, PyObject *stream,
                const Producer *&producer, TensorView &view, Lease &lease);
/// The same of an array that its library has just allocated: PyTorch is not
/// asked for a negative bit, which takes as long as all the rest.
bool readAllocated(PyObject *object, const char *name, PyObject *stream,
                   const Producer *&producer, TensorView &view, Lease &lease);
/// Whether PyTorch would record gradients of `object`; -1 with an exception.
int needsGradient(PyObject *object, const Producer &producer);

/// Whether an element of one tensor has a byte that is one of the other, too.
/// Those of one array that interleave, such as q and o in (batch, seqlen, 4,
/// heads, dim), do not. Also true where that is hard to tell.
bool overlap(const TensorView &a, const TensorView &b);

/// What a pointer to rows is a multiple of, in bytes, as kernels copy them
/// (row_step in problem.py): whole rows of as many elements as divide them all.
uint64_t getRowAlignment(const TensorView &view);

/// "float16", "int32"; "" for what DLPack has no name for.
std::string nameOf(dlpack::DataType type);
/// Of "float16", "bfloat16", "float32" or "uint8"; false with an exception.
bool readType(const char *name, dlpack::DataType &type);

/// Adds View and the functions of this file to the module.
bool addTensors(PyObject *module);

} // namespace flashcore::python

#endif // FLASHCORE_PYTHON_TENSORS_H
