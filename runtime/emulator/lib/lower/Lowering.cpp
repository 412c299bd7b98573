//===- Lowering.cpp - Functions, scopes and statements --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Walks a kernel, keeps its scopes, lays out its storage and hands each
// instruction to the function that knows its opcode. See Lowering.h.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"
#include "flashcore/Emulator/Printable.h"

#include <algorithm>

using namespace flashcore::emu;

// Bounds on what a small text may grow to, since calls are inlined.
static constexpr size_t maxInstructions = 1u << 20;
static constexpr size_t maxStatements = 4u << 20;
static constexpr size_t maxScopeDepth = 512;
static constexpr uint32_t maxFrameGranules = 1u << 18; // 16 MiB a warp
static constexpr uint64_t maxGlobalBytes = uint64_t(512) << 20;

//===----------------------------------------------------------------------===//
// Modifiers
//===----------------------------------------------------------------------===//

Modifiers::Modifiers(std::string_view opcode) {
  while (true) {
    size_t dot = opcode.find('.');
    std::string_view part = opcode.substr(0, dot);
    // Blanks may stand between an opcode and its modifiers.
    while (!part.empty() && (part.back() == ' ' || part.back() == '\t' ||
                             part.back() == '\n' || part.back() == '\r'))
      part.remove_suffix(1);
    parts.push_back(part);
    if (dot == std::string_view::npos)
      break;
    opcode.remove_prefix(dot + 1);
  }
  taken.assign(parts.size(), false);
  taken[0] = true;
}

bool Modifiers::take(std::string_view word) {
  for (size_t i = 1; i < parts.size(); ++i)
    if (!taken[i] && parts[i] == word)
      return taken[i] = true;
  return false;
}

bool Modifiers::has(std::string_view word) const {
  for (size_t i = 1; i < parts.size(); ++i)
    if (!taken[i] && parts[i] == word)
      return true;
  return false;
}

int Modifiers::takeOneOf(std::initializer_list<std::string_view> words) {
  int index = 0;
  for (std::string_view word : words) {
    if (take(word))
      return index;
    ++index;
  }
  return -1;
}

int Modifiers::takeNext(std::initializer_list<std::string_view> words) {
  for (size_t i = 1; i < parts.size(); ++i) {
    const auto *word = std::find(words.begin(), words.end(), parts[i]);
    if (taken[i] || word == words.end())
      continue;
    taken[i] = true;
    return static_cast<int>(word - words.begin());
  }
  return -1;
}

ScalarType Modifiers::takeType() {
  for (size_t i = 1; i < parts.size(); ++i) {
    ScalarType type = typeFromName(parts[i]);
    if (!taken[i] && type != ScalarType::None) {
      taken[i] = true;
      return type;
    }
  }
  return ScalarType::None;
}

std::string_view Modifiers::takePrefix(std::string_view prefix) {
  for (size_t i = 1; i < parts.size(); ++i)
    if (!taken[i] && parts[i].starts_with(prefix)) {
      taken[i] = true;
      return parts[i];
    }
  return {};
}

std::string_view Modifiers::leftover() const {
  for (size_t i = 1; i < parts.size(); ++i)
    if (!taken[i])
      return parts[i];
  return {};
}

//===----------------------------------------------------------------------===//
// Errors, scopes, storage
//===----------------------------------------------------------------------===//

bool Lowering::fail(SrcLoc loc, const std::string &message) {
  if (!hasError)
    firstError = {loc, printable(message)};
  hasError = true;
  return false;
}

void Lowering::pushScope() {
  uint32_t parent = scopes.empty() ? 0 : scopes.back().id;
  scopes.emplace_back();
  scopes.back().id = static_cast<uint32_t>(scopeParents.size());
  scopeParents.push_back(parent);
}

void Lowering::popScope() { scopes.pop_back(); }

static uint64_t alignUp(uint64_t value, uint64_t align) {
  return (value + align - 1) / align * align;
}

uint64_t Lowering::placeShared(const PtxVariable &variable) {
  uint64_t align = variable.align;
  uint64_t offset = placeBehind(sharedCursor, align);
  sharedCursor = offset + variable.bytes;
  program.staticSharedBytes =
      alignUp(program.staticSharedBytes, align) + variable.bytes;
  program.shared.push_back({std::string(variable.name),
                            offset,
                            variable.bytes,
                            variable.align,
                            false,
                            {},
                            {}});
  return offset;
}

bool Lowering::declare(const PtxVariable &variable) {
  Symbol symbol;
  symbol.type = variable.type;
  symbol.space = variable.space;
  switch (variable.space) {
  case StateSpace::Reg:
    symbol.kind =
        variable.rangeCount ? Symbol::Kind::Range : Symbol::Kind::Register;
    symbol.rangeCount = variable.rangeCount;
    if (variable.type == ScalarType::B128)
      return fail(variable.loc, std::string("registers of type .") +
                                    typeName(variable.type) +
                                    " are not supported");
    break;
  case StateSpace::Shared:
    symbol.kind = Symbol::Kind::Variable;
    if (variable.isExtern || (variable.isArray && variable.bytes == 0)) {
      symbol.isDynamic = true;
      hasDynamic = true;
      dynamicAlign = std::max(dynamicAlign, variable.align);
    } else {
      symbol.address = placeShared(variable);
    }
    break;
  case StateSpace::Local:
  case StateSpace::Param: // of a call: lives in the frame of the caller
    symbol.kind = Symbol::Kind::Variable;
    symbol.space = StateSpace::Local;
    symbol.address = alignUp(program.localBytes, variable.align);
    program.localBytes = symbol.address + variable.bytes;
    if (program.localBytes > (512u << 10))
      return fail(variable.loc, "local memory is limited to 512 KiB a thread");
    break;
  default:
    return fail(variable.loc, std::string("cannot declare '") +
                                  std::string(variable.name) +
                                  "' in this state space inside a function");
  }
  auto [it, inserted] = scopes.back().symbols.insert({variable.name, symbol});
  if (!inserted)
    return fail(variable.loc, "'" + std::string(variable.name) +
                                  "' is declared twice in one scope");
  return true;
}

/// Makes a symbol of the module known when the kernel first names it, so that
/// loading takes no longer for what else there is in a module.
Lowering::Symbol *Lowering::declareModuleVariable(std::string_view name) {
  const PtxVariable *variable = module.findVariable(name);
  if (!variable)
    return nullptr;
  Symbol symbol;
  if (variable->space == StateSpace::Shared) {
    // declare() works on the innermost scope.
    scopes.push_back(Scope{});
    if (declare(*variable))
      symbol = scopes.back().symbols[variable->name];
    scopes.pop_back();
  } else {
    symbol.kind = Symbol::Kind::Variable;
    symbol.space = variable->space;
    symbol.global = variable;
  }
  return &scopes.front().symbols.insert({variable->name, symbol}).first->second;
}

/// Places a module variable the kernel names, and those its initialiser names.
uint32_t Lowering::placeGlobal(const PtxVariable &first) {
  std::vector<const PtxVariable *> pending;
  auto place = [&](const PtxVariable &variable) {
    uint32_t next = static_cast<uint32_t>(program.globals.size());
    auto [it, inserted] = globalIndices.insert({&variable, next});
    if (!inserted)
      return it->second;
    globalBytes += variable.bytes;
    if (globalBytes > maxGlobalBytes)
      fail(variable.loc, "the module variables of a kernel are limited to 512 "
                         "MiB, which '" +
                             std::string(variable.name) + "' exceeds");
    if (variable.isExtern && !hasError)
      fail(variable.loc, "unresolved variable '" + std::string(variable.name) +
                             "'; link its definition into the module");
    if (variable.isTexture && !hasError)
      fail(variable.loc, "'" + std::string(variable.name) +
                             "' needs textures or surfaces, which the emulator "
                             "does not have");
    program.globals.push_back({std::string(variable.name),
                               0,
                               variable.bytes,
                               variable.align,
                               false,
                               variable.init,
                               {}});
    pending.push_back(&variable);
    return next;
  };
  uint32_t index = place(first);
  while (!pending.empty() && !hasError) {
    const PtxVariable &variable = *pending.back();
    pending.pop_back();
    for (const PtxInitAddress &init : variable.addresses) {
      const PtxVariable *named = module.findVariable(init.name);
      if (!named || named->space == StateSpace::Shared) {
        std::string quoted = "'" + std::string(init.name) + "'";
        fail(
            init.loc,
            module.find(init.name)
                ? "'" + std::string(variable.name) +
                      "' holds the address of "
                      "function " +
                      quoted +
                      ": it needs function pointers, "
                      "which the emulator does not have"
                : "expects the name of a .global or .const variable, but got " +
                      quoted);
        break;
      }
      uint32_t target = place(*named);
      program.globals[globalIndices[&variable]].addresses.push_back(
          {init.offset, target, init.addend});
    }
  }
  return index;
}

bool Lowering::layoutParams(const PtxFunction &kernel) {
  for (const PtxVariable &param : kernel.params) {
    if (param.space != StateSpace::Param || param.bytes == 0)
      return fail(param.loc, "expects kernel parameters in .param");
    Symbol symbol;
    symbol.kind = Symbol::Kind::Variable;
    symbol.space = StateSpace::Param;
    symbol.address = alignUp(program.paramBytes, param.align);
    scopes.back().symbols[param.name] = symbol;
    program.params.push_back(
        {std::string(param.name), static_cast<uint32_t>(symbol.address),
         static_cast<uint32_t>(param.bytes),
         param.isArray ? ScalarType::B8 : param.type, param.align, param.isPtr,
         param.pointeeSpace, param.pointeeAlign});
    program.paramBytes = static_cast<uint32_t>(symbol.address + param.bytes);
    if (symbol.address + param.bytes > 32764)
      return fail(param.loc, "kernel parameters are limited to 32764 bytes");
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

bool Lowering::run(std::string_view kernelName) {
  const PtxFunction *kernel = module.find(kernelName);
  if (!kernel || !kernel->isEntry || !kernel->hasBody) {
    std::string known;
    for (const PtxFunction &f : module.functions)
      if (f.isEntry && f.hasBody)
        known += (known.empty() ? "" : ", ") + std::string(f.name);
    return fail({}, "no kernel '" + std::string(kernelName) +
                        "' in this module; it has " +
                        (known.empty() ? "none" : known));
  }
  if (kernel->error)
    return fail(kernel->error->loc, kernel->error->message);
  if (kernel->clusterSize > 1)
    return fail(kernel->loc,
                "'.reqnctapercluster' of " +
                    std::to_string(kernel->clusterSize) +
                    " CTAs needs clusters of sm_90, which the emulator does "
                    "not have");
  program.name = kernelName;
  program.target = module.target;
  std::copy_n(kernel->reqntid, 3, program.reqntid);
  std::copy_n(kernel->maxntid, 3, program.maxntid);
  program.isExplicitCluster = kernel->isExplicitCluster;
  program.maxRegisters = kernel->maxRegisters;
  program.minCtas = kernel->minCtas;
  pushScope(); // of the module
  pushScope();
  if (!layoutParams(*kernel))
    return false;
  callStack.push_back(kernel);
  if (!lowerBody(*kernel))
    return false;
  // Falling off the end of a kernel ends it.
  guard = noGranule;
  emit(InstKind::Exit, InstClass::Control).hidden = true;
  if (!resolveFixups())
    return false;
  finish();
  return true;
}

bool Lowering::lowerBody(const PtxFunction &body) {
  const PtxFunction *outer = function;
  size_t depth = scopes.size();
  function = &body;
  if (depth > maxScopeDepth)
    return fail(body.loc, "scopes are nested more than 512 deep after "
                          "inlining");
  pushScope();
  for (const auto &[name, targets] : body.tables) {
    Symbol symbol;
    symbol.kind = Symbol::Kind::Table;
    scopes.back().symbols[name] = symbol;
  }
  for (const PtxStatement &statement : body.body)
    if (!lowerStatement(body, statement))
      return false;
  while (scopes.size() > depth)
    popScope();
  function = outer;
  return true;
}

bool Lowering::lowerStatement(const PtxFunction &body,
                              const PtxStatement &statement) {
  if (++numStatements > maxStatements)
    return fail(statement.loc,
                "kernel has more than 4194304 statements after inlining");
  switch (statement.kind) {
  case PtxStatement::Kind::Open:
    pushScope();
    return true;
  case PtxStatement::Kind::Close:
    popScope();
    return true;
  case PtxStatement::Kind::Variable:
    return declare(body.variables[statement.index]);
  case PtxStatement::Kind::Loc:
    program.sources.push_back({statement.file, statement.source});
    currentSource = static_cast<uint32_t>(program.sources.size());
    return true;
  case PtxStatement::Kind::Label: {
    auto key = std::make_pair(scopes.back().id, statement.name);
    uint32_t pc = static_cast<uint32_t>(program.code.size());
    if (!labels.insert({key, pc}).second)
      return fail(statement.loc, "label '" + std::string(statement.name) +
                                     "' is defined twice in one scope");
    return true;
  }
  case PtxStatement::Kind::Instruction:
    return lowerInstruction(body.instructions[statement.index]);
  }
  return false;
}

bool Lowering::lowerInstruction(const PtxInstruction &instruction) {
  inst = &instruction;
  mods = Modifiers(instruction.opcode);
  guard = noGranule;
  guardNegated = instruction.guardNegated;
  if (!instruction.guard.empty()) {
    PtxOperand operand;
    operand.kind = PtxOperand::Kind::Symbol;
    operand.name = instruction.guard;
    operand.loc = instruction.loc;
    if (!registerOperand(operand, ScalarType::Pred, guard))
      return false;
  }
  std::string_view feature = unsupportedFeature(instruction.opcode);
  if (!feature.empty())
    return failUnsupported(instruction.opcode, feature);
  const auto &table = opcodeTable();
  auto it = table.find(mods.base());
  if (it == table.end())
    return failHere("unknown instruction '" +
                    std::string(instruction.opcode.substr(0, 60)) + "'");
  std::string opcode(instruction.opcode.substr(0, 60));
  if (!(this->*it->second)() || hasError)
    return failHere("'" + opcode + "' is not supported in this form");
  // Inlining a call replaces the modifiers by those of its last instruction.
  if (inst == &instruction && !mods.leftover().empty())
    return failHere("modifier '." + std::string(mods.leftover().substr(0, 40)) +
                    "' is not supported on '" + opcode + "'");
  if (program.code.size() > maxInstructions)
    return failHere("kernel has more than 1048576 instructions after inlining");
  if (program.frameGranules > maxFrameGranules)
    return failHere("kernel uses more than 16 MiB of registers a warp");
  return true;
}

bool Lowering::failUnsupported(std::string_view name,
                               std::string_view feature) {
  return failHere("'" + std::string(name.substr(0, 60)) + "' needs " +
                  std::string(feature) + ", which the emulator does not have");
}

bool Lowering::resolveFixups() {
  for (const Fixup &fixup : fixups) {
    auto it = labels.end();
    for (uint32_t scope = fixup.scope;; scope = scopeParents[scope]) {
      it = labels.find({scope, fixup.label});
      if (it != labels.end() || scope == 0)
        break;
    }
    if (it == labels.end())
      return fail(fixup.loc,
                  "undefined label '" + std::string(fixup.label) + "'");
    if (fixup.table < 0)
      program.code[fixup.inst].target = it->second;
    else
      program.tables[static_cast<size_t>(fixup.table)].push_back(it->second);
  }
  return true;
}

void Lowering::finish() {
  program.sharedEnd = sharedCursor;
  program.dynamicSharedAlign = dynamicAlign;
  if (hasDynamic)
    program.shared.push_back(
        {"dynamic shared memory", 0, 0, dynamicAlign, true, {}, {}});
  program.staticSharedBytes = alignUp(program.staticSharedBytes, dynamicAlign);

  uint32_t maxFile = 0;
  for (const SourceLoc &source : program.sources)
    maxFile = std::max(maxFile, std::min(source.file, 4096u));
  program.files.resize(maxFile + 1);
  for (const auto &[number, name] : module.files)
    if (number <= maxFile)
      program.files[number] = name;
  for (Inst &out : program.code)
    if (out.kind == InstKind::Alu && out.op == AluOp::Convert)
      out.conversion = &program.conversions[out.target];
}

Expected<Program> flashcore::emu::lowerKernel(const PtxModule &module,
                                              std::string_view name) {
  Program program;
  Lowering lowering(module, program);
  if (!lowering.run(name))
    return module.explained(lowering.error());
  return program;
}

const char *flashcore::emu::instClassName(InstClass cls) {
  static constexpr const char *names[] = {
      "integer", "float",  "half",    "convert", "special", "predicate", "move",
      "control", "memory", "shuffle", "barrier", "async",   "matrix"};
  return names[static_cast<size_t>(cls)];
}
