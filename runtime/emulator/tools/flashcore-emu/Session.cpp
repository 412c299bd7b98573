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
#include "../../lib/report/Description.h"

#include <algorithm>
#include <iterator>

using namespace flashcore;
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
  Expected<std::optional<HostProgram>> description = readDescription(ptx);
  if (!description)
    return description.error();
  if (!*description)
    return std::string();
  std::string kernels;
  for (const KernelSpec &kernel : (*description)->kernels)
    kernels += (kernels.empty() ? "" : ", ") + kernel.name;
  std::string open = openSizes(**description);
  return "launch, as the file says: " + kernels +
         (open.empty() ? "\n" : "\n  sizes to give:" + open + "\n");
}

//===----------------------------------------------------------------------===//
// Arguments of the command line
//===----------------------------------------------------------------------===//

namespace {
/// Gives arguments their buffers, and what they hold the addresses of theirs.
class Loader {
public:
  explicit Loader(Session &session) : session(session) {}

  /// Gives the bytes of the argument: a value, or an address.
  Expected<std::vector<uint8_t>>
  load(const std::string &name, const std::string &path, TypedArgument value);

private:
  Expected<uint64_t> resolve(const TypedArgument &value) const;
  Error loadMembers(const std::string &name, const std::string &path,
                    TypedArgument &value);
  Error allocate(LoadedArgument &argument);
  Expected<std::vector<uint8_t>> loadTensorMap(const std::string &name,
                                               const std::string &path,
                                               TypedArgument value);
  bool isTaken(const std::string &name) const {
    return session.results.find(name) != nullptr;
  }

  Session &session;
};
} // namespace

static Error badArgument(const TypedArgument &value, const std::string &why) {
  return fail("argument '" + value.text + "': " + why);
}

/// The address that '@' stands for.
Expected<uint64_t> Loader::resolve(const TypedArgument &value) const {
  const LoadedArgument *target = session.results.find(value.reference);
  if (!target || !target->address)
    return badArgument(value, "expects the name, index or path of a buffer "
                              "that comes before, but got '" +
                                  value.reference + "'");
  uint64_t bytes = target->value.data.size();
  if (value.referenceOffset > bytes)
    return badArgument(value, "expects an offset within the " +
                                  std::to_string(bytes) + " bytes of '" +
                                  value.reference + "', but got " +
                                  std::to_string(value.referenceOffset));
  return target->address + value.referenceOffset;
}

Error Loader::loadMembers(const std::string &name, const std::string &path,
                          TypedArgument &value) {
  for (ArgumentMember &member : value.members) {
    if (!member.name.empty() && isTaken(member.name))
      return badArgument(value, "expects a name of its own for each value, but "
                                "'" +
                                    member.name + "' is given twice");
    std::string offset = std::to_string(member.offset);
    std::string memberName =
        member.name.empty() ? name + "+" + offset : member.name;
    Expected<std::vector<uint8_t>> bytes =
        load(memberName, path + "." + offset, std::move(member.value));
    if (!bytes)
      return bytes.error();
    std::copy(bytes->begin(), bytes->end(),
              value.data.begin() + static_cast<ptrdiff_t>(member.offset));
  }
  return {};
}

Error Loader::allocate(LoadedArgument &argument) {
  const TypedArgument &value = argument.value;
  DeviceMemory &memory = session.memory;
  argument.address = memory.allocate(argument.name, value.data.size());
  if (!argument.address)
    return badArgument(value, "expects a buffer of at most " +
                                  std::to_string(DeviceMemory::maxBufferBytes) +
                                  " bytes, but got " +
                                  std::to_string(value.data.size()));
  if (!value.isPoison)
    memory.write(argument.address, value.data.data(), value.data.size());
  const TensorView &view = value.view;
  unsigned bytes = elementBytes(value.type);
  bool isTensor = memory.describe(argument.address + view.offset * bytes, bytes,
                                  view.shape, view.strides);
  if (!isTensor && !view.strides.empty())
    return badArgument(value, "expects strides that give every element a place "
                              "of its own");
  return {};
}

/// The buffer of a tensor map goes by the name of the map.
Expected<std::vector<uint8_t>> Loader::loadTensorMap(const std::string &name,
                                                     const std::string &path,
                                                     TypedArgument value) {
  TypedArgument &of = value.members.front().value;
  const std::string reference = of.reference;
  Expected<std::vector<uint8_t>> pointer = load(name, path, std::move(of));
  if (!pointer)
    return pointer.error();
  uint64_t address = 0;
  std::memcpy(&address, pointer->data(), sizeof address);
  const LoadedArgument *buffer =
      session.results.find(reference.empty() ? path : reference);
  Expected<std::vector<uint8_t>> bytes =
      encodeTensorMap(value, buffer->value, address);
  return bytes ? std::move(bytes) : badArgument(value, bytes.error().message);
}

Expected<std::vector<uint8_t>> Loader::load(const std::string &name,
                                            const std::string &path,
                                            TypedArgument value) {
  if (value.box)
    return loadTensorMap(name, path, std::move(value));
  uint64_t address = 0;
  if (!value.reference.empty()) {
    Expected<uint64_t> resolved = resolve(value);
    if (!resolved)
      return resolved.error();
    address = *resolved;
  }
  std::vector<LoadedArgument> &list = session.results.list;
  size_t index = list.size();
  list.push_back({name, path, {}, 0});
  Error error = loadMembers(name, path, value);
  list[index].value = std::move(value);
  LoadedArgument &argument = list[index];
  if (error.message.empty() && argument.value.isBuffer) {
    error = allocate(argument);
    address = argument.address;
  }
  if (!error.message.empty())
    return error;
  if (!argument.value.isPointer())
    return argument.value.data;
  std::vector<uint8_t> bytes(sizeof address);
  std::memcpy(bytes.data(), &address, sizeof address);
  return bytes;
}

/// Adds a buffer with the notation of --arg.
static Error load(Session &session, const std::string &name,
                  const std::string &text) {
  Expected<TypedArgument> parsed = parseArgument(text);
  if (!parsed)
    return parsed.error();
  Expected<std::vector<uint8_t>> bytes =
      Loader(session).load(name, name, std::move(*parsed));
  return bytes ? Error() : bytes.error();
}

static Expected<std::vector<TypedArgument>>
parseAll(const std::vector<std::string> &texts) {
  std::vector<TypedArgument> all;
  for (const std::string &text : texts) {
    Expected<std::vector<TypedArgument>> parsed = parseArguments(text);
    if (!parsed)
      return parsed.error();
    std::move(parsed->begin(), parsed->end(), std::back_inserter(all));
  }
  return all;
}

static Error loadArguments(const ToolOptions &options, Session &session) {
  PlannedLaunch &launch = session.launches.front();
  const Kernel &kernel = launch.kernel;
  Expected<std::vector<TypedArgument>> arguments = parseAll(options.arguments);
  if (!arguments)
    return arguments.error();
  session.results.numArguments = arguments->size();
  if (arguments->size() != kernel.numParams())
    return fail("kernel '" + kernel.name() + "' takes " +
                std::to_string(kernel.numParams()) + " arguments, but got " +
                std::to_string(arguments->size()) + " of --arg\n" +
                describeKernel(kernel));
  for (size_t i = 0; i < arguments->size(); ++i) {
    Expected<std::vector<uint8_t>> bytes = Loader(session).load(
        kernel.paramName(i), std::to_string(i), std::move((*arguments)[i]));
    if (!bytes)
      return bytes.error();
    launch.arguments.addBytes(bytes->data(), bytes->size());
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
  DescribedSession(const HostProgram &description, const ToolOptions &options,
                   Session &session)
      : description(description), options(options), session(session) {}

  Error bindSizes() {
    Expected<Numbers> bound =
        flashcore::emu::bindSizes(description, options.dims);
    if (!bound)
      return bound.error();
    sizes = std::move(*bound);
    return {};
  }
  Error loadTensors();
  Expected<bool> launches(const KernelSpec &kernel) const;
  /// Leaves those kernels of the session that a call of these sizes launches.
  Error dropOthers();
  Error configure(const KernelSpec &kernel, LaunchConfig &config) const;
  Error addArguments(const KernelSpec &kernel, Arguments &arguments) const;

private:
  Error loadWorkspace();
  uint64_t valueOf(const ArgumentSpec &argument) const;
  Expected<std::vector<uint8_t>> encodeMap(const ArgumentSpec &argument) const;

  const HostProgram &description;
  const ToolOptions &options;
  Session &session;
  Numbers sizes;
  std::map<std::string, BoundTensor, std::less<>> tensors;
};
} // namespace

Error DescribedSession::loadWorkspace() {
  StatusOr<int64_t> bytes = description.workspaceBytes(sizes);
  if (!bytes.ok())
    return toError(bytes.status());
  if (*bytes == 0)
    return {};
  return load(session, std::string(WorkspaceName),
              "u8[" + std::to_string(*bytes) + "]:poison");
}

Error DescribedSession::loadTensors() {
  Expected<uint64_t> seed = numberOption("seed", options.seed);
  if (!seed)
    return seed.error();
  session.seed = *seed;
  session.results.areTensors = true;
  uint64_t number = 0;
  for (const TensorSpec &tensor : description.tensors) {
    // A stream of numbers for each.
    // Integers number documents or places: 0 is one.
    std::string fill = tensor.role == TensorSpec::Role::Output ? "poison"
                       : tensor.dtype == DType::I32
                           ? "zeros"
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

/// Some kernels are for calls of other sizes.
Expected<bool> DescribedSession::launches(const KernelSpec &kernel) const {
  StatusOr<bool> isLaunched = description.launches(kernel, sizes);
  if (!isLaunched.ok())
    return toError(isLaunched.status());
  return *isLaunched;
}

Error DescribedSession::dropOthers() {
  Error error;
  std::erase_if(session.launches, [&](const PlannedLaunch &launch) {
    Expected<bool> isLaunched =
        launches(*description.findKernel(launch.kernel.name()));
    if (!isLaunched)
      error = isLaunched.error();
    return isLaunched && !*isLaunched;
  });
  return error;
}

/// What the command line does not say.
Error DescribedSession::configure(const KernelSpec &kernel,
                                  LaunchConfig &config) const {
  config.block = {static_cast<uint32_t>(kernel.block[0]),
                  static_cast<uint32_t>(kernel.block[1]),
                  static_cast<uint32_t>(kernel.block[2])};
  config.dynamicSharedBytes = static_cast<uint64_t>(kernel.dynamicSharedMemory);
  if (options.grid)
    return {};
  Expected<uint64_t> multiprocessors =
      numberOption("multiprocessors", options.multiprocessors);
  if (!multiprocessors)
    return multiprocessors.error();
  StatusOr<std::array<int64_t, 3>> grid = description.grid(
      kernel, sizes,
      std::clamp<int64_t>(static_cast<int64_t>(*multiprocessors), 1,
                          UnknownMultiprocessors));
  if (!grid.ok())
    return toError(grid.status());
  for (int64_t blocks : *grid)
    if (blocks > UINT32_MAX)
      return fail("kernel '" + kernel.name + "' would be launched with " +
                  std::to_string(blocks) +
                  " blocks: expects at most 2147483647");
  config.grid = {static_cast<uint32_t>((*grid)[0]),
                 static_cast<uint32_t>((*grid)[1]),
                 static_cast<uint32_t>((*grid)[2])};
  return {};
}

uint64_t DescribedSession::valueOf(const ArgumentSpec &argument) const {
  using Kind = ArgumentSpec::Kind;
  if (argument.kind == Kind::Size)
    return static_cast<uint64_t>(sizes.find(argument.dim)->second);
  if (argument.kind == Kind::Pointer) {
    const LoadedArgument *buffer = session.results.find(argument.tensor);
    return buffer ? buffer->address : 0; // none of a workspace of no bytes
  }
  const BoundTensor &tensor = tensors.find(argument.tensor)->second;
  return static_cast<uint64_t>(argument.kind == Kind::Stride
                                   ? tensor.strides[argument.axis]
                                   : tensor.offset);
}

/// What a copy of `tensor` is whose rows are `row` elements apart.
static TypedArgument makeCopy(const TypedArgument &tensor, uint64_t row) {
  TypedArgument copy;
  copy.type = tensor.type;
  copy.view.shape = tensor.view.shape;
  copy.view.strides.assign(copy.view.shape.size(), 1);
  for (size_t axis = copy.view.shape.size() - 1; axis-- > 0;) {
    copy.view.strides[axis] = row;
    row *= std::max<uint64_t>(copy.view.shape[axis], 1);
  }
  return copy;
}

Expected<std::vector<uint8_t>>
DescribedSession::encodeMap(const ArgumentSpec &argument) const {
  bool isCopy = !argument.copyOf.empty();
  const LoadedArgument &tensor =
      *session.results.find(isCopy ? argument.copyOf : argument.tensor);
  TypedArgument map;
  map.box = TensorBox{argument.box, argument.swizzle, argument.raggedAxis,
                      static_cast<uint32_t>(argument.group)};
  if (!isCopy)
    return encodeTensorMap(map, tensor.value, tensor.address);
  // Of nothing there is no workspace: any address will do.
  const LoadedArgument *workspace = session.results.find(argument.tensor);
  return encodeTensorMap(
      map, makeCopy(tensor.value, static_cast<uint64_t>(argument.copyRow)),
      workspace ? workspace->address : tensor.address);
}

Error DescribedSession::addArguments(const KernelSpec &kernel,
                                     Arguments &arguments) const {
  for (const ArgumentSpec &argument : kernel.arguments) {
    if (argument.kind != ArgumentSpec::Kind::TensorMap) {
      arguments.addValue(valueOf(argument));
      continue;
    }
    Expected<std::vector<uint8_t>> map = encodeMap(argument);
    if (!map)
      return fail("kernel '" + kernel.name + "', tensor '" + argument.tensor +
                  "': " + map.error().message);
    arguments.addBytes(map->data(), map->size());
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// The kernels to run: the one that the command line names, those of the
/// description, or the only one there is.
static Expected<std::vector<std::string>>
chooseKernels(const ToolOptions &options,
              const std::optional<HostProgram> &description) {
  if (!options.kernel.empty() || !description)
    return std::vector{options.kernel};
  std::vector<std::string> names;
  std::string list;
  for (const KernelSpec &kernel : description->kernels) {
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
                         const std::optional<HostProgram> &description,
                         Session &session) {
  Expected<std::vector<std::string>> names =
      chooseKernels(options, description);
  if (!names)
    return names.error();
  Expected<Module> module = Module::parse(ptx);
  if (!module)
    return module.error();
  for (const std::string &name : *names) {
    Expected<Kernel> kernel = module->load(name);
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

static Error planDescribed(const HostProgram &description,
                           const ToolOptions &options, Session &session) {
  DescribedSession described(description, options, session);
  Error error;
  bool needsSizes = options.arguments.empty() || !options.grid;
  if (needsSizes)
    error = described.bindSizes();
  if (error.message.empty() && options.arguments.empty())
    error = described.loadTensors();
  if (error.message.empty() && needsSizes && options.kernel.empty())
    error = described.dropOthers();
  for (PlannedLaunch &launch : session.launches) {
    if (!error.message.empty())
      return error;
    const KernelSpec &kernel = *description.findKernel(launch.kernel.name());
    error = described.configure(kernel, launch.config);
    if (error.message.empty() && options.arguments.empty())
      error = described.addArguments(kernel, launch.arguments);
  }
  return error;
}

Expected<Session> flashcore::emu::planSession(const ToolOptions &options,
                                              const std::string &ptx) {
  Session session;
  // What is not needed is not read.
  Expected<std::optional<HostProgram>> read = std::optional<HostProgram>();
  if (!isComplete(options))
    read = readDescription(ptx);
  if (!read)
    return read.error();
  std::optional<HostProgram> &description = *read;
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
