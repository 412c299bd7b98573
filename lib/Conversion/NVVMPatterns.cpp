//===- NVVMPatterns.cpp - What upstream's lowerings lack ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// bf16 mma.sync (upstream's pattern cannot name the operand's PTX type), and
// log2 and tanh as one instruction (upstream would call libdevice).
//
//===----------------------------------------------------------------------===//

#include "flashcore/Conversion/Passes.h"
#include "mlir/Conversion/LLVMCommon/Pattern.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

namespace {
/// nvgpu.mma.sync on bf16: operands travel as i32 pairs.
struct Bf16MmaSyncToNVVM final : ConvertOpToLLVMPattern<nvgpu::MmaSyncOp> {
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;

  LogicalResult
  matchAndRewrite(nvgpu::MmaSyncOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto aType = cast<VectorType>(op.getMatrixA().getType());
    auto cType = cast<VectorType>(op.getMatrixC().getType());
    if (!aType.getElementType().isBF16())
      return rewriter.notifyMatchFailure(op, "is not bf16");
    std::array<int64_t, 3> shape = op.getMmaShapeAsArray();
    if (shape[0] != 16 || shape[1] != 8 || (shape[2] != 16 && shape[2] != 8) ||
        !cType.getElementType().isF32())
      return rewriter.notifyMatchFailure(op,
                                         "is not m16n8k16 or m16n8k8 into f32");

    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Type f32 = b.getF32Type();
    auto resultType =
        LLVM::LLVMStructType::getLiteral(getContext(), {f32, f32, f32, f32});
    std::array<NVVM::MMATypes, 2> types{NVVM::MMATypes::bf16,
                                        NVVM::MMATypes::bf16};
    std::array<NVVM::MMALayout, 2> layouts{NVVM::MMALayout::row,
                                           NVVM::MMALayout::col};
    Value d = NVVM::MmaOp::create(
        b, resultType, unpackPairs(b, adaptor.getMatrixA()),
        unpackPairs(b, adaptor.getMatrixB()),
        unpackScalars(b, adaptor.getMatrixC()), shape, /*b1Op=*/std::nullopt,
        /*intOverflow=*/std::nullopt, types, layouts);
    rewriter.replaceOp(op, packResult(b, d, adaptor.getMatrixC().getType()));
    return success();
  }

  /// Each vector<2xbf16> of an array as an i32.
  static SmallVector<Value> unpackPairs(ImplicitLocOpBuilder &b, Value array) {
    SmallVector<Value> values;
    auto type = cast<LLVM::LLVMArrayType>(array.getType());
    for (unsigned i = 0; i < type.getNumElements(); ++i)
      values.push_back(LLVM::BitcastOp::create(
          b, b.getI32Type(), LLVM::ExtractValueOp::create(b, array, i)));
    return values;
  }

  /// Each scalar of an array of vectors.
  static SmallVector<Value> unpackScalars(ImplicitLocOpBuilder &b,
                                          Value array) {
    SmallVector<Value> values;
    for (int64_t i : {0, 1}) {
      Value row = LLVM::ExtractValueOp::create(b, array, i);
      for (int64_t j : {0, 1})
        values.push_back(LLVM::ExtractElementOp::create(
            b, row, LLVM::ConstantOp::create(b, b.getI32IntegerAttr(j))));
    }
    return values;
  }

  /// The struct of four scalars as an array of two vectors.
  static Value packResult(ImplicitLocOpBuilder &b, Value d, Type arrayType) {
    auto rowType = cast<LLVM::LLVMArrayType>(arrayType).getElementType();
    Value result = LLVM::PoisonOp::create(b, arrayType);
    for (int64_t i : {0, 1}) {
      Value row = LLVM::PoisonOp::create(b, rowType);
      for (int64_t j : {0, 1})
        row = LLVM::InsertElementOp::create(
            b, row, LLVM::ExtractValueOp::create(b, d, 2 * i + j),
            LLVM::ConstantOp::create(b, b.getI32IntegerAttr(j)));
      result = LLVM::InsertValueOp::create(b, result, row, i);
    }
    return result;
  }
};

/// math.log2 on f32: lg2.approx.ftz (PTX ISA, "lg2": error below 2^-22 outside
/// [0.5, 2], absolute inside).
struct Log2ToNVVM final : ConvertOpToLLVMPattern<math::Log2Op> {
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;

  LogicalResult
  matchAndRewrite(math::Log2Op op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return rewriter.notifyMatchFailure(op, "is not a scalar f32");
    rewriter.replaceOpWithNewOp<LLVM::CallIntrinsicOp>(
        op, op.getType(), rewriter.getStringAttr("llvm.nvvm.lg2.approx.ftz.f"),
        adaptor.getOperand());
    return success();
  }
};

/// A math op on f32 that is one instruction where upstream would call
/// libdevice: `factor` times the intrinsic of `scale` times the operand.
template <typename Op>
struct ApproximationToNVVM final : ConvertOpToLLVMPattern<Op> {
  ApproximationToNVVM(const LLVMTypeConverter &converter,
                      PatternBenefit benefit, StringRef intrinsic, float scale,
                      float factor)
      : ConvertOpToLLVMPattern<Op>(converter, benefit), intrinsic(intrinsic),
        scale(scale), factor(factor) {}

  LogicalResult
  matchAndRewrite(Op op, typename Op::Adaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return rewriter.notifyMatchFailure(op, "is not a scalar f32");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    auto multiply = [&](Value value, float by) -> Value {
      if (by == 1.0f)
        return value;
      return LLVM::FMulOp::create(
          b, value, LLVM::ConstantOp::create(b, b.getF32FloatAttr(by)));
    };
    Value operand = multiply(adaptor.getOperand(), scale);
    Value result = LLVM::CallIntrinsicOp::create(
                       b, b.getF32Type(), b.getStringAttr(intrinsic), operand)
                       .getResult(0);
    rewriter.replaceOp(op, multiply(result, factor));
    return success();
  }

private:
  StringRef intrinsic;
  float scale, factor;
};

/// A math op that LLVM has, too, and NVPTX selects an instruction for.
template <typename Op, typename LLVMOp>
struct MathToLLVM final : ConvertOpToLLVMPattern<Op> {
  using ConvertOpToLLVMPattern<Op>::ConvertOpToLLVMPattern;

  LogicalResult
  matchAndRewrite(Op op, typename Op::Adaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return rewriter.notifyMatchFailure(op, "is not a scalar f32");
    rewriter.replaceOpWithNewOp<LLVMOp>(op, op.getType(), adaptor.getOperand());
    return success();
  }
};

/// math.tanh on f32: tanh.approx (PTX ISA, "tanh": relative error below 2^-11).
struct TanhToNVVM final : ConvertOpToLLVMPattern<math::TanhOp> {
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;

  LogicalResult
  matchAndRewrite(math::TanhOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return rewriter.notifyMatchFailure(op, "is not a scalar f32");
    rewriter.replaceOpWithNewOp<LLVM::TanhOp>(
        op, op.getType(), adaptor.getOperand(), LLVM::FastmathFlags::afn);
    return success();
  }
};
} // namespace

static constexpr unsigned kBenefit = 10; // above upstream's patterns

template <typename Op>
static void addApproximation(const LLVMTypeConverter &converter,
                             RewritePatternSet &patterns, StringRef intrinsic,
                             float scale, float factor) {
  patterns.add<ApproximationToNVVM<Op>>(converter, kBenefit, intrinsic, scale,
                                        factor);
}

void mlir::flashcore::populateFlashCoreToNVVMPatterns(
    const LLVMTypeConverter &converter, RewritePatternSet &patterns) {
  patterns.add<Bf16MmaSyncToNVVM, Log2ToNVVM, TanhToNVVM>(converter, kBenefit);
  patterns.add<MathToLLVM<math::AbsFOp, LLVM::FAbsOp>,
               MathToLLVM<math::FloorOp, LLVM::FFloorOp>,
               MathToLLVM<math::CeilOp, LLVM::FCeilOp>>(converter, kBenefit);
  // Errors are those of the PTX ISA: 2 ulp and more of ex2, lg2 as above, 1 ulp
  // of sqrt and rsqrt, 2^-20.5 absolute of sin and cos in [-pi, pi].
  constexpr float log2e = llvm::numbers::log2ef, ln2 = llvm::numbers::ln2f;
  addApproximation<math::ExpOp>(converter, patterns,
                                "llvm.nvvm.ex2.approx.ftz.f", log2e, 1);
  addApproximation<math::LogOp>(converter, patterns,
                                "llvm.nvvm.lg2.approx.ftz.f", 1, ln2);
  addApproximation<math::SqrtOp>(converter, patterns,
                                 "llvm.nvvm.sqrt.approx.ftz.f", 1, 1);
  addApproximation<math::RsqrtOp>(converter, patterns,
                                  "llvm.nvvm.rsqrt.approx.ftz.f", 1, 1);
  addApproximation<math::SinOp>(converter, patterns,
                                "llvm.nvvm.sin.approx.ftz.f", 1, 1);
  addApproximation<math::CosOp>(converter, patterns,
                                "llvm.nvvm.cos.approx.ftz.f", 1, 1);
}
