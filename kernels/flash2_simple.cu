// flash2 without tensor cores: Q outside (Dao 2023, Algorithm 1), float32 throughout, any block sizes.
//
// One block of threads owns row block i of one head: Q_i, O_i, m, l stay in shared memory, K and V stream by through
// one buffer, K_j first and V_j in its place.
//
//              K_0  K_1  K_2  ...        for each column block j that is visited:
//            ┌────┬────┬────┬────┐          K_j in, S = Q_i K_j^T, softmax, V_j in, O = alpha O + P V_j
//       Q_i  │ -> │ -> │ -> │    │       then O / l and LSE out
//            └────┴────┴────┴────┘
//
// Traffic, in elements: Nq (d + dv + 1) + sum over tiles visited of bc (d + dv): K and V once per row block.
#include "tile.cuh"

constexpr int kKV = BC * (kPitch > DV ? kPitch : DV);

extern "C" __global__ void __launch_bounds__(kThreads, 1) flash2_simple(const Arguments a) {
  extern __shared__ float shared[];
  float* Q = shared;
  float* KV = Q + BR * kPitch;
  float* S = KV + kKV;
  float* O = S + BR * BC;
  RowState& s = *reinterpret_cast<RowState*>(O + BR * DV);
  const int Tr = (a.Nq + BR - 1) / BR, head = blockIdx.x / Tr, i = Tr - 1 - blockIdx.x % Tr;
  const int row0 = i * BR, rows = min(BR, a.Nq - row0);
  const long long kv_row = static_cast<long long>(head / a.group) * a.Nk;
  const Element* K = static_cast<const Element*>(a.K) + kv_row * D;
  const Element* V = static_cast<const Element*>(a.V) + kv_row * DV;

  Counter counter;
  Recorder recorder;
  load_tile<BR, D, kPitch>(Q, static_cast<const Element*>(a.Q) + (static_cast<long long>(head) * a.Nq + row0) * D,
                           rows);
  counter.read_tile(flashscope::gpu::kQ, static_cast<long long>(rows) * D);
  for (int n = threadIdx.x; n < BR * DV; n += kThreads) O[n] = 0;
  for (int r = threadIdx.x; r < BR; r += kThreads) {
    s.m[r] = -infinity();
    s.l[r] = s.factor[r] = 0;
    s.divisor[r] = 1;
    s.flags[r] = 0;
  }

  const Range visited = visited_columns(a, row0, rows);
  for (int n = visited.first; n < visited.last; ++n) {
    const int j = REVERSE ? visited.last - 1 - (n - visited.first) : n;
    const int col0 = j * BC, cols = min(BC, a.Nk - col0);
    __syncthreads();
    recorder.begin();
    load_tile<BC, D, kPitch>(KV, K + static_cast<long long>(col0) * D, cols);
    counter.read_tile(flashscope::gpu::kK, static_cast<long long>(cols) * D);
    counter.read_masks(a, rows, cols);
    __syncthreads();
    scores(S, Q, KV);
    __syncthreads();
    softmax(S, s, a, head, row0, col0);
    load_tile<BC, DV, DV>(KV, V + static_cast<long long>(col0) * DV, cols);
    counter.read_tile(flashscope::gpu::kV, static_cast<long long>(cols) * DV);
    __syncthreads();
    add(O, S, KV, s);
    recorder.end(a, head, i, j);
  }
  __syncthreads();
  finish<true>(O, s, a, head, row0, rows);
  counter.written(flashscope::gpu::kO, static_cast<long long>(rows) * DV * static_cast<int>(sizeof(Element)));
  counter.written(flashscope::gpu::kLSE, 4ll * rows);
  counter.add_to(a.counted);
}
