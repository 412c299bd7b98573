//===- LowerWmma.cpp - wmma.load, wmma.mma, wmma.store --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA 9.7.14.4. A wmma.mma becomes two mma.sync, and loads and stores
// become those of the words that each lane holds (WmmaFragment.h).
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"
#include "WmmaFragment.h"

#include <algorithm>

using namespace flashcore::emu;

//===----------------------------------------------------------------------===//
// Shapes and types
//===----------------------------------------------------------------------===//

/// The type that the registers of a fragment have.
static ScalarType registerType(char matrix, ScalarType type) {
  bool isFactor = matrix == 'a' || matrix == 'b';
  return isFactor || type == ScalarType::F16 ? ScalarType::B32 : type;
}

static bool isFactorType(ScalarType type, const WmmaShape &shape) {
  if (shape.k == 8)
    return type == ScalarType::TF32;
  return type == ScalarType::F16 || type == ScalarType::BF16 ||
         type == ScalarType::S8 || type == ScalarType::U8;
}

static bool isAccumulatorType(ScalarType type, const WmmaShape &shape) {
  return type == ScalarType::F32 ||
         (shape.k == 16 &&
          (type == ScalarType::F16 || type == ScalarType::S32));
}

static MatrixType matrixType(ScalarType type) {
  switch (type) {
  case ScalarType::F16:
    return MatrixType::F16;
  case ScalarType::BF16:
    return MatrixType::BF16;
  case ScalarType::TF32:
    return MatrixType::TF32;
  case ScalarType::S8:
    return MatrixType::S8;
  default:
    return MatrixType::U8;
  }
}

static WmmaTile makeTile(char matrix, bool isColumnMajor,
                         const WmmaShape &shape, ScalarType type) {
  return {matrix,
          isColumnMajor,
          static_cast<uint8_t>(shape.m),
          static_cast<uint8_t>(shape.n),
          static_cast<uint8_t>(shape.k),
          type};
}

bool Lowering::takeWmmaShape(WmmaShape &shape) {
  static constexpr WmmaShape shapes[] = {
      {16, 16, 16}, {32, 8, 16}, {8, 32, 16}, {16, 16, 8}};
  int index = mods.takeOneOf({"m16n16k16", "m32n8k16", "m8n32k16", "m16n16k8"});
  if (index < 0)
    return failHere("expects wmma of m16n16k16, m32n8k16 or m8n32k16 with f16, "
                    "bf16, s8 or u8, or of m16n16k8 with tf32, but got '" +
                    std::string(inst->opcode.substr(0, 80)) +
                    "'; f64, 4-bit and 1-bit types are not supported");
  shape = shapes[index];
  return true;
}

/// All lanes of the warp have to be there.
void Lowering::emitWarpConvergence() {
  Inst &out = emit(InstKind::Vote, InstClass::Matrix);
  out.mode = static_cast<uint8_t>(VoteMode::Ballot);
  out.aligned = true;
  out.hidden = true;
  setOperands(out, {sinkGranule, constant(0, 1), constant(4, ~uint32_t(0))}, 1);
}

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

/// The addresses of what a lane holds: `steps` times the stride, from the
/// address of its first element.
class Lowering::WmmaAddresses {
public:
  WmmaAddresses(Lowering &lowering, const WmmaFragment &fragment,
                bool isRowMajor, const Address &start)
      : lowering(lowering), fragment(fragment), start(start),
        isRowMajor(isRowMajor) {}

  /// Takes the stride of the instruction's operand `index`, if it is there.
  bool prepare(unsigned index);

  /// Whether the elements of one register lie side by side.
  bool isContiguous() const { return fragment.outerIsRow == isRowMajor; }

  /// That of element `i` of a register; `offset` is an immediate.
  uint32_t at(const WmmaFragment::Place &place, unsigned i, int64_t &offset);

private:
  /// base + a * b.
  uint32_t multiplyAdd(uint32_t a, uint32_t b, uint32_t base);
  void step(AluOp op, std::initializer_list<uint32_t> operands) {
    lowering.emitAlu(op, InstClass::Matrix, operands).hidden = true;
  }

  Lowering &lowering;
  const WmmaFragment &fragment;
  Address start;
  bool isRowMajor;
  /// In bytes; the number where it is an immediate.
  uint32_t stride = 0;
  std::optional<int64_t> fixedStride;
  uint32_t laneBase = 0;
  std::map<unsigned, uint32_t> byStep;
};

uint32_t Lowering::WmmaAddresses::multiplyAdd(uint32_t a, uint32_t b,
                                              uint32_t base) {
  uint32_t sum =
      lowering.allocate(start.is64 ? ScalarType::U64 : ScalarType::U32);
  step(start.is64 ? AluOp::MadWideU32 : AluOp::MadB32, {sum, a, b, base});
  return sum;
}

bool Lowering::WmmaAddresses::prepare(unsigned index) {
  const std::vector<PtxOperand> &operands = lowering.inst->operands;
  unsigned bytes = fragment.elementBytes;
  if (index >= operands.size())
    fixedStride = isRowMajor ? fragment.numColumns : fragment.numRows;
  else if (operands[index].kind == PtxOperand::Kind::Int)
    fixedStride = operands[index].value;
  if (fixedStride) {
    if (*fixedStride < 0 || *fixedStride > UINT32_MAX / 4)
      return lowering.fail(operands[index].loc,
                           "expects a stride of 0 to 1073741823 elements, but "
                           "got " +
                               std::to_string(*fixedStride));
    *fixedStride *= bytes;
    stride = lowering.constant(4, static_cast<uint64_t>(*fixedStride));
  } else {
    uint32_t elements;
    if (!lowering.source(index, ScalarType::U32, elements))
      return false;
    stride = lowering.allocate(ScalarType::U32);
    step(AluOp::MulB32, {stride, elements, lowering.constant(4, bytes)});
  }
  uint32_t lane = lowering.special("%laneid", {}, ScalarType::U32);
  uint32_t outer = lowering.allocate(ScalarType::U32);
  uint32_t inner = lowering.allocate(ScalarType::U32);
  step(AluOp::ShrU32, {outer, lane, lowering.constant(4, 2)});
  step(AluOp::AndB32, {inner, lane, lowering.constant(4, 3)});
  step(AluOp::MulB32, {inner, inner, lowering.constant(4, fragment.innerStep)});
  uint32_t unit = lowering.constant(4, bytes);
  laneBase = multiplyAdd(outer, isContiguous() ? stride : unit, start.granule);
  laneBase = multiplyAdd(inner, isContiguous() ? unit : stride, laneBase);
  byStep[0] = laneBase;
  return true;
}

uint32_t Lowering::WmmaAddresses::at(const WmmaFragment::Place &place,
                                     unsigned i, int64_t &offset) {
  unsigned steps = isContiguous() ? place.outer : place.inner + i;
  unsigned beside = isContiguous() ? place.inner + i : place.outer;
  offset = start.offset + int64_t(beside) * fragment.elementBytes;
  if (fixedStride) {
    offset += *fixedStride * steps;
    return laneBase;
  }
  auto [it, inserted] = byStep.insert({steps, 0});
  if (inserted)
    it->second = multiplyAdd(lowering.constant(4, steps), stride, laneBase);
  return it->second;
}

//===----------------------------------------------------------------------===//
// wmma.load, wmma.store
//===----------------------------------------------------------------------===//

/// One load or store of `registers`, elements of `bytes` each.
void Lowering::emitWmmaAccess(bool isStore, StateSpace space, bool is64,
                              const WmmaAccess &access) {
  unsigned length = static_cast<unsigned>(access.registers.size());
  noteAccess(space, access.bytes * length);
  Inst &out =
      emit(isStore ? InstKind::Store : InstKind::Load, InstClass::Matrix);
  out.space = space;
  out.imm = access.offset;
  out.addressIs64 = is64;
  out.elementBytes = static_cast<uint8_t>(access.bytes);
  out.vectorLength = static_cast<uint8_t>(length);
  out.regBytes = static_cast<uint8_t>(std::max(2u, access.bytes));
  std::vector<uint32_t> operands = access.registers;
  operands.insert(isStore ? operands.begin() : operands.end(), access.address);
  setOperands(out, operands, isStore ? 0 : length);
}

/// Puts elements of 16 or 8 bits into a register.
void Lowering::packElements(uint32_t whole,
                            const std::vector<uint32_t> &elements) {
  auto step = [&](AluOp op, std::initializer_list<uint32_t> operands) {
    emitAlu(op, InstClass::Matrix, operands).hidden = true;
  };
  if (elements.size() == 2)
    return step(AluOp::PackB32, {whole, elements[0], elements[1]});
  uint32_t word = allocate(ScalarType::B32), part = allocate(ScalarType::B32);
  step(AluOp::CvtU16B32, {word, elements[0]});
  for (unsigned i = 1; i < elements.size(); ++i) {
    step(AluOp::CvtU16B32, {part, elements[i]});
    step(AluOp::ShlB32, {part, part, constant(4, 8 * i)});
    step(AluOp::OrB32, {word, word, part});
  }
  step(AluOp::MovB32, {whole, word});
}

/// wmma.load.{a,b,c}.sync.aligned.layout.shape{.space}.type r, [p]{, stride}
/// wmma.store.d.sync.aligned.layout.shape{.space}.type [p], r{, stride}
bool Lowering::lowerWmmaMove(bool isStore) {
  int index = mods.takeOneOf({"a", "b", "c", "d"});
  bool ok = index >= 0 && (index == 3) == isStore;
  ok &= mods.take("sync") && mods.take("aligned");
  int layout = mods.takeOneOf({"row", "col"});
  if (!ok || layout < 0)
    return failHere("expects wmma.load.{a,b,c} or wmma.store.d with "
                    ".sync.aligned.{row,col}");
  WmmaShape shape;
  if (!takeWmmaShape(shape))
    return false;
  StateSpace space;
  takeSpace(space);
  ScalarType type = mods.takeType();
  char matrix = "abcd"[index];
  bool isFactor = index < 2;
  if (isFactor ? !isFactorType(type, shape) : !isAccumulatorType(type, shape))
    return failHere("'" + std::string(inst->opcode.substr(0, 80)) +
                    "' has no such type at this shape");
  if (space != StateSpace::Generic && space != StateSpace::Global &&
      space != StateSpace::Shared)
    return failHere("expects .global, .shared or no state space on wmma");
  if (!expectOperands(2, 3))
    return false;

  WmmaFragment fragment = makeFragment(matrix, shape, type);
  std::vector<uint32_t> registers;
  Address start;
  if (!this->fragment(inst->operands[isStore ? 1 : 0],
                      countRegisters(matrix, fragment, type),
                      registerType(matrix, type), "a wmma fragment", !isStore,
                      registers) ||
      !address(inst->operands[isStore ? 0 : 1], space, start))
    return false;
  emitWarpConvergence();
  WmmaAddresses addresses(*this, fragment, layout == 0, start);
  if (!addresses.prepare(2))
    return false;
  auto begin = static_cast<uint32_t>(program.code.size());
  moveFragment(isStore, start, fragment, registers, addresses);
  if (isFactor)
    program.wmmaLoads.push_back(
        {makeTile(matrix, layout == 1, shape, type), begin,
         static_cast<uint32_t>(program.code.size()), registers});
  return true;
}

void Lowering::moveFragment(bool isStore, const Address &start,
                            const WmmaFragment &fragment,
                            const std::vector<uint32_t> &registers,
                            WmmaAddresses &addresses) {
  size_t count = fragment.registers.size();
  unsigned perRegister = fragment.perRegister();
  bool isContiguous = addresses.isContiguous();
  // What is packed after it was loaded, and unpacked before it is stored.
  std::vector<std::pair<uint32_t, std::vector<uint32_t>>> packed;
  // All addresses come first: a load may overwrite the stride.
  std::vector<WmmaAccess> accesses;
  for (size_t r = 0; r < count; ++r) {
    const WmmaFragment::Place &place = fragment.registers[r];
    WmmaFragment::Place beside{place.outer, place.inner + 1};
    WmmaAccess access;
    if (isContiguous || perRegister == 1) {
      access.bytes = 4;
      access.registers = {registers[r]};
      access.address = addresses.at(place, 0, access.offset);
      // Two accumulators side by side.
      if (isContiguous && r + 1 < count && fragment.registers[r + 1] == beside)
        access.registers.push_back(registers[++r]);
      accesses.push_back(std::move(access));
      continue;
    }
    std::vector<uint32_t> elements;
    for (unsigned i = 0; i < perRegister; ++i) {
      elements.push_back(allocate(ScalarType::B16));
      access.bytes = fragment.elementBytes;
      access.registers = {elements.back()};
      access.address = addresses.at(place, i, access.offset);
      accesses.push_back(access);
    }
    packed.emplace_back(registers[r], std::move(elements));
  }
  auto hide = [&](AluOp op, uint32_t d, uint32_t a) {
    emitAlu(op, InstClass::Matrix, {d, a}).hidden = true;
  };
  if (isStore)
    for (const auto &[whole, elements] : packed) {
      hide(AluOp::LowB16, elements[0], whole);
      hide(AluOp::HighB16, elements[1], whole);
    }
  for (const WmmaAccess &access : accesses)
    emitWmmaAccess(isStore, start.space, start.is64, access);
  if (isStore)
    return;
  for (const auto &[whole, elements] : packed)
    packElements(whole, elements);
  for (size_t r = count; r < registers.size(); ++r)
    hide(AluOp::MovB32, registers[r], registers[r % count]);
}

//===----------------------------------------------------------------------===//
// wmma.mma
//===----------------------------------------------------------------------===//

/// Accumulators of the other float type, as mma.sync has but one for both.
std::vector<uint32_t>
Lowering::convertAccumulators(const std::vector<uint32_t> &from, bool toHalf) {
  auto step = [&](AluOp op, std::initializer_list<uint32_t> operands) {
    emitAlu(op, InstClass::Matrix, operands).hidden = true;
  };
  std::vector<uint32_t> to;
  if (toHalf) {
    for (size_t i = 0; i < from.size(); i += 2) {
      to.push_back(allocate(ScalarType::B32));
      step(AluOp::CvtF16x2F32, {to.back(), from[i + 1], from[i]});
    }
    return to;
  }
  uint32_t half = allocate(ScalarType::B16);
  for (uint32_t pair : from)
    for (AluOp part : {AluOp::LowB16, AluOp::HighB16}) {
      to.push_back(allocate(ScalarType::F32));
      step(part, {half, pair});
      step(AluOp::CvtF32F16, {to.back(), half});
    }
  return to;
}

/// wmma.mma.sync.aligned.alayout.blayout.shape.dtype{.atype.btype}.ctype
bool Lowering::lowerWmmaMma() {
  bool ok = mods.take("sync") && mods.take("aligned");
  // They change nothing in a fragment, but must be those of the loads.
  int layoutA = mods.takeNext({"row", "col"});
  int layoutB = mods.takeNext({"row", "col"});
  WmmaShape shape;
  if (!ok || layoutA < 0 || layoutB < 0)
    return failHere("expects wmma.mma.sync.aligned.{row,col}.{row,col}");
  if (!takeWmmaShape(shape))
    return false;
  bool saturate = mods.take("satfinite");
  ScalarType types[4];
  unsigned numTypes = 0;
  for (ScalarType &type : types) {
    type = mods.takeType();
    numTypes += type != ScalarType::None;
  }
  bool isHalf = numTypes == 2;
  ScalarType d = types[0], c = types[isHalf ? 1 : 3];
  ScalarType a = isHalf ? ScalarType::F16 : types[1];
  ScalarType b = isHalf ? ScalarType::F16 : types[2];
  bool isInteger = d == ScalarType::S32;
  bool isFloat = d == ScalarType::F32 || (isHalf && d == ScalarType::F16);
  ok = (isHalf || (numTypes == 4 && a != ScalarType::F16)) && a == b &&
       isFactorType(a, shape) && isAccumulatorType(c, shape) &&
       (isHalf ? isFloat && c != ScalarType::S32 : c == d) &&
       isInteger == (a == ScalarType::S8 || a == ScalarType::U8) &&
       (isInteger || (isFloat && !saturate));
  if (!ok)
    return failHere("expects wmma.mma of f16 with f16 or f32 accumulators, of "
                    "bf16 or tf32 with f32, or of s8 or u8 with s32, but got "
                    "'" +
                    std::string(inst->opcode.substr(0, 80)) + "'");
  return emitWmmaMma(shape,
                     {makeTile('a', layoutA == 1, shape, a),
                      makeTile('b', layoutB == 1, shape, b)},
                     c, d, saturate);
}

static std::vector<uint32_t> slice(const std::vector<uint32_t> &all,
                                   size_t begin, size_t count) {
  auto first = all.begin() + static_cast<ptrdiff_t>(begin);
  return {first, first + static_cast<ptrdiff_t>(count)};
}

void Lowering::emitMma(const MmaRegisters &registers, ScalarType type,
                       ScalarType sum, unsigned depth, bool saturate) {
  std::vector<uint32_t> operands = registers.d;
  for (const auto *more : {&registers.a, &registers.b, &registers.c})
    operands.insert(operands.end(), more->begin(), more->end());
  Inst &out = emit(InstKind::Mma, InstClass::Matrix);
  out.mode = static_cast<uint8_t>(matrixType(type));
  out.aux = static_cast<int32_t>(matrixType(type));
  out.type = sum;
  out.saturate = saturate;
  out.vectorLength = static_cast<uint8_t>(depth);
  out.aligned = true;
  setOperands(out, operands, static_cast<unsigned>(registers.d.size()));
}

/// Of a register of a fragment, for messages.
static std::string_view nameOf(const PtxOperand &operand, size_t index) {
  return operand.kind == PtxOperand::Kind::Vector ? operand.elements[index].name
                                                  : operand.name;
}

/// Of the mma that comes next.
void Lowering::noteWmmaOperand(const WmmaTile &tile,
                               const std::vector<uint32_t> &registers) {
  auto pc = static_cast<uint32_t>(program.code.size());
  program.wmmaOperands.push_back({tile, pc, pc + 1, registers});
}

bool Lowering::emitWmmaMma(const WmmaShape &shape, const WmmaTile (&tiles)[2],
                           ScalarType c, ScalarType d, bool saturate) {
  if (!expectOperands(4))
    return false;
  ScalarType type = tiles[0].type;
  std::vector<uint32_t> registers[4];
  for (unsigned i = 0; i < 4; ++i) {
    char matrix = "dabc"[i];
    ScalarType element = i == 0 ? d : i == 3 ? c : type;
    WmmaFragment fragment = makeFragment(matrix, shape, element);
    const char *const names[] = {"D of wmma", "A of wmma", "B of wmma",
                                 "C of wmma"};
    if (!this->fragment(
            inst->operands[i], countRegisters(matrix, fragment, element),
            registerType(matrix, element), names[i], i == 0, registers[i]))
      return false;
  }
  auto &[to, first, second, from] = registers;
  // As ptxas does it: f32 where either is, converted on the way.
  ScalarType sum = c == d ? d : ScalarType::F32;
  if (c != sum)
    from = convertAccumulators(from, /*toHalf=*/false);
  noteWmmaOperand(tiles[0], first);
  noteWmmaOperand(tiles[1], second);
  if (shape.isSwapped())
    std::swap(first, second);
  // The first mma must not write what the second one reads.
  std::vector<uint32_t> result;
  for (size_t i = 0; i < from.size(); ++i)
    result.push_back(allocate(sum == ScalarType::F16 ? ScalarType::B32 : sum,
                              d == sum ? nameOf(inst->operands[0], i) : ""));
  size_t half = from.size() / 2;
  for (size_t i = 0; i < 2; ++i) {
    MmaRegisters part;
    bool isTall = shape.rows() == 32;
    size_t numA = shape.k * typeBytes(type) / 8, numB = numA / 2;
    part.d = slice(result, i * half, half);
    part.a = slice(first, isTall ? i * numA : 0, numA);
    part.b = slice(second, isTall ? 0 : i * numB, numB);
    part.c = slice(from, i * half, half);
    if (type != ScalarType::TF32) {
      emitMma(part, type, sum, shape.k, saturate);
      continue;
    }
    // A card adds the products of k = 0 .. 3 first.
    MmaRegisters low = part, high = part;
    low.a = slice(part.a, 0, 2);
    low.b = slice(part.b, 0, 1);
    high.a = slice(part.a, 2, 2);
    high.b = slice(part.b, 1, 1);
    high.c = part.d;
    emitMma(low, type, sum, 4, saturate);
    emitMma(high, type, sum, 4, saturate);
  }
  if (d != sum)
    result = convertAccumulators(result, /*toHalf=*/true);
  for (size_t i = 0; i < to.size(); ++i)
    emitAlu(AluOp::MovB32, InstClass::Matrix, {to[i], result[i]}).hidden = true;
  return true;
}

bool Lowering::lowerWmma() {
  switch (mods.takeOneOf({"load", "store", "mma"})) {
  case 0:
    return lowerWmmaMove(/*isStore=*/false);
  case 1:
    return lowerWmmaMove(/*isStore=*/true);
  case 2:
    return lowerWmmaMma();
  default:
    return failHere("expects wmma.load, wmma.store or wmma.mma, but got '" +
                    std::string(inst->opcode.substr(0, 60)) + "'");
  }
}
