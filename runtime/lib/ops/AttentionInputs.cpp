//===- AttentionInputs.cpp - Random inputs of an attention ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which inputs there are, and which elements a call writes.
//
//===----------------------------------------------------------------------===//

#include "AppendOp.h"
#include "AttentionOp.h"
#include "FarInputs.h"
#include "RandomInputs.h"
#include "flashcore/Runtime/BlockLists.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

using namespace flashcore;

namespace {
/// Streams half way between those that have numbers.
enum class SequenceStream : uint64_t {
  Sinks,
  SequsedK,
  CuSeqlensQ,
  CuSeqlensK,
  PageTable,
  Rng,
  KNew,
  VNew,
  Blocks,
  Far
};
} // namespace

static uint64_t makeStream(uint64_t seed, SequenceStream stream) {
  return makeStream(seed, static_cast<uint64_t>(stream)) + (uint64_t(1) << 60);
}

namespace {
class AttentionFiller {
public:
  explicit AttentionFiller(TensorSet &set) : set(set), source(&set.problem()) {}

  void fill(uint64_t seed, InputKind kind, Stage stage);
  void fillAppend(uint64_t seed);
  void fillSequsedK(uint64_t seed);
  void fillBlocks(uint64_t seed, InputKind kind);

private:
  HostTensor &tensor(std::string_view name) { return set.tensor(name); }
  const HostTensor *findTensor(std::string_view name) const {
    return set.findTensor(name);
  }
  void fillBias(uint64_t seed, uint64_t hiddenSeed, bool isRising, Stage stage);
  void fillSequences(uint64_t seed);
  void fillKeys(uint64_t seed, InputKind kind, Stage stage);
  /// The number of the key of an element of `k`, by its packed index; of pages
  /// by the last entry of the table that names them.
  std::function<int64_t(int64_t index)> keyNumbers(const HostTensor &k) const;
  void fillAppended(uint64_t seed);
  bool hasOwnKeys() const;
  void fillFar(uint64_t seed, InputKind kind);

  TensorSet &set;
  const Problem *source;
};
} // namespace

static void fillIdentity(HostTensor &v) {
  v.forEach([&](int64_t index, int64_t position) {
    int64_t key = coordinate(v.geometry(), index, "seqlen_k");
    int64_t column = coordinate(v.geometry(), index, "head_dim_v");
    v.store(position, key == column ? 1.0f : 0.0f);
  });
}

/// What shifted queries and keys are away from 0 by.
static constexpr float shift = 4;

namespace {
/// What a kind of inputs changes in a stage.
struct KindTraits {
  KindTraits(InputKind kind, Stage stage)
      : isRising(kind == InputKind::Rising && stage != Stage::QK),
        isFalling(kind == InputKind::Falling && stage != Stage::QK),
        isShifted(kind == InputKind::Shifted && stage == Stage::All),
        isSpiked(kind == InputKind::Spiked && stage == Stage::All) {}

  bool isRising, isFalling, isShifted, isSpiked;
};
} // namespace

/// 2^(-8 h / heads) of head h, counted from 1, as the paper of ALiBi has them.
static void fillSlopes(HostTensor &slopes) {
  auto heads = static_cast<float>(slopes.numElements());
  slopes.forEach([&](int64_t index, int64_t position) {
    slopes.store(position,
                 std::exp2(-8 * static_cast<float>(index + 1) / heads));
  });
}

/// From 2 down to 1/2, every third below 0: an `isExact` one is 1 or -1, which
/// rounds nothing.
static void fillHeadScales(HostTensor &scales, bool isExact) {
  auto heads = static_cast<float>(scales.numElements());
  scales.forEach([&](int64_t index, int64_t position) {
    float scale = isExact ? 1 : 2 - 1.5f * static_cast<float>(index) / heads;
    scales.store(position, index % 3 == 2 ? -scale : scale);
  });
}

/// Normal values; of bytes 0 or 1, as masks have them; else integers as the
/// numbers of documents: they start at 0 and grow by 1 now and then along the
/// last axis.
static void fillCaptured(HostTensor &tensor, uint64_t seed) {
  const TensorGeometry &geometry = tensor.geometry();
  if (isReal(geometry.dtype))
    return fillNormal(tensor, seed, [](int64_t) { return 1.0f; });
  NormalGenerator generator(seed);
  if (geometry.dtype == DType::I8)
    return tensor.forEach([&](int64_t, int64_t position) {
      tensor.storeBits(position,
                       static_cast<uint32_t>(generator.nextBits() & 1));
    });
  constexpr uint64_t length = 32; // of a document, in the mean
  int64_t row = geometry.sizes.empty() ? 1 : geometry.sizes.back();
  int value = 0;
  tensor.forEach([&](int64_t index, int64_t position) {
    bool isFirst = index % row == 0;
    value = isFirst ? 0 : value + (generator.nextBits() % length == 0);
    tensor.store(position, static_cast<float>(value));
  });
}

/// Of 64 bits, as a length of at most `most`; the bias is negligible.
static int64_t drawLength(NormalGenerator &generator, int64_t most) {
  return static_cast<int64_t>(generator.nextBits() %
                              (static_cast<uint64_t>(most) + 1));
}

static void storeLength(HostTensor &lengths, int64_t index, int64_t length) {
  lengths.storeBits(lengths.position(index), static_cast<uint32_t>(length));
}

/// Cuts rows into sequences, of which one in eight is empty.
static void fillCuSeqlens(HostTensor &cu, int64_t total, uint64_t seed) {
  NormalGenerator generator(seed);
  int64_t last = cu.numElements() - 1;
  total = std::min<int64_t>(total, INT32_MAX);
  std::vector<int64_t> cuts;
  for (int64_t i = 1; i < last; ++i)
    cuts.push_back(drawLength(generator, total));
  std::sort(cuts.begin(), cuts.end());
  int64_t before = 0;
  storeLength(cu, 0, 0);
  for (int64_t i = 1; i <= last; ++i) {
    bool isEmpty = i < last && generator.nextBits() % 8 == 0;
    if (!isEmpty)
      before = i < last ? cuts[static_cast<size_t>(i - 1)] : total;
    storeLength(cu, i, before);
  }
}

/// Pages that no other entry has, in any order, where there are enough, else
/// any. Those that seqused_k does not use are as good.
static void fillPageTable(HostTensor &table, int64_t pages, uint64_t seed) {
  NormalGenerator generator(seed);
  pages = std::min<int64_t>(pages, INT32_MAX);
  int64_t count = table.numElements();
  bool isShuffled = pages >= count;
  // A shuffle of all pages, of which only those that moved are held.
  std::unordered_map<int64_t, int64_t> moved;
  auto pageAt = [&](int64_t place) {
    auto it = moved.find(place);
    return it == moved.end() ? place : it->second;
  };
  for (int64_t i = 0; i < count; ++i) {
    int64_t first = isShuffled ? i : 0;
    int64_t place =
        pages ? first + drawLength(generator, pages - 1 - first) : 0;
    storeLength(table, i, pageAt(place));
    if (isShuffled)
      moved[place] = pageAt(i);
  }
}

/// Any words are a seed and an offset.
static void fillRng(HostTensor &rng, uint64_t seed) {
  NormalGenerator generator(seed);
  rng.forEach([&](int64_t, int64_t position) {
    rng.storeBits(position, static_cast<uint32_t>(generator.nextBits() >> 32));
  });
}

void AttentionFiller::fillSequsedK(uint64_t seed) {
  NormalGenerator generator(makeStream(seed, SequenceStream::SequsedK));
  HostTensor &used = tensor(operand::SequsedK);
  const HostTensor *cu = findTensor(operand::CuSeqlensK);
  bool hasKeys = !source->bundle().isPaged() || source->dim(PagesDim);
  int64_t most = hasKeys ? source->seqlenK() : 0;
  // New rows need room, and positions.
  if (source->bundle().appends()) {
    int64_t added = source->dim(SeqlenNewDim);
    most = std::max<int64_t>(most - added, 0);
    if (findTensor(operand::RotaryCos)) {
      int64_t queries = findTensor("q") ? source->dim("seqlen_q") : 0;
      int64_t rows = std::max(added, queries);
      most = std::clamp<int64_t>(source->dim(PositionsDim) - rows, 0, most);
    }
  }
  auto loadCut = [&](int64_t index) {
    return static_cast<int64_t>(cu->load(cu->position(index)));
  };
  for (int64_t i = 0, count = used.numElements(); i < count; ++i) {
    int64_t length = cu ? loadCut(i + 1) - loadCut(i) : most;
    // Those of a file may be wrong, which is found before they are used.
    length = std::clamp<int64_t>(length, 0, INT32_MAX);
    storeLength(used, i, i ? drawLength(generator, length) : length);
  }
}

/// Sinks, lengths, pages and what a dropout is drawn with. Sequences of as many
/// queries as keys in all have so each: self-attention is what is mostly run.
void AttentionFiller::fillSequences(uint64_t seed) {
  if (findTensor(operand::SinkLogits))
    fillNormal(tensor(operand::SinkLogits),
               makeStream(seed, SequenceStream::Sinks),
               [](int64_t) { return 1.0f; });
  if (findTensor(operand::Rng))
    fillRng(tensor(operand::Rng), makeStream(seed, SequenceStream::Rng));
  if (findTensor(operand::CuSeqlensQ)) {
    int64_t seqlenQ = source->dim("seqlen_q"), seqlenK = source->seqlenK();
    uint64_t cutsQ = makeStream(seed, SequenceStream::CuSeqlensQ);
    fillCuSeqlens(tensor(operand::CuSeqlensQ), seqlenQ, cutsQ);
    if (findTensor(operand::CuSeqlensK))
      fillCuSeqlens(tensor(operand::CuSeqlensK), seqlenK,
                    seqlenQ == seqlenK
                        ? cutsQ
                        : makeStream(seed, SequenceStream::CuSeqlensK));
  }
  if (findTensor(operand::PageTable))
    fillPageTable(tensor(operand::PageTable), source->dim(PagesDim),
                  makeStream(seed, SequenceStream::PageTable));
  if (findTensor(operand::SequsedK))
    fillSequsedK(seed);
}

/// Stages see every key that the mask shows, so only the others hide some.
void AttentionFiller::fillBias(uint64_t seed, uint64_t hiddenSeed,
                               bool isRising, Stage stage) {
  HostTensor &bias = tensor(operand::Bias);
  float scale = stage == Stage::PV ? 0.0f : stage == Stage::QK ? 0.25f : 1.0f;
  fillNormal(bias, seed, [&](int64_t) { return scale; });
  if (!isRising || stage != Stage::All)
    return;
  NormalGenerator generator(hiddenSeed);
  bias.forEach([&](int64_t, int64_t position) {
    if (generator.nextBits() % 8 == 0)
      bias.store(position, -std::numeric_limits<float>::infinity());
  });
}

std::function<int64_t(int64_t)>
AttentionFiller::keyNumbers(const HostTensor &k) const {
  const TensorGeometry &shape = k.geometry();
  const HostTensor *table = findTensor(operand::PageTable);
  if (!table)
    return [&shape](int64_t index) {
      return coordinate(shape, index, "seqlen_k");
    };
  int64_t pageSize = source->dim(PageSizeDim);
  std::unordered_map<int64_t, int64_t> firstKeys;
  table->forEach([&](int64_t index, int64_t at) {
    firstKeys[static_cast<int64_t>(table->load(at))] =
        coordinate(table->geometry(), index, PagesPerSequenceDim) * pageSize;
  });
  return [&shape, firstKeys = std::move(firstKeys)](int64_t index) {
    auto first = firstKeys.find(coordinate(shape, index, PagesDim));
    return coordinate(shape, index, PageSizeDim) +
           (first == firstKeys.end() ? 0 : first->second);
  };
}

/// Rising and falling ones change from key to key.
void AttentionFiller::fillKeys(uint64_t seed, InputKind kind, Stage stage) {
  auto [isRising, isFalling, isShifted, isSpiked] = KindTraits(kind, stage);
  constexpr float spike = 64;
  HostTensor &k = tensor("k");
  auto numberOf = keyNumbers(k);
  float lastKey =
      static_cast<float>(std::max<int64_t>(source->seqlenK() - 1, 1));
  fillNormal(
      k, seed,
      [&](int64_t index) {
        if (!isRising && !isFalling)
          return 1.0f;
        float place = static_cast<float>(numberOf(index)) / lastKey;
        return 0.1f + 2.9f * (isRising ? place : 1 - place);
      },
      [&](int64_t index) {
        bool isSpike = isSpiked && numberOf(index) == 0;
        return isShifted ? shift : isSpike ? spike : 0.0f;
      });
}

/// cos or sin of position / 10000^(pair / pairs), as RoPE has them.
static void fillAngles(HostTensor &tensor, bool isSine) {
  int64_t pairs = tensor.geometry().sizes.back();
  tensor.forEach([&](int64_t index, int64_t at) {
    double angle = static_cast<double>(index / pairs) *
                   std::pow(10000.0, -static_cast<double>(index % pairs) /
                                         static_cast<double>(pairs));
    tensor.store(
        at, static_cast<float>(isSine ? std::sin(angle) : std::cos(angle)));
  });
}

/// New rows, and what turns them.
void AttentionFiller::fillAppended(uint64_t seed) {
  if (!source->bundle().appends())
    return;
  auto one = [](int64_t) { return 1.0f; };
  fillNormal(tensor(operand::KNew), makeStream(seed, SequenceStream::KNew),
             one);
  fillNormal(tensor(operand::VNew), makeStream(seed, SequenceStream::VNew),
             one);
  if (!findTensor(operand::RotaryCos))
    return;
  fillAngles(tensor(operand::RotaryCos), /*isSine=*/false);
  fillAngles(tensor(operand::RotarySin), /*isSine=*/true);
}

namespace {
/// What the mask shows of each block, of all batch entries and heads that have
/// one list.
class BlockCovers {
public:
  BlockCovers(const AttentionInputs &inputs, const TensorGeometry &indices)
      : inputs(inputs), sizes(indices.sizes),
        covers(static_cast<size_t>(sizes[0] * sizes[1] * sizes[2] * sizes[3])) {
    for (int64_t b = 0, count = countSequences(inputs); b < count; ++b)
      for (int64_t h = 0; h < inputs.q.sizes[1]; ++h)
        add(getSequence(inputs, b), h);
  }

  BlockKind get(int64_t row, int64_t block) const {
    const Cover &cover = covers[static_cast<size_t>(row * sizes[3] + block)];
    return !cover.isSeen    ? BlockKind::Absent
           : cover.isHidden ? BlockKind::Masked
                            : BlockKind::Full;
  }

private:
  struct Cover {
    bool isSeen = false, isHidden = false;
  };

  void add(const Sequence &sequence, int64_t head) {
    const BlockLists &lists = *inputs.blocks;
    int64_t list = std::min(sequence.entry, sizes[0] - 1) * sizes[1] +
                   std::min(head, sizes[1] - 1);
    for (int64_t i = 0; i < sequence.seqlenQ; ++i)
      for (int64_t j = 0; j < sequence.seqlenK; ++j) {
        int64_t row = list * sizes[2] + i / lists.queries;
        Cover &cover =
            covers[static_cast<size_t>(row * sizes[3] + j / lists.keys)];
        bool isShown = isShownByMask(inputs, sequence, head, i, j, values);
        (isShown ? cover.isSeen : cover.isHidden) = true;
      }
  }

  const AttentionInputs &inputs;
  const std::vector<int64_t> &sizes;
  std::vector<Cover> covers;
  ScoreProgram::Values values;
};
} // namespace

void AttentionFiller::fillBlocks(uint64_t seed, InputKind kind) {
  NormalGenerator generator(makeStream(seed, SequenceStream::Blocks));
  AttentionInputs all = set.inputs();
  const auto &sizes = tensor(operand::BlockIndices).geometry().sizes;
  BlockCovers covers(all, tensor(operand::BlockIndices).geometry());
  bool hasFull = findTensor(operand::FullBlockIndices);
  bool isConsistent = kind == InputKind::Normal;
  auto choose = [&](int64_t row, int64_t block) {
    BlockKind cover = covers.get(row, block);
    uint64_t bits = generator.nextBits();
    if (!isConsistent && bits % 4 == 0)
      cover = static_cast<BlockKind>(bits / 4 % 3);
    return cover == BlockKind::Full && !hasFull ? BlockKind::Masked : cover;
  };
  for (int64_t row = 0; row < sizes[0] * sizes[1] * sizes[2]; ++row) {
    std::vector<int64_t> blocks[2];
    bool isEmpty = generator.nextBits() % 8 == 0 && !isConsistent;
    for (int64_t block = 0; block < sizes[3] && !isEmpty; ++block)
      if (BlockKind chosen = choose(row, block); chosen != BlockKind::Absent)
        blocks[chosen == BlockKind::Full].push_back(block);
    for (bool isFull : {false, true}) {
      if (isFull && !hasFull)
        continue;
      auto count = static_cast<int64_t>(blocks[isFull].size());
      storeLength(
          tensor(isFull ? operand::FullBlockCounts : operand::BlockCounts), row,
          count);
      // Nobody looks at what is behind.
      blocks[isFull].resize(static_cast<size_t>(sizes[3]), INT32_MIN);
      for (int64_t i = 0; i < sizes[3]; ++i)
        storeLength(
            tensor(isFull ? operand::FullBlockIndices : operand::BlockIndices),
            row * sizes[3] + i, blocks[isFull][static_cast<size_t>(i)]);
    }
  }
}

/// Whether each query row sees a key at its own position, whatever lengths,
/// lists and regions say.
bool AttentionFiller::hasOwnKeys() const {
  const Bundle &bundle = source->bundle();
  const AttentionSpec &attention = bundle.attention;
  if (bundle.hasLengths() || bundle.isPaged() || bundle.appends() ||
      bundle.hasBlocks() || attention.maskRegion)
    return false;
  int64_t queries = findTensor("q")->geometry().sizes[2];
  int64_t keys = findTensor("k")->geometry().sizes[2];
  return queries == keys ||
         (queries < keys && attention.mask.causal != Causal::TopLeft);
}

/// Over the normal values that all have now.
void AttentionFiller::fillFar(uint64_t seed, InputKind kind) {
  uint64_t stream = makeStream(seed, SequenceStream::Far);
  bool hasBias = findTensor(operand::Bias),
       hasSlopes = findTensor(operand::AlibiSlopes);
  if (kind == InputKind::Masked && hasBias)
    maskBias(tensor(operand::Bias), stream);
  if (kind == InputKind::Masked && hasSlopes)
    steepenSlopes(tensor(operand::AlibiSlopes), stream, hasOwnKeys());
  if (kind == InputKind::Infinite)
    hideInPlanes(tensor(operand::Bias), stream);
  if (kind == InputKind::Sinks)
    fillFarSinks(tensor(operand::SinkLogits), stream);
  if (kind != InputKind::Large)
    return;
  const AttentionSpec &attention = source->bundle().attention;
  LargeScores scores(stream, attention.softmaxScale,
                     hasBias || hasSlopes || attention.score ||
                         findTensor(operand::HeadScales));
  HostTensor &k = tensor("k");
  if (hasBias && tensor(operand::Bias).geometry().dtype == DType::F32) {
    scores.fillBias(tensor(operand::Bias));
    fillNormal(tensor("q"), 0, [](int64_t) { return 0.0f; });
    return;
  }
  scores.fillQueries(tensor("q"));
  scores.fillKeys(k, keyNumbers(k));
  if (source->bundle().appends()) {
    HostTensor &rows = tensor(operand::KNew);
    scores.fillKeys(rows, [&](int64_t index) {
      return coordinate(rows.geometry(), index, SeqlenNewDim);
    });
  }
}

void AttentionFiller::fill(uint64_t seed, InputKind kind, Stage stage) {
  auto stream = [&](uint64_t number) { return makeStream(seed, number); };
  auto [isRising, isFalling, isShifted, isSpiked] = KindTraits(kind, stage);
  float meanQ = isShifted ? shift : isSpiked ? 1 : 0;
  float scaleQ = isRising || isFalling ? 2.0f : 1.0f;
  if (stage == Stage::QK) // a standard deviation of 1/4 for the scores
    scaleQ = static_cast<float>(
        0.25 / (source->bundle().attention.softmaxScale *
                std::sqrt(std::max<double>(1, source->dim("head_dim")))));
  if (stage == Stage::PV)
    scaleQ = 0;
  HostTensor &q = tensor("q");
  fillNormal(
      q, stream(1), [&](int64_t) { return scaleQ; },
      [&](int64_t index) {
        return coordinate(q.geometry(), index, "seqlen_q") % 2 ? -meanQ : meanQ;
      });
  fillSequences(seed); // pages say which keys are where
  fillKeys(stream(2), kind, stage);
  if (stage == Stage::QK || stage == Stage::Softmax)
    fillIdentity(tensor("v"));
  else
    fillNormal(tensor("v"), stream(3), [](int64_t) { return 1.0f; });
  fillAppended(seed);
  if (findTensor(operand::Bias))
    fillBias(stream(4), stream(5), isRising, stage);
  if (findTensor(operand::AlibiSlopes))
    fillSlopes(tensor(operand::AlibiSlopes));
  if (findTensor(operand::HeadScales))
    fillHeadScales(tensor(operand::HeadScales), kind == InputKind::Large);
  for (uint64_t number = 6;
       const std::string &name : source->bundle().attention.captured)
    fillCaptured(tensor(name), stream(number++));
  if (stage == Stage::All)
    fillFar(seed, kind);
  if (findTensor(operand::BlockIndices))
    fillBlocks(seed, kind);
}

/// A cache, the rows behind it, and what turns them.
void AttentionFiller::fillAppend(uint64_t seed) {
  auto one = [](int64_t) { return 1.0f; };
  for (auto [number, name] :
       {std::pair(1, "q"), std::pair(2, "k"), std::pair(3, "v")})
    if (findTensor(name))
      fillNormal(tensor(name), makeStream(seed, static_cast<uint64_t>(number)),
                 one);
  fillSequences(seed);
  fillAppended(seed);
}

void flashcore::fillAttention(TensorSet &set, uint64_t seed, InputKind kind,
                              Stage stage) {
  AttentionFiller(set).fill(seed, kind, stage);
}

void flashcore::fillAppend(TensorSet &set, uint64_t seed, InputKind /*kind*/,
                           Stage /*stage*/) {
  AttentionFiller(set).fillAppend(seed);
}

void flashcore::fillSequsedK(TensorSet &set, uint64_t seed) {
  AttentionFiller(set).fillSequsedK(seed);
}

void flashcore::fillBlocks(TensorSet &set, uint64_t seed, InputKind kind) {
  AttentionFiller(set).fillBlocks(seed, kind);
}

Status flashcore::verifyAttentionKind(const Problem &problem, InputKind kind) {
  auto need = [&](bool isThere, std::string_view what) {
    if (isThere)
      return Status::success();
    std::string name(stringify(kind));
    return Status::error("expects an attention with " + std::string(what) +
                         " for inputs of kind '" + name +
                         "', but got one without");
  };
  bool hasBias = problem.findTensor(operand::Bias);
  switch (kind) {
  case InputKind::Masked:
    return need(hasBias || problem.findTensor(operand::AlibiSlopes),
                "a bias or alibi_slopes");
  case InputKind::Infinite:
    return need(hasBias, "a bias");
  case InputKind::Sinks:
    return need(problem.findTensor(operand::SinkLogits), "sink_logits");
  case InputKind::Large:
    if (problem.findTensor(operand::RotaryCos))
      return Status::error("expects an attention without rotary_cos for "
                           "inputs of kind 'large', but got one with it")
          .note("rows that are turned have too many digits for exact scores");
    return Status::success();
  default:
    return Status::success();
  }
}

Status flashcore::verifyAttentionStage(const Problem &problem, Stage stage) {
  const AttentionSpec &attention = problem.bundle().attention;
  bool isChanged = attention.score || attention.maskRegion ||
                   problem.findTensor(operand::AlibiSlopes) ||
                   problem.findTensor(operand::HeadScales);
  bool hasSequences = problem.findTensor(operand::SinkLogits) ||
                      problem.bundle().hasLengths() ||
                      problem.bundle().hasBlocks() ||
                      problem.bundle().isPaged() || attention.dropout;
  if (stage != Stage::All && hasSequences)
    return Status::error("expects stage 'all' of an attention with sinks, "
                         "seqused_k, cu_seqlens, page_table, block lists or "
                         "dropout, but got '" +
                         std::string(stringify(stage)) + "'")
        .note("stages look at plain softmaxes of all keys");
  if (stage != Stage::All && isChanged)
    return Status::error("expects stage 'all' of an attention with ALiBi, "
                         "head_scales or a score or mask region, but got '" +
                         std::string(stringify(stage)) + "'")
        .note("stages look at scores that nothing changes");
  if (stage != Stage::QK && stage != Stage::Softmax)
    return Status::success();
  std::string name(stringify(stage));
  int64_t seqlenK = problem.seqlenK();
  int64_t headDimV = problem.dim("head_dim_v");
  if (seqlenK > headDimV)
    return Status::error("expects seqlen_k to be at most head_dim_v for stage "
                         "'" +
                         name + "', but got " + std::to_string(seqlenK) +
                         " and " + std::to_string(headDimV))
        .note("this stage makes V an identity matrix: use a shorter seqlen_k");
  if (stage == Stage::QK && !problem.findTensor("lse"))
    return Status::error("expects a bundle with an lse output for stage 'qk', "
                         "but got one without")
        .note("this stage recovers the scores as ln(O) + lse: compile an "
              "attention that returns lse");
  return Status::success();
}

/// Rows of no sequence stay as they were.
Status flashcore::verifyAttentionWritten(const TensorSet &set,
                                         const HostTensor &output) {
  if (!set.findTensor(operand::CuSeqlensQ))
    return output.verifyWritten();
  KeyRange rows = queryRows(set.inputs());
  Status status = output.verifyWritten([&](int64_t index) {
    return rows.contains(coordinate(output.geometry(), index, "seqlen_q"));
  });
  if (status.ok())
    return status;
  return status.note("sequences have the query rows from " +
                     std::to_string(rows.first) + " to before " +
                     std::to_string(rows.end));
}

std::function<bool(int64_t)>
flashcore::findAppendedRows(const TensorSet &set, const HostTensor &cache) {
  AttentionInputs inputs = set.inputs();
  int64_t rows = inputs.k.sizes[2];
  std::vector<bool> isNew(static_cast<size_t>(inputs.k.sizes[0] * rows));
  for (int64_t i = 0, count = countSequences(inputs); i < count; ++i) {
    Sequence sequence = getSequence(inputs, i);
    for (int64_t key = countOldKeys(inputs, sequence); key < sequence.seqlenK;
         ++key) {
      KeyPlace place = findKey(inputs, sequence, key);
      isNew[static_cast<size_t>(place.batch * rows + place.row)] = true;
    }
  }
  bool isPaged = set.problem().bundle().isPaged();
  return [&shape = cache.geometry(), isPaged, rows,
          isNew = std::move(isNew)](int64_t index) {
    int64_t entry = coordinate(shape, index, isPaged ? PagesDim : "batch");
    int64_t row = coordinate(shape, index, isPaged ? PageSizeDim : "seqlen_k");
    return isNew[static_cast<size_t>(entry * rows + row)];
  };
}

Status flashcore::verifyAttentionData(const TensorSet &set) {
  return verifyLengths(set.inputs()); // kernels take them as they are
}
