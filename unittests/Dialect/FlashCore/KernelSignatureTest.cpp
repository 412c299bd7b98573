//===- KernelSignatureTest.cpp - Kernels that are no attention's ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel that adds up the rows of x (batch, seqlen_q, head_dim), of sizes and
// strides that are partly known at run time only.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FlashCore/Transforms/KernelSignature.h"
#include "mlir/IR/Block.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::flashcore;

namespace {
constexpr int64_t kDynamic = ShapedType::kDynamic;

class KernelSignatureTest : public testing::Test {
protected:
  Value makeMemref(ArrayRef<int64_t> shape, Type element,
                   MemRefLayoutAttrInterface layout = {}) {
    return host.addArgument(MemRefType::get(shape, element, layout),
                            UnknownLoc::get(&context));
  }

  KernelSignature makeSignature() {
    Builder b(&context);
    auto layout = StridedLayoutAttr::get(&context, kDynamic, {kDynamic, 64, 1});
    return KernelSignature(
        {{"x",
          /*isOutput=*/false,
          makeMemref({kDynamic, 8, 64}, b.getF16Type(), layout),
          {Dim::Batch, Dim::SeqlenQ, Dim::HeadDim},
          /*alignment=*/16},
         {"sum",
          /*isOutput=*/true,
          makeMemref({kDynamic, 8}, b.getF32Type()),
          {Dim::Batch, Dim::SeqlenQ},
          /*alignment=*/4}});
  }

  MLIRContext context;
  Block host;
};

TEST_F(KernelSignatureTest, ExtentsAreThoseOfTheTensors) {
  KernelSignature signature = makeSignature();
  EXPECT_EQ(signature.getExtent(Dim::SeqlenQ), 8);
  EXPECT_EQ(signature.getExtent(Dim::HeadDim), 64);
  EXPECT_EQ(signature.getExtent(Dim::Batch), std::nullopt);
  EXPECT_EQ(signature.getTensorIndex("sum"), 1u);
}

TEST_F(KernelSignatureTest, ArgumentsArePointersThenWhatIsOpen) {
  KernelSignature signature = makeSignature();
  auto isAny = [](const KernelTensor &) { return true; };
  auto isBatch = [](Dim dim) { return dim == Dim::Batch; };
  std::vector<KernelArgument::Kind> kinds;
  auto arguments =
      signature.listArguments(KernelSignature::ReadsWorkspace, isAny, isBatch);
  for (const KernelArgument &argument : arguments)
    kinds.push_back(argument.kind);
  using A = KernelArgument;
  EXPECT_EQ(kinds, (std::vector<A::Kind>{A::Pointer, A::Pointer, A::Workspace,
                                         A::Size, A::Offset, A::Stride}));
  EXPECT_EQ(signature.getTypes(&context, arguments).size(), 6u);
}

TEST_F(KernelSignatureTest, TakesOnlyWhatItIsAskedFor) {
  KernelSignature signature = makeSignature();
  auto arguments = signature.listArguments(
      KernelSignature::NoWorkspace,
      [](const KernelTensor &tensor) { return tensor.isOutput; },
      [](Dim) { return false; });
  ASSERT_EQ(arguments.size(), 1u);
  EXPECT_EQ(arguments[0].kind, KernelArgument::Pointer);
  EXPECT_EQ(arguments[0].tensor, 1u);
}

TEST_F(KernelSignatureTest, SaysWhatIsAlikeForAllLaunches) {
  Builder b(&context);
  DictionaryAttr kernel =
      makeSignature().describeKernel(&context, {}, {Dim::Batch, 128});
  EXPECT_EQ(kernel.get("threads"), b.getI64IntegerAttr(128));
  EXPECT_EQ(kernel.get("shared_memory"), b.getI64IntegerAttr(0));
  EXPECT_EQ(kernel.get("grid"), Attribute());
}
} // namespace
