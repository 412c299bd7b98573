//===- OperandChecks.cpp - What verifiers ask of operands -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OperandChecks.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::flashcore;

bool mlir::flashcore::differ(int64_t a, int64_t b) {
  return !ShapedType::isDynamic(a) && !ShapedType::isDynamic(b) && a != b;
}

std::string mlir::flashcore::extent(int64_t size) {
  return ShapedType::isDynamic(size) ? "?" : std::to_string(size);
}

LogicalResult mlir::flashcore::verifyStaticPositive(Operation *op,
                                                    const Twine &name,
                                                    int64_t size) {
  if (ShapedType::isDynamic(size) || size <= 0)
    return op->emitOpError("expects a static positive ")
           << name << ", but got " << extent(size);
  return success();
}

std::string mlir::flashcore::shapeString(ArrayRef<int64_t> shape) {
  std::string text = "(";
  for (auto [index, size] : llvm::enumerate(shape))
    text += (index ? ", " : "") + extent(size);
  return text + ")";
}

LogicalResult mlir::flashcore::verifyShape(Operation *op, StringRef name,
                                           Value value,
                                           ArrayRef<int64_t> expected) {
  if (!value)
    return success();
  ArrayRef<int64_t> shape = cast<ShapedType>(value.getType()).getShape();
  for (auto [want, got] : llvm::zip_equal(expected, shape))
    if (differ(want, got))
      return op->emitOpError("expects ")
             << name << " shape " << shapeString(expected) << ", but got "
             << shapeString(shape);
  return success();
}

/// Bytes from the first element to past the last, with the offset; nullopt when
/// that is 2^63 or more. What is dynamic counts as least it can.
static std::optional<int64_t> getSpanBytes(ShapedType type) {
  auto memref = dyn_cast<MemRefType>(type);
  auto layout = memref ? dyn_cast<StridedLayoutAttr>(memref.getLayout())
                       : StridedLayoutAttr();
  auto known = [](int64_t size, int64_t least) {
    return ShapedType::isDynamic(size) ? least : size;
  };
  // The strides of a row-major tensor grow with the sizes further in.
  int64_t rowMajor = 1, last = layout ? known(layout.getOffset(), 0) : 0, term;
  for (unsigned axis = type.getRank(); axis-- > 0;) {
    int64_t size = std::max<int64_t>(known(type.getDimSize(axis), 1), 1);
    int64_t stride = layout ? known(layout.getStrides()[axis], 0) : rowMajor;
    if (llvm::MulOverflow(size - 1, stride, term) ||
        llvm::AddOverflow(last, term, last) ||
        (!layout && llvm::MulOverflow(rowMajor, size, rowMajor)))
      return std::nullopt;
  }
  int64_t bytes = type.getElementTypeBitWidth() / 8;
  if (llvm::AddOverflow<int64_t>(last, 1, last) ||
      llvm::MulOverflow(last, bytes, last))
    return std::nullopt;
  return last;
}

LogicalResult mlir::flashcore::verifySpan(Operation *op, StringRef name,
                                          ShapedType type) {
  if (getSpanBytes(type))
    return success();
  return op->emitOpError("expects ")
         << name << " to span less than 2^63 bytes, but got " << type;
}

LogicalResult mlir::flashcore::verifyLayout(Operation *op, StringRef name,
                                            MemRefType type, bool hasRows) {
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(type.getStridesAndOffset(strides, offset)))
    return op->emitOpError("expects ")
           << name << " with a strided layout, but got " << type;
  if (hasRows && strides.back() != 1) {
    InFlightDiagnostic error = op->emitOpError("expects ")
                               << name << " with innermost stride 1, but got "
                               << extent(strides.back());
    if (ShapedType::isDynamic(strides.back()))
      error.attachNote()
          << "one-shot-bufferize leaves such layouts at the boundaries of "
             "functions; function-boundary-type-conversion=identity-layout-"
             "map does not";
    return error;
  }
  if (!ShapedType::isDynamic(offset) && offset < 0)
    return op->emitOpError("expects the offset of ")
           << name << " not to be negative, but got " << offset;
  for (int64_t stride : strides)
    if (!ShapedType::isDynamic(stride) && stride < 0)
      return op->emitOpError("expects the strides of ")
             << name << " not to be negative, but got " << stride;
  return success();
}

static LogicalResult verifyOperand(Operation *op, const OperandShape &operand) {
  using Elements = OperandShape::Elements;
  auto type = cast<ShapedType>(operand.value.getType());
  if (type.getRank() != static_cast<int64_t>(operand.expected.size()))
    return op->emitOpError("expects ")
           << operand.name << " of rank " << operand.expected.size() << " "
           << operand.axes << ", but got " << type;
  if (!OperandInfo::isElement(operand.elements, type.getElementType()))
    return op->emitOpError("expects ")
           << operand.name << " of " << OperandInfo::describe(operand.elements)
           << ", but got " << type.getElementType();
  if (failed(verifyShape(op, operand.name, operand.value, operand.expected)))
    return failure();
  bool hasRows =
      operand.elements == Elements::Half || operand.elements == Elements::Float;
  if (auto memref = dyn_cast<MemRefType>(type))
    if (failed(verifyLayout(op, operand.name, memref, hasRows)))
      return failure();
  return verifySpan(op, operand.name, type);
}

LogicalResult mlir::flashcore::verifyOperands(Operation *op,
                                              ArrayRef<OperandShape> operands) {
  for (const OperandShape &operand : operands)
    if (operand.value && failed(verifyOperand(op, operand)))
      return failure();
  return success();
}

LogicalResult
mlir::flashcore::verifyBufferSemantics(DestinationStyleOpInterface op) {
  unsigned numMemrefs = 0, numShaped = 0;
  for (Value operand : op->getOperands()) {
    numShaped += isa<ShapedType>(operand.getType());
    numMemrefs += isa<MemRefType>(operand.getType());
  }
  if (numMemrefs != 0 && numMemrefs != numShaped)
    return op->emitOpError("expects operands to be all tensors or all memrefs, "
                           "but got ")
           << numMemrefs << " memrefs among " << numShaped;
  size_t expected = numMemrefs ? 0 : op.getNumDpsInits();
  if (op->getNumResults() != expected)
    return op->emitOpError("expects ")
           << expected << (numMemrefs ? " results on memrefs" : " results")
           << ", but got " << op->getNumResults();
  if (expected == 0)
    return success();
  for (auto [init, result] :
       llvm::zip_equal(op.getDpsInits(), op->getResults()))
    if (init.getType() != result.getType())
      return op->emitOpError("expects result type ")
             << init.getType() << " like its init, but got "
             << result.getType();
  return success();
}

void mlir::flashcore::getEffectsOfMemrefs(
    DestinationStyleOpInterface op,
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    if (op.isDpsInit(&operand))
      effects.emplace_back(MemoryEffects::Write::get(), &operand);
    else
      effects.emplace_back(MemoryEffects::Read::get(), &operand);
  }
}

LogicalResult
mlir::flashcore::verifyBlockClauses(Operation *op, Value counts, Value indices,
                                    std::optional<ArrayRef<int64_t>> size) {
  std::pair<StringRef, bool> clauses[] = {
      {"block_counts", static_cast<bool>(counts)},
      {"block_indices", static_cast<bool>(indices)},
      {"block_size", size.has_value()}};
  auto isThere = [](const auto &clause) { return clause.second; };
  const auto *there = llvm::find_if(clauses, isThere);
  const auto *missing = llvm::find_if_not(clauses, isThere);
  if (there != std::end(clauses) && missing != std::end(clauses))
    return op->emitOpError("expects block_counts, block_indices and block_size "
                           "together, but got ")
           << there->first << " without " << missing->first;
  if (!size)
    return success();
  constexpr int64_t unit = 16, most = 65536;
  if (size->size() != 2 || llvm::any_of(*size, [](int64_t extent) {
        return extent < unit || extent > most || extent % unit != 0;
      }))
    return op->emitOpError(
               "expects block_size to be two multiples of 16 (queries, "
               "keys), from 16 to 65536, but got ")
           << shapeString(*size);
  return success();
}

LogicalResult mlir::flashcore::verifyScoreRegions(ScoreOpInterface op) {
  MLIRContext *context = op.getContext();
  Type index = IndexType::get(context), f32 = Float32Type::get(context);
  Type expectedArgs[] = {f32, index, index, index, index};
  for (auto [name, region, resultType] :
       {std::tuple<StringRef, Region *, Type>("score", op.findScoreRegion(),
                                              f32),
        {"mask", op.findMaskRegion(), IntegerType::get(context, 1)}}) {
    if (!region)
      continue;
    if (region->getArgumentTypes() != TypeRange(expectedArgs))
      return op->emitOpError("expects the ")
             << name
             << " region to take (score: f32, batch, head, query, key: index)";
    Block &body = region->front();
    auto yield = body.empty() ? YieldOp() : dyn_cast<YieldOp>(body.back());
    if (!yield || yield.getValue().getType() != resultType)
      return op->emitOpError("expects the ")
             << name << " region to end with a flashcore.yield of "
             << resultType;
  }
  return success();
}
