//===- ScheduleTest.cpp - The list of a schedule's fields -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is made of ScheduleFields.def, for every field of it.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
/// No two fields of a type hold the same value.
ScheduleChoice makeDistinct() {
  ScheduleChoice choice;
  choice.blockM = 96;
  choice.blockN = 32;
  choice.numWarps = 6;
  choice.numStages = 4;
  choice.query = QueryPlacement::Split;
  choice.gridOrder = GridOrder::HeadFastest;
  choice.minBlocks = 5;
  choice.overlap = Overlap::QK;
  choice.rowMax = RowMax::Stale;
  choice.rowSum = RowSum::Mma;
  choice.keyWarps = 1;
  choice.headGroup = 3;
  choice.keySplits = 8;
  choice.grid = Grid::Persistent;
  choice.querySteps = 2;
  return choice;
}

std::string print(Attribute attr) {
  std::string text;
  llvm::raw_string_ostream(text) << attr;
  return text;
}

/// The values that some product leaves a field, and those that the field has.
void checkValues(llvm::StringRef key, llvm::ArrayRef<llvm::StringRef> words) {
  for (llvm::StringRef product : getWords<Product>())
    for (llvm::StringRef value : findValuesOf(*symbolizeProduct(product), key))
      EXPECT_TRUE(words.empty() ? value == "1"
                                : llvm::is_contained(words, value))
          << product.str() << " " << key.str() << " " << value.str();
}

// A field that is spelled otherwise would never be checked.
TEST(ProductFields, AreFieldsAndTheirValues) {
  llvm::SmallVector<llvm::StringRef> keys;
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  keys.push_back(key);                                                         \
  if constexpr (std::is_enum_v<Type>)                                          \
    checkValues(key, getWords<Type>());                                        \
  else                                                                         \
    checkValues(key, {});
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
#define FLASHCORE_PRODUCT_FIELD(product, key, ...)                             \
  EXPECT_TRUE(llvm::is_contained(keys, key)) << key;
#include "flashcore/Dialect/FCGPU/IR/ProductFields.def"
}

TEST(Schedule, IsThatOfTheAttribute) {
  MLIRContext context;
  context.loadDialect<FCGPUDialect>();
  ScheduleChoice choice = makeDistinct();
  ScheduleAttr attr = ScheduleAttr::get(&context, "sm_90", choice);
  EXPECT_EQ(attr.getChip(), "sm_90");
  EXPECT_TRUE(attr.getChoice() == choice);
  // Under its own name in the text, too: no two parameters have swapped places.
  std::string text = print(attr);
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, help) \
  if (choice.name != initial)                                                  \
    EXPECT_TRUE(StringRef(text).contains(                                      \
        (" " key " = " + printField(choice.name)).c_str()))                    \
        << key << " in " << text;
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
}

TEST(Schedule, DiffersInEachField) {
  const ScheduleChoice other;
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, help) \
  {                                                                            \
    ScheduleChoice choice;                                                     \
    EXPECT_TRUE(choice == other);                                              \
    choice.name = static_cast<Type>(static_cast<int64_t>(choice.name) + 1);    \
    EXPECT_FALSE(choice == other) << key;                                      \
  }
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
}

TEST(Schedule, OptionsAreCalledLikeFields) {
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, help) \
  EXPECT_EQ(llvm::join(llvm::split(key, "_"), "-"), option);                   \
  EXPECT_EQ(llvm::convertToCamelFromSnakeCase(key), #name);                    \
  EXPECT_EQ(llvm::convertToCamelFromSnakeCase(key, /*capitalizeFirst=*/true),  \
            #Name);
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
}

TEST(Schedule, NamesTheWordsOfAnEnum) {
  EXPECT_EQ(joinWords(getWords<QueryPlacement>()),
            "registers, shared or split");
  EXPECT_EQ(joinWords(getWords<RowSum>(), "'"), "'add' or 'mma'");
  EXPECT_EQ(describeOption<Overlap>("What runs"), "What runs: none, qk or pv");
  EXPECT_EQ(describeOption<int64_t>("Rows"), "Rows");
}
} // namespace
