//===- Program.h - A kernel ready to run ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The predecoded form of one kernel. Names, types and scopes are gone: an
// operand is the index of a 64-byte granule in the register frame of a warp,
// where the 32 lanes of a register lie side by side. A 16-bit register takes
// one granule, a 32-bit one two, a 64-bit one four, and a predicate is one
// 32-bit lane mask in a granule of its own. Immediates live in granules too, so
// an instruction never asks what kind of operand it has.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_PROGRAM_H
#define FLASHCORE_EMULATOR_PROGRAM_H

#include "flashcore/Emulator/Ptx.h"

#include <string>
#include <vector>

namespace flashcore::emu {

inline constexpr unsigned granuleBytes = 64;
/// Granule 0 takes writes to `_`; four of them, the widest register.
inline constexpr uint32_t sinkGranule = 0;
inline constexpr uint32_t noGranule = UINT32_MAX;

/// Lane-wise operations, in the order of AluOps.def.
enum class AluOp : uint16_t {
#define FC_ALU1(NAME, D, A, EXPR) NAME,
#define FC_ALU2(NAME, D, A, B, EXPR) NAME,
#define FC_ALU3(NAME, D, A, B, C, EXPR) NAME,
#include "flashcore/Emulator/AluOps.def"
  // Written by hand: they use predicates or several lanes.
  MovPred,
  NotPred,
  AndPred,
  OrPred,
  XorPred,
  SelpB16,
  SelpB32,
  SelpB64,
  SetpU16,
  SetpS16,
  SetpU32,
  SetpS32,
  SetpU64,
  SetpS64,
  SetpF32,
  SetpF32Ftz,
  SetpF64,
  SetpF16,
  SetpBF16,
  TestpF32,
  TestpF64,
  AddCarryB32,
  AddCarryB64,
  SubCarryB32,
  SubCarryB64,
  BfiB32,
  BfiB64,
  Convert,
  Count,
};

/// What the interpreter does with an instruction.
enum class InstKind : uint8_t {
  Alu,
  Clock,
  Branch,
  BranchTable,
  Exit,
  Trap,
  Load,
  Store,
  CpAsync,
  CpAsyncCommit,
  CpAsyncWait,
  CpAsyncArrive,
  Barrier,
  ClusterArrive,
  ClusterWait,
  BarrierWarp,
  Shuffle,
  Vote,
  Match,
  ActiveMask,
  Redux,
  LoadMatrix,
  StoreMatrix,
  MoveMatrix,
  Mma,
  Atomic,
  Fence,
  Prefetch,
  SystemCall,
  Elect,
  Mbarrier,
  BulkCopy,
  BulkCommit,
  BulkWait,
  ProxyFence,
  Wgmma,
  WgmmaFence,
  WgmmaCommit,
  WgmmaWait,
  SetMaxRegisters,
};

/// For the counters.
enum class InstClass : uint8_t {
  Integer,
  Float,
  Half,
  Convert,
  Special,
  Predicate,
  Move,
  Control,
  Memory,
  Shuffle,
  Barrier,
  Async,
  Matrix,
  Count,
};
const char *instClassName(InstClass cls);

enum class CmpOp : uint8_t {
  Eq,
  Ne,
  Lt,
  Le,
  Gt,
  Ge,
  Equ,
  Neu,
  Ltu,
  Leu,
  Gtu,
  Geu,
  Num,
  Nan,
};
enum class BoolOp : uint8_t { None, And, Or, Xor };
enum class Rounding : uint8_t { Rn, Rz, Rm, Rp, Rna };
enum class BarrierMode : uint8_t { Sync, Arrive, RedPopc, RedAnd, RedOr };
enum class ShuffleMode : uint8_t { Up, Down, Bfly, Idx };
enum class VoteMode : uint8_t { All, Any, Uni, Ballot };
enum class AtomicOp : uint8_t {
  Add,
  Min,
  Max,
  Inc,
  Dec,
  And,
  Or,
  Xor,
  Exch,
  Cas,
};
enum class MatrixType : uint8_t { F16, BF16, E4M3, E5M2, TF32, U8, S8 };
/// Threads that a strong operation or a fence has to do with. A CTA without a
/// cluster is one by itself, and there is one device.
enum class MemoryScope : uint8_t { Cta, Device };
enum class MbarrierOp : uint8_t {
  Init,
  Inval,
  Arrive,
  ArriveDrop,
  ExpectTx,
  CompleteTx,
  TestWait,
  TryWait,
  PendingCount,
};
/// Of Inst::aux for an Mbarrier or a CpAsyncArrive.
enum MbarrierFlag : int32_t {
  MbarrierParity = 1,
  MbarrierNoComplete = 2,
  MbarrierNoIncrement = 4,
};
/// Tile copies have a tensor map and coordinates, the others are of plain
/// bytes.
enum class BulkOp : uint8_t { TileLoad, TileStore, Load, Store };
/// Of Inst::aux for a Wgmma.
enum WgmmaFlag : int32_t {
  WgmmaNegateA = 1,
  WgmmaNegateB = 2,
  WgmmaTransposeA = 4,
  WgmmaTransposeB = 8,
  WgmmaRegistersA = 16,
};
/// The functions that the driver gives to device code.
enum class SystemCall : uint8_t { Vprintf, AssertFail };

/// The conversion an AluOp::Convert does; the rare ones share one handler.
struct ConvertInfo {
  ScalarType to = ScalarType::None, from = ScalarType::None;
  Rounding rounding = Rounding::Rn;
  bool toIntegral = false; // .rni and friends on float to float
  bool sat = false;
  bool satFinite = false;
  bool relu = false;
  bool ftz = false;
  uint8_t toRegBytes = 0, fromRegBytes = 0;
};

struct Inst {
  InstKind kind = InstKind::Alu;
  InstClass cls = InstClass::Integer;
  AluOp op = AluOp::MovB32;
  /// Guard predicate; noGranule when there is none.
  uint32_t guard = noGranule;
  bool guardNegated = false;
  /// Only helps another instruction; not counted.
  bool hidden = false;
  /// Needs all lanes of a warp together (.aligned).
  bool aligned = false;
  uint8_t numDsts = 0, numSrcs = 0;
  /// Index of the first operand in Program::operands, destinations first.
  uint32_t firstOperand = 0;
  /// Modifier of an Alu op; comparison for setp.
  int32_t aux = 0;
  BoolOp boolOp = BoolOp::None;
  bool boolNegated = false;
  /// Per kind: BarrierMode, ShuffleMode, VoteMode, AtomicOp, MatrixType,
  /// SystemCall, MbarrierOp, BulkOp.
  uint8_t mode = 0;

  // Memory.
  StateSpace space = StateSpace::Generic;
  uint8_t elementBytes = 0, vectorLength = 1;
  /// Bytes of a register that receives or gives one element.
  uint8_t regBytes = 0;
  bool signExtend = false;
  bool addressIs64 = false;
  ScalarType type = ScalarType::None;
  bool transposed = false;
  bool saturate = false; // mma.satfinite
  /// Atomic, volatile, relaxed, acquire or release: a strong operation.
  bool isStrong = false;
  bool isAcquire = false, isRelease = false;
  /// Of a strong operation or a fence.
  MemoryScope scope = MemoryScope::Device;
  /// ld.global.nc.
  bool isReadOnly = false;
  /// cp.async.cg.
  bool bypassesL1 = false;
  /// red, or an atom whose result is not wanted.
  bool noResult = false;

  uint32_t target = 0; // Branch: pc; BranchTable: its table; Convert: its info
  /// Convert: points into Program::conversions.
  const ConvertInfo *conversion = nullptr;
  int64_t imm = 0;   // address offset, wait count, copy size
  uint32_t line = 0; // of the PTX text
  /// Index into Program::sources plus one; 0 when there is no .loc.
  uint32_t source = 0;
};

enum class SpecialReg : uint8_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  LaneId,
  WarpId,
  NwarpId,
  SmId,
  NsmId,
  GridId,
  LanemaskEq,
  LanemaskLt,
  LanemaskLe,
  LanemaskGt,
  LanemaskGe,
  DynamicSmemSize,
  TotalSmemSize,
  ClusterCtaid, // 0 in a cluster of one
  ClusterNctaid,
  Count,
};

struct FrameConstant {
  uint32_t granule;
  uint8_t bytes; // 0: predicate
  uint64_t bits;
  /// Counted from the start of dynamic shared memory, which a launch places.
  bool isDynamicShared = false;
};

struct FrameSpecial {
  uint32_t granule;
  uint8_t bytes; // 4 or 8
  SpecialReg reg;
};

/// Eight bytes of a module variable that hold the address of another one.
struct AddressInit {
  uint64_t offset = 0;
  uint32_t target = 0; // index into Program::globals
  int64_t addend = 0;
};

/// A named piece of storage, for messages and layout.
struct StorageVar {
  std::string name;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint32_t align = 1;
  bool isDynamic = false;
  std::vector<uint8_t> init;
  std::vector<AddressInit> addresses;
};

struct SourceLoc {
  uint32_t file = 0;
  SrcLoc loc;
};

/// What wmma says of a fragment of A or B: a wmma.mma must say the same as the
/// wmma.load that gave the fragment.
struct WmmaTile {
  char matrix = 'a';
  bool isColumnMajor = false;
  uint8_t m = 0, n = 0, k = 0;
  ScalarType type = ScalarType::None;
  bool operator==(const WmmaTile &) const = default;
};

/// A fragment of A or B in registers.
struct WmmaRegisters {
  WmmaTile tile;
  /// Of a wmma.load what it became; of a wmma.mma its first mma alone.
  uint32_t begin = 0, end = 0;
  std::vector<uint32_t> registers;
};

struct KernelParam {
  std::string name;
  uint32_t offset = 0;
  uint32_t bytes = 0;
  ScalarType type = ScalarType::None;
  uint32_t align = 1;
  /// Of .ptr: what it points to.
  bool isPtr = false;
  StateSpace pointeeSpace = StateSpace::Generic;
  uint32_t pointeeAlign = 0;
};

struct RegisterName {
  uint32_t granule;
  std::string name;
};

struct Program {
  Program() = default;
  // Instructions point into `conversions`, which a move keeps in place.
  Program(Program &&) = default;
  Program &operator=(Program &&) = default;
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  std::string name;
  std::vector<Inst> code;
  std::vector<uint32_t> operands;
  std::vector<std::vector<uint32_t>> tables;
  std::vector<ConvertInfo> conversions;

  uint32_t frameGranules = 4;
  std::vector<FrameConstant> constants;
  std::vector<FrameSpecial> specials;
  std::vector<RegisterName> registers;
  /// Of A and B, in the order of `code`.
  std::vector<WmmaRegisters> wmmaLoads, wmmaOperands;

  std::vector<KernelParam> params;
  uint32_t paramBytes = 0;
  std::vector<StorageVar> shared;
  /// Bytes of static shared memory as the assembler would lay it out.
  uint64_t staticSharedBytes = 0;
  /// Where static shared memory ends in the emulator's own layout.
  uint64_t sharedEnd = 0;
  /// What the kernel declares of dynamic shared memory.
  uint32_t dynamicSharedAlign = 1;
  uint64_t localBytes = 0;
  /// Module variables in .global and .const, by name; placed at launch.
  std::vector<StorageVar> globals;
  /// Constants to patch with the address of globals[index].
  struct GlobalRef {
    uint32_t granule;
    uint32_t index;
    int64_t addend = 0;
  };
  std::vector<GlobalRef> globalRefs;
  std::vector<SourceLoc> sources;
  std::vector<std::string> files;
  uint32_t reqntid[3] = {0, 0, 0};
  uint32_t maxntid[3] = {0, 0, 0};
  std::string target;
  /// The narrowest shared and global access, which is the grain of shadows.
  /// Buffers may start anywhere, so that a wider grain would not divide them as
  /// accesses do.
  unsigned sharedGrain = 16;
  unsigned globalGrain = 4;
  bool usesApproximations = false;
  /// It has mbarriers, bulk copies, wgmma or setmaxnreg.
  bool usesAsyncProxy = false;
  /// It has cp.async.mbarrier.arrive.
  bool arrivesOnCopies = false;
  /// It says how large its clusters are.
  bool isExplicitCluster = false;
  /// .maxnreg, 0 if not given, and .minnctapersm.
  uint32_t maxRegisters = 0, minCtas = 1;
};

/// Where a variable begins behind others: at exactly its alignment and not
/// more, with a gap between, so that code that relies on a better alignment or
/// runs past the end is caught.
inline uint64_t placeBehind(uint64_t end, uint64_t align) {
  constexpr uint64_t gap = 16;
  uint64_t offset = (end + gap + align - 1) / align * align;
  return offset % (2 * align) == 0 ? offset + align : offset;
}

/// Checks and predecodes one kernel of a module.
Expected<Program> lowerKernel(const PtxModule &module, std::string_view name);

/// Base of the window a space has in the generic address space.
inline constexpr uint64_t sharedWindow = uint64_t(1) << 40;
inline constexpr uint64_t localWindow = uint64_t(2) << 40;
inline constexpr uint64_t paramWindow = uint64_t(3) << 40;
inline constexpr uint64_t globalWindow = uint64_t(16) << 40;
/// Buffers are this far apart, so that a stray address still names its buffer.
inline constexpr uint64_t bufferStride = uint64_t(1) << 36;

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_PROGRAM_H
