//===- NamedSchedules.cpp - Schedules that have a name --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/NamedSchedules.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

/// `blockN` of 0: as many keys as fit.
static void setShape(ScheduleOptions &options, int64_t blockM, int64_t blockN,
                     int64_t numWarps) {
  options.blockM = blockM;
  options.blockN = blockN;
  options.numWarps = numWarps;
}

static constexpr NamedSchedule schedules[] = {
    {"scalar", "any", "one thread a query row, f32 arithmetic, no tensor cores",
     [](ScheduleOptions &o) {
       o.product = Product::Thread;
       o.keySplits = 1;
     }},
    {"unfused-wmma", "any",
     "three kernels of wmma in plain tiles, which leave S and P in global "
     "memory",
     [](ScheduleOptions &o) {
       o.product = Product::Wmma;
       o.softmax = Softmax::Unfused;
       o.copies = CopyPath::Registers;
       o.exchange = Exchange::Plain;
     }},
    {"fused-wmma-32x32", "any",
     "wmma in tiles of 32 x 32, all through shared memory: Q, K and V by way "
     "of "
     "registers, S and P row behind row",
     [](ScheduleOptions &o) {
       o.product = Product::Wmma;
       setShape(o, 32, 32, 2);
       o.keySplits = 1;
       o.copies = CopyPath::Registers;
       o.exchange = Exchange::Plain;
       o.rowMax = RowMax::Exact;
     }},
    {"+64x64", "any",
     "tiles of 64 x 64, or of fewer keys where those do not fit",
     [](ScheduleOptions &o) { setShape(o, 64, 0, 4); }},
    {"+async", "any",
     "cp.async copies the next tile beside the products of this one",
     [](ScheduleOptions &o) { o.copies = CopyPath::Async; }},
    {"+swizzle", "any",
     "rows at distances at which eight of them share no bank",
     [](ScheduleOptions &o) { o.exchange = Exchange::Padded; }},
    {"+vector", "any",
     "S, P and O go through shared memory 16 bytes of a lane at a "
     "time",
     [](ScheduleOptions &o) { o.exchange = Exchange::Wide; }},
    {"+stale", "any", "O is rescaled only where the row maximum grows by much",
     [](ScheduleOptions &o) { o.rowMax = RowMax::Stale; }},
    {"+registers", "any",
     "O stays in the accumulators of wmma, and leaves them to be rescaled",
     [](ScheduleOptions &o) { o.exchange = Exchange::Fragments; }},
    {"+128x64", "any",
     "32 rows a warp: each fragment of K and V serves two products",
     [](ScheduleOptions &o) { setShape(o, 128, 0, 4); }},
    {"+bounds", "any", "registers for two blocks an SM",
     [](ScheduleOptions &o) { o.minBlocks = 2; }},
    {"+roles", "any", "a warp of its own copies, and mbarriers hand tiles over",
     [](ScheduleOptions &o) {
       o.minBlocks = 1;
       o.copies = CopyPath::Producer;
     }},
    {"+persistent", "any", "a block an SM, which walks several tiles",
     [](ScheduleOptions &o) { o.grid = Grid::Persistent; }},
    {"mma", "any",
     "mma.sync with fragments by ldmatrix: S, P and O never leave their "
     "registers",
     [](ScheduleOptions &o) {
       o.product = Product::Warp;
       setShape(o, 64, 64, 4);
       o.numStages = 2;
       o.query = QueryPlacement::Shared;
       o.rowMax = RowMax::Exact;
       o.rowSum = RowSum::Add;
     }},
    {"default", "any", "what is chosen where nothing is asked for",
     [](ScheduleOptions &) {}},
    {"wgmma", "sm_90a", "wgmma and bulk copies, which a warp of its own starts",
     [](ScheduleOptions &o) { o.product = Product::Warpgroup; }},
};

llvm::ArrayRef<NamedSchedule> mlir::flashcore::getNamedSchedules() {
  return schedules;
}

std::optional<std::string>
mlir::flashcore::applyNamedSchedule(llvm::StringRef name,
                                    ScheduleOptions &options) {
  const NamedSchedule *found = llvm::find_if(
      schedules, [&](const NamedSchedule &each) { return each.name == name; });
  if (found == std::end(schedules)) {
    llvm::SmallVector<llvm::StringRef> names;
    for (const NamedSchedule &each : schedules)
      names.push_back(each.name);
    return "expects schedule to be " + joinWords(names) + ", but got '" +
           name.str() + "'";
  }
  const NamedSchedule *first = found;
  while (first->name.starts_with("+"))
    --first;
  ScheduleOptions named;
  for (const NamedSchedule *each = first; each <= found; ++each)
    each->apply(named);
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  if (!options.name)                                                           \
    options.name = named.name;
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
  return std::nullopt;
}
