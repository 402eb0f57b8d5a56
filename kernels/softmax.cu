// standard attention's middle kernel: P = softmax(S), S and P whole in HBM. Around it two matrix products by cuBLAS.
//
//      S = scale Q K^T          P = softmax(S + mask)            O = P V
//      ┌────────────┐           ┌────────────┐
//      │            │   row by  │            │                   one block of threads a row of S:
//      │  Nq x Nk   │   row ->  │  Nq x Nk   │                   the row comes in once, waits in shared memory
//      │            │           │            │                   as float32, and goes out once as P
//      └────────────┘           └────────────┘                   (one too long for it comes in three times: ROW_FITS 0)
//
// Traffic, in elements: standard moves 4 Nq Nk + (Nq + Nk)(d + dv) in all; 2 Nq Nk of it are this kernel's. It writes
// LSE as well, which the plain algorithm does not have: only to be compared.
#include "tile.cuh"

__device__ inline float block_reduce(float x, float* parts, bool sum) {
  x = sum ? warp_sum(x) : warp_max(x);
  __syncthreads();  // the last reduction's parts have been read
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  x = parts[threadIdx.x % kWarps];
  return sum ? warp_sum(x) / (32 / kWarps) : warp_max(x);
}

extern "C" __global__ void __launch_bounds__(kThreads, 1) softmax_rows(const Arguments a) {
  extern __shared__ float x[];
  float* parts = x + (ROW_FITS ? a.Nk : 0);
  const long long row = blockIdx.x;
  const int head = static_cast<int>(row / a.Nq), r = static_cast<int>(row % a.Nq);
  const Element* S = static_cast<const Element*>(a.S) + row * a.Nk;
  Element* P = static_cast<Element*>(a.P) + row * a.Nk;

  Recorder recorder;
  recorder.begin();
  float m = -infinity();
  bool any = false;
  const auto score = [&](int c) {
    bool visible;
    const float s = masked(to_float(load(S + c)), visible, a, head, r, c);
    any = any || visible;
    return s;
  };
  for (int c = threadIdx.x; c < a.Nk; c += kThreads) {
    const float s = score(c);
    if (ROW_FITS) x[c] = s;
    m = row_max(m, s);
  }
  const bool policy = !__syncthreads_or(any) && GUARD != kNoGuard;
  m = block_reduce(m, parts, false);
  const float base = GUARD == kClamp && m == -infinity() ? 0 : m;
  float l = 0;
  for (int c = threadIdx.x; c < a.Nk; c += kThreads) {
    const float p = expf((ROW_FITS ? x[c] : score(c)) - base);
    if (ROW_FITS) x[c] = p;
    l += p;
  }
  l = block_reduce(l, parts, true);
  const float empty = EMPTY == kZero ? 0 : EMPTY == kNaN ? not_a_number() : 1.f / a.Nk;
  for (int c = threadIdx.x; c < a.Nk; c += kThreads) {
    const float p = ROW_FITS ? x[c] : expf(score(c) - base);
    P[c] = from_float(policy ? empty : p / l);
  }
  if (threadIdx.x == 0) a.LSE[row] = policy ? -infinity() : m + logf(l);
  recorder.end(a, head, r / BR, -1);
}
