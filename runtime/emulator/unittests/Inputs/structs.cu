// Kernels that take structs by value and pointers inside buffers. structs.ptx is
// this file compiled by `nvcc -arch=sm_89 -ptx`.

struct Scale {
  float factor;
  bool doubles;
};

struct Params {
  const float *x;
  float *y;
  int n;
  Scale scale;
};

// y = factor * x, or twice that.
extern "C" __global__ void scale(const __grid_constant__ Params params) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < params.n)
    params.y[i] =
        params.x[i] * params.scale.factor * (params.scale.doubles ? 2 : 1);
}

// sums[i] = the sum of row i, which has lengths[i] elements.
extern "C" __global__ void sumRows(const float *const *rows, const int *lengths,
                                   float *sums) {
  float sum = 0;
  for (int i = 0; i < lengths[threadIdx.x]; ++i)
    sum += rows[threadIdx.x][i];
  sums[threadIdx.x] = sum;
}
