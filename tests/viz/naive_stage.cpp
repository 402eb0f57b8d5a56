#include "tests/viz/naive_stage.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace flashscope::viz::test {
namespace {

// State K of head 0. Only the row block on the chip is computed, from its own visited tiles.
TraceState naive_state(const Run& run, std::int64_t K) {
  const Schedule& schedule = *run.schedule;
  const Problem& problem = *run.problem;
  const Shape shape = problem.shape();
  const double inf = std::numeric_limits<double>::infinity();
  TraceState s;
  s.K = K, s.steps = schedule.steps();
  if (K == 0) return s;
  s.step = schedule.step(K - 1);
  s.head = s.step->head, s.i = s.step->i, s.j = s.step->j;
  const bool standard = schedule.recipe().algorithm == Algorithm::standard;
  const flashscope::Stage stage = s.step->stage;
  using enum flashscope::Stage;
  if (s.i >= 0) s.row0 = s.i * schedule.recipe().Br, s.rows = schedule.rows(s.i);
  if (s.j >= 0) s.col0 = s.j * schedule.recipe().Bc, s.cols = schedule.cols(s.j);
  if (standard) s.cols = shape.Nk;
  const auto copy = [&](const Tensor& t, std::int64_t head, std::int64_t row0, std::int64_t rows) {
    Matrix m{rows, t.cols, {}};
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < t.cols; ++c) m.values.push_back(t.at(head, row0 + r, c));
    return m;
  };
  const std::int64_t kv = shape.kv_head(s.head);
  const Band limits = band(problem.mask, shape.Nq, shape.Nk);
  if (s.cols > 0 && stage != load_q) s.K_tile = copy(problem.K(), kv, s.col0, s.cols);
  if (s.i < 0) {
    s.V = copy(problem.V(), kv, s.col0, s.cols);
    return s;
  }
  s.Q = copy(problem.Q(), s.head, s.row0, s.rows);
  s.visits = schedule.visits(s.head, s.i);
  s.m.assign(s.rows, -inf), s.l.assign(s.rows, 0.0);
  s.O = {s.rows, shape.dv, std::vector<double>(s.rows * shape.dv, 0.0)};
  const auto position = [&] {
    const auto& stages = schedule.tile_stages();
    return std::find(stages.begin(), stages.end(), stage) - stages.begin();
  };
  const auto reached = [&](flashscope::Stage other) {
    const auto& stages = schedule.tile_stages();
    return position() >= std::find(stages.begin(), stages.end(), other) - stages.begin();
  };
  const bool after = stage == finish || stage == store;
  const std::int64_t last = after ? s.visits : s.j >= 0 ? schedule.visit_index(s.head, s.i, s.j) : standard ? 1 : 0;
  s.folded = after ? s.visits : last;
  for (std::int64_t n = 0; n <= last && n < std::max<std::int64_t>(s.visits, 1); ++n) {
    const bool now = n == last && !standard;
    if (now && (stage == load_q || after)) break;
    const std::int64_t j = standard ? 0 : schedule.visit_j(s.head, s.i, n);
    const std::int64_t col0 = standard ? 0 : j * schedule.recipe().Bc, cols = standard ? shape.Nk : schedule.cols(j);
    Matrix S{s.rows, cols, std::vector<double>(s.rows * cols)}, P = S;
    std::vector<std::uint8_t> seen(s.rows * cols);
    for (std::int64_t r = 0; r < s.rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) {
        double dot = 0;
        for (std::int64_t k = 0; k < shape.d; ++k)
          dot += problem.Q().at(s.head, s.row0 + r, k) * problem.K().at(kv, col0 + c, k);
        const bool see = visible(problem.mask, limits, s.head, s.row0 + r, col0 + c);
        seen[r * cols + c] = see;
        S.values[r * cols + c] = see || (now && !reached(mask)) || stage == scores ? problem.scale * dot : -inf;
      }
    const auto class_now = standard ? TileClass::partial : schedule.tile_class(s.head, s.i, j);
    if ((now || standard) && class_now != TileClass::full) s.visible = seen, s.tile_class = class_now;
    if (now && !reached(scores)) break;
    if (now || standard) s.S = S;
    if (now && !reached(max)) break;
    const auto m_old = s.m, l_old = s.l;
    for (std::int64_t r = 0; r < s.rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) s.m[r] = std::fmax(s.m[r], S.at(r, c));
    s.m_old = m_old, s.l_old = l_old;
    s.rescaled.assign(s.rows, 0);
    for (std::int64_t r = 0; r < s.rows; ++r) s.rescaled[r] = s.m[r] > m_old[r] && std::isfinite(m_old[r]);
    if (now && !reached(exponentials)) break;
    std::vector<double> sums(s.rows), alpha(s.rows);
    for (std::int64_t r = 0; r < s.rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) sums[r] += P.values[r * cols + c] = std::exp(S.at(r, c) - s.m[r]);
      alpha[r] = std::exp(m_old[r] - s.m[r]);
    }
    if (now || standard) s.P = P;
    if (now) s.S = {};
    if (now && !reached(rescale)) break;
    for (std::int64_t r = 0; r < s.rows; ++r) {
      s.l[r] *= alpha[r];
      for (std::int64_t c = 0; c < shape.dv; ++c) s.O.values[r * shape.dv + c] *= alpha[r];
    }
    if (!standard) s.alpha = alpha, s.o_factor = alpha;
    const Matrix V = copy(problem.V(), kv, col0, cols);
    if (now && (reached(load_v) || schedule.recipe().algorithm == Algorithm::flash1)) s.V = V;
    if (now && !reached(accumulate)) break;
    s.row_sum = sums;
    for (std::int64_t r = 0; r < s.rows; ++r) {
      s.l[r] += sums[r];
      for (std::int64_t c = 0; c < cols; ++c)
        for (std::int64_t k = 0; k < shape.dv; ++k) s.O.values[r * shape.dv + k] += P.at(r, c) * V.at(c, k);
    }
    if (now) s.folded = n + 1;
  }
  if (after) {
    s.finished = true;
    s.K_tile = {}, s.V = {}, s.S = {}, s.P = {}, s.alpha.clear(), s.rescaled.clear(), s.visible.clear();
    for (std::int64_t r = 0; r < s.rows; ++r) {
      s.LSE.push_back(s.m[r] + std::log(s.l[r]));
      for (std::int64_t c = 0; c < shape.dv; ++c) s.O.values[r * shape.dv + c] /= s.l[r];
    }
  }
  if (standard) {
    const bool pass1 = stage == load_q || stage == scores || stage == mask || stage == store_s;
    const bool pass2 = stage == load_s || stage == softmax || stage == store_p;
    if (pass1) s.P = {}, s.m.clear(), s.l.clear(), s.O = {};
    if (stage == load_q) s.S = {}, s.visible.clear();
    if (stage != load_q && pass1) s.V = {};
    if (pass2) s.Q = {}, s.K_tile = {}, s.O = {};
    if (stage == load_s) s.P = {}, s.m.clear(), s.l.clear();
    if (!pass1 && !pass2) {
      s.Q = {}, s.K_tile = {}, s.S = {}, s.V = copy(problem.V(), kv, 0, shape.Nk), s.m.clear(), s.l.clear();
      if (stage == load_p) s.O = {};
    }
    s.m_old.clear(), s.l_old.clear(), s.rescaled.clear(), s.row_sum.clear();
  }
  return s;
}

// What the ledger would list for the step, and figures of the right size.
void fill_traffic(StageData& data) {
  const Schedule& schedule = *data.schedule;
  const Shape& shape = schedule.shape();
  const TraceState& s = *data.state;
  const int element = size_of(shape.type);
  const auto move = [&](Operand operand, bool read, std::int64_t row0, std::int64_t rows, std::int64_t cols, int size) {
    data.transfers.push_back({operand, read, row0, rows, cols, 0, rows * cols, rows * cols * size});
  };
  using enum flashscope::Stage;
  if (s.step) switch (s.step->stage) {
      case load_q:
        move(Operand::Q, true, s.row0, s.rows, shape.d, element);
        if (schedule.recipe().algorithm == Algorithm::standard && s.i == 0)
          move(Operand::K, true, 0, shape.Nk, shape.d, element);
        break;
      case load_k:
        move(Operand::K, true, s.col0, s.cols, shape.d, element);
        break;
      case load_v:
        move(Operand::V, true, s.col0, s.cols, shape.dv, element);
        break;
      case load_kv:
        move(Operand::K, true, s.col0, s.cols, shape.d, element);
        move(Operand::V, true, s.col0, s.cols, shape.dv, element);
        break;
      case load_rows:
        move(Operand::Q, true, s.row0, s.rows, shape.d, element);
        move(Operand::O, true, s.row0, s.rows, shape.dv, 4);
        move(Operand::m, true, s.row0, s.rows, 1, 4);
        move(Operand::l, true, s.row0, s.rows, 1, 4);
        break;
      case store_rows:
        move(Operand::O, false, s.row0, s.rows, shape.dv, 4);
        move(Operand::m, false, s.row0, s.rows, 1, 4);
        move(Operand::l, false, s.row0, s.rows, 1, 4);
        break;
      case store:
        move(Operand::O, false, s.row0, s.rows, shape.dv, element);
        move(Operand::LSE, false, s.row0, s.rows, 1, 4);
        break;
      case store_s:
        move(Operand::S, false, s.row0, s.rows, shape.Nk, element);
        break;
      case load_s:
        move(Operand::S, true, s.row0, s.rows, shape.Nk, element);
        break;
      case store_p:
        move(Operand::P, false, s.row0, s.rows, shape.Nk, element);
        break;
      case load_p:
        move(Operand::P, true, s.row0, s.rows, shape.Nk, element);
        if (s.i == 0) move(Operand::V, true, 0, shape.Nk, shape.dv, element);
        break;
      case store_o:
        move(Operand::O, false, s.row0, s.rows, shape.dv, element);
        break;
      default:
        break;
    }
  const std::int64_t total = shape.Nq * (shape.d + shape.dv) * 4;
  data.traffic_total.elements[Operand::Q].read = total;
  data.traffic_total.bytes[Operand::Q].read = total * element;
  const std::int64_t so_far = total * s.K / std::max<std::int64_t>(s.steps, 1);
  data.traffic_so_far.elements[Operand::Q].read = so_far;
  data.traffic_so_far.bytes[Operand::Q].read = so_far * element;
  data.formula = {Moved{total, 0}, "a formula", ""};
  data.standard_elements_total = 4 * shape.Nq * shape.Nk + (shape.Nq + shape.Nk) * (shape.d + shape.dv);
  data.standard_elements_so_far = data.standard_elements_total * s.K / std::max<std::int64_t>(s.steps, 1);
  data.minimum.elements = {shape.Nk * (shape.d + shape.dv) + shape.Nq * shape.d, shape.Nq * shape.dv};
  data.saving = {data.standard_elements_total, 2 * total, total};
  const std::int64_t Br = std::min(schedule.recipe().Br, shape.Nq), Bc = std::min(schedule.recipe().Bc, shape.Nk);
  data.on_chip.qkv = (Br * shape.d + Bc * (shape.d + shape.dv)) * element, data.on_chip.state = Br * (3 + shape.dv) * 4;
  data.on_chip.scores = Br * Bc * 4;
  data.on_chip.buffers = {{"Q", Br * shape.d * element, false},
                          {"K", Bc * shape.d * element, false},
                          {"V", Bc * shape.dv * element, false},
                          {"S/P", Br * Bc * 4, true},
                          {"m", Br * 4, true},
                          {"l", Br * 4, true},
                          {"alpha", Br * 4, true},
                          {"O", Br * shape.dv * 4, true}};
  data.footprint.bytes = {shape.heads * shape.Nq * shape.d * element, shape.kv_heads * shape.Nk * shape.d * element,
                          shape.kv_heads * shape.Nk * shape.dv * element, shape.heads * shape.Nq * shape.dv * element};
}

}  // namespace

Run make_run(const Shape& shape, const Recipe& recipe, const Mask& mask, double scale) {
  Run run;
  run.problem = random_problem(shape, 7, scale > 0 ? std::optional(scale) : std::nullopt, mask);
  run.schedule = std::make_shared<Schedule>(shape, mask, recipe);
  return run;
}

void fill_scan(StageData& data, double share) {
  const Schedule& schedule = *data.schedule;
  const Shape& shape = schedule.shape();
  auto map = std::make_shared<ScanMap>();
  map->scale_i = (schedule.Tr() + 2047) / 2048, map->scale_j = (schedule.Tc() + 2047) / 2048;
  map->rows = (schedule.Tr() + map->scale_i - 1) / map->scale_i,
  map->cols = (schedule.Tc() + map->scale_j - 1) / map->scale_j;
  map->cells.resize(map->rows * map->cols);
  map->row_block_done.assign(map->rows, 0);
  map->min_score = 1, map->max_score = 5, map->max_rescaled = static_cast<float>(schedule.recipe().Br),
  map->max_mass = 1, map->max_nan = 9;
  for (std::int64_t i = 0; i < map->rows; ++i)
    for (std::int64_t j = 0; j < map->cols; ++j) {
      MapCell& cell = map->cells[i * map->cols + j];
      const bool known = static_cast<double>(i) < share * static_cast<double>(map->rows);
      map->row_block_done[i] = known;
      const double noise = 0.5 + 0.5 * std::sin(static_cast<double>(i * 37 + j * 101) * 0.7);
      cell.largest_score = known && schedule.visited(0, i * map->scale_i, j * map->scale_j)
                               ? static_cast<float>(1 + 4 * noise)
                               : std::nanf("");
      cell.rescaled_rows =
          static_cast<float>(noise * static_cast<double>(schedule.recipe().Br) / (1.0 + static_cast<double>(j)));
      cell.softmax_mass = static_cast<float>(noise / (1.0 + std::abs(static_cast<double>(i - j))));
      cell.nan_cells = (i * 7 + j) % 13 == 0 ? 9.f : 0.f;
    }
  data.map = map;
  auto strip = std::make_shared<ScanStrip>();
  const int bins = static_cast<int>(std::min<std::int64_t>(1200, std::max<std::int64_t>(schedule.tiles(), 1)));
  for (int n = 0; n < bins; ++n) {
    ScanStrip::Bin bin;
    bin.reached = n < share * bins ? 1.f : 0.f;
    bin.rescaled = bin.reached * static_cast<float>(std::abs(std::sin(n * 2.3)) * 0.7);
    bin.masked = n % 17 == 0, bin.nan = n % 41 == 7 && bin.reached > 0;
    strip->bins.push_back(bin);
  }
  data.strip = strip;
  auto norms = std::make_shared<std::vector<float>>(shape.Nq);
  for (std::int64_t r = 0; r < shape.Nq; ++r)
    (*norms)[r] = static_cast<double>(r) < share * static_cast<double>(shape.Nq)
                      ? static_cast<float>(1 + 0.3 * std::sin(0.05 * static_cast<double>(r)))
                      : std::nanf("");
  data.o_row_norm = norms;
  data.totals = {schedule.tiles() / 2, schedule.tiles(), shape.Nq, 3734, 56, 0, 12, 0, share >= 1};
}

StageData naive_stage(const Run& run, std::int64_t K, std::uint64_t version) {
  StageData data;
  data.problem = run.problem, data.schedule = run.schedule;
  data.state = std::make_shared<TraceState>(naive_state(run, K));
  data.title = run.problem->name;
  data.conventions = conventions(run.schedule->recipe(), run.problem->mask);
  data.version = version;
  fill_traffic(data);
  fill_scan(data);
  if (data.state->i >= 0) {
    data.check = RowCheck{300, 128, 1.0000001, 0, 2.5e-7, {}, {}};
    data.check_row = data.state->row0;
  }
  return data;
}

Scene scene_of(const StageData& data, float width, float height) {
  SceneInput input;
  input.width = width, input.height = height;
  input.ranges = finite_ranges(data);
  return make_scene(data, {}, input);
}

}  // namespace flashscope::viz::test
