//===- ScheduleOptions.cpp - Options of a schedule by name ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Compiler/ScheduleOptions.h"
#include "flashcore/Support/Errors.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::flashcore;

static constexpr llvm::StringLiteral kTuningFileOption = "tuning-file",
                                     kFewQueriesOption = "few-queries",
                                     kScheduleOption = "schedule";

static llvm::Error set(std::string &field, StringRef, StringRef value) {
  field = value.str();
  return llvm::Error::success();
}

static llvm::Error set(int64_t &field, StringRef name, StringRef value) {
  if (value.getAsInteger(10, field))
    return formatError("expects {0} to be a number, but got '{1}'", name,
                       value);
  return llvm::Error::success();
}

static llvm::Error unknownName(StringRef name) {
  std::vector<StringRef> known = {
      kTuningFileOption,
      kFewQueriesOption,
      kScheduleOption,
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  option,
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
  };
  return formatError("expects a schedule option ({0}), but got '{1}'",
                     llvm::join(known, ", "), name);
}

static llvm::Error setByName(ConfigurePassOptions &options,
                             StringRef optionName, StringRef value) {
  if (optionName == kTuningFileOption)
    return set(options.tuningFile, optionName, value);
  if (optionName == kFewQueriesOption)
    return set(options.fewQueries, optionName, value);
  if (optionName == kScheduleOption)
    return set(options.schedule, optionName, value);
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  if (optionName == option)                                                    \
    return set(options.name, optionName, value);
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
  return unknownName(optionName);
}

llvm::Error mlir::flashcore::setScheduleOption(ConfigurePassOptions &options,
                                               StringRef name,
                                               StringRef value) {
  ConfigurePassOptions changed = options;
  if (llvm::Error error = setByName(changed, name, value))
    return error;
  auto parsed = getScheduleOptions(changed);
  if (auto *error = std::get_if<std::string>(&parsed))
    return formatError("{0}", *error);
  options = std::move(changed);
  return llvm::Error::success();
}
