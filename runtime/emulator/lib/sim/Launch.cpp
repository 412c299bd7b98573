//===- Launch.cpp - From a launch to warps that run -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks a launch, lays out its memory, and runs its CTAs one after the other.
// A CTA that does not finish in its turn lets others start, so that CTAs may
// wait for each other.
//
//===----------------------------------------------------------------------===//

#include "../report/QuoteLines.h"
#include "Machine.h"
#include "flashcore/Emulator/Printable.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <numeric>

using namespace flashcore::emu;

static constexpr uint64_t ctaTurn = 4'000'000;
static constexpr size_t maxResidentCtas = 256;

/// 89 of "sm_89", 90 of "sm_90a"; 0 for what is no chip.
static unsigned numberOf(std::string_view target) {
  unsigned number = 0;
  if (target.starts_with("sm_"))
    std::from_chars(target.data() + 3, target.data() + target.size(), number);
  return number;
}

Machine::Machine(const Program &program, DeviceMemory::Impl &memory,
                 const LaunchConfig &config, const LaunchOptions &options)
    : program(program), memory(memory), config(config), options(options),
      handlers(selectHandlers()) {
  if (options.checks & CheckSameValue)
    this->options.checks |= CheckRace;
  MmaRounding rounding = options.mma;
  if (rounding == MmaRounding::Auto)
    rounding =
        numberOf(program.target) >= 90 ? MmaRounding::Sm90 : MmaRounding::Sm80;
  mmaModel.plain = rounding == MmaRounding::Plain;
  mmaModel.group = rounding == MmaRounding::Sm90 ? 16 : 8;
  mmaModel.fractionBits = rounding == MmaRounding::Sm90 ? 25 : 24;
  mmaModel.zeroExponent = rounding == MmaRounding::Sm90 ? -133 : -132;
  mmaModelName = rounding == MmaRounding::Plain  ? "plain f32 fma"
                 : rounding == MmaRounding::Sm90 ? "sm_90"
                                                 : "sm_80..sm_89";
}

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

static std::string shape(const Dim3 &dim) {
  return std::to_string(dim.x) + "x" + std::to_string(dim.y) + "x" +
         std::to_string(dim.z);
}

/// Chips that the table lacks have what those before them have.
uint64_t flashcore::emu::sharedBytesOf(std::string_view target) {
  static constexpr std::pair<unsigned, uint64_t> limits[] = {
#define FLASHCORE_CAPABILITY(number, sharedPerBlock, sharedPerSM, registers,   \
                             threads, blocks)                                  \
  {number, sharedPerBlock},
#include "flashcore/Target/Capabilities.def"
  };
  uint64_t kibibytes = 48; // before 7.0
  for (const auto &[chip, most] : limits)
    if (chip <= numberOf(target))
      kibibytes = most;
  return kibibytes << 10;
}

Error Machine::checkShared() const {
  uint64_t shared = program.staticSharedBytes + config.dynamicSharedBytes;
  if (shared < config.dynamicSharedBytes)
    shared = UINT64_MAX;
  // Shared addresses have 32 bits.
  uint64_t limit = std::min<uint64_t>(options.maxSharedBytes, UINT32_MAX);
  std::string whose;
  if (!limit) {
    limit = sharedBytesOf(program.target);
    whose = " of " + program.target;
  }
  if (shared > limit)
    return {{},
            "kernel '" + program.name + "' needs " + std::to_string(shared) +
                " bytes of shared memory per block, but the limit" + whose +
                " is " + std::to_string(limit)};
  return {};
}

Error Machine::checkLaunch(const Arguments &arguments) const {
  const Dim3 &grid = config.grid, &block = config.block;
  if (grid.count() == 0 || grid.y > 65535 || grid.z > 65535 ||
      grid.x > 0x7fffffffu || grid.count() > 0xffffffffu)
    return {{},
            "expects a grid of 1x1x1 to 2147483647x65535x65535, but got " +
                shape(grid)};
  if (block.count() == 0 || block.count() > 1024 || block.z > 64)
    return {{},
            "expects a block of 1 to 1024 threads, but got " + shape(block)};
  Dim3 required{program.reqntid[0], program.reqntid[1], program.reqntid[2]};
  if (required.x &&
      (required.x != block.x || required.y != block.y || required.z != block.z))
    return {{},
            "kernel '" + program.name + "' requires block " + shape(required) +
                ", but got " + shape(block)};
  uint64_t most =
      uint64_t(program.maxntid[0]) * program.maxntid[1] * program.maxntid[2];
  if (most && block.count() > most)
    return {{},
            "kernel '" + program.name + "' allows at most " +
                std::to_string(most) + " threads a block, but got " +
                std::to_string(block.count())};
  if (Error error = checkShared(); !error.message.empty())
    return error;
  if (options.threads > maxThreads)
    return {{},
            "expects at most " + std::to_string(maxThreads) +
                " threads, but got " + std::to_string(options.threads)};
  const auto &values = arguments.list();
  if (values.size() != program.params.size())
    return {{},
            "kernel '" + program.name + "' takes " +
                std::to_string(program.params.size()) + " arguments, but got " +
                std::to_string(values.size())};
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i].size() != program.params[i].bytes)
      return {{},
              "argument " + std::to_string(i) + " ('" + program.params[i].name +
                  "') expects " + std::to_string(program.params[i].bytes) +
                  " bytes, but got " + std::to_string(values[i].size())};
  return {};
}

void Machine::placeGlobals() {
  size_t first = memory.buffers.size();
  for (const StorageVar &var : program.globals) {
    Buffer &buffer = memory.create(var.name, var.bytes);
    // Module variables are zero unless initialised (PTX ISA, section 5.4.5).
    std::fill(buffer.data.begin(), buffer.data.end(), uint8_t(0));
    std::copy(var.init.begin(), var.init.end(), buffer.data.begin());
    buffer.init.fill(0, buffer.bytes, true);
  }
  for (size_t i = 0; i < program.globals.size(); ++i)
    for (const AddressInit &init : program.globals[i].addresses) {
      uint64_t address = memory.buffers[first + init.target].base +
                         static_cast<uint64_t>(init.addend);
      std::memcpy(memory.buffers[first + i].data.data() + init.offset, &address,
                  sizeof address);
    }
}

/// The registers of a fresh warp: constants set, all else poison.
void Machine::setUpTemplate() {
  frameTemplate.assign(size_t(program.frameGranules) * granuleBytes,
                       char(0xff));
  initTemplate.assign(program.frameGranules, 0);
  auto store = [&](uint32_t granule, unsigned bytes, uint64_t bits) {
    char *at = frameTemplate.data() + size_t(granule) * granuleBytes;
    initTemplate[granule] = ~0u;
    if (bytes == 0) {
      uint32_t mask = bits ? ~0u : 0u;
      std::memcpy(at, &mask, 4);
      return;
    }
    for (unsigned lane = 0; lane < warpSize; ++lane)
      std::memcpy(at + lane * bytes, &bits, bytes);
  };
  for (const FrameConstant &constant : program.constants)
    store(constant.granule, constant.bytes,
          constant.bits + (constant.isDynamicShared ? dynamicShared : 0));
  size_t first = memory.buffers.size() - program.globals.size();
  std::unordered_map<uint32_t, unsigned> widths;
  for (const FrameConstant &constant : program.constants)
    widths[constant.granule] = constant.bytes;
  for (const Program::GlobalRef &ref : program.globalRefs) {
    auto width = widths.find(ref.granule);
    store(ref.granule, width == widths.end() ? 8 : width->second,
          memory.buffers[first + ref.index].base +
              static_cast<uint64_t>(ref.addend));
  }
}

Error Machine::prepare(const Arguments &arguments) {
  Error error = checkLaunch(arguments);
  if (!error.message.empty())
    return error;
  params.assign(program.paramBytes, 0);
  for (size_t i = 0; i < program.params.size(); ++i)
    std::copy(arguments.list()[i].begin(), arguments.list()[i].end(),
              params.begin() + program.params[i].offset);
  placeGlobals();
  return setUp();
}

/// A driver promises 1024 bytes of alignment to a kernel without static shared
/// memory, and no more.
void Machine::placeDynamicShared() {
  uint64_t align = program.dynamicSharedAlign;
  sharedVars = program.shared;
  if (options.sharedBase == SharedBase::Driver)
    align = std::max(align, driverSharedAlign);
  bool isUsed = !sharedVars.empty() && sharedVars.back().isDynamic;
  dynamicShared = placeBehind(program.sharedEnd, isUsed ? align : 1);
  if (isUsed) {
    sharedVars.back().offset = dynamicShared;
    sharedVars.back().bytes = config.dynamicSharedBytes;
  }
  sharedSize = dynamicShared + config.dynamicSharedBytes + 64;
}

/// What each machine of a launch has for itself.
Error Machine::setUp() {
  placeDynamicShared();
  setUpTemplate();
  numWarps = static_cast<unsigned>((config.block.count() + 31) / 32);
  perPc.assign(program.code.size(), {});
  globalShadows.resize(memory.buffers.size());
  if (isOn(CheckLayout)) {
    setUpLabels();
    wmmaPlan = planWmma(program);
  }
  if (isOn(CheckRace))
    for (const Buffer &buffer : memory.buffers)
      if (buffer.live && !globalShadows[memory.indexOf(buffer)].reset(
                             buffer.bytes, program.globalGrain))
        return {{},
                "not enough memory to check '" + buffer.name +
                    "' for races; leave out that check"};
  return {};
}

//===----------------------------------------------------------------------===//
// CTAs and warps
//===----------------------------------------------------------------------===//

static uint32_t specialValue(SpecialReg reg, unsigned lane, const Warp &warp,
                             const Cta &cta, const LaunchConfig &config,
                             uint64_t sharedBytes) {
  const Dim3 &block = config.block;
  uint32_t thread = warp.index * warpSize + lane;
  uint32_t bit = 1u << lane;
  switch (reg) {
  case SpecialReg::TidX:
    return thread % block.x;
  case SpecialReg::TidY:
    return thread / block.x % block.y;
  case SpecialReg::TidZ:
    return thread / block.x / block.y;
  case SpecialReg::NtidX:
    return block.x;
  case SpecialReg::NtidY:
    return block.y;
  case SpecialReg::NtidZ:
    return block.z;
  case SpecialReg::CtaidX:
  case SpecialReg::CtaidY:
  case SpecialReg::CtaidZ:
    return cta.id[unsigned(reg) - unsigned(SpecialReg::CtaidX)];
  case SpecialReg::NctaidX:
    return config.grid.x;
  case SpecialReg::NctaidY:
    return config.grid.y;
  case SpecialReg::NctaidZ:
    return config.grid.z;
  case SpecialReg::LaneId:
    return lane;
  case SpecialReg::WarpId:
    return warp.index;
  case SpecialReg::NwarpId:
    return static_cast<uint32_t>(cta.warps.size());
  case SpecialReg::LanemaskEq:
    return bit;
  case SpecialReg::LanemaskLt:
    return bit - 1;
  case SpecialReg::LanemaskLe:
    return bit | (bit - 1);
  case SpecialReg::LanemaskGt:
    return ~(bit | (bit - 1));
  case SpecialReg::LanemaskGe:
    return ~(bit - 1);
  case SpecialReg::DynamicSmemSize:
    return static_cast<uint32_t>(config.dynamicSharedBytes);
  case SpecialReg::TotalSmemSize:
    return static_cast<uint32_t>(sharedBytes);
  case SpecialReg::NsmId:
  case SpecialReg::ClusterNctaid:
    return 1;
  default:
    return 0;
  }
}

void Machine::startWarp(Cta &owner, Warp &warp) {
  size_t frameBytes = frameTemplate.size();
  if (!warp.frame)
    warp.frame.reset(static_cast<char *>(
        ::operator new[](2 * frameBytes, std::align_val_t(64))));
  warp.frameBytes = frameBytes;
  // What a read of an unwritten register gives must not depend on the CTA that
  // had the frame before.
  std::memcpy(warp.frame.get(), frameTemplate.data(), frameBytes);
  warp.defined = initTemplate;
  warp.hasUndefined = false;
  warp.pendingChoices.clear();
  if (labelling)
    warp.labels.reset(labelPlan);
  warp.wmmaLoads.assign(wmmaPlan.numSlots, 0);
  uint64_t threads = config.block.count() - uint64_t(warp.index) * warpSize;
  warp.launched = threads >= warpSize ? ~0u : (1u << threads) - 1;
  warp.live = warp.launched;
  warp.groups.assign(
      1, LaneGroup{0, warp.launched, LaneGroup::State::Ready, false});
  warp.copies.clear();
  std::fill(std::begin(warp.committed), std::end(warp.committed), 0u);
  warp.issuedCopies = 0;
  warp.commits.clear();
  warp.clusterArrived = warp.clusterDone = 0;
  warp.turns = 0;
  warp.probeGap = 0;
  warp.hasActed = false;
  warp.probeAt = warp.executed + firstProbe;
  warp.waitsSince = UINT64_MAX;
  warp.clock = WarpClock();
  warp.clock.cta = owner.index;
  warp.clock.warp = warp.index;
  warp.clock.threads = warp.launched;
  if (program.localBytes) {
    warp.local.assign(program.localBytes * warpSize, 0xff);
    if (isOn(CheckInit))
      warp.localUndefined.reset(program.localBytes * warpSize);
  }
  uint64_t sharedBytes = program.staticSharedBytes + config.dynamicSharedBytes;
  for (const FrameSpecial &special : program.specials) {
    for (unsigned lane = 0; lane < warpSize; ++lane) {
      uint32_t value =
          specialValue(special.reg, lane, warp, owner, config, sharedBytes);
      if (special.bytes == 8)
        warp.reg<uint64_t>(special.granule)[lane] = value;
      else if (special.bytes == 2)
        warp.reg<uint16_t>(special.granule)[lane] =
            static_cast<uint16_t>(value);
      else
        warp.reg<uint32_t>(special.granule)[lane] = value;
    }
    warp.defined[special.granule] = ~0u;
  }
}

static uint64_t seedOfCta(uint64_t seed, uint32_t index) {
  // An odd constant (2^64 over the golden ratio) keeps near seeds apart.
  return seed + index * uint64_t(0x9e3779b97f4a7c15);
}

void Machine::startCta(Cta &next, uint32_t index) {
  next.index = index;
  next.id[0] = index % config.grid.x;
  next.id[1] = index / config.grid.x % config.grid.y;
  next.id[2] = index / config.grid.x / config.grid.y;
  next.shared.assign(sharedSize, 0xff);
  if (options.checks & (CheckRace | CheckAsync))
    next.shadow.reset(sharedSize, program.sharedGrain, numWarps);
  if (isOn(CheckInit))
    next.undefined.reset(sharedSize);
  if (labelling && labelPlan.throughShared)
    next.labels.assign(sharedSize / 2 + 1, 0);
  next.stored.reset(index);
  for (CtaBarrier &barrier : next.barriers)
    barrier = CtaBarrier();
  next.clusterDone = CtaBarrier();
  next.messages.clear();
  if (program.usesAsyncProxy)
    setUpAsync(next);
  next.launchedThreads = next.liveThreads =
      static_cast<uint32_t>(config.block.count());
  next.exitedThreads = 0;
  next.executed = next.probeGap = 0;
  next.probeAt = firstCtaProbe;
  next.repeatsSince = UINT64_MAX;
  if (options.schedule == Schedule::Random)
    next.scheduleRandom.seed(seedOfCta(options.scheduleSeed, index));
  if (options.async == AsyncMode::Random)
    next.asyncRandom.seed(seedOfCta(options.asyncSeed, index));
  next.warps.resize(numWarps);
  for (unsigned i = 0; i < numWarps; ++i) {
    next.warps[i].index = i;
    startWarp(next, next.warps[i]);
  }
}

uint64_t Machine::sliceLength(Cta &owner) {
  if (options.schedule == Schedule::Random)
    return 1 + owner.scheduleRandom() % 400;
  return warpTurn;
}

/// The order in which warps get their turns, but for that of a random schedule.
std::vector<unsigned> Machine::orderOfWarps(const Cta &owner) const {
  std::vector<unsigned> order(owner.warps.size());
  std::iota(order.begin(), order.end(), 0u);
  if (options.schedule == Schedule::Skewed)
    std::reverse(order.begin(), order.end());
  return order;
}

/// Gives each warp a turn until nothing can run or the budget is used up.
Machine::Outcome Machine::runWarps(Cta &owner, uint64_t budget) {
  uint64_t start = instructions, before = owner.executed;
  std::vector<unsigned> order = orderOfWarps(owner);
  while (!stopped() && !ctaFailed) {
    owner.executed = before + (instructions - start);
    if (lookForRepeat(owner))
      return Outcome::Waiting;
    if (options.schedule == Schedule::Random) {
      // From a fixed order, as a turn of the CTA may have begun in between.
      std::iota(order.begin(), order.end(), 0u);
      std::shuffle(order.begin(), order.end(), owner.scheduleRandom);
    }
    bool progress = false, waits = false;
    for (unsigned index : order) {
      Warp &warp = owner.warps[index];
      if (!warp.isReady())
        continue;
      waits |= isWaiting(warp);
      if (isWaiting(warp))
        continue;
      progress = true;
      runTurn(warp, sliceLength(owner));
      if (stopped() || ctaFailed)
        return Outcome::Done;
    }
    if (owner.liveThreads == 0)
      return Outcome::Done;
    if (!progress)
      return waits ? Outcome::Waiting : Outcome::Stuck;
    if (instructions - start > budget)
      return Outcome::Progress;
  }
  return Outcome::Done;
}

Machine::Outcome Machine::runCta(Cta &owner, uint64_t budget) {
  cta = &owner;
  ctaFailed = false;
  while (true) {
    Outcome outcome = runWarps(owner, budget);
    if (outcome != Outcome::Stuck)
      return outcome;
    if (!unblock(owner)) {
      reportDeadlock(owner);
      return Outcome::Done;
    }
  }
}

void Machine::run(CtaQueue &queue) {
  std::deque<Cta> spare;
  while (!stopped() && (!queue.isEmpty() || !resident.empty())) {
    // Start a CTA when none runs, or when those that run wait for others.
    bool progress = false;
    uint32_t next = 0;
    if (resident.size() < maxResidentCtas && queue.take(next)) {
      progress = true;
      if (spare.empty()) {
        resident.emplace_back();
      } else {
        resident.push_back(std::move(spare.back()));
        spare.pop_back();
      }
      startCta(resident.back(), next);
    }
    for (size_t i = resident.size(); i-- > 0 && !stopped();) {
      uint64_t turn =
          !queue.isEmpty() || resident.size() > 1 ? ctaTurn : UINT64_MAX;
      uint64_t before = instructions;
      Outcome outcome = runCta(resident[i], turn);
      progress |= outcome == Outcome::Done || instructions != before;
      if (outcome != Outcome::Done)
        continue;
      spare.push_back(std::move(resident[i]));
      resident.erase(resident.begin() + static_cast<ptrdiff_t>(i));
    }
    for (size_t i = 0; i < resident.size() && !progress; ++i) {
      cta = &resident[i];
      progress = !repeats(resident[i]) && unblock(resident[i]);
    }
    if (!progress && !resident.empty())
      reportSpins(queue.left());
  }
}

//===----------------------------------------------------------------------===//
// When nothing can run
//===----------------------------------------------------------------------===//

/// Lets collectives that wait for lanes in vain go on, after a finding.
bool Machine::unblock(Cta &owner) {
  bool any = false;
  // The last group of lanes may have arrived just when its turn ended.
  for (Warp &warp : owner.warps) {
    size_t before = warp.groups.size();
    mergeGroups(warp);
    any |= warp.groups.size() != before;
  }
  if (any || endWaits(owner))
    return true;
  if (owner.async && !owner.async->waiters.empty())
    return false;
  for (Warp &warp : owner.warps) {
    for (LaneGroup &group : warp.groups) {
      if (group.state != LaneGroup::State::AtCollective)
        continue;
      const Inst &inst = program.code[group.pc];
      uint32_t missing = warp.launched & ~group.lanes;
      if (isOn(CheckSync))
        find(FindingKind::DivergentCollective, warp, inst, group.lanes, [&] {
          std::string where;
          if (missing & ~warp.live)
            where = "exited";
          for (const LaneGroup &other : warp.groups)
            if (&other != &group)
              where += (where.empty() ? "wait at line " : ", wait at line ") +
                       lineOf(other.pc);
          return Text{std::to_string(std::popcount(group.lanes)) +
                          " lanes execute a collective that the other " +
                          std::to_string(std::popcount(missing)) +
                          " lanes of the warp do not reach; they " + where,
                      "all lanes a collective names must execute it together "
                      "(PTX ISA 9.7.13, 9.7.14: .aligned, membermask)"};
        });
      group.forced = true;
      group.state = LaneGroup::State::Ready;
      any = true;
    }
  }
  return any;
}

void Machine::reportDeadlock(Cta &owner) {
  if (owner.async)
    reportWaits(owner);
  for (unsigned id = 0; id < std::size(owner.barriers); ++id) {
    const CtaBarrier &barrier = owner.barriers[id];
    if (!barrier.active || barrier.waiters.empty() || !isOn(CheckSync))
      continue;
    const CtaBarrier::Waiter &first = barrier.waiters.front();
    Warp &warp = owner.warps[first.warp];
    find(FindingKind::Deadlock, warp, program.code[first.pc], first.lanes, [&] {
      std::string text = "deadlock: ";
      for (const CtaBarrier::Waiter &waiter : barrier.waiters)
        text += "warp " + std::to_string(waiter.warp) + " (line " +
                lineOf(waiter.pc) + "), ";
      text += (id == clusterBarrier
                   ? "wait at the barrier of the cluster for "
                   : "wait at barrier " + std::to_string(id) + " for ") +
              std::to_string(barrier.expected ? barrier.expected
                                              : owner.liveThreads) +
              " threads, but only " + std::to_string(barrier.arrived) +
              " arrived and nothing else can run";
      return Text{text, "a barrier completes when all its threads have arrived "
                        "(PTX ISA 9.7.13.1)"};
    });
  }
}

//===----------------------------------------------------------------------===//
// Entry
//===----------------------------------------------------------------------===//

Report Machine::report(double seconds) const {
  Report out;
  out.kernel = program.name;
  out.findings = findings.all();
  out.notes = notes.all();
  out.droppedText = droppedText;
  out.numCtas = config.grid.count();
  out.warpsPerCta = numWarps;
  out.sharedBytes = program.staticSharedBytes + config.dynamicSharedBytes;
  out.seconds = seconds;
  out.threads = threadsUsed;
  out.threadsNote = threadsNote;
  out.mmaModel = mmaModelName;
  out.usesApproximations = program.usesApproximations;
  Counters &c = out.counters;
  uint64_t byClass[size_t(InstClass::Count)] = {};
  c.warpInstructions = instructions;
  for (size_t pc = 0; pc < perPc.size(); ++pc) {
    const PcCounters &p = perPc[pc];
    const Inst &inst = program.code[pc];
    if (!p.executed || inst.hidden)
      continue;
    byClass[size_t(inst.cls)] += p.executed;
    c.mma += inst.kind == InstKind::Mma ? p.executed : 0;
    c.wavefronts += p.wavefronts;
    c.idealWavefronts += p.idealWavefronts;
    c.sectors += p.sectors;
    c.idealSectors += p.idealSectors;
    c.sharedBytes += p.sharedBytes;
    if (!p.wavefronts && !p.sectors)
      continue;
    // Of one instruction that takes several, as wmma.load does.
    if (!c.lines.empty() && c.lines.back().line == inst.line &&
        program.code[pc - 1].line == inst.line) {
      LineCounters &line = c.lines.back();
      line.wavefronts += p.wavefronts;
      line.idealWavefronts += p.idealWavefronts;
      line.sectors += p.sectors;
      line.idealSectors += p.idealSectors;
      line.sharedBytes += p.sharedBytes;
      line.globalBytes += p.globalBytes;
      continue;
    }
    c.lines.push_back({inst.line, printable(sourceOf(inst)), p.executed,
                       p.wavefronts, p.idealWavefronts, p.sectors,
                       p.idealSectors, p.sharedBytes, p.globalBytes});
  }
  c.globalReadBytes = globalReadBytes;
  c.globalWriteBytes = globalWriteBytes;
  for (size_t i = 0; i < size_t(InstClass::Count); ++i)
    c.classes.emplace_back(instClassName(static_cast<InstClass>(i)),
                           byClass[i]);
  return out;
}

Expected<Report> flashcore::emu::launch(const Kernel &kernel,
                                        DeviceMemory &memory,
                                        const LaunchConfig &config,
                                        const Arguments &arguments,
                                        const LaunchOptions &options) {
  auto start = std::chrono::steady_clock::now();
  DeviceMemory::Impl &buffers = memory.internals();
  size_t before = buffers.buffers.size();
  Machine machine(kernel.program(), buffers, config, options);
  Error error = machine.prepare(arguments);
  if (error.message.empty())
    machine.runGrid();
  double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  // Module variables live for one launch.
  while (buffers.buffers.size() > before)
    buffers.buffers.pop_back();
  if (!error.message.empty())
    return error;
  Report report = machine.report(seconds);
  quoteLines(report, *kernel.module->source);
  if (report.droppedText)
    std::fprintf(stderr,
                 "%s: %llu bytes of printf text after the first %llu dropped\n",
                 printable(report.kernel).c_str(),
                 static_cast<unsigned long long>(report.droppedText),
                 static_cast<unsigned long long>(Report::maxText));
  return report;
}
