#include "engine/insight/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "engine/attention/stepper.h"
#include "engine/error.h"
#include "engine/insight/condition_walk.h"

namespace flashscope {
namespace {

constexpr std::array<std::pair<std::string_view, Stop::Kind>, 7> kWords = {{{"nan", Stop::Kind::nan},
                                                                            {"inf", Stop::Kind::inf},
                                                                            {"rescale", Stop::Kind::rescale},
                                                                            {"max", Stop::Kind::first_max},
                                                                            {"masked", Stop::Kind::masked},
                                                                            {"partial", Stop::Kind::partial},
                                                                            {"empty", Stop::Kind::empty_row}}};
constexpr std::array kStages = {Stage::load_q,     Stage::load_k,       Stage::scores,    Stage::mask,
                                Stage::max,        Stage::exponentials, Stage::rescale,   Stage::load_v,
                                Stage::accumulate, Stage::load_rows,    Stage::store_rows};

// ---- words

// The number at the start of `text`, which begins at character `at` of the whole.
template <class T>
T take_number(std::string_view& text, std::size_t& at, const char* expected, T least) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto length = static_cast<std::size_t>(end - text.data());
  if (error != std::errc{} || !(value >= least))
    throw ConditionError(at, std::max<std::size_t>(1, text.size()),
                         text.empty() ? "the end" : fmt::format("\"{}\"", text), expected);
  text.remove_prefix(length), at += length;
  return value;
}

void expect_end(std::string_view text, std::size_t at) {
  if (!text.empty()) throw ConditionError(at, text.size(), fmt::format("\"{}\"", text), "the end");
}

Stop parse_place(std::string_view rest, std::size_t at) {
  Stop stop;
  stop.kind = Stop::Kind::tile;
  stop.i = take_number<std::int64_t>(rest, at, "a row block, as in tile:3,0", 0);
  if (!rest.starts_with(','))
    throw ConditionError(at, 1, rest.empty() ? "the end" : fmt::format("\"{}\"", rest), "\",\" and a column block");
  rest.remove_prefix(1), ++at;
  stop.j = take_number<std::int64_t>(rest, at, "a column block, as in tile:3,0", 0);
  if (rest.starts_with(',')) {
    rest.remove_prefix(1), ++at;
    std::string known;
    for (const Stage stage : kStages) {
      if (rest == name(stage)) stop.stage = stage;
      known += (known.empty() ? "" : ", ") + std::string(name(stage));
    }
    if (!stop.stage)
      throw ConditionError(at, std::max<std::size_t>(1, rest.size()), fmt::format("\"{}\"", rest), "one of " + known);
    rest = {};
  }
  expect_end(rest, at);
  return stop;
}

// ---- closed forms: no arithmetic of attention

std::optional<std::int64_t> nearer(std::optional<std::int64_t> best, std::int64_t K, std::int64_t from, bool forward) {
  if (forward ? K <= from : K >= from) return best;
  if (best && (forward ? K >= *best : K <= *best)) return best;
  return K;
}

std::optional<std::int64_t> find_place(const Stop& stop, const Schedule& schedule, std::int64_t from, bool forward) {
  std::optional<std::int64_t> best;
  const bool tiles = schedule.recipe().algorithm != Algorithm::standard;
  if (!tiles || stop.i >= schedule.Tr() || stop.j >= schedule.Tc()) return best;
  const Stage stage = stop.stage.value_or(schedule.tile_stages().front());
  for (std::int64_t head = 0; head < schedule.shape().heads; ++head)
    if (const auto k = schedule.find(head, stop.i, stop.j, stage)) best = nearer(best, *k + 1, from, forward);
  return best;
}

std::optional<std::int64_t> find_row(const Stop& stop, const Schedule& schedule, std::int64_t from, bool forward) {
  std::optional<std::int64_t> best;
  if (stop.row < 0 || stop.row >= schedule.shape().Nq) return best;
  const std::int64_t i = stop.row / schedule.recipe().Br;
  for (std::int64_t head = 0; head < schedule.shape().heads; ++head) {
    if (schedule.recipe().algorithm != Algorithm::flash1) {
      best = nearer(best, *schedule.find(head, i, -1, Stage::load_q) + 1, from, forward);
      continue;
    }
    for (std::int64_t n = 0; n < schedule.visits(head, i); ++n)
      best = nearer(best, *schedule.find(head, i, schedule.visit_j(head, i, n), Stage::load_rows) + 1, from, forward);
  }
  return best;
}

// Whether row block i sees all keys, as far as causal and window go.
bool sees_all(const Schedule& schedule, const Band& limits, std::int64_t i) {
  const std::int64_t r0 = i * schedule.recipe().Br, r1 = r0 + schedule.rows(i);
  return r1 - 1 + limits.lo <= 0 && r0 + limits.hi >= schedule.shape().Nk;
}

std::optional<Found> find_partial(const Schedule& schedule, std::int64_t from, bool forward,
                                  const std::stop_token& stop) {
  if (schedule.mask().none() || schedule.recipe().algorithm == Algorithm::standard) return {};
  const Shape& shape = schedule.shape();
  const Band limits = band(schedule.mask(), shape.Nq, shape.Nk);
  const bool structural = schedule.mask().structural_only();
  const bool rows_follow = schedule.recipe().algorithm == Algorithm::flash2;
  std::int64_t ordinal = schedule.next_tile(std::clamp<std::int64_t>(from - 1, 0, schedule.steps()));
  if (!forward) ordinal = std::min(ordinal, schedule.tiles() - 1);
  for (std::int64_t count = 0; ordinal >= 0 && ordinal < schedule.tiles(); ++count) {
    if (count % 1024 == 0 && stop.stop_requested()) throw Cancelled();
    const Step tile = schedule.tile_at(ordinal);
    if (rows_follow && structural && sees_all(schedule, limits, tile.i)) {  // past the whole row block
      const std::int64_t n = schedule.visit_index(tile.head, tile.i, tile.j);
      ordinal += forward ? schedule.visits(tile.head, tile.i) - n : -(n + 1);
      continue;
    }
    if (schedule.tile_class(tile.head, tile.i, tile.j) == TileClass::partial) {
      const std::int64_t K = *schedule.find(tile.head, tile.i, tile.j, Stage::mask) + 1;
      if (forward ? K > from : K < from) return Found{K, 0, tile.head, tile.i, tile.j, -1, 1};
    }
    ordinal += forward ? 1 : -1;
  }
  return {};
}

std::optional<EventKind> event_of(Stop::Kind kind) {
  switch (kind) {
    case Stop::Kind::nan:
      return EventKind::nan;
    case Stop::Kind::inf:
      return EventKind::inf;
    case Stop::Kind::rescale:
      return EventKind::rescale;
    case Stop::Kind::first_max:
      return EventKind::first_max;
    case Stop::Kind::empty_row:
      return EventKind::empty_row;
    default:
      return {};
  }
}

// ---- the rest folds
template <class T>
std::optional<Found> search_folds(const std::shared_ptr<const Problem>& problem, const Schedule& schedule,
                                  std::span<const Stop> stops, std::int64_t from_K, bool forward,
                                  const SearchOptions& options, std::optional<Found> best) {
  std::vector<std::size_t> folding;
  for (std::size_t n = 0; n < stops.size(); ++n)
    if (event_of(stops[n].kind) || stops[n].condition) folding.push_back(n);
  if (folding.empty()) return best;
  const Shape shape = problem->shape();
  const Recipe& recipe = schedule.recipe();
  const std::int64_t cols = recipe.algorithm == Algorithm::standard ? shape.Nk : std::min(recipe.Bc, shape.Nk);
  const double bytes = static_cast<double>(std::min(recipe.Br, shape.Nq) + kLane) *
                       static_cast<double>(2 * cols + 2 * (shape.d + shape.dv)) * sizeof(T);
  RowBlockSearch blocks(schedule, from_K, forward, options, static_cast<std::int64_t>(folding.size()), bytes);
  struct Folds {
    std::optional<Stepper<T>> stepper;
    std::optional<ConditionWalk<T>> walk;
  };
  const auto make_look = [&]() -> RowBlockSearch::Look {
    return [&, folds = std::make_shared<Folds>()](std::int64_t head, std::int64_t i, const std::stop_token& stop) {
      const auto folded = [&] { blocks.folded(); };
      for (const std::size_t n : folding) {
        const Stop& wanted = stops[n];
        if (wanted.condition) {
          if (!folds->walk) folds->walk.emplace(*problem, schedule);
          if (const auto match =
                  folds->walk->search(*wanted.condition, head, i, from_K, blocks.bound(), forward, stop, folded))
            blocks.note({match->K, n, head, i, match->j, match->row, 1});
        } else {
          if (!folds->stepper) folds->stepper.emplace(problem, schedule);
          if (const auto event = folds->stepper->search(*event_of(wanted.kind), head, i, from_K, blocks.bound(),
                                                        forward, 1 / wanted.factor, stop, folded))
            blocks.note({event->step, n, head, event->i, event->j, event->row, event->alpha});
        }
      }
    };
  };
  return blocks.run(make_look, best);
}

}  // namespace

Stop parse_stop(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  Stop stop;
  for (const auto& [word, kind] : kWords) {
    stop.kind = kind;
    if (text == word) return stop;
  }
  std::size_t at = text.find(':');
  if (at != text.npos) {
    const std::string_view word = text.substr(0, at);
    std::string_view rest = text.substr(++at);
    if (word == "rescale") {
      stop.kind = Stop::Kind::rescale;
      stop.factor = take_number(rest, at, "a factor of at least 1, as in rescale:10", 1.0);
      expect_end(rest, at);
      return stop;
    }
    if (word == "row") {
      stop.kind = Stop::Kind::row;
      stop.row = take_number<std::int64_t>(rest, at, "a query row, as in row:71", 0);
      expect_end(rest, at);
      return stop;
    }
    if (word == "tile") return parse_place(rest, at);
  }
  constexpr const char* kExpected =
      "nan, inf, rescale:X, max, masked, partial, empty, row:R, tile:I,J or a condition such as alpha < 0.01";
  if (text.empty()) throw ConditionError(0, 1, "nothing", kExpected);
  stop.kind = Stop::Kind::condition;
  try {
    stop.condition = std::make_shared<const Condition>(parse_condition(text));
  } catch (const ConditionError& error) {
    if (error.at() > 0) throw;
    throw ConditionError(0, error.length(), error.found(), kExpected);
  }
  return stop;
}

std::string text_of(const Stop& stop) {
  switch (stop.kind) {
    case Stop::Kind::row:
      return fmt::format("row:{}", stop.row);
    case Stop::Kind::tile:
      return fmt::format("tile:{},{}{}{}", stop.i, stop.j, stop.stage ? "," : "", stop.stage ? name(*stop.stage) : "");
    case Stop::Kind::condition:
      return stop.condition->text;
    default:
      break;
  }
  for (const auto& [word, kind] : kWords)
    if (kind == stop.kind) return std::string(word) + (stop.factor > 1 ? fmt::format(":{}", stop.factor) : "");
  return {};
}

std::string describe(const Stop& stop) {
  switch (stop.kind) {
    case Stop::Kind::nan:
      return "NaN";
    case Stop::Kind::inf:
      return "Inf";
    case Stop::Kind::rescale:
      return stop.factor > 1 ? fmt::format("rescale beyond {}", stop.factor) : "rescale";
    case Stop::Kind::first_max:
      return "first maximum";
    case Stop::Kind::masked:
      return "masked tile";
    case Stop::Kind::partial:
      return "partial tile";
    case Stop::Kind::empty_row:
      return "empty row";
    case Stop::Kind::row:
      return fmt::format("row {}", stop.row);
    case Stop::Kind::tile:
      return fmt::format("tile ({}, {}){}{}", stop.i, stop.j, stop.stage ? ", " : "",
                         stop.stage ? name(*stop.stage) : "");
    case Stop::Kind::condition:
      return stop.condition->text;
  }
  return {};
}

std::optional<Found> search(std::shared_ptr<const Problem> problem, const Recipe& recipe, std::span<const Stop> stops,
                            std::int64_t from_K, bool forward, const SearchOptions& options,
                            std::int64_t memory_limit) {
  Trace trace(problem, recipe, memory_limit);
  const Schedule& schedule = trace.schedule();
  std::optional<Found> best;
  const auto note = [&](std::optional<Found> found, std::size_t n) {
    if (!found || (best && (forward ? found->K >= best->K : found->K <= best->K))) return;
    best = found, best->stop = n;
  };
  for (std::size_t n = 0; n < stops.size(); ++n) {
    const Stop& stop = stops[n];
    std::optional<std::int64_t> K;
    if (stop.kind == Stop::Kind::tile) K = find_place(stop, schedule, from_K, forward);
    if (stop.kind == Stop::Kind::row) K = find_row(stop, schedule, from_K, forward);
    if (K) {
      const Step step = schedule.step(*K - 1);
      note(Found{*K, n, step.head, step.i, step.j, stop.row, 1}, n);
    }
    if (stop.kind == Stop::Kind::partial) note(find_partial(schedule, from_K, forward, options.stop), n);
    if (stop.kind == Stop::Kind::masked) {
      if (const auto event = trace.find(EventKind::masked, from_K, forward, 1, options.stop))
        note(Found{event->step, n, event->head, event->i, event->j, -1, 1}, n);
    }
  }
  return problem->in_double() ? search_folds<double>(problem, schedule, stops, from_K, forward, options, best)
                              : search_folds<float>(problem, schedule, stops, from_K, forward, options, best);
}

}  // namespace flashscope
