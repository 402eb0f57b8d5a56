// The verbs of one tile for the plain kernels, in float32 and in shared memory, as Algorithm 1 writes them down:
//
//   scores   S = Q_i K_j^T                          256 threads as 16 x 16, each up to 4 x 4 cells at a time
//   softmax  S = scale S, masked; m' = max(m, rowmax S); P = exp(S - m'); alpha = exp(m - m'); l = alpha l + rowsum P
//                                                   one warp a row
//   add      O = alpha O + P V_j                    normalised in every tile: O = (alpha l_old O + P V_j) / l
//
// Any block sizes and head dimensions that fit; nothing is rounded below float32.
#pragma once
#include "common.cuh"

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kPitch = D + 1;  // odd: 16 rows of Q or K at the same column lie in 16 different banks

// Rows [0, rows) of a row-major tile from HBM; the rows beyond become zeros.
template <int ROWS, int COLS, int PITCH, class T>
__device__ inline void load_tile(float* to, const T* from, int rows) {
  for (int n = threadIdx.x; n < ROWS * COLS; n += kThreads) {
    const int r = n / COLS, c = n % COLS;
    float x = 0;
    if (r < rows) {
      if constexpr (sizeof(T) == sizeof(float)) {
        x = load(from + n);
      } else {
        x = to_float(load(from + n));
      }
    }
    to[r * PITCH + c] = x;
  }
}

// out[r][c] = start(r, c) + sum over k of A[r][k] B(k, c), handed to `store`; 4 x 4 cells a thread at a time.
template <int ROWS, int COLS, int DEPTH, class B, class Store>
__device__ inline void product(const float* A, int pitch, B b, Store store) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  for (int r0 = ty; r0 < ROWS; r0 += 64) {
    for (int c0 = tx; c0 < COLS; c0 += 64) {
      float sum[4][4] = {};
#pragma unroll 4
      for (int k = 0; k < DEPTH; ++k) {
        float x[4], y[4];
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          x[n] = A[min(r0 + 16 * n, ROWS - 1) * pitch + k];
          y[n] = b(k, min(c0 + 16 * n, COLS - 1));
        }
#pragma unroll
        for (int n = 0; n < 4; ++n)
#pragma unroll
          for (int o = 0; o < 4; ++o) sum[n][o] = fmaf(x[n], y[o], sum[n][o]);
      }
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int o = 0; o < 4; ++o)
          if (r0 + 16 * n < ROWS && c0 + 16 * o < COLS) store(r0 + 16 * n, c0 + 16 * o, sum[n][o]);
    }
  }
}

// m, l and what `add` needs of each row: the factor of the old O, the divisor of the new one, whether the last tile
// touched it. With masks of a file also whether any tile showed it a key.
struct RowState {
  float m[BR], l[BR], factor[BR], divisor[BR];
  int flags[BR];
};
constexpr int kTouched = 1, kSeen = 2;  // flags

__device__ inline void scores(float* S, const float* Q, const float* K) {
  product<BR, BC, D>(
      Q, kPitch, [&](int k, int c) { return K[c * kPitch + k]; }, [&](int r, int c, float x) { S[r * BC + c] = x; });
}

// A cell of a mask of a file. Where rows or columns share it, it comes through L1: it is asked of the L2 once a tile.
template <class T>
__device__ inline auto load_cell(const flashscope::gpu::Plane& plane, int head, int r, int c) {
  const T* cell = static_cast<const T*>(plane.data) + head * plane.head_stride + r * plane.row_stride +
                  static_cast<long long>(c) * plane.col_stride;
  return plane.row_stride == 0 || plane.col_stride == 0 ? load_through_l1(cell) : load(cell);
}

// A score scaled, with its bias, masked. Columns beyond the last key are masked whatever the convention.
__device__ inline float masked(float x, bool& visible, const Arguments& a, int head, int r, int c) {
  visible = false;
  if (c >= a.Nk) return -infinity();
  visible = !BAND || (c - r >= a.band_lo && c - r < a.band_hi);
  x *= a.scale;
  if (KEEP) visible = load_cell<unsigned char>(a.keep, head, r, c) != 0 && visible;
  if (BIAS) {
    const float bias = load_cell<float>(a.bias, head, r, c);
    if (bias == -infinity())
      visible = false;
    else
      x += bias;
  }
  if (!visible) x = MASK_ADD ? x - infinity() : -infinity();
  return x;
}

__device__ inline float warp_max(float x) {
  for (int n = 16; n > 0; n /= 2) x = row_max(x, __shfl_xor_sync(~0u, x, n));
  return x;
}
__device__ inline float warp_sum(float x) {
  for (int n = 16; n > 0; n /= 2) x += __shfl_xor_sync(~0u, x, n);
  return x;
}

// S becomes P, tile [row0, col0); m and l move on.
__device__ inline void softmax(float* S, RowState& s, const Arguments& a, int head, int row0, int col0) {
  const int lane = threadIdx.x % 32;
  for (int r = threadIdx.x / 32; r < BR; r += kWarps) {
    if (row0 + r >= a.Nq) {  // no such row: nothing of it is ever stored
      for (int c = lane; c < BC; c += 32) S[r * BC + c] = 0;
      continue;
    }
    const float m_old = s.m[r], l_old = s.l[r];
    float m_new = -infinity();
    bool any = false;
    for (int c = lane; c < BC; c += 32) {
      bool visible;
      const float x = masked(S[r * BC + c], visible, a, head, row0 + r, col0 + c);
      S[r * BC + c] = x;
      m_new = row_max(m_new, x);
      any = any || visible;
    }
    m_new = row_max(m_old, warp_max(m_new));
    const bool seen = (GUARD == kSkip || KEEP || BIAS) && __any_sync(~0u, any);
    const bool touched = GUARD != kSkip || seen;
    const float base = GUARD == kClamp && m_new == -infinity() ? 0 : m_new;
    float sum = 0;
    for (int c = lane; c < BC; c += 32) {
      const float p = col0 + c < a.Nk ? expf(S[r * BC + c] - base) : 0;
      S[r * BC + c] = p;
      sum += p;
    }
    sum = warp_sum(sum);
    const float alpha = expf(m_old - base), l_new = alpha * l_old + sum;
    __syncwarp();
    if (lane == 0) {
      s.flags[r] = (s.flags[r] & kSeen) | (seen ? kSeen : 0) | (touched ? kTouched : 0);
      if (touched) s.m[r] = m_new, s.l[r] = l_new;
      s.factor[r] = EACH ? alpha * l_old : alpha;
      s.divisor[r] = !EACH || (GUARD == kClamp && l_new == 0) ? 1 : l_new;
    }
  }
}

__device__ inline void add(float* O, const float* P, const float* V, const RowState& s) {
  product<BR, DV, BC>(
      P, BC, [&](int k, int e) { return V[k * DV + e]; },
      [&](int r, int e, float x) {
        if (s.flags[r] & kTouched) O[r * DV + e] = (s.factor[r] * O[r * DV + e] + x) / s.divisor[r];
      });
}

// Whether no key is visible to row r, by the mask alone. All lanes of a warp call it together.
__device__ inline bool row_is_empty(const Arguments& a, int head, int r) {
  if (!KEEP && !BIAS) return band_sees_nothing(a, r);
  bool any = false;
  for (int c = threadIdx.x % 32; c < a.Nk; c += 32) {
    bool visible;
    masked(0, visible, a, head, r, c);
    any = any || visible;
  }
  return !__any_sync(~0u, any);
}

// finish and store of rows [row0, row0 + rows): O / l, LSE = m + ln l, the policy for empty rows. One warp a row.
// FLAGS: the flags are those of every tile of these rows; else the mask of a row without a maximum is read again.
template <bool FLAGS>
__device__ inline void finish(const float* O, RowState& s, const Arguments& a, int head, int row0, int rows) {
  const Element* V = static_cast<const Element*>(a.V) + static_cast<long long>(head / a.group) * a.Nk * DV;
  for (int r = threadIdx.x / 32; r < rows; r += kWarps) {
    const long long row = static_cast<long long>(head) * a.Nq + row0 + r;
    // A row with a maximum has seen a key.
    bool policy = GUARD != kNoGuard && s.m[r] == -infinity();
    if (policy) policy = FLAGS && (KEEP || BIAS) ? !(s.flags[r] & kSeen) : row_is_empty(a, head, row0 + r);
    for (int e = threadIdx.x % 32; e < DV; e += 32) {
      float x = EACH ? O[r * DV + e] : O[r * DV + e] / s.l[r];
      if (policy && EMPTY == kZero) x = 0;
      if (policy && EMPTY == kNaN) x = not_a_number();
      if (policy && EMPTY == kMean) {
        double sum = 0;
        for (int c = 0; c < a.Nk; ++c) sum += to_float(load(V + static_cast<long long>(c) * DV + e));
        x = static_cast<float>(sum / a.Nk);
      }
      static_cast<Element*>(a.O)[row * DV + e] = from_float(x);
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0) s.l[r] = policy ? -infinity() : s.m[r] + logf(s.l[r]);
  }
  __syncthreads();  // LSE goes out side by side: the hardware counts lone 4-byte stores as more
  for (int r = threadIdx.x; r < rows; r += kThreads) a.LSE[static_cast<long long>(head) * a.Nq + row0 + r] = s.l[r];
}
