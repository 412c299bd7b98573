//===- ScheduleAttr.cpp - #fcgpu.schedule ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The attribute as a struct and back, and what no schedule can say.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <vector>

using namespace mlir;
using namespace mlir::fcgpu;

bool ScheduleChoice::operator==(const ScheduleChoice &other) const {
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  if (name != other.name)                                                      \
    return false;
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
  return true;
}

std::string mlir::fcgpu::joinWords(ArrayRef<StringRef> words, StringRef quote) {
  std::string text;
  for (auto [i, word] : llvm::enumerate(words)) {
    text += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
    text += (quote + word + quote).str();
  }
  return text;
}

int64_t mlir::fcgpu::getKeptQueryColumns(QueryPlacement query,
                                         int64_t querySteps, int64_t headDim) {
  switch (query) {
  case QueryPlacement::Registers:
    return headDim;
  case QueryPlacement::Shared:
    return 0;
  case QueryPlacement::Split:
    return querySteps * kQueryStep;
  }
  llvm_unreachable("unknown placement");
}

ScheduleChoice ScheduleAttr::getChoice() const {
  ScheduleChoice choice;
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  choice.name = get##Name();
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
  return choice;
}

#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  , choice.name
ScheduleAttr ScheduleAttr::get(MLIRContext *context, StringRef chip,
                               const ScheduleChoice &choice) {
  return get(context, chip
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
  );
}

//===----------------------------------------------------------------------===//
// What cannot work
//===----------------------------------------------------------------------===//

std::string mlir::fcgpu::spell(StringRef key, FieldNames names) {
  std::string name = key.str();
  if (names == FieldNames::Options)
    std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// Whether the warps of a block come out even.
static std::optional<std::string> checkWarps(const ScheduleChoice &choice,
                                             FieldNames names) {
  if (choice.numWarps < 1 || choice.numWarps > kMaxWarps)
    return llvm::formatv("expects {0} from 1 to {1}, but got {2}",
                         spell("num_warps", names), kMaxWarps, choice.numWarps);
  if (choice.hasBulkCopies() && (choice.numWarps % choice.getTileWarps() != 0 ||
                                 choice.getAllWarps() > kMaxWarps))
    return llvm::formatv("expects {0} to be a multiple of {1} up to {2} with "
                         "product warpgroup, but got {3}",
                         spell("num_warps", names), kWarpsOfGroup,
                         kMaxWarps - kWarpsOfGroup, choice.numWarps);
  if (choice.getAllWarps() > kMaxWarps)
    return llvm::formatv("expects {0} from 1 to {1} with {2} producer, but got "
                         "{3}",
                         spell("num_warps", names),
                         kMaxWarps - choice.getProducerWarps(),
                         spell("copies", names), choice.numWarps);
  if (choice.keyWarps < 1 || choice.numWarps % choice.keyWarps != 0)
    return llvm::formatv("expects {0} to divide {1} = {2}, but got {3}",
                         spell("key_warps", names), spell("num_warps", names),
                         choice.numWarps, choice.keyWarps);
  if (choice.headGroup < 1)
    return llvm::formatv("expects {0} of at least 1, but got {1}",
                         spell("head_group", names), choice.headGroup);
  if (choice.getNumHolders() % choice.headGroup != 0)
    return llvm::formatv(
        "expects {0} to be a multiple of {4}{1} = {2}, but "
        "got {3}",
        spell("num_warps", names), spell("head_group", names),
        choice.headGroup * choice.getTileWarps(), choice.numWarps,
        choice.hasBulkCopies() ? std::to_string(kWarpsOfGroup) + " * "
                               : std::string());
  if (choice.keySplits < 1 || choice.keySplits > kMaxKeySplits)
    return llvm::formatv("expects {0} from 1 to {1}, but got {2}",
                         spell("key_splits", names), kMaxKeySplits,
                         choice.keySplits);
  if (choice.keyWarps > 1 && (choice.headGroup > 1 || choice.keySplits > 1))
    return llvm::formatv("expects {0} 1 where {1} or {2} is over 1, but got "
                         "{3}",
                         spell("key_warps", names), spell("head_group", names),
                         spell("key_splits", names), choice.keyWarps);
  return std::nullopt;
}

/// Whether rows and keys come out even, and numbers are such that products of
/// them do not overflow.
static std::optional<std::string> checkTiles(const ScheduleChoice &choice,
                                             FieldNames names) {
  int64_t rowsOfWarp = choice.getRowMultiple();
  int64_t rowMultiple =
      rowsOfWarp * choice.getTileWarps() * choice.getRowWarps();
  if (choice.blockM <= 0 || choice.blockM % rowMultiple != 0)
    return llvm::formatv("expects {0} to be a positive multiple of {5} * "
                         "{1}{2} = {3}, but got {4}",
                         spell("block_m", names), spell("num_warps", names),
                         choice.keyWarps > 1 ? " / " + spell("key_warps", names)
                         : choice.headGroup > 1
                             ? " / " + spell("head_group", names)
                             : "",
                         rowMultiple, choice.blockM, rowsOfWarp);
  if (choice.blockN <= 0 || choice.blockN % 16 != 0)
    return llvm::formatv(
        "expects {0} to be a positive multiple of 16, but got {1}",
        spell("block_n", names), choice.blockN);
  if (choice.numStages < 2)
    return llvm::formatv("expects {0} of at least 2, but got {1}",
                         spell("num_stages", names), choice.numStages);
  if (choice.minBlocks < 0)
    return llvm::formatv("expects {0} not to be negative, but got {1}",
                         spell("min_blocks", names), choice.minBlocks);
  for (auto [key, value, limit] :
       {std::tuple("block_m", choice.blockM, kMaxRows),
        {"block_n", choice.blockN, kMaxRows},
        {"num_stages", choice.numStages, kMaxStages},
        {"min_blocks", choice.minBlocks, kMaxBlocks}})
    if (value > limit)
      return llvm::formatv("expects {0} of at most {1}, but got {2}",
                           spell(key, names), limit, value);
  return std::nullopt;
}

/// Whether heads can take turns.
static std::optional<std::string> checkGridHeads(const ScheduleChoice &choice,
                                                 FieldNames names) {
  if (choice.gridHeads < 0 || choice.gridHeads > kMaxGridHeads)
    return llvm::formatv("expects {0} from 0 to {1}, but got {2}",
                         spell("grid_heads", names), kMaxGridHeads,
                         choice.gridHeads);
  if (choice.gridHeads &&
      (choice.gridOrder != GridOrder::HeadFastest || choice.keySplits > 1))
    return llvm::formatv("expects {0} head_fastest and {1} 1 with {2} {3}, but "
                         "got {4} and {5}",
                         spell("grid_order", names), spell("key_splits", names),
                         spell("grid_heads", names), choice.gridHeads,
                         stringifyGridOrder(choice.gridOrder),
                         choice.keySplits);
  return std::nullopt;
}

/// Whether the parts of keys that are split at fixed places are whole tiles.
static std::optional<std::string> checkSplitKeys(const ScheduleChoice &choice,
                                                 FieldNames names) {
  if (choice.splitKeys == 0)
    return std::nullopt;
  std::string name = spell("split_keys", names);
  if (choice.splitKeys < 0 || choice.splitKeys > kMaxSplitKeys ||
      choice.splitKeys % choice.blockN != 0)
    return llvm::formatv("expects {0} to be 0 or a multiple of {1} = {2} up to "
                         "{3}, but got {4}",
                         name, spell("block_n", names), choice.blockN,
                         kMaxSplitKeys, choice.splitKeys);
  if (!choice.isInvariant())
    return llvm::formatv("expects invariance batch with {0} {1}, but got none; "
                         "use {2}",
                         name, choice.splitKeys, spell("key_splits", names));
  if (choice.grid == Grid::Persistent || choice.gridHeads)
    return llvm::formatv("expects grid full and {0} 0 with {1} {2}, but got "
                         "{3} and {4}",
                         spell("grid_heads", names), name, choice.splitKeys,
                         stringifyGrid(choice.grid), choice.gridHeads);
  return std::nullopt;
}

/// Whether there is a number of parts that a call may choose.
static std::optional<std::string> checkSplitCount(const ScheduleChoice &choice,
                                                  FieldNames names) {
  if (choice.splitCount == SplitCount::Call && choice.keySplits < 2)
    return llvm::formatv("expects {0} over 1, the most that a call may have, "
                         "with {1} call, but got {2}",
                         spell("key_splits", names),
                         spell("split_count", names), choice.keySplits);
  if (choice.expectedQueries < 0 || choice.expectedQueries > kMaxRows)
    return llvm::formatv("expects {0} from 0 to {1}, but got {2}",
                         spell("expected_queries", names), kMaxRows,
                         choice.expectedQueries);
  return std::nullopt;
}

/// What stands against keeping a part of Q in registers.
static std::optional<std::string> checkQuery(const ScheduleChoice &choice,
                                             FieldNames names) {
  if (choice.query != QueryPlacement::Split) {
    if (choice.querySteps == 0)
      return std::nullopt;
    return llvm::formatv("expects {0} 0 unless query is split, but got {1} "
                         "with query {2}",
                         spell("query_steps", names), choice.querySteps,
                         stringifyQueryPlacement(choice.query));
  }
  if (choice.querySteps < 1 || choice.querySteps > kMaxQuerySteps)
    return llvm::formatv("expects {0} from 1 to {1} with query split, but got "
                         "{2}",
                         spell("query_steps", names), kMaxQuerySteps,
                         choice.querySteps);
  return std::nullopt;
}

/// What stands against taking all exponentials of a warp at once.
static std::optional<std::string> checkOnePass(const ScheduleChoice &choice,
                                               FieldNames names) {
  if (choice.softmax != Softmax::OnePass)
    return std::nullopt;
  if (choice.rowMax != RowMax::Exact)
    return llvm::formatv("expects {0} exact with softmax one_pass, which has "
                         "no earlier maximum, but got {1}",
                         spell("row_max", names),
                         stringifyRowMax(choice.rowMax));
  if (choice.overlap != Overlap::None)
    return llvm::formatv(
        "expects overlap none with softmax one_pass, which has "
        "no loop, but got {0}",
        stringifyOverlap(choice.overlap));
  if (choice.keySplits > 1)
    return llvm::formatv("expects {0} 1 with softmax one_pass, but got {1}",
                         spell("key_splits", names), choice.keySplits);
  return std::nullopt;
}

/// What stands against three kernels: each of them is of tiles of single warps,
/// and what one row needs is in one of its blocks.
static std::optional<std::string> checkUnfused(const ScheduleChoice &choice,
                                               FieldNames names) {
  if (!choice.isUnfused())
    return std::nullopt;
  auto fix = [](llvm::StringRef key, auto expected, auto value) {
    return std::tuple(key, printField(expected), printField(value));
  };
  for (auto [key, expected, value] :
       {fix("row_max", RowMax::Exact, choice.rowMax),
        fix("row_sum", RowSum::Add, choice.rowSum),
        fix("overlap", Overlap::None, choice.overlap),
        fix("key_warps", int64_t(1), choice.keyWarps),
        fix("head_group", int64_t(1), choice.headGroup),
        fix("key_splits", int64_t(1), choice.keySplits),
        fix("split_keys", int64_t(0), choice.splitKeys),
        fix("split_count", SplitCount::Fixed, choice.splitCount),
        fix("grid", Grid::Full, choice.grid),
        fix("output", OutputRoute::Direct, choice.output)})
    if (value != expected)
      return llvm::formatv("expects {0} {1} with softmax unfused, but got {2}; "
                           "use softmax online",
                           spell(key, names), expected, value);
  if (choice.query == QueryPlacement::Split)
    return llvm::formatv("expects {0} registers or shared with softmax "
                         "unfused, but got split",
                         spell("query", names));
  if (choice.copies == CopyPath::Producer)
    return llvm::formatv("expects {0} async or registers with softmax unfused, "
                         "whose warps copy for each other, but got producer",
                         spell("copies", names));
  return std::nullopt;
}

/// What stands against products that start at the negative of the maximum.
static std::optional<std::string> checkFolded(const ScheduleChoice &choice,
                                              FieldNames names) {
  if (choice.rowMax != RowMax::Folded)
    return std::nullopt;
  if (choice.rowSum != RowSum::Mma)
    return llvm::formatv("expects {0} mma with {1} folded, but got add",
                         spell("row_sum", names), spell("row_max", names));
  if (choice.overlap != Overlap::None)
    return llvm::formatv("expects overlap none with {0} folded, which needs "
                         "the maximum of all earlier tiles before a product, "
                         "but got {1}",
                         spell("row_max", names),
                         stringifyOverlap(choice.overlap));
  return std::nullopt;
}

namespace {
/// The values that a field may have with a product.
struct ProductField {
  Product product;
  llvm::StringRef key;
  llvm::SmallVector<llvm::StringRef, 4> values;
};
} // namespace

static const std::vector<ProductField> &getProductFields() {
  static const std::vector<ProductField> table = {
#define FLASHCORE_PRODUCT_FIELD(product, key, ...)                             \
  {Product::product, key, {__VA_ARGS__}},
#include "flashcore/Dialect/FCGPU/IR/ProductFields.def"
  };
  return table;
}

llvm::ArrayRef<llvm::StringRef> mlir::fcgpu::findValuesOf(Product product,
                                                          llvm::StringRef key) {
  for (const ProductField &field : getProductFields())
    if (field.product == product && field.key == key)
      return field.values;
  return {};
}

/// Whether a product leaves a field open for this value.
static bool mayBe(Product product, llvm::StringRef key, llvm::StringRef value) {
  llvm::ArrayRef<llvm::StringRef> values = findValuesOf(product, key);
  return values.empty() || llvm::is_contained(values, value);
}

/// The first other product that takes the value, as something to use.
static std::string suggestProduct(llvm::StringRef key, llvm::StringRef value) {
  for (llvm::StringRef word : getWords<Product>())
    if (mayBe(*symbolizeProduct(word), key, value))
      return ("; use product " + word).str();
  return {};
}

/// What stands against a value with the product of the schedule.
static std::optional<std::string> checkField(const ScheduleChoice &choice,
                                             llvm::StringRef key,
                                             const std::string &value,
                                             FieldNames names) {
  if (mayBe(choice.product, key, value))
    return std::nullopt;
  return llvm::formatv(
      "expects {0} {1} with product {2}, but got {3}{4}", spell(key, names),
      joinWords(findValuesOf(choice.product, key)),
      stringifyProduct(choice.product), value, suggestProduct(key, value));
}

/// What stands against products of warpgroups, of warps or of threads.
static std::optional<std::string> checkProduct(const ScheduleChoice &choice,
                                               FieldNames names) {
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  if (auto error = checkField(choice, key, printField(choice.name), names))    \
    return error;
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
  if (choice.output == OutputRoute::Bulk && choice.keySplits > 1)
    return llvm::formatv("expects output direct with {0} {1}, whose results "
                         "are partial, but got bulk",
                         spell("key_splits", names), choice.keySplits);
  if (choice.product != Product::Warpgroup)
    return std::nullopt;
  if (choice.blockN > kMaxColumnsOfGroup)
    return llvm::formatv("expects {0} of at most {1} with product warpgroup, "
                         "but got {2}",
                         spell("block_n", names), kMaxColumnsOfGroup,
                         choice.blockN);
  int64_t rows = kRowsOfGroup * choice.getRowWarps();
  if (choice.blockM != rows)
    return llvm::formatv("expects {0} to be {1} with {2} warps of product "
                         "warpgroup, {3} rows for each {4}, but got {5}",
                         spell("block_m", names), rows, choice.numWarps,
                         kRowsOfGroup, kWarpsOfGroup, choice.blockM);
  return std::nullopt;
}

/// What would let the bits of a row depend on its batch.
static std::optional<std::string> checkInvariance(const ScheduleChoice &choice,
                                                  FieldNames names) {
  if (!choice.isInvariant())
    return std::nullopt;
  struct Fixed {
    llvm::StringRef key;
    std::string expected, value;
    llvm::StringRef why;
  };
  auto fix = [](llvm::StringRef key, auto expected, auto value,
                llvm::StringRef why) -> Fixed {
    return {key, printField(expected), printField(value), why};
  };
  const Fixed fields[] = {
      fix("row_max", RowMax::Exact, choice.rowMax,
          "any other follows what other rows need"),
      fix("row_sum", RowSum::Add, choice.rowSum, "sums are of one kind"),
      fix("key_warps", int64_t(1), choice.keyWarps,
          "warps would divide what their rows see"),
      fix("key_splits", int64_t(1), choice.keySplits,
          "blocks would divide what their rows see"),
      fix("softmax", Softmax::Online, choice.softmax,
          choice.isUnfused() ? "kernels of unfused promise nothing of rows"
                             : "one pass is for known numbers of keys")};
  for (const Fixed &field : fields)
    if (field.value != field.expected)
      return llvm::formatv("expects {0} {1} with invariance batch, since {2}, "
                           "but got {3}",
                           spell(field.key, names), field.expected, field.why,
                           field.value);
  return std::nullopt;
}

std::optional<std::string>
mlir::fcgpu::checkFields(const ScheduleChoice &choice, FieldNames names) {
  // What later checks divide by or multiply, earlier ones have bounded.
  for (auto check : {checkWarps, checkInvariance, checkUnfused, checkProduct,
                     checkTiles, checkGridHeads, checkSplitKeys,
                     checkSplitCount, checkQuery, checkOnePass, checkFolded})
    if (std::optional<std::string> error = check(choice, names))
      return error;
  return std::nullopt;
}

#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  , Type name
LogicalResult ScheduleAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   StringRef /*chip*/
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
) {
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  name,
  ScheduleChoice choice{
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
  };
  if (auto error = checkFields(choice, FieldNames::Attribute))
    return emitError() << *error;
  return success();
}
