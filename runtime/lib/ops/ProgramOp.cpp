//===- ProgramOp.cpp - Several ops, one after another ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What each op says of its own tensors, said of those of the program. A view
// has the strides of what it is a part of and counts from the same pointer, so
// an element has one position in both.
//
//===----------------------------------------------------------------------===//

#include "ProgramOp.h"
#include "../Comparison.h"
#include "ProgramMemory.h"

#include <cassert>
#include <cstring>

using namespace flashcore;
using Role = TensorSpec::Role;

static const Op &opOf(const Problem &problem, size_t number) {
  return findOp(*problem.bundle().parts[number].bundle);
}

/// The caller's tensor in which an operand lies; null of one in the workspace.
static const HostTensor *findGiven(const TensorSet &set, size_t number,
                                   std::string_view operand) {
  const Problem &problem = set.problem();
  const ProgramPart &part = problem.bundle().parts[number];
  return set.findTensor(
      problem.locate(part.tensors.find(operand)->second).name);
}

/// The tensors of one op, with what the program's hold of them.
static StatusOr<TensorSet> makeSetOf(const TensorSet &set, size_t number) {
  const Problem &own = set.problem().parts()[number];
  StatusOr<TensorSet> result = TensorSet::create(own);
  if (!result.ok())
    return result;
  for (const TensorGeometry &operand : own.tensors()) {
    HostTensor &copy = result->tensor(operand.name);
    if (const HostTensor *given = findGiven(set, number, operand.name))
      copy.forEach([&](int64_t, int64_t position) {
        copy.storeBits(position, given->bits(position));
      });
  }
  return result;
}

std::string flashcore::describeProgram(const Problem &problem) {
  std::string text = "program of";
  for (const Problem &part : problem.parts())
    text += (&part == problem.parts().data() ? " " : "; ") + part.str();
  return text;
}

double flashcore::countProgramFlops(const Problem &problem) {
  double flops = 0;
  for (size_t i = 0; i < problem.parts().size(); ++i)
    flops += opOf(problem, i).countFlops(problem.parts()[i]);
  return flops;
}

double flashcore::countProgramFlops(const TensorSet &set) {
  double flops = 0;
  for (size_t i = 0; i < set.problem().parts().size(); ++i) {
    StatusOr<TensorSet> own = makeSetOf(set, i);
    flops += own.ok() ? opOf(set.problem(), i).countFlopsOf(*own) : 0;
  }
  return flops;
}

Status flashcore::verifyProgramStage(const Problem & /*problem*/, Stage stage) {
  if (stage == Stage::All)
    return Status::success();
  return Status::error("expects stage 'all' of a program of several ops, but "
                       "got '" +
                       std::string(stringify(stage)) + "'");
}

Status flashcore::verifyProgramKind(const Problem &problem, InputKind kind) {
  for (size_t i = 0; i < problem.parts().size(); ++i)
    if (Status status = opOf(problem, i).verifyKind(problem.parts()[i], kind);
        !status.ok())
      return status.note("it is " + problem.bundle().nameOfPart(i));
  return Status::success();
}

/// Each op draws its inputs; of those that several read the first one's stay.
void flashcore::fillProgram(TensorSet &set, uint64_t seed, InputKind kind,
                            Stage stage) {
  const Problem &problem = set.problem();
  for (const TensorGeometry &given : problem.tensors())
    if (given.role != Role::Output) {
      HostTensor &tensor = set.tensor(given.name);
      tensor.forEach(
          [&](int64_t, int64_t position) { tensor.storeBits(position, 0); });
    }
  for (size_t i = problem.parts().size(); i-- > 0;) {
    StatusOr<TensorSet> own = TensorSet::create(problem.parts()[i]);
    if (!own.ok())
      continue; // no memory, which its caller hears of when it checks
    opOf(problem, i).fillInputs(*own, seed + i, kind, stage);
    for (const TensorGeometry &operand : own->problem().tensors()) {
      const HostTensor *given = findGiven(set, i, operand.name);
      if (operand.role == Role::Output || !given ||
          given->geometry().role == Role::Output)
        continue;
      HostTensor &to = set.tensor(given->geometry().name);
      const HostTensor &from = *own->findTensor(operand.name);
      from.forEach([&](int64_t, int64_t position) {
        to.storeBits(position, from.bits(position));
      });
    }
  }
}

/// Whether an op writes a tensor which one in front of it reads, as a whole.
static bool isOverwritten(const TensorSet &set, const HostTensor &tensor) {
  if (tensor.geometry().role != Role::Updated)
    return false;
  for (size_t i = 0; i < set.problem().parts().size(); ++i)
    for (const TensorGeometry &operand : set.problem().parts()[i].tensors())
      if (operand.role == Role::Output &&
          findGiven(set, i, operand.name) == &tensor)
        return true;
  return false;
}

Status flashcore::verifyProgramData(const TensorSet &set) {
  for (const TensorGeometry &given : set.problem().tensors())
    if (isOverwritten(set, *set.findTensor(given.name)))
      return Status::error("expects outputs in memory of their own, but got "
                           "the output '" +
                           given.name + "', which another op reads before")
          .note("a check needs what it read; launches take it");
  for (size_t i = 0; i < set.problem().parts().size(); ++i) {
    StatusOr<TensorSet> own = makeSetOf(set, i);
    Status status = own.ok() ? opOf(set.problem(), i).verifyData(*own)
                             : Status(own.status());
    if (!status.ok())
      return status.note("it is " + set.problem().bundle().nameOfPart(i));
  }
  return Status::success();
}

/// Each op says of its part what it writes; nothing else of the tensor is.
Status flashcore::verifyProgramWritten(const TensorSet &set,
                                       const HostTensor &output) {
  std::vector<bool> isPart(static_cast<size_t>(output.geometry().span));
  for (size_t i = 0; i < set.problem().parts().size(); ++i) {
    StatusOr<TensorSet> own = makeSetOf(set, i);
    if (!own.ok())
      return own.status();
    for (const TensorGeometry &operand : own->problem().tensors()) {
      if (operand.role != Role::Output ||
          findGiven(set, i, operand.name) != &output)
        continue;
      const HostTensor &part = *own->findTensor(operand.name);
      if (Status status = opOf(set.problem(), i).verifyWritten(*own, part);
          !status.ok())
        return status.note("it is " + set.problem().bundle().nameOfPart(i));
      part.forEach([&](int64_t, int64_t position) {
        isPart[static_cast<size_t>(position)] = true;
      });
    }
  }
  const uint32_t unwritten = poisonOf(output.geometry().dtype);
  return output.verifyWritten([&](int64_t index) {
    int64_t position = output.position(index);
    return isPart[static_cast<size_t>(position)] &&
           output.bits(position) != unwritten;
  });
}

std::function<bool(int64_t)>
flashcore::findProgramRows(const TensorSet &set, const HostTensor &tensor) {
  std::vector<bool> isNew(static_cast<size_t>(tensor.geometry().span));
  for (size_t i = 0; i < set.problem().parts().size(); ++i) {
    StatusOr<TensorSet> own = makeSetOf(set, i);
    if (!own.ok())
      continue;
    for (const TensorGeometry &operand : own->problem().tensors()) {
      if (operand.role != Role::Updated ||
          findGiven(set, i, operand.name) != &tensor)
        continue;
      const HostTensor &part = *own->findTensor(operand.name);
      auto isOfOp = opOf(set.problem(), i).findNewRows(*own, part);
      part.forEach([&](int64_t index, int64_t position) {
        if (isOfOp(index))
          isNew[static_cast<size_t>(position)] = true;
      });
    }
  }
  return [&tensor, isNew = std::move(isNew)](int64_t index) {
    return static_cast<bool>(
        isNew[static_cast<size_t>(tensor.position(index))]);
  };
}

/// The elements of a packed copy that something has written, rounded or not.
static bool isWritten(const CallMemory &copy, int64_t index) {
  uint32_t bits = 0;
  auto size = static_cast<size_t>(byteSize(copy.geometry.dtype));
  std::memcpy(&bits,
              static_cast<const std::byte *>(copy.data) +
                  static_cast<size_t>(index) * size,
              size);
  return bits != poisonOf(copy.geometry.dtype);
}

static Status compute(const HostCall &call,
                      Status (*Op::*reference)(const HostCall &, unsigned),
                      unsigned threads) {
  StatusOr<ProgramMemory> memory =
      ProgramMemory::create(*call.problem, call, /*isExact=*/false);
  if (!memory.ok())
    return memory.status();
  if (Status status = memory->run(reference, threads); !status.ok())
    return status;
  for (const TensorGeometry &given : call.problem->tensors()) {
    if (given.role == Role::Input)
      continue;
    CallMemory from = memory->view(given.name);
    const CallMemory &to = *call.find(given.name);
    auto bytes = static_cast<size_t>(byteSize(given.dtype));
    for (int64_t i = 0; i < from.geometry.span; ++i)
      if (isWritten(from, i))
        std::memcpy(static_cast<std::byte *>(to.data) +
                        findPlace(to.geometry, i) * static_cast<int64_t>(bytes),
                    static_cast<const std::byte *>(from.data) +
                        static_cast<size_t>(i) * bytes,
                    bytes);
  }
  return Status::success();
}

Status flashcore::computeProgramCall(const HostCall &call, unsigned threads) {
  return compute(call, &Op::computeReference, threads);
}

Status flashcore::computeProgramYardstick(const HostCall &call,
                                          unsigned threads) {
  return compute(call, &Op::computeYardstick, threads);
}

/// The tensor as one of four axes, the first of which has all that are more.
static std::array<int64_t, 4> shapeOf(const TensorGeometry &geometry) {
  std::array<int64_t, 4> sizes = {1, 1, 1, 1};
  size_t rank = geometry.sizes.size();
  for (size_t axis = 0; axis < rank; ++axis)
    sizes[rank <= 4         ? axis
          : axis < rank - 3 ? 0
                            : axis - (rank - 4)] *= geometry.sizes[axis];
  return sizes;
}

/// Which part of a report is about a tensor: what the last op that writes it
/// calls it.
static std::string_view findField(const Problem &problem,
                                  std::string_view name) {
  std::string_view field;
  for (size_t i = 0; i < problem.parts().size(); ++i)
    for (const auto &[own, tensor] : problem.bundle().parts[i].tensors)
      if (problem.locate(tensor).name == name &&
          problem.parts()[i].findTensor(own)->role != Role::Input)
        field = own;
  return field;
}

/// The worse of two comparisons.
static void keepWorse(ErrorReport &kept, const ErrorReport &other) {
  bool isWorse = kept.pass() != other.pass()
                     ? kept.pass()
                     : other.error * kept.allowed > kept.error * other.allowed;
  if (isWorse || kept.elements == 0)
    kept = other;
}

/// The tensor that a name stands for, which may be that of a view.
static std::string_view findBase(const Bundle &bundle, std::string_view name) {
  for (const ViewSpec &view : bundle.views)
    if (view.name == name)
      return findBase(bundle, view.base);
  return name;
}

/// Whether an op makes scores of what another has rounded.
static bool hasScoresOfResults(const Bundle &bundle) {
  std::vector<std::string_view> results;
  for (const ProgramPart &part : bundle.parts)
    for (const TensorSpec &operand : part.bundle->tensors)
      if (operand.role == Role::Output)
        results.push_back(findBase(bundle, part.tensors.at(operand.name)));
  for (const ProgramPart &part : bundle.parts)
    for (std::string_view operand : {operand::Query, operand::Key}) {
      auto tensor = part.tensors.find(operand);
      if (tensor != part.tensors.end() &&
          std::count(results.begin(), results.end(),
                     findBase(bundle, tensor->second)))
        return true;
    }
  return false;
}

/// What an output may be off by: LSE as that of one attention, whose functions
/// of scores are approximate, and whose operands may have been rounded.
static Tolerance toleranceOf(const Problem &problem, std::string_view field) {
  Tolerance tolerance;
  if (field != operand::Lse)
    return tolerance;
  tolerance.relative = lseTolerance;
  tolerance.hasYardstick = hasScoresOfResults(problem.bundle());
  for (const ProgramPart &part : problem.bundle().parts)
    tolerance.hasYardstick |=
        part.bundle->attention.softcap || part.bundle->attention.score;
  return tolerance;
}

static ErrorReport compareTensor(const CallMemory &actual,
                                 const CallMemory &reference,
                                 const CallMemory &yardstick,
                                 const Tolerance &tolerance) {
  const TensorGeometry &geometry = actual.geometry;
  int64_t bytes = byteSize(geometry.dtype);
  std::vector<std::byte> packed(
      static_cast<size_t>(reference.geometry.span * bytes));
  std::vector<double> expected, usual;
  for (int64_t i = 0; i < reference.geometry.span; ++i) {
    // Rows of no sequence stay as they are.
    bool isComputed = isWritten(reference, i);
    expected.push_back(
        isComputed ? loadElement(reference.geometry, reference.data, i) : 0);
    usual.push_back(
        isComputed ? loadElement(yardstick.geometry, yardstick.data, i) : 0);
    if (isComputed)
      std::memcpy(&packed[static_cast<size_t>(i * bytes)],
                  static_cast<const std::byte *>(actual.data) +
                      findPlace(geometry, i) * bytes,
                  static_cast<size_t>(bytes));
  }
  std::array<int64_t, 4> sizes = shapeOf(geometry);
  TensorView view = {
      packed.data(),
      geometry.dtype,
      sizes,
      {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1}};
  return compare(view, {0, sizes[2]}, expected, usual, tolerance);
}

StatusOr<CheckReport> flashcore::checkProgramCall(const HostCall &call,
                                                  unsigned threads) {
  const Problem &problem = *call.problem;
  StatusOr<ProgramMemory> reference =
      ProgramMemory::create(problem, call, /*isExact=*/true);
  if (!reference.ok())
    return reference.status();
  StatusOr<ProgramMemory> yardstick =
      ProgramMemory::create(problem, call, /*isExact=*/false);
  if (!yardstick.ok())
    return yardstick.status();
  if (Status status = reference->run(&Op::computeReference, threads);
      !status.ok())
    return status;
  if (Status status = yardstick->run(&Op::computeYardstick, threads);
      !status.ok())
    return status;
  CheckReport report;
  for (const TensorGeometry &given : problem.tensors()) {
    if (given.role == Role::Input)
      continue;
    std::string_view field = findField(problem, given.name);
    ErrorReport compared =
        compareTensor(*call.find(given.name), reference->view(given.name),
                      yardstick->view(given.name), toleranceOf(problem, field));
    auto keep = [&](std::optional<ErrorReport> &kept) {
      if (!kept)
        kept = ErrorReport();
      keepWorse(*kept, compared);
    };
    if (field == operand::Lse)
      keep(report.lse);
    else if (field == operand::Scores)
      keep(report.scores);
    else if (field == operand::Key)
      keep(report.k);
    else if (field == operand::Value)
      keep(report.v);
    else
      keepWorse(report.o, compared);
  }
  return report;
}

StatusOr<CheckReport> flashcore::checkProgramOutputs(const TensorSet &set,
                                                     Stage /*stage*/,
                                                     unsigned threads) {
  HostCall call;
  call.problem = {std::shared_ptr<void>(), &set.problem()};
  for (const TensorGeometry &given : set.problem().tensors())
    call.tensors.insert(
        {given.name,
         {given, const_cast<void *>(set.findTensor(given.name)->view().data)}});
  return checkProgramCall(call, threads);
}
