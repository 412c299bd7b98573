//===- Operands.cpp - Names and literals to granules ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Resolves operands and checks their types: PTX ISA 9.0, section 9.5 (operand
// size exceeding instruction size is allowed for ld, st and cvt only) and table
// 27 (register types that agree with an instruction type).
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include <charconv>

using namespace flashcore::emu;

//===----------------------------------------------------------------------===//
// Registers
//===----------------------------------------------------------------------===//

uint32_t Lowering::allocate(ScalarType type, std::string_view name) {
  unsigned bytes = typeBytes(type);
  uint32_t granule = program.frameGranules;
  program.frameGranules += bytes <= 2 ? 1 : bytes / 2;
  if (!name.empty())
    program.registers.push_back({granule, std::string(name)});
  return granule;
}

Lowering::Symbol *Lowering::lookup(std::string_view name) {
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
    auto it = scope->symbols.find(name);
    if (it != scope->symbols.end())
      return &it->second;
    // A member of `%r<10>`: digits after the prefix, without leading zeros.
    size_t digits = name.find_last_not_of("0123456789") + 1;
    if (digits >= name.size() || name.size() - digits > 8)
      continue;
    it = scope->symbols.find(name.substr(0, digits));
    if (it == scope->symbols.end() || it->second.kind != Symbol::Kind::Range)
      continue;
    uint32_t index = 0; // of at most 8 digits
    std::from_chars(name.data() + digits, name.data() + name.size(), index);
    if (index >= it->second.rangeCount)
      continue;
    Symbol member = it->second;
    member.kind = Symbol::Kind::Register;
    return &scope->symbols.insert({name, member}).first->second;
  }
  return declareModuleVariable(name);
}

bool Lowering::isCompatible(ScalarType reg, ScalarType type,
                            bool allowWider) const {
  if ((reg == ScalarType::Pred) != (type == ScalarType::Pred))
    return false;
  if (reg == ScalarType::Pred)
    return true;
  unsigned have = typeBytes(reg), want = typeBytes(type);
  if (have != want && !(allowWider && have > want))
    return false;
  bool regIsInt = isSignedType(reg) || isUnsignedType(reg);
  bool typeIsInt = isSignedType(type) || isUnsignedType(type);
  if ((isFloatType(reg) && typeIsInt) || (isFloatType(type) && regIsInt))
    return false;
  // A float register holds its own width only.
  return have == want || !isFloatType(reg);
}

static std::string quoted(std::string_view name) {
  return "'" + std::string(name.substr(0, 60)) + "'";
}

bool Lowering::registerOperand(const PtxOperand &operand, ScalarType type,
                               uint32_t &granule, bool allowWider,
                               ScalarType *regType) {
  if (operand.kind != PtxOperand::Kind::Symbol)
    return fail(operand.loc, "expects a register");
  if (operand.hasOffset || operand.isGeneric)
    return fail(operand.loc, "expects a register, but got an address");
  Symbol *symbol = lookup(operand.name);
  if (!symbol) {
    std::string_view feature = unsupportedRegister(operand.name);
    return fail(operand.loc, feature.empty()
                                 ? "undefined register " + quoted(operand.name)
                                 : quoted(operand.name) + " needs " +
                                       std::string(feature) +
                                       ", which the emulator does not have");
  }
  if (symbol->kind != Symbol::Kind::Register)
    return fail(operand.loc, quoted(operand.name) + " is not a register");
  if (!isCompatible(symbol->type, type, allowWider))
    return fail(operand.loc, "expects a register for type ." +
                                 std::string(typeName(type)) + ", but got " +
                                 quoted(operand.name) + " of type ." +
                                 typeName(symbol->type));
  if (symbol->granule == noGranule)
    symbol->granule = allocate(symbol->type, operand.name);
  if (regType)
    *regType = symbol->type;
  granule = symbol->granule;
  return true;
}

//===----------------------------------------------------------------------===//
// Constants and special registers
//===----------------------------------------------------------------------===//

uint32_t Lowering::constant(unsigned bytes, uint64_t bits) {
  if (bytes > 0 && bytes < 8)
    bits &= (uint64_t(1) << (8 * bytes)) - 1;
  // There is no register of 8 bits.
  bytes = bytes == 1 ? 2 : bytes;
  auto [it, inserted] = constants.insert({{bytes, bits}, 0});
  if (inserted) {
    it->second = program.frameGranules;
    program.frameGranules += bytes <= 2 ? 1 : bytes / 2;
    program.constants.push_back(
        {it->second, static_cast<uint8_t>(bytes), bits});
  }
  return it->second;
}

/// The address `symbol` + `offset`; only generic ones differ between spaces.
uint32_t Lowering::addressConstant(const Symbol &symbol, bool generic,
                                   unsigned bytes, int64_t offset) {
  uint64_t base = 0;
  if (generic && symbol.space == StateSpace::Shared)
    base = sharedWindow;
  if (generic && symbol.space == StateSpace::Local)
    base = localWindow;
  if (generic && symbol.space == StateSpace::Param)
    base = paramWindow;
  auto fresh = [&](uint64_t bits) {
    uint32_t granule = program.frameGranules;
    program.frameGranules += bytes / 2;
    program.constants.push_back({granule, static_cast<uint8_t>(bytes), bits});
    return granule;
  };
  if (symbol.isDynamic) {
    auto [it, inserted] =
        dynamicConstants.insert({{bytes + generic * 16, offset}, 0});
    if (inserted) {
      it->second = fresh(base + static_cast<uint64_t>(offset));
      program.constants.back().isDynamicShared = true;
    }
    return it->second;
  }
  if (symbol.global) {
    uint32_t index = placeGlobal(*symbol.global);
    auto [it, inserted] = globalConstants.insert({{index, bytes, offset}, 0});
    if (inserted) {
      it->second = fresh(0);
      program.globalRefs.push_back({it->second, index, offset});
    }
    return it->second;
  }
  return constant(bytes, base + symbol.address + static_cast<uint64_t>(offset));
}

bool Lowering::addressSource(unsigned index, ScalarType type,
                             uint32_t &granule) {
  const PtxOperand &from = inst->operands[index];
  Symbol *symbol =
      from.kind == PtxOperand::Kind::Symbol ? lookup(from.name) : nullptr;
  if (!symbol || symbol->kind != Symbol::Kind::Variable)
    return source(index, type, granule);
  granule =
      addressConstant(*symbol, /*generic=*/false, typeBytes(type), from.value);
  return true;
}

bool Lowering::immediate(const PtxOperand &operand, ScalarType type,
                         uint32_t &granule) {
  unsigned bytes = typeBytes(type);
  uint64_t bits = static_cast<uint64_t>(operand.value);
  if (operand.kind == PtxOperand::Kind::Int) {
    if (type == ScalarType::Pred) {
      granule = constant(0, bits != 0);
      return true;
    }
    if (isFloatType(type))
      return fail(operand.loc,
                  std::string("expects a float literal for type .") +
                      typeName(type) + ", but got an integer");
    int64_t value = operand.value;
    unsigned width = bytes * 8;
    bool fits = width >= 64 || (value >= -(int64_t(1) << (width - 1)) &&
                                value < (int64_t(1) << width));
    if (!fits)
      return fail(operand.loc, "literal " + std::to_string(value) +
                                   " does not fit type ." + typeName(type));
    granule = constant(bytes, bits);
    return true;
  }
  bool wants32 = bytes == 4, wants64 = bytes == 8;
  if (isSignedType(type) || isUnsignedType(type) || (!wants32 && !wants64))
    return fail(operand.loc,
                std::string("a float literal cannot be of type .") +
                    typeName(type));
  granule = constant(bytes, floatLiteralBits(operand, wants64));
  return true;
}

namespace {
struct SpecialName {
  const char *name;
  SpecialReg reg;
};
} // namespace

static constexpr SpecialName specialNames[] = {
    {"%tid.x", SpecialReg::TidX},
    {"%tid.y", SpecialReg::TidY},
    {"%tid.z", SpecialReg::TidZ},
    {"%ntid.x", SpecialReg::NtidX},
    {"%ntid.y", SpecialReg::NtidY},
    {"%ntid.z", SpecialReg::NtidZ},
    {"%ctaid.x", SpecialReg::CtaidX},
    {"%ctaid.y", SpecialReg::CtaidY},
    {"%ctaid.z", SpecialReg::CtaidZ},
    {"%nctaid.x", SpecialReg::NctaidX},
    {"%nctaid.y", SpecialReg::NctaidY},
    {"%nctaid.z", SpecialReg::NctaidZ},
    {"%laneid", SpecialReg::LaneId},
    {"%warpid", SpecialReg::WarpId},
    {"%nwarpid", SpecialReg::NwarpId},
    {"%smid", SpecialReg::SmId},
    {"%nsmid", SpecialReg::NsmId},
    {"%gridid", SpecialReg::GridId},
    {"%lanemask_eq", SpecialReg::LanemaskEq},
    {"%lanemask_lt", SpecialReg::LanemaskLt},
    {"%lanemask_le", SpecialReg::LanemaskLe},
    {"%lanemask_gt", SpecialReg::LanemaskGt},
    {"%lanemask_ge", SpecialReg::LanemaskGe},
    {"%dynamic_smem_size", SpecialReg::DynamicSmemSize},
    {"%total_smem_size", SpecialReg::TotalSmemSize},
    // Each CTA is a cluster.
    {"%clusterid.x", SpecialReg::CtaidX},
    {"%clusterid.y", SpecialReg::CtaidY},
    {"%clusterid.z", SpecialReg::CtaidZ},
    {"%nclusterid.x", SpecialReg::NctaidX},
    {"%nclusterid.y", SpecialReg::NctaidY},
    {"%nclusterid.z", SpecialReg::NctaidZ},
    {"%cluster_ctaid.x", SpecialReg::ClusterCtaid},
    {"%cluster_ctaid.y", SpecialReg::ClusterCtaid},
    {"%cluster_ctaid.z", SpecialReg::ClusterCtaid},
    {"%cluster_nctaid.x", SpecialReg::ClusterNctaid},
    {"%cluster_nctaid.y", SpecialReg::ClusterNctaid},
    {"%cluster_nctaid.z", SpecialReg::ClusterNctaid},
    {"%cluster_ctarank", SpecialReg::ClusterCtaid},
    {"%cluster_nctarank", SpecialReg::ClusterNctaid},
};

/// noGranule when there is no such special register.
uint32_t Lowering::special(std::string_view name, std::string_view suffix,
                           ScalarType type) {
  std::string full(name);
  if (!suffix.empty())
    full += "." + std::string(suffix);
  for (const SpecialName &entry : specialNames) {
    if (full != entry.name)
      continue;
    // Held as 64 bits where the instruction wants so (mov.u64 %rd, %gridid).
    unsigned bytes = typeBytes(type);
    auto key = std::make_pair(static_cast<unsigned>(entry.reg), bytes);
    auto [it, inserted] = specials.insert({key, 0});
    if (inserted) {
      it->second = program.frameGranules;
      program.frameGranules += bytes <= 2 ? 1 : bytes / 2;
      program.specials.push_back(
          {it->second, static_cast<uint8_t>(bytes), entry.reg});
    }
    return it->second;
  }
  return noGranule;
}

//===----------------------------------------------------------------------===//
// Operands of the current instruction
//===----------------------------------------------------------------------===//

bool Lowering::expectOperands(size_t low, size_t high) {
  size_t have = inst->operands.size();
  if (have >= low && have <= high)
    return true;
  std::string want = std::to_string(low);
  if (high != low)
    want += " to " + std::to_string(high);
  return failHere("'" + std::string(inst->opcode.substr(0, 60)) + "' expects " +
                  want + " operands, but got " + std::to_string(have));
}

bool Lowering::sourceOf(const PtxOperand &operand, ScalarType type,
                        uint32_t &granule, bool allowWider,
                        ScalarType *regType) {
  if (regType)
    *regType = type;
  if (operand.negated)
    return fail(operand.loc, "'!' is only allowed on a predicate here");
  if (operand.kind == PtxOperand::Kind::Int ||
      operand.kind == PtxOperand::Kind::Float)
    return immediate(operand, type, granule);
  if (operand.kind == PtxOperand::Kind::Symbol && !lookup(operand.name)) {
    unsigned bytes = typeBytes(type);
    uint32_t found = bytes == 2 || bytes == 4 || bytes == 8
                         ? special(operand.name, operand.suffix, type)
                         : noGranule;
    if (found != noGranule) {
      granule = found;
      return true;
    }
  }
  return registerOperand(operand, type, granule, allowWider, regType);
}

bool Lowering::source(unsigned index, ScalarType type, uint32_t &granule) {
  return sourceOf(inst->operands[index], type, granule);
}

bool Lowering::destOf(const PtxOperand &operand, ScalarType type,
                      uint32_t &granule, bool allowWider, ScalarType *regType) {
  if (regType)
    *regType = type;
  if (operand.kind == PtxOperand::Kind::Sink) {
    granule = sinkGranule;
    return true;
  }
  if (operand.negated)
    return fail(operand.loc, "a destination cannot be negated");
  return registerOperand(operand, type, granule, allowWider, regType);
}

bool Lowering::dest(unsigned index, ScalarType type, uint32_t &granule) {
  return destOf(inst->operands[index], type, granule);
}

bool Lowering::predicateSource(const PtxOperand &operand, uint32_t &granule) {
  if (operand.kind == PtxOperand::Kind::Int)
    return immediate(operand, ScalarType::Pred, granule);
  if (operand.kind == PtxOperand::Kind::Symbol &&
      operand.name == "%is_explicit_cluster") {
    granule = constant(0, program.isExplicitCluster != operand.negated);
    return true;
  }
  if (!registerOperand(operand, ScalarType::Pred, granule))
    return false;
  if (!operand.negated)
    return true;
  uint32_t inverted = allocate(ScalarType::Pred);
  emitAlu(AluOp::NotPred, InstClass::Predicate, {inverted, granule}).hidden =
      true;
  granule = inverted;
  return true;
}

bool Lowering::address(const PtxOperand &operand, StateSpace space,
                       Address &out) {
  out.space = space;
  out.offset = operand.value;
  if (operand.kind != PtxOperand::Kind::Address)
    return fail(operand.loc, "expects an address in brackets");
  if (!operand.elements.empty())
    return fail(operand.loc, "expects an address without coordinates");
  if (operand.name.empty()) {
    out.granule = constant(8, 0);
    return true;
  }
  Symbol *symbol = lookup(operand.name);
  if (!symbol)
    return fail(operand.loc,
                "undefined name " + quoted(operand.name) + " in an address");
  if (symbol->kind == Symbol::Kind::Register) {
    unsigned bytes = typeBytes(symbol->type);
    if (isFloatType(symbol->type) || (bytes != 4 && bytes != 8))
      return fail(operand.loc,
                  "expects a 32- or 64-bit integer register as an address, but "
                  "got " +
                      quoted(operand.name) + " of type ." +
                      typeName(symbol->type));
    if (bytes == 4 &&
        (space == StateSpace::Generic || space == StateSpace::Global))
      return fail(operand.loc, "expects a 64-bit address for state space ." +
                                   std::string(spaceName(space)) +
                                   ", but got the 32-bit register " +
                                   quoted(operand.name));
    out.is64 = bytes == 8;
    PtxOperand base;
    base.kind = PtxOperand::Kind::Symbol;
    base.loc = operand.loc;
    base.name = operand.name;
    return registerOperand(base, symbol->type, out.granule);
  }
  if (symbol->kind != Symbol::Kind::Variable)
    return fail(operand.loc, quoted(operand.name) + " has no address");
  // The parameters of an inlined call live in local memory.
  if (space == StateSpace::Param && symbol->space == StateSpace::Local)
    out.space = StateSpace::Local;
  else if (space != StateSpace::Generic && space != symbol->space)
    return fail(operand.loc, quoted(operand.name) + " is in state space ." +
                                 spaceName(symbol->space) +
                                 ", but the instruction accesses ." +
                                 spaceName(space));
  out.granule = addressConstant(*symbol, space == StateSpace::Generic, 8);
  return true;
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

Inst &Lowering::emit(InstKind kind, InstClass cls) {
  Inst out;
  out.kind = kind;
  out.cls = cls;
  out.guard = guard;
  out.guardNegated = guardNegated;
  out.line = inst ? inst->loc.line : 0;
  out.source = currentSource;
  program.code.push_back(out);
  return program.code.back();
}

void Lowering::setOperands(Inst &out, const std::vector<uint32_t> &operands,
                           unsigned numDsts) {
  out.firstOperand = static_cast<uint32_t>(program.operands.size());
  out.numDsts = static_cast<uint8_t>(numDsts);
  out.numSrcs = static_cast<uint8_t>(operands.size() - numDsts);
  program.operands.insert(program.operands.end(), operands.begin(),
                          operands.end());
}

Inst &Lowering::emitAlu(AluOp op, InstClass cls,
                        std::initializer_list<uint32_t> operands,
                        unsigned numDsts) {
  Inst &out = emit(InstKind::Alu, cls);
  out.op = op;
  setOperands(out, operands, numDsts);
  return out;
}

bool Lowering::lowerUniform(AluOp op, ScalarType type, unsigned numSources,
                            InstClass cls, int aux) {
  if (!expectOperands(numSources + 1))
    return false;
  std::vector<uint32_t> operands(numSources + 1);
  for (unsigned i = 1; i <= numSources; ++i)
    if (!source(i, type, operands[i]))
      return false;
  if (!dest(0, type, operands[0]))
    return false;
  Inst &out = emit(InstKind::Alu, cls);
  out.op = op;
  out.aux = aux;
  setOperands(out, operands, 1);
  return true;
}
