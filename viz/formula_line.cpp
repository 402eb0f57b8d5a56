#include "viz/formula_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/digits.h"
#include "viz/words.h"

namespace flashscope::viz {
namespace {

// One number of column `values` at row r of the block; NaN where it does not exist yet.
double at(const std::vector<double>& values, std::int64_t r) {
  return r >= 0 && r < static_cast<std::int64_t>(values.size()) ? values[r] : std::nan("");
}

bool any_nan(const Matrix& matrix, std::int64_t r) {
  if (matrix.empty() || r < 0 || r >= matrix.rows) return false;
  for (std::int64_t c = 0; c < matrix.cols; ++c)
    if (std::isnan(matrix.at(r, c))) return true;
  return false;
}

double row_maximum(const Matrix& S, std::int64_t r) {  // ignores NaN, as the fold does
  double best = -std::numeric_limits<double>::infinity();
  for (std::int64_t c = 0; c < S.cols; ++c) best = std::fmax(best, S.at(r, c));
  return best;
}

std::string digits(double value, int count) {
  return std::isfinite(value) ? fmt::format("{:.{}g}", value, count) : number(value);
}

// The key whose number is told: the pointed one, else the first one that is NaN, else the first.
std::int64_t key_in_tile(const TraceState& s, std::int64_t r, std::int64_t key) {
  if (key >= 0) return std::clamp<std::int64_t>(key - s.col0, 0, std::max<std::int64_t>(s.cols - 1, 0));
  for (std::int64_t c = 0; c < s.P.cols && r < s.P.rows; ++c)
    if (std::isnan(s.P.at(r, c))) return c;
  return 0;
}

// What the guard makes of a row whose maximum is still -inf, or that sees no key in this tile: the equation of the
// stage does not hold there.
struct Guarded {
  bool skipped = false;  // the row keeps its state
  bool clamped = false;  // the exponents subtract 0
};
Guarded guarded(const StageData& data, std::int64_t r, double subtracted) {
  const TraceState& s = *data.state;
  const Guard guard = data.schedule->recipe().guard;
  Guarded now;
  now.clamped = guard == Guard::clamp && std::isinf(subtracted) && subtracted < 0;
  if (guard == Guard::skip && !s.visible.empty() && r >= 0 && r < s.rows)
    now.skipped = std::count(s.visible.begin() + r * s.cols, s.visible.begin() + (r + 1) * s.cols, 1) == 0;
  return now;
}

FormulaLine transfer_line(const StageData& data) {
  FormulaLine line;
  std::string words, short_words;
  std::int64_t total = 0;
  for (const Transfer& t : data.transfers) {
    const std::string tile = tile_name(*data.schedule, t);
    words += fmt::format("{}{} [{} x {}] {}", words.empty() ? "" : " + ", tile, t.rows, t.cols, bytes(t.bytes));
    short_words += fmt::format("{}{}", short_words.empty() ? "" : ", ", tile);
    total += t.bytes;
  }
  const bool read = data.transfers.front().read;
  const char* way = read ? "HBM -> chip" : "chip -> HBM";
  if (std::any_of(data.transfers.begin(), data.transfers.end(), [read](const Transfer& t) { return t.read != read; }))
    way = "HBM <-> chip";
  line.texts = {fmt::format("{}:  {}", way, words), fmt::format("{}:  {}  {}", way, short_words, bytes(total))};
  return line;
}

}  // namespace

std::int64_t focus_row(const StageData& data, std::int64_t pointed_row) {
  if (!data.state || data.state->i < 0 || data.state->rows == 0) return -1;
  const TraceState& s = *data.state;
  const auto on_chip = [&s](std::int64_t row) { return row >= s.row0 && row < s.row0 + s.rows; };
  if (on_chip(pointed_row)) return pointed_row;
  if (on_chip(data.found_row)) return data.found_row;
  for (std::int64_t row : data.pinned_rows)
    if (on_chip(row)) return row;
  for (std::size_t r = 0; r < s.rescaled.size(); ++r)
    if (s.rescaled[r]) return s.row0 + static_cast<std::int64_t>(r);
  for (std::int64_t r = 0; r < s.rows; ++r)
    if (any_nan(s.P, r) || (!s.l.empty() && std::isnan(at(s.l, r)))) return s.row0 + r;
  return s.row0;
}

// "S[65, 64] + ALiBi = 0.107 + (-0.5) = -0.393": what bias and ALiBi make of a visible score.
std::string changed_score(const StageData& data, std::int64_t r, std::int64_t c) {
  const TraceState& s = *data.state;
  const Mask& mask = data.schedule->mask();
  const Shape& shape = data.schedule->shape();
  const double now = s.S.at(r, c);
  const double plus = added(mask, band(mask, shape.Nq, shape.Nk), s.head, s.row0 + r, s.col0 + c);
  const bool alibi = !mask.rules.alibi.empty();
  const char* what = mask.bias && alibi ? "bias + ALiBi" : alibi ? "ALiBi" : "bias";
  return fmt::format("S[{}, {}] + {} = {} + ({}) = {}", s.row0 + r, s.col0 + c, what, number(now - plus), number(plus),
                     number(now));
}

FormulaLine formula_line(const StageData& data, std::int64_t row, std::int64_t key) {
  FormulaLine line;
  if (!data.state || !data.problem || !data.schedule) return {{"Open a problem to step through it."}, false};
  const TraceState& s = *data.state;
  if (!s.step)
    return {{"Step 0: nothing has moved yet. Every row starts with m = -inf, l = 0, O = 0.",
             "Step 0: m = -inf, l = 0, O = 0"},
            false};
  if (!data.transfers.empty() && s.step->stage != TraceStage::finish) return transfer_line(data);
  if (row < 0) return {{label(s.step->stage)}, false};

  const std::int64_t r = row - s.row0;
  const std::string head = fmt::format("row {}:  ", row);
  const double m = at(s.m, r), m_old = at(s.m_old, r), l = at(s.l, r), l_old = at(s.l_old, r), alpha = at(s.alpha, r);
  const std::int64_t c = key_in_tile(s, r, key);
  const auto say = [&](const std::string& text, const std::string& shorter) {
    line.texts = {head + text, head + shorter, shorter};
  };

  switch (s.step->stage) {
    case TraceStage::scores: {
      if (s.S.empty() || s.Q.empty() || s.K_tile.empty()) break;
      double dot = 0;
      for (std::int64_t k = 0; k < s.Q.cols; ++k) dot += s.Q.at(r, k) * s.K_tile.at(c, k);
      const double value = s.S.at(r, c);
      line.nan = std::isnan(value);
      if (const double cap = data.schedule->mask().rules.softcap; cap != 0) {
        say(fmt::format("S[{}, {}] = {} tanh(scale * Q[{}].K[{}] / {}) = {} tanh({} * {} / {}) = {}", row, s.col0 + c,
                        number(cap), row, s.col0 + c, number(cap), number(cap), number(data.problem->scale),
                        number(dot), number(cap), number(value)),
            fmt::format("S = {} tanh({} * {} / {}) = {}", number(cap), number(data.problem->scale), number(dot),
                        number(cap), number(value)));
        break;
      }
      say(fmt::format("S[{}, {}] = scale * Q[{}].K[{}] = {} * {} = {}", row, s.col0 + c, row, s.col0 + c,
                      number(data.problem->scale), number(dot), number(value)),
          fmt::format("S = {} * {} = {}", number(data.problem->scale), number(dot), number(value)));
      break;
    }
    case TraceStage::mask: {
      const HeatSource scores = heat_source(data, ChipBuffer::S);
      std::int64_t masked = 0;
      for (std::int64_t k = 0; k < scores.cols && r < scores.rows; ++k) masked += !scores.is_visible(r, k);
      line.nan = any_nan(s.S, r);
      const char* of = data.schedule->recipe().algorithm == Algorithm::standard ? "" : " of this tile";
      say(fmt::format("{} of {}{} masked, their scores: {}", masked, counted(s.cols, "key"), of,
                      masked_scores(data.schedule->recipe())),
          fmt::format("{} of {} masked", masked, counted(s.cols, "key")));
      if (data.schedule->mask().adds() && scores.is_visible(r, c))
        say(fmt::format("{}; {} of {}{} masked", changed_score(data, r, c), masked, counted(s.cols, "key"), of),
            changed_score(data, r, c));
      else if (masked == 0)
        say(s.cols == 1 ? fmt::format("the one key{} is visible: nothing to mask", of)
                        : fmt::format("all {} keys{} are visible: nothing to mask", s.cols, of),
            "nothing to mask");
      break;
    }
    case TraceStage::max: {
      line.nan = std::isnan(m);
      if (guarded(data, r, m).skipped) {
        say(fmt::format("no visible key in this tile: skipped, m stays {}", number(m)),
            fmt::format("skipped, m = {}", number(m)));
        break;
      }
      const std::string tile = s.S.empty() ? "max S" : number(row_maximum(s.S, r));
      say(fmt::format("m_new = max(m_old, max S[{},:]) = max({}, {}) = {}", row, number(m_old), tile, number(m)),
          fmt::format("m_new = max({}, {}) = {}", number(m_old), tile, number(m)));
      break;
    }
    case TraceStage::exponentials: {
      if (s.P.empty()) break;
      const double value = s.P.at(r, c);
      line.nan = any_nan(s.P, r);
      const std::string score = s.S.empty() ? "S" : number(s.S.at(r, c));
      const Recipe& recipe = data.schedule->recipe();
      const bool own = recipe.numerators == Numerators::tile || recipe.defect == Defect::tile_max;
      const double subtracted = own && !s.S.empty() ? row_maximum(s.S, r) : m;
      const char* name = own ? "tile max" : "m_new";
      if (const Guarded guard = guarded(data, r, subtracted); guard.skipped)
        say(fmt::format("no visible key in this tile: skipped, P[{},:] = {}", row, number(value)),
            fmt::format("skipped, P = {}", number(value)));
      else if (guard.clamped)
        say(fmt::format("{} = -inf, clamped to 0: P[{}, {}] = exp({} - 0) = {}", name, row, s.col0 + c, score,
                        number(value)),
            fmt::format("clamped: P = exp({} - 0) = {}", score, number(value)));
      else
        say(fmt::format("P[{}, {}] = exp(S - {}) = exp({} - {}) = {}", row, s.col0 + c, name, score, number(subtracted),
                        number(value)),
            fmt::format("P = exp({} - {}) = {}", score, number(subtracted), number(value)));
      break;
    }
    case TraceStage::rescale: {
      line.nan = std::isnan(alpha) || std::isnan(l);
      const std::string factor = number(s.o_factor.empty() ? alpha : at(s.o_factor, r));
      std::string first = "alpha = exp(m_old - m_new) = ";
      std::string exponent = fmt::format("exp({} - {}) = {}", number(m_old), number(m), number(alpha));
      if (const Guarded guard = guarded(data, r, m); guard.skipped)
        first = "no visible key in this tile: skipped, alpha = ", exponent = number(alpha);
      else if (guard.clamped)
        first = "m_new = -inf, clamped to 0: alpha = ",
        exponent = fmt::format("exp({} - 0) = {}", number(m_old), number(alpha));
      say(fmt::format("{}{}   l: {} -> {}   O[{},:] *= {}", first, exponent, number(l_old), number(l), row, factor),
          fmt::format("alpha = {}   l: {} -> {}   O *= {}", exponent, number(l_old), number(l), factor));
      break;
    }
    case TraceStage::accumulate: {
      const double sum = at(s.row_sum, r);
      line.nan = std::isnan(l) || any_nan(s.O, r);
      if (s.row_sum.empty()) {
        say(fmt::format("O[{},:] = P[{},:] V", row, row), "O = P V");
        break;
      }
      say(fmt::format("l = {} + sum P[{},:] = {} + {} = {}   O[{},:] += P[{},:] V", number(l - sum), row,
                      number(l - sum), number(sum), number(l), row, row),
          fmt::format("l = {} + {} = {}   O += P V", number(l - sum), number(sum), number(l)));
      break;
    }
    case TraceStage::softmax: {
      line.nan = any_nan(s.P, r);
      if (data.schedule->recipe().guard != Guard::none && l == 0) {
        say(fmt::format("no visible key: the guard leaves P[{},:] = {}, l = 0", row,
                        number(s.P.empty() ? 0 : s.P.at(r, c))),
            "no visible key: P = 0");
        break;
      }
      say(fmt::format("P[{},:] = exp(S - m) / l   with m = {}, l = {}", row, number(m), number(l)),
          fmt::format("P = exp(S - {}) / {}", number(m), number(l)));
      break;
    }
    case TraceStage::finish: {
      const double lse = handed_out(data.lse, at(s.LSE, r));
      line.nan = std::isnan(lse) || any_nan(s.O, r);
      if (data.schedule->recipe().guard != Guard::none && l == 0) {
        const std::string O = s.O.empty() ? "" : fmt::format("O[{}, 0] = {}, ", row, number(s.O.at(r, 0)));
        say(fmt::format("no visible key in the whole row, empty row {}: {}LSE = {}",
                        name(data.schedule->recipe().empty_row), O, number(lse)),
            fmt::format("no visible key: LSE = {}", number(lse)));
        break;
      }
      const bool divides = data.schedule->recipe().normalised() == Normalise::end &&
                           data.schedule->recipe().defect != Defect::no_final_divide;
      const std::string numbers =
          data.lse == LseConvention{} ? fmt::format(" = {} + {}", number(m), number(std::log(l))) : "";
      say(fmt::format("{}LSE = {}{} = {}", divides ? fmt::format("O[{},:] /= {}   ", row, number(l)) : "",
                      formula(data.lse), numbers, number(lse)),
          fmt::format("{}LSE = {}", divides ? fmt::format("O /= {}   ", number(l)) : "", number(lse)));
      break;
    }
    default:
      break;
  }
  if (line.texts.empty()) line.texts = {label(s.step->stage)};
  return line;
}

std::vector<std::string> check_line(const StageData& data) {
  if (!data.check || data.check_row < 0) return {};
  const RowCheck& check = *data.check;
  const std::string head = fmt::format("row {} if stopped now: ", data.check_row);
  if (check.seen_keys == 0)
    return {fmt::format("row {}: none of its {} visible keys seen yet", data.check_row, count(check.visible_keys)),
            fmt::format("row {}: no key seen yet", data.check_row)};
  const std::string error = "max |O/l - reference| = " + digits(check.max_error, 2);
  const std::string keys = fmt::format("{} of {} visible keys seen", count(check.seen_keys), count(check.visible_keys));
  const std::string sums = fmt::format("sum P/l = {}, weight on masked keys = {}", digits(check.sum_p_over_l, 7),
                                       digits(check.masked_weight, 2));
  return {head + error + " over keys seen · " + keys + " · " + sums, head + error + " · " + keys + " · " + sums,
          fmt::format("row {}: {} · {}", data.check_row, error, sums),
          fmt::format("row {}: {}", data.check_row, error)};
}

}  // namespace flashscope::viz
