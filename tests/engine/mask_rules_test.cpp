// Masks by rule, alone and combined at random with all others, against plain loops that share nothing with the engine.
#include "engine/attention/mask_rules.h"

#include <fmt/format.h>

#include <random>

#include "engine/attention/ledger.h"
#include "engine/attention/reference.h"
#include "engine/attention/trace.h"
#include "engine/error.h"
#include "support.h"

namespace flashscope::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// ---- the definitions, cell by cell
bool sees(const Problem& p, std::int64_t h, std::int64_t r, std::int64_t c) {
  const Mask& mask = p.mask;
  const MaskRules& rules = mask.rules;
  const std::int64_t shift = mask.causal == Causal::bottom_right ? p.K().rows - p.Q().rows : 0;
  if (mask.causal != Causal::none && c > r + shift && !(rules.prefix && c < *rules.prefix)) return false;
  if (mask.window && (c < r + shift - mask.window->left || c > r + shift + mask.window->right)) return false;
  if (!rules.lengths.empty() && c >= rules.lengths[rules.lengths.size() == 1 ? 0 : static_cast<std::size_t>(h)])
    return false;
  if (rules.documents && rules.documents->rows[r] != rules.documents->keys[c]) return false;
  if (mask.keep && !mask.keep->keep(h, r, c)) return false;
  return !mask.bias || mask.bias->at(h, r, c) != -kInf;
}
double score(const Problem& p, std::int64_t h, std::int64_t r, std::int64_t c) {
  const MaskRules& rules = p.mask.rules;
  double s = 0;
  for (std::int64_t e = 0; e < p.Q().cols; ++e) s += p.Q().at(h, r, e) * p.K().at(p.shape().kv_head(h), c, e);
  s *= p.scale;
  if (rules.softcap != 0) s = rules.softcap * std::tanh(s / rules.softcap);
  if (p.mask.bias) s += p.mask.bias->at(h, r, c);
  const std::int64_t shift = p.mask.causal == Causal::bottom_right ? p.K().rows - p.Q().rows : 0;
  if (!rules.alibi.empty())
    s -= rules.alibi[rules.alibi.size() == 1 ? 0 : static_cast<std::size_t>(h)] *
         static_cast<double>(std::abs(r + shift - c));
  return s;
}
struct Row {
  std::vector<double> O;
  double LSE = -kInf;
};
Row attention(const Problem& p, std::int64_t h, std::int64_t r) {
  Row row;
  row.O.assign(p.V().cols, 0);
  double top = -kInf, sum = 0;
  for (std::int64_t c = 0; c < p.K().rows; ++c)
    if (sees(p, h, r, c)) top = std::max(top, score(p, h, r, c));
  if (top == -kInf) return row;
  for (std::int64_t c = 0; c < p.K().rows; ++c) {
    if (!sees(p, h, r, c)) continue;
    const double w = std::exp(score(p, h, r, c) - top);
    sum += w;
    for (std::int64_t e = 0; e < p.V().cols; ++e) row.O[e] += w * p.V().at(p.shape().kv_head(h), c, e);
  }
  for (double& o : row.O) o /= sum;
  row.LSE = top + std::log(sum);
  return row;
}

class Random {
 public:
  explicit Random(unsigned seed) : random_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }

  std::shared_ptr<const Problem> problem(DType type) {
    const Shape shape{2, 1 + below(2), 1 + below(40), 1 + below(40), 1 + below(8), 1 + below(5), type};
    Mask mask;
    MaskRules& rules = mask.rules;
    if (below(2)) mask.causal = below(2) ? Causal::top_left : Causal::bottom_right;
    if (below(3) == 0) mask.window = Window{below(12), below(12)};
    if (below(2)) {
      rules.lengths.push_back(below(shape.Nk + 1));
      if (below(2)) rules.lengths.push_back(below(shape.Nk + 1));
    }
    if (below(2)) {
      const bool scattered = below(2) == 0;
      std::vector<std::int64_t> rows, keys;
      for (std::int64_t r = 0; r < shape.Nq; ++r) rows.push_back(scattered ? below(3) : r / 7);
      for (std::int64_t c = 0; c < shape.Nk; ++c) keys.push_back(scattered ? below(3) : c / 9);
      rules.documents = std::make_shared<const Documents>(make_documents(rows, keys));
      EXPECT_TRUE(scattered || rules.documents->runs());
    }
    if (below(3) == 0) rules.prefix = below(shape.Nk + 1);
    if (below(3) == 0) rules.alibi = below(2) ? std::vector{0.25} : std::vector{0.5, 0.125};
    if (below(3) == 0) rules.softcap = 0.5 + static_cast<double>(below(4));
    if (below(3) == 0) {
      KeepMask keep = make_keep_mask(1 + below(2), below(2) ? 1 : shape.Nq, shape.Nk);
      for (std::int64_t h = 0; h < keep.heads; ++h)
        for (std::int64_t r = 0; r < keep.rows; ++r)
          for (std::int64_t c = 0; c < shape.Nk; ++c)
            if (below(4)) set_keep(keep, h, r, c);
      mask.keep = std::make_shared<const KeepMask>(std::move(keep));
    }
    if (below(4) == 0) {
      Bias bias;
      bias.rows = shape.Nq, bias.cols = shape.Nk;
      for (std::int64_t n = 0; n < shape.Nq * shape.Nk; ++n)
        bias.f32.push_back(below(6) ? static_cast<float>(below(5)) / 4 : static_cast<float>(-kInf));
      mask.bias = std::make_shared<const Bias>(std::move(bias));
    }
    return random_problem(shape, random_(), {}, std::move(mask));
  }
  Recipe recipe() {
    Recipe recipe;
    recipe.algorithm = static_cast<Algorithm>(below(3));
    recipe.Br = 1 + below(17), recipe.Bc = 1 + below(17);
    recipe.order = static_cast<Order>(below(2));
    recipe.skip = static_cast<Skip>(below(3));
    recipe.guard = below(2) ? Guard::clamp : Guard::skip;
    if (recipe.algorithm != Algorithm::standard) recipe.normalise = static_cast<Normalise>(below(2));
    return recipe;
  }

 private:
  std::mt19937 random_;
};

std::string describe(const Problem& p, const Recipe& recipe) {
  return text(recipe) + "; " + conventions(recipe, p.mask) + fmt::format("; {} x {}", p.shape().Nq, p.shape().Nk);
}

TEST(MaskRules, random_combinations_give_the_right_answer) {
  Random random(11);
  for (int n = 0; n < 400; ++n) {
    const DType type = n % 2 ? DType::float32 : DType::float64;
    const auto problem = random.problem(type);
    const Recipe recipe = random.recipe();
    const Shape shape = problem->shape();
    const std::string what = describe(*problem, recipe);
    const double tolerance = type == DType::float64 ? 1e-12 : 1e-5;
    const Report report = run(*problem, recipe);
    std::vector<double> reference(shape.Nq * shape.dv), lse(shape.Nq), plain(shape.Nq * shape.dv);
    for (std::int64_t h = 0; h < 2; ++h) {
      reference_rows(*problem, h, 0, shape.Nq, {}, reference.data(), lse.data());
      plain_rows(*problem, h, 0, shape.Nq, {}, plain.data());
      for (std::int64_t r = 0; r < shape.Nq; ++r) {
        const Row right = attention(*problem, h, r);
        const auto of = [&](const auto& all, std::int64_t first) {
          return std::span<const double>(all).subspan(static_cast<std::size_t>(first * shape.dv), right.O.size());
        };
        expect_all_near(of(report.O, h * shape.Nq + r), right.O, tolerance, what + " run");
        expect_near(report.LSE[h * shape.Nq + r], right.LSE, 10 * tolerance, what + " LSE");
        expect_all_near(of(reference, r), right.O, 1e-12, what + " reference");
        expect_near(lse[r], right.LSE, 1e-12, what + " reference LSE");
        expect_all_near(of(plain, r), right.O, tolerance, what + " plain");
        expect_all_near(reference_row(*problem, h, r).O, right.O, 1e-12, what + " one row");
      }
    }
    if (HasFailure()) return;
  }
}

TEST(MaskRules, visibility_tiles_and_count_follow_the_definitions) {
  Random random(12);
  for (int n = 0; n < 250; ++n) {
    const auto problem = random.problem(DType::float32);
    const Recipe recipe = random.recipe();
    const Shape shape = problem->shape();
    const Mask& mask = problem->mask;
    const std::string what = describe(*problem, recipe);
    const Schedule schedule(shape, mask, recipe);
    const Band limits = band(mask, shape.Nq, shape.Nk);
    const Mask plain = lowered(mask, shape.heads, shape.Nq, shape.Nk);
    EXPECT_TRUE(plain.rules.lengths.empty() && !plain.rules.documents && !plain.rules.prefix &&
                plain.rules.alibi.empty());
    const Band plain_limits = band(plain, shape.Nq, shape.Nk);
    Problem geometry = *problem;
    geometry.mask.keep = nullptr, geometry.mask.bias = nullptr, geometry.mask.rules = {};
    if (mask.rules.prefix) geometry.mask.causal = Causal::none;
    const std::int64_t shift = mask.causal == Causal::bottom_right ? shape.Nk - shape.Nq : 0;
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t r = 0; r < shape.Nq; ++r) {
        std::int64_t count = 0;
        for (std::int64_t c = 0; c < shape.Nk; ++c) {
          const bool seen = sees(*problem, h, r, c);
          count += seen;
          ASSERT_EQ(visible(mask, limits, h, r, c), seen) << what;
          ASSERT_EQ(visible(plain, plain_limits, h, r, c), seen) << what << " lowered";
          if (seen) {
            ASSERT_NEAR(added(plain, plain_limits, h, r, c), added(mask, limits, h, r, c), 1e-5) << what;
          }
        }
        ASSERT_EQ(visible_keys(mask, shape.Nq, shape.Nk, h, r), count) << what;
        const std::int64_t first = random.below(shape.Nk), last = first + random.below(shape.Nk - first + 1);
        std::int64_t inside = 0;
        for (std::int64_t c = first; c < last; ++c) inside += sees(*problem, h, r, c);
        ASSERT_EQ(any_visible(mask, limits, h, r, first, last), inside > 0) << what;
        ASSERT_EQ(all_visible(mask, limits, h, r, first, last), inside == last - first) << what;
      }
      for (std::int64_t i = 0; i < schedule.Tr(); ++i)
        for (std::int64_t j = 0; j < schedule.Tc(); ++j) {
          std::int64_t seen = 0, cells = 0, by_geometry = 0;
          for (std::int64_t r = i * recipe.Br; r < std::min(shape.Nq, (i + 1) * recipe.Br); ++r)
            for (std::int64_t c = j * recipe.Bc; c < std::min(shape.Nk, (j + 1) * recipe.Bc); ++c) {
              seen += sees(*problem, h, r, c), ++cells;
              // With bottom-right and a prefix the window keeps its shift.
              bool inside = sees(geometry, h, r, c);
              if (mask.rules.prefix && mask.window)
                inside = c >= r + shift - mask.window->left && c <= r + shift + mask.window->right;
              by_geometry += inside;
            }
          const TileClass is = schedule.tile_class(h, i, j);
          ASSERT_EQ(is, seen == cells ? TileClass::full : seen > 0 ? TileClass::partial : TileClass::empty) << what;
          if (recipe.algorithm == Algorithm::standard) continue;
          const bool visited = recipe.skip == Skip::none || (recipe.skip == Skip::all ? seen : by_geometry) > 0;
          ASSERT_EQ(schedule.visited(h, i, j), visited) << what << " tile " << i << ", " << j;
        }
    }
    if (const Formula closed = formula(schedule); closed.elements) {
      EXPECT_EQ(closed.elements->total(), counted(schedule).elements.total().total()) << what;
    }
    if (HasFailure()) return;
  }
}

// The state of a step is the same whether it is stepped to or sought, and the run ends where the steps do.
TEST(MaskRules, steps_end_where_the_run_does) {
  Random random(13);
  for (int n = 0; n < 40; ++n) {
    const auto problem = random.problem(DType::float32);
    Recipe recipe = random.recipe();
    if (recipe.algorithm == Algorithm::standard) recipe.algorithm = Algorithm::flash2;
    Trace trace(problem, recipe);
    const Report report = run(*problem, recipe);
    for (std::int64_t i = 0; i < trace.schedule().Tr(); ++i) {
      const TraceState state = trace.seek(*trace.schedule().find(1, i, -1, Stage::finish) + 1);
      for (std::int64_t r = 0; r < state.rows; ++r)
        for (std::int64_t e = 0; e < state.O.cols; ++e)
          ASSERT_EQ(state.O.at(r, e), report.O[((problem->shape().Nq + state.row0 + r) * state.O.cols) + e])
              << describe(*problem, recipe);
    }
  }
}

TEST(MaskRules, wrong_ones_are_refused) {
  const auto make = [](const std::function<void(MaskRules&)>& change) {
    Mask mask;
    change(mask.rules);
    return random_problem(Shape{2, 2, 4, 6, 2, 2, DType::float32}, 1, {}, mask);
  };
  EXPECT_NO_THROW(make([](MaskRules& rules) { rules.lengths = {6, 0}; }));
  EXPECT_THROW(make([](MaskRules& rules) { rules.lengths = {7}; }), InputError);
  EXPECT_THROW(make([](MaskRules& rules) { rules.lengths = {1, 2, 3}; }), InputError);
  EXPECT_THROW(make([](MaskRules& rules) { rules.prefix = 7; }), InputError);
  EXPECT_THROW(make([](MaskRules& rules) { rules.alibi = {kInf}; }), InputError);
  EXPECT_THROW(make([](MaskRules& rules) { rules.softcap = -1; }), InputError);
  EXPECT_THROW(make([](MaskRules& rules) {
                 rules.documents = std::make_shared<const Documents>(make_documents({1}, {1, 1, 1, 1, 1, 1}));
               }),
               InputError);
}

TEST(MaskRules, published_alibi_slopes) {
  const auto eight = alibi_slopes(8);
  for (int h = 0; h < 8; ++h) EXPECT_DOUBLE_EQ(eight[h], std::exp2(-(h + 1)));
  // Twelve heads: those of eight, then every second of sixteen.
  const auto twelve = alibi_slopes(12);
  ASSERT_EQ(twelve.size(), 12u);
  EXPECT_DOUBLE_EQ(twelve[7], std::exp2(-8));
  EXPECT_DOUBLE_EQ(twelve[8], std::exp2(-0.5));
  EXPECT_DOUBLE_EQ(twelve[11], std::exp2(-3.5));
}

}  // namespace
}  // namespace flashscope::testing
