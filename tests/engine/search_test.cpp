// What is run to: the states that a stop matches, told from the states themselves, against what searching forward
// and backward meets, on any number of threads.
#include "engine/insight/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "engine/attention/cpu_runner.h"
#include "support.h"

namespace flashscope {
namespace {

using condition::bit;
using condition::Name;

// What a condition may name in this state, from what the state holds.
ConditionRow<double> row_of(const TraceState& s, std::int64_t r, std::int64_t dv) {
  ConditionRow<double> row;
  row.exists = bit(Name::head) | bit(Name::row) | bit(Name::i) | bit(Name::j) | bit(Name::r);
  const auto take = [&](Name name, const std::vector<double>& values, double& value) {
    if (values.empty()) return;
    row.exists |= bit(name), value = values[r];
  };
  take(Name::m, s.m, row.m), take(Name::l, s.l, row.l), take(Name::alpha, s.alpha, row.alpha);
  take(Name::m_old, s.m_old, row.m_old), take(Name::l_old, s.l_old, row.l_old);
  take(Name::LSE, s.LSE, row.LSE), take(Name::row_sum, s.row_sum, row.row_sum);
  const bool nothing_to_rescale = !s.m_old.empty() && s.m_old[r] == -std::numeric_limits<double>::infinity();
  if (nothing_to_rescale && !std::isnan(row.alpha)) row.exists &= ~bit(Name::alpha);
  const auto list = [&](Name name, const Matrix& matrix, const double*& values) {
    if (matrix.empty()) return;
    row.exists |= bit(name), values = matrix.values.data() + r * matrix.cols;
  };
  list(Name::S, s.S, row.S), list(Name::P, s.P, row.P), list(Name::O, s.O, row.O);
  if (s.cols > 0) row.exists |= bit(Name::key);
  row.head = s.head, row.row = s.row0 + r, row.i = s.i, row.j = s.j, row.r = r;
  row.col0 = s.col0, row.cols = s.cols, row.channels = dv;
  return row;
}

bool has_event(const TraceState& s, EventKind kind, double factor = 1) {
  return std::any_of(s.events.begin(), s.events.end(),
                     [&](const Event& e) { return e.kind == kind && (factor == 1 || e.alpha < 1 / factor); });
}

// All states that the stop matches, from the definition.
std::vector<std::int64_t> matches(Trace& trace, const Stop& stop) {
  std::vector<std::int64_t> at;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<bool>> held;
  const Schedule& schedule = trace.schedule();
  const bool standard = schedule.recipe().algorithm == Algorithm::standard;
  for (std::int64_t K = 1; K <= schedule.steps(); ++K) {
    const TraceState s = trace.seek(K);
    bool match = false;
    switch (stop.kind) {
      case Stop::Kind::nan:
        match = has_event(s, EventKind::nan);
        break;
      case Stop::Kind::inf:
        match = has_event(s, EventKind::inf);
        break;
      case Stop::Kind::rescale:
        match = has_event(s, EventKind::rescale, stop.factor);
        break;
      case Stop::Kind::first_max:
        match = has_event(s, EventKind::first_max);
        break;
      case Stop::Kind::empty_row:
        match = has_event(s, EventKind::empty_row);
        break;
      case Stop::Kind::masked:
        match = has_event(s, EventKind::masked);
        break;
      case Stop::Kind::partial:
        match = !standard && s.step->stage == Stage::mask && s.tile_class == TileClass::partial;
        break;
      case Stop::Kind::row:
        match = (s.step->stage == Stage::load_q || s.step->stage == Stage::load_rows) && stop.row >= s.row0 &&
                stop.row < s.row0 + s.rows;
        break;
      case Stop::Kind::tile:
        match = s.i == stop.i && s.j == stop.j && s.step->stage == stop.stage.value_or(schedule.tile_stages()[0]);
        break;
      case Stop::Kind::condition: {
        if (s.i < 0) break;  // load_kv: no row block
        std::vector<bool>& before = held[{s.head, s.i}];
        before.resize(s.rows);
        for (std::int64_t r = 0; r < s.rows; ++r) {
          const bool now = holds(*stop.condition, row_of(s, r, schedule.shape().dv));
          match |= now && !before[r];
          before[r] = now;
        }
        break;
      }
    }
    if (match) at.push_back(K);
  }
  return at;
}

struct Case {
  std::shared_ptr<const Problem> problem;
  Recipe recipe;
};

std::vector<Case> cases() {
  Mask causal, window, keep;
  causal.causal = Causal::top_left;
  window.window = Window{9, 2};
  KeepMask bits = make_keep_mask(1, 41, 37);
  std::mt19937 random(3);
  for (std::int64_t r = 0; r < 41; ++r)
    for (std::int64_t c = 0; c < 37; ++c)
      if (r % 13 != 5 && random() % 4 == 0 && (c / 8 + r / 16) % 3 != 0) set_keep(bits, 0, r, c);
  keep.keep = std::make_shared<const KeepMask>(std::move(bits));
  std::vector<Case> list;
  int n = 0;
  for (const Mask& mask : {Mask{}, causal, window, keep})
    for (const Algorithm algorithm : {Algorithm::flash1, Algorithm::flash2, Algorithm::standard})
      for (const bool broken : {false, true}) {
        Recipe recipe;
        recipe.algorithm = algorithm, recipe.Br = 16, recipe.Bc = 8;
        recipe.order = ++n % 2 ? Order::forward : Order::reverse;
        recipe.skip = static_cast<Skip>(n % 3);
        recipe.guard = broken ? Guard::none : static_cast<Guard>(n % 2);
        const DType type = n % 4 == 1 ? DType::float64 : DType::float32;
        auto problem = random_problem({2, 1, 41, 37, 4, 3, type}, 5 + n, {}, mask);
        if (broken) {
          Tensor K = *problem->k, V = *problem->v;
          set(K, 0, 20, 1, std::nan(""));
          set(V, 0, 11, 0, n % 2 ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity());
          problem = make_problem("broken", *problem->q, std::move(K), std::move(V), {}, mask);
        }
        list.push_back({problem, recipe});
      }
  return list;
}

TEST(Search, forward_and_backward_meet_the_matching_states_and_no_others) {
  const char* texts[] = {"nan",
                         "inf",
                         "rescale",
                         "rescale:3",
                         "max",
                         "masked",
                         "partial",
                         "empty",
                         "row:20",
                         "tile:1,2",
                         "tile:1,2,max",
                         "m > 1",
                         "m > m_old + 0.5",
                         "alpha < 0.3",
                         "l > 6 and row != 3",
                         "isnan(O)",
                         "abs(O[1]) > 1.5",
                         "max(S) > 2",
                         "S[3] > 1 and P[3] > 0.5",
                         "any(P == 1 and key > 10)",
                         "row_sum < 2",
                         "l_old == 0",
                         "LSE < 3",
                         "row == 17 and j == 2",
                         "key == 9",
                         "m > 0.5 and j == 1",
                         "m == -inf",
                         "head == 1 and r == 0"};
  std::map<std::string, std::size_t> met;
  for (const Case& c : cases()) {
    Trace trace(c.problem, c.recipe);
    const std::int64_t steps = trace.schedule().steps();
    for (const char* text : texts) {
      const Stop stop[] = {parse_stop(text)};
      const std::vector<std::int64_t> expected = matches(trace, stop[0]);
      met[text] += expected.size();
      for (const int threads : {1, 3}) {
        SearchOptions options;
        options.threads = threads;
        std::vector<std::int64_t> forward, backward;
        for (auto f = search(c.problem, c.recipe, stop, 0, true, options); f;
             f = search(c.problem, c.recipe, stop, f->K, true, options))
          forward.push_back(f->K);
        for (auto f = search(c.problem, c.recipe, stop, steps + 1, false, options); f;
             f = search(c.problem, c.recipe, stop, f->K, false, options))
          backward.push_back(f->K);
        std::reverse(backward.begin(), backward.end());
        const std::string what = std::string(text) + " in " + testing::text(c.recipe) + ", " + c.problem->name;
        EXPECT_EQ(forward, expected) << what << " forward";
        EXPECT_EQ(backward, expected) << what << " backward";
        if (threads == 1 && expected.size() > 8) break;  // long lists once
      }
    }
  }
  for (const char* text : texts) EXPECT_GT(met[text], 0u) << text << " is never met";
}

TEST(Search, several_stops_meet_the_nearest_of_any_and_name_it) {
  const Case c = cases()[3];
  Trace trace(c.problem, c.recipe);
  const std::vector<Stop> stops = {parse_stop("rescale:3"), parse_stop("partial"), parse_stop("alpha < 0.3"),
                                   parse_stop("nan")};
  std::map<std::int64_t, std::size_t> expected;
  for (std::size_t n = stops.size(); n-- > 0;)
    for (const std::int64_t K : matches(trace, stops[n])) expected[K] = n;
  std::map<std::int64_t, std::size_t> forward, backward;
  for (auto f = search(c.problem, c.recipe, stops, 0, true); f; f = search(c.problem, c.recipe, stops, f->K, true))
    forward[f->K] = f->stop;
  for (auto f = search(c.problem, c.recipe, stops, trace.schedule().steps() + 1, false); f;
       f = search(c.problem, c.recipe, stops, f->K, false))
    backward[f->K] = f->stop;
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(forward, expected);
  EXPECT_EQ(backward, expected);
}

TEST(Search, what_is_found_says_the_row_that_it_is_about) {
  for (const Case& c : cases()) {
    for (const char* text : {"alpha < 0.3", "rescale:3", "m > 1"}) {
      const Stop stop[] = {parse_stop(text)};
      const auto found = search(c.problem, c.recipe, stop, 0, true);
      if (!found) continue;
      Trace trace(c.problem, c.recipe);
      const TraceState state = trace.seek(found->K);
      ASSERT_GE(found->row, state.row0);
      ASSERT_LT(found->row, state.row0 + state.rows);
      EXPECT_EQ(found->head, state.head);
      EXPECT_EQ(found->j, state.j);
      const auto r = static_cast<std::size_t>(found->row - state.row0);
      if (text[0] == 'm')
        EXPECT_GT(state.m[r], 1);
      else
        EXPECT_LT(state.alpha[r], 0.34);
    }
  }
}

// The nearest one also where many threads look into row blocks of very different lengths.
TEST(Search, a_planted_nan_far_away_is_found_from_either_side_on_many_threads) {
  Mask causal;
  causal.causal = Causal::top_left;
  const auto sound = random_problem({1, 1, 2048, 2048, 8, 8, DType::float32}, 9, {}, causal);
  Tensor K = *sound->k;
  set(K, 0, 1777, 3, std::nan(""));
  const auto problem = make_problem("planted", *sound->q, std::move(K), *sound->v, {}, causal);
  for (const Algorithm algorithm : {Algorithm::flash1, Algorithm::flash2}) {
    Recipe recipe;
    recipe.algorithm = algorithm, recipe.Br = 32, recipe.Bc = 32;
    const Stop stop[] = {parse_stop("nan")};
    SearchOptions options;
    options.threads = 8;
    const auto first = search(problem, recipe, stop, 0, true, options);
    ASSERT_TRUE(first);
    EXPECT_EQ(first->row, 1777);
    EXPECT_EQ(first->i, 1777 / 32);
    EXPECT_EQ(first->j, 1777 / 32);
    Trace trace(problem, recipe);
    const auto last = search(problem, recipe, stop, trace.schedule().steps() + 1, false, options);
    ASSERT_TRUE(last);
    EXPECT_EQ(last->i, 2047 / 32);
    EXPECT_TRUE(has_event(trace.seek(last->K), EventKind::nan));
  }
}

TEST(Search, can_be_cancelled_and_reports_its_progress) {
  const auto problem = random_problem({1, 1, 1024, 1024, 16, 16, DType::float32}, 2);
  Recipe recipe;
  recipe.Br = recipe.Bc = 16;
  std::stop_source source;
  SearchOptions options;
  options.stop = source.get_token();
  options.threads = 2;
  std::int64_t reported = 0, all = 0;
  options.progress = [&](std::int64_t done, std::int64_t total) {
    EXPECT_LE(done, total);
    EXPECT_GE(done, reported);
    reported = done, all = total;
  };
  const Stop stop[] = {parse_stop("nan")};
  EXPECT_FALSE(search(problem, recipe, stop, 0, true, options));
  EXPECT_GT(all, 0);
  EXPECT_EQ(reported, all);  // however fast it was
  source.request_stop();
  EXPECT_THROW(search(problem, recipe, stop, 0, true, options), Cancelled);
}

TEST(Search, a_stop_s_text_gives_the_stop_again) {
  for (const char* text : {"nan", "inf", "rescale", "rescale:10", "rescale:2.5", "max", "masked", "partial", "empty",
                           "row:71", "tile:3,0", "tile:3,0,accumulate", "alpha < 0.1 and row == 3"}) {
    EXPECT_EQ(text_of(parse_stop(text)), text);
    EXPECT_FALSE(describe(parse_stop(text)).empty());
  }
  const std::pair<const char*, std::size_t> wrong[] = {{"", 0},         {"rescale:", 8},     {"rescale:0.5", 8},
                                                       {"row:-1", 4},   {"row:7x", 5},       {"tile:3", 6},
                                                       {"tile:a,0", 5}, {"tile:1,2,mix", 9}, {"nans", 0}};
  for (const auto& [text, at] : wrong) {
    try {
      parse_stop(text);
      ADD_FAILURE() << text;
    } catch (const ConditionError& error) {
      EXPECT_EQ(error.at(), at) << text << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace flashscope
