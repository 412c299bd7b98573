// Warps of two roles on sm_80, mbarriers between them, cp.async that arrives at
// them. copies.ptx is this file compiled by `nvcc -arch=sm_89 -ptx`,
// copies.clang.ptx by `clang++-22 -x cuda --cuda-device-only
// --cuda-gpu-arch=sm_89 -O2 -S`.
#include <cuda_awbarrier_primitives.h>
#include <cuda_pipeline_primitives.h>
#include <stdint.h>

static __device__ void await(const uint64_t *barrier, unsigned parity) {
  unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
  unsigned done = 0;
  while (!done)
    asm volatile("{ .reg .pred p;"
                 " mbarrier.test_wait.parity.shared.b64 p, [%1], %2;"
                 " selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(at), "r"(parity)
                 : "memory");
}

static __device__ void arriveBehindCopies(uint64_t *barrier) {
  unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];"
               :
               : "r"(at)
               : "memory");
}

// Sums of the columns of n tiles of 32 rows and 128 columns: warp 0 fills a
// ring of four tiles, warps 1 to 4 add up 32 columns each.
extern "C" __global__ void ring(const float *x, float *out, int n) {
  constexpr unsigned slots = 4, rows = 32, columns = 128;
  extern __shared__ __align__(16) float tiles[]; // slots x rows x columns
  __shared__ uint64_t full[slots], empty[slots];
  if (threadIdx.x == 0)
    for (unsigned slot = 0; slot < slots; ++slot) {
      __mbarrier_init(&full[slot], 32);
      __mbarrier_init(&empty[slot], 4);
    }
  __syncthreads();
  unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float sum = 0;
  for (int i = 0; i < n; ++i) {
    unsigned slot = i % slots, parity = i / slots & 1;
    float *tile = tiles + slot * rows * columns;
    if (warp == 0) {
      await(&empty[slot], parity ^ 1);
      for (unsigned row = 0; row < rows; ++row)
        __pipeline_memcpy_async(&tile[row * columns + lane * 4],
                                &x[(i * rows + row) * columns + lane * 4], 16);
      arriveBehindCopies(&full[slot]);
      continue;
    }
    await(&full[slot], parity);
    for (unsigned row = 0; row < rows; ++row)
      sum += tile[row * columns + threadIdx.x - 32];
    __syncwarp();
    if (lane == 0)
      __mbarrier_arrive(&empty[slot]);
  }
  if (warp)
    out[threadIdx.x - 32] = sum;
}

// Each block of 256 reversed, by threads that all copy, arrive and wait: what
// __pipeline_arrive_on counts is its own.
extern "C" __global__ void reverse(const float *x, float *out, int blocks) {
  __shared__ float buffer[2][256];
  __shared__ __mbarrier_t barrier;
  if (threadIdx.x == 0)
    __mbarrier_init(&barrier, blockDim.x);
  __syncthreads();
  for (int i = 0; i < blocks; ++i) {
    float *here = buffer[i % 2];
    __pipeline_memcpy_async(&here[threadIdx.x], &x[i * 256 + threadIdx.x], 4);
    __pipeline_arrive_on(&barrier);
    __mbarrier_token_t token = __mbarrier_arrive(&barrier);
    while (!__mbarrier_test_wait(&barrier, token)) {
    }
    out[i * 256 + threadIdx.x] = here[255 - threadIdx.x];
  }
}
