//===- GuessSlice.cpp - Loads that a CAS checks ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Follows the value of the load through registers, along all ways from it, up
// to the first use that is none of those allowed. See GuessSlice.h.
//
//===----------------------------------------------------------------------===//

#include "GuessSlice.h"

#include <deque>
#include <map>
#include <optional>

using namespace flashcore::emu;

/// Instructions that are looked at, over and over in loops.
static constexpr size_t maxSteps = 1 << 16;

namespace {
/// What a register may hold.
enum Held : uint8_t {
  Guess = 1,   // what the load gave
  Derived = 2, // something computed from it
  Stale = 4,   // either, of an earlier load or another address
  Answer = 8,  // what the atom.cas gave
  Other = 16,  // something else, by another way
};
constexpr uint8_t anyGuess = Guess | Derived | Stale;

class GuessSlice {
public:
  GuessSlice(const Program &program, uint32_t load)
      : program(program), load(load), definitions(findDefinitions()) {}

  bool run();

private:
  /// A register that was compared with what the atom.cas gave.
  struct Check {
    uint32_t granule = 0;
    bool whenTrue = false; // that the predicate is true says that it is equal
    bool operator==(const Check &) const = default;
  };
  struct State {
    std::map<uint32_t, uint8_t> held;
    /// By the predicate.
    std::map<uint32_t, Check> checks;
  };

  std::map<uint32_t, std::vector<uint32_t>> findDefinitions() const;
  uint32_t rootOf(uint32_t granule) const;
  bool isSameAddress(const Inst &cas) const;
  bool step(uint32_t pc, State &state);
  bool stepAlu(const Inst &inst, State &state);
  bool stepCas(const Inst &inst, State &state);
  void write(const Inst &inst, uint32_t granule, uint8_t held, State &state);
  void follow(uint32_t pc, const State &state);
  void followBranch(uint32_t pc, const State &state);
  const uint32_t *operandsOf(const Inst &inst) const {
    return program.operands.data() + inst.firstOperand;
  }
  uint32_t addressOfLoad() const { return operandsOf(program.code[load])[1]; }

  const Program &program;
  const uint32_t load;
  /// By the register: where it is written.
  const std::map<uint32_t, std::vector<uint32_t>> definitions;
  std::map<uint32_t, State> before;
  std::deque<uint32_t> pending;
  bool hasCas = false;
};
} // namespace

static uint8_t heldIn(const std::map<uint32_t, uint8_t> &state,
                      uint32_t granule) {
  auto it = state.find(granule);
  return it == state.end() ? 0 : it->second;
}

static bool isMove(AluOp op) {
  switch (op) {
  case AluOp::MovB16:
  case AluOp::MovB32:
  case AluOp::MovB64:
  case AluOp::CvtU16B32:
  case AluOp::CvtS16B32:
  case AluOp::CvtU16B64:
  case AluOp::CvtS16B64:
  case AluOp::CvtU32B64:
  case AluOp::CvtS32B64:
    return true;
  default:
    return false;
  }
}

/// A comparison of integers for equality, which bits decide.
static bool isEquality(const Inst &inst) {
  switch (inst.op) {
  case AluOp::SetpU16:
  case AluOp::SetpS16:
  case AluOp::SetpU32:
  case AluOp::SetpS32:
  case AluOp::SetpU64:
  case AluOp::SetpS64:
    return inst.aux == static_cast<int32_t>(CmpOp::Eq) ||
           inst.aux == static_cast<int32_t>(CmpOp::Ne);
  default:
    return false;
  }
}

std::map<uint32_t, std::vector<uint32_t>> GuessSlice::findDefinitions() const {
  std::map<uint32_t, std::vector<uint32_t>> out;
  for (uint32_t pc = 0; pc < program.code.size(); ++pc) {
    const Inst &inst = program.code[pc];
    for (unsigned i = 0; i < inst.numDsts; ++i)
      out[operandsOf(inst)[i]].push_back(pc);
  }
  return out;
}

/// The register of which this one is a copy for as long as it is used.
uint32_t GuessSlice::rootOf(uint32_t granule) const {
  for (unsigned moves = 0; moves < 8; ++moves) {
    auto it = definitions.find(granule);
    if (it == definitions.end() || it->second.size() != 1)
      return granule;
    const Inst &inst = program.code[it->second[0]];
    if (inst.kind != InstKind::Alu || inst.op != AluOp::MovB64)
      return granule;
    uint32_t from = operandsOf(inst)[1];
    auto source = definitions.find(from);
    if (source != definitions.end() && source->second.size() != 1)
      return granule;
    granule = from;
  }
  return granule;
}

bool GuessSlice::isSameAddress(const Inst &cas) const {
  const Inst &inst = program.code[load];
  return cas.elementBytes == inst.elementBytes && cas.imm == inst.imm &&
         rootOf(operandsOf(cas)[1]) == rootOf(addressOfLoad());
}

void GuessSlice::write(const Inst &inst, uint32_t granule, uint8_t held,
                       State &state) {
  if (granule == sinkGranule)
    return;
  // Of a pointer that moves on, the guesses are for another place.
  if (granule == addressOfLoad())
    for (auto &[other, what] : state.held)
      if (what & anyGuess)
        what = Stale;
  std::erase_if(state.checks, [&](const auto &check) {
    return check.first == granule || check.second.granule == granule;
  });
  if (inst.guard != noGranule)
    held |= heldIn(state.held, granule);
  if (held)
    state.held[granule] = held;
  else
    state.held.erase(granule);
}

bool GuessSlice::stepAlu(const Inst &inst, State &state) {
  const uint32_t *ops = operandsOf(inst), *sources = ops + inst.numDsts;
  uint8_t held = 0;
  for (unsigned i = 0; i < inst.numSrcs; ++i)
    held |= heldIn(state.held, sources[i]);
  if (isMove(inst.op)) {
    write(inst, ops[0], heldIn(state.held, sources[0]), state);
    return true;
  }
  std::optional<Check> check;
  if (isEquality(inst)) {
    uint8_t a = heldIn(state.held, sources[0]),
            b = heldIn(state.held, sources[1]);
    uint32_t compared = a == Answer ? sources[1] : sources[0];
    if (a == Answer)
      std::swap(a, b);
    if (b == Answer && !(a & (Derived | Stale))) {
      held = 0;
      check = {compared, inst.aux == static_cast<int32_t>(CmpOp::Eq)};
    }
  }
  held = (held & Stale) | ((held & (Guess | Derived)) ? Derived : 0);
  for (unsigned i = 0; i < inst.numDsts; ++i)
    write(inst, ops[i], held, state);
  if (check && inst.guard == noGranule && inst.boolOp == BoolOp::None)
    state.checks[ops[0]] = *check;
  return true;
}

/// Operands: d, address, compared value, new value.
bool GuessSlice::stepCas(const Inst &inst, State &state) {
  const uint32_t *ops = operandsOf(inst);
  uint8_t compared = heldIn(state.held, ops[2]),
          stored = heldIn(state.held, ops[3]);
  bool isChecked = compared & Guess;
  if ((heldIn(state.held, ops[1]) & anyGuess) ||
      (compared & (Derived | Stale)) || (stored & Stale) ||
      ((stored & anyGuess) && !isChecked) ||
      (isChecked && !isSameAddress(inst)))
    return false;
  hasCas |= isChecked;
  write(inst, ops[0], isSameAddress(inst) ? Answer : 0, state);
  return true;
}

/// What an instruction makes of the state; false if it uses a guess otherwise.
bool GuessSlice::step(uint32_t pc, State &state) {
  const Inst &inst = program.code[pc];
  const uint32_t *ops = operandsOf(inst);
  if (inst.guard != noGranule && (heldIn(state.held, inst.guard) & anyGuess))
    return false;
  if (inst.kind == InstKind::Alu)
    return stepAlu(inst, state);
  bool isCas = inst.kind == InstKind::Atomic &&
               static_cast<AtomicOp>(inst.mode) == AtomicOp::Cas;
  if (isCas)
    return stepCas(inst, state);
  for (unsigned i = 0; i < inst.numSrcs; ++i)
    if (heldIn(state.held, ops[inst.numDsts + i]) & anyGuess)
      return false;
  // Registers of a product are no operands like others.
  if (inst.kind == InstKind::Wgmma && !state.held.empty())
    return false;
  if (pc == load)
    for (auto &[granule, held] : state.held)
      if (held & anyGuess)
        held = Stale;
  for (unsigned i = 0; i < inst.numDsts; ++i)
    write(inst, ops[i], pc == load ? Guess : 0, state);
  return true;
}

/// Comes to an instruction with a state, which adds to those that came before.
void GuessSlice::follow(uint32_t pc, const State &state) {
  if (pc >= program.code.size())
    return;
  auto [it, isNew] = before.try_emplace(pc, state);
  bool hasChanged = isNew;
  auto add = [&](uint8_t &known, uint8_t held) {
    hasChanged |= (known | held) != known;
    known |= held;
  };
  State &all = it->second;
  for (auto &[granule, known] : all.held)
    add(known, state.held.count(granule) ? 0 : Other);
  for (const auto &[granule, held] : state.held)
    add(all.held.try_emplace(granule, Other).first->second, held);
  // What holds by each way.
  hasChanged |=
      std::erase_if(all.checks, [&](const auto &check) {
        auto other = state.checks.find(check.first);
        return other == state.checks.end() || other->second != check.second;
      }) != 0;
  if (hasChanged)
    pending.push_back(pc);
}

/// Where a guess has been found to be what the atom.cas gave, it is that.
void GuessSlice::followBranch(uint32_t pc, const State &state) {
  const Inst &inst = program.code[pc];
  State taken = state, other = state;
  auto check = state.checks.find(inst.guard);
  if (check != state.checks.end())
    (check->second.whenTrue != inst.guardNegated ? taken : other)
        .held[check->second.granule] = Answer;
  follow(inst.target, taken);
  if (inst.guard != noGranule)
    follow(pc + 1, other);
}

bool GuessSlice::run() {
  const Inst &inst = program.code[load];
  if (inst.kind != InstKind::Load || inst.isStrong || inst.vectorLength != 1)
    return false;
  follow(load, {});
  for (size_t steps = 0; !pending.empty(); ++steps) {
    uint32_t pc = pending.front();
    pending.pop_front();
    State state = before[pc];
    if (steps > maxSteps || !step(pc, state))
      return false;
    const Inst &here = program.code[pc];
    bool isEnd = here.kind == InstKind::Exit || here.kind == InstKind::Trap;
    if (here.kind == InstKind::Branch) {
      followBranch(pc, state);
      continue;
    }
    if (here.kind == InstKind::BranchTable)
      for (uint32_t target : program.tables[here.target])
        follow(target, state);
    if (here.guard != noGranule || !isEnd)
      follow(pc + 1, state);
  }
  return hasCas;
}

bool flashcore::emu::isCasGuess(const Program &program, uint32_t pc) {
  return GuessSlice(program, pc).run();
}
