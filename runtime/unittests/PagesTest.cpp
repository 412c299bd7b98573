//===- PagesTest.cpp - Keys in pages --------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Manifests with a page_table, and the reference with keys that one names: to
// the last bit what it computes of the same keys one after another.
//
//===----------------------------------------------------------------------===//

#include "ReferenceUtil.h"
#include "TestBundle.h"

#include <cmath>

using namespace flashcore;
using namespace flashcore::testing;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// Manifests
//===----------------------------------------------------------------------===//

/// What the loader says about `manifest`, without paths and notes.
static std::string refusal(const json &manifest) {
  ScratchDirectory scratch;
  writeBundle(scratch.path(), manifest);
  std::string message = Bundle::load(scratch.path()).status().message();
  EXPECT_TRUE(message.starts_with(scratch.file("")));
  return message.substr(std::min(message.size(), scratch.file("").size()));
}

TEST(PagesTest, readsKeysInPages) {
  json manifest = pagedManifest(32, 16, 3, 8, 2);
  Bundle bundle = loadTestBundle(manifest);
  EXPECT_TRUE(bundle.isPaged());
  EXPECT_FALSE(bundle.hasLengths());
  EXPECT_EQ(bundle.sizes.at("page_size"), 16);
  EXPECT_EQ(bundle.findTensor(operand::PageTable)->dtype, DType::I32);
  addVector(manifest, "seqused_k", "i32", "batch");
  for (const char *name : {"batch", "pages", "pages_per_sequence"})
    manifest["attention"]["dims"][name] = nullptr;
  EXPECT_TRUE(loadTestBundle(manifest).hasLengths());
  bundle = loadTestBundle(pagedVarlenManifest(32, 16, 3, 8, 2));
  EXPECT_TRUE(bundle.isPaged());
  EXPECT_TRUE(bundle.hasCuSeqlens());
  EXPECT_EQ(bundle.sequencesDim(), "sequences");
  EXPECT_FALSE(loadTestBundle().isPaged());
}

TEST(PagesTest, refusesSizesOfPagesThatAreNone) {
  const json manifest = pagedManifest(32, 16, 3, 8, 2);
  auto refusalAfter = [&](auto change) {
    json changed = manifest;
    change(changed["attention"]["dims"]);
    return refusal(changed);
  };
  const std::string dims = "manifest.json: expects 'sizes";
  EXPECT_EQ(refusalAfter([](json &dims) { dims.erase("page_size"); }),
            "manifest.json: expects the key 'sizes.page_size', but "
            "there is none");
  EXPECT_EQ(refusalAfter([](json &dims) { dims["seqlen_k"] = 48; }),
            dims + "' to be an object without the key 'seqlen_k' where there "
                   "is 'page_size', but got an object of 10 keys");
  EXPECT_EQ(refusalAfter([](json &dims) { dims["page_size"] = nullptr; }),
            dims + ".page_size' to be an integer of at least 1, but got null");
  EXPECT_EQ(refusalAfter([](json &dims) { dims["page_size"] = 0; }),
            dims + ".page_size' to be an integer of at least 1, but got 0");
  EXPECT_EQ(
      refusalAfter([](json &dims) { dims["pages_per_sequence"] = 0; }),
      dims + ".pages_per_sequence' to be an integer of at least 1, but got 0");
  json plain = testManifest();
  plain["attention"]["dims"]["pages"] = 4;
  EXPECT_EQ(refusal(plain),
            "manifest.json: expects the key 'sizes.page_size', but "
            "there is none");
}

TEST(PagesTest, refusesPageTablesThatAreNone) {
  const json plain = pagedManifest(32, 16, 3, 8, 2),
             varlen = pagedVarlenManifest(32, 16, 3, 8, 2);
  auto refusalAt = [&](json manifest, const char *pointer, const json &value) {
    manifest[json::json_pointer(pointer)] = value;
    return refusal(manifest);
  };
  const std::string prefix = "manifest.json: expects 'tensors";
  EXPECT_EQ(refusalAt(plain, "/tensors/1/axes/0", "batch"),
            prefix + "[1].axes' to be the axes head_dim, heads_kv, page_size, "
                     "pages in any order, but got an array of 4 elements");
  EXPECT_EQ(refusalAt(plain, "/tensors/5/dtype", "f32"),
            prefix + "[5].dtype' to be 'i32', but got \"f32\"");
  EXPECT_EQ(refusalAt(plain, "/tensors/5/role", "output"),
            prefix + "[5].role' to be 'input', but got \"output\"");
  EXPECT_EQ(refusalAt(plain, "/tensors/5/axes/0", "pages"),
            prefix + "[5].axes[0]' to be 'batch', but got \"pages\"");
  EXPECT_EQ(refusalAt(plain, "/tensors/5/axes/1", "pages"),
            prefix + "[5].axes[1]' to be 'pages_per_sequence', but got "
                     "\"pages\"");
  EXPECT_EQ(refusalAt(plain, "/tensors/5/name", "pages"),
            prefix + "' to be an array with 'page_table', as 'sizes' "
                     "has 'page_size', but got an array of 6 elements");
  EXPECT_EQ(refusalAt(varlen, "/tensors/5/axes/0", "batch"),
            prefix + "[5].axes[0]' to be 'sequences', but got \"batch\"");
  EXPECT_EQ(refusalAt(varlen, "/tensors/7/axes/0", "pages"),
            prefix + "[7].axes[0]' to be the name of a size of its own, one "
                     "less than 'cu_seqlens', but got \"pages\"");
  EXPECT_EQ(refusalAt(varlen, "/tensors/7/name", "other"),
            prefix + "' to be an array with 'seqused_k' where there are "
                     "'cu_seqlens_q' and 'page_table', but got an array of 8 "
                     "elements");
  json changed = plain;
  addBias(changed, "f16", {"1", "1", "seqlen_q", "1"});
  EXPECT_EQ(refusal(changed),
            prefix + "' to be an array without 'bias' where there is "
                     "'page_table', but got an array of 7 elements");
  changed = varlen;
  addVector(changed, "cu_seqlens_k", "i32", "cu_seqlens");
  EXPECT_EQ(refusal(changed),
            prefix + "' to be an array without 'cu_seqlens_k' where there is "
                     "'page_table', but got an array of 9 elements");
  changed = plain;
  changed["tensors"][5]["axes"] = {"batch"};
  changed["tensors"][5]["strides"] = {1};
  EXPECT_EQ(refusal(changed), prefix + "[5].axes' to be an array of 2 "
                                       "elements, but got an array of 1 "
                                       "elements");
  changed = testManifest();
  addVector(changed, "page_table", "i32", "batch");
  EXPECT_EQ(refusal(changed),
            prefix + "' to be an array without 'page_table', as "
                     "'sizes' has no 'page_size', but got an array of "
                     "6 elements");
}

//===----------------------------------------------------------------------===//
// The reference
//===----------------------------------------------------------------------===//

static constexpr int64_t headsQ = 4, headsKV = 2, headDim = 3;

static std::vector<float> wave(int64_t count, int64_t kind) {
  std::vector<float> result;
  for (int64_t i = 0; i < count; ++i)
    result.push_back(1.5f * std::sin(static_cast<float>(i * i + 7 * kind)));
  return result;
}

namespace {
/// An attention whose keys are rows.
struct RowSequences {
  RowSequences(int64_t batch, int64_t rows, int64_t keys)
      : q({batch, headsQ, rows, headDim},
          wave(batch * headsQ * rows * headDim, 1)),
        k({batch, headsKV, keys, headDim},
          wave(batch * headsKV * keys * headDim, 2)),
        v({batch, headsKV, keys, headDim},
          wave(batch * headsKV * keys * headDim, 3)),
        slopes({1, headsQ, 1, 1}, wave(headsQ, 4)),
        sinks({1, headsQ, 1, 1}, wave(headsQ, 5)) {
    inputs = makeInputs(q.view, k.view, v.view, 0.7, Causal::None);
  }

  Tensor q, k, v, slopes, sinks;
  AttentionInputs inputs;
};

/// Keys in pages of 4, of which each entry names five.
struct PagedSequences {
  static constexpr int64_t pageSize = 4, pages = 13, perEntry = 5;

  explicit PagedSequences(std::vector<int32_t> names)
      : k({pages, headsKV, pageSize, headDim}, values(2)),
        v({pages, headsKV, pageSize, headDim}, values(3)),
        table(std::move(names)) {
    int64_t entries = table.view.sizes[0] / perEntry;
    table.view.sizes = {entries, perEntry, 1, 1};
    table.view.strides = {perEntry, 1, 0, 0};
  }

  static std::vector<float> values(int64_t kind) {
    return wave(pages * headsKV * pageSize * headDim, kind);
  }

  /// Gives `inputs` the pages, and `flatK` and `flatV` the keys of entry b as
  /// its rows.
  void use(AttentionInputs &inputs, Tensor &flatK, Tensor &flatV) const {
    inputs.k = k.view;
    inputs.v = v.view;
    inputs.pageTable = table.view;
    for (auto [from, to] : {std::pair(&k, &flatK), {&v, &flatV}})
      for (int64_t b = 0; b < table.view.sizes[0]; ++b)
        for (int64_t h = 0; h < headsKV; ++h)
          for (int64_t j = 0; j < perEntry * pageSize; ++j)
            for (int64_t d = 0; d < headDim; ++d) {
              int64_t page = table.values[b * perEntry + j / pageSize];
              const auto &stride = to->view.strides;
              to->values[b * stride[0] + h * stride[1] + j * stride[2] + d] =
                  static_cast<float>(from->view.load(page, h, j % pageSize, d));
            }
  }

  Tensor k, v;
  Lengths table;
};
} // namespace

/// Masks, with and without ALiBi and sinks.
template <typename Check>
static void forEachModifier(RowSequences &attention, Check &&check) {
  for (Causal causal : {Causal::None, Causal::BottomRight, Causal::TopLeft})
    for (std::optional<int64_t> window : {std::optional<int64_t>(), {3}})
      for (bool hasMore : {false, true}) {
        AttentionInputs &inputs = attention.inputs;
        inputs.mask = {causal, window, {}};
        inputs.alibiSlopes.reset();
        inputs.sinkLogits.reset();
        if (hasMore) {
          inputs.alibiSlopes = attention.slopes.view;
          inputs.sinkLogits = attention.sinks.view;
        }
        check();
      }
}

/// What both references compute is the same to the last bit.
static void expectSame(const AttentionInputs &a, const AttentionInputs &b) {
  for (auto compute : {computeReference, computeYardstick}) {
    StatusOr<AttentionResult> left = compute(a, 3), right = compute(b, 2);
    ASSERT_TRUE(left.ok() && right.ok());
    EXPECT_EQ(left->o, right->o);
    EXPECT_EQ(left->lse, right->lse);
  }
}

TEST(PagesTest, keysInPagesAreThoseOfRows) {
  PagedSequences paged({7, 0, 12, 3, 3, 1, 2, 4, 5, 6, 12, 11, 10, 9, 8});
  RowSequences attention(3, 9, 20), flat(3, 9, 20);
  paged.use(attention.inputs, flat.k, flat.v);
  ASSERT_TRUE(verifyShapes(attention.inputs).ok());
  Lengths used({20, 0, 6});
  for (bool hasUsed : {false, true}) {
    if (hasUsed)
      attention.inputs.sequsedK = flat.inputs.sequsedK = used.view;
    forEachModifier(attention, [&] {
      flat.inputs.mask = attention.inputs.mask;
      flat.inputs.alibiSlopes = attention.inputs.alibiSlopes;
      flat.inputs.sinkLogits = attention.inputs.sinkLogits;
      expectSame(attention.inputs, flat.inputs);
    });
  }
}

/// Queries from `first` to before `end` and the first `used` keys of row `b`.
static AttentionInputs takeSequence(const RowSequences &attention,
                                    const RowSequences &flat, int64_t first,
                                    int64_t end, int64_t b, int64_t used) {
  AttentionInputs inputs = attention.inputs;
  inputs.pageTable.reset();
  inputs.cuSeqlensQ.reset();
  inputs.sequsedK.reset();
  auto move = [](TensorView &view, int64_t elements) {
    view.data = static_cast<const float *>(view.data) + elements;
  };
  move(inputs.q, first * inputs.q.strides[2]);
  inputs.q.sizes[2] = end - first;
  inputs.k = flat.k.view;
  inputs.v = flat.v.view;
  for (TensorView *view : {&inputs.k, &inputs.v}) {
    move(*view, b * view->strides[0]);
    view->sizes[0] = 1;
    view->sizes[2] = used;
  }
  return inputs;
}

/// The rows of `all`, of 90 a head, from `first` on are those of `some`.
static void expectRows(const AttentionResult &all, int64_t first,
                       const AttentionResult &some) {
  int64_t rows = static_cast<int64_t>(some.lse.size()) / headsQ;
  for (int64_t h = 0; h < headsQ; ++h)
    for (int64_t i = 0; i < rows; ++i) {
      int64_t from = h * rows + i, at = h * 90 + first + i;
      EXPECT_EQ(all.lse[at], some.lse[from]);
      for (int64_t d = 0; d < headDim; ++d)
        EXPECT_EQ(all.o[at * headDim + d], some.o[from * headDim + d]);
    }
}

TEST(PagesTest, keysInPagesMayBeOfSequences) {
  PagedSequences paged({7, 0, 12, 3, 3, 1, 2, 4, 5, 6, 12, 11, 10, 9, 8});
  RowSequences attention(1, 90, 20), flat(3, 90, 20);
  paged.use(attention.inputs, flat.k, flat.v);
  Lengths cuQ({2, 9, 9, 88}), used({20, 3, 6});
  attention.inputs.cuSeqlensQ = cuQ.view;
  attention.inputs.sequsedK = used.view;
  forEachModifier(attention, [&] {
    for (auto compute : {computeReference, computeYardstick}) {
      AttentionResult result = *compute(attention.inputs, 3);
      for (int64_t b = 0; b < 3; ++b)
        expectRows(result, cuQ.values[b],
                   *compute(takeSequence(attention, flat, cuQ.values[b],
                                         cuQ.values[b + 1], b, used.values[b]),
                            1));
    }
  });
}

TEST(PagesTest, pagesThatNoKeyIsInDoNotMatter) {
  PagedSequences paged({7, 0, 12, 3, 3, 99, -5, INT32_MAX, 0, 1});
  RowSequences attention(2, 9, 20);
  attention.inputs.k = paged.k.view;
  attention.inputs.v = paged.v.view;
  attention.inputs.pageTable = paged.table.view;
  Lengths used({5, 0});
  attention.inputs.sequsedK = used.view;
  std::vector<double> before = computeReference(attention.inputs)->o;
  // Keys 0 to 3 are in page 7 and key 4 in page 0.
  for (Tensor *tensor : {&paged.k, &paged.v})
    for (int64_t page = 0; page < paged.pages; ++page)
      for (int64_t h = 0; h < 2; ++h)
        for (int64_t row = page == 7 ? 4 : page == 0 ? 1 : 0; row < 4; ++row)
          tensor->values[((page * 2 + h) * 4 + row) * 3] = NAN;
  EXPECT_EQ(computeReference(attention.inputs)->o, before);
}

TEST(PagesTest, refusesPagesOutsideOfTheTensors) {
  PagedSequences paged({7, 0, 12, 3, 3, 1, 2, 4, 5, 6});
  RowSequences attention(2, 9, 20);
  AttentionInputs &inputs = attention.inputs;
  inputs.k = paged.k.view;
  inputs.v = paged.v.view;
  inputs.pageTable = paged.table.view;
  auto refusal = [&] {
    std::string message = verifyLengths(inputs).message();
    EXPECT_EQ(computeReference(inputs).status().message(), message);
    EXPECT_EQ(computeYardstick(inputs).status().message(), message);
    return message;
  };
  EXPECT_EQ(refusal(), "");
  for (int32_t page : {-1, 13, INT32_MAX, INT32_MIN}) {
    paged.table.values[8] = page;
    EXPECT_EQ(refusal(), "expects page_table[1, 3] to be from 0 to pages - 1 "
                         "(12), but got " +
                             std::to_string(page));
  }
  Lengths used({20, 12}), longer({20, 21}), short1({20});
  inputs.sequsedK = used.view;
  EXPECT_EQ(refusal(), "");
  inputs.sequsedK = longer.view;
  EXPECT_EQ(refusal(), "expects seqused_k[1] to be from 0 to 20, the keys of "
                       "batch entry 1, but got 21");
  inputs.sequsedK = short1.view;
  EXPECT_EQ(refusal(), "expects seqused_k to have 2 entries, one a batch "
                       "entry, but got 1");
  inputs.sequsedK.reset();
  inputs.pageTable->sizes[0] = 1;
  EXPECT_EQ(refusal(), "expects page_table to have 2 rows, one a batch entry, "
                       "but got 1");
  inputs.pageTable->sizes = {2, 0, 1, 1};
  EXPECT_EQ(refusal(),
            "expects page_table to have at least 1 page a row, but got 0");
  inputs.pageTable->sizes = {2, INT64_MAX, 1, 1};
  EXPECT_EQ(refusal(), "expects page_table to name less than 2^63 keys a row, "
                       "but got 9223372036854775807 pages of 4");
}

TEST(PagesTest, refusesPagesWithOtherLengths) {
  PagedSequences paged({7, 0, 12, 3, 3});
  RowSequences attention(1, 9, 20);
  AttentionInputs &inputs = attention.inputs;
  inputs.k = paged.k.view;
  inputs.v = paged.v.view;
  inputs.pageTable = paged.table.view;
  Lengths cu({0, 9}), none({}), used({3});
  auto message = [&] { return verifyLengths(inputs).message(); };
  inputs.cuSeqlensQ = cu.view;
  EXPECT_EQ(message(), "expects seqused_k with page_table and cu_seqlens_q, "
                       "but got none");
  inputs.sequsedK = used.view;
  EXPECT_EQ(message(), "");
  inputs.cuSeqlensK = cu.view;
  EXPECT_EQ(message(), "expects no cu_seqlens_k with page_table, but got one");
  inputs.cuSeqlensK.reset();
  inputs.cuSeqlensQ = none.view;
  EXPECT_EQ(message(), "expects cu_seqlens_q to have at least 1 entry, one "
                       "more than there are sequences, but got 0");
  inputs.cuSeqlensQ.reset();
  EXPECT_EQ(verifyShapes(inputs).message(), "");
  inputs.v.sizes[0] = 12;
  EXPECT_EQ(verifyShapes(inputs).message(),
            "expects the pages of k and v to be equal, but got 13 and 12");
  inputs.v.sizes = {13, 2, 8, 3};
  EXPECT_EQ(verifyShapes(inputs).message(),
            "expects the page_size of k and v to be equal, but got 4 and 8");
  inputs.v = paged.v.view;
  inputs.bias = TensorView{nullptr, DType::F32, {1, 1, 1, 1}, {}};
  EXPECT_EQ(verifyShapes(inputs).message(),
            "expects no bias with page_table, but got one");
}

TEST(PagesTest, noPagesHoldNoKeys) {
  PagedSequences paged({7, 0, 12, 3, 3});
  RowSequences attention(1, 9, 20);
  AttentionInputs &inputs = attention.inputs;
  inputs.k = paged.k.view;
  inputs.v = paged.v.view;
  inputs.k.sizes[0] = inputs.v.sizes[0] = 0;
  inputs.pageTable = paged.table.view;
  Lengths used({0});
  inputs.sequsedK = used.view;
  StatusOr<AttentionResult> result = computeReference(inputs);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->lse, std::vector<double>(4 * 9, -infinity));
  used.values[0] = 1;
  EXPECT_EQ(verifyLengths(inputs).message(),
            "expects page_table[0, 0] to be from 0 to pages - 1 (-1), but got "
            "7");
}
