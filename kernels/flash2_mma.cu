// flash2 on tensor cores: FlashAttention-2's forward pass (Dao 2023, Algorithm 1), mma.sync and cp.async, sm_80 on.
//
// One block of threads owns one row block i of one head; its Q stays on chip while the tiles of K and V stream by.
// Each warp owns 16 or 32 rows, so S, P, O, m and l of a row never leave the registers of four threads.
//
//                 K_j, V_j: one tile in shared memory,           HBM -> shared memory by cp.async past L1,
//                 the next one on its way                        16-byte chunks swizzled within 128 bytes
//                  ┌────┬────┬────┬────┐
//                  │    │ j  │j+1 │    │                         S   = Q_i K_j^T          registers
//         ┌────┐   ├────┼────┼────┼────┤   ┌────┐                m'  = max(m, rowmax S)
//   warp 0│    │   │    │ S  │    │    │   │    │ O, m, l        P   = exp(S - m')
//   warp 1│Q_i │   │    │ =P │    │    │   │    │                l   = exp(m - m') l + rowsum P
//   warp 2│    │   │    │    │    │    │   │    │                O   = exp(m - m') O + P V_j
//   warp 3│    │   │    │    │    │    │   │    │                at the end O / l, LSE = m + ln l
//         └────┘   └────┴────┴────┴────┘   └────┘
//
// Traffic, in elements: Nq (d + dv + 1) + sum over tiles visited of bc (d + dv). K and V are read Tr times, nothing of
// size Nq x Nk is ever written.
//
// Constants beyond common.cuh's: WARPS (divides BR / 16), STAGES of K and V in shared memory. D, DV multiples of 32,
// BR, BC of 16. STAGES 1: V_j is asked for before S, K_{j+1} before the softmax. STAGES 2: both a whole tile ahead.
#include "common.cuh"

constexpr int kThreads = 32 * WARPS;
constexpr int kRowTiles = BR / (16 * WARPS);  // of 16 rows, a warp's
constexpr int kColTiles = BC / 8;
constexpr int kOutTiles = DV / 8;

// A tile of ROWS x COLS 16-bit elements in shared memory: panels of 64 (or 32) columns, each row of a panel 128 (64)
// bytes, its 16-byte chunks permuted by the row so that the 8 rows that ldmatrix reads hit 8 different bank groups.
template <int ROWS, int COLS>
struct Layout {
  static constexpr int kPanel = COLS % 64 == 0 ? 64 : 32, kRowBytes = 2 * kPanel;
  static constexpr int kPanelBytes = ROWS * kRowBytes, kBytes = ROWS * COLS * 2;
  static constexpr int kChunks = kPanel / 8;  // of a row of a panel
  static __device__ constexpr int swizzle(u32 row) { return kPanel == 64 ? row & 7 : (row >> 1) & 3; }
  static __device__ u32 chunk(u32 row, u32 c) {
    return (c / kChunks) * kPanelBytes + row * kRowBytes + (((c % kChunks) ^ swizzle(row)) << 4);
  }
  // Where chunk 2 n + (the low bit that `lane_chunk` was made with) of 16-row group g lies: swizzling commutes with
  // adding 8 rows, so a thread's address is one value and an exclusive or.
  static __device__ u32 at(u32 lane_chunk, int g, int n) {
    return (n / (kPanel / 16)) * kPanelBytes + g * 16 * kRowBytes + (lane_chunk ^ ((n % (kPanel / 16)) << 5));
  }
};
using QTile = Layout<BR, D>;
using KTile = Layout<BC, D>;
using VTile = Layout<BC, DV>;
using OTile = Layout<BR, DV>;
constexpr int kStageBytes = KTile::kBytes + VTile::kBytes;

// Rows [0, rows) of a row-major ROWS x COLS tile; the rows beyond become zeros.
template <int ROWS, int COLS>
__device__ inline void copy_tile(u32 to, const u16* from, int rows) {
  constexpr int chunks = ROWS * (COLS / 8);
  const u32 at = threadIdx.x;
  if (rows >= ROWS) {
#pragma unroll
    for (int n = 0; n < (chunks + kThreads - 1) / kThreads; ++n) {
      const u32 chunk = n * kThreads + at;
      if (chunks % kThreads == 0 || chunk < chunks)
        copy_16(to + Layout<ROWS, COLS>::chunk(chunk / (COLS / 8), chunk % (COLS / 8)), from + chunk * 8);
    }
  } else {
    for (u32 chunk = at; chunk < chunks; chunk += kThreads) {
      const bool real = static_cast<int>(chunk / (COLS / 8)) < rows;
      copy_16(to + Layout<ROWS, COLS>::chunk(chunk / (COLS / 8), chunk % (COLS / 8)), real ? from + chunk * 8 : from,
              real ? 16 : 0);
    }
  }
}

struct Fragment {
  u32 x[4];
};
__device__ inline Fragment load_matrices(u32 address) {
  Fragment f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.x[0]), "=r"(f.x[1]), "=r"(f.x[2]), "=r"(f.x[3])
               : "r"(address)
               : "memory");
  return f;
}
__device__ inline Fragment load_transposed(u32 address) {
  Fragment f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.x[0]), "=r"(f.x[1]), "=r"(f.x[2]), "=r"(f.x[3])
               : "r"(address)
               : "memory");
  return f;
}
// c += A B for a 16 x 16 A and a 16 x 8 B. Thread t holds c of rows t / 4 and t / 4 + 8, columns 2 (t % 4) and the
// next.
__device__ inline void multiply(float (&c)[4], const Fragment& a, u32 b0, u32 b1) {
#if TYPE == 1
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
#else
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
#endif
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b0), "r"(b1));
}

// Over the four threads that share a row.
__device__ inline float quad_max(float x) {
  x = row_max(x, __shfl_xor_sync(~0u, x, 1));
  return row_max(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

// The state of a warp's rows: for each tile of 16 rows the two rows t / 4 and t / 4 + 8 of thread t.
struct State {
  float O[kRowTiles][kOutTiles][4];
  float power[kRowTiles][2];  // m: in powers of 2, with a bias of e
  float l[kRowTiles][2];      // the thread's part
  bool seen[kRowTiles][2];    // some key was visible; kept where masks come from files
};
using Scores = float[kRowTiles][kColTiles][4];

// S = Q_i K_j^T
__device__ inline void scores(Scores& S, u32 q, u32 q_lane, u32 k, u32 k_lane) {
#pragma unroll
  for (int n = 0; n < D / 16; ++n) {
    Fragment a[kRowTiles];
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) a[t] = load_matrices(q + QTile::at(q_lane, t, n));
#pragma unroll
    for (int c = 0; c < kColTiles / 2; ++c) {
      const Fragment b = load_matrices(k + KTile::at(k_lane, c, n));
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t) {
        multiply(S[t][2 * c], a[t], b.x[0], b.x[1]);
        multiply(S[t][2 * c + 1], a[t], b.x[2], b.x[3]);
      }
    }
  }
}

// What S, m and the differences of either are in. With a bias, scores are scaled and m is in powers of e: log2(e) times
// a finite stand-in for -inf would be -inf. Else S is as it was multiplied, and m in powers of 2.
__device__ inline float power_of(float x) { return exp2_fast(BIAS ? x * kLog2e : x); }
constexpr float kToNatural = BIAS ? 1 : kLn2;

template <class T>
__device__ inline const T* cell_of(const flashscope::gpu::Plane& plane, int head, int r, int c) {
  return static_cast<const T*>(plane.data) + head * plane.head_stride + r * plane.row_stride + c * plane.col_stride;
}
// Out of the compiler's sight: addresses of all columns at once take the registers that the scores need.
template <class T>
__device__ inline void advance(const T*& cell, int n) {
  cell += n;
  asm volatile("" : "+l"(cell));
}

// Masked scores become -inf; a bias is added to the scaled score. Mask cells come through L1: a warp's loads of one
// tile share their 32-byte sectors. A row's keep cells become bits first: read where they are used, they spill.
__device__ inline void mask(Scores& S, State& s, const Arguments& a, int head, int row, int col) {
  const int tail = a.Nk - col;  // of this thread's columns
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row + 16 * t + 8 * half;
      const int left = r + a.band_lo - col, right = r + a.band_hi - col;
      const bool real_row = r < a.Nq;
      u32 keep[2] = {};  // of columns 8 n and 8 n + 1: bit n
      if (KEEP && real_row) {
        const unsigned char* cell = cell_of<unsigned char>(a.keep, head, r, col);
#pragma unroll
        for (int n = 0; n < kColTiles; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e)
            if (8 * n + e < tail) keep[e] |= static_cast<u32>(load_through_l1(cell + e * a.keep.col_stride) != 0) << n;
          advance(cell, 8 * a.keep.col_stride);
        }
      }
      const float* bias_cell = cell_of<float>(a.bias, head, r, col);
#pragma unroll
      for (int n = 0; n < kColTiles; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int c = 8 * n + e;
          float& x = S[t][n][2 * half + e];
          bool visible = !BAND || (c >= left && c < right);
          if (KEEP) visible = visible && (keep[e] >> n & 1);
          if (BIAS) {
            float bias = 0;
            if (real_row && c < tail) bias = load_through_l1(bias_cell + e * a.bias.col_stride);
            if (bias == -infinity()) visible = false;
            x = fmaf(x, a.scale, bias);
          }
          if (!visible) x = MASK_ADD ? x - infinity() : -infinity();
          if (c >= tail) x = -infinity();
          if (KEEP || BIAS) s.seen[t][half] |= visible && c < tail;
        }
        if (BIAS) advance(bias_cell, 8 * a.bias.col_stride);
      }
    }
  }
}

// S becomes P; m, l and O move on. `factor`: from stored scores to m's unit.
//
// Any m gives the same O and LSE as long as nothing overflows, so m moves, and O and l are rescaled, only when some
// score of the warp's rows exceeds its m by more than kLazy: after the first tiles hardly ever.
// Numerators stay below 2^8, which float16 holds as exactly as those below 1.
constexpr float kLazy = BIAS ? 8 * kLn2 : 8;
__device__ inline void online_softmax(Scores& S, State& s, float factor) {
  float tile_max[kRowTiles][2];
  bool exceeded = false;
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float& x = tile_max[t][half];
      x = row_max(S[t][0][2 * half], S[t][0][2 * half + 1]);
#pragma unroll
      for (int n = 1; n < kColTiles; ++n) x = row_max(x, row_max(S[t][n][2 * half], S[t][n][2 * half + 1]));
      exceeded |= __fmul_rn(x, factor) > s.power[t][half] + kLazy;
    }
  }
  if (__any_sync(~0u, exceeded)) {
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float power = row_max(s.power[t][half], __fmul_rn(quad_max(tile_max[t][half]), factor));
        const float alpha = power_of(s.power[t][half] - (GUARD == kClamp && power == -infinity() ? 0 : power));
        s.power[t][half] = power;
        s.l[t][half] *= alpha;
#pragma unroll
        for (int n = 0; n < kOutTiles; ++n) {
          s.O[t][n][2 * half] *= alpha;
          s.O[t][n][2 * half + 1] *= alpha;
        }
      }
    }
  }
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float power = GUARD == kClamp && s.power[t][half] == -infinity() ? 0 : s.power[t][half];
#pragma unroll
      for (int n = 0; n < kColTiles; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = S[t][n][2 * half + e];
          x = power_of(fmaf(x, factor, -power));
          s.l[t][half] += x;
        }
      }
    }
  }
}

// O += P V_j. The registers that hold two neighbouring tiles of S are, rounded and packed, the A operand of P.
__device__ inline void accumulate(State& s, const Scores& P, u32 v, u32 v_lane) {
#pragma unroll
  for (int k = 0; k < BC / 16; ++k) {
    Fragment a[kRowTiles];
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
      const float(&x)[4] = P[t][2 * k], (&y)[4] = P[t][2 * k + 1];
      a[t] = {{pack(x[0], x[1]), pack(x[2], x[3]), pack(y[0], y[1]), pack(y[2], y[3])}};
    }
#pragma unroll
    for (int n = 0; n < DV / 16; ++n) {
      const Fragment b = load_transposed(v + VTile::at(v_lane, k, n));
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t) {
        multiply(s.O[t][2 * n], a[t], b.x[0], b.x[1]);
        multiply(s.O[t][2 * n + 1], a[t], b.x[2], b.x[3]);
      }
    }
  }
}

// Whether registers are too short to keep a thread's place through the loop: with a third block an SM, or 128 x 128.
// Elsewhere finding it anew costs 4 % at d = 128.
constexpr bool kFindAnew = MIN_BLOCKS > 1 || BR* BC >= 128 * 128;

// The numbers of a block in the grid and of a thread in its block, read anew in every call.
__device__ inline int this_block() {
  int n;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(n));
  return n;
}
__device__ inline int this_thread() {
  int n;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(n));
  return n;
}

// Row block and head of this thread block. Under a mask the row blocks with the most tiles start first, so that no SM
// is left alone with a long one; heads whose K and V fit in the L2 together take turns.
__device__ inline void place(const Arguments& a, int n, int& head, int& i) {
  const int Tr = (a.Nq + BR - 1) / BR;
  const int in_group = a.heads_together * Tr, first = n / in_group * a.heads_together;
  const int together = min(a.heads_together, a.heads - first), rest = n % in_group;
  head = first + rest % together;
  i = Tr - 1 - rest / together;
}

// O / l, LSE = m + ln l, the policy for empty rows; then out through shared memory in whole rows.
__device__ inline void finish(const Arguments& a, const State& s, unsigned char* shared, int lane, int warp_row,
                              int head, int row0, int rows) {
  if constexpr (kFindAnew) {
    lane = this_thread() % 32, warp_row = this_thread() / 32 * (16 * kRowTiles);
    int i;
    place(a, this_block(), head, i);
    row0 = i * BR, rows = min(BR, a.Nq - row0);
  }
  const long long out_row = static_cast<long long>(head) * a.Nq + row0;
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = warp_row + 16 * t + 8 * half + lane / 4;
      const float l = quad_sum(s.l[t][half]);
      bool empty = band_sees_nothing(a, row0 + r);
      if (KEEP || BIAS) {
        u32 seen = s.seen[t][half];
        seen |= __shfl_xor_sync(~0u, seen, 1);
        seen |= __shfl_xor_sync(~0u, seen, 2);
        empty = seen == 0;
      }
      const bool policy = GUARD != kNoGuard && empty;
      const float reciprocal = 1 / l;
#pragma unroll
      for (int n = 0; n < kOutTiles; ++n) {
        float x = s.O[t][n][2 * half] * reciprocal, y = s.O[t][n][2 * half + 1] * reciprocal;
        if (policy) x = y = EMPTY == kNaN ? not_a_number() : 0;
        *reinterpret_cast<u32*>(shared + OTile::chunk(r, n) + lane % 4 * 4) = pack(x, y);
      }
      if (lane % 4 == 0 && r < rows)
        a.LSE[out_row + r] = policy ? -infinity() : s.power[t][half] * kToNatural + logf(l);
    }
  }
  __syncthreads();
  u16* O = static_cast<u16*>(a.O) + out_row * DV;
  for (int chunk = threadIdx.x; chunk < rows * (DV / 8); chunk += kThreads)
    *reinterpret_cast<uint4*>(O + chunk * 8) =
        *reinterpret_cast<const uint4*>(shared + OTile::chunk(chunk / (DV / 8), chunk % (DV / 8)));
}

extern "C" __global__ void __launch_bounds__(kThreads, MIN_BLOCKS) flash2_mma(const Arguments a) {
  extern __shared__ __align__(128) unsigned char shared[];
  const u32 q = shared_address(shared), kv = q + QTile::kBytes;
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * (16 * kRowTiles);
  int head, i;
  place(a, blockIdx.x, head, i);
  const int row0 = i * BR, rows = min(BR, a.Nq - row0);
  const Range visited = visited_columns(a, row0, rows);
  const int visits = visited.last - visited.first;
  const long long kv_row = static_cast<long long>(head / a.group) * a.Nk;
  const u16* Q = static_cast<const u16*>(a.Q) + (static_cast<long long>(head) * a.Nq + row0) * D;
  const u16* K = static_cast<const u16*>(a.K) + kv_row * D;
  const u16* V = static_cast<const u16*>(a.V) + kv_row * DV;
  const auto block = [&](int n) { return REVERSE ? visited.last - 1 - n : visited.first + n; };
  const auto stage = [&](int n) { return kv + (STAGES == 2 ? n % 2 * kStageBytes : 0); };
  const float factor = BIAS ? 1.f : a.scale * kLog2e;

  Counter counter;
  Recorder recorder;
  const auto copy_k = [&](int n) {
    const int j = block(n), cols = min(BC, a.Nk - j * BC);
    copy_tile<BC, D>(stage(n), K + static_cast<long long>(j) * BC * D, cols);
    counter.read(flashscope::gpu::kK, 2ll * cols * D);
  };
  const auto copy_v = [&](int n) {
    const int j = block(n), cols = min(BC, a.Nk - j * BC);
    copy_tile<BC, DV>(stage(n) + KTile::kBytes, V + static_cast<long long>(j) * BC * DV, cols);
    counter.read(flashscope::gpu::kV, 2ll * cols * DV);
    counter.read_masks(a, rows, cols);
  };

  // What each thread gives ldmatrix: its row in a 16-row group, and which of two neighbouring chunks.
  const int q_row = warp_row + lane % 16, k_row = lane % 8 + lane / 16 * 8;
  const u32 q_lane = QTile::chunk(q_row, lane / 16), k_lane = KTile::chunk(k_row, lane / 8 % 2);
  const u32 v_lane = VTile::chunk(lane % 16, lane / 16);

  State s;
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
    for (int half = 0; half < 2; ++half) s.power[t][half] = -infinity(), s.l[t][half] = 0, s.seen[t][half] = false;
#pragma unroll
    for (int n = 0; n < kOutTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) s.O[t][n][e] = 0;
  }

  copy_tile<BR, D>(q, Q, rows);
  counter.read(flashscope::gpu::kQ, 2ll * rows * D);
  if (visits > 0) copy_k(0);
  if (STAGES == 2 && visits > 0) copy_v(0);
  commit_copies();

  for (int n = 0; n < visits; ++n) {
    const int col0 = block(n) * BC;
    recorder.begin();
    wait_for_copies();
    __syncthreads();
    if (STAGES == 1) copy_v(n);
    if (STAGES == 2 && n + 1 < visits) copy_k(n + 1), copy_v(n + 1);
    commit_copies();

    Scores S;
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t)
#pragma unroll
      for (int c = 0; c < kColTiles; ++c)
#pragma unroll
        for (int e = 0; e < 4; ++e) S[t][c][e] = 0;
    scores(S, q, q_lane, stage(n), k_lane);
    if (KEEP || BIAS || !whole_tile(a, row0, rows, col0))
      mask(S, s, a, head, row0 + warp_row + lane / 4, col0 + lane % 4 * 2);
    if (STAGES == 1) {
      wait_for_copies();
      __syncthreads();
      if (n + 1 < visits) copy_k(n + 1);
      commit_copies();
    }
    online_softmax(S, s, factor);
    accumulate(s, S, stage(n) + KTile::kBytes, v_lane);
    recorder.end(a, head, i, block(n));
  }

  wait_for_copies();
  __syncthreads();
  finish(a, s, shared, lane, warp_row, head, row0, rows);
  counter.written(flashscope::gpu::kO, 2ll * rows * DV);
  counter.written(flashscope::gpu::kLSE, 4ll * rows);
  counter.add_to(a.counted);
}
