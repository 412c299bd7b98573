//===- CorpusTest.cpp - The conformance corpus covers every operation -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The corpus (runtime/emulator/conformance) is what is compared with a real
// GPU. An operation that no kernel of it uses would never be compared.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Emulator/Emulator.h"
#include "flashcore/Emulator/Program.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

using namespace flashcore::emu;

static const char *const aluNames[] = {
#define FC_ALU1(NAME, D, A, EXPR) #NAME,
#define FC_ALU2(NAME, D, A, B, EXPR) #NAME,
#define FC_ALU3(NAME, D, A, B, C, EXPR) #NAME,
#include "flashcore/Emulator/AluOps.def"
    "MovPred",    "NotPred",     "AndPred",     "OrPred",      "XorPred",
    "SelpB16",    "SelpB32",     "SelpB64",     "SetpU16",     "SetpS16",
    "SetpU32",    "SetpS32",     "SetpU64",     "SetpS64",     "SetpF32",
    "SetpF32Ftz", "SetpF64",     "SetpF16",     "SetpBF16",    "TestpF32",
    "TestpF64",   "AddCarryB32", "AddCarryB64", "SubCarryB32", "SubCarryB64",
    "BfiB32",     "BfiB64",      "Convert",
};
static_assert(std::size(aluNames) == static_cast<size_t>(AluOp::Count));

TEST(Corpus, UsesEveryOperation) {
  std::set<AluOp> used;
  std::set<InstKind> kinds;
  for (const auto &entry :
       std::filesystem::directory_iterator(FLASHCORE_EMU_CORPUS)) {
    if (entry.path().extension() != ".ptx")
      continue;
    std::ifstream in(entry.path(), std::ios::binary);
    Expected<Kernel> kernel =
        Kernel::load(std::string((std::istreambuf_iterator<char>(in)), {}));
    ASSERT_TRUE(static_cast<bool>(kernel))
        << kernel.error().str(entry.path().string());
    for (const Inst &inst : kernel->program().code) {
      kinds.insert(inst.kind);
      if (inst.kind == InstKind::Alu)
        used.insert(inst.op);
    }
  }
  for (size_t op = 0; op < std::size(aluNames); ++op)
    EXPECT_TRUE(used.count(static_cast<AluOp>(op)))
        << aluNames[op] << " is used by no kernel of the corpus";
  for (InstKind kind :
       {InstKind::Shuffle, InstKind::Vote, InstKind::Match, InstKind::Redux,
        InstKind::ActiveMask, InstKind::LoadMatrix, InstKind::StoreMatrix,
        InstKind::MoveMatrix, InstKind::Mma, InstKind::Wgmma, InstKind::Atomic})
    EXPECT_TRUE(kinds.count(kind))
        << "instruction kind " << static_cast<int>(kind)
        << " is used by no kernel of the corpus";
}
