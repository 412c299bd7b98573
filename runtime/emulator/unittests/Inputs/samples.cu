// CUDA kernels of many kinds for the emulator's tests. samples.ptx is this file
// compiled by `nvcc -arch=sm_89 -ptx`, samples.clang.ptx by `clang++-22 -x cuda
// --cuda-device-only --cuda-gpu-arch=sm_89 -O2 -S`.
#include <assert.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
#include <stdio.h>

// Shuffles within warps, atomics between them.
extern "C" __global__ void warpSum(const float *x, float *out, int n) {
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x)
    sum += x[i];
  for (int step = 16; step > 0; step /= 2)
    sum += __shfl_down_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0)
    atomicAdd(out, sum);
}

// Inclusive prefix sum of a block: warp scans, then a scan of their totals.
extern "C" __global__ void scan(const int *x, int *out) {
  __shared__ int totals[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int value = x[threadIdx.x];
  for (int step = 1; step < 32; step *= 2) {
    int other = __shfl_up_sync(~0u, value, step);
    value += lane >= step ? other : 0;
  }
  if (lane == 31)
    totals[warp] = value;
  __syncthreads();
  if (warp == 0) {
    int total = lane < blockDim.x / 32 ? totals[lane] : 0;
    for (int step = 1; step < 32; step *= 2) {
      int other = __shfl_up_sync(~0u, total, step);
      total += lane >= step ? other : 0;
    }
    totals[lane] = total;
  }
  __syncthreads();
  out[threadIdx.x] = value + (warp ? totals[warp - 1] : 0);
}

// What the lanes of a warp know of each other, some of them diverged.
extern "C" __global__ void lanes(const int *x, int4 *out) {
  int value = x[threadIdx.x];
  int4 r;
  r.x = __match_any_sync(~0u, value);
  r.y = __reduce_add_sync(~0u, value) + __reduce_max_sync(~0u, value);
  r.z = __ballot_sync(~0u, value & 1);
  r.w = 0;
  if (value & 1)
    r.w = __activemask() == r.z;
  else
    r.w = __popc(__match_any_sync(~r.z, value & 6));
  out[threadIdx.x] = r;
}

// Half a warp exchanges data in shared memory by itself.
extern "C" __global__ void halfWarps(const int *x, int *out) {
  __shared__ int slots[64];
  int t = threadIdx.x;
  slots[t] = x[t];
  if (t % 32 < 16) {
    __syncwarp(0x0000ffff);
    out[t] = slots[t ^ 15];
  } else {
    __syncwarp(0xffff0000);
    out[t] = slots[t ^ 1] * 2;
  }
}

extern "C" __global__ void histogram(const unsigned char *x, unsigned *bins,
                                     int n) {
  __shared__ unsigned local[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    local[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x)
    atomicAdd(&local[x[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    if (local[i])
      atomicAdd(&bins[i], local[i]);
}

// A stack machine: a dense switch and an array in local memory.
extern "C" __global__ void stackMachine(const unsigned char *program, int length,
                                        int *out) {
  int stack[16], top = 0;
  for (int i = 0; i < 16; ++i)
    stack[i] = 0;
  for (int i = 0; i < length; ++i) {
    int code = program[(i + threadIdx.x) % length];
    int a = stack[top & 15], b = stack[(top - 1) & 15];
    switch (code) {
    case 0: stack[++top & 15] = threadIdx.x; break;
    case 1: stack[--top & 15] = a + b; break;
    case 2: stack[--top & 15] = a - b; break;
    case 3: stack[--top & 15] = a * b; break;
    case 4: stack[top & 15] = -a; break;
    case 5: stack[++top & 15] = a; break;
    case 6: stack[top & 15] = a >> 1; break;
    case 7: stack[top & 15] = a ^ b; break;
    case 8: stack[top & 15] = b ? a % b : 7; break;
    default: top = 0; break;
    }
  }
  out[threadIdx.x] = stack[top & 15];
}

extern "C" __global__ void doubles(const double *x, double *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  double v = x[i];
  out[6 * i] = sqrt(fabs(v)) / (v * v + 1.0);
  out[6 * i + 1] = exp(v * 0.01);
  out[6 * i + 2] = log(fabs(v) + 1.0);
  out[6 * i + 3] = __dadd_rz(v, 0x1p-60) + __dmul_ru(v, 1.1);
  out[6 * i + 4] = rsqrt(fabs(v) + 0.5);
  out[6 * i + 5] = copysign(floor(v * 0.37), -v) + (double)(long long)v;
}

extern "C" __global__ void halves(const __half2 *x, const __nv_bfloat162 *y,
                                  __half2 *hOut, __nv_bfloat162 *bOut,
                                  unsigned *flags) {
  int i = threadIdx.x;
  __half2 a = x[i], b = x[(i + 1) % blockDim.x];
  __half2 sum = __hfma2(a, b, __hadd2_sat(a, b));
  hOut[i] = __hmax2(sum, __hneg2(__hmul2(a, b)));
  __nv_bfloat162 c = y[i], d = y[(i + 1) % blockDim.x];
  bOut[i] = __hfma2(c, d, __hsub2(c, d));
  flags[i] = (__hgt(__low2half(a), __high2half(b)) ? 1 : 0) |
             (__hbgt2(a, b) ? 2 : 0) | (__hlt(__low2bfloat16(c), __high2bfloat16(d)) ? 4 : 0);
  flags[i] += __hgt2_mask(a, b) & 0x100010;
}

// Wide integers: carries, high products, dot products of bytes.
extern "C" __global__ void wide(const uint64_t *x, uint64_t *out) {
  int i = threadIdx.x;
  uint64_t a = x[i], b = x[i + blockDim.x];
  uint64_t low, high;
  asm("mul.lo.u64 %0, %2, %3;\n\t"
      "mul.hi.u64 %1, %2, %3;\n\t"
      "add.cc.u64 %0, %0, %2;\n\t"
      "addc.u64 %1, %1, %3;"
      : "=&l"(low), "=&l"(high) : "l"(a), "l"(b));
  unsigned __int128 square = (unsigned __int128)a * a - b;
  out[4 * i] = low;
  out[4 * i + 1] = high;
  out[4 * i + 2] = (uint64_t)(square >> 64) ^ (uint64_t)square;
  out[4 * i + 3] = (unsigned)__dp4a((int)a, (int)b, 5) +
                   ((uint64_t)__byte_perm((unsigned)a, (unsigned)b, 0x4361) << 32);
}

__device__ int evens[4] = {0, 2, 4, 6};
__device__ int odds[4] = {1, 3, 5, 7};
__constant__ const int *const tables[3] = {odds + 1, evens, odds};

extern "C" __global__ void pointerTable(int *out) {
  out[threadIdx.x] = tables[threadIdx.x % 3][threadIdx.x % 2];
}

extern "C" __global__ void report(const int *x, int limit) {
  int i = threadIdx.x;
  if (i < 3)
    printf("thread %d: %5.2f %s 0x%llx %c%%\n", i, x[i] * 0.5,
           i ? "later" : "first", 1ull << (40 + i), 'a' + i);
  assert(x[i] < limit);
}

// C = A B^T of f16 matrices, 64 x 64 tiles by 4 warps, depth 32 a step in two
// stages of cp.async, ldmatrix and mma m16n8k16.
constexpr int kTile = 64, kDepth = 32, kRow = kDepth + 8;

__device__ void copyTile(__half *to, const __half *from, int stride) {
  for (int i = threadIdx.x; i < kTile * kDepth / 8; i += blockDim.x) {
    int row = i / (kDepth / 8), column = i % (kDepth / 8) * 8;
    unsigned address = (unsigned)__cvta_generic_to_shared(to + row * kRow + column);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address),
                 "l"(from + row * stride + column) : "memory");
  }
}

extern "C" __global__ void __launch_bounds__(128, 2)
    gemm(const __half *a, const __half *b, float *c, int n, int k) {
  __shared__ __align__(16) __half as[2][kTile * kRow], bs[2][kTile * kRow];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const __half *aRows = a + blockIdx.y * kTile * k;
  const __half *bRows = b + blockIdx.x * kTile * k;
  float acc[8][4] = {};
  copyTile(as[0], aRows, k);
  copyTile(bs[0], bRows, k);
  asm volatile("cp.async.commit_group;" ::: "memory");
  for (int step = 0; step < k / kDepth; ++step) {
    if (step + 1 < k / kDepth) {
      copyTile(as[(step + 1) % 2], aRows + (step + 1) * kDepth, k);
      copyTile(bs[(step + 1) % 2], bRows + (step + 1) * kDepth, k);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    for (int k0 = 0; k0 < kDepth; k0 += 16) {
      unsigned fa[4];
      const __half *at = as[step % 2] + (warp * 16 + lane % 16) * kRow + k0 + lane / 16 * 8;
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
                   : "r"((unsigned)__cvta_generic_to_shared(at)) : "memory");
      for (int j = 0; j < 8; ++j) {
        unsigned fb[2];
        const __half *bt = bs[step % 2] + (j * 8 + lane % 8) * kRow + k0 + lane / 8 % 2 * 8;
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                     : "=r"(fb[0]), "=r"(fb[1])
                     : "r"((unsigned)__cvta_generic_to_shared(bt)) : "memory");
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(acc[j][0]), "+f"(acc[j][1]), "+f"(acc[j][2]), "+f"(acc[j][3])
                     : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
      }
    }
    __syncthreads();
  }
  int row = blockIdx.y * kTile + warp * 16 + lane / 4;
  for (int j = 0; j < 8; ++j) {
    int column = blockIdx.x * kTile + j * 8 + lane % 4 * 2;
    *(float2 *)(c + row * n + column) = make_float2(acc[j][0], acc[j][1]);
    *(float2 *)(c + (row + 8) * n + column) = make_float2(acc[j][2], acc[j][3]);
  }
}
