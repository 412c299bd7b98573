//===- AttentionOperands.cpp - The tensors of an attention ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is alike for all operands follows from their table: role, type, axes and
// which of them go together. Behind that is what also depends on attributes and
// on sizes.
//
//===----------------------------------------------------------------------===//

#include "AttentionOperands.h"

#include "flashcore/Runtime/Operands.h"

#include <algorithm>
#include <set>
#include <utility>

using namespace flashcore;
using Field = JsonReader::Field;

static std::string quote(std::string_view name) {
  return "'" + std::string(name) + "'";
}

namespace {
class OperandChecker {
public:
  OperandChecker(const Bundle &bundle, const JsonReader &reader, Field root)
      : bundle(bundle), reader(reader), sizes(root["sizes"]),
        tensors(root["tensors"]), fields(tensors.elements()) {}

  void check();

private:
  bool has(std::string_view name) const { return bundle.findTensor(name); }
  const auto &dims() const { return bundle.sizes; }
  Field fieldOf(const TensorSpec &tensor) const {
    return fields[static_cast<size_t>(&tensor - bundle.tensors.data())];
  }
  void checkThere();
  void checkTensor(const OperandInfo &row, const TensorSpec &tensor);
  void checkElements(const OperandInfo &row, const TensorSpec &tensor);
  void checkAxes(const OperandInfo &row, const TensorSpec &tensor);
  void checkOwnAxis(const TensorSpec &tensor, size_t axis);
  std::string nameOf(const OperandInfo::Axis &axis) const;
  void checkRelations();
  void expectWith(std::string_view name, bool isNeeded, std::string_view key);
  void checkAttributes();
  void checkSizes();
  void checkSequences();
  void checkLists();

  const Bundle &bundle;
  const JsonReader &reader;
  Field sizes, tensors;
  std::vector<Field> fields;
};
} // namespace

/// The runtime's reference and tools rely on these four.
void OperandChecker::checkThere() {
  for (std::string_view name :
       {operand::Query, operand::Key, operand::Value, operand::Output})
    if (!has(name))
      tensors.refuse("an array with a tensor named " + quote(name));
}

void OperandChecker::checkElements(const OperandInfo &row,
                                   const TensorSpec &tensor) {
  using Elements = OperandInfo::Elements;
  Field dtype = fieldOf(tensor)["dtype"];
  bool isHalf = tensor.dtype == DType::F16 || tensor.dtype == DType::BF16;
  DType ofQuery = bundle.findTensor(operand::Query)->dtype;
  switch (row.elements) {
  case Elements::Half:
    if (!isHalf)
      dtype.refuse("'f16' or 'bf16'");
    else if (tensor.dtype != ofQuery)
      dtype.refuse(quote(stringify(ofQuery)) + ", that of " +
                   quote(operand::Query));
    return;
  case Elements::Float:
    if (!isHalf && tensor.dtype != DType::F32)
      dtype.refuse("'f16', 'bf16' or 'f32'");
    return;
  case Elements::F32:
    if (tensor.dtype != DType::F32)
      dtype.refuse("'f32'");
    return;
  case Elements::I32:
    if (tensor.dtype != DType::I32)
      dtype.refuse("'i32'");
    return;
  }
}

/// What the manifest calls an axis; empty for a size of its own.
std::string OperandChecker::nameOf(const OperandInfo::Axis &axis) const {
  bool isPaged = dims().contains(PageSizeDim);
  if (axis.name == "key_entries")
    return std::string(isPaged ? PagesDim : "batch");
  if (axis.name == "keys")
    return std::string(isPaged ? PageSizeDim : "seqlen_k");
  if (axis.name == "entries")
    return bundle.hasCuSeqlens() ? bundle.sequencesDim() : "batch";
  return std::string(axis.name == "rng_0" ? "" : axis.name);
}

/// The name of an axis of one tensor alone, or of the tensors of sequences.
void OperandChecker::checkOwnAxis(const TensorSpec &tensor, size_t axis) {
  const std::string &name = tensor.axes[axis];
  bool isShared = name == BroadcastAxis;
  for (const OperandInfo &row : getOperands())
    for (const OperandInfo::Axis &other : row.getAxes())
      isShared |= other.name != "entries" && name == nameOf(other);
  if (isShared)
    fieldOf(tensor)["axes"].elements()[axis].refuse(
        "the name of a size of its own" +
        (tensor.name == operand::Rng
             ? ", of " + std::to_string(RngWords)
             : ", one less than " + quote(CuSeqlensDim)));
}

void OperandChecker::checkAxes(const OperandInfo &row,
                               const TensorSpec &tensor) {
  std::vector<OperandInfo::Axis> expected = row.getAxes();
  Field field = fieldOf(tensor)["axes"];
  std::vector<Field> axes = field.elements();
  bool mayBroadcast = std::any_of(expected.begin(), expected.end(),
                                  [](auto &axis) { return axis.mayBroadcast; });
  // Strides say how rows lie, in whatever order their axes are listed.
  constexpr size_t rankOfRows = 3;
  if (!mayBroadcast && expected.size() >= rankOfRows) {
    std::set<std::string> names;
    for (const OperandInfo::Axis &axis : expected)
      names.insert(nameOf(axis));
    std::string list;
    for (const std::string &name : names)
      list += (list.empty() ? "" : ", ") + name;
    if (tensor.axes.size() != expected.size() ||
        std::set(tensor.axes.begin(), tensor.axes.end()) != names)
      field.refuse("the axes " + list + " in any order");
    return;
  }
  if (axes.size() != expected.size())
    return field.refuse("an array of " + std::to_string(expected.size()) +
                        (expected.size() == 1 ? " element" : " elements"));
  for (size_t i = 0; i < axes.size(); ++i) {
    std::string name = nameOf(expected[i]);
    bool isOwn = name.empty() ||
                 (expected[i].name == "entries" && bundle.hasCuSeqlens() &&
                  tensor.name == operand::SequsedK);
    if (isOwn)
      checkOwnAxis(tensor, i);
    else if (tensor.axes[i] != name &&
             !(expected[i].mayBroadcast && tensor.axes[i] == BroadcastAxis))
      axes[i].refuse(quote(name) + (expected[i].mayBroadcast ? " or '1'" : ""));
  }
}

void OperandChecker::checkTensor(const OperandInfo &row,
                                 const TensorSpec &tensor) {
  using Role = OperandInfo::Role;
  bool isOutput = row.role == Role::Output;
  bool isUpdated = row.role == Role::Cache && bundle.appends();
  TensorSpec::Role expected = isOutput    ? TensorSpec::Role::Output
                              : isUpdated ? TensorSpec::Role::Updated
                                          : TensorSpec::Role::Input;
  if (tensor.role != expected)
    fieldOf(tensor)["role"].refuse(isOutput ? "'output'"
                                   : isUpdated
                                       ? "'updated', as rows are appended to it"
                                       : "'input'");
  checkElements(row, tensor);
  if (reader.ok())
    checkAxes(row, tensor);
}

void OperandChecker::checkRelations() {
  using Kind = OperandRelation::Kind;
  for (const auto &[kind, first, second] : getOperandRelations()) {
    if (kind == Kind::Together && has(first) != has(second))
      return tensors.refuse("an array with both of " + quote(first) + " and " +
                            quote(second) + ", or neither of them");
    if (kind == Kind::Needs && has(first) && !has(second))
      return tensors.refuse("an array with " + quote(second) +
                            " where there is " + quote(first));
    if (kind == Kind::Apart && has(first) && has(second))
      return tensors.refuse("an array without " + quote(first) +
                            " where there is " + quote(second));
  }
  // The ends of queries come with those of keys, or with what is used of pages.
  bool hasQ = bundle.hasCuSeqlens(), hasK = has(operand::CuSeqlensK);
  if (!bundle.isPaged() && hasQ != hasK)
    tensors.refuse("an array with both of " + quote(operand::CuSeqlensQ) +
                   " and " + quote(operand::CuSeqlensK) +
                   ", or neither of them");
  if (bundle.isPaged() && hasK)
    tensors.refuse("an array without " + quote(operand::CuSeqlensK) +
                   " where there is " + quote(operand::PageTable));
  if (bundle.isPaged() && hasQ && !has(operand::SequsedK))
    tensors.refuse("an array with " + quote(operand::SequsedK) +
                   " where there are " + quote(operand::CuSeqlensQ) + " and " +
                   quote(operand::PageTable));
}

/// That a tensor is there if and only if a key of the manifest is.
void OperandChecker::expectWith(std::string_view name, bool isNeeded,
                                std::string_view key) {
  size_t dot = key.rfind('.');
  std::string owner(key.substr(0, dot)), member(key.substr(dot + 1));
  if (reader.ok() && isNeeded != has(name))
    tensors.refuse("an array with" + std::string(isNeeded ? "" : "out") + " " +
                   quote(name) + ", as " + quote(owner) + " has" +
                   (isNeeded ? "" : " no") + " " + quote(member));
}

void OperandChecker::checkAttributes() {
  const AttentionSpec &spec = bundle.attention;
  expectWith(operand::Rng, spec.dropout.has_value(), "attributes.dropout");
  expectWith(operand::PageTable, dims().contains(PageSizeDim),
             "sizes.page_size");
  expectWith(operand::Scores, spec.scoresStage.has_value(),
             "attributes.scores_stage");
  for (std::string_view name : {operand::RotaryCos, operand::RotarySin})
    expectWith(name, spec.rotary.has_value(), "attributes.rotary");
  for (std::string_view name : {operand::BlockCounts, operand::BlockIndices})
    expectWith(name, spec.blockSize.has_value(), "attributes.block_size");
}

/// Of tensors that are as the table says.
void OperandChecker::checkSizes() {
  const AttentionSpec &spec = bundle.attention;
  if (spec.scoresStage == ScoresStage::Probabilities && !has(operand::Lse))
    tensors.refuse("an array with 'lse' where " + quote(operand::Scores) +
                   " are probabilities");
  if (const TensorSpec *rng = bundle.findTensor(operand::Rng))
    if (dims().find(rng->axes.front())->second != RngWords)
      sizes[rng->axes.front()].refuse(std::to_string(RngWords) +
                                      ", the words of seed and offset");
  if (spec.rotary)
    sizes[RotaryPairsDim].integer(1, sizes["head_dim"].integer(1) / 2);
}

void OperandChecker::checkSequences() {
  bool hasCuSeqlens = bundle.hasCuSeqlens();
  if (!hasCuSeqlens && dims().contains(CuSeqlensDim))
    sizes.refuse("an object without the key " + quote(CuSeqlensDim) +
                 ", which is that of " + quote(operand::CuSeqlensQ));
  if (!reader.ok() || !hasCuSeqlens)
    return;
  if (dims().find("batch")->second.value_or(1) != 1)
    sizes["batch"].refuse("1 or null, of sequences one after "
                          "another");
  std::optional<int64_t> entries = dims().find(CuSeqlensDim)->second;
  if (entries && *entries < 1)
    sizes[CuSeqlensDim].refuse("at least 1, one more than there "
                               "are sequences");
  std::string sequences = bundle.sequencesDim();
  if (sequences.empty())
    return;
  std::optional<int64_t> count = dims().find(sequences)->second;
  if (entries && count && *count != *entries - 1)
    sizes[sequences].refuse(std::to_string(*entries - 1) + ", one less than " +
                            quote(CuSeqlensDim));
}

/// Sizes of lists of blocks, which all have the axes of the first.
void OperandChecker::checkLists() {
  bool hasSize = bundle.attention.blockSize.has_value();
  for (std::string_view name : {QueryBlocksDim, KeyBlocksDim})
    if (hasSize != dims().contains(name))
      return sizes.refuse("an object with" + std::string(hasSize ? "" : "out") +
                          " the key " + quote(name) +
                          ", which is that of lists of blocks");
  const TensorSpec *first = bundle.findTensor(operand::BlockCounts);
  for (const TensorSpec &list : bundle.tensors)
    for (size_t axis = 0; first && isBlockList(list.name) && axis < 2; ++axis)
      if (list.axes[axis] != first->axes[axis])
        return fieldOf(list)["axes"].elements()[axis].refuse(
            quote(first->axes[axis]) + ", as " + quote(operand::BlockCounts) +
            " has");
}

void OperandChecker::check() {
  checkThere();
  checkAttributes();
  auto checkEach = [&](bool isLengths) {
    for (const TensorSpec &tensor : bundle.tensors)
      if (const OperandInfo *row = findOperand(tensor.name);
          row && reader.ok() && (row->name == operand::SequsedK) == isLengths)
        checkTensor(*row, tensor);
  };
  // Its axis is what others call that of sequences.
  checkEach(/*isLengths=*/true);
  checkEach(/*isLengths=*/false);
  for (auto step :
       {&OperandChecker::checkRelations, &OperandChecker::checkSizes,
        &OperandChecker::checkSequences, &OperandChecker::checkLists})
    if (reader.ok())
      (this->*step)();
}

void flashcore::checkOperands(const Bundle &bundle, const JsonReader &reader,
                              Field root) {
  OperandChecker(bundle, reader, root).check();
}
