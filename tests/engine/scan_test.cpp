// The scan against the states of the trace, and its list of events against a walk through all of them.
#include "engine/attention/scan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/attention/cpu_runner.h"

namespace flashscope {
namespace {

struct Case {
  std::shared_ptr<const Problem> problem;
  Recipe recipe;
};

std::vector<Case> cases() {
  std::vector<Case> list;
  Mask causal, window;
  causal.causal = Causal::bottom_right;
  window.window = Window{9, 2};
  for (const Mask& mask : {Mask{}, causal, window})
    for (Algorithm algorithm : {Algorithm::flash1, Algorithm::flash2, Algorithm::standard})
      for (Order order : {Order::forward, Order::reverse}) {
        Recipe recipe;
        recipe.algorithm = algorithm, recipe.order = order, recipe.Br = 16, recipe.Bc = 11, recipe.guard = Guard::none;
        list.push_back({random_problem({2, 1, 70, 61, 8, 5, DType::float32}, 11, {}, mask), recipe});
      }
  return list;
}

std::vector<Event> all_events(Trace& trace) {
  std::vector<Event> events;
  for (std::int64_t K = 0; K <= trace.schedule().steps(); ++K)
    for (const Event& event : trace.seek(K).events) events.push_back(event);
  return events;
}

TEST(Scan, counts_and_lists_every_event_of_the_states) {
  for (const Case& c : cases()) {
    Trace trace(c.problem, c.recipe);
    const auto expected = all_events(trace);
    Scan scan(c.problem, c.recipe, trace.schedule().steps() / 2);
    scan.wait();
    ASSERT_TRUE(scan.complete());
    const ScanTotals totals = scan.totals();
    for (const auto& [kind, count] : {std::pair{EventKind::rescale, totals.rescale},
                                      {EventKind::first_max, totals.first_max},
                                      {EventKind::nan, totals.nan},
                                      {EventKind::inf, totals.inf}}) {
      std::vector<Event> of_kind;
      for (const Event& event : expected)
        if (event.kind == kind) of_kind.push_back(event);
      EXPECT_EQ(count, static_cast<std::int64_t>(of_kind.size())) << name(kind) << " " << name(c.recipe.algorithm);
      const unsigned bit = 1u << static_cast<unsigned>(kind);
      ASSERT_EQ(scan.event_count(bit), static_cast<std::int64_t>(of_kind.size()));
      // A page in the middle, and the whole.
      const auto listed = scan.events(bit, 0, scan.event_count(bit));
      ASSERT_EQ(listed.size(), of_kind.size());
      for (std::size_t n = 0; n < listed.size(); ++n) {
        EXPECT_EQ(listed[n].step, of_kind[n].step) << name(kind) << " " << n;
        EXPECT_EQ(listed[n].row, of_kind[n].row);
      }
      const auto page = scan.events(bit, count / 2, 3);
      for (std::size_t n = 0; n < page.size(); ++n) EXPECT_EQ(page[n].step, of_kind[count / 2 + n].step);
    }
  }
}

TEST(Scan, the_weight_on_the_tiles_of_a_row_block_sums_to_one) {
  for (const Case& c : cases()) {
    Case guarded = c;
    guarded.recipe.guard = Guard::clamp;
    Scan scan(guarded.problem, guarded.recipe, 0);
    scan.wait();
    const Schedule schedule(guarded.problem->shape(), guarded.problem->mask, guarded.recipe);
    for (std::int64_t h = 0; h < 2; ++h) {
      const auto map = scan.map(h);
      ASSERT_EQ(map->rows, schedule.Tr());
      const auto empty = empty_rows(guarded.problem->mask, 70, 61, h);
      for (std::int64_t i = 0; i < map->rows; ++i) {
        double mass = 0;
        for (std::int64_t j = 0; j < map->cols; ++j) mass += map->cells[i * map->cols + j].softmax_mass;
        std::int64_t rows_with_keys = 0;
        for (std::int64_t r = i * 16; r < i * 16 + schedule.rows(i); ++r)
          rows_with_keys += !std::binary_search(empty.begin(), empty.end(), r);
        EXPECT_LE(std::abs(mass - static_cast<double>(rows_with_keys) / static_cast<double>(schedule.rows(i))), 1e-4)
            << name(c.recipe.algorithm) << " row block " << i;
        EXPECT_EQ(map->row_block_done[i], 1);
      }
    }
  }
}

TEST(Scan, the_output_s_rows_have_the_norms_of_the_run) {
  for (const Case& c : cases()) {
    Scan scan(c.problem, c.recipe, 0);
    scan.wait();
    const Report report = run_on_cpu(*c.problem, c.recipe);
    for (std::int64_t h = 0; h < 2; ++h) {
      const auto norms = scan.o_row_norm(h);
      for (std::int64_t r = 0; r < 70; ++r) {
        double squares = 0;
        for (std::int64_t e = 0; e < 5; ++e) squares += std::pow(report.O[(h * 70 + r) * 5 + e], 2);
        if (std::isnan(squares))
          EXPECT_TRUE(std::isnan(norms[r]));
        else
          EXPECT_LE(std::abs(norms[r] - std::sqrt(squares)), 1e-5);
      }
    }
  }
}

TEST(Scan, a_strip_covers_the_run) {
  for (const Case& c : cases()) {
    Scan scan(c.problem, c.recipe, 0);
    scan.wait();
    const ScanStrip strip = scan.strip(1, 100);
    ASSERT_EQ(strip.bins.size(), 100u);
    bool any = false;
    for (const auto& bin : strip.bins) {
      EXPECT_EQ(bin.reached, 1);
      EXPECT_LE(bin.rescaled, 1);
      any = any || bin.rescaled > 0;
    }
    EXPECT_EQ(any, c.recipe.algorithm != Algorithm::standard && scan.totals().rescale > 0);
  }
}

TEST(Scan, a_strip_is_of_its_head_alone) {
  // Head 0 visits one column block, head 1 all; only what head 1 reads holds a NaN.
  const auto random = random_problem({2, 2, 40, 60, 4, 4, DType::float32}, 5);
  Tensor V = *random->v;
  V.f32[V.rows * V.cols] = std::nanf("");
  auto keep = std::make_shared<KeepMask>(make_keep_mask(2, 40, 60));
  for (std::int64_t r = 0; r < 40; ++r)
    for (std::int64_t c = 0; c < 60; ++c) {
      if (c < 10) set_keep(*keep, 0, r, c);
      set_keep(*keep, 1, r, c);
    }
  Mask mask;
  mask.keep = keep;
  const auto problem = make_problem("two heads", *random->q, *random->k, std::move(V), {}, mask);
  for (Algorithm algorithm : {Algorithm::flash1, Algorithm::flash2}) {
    Recipe recipe;
    recipe.algorithm = algorithm, recipe.skip = Skip::all, recipe.Br = 8, recipe.Bc = 10;
    Scan scan(problem, recipe, 0);
    scan.wait();
    for (std::int64_t head = 0; head < 2; ++head) {
      bool nan = false;
      for (const auto& bin : scan.strip(head, 50).bins) {
        EXPECT_EQ(bin.reached, 1) << name(algorithm) << " head " << head;
        nan = nan || bin.nan;
      }
      EXPECT_EQ(nan, head == 1) << name(algorithm);
    }
  }
}

TEST(Scan, flash1_pages_do_not_overlap_when_masked_is_asked_for) {
  const auto problem = cases()[0].problem;
  Mask causal;
  causal.causal = Causal::top_left;
  Recipe recipe;
  recipe.algorithm = Algorithm::flash1, recipe.skip = Skip::none, recipe.Br = 16, recipe.Bc = 11;
  Scan scan(with_mask(problem, causal), recipe, 0);
  scan.wait();
  const std::int64_t count = scan.event_count(~0u);
  EXPECT_EQ(static_cast<std::int64_t>(scan.events(~0u, 0, count).size()), count);
  std::vector<Event> paged;
  for (std::int64_t first = 0; first < count; first += 7)
    for (const Event& event : scan.events(~0u, first, 7)) paged.push_back(event);
  EXPECT_EQ(paged, scan.events(~0u, 0, count));
}

TEST(Scan, can_be_cancelled_at_once) {
  Recipe recipe;
  const auto problem = random_problem({1, 1, 65536, 65536, 8, 8, DType::float32}, 1);
  Scan scan(problem, recipe, 0);
  EXPECT_FALSE(scan.complete());
}  // ~Scan cancels and joins; the test would take minutes otherwise

}  // namespace
}  // namespace flashscope
