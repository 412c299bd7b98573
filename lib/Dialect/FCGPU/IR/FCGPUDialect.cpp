//===- FCGPUDialect.cpp - The fcgpu dialect -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Types and ops of the fcgpu dialect, their verifiers, and the swizzle that
// gives every ring its place in memory.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FCGPU/IR/Philox.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <numeric>

using namespace mlir;
using namespace mlir::fcgpu;

#include "flashcore/Dialect/FCGPU/IR/FCGPUDialect.cpp.inc"
#include "flashcore/Dialect/FCGPU/IR/FCGPUEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "flashcore/Dialect/FCGPU/IR/FCGPUAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "flashcore/Dialect/FCGPU/IR/FCGPUTypes.cpp.inc"
#define GET_OP_CLASSES
#include "flashcore/Dialect/FCGPU/IR/FCGPUOps.cpp.inc"

namespace {
/// Layouts are written once, at the top, and elsewhere by how many elements of
/// a row or column a lane has next to each other.
struct LayoutAliases final : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attr, raw_ostream &os) const override {
    using flashcore::TileLayout;
    auto layoutAttr = dyn_cast<LayoutAttr>(attr);
    if (!layoutAttr)
      return AliasResult::NoAlias;
    TileLayout layout = layoutAttr.getTileLayout();
    if (layout.getRank() == 1) {
      os << "vector_layout";
      return AliasResult::FinalAlias;
    }
    int64_t inRow = layout.getRun(TileLayout::Column);
    int64_t inColumn = layout.getRun(TileLayout::Row);
    os << 'x' << std::max(inRow, inColumn)
       << (inColumn > inRow ? "_column" : "_row");
    return AliasResult::FinalAlias;
  }
};
} // namespace

void FCGPUDialect::initialize() {
  addInterfaces<LayoutAliases>();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "flashcore/Dialect/FCGPU/IR/FCGPUAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "flashcore/Dialect/FCGPU/IR/FCGPUTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "flashcore/Dialect/FCGPU/IR/FCGPUOps.cpp.inc"
      >();
}

bool mlir::fcgpu::isTileRead(vector::TransferReadOp read) {
  VectorType type = read.getVectorType();
  return type.getRank() == 2 && type.getElementTypeBitWidth() == 16 &&
         isa<MemRefType>(read.getBase().getType());
}

LogicalResult StagingAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                  CopyScope copy, CopyScope ring, int64_t slots,
                                  TileNumber number, int64_t kept, Home home,
                                  int64_t group, RingLayout layout,
                                  bool /*viaRegisters*/) {
  bool inPlace = home == Home::Shared;
  if (slots < 1 || slots > kMaxStages)
    return emitError() << "expects slots of 1 to " << kMaxStages << ", but got "
                       << slots;
  if (ring == CopyScope::Warp && copy != CopyScope::Warp)
    return emitError() << "expects copy = warp with ring = warp, which others "
                          "cannot reach, but got "
                       << stringifyCopyScope(copy);
  if (kept < 0)
    return emitError() << "expects kept to be 0 or more, but got " << kept;
  if (kept > 0 && number != TileNumber::Holder)
    return emitError() << "expects kept = 0 with number = "
                       << stringifyTileNumber(number) << ", but got " << kept;
  if (kept > 0 && inPlace)
    return emitError() << "expects kept = 0 of a tile in place, but got "
                       << kept;
  if (group != 0 && !inPlace)
    return emitError() << "expects group = 0 of a tile that is not in place, "
                          "but got "
                       << group;
  if (layout == RingLayout::Rows)
    return emitError() << "expects layout = panels, plain or padded, in which "
                          "products can take a tile, but got rows";
  if (layout != RingLayout::Panels && (!inPlace || group != 0))
    return emitError() << "expects home = shared and group = 0 with layout = "
                       << stringifyRingLayout(layout)
                       << ", but got home = " << stringifyHome(home)
                       << " and group = " << group;
  return success();
}

/// Checks what a staging asks of the read that it stands on.
static LogicalResult verifyStaging(Operation *op, Attribute value) {
  auto staging = dyn_cast<StagingAttr>(value);
  if (!staging)
    return op->emitError("expects fcgpu.staging to be a #fcgpu.staging, but "
                         "got ")
           << value;
  if (auto write = dyn_cast<vector::TransferWriteOp>(op)) {
    if (staging.isInPlace() && staging.getNumber() == TileNumber::Holder &&
        write.getVectorType().getRank() == 2)
      return success();
    return op->emitError("expects an fcgpu.staging with number = holder and "
                         "home = shared of a tile that is written");
  }
  auto read = dyn_cast<vector::TransferReadOp>(op);
  if (!read || !isTileRead(read))
    return op->emitError("has an fcgpu.staging, but is no vector.transfer_read "
                         "of a 16-bit tile of a memref");
  int64_t kept = staging.getKept();
  int64_t cols = read.getVectorType().getDimSize(1);
  if (kept != cols && (kept > cols || kept % kQueryStep != 0))
    return op->emitError("expects kept to be all of ")
           << cols << " columns or fewer in a multiple of " << kQueryStep
           << ", but got " << kept;
  return success();
}

/// Checks what stands on a loop over tiles.
static LogicalResult verifyLoopAttr(Operation *op, StringRef name,
                                    Attribute value) {
  bool isOverlap = name == kOverlapAttrName;
  if (!(isOverlap ? isa<OverlapAttr>(value) : isa<UnitAttr>(value)))
    return op->emitError("expects ")
           << name << " to be " << (isOverlap ? "an #fcgpu.overlap" : "unit")
           << ", but got " << value;
  if (isa<scf::ForOp>(op))
    return success();
  return op->emitError("has ") << name << ", but is no scf.for";
}

/// A load of a map_scores, whose last coordinate is side by side in memory.
static LogicalResult verifyPaired(Operation *op, Attribute value) {
  if (!isa<UnitAttr>(value))
    return op->emitError("expects fcgpu.paired to be unit, but got ") << value;
  auto load = dyn_cast<memref::LoadOp>(op);
  if (load && load.getMemRefType().getRank() > 0 &&
      load.getMemRefType().isLastDimUnitStride() &&
      isa_and_nonnull<MapScoresOp>(op->getParentOp()))
    return success();
  return op->emitError("has fcgpu.paired, but is no memref.load of innermost "
                       "stride 1 in an fcgpu.map_scores");
}

LogicalResult ProductAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                  Product product, bool wide) {
  if (product != Product::Wmma && product != Product::Thread)
    return emitError() << "expects product wmma or thread, of tiles in plain "
                          "rows, but got "
                       << stringifyProduct(product);
  if (wide && product != Product::Wmma)
    return emitError()
           << "expects wide = false of product " << stringifyProduct(product)
           << ", of which nothing goes through memory, but got true";
  return success();
}

static LogicalResult verifyProduct(Operation *op, Attribute value) {
  if (!isa<ProductAttr>(value))
    return op->emitError("expects fcgpu.product to be a #fcgpu.product, but "
                         "got ")
           << value;
  if (isa<vector::ContractionOp>(op))
    return success();
  return op->emitError("has an fcgpu.product, but is no vector.contract");
}

/// Where the values of an op are.
static LogicalResult verifyHome(Operation *op, Attribute value) {
  auto isHome = [&](Attribute a) {
    return isa<LayoutAttr, FragmentsAttr, UnitAttr>(a) ||
           (isa<SharedAttr>(a) && isa<ReadOp>(op));
  };
  if (auto array = dyn_cast<ArrayAttr>(value)) {
    if (array.size() == op->getNumResults() && llvm::all_of(array, isHome))
      return success();
  } else if (isHome(value) && op->getNumResults() == 1) {
    return success();
  }
  return op->emitError("expects fcgpu.home to be a #fcgpu.layout, "
                       "#fcgpu.fragments or, of an fcgpu.read, #fcgpu.shared, "
                       "or an array with one for each of ")
         << op->getNumResults() << " results, but got " << value;
}

/// A schedule, and one beside it for calls of few queries.
static LogicalResult verifySchedule(Operation *op, StringRef name,
                                    Attribute value) {
  auto schedule = dyn_cast<ScheduleAttr>(value);
  if (!schedule)
    return op->emitError("expects ")
           << name << " to be a #fcgpu.schedule, but got " << value;
  if (name == kScheduleAttrName)
    return success();
  if (schedule.getExpectedQueries() < 1)
    return op->emitError("expects ")
           << name << " to have expected_queries of at least 1, but got "
           << schedule.getExpectedQueries();
  if (!op->hasAttr(kScheduleAttrName))
    return op->emitError("expects ")
           << kScheduleAttrName << " beside " << name << ", for other calls";
  return success();
}

LogicalResult FCGPUDialect::verifyOperationAttribute(Operation *op,
                                                     NamedAttribute attr) {
  StringRef name = attr.getName();
  Attribute value = attr.getValue();
  if (name == kScheduleAttrName || name == kFewQueriesAttrName)
    return verifySchedule(op, name, value);
  if (name == kChipAttrName) {
    if (isa<StringAttr>(value))
      return success();
    return op->emitError(
               "expects fcgpu.chip to be the name of a chip, but got ")
           << value;
  }
  if (name == kKernelAttrName || name == kProgramAttrName) {
    if (isa<DictionaryAttr>(value))
      return success();
    return op->emitError("expects ")
           << name << " to be a dictionary, but got " << value;
  }
  if (name == kPTXVersionAttrName) {
    auto version = dyn_cast<IntegerAttr>(value);
    if (version && version.getValue().isStrictlyPositive())
      return success();
    return op->emitError("expects fcgpu.ptx_version to be a PTX version times "
                         "ten, but got ")
           << value;
  }
  if (name == kStagingAttrName)
    return verifyStaging(op, value);
  if (name == kBlockTilesAttrName || name == kOverlapAttrName)
    return verifyLoopAttr(op, name, value);
  if (name == kPairedAttrName)
    return verifyPaired(op, value);
  if (name == kProductAttrName)
    return verifyProduct(op, value);
  if (name != kHomeAttrName)
    return op->emitError("has an unknown attribute ")
           << name << ": expects " << kScheduleAttrName << ", "
           << kFewQueriesAttrName << ", " << kChipAttrName << ", "
           << kStagingAttrName << ", " << kBlockTilesAttrName << ", "
           << kOverlapAttrName << ", " << kPairedAttrName << ", "
           << kHomeAttrName << ", " << kProductAttrName << ", "
           << kPTXVersionAttrName << ", " << kProgramAttrName << " or "
           << kKernelAttrName;
  return verifyHome(op, value);
}

//===----------------------------------------------------------------------===//
// Ring type
//===----------------------------------------------------------------------===//

unsigned mlir::fcgpu::getNeededPTXVersion(Operation *module) {
  unsigned needed = 0;
  for (Operation &kernel : module->getRegion(0).getOps())
    if (auto version = kernel.getAttrOfType<IntegerAttr>(kPTXVersionAttrName))
      needed = std::max<unsigned>(needed, version.getInt());
  return needed;
}

flashcore::OperandPlace mlir::fcgpu::getRightPlace(Product product) {
  using flashcore::OperandPlace;
  switch (product) {
  case Product::Warp:
    return OperandPlace::Registers;
  case Product::Warpgroup:
    return OperandPlace::SharedMemory;
  case Product::Wmma:
    return OperandPlace::Fragments;
  case Product::Thread:
    return OperandPlace::Lanes;
  }
  llvm_unreachable("unknown product");
}

std::optional<flashcore::ElementKind> mlir::fcgpu::getElementKind(Type type) {
  using flashcore::ElementKind;
  if (type.isF16())
    return ElementKind::F16;
  if (type.isBF16())
    return ElementKind::BF16;
  if (type.isF32())
    return ElementKind::F32;
  return std::nullopt;
}

bool mlir::fcgpu::isRingElement(Type type) {
  return type.isF16() || type.isBF16();
}

int64_t mlir::fcgpu::getSwizzleGroup(int64_t chunks) {
  return std::gcd(chunks, int64_t(8));
}

int64_t mlir::fcgpu::swizzleChunk(int64_t row, int64_t chunk, int64_t chunks) {
  int64_t group = getSwizzleGroup(chunks);
  return chunk ^ ((row / (8 / group)) % group);
}

int64_t RingType::getSizeInBytes() const {
  return getStages() * getSlotElements() *
         getElementType().getIntOrFloatBitWidth() / 8;
}

int64_t RingType::getGroupStride() const {
  return llvm::divideCeil(getCols(), getPanelCols()) * getPanelStride();
}

int64_t RingType::getPanelOffset(int64_t row, int64_t col) const {
  int64_t rows = getGroupRows(), cols = getPanelCols();
  return row / rows * getGroupStride() + col / cols * getPanelStride() +
         row % rows * kPanelBytes + col % cols * getElementBytes();
}

Type RingType::parse(AsmParser &parser) {
  SmallVector<int64_t> dims;
  Type elementType;
  SMLoc loc = parser.getCurrentLocation();
  RingLayout layout = RingLayout::Rows;
  int64_t group = 0;
  if (parser.parseLess() ||
      parser.parseDimensionList(dims, /*allowDynamic=*/false) ||
      parser.parseType(elementType))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    FailureOr<RingLayout> parsed = FieldParser<RingLayout>::parse(parser);
    if (failed(parsed))
      return {};
    layout = *parsed;
    if (succeeded(parser.parseOptionalLParen()) &&
        (parser.parseInteger(group) || parser.parseRParen()))
      return {};
  }
  if (parser.parseGreater())
    return {};
  if (dims.size() != 3) {
    parser.emitError(loc, "expects a ring of stages x rows x cols, but got ")
        << dims.size() << " dimensions";
    return {};
  }
  return RingType::getChecked([&] { return parser.emitError(loc); },
                              parser.getContext(), dims[0], dims[1], dims[2],
                              elementType, layout, group);
}

void RingType::print(AsmPrinter &printer) const {
  printer << '<' << getStages() << 'x' << getRows() << 'x' << getCols() << 'x'
          << getElementType();
  if (getLayout() != RingLayout::Rows)
    printer << ", " << stringifyRingLayout(getLayout());
  if (hasGroups())
    printer << '(' << getGroup() << ')';
  printer << '>';
}

LogicalResult RingType::verify(function_ref<InFlightDiagnostic()> emitError,
                               int64_t stages, int64_t rows, int64_t cols,
                               Type elementType, RingLayout layout,
                               int64_t group) {
  if (!isRingElement(elementType))
    return emitError() << "expects a ring of f16 or bf16, but got "
                       << elementType;
  if (stages < 1)
    return emitError() << "expects at least one stage, but got " << stages;
  constexpr int64_t limit = 4096; // far beyond any shared memory
  if (stages > limit || rows > limit || cols > limit)
    return emitError() << "expects stages, rows and cols of at most " << limit
                       << ", but got " << stages << ", " << rows << " and "
                       << cols;
  if (rows < 16 || rows % 16 != 0)
    return emitError() << "expects rows to be a positive multiple of 16, but "
                          "got "
                       << rows;
  if (cols < 16 || cols % 8 != 0)
    return emitError() << "expects cols to be a multiple of 8 from 16 on, but "
                          "got "
                       << cols;
  bool isGroup = layout == RingLayout::Panels && group >= kSwizzledRows &&
                 group < rows && rows % group == 0 &&
                 llvm::isPowerOf2_64(group);
  if (group != 0 && !isGroup)
    return emitError() << "expects panels in groups of a power of two of rows "
                          "from "
                       << kSwizzledRows << " on that divides the " << rows
                       << " of a slot, but got " << stringifyRingLayout(layout)
                       << '(' << group << ')';
  return success();
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult FillOp::verify() {
  RingType ring = getRing().getType();
  int64_t first = getColumn();
  if (!ring.hasPanels() || first <= 0 || first >= ring.getCols() ||
      first % ring.getPanelCols() != 0)
    return emitOpError("expects a ring of panels, and a column that begins one "
                       "behind the first, but got ")
           << ring << " and " << first;
  if (getValue().getType() != ring.getElementType())
    return emitOpError("expects a value of type ")
           << ring.getElementType() << ", but got " << getValue();
  return success();
}

/// Rows of a pool, as one matrix.
static MemRefType getPagedType(MemRefType pool) {
  auto space = PagesAttr::get(pool.getContext());
  return MemRefType::get(
      {1, pool.getDimSize(1), ShapedType::kDynamic, pool.getDimSize(3)},
      pool.getElementType(), MemRefLayoutAttrInterface(), space);
}

void ViewPagesOp::build(OpBuilder &builder, OperationState &state, Value pool,
                        Value table, Value rows, int64_t step) {
  build(builder, state, getPagedType(cast<MemRefType>(pool.getType())), pool,
        table, rows, step);
}

LogicalResult ViewPagesOp::verify() {
  auto pool = cast<MemRefType>(getPool().getType());
  auto table = cast<MemRefType>(getTable().getType());
  if (pool.getRank() != 4 || pool.isDynamicDim(2) || pool.getDimSize(2) == 0)
    return emitOpError("expects a pool (pages, heads, rows, columns) with a "
                       "static number of rows, but got ")
           << pool;
  if (table.getRank() != 2 || table.getDimSize(0) != 1 ||
      !table.getElementType().isSignlessInteger(32))
    return emitOpError("expects a table (1, pages) of i32, but got ") << table;
  if (getType() != getPagedType(pool))
    return emitOpError("expects a result of type ")
           << getPagedType(pool) << ", but got " << getType();
  return success();
}

/// Whether one box can fill the panels of each page: it writes what it moves in
/// one piece.
static LogicalResult verifyGroups(CopyOp op) {
  RingType ring = op.getRing().getType();
  int64_t cols = cast<MemRefType>(op.getSource().getType()).getShape().back();
  auto pages = op.getSource().getDefiningOp<ViewPagesOp>();
  if (!pages || ShapedType::isDynamic(cols) || cols % ring.getPanelCols() != 0)
    return op.emitOpError("expects pages of rows of whole panels for ")
           << ring << ", but got " << op.getSource().getType();
  int64_t rows = std::gcd(pages.getPageSize(), ring.getRows());
  int64_t group = ring.getGroup();
  if (rows % group != 0 || (cols != ring.getCols() && rows != group))
    return op.emitOpError("expects groups of ")
           << (cols == ring.getCols() ? "a divisor of the " : "the ") << rows
           << " rows that are in one page, but got " << ring;
  return success();
}

LogicalResult CopyOp::verify() {
  auto source = cast<MemRefType>(getSource().getType());
  RingType ring = getRing().getType();
  if (source.getElementType() != ring.getElementType())
    return emitOpError("expects source and ring of one element type, but got ")
           << source.getElementType() << " and " << ring.getElementType();
  if (source.getRank() < 2)
    return emitOpError("expects a source of rank 2 or more, but got ")
           << source.getRank();
  if (getIndices().size() != static_cast<size_t>(source.getRank()))
    return emitOpError("expects ")
           << source.getRank() << " indices, but got " << getIndices().size();
  auto pages = getSource().getDefiningOp<ViewPagesOp>();
  if (ring.hasPanels() && pages &&
      std::gcd(pages.getPageSize(), ring.getRows()) % kSwizzledRows != 0)
    return emitOpError("expects a ring of rows for pages of ")
           << pages.getPageSize() << " rows, of which no " << kSwizzledRows
           << " of a slot are in one, but got " << ring;
  if (ring.hasGroups() && failed(verifyGroups(*this)))
    return failure();
  int64_t cols = source.getShape().back();
  bool fillsPanels = ring.hasPanels() && !ShapedType::isDynamic(cols) &&
                     cols < ring.getCols() && cols % ring.getPanelCols() == 0;
  bool fillsRows = !ring.hasPanels() && !ShapedType::isDynamic(cols) &&
                   getTileColumns(cols) == ring.getCols();
  if (cols != ring.getCols() && !fillsPanels && !fillsRows)
    return emitOpError("expects source rows of ")
           << ring.getCols() << " columns, but got "
           << (ShapedType::isDynamic(cols) ? "?" : std::to_string(cols));
  return success();
}

LogicalResult StoreOp::verify() {
  RingType ring = getRing().getType();
  if (!ring.hasPanels())
    return emitOpError("expects a ring with panels, but got ") << ring;
  if (ring.hasGroups())
    return emitOpError("expects panels of all rows, but got ") << ring;
  auto target = cast<MemRefType>(getTarget().getType());
  if (target.getElementType() != ring.getElementType())
    return emitOpError("expects target and ring of one element type, but got ")
           << target.getElementType() << " and " << ring.getElementType();
  if (getIndices().size() != static_cast<size_t>(target.getRank()))
    return emitOpError("expects ")
           << target.getRank() << " indices, but got " << getIndices().size();
  auto expected =
      VectorType::get({ring.getRows(), ring.getCols()}, ring.getElementType());
  if (getValue().getType() != expected)
    return emitOpError("expects a tile of type ")
           << expected << ", but got " << getValue().getType();
  return success();
}

LogicalResult ReadOp::verify() {
  RingType ring = getRing().getType();
  int64_t first = getColumn();
  if (first < 0 || first >= ring.getCols() || first % kQueryStep != 0)
    return emitOpError("expects the first column to be a multiple of ")
           << kQueryStep << " below " << ring.getCols() << ", but got "
           << first;
  auto type = dyn_cast<VectorType>(getResult().getType());
  int64_t cols = type && type.getRank() == 2 ? type.getDimSize(1) : 0;
  int64_t left = ring.getCols() - first;
  bool isPart =
      cols == left || (cols < left && cols > 0 && cols % kQueryStep == 0);
  auto expected = VectorType::get({ring.getRows(), isPart ? cols : left},
                                  ring.getElementType());
  if (type != expected)
    return emitOpError("expects result type ")
           << expected << ", but got " << getResult().getType();
  if (!isInPlace())
    return success();
  if (ring.getLayout() == RingLayout::Rows)
    return emitOpError("reads a tile in place of a ring whose rows have a "
                       "swizzle");
  for (Operation *user : getResult().getUsers())
    if (!isa<vector::ContractionOp>(user))
      return emitOpError("reads a tile in place, which only products can use, "
                         "but ")
             << user->getName() << " does";
  return success();
}

bool mlir::fcgpu::isInPlace(Value tile) {
  auto read = tile.getDefiningOp<ReadOp>();
  return read && read.isInPlace();
}

bool mlir::fcgpu::isAsynchronous(vector::ContractionOp op) {
  return llvm::any_of(ValueRange{op.getLhs(), op.getRhs()}, [](Value operand) {
    auto read = operand.getDefiningOp<ReadOp>();
    return read && read.isInPlace() && read.getRing().getType().hasPanels();
  });
}

LogicalResult AwaitOp::verify() {
  auto product = getProduct().getDefiningOp<vector::ContractionOp>();
  if (product && !isAsynchronous(product))
    return emitOpError("waits for a product that reads no tile in place");
  return success();
}

ShareGrid mlir::fcgpu::getShareGrid(int64_t rows, int64_t parts) {
  int64_t rowShares = std::gcd(rows / 8, parts);
  return {rowShares, parts / rowShares};
}

FailureOr<VectorType> mlir::fcgpu::getShareType(VectorType tile,
                                                int64_t parts) {
  int64_t rows = tile.getDimSize(0);
  if (parts < 1 || rows % 8 != 0)
    return failure();
  ShareGrid grid = getShareGrid(rows, parts);
  if (tile.getRank() == 1)
    return VectorType::get({rows / grid.rows}, tile.getElementType());
  int64_t cols = tile.getDimSize(1);
  if (cols % (8 * grid.cols) != 0)
    return failure();
  return VectorType::get({rows / grid.rows, cols / grid.cols},
                         tile.getElementType());
}

LogicalResult
AllToAllOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                             Adaptor adaptor,
                             SmallVectorImpl<Type> &inferredReturnTypes) {
  for (Type type : adaptor.getTiles().getTypes()) {
    auto tile = cast<VectorType>(type);
    FailureOr<VectorType> share = getShareType(tile, adaptor.getParts());
    if (failed(share))
      return emitOptionalError(
          location,
          "'fcgpu.all_to_all' op expects tiles of whole 8x8 cores "
          "that ",
          adaptor.getParts(), " parts can share evenly, but got ", tile);
    inferredReturnTypes.append(adaptor.getParts(), *share);
  }
  return success();
}

LogicalResult AllToAllOp::verify() {
  auto rowsOf = [](Type type) { return cast<VectorType>(type).getDimSize(0); };
  TypeRange types = getTiles().getTypes();
  if (types.empty())
    return emitOpError("expects at least one tile");
  for (Type type : types)
    if (rowsOf(type) != rowsOf(types.front()))
      return emitOpError("expects tiles of equally many rows, but got ")
             << rowsOf(types.front()) << " and " << rowsOf(type);
  return success();
}

LogicalResult DropoutOp::verify() {
  int64_t cols = getTile().getType().getDimSize(1);
  if (cols % 16 != 0)
    return emitOpError("expects a tile of a multiple of 16 columns, but got ")
           << cols;
  if (getStream().size() != kPhiloxWords)
    return emitOpError("expects a stream of ")
           << kPhiloxWords << " words, but got " << getStream().size();
  return success();
}

LogicalResult MapScoresOp::verifyRegions() {
  Type index = IndexType::get(getContext());
  Type expected[] = {Float32Type::get(getContext()), index, index};
  if (getBody().getArgumentTypes() != TypeRange(expected))
    return emitOpError(
        "expects a region of (score: f32, query: index, key: index)");
  if (!isa<YieldOp>(getBody().front().getTerminator()))
    return emitOpError("expects the region to end with fcgpu.yield");
  return success();
}
