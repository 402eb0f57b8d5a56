#include "engine/insight/parity.h"

#include <algorithm>
#include <cmath>

#include "engine/error.h"

namespace flashscope {
namespace {

constexpr double kSteppedFlops = 4e10;  // about as much as is stepped to the end; what exceeds it is sampled

// O and LSE of some rows of one head as one side has them.
struct Rows {
  const double* O = nullptr;
  const double* LSE = nullptr;
};

Rows rows_of(const Report& report, std::int64_t head, std::int64_t row) {
  const std::int64_t at = head * report.shape.Nq + row;
  return {report.O.data() + at * report.shape.dv, report.LSE.data() + at};
}

// False where only one side is finite, or the infinities differ.
bool measure(double a, double b, double& largest) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  const double distance = std::abs(a - b);
  if (!std::isfinite(distance)) return false;
  largest = std::max(largest, distance);
  return true;
}

void compare(ParityPair& pair, const Rows& a, const Rows& b, std::int64_t head, std::int64_t row0, std::int64_t rows,
             std::int64_t dv) {
  for (std::int64_t r = 0; r < rows; ++r, ++pair.rows) {
    const double before = pair.max_O;
    bool both = measure(a.LSE[r], b.LSE[r], pair.max_LSE);
    for (std::int64_t e = 0; e < dv; ++e) both = measure(a.O[r * dv + e], b.O[r * dv + e], pair.max_O) && both;
    const bool first_one_sided = !both && pair.one_sided++ == 0;
    if (first_one_sided || (pair.one_sided == 0 && pair.max_O > before))
      pair.worst_head = head, pair.worst_row = row0 + r;
  }
}

double largest_finite(const Buffer<double>& values) {
  double largest = 0;
  for (const double value : values)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  return largest;
}

// Row blocks (of all heads, numbered through) that are stepped: all of them, or some spread evenly.
std::vector<std::int64_t> stepped_blocks(const Schedule& schedule) {
  const std::int64_t blocks = schedule.shape().heads * schedule.Tr();
  const double flops = static_cast<double>(matmul_flops(schedule));
  std::int64_t count = blocks;
  if (flops > kSteppedFlops)
    count = std::clamp<std::int64_t>(static_cast<std::int64_t>(static_cast<double>(blocks) * kSteppedFlops / flops), 1,
                                     blocks);
  std::vector<std::int64_t> chosen;
  chosen.reserve(static_cast<std::size_t>(count));
  for (std::int64_t n = 0; n < count; ++n) chosen.push_back(count == 1 ? blocks - 1 : n * (blocks - 1) / (count - 1));
  return chosen;
}

// The state in which a row block's O and LSE are final.
std::int64_t final_state(const Schedule& schedule, std::int64_t head, std::int64_t i) {
  const Stage stage = schedule.recipe().algorithm == Algorithm::standard ? Stage::accumulate : Stage::finish;
  return schedule.find(head, i, -1, stage).value() + 1;
}

}  // namespace

std::string_view name(Side side) {
  switch (side) {
    case Side::stepped:
      return "stepped";
    case Side::cpu:
      return "CPU";
    case Side::gpu:
      return "GPU";
  }
  return "";
}

double Parity::max_O() const {
  double largest = 0;
  for (const auto& pair : pairs)
    if (pair) largest = std::max(largest, pair->max_O);
  return largest;
}
double Parity::max_LSE() const {
  double largest = 0;
  for (const auto& pair : pairs)
    if (pair) largest = std::max(largest, pair->max_LSE);
  return largest;
}
std::int64_t Parity::one_sided() const {
  std::int64_t sum = 0;
  for (const auto& pair : pairs)
    if (pair) sum = std::max(sum, pair->one_sided);
  return sum;
}
bool Parity::equal() const { return one_sided() == 0 && max_O() <= tolerance_O && max_LSE() <= tolerance_LSE; }

Parity parity(const std::shared_ptr<const Problem>& problem, const Recipe& recipe, const Report* cpu, const Report* gpu,
              const std::stop_token& stop, const Progress& progress) {
  const Shape shape = problem->shape();
  Parity result;
  result.cpu = cpu != nullptr, result.gpu = gpu != nullptr;
  result.rows = shape.heads * shape.Nq;
  const Report* any = cpu ? cpu : gpu;
  if (!any) return result;

  std::optional<ErrorReport> error = any->error;
  if (!error) {
    CheckRows some;
    some.kind = CheckRows::Kind::some;
    error = error_vs_float64(*problem, any->O, {recipe.empty_row, recipe.mask_apply}, some, 1, stop);
  }
  result.tolerance_O = 2 * error->tolerance;
  const double largest_LSE = std::max(1.0, largest_finite(any->LSE));
  result.tolerance_LSE = (shape.type == DType::float64 ? 1e-12 : 2e-5) * largest_LSE;
  // On a GPU standard attention keeps S in the problem's type.
  if (gpu && recipe.algorithm == Algorithm::standard) result.tolerance_LSE += ulp(shape.type, largest_LSE);

  if (cpu && gpu) {
    ParityPair& pair = result.pairs[1].emplace(ParityPair{Side::cpu, Side::gpu});
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      if (stop.stop_requested()) throw Cancelled();
      compare(pair, rows_of(*cpu, head, 0), rows_of(*gpu, head, 0), head, 0, shape.Nq, shape.dv);
    }
  }
  if (cpu) result.pairs[0].emplace(ParityPair{Side::stepped, Side::cpu});
  if (gpu) result.pairs[2].emplace(ParityPair{Side::stepped, Side::gpu});
  Trace trace(problem, recipe);
  const Schedule& schedule = trace.schedule();
  const std::vector<std::int64_t> blocks = stepped_blocks(schedule);
  std::int64_t done = 0;
  for (const std::int64_t block : blocks) {
    const std::int64_t head = block / schedule.Tr(), i = block % schedule.Tr();
    const TraceState state = trace.seek(final_state(schedule, head, i), stop);
    std::vector<double> LSE = state.LSE;
    const Rows stepped{state.O.values.data(), LSE.data()};
    const auto with = [&](std::optional<ParityPair>& pair, const Report& report) {
      compare(*pair, stepped, rows_of(report, head, state.row0), head, state.row0, state.rows, shape.dv);
    };
    if (cpu) with(result.pairs[0], *cpu);
    if (gpu) with(result.pairs[2], *gpu);
    result.rows_stepped += state.rows;
    if (progress) progress(++done, static_cast<std::int64_t>(blocks.size()));
  }
  return result;
}

std::string verdict(const Parity& parity) {
  const auto differs = [&](const std::optional<ParityPair>& pair) {
    return pair &&
           !(pair->one_sided == 0 && pair->max_O <= parity.tolerance_O && pair->max_LSE <= parity.tolerance_LSE);
  };
  const auto& [stepped_cpu, cpu_gpu, stepped_gpu] = parity.pairs;
  if (!parity.cpu && !parity.gpu) return "stepped";
  std::string text = "stepped";
  if (parity.cpu) text += differs(stepped_cpu) ? " \xe2\x89\xa0 CPU" : " = CPU";
  if (parity.gpu) text += differs(parity.cpu ? cpu_gpu : stepped_gpu) ? " \xe2\x89\xa0 GPU" : " = GPU";
  return text;
}

}  // namespace flashscope
