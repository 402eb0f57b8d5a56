// flash1: K and V outside (Dao et al. 2022, Algorithm 1), as one true kernel: one block of threads a head.
//
//         K_j, V_j stay          for each column block j:  K_j, V_j in
//           ┌────┐                 for each row block i:   Q_i, O_i, m_i, l_i in
//      Q_0  │ |  │ O_0                                     S = Q_i K_j^T, softmax, O_i = (alpha l O_i + P V_j) / l
//      Q_1  │ v  │ O_1                                     O_i, m_i, l_i out
//      Q_2  │    │ O_2
//           └────┘               The running O, m and l live in HBM (float32) and cross it twice in every tile.
//
// Traffic, in elements: sum over column blocks visited of bc (d + dv) + sum over tiles visited of br (d + 2 dv + 4).
// Normalised only at the end: Nq (2 dv + 3) more. Setting up O, m, l (flash1_init) is not part of it. The loop over j
// cannot be shared between blocks of threads, so with fewer heads than SMs the other SMs idle: that is its weakness.
#include "tile.cuh"

extern "C" __global__ void __launch_bounds__(kThreads, 1) flash1_init(const Arguments a) {
  const long long rows = static_cast<long long>(a.heads) * a.Nq, step = static_cast<long long>(gridDim.x) * kThreads;
  for (long long n = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x; n < rows * DV; n += step) {
    a.running_O[n] = 0;
    if (n < rows) a.m[n] = -infinity(), a.l[n] = 0;
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1) flash1(const Arguments a) {
  extern __shared__ float shared[];
  float* Q = shared;
  float* K = Q + BR * kPitch;
  float* V = K + BC * kPitch;
  float* S = V + BC * DV;
  float* O = S + BR * BC;
  RowState& s = *reinterpret_cast<RowState*>(O + BR * DV);
  const int head = blockIdx.x, Tc = (a.Nk + BC - 1) / BC, Tr = (a.Nq + BR - 1) / BR;
  const long long kv_row = static_cast<long long>(head / a.group) * a.Nk, q_row = static_cast<long long>(head) * a.Nq;

  Counter counter;
  Recorder recorder;
  for (int n = 0; n < Tc; ++n) {
    const int col0 = (REVERSE ? Tc - 1 - n : n) * BC, cols = min(BC, a.Nk - col0);
    const Range visited = visited_rows(a, col0, cols);
    if (visited.first >= visited.last) continue;
    __syncthreads();
    load_tile<BC, D, kPitch>(K, static_cast<const Element*>(a.K) + (kv_row + col0) * D, cols);
    load_tile<BC, DV, DV>(V, static_cast<const Element*>(a.V) + (kv_row + col0) * DV, cols);
    counter.read_tile(flashscope::gpu::kK, static_cast<long long>(cols) * D);
    counter.read_tile(flashscope::gpu::kV, static_cast<long long>(cols) * DV);
    for (int i = visited.first; i < visited.last; ++i) {
      const int row0 = i * BR, rows = min(BR, a.Nq - row0);
      const long long row = q_row + row0;
      __syncthreads();
      recorder.begin();
      load_tile<BR, D, kPitch>(Q, static_cast<const Element*>(a.Q) + row * D, rows);
      load_tile<BR, DV, DV>(O, a.running_O + row * DV, rows);
      load_tile<BR, 1, 1>(s.m, a.m + row, rows);
      load_tile<BR, 1, 1>(s.l, a.l + row, rows);
      counter.read_tile(flashscope::gpu::kQ, static_cast<long long>(rows) * D);
      counter.read(flashscope::gpu::kO, 4ll * rows * DV);
      counter.read(flashscope::gpu::kM, 4ll * rows);
      counter.read(flashscope::gpu::kL, 4ll * rows);
      counter.read_masks(a, rows, cols);
      __syncthreads();
      scores(S, Q, K);
      __syncthreads();
      softmax(S, s, a, head, row0, col0);
      __syncthreads();
      add(O, S, V, s);
      __syncthreads();
      for (int n = threadIdx.x; n < rows * DV; n += kThreads) a.running_O[row * DV + n] = O[n];
      for (int r = threadIdx.x; r < rows; r += kThreads) a.m[row + r] = s.m[r], a.l[row + r] = s.l[r];
      counter.written(flashscope::gpu::kO, 4ll * rows * DV);
      counter.written(flashscope::gpu::kM, 4ll * rows);
      counter.written(flashscope::gpu::kL, 4ll * rows);
      recorder.end(a, head, i, col0 / BC);
    }
  }
  // Normalised in every tile, nothing is left to do; LSE follows from m and l.
  if (!EACH) {
    for (int i = 0; i < Tr; ++i) {
      const int row0 = i * BR, rows = min(BR, a.Nq - row0);
      __syncthreads();
      recorder.begin();
      load_tile<BR, DV, DV>(O, a.running_O + (q_row + row0) * DV, rows);
      load_tile<BR, 1, 1>(s.m, a.m + q_row + row0, rows);
      load_tile<BR, 1, 1>(s.l, a.l + q_row + row0, rows);
      __syncthreads();
      finish<false>(O, s, a, head, row0, rows);
      recorder.end(a, head, i, -1);
      counter.read(flashscope::gpu::kO, 4ll * rows * DV);
      counter.read(flashscope::gpu::kM, 4ll * rows);
      counter.read(flashscope::gpu::kL, 4ll * rows);
      counter.written(flashscope::gpu::kO, static_cast<long long>(rows) * DV * static_cast<int>(sizeof(Element)));
      counter.written(flashscope::gpu::kLSE, 4ll * rows);
    }
  }
  counter.add_to(a.counted);
}
