// Compiled once for each instruction set: foreach_target.h includes this file again for all but one.
#include "engine/attention/fold_kernels.h"

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "engine/attention/online_softmax.h"
#include "engine/error.h"

// SSSE3 without SSE4 is a machine of before 2008; the scalable vectors of SVE cannot be array elements.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/attention/fold_kernels.cpp"
#include <hwy/foreach_target.h>
// must come after foreach_target.h
#include <hwy/highway.h>

#define FLASHSCOPE_UNROLL _Pragma("GCC unroll 8")

HWY_BEFORE_NAMESPACE();
namespace flashscope {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::CappedTag<T, kLane>;
template <class T>
using VecOf = hn::Vec<Tag<T>>;
template <class T>
constexpr std::int64_t kVec = static_cast<std::int64_t>(hn::MaxLanes(Tag<T>()));

template <int n>
using Count = std::integral_constant<int, n>;

// Register blocks: kRowVecs vectors of rows x kBlock keys (or columns of V). With 32 registers 4 x 6
// accumulators, 4 operands and a broadcast; with 16 registers 2 x 6, 2 and 1.
constexpr int kRowVecs = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
constexpr int kBlock = 6;

// Calls body(integral_constant<vectors>, first lane) for groups of kRowVecs, then 2, then 1 vectors.
template <class T, class Body>
HWY_INLINE void for_lane_groups(std::int64_t lanes, const Body& body) {
  std::int64_t r = 0;
  for (; r + kRowVecs * kVec<T> <= lanes; r += kRowVecs * kVec<T>) body(Count<kRowVecs>(), r);
  if (kRowVecs > 2 && r + 2 * kVec<T> <= lanes) body(Count<2>(), r), r += 2 * kVec<T>;
  for (; r < lanes; r += kVec<T>) body(Count<1>(), r);
}

// The same for n keys or columns: blocks of kBlock, then 4, 2, 1.
template <class Body>
HWY_INLINE void for_blocks(std::int64_t n, const Body& body) {
  std::int64_t c = 0;
  for (; c + kBlock <= n; c += kBlock) body(Count<kBlock>(), c);
  if (c + 4 <= n) body(Count<4>(), c), c += 4;
  if (c + 2 <= n) body(Count<2>(), c), c += 2;
  if (c < n) body(Count<1>(), c);
}

// max(a, b) that ignores a NaN in a; b is never NaN. On x86 that is what the instruction does.
template <class V>
HWY_INLINE V max_ignoring_nan(V a, V b) {
#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || HWY_TARGET <= HWY_AVX3
  return hn::Max(a, b);
#else
  return hn::IfThenElse(hn::Gt(a, b), a, b);
#endif
}

template <class T>
struct ExpConstants;

// exp(r) = 1 + r q(r) on |r| <= ln 2 / 2: minimax in relative error (Remez), 2.6e-9 for float and
// 1.8e-17 for double. The sum with `magic` rounds to an integer n and leaves n + bias in the low bits.
// Below `smallest` the result would not be a normal number and is 0: denormals are slow to multiply
// and weigh nothing beside the row's maximum, whose P is 1.
template <>
struct ExpConstants<float> {
  static constexpr int kMantissa = 23;
  static constexpr float magic = 12582912.0f + 127, smallest = -87.33f;
  static constexpr float log2_e = 1.44269504f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
  static constexpr float q[] = {1.00000005f, 0.500000044f, 0.166663648f, 0.0416647733f, 0.00837905920f, 0.00140614270f};
};
template <>
struct ExpConstants<double> {
  static constexpr int kMantissa = 52;
  static constexpr double magic = 6755399441055744.0 + 1023, smallest = -708.39;
  static constexpr double log2_e = 1.4426950408889634, ln2_high = 0.693145751953125, ln2_low = 1.42860682030941723e-6;
  static constexpr double q[] = {1.0000000000000005616,     0.50000000000000055992,   0.16666666666657264355,
                                 0.041666666666573273256,   0.0083333333377289352404, 0.0013888888932468820548,
                                 0.00019841261474027136199, 2.4801504347667984589e-5, 2.7564262405627419401e-6,
                                 2.7626364817560387277e-7,  2.2981178518135839946e-8};
};

// exp(x) for x <= 0, -inf or NaN: exp(0) = 1, exp(-inf) = 0, NaN stays NaN. At most 1.5 ulp off.
template <class T>
HWY_INLINE VecOf<T> exp_vector(VecOf<T> x) {
  using C = ExpConstants<T>;
  const Tag<T> t;
  const VecOf<T> biased = hn::MulAdd(x, hn::Set(t, C::log2_e), hn::Set(t, C::magic));
  const VecOf<T> n = hn::Sub(biased, hn::Set(t, C::magic));
  VecOf<T> r = hn::NegMulAdd(n, hn::Set(t, C::ln2_high), x);
  r = hn::NegMulAdd(n, hn::Set(t, C::ln2_low), r);
  constexpr int kTerms = static_cast<int>(sizeof(C::q) / sizeof(T));
  VecOf<T> p = hn::Set(t, C::q[kTerms - 1]);
  FLASHSCOPE_UNROLL
  for (int k = kTerms - 2; k >= 0; --k) p = hn::MulAdd(p, r, hn::Set(t, C::q[k]));
  p = hn::MulAdd(p, r, hn::Set(t, T{1}));
  const hn::RebindToSigned<Tag<T>> ti;
  const VecOf<T> power = hn::BitCast(t, hn::ShiftLeft<C::kMantissa>(hn::BitCast(ti, biased)));
  // `x < smallest` is false for NaN, whose p is NaN.
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(t, C::smallest)), hn::Mul(p, power));
}

// 2^x under the same conditions, by the same polynomial.
template <class T>
HWY_INLINE VecOf<T> exp2_vector(VecOf<T> x) {
  using C = ExpConstants<T>;
  const Tag<T> t;
  const VecOf<T> biased = hn::Add(x, hn::Set(t, C::magic));
  const VecOf<T> n = hn::Sub(biased, hn::Set(t, C::magic));
  const VecOf<T> r = hn::Mul(hn::Sub(x, n), hn::Set(t, T{0.6931471805599453}));
  constexpr int kTerms = static_cast<int>(sizeof(C::q) / sizeof(T));
  VecOf<T> p = hn::Set(t, C::q[kTerms - 1]);
  FLASHSCOPE_UNROLL
  for (int k = kTerms - 2; k >= 0; --k) p = hn::MulAdd(p, r, hn::Set(t, C::q[k]));
  p = hn::MulAdd(p, r, hn::Set(t, T{1}));
  const hn::RebindToSigned<Tag<T>> ti;
  const VecOf<T> power = hn::BitCast(t, hn::ShiftLeft<C::kMantissa>(hn::BitCast(ti, biased)));
  constexpr T smallest = std::numeric_limits<T>::min_exponent - 1;
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(t, smallest)), hn::Mul(p, power));
}

// exp(a - b), or the same through powers of 2.
template <class T, bool powers_of_2>
HWY_INLINE VecOf<T> exp_difference(VecOf<T> a, VecOf<T> b) {
  const Tag<T> t;
  if constexpr (powers_of_2) {
    const VecOf<T> log2_e = hn::Set(t, ExpConstants<T>::log2_e);
    return exp2_vector<T>(hn::MulSub(a, log2_e, hn::Mul(b, log2_e)));
  } else {
    return exp_vector<T>(hn::Sub(a, b));
  }
}

template <class T>
void Exp(const T* x, std::int64_t n, T* y) {
  const Tag<T> t;
  for (std::int64_t r = 0; r < n; r += kVec<T>) hn::StoreU(exp_vector<T>(hn::LoadU(t, x + r)), t, y + r);
}

// Fetches memory into the L2 cache in `parts` equal parts. V is read down its columns and the next tile
// starts on another page, neither of which the hardware foresees well.
template <class T>
class Fetcher {
 public:
  Fetcher(const Ahead<T>& ahead, std::int64_t parts)
      : next_(ahead.first), last_(ahead.last), step_((ahead.last - ahead.first + parts - 1) / parts) {}
  HWY_INLINE void part() {
    constexpr std::int64_t kLine = 64 / sizeof(T);
    for (const T* end = std::min(last_, next_ + step_); next_ < end; next_ += kLine) __builtin_prefetch(next_, 0, 2);
  }

 private:
  const T *next_, *last_;
  std::int64_t step_;
};

// `scale` is a reference so that it is loaded after each product: with 16 registers there is none to keep it in.
template <class T>
void Scores(const T* Qt, std::int64_t lanes, std::int64_t d, const T* K, std::int64_t cols, const T& scale, T* S,
            const Ahead<T>& ahead) {
  const Tag<T> t;
  Fetcher<T> fetcher(ahead, cols / kBlock + 1);
  for_lane_groups<T>(lanes, [&](auto rows, std::int64_t r) HWY_ATTR {
    constexpr int kRows = decltype(rows)::value;
    for_blocks(cols, [&](auto keys, std::int64_t c) HWY_ATTR {
      constexpr int kKeys = decltype(keys)::value;
      fetcher.part();
      VecOf<T> sum[kRows][kKeys];
      FLASHSCOPE_UNROLL
      for (int v = 0; v < kRows; ++v) {
        FLASHSCOPE_UNROLL
        for (int k = 0; k < kKeys; ++k) sum[v][k] = hn::Zero(t);
      }
      const T *q = Qt + r, *key = K + c * d;
      for (std::int64_t e = 0; e < d; ++e, q += lanes) {
        VecOf<T> qv[kRows];
        FLASHSCOPE_UNROLL
        for (int v = 0; v < kRows; ++v) qv[v] = hn::Load(t, q + v * kVec<T>);
        FLASHSCOPE_UNROLL
        for (int k = 0; k < kKeys; ++k) {
          const VecOf<T> element = hn::Set(t, key[k * d + e]);
          FLASHSCOPE_UNROLL
          for (int v = 0; v < kRows; ++v) sum[v][k] = hn::MulAdd(qv[v], element, sum[v][k]);
        }
      }
      const VecOf<T> factor = hn::Set(t, scale);
      FLASHSCOPE_UNROLL
      for (int k = 0; k < kKeys; ++k) {
        FLASHSCOPE_UNROLL
        for (int v = 0; v < kRows; ++v) hn::Store(hn::Mul(sum[v][k], factor), t, S + (c + k) * lanes + r + v * kVec<T>);
      }
    });
  });
}

template <class T>
void Mask(const MaskCells<T>& cells, T* S, T* visible) {
  const Tag<T> t;
  using Int = hwy::MakeSigned<T>;
  const hn::RebindToSigned<Tag<T>> ti;
  const VecOf<T> minus_inf = hn::Set(t, -std::numeric_limits<T>::infinity());
  const VecOf<T> fill = hn::Set(t, cells.fill);
  const auto lo = hn::Set(ti, static_cast<Int>(cells.lo)), hi = hn::Set(ti, static_cast<Int>(cells.hi));
  const std::int64_t words = (cells.lanes + 63) / 64;
  for (std::int64_t r = 0; r < cells.lanes; r += kVec<T>) {
    const auto lane = hn::Iota(ti, static_cast<Int>(r));
    VecOf<T> any = hn::Zero(t);
    for (std::int64_t c = 0; c < cells.cols; ++c) {
      T* s = S + c * cells.lanes + r;
      const auto distance = hn::Sub(hn::Set(ti, static_cast<Int>(c)), lane);
      auto masked = hn::RebindMask(t, hn::Or(hn::Lt(distance, lo), hn::Not(hn::Lt(distance, hi))));
      VecOf<T> score = hn::Load(t, s);
      if (cells.keep) {
        const std::uint64_t bits = ~(cells.keep[c * words + r / 64] >> (r % 64));
        masked = hn::Or(masked, hn::LoadMaskBits(t, reinterpret_cast<const std::uint8_t*>(&bits)));
      }
      if (cells.bias) {
        const VecOf<T> bias = hn::Load(t, cells.bias + c * cells.lanes + r);
        const auto removes = hn::Eq(bias, minus_inf);
        score = hn::Add(score, hn::IfThenZeroElse(removes, bias));
        masked = hn::Or(masked, removes);
      }
      any = hn::Max(any, hn::IfThenZeroElse(masked, hn::Set(t, T{1})));
      hn::Store(hn::IfThenElse(masked, cells.add_fill ? hn::Add(score, fill) : fill, score), t, s);
    }
    hn::Store(any, t, visible + r);
  }
}

template <class T>
void RowMax(const T* S, std::int64_t cols, std::int64_t lanes, T* row_max) {
  const Tag<T> t;
  for_lane_groups<T>(lanes, [&](auto rows, std::int64_t r) HWY_ATTR {
    constexpr int kRows = decltype(rows)::value;
    VecOf<T> most[kRows];
    FLASHSCOPE_UNROLL
    for (int v = 0; v < kRows; ++v) most[v] = hn::Set(t, -std::numeric_limits<T>::infinity());
    for (const T *s = S + r, *end = s + cols * lanes; s < end; s += lanes) {
      FLASHSCOPE_UNROLL
      for (int v = 0; v < kRows; ++v) most[v] = max_ignoring_nan(hn::Load(t, s + v * kVec<T>), most[v]);
    }
    FLASHSCOPE_UNROLL
    for (int v = 0; v < kRows; ++v) hn::Store(most[v], t, row_max + r + v * kVec<T>);
  });
}

// The exponent's 0 in place of -inf, under guard clamp.
template <class T>
HWY_INLINE VecOf<T> clamped(VecOf<T> m, bool clamp) {
  const Tag<T> t;
  return clamp ? hn::IfThenZeroElse(hn::Eq(m, hn::Set(t, -std::numeric_limits<T>::infinity())), m) : m;
}

// Lanes of `visible` from a, the others from b; all from a where `visible` is null.
template <class T>
HWY_INLINE VecOf<T> where_visible(const T* visible, VecOf<T> a, VecOf<T> b) {
  const Tag<T> t;
  return visible ? hn::IfThenElse(hn::Gt(hn::Load(t, visible), hn::Zero(t)), a, b) : a;
}

template <class T>
HWY_INLINE const T* at(const T* lanes, std::int64_t r) {
  return lanes ? lanes + r : nullptr;
}

template <class T>
void UpdateMax(const LaneState<T>& s) {
  const Tag<T> t;
  for (std::int64_t r = 0; r < s.lanes; r += kVec<T>) {
    const VecOf<T> m_old = hn::Load(t, s.m + r), tile_max = hn::Load(t, s.tile_max + r);
    VecOf<T> larger = max_ignoring_nan(tile_max, m_old);
    if (s.lazy > 0) larger = hn::IfThenElse(hn::Gt(tile_max, hn::Add(m_old, hn::Set(t, s.lazy))), larger, m_old);
    const VecOf<T> m = where_visible(at(s.visible, r), larger, m_old);
    hn::Store(m_old, t, s.m_old + r);
    hn::Store(m, t, s.m + r);
    hn::Store(clamped<T>(s.tile_numerators ? tile_max : m, s.clamp), t, s.shift + r);
  }
}

template <class T, bool powers_of_2>
void Exponentials(T* S, std::int64_t cols, std::int64_t lanes, const T* shift, const T* visible, T* row_sum) {
  const Tag<T> t;
  for_lane_groups<T>(lanes, [&](auto rows, std::int64_t r) HWY_ATTR {
    constexpr int kRows = decltype(rows)::value;
    VecOf<T> subtract[kRows], total[kRows];
    FLASHSCOPE_UNROLL
    for (int v = 0; v < kRows; ++v) subtract[v] = hn::Load(t, shift + r + v * kVec<T>), total[v] = hn::Zero(t);
    for (std::int64_t c0 = 0; c0 < cols; c0 += kKeyChunk) {
      VecOf<T> sum[kRows];
      FLASHSCOPE_UNROLL
      for (int v = 0; v < kRows; ++v) sum[v] = hn::Zero(t);
      T* s = S + c0 * lanes + r;
      for (T* end = S + std::min(cols, c0 + kKeyChunk) * lanes; s < end; s += lanes) {
        FLASHSCOPE_UNROLL
        for (int v = 0; v < kRows; ++v) {
          VecOf<T> p = exp_difference<T, powers_of_2>(hn::Load(t, s + v * kVec<T>), subtract[v]);
          if (visible) p = where_visible(visible + r + v * kVec<T>, p, hn::Zero(t));
          hn::Store(p, t, s + v * kVec<T>);
          sum[v] = hn::Add(sum[v], p);
        }
      }
      FLASHSCOPE_UNROLL
      for (int v = 0; v < kRows; ++v) total[v] = hn::Add(total[v], sum[v]);
    }
    FLASHSCOPE_UNROLL
    for (int v = 0; v < kRows; ++v) hn::Store(total[v], t, row_sum + r + v * kVec<T>);
  });
}

template <class T>
bool UpdateAlpha(const LaneState<T>& s) {
  const Tag<T> t;
  const VecOf<T> one = hn::Set(t, T{1}), minus_inf = hn::Set(t, -std::numeric_limits<T>::infinity());
  bool any = false;
  for (std::int64_t r = 0; r < s.lanes; r += kVec<T>) {
    const T* visible = at(s.visible, r);
    const VecOf<T> m_old = hn::Load(t, s.m_old + r), m = clamped<T>(hn::Load(t, s.m + r), s.clamp);
    const VecOf<T> l_old = hn::Load(t, s.l + r);
    const auto exp_minus_m = [&](VecOf<T> x) HWY_ATTR {
      return s.powers_of_2 ? exp_difference<T, true>(x, m) : exp_difference<T, false>(x, m);
    };
    const VecOf<T> alpha = where_visible(visible, exp_minus_m(m_old), one);
    VecOf<T> factor = s.rescale_o ? alpha : one;
    if (s.inverse) factor = hn::IfThenElse(hn::Eq(m_old, minus_inf), one, hn::Div(one, alpha));
    if (s.each) factor = where_visible(visible, hn::Mul(factor, l_old), one);
    hn::Store(alpha, t, s.alpha + r);
    hn::Store(factor, t, s.o_factor + r);
    if (s.rescale_l) hn::Store(hn::Mul(l_old, alpha), t, s.l + r);
    if (s.beta) hn::Store(exp_minus_m(hn::Load(t, s.tile_max + r)), t, s.beta + r);
    any = any || !hn::AllTrue(t, hn::Eq(factor, one));
  }
  return any;
}

template <class T>
void UpdateSum(const LaneState<T>& s) {
  const Tag<T> t;
  const VecOf<T> one = hn::Set(t, T{1});
  for (std::int64_t r = 0; r < s.lanes; r += kVec<T>) {
    const VecOf<T> l_old = hn::Load(t, s.l + r);
    VecOf<T> sum = hn::Load(t, s.row_sum + r);
    if (s.beta) sum = hn::Mul(sum, hn::Load(t, s.beta + r));
    const VecOf<T> l = where_visible(at(s.visible, r), hn::Add(l_old, sum), l_old);
    hn::Store(l, t, s.l + r);
    if (!s.each) continue;
    const VecOf<T> divisor = s.clamp ? hn::IfThenElse(hn::Eq(l, hn::Zero(t)), one, l) : l;
    hn::Store(where_visible(at(s.visible, r), hn::Div(one, divisor), one), t, s.reciprocal + r);
  }
}

template <class T>
void MultiplyRows(T* X, std::int64_t n, std::int64_t lanes, const T* factor) {
  const Tag<T> t;
  for (T* end = X + n * lanes; X < end; X += lanes) {
    for (std::int64_t r = 0; r < lanes; r += kVec<T>)
      hn::Store(hn::Mul(hn::Load(t, X + r), hn::Load(t, factor + r)), t, X + r);
  }
}

template <class T>
void Accumulate(const T* P, std::int64_t cols, std::int64_t lanes, const T* V, std::int64_t dv,
                const OutputUpdate<T>& update, T* O, const Ahead<T>& ahead) {
  const Tag<T> t;
  Fetcher<T> fetcher(ahead, dv / kBlock + 1);
  for (std::int64_t c0 = 0; c0 < cols; c0 += kKeyChunk) {
    const std::int64_t c1 = std::min(cols, c0 + kKeyChunk);
    const T* factor = c0 == 0 ? update.factor : nullptr;
    const T* reciprocal = c1 == cols ? update.reciprocal : nullptr;
    for_lane_groups<T>(lanes, [&](auto rows, std::int64_t r) HWY_ATTR {
      constexpr int kRows = decltype(rows)::value;
      for_blocks(dv, [&](auto block, std::int64_t e) HWY_ATTR {
        constexpr int kCols = decltype(block)::value;
        fetcher.part();
        VecOf<T> sum[kRows][kCols];
        FLASHSCOPE_UNROLL
        for (int v = 0; v < kRows; ++v) {
          FLASHSCOPE_UNROLL
          for (int k = 0; k < kCols; ++k) sum[v][k] = hn::Zero(t);
        }
        const T *p = P + c0 * lanes + r, *value = V + c0 * dv + e;
        for (std::int64_t c = c0; c < c1; ++c, p += lanes, value += dv) {
          VecOf<T> pv[kRows];
          FLASHSCOPE_UNROLL
          for (int v = 0; v < kRows; ++v) pv[v] = hn::Load(t, p + v * kVec<T>);
          FLASHSCOPE_UNROLL
          for (int k = 0; k < kCols; ++k) {
            const VecOf<T> element = hn::Set(t, value[k]);
            FLASHSCOPE_UNROLL
            for (int v = 0; v < kRows; ++v) sum[v][k] = hn::MulAdd(pv[v], element, sum[v][k]);
          }
        }
        FLASHSCOPE_UNROLL
        for (int v = 0; v < kRows; ++v) {
          const std::int64_t lane = r + v * kVec<T>;
          FLASHSCOPE_UNROLL
          for (int k = 0; k < kCols; ++k) {
            T* o = O + (e + k) * lanes + lane;
            const VecOf<T> old = hn::Load(t, o);
            VecOf<T> now = factor ? hn::Mul(old, hn::Load(t, factor + lane)) : old;
            now = hn::Add(now, update.beta ? hn::Mul(sum[v][k], hn::Load(t, update.beta + lane)) : sum[v][k]);
            if (reciprocal) now = hn::Mul(now, hn::Load(t, reciprocal + lane));
            hn::Store(where_visible(at(update.visible, lane), now, old), t, o);
          }
        }
      });
    });
  }
}

template <class T>
void RowStatus(const T* m, const T* l, const T* O, std::int64_t dv, std::int64_t lanes, T* nan, T* inf) {
  const Tag<T> t;
  const VecOf<T> infinity = hn::Set(t, std::numeric_limits<T>::infinity()), one = hn::Set(t, T{1});
  for (std::int64_t r = 0; r < lanes; r += kVec<T>) {
    const VecOf<T> lv = hn::Load(t, l + r);
    auto is_nan = hn::IsNaN(lv);
    auto is_inf = hn::Or(hn::Eq(lv, infinity), hn::Eq(hn::Load(t, m + r), infinity));
    for (std::int64_t e = 0; e < dv; ++e) {
      const VecOf<T> o = hn::Load(t, O + e * lanes + r);
      is_nan = hn::Or(is_nan, hn::IsNaN(o));
      is_inf = hn::Or(is_inf, hn::Eq(hn::Abs(o), infinity));
    }
    hn::Store(hn::IfThenElseZero(is_nan, one), t, nan + r);
    hn::Store(hn::IfThenElseZero(is_inf, one), t, inf + r);
  }
}

template <class T>
void CountNaN(const T* P, std::int64_t cols, std::int64_t lanes, T* count) {
  const Tag<T> t;
  const VecOf<T> one = hn::Set(t, T{1});
  for (std::int64_t r = 0; r < lanes; r += kVec<T>) {
    VecOf<T> sum = hn::Zero(t);
    for (std::int64_t c = 0; c < cols; ++c)
      sum = hn::Add(sum, hn::IfThenElseZero(hn::IsNaN(hn::Load(t, P + c * lanes + r)), one));
    hn::Store(sum, t, count + r);
  }
}

// Branch-free, so that the compiler makes vectors of it. A double is rounded to float first, as in round_to.
HWY_INLINE float rounded_to_bfloat16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const float rounded = std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u);
  return x != x ? x : rounded;
}
HWY_INLINE float rounded_to_float16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x), sign = bits & 0x80000000u, rest = bits ^ sign;
  const float magnitude = std::bit_cast<float>(rest);
  const float normal = std::bit_cast<float>((rest + 0xfffu + (rest >> 13 & 1u)) & ~0x1fffu);
  const float subnormal = (magnitude + 0.5f) - 0.5f;  // a multiple of 2^-24
  float rounded = magnitude < 0x1p-14f ? subnormal : normal;
  rounded = magnitude >= 65520.0f ? std::numeric_limits<float>::infinity() : rounded;
  rounded = x != x ? x : rounded;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(rounded) | sign);
}
template <class T>
void Round(T* x, std::int64_t n, bool to_bfloat16) {
  if (to_bfloat16)
    for (T* end = x + n; x < end; ++x) *x = rounded_to_bfloat16(static_cast<float>(*x));
  else
    for (T* end = x + n; x < end; ++x) *x = rounded_to_float16(static_cast<float>(*x));
}

template <class T>
constexpr FoldKernels<T> kTable{
    Scores<T>,      Mask<T>,      RowMax<T>,       UpdateMax<T>,  Exponentials<T, false>, Exponentials<T, true>,
    UpdateAlpha<T>, UpdateSum<T>, MultiplyRows<T>, Accumulate<T>, RowStatus<T>,           CountNaN<T>,
    Round<T>,       Exp<T>};

const FoldKernels<float>& KernelsFloat() { return kTable<float>; }
const FoldKernels<double>& KernelsDouble() { return kTable<double>; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace flashscope
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flashscope {

HWY_EXPORT(KernelsFloat);
HWY_EXPORT(KernelsDouble);

template <>
const FoldKernels<float>& fold_kernels<float>() {
  return HWY_DYNAMIC_DISPATCH(KernelsFloat)();
}
template <>
const FoldKernels<double>& fold_kernels<double>() {
  return HWY_DYNAMIC_DISPATCH(KernelsDouble)();
}

namespace {
// The targets of the machine, before any choice by use_isa.
std::vector<std::int64_t> machine_targets() {
  static const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  return targets;
}
std::int64_t chosen_target = 0;  // 0: the best
}  // namespace

std::vector<std::string_view> available_isas() {
  std::vector<std::string_view> names;
  for (const std::int64_t target : machine_targets()) names.push_back(hwy::TargetName(target));
  return names;
}

std::string_view current_isa() { return hwy::TargetName(chosen_target ? chosen_target : machine_targets().front()); }

void use_isa(std::string_view name) {
  std::int64_t chosen = 0;
  std::string known = "auto";
  for (const std::int64_t target : machine_targets()) {
    if (name == hwy::TargetName(target)) chosen = target;
    known += std::string(", ") + hwy::TargetName(target);
  }
  if (chosen == 0 && name != "auto") throw InputError("isa", std::string(name), "one of " + known);
  chosen_target = chosen;
  hwy::SetSupportedTargetsForTest(chosen);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace flashscope
#endif  // HWY_ONCE
