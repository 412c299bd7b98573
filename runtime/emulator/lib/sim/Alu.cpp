//===- Alu.cpp - Lane-wise instructions -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns AluOps.def into functions over 32 lanes. Compiled several times, each
// with FLASHCORE_EMU_ISA naming a namespace and the compiler flags of that
// level: nothing here may call an inline function that is not force-inlined.
//
//===----------------------------------------------------------------------===//

#include "../math/LaneMath.h"
#include "Handlers.h"

using namespace flashcore::emu;

#if defined(__clang__)
#define FC_VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define FC_VECTOR_LOOP _Pragma("GCC ivdep")
#endif

namespace {

template <typename T> FC_INLINE T *at(char *frame, uint32_t granule) {
  return reinterpret_cast<T *>(
      __builtin_assume_aligned(frame + uint64_t(granule) * granuleBytes, 64));
}

/// Registers never overlap except when they are the same, so a lane only ever
/// meets itself and the loop may be vectorised.
template <typename D, typename F>
FC_INLINE void forLanes(D *d, uint32_t mask, F f) {
  if (mask == ~0u) [[likely]] {
    FC_VECTOR_LOOP
    for (unsigned i = 0; i < warpSize; ++i)
      d[i] = f(i);
    return;
  }
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    unsigned i = static_cast<unsigned>(__builtin_ctz(rest));
    d[i] = f(i);
  }
}

#define FC_HANDLER(NAME)                                                       \
  void op##NAME([[maybe_unused]] char *frame,                                  \
                [[maybe_unused]] const uint32_t *ops,                          \
                [[maybe_unused]] const Inst &inst, uint32_t mask)

#define FC_ALU1(NAME, D, A, EXPR)                                              \
  FC_HANDLER(NAME) {                                                           \
    const A *pa = at<A>(frame, ops[1]);                                        \
    [[maybe_unused]] const int aux = inst.aux;                                 \
    forLanes(at<D>(frame, ops[0]), mask, [=](unsigned i) {                     \
      const A a = pa[i];                                                       \
      return static_cast<D>(EXPR);                                             \
    });                                                                        \
  }
#define FC_ALU2(NAME, D, A, B, EXPR)                                           \
  FC_HANDLER(NAME) {                                                           \
    const A *pa = at<A>(frame, ops[1]);                                        \
    const B *pb = at<B>(frame, ops[2]);                                        \
    [[maybe_unused]] const int aux = inst.aux;                                 \
    forLanes(at<D>(frame, ops[0]), mask, [=](unsigned i) {                     \
      const A a = pa[i];                                                       \
      const B b = pb[i];                                                       \
      return static_cast<D>(EXPR);                                             \
    });                                                                        \
  }
#define FC_ALU3(NAME, D, A, B, C, EXPR)                                        \
  FC_HANDLER(NAME) {                                                           \
    const A *pa = at<A>(frame, ops[1]);                                        \
    const B *pb = at<B>(frame, ops[2]);                                        \
    const C *pc = at<C>(frame, ops[3]);                                        \
    [[maybe_unused]] const int aux = inst.aux;                                 \
    forLanes(at<D>(frame, ops[0]), mask, [=](unsigned i) {                     \
      const A a = pa[i];                                                       \
      const B b = pb[i];                                                       \
      const C c = pc[i];                                                       \
      return static_cast<D>(EXPR);                                             \
    });                                                                        \
  }
#include "flashcore/Emulator/AluOps.def"

//===----------------------------------------------------------------------===//
// Predicates: one 32-bit lane mask each
//===----------------------------------------------------------------------===//

FC_INLINE uint32_t predicate(char *frame, uint32_t granule) {
  return *at<uint32_t>(frame, granule);
}
FC_INLINE void setPredicate(char *frame, uint32_t granule, uint32_t value,
                            uint32_t mask) {
  uint32_t *p = at<uint32_t>(frame, granule);
  *p = (*p & ~mask) | (value & mask);
}

FC_HANDLER(MovPred) {
  setPredicate(frame, ops[0], predicate(frame, ops[1]), mask);
}
FC_HANDLER(NotPred) {
  setPredicate(frame, ops[0], ~predicate(frame, ops[1]), mask);
}
FC_HANDLER(AndPred) {
  setPredicate(frame, ops[0],
               predicate(frame, ops[1]) & predicate(frame, ops[2]), mask);
}
FC_HANDLER(OrPred) {
  setPredicate(frame, ops[0],
               predicate(frame, ops[1]) | predicate(frame, ops[2]), mask);
}
FC_HANDLER(XorPred) {
  setPredicate(frame, ops[0],
               predicate(frame, ops[1]) ^ predicate(frame, ops[2]), mask);
}

template <typename T>
FC_INLINE void select(char *frame, const uint32_t *ops, uint32_t mask) {
  const T *a = at<T>(frame, ops[1]);
  const T *b = at<T>(frame, ops[2]);
  uint32_t p = predicate(frame, ops[3]);
  forLanes(at<T>(frame, ops[0]), mask,
           [=](unsigned i) { return p >> i & 1 ? a[i] : b[i]; });
}
FC_HANDLER(SelpB16) { select<u16>(frame, ops, mask); }
FC_HANDLER(SelpB32) { select<u32>(frame, ops, mask); }
FC_HANDLER(SelpB64) { select<u64>(frame, ops, mask); }

template <typename A, typename F>
FC_INLINE uint32_t compareLanes(const A *a, const A *b, F f) {
  uint32_t result = 0;
  for (unsigned i = 0; i < warpSize; ++i)
    result |= static_cast<uint32_t>(f(a[i], b[i])) << i;
  return result;
}

/// The comparison a CmpOp names; `isNan` decides the unordered forms.
template <typename A>
FC_INLINE uint32_t compare(CmpOp op, const A *a, const A *b) {
  auto unordered = [](A x, A y) { return bool((x != x) | (y != y)); };
  switch (op) {
  case CmpOp::Eq:
    return compareLanes(a, b, [](A x, A y) { return x == y; });
  case CmpOp::Ne:
    return compareLanes(
        a, b, [=](A x, A y) { return bool((x != y) & !unordered(x, y)); });
  case CmpOp::Lt:
    return compareLanes(a, b, [](A x, A y) { return x < y; });
  case CmpOp::Le:
    return compareLanes(a, b, [](A x, A y) { return x <= y; });
  case CmpOp::Gt:
    return compareLanes(a, b, [](A x, A y) { return x > y; });
  case CmpOp::Ge:
    return compareLanes(a, b, [](A x, A y) { return x >= y; });
  case CmpOp::Equ:
    return compareLanes(
        a, b, [=](A x, A y) { return bool((x == y) | unordered(x, y)); });
  case CmpOp::Neu:
    return compareLanes(a, b, [](A x, A y) { return x != y; });
  case CmpOp::Ltu:
    return compareLanes(a, b, [](A x, A y) { return !(x >= y); });
  case CmpOp::Leu:
    return compareLanes(a, b, [](A x, A y) { return !(x > y); });
  case CmpOp::Gtu:
    return compareLanes(a, b, [](A x, A y) { return !(x <= y); });
  case CmpOp::Geu:
    return compareLanes(a, b, [](A x, A y) { return !(x < y); });
  case CmpOp::Num:
    return compareLanes(a, b, [=](A x, A y) { return !unordered(x, y); });
  case CmpOp::Nan:
    return compareLanes(a, b, unordered);
  }
  return 0;
}

FC_INLINE uint32_t combine(BoolOp op, uint32_t value, uint32_t c) {
  switch (op) {
  case BoolOp::None:
    return value;
  case BoolOp::And:
    return value & c;
  case BoolOp::Or:
    return value | c;
  case BoolOp::Xor:
    return value ^ c;
  }
  return value;
}

/// Operands: p, q, a, b, c.
template <typename A, typename Load>
FC_INLINE void setp(char *frame, const uint32_t *ops, const Inst &inst,
                    uint32_t mask, const A *pa, const A *pb, Load load) {
  alignas(64) decltype(load(A())) a[warpSize], b[warpSize];
  for (unsigned i = 0; i < warpSize; ++i) {
    a[i] = load(pa[i]);
    b[i] = load(pb[i]);
  }
  uint32_t value = compare(static_cast<CmpOp>(inst.aux), a, b);
  uint32_t c = predicate(frame, ops[4]) ^ (inst.boolNegated ? ~0u : 0u);
  setPredicate(frame, ops[0], combine(inst.boolOp, value, c), mask);
  if (ops[1] != sinkGranule)
    setPredicate(frame, ops[1], combine(inst.boolOp, ~value, c), mask);
}

#define FC_SETP(NAME, T, LOAD)                                                 \
  FC_HANDLER(NAME) {                                                           \
    setp(frame, ops, inst, mask, at<T>(frame, ops[2]), at<T>(frame, ops[3]),   \
         [](T x) { return LOAD; });                                            \
  }
FC_SETP(SetpU16, u16, x)
FC_SETP(SetpS16, s16, x)
FC_SETP(SetpU32, u32, x)
FC_SETP(SetpS32, s32, x)
FC_SETP(SetpU64, u64, x)
FC_SETP(SetpS64, s64, x)
FC_SETP(SetpF32, f32, x)
FC_SETP(SetpF32Ftz, f32, ftz(x))
FC_SETP(SetpF64, f64, x)
FC_SETP(SetpF16, u16, floatFromHalf(x))
FC_SETP(SetpBF16, u16, floatFromBfloat(x))

/// aux: 0 finite, 1 infinite, 2 number, 3 notanumber, 4 normal, 5 subnormal.
/// Zeros are normal (9.7.3.2).
FC_HANDLER(TestpF32) {
  const u32 *a = at<u32>(frame, ops[1]);
  uint32_t value = 0;
  for (unsigned i = 0; i < warpSize; ++i) {
    u32 m = a[i] & 0x7fffffffu;
    bool is[] = {m < 0x7f800000u,
                 m == 0x7f800000u,
                 m <= 0x7f800000u,
                 m > 0x7f800000u,
                 m == 0 || (m >= 0x00800000u && m < 0x7f800000u),
                 m != 0 && m < 0x00800000u};
    value |= static_cast<uint32_t>(is[inst.aux]) << i;
  }
  setPredicate(frame, ops[0], value, mask);
}

FC_HANDLER(TestpF64) {
  const u64 *a = at<u64>(frame, ops[1]);
  constexpr u64 infinity = u64(0x7ff) << 52, smallest = u64(1) << 52;
  uint32_t value = 0;
  for (unsigned i = 0; i < warpSize; ++i) {
    u64 m = a[i] & ~(u64(1) << 63);
    bool is[] = {m<infinity, m == infinity, m <= infinity, m> infinity,
                 m == 0 || (m >= smallest && m < infinity),
                 m != 0 && m < smallest};
    value |= static_cast<uint32_t>(is[inst.aux]) << i;
  }
  setPredicate(frame, ops[0], value, mask);
}

/// Operands: d, carry out, a, b, carry in. The carry of a subtraction is that
/// of a + ~b + 1, set where nothing is borrowed, as on sm_90.
template <typename T, bool IsSub>
FC_INLINE void carry(char *frame, const uint32_t *ops, uint32_t mask) {
  T *d = at<T>(frame, ops[0]);
  const T *a = at<T>(frame, ops[2]);
  const T *b = at<T>(frame, ops[3]);
  uint32_t in = predicate(frame, ops[4]), out = 0;
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    unsigned i = static_cast<unsigned>(__builtin_ctz(rest));
    T c = (in >> i & 1u) ^ IsSub;
    T first = IsSub ? a[i] - b[i] : a[i] + b[i];
    T second = IsSub ? first - c : first + c;
    bool overflow =
        IsSub ? a[i] < b[i] || first < c : first < a[i] || second < first;
    d[i] = second;
    out |= static_cast<uint32_t>(overflow != IsSub) << i;
  }
  if (ops[1] != sinkGranule)
    setPredicate(frame, ops[1], out, mask);
}
FC_HANDLER(AddCarryB32) { carry<u32, false>(frame, ops, mask); }
FC_HANDLER(AddCarryB64) { carry<u64, false>(frame, ops, mask); }
FC_HANDLER(SubCarryB32) { carry<u32, true>(frame, ops, mask); }
FC_HANDLER(SubCarryB64) { carry<u64, true>(frame, ops, mask); }

template <typename T>
FC_INLINE void insertBits(char *frame, const uint32_t *ops, uint32_t mask) {
  const T *a = at<T>(frame, ops[1]);
  const T *b = at<T>(frame, ops[2]);
  const u32 *c = at<u32>(frame, ops[3]);
  const u32 *d = at<u32>(frame, ops[4]);
  forLanes(at<T>(frame, ops[0]), mask, [=](unsigned i) {
    return static_cast<T>(bfi(a[i], b[i], c[i], d[i], sizeof(T) * 8));
  });
}
FC_HANDLER(BfiB32) { insertBits<u32>(frame, ops, mask); }
FC_HANDLER(BfiB64) { insertBits<u64>(frame, ops, mask); }

FC_INLINE uint64_t loadLane(char *frame, uint32_t granule, unsigned bytes,
                            unsigned lane) {
  switch (bytes) {
  case 2:
    return at<u16>(frame, granule)[lane];
  case 4:
    return at<u32>(frame, granule)[lane];
  default:
    return at<u64>(frame, granule)[lane];
  }
}

/// Operands: d, a, b (b only for packed results).
FC_HANDLER(Convert) {
  const ConvertInfo &info = *inst.conversion;
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    unsigned i = static_cast<unsigned>(__builtin_ctz(rest));
    uint64_t a = loadLane(frame, ops[1], info.fromRegBytes, i);
    uint64_t b = loadLane(frame, ops[2], info.fromRegBytes, i);
    uint64_t value = convertLane(info, a, b);
    if (info.toRegBytes == 2)
      at<u16>(frame, ops[0])[i] = static_cast<u16>(value);
    else if (info.toRegBytes == 4)
      at<u32>(frame, ops[0])[i] = static_cast<u32>(value);
    else
      at<u64>(frame, ops[0])[i] = value;
  }
}

constexpr AluFn aluTable[] = {
#define FC_ALU1(NAME, D, A, EXPR) op##NAME,
#define FC_ALU2(NAME, D, A, B, EXPR) op##NAME,
#define FC_ALU3(NAME, D, A, B, C, EXPR) op##NAME,
#include "flashcore/Emulator/AluOps.def"
    opMovPred,    opNotPred,     opAndPred,     opOrPred,      opXorPred,
    opSelpB16,    opSelpB32,     opSelpB64,     opSetpU16,     opSetpS16,
    opSetpU32,    opSetpS32,     opSetpU64,     opSetpS64,     opSetpF32,
    opSetpF32Ftz, opSetpF64,     opSetpF16,     opSetpBF16,    opTestpF32,
    opTestpF64,   opAddCarryB32, opAddCarryB64, opSubCarryB32, opSubCarryB64,
    opBfiB32,     opBfiB64,      opConvert,
};
static_assert(sizeof aluTable / sizeof *aluTable ==
              static_cast<size_t>(AluOp::Count));

} // namespace

namespace flashcore::emu::FLASHCORE_EMU_ISA {
void mma(const MmaOperands &operands, bool isBfloat, unsigned k,
         const MmaModel &model);

extern const LabelKernels labelKernels;

#define FC_STRINGIZE2(X) #X
#define FC_STRINGIZE(X) FC_STRINGIZE2(X)
extern const HandlerTable handlers;
const HandlerTable handlers = {aluTable, mma, &labelKernels,
                               FC_STRINGIZE(FLASHCORE_EMU_ISA)};
} // namespace flashcore::emu::FLASHCORE_EMU_ISA
