//===- Session.cpp - What a run needs -------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Session.h.
//
//===----------------------------------------------------------------------===//

#include "Session.h"
#include "Description.h"

#include <algorithm>

using namespace flashcore::emu;

static Error fail(std::string message) { return {{}, std::move(message)}; }

std::string flashcore::emu::describeKernel(const Kernel &kernel) {
  std::string text = kernel.name() + "\n";
  for (size_t i = 0; i < kernel.numParams(); ++i)
    text += "  argument " + std::to_string(i) + ": " + kernel.paramName(i) +
            ", " + std::to_string(kernel.paramBytes(i)) + " bytes\n";
  Dim3 block = kernel.requiredBlock();
  if (block.x)
    text += "  block: " + std::to_string(block.x) + "," +
            std::to_string(block.y) + "," + std::to_string(block.z) + "\n";
  if (kernel.staticSharedBytes())
    text += "  static shared memory: " +
            std::to_string(kernel.staticSharedBytes()) + " bytes\n";
  return text;
}

Expected<std::string> flashcore::emu::describeLaunch(const std::string &ptx) {
  Expected<std::optional<Description>> description = readDescription(ptx);
  if (!description)
    return description.error();
  if (!*description)
    return std::string();
  std::string kernels;
  for (const DescribedKernel &kernel : (*description)->kernels)
    kernels += (kernels.empty() ? "" : ", ") + kernel.name;
  std::string open = openSizes(**description);
  return "launch, as the file says: " + kernels +
         (open.empty() ? "\n" : "\n  sizes to give:" + open + "\n");
}

//===----------------------------------------------------------------------===//
// Arguments of the command line
//===----------------------------------------------------------------------===//

/// Adds an argument of --arg, with its buffer if it is one.
static Error load(Session &session, const std::string &name,
                  const std::string &text) {
  Expected<TypedArgument> parsed = parseArgument(text);
  if (!parsed)
    return parsed.error();
  LoadedArgument argument{name, std::move(*parsed), 0};
  const TypedArgument &value = argument.value;
  if (value.isBuffer) {
    DeviceMemory &memory = session.memory;
    argument.address = memory.allocate(name, value.data.size());
    if (!argument.address)
      return fail("argument '" + text + "': expects a buffer of at most " +
                  std::to_string(DeviceMemory::maxBufferBytes) +
                  " bytes, but got " + std::to_string(value.data.size()));
    if (!value.isPoison)
      memory.write(argument.address, value.data.data(), value.data.size());
    const TensorView &view = value.view;
    unsigned bytes = elementBytes(value.type);
    bool isTensor = memory.describe(argument.address + view.offset * bytes,
                                    bytes, view.shape, view.strides);
    if (!isTensor && !view.strides.empty())
      return fail("argument '" + text +
                  "': expects strides that give every element a place of its "
                  "own");
  }
  session.results.list.push_back(std::move(argument));
  return {};
}

static Error loadArguments(const ToolOptions &options, Session &session) {
  PlannedLaunch &launch = session.launches.front();
  const Kernel &kernel = launch.kernel;
  if (options.arguments.size() != kernel.numParams())
    return fail("kernel '" + kernel.name() + "' takes " +
                std::to_string(kernel.numParams()) + " arguments, but got " +
                std::to_string(options.arguments.size()) + " of --arg\n" +
                describeKernel(kernel));
  for (size_t i = 0; i < options.arguments.size(); ++i) {
    Error error = load(session, kernel.paramName(i), options.arguments[i]);
    if (!error.message.empty())
      return error;
    const LoadedArgument &argument = session.results.list.back();
    if (argument.value.isBuffer)
      launch.arguments.addPointer(argument.address);
    else
      launch.arguments.addBytes(argument.value.data.data(),
                                argument.value.data.size());
  }
  return {};
}

//===----------------------------------------------------------------------===//
// The launch of the file
//===----------------------------------------------------------------------===//

namespace {
/// Turns a description into launches, with the sizes of the command line.
class DescribedSession {
public:
  DescribedSession(const Description &description, const ToolOptions &options,
                   Session &session)
      : description(description), options(options), session(session) {}

  Error bindSizes() {
    Expected<Sizes> bound =
        flashcore::emu::bindSizes(description, options.dims);
    if (!bound)
      return bound.error();
    sizes = std::move(*bound);
    return {};
  }
  Error loadTensors();
  Error configure(const DescribedKernel &kernel, LaunchConfig &config) const;
  void addArguments(const DescribedKernel &kernel, Arguments &arguments) const;

private:
  Error loadWorkspace();
  uint64_t addressOf(const std::string &name) const;

  const Description &description;
  const ToolOptions &options;
  Session &session;
  Sizes sizes;
  std::map<std::string, BoundTensor, std::less<>> tensors;
};
} // namespace

Error DescribedSession::loadWorkspace() {
  Expected<uint64_t> bytes = workspaceBytes(description, sizes);
  if (!bytes)
    return bytes.error();
  if (*bytes == 0)
    return {};
  return load(session, Description::workspaceName,
              "u8[" + std::to_string(*bytes) + "]:poison");
}

Error DescribedSession::loadTensors() {
  Expected<uint64_t> seed = numberOption("seed", options.seed);
  if (!seed)
    return seed.error();
  session.seed = *seed;
  session.results.areTensors = true;
  uint64_t number = 0;
  for (const DescribedTensor &tensor : description.tensors) {
    // A stream of numbers for each.
    std::string fill = tensor.isOutput
                           ? "poison"
                           : "randn:" + std::to_string(*seed + number++);
    Expected<BoundTensor> bound = bindTensor(tensor, sizes, fill);
    if (!bound)
      return bound.error();
    Error error = load(session, tensor.name, bound->text);
    if (!error.message.empty())
      return error;
    tensors[tensor.name] = std::move(*bound);
  }
  return loadWorkspace();
}

/// What the command line does not say.
Error DescribedSession::configure(const DescribedKernel &kernel,
                                  LaunchConfig &config) const {
  config.block = kernel.block;
  config.dynamicSharedBytes = kernel.sharedBytes;
  if (options.grid)
    return {};
  Expected<uint64_t> multiprocessors =
      numberOption("multiprocessors", options.multiprocessors);
  if (!multiprocessors)
    return multiprocessors.error();
  uint32_t *const extents[] = {&config.grid.x, &config.grid.y, &config.grid.z};
  for (size_t i = 0; i < 3; ++i) {
    Expected<uint64_t> blocks = evaluate(kernel.grid[i], sizes);
    if (!blocks)
      return blocks.error();
    uint64_t most = 0;
    if (i == 0 && kernel.maxBlocksPerMultiprocessor &&
        !__builtin_mul_overflow(*kernel.maxBlocksPerMultiprocessor,
                                std::max<uint64_t>(*multiprocessors, 1), &most))
      *blocks = std::min(*blocks, most);
    if (*blocks > UINT32_MAX)
      return fail("kernel '" + kernel.name + "' would be launched with " +
                  std::to_string(*blocks) +
                  " blocks: expects at most 2147483647");
    *extents[i] = static_cast<uint32_t>(*blocks);
  }
  return {};
}

uint64_t DescribedSession::addressOf(const std::string &name) const {
  const std::vector<LoadedArgument> &list = session.results.list;
  auto it = std::find_if(list.begin(), list.end(),
                         [&](const auto &each) { return each.name == name; });
  return it == list.end() ? 0 : it->address;
}

void DescribedSession::addArguments(const DescribedKernel &kernel,
                                    Arguments &arguments) const {
  for (const DescribedArgument &argument : kernel.arguments) {
    auto tensor = tensors.find(argument.name);
    uint64_t value = 0;
    switch (argument.kind) {
    case DescribedArgument::Kind::Pointer:
      value = addressOf(argument.name);
      break;
    case DescribedArgument::Kind::Size:
      value = sizes.find(argument.name)->second;
      break;
    case DescribedArgument::Kind::Stride:
      value = tensor->second.strides[argument.axis];
      break;
    case DescribedArgument::Kind::Offset:
      value = tensor->second.offset;
      break;
    }
    arguments.addValue(value);
  }
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// The kernels to run: the one that the command line names, those of the
/// description, or the only one there is.
static Expected<std::vector<std::string>>
chooseKernels(const ToolOptions &options,
              const std::optional<Description> &description) {
  if (!options.kernel.empty() || !description)
    return std::vector{options.kernel};
  std::vector<std::string> names;
  std::string list;
  for (const DescribedKernel &kernel : description->kernels) {
    names.push_back(kernel.name);
    list += (list.empty() ? "" : ", ") + kernel.name;
  }
  bool isOfOne = options.grid || options.block || options.sharedBytes ||
                 !options.arguments.empty();
  if (isOfOne && names.size() > 1)
    return fail("--grid, --block, --shared and --arg are of one kernel, but "
                "the file says how to launch " +
                list + "; name one with --kernel");
  return names;
}

static Error loadKernels(const ToolOptions &options, const std::string &ptx,
                         const std::optional<Description> &description,
                         Session &session) {
  Expected<std::vector<std::string>> names =
      chooseKernels(options, description);
  if (!names)
    return names.error();
  for (const std::string &name : *names) {
    Expected<Kernel> kernel = Kernel::load(ptx, name);
    if (!kernel)
      return kernel.error();
    session.launches.push_back({std::move(*kernel), {}, {}});
  }
  return {};
}

/// Whether the options leave nothing for the description to say.
static bool isComplete(const ToolOptions &options) {
  return options.grid && options.block && options.sharedBytes &&
         !options.arguments.empty();
}

static Error planDescribed(const Description &description,
                           const ToolOptions &options, Session &session) {
  DescribedSession described(description, options, session);
  Error error;
  bool needsSizes = options.arguments.empty() || !options.grid;
  if (needsSizes)
    error = described.bindSizes();
  if (error.message.empty() && options.arguments.empty())
    error = described.loadTensors();
  for (PlannedLaunch &launch : session.launches) {
    if (!error.message.empty())
      return error;
    const DescribedKernel &kernel =
        *description.findKernel(launch.kernel.name());
    error = described.configure(kernel, launch.config);
    if (options.arguments.empty())
      described.addArguments(kernel, launch.arguments);
  }
  return error;
}

Expected<Session> flashcore::emu::planSession(const ToolOptions &options,
                                              const std::string &ptx) {
  Session session;
  // What is not needed is not read.
  Expected<std::optional<Description>> read = std::optional<Description>();
  if (!isComplete(options))
    read = readDescription(ptx);
  if (!read)
    return read.error();
  std::optional<Description> &description = *read;
  Error error = loadKernels(options, ptx, description, session);
  if (!error.message.empty())
    return error;
  if (description &&
      !description->findKernel(session.launches.front().kernel.name()))
    description.reset();
  if (!description && !options.dims.empty())
    return fail("--dim is for PTX that says how it is launched (a line "
                "'// flashcore-launch: ...'), which this file does not");
  if (description)
    error = planDescribed(*description, options, session);
  for (PlannedLaunch &launch : session.launches)
    if (error.message.empty())
      error = overrideConfig(options, launch.config);
  if (error.message.empty() && !(description && options.arguments.empty()))
    error = loadArguments(options, session);
  if (!error.message.empty())
    return error;
  return session;
}
