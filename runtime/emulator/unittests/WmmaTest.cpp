//===- WmmaTest.cpp - wmma.load, wmma.mma, wmma.store ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every shape, type and layout: what the lanes hold and what comes out is what
// an H200 holds and gives (driver 580.159.04, 22 November 2026). Then the
// kernels of Inputs/wmma.cu, and what the checks say.
//
//===----------------------------------------------------------------------===//

#include "ForeignUtil.h"
#include "math/Half.h"

#include <array>
#include <cmath>

using namespace flashcore::emu;
using namespace flashcore::emu::test;

namespace {
struct Element {
  const char *name;
  unsigned bytes;
  /// Bits of the fraction, and the exponents that inputs have; none of an
  /// integer.
  unsigned fraction, lowest, highest;
};
constexpr Element f16{"f16", 2, 10, 9, 20}, bf16{"bf16", 2, 7, 121, 133},
    f32{"f32", 4, 23, 120, 134}, tf32{"tf32", 4, 23, 120, 134},
    s32{"s32", 4, 0, 0, 0}, s8{"s8", 1, 0, 0, 0}, u8{"u8", 1, 0, 0, 0};

struct WmmaCase {
  unsigned m, n, k;
  const Element *type, *c, *d;
  /// Of A, B and of C and D: 'r' or 'c'.
  const char *layouts;

  std::string shape() const {
    return "m" + std::to_string(m) + "n" + std::to_string(n) + "k" +
           std::to_string(k);
  }
  std::string name() const {
    return shape() + " " + type->name + " " + c->name + " " + d->name + " " +
           layouts;
  }
  const Element &element(char matrix) const {
    return matrix == 'a' || matrix == 'b' ? *type : matrix == 'c' ? *c : *d;
  }
  unsigned rows(char matrix) const { return matrix == 'b' ? k : m; }
  unsigned columns(char matrix) const { return matrix == 'a' ? k : n; }
  bool isRowMajor(char matrix) const {
    return layouts[matrix == 'a' ? 0 : matrix == 'b' ? 1 : 2] == 'r';
  }
  unsigned stride(char matrix) const {
    return isRowMajor(matrix) ? columns(matrix) : rows(matrix);
  }
  unsigned size(char matrix) const { return rows(matrix) * columns(matrix); }
  unsigned numRegisters(char matrix) const {
    bool isFactor = matrix == 'a' || matrix == 'b';
    return isFactor && type == &f16
               ? 8
               : size(matrix) * element(matrix).bytes / 128;
  }
  const char *registerType(char matrix) const {
    return &element(matrix) == &f32 ? "f32" : "b32";
  }
};
} // namespace

/// In the order of the card's results.
static std::vector<WmmaCase> allCases() {
  std::vector<WmmaCase> cases;
  auto add = [&](unsigned m, unsigned n, unsigned k, const Element &type,
                 const Element &c, const Element &d) {
    for (const char *layouts : {"rrr", "ccc", "rcr", "crc"})
      cases.push_back({m, n, k, &type, &c, &d, layouts});
  };
  for (auto [m, n] : {std::pair(16u, 16u), {32u, 8u}, {8u, 32u}}) {
    add(m, n, 16, f16, f32, f32);
    add(m, n, 16, f16, f16, f16);
    add(m, n, 16, f16, f16, f32);
    add(m, n, 16, f16, f32, f16);
    add(m, n, 16, bf16, f32, f32);
    add(m, n, 16, s8, s32, s32);
    add(m, n, 16, u8, s32, s32);
  }
  add(16, 16, 8, tf32, f32, f32);
  return cases;
}

static std::string registers(char matrix, unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i)
    text += (i ? ",%w" : "{%w") + std::string(1, matrix) + std::to_string(i);
  return text + "}";
}

static std::string layoutName(const WmmaCase &test, char matrix) {
  return test.isRowMajor(matrix) ? "row" : "col";
}

static std::string declareRegisters(const WmmaCase &test) {
  std::string text;
  for (char matrix : {'a', 'b', 'c', 'd'})
    text += std::string(".reg .") + test.registerType(matrix) + " %w" + matrix +
            "<8>;\n";
  return text;
}

/// Loads a matrix from buffer `from`. The stride is in a register where
/// `isDynamic` is set.
static std::string loadText(const WmmaCase &test, char matrix,
                            const std::string &from, bool isDynamic) {
  std::string stride = std::to_string(test.stride(matrix)), text;
  if (isDynamic) {
    text = "mov.u32 %r0, " + stride + ";\n";
    stride = "%r0";
  }
  return text + "wmma.load." + matrix + ".sync.aligned." +
         layoutName(test, matrix) + "." + test.shape() + ".global." +
         test.element(matrix).name + " " +
         registers(matrix, test.numRegisters(matrix)) + ", [" + from + "], " +
         stride + ";\n";
}

static std::string mmaText(const WmmaCase &test) {
  std::string types = std::string(".") + test.d->name;
  if (test.type != &f16)
    types += std::string(".") + test.type->name + "." + test.type->name;
  return "wmma.mma.sync.aligned." + layoutName(test, 'a') + "." +
         layoutName(test, 'b') + "." + test.shape() + types + "." +
         test.c->name + " " + registers('d', test.numRegisters('d')) + ", " +
         registers('a', test.numRegisters('a')) + ", " +
         registers('b', test.numRegisters('b')) + ", " +
         registers('c', test.numRegisters('c')) + ";\n";
}

static std::string storeText(const WmmaCase &test) {
  return "wmma.store.d.sync.aligned." + layoutName(test, 'd') + "." +
         test.shape() + ".global." + test.d->name + " [%g3], " +
         registers('d', test.numRegisters('d')) + ", " +
         std::to_string(test.stride('d')) + ";\n";
}

//===----------------------------------------------------------------------===//
// Which lane holds what
//===----------------------------------------------------------------------===//

namespace {
/// Row and column that a lane holds first in each of its registers; lanes
/// further on, groups of four lanes and elements of a register are steps away.
struct Placement {
  char matrix;
  unsigned m, k;
  const Element *type;
  std::vector<std::array<unsigned, 2>> registers;
  std::array<unsigned, 2> element, lane, group;
};
} // namespace

/// As the card holds them.
static std::vector<Placement> allPlacements() {
  using Places = std::vector<std::array<unsigned, 2>>;
  const Places square{{0, 0}, {8, 0}, {0, 8}, {8, 8}};
  const Places byColumns{{0, 0}, {0, 8}, {8, 0}, {8, 8}};
  auto repeat = [](const Places &places, unsigned times) {
    Places all;
    for (unsigned i = 0; i < times; ++i)
      all.insert(all.end(), places.begin(), places.end());
    return all;
  };
  auto join = [](Places first, const Places &second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  };
  const Places tallA = join(square, {{16, 0}, {24, 0}, {16, 8}, {24, 8}});
  const Places wideB = join(byColumns, {{0, 16}, {0, 24}, {8, 16}, {8, 24}});
  const Places pairs{{0, 0}, {0, 1}, {8, 0}, {8, 1}};
  const Places c16 = join(pairs, {{0, 8}, {0, 9}, {8, 8}, {8, 9}});
  const Places c32 = join(pairs, {{16, 0}, {16, 1}, {24, 0}, {24, 1}});
  const Places c8{{0, 0},  {1, 0},  {0, 8},  {1, 8},
                  {0, 16}, {1, 16}, {0, 24}, {1, 24}};
  return {
      {'a', 16, 16, &f16, repeat(square, 2), {0, 1}, {0, 2}, {1, 0}},
      {'b', 16, 16, &f16, repeat(square, 2), {1, 0}, {2, 0}, {0, 1}},
      {'a', 16, 16, &bf16, square, {0, 1}, {0, 2}, {1, 0}},
      {'b', 16, 16, &bf16, square, {1, 0}, {2, 0}, {0, 1}},
      {'a', 16, 16, &s8, {{0, 0}, {8, 0}}, {0, 1}, {0, 4}, {1, 0}},
      {'b', 16, 16, &s8, {{0, 0}, {0, 8}}, {1, 0}, {4, 0}, {0, 1}},
      {'c', 16, 16, &f32, c16, {0, 0}, {0, 2}, {1, 0}},
      {'c', 16, 16, &f16, square, {0, 1}, {0, 2}, {1, 0}},
      {'a', 32, 16, &f16, tallA, {0, 1}, {0, 2}, {1, 0}},
      {'b', 32, 16, &f16, repeat({{0, 0}, {8, 0}}, 4), {1, 0}, {2, 0}, {0, 1}},
      {'b', 32, 16, &bf16, {{0, 0}, {8, 0}}, {1, 0}, {2, 0}, {0, 1}},
      {'a',
       32,
       16,
       &s8,
       {{0, 0}, {8, 0}, {16, 0}, {24, 0}},
       {0, 1},
       {0, 4},
       {1, 0}},
      {'b', 32, 16, &s8, {{0, 0}}, {1, 0}, {4, 0}, {0, 1}},
      {'c', 32, 16, &s32, c32, {0, 0}, {0, 2}, {1, 0}},
      {'c',
       32,
       16,
       &f16,
       {{0, 0}, {8, 0}, {16, 0}, {24, 0}},
       {0, 1},
       {0, 2},
       {1, 0}},
      {'a', 8, 16, &f16, repeat({{0, 0}, {0, 8}}, 4), {0, 1}, {0, 2}, {1, 0}},
      {'b', 8, 16, &f16, wideB, {1, 0}, {2, 0}, {0, 1}},
      {'a', 8, 16, &bf16, {{0, 0}, {0, 8}}, {0, 1}, {0, 2}, {1, 0}},
      {'a', 8, 16, &u8, {{0, 0}}, {0, 1}, {0, 4}, {1, 0}},
      {'b',
       8,
       16,
       &u8,
       {{0, 0}, {0, 8}, {0, 16}, {0, 24}},
       {1, 0},
       {4, 0},
       {0, 1}},
      {'c', 8, 16, &f32, c8, {0, 0}, {2, 0}, {0, 1}},
      {'c',
       8,
       16,
       &f16,
       {{0, 0}, {0, 8}, {0, 16}, {0, 24}},
       {1, 0},
       {2, 0},
       {0, 1}},
      {'a',
       16,
       8,
       &tf32,
       {{0, 0}, {8, 0}, {0, 4}, {8, 4}},
       {0, 0},
       {0, 1},
       {1, 0}},
      {'b',
       16,
       8,
       &tf32,
       {{0, 0}, {4, 0}, {0, 8}, {4, 8}},
       {0, 0},
       {1, 0},
       {0, 1}},
  };
}

/// Elements are their index in memory; of 8 bits, its byte `plane`.
static std::vector<uint8_t> indices(unsigned count, unsigned bytes,
                                    unsigned plane) {
  std::vector<uint8_t> data;
  for (unsigned i = 0; i < count; ++i)
    for (unsigned b = 0; b < bytes; ++b)
      data.push_back(static_cast<uint8_t>(i >> 8 * (b + plane)));
  return data;
}

static void checkPlacement(const Placement &place, const WmmaCase &test,
                           bool isDynamic, unsigned plane) {
  unsigned count = test.numRegisters(place.matrix), bytes = place.type->bytes;
  std::string body = declareRegisters(test) +
                     loadText(test, place.matrix, "%g0", isDynamic) +
                     "mov.u32 %r1, %laneid;\nmad.wide.u32 %g1, %r1, 4, %g1;\n";
  for (unsigned i = 0; i < count; ++i)
    body += "st.global." + std::string(test.registerType(place.matrix)) +
            " [%g1+" + std::to_string(128 * i) + "], %w" + place.matrix +
            std::to_string(i) + ";\n";
  RunConfig config;
  config.buffers[0] = indices(test.size(place.matrix), bytes, plane);
  RunResult result = runBody(body, config);
  ASSERT_EQ(result.error, "");
  ASSERT_EQ(result.report.findings.size(), 0u) << result.text();
  ASSERT_EQ(place.registers.size(), count);
  for (unsigned r = 0; r < count; ++r)
    for (unsigned lane = 0; lane < 32; ++lane)
      for (unsigned e = 0; e < 4 / bytes; ++e) {
        unsigned at[2];
        for (unsigned i = 0; i < 2; ++i)
          at[i] = place.registers[r][i] + e * place.element[i] +
                  lane % 4 * place.lane[i] + lane / 4 * place.group[i];
        unsigned major = test.isRowMajor(place.matrix) ? at[0] : at[1];
        unsigned minor = test.isRowMajor(place.matrix) ? at[1] : at[0];
        uint64_t index = major * test.stride(place.matrix) + minor;
        uint64_t mask = bytes == 4 ? ~0u : (1u << 8 * bytes) - 1;
        uint32_t word = result.word(1, 32 * r + lane);
        ASSERT_EQ(word >> 8 * bytes * e & mask, index >> 8 * plane & mask)
            << "register " << r << ", lane " << lane << ", element " << e;
      }
}

TEST(Wmma, LanesHoldWhatThoseOfACardHold) {
  for (const Placement &place : allPlacements())
    for (const char *layouts : {"rrr", "ccc"})
      for (bool isDynamic : {false, true})
        for (unsigned plane = 0; plane < (place.type->bytes == 1 ? 2u : 1u);
             ++plane) {
          bool isFactor = place.matrix != 'c';
          const Element *sum = isFactor ? &f32 : place.type;
          WmmaCase test{place.m, place.m == 16 ? 16 : 256 / place.m,
                        place.k, isFactor ? place.type : &f16,
                        sum,     sum,
                        layouts};
          SCOPED_TRACE(test.name() + " " + place.matrix);
          checkPlacement(place, test, isDynamic, plane);
        }
}

//===----------------------------------------------------------------------===//
// What comes out
//===----------------------------------------------------------------------===//

namespace {
/// Inputs that another program can make too.
class Inputs {
public:
  explicit Inputs(uint64_t seed) : state(seed) {}

  std::vector<uint8_t> make(const Element &type, unsigned count) {
    std::vector<uint8_t> data;
    for (unsigned i = 0; i < count; ++i) {
      uint64_t value = bits(type.fraction ? 1 : 8 * type.bytes);
      if (type.fraction) {
        value <<= 8 * type.bytes - 1;
        value |= (type.lowest + bits(8) % (type.highest - type.lowest))
                 << type.fraction;
        value |= bits(type.fraction);
      }
      for (unsigned b = 0; b < type.bytes; ++b)
        data.push_back(static_cast<uint8_t>(value >> 8 * b));
    }
    return data;
  }

private:
  uint64_t bits(unsigned count) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> (64 - count);
  }
  uint64_t state;
};
} // namespace

/// FNV-1a of the bytes of D, of the card for each case.
static constexpr uint64_t cardResults[] = {
    0xf94690b9cbb82e50u, 0x7ea48251747a4bb6u, 0xf8f93421d4cd8b0du,
    0x370ca1f16800d7c2u, 0x3b0cdc58c7d95cb9u, 0xccc0cc9304dfdc5fu,
    0x15dcd40aff2d14f1u, 0xa8e7f7ee35c7030eu, 0x8f4e9a91826a3976u,
    0xb16ca56324a1ac92u, 0x3fc563cf42ff0610u, 0xec01a99337ec5910u,
    0xd4dd3038e9c0b90du, 0x51d29a2924b79bfau, 0xe16bbc2625fb9289u,
    0xa772080c3d419d9bu, 0xf9b61cf4071f9790u, 0xa81668941fc11c87u,
    0x78926c8f3639e285u, 0x6c6654f9ebf8db3du, 0xeaa1507c325686a5u,
    0x0216a67f6f687122u, 0x522c9ccbf7d2337cu, 0x3130705718f446ddu,
    0xa623a70993569501u, 0x602f75c545cc0b42u, 0x50a35989ac9bb724u,
    0x83dbd62d981b80a9u, 0x5f18c807d9cbeb2du, 0x06cad012613445e8u,
    0x1703a65bac84906eu, 0x9ede830a2225c569u, 0xca98b41b2cb8268du,
    0x36cb78918e295657u, 0x2287b0767b887771u, 0x62386123f512f5f0u,
    0xe248ffe3c23b241bu, 0x624d8c58289d0c31u, 0x2a083c750ed78d09u,
    0x753a9f8873f91baeu, 0xe2445f363755f70du, 0x3d8bf1eaa93f2642u,
    0x7bede87934f61f5fu, 0xf9c6f921aa6030aeu, 0xa1701445b6614f83u,
    0x47ca9ee2f8634de5u, 0x2751a4de1e0bb205u, 0x47b2890c9c1c5654u,
    0x40065675760a94c8u, 0xd900603c83313b52u, 0x7d7bfc271701d4f0u,
    0x8b7c2896e2bc00a4u, 0x25496f116202b565u, 0xce35de51bc8d571bu,
    0x5649ef81adc3a192u, 0x5d8397dc96690a6au, 0x63536458798646eau,
    0x3e584bd8df02175au, 0x035c862f5d0f8d26u, 0x1c1d45af4f040ed8u,
    0x30a537150b64fbaau, 0xa5f667abdbf759f1u, 0xb5ff5ffad990d1b2u,
    0xb69d3b42d182ab2bu, 0x35108860f7b6c139u, 0x4642c256b27ef527u,
    0xb5bb2735b4d5a90fu, 0x9ada3cb298e38884u, 0x8824179abef3bd2fu,
    0x4962842a20510a58u, 0x5fb8788caa829458u, 0xeabb8e5f1849ba67u,
    0xd904a6006a78cda6u, 0x6f64d71583977f86u, 0xae521e5429b1166fu,
    0x082112a973f4b103u, 0xde4db0f0fc81b320u, 0xd37cde8ebd2873b8u,
    0x2783260577ba1105u, 0x0255347a7f401d48u, 0x66712762d605542cu,
    0xd88ffb76dcd19ec5u, 0x0aaaf1f7ea35f3b0u, 0x54682dcff84de4b1u,
    0xb0b560d4e201c4e4u, 0x10d34b27c320c056u, 0x703c588e0bf93cb8u,
    0x0a4d530f42613093u,
};

TEST(Wmma, ResultsAreThoseOfACardBitForBit) {
  std::vector<WmmaCase> cases = allCases();
  ASSERT_EQ(cases.size(), std::size(cardResults));
  for (size_t i = 0; i < cases.size(); ++i) {
    const WmmaCase &test = cases[i];
    SCOPED_TRACE(test.name());
    RunConfig config;
    config.options.mma = MmaRounding::Sm90;
    std::string body = declareRegisters(test);
    for (unsigned j = 0; j < 3; ++j) {
      char matrix = "abc"[j];
      config.buffers[j] =
          Inputs(3 * i + j).make(test.element(matrix), test.size(matrix));
      body += loadText(test, matrix, "%g" + std::to_string(j), false);
    }
    size_t bytes = test.size('d') * test.d->bytes;
    config.outputBytes = bytes;
    RunResult result = runBody(body + mmaText(test) + storeText(test), config);
    ASSERT_EQ(result.error, "");
    ASSERT_EQ(result.report.findings.size(), 0u) << result.text();
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint8_t byte : result.buffers[3])
      hash = (hash ^ byte) * 0x100000001b3u;
    EXPECT_EQ(hash, cardResults[i]);
  }
}

TEST(Wmma, ResultsMayReplaceOperands) {
  // The first of the two mma must not change what the second one reads.
  WmmaCase test{16, 16, 16, &f16, &f16, &f16, "rrr"};
  std::string loads = declareRegisters(test);
  RunConfig config;
  for (unsigned j = 0; j < 3; ++j) {
    config.buffers[j] = Inputs(j).make(f16, 256);
    loads += loadText(test, "abc"[j], "%g" + std::to_string(j), false);
  }
  RunResult expected = runBody(loads + mmaText(test) + storeText(test), config);
  std::string mma = mmaText(test), store = storeText(test);
  for (const char *to : {"{%wc3,%wc2,%wc1,%wc0}", "{%wb0,%wb1,%wb2,%wb3}",
                         "{%wa3,%wb2,%wc2,%wa0}"}) {
    auto replace = [&](std::string text) {
      return text.replace(text.find("{%wd0,%wd1,%wd2,%wd3}"), 21, to);
    };
    RunResult got = runBody(loads + replace(mma) + replace(store), config);
    ASSERT_EQ(got.error, "");
    EXPECT_EQ(got.buffers[3], expected.buffers[3]) << to;
  }
}

TEST(Wmma, IntegersSaturateOnDemand) {
  WmmaCase test{16, 16, 16, &s8, &s32, &s32, "rcr"};
  RunConfig config;
  config.buffers[0].assign(256, 127);
  config.buffers[1].assign(256, 127);
  config.buffers[2] = bytesOf(std::vector<int32_t>(256, INT32_MAX - 1));
  std::string body = declareRegisters(test);
  for (unsigned j = 0; j < 3; ++j)
    body += loadText(test, "abc"[j], "%g" + std::to_string(j), false);
  std::string mma = mmaText(test);
  EXPECT_EQ(static_cast<int32_t>(
                runBody(body + mma + storeText(test), config).word(3, 255)),
            static_cast<int32_t>(INT32_MAX - 1u + 16u * 127 * 127));
  mma.replace(mma.find(".s32 "), 5, ".s32.satfinite ");
  EXPECT_EQ(runBody(body + mma + storeText(test), config).word(3, 255),
            uint32_t(INT32_MAX));
}

//===----------------------------------------------------------------------===//
// Kernels of nvcc
//===----------------------------------------------------------------------===//

static std::vector<uint16_t> halves(unsigned count, unsigned seed) {
  std::vector<uint16_t> data;
  for (unsigned i = 0; i < count; ++i)
    data.push_back(static_cast<uint16_t>(
        halfFromFloat(float(int((i * 37 + seed * 11) % 64) - 32) / 16)));
  return data;
}

static double valueOf(uint16_t half) { return floatFromHalf(half); }

TEST(Wmma, TiledProductOfHalves) {
  constexpr unsigned n = 128;
  Launcher l("wmma.ptx");
  std::vector<uint16_t> a = halves(n * n, 1), b = halves(n * n, 2);
  l.input("a", a);
  l.input("b", b);
  uint64_t c = l.output("c", n * n * 4);
  l.arguments.addValue<int>(n);
  Report report = l.run("gemm", {n / 64, n / 64, 1}, {128, 1, 1});
  std::vector<float> got = l.read<float>(c, n * n);
  // Sums of multiples of 2^-8 below 2^16, so exact in f32.
  for (unsigned i = 0; i < n; ++i)
    for (unsigned j = 0; j < n; ++j) {
      double sum = 0;
      for (unsigned k = 0; k < n; ++k)
        sum += valueOf(a[i * n + k]) * valueOf(b[j * n + k]);
      ASSERT_EQ(got[i * n + j], sum) << i << ", " << j;
    }
  // Two for each of the wmma.mma.
  EXPECT_EQ(report.counters.mma, 2u * (n / 16) * (n / 16) * (n / 16));
}

TEST(Wmma, ElementsOfFragmentsMeet) {
  Launcher l("wmma.ptx");
  std::vector<uint16_t> a = halves(256, 3), b = halves(256, 4);
  std::vector<float> c(256);
  for (unsigned i = 0; i < 256; ++i)
    c[i] = float(i);
  l.input("a", a);
  l.input("b", b);
  l.input("c", c);
  uint64_t d = l.output("d", 1024);
  l.run("epilogue", {1, 1, 1}, {32, 1, 1});
  std::vector<float> got = l.read<float>(d, 256);
  for (unsigned i = 0; i < 16; ++i)
    for (unsigned j = 0; j < 16; ++j) {
      double sum = 0;
      for (unsigned k = 0; k < 16; ++k)
        sum += 2 * valueOf(a[i * 16 + k]) * valueOf(b[k * 16 + j]);
      ASSERT_EQ(got[i * 16 + j], std::fmax(sum, 0.0) + c[j * 16 + i]);
    }
}

/// The kernel NAME_rr or NAME_cc with strides larger than the tile.
template <typename T, typename Sum, typename Value>
static void checkShape(const std::string &name, bool isRow, unsigned m,
                       unsigned n, unsigned k, Value value, T makeOne(int)) {
  SCOPED_TRACE(name);
  auto stride = [&](unsigned rows, unsigned columns) {
    return (isRow ? columns : rows) + 16;
  };
  auto at = [&](unsigned i, unsigned j, unsigned stride) {
    return isRow ? i * stride + j : j * stride + i;
  };
  unsigned lda = stride(m, k), ldb = stride(k, n), ldc = stride(m, n);
  std::vector<T> a(48 * 48), b(48 * 48);
  std::vector<Sum> c(48 * 48);
  for (unsigned i = 0; i < 48 * 48; ++i) {
    a[i] = makeOne(int(i * 7 % 13));
    b[i] = makeOne(int(i * 5 % 11));
    c[i] = Sum(i % 17);
  }
  Launcher l("wmma.ptx");
  l.input("a", a);
  l.input("b", b);
  l.input("c", c);
  uint64_t d = l.output("d", 48 * 48 * sizeof(Sum));
  l.arguments.addValue(lda).addValue(ldb).addValue(ldc);
  l.run(name.c_str(), {1, 1, 1}, {32, 1, 1});
  std::vector<Sum> got = l.read<Sum>(d, 48 * 48);
  for (unsigned i = 0; i < m; ++i)
    for (unsigned j = 0; j < n; ++j) {
      double sum = double(c[at(i, j, ldc)]);
      for (unsigned x = 0; x < k; ++x)
        sum += value(a[at(i, x, lda)]) * value(b[at(x, j, ldb)]);
      ASSERT_EQ(double(got[at(i, j, ldc)]), sum) << i << ", " << j;
    }
}

TEST(Wmma, EveryShapeOfEveryType) {
  auto number = [](auto x) { return double(x); };
  auto bfloat = [](uint16_t x) { return double(floatFromBfloat(x)); };
  for (bool isRow : {true, false}) {
    std::string suffix = isRow ? "_rr" : "_cc";
    for (auto [m, n] : {std::pair(16u, 16u), {32u, 8u}, {8u, 32u}}) {
      std::string shape =
          "_m" + std::to_string(m) + "n" + std::to_string(n) + "k16" + suffix;
      checkShape<uint16_t, float>(
          "f16" + shape, isRow, m, n, 16, valueOf, +[](int i) -> uint16_t {
            return static_cast<uint16_t>(halfFromFloat(float(i - 6)));
          });
      checkShape<uint16_t, float>(
          "bf16" + shape, isRow, m, n, 16, bfloat, +[](int i) -> uint16_t {
            return static_cast<uint16_t>(bfloatFromFloat(float(i - 6)));
          });
      checkShape<int8_t, int>(
          "s8" + shape, isRow, m, n, 16, number,
          +[](int i) { return static_cast<int8_t>(20 * (i - 6)); });
      checkShape<uint8_t, int>(
          "u8" + shape, isRow, m, n, 16, number,
          +[](int i) { return static_cast<uint8_t>(20 * i); });
    }
    checkShape<float, float>(
        "tf32_m16n16k8" + suffix, isRow, 16, 16, 8, number,
        +[](int i) { return float(i - 6); });
  }
}

//===----------------------------------------------------------------------===//
// What is wrong is found
//===----------------------------------------------------------------------===//

static const WmmaCase plain{16, 16, 16, &f16, &f32, &f32, "rcr"};

static RunConfig plainInputs() {
  RunConfig config;
  config.buffers[0] = Inputs(1).make(f16, 256);
  config.buffers[1] = Inputs(2).make(f16, 256);
  config.buffers[2] = Inputs(3).make(f32, 256);
  return config;
}

static std::string plainBody() {
  return declareRegisters(plain) + loadText(plain, 'a', "%g0", false) +
         loadText(plain, 'b', "%g1", false) +
         loadText(plain, 'c', "%g2", false) + mmaText(plain) + storeText(plain);
}

TEST(Wmma, ElementsOutOfBoundsAndUnwrittenAreFound) {
  RunConfig config = plainInputs();
  EXPECT_TRUE(runBody(plainBody(), config).report.clean());
  config.buffers[0].resize(510);
  EXPECT_EQ(runBody(plainBody(), config).count(FindingKind::OutOfBounds), 1u);
  config = plainInputs();
  config.buffers[1].clear(); // poison
  EXPECT_GE(
      runBody(plainBody(), config).count(FindingKind::UninitializedMemory), 1u);
  config = plainInputs();
  config.outputBytes = 1020;
  EXPECT_EQ(runBody(plainBody(), config).count(FindingKind::OutOfBounds), 1u);
}

TEST(Wmma, AccessesRaceLikeOthers) {
  // Two warps store the same tile.
  RunConfig config = plainInputs();
  config.block = {64, 1, 1};
  RunResult result = runBody(
      declareRegisters(plain) + loadText(plain, 'c', "%g2", false) +
          "mov.u32 %t, %tid.x; cvt.rn.f32.u32 %wd0, %t;\n" +
          "mov.f32 %wd1, %wd0; mov.f32 %wd2, %wd0; mov.f32 %wd3, %wd0;\n"
          "mov.f32 %wd4, %wd0; mov.f32 %wd5, %wd0; mov.f32 %wd6, %wd0;\n"
          "mov.f32 %wd7, %wd0; mov.u64 %g3, tile;\n"
          "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%g3], " +
          registers('d', 8) + ", 16;\n",
      config, ".shared .align 32 .b8 tile[1024];");
  ASSERT_EQ(result.error, "");
  EXPECT_GE(result.count(FindingKind::SharedRace), 1u) << result.text();
}

/// Products and a tile of shared memory, in parts that a test puts together.
static RunResult runTile(const std::vector<std::string> &parts) {
  // %r3: the pair of floats that the lane has of a fragment here.
  std::string body =
      declareRegisters(plain) + loadText(plain, 'a', "%g0", false) +
      loadText(plain, 'b', "%g1", false) + loadText(plain, 'c', "%g2", false) +
      "mov.u32 %r0, tile; shr.u32 %r1, %t, 2; and.b32 %r2, %t, 3;\n"
      "mad.lo.u32 %r3, %r1, 64, %r0; mad.lo.u32 %r3, %r2, 8, %r3;\n" +
      mmaText(plain);
  for (const std::string &part : parts)
    body += part;
  return runBody(body, plainInputs(), ".shared .align 32 .b8 tile[1024];");
}

TEST(Wmma, NoLaneHasAnElementOfItsOwn) {
  // Here a lane would read what it stored itself, which PTX does not promise.
  const std::string store = "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32"
                            " [%r0], " +
                            registers('d', 8) + ", 16;\n",
                    load =
                        "wmma.load.c.sync.aligned.row.m16n16k16.shared.f32 " +
                        registers('c', 8) + ", [%r0], 16;\n",
                    barrier = "bar.warp.sync -1;\n",
                    readPair = "ld.shared.v2.f32 {%f0, %f1}, [%r3];\n",
                    writePair = "st.shared.v2.f32 [%r3], {%wd0, %wd1};\n";
  auto countRaces = [](const std::vector<std::string> &parts) {
    RunResult result = runTile(parts);
    EXPECT_EQ(result.error, "");
    EXPECT_EQ(result.count(FindingKind::SharedRace),
              result.report.findings.size())
        << result.text();
    return result.report.findings.size();
  };
  EXPECT_EQ(countRaces({store, barrier, readPair}), 0u);
  EXPECT_EQ(countRaces({store, readPair}), 1u);
  EXPECT_EQ(countRaces({store, load}), 4u);
  EXPECT_EQ(countRaces({store, barrier, writePair, barrier, load}), 0u);
  EXPECT_EQ(countRaces({store, barrier, writePair, load}), 1u);
  // A tile in its own place.
  EXPECT_EQ(
      countRaces({store, barrier, load, mmaText(plain), store, barrier, load}),
      0u);
}

TEST(Wmma, AllLanesHaveToBeThere) {
  RunConfig config = plainInputs();
  RunResult result = runBody("setp.lt.u32 %p0, %t, 16;\n@!%p0 bra OUT;\n" +
                                 plainBody() + "OUT:\n",
                             config);
  ASSERT_EQ(result.error, "");
  EXPECT_GE(result.count(FindingKind::DivergentCollective), 1u)
      << result.text();
}

TEST(Wmma, BankConflictsAreCounted) {
  // Rows of 256 bytes all start at the first bank; 16 bytes more spread them.
  for (auto [stride, wavefronts] : {std::pair(128u, 8u), {136u, 1u}}) {
    std::string body = declareRegisters(plain) +
                       "mov.u64 %g3, tile;\n"
                       "wmma.load.a.sync.aligned.row.m16n16k16."
                       "shared.f16 " +
                       registers('a', 8) + ", [%g3], " +
                       std::to_string(stride) + ";\n";
    RunConfig config;
    config.options.checks = CheckMemory;
    RunResult result =
        runBody(body, config, ".shared .align 32 .b8 tile[4352];");
    ASSERT_EQ(result.error, "");
    EXPECT_EQ(result.report.counters.wavefronts, 4 * wavefronts) << stride;
    EXPECT_EQ(result.report.counters.idealWavefronts, 4u);
  }
}

TEST(Wmma, WhatDoesNotExistIsRefused) {
  for (const auto &[text, message] :
       {std::pair("wmma.load.a.sync.aligned.row.m8n8k4.global.f64 %r0, [%g0];",
                  "f64, 4-bit and 1-bit types are not supported"),
        std::pair("wmma.load.a.sync.aligned.row.m16n16k16.global.tf32 "
                  "{%r0,%r1,%r2,%r3}, [%g0];",
                  "has no such type at this shape"),
        std::pair("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 "
                  "{%r0,%r1,%r2,%r3}, [%g0];",
                  "expects 8 registers in a wmma fragment, but got 4"),
        std::pair("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 "
                  "{%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%g0], -16;",
                  "expects a stride of 0 to 1073741823 elements, but got -16"),
        std::pair("wmma.load.a.sync.aligned.m16n16k16.global.f16 "
                  "{%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%g0];",
                  "expects wmma.load.{a,b,c} or wmma.store.d with"),
        std::pair("wmma.mma.sync.aligned.row.col.m16n16k16.f32.s8.s8.f32 "
                  "%r0, %r1, %r2, %r3;",
                  "expects wmma.mma of f16 with f16 or f32 accumulators"),
        std::pair("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32.satfinite "
                  "%r0, %r1, %r2, %r3;",
                  "expects wmma.mma of f16"),
        std::pair("wmma.fill %r0;", "expects wmma.load, wmma.store or "
                                    "wmma.mma, but got 'wmma.fill'")})
    EXPECT_NE(loadBodyError(text).find(message), std::string::npos)
        << loadBodyError(text);
}
