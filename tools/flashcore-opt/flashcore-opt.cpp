//===- flashcore-opt.cpp - Run FlashCore's passes on MLIR -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mlir-opt with FlashCore, and with files that are read and written as by our
// other tools: input that is nested too deeply, damaged bytecode and a disk
// that is full are errors, and messages show control characters of the input
// without colours.
//
//===----------------------------------------------------------------------===//

#include "flashcore/InitAll.h"
#include "flashcore/Support/Bytecode.h"
#include "flashcore/Support/ErrorStream.h"
#include "flashcore/Support/EscapedErrors.h"
#include "flashcore/Support/ToolInit.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"

using namespace mlir;
using namespace mlir::flashcore;

static int fail(const llvm::Twine &text) {
  getErrorStream() << "flashcore-opt: error: " << text << "\n";
  return 2; // as other tools, for files and what the command line names
}

int flashcoreOptMain(int argc, char **argv) {
  ToolInit init(argc, argv, "flashcore-opt");
  // Options that are wrong end the process by exit().
  static EscapedErrors errors;
  if (llvm::Error error = errors.start())
    return fail(llvm::toString(std::move(error)));
  DialectRegistry registry;
  registerAllDialects(registry);
  registerAllPasses();
  auto [input, output] = registerAndParseCLIOptions(
      argc, argv, "FlashCore optimizer driver\n", registry);
  MlirOptMainConfig config = MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return asMainReturnCode(MlirOptMain(argc, argv, input, output, registry));

  auto file = readInput(input);
  if (!file)
    return fail(llvm::toString(file.takeError()));
  if (isBytecode((*file)->getBuffer()))
    file = translateBytecode(**file, registry,
                             config.shouldAllowUnregisteredDialects());
  if (!file)
    return fail(llvm::toString(file.takeError()));
  if (auto error = checkNesting((*file)->getBuffer())) {
    getErrorStream() << (*file)->getBufferIdentifier() << ":" << *error << "\n";
    return EXIT_FAILURE;
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  LogicalResult result = MlirOptMain(os, std::move(*file), registry, config);
  errors.finish(); // diagnostics come before the output
  // After an error what there is may be read, but is no file, as by mlir-opt.
  if (succeeded(result) || output == "-")
    if (llvm::Error error = writeOutput(output, text))
      return fail(llvm::toString(std::move(error)));
  return asMainReturnCode(result);
}
