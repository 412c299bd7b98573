//===- Parallel.cpp - CTAs on several threads -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Parallel.h. Each thread has a Machine of its own, with its own shadow
// memory; they share the buffers and the marks.
//
//===----------------------------------------------------------------------===//

#include "Parallel.h"
#include "Machine.h"

#include <algorithm>
#include <thread>

using namespace flashcore::emu;

static constexpr uint32_t severalReaders = UINT32_MAX;

//===----------------------------------------------------------------------===//
// Speculation
//===----------------------------------------------------------------------===//

bool Speculation::prepare(unsigned grain) {
  grainShift = static_cast<unsigned>(std::countr_zero(grain));
  for (const Buffer &buffer : memory.buffers) {
    BufferState &state = states.emplace_back();
    if (!buffer.live)
      continue;
    state.cells.reset(static_cast<size_t>(buffer.bytes >> grainShift) + 1);
    if (!state.cells)
      return false;
  }
  return true;
}

bool Speculation::markRead(Cell &cell, uint32_t mark) {
  std::atomic_ref<uint32_t> reader(cell.reader), writer(cell.writer);
  uint32_t before = reader.load();
  while (before != mark && before != severalReaders &&
         !reader.compare_exchange_weak(before, before ? severalReaders : mark))
    ;
  uint32_t other = writer.load();
  return other == 0 || other == mark;
}

bool Speculation::markWritten(Cell &cell, uint32_t mark) {
  std::atomic_ref<uint32_t> reader(cell.reader), writer(cell.writer);
  uint32_t before = writer.load();
  if (before == 0)
    writer.compare_exchange_strong(before, mark);
  if (before != 0 && before != mark)
    return false;
  uint32_t other = reader.load();
  return other == 0 || other == mark;
}

bool Speculation::claim(const Buffer &buffer, uint64_t offset, unsigned bytes,
                        uint32_t cta, bool isWrite) {
  BufferState &state = states[memory.indexOf(buffer)];
  if (isWrite)
    std::call_once(state.once, [&] {
      state.data = buffer.data;
      state.init = buffer.init;
      state.isSaved = true;
    });
  const uint32_t mark = cta + 1;
  size_t last = static_cast<size_t>((offset + bytes - 1) >> grainShift);
  for (size_t i = static_cast<size_t>(offset >> grainShift); i <= last; ++i) {
    Cell &cell = state.cells[i];
    if (isWrite ? markWritten(cell, mark) : markRead(cell, mark))
      continue;
    fail();
    return false;
  }
  return true;
}

bool Speculation::count(uint64_t more) {
  uint64_t total =
      instructions.fetch_add(more, std::memory_order_relaxed) + more;
  if (maxInstructions && total > maxInstructions)
    fail();
  return !hasFailed();
}

void Speculation::rollBack() {
  for (size_t i = 0; i < states.size(); ++i) {
    if (!states[i].isSaved)
      continue;
    memory.buffers[i].data = std::move(states[i].data);
    memory.buffers[i].init = std::move(states[i].init);
  }
}

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

/// What in the program makes CTAs depend on each other or on their order; empty
/// if nothing is known to. A fence orders only what the others do.
std::string Machine::whyInTurn() const {
  if (options.trace)
    return "the trace is of one thread";
  for (const Inst &inst : program.code) {
    bool mayBeGlobal =
        inst.space == StateSpace::Global || inst.space == StateSpace::Generic;
    const char *what = nullptr;
    if (inst.kind == InstKind::Atomic && mayBeGlobal)
      what = "an atomic on global memory";
    else if (inst.isStrong && mayBeGlobal &&
             (inst.kind == InstKind::Load || inst.kind == InstKind::Store))
      what = "a volatile, relaxed, acquire or release access";
    else if (inst.kind == InstKind::SystemCall &&
             static_cast<SystemCall>(inst.mode) == SystemCall::Vprintf)
      what = "a printf";
    else if (inst.kind == InstKind::Clock)
      what = "a read of the clock";
    if (what)
      return "line " + std::to_string(inst.line) + " is " + what;
  }
  return {};
}

/// Claims what the lanes are about to touch. If the attempt fails by that, no
/// lane may go on.
void Machine::claimGlobal(LaneAccess &access,
                          Buffer *const (&buffers)[warpSize], bool isWrite) {
  bool isOurs = true;
  forEachLane(access.lanes, [&](unsigned lane) {
    uint64_t offset = access.address[lane] - buffers[lane]->base;
    isOurs = isOurs && speculation->claim(*buffers[lane], offset, access.bytes,
                                          cta->index, isWrite);
  });
  if (isOurs)
    return;
  halted = true;
  access.lanes = 0;
}

/// Runs CTAs until none is left or the attempt fails. What the host refuses (a
/// worker without memory) is left to the run in turn, on the caller's thread.
void Machine::runWorker(CtaQueue &queue, Speculation &shared) noexcept {
  try {
    speculation = &shared;
    run(queue);
  } catch (...) {
    shared.fail();
  }
}

void Machine::addCounters(const Machine &other) {
  instructions += other.instructions;
  globalReadBytes += other.globalReadBytes;
  globalWriteBytes += other.globalWriteBytes;
  for (size_t pc = 0; pc < perPc.size(); ++pc)
    perPc[pc].add(other.perPc[pc]);
  addNeed(other.alignmentNeed);
}

/// One attempt. True if it succeeded, and then the counters are in this
/// machine; else it left no trace but the note why.
bool Machine::runSpeculatively(unsigned threads) {
  threadsNote = "not enough memory for the shadows of several threads";
  Speculation shared(memory, options.maxInstructions);
  if (!shared.prepare(program.globalGrain))
    return false;
  CtaQueue queue(config.grid.count());
  std::deque<Machine> workers;
  for (unsigned i = 0; i < threads; ++i) {
    Machine &worker = workers.emplace_back(program, memory, config, options);
    worker.params = params;
    if (!worker.setUp().message.empty())
      return false;
  }
  std::vector<std::thread> running;
  running.reserve(threads);
  try {
    for (unsigned i = 1; i < threads; ++i)
      running.emplace_back(&Machine::runWorker, &workers[i], std::ref(queue),
                           std::ref(shared));
  } catch (const std::exception &) {
    // The host gives no more threads; those there are share the work.
  }
  workers[0].runWorker(queue, shared);
  for (std::thread &thread : running)
    thread.join();
  if (shared.hasFailed()) {
    shared.rollBack();
    threadsNote = "CTAs depend on each other, or something was found";
    return false;
  }
  threadsNote.clear();
  for (const Machine &worker : workers)
    addCounters(worker);
  threadsUsed = static_cast<unsigned>(running.size()) + 1;
  return true;
}

void Machine::runGrid() {
  uint64_t threads =
      options.threads ? options.threads : std::thread::hardware_concurrency();
  threads = std::min(threads, config.grid.count());
  if (threads > 1) {
    threadsNote = whyInTurn();
    if (threadsNote.empty() && runSpeculatively(static_cast<unsigned>(threads)))
      return reportAlignment();
  }
  CtaQueue queue(config.grid.count());
  run(queue);
  reportAlignment();
  if (!halted)
    reportUndefinedStores();
}
