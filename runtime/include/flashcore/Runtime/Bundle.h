//===- Bundle.h - What the compiler hands to the runtime --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A bundle directory in memory: code images and the manifest that says how to
// launch them, of the variant that one device runs. docs/Bundle.md is the
// contract; Bundle::load refuses whatever does not follow it, so the rest of
// the runtime never checks a manifest again.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_BUNDLE_H
#define FLASHCORE_RUNTIME_BUNDLE_H

#include "flashcore/Runtime/DeviceInfo.h"
#include "flashcore/Runtime/HostProgram.h"
#include "flashcore/Runtime/Operands.h"
#include "flashcore/Runtime/ScoreProgram.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace flashcore {

/// What the kernels of a bundle may compute. A program is several ops, one
/// after another.
inline constexpr std::string_view AttentionOpName = "attention",
                                  MergeOpName = "merge",
                                  AppendOpName = "append",
                                  DeltaOpName = "delta",
                                  ProgramOpName = "program";

/// The causal half of a Mask; see docs/Bundle.md.
enum class Causal { None, BottomRight, TopLeft };
std::string_view stringify(Causal causal);

/// Which keys a query sees: those that neither rule hides.
struct Mask {
  Causal causal = Causal::None;
  /// Keys to the left and right of the query's own; nullopt is unbounded.
  std::optional<int64_t> windowLeft;
  std::optional<int64_t> windowRight;
};

/// How far scores that are an output have come, in this order; see
/// docs/Bundle.md.
enum class ScoresStage { Scaled, Capped, Changed, Masked, Probabilities };
std::string_view stringify(ScoresStage stage);

/// Which columns a rotary embedding pairs; see docs/Bundle.md.
enum class RotaryStyle { Interleaved, Half };
std::string_view stringify(RotaryStyle style);

/// Of a dropout: seed and offset, the lower half of each first.
inline constexpr int64_t RngWords = 4;
/// The size of cu_seqlens_q and cu_seqlens_k: one more than the sequences.
inline constexpr std::string_view CuSeqlensDim = "cu_seqlens";
/// The sizes of k and v in pages, which have no batch and no seqlen_k, and of
/// the rows of their table.
inline constexpr std::string_view PagesDim = "pages", PageSizeDim = "page_size",
                                  PagesPerSequenceDim = "pages_per_sequence";
/// The sizes of an append: its rows, and the positions and pairs of a rotary
/// embedding.
inline constexpr std::string_view SeqlenNewDim = "seqlen_new",
                                  PositionsDim = "positions",
                                  RotaryPairsDim = "rotary_pairs";
/// The sizes of the last axes of lists of blocks.
inline constexpr std::string_view QueryBlocksDim = "query_blocks",
                                  KeyBlocksDim = "key_blocks";
inline constexpr bool isBlockList(std::string_view name) {
  return name == operand::BlockCounts || name == operand::BlockIndices ||
         name == operand::FullBlockCounts || name == operand::FullBlockIndices;
}
struct CodeImage {
  Chip chip;
  std::string file;
  std::string contents;
};

struct AttentionSpec {
  double softmaxScale = 1;
  Mask mask;
  std::optional<double> softcap;
  /// The share of P that meets no V; then there is `rng`.
  std::optional<double> dropout;
  /// What changes a score behind cap and bias (-> f32), and then hides it (->
  /// i1, true where the key is visible); they read `captured`.
  std::optional<ScoreProgram> score, maskRegion;
  /// Queries and keys of a block, if there are lists of blocks.
  std::optional<std::array<int64_t, 2>> blockSize;
  /// Of the output of scores, if there is one.
  std::optional<ScoresStage> scoresStage;
  /// Of the rows of an append, and of q.
  std::optional<RotaryStyle> rotary;
  /// Names of tensors.
  std::vector<std::string> captured;
};

class Bundle;

/// One of several ops of a program.
struct ProgramPart {
  /// What a bundle of this op alone would say, but for code and launches.
  std::shared_ptr<const Bundle> bundle;
  /// What its tensors and sizes are called in the program.
  std::map<std::string, std::string, std::less<>> tensors, sizes;
};

/// A program, the code of its kernels, and what it computes.
class Bundle : public HostProgram {
public:
  /// Reads and validates the bundle in `directory`. Of several variants it
  /// keeps that of `device`, the first that orderVariants names. Without a
  /// device, or when it runs none, that is the oldest, whose PTX runs wherever
  /// that of any other does.
  static StatusOr<Bundle> load(const std::filesystem::path &directory,
                               const DeviceInfo *device = nullptr);
  /// The same for each variant, in the order of the manifest.
  static StatusOr<std::vector<Bundle>>
  loadVariants(const std::filesystem::path &directory);

  // Of an op; none of it holds for a program, whose ops have bundles of their
  // own.
  bool hasCuSeqlens() const { return findOperand(operand::CuSeqlensQ); }
  /// Whether sequences have lengths that only a tensor says.
  bool hasLengths() const {
    return hasCuSeqlens() || findOperand(operand::SequsedK);
  }
  /// Whether kernels append rows to k and v.
  bool appends() const { return findOperand(operand::KNew); }
  /// Whether keys are in pages, which a table names.
  bool isPaged() const { return findOperand(operand::PageTable); }
  /// Whether lists say which blocks of queries and keys meet.
  bool hasBlocks() const { return findOperand(operand::BlockIndices); }
  /// The axis of seqused_k beside cu_seqlens, which has a name of its own: one
  /// less than `cu_seqlens`. Empty where there is none.
  std::string sequencesDim() const;

  /// Of a program: "op 1 ('merge') of the program".
  std::string nameOfPart(size_t number) const;

  // The same in all variants:
  std::filesystem::path directory;
  /// As it stands in the file.
  std::shared_ptr<const std::string> manifest;
  std::string compiler;
  /// What the kernels compute; of an attention `attention` has the attributes,
  /// of a program `parts` the ops.
  std::string op;
  AttentionSpec attention;
  std::vector<ProgramPart> parts;

  // Of this variant:
  Chip chip;
  std::optional<std::string> assembler;
  CodeImage ptx;
  std::vector<CodeImage> cubins;

private:
  const TensorSpec *findOperand(std::string_view name) const {
    return parts.empty() ? findTensor(name) : nullptr;
  }
};

/// Whether all kernels of a bundle stay within the limits of `device`.
Status checkLimits(const Bundle &bundle, const DeviceInfo &device);

/// The positions of the variants whose code `device` runs and whose kernels it
/// has room for, best first: those with a cubin for it, then those whose PTX it
/// assembles, the newest and those for fewer other chips first. So a device of
/// a newer chip with less shared memory gets the newest that fits.
std::vector<size_t> orderVariants(const std::vector<Bundle> &variants,
                                  const DeviceInfo &device);

/// The position of the best variant, as Bundle::load picks it: the oldest where
/// no device is given, or it runs none.
size_t chooseVariant(const std::vector<Bundle> &variants,
                     const DeviceInfo *device);

/// The code of a bundle that a device will run.
struct CodeChoice {
  enum class Kind { Cubin, PTX };
  Kind kind;
  const CodeImage *image;

  /// "cubin sm_89" or "PTX sm_89".
  std::string str() const;
};

/// Picks the cubin whose chip is the device's, else the PTX when the device is
/// not older than the variant's chip, or runs that of all.
StatusOr<CodeChoice> chooseCode(const Bundle &bundle, const DeviceInfo &device);

/// The checksum of the manifest: 64-bit FNV-1a.
uint64_t fnv1a64(std::string_view bytes);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_BUNDLE_H
