// Small CUDA kernels for the emulator's tests. kernels.ptx is this file compiled
// by `nvcc -arch=sm_89 -ptx`.
#include <cuda_fp16.h>

extern "C" __global__ void reduce(const float *x, float *out, int n) {
  __shared__ float partial[256];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x)
    sum += x[i];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int step = 128; step > 0; step >>= 1) {
    if (threadIdx.x < step)
      partial[threadIdx.x] += partial[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0)
    atomicAdd(out, partial[0]);
}

__device__ __noinline__ int fibonacci(int n) {
  int a = 0, b = 1;
  for (int i = 0; i < n; ++i) {
    int next = a + b;
    a = b;
    b = next;
  }
  return a;
}

extern "C" __global__ void integers(const int *x, long long *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  int v = x[i];
  long long r = 0;
  switch (v & 7) {
  case 0: r = v * 3; break;
  case 1: r = v / 7; break;
  case 2: r = v % 5; break;
  case 3: r = __popc(v); break;
  case 4: r = __clz(v); break;
  case 5: r = (int)__brev(v); break;
  case 6: r = fibonacci(v & 31); break;
  default: r = ((long long)v * v) >> 3; break;
  }
  int local[8];
  for (int k = 0; k < 8; ++k)
    local[k] = v + k;
  out[i] = r + local[(v >> 3) & 7] + (int)__byte_perm(v, ~v, 0x3715);
}

__device__ unsigned int done = 0;

// The last block to finish adds the partial sums of all.
extern "C" __global__ void lastBlock(const float *x, float *partial, float *out,
                                     int n) {
  __shared__ bool isLast;
  __shared__ float sums[4];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x)
    sum += x[i];
  for (int step = 16; step; step >>= 1)
    sum += __shfl_down_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0)
    sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sums[0] + sums[1] + sums[2] + sums[3];
    __threadfence();
    isLast = atomicInc(&done, gridDim.x) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (isLast && threadIdx.x == 0) {
    float total = 0;
    for (int i = 0; i < gridDim.x; ++i)
      total += partial[i];
    out[0] = total;
  }
}

// Without padding: 32-way bank conflicts when the tile is read.
extern "C" __global__ void transpose(const float *x, float *out, int n) {
  __shared__ float tile[32][32];
  int bx = blockIdx.x * 32, by = blockIdx.y * 32;
  for (int j = threadIdx.y; j < 32; j += 8)
    tile[j][threadIdx.x] = x[(by + j) * n + bx + threadIdx.x];
  __syncthreads();
  for (int j = threadIdx.y; j < 32; j += 8)
    out[(bx + j) * n + by + threadIdx.x] = tile[threadIdx.x][j];
}

// Each block waits for the one before it: CTAs must make progress together.
extern "C" __global__ void chain(volatile int *flags) {
  if (blockIdx.x + 1 < gridDim.x)
    while (flags[blockIdx.x + 1] == 0)
      ;
  flags[blockIdx.x] = 1;
}
