// Loads a bundle and runs its attention once on inputs that are all ones: each
// row of O is then a mean of rows of ones.
#include "flashcore/Runtime/CudaDevice.h"
#include "flashcore/Runtime/EmulatorDevice.h"

#include <cstdio>
#include <cstdlib>

using namespace flashcore;

static void check(const Status &status) {
  if (status.ok())
    return;
  std::fprintf(stderr, "%s\n", status.str().c_str());
  std::exit(2);
}
template <typename T> static T take(StatusOr<T> value) {
  check(value.status());
  return std::move(*value);
}

int main(int argc, char **argv) {
  Bundle bundle = take(Bundle::load(argc > 1 ? argv[1] : "attention.fcb"));
  StatusOr<std::unique_ptr<Device>> gpu = createCudaDevice();
  auto device =
      gpu.status().isNoDevice() ? createEmulatorDevice() : take(std::move(gpu));
  auto module = take(device->load(bundle));
  // The request has what the bundle leaves open: sizes, strides, offsets.
  Problem problem = take(Problem::create(bundle, ProblemRequest()));

  std::vector<DeviceBuffer> buffers;
  PointerMap pointers;
  auto allocate = [&](std::string name, int64_t bytes) {
    buffers.push_back(take(DeviceBuffer::create(*device, bytes, name)));
    return pointers[name] = buffers.back().pointer();
  };
  for (const TensorGeometry &tensor : problem.tensors()) {
    std::vector<uint16_t> ones(tensor.spanBytes() / 2, 0x3c00); // f16
    DevicePointer to = allocate(tensor.name, tensor.spanBytes());
    if (tensor.role == TensorSpec::Role::Input)
      check(device->copyToDevice(to, ones.data(), tensor.spanBytes()));
  }
  allocate(std::string(WorkspaceName), problem.workspaceBytes());

  int64_t multiprocessors = device->info().limits.multiprocessors;
  for (const KernelLaunch &launch :
       take(planLaunches(problem, pointers, multiprocessors)))
    check(device->launch(*module, launch));
  check(device->synchronize());

  uint16_t first = 0;
  check(device->copyToHost(&first, pointers["o"], sizeof(first)));
  std::printf("%s on %s: O starts with %#x, 1.0 is 0x3c00\n",
              problem.str().c_str(), device->info().name.c_str(), first);
  return first == 0x3c00 ? 0 : 1;
}
