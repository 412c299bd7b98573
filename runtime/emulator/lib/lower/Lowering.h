//===- Lowering.h - From syntax tree to Program -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One Lowering turns one kernel and everything it calls into a Program. The
// type comes from the opcode and the width from the register; where they differ
// the module is refused, as the assembler would. Calls are inlined. Each
// lower* function returns false after it has recorded the first error.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_LOWER_LOWERING_H
#define FLASHCORE_EMULATOR_LIB_LOWER_LOWERING_H

#include "flashcore/Emulator/Program.h"

#include <initializer_list>
#include <map>
#include <tuple>
#include <unordered_map>

namespace flashcore::emu {

/// The dot-separated parts of an opcode; each is taken by whoever understands
/// it, and what is left over is an error.
class Modifiers {
public:
  explicit Modifiers(std::string_view opcode);

  std::string_view base() const { return parts[0]; }
  bool take(std::string_view word);
  /// Takes the first of `words` that is there and gives its index, or -1.
  int takeOneOf(std::initializer_list<std::string_view> words);
  /// Takes the first part that is one of `words` and gives the index of the
  /// word, or -1: for parts whose order says what they are of.
  int takeNext(std::initializer_list<std::string_view> words);
  /// Whether a part that nobody has taken is `word`.
  bool has(std::string_view word) const;
  /// Takes the first part that names a type.
  ScalarType takeType();
  /// Takes the first part that starts with `prefix`.
  std::string_view takePrefix(std::string_view prefix);
  /// A part nobody took, or empty.
  std::string_view leftover() const;

private:
  std::vector<std::string_view> parts;
  std::vector<bool> taken;
};

struct WmmaShape;
struct WmmaFragment;

class Lowering {
public:
  Lowering(const PtxModule &module, Program &program)
      : module(module), program(program) {}

  bool run(std::string_view kernelName);
  const Error &error() const { return firstError; }

private:
  struct Symbol {
    enum class Kind : uint8_t { Register, Range, Variable, Table };
    Kind kind = Kind::Register;
    ScalarType type = ScalarType::None;
    uint32_t granule = noGranule; // noGranule until first used
    uint32_t rangeCount = 0;
    StateSpace space = StateSpace::Generic;
    uint64_t address = 0;
    bool isDynamic = false;
    const PtxVariable *global = nullptr; // in .global or .const
  };
  struct Scope {
    std::unordered_map<std::string_view, Symbol> symbols;
    uint32_t id = 0;
  };
  struct Fixup {
    uint32_t inst;
    int table; // -1: a branch
    std::string_view label;
    uint32_t scope;
    SrcLoc loc;
  };
  /// What an address operand amounts to.
  struct Address {
    uint32_t granule = 0;
    bool is64 = true;
    int64_t offset = 0;
    StateSpace space = StateSpace::Generic;
  };
  using LowerFn = bool (Lowering::*)();
  static const std::unordered_map<std::string_view, LowerFn> &opcodeTable();

  // Lowering.cpp: functions, scopes and statements.
  bool fail(SrcLoc loc, const std::string &message);
  bool failHere(const std::string &message) { return fail(inst->loc, message); }
  bool failUnsupported(std::string_view name, std::string_view feature);
  bool layoutParams(const PtxFunction &function);
  bool lowerBody(const PtxFunction &function);
  bool lowerStatement(const PtxFunction &function,
                      const PtxStatement &statement);
  bool lowerInstruction(const PtxInstruction &instruction);
  bool declare(const PtxVariable &variable);
  Symbol *declareModuleVariable(std::string_view name);
  uint64_t placeShared(const PtxVariable &variable);
  uint32_t placeGlobal(const PtxVariable &variable);
  void pushScope();
  void popScope();
  bool resolveFixups();
  void finish();

  // Operands.cpp.
  Symbol *lookup(std::string_view name);
  bool isCompatible(ScalarType reg, ScalarType type, bool allowWider) const;
  uint32_t allocate(ScalarType type, std::string_view name = {});
  uint32_t constant(unsigned bytes, uint64_t bits);
  uint32_t special(std::string_view name, std::string_view suffix,
                   ScalarType type);
  uint32_t addressConstant(const Symbol &symbol, bool generic, unsigned bytes,
                           int64_t offset = 0);
  bool immediate(const PtxOperand &operand, ScalarType type, uint32_t &granule);
  bool registerOperand(const PtxOperand &operand, ScalarType type,
                       uint32_t &granule, bool allowWider = false,
                       ScalarType *regType = nullptr);
  bool source(unsigned index, ScalarType type, uint32_t &granule);
  /// As `source`, or the address of a variable in its own space.
  bool addressSource(unsigned index, ScalarType type, uint32_t &granule);
  bool sourceOf(const PtxOperand &operand, ScalarType type, uint32_t &granule,
                bool allowWider = false, ScalarType *regType = nullptr);
  bool dest(unsigned index, ScalarType type, uint32_t &granule);
  bool destOf(const PtxOperand &operand, ScalarType type, uint32_t &granule,
              bool allowWider = false, ScalarType *regType = nullptr);
  /// A predicate operand; `!p` is materialised.
  bool predicateSource(const PtxOperand &operand, uint32_t &granule);
  bool address(const PtxOperand &operand, StateSpace space, Address &out);
  bool expectOperands(size_t low, size_t high);
  bool expectOperands(size_t count) { return expectOperands(count, count); }

  // Emission.
  Inst &emit(InstKind kind, InstClass cls);
  Inst &emitAlu(AluOp op, InstClass cls,
                std::initializer_list<uint32_t> operands, unsigned numDsts = 1);
  void setOperands(Inst &out, const std::vector<uint32_t> &operands,
                   unsigned numDsts);
  /// d = op(a, b, ...) where all have one type.
  bool lowerUniform(AluOp op, ScalarType type, unsigned numSources,
                    InstClass cls, int aux = 0);

  // LowerInteger.cpp.
  bool lowerAddSub();
  bool emitCarry(bool isSub, ScalarType type, uint32_t d, uint32_t a,
                 uint32_t b, bool carryIn, bool carryOut);
  bool lowerMulMad();
  bool lowerProductSum(AluOp product, ScalarType type, int aux);
  bool lowerMul24();
  bool lowerDotProduct();
  bool lowerDivRem();
  bool lowerMinMax();
  bool lowerAbsNeg();
  bool lowerLogic();
  bool lowerNot();
  bool lowerShift();
  bool lowerFunnelShift();
  bool lowerLop3();
  bool lowerLop3Pred(BoolOp boolOp);
  bool lowerPrmt();
  bool lowerBitField();
  bool lowerBitInsert();
  bool lowerBitCount();
  bool lowerSad();
  bool lowerBitSearch();

  // LowerFloat.cpp.
  bool lowerFloatArith(ScalarType type);
  bool lowerFloatMinMax(ScalarType type);
  bool lowerFloatAbsNeg(ScalarType type);
  bool lowerFma();
  bool lowerFloatDiv(ScalarType type);
  bool lowerUnaryFloat();
  bool lowerCopysign();
  bool finishSat(bool sat, ScalarType type);
  uint32_t flushHalf(ScalarType type, uint32_t operand);
  bool lowerHalf(AluOp op, ScalarType type, unsigned numSources, int aux,
                 bool ftz, bool sat);
  bool lowerXorSign(AluOp op, ScalarType type);
  bool lowerThreeInputs(AluOp op);

  // LowerConvert.cpp.
  bool lowerCvt();
  bool lowerIntegerCvt(const ConvertInfo &info, uint32_t d, uint32_t a);
  bool lowerPackedCvt(ConvertInfo info);
  bool emitConvert(const ConvertInfo &info, uint32_t d, uint32_t a, uint32_t b);

  // LowerMove.cpp.
  bool lowerMov();
  bool lowerMovVector(ScalarType type);
  bool lowerMovHalves();
  bool lowerMovBytes(ScalarType type, const PtxOperand &vector, bool unpack);
  bool lowerMovClock(ScalarType type);
  bool lowerCvta();
  bool lowerSetp();
  bool lowerSet();
  bool lowerCompare(ScalarType type, uint32_t p, uint32_t q, unsigned first);
  bool lowerPackedCompare(ScalarType type, uint32_t p, uint32_t q,
                          unsigned first);
  bool lowerSelp();
  bool lowerSlct();
  bool lowerTestp();
  bool lowerIsspacep();
  bool lowerCreatePolicy();

  // LowerMemory.cpp.
  bool lowerLoadStore();
  bool dataRegisters(const std::vector<PtxOperand> &elements, ScalarType type,
                     bool isStore, std::vector<uint32_t> &operands,
                     unsigned &regBytes);
  bool takeSpace(StateSpace &space);
  bool takeSemantics(Inst &out);
  void dropCacheHints();
  bool lowerAtomic();
  bool lowerCpAsync();
  bool lowerCpAsyncGroup(bool &isGroup);
  bool cpAsyncSourceSize(uint32_t &srcSize);
  bool lowerMatrixMove();
  bool lowerMoveMatrix();
  bool lowerFence();
  bool lowerPrefetch();
  void noteAccess(StateSpace space, unsigned bytes);

  // LowerControl.cpp.
  bool lowerBra();
  bool lowerBrx();
  bool lowerCall();
  bool lowerSystemCall(std::string_view name, const PtxOperand *results,
                       const PtxOperand *arguments);
  bool inlineCall(const PtxFunction &callee, const PtxOperand *results,
                  const PtxOperand *arguments);
  bool bindArguments(const std::vector<PtxVariable> &formals,
                     const PtxOperand *actuals, SrcLoc loc);
  bool lowerRet();
  bool lowerExit();
  bool lowerTrap();
  bool lowerBarrier();
  bool lowerShfl();
  bool lowerVote();
  bool lowerMatch();
  bool lowerActiveMask();
  bool lowerRedux();
  bool lowerNop();
  bool lowerMma();
  bool takeMatrixType(MatrixType &type);
  bool fragment(const PtxOperand &operand, unsigned count, ScalarType type,
                const char *what, bool isDest, std::vector<uint32_t> &out);

  // LowerWmma.cpp.
  class WmmaAddresses;
  /// A load or store of registers side by side.
  struct WmmaAccess {
    std::vector<uint32_t> registers;
    unsigned bytes = 0; // of an element
    uint32_t address = 0;
    int64_t offset = 0;
  };
  struct MmaRegisters {
    std::vector<uint32_t> d, a, b, c;
  };
  bool lowerWmma();
  bool lowerWmmaMove(bool isStore);
  bool lowerWmmaMma();
  bool takeWmmaShape(WmmaShape &shape);
  void emitWarpConvergence();
  void emitWmmaAccess(bool isStore, StateSpace space, bool is64,
                      const WmmaAccess &access);
  void packElements(uint32_t whole, const std::vector<uint32_t> &elements);
  void moveFragment(bool isStore, const Address &start,
                    const WmmaFragment &fragment,
                    const std::vector<uint32_t> &registers,
                    WmmaAddresses &addresses);
  std::vector<uint32_t> convertAccumulators(const std::vector<uint32_t> &from,
                                            bool toHalf);
  void emitMma(const MmaRegisters &registers, ScalarType type, ScalarType sum,
               unsigned depth, bool saturate);
  void noteWmmaOperand(const WmmaTile &tile,
                       const std::vector<uint32_t> &registers);
  bool emitWmmaMma(const WmmaShape &shape, const WmmaTile (&tiles)[2],
                   ScalarType c, ScalarType d, bool saturate);

  // LowerAsync.cpp.
  bool sharedAddress(const PtxOperand &operand, bool isShared,
                     uint32_t &granule);
  uint32_t sumOf(uint32_t address, int64_t offset);
  bool takeSharedSpace();
  bool lowerMbarrier();
  bool lowerCopyArrival();
  bool mbarrierOperands(MbarrierOp op, bool isShared, bool expectsTx,
                        std::vector<uint32_t> &operands);
  bool lowerBulkCopy();
  bool lowerBulkGroup(bool &isGroup);
  bool lowerPlainBulkCopy(bool isLoad);
  bool lowerTileCopy(bool isLoad, unsigned rank);
  bool lowerProxyFence();
  bool lowerClusterBarrier();
  bool lowerGetCtaRank();
  bool lowerElect();
  bool lowerMapa();
  bool lowerGridDependency();
  bool lowerSetMaxRegisters();

  // LowerWgmma.cpp.
  bool lowerWgmma();
  bool lowerWgmmaMma();
  bool wgmmaOperandA(std::vector<uint32_t> &operands,
                     std::vector<uint32_t> &fragmentA, int32_t &flags);
  bool wgmmaImmediates(unsigned first, int32_t &flags);

  const PtxModule &module;
  Program &program;
  Error firstError;
  bool hasError = false;

  std::vector<Scope> scopes;
  /// By scope id; scope 0 is the module and its own parent.
  std::vector<uint32_t> scopeParents;
  size_t numStatements = 0, numCalls = 0;
  std::map<std::pair<uint32_t, std::string_view>, uint32_t> labels;
  std::vector<Fixup> fixups;
  std::map<std::pair<unsigned, uint64_t>, uint32_t> constants;
  std::map<std::pair<unsigned, unsigned>, uint32_t> specials;
  std::map<std::pair<unsigned, int64_t>, uint32_t> dynamicConstants;
  std::unordered_map<const PtxVariable *, uint32_t> globalIndices;
  uint64_t globalBytes = 0;
  std::map<std::tuple<uint32_t, unsigned, int64_t>, uint32_t> globalConstants;
  /// CC.CF of the extended-precision instructions, once one is used.
  uint32_t carryFlag = noGranule;
  uint64_t sharedCursor = 0;
  uint32_t dynamicAlign = 1;
  bool hasDynamic = false;

  /// The function being inlined and where its `ret` goes.
  std::vector<const PtxFunction *> callStack;
  std::vector<std::vector<uint32_t>> returnBranches;

  // The instruction being lowered.
  const PtxInstruction *inst = nullptr;
  Modifiers mods{""};
  uint32_t guard = noGranule;
  bool guardNegated = false;
  uint32_t currentSource = 0;
  const PtxFunction *function = nullptr;
};

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_LOWER_LOWERING_H
