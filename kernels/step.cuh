// The fold's verbs for one row, in the engine's own arithmetic and order of sums (engine/attention/fold_kernels.cpp):
// what a row computes here is, bit for bit, what the engine steps through; only the logarithm of LSE is the device's.
//
//   scores   S = scale Q K^T                    a thread a key, a dot product each
//   mask     S = -inf where not visible
//   max      m_new = max(m, max S)              ignoring NaN
//   exponentials  P = exp(S - m_new)
//   rescale  alpha = exp(m - m_new); l *= alpha, O *= alpha
//   accumulate    l += sum P, O += P V          a thread an element of O
//   finish   O /= l, LSE = m + ln l, the policy for empty rows
//
// Loads are plain ones, L1 included: every thread goes down its own row of K, and what a step moves is counted by the
// ledger, not by counters.
//
// A team of threads shares a row: a warp on the device; on the host, where tests run the same text, a team of one.
// Compiled without contraction of a b + c, which would round once where the engine rounds twice.
#pragma once
#include "step.h"

#ifndef __CUDACC_RTC__
#include <cmath>
#endif

namespace flashscope::gpu {

inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
inline double multiply_add(double a, double b, double c) { return fma(a, b, c); }
inline float natural_log(float x) { return logf(x); }
inline double natural_log(double x) { return log(x); }

template <class Real>
inline bool is_nan(Real x) {
  return x != x;
}
template <class Real>
inline Real infinity_of() {
  return static_cast<Real>(1e300 * 1e300);
}
template <class Real>
inline bool is_inf(Real x) {
  return x == infinity_of<Real>() || x == -infinity_of<Real>();
}
template <class Real>
inline Real larger(Real a, Real b) {  // ignores a NaN in a; b never is one
  return a > b ? a : b;
}

// exp(x) for x <= 0, -inf or NaN, with the engine's polynomials: below the smallest normal number it is 0.
inline float exponential(float x) {
  const float magic = 12582912.0f + 127;
  union {
    float real;
    unsigned int bits;
  } biased, power;
  biased.real = multiply_add(x, 1.44269504f, magic);
  const float n = biased.real - magic;
  float r = multiply_add(-n, 0.693359375f, x);
  r = multiply_add(-n, -2.12194440e-4f, r);
  const float q[] = {1.00000005f, 0.500000044f, 0.166663648f, 0.0416647733f, 0.00837905920f, 0.00140614270f};
  float p = q[5];
  for (int k = 4; k >= 0; --k) p = multiply_add(p, r, q[k]);
  p = multiply_add(p, r, 1.0f);
  power.bits = biased.bits << 23;
  return x < -87.33f ? 0.0f : p * power.real;
}
inline double exponential(double x) {
  const double magic = 6755399441055744.0 + 1023;
  union {
    double real;
    unsigned long long bits;
  } biased, power;
  biased.real = multiply_add(x, 1.4426950408889634, magic);
  const double n = biased.real - magic;
  double r = multiply_add(-n, 0.693145751953125, x);
  r = multiply_add(-n, 1.42860682030941723e-6, r);
  const double q[] = {1.0000000000000005616,     0.50000000000000055992,   0.16666666666657264355,
                      0.041666666666573273256,   0.0083333333377289352404, 0.0013888888932468820548,
                      0.00019841261474027136199, 2.4801504347667984589e-5, 2.7564262405627419401e-6,
                      2.7626364817560387277e-7,  2.2981178518135839946e-8};
  double p = q[10];
  for (int k = 9; k >= 0; --k) p = multiply_add(p, r, q[k]);
  p = multiply_add(p, r, 1.0);
  power.bits = biased.bits << 52;
  return x < -708.39 ? 0.0 : p * power.real;
}

constexpr long long kSumChunk = 64;  // the engine's kKeyChunk: sums over more keys are split so

#ifdef __CUDACC_RTC__
struct Team {
  static constexpr int size = 32;
  int rank() const { return static_cast<int>(threadIdx.x % 32); }
  void sync() const { __syncwarp(); }
  bool any(bool x) const { return __any_sync(~0u, x); }
  template <class Real>
  Real from(Real x, int rank) const {
    return __shfl_sync(~0u, x, rank);
  }
  template <class Real>
  Real max(Real x) const {
    for (int n = size / 2; n > 0; n /= 2) x = larger(__shfl_xor_sync(~0u, x, n), x);
    return x;
  }
  int sum(int x) const {
    for (int n = size / 2; n > 0; n /= 2) x += __shfl_xor_sync(~0u, x, n);
    return x;
  }
};
#else
struct Team {
  static constexpr int size = 1;
  int rank() const { return 0; }
  void sync() const {}
  bool any(bool x) const { return x; }
  template <class Real>
  Real from(Real x, int) const {
    return x;
  }
  template <class Real>
  Real max(Real x) const {
    return x;
  }
  int sum(int x) const { return x; }
};
#endif

template <class Real>
struct RowFold {
  const StepProblem& p;
  Team team;
  // The row: its state, the same in every thread but for O, whose elements belong to a thread each.
  long long head = 0, row = 0, in_block = 0;  // query row; index in its row block
  const Real* Q = nullptr;
  Real m = 0, l = 0;
  Real* O = nullptr;
  // The tile, and what its verbs leave of the row.
  long long col0 = 0, cols = 0, padded = 0;
  const Real *K = nullptr, *V = nullptr;
  Real *S = nullptr, *P = nullptr;
  Real m_old = 0, tile_max = 0, shift = 0, alpha = 0, o_factor = 0, beta = 1, row_sum = 0, reciprocal = 1;
  bool touched = true;            // guard skip: a row without a visible key in the tile is not
  bool nan = false, inf = false;  // what the row already had before the verb

  RowFold(const StepProblem& problem, long long head_, long long row_)
      : p(problem),
        head(head_),
        row(row_),
        in_block(row_ % problem.Br),
        Q(static_cast<const Real*>(problem.Q) + (head_ * problem.Nq + row_) * problem.d) {}

  void start() {
    m = -infinity_of<Real>(), l = 0;
    for (int e = team.rank(); e < p.dv; e += Team::size) O[e] = 0;
  }
  void begin_tile(long long j) {
    begin(j * p.Bc, p.Nk - j * p.Bc < p.Bc ? p.Nk - j * p.Bc : p.Bc);
    if (p.pad_tail && col0 + cols == p.Nk) padded = p.Bc;
  }
  void begin_strip() { begin(0, p.Nk); }

  bool visible(long long c) const {  // by the mask alone
    const long long distance = col0 + c - row;
    if (distance < p.band_lo || distance >= p.band_hi) return false;
    return kept(c) && !(p.bias.data && bias(c) == -infinity_of<Real>());
  }

  void scores() {
    for (long long c = team.rank(); c < padded; c += Team::size) {
      Real sum = 0;
      if (c < cols) {
        for (int e = 0; e < p.d; ++e) sum = multiply_add(Q[e], K[c * p.d + e], sum);
        sum *= static_cast<Real>(p.scale);
      }
      S[c] = sum;
    }
  }

  void mask() {
    bool any = false;
    for (long long c = team.rank(); c < padded; c += Team::size) {
      const long long distance = col0 + c - row;
      bool sees = distance >= p.fold_lo && distance < p.fold_hi && (!p.local_causal || c <= in_block);
      if (c < cols) {
        sees = sees && kept(c);
        if (p.bias.data) {
          const Real b = bias(c);
          if (b == -infinity_of<Real>())
            sees = false;
          else
            S[c] += b;
        }
      }
      any = any || sees;
      if (!sees) S[c] = p.mask_add ? S[c] + static_cast<Real>(p.fill) : static_cast<Real>(p.fill);
    }
    touched = team.any(any) || !p.skip;
  }

  void max() {
    tile_max = -infinity_of<Real>();
    for (long long c = team.rank(); c < padded; c += Team::size) tile_max = larger(S[c], tile_max);
    tile_max = team.max(tile_max);
    m_old = m;
    if (touched) m = larger(tile_max, m_old);
    shift = clamped(p.own_maximum ? tile_max : m);
  }

  void exponentials() {
    for (long long c = team.rank(); c < padded; c += Team::size)
      P[c] = touched ? exponential(S[c] - shift) : static_cast<Real>(0);
    team.sync();
    row_sum = 0;
    const long long chunks = (padded + kSumChunk - 1) / kSumChunk;
    for (long long first = 0; first < chunks; first += Team::size) {
      Real sum = 0;
      const long long c0 = (first + team.rank()) * kSumChunk;
      for (long long c = c0; c < padded && c < c0 + kSumChunk; ++c) sum += P[c];
      for (int n = 0; n < Team::size && first + n < chunks; ++n) row_sum += team.from(sum, n);
    }
  }

  void rescale() {
    const Real l_old = l;
    alpha = touched ? exponential(m_old - clamped(m)) : static_cast<Real>(1);
    o_factor = p.rescale_o ? alpha : static_cast<Real>(1);
    if (p.inverse) o_factor = m_old == -infinity_of<Real>() ? static_cast<Real>(1) : static_cast<Real>(1) / alpha;
    if (p.each) o_factor = touched ? o_factor * l_old : static_cast<Real>(1);
    if (p.rescale_l) l = l_old * alpha;
    beta = p.corrected ? exponential(tile_max - clamped(m)) : static_cast<Real>(1);
    if (O)
      for (int e = team.rank(); e < p.dv; e += Team::size) O[e] *= o_factor;
  }

  void accumulate() {
    if (touched) l += p.corrected ? row_sum * beta : row_sum;
    const Real divisor = p.clamp && l == 0 ? static_cast<Real>(1) : l;
    reciprocal = static_cast<Real>(1) / divisor;
    if (O && touched) add_output();
    team.sync();  // P is written again by other threads than those that read it here
  }

  void finish(bool empty) {
    if (!p.standard && !p.each && p.final_divide)
      for (int e = team.rank(); e < p.dv; e += Team::size) O[e] /= l;
    if (p.guarded && empty && m == -infinity_of<Real>())
      for (int e = team.rank(); e < p.dv; e += Team::size) O[e] = of_empty_row(e);
  }
  Real LSE(bool empty) const {
    const Real value = m + natural_log(l);
    return p.guarded && empty && m == -infinity_of<Real>() ? -infinity_of<Real>() : value;
  }
  // Whether the mask leaves the row no key at all.
  bool is_empty() {
    const long long last = bound(row + p.band_hi);
    const bool structural = !p.keep.data && !p.bias.data;
    bool any = false;
    begin_strip();
    for (long long c = bound(row + p.band_lo) + team.rank(); c < last && !any; c += Team::size)
      any = structural || visible(c);
    return !team.any(any);
  }

  // Standard attention: in place of max, exponentials and rescale; in place of accumulate.
  void softmax() {
    max();
    exponentials();
    l = row_sum;
    const bool empty = p.skip ? !touched : p.clamp && l == 0;
    const Real factor = empty ? static_cast<Real>(1) : static_cast<Real>(1) / l;
    alpha = o_factor = 1;
    team.sync();  // all have summed what is scaled now
    for (long long c = team.rank(); c < padded; c += Team::size) P[c] *= factor;
    team.sync();
  }
  void multiply() {
    for (int e = team.rank(); e < p.dv; e += Team::size) O[e] = 0;
    add_output();
    team.sync();
  }

  void fold_tile(long long j) {
    begin_tile(j);
    scores(), mask(), max(), exponentials(), rescale(), accumulate();
  }

  // ---- what a verb brought, as RowEvent bits; each row has its first NaN and its first infinity in a tile once
  int note_cells(const Real* X, bool only_visible) {
    bool found = false;
    for (long long c = team.rank(); c < cols && !nan; c += Team::size)
      found = found || (is_nan(X[c]) && (!only_visible || visible(c)));
    if (!team.any(found)) return 0;
    nan = true;
    return kNanCells;
  }
  int note_row() {
    bool has_nan = is_nan(l), has_inf = m == infinity_of<Real>() || is_inf(l);
    for (int e = team.rank(); e < p.dv; e += Team::size) {
      has_nan = has_nan || is_nan(O[e]);
      has_inf = has_inf || is_inf(O[e]);
    }
    has_nan = team.any(has_nan), has_inf = team.any(has_inf);
    const int found = (has_nan && !nan ? kNanRow : 0) | (has_inf && !inf ? kInfRow : 0);
    nan = nan || has_nan, inf = inf || has_inf;
    return found;
  }
  bool maximum_grew() const { return !is_nan(m_old) && !is_inf(m_old) && m > m_old; }

 private:
  void begin(long long first, long long n) {
    const long long kv = head / p.group * p.Nk + first;
    col0 = first, cols = padded = n;
    K = static_cast<const Real*>(p.K) + kv * p.d, V = static_cast<const Real*>(p.V) + kv * p.dv;
    touched = true;
  }
  bool kept(long long c) const {
    if (!p.keep.data) return true;
    return static_cast<const unsigned char*>(p.keep.data)[place(p.keep, c)] != 0;
  }
  Real bias(long long c) const { return static_cast<const Real*>(p.bias.data)[place(p.bias, c)]; }
  long long place(const Plane& plane, long long c) const {
    return head * plane.head_stride + row * plane.row_stride + (col0 + c) * plane.col_stride;
  }
  long long bound(long long c) const { return c < 0 ? 0 : c > p.Nk ? p.Nk : c; }
  Real clamped(Real x) const { return p.clamp && x == -infinity_of<Real>() ? static_cast<Real>(0) : x; }
  // O = (O + P V beta) reciprocal; factors that are not there are left out.
  void add_output() {
    for (int e = team.rank(); e < p.dv; e += Team::size) {
      Real o = O[e];
      for (long long c0 = 0; c0 < cols; c0 += kSumChunk) {
        Real sum = 0;
        for (long long c = c0; c < cols && c < c0 + kSumChunk; ++c) sum = multiply_add(P[c], V[c * p.dv + e], sum);
        o += p.corrected ? sum * beta : sum;
      }
      if (p.each && !p.standard) o *= reciprocal;
      O[e] = o;
    }
  }
  Real of_empty_row(int e) const {
    if (p.empty_row == 0) return 0;
    if (p.empty_row == 1) return infinity_of<Real>() - infinity_of<Real>();
    const Real* all = static_cast<const Real*>(p.V) + head / p.group * p.Nk * p.dv;
    double sum = 0;
    for (long long c = 0; c < p.Nk; ++c) sum += static_cast<double>(all[c * p.dv + e]);
    return static_cast<Real>(sum / static_cast<double>(p.Nk));
  }
};

}  // namespace flashscope::gpu
