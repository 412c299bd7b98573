//===- LayoutAttr.cpp - #fcgpu.layout -------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace mlir::fcgpu;
using flashcore::BitMap;
using flashcore::BitPoint;
using flashcore::TileLayout;

/// The inputs in the order of TileLayout::Input, as they are written.
static constexpr StringLiteral kInputNames[] = {"register", "lane", "warp"};
/// Far beyond any tile, small enough for a box not to overflow.
static constexpr int64_t kMaxPlace = 1 << 20;

static SmallVector<int64_t> flatten(ArrayRef<BitPoint> bases) {
  SmallVector<int64_t> flat;
  for (const BitPoint &basis : bases)
    llvm::append_range(flat, basis);
  return flat;
}

static std::vector<BitPoint> unflatten(ArrayRef<int64_t> flat, unsigned rank) {
  std::vector<BitPoint> bases;
  for (; !flat.empty(); flat = flat.drop_front(rank))
    bases.emplace_back(flat.take_front(rank));
  return bases;
}

LayoutAttr LayoutAttr::get(MLIRContext *context, const TileLayout &layout) {
  return get(context, layout.getRank(),
             flatten(layout.getBases(TileLayout::Register)),
             flatten(layout.getBases(TileLayout::Lane)),
             flatten(layout.getBases(TileLayout::Warp)));
}

TileLayout LayoutAttr::getTileLayout() const {
  return {getRank(), unflatten(getRegisters(), getRank()),
          unflatten(getLanes(), getRank()), unflatten(getWarps(), getRank())};
}

LogicalResult LayoutAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 unsigned rank, ArrayRef<int64_t> registers,
                                 ArrayRef<int64_t> lanes,
                                 ArrayRef<int64_t> warps) {
  if (rank < 1 || rank > 2)
    return emitError() << "expects places of 1 or 2 coordinates, but got "
                       << rank;
  ArrayRef<int64_t> inputs[] = {registers, lanes, warps};
  std::vector<std::vector<BitPoint>> bases;
  for (auto [name, input] : llvm::zip_equal(kInputNames, inputs)) {
    if (input.size() % rank != 0)
      return emitError() << "expects " << name << " bases of " << rank
                         << " coordinates, but got " << input.size()
                         << " numbers";
    for (int64_t place : input)
      if (place < 0 || place >= kMaxPlace)
        return emitError() << "expects places from 0 to " << kMaxPlace - 1
                           << ", but got " << place;
    bases.push_back(unflatten(input, rank));
  }
  constexpr size_t laneBits = 5;
  if (bases[TileLayout::Lane].size() != laneBits)
    return emitError() << "expects a basis for each of the " << laneBits
                       << " bits of a lane's number, but got "
                       << bases[TileLayout::Lane].size();
  if (auto error = TileLayout::check(BitMap(rank, std::move(bases))))
    return emitError() << *error;
  return success();
}

/// `(0, 1) (8, 0)`: the bases of one input. The first basis fixes the rank.
static ParseResult parseBases(AsmParser &parser, std::optional<size_t> &rank,
                              SmallVectorImpl<int64_t> &flat) {
  while (succeeded(parser.parseOptionalLParen())) {
    SMLoc loc = parser.getCurrentLocation();
    SmallVector<int64_t> basis;
    if (parser.parseCommaSeparatedList(
            [&] { return parser.parseInteger(basis.emplace_back()); }) ||
        parser.parseRParen())
      return failure();
    if (rank.value_or(basis.size()) != basis.size())
      return parser.emitError(loc, "expects a basis of ")
             << *rank << " coordinates, as the first has, but got "
             << basis.size();
    rank = basis.size();
    llvm::append_range(flat, basis);
  }
  return success();
}

Attribute LayoutAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  std::optional<size_t> rank;
  SmallVector<int64_t> inputs[TileLayout::numInputs];
  auto parseInput = [&]() -> ParseResult {
    StringRef name;
    if (parser.parseKeyword(&name))
      return failure();
    const auto *known = llvm::find(kInputNames, name);
    if (known == std::end(kInputNames))
      return parser.emitError(parser.getCurrentLocation(),
                              "expects register, lane or warp, but got '")
             << name << "'";
    return parseBases(parser, rank, inputs[known - kInputNames]);
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseInput))
    return {};
  return LayoutAttr::getChecked(
      [&] { return parser.emitError(loc); }, parser.getContext(),
      static_cast<unsigned>(rank.value_or(0)),
      ArrayRef(inputs[TileLayout::Register]),
      ArrayRef(inputs[TileLayout::Lane]), ArrayRef(inputs[TileLayout::Warp]));
}

void LayoutAttr::print(AsmPrinter &printer) const {
  ArrayRef<int64_t> inputs[] = {getRegisters(), getLanes(), getWarps()};
  printer << '<';
  StringRef separator;
  for (auto [name, input] : llvm::zip_equal(kInputNames, inputs)) {
    if (input.empty())
      continue;
    printer << separator << name;
    separator = ", ";
    for (const BitPoint &basis : unflatten(input, getRank())) {
      printer << " (";
      llvm::interleaveComma(basis, printer);
      printer << ')';
    }
  }
  printer << '>';
}
