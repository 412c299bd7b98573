//===- ProgramTensors.cpp - Tensors of the ops of a program ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Axes are of one size where an op says so, or a view has an axis as it is.
// Each class of them has one name, that of the first op which has it.
//
//===----------------------------------------------------------------------===//

#include "ProgramTensors.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mlir::flashcore;

//===----------------------------------------------------------------------===//
// Functions that are programs
//===----------------------------------------------------------------------===//

/// The tensor whose axis `size` is, and the axis; none of another number.
static std::optional<std::pair<Value, int64_t>> findAxis(OpFoldResult size) {
  auto dim = dyn_cast_if_present<Value>(size)
                 ? dyn_cast_if_present<memref::DimOp>(
                       cast<Value>(size).getDefiningOp())
                 : memref::DimOp();
  std::optional<int64_t> axis = dim ? dim.getConstantIndex() : std::nullopt;
  if (!axis)
    return std::nullopt;
  return std::pair(dim.getSource(), *axis);
}

/// Whether a program can say where it begins and ends: fixed numbers, or all of
/// an axis.
static bool isPlain(memref::SubViewOp view) {
  for (auto [axis, begin, size, stride] :
       llvm::enumerate(view.getMixedOffsets(), view.getMixedSizes(),
                       view.getMixedStrides())) {
    if (getConstantIntValue(stride) != 1 || !getConstantIntValue(begin))
      return false;
    if (getConstantIntValue(size))
      continue;
    auto found = findAxis(size);
    if (!found || getConstantIntValue(begin) != 0 ||
        found->first != view.getSource() ||
        found->second != static_cast<int64_t>(axis))
      return false;
  }
  return true;
}

/// What may stand between the ops of a program: what makes, views and measures
/// memrefs.
static bool isOfProgram(Operation &op) {
  if (isa<KernelOpInterface, arith::ConstantOp, memref::DeallocOp,
          gpu::DeallocOp, memref::DimOp, memref::CastOp,
          memref::MemorySpaceCastOp>(op) ||
      op.hasTrait<OpTrait::ReturnLike>())
    return true;
  if (auto view = dyn_cast<memref::SubViewOp>(op))
    return isPlain(view);
  if (!isa<memref::AllocOp, gpu::AllocOp>(op))
    return false;
  auto type = cast<MemRefType>(op.getResult(0).getType());
  return type.getLayout().isIdentity() &&
         llvm::all_of(op.getOperands(),
                      [](Value size) { return findAxis(size).has_value(); });
}

SmallVector<KernelOpInterface>
mlir::flashcore::findProgram(Operation *function) {
  auto callable = dyn_cast_if_present<FunctionOpInterface>(function);
  if (!callable || !llvm::hasSingleElement(callable.getFunctionBody()) ||
      !llvm::all_of(callable.getFunctionBody().front(), isOfProgram))
    return {};
  auto ops = llvm::to_vector(
      callable.getFunctionBody().front().getOps<KernelOpInterface>());
  return ops.size() > 1 ? ops : SmallVector<KernelOpInterface>();
}

//===----------------------------------------------------------------------===//
// Where memrefs come from
//===----------------------------------------------------------------------===//

/// A name like `wish` that is not taken, which then is.
static std::string takeName(llvm::StringSet<> &taken, StringRef wish) {
  std::string name = wish.str();
  for (unsigned number = 1; !taken.insert(name).second; ++number)
    name = (wish + "_" + Twine(number)).str();
  return name;
}

unsigned ProgramTensors::addSize(std::optional<int64_t> extent) {
  extents.push_back(extent);
  sizeNames.emplace_back();
  classes.grow(extents.size());
  return extents.size() - 1;
}

void ProgramTensors::joinSizes(unsigned x, unsigned y) {
  std::optional<int64_t> extent = getExtent(x) ? getExtent(x) : getExtent(y);
  extents[classes.join(x, y)] = extent;
}

std::optional<int64_t> ProgramTensors::getExtent(unsigned size) const {
  return extents[classes.findLeader(size)];
}

unsigned ProgramTensors::addTensor(ProgramTensor::Kind kind, MemRefType type) {
  ProgramTensor tensor;
  tensor.kind = kind;
  tensor.type = type;
  for (int64_t size : type.getShape())
    tensor.sizes.push_back(addSize(
        ShapedType::isDynamic(size) ? std::nullopt : std::optional(size)));
  tensors.push_back(std::move(tensor));
  return tensors.size() - 1;
}

unsigned ProgramTensors::addView(MemRefType type, unsigned base,
                                 ArrayRef<int64_t> begin,
                                 const llvm::SmallBitVector &dropped) {
  unsigned view = addTensor(ProgramTensor::View, type);
  ProgramTensor &added = tensors[view];
  added.base = base;
  added.begin.assign(begin.begin(), begin.end());
  for (unsigned axis = 0; axis < begin.size(); ++axis)
    if (!dropped[axis])
      added.axes.push_back(axis);
  for (auto [size, axis] : llvm::zip_equal(added.sizes, added.axes)) {
    unsigned ofBase = tensors[base].sizes[axis];
    if (!getExtent(size) || getExtent(size) == getExtent(ofBase))
      joinSizes(size, ofBase);
  }
  return view;
}

/// What a function returns is its caller's.
unsigned ProgramTensors::addAllocation(Value memref,
                                       OperandRange dynamicSizes) {
  bool isReturned = llvm::any_of(memref.getUsers(), [](Operation *user) {
    return user->hasTrait<OpTrait::ReturnLike>();
  });
  unsigned tensor = addTensor(isReturned ? ProgramTensor::Argument
                                         : ProgramTensor::Intermediate,
                              cast<MemRefType>(memref.getType()));
  auto it = dynamicSizes.begin();
  for (unsigned axis = 0; axis < tensors[tensor].sizes.size(); ++axis) {
    if (!tensors[tensor].type.isDynamicDim(axis))
      continue;
    auto [source, sourceAxis] = *findAxis(OpFoldResult(*it++)); // isOfProgram
    unsigned other = resolve(source);
    joinSizes(tensors[tensor].sizes[axis], tensors[other].sizes[sourceAxis]);
  }
  return tensor;
}

unsigned ProgramTensors::resolve(Value value) {
  if (auto it = known.find(value); it != known.end())
    return it->second;
  auto type = cast<MemRefType>(value.getType());
  Operation *maker = value.getDefiningOp();
  unsigned tensor = 0;
  if (auto cast = dyn_cast_if_present<memref::MemorySpaceCastOp>(maker)) {
    tensor = resolve(cast.getSource());
  } else if (auto cast = dyn_cast_if_present<memref::CastOp>(maker)) {
    tensor = addView(type, resolve(cast.getSource()),
                     SmallVector<int64_t>(type.getRank(), 0),
                     llvm::SmallBitVector(type.getRank()));
  } else if (auto view = dyn_cast_if_present<memref::SubViewOp>(maker)) {
    tensor = addView(type, resolve(view.getSource()), view.getStaticOffsets(),
                     view.getDroppedDims());
  } else if (auto alloc = dyn_cast_if_present<memref::AllocOp>(maker)) {
    tensor = addAllocation(value, alloc.getDynamicSizes());
  } else if (auto alloc = dyn_cast_if_present<gpu::AllocOp>(maker)) {
    tensor = addAllocation(value, alloc.getDynamicSizes());
  } else {
    tensor = addTensor(ProgramTensor::Argument, type);
  }
  known[value] = tensor;
  return tensor;
}

//===----------------------------------------------------------------------===//
// What ops do with them
//===----------------------------------------------------------------------===//

/// What an op does with a tensor it does with what that is a view of.
void ProgramTensors::use(unsigned number, const KernelTensor &operand,
                         bool isDirect) {
  if (tensors[number].kind == ProgramTensor::View)
    use(tensors[number].base, operand, /*isDirect=*/false);
  ProgramTensor &tensor = tensors[number];
  bool isRead = !operand.isOutput;
  tensor.alignment = std::max(tensor.alignment, operand.alignment);
  tensor.isReadFirst |= isRead && !tensor.isWritten;
  tensor.isRead |= isRead;
  tensor.isWritten |= operand.isOutput || operand.isUpdated;
  if (tensor.name.empty() || (isDirect && !tensor.isNamed))
    tensor.name = operand.name;
  tensor.isNamed |= isDirect;
}

/// Until here they have the names of operands. What the caller gives keeps them
/// where it can.
void ProgramTensors::nameTensors() {
  llvm::StringSet<> taken;
  for (auto kind : {ProgramTensor::Argument, ProgramTensor::Intermediate,
                    ProgramTensor::View})
    for (ProgramTensor &tensor : tensors)
      if (tensor.kind == kind)
        tensor.name = takeName(taken, tensor.name);
}

void ProgramTensors::addOperands(unsigned number, const OpPrograms &op,
                                 bool isAlone) {
  for (const KernelTensor &operand : op.getSizes().getTensors()) {
    unsigned tensor =
        isAlone ? addTensor(ProgramTensor::Argument, operand.getType())
                : resolve(operand.value);
    use(tensor, operand, /*isDirect=*/true);
    operands[number].push_back(tensor);
    for (auto [dim, size] :
         llvm::zip_equal(operand.axes, tensors[tensor].sizes)) {
      if (dim == Dim::One)
        continue;
      auto [it, isNew] =
          sizesOfOps.try_emplace({number, static_cast<unsigned>(dim)}, size);
      if (!isNew)
        joinSizes(it->second, size);
    }
  }
}

void ProgramTensors::nameSizes(ArrayRef<OpPrograms> ops) {
  for (auto [number, op] : llvm::enumerate(ops))
    for (unsigned dim = 0; dim < op.getSizes().getEndOfDims(); ++dim) {
      auto it = sizesOfOps.find({static_cast<unsigned>(number), dim});
      if (it == sizesOfOps.end())
        continue;
      std::string &name = sizeNames[classes.findLeader(it->second)];
      if (name.empty())
        name =
            takeName(takenSizes, op.getSizes().getName(static_cast<Dim>(dim)));
    }
  for (const ProgramTensor &tensor : tensors)
    for (auto [axis, size] : llvm::enumerate(tensor.sizes)) {
      std::string &name = sizeNames[classes.findLeader(size)];
      if (name.empty())
        name = getExtent(size) == 1
                   ? stringifyDim(Dim::One).str()
                   : takeName(takenSizes,
                              tensor.name + "_" + std::to_string(axis));
    }
}

ProgramTensors::ProgramTensors(ArrayRef<OpPrograms> ops)
    : operands(ops.size()) {
  for (auto [number, op] : llvm::enumerate(ops))
    addOperands(number, op, /*isAlone=*/ops.size() == 1);
  nameTensors();
  nameSizes(ops);
}

StringRef ProgramTensors::getSizeName(unsigned size) const {
  return sizeNames[classes.findLeader(size)];
}

StringRef ProgramTensors::findSizeName(unsigned op, Dim dim) const {
  auto it = sizesOfOps.find({op, static_cast<unsigned>(dim)});
  return it == sizesOfOps.end() ? StringRef() : getSizeName(it->second);
}

std::string ProgramTensors::takeValueName(StringRef wish) {
  return takeName(takenSizes, wish);
}
