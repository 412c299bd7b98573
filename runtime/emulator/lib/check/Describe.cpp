//===- Describe.cpp - Findings in words -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns addresses, registers and access words back into the names of the PTX
// text. Runs only when a new finding is recorded.
//
//===----------------------------------------------------------------------===//

#include "../sim/Machine.h"
#include "flashcore/Emulator/Printable.h"

#include <algorithm>
#include <cstdio>

using namespace flashcore::emu;

std::string Machine::sourceOf(const Inst &inst) const {
  if (!inst.source)
    return {};
  const SourceLoc &source = program.sources[inst.source - 1];
  std::string file = source.file < program.files.size()
                         ? program.files[source.file]
                         : std::string();
  if (file.empty())
    file = "file " + std::to_string(source.file);
  return file + ":" + std::to_string(source.loc.line) + ":" +
         std::to_string(source.loc.column);
}

std::string Machine::lineOf(uint32_t pc) const {
  return pc < program.code.size() ? std::to_string(program.code[pc].line) : "?";
}

Place Machine::placeOf(const Warp &warp, const Inst &inst,
                       uint32_t lanes) const {
  Place place;
  place.line = inst.line;
  place.source = sourceOf(inst);
  std::copy_n(cta->id, 3, place.cta);
  place.warp = warp.index;
  place.lanes = lanes;
  return place;
}

Place Machine::placeOf(AccessWord access) const {
  Place place;
  const Segment &segment = segments[access.segment()];
  if (access.pc() < program.code.size()) {
    place.line = program.code[access.pc()].line;
    place.source = sourceOf(program.code[access.pc()]);
  }
  const uint32_t index = segment.cta & ~AsyncAgent::cta(0);
  place.cta[0] = index % config.grid.x;
  place.cta[1] = index / config.grid.x % config.grid.y;
  place.cta[2] = index / config.grid.x / config.grid.y;
  place.warp = segment.issuer;
  place.lanes = access.lane() < warpSize ? 1u << access.lane() : ~0u;
  return place;
}

Place Machine::placeOf(uint32_t pc, uint32_t ctaIndex, uint32_t warp,
                       unsigned lane) const {
  Place place;
  place.line = program.code[pc].line;
  place.source = sourceOf(program.code[pc]);
  place.cta[0] = ctaIndex % config.grid.x;
  place.cta[1] = ctaIndex / config.grid.x % config.grid.y;
  place.cta[2] = ctaIndex / config.grid.x / config.grid.y;
  place.warp = warp;
  place.lanes = 1u << lane;
  return place;
}

static std::string distance(uint64_t bytes) {
  return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
}

/// "4 bytes past the end of 'V' (65536 bytes)" and the like.
static std::string relativeTo(const std::string &name, int64_t offset,
                              uint64_t size, uint64_t bytes) {
  std::string object = "'" + name + "' (" + distance(size) + ")";
  if (offset < 0)
    return distance(static_cast<uint64_t>(-offset)) + " before the start of " +
           object;
  uint64_t end = static_cast<uint64_t>(offset) + bytes;
  if (end <= size)
    return "byte " + std::to_string(offset) + " of " + object;
  if (static_cast<uint64_t>(offset) < size)
    return distance(end - size) + " of the access past the end of " + object;
  return distance(static_cast<uint64_t>(offset) - size) + " past the end of " +
         object;
}

std::string Machine::nameShared(uint64_t address, uint64_t bytes) const {
  if (address >= sharedWindow)
    return "a generic address used as a shared one; convert it with "
           "cvta.to.shared";
  const StorageVar *best = nullptr;
  uint64_t bestDistance = UINT64_MAX;
  for (const StorageVar &var : sharedVars) {
    uint64_t away = address < var.offset ? var.offset - address
                    : address >= var.offset + var.bytes
                        ? address - var.offset - var.bytes + 1
                        : 0;
    if (away < bestDistance) {
      bestDistance = away;
      best = &var;
    }
  }
  if (!best)
    return "the kernel has no shared memory; pass its dynamic size at launch";
  return relativeTo(best->name, static_cast<int64_t>(address - best->offset),
                    best->bytes, bytes);
}

std::string Machine::nameGlobal(uint64_t address, uint64_t bytes) const {
  const Buffer *buffer = memory.owner(address);
  char hex[32];
  std::snprintf(hex, sizeof hex, "0x%llx",
                static_cast<unsigned long long>(address));
  if (!buffer)
    return std::string("address ") + hex + " belongs to no buffer";
  std::string text =
      relativeTo(buffer->name, static_cast<int64_t>(address - buffer->base),
                 buffer->bytes, bytes);
  return buffer->live ? text : text + ", which has been released";
}

std::string Machine::describeOperand(uint32_t granule) const {
  for (const RegisterName &reg : program.registers)
    if (reg.granule == granule)
      return reg.name;
  return "a temporary";
}

void Machine::addFinding(uint64_t key, Finding finding) {
  if (speculation) {
    speculation->fail();
    halted = true;
    return;
  }
  // Strings of the PTX and names of buffers are part of the text.
  finding.message = printable(finding.message);
  finding.place.source = printable(finding.place.source);
  finding.other.source = printable(finding.other.source);
  if (isNote(finding.kind)) {
    if (notes.size() < options.maxFindings)
      notes.add(key, std::move(finding));
    return;
  }
  findings.add(key, std::move(finding));
  if (findings.size() >= options.maxFindings)
    halted = true;
}
