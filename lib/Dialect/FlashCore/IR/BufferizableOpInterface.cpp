//===- BufferizableOpInterface.cpp - Bufferization of flashcore ops -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How one-shot bufferization turns ops on tensors into ones on memrefs: inits
// are written in place, all else is read.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "mlir/Dialect/Bufferization/IR/DstBufferizableOpInterfaceImpl.h"

using namespace mlir;
using namespace mlir::bufferization;
using namespace mlir::flashcore;

namespace {
template <typename OpTy>
struct InitsInterface
    : DstBufferizableOpInterfaceExternalModel<InitsInterface<OpTy>, OpTy> {
  /// The old contents of inits are never looked at.
  bool bufferizesToMemoryRead(Operation *op, OpOperand &operand,
                              const AnalysisState &) const {
    return !cast<DestinationStyleOpInterface>(op).isDpsInit(&operand);
  }

  LogicalResult bufferize(Operation *op, RewriterBase &rewriter,
                          const BufferizationOptions &options,
                          BufferizationState &state) const {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      if (!isa<TensorType>(operand.getType())) {
        operands.push_back(operand);
        continue;
      }
      FailureOr<Value> buffer = getBuffer(rewriter, operand, options, state);
      if (failed(buffer))
        return failure();
      operands.push_back(*buffer);
    }
    SmallVector<Value> inits;
    for (OpOperand &init : cast<OpTy>(op).getDpsInitsMutable())
      inits.push_back(operands[init.getOperandNumber()]);

    rewriter.setInsertionPoint(op);
    OperationState newOp(op->getLoc(), op->getName(), operands,
                         /*types=*/TypeRange(), op->getAttrs());
    newOp.propertiesAttr = op->getPropertiesAsAttribute();
    for (Region &region : op->getRegions())
      newOp.addRegion()->takeBody(region);
    rewriter.create(newOp);
    replaceOpWithBufferizedValues(rewriter, op, inits);
    return success();
  }
};
} // namespace

void mlir::flashcore::registerBufferizableOpInterfaceExternalModels(
    DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, FlashCoreDialect *) {
    AttentionOp::attachInterface<InitsInterface<AttentionOp>>(*context);
    DeltaOp::attachInterface<InitsInterface<DeltaOp>>(*context);
    MergeOp::attachInterface<InitsInterface<MergeOp>>(*context);
  });
}
