#include "engine/attention/row_demo.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/error.h"

namespace flashscope {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// The largest of |a| and |b|; NaN once there is one, so that an error cannot hide behind a maximum.
double worse(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b); }

}  // namespace

RowDemo run_row(std::span<const double> scores, std::span<const double> values, int chunk) {
  if (scores.empty()) throw InputError("scores", "none", "at least one number");
  if (!values.empty() && values.size() != scores.size()) {
    throw InputError("values", std::to_string(values.size()) + " numbers",
                     std::to_string(scores.size()) + ", one for each score");
  }
  if (chunk < 1) throw InputError("chunk", std::to_string(chunk), "at least 1");

  RowDemo demo;
  double m = -kInf, l = 0, l_dropped = 0, o = 0, o_dropped = 0;
  for (std::size_t at = 0; at < scores.size(); at += static_cast<std::size_t>(chunk)) {
    RowChunk step;
    const std::size_t end = std::min(scores.size(), at + static_cast<std::size_t>(chunk));
    step.scores.assign(scores.begin() + at, scores.begin() + end);
    step.tile_max = -kInf;
    for (const double s : step.scores) step.tile_max = std::fmax(step.tile_max, s);
    const double m_new = std::fmax(m, step.tile_max);
    const double subtracted = m_new == -kInf ? 0 : m_new;  // guard clamp: exp(-inf - 0) = 0 instead of NaN
    step.alpha = std::exp(m - subtracted);
    l *= step.alpha, o *= step.alpha;
    for (std::size_t n = at; n < end; ++n) {
      const double p = std::exp(scores[n] - subtracted);
      l += p, l_dropped += p;
      if (!values.empty()) o += p * values[n], o_dropped += p * values[n];
    }
    m = m_new;
    step.m = m, step.l = l, step.l_without_rescale = l_dropped;
    if (!values.empty()) step.o = o, step.o_without_rescale = o_dropped;
    demo.chunks.push_back(std::move(step));
  }

  demo.LSE = m + std::log(l);
  if (m == -kInf && l == 0) demo.LSE = -kInf;
  double whole_max = -kInf, whole_sum = 0;
  for (const double s : scores) whole_max = std::fmax(whole_max, s);
  const double subtracted = whole_max == -kInf ? 0 : whole_max;
  for (const double s : scores) whole_sum += std::exp(s - subtracted);
  const auto share = [](double p, double sum) { return sum == 0 ? 0 : p / sum; };  // an empty row weighs nothing
  for (const double s : scores) {
    const double p = std::exp(s - subtracted), right = share(p, whole_sum);
    demo.weights.push_back(share(p, l));
    demo.max_error = worse(demo.max_error, std::abs(demo.weights.back() - right));
    demo.max_error_without_rescale = worse(demo.max_error_without_rescale, std::abs(share(p, l_dropped) - right));
  }
  if (!values.empty()) demo.output = share(o, l), demo.output_without_rescale = share(o_dropped, l_dropped);
  return demo;
}

const std::vector<BuiltInRow>& built_in_rows() {
  static const std::vector<BuiltInRow> rows{
      {"twelve",
       "12 scores in chunks of 4: the maximum grows in the second chunk and stays in the third",
       {0.3771906632801799, -0.39631458987390566, 1.9212679513298463, 0.3147003514591191, -1.607008119483333,
        1.084785164728454, 3.9120001353904117, 2.8412428893877264, -2.111205707420978, -3.7962644131381573,
        -1.8698233876120565, 0.1239779380417308},
       {},
       4},
      {"toy",
       "two scores 0 and ln 2, one a tile, with values 10 and 20: alpha is exactly 1/2",
       {0, std::log(2.0)},
       {10, 20},
       1}};
  return rows;
}

}  // namespace flashscope
