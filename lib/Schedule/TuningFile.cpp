//===- TuningFile.cpp - Schedules measured on a card ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A key that is unknown, missing or of the wrong type is an error: a schedule
// that is only half understood would be another one than was measured.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/TuningFile.h"
#include "flashcore/Support/CNumbers.h"
#include "flashcore/Support/ToolInit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <set>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;
namespace fcgpu = mlir::fcgpu;
namespace json = llvm::json;

static constexpr llvm::StringLiteral kTuningFormat = "flashcore-tuning";
static constexpr int64_t kTuningVersion = 1;
/// Rows of the blocks that `query_blocks` counts.
static constexpr int64_t kRowsOfQueryBlock = 64;

//===----------------------------------------------------------------------===//
// The fields of a schedule
//===----------------------------------------------------------------------===//

namespace {
/// A field of a schedule: its key, and what can be done with it.
struct ScheduleField {
  llvm::StringLiteral key;
  std::string expected; ///< values, for an error
  bool (*parse)(ScheduleOptions &options, const json::Value &value);
  bool (*isForced)(const ScheduleOptions &options);
  void (*copy)(ScheduleOptions &to, const ScheduleOptions &from);
};
} // namespace

/// A number; where it may be 0, that leaves it open.
template <int64_t least>
static bool parseField(int64_t &field, const json::Value &value) {
  field = value.getAsInteger().value_or(-1);
  return field >= least;
}

template <auto, typename Enum>
static bool parseField(std::optional<Enum> &field, const json::Value &value) {
  if (auto text = value.getAsString())
    field = fcgpu::symbolizeEnum<Enum>(*text);
  return field.has_value();
}

template <typename Type>
static std::string describeValues([[maybe_unused]] Type initial) {
  if constexpr (std::is_enum_v<Type>)
    return joinWords(getWords<Type>(), "'");
  else
    return initial > 0 ? "a positive integer" : "an integer of at least 0";
}

static llvm::ArrayRef<ScheduleField> getScheduleFields() {
  using Options = ScheduleOptions;
  static const ScheduleField fields[] = {
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  {key, describeValues<Type>(initial),                                         \
   [](Options &options, const json::Value &value) {                            \
     return parseField<initial>(options.name, value);                          \
   },                                                                          \
   [](const Options &options) { return options.name != ForcedField<Type>(); }, \
   [](Options &to, const Options &from) { to.name = from.name; }},
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
  };
  return fields;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static std::string print(const json::Value &value) {
  constexpr size_t maxLength = 60;
  std::string text = llvm::formatv("{0}", value);
  if (text.size() > maxLength)
    text = text.substr(0, maxLength) + "...";
  return text;
}

namespace {
/// The first error of a file.
class ErrorSink {
public:
  explicit ErrorSink(llvm::StringRef path) : path(path) {}

  void report(const llvm::Twine &where, const llvm::Twine &text) {
    if (message.empty())
      message = ("tuning file '" + path + "': " + where + ": " + text).str();
  }
  bool ok() const { return message.empty(); }
  llvm::Error take() const { return llvm::createStringError(message); }

private:
  llvm::StringRef path;
  std::string message;
};

/// An object whose keys are read one by one; finish() reports those that
/// nobody asked for.
class ObjectReader {
public:
  ObjectReader(ErrorSink &errors, const json::Value *value, std::string where)
      : errors(errors), where(std::move(where)) {
    if (value && !(object = value->getAsObject()))
      errors.report(this->where, "expects an object, but got " + print(*value));
  }

  /// The value of `key`, or null after an error.
  const json::Value *require(llvm::StringRef key) {
    const json::Value *value = find(key);
    if (!value && object)
      errors.report(where, "expects the key '" + key + "'");
    return value;
  }
  const json::Value *find(llvm::StringRef key) {
    known.push_back(key);
    return object ? object->get(key) : nullptr;
  }

  std::string string(llvm::StringRef key) {
    const json::Value *value = require(key);
    auto text = value ? value->getAsString() : std::nullopt;
    if (value && !text)
      refuse(key, "a string", *value);
    return text.value_or("").str();
  }
  bool boolean(llvm::StringRef key) { return toBoolean(key, require(key)); }
  /// False without the key.
  bool optionalBoolean(llvm::StringRef key) {
    return toBoolean(key, find(key));
  }
  bool toBoolean(llvm::StringRef key, const json::Value *value) {
    auto flag = value ? value->getAsBoolean() : std::nullopt;
    if (value && !flag)
      refuse(key, "true or false", *value);
    return flag.value_or(false);
  }
  int64_t positive(llvm::StringRef key) {
    const json::Value *value = require(key);
    int64_t number = value ? value->getAsInteger().value_or(0) : 1;
    if (number < 1)
      refuse(key, "a positive integer", *value);
    return number;
  }
  std::optional<SizeRange> range(llvm::StringRef key);

  void refuse(llvm::StringRef key, const llvm::Twine &expected,
              const json::Value &value) {
    errors.report(path(key),
                  "expects " + expected + ", but got " + print(value));
  }
  void finish() {
    std::set<llvm::StringRef> unknown; // in an order of its own
    if (object)
      for (const json::Object::value_type &entry : *object)
        if (!llvm::is_contained(known, llvm::StringRef(entry.first)))
          unknown.insert(entry.first);
    if (!unknown.empty())
      errors.report(where, "expects one of the keys " +
                               llvm::join(known, ", ") + ", but got '" +
                               *unknown.begin() + "'");
  }
  std::string path(llvm::StringRef key) const {
    return where.empty() ? key.str() : where + "." + key.str();
  }

private:
  ErrorSink &errors;
  std::string where;
  const json::Object *object = nullptr;
  std::vector<llvm::StringRef> known;
};
} // namespace

std::optional<SizeRange> ObjectReader::range(llvm::StringRef key) {
  const json::Value *value = find(key);
  if (!value)
    return std::nullopt;
  SizeRange range;
  if (value->getAsString() == llvm::StringRef("dynamic")) {
    range.isDynamic = true;
    return range;
  }
  const json::Array *bounds = value->getAsArray();
  if (bounds && bounds->size() == 2) {
    std::optional<int64_t> min = (*bounds)[0].getAsInteger();
    range.max = (*bounds)[1].getAsInteger();
    range.min = min.value_or(0);
    bool isUnbounded = (*bounds)[1].getAsNull().has_value();
    if (range.min >= 1 && (range.max ? *range.max >= range.min : isUnbounded))
      return range;
  }
  refuse(key,
         "'dynamic' or [min, max] with 1 <= min <= max, where max may be null",
         *value);
  return std::nullopt;
}

static ScheduleOptions readSchedule(ErrorSink &errors, const json::Value *value,
                                    const std::string &where) {
  ScheduleOptions schedule;
  ObjectReader reader(errors, value, where);
  for (const ScheduleField &field : getScheduleFields())
    if (const json::Value *given = reader.find(field.key))
      if (!field.parse(schedule, *given))
        reader.refuse(field.key, field.expected, *given);
  reader.finish();
  return schedule;
}

static TuningEntry readEntry(ErrorSink &errors, const json::Value &value,
                             const std::string &where) {
  TuningEntry entry;
  ObjectReader reader(errors, &value, where);
  ObjectReader problem(errors, reader.require("problem"), where + ".problem");
  entry.headDim = problem.positive("head_dim");
  entry.headDimV = problem.positive("head_dim_v");
  entry.isCausal = problem.boolean("causal");
  entry.hasSpecials = problem.boolean("softcap");
  entry.hasBias = problem.boolean("bias");
  entry.hasWindow = problem.boolean("window");
  entry.hasLse = problem.optionalBoolean("lse"); // newer than the rest
  entry.seqlenQ = problem.range("seqlen_q");
  entry.seqlenK = problem.range("seqlen_k");
  entry.headsPerKV = problem.range("heads_per_kv");
  entry.queryBlocks = problem.range("query_blocks");
  problem.finish();
  entry.schedule =
      readSchedule(errors, reader.require("schedule"), where + ".schedule");
  reader.find("evidence"); // for people
  reader.finish();
  return entry;
}

llvm::Expected<TuningFile> TuningFile::parse(llvm::StringRef text,
                                             llvm::StringRef path) {
  ErrorSink errors(path);
  // The reader of JSON recurses.
  if (std::optional<std::string> tooDeep = checkNesting(text)) {
    errors.report("not a tuning file", *tooDeep);
    return errors.take();
  }
  CNumbers numbers;
  llvm::Expected<json::Value> root = json::parse(text);
  if (!root) {
    errors.report("not JSON", llvm::toString(root.takeError()));
    return errors.take();
  }
  TuningFile file;
  file.path = path.str();
  ObjectReader reader(errors, &*root, "");
  std::string format = reader.string("format");
  int64_t version = reader.positive("version");
  if (errors.ok() && (format != kTuningFormat || version != kTuningVersion))
    errors.report("format",
                  llvm::formatv("expects {0} of version {1}, but got {2} of "
                                "version {3}; tune again",
                                kTuningFormat, kTuningVersion, format, version)
                      .str());
  file.card = reader.string("card");
  file.chip = reader.string("chip");
  file.date = reader.string("date");
  const json::Value *entries = reader.require("entries");
  const json::Array *array = entries ? entries->getAsArray() : nullptr;
  if (entries && !array)
    reader.refuse("entries", "an array", *entries);
  for (size_t i = 0; array && i < array->size(); ++i)
    file.entries.push_back(
        readEntry(errors, (*array)[i], llvm::formatv("entries[{0}]", i)));
  reader.finish();
  if (!errors.ok())
    return errors.take();
  return file;
}

llvm::Expected<TuningFile> TuningFile::read(llvm::StringRef path) {
  auto buffer = readInput(path);
  if (!buffer)
    return llvm::createStringError("cannot read the tuning file: " +
                                   llvm::toString(buffer.takeError()));
  return parse((*buffer)->getBuffer(), path);
}

//===----------------------------------------------------------------------===//
// Choosing
//===----------------------------------------------------------------------===//

bool SizeRange::contains(std::optional<int64_t> size) const {
  if (isDynamic || !size)
    return isDynamic && !size;
  return *size >= min && (!max || *size <= *max);
}

bool TuningEntry::matches(const AttentionProblem &problem) const {
  auto isInside = [](const std::optional<SizeRange> &range,
                     std::optional<int64_t> size) {
    return !range || range->contains(size);
  };
  std::optional<int64_t> group;
  if (problem.headsQ && problem.headsKV)
    group = *problem.headsQ / *problem.headsKV;
  return headDim == problem.headDim && headDimV == problem.headDimV &&
         isCausal == problem.isCausal && hasSpecials == problem.hasSpecials &&
         hasBias == problem.hasBias && hasWindow == problem.hasWindow &&
         hasLse == problem.hasLse && isInside(seqlenQ, problem.seqlenQ) &&
         isInside(seqlenK, problem.seqlenK) && isInside(headsPerKV, group) &&
         isInside(queryBlocks, getNumBlocks(problem, kRowsOfQueryBlock));
}

std::optional<size_t>
TuningFile::lookup(const AttentionProblem &problem) const {
  auto entry = llvm::find_if(
      entries, [&](const TuningEntry &each) { return each.matches(problem); });
  if (entry == entries.end())
    return std::nullopt;
  return entry - entries.begin();
}

ScheduleOptions mlir::flashcore::addTunedFields(const ScheduleOptions &options,
                                                const ScheduleOptions &tuned) {
  ScheduleOptions result = options;
  for (const ScheduleField &field : getScheduleFields())
    if (!field.isForced(options))
      field.copy(result, tuned);
  return result;
}

/// Tells the fields of the file from those that were asked for.
static void markTuned(std::vector<ScheduleReason> &reasons,
                      const ScheduleOptions &options,
                      const ScheduleOptions &tuned) {
  for (const ScheduleField &field : getScheduleFields()) {
    if (field.isForced(options) || !field.isForced(tuned))
      continue;
    for (ScheduleReason &reason : reasons)
      if (reason.field == field.key)
        reason.reason = "tuned";
  }
}

/// What the default schedule says of a file that it is not from.
static ScheduleResult withoutTuning(ScheduleResult result, std::string why) {
  if (auto *decision = std::get_if<ScheduleDecision>(&result))
    decision->reasons.insert(decision->reasons.begin(),
                             {"tuning", "none", std::move(why)});
  return result;
}

TunedChoice mlir::flashcore::chooseTunedSchedule(
    const AttentionProblem &problem, const TargetInfo &target,
    const ScheduleOptions &options, const TuningFile &tuning) {
  if (tuning.chip != target.chip)
    return {llvm::formatv("cannot take its schedule from '{0}', which is for "
                          "{1}: the target is {2}",
                          tuning.path, tuning.chip, target.chip)
                .str(),
            ""};
  std::optional<size_t> index = tuning.lookup(problem);
  std::string origin = llvm::formatv("{0}, {1}, file {2}", tuning.card,
                                     tuning.date, tuning.path);
  if (!index)
    return {withoutTuning(chooseSchedule(problem, target, options),
                          "no entry for this problem: " + origin),
            ""};
  std::string entry = llvm::formatv("entries[{0}]", *index);
  // What entries choose for some sizes would be in the bits of their rows.
  if (options.invariance == Invariance::Batch)
    return {withoutTuning(chooseSchedule(problem, target, options),
                          entry +
                              " is for some sizes only, but rows are to be "
                              "the same in all: " +
                              origin),
            ""};
  const ScheduleOptions &tuned = tuning.entries[*index].schedule;
  ScheduleResult result =
      chooseSchedule(problem, target, addTunedFields(options, tuned));
  if (auto *error = std::get_if<std::string>(&result))
    return {withoutTuning(chooseSchedule(problem, target, options),
                          entry + " does not fit: " + *error),
            "takes no schedule from " + entry + " of '" + tuning.path +
                "', which does not fit: " + *error};
  std::vector<ScheduleReason> &reasons =
      std::get<ScheduleDecision>(result).reasons;
  markTuned(reasons, options, tuned);
  reasons.insert(reasons.begin(), {"tuning", entry, "tuned on " + origin});
  return {std::move(result), ""};
}
