// Kernels of nvcuda::wmma, as tutorials write them. wmma.ptx is this file
// compiled by `nvcc -arch=sm_89 -ptx`.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

// C = A * B by 64 x 64 tiles of four warps, through padded shared memory. A is
// row-major, B column-major, n a multiple of 64.
extern "C" __global__ void gemm(const half *a, const half *b, float *c, int n) {
  constexpr int tile = 64, depth = 32, pitch = depth + 8;
  __shared__ __align__(32) half as[tile * pitch], bs[tile * pitch];
  int row = blockIdx.y * tile, column = blockIdx.x * tile;
  int warp = threadIdx.x / 32;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[4];
  for (auto &fragment : sum)
    wmma::fill_fragment(fragment, 0.0f);
  for (int k = 0; k < n; k += depth) {
    for (int i = threadIdx.x; i < tile * depth; i += blockDim.x) {
      as[i / depth * pitch + i % depth] = a[(row + i / depth) * n + k + i % depth];
      bs[i / depth * pitch + i % depth] =
          b[(column + i / depth) * n + k + i % depth];
    }
    __syncthreads();
    for (int step = 0; step < depth; step += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
      wmma::load_matrix_sync(fa, as + warp * 16 * pitch + step, pitch);
      for (int j = 0; j < 4; ++j) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
        wmma::load_matrix_sync(fb, bs + j * 16 * pitch + step, pitch);
        wmma::mma_sync(sum[j], fa, fb, sum[j]);
      }
    }
    __syncthreads();
  }
  for (int j = 0; j < 4; ++j)
    wmma::store_matrix_sync(c + (row + warp * 16) * n + column + j * 16, sum[j],
                            n, wmma::mem_row_major);
}

// D = 2 * relu(A * B) + C: element i of one accumulator meets element i of
// another, and the factors are scaled in their fragments.
extern "C" __global__ void epilogue(const half *a, const half *b, const float *c,
                                    float *d) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> product, fc;
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::load_matrix_sync(fc, c, 16, wmma::mem_col_major);
  for (int i = 0; i < fa.num_elements; ++i)
    fa.x[i] = fa.x[i] * half(2.0f);
  wmma::fill_fragment(product, 0.0f);
  wmma::mma_sync(product, fa, fb, product);
  for (int i = 0; i < fc.num_elements; ++i)
    product.x[i] = fmaxf(product.x[i], 0.0f) + fc.x[i];
  wmma::store_matrix_sync(d, product, 16, wmma::mem_row_major);
}

// One tile of any shape and type, with strides that are not constant.
template <int M, int N, int K, typename T, typename Storage, typename Sum,
          typename LayoutA, typename LayoutB>
__device__ void product(const Storage *a, const Storage *b, const Sum *c, Sum *d,
                        int lda, int ldb, int ldc, wmma::layout_t layout) {
  wmma::fragment<wmma::matrix_a, M, N, K, T, LayoutA> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, T, LayoutB> fb;
  wmma::fragment<wmma::accumulator, M, N, K, Sum> fc;
  wmma::load_matrix_sync(fa, a, lda);
  wmma::load_matrix_sync(fb, b, ldb);
  wmma::load_matrix_sync(fc, c, ldc, layout);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(d, fc, ldc, layout);
}

#define PRODUCT(NAME, M, N, K, T, STORAGE, SUM)                                \
  extern "C" __global__ void NAME##_rr(const STORAGE *a, const STORAGE *b,     \
                                       const SUM *c, SUM *d, int lda, int ldb, \
                                       int ldc) {                              \
    product<M, N, K, T, STORAGE, SUM, wmma::row_major, wmma::row_major>(       \
        a, b, c, d, lda, ldb, ldc, wmma::mem_row_major);                       \
  }                                                                            \
  extern "C" __global__ void NAME##_cc(const STORAGE *a, const STORAGE *b,     \
                                       const SUM *c, SUM *d, int lda, int ldb, \
                                       int ldc) {                              \
    product<M, N, K, T, STORAGE, SUM, wmma::col_major, wmma::col_major>(       \
        a, b, c, d, lda, ldb, ldc, wmma::mem_col_major);                       \
  }
#define SHAPES(NAME, T, STORAGE, SUM)                                          \
  PRODUCT(NAME##_m16n16k16, 16, 16, 16, T, STORAGE, SUM)                       \
  PRODUCT(NAME##_m32n8k16, 32, 8, 16, T, STORAGE, SUM)                         \
  PRODUCT(NAME##_m8n32k16, 8, 32, 16, T, STORAGE, SUM)

SHAPES(f16, half, half, float)
SHAPES(bf16, __nv_bfloat16, __nv_bfloat16, float)
SHAPES(s8, signed char, signed char, int)
SHAPES(u8, unsigned char, unsigned char, int)
PRODUCT(f16_f16_m16n16k16, 16, 16, 16, half, half, half)
PRODUCT(tf32_m16n16k8, 16, 16, 8, wmma::precision::tf32, float, float)
