//===- DistributeWarpgroup.cpp - Products of tiles in place ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// wgmma. Upstream's op takes no operand from registers, and its wait has no
// operands, so both are inline PTX: one text a product, which nothing can come
// between, and a wait through which all passes that becomes valid by it. (ptxas
// gives up asynchrony where accumulators are touched while they are in flight.)
//
// A tile in place is its matrix descriptor (PTX ISA, "Matrix Descriptor Format"
// of wgmma): address, distance of the panels, distance of eight rows, all in
// units of 16 bytes, and the swizzle. Rows of K are taken as far as the tile
// goes, those of V 16 at a time, so that only they may be in groups of more.
//
//===----------------------------------------------------------------------===//

#include "DistributePatterns.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::fcgpu;
using flashcore::MmaAtom;

Value mlir::fcgpu::asRegister(IndexBuilder &b, Value part) {
  auto word = VectorType::get({1}, b.getI32Type());
  return vector::ExtractOp::create(b, vector::BitCastOp::create(b, word, part),
                                   0);
}

bool mlir::fcgpu::isStoredNK(vector::ContractionOp op) {
  return op.getIndexingMapsArray()[1].getResult(0) ==
         op.getIndexingMapsArray()[2].getResult(1);
}

SmallVector<Value> mlir::fcgpu::packPairs(IndexBuilder &b,
                                          ArrayRef<Value> elements) {
  SmallVector<Value> parts;
  auto type = VectorType::get({2}, elements.front().getType());
  for (size_t i = 0; i < elements.size(); i += 2)
    parts.push_back(
        vector::FromElementsOp::create(b, type, elements.slice(i, 2)));
  return parts;
}

namespace {
/// The unit of addresses and distances in a descriptor, in bytes.
constexpr int64_t kDescriptorUnit = 16;
/// Where a descriptor has the distance of panels, that of eight rows, and the
/// swizzle of 128 bytes.
constexpr unsigned kPanelShift = 16, kRowsShift = 32, kSwizzleShift = 62;
constexpr int64_t kAddressMask = 0x3ffff;

struct DistributeReadInPlace final : ThreadPattern<ReadOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(ReadOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    RingType ring = op.getRing().getType();
    if (!op.isInPlace() || !ring.hasPanels())
      return rewriter.notifyMatchFailure(op, "is not in place");
    IndexBuilder b(op.getLoc(), rewriter);
    Value slot = getSlotAddress(b, adaptor.getRing().front(), ring,
                                adaptor.getTile().front());
    Value address = b.add(slot, ring.getPanelOffset(0, op.getColumn()));
    Value inUnits =
        b.div(arith::AndIOp::create(b, address, b.index(kAddressMask)),
              kDescriptorUnit);
    Value descriptor = arith::IndexCastOp::create(b, b.getI64Type(), inUnits);
    int64_t rowsStride = ring.getPanelOffset(kSwizzledRows, 0);
    int64_t constant = ring.getPanelStride() / kDescriptorUnit << kPanelShift |
                       rowsStride / kDescriptorUnit << kRowsShift |
                       int64_t(1) << kSwizzleShift;
    rewriter.replaceOp(
        op, arith::OrIOp::create(
                b, descriptor,
                arith::ConstantOp::create(b, b.getI64IntegerAttr(constant))));
    return success();
  }
};

/// Inline PTX with its operands, whose results are f32.
class InlinePTX {
public:
  explicit InlinePTX(IndexBuilder &b) : b(b) {}

  /// A result; with an operand, one that begins as it.
  void addResult() { ++numResults; }
  void addTied(Value value) {
    tied.push_back(value);
    addResult();
  }
  /// Returns how the text names the operand.
  std::string addInput(Value value, StringRef constraint) {
    inputs.push_back(value);
    constraints.push_back(constraint);
    return "$" + std::to_string(numResults + inputs.size() - 1);
  }
  /// The registers of the results, for the text.
  std::string nameResults() const {
    std::string text = "{";
    for (size_t i = 0; i < numResults; ++i)
      text += (i == 0 ? "$" : ", $") + std::to_string(i);
    return text + "}";
  }

  /// Results come before all inputs, so they are added first.
  SmallVector<Value> create(StringRef text) {
    std::string all;
    auto add = [&](const std::string &constraint) {
      all += (all.empty() ? "" : ",") + constraint;
    };
    for (size_t i = 0; i < numResults; ++i)
      add("=f");
    for (StringRef constraint : constraints)
      add(constraint.str());
    for (size_t i = 0; i < tied.size(); ++i)
      add(std::to_string(i));
    SmallVector<Value> operands(inputs);
    operands.append(tied);
    auto type = LLVM::LLVMStructType::getLiteral(
        b.getContext(), SmallVector<Type>(numResults, b.getF32Type()));
    Value values =
        LLVM::InlineAsmOp::create(
            b, type, operands, text, all, /*has_side_effects=*/true,
            /*is_align_stack=*/false, LLVM::TailCallKind::None,
            LLVM::AsmDialectAttr::get(b.getContext(), LLVM::AsmDialect::AD_ATT),
            /*operand_attrs=*/ArrayAttr())
            .getResult(0);
    SmallVector<Value> results;
    for (size_t i = 0; i < numResults; ++i)
      results.push_back(LLVM::ExtractValueOp::create(
          b, values, ArrayRef<int64_t>{static_cast<int64_t>(i)}));
    return results;
  }

private:
  IndexBuilder &b;
  size_t numResults = 0;
  SmallVector<Value> inputs, tied;
  SmallVector<StringRef> constraints;
};

/// The elements of the parts of a tile, one after the other.
SmallVector<Value> unpackParts(IndexBuilder &b, ValueRange parts) {
  SmallVector<Value> elements;
  for (Value part : parts)
    for (int64_t i = 0; i < cast<VectorType>(part.getType()).getNumElements();
         ++i)
      elements.push_back(vector::ExtractOp::create(b, part, i));
  return elements;
}

struct DistributeWarpgroupProduct final : ThreadPattern<vector::ContractionOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(vector::ContractionOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    SmallVector<const MmaAtom *> atoms = findMmaAtoms(*thread.target, op);
    if (!isInPlace(op.getRhs()) || !isAsynchronous(op) || atoms.empty())
      return rewriter.notifyMatchFailure(op, "has no right operand in panels");
    const MmaAtom &atom = *atoms.front();
    auto type = cast<VectorType>(op.getAccType());
    int64_t k = op.getLhsType().getDimSize(1);
    // Columns up to a whole step are zeros where the panels of both operands
    // have them.
    bool hasSteps = k % atom.k == 0 || isInPlace(op.getLhs());
    if (type.getDimSize(0) != atom.m || type.getDimSize(1) > atom.maxN ||
        type.getDimSize(1) % atom.n != 0 || !hasSteps)
      return rewriter.notifyMatchFailure(op, "is not the size of one wgmma");
    if ((isStoredNK(op) && !hasEvenRows(op.getRhs())) ||
        (isInPlace(op.getLhs()) && !hasEvenRows(op.getLhs())))
      return rewriter.notifyMatchFailure(op, "has rows at uneven distances");
    if (*thread.layouts->lookup(op.getResult()) != atom.acc.getCore())
      return rewriter.notifyMatchFailure(op, "leaves its result elsewhere");

    thread.use(atom);
    IndexBuilder b(op.getLoc(), rewriter);
    InlinePTX ptx(b);
    bool isFresh = matchPattern(op.getAcc(), m_AnyZeroFloat());
    SmallVector<Value> acc = unpackParts(b, adaptor.getAcc());
    for (Value element : acc)
      isFresh ? ptx.addResult() : ptx.addTied(element);
    SmallVector<std::string> lhs = addLhs(b, ptx, op, adaptor);
    std::string rhs = ptx.addInput(adaptor.getRhs().front(), "l");
    std::string text =
        "{ .reg .b64 a, b; .reg .pred none, all; setp.ne.b32 none, 0, 0; "
        "setp.eq.b32 all, 0, 0; wgmma.fence.sync.aligned; ";
    for (int64_t kk = 0; kk < k; kk += atom.k) {
      bool isFirst = kk == 0;
      text += writeStep(op, atom, kk, lhs, rhs, ptx.nameResults(),
                        isFresh && isFirst ? "none" : "all");
    }
    text += "wgmma.commit_group.sync.aligned; }";
    rewriter.replaceOpWithMultiple(op, {packPairs(b, ptx.create(text))});
    return success();
  }

private:
  /// Whether all eight rows of a tile in place are as far behind those before.
  static bool hasEvenRows(Value tile) {
    RingType ring = tile.getDefiningOp<ReadOp>().getRing().getType();
    return !ring.hasGroups() || ring.getGroup() == kSwizzledRows;
  }

  /// Registers of the left operand of one instruction.
  static constexpr size_t fragmentSize = 4;

  /// The left operand: its descriptor, or its registers.
  SmallVector<std::string> addLhs(IndexBuilder &b, InlinePTX &ptx,
                                  vector::ContractionOp op,
                                  OneToNOpAdaptor adaptor) const {
    if (isInPlace(op.getLhs()))
      return {ptx.addInput(adaptor.getLhs().front(), "l")};
    SmallVector<std::string> names;
    for (Value part : adaptor.getLhs())
      names.push_back(ptx.addInput(asRegister(b, part), "r"));
    return names;
  }

  /// One instruction: the columns of the left operand from `kk` on. `scale` is
  /// the predicate that says whether the accumulators count.
  static std::string writeStep(vector::ContractionOp op, const MmaAtom &atom,
                               int64_t kk, ArrayRef<std::string> lhs,
                               StringRef rhs, StringRef acc, StringRef scale) {
    // What is stored (n, k) goes on along its rows, what is stored (k, n) takes
    // the next rows.
    bool isNK = isStoredNK(op);
    std::string text = advance("b", rhs,
                               isNK ? getStepOffset(op.getRhs(), 0, kk)
                                    : getStepOffset(op.getRhs(), kk, 0));
    bool isInMemory = isInPlace(op.getLhs());
    if (isInMemory)
      text += advance("a", lhs.front(), getStepOffset(op.getLhs(), 0, kk));
    int64_t n = cast<VectorType>(op.getAccType()).getDimSize(1);
    // Neither operand is negated; of those in memory, whether it is transposed.
    return text + (Twine(getName(op, n)) + acc + ", " +
                   (isInMemory ? "a" : nameFragment(lhs, kk / atom.k)) +
                   ", b, " + scale + ", 1, 1" + (isInMemory ? ", 0" : "") +
                   (isNK ? ", 0; " : ", 1; "))
                      .str();
  }

  /// Bytes from the descriptor of a tile in place to a row and a column of it.
  static int64_t getStepOffset(Value tile, int64_t row, int64_t col) {
    auto read = tile.getDefiningOp<ReadOp>();
    RingType ring = read.getRing().getType();
    int64_t first = read.getColumn();
    return ring.getPanelOffset(row, first + col) -
           ring.getPanelOffset(0, first);
  }

  /// The tile repeats the instruction's operand along its columns, in order.
  static std::string nameFragment(ArrayRef<std::string> registers, int64_t i) {
    return "{" +
           llvm::join(registers.slice(i * fragmentSize, fragmentSize), ", ") +
           "}";
  }

  static std::string advance(StringRef name, StringRef descriptor,
                             int64_t bytes) {
    return ("add.s64 " + name + ", " + descriptor + ", " +
            Twine(bytes / kDescriptorUnit) + "; ")
        .str();
  }

  static std::string getName(vector::ContractionOp op, int64_t n) {
    std::string type =
        op.getLhsType().getElementType().isBF16() ? "bf16" : "f16";
    return "wgmma.mma_async.sync.aligned.m64n" + std::to_string(n) +
           "k16.f32." + type + "." + type + " ";
  }
};

struct DistributeAwait final : ThreadPattern<AwaitOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(AwaitOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    IndexBuilder b(op.getLoc(), rewriter);
    InlinePTX ptx(b);
    for (Value element : unpackParts(b, adaptor.getProduct()))
      ptx.addTied(element);
    for (ValueRange operand : adaptor.getRegisters())
      for (Value part : operand)
        ptx.addInput(asRegister(b, part), "r");
    std::string text = "wgmma.wait_group.sync.aligned " +
                       std::to_string(op.getInFlight()) + ";";
    rewriter.replaceOpWithMultiple(op, {packPairs(b, ptx.create(text))});
    return success();
  }
};
} // namespace

void mlir::fcgpu::populateWarpgroupPatterns(const TileTypeConverter &converter,
                                            const ThreadContext &context,
                                            RewritePatternSet &patterns) {
  patterns
      .add<DistributeReadInPlace, DistributeWarpgroupProduct, DistributeAwait>(
          converter, patterns.getContext(), context);
}
