// Fused attention forward, written for the emulator's tests: f16, head_dim 64,
// 4 warps of 16 query rows, key tiles of 64 in a ring of two cp.async stages.
// attention.ptx is this file compiled by `nvcc -arch=sm_89 -ptx -lineinfo`.
#include <cuda_fp16.h>
#include <stdint.h>

constexpr int kHeadDim = 64, kBlockM = 64, kBlockN = 64, kStages = 2;
constexpr int kTileBytes = kBlockN * kHeadDim * 2;

// Rows of 128 bytes in 8 chunks; chunk c of row r lies at c ^ (r & 7).
__device__ uint32_t swizzled(uint32_t base, int row, int chunk) {
  return base + row * 128 + ((chunk ^ (row & 7)) << 4);
}

__device__ void cpAsync16(uint32_t to, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to),
               "l"(from));
}

__device__ void ldmatrix4(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ void ldmatrix4Trans(uint32_t (&r)[4], uint32_t address) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
      : "r"(address)
      : "memory");
}

__device__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                    uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ void copyTile(uint32_t to, const __half *from) {
  for (int i = threadIdx.x; i < kBlockN * 8; i += 128)
    cpAsync16(swizzled(to, i / 8, i % 8), from + i / 8 * kHeadDim + i % 8 * 8);
}

extern "C" __global__ void __launch_bounds__(128)
    attention(const __half *q, const __half *k, const __half *v, __half *o,
              float *lse, int seqlen, float scaleLog2) {
  extern __shared__ __align__(128) uint8_t smem[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const size_t head = size_t(blockIdx.y) * seqlen * kHeadDim;
  const int row0 = blockIdx.x * kBlockM;
  const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(smem));
  const uint32_t qBase = base, kBase = base + kTileBytes,
                 vBase = kBase + kStages * kTileBytes;
  const int numTiles = seqlen / kBlockN;

  copyTile(qBase, q + head + size_t(row0) * kHeadDim);
  copyTile(kBase, k + head);
  copyTile(vBase, v + head);
  asm volatile("cp.async.commit_group;");

  uint32_t qFragment[4][4];
  float out[8][4] = {}, rowMax[2] = {-INFINITY, -INFINITY}, rowSum[2] = {0, 0};
  for (int tile = 0; tile < numTiles; ++tile) {
    const int stage = tile % kStages;
    if (tile + 1 < numTiles) {
      const size_t next = head + size_t(tile + 1) * kBlockN * kHeadDim;
      copyTile(kBase + (stage ^ 1) * kTileBytes, k + next);
      copyTile(vBase + (stage ^ 1) * kTileBytes, v + next);
    }
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    if (tile == 0)
      for (int s = 0; s < 4; ++s)
        ldmatrix4(qFragment[s], swizzled(qBase, warp * 16 + lane % 16,
                                         s * 2 + lane / 16));

    float score[8][4] = {};
    for (int s = 0; s < 4; ++s)
      for (int n = 0; n < 4; ++n) {
        uint32_t b[4];
        int row = n * 16 + (lane / 16) * 8 + lane % 8;
        ldmatrix4(b, swizzled(kBase + stage * kTileBytes, row,
                              s * 2 + lane / 8 % 2));
        mma(score[2 * n], qFragment[s], b[0], b[1]);
        mma(score[2 * n + 1], qFragment[s], b[2], b[3]);
      }

    for (int half = 0; half < 2; ++half) {
      float m = rowMax[half];
      for (int n = 0; n < 8; ++n)
        m = fmaxf(m, fmaxf(score[n][2 * half], score[n][2 * half + 1]));
      m = fmaxf(m, __shfl_xor_sync(~0u, m, 1));
      m = fmaxf(m, __shfl_xor_sync(~0u, m, 2));
      const float rescale = exp2f((rowMax[half] - m) * scaleLog2);
      rowMax[half] = m;
      rowSum[half] *= rescale;
      for (int n = 0; n < 8; ++n)
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          score[n][i] = exp2f((score[n][i] - m) * scaleLog2);
          rowSum[half] += score[n][i];
          out[n][i] *= rescale;
        }
    }

    for (int s = 0; s < 4; ++s) {
      uint32_t p[4];
      for (int i = 0; i < 4; ++i) {
        __half2 pair = __floats2half2_rn(score[2 * s + i / 2][2 * (i % 2)],
                                         score[2 * s + i / 2][2 * (i % 2) + 1]);
        p[i] = *reinterpret_cast<uint32_t *>(&pair);
      }
      for (int n = 0; n < 4; ++n) {
        uint32_t b[4];
        int row = s * 16 + lane % 16;
        ldmatrix4Trans(b, swizzled(vBase + stage * kTileBytes, row,
                                   n * 2 + lane / 16));
        mma(out[2 * n], p, b[0], b[1]);
        mma(out[2 * n + 1], p, b[2], b[3]);
      }
    }
    __syncthreads();
  }

  for (int half = 0; half < 2; ++half) {
    float sum = rowSum[half];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    const int row = row0 + warp * 16 + half * 8 + lane / 4;
    for (int n = 0; n < 8; ++n) {
      __half2 pair = __floats2half2_rn(out[n][2 * half] / sum,
                                       out[n][2 * half + 1] / sum);
      *reinterpret_cast<__half2 *>(o + head + size_t(row) * kHeadDim + n * 8 +
                                   lane % 4 * 2) = pair;
    }
    if (lane % 4 == 0)
      lse[size_t(blockIdx.y) * seqlen + row] =
          (rowMax[half] * scaleLog2 + log2f(sum)) * 0.6931471805599453f;
  }
}
