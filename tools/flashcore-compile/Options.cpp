//===- Options.cpp - The command line of flashcore-compile ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All options and the rules between them, which hold whatever the input says.
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include "Phases.h"
#include "flashcore/Compiler/Compile.h"
#include "flashcore/Compiler/Shape.h"
#include "flashcore/Support/ErrorStream.h"
#include "flashcore/Target/TargetInfo.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/ManagedStatic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"

#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

using namespace mlir;
using namespace mlir::flashcore;
namespace cl = llvm::cl;

namespace {
// --help lists them by their names.
cl::OptionCategory inputAndOutput("Input and output");
cl::OptionCategory inspection("Looking inside");
cl::OptionCategory schedule("Schedule (what is left out is chosen)",
                            "Options of the pass flashcore-configure; "
                            "--explain shows what was chosen and why.");
cl::OptionCategory target("Target");

constexpr char examples[] = R"(
EXAMPLES:
  flashcore-compile attention.mlir -o attention.ptx
  flashcore-compile attention.mlir --chip=sm_90 --explain -o /dev/null
  flashcore-compile attention.mlir --emit=bundle --chip=sm_80,sm_89,sm_90a \
      -o attention.fcb
  flashcore-compile --shape='b1 h32/8 s4096 d128 bf16 causal' --emit=bundle \
      -o attention.fcb
  flashcore-compile model.mlir --function=decode --emit=bundle -o decode.fcb
  flashcore-compile attention.mlir --print-phases=3 -o /dev/null

EXIT CODES: 0 success, 1 the input, or the schedule that options or a tuning file
ask for, cannot be compiled, 2 the command line is wrong, or another file or
ptxas that it names.
)";

/// An option that is stored in the Options. LLVM's parsers quote a wrong value
/// in an error on llvm::errs(); no number, flag or enumerator holds a control
/// character.
template <typename T> struct Stored : cl::opt<T, /*ExternalStorage=*/true> {
  using cl::opt<T, /*ExternalStorage=*/true>::opt;

  bool handleOccurrence(unsigned position, StringRef name,
                        StringRef value) override {
    constexpr bool isText = std::is_same_v<T, std::string>;
    std::string shown = isText ? value.str() : escapeControls(value);
    T result{};
    if (this->getParser().parse(*this, name, shown, result))
      return true;
    this->setValue(result);
    this->setPosition(position);
    return false;
  }
};

/// "sm_80, sm_90 or sm_90a": all there are.
std::string nameChips() {
  std::string text;
  for (const TargetInfo &known : getTargets())
    text += (text.empty()                     ? ""
             : &known == &getTargets().back() ? " or "
                                              : ", ") +
            known.chip.str();
  return text;
}

/// Made on first use and not with the process: in the multi-call executable
/// other tools have options of the same names.
struct CommandLine {
  Options values;

  Stored<std::string> inputFile{cl::Positional, cl::location(values.input),
                                cl::init("-"), cl::desc("<input .mlir>"),
                                cl::cat(inputAndOutput)};
  cl::opt<std::string> shape{
      "shape",
      cl::desc("Compile the attention that these words describe in place of a "
               "file, such as 'b1 h32/8 s4096 d128 bf16 causal'; they are "
               "listed below"),
      cl::value_desc("words"), cl::cat(inputAndOutput)};
  Stored<std::string> function{
      "function", cl::location(values.function), cl::value_desc("name"),
      cl::desc("Compile the attention of this function only; name.0, name.1, "
               "... where it has several (default: all)"),
      cl::cat(inputAndOutput)};
  Stored<bool> allowUnregisteredDialects{
      "allow-unregistered-dialect",
      cl::location(values.allowUnregisteredDialects),
      cl::desc("Let ops of unknown dialects, in generic form, stand beside the "
               "attention"),
      cl::cat(inputAndOutput)};
  Stored<std::string> outputFile{
      "o",
      cl::location(values.output),
      cl::init("-"),
      cl::value_desc("path"),
      cl::desc("Output file, or directory of a bundle; for the bundles of "
               "several attentions a directory with a NAME.fcb for each "
               "(default: -, standard output)"),
      cl::cat(inputAndOutput)};
  Stored<Emit> emitKind{
      "emit",
      cl::location(values.emit),
      cl::desc("What to write:"),
      cl::init(Emit::PTX),
      cl::values(clEnumValN(Emit::Input, "input",
                            "the module that was read, or that --shape stands "
                            "for; nothing is compiled"),
                 clEnumValN(Emit::MLIR, "mlir", "LLVM and NVVM ops"),
                 clEnumValN(Emit::LLVM, "llvm", "optimised LLVM IR"),
                 clEnumValN(Emit::PTX, "ptx", "PTX (default)"),
                 clEnumValN(Emit::Cubin, "cubin", "machine code, with ptxas"),
                 clEnumValN(Emit::Bundle, "bundle",
                            "a directory with PTX, cubin and manifest")),
      cl::cat(inputAndOutput)};
  Stored<bool> noCubin{"no-cubin", cl::location(values.noCubin),
                       cl::desc("Write a bundle with PTX only; needs no ptxas"),
                       cl::cat(inputAndOutput)};

  std::string chipHelp =
      nameChips() +
      ", or for a bundle several, of which a device takes the newest that it "
      "has room for: code for sm_90a runs on compute capability 9.0 alone, and "
      "kernels for sm_80 and sm_90 may need more shared memory than 8.6, 8.9 "
      "and 12.x have, so that sm_80,sm_86,sm_90a is for all from 8.0 on "
      "(default: that of the #nvvm.target on other kernels of the module, else "
      "sm_89)";
  cl::list<std::string> chips{"chip", cl::CommaSeparated,
                              cl::value_desc("chip,..."), cl::desc(chipHelp),
                              cl::cat(target)};
  Stored<bool> listChips{
      "list-chips", cl::location(values.listChips),
      cl::desc("Print the chips that kernels are made for, a line each, oldest "
               "first, and stop"),
      cl::cat(target)};
  Stored<bool> listOperands{
      "list-operands", cl::location(values.listOperands),
      cl::desc("Print the operands that an attention may have, a line each, "
               "with the clause that names each, and stop"),
      cl::cat(inspection)};
  Stored<std::string> ptxasPath{
      "ptxas", cl::location(values.ptxas), cl::value_desc("path"),
      cl::desc("NVIDIA's assembler (default: in $CUDA_HOME/bin, on PATH, or "
               "beside this program)"),
      cl::cat(target)};

  cl::opt<std::string> printPhases{
      "print-phases", cl::ValueOptional, cl::value_desc("phase,..."),
      cl::desc("Print the IR after each phase, or after these (by number or "
               "first word), to standard error"),
      cl::cat(inspection)};
  Stored<std::string> phasesDirectory{
      "print-phases-to", cl::location(values.phasesDirectory),
      cl::value_desc("directory"),
      cl::desc("Print phases into files of this directory"),
      cl::cat(inspection)};
  Stored<bool> explain{
      "explain", cl::location(values.explain),
      cl::desc("Say on standard error what was chosen and why, what the "
               "kernel uses and what limits it"),
      cl::cat(inspection)};
  Stored<std::string> json{
      "json", cl::location(values.json), cl::value_desc("path"),
      cl::desc("Write what --explain and -v say to this file as JSON; - is "
               "standard output"),
      cl::cat(inspection)};
  Stored<bool> timing{
      "timing", cl::location(values.timing),
      cl::desc("Print the time of each phase to standard error"),
      cl::cat(inspection)};
  Stored<bool> verbose{"v", cl::location(values.verbose),
                       cl::desc("Say on standard error what each kernel uses"),
                       cl::cat(inspection)};

  ConfigurePassOptions &options = values.schedule;
  Stored<std::string> tuningFile{
      "tuning-file", cl::location(options.tuningFile),
      cl::desc("File with schedules of flashcore-tune, for what the other "
               "options leave open"),
      cl::value_desc("value"), cl::cat(schedule)};
  Stored<std::string> namedSchedule{
      "schedule", cl::location(options.schedule),
      cl::desc("A schedule that has a name, such as scalar, +async or default "
               "(docs/Ladder.md), for what the other options leave open"),
      cl::value_desc("value"), cl::cat(schedule)};
  Stored<bool> listScheduleFields{
      "list-schedule-fields", cl::location(values.listScheduleFields),
      cl::desc("Print the fields of a schedule, a line each, with the option "
               "and the values of each, and stop"),
      cl::cat(schedule)};
  Stored<bool> listSchedules{
      "list-schedules", cl::location(values.listSchedules),
      cl::desc("Print the schedules that have a name, a line each, and stop"),
      cl::cat(schedule)};
  Stored<int64_t> fewQueries{
      "few-queries", cl::location(options.fewQueries),
      cl::desc("Make kernels of their own for calls of at most so many queries "
               "of a sequence, where seqlen_q is known at run time only"),
      cl::value_desc("n"), cl::cat(schedule)};
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  std::string name##Help = fcgpu::describeOption<Type>(text);                  \
  Stored<fcgpu::FieldOption<Type>> name{                                       \
      option, cl::location(options.name), cl::desc(name##Help),                \
      cl::value_desc(std::is_integral_v<Type> ? "n" : "value"),                \
      cl::cat(schedule)};
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"

  cl::extrahelp shapeWords{shapeHelp};
  cl::extrahelp moreHelp{examples};
};
llvm::ManagedStatic<CommandLine> commandLine;

llvm::Error makeError(const llvm::Twine &text) {
  return llvm::createStringError(text);
}
} // namespace

StringRef mlir::flashcore::stringify(Emit kind) {
  static constexpr StringLiteral names[] = {"input", "mlir",  "llvm",
                                            "ptx",   "cubin", "bundle"};
  return names[static_cast<unsigned>(kind)];
}

/// Whether both paths lead to one file, which may not exist yet.
static bool isSameFile(StringRef a, StringRef b) {
  namespace fs = llvm::sys::fs;
  fs::file_status status;
  if (!fs::status(a, status))
    return fs::is_regular_file(status) && fs::equivalent(a, b);
  SmallString<128> paths[] = {a, b};
  for (SmallString<128> &path : paths) {
    if (fs::make_absolute(path))
      return false;
    llvm::sys::path::remove_dots(path);
  }
  return paths[0] == paths[1];
}

/// Whether what is written to `path` appears on a terminal.
static bool isTerminal(StringRef path) {
  namespace fs = llvm::sys::fs;
  if (path == "-")
    return llvm::sys::Process::StandardOutIsDisplayed();
  fs::file_status status;
  if (fs::status(path, status) ||
      status.type() != fs::file_type::character_file)
    return false;
  int file = open(path.str().c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  bool result =
      file >= 0 && llvm::sys::Process::FileDescriptorIsDisplayed(file);
  close(file);
  return result;
}

/// What cannot be, whatever the input is.
static llvm::Error checkCombination(const Options &options) {
  if (options.shape && commandLine->inputFile.getNumOccurrences())
    return makeError("expects either --shape or an input file, but got both");
  if (options.emit == Emit::Bundle && options.output == "-")
    return makeError("a bundle is a directory: name it with -o");
  if (options.emit == Emit::Cubin && isTerminal(options.output))
    return makeError("a cubin is binary, and the output is a terminal: name a "
                     "file with -o, or redirect the standard output");
  if (options.emit != Emit::Bundle && options.chips.size() > 1)
    return makeError("expects one chip for --emit=" + stringify(options.emit) +
                     ", but got " + llvm::join(options.chips, ", ") +
                     "; only a bundle holds several");
  if (options.json == "-" && options.output == "-")
    return makeError("expects --json or the output on the standard output, but "
                     "got both; name a file with -o");
  if (!options.json.empty() && isSameFile(options.json, options.output))
    return makeError("expects --json and -o to name two files, but got '" +
                     options.output + "' for both");
  return llvm::Error::success();
}

llvm::Expected<Options> mlir::flashcore::parseOptions(int argc, char **argv) {
  (void)*commandLine; // registers them
  cl::HideUnrelatedOptions({&inputAndOutput, &inspection, &schedule, &target});
  if (!cl::ParseCommandLineOptions(
          argc, argv, "Compiles a flashcore.attention to a GPU kernel\n",
          &getErrorStream()))
    std::exit(2); // it has said why
  Options options = commandLine->values;
  // An empty --shape is one, too: all defaults.
  if (commandLine->shape.getNumOccurrences())
    options.shape = commandLine->shape;
  auto chips = orderChips(commandLine->chips);
  if (!chips)
    return chips.takeError();
  options.chips = std::move(*chips);
  if (commandLine->printPhases.getNumOccurrences() ||
      !options.phasesDirectory.empty()) {
    const std::string &text = commandLine->printPhases;
    auto phases = parsePhases(text.empty() ? "all" : text);
    if (!phases)
      return phases.takeError();
    options.phases = std::move(*phases);
  }
  if (llvm::Error error = checkCombination(options))
    return error;
  return options;
}
