//===- ProgramReader.h - Reading how kernels are launched -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parts of a manifest that are alike for all ops, and in the comment of a
// PTX file: each is checked as it is read, so that whoever has a program need
// not look whether its names and numbers hold together. What is unknown is
// refused by its name, since it may change what all else means.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_MANIFEST_PROGRAMREADER_H
#define FLASHCORE_RUNTIME_LIB_MANIFEST_PROGRAMREADER_H

#include "flashcore/Runtime/HostProgram.h"
#include "flashcore/Runtime/JsonReader.h"

namespace flashcore {

/// The version of what is read. A bundle of an older one would be misread; what
/// is new in a later one has a name that this one does not know.
inline constexpr int64_t ManifestVersion = 11;

/// A text that is one of a few, mapped to its value.
template <typename T>
T readChoice(const JsonReader::Field &field,
             const std::vector<std::pair<std::string_view, T>> &choices) {
  std::string text = field.string(), expected;
  for (const auto &[name, value] : choices) {
    if (text == name)
      return value;
    expected += (expected.empty() ? "'" : " or '") + std::string(name) + "'";
  }
  field.refuse(expected);
  return choices.front().second;
}

/// Whether `text` is of letters, digits and `others`.
bool isOfLetters(std::string_view text, std::string_view others);
/// Text that tools print as it is.
std::string readText(const JsonReader::Field &field);
/// The name of a kernel, tensor or size.
std::string readName(const JsonReader::Field &field);
Chip readChip(const JsonReader::Field &field);
TensorSpec::Role readRole(const JsonReader::Field &field);
/// Refuses members of an object that are none of `known`.
void expectOnly(const JsonReader::Field &field,
                std::initializer_list<std::string_view> known);

class ProgramReader {
public:
  using Field = JsonReader::Field;

  ProgramReader(const JsonReader &reader, HostProgram &program)
      : reader(reader), program(program) {}

  /// What all variants share, in this order.
  void readSizes(const Field &field);
  void readTensors(const Field &field);
  /// The members 'intermediates' and 'views' of the whole, which may be absent.
  void readDerived(const Field &root);
  /// The members 'values', 'workspace' and 'kernels' of a variant.
  void readLaunch(const Field &field);

private:
  TensorSpec readTensor(const Field &field);
  TensorSpec readShape(const Field &field);
  ViewSpec readView(const Field &field);
  std::string readSizeName(const Field &field);
  std::string readAxis(const Field &field);
  std::string readTensorName(const Field &field, bool allowWorkspace);
  Expression readExpression(const Field &field, bool ofGrid = false);
  std::optional<Expression> readCondition(const Field &field);
  void readValue(const Field &field);
  ArgumentSpec readArgument(const Field &field);
  void readCopy(ArgumentSpec &argument, const Field &field);
  bool readGroup(ArgumentSpec &argument, const Field &field,
                 const TensorSpec &tensor);
  void readTensorMap(ArgumentSpec &argument, const Field &field);
  KernelSpec readKernel(const Field &field);
  bool isNumber(std::string_view name) const;
  std::string listNumbers() const;

  const JsonReader &reader;
  HostProgram &program;
};

/// Reads the launch that a comment in PTX describes; `op` is set to the name of
/// what the kernels compute.
HostProgram readLaunchComment(JsonReader &reader, const JsonReader::Field &root,
                              std::string &op);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_MANIFEST_PROGRAMREADER_H
