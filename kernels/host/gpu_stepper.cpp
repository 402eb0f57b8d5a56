#include "kernels/host/gpu_stepper.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "engine/attention/device_bytes.h"
#include "engine/error.h"
#include "kernels/host/compiler.h"
#include "kernels/host/cuda.h"
#include "kernels/host/gpu_runner.h"
#include "kernels/host/libraries.h"
#include "kernels/host/mask_planes.h"
#include "kernels/host/step_plan.h"

namespace flashscope::gpu {
namespace {

constexpr double kLaunchFlops = 5e9;  // of the folds in one launch of tile_step: between two a seek can be cancelled
// Of a row block.
constexpr std::int64_t kKeyframeBytes = 64 << 20, kMostKeyframes = 64, kLeastSpacing = 8;
constexpr int kRowsPerBlock = 4;  // of tile_step: a warp a row
constexpr int kBlocksPerSm = 4;   // of tile_stats
// Of tile_stats: its first launch, about 50 ms on an H200, so that most maps are one; and what a later one is to take.
constexpr double kMapLaunchFlops = 4e10, kMapLaunchSeconds = 0.04;

struct Device {
  // Every seek asks the pool for about the same again.
  explicit Device(const GpuDevice& of) : info(of), pool(of.index, true) {}
  GpuDevice info;
  Stream stream;
  Pool pool;
};

// The problem's tensors and masks on the device, widened to what is computed in.
struct Tensors {
  std::shared_ptr<const Device> device;
  DeviceMemory Q, K, V, keep, bias;
};

template <class Real>
DeviceMemory upload_tensor(const Tensor& tensor, const Device& device) {
  return upload(tensor.head<Real>(0), tensor.size() * static_cast<std::int64_t>(sizeof(Real)), device.pool,
                device.stream);
}
template <class Real>
void upload_problem(const Problem& problem, Tensors& to, StepProblem& p) {
  const Device& device = *to.device;
  to.Q = upload_tensor<Real>(problem.Q(), device), to.K = upload_tensor<Real>(problem.K(), device);
  to.V = upload_tensor<Real>(problem.V(), device);
  p.Q = to.Q.as<void>(), p.K = to.K.as<void>(), p.V = to.V.as<void>();
  const Shape shape = problem.shape();
  const Mask mask = lowered(problem.mask, shape.heads, shape.Nq, shape.Nk);
  if (mask.keep) {
    const std::vector<unsigned char> bytes = keep_bytes(*mask.keep);
    to.keep = upload(bytes.data(), static_cast<std::int64_t>(bytes.size()), device.pool, device.stream);
    p.keep = plane_of(*mask.keep, to.keep.as<void>());
  }
  if (mask.bias) {
    const std::vector<Real> values = bias_values<Real>(*mask.bias);
    to.bias =
        upload(values.data(), static_cast<std::int64_t>(values.size() * sizeof(Real)), device.pool, device.stream);
    p.bias = plane_of(*mask.bias, to.bias.as<void>());
  }
}

class StepKernel {
 public:
  StepKernel(const char* file, const char* entry, bool in_double, const GpuDevice& device)
      : compiled_(compile({file, {{"DOUBLE", in_double ? 1 : 0}}, false}, device.architecture)),
        library_(compiled_.cubin.data()),
        kernel_(library_.kernel(entry)) {}
  template <class Arguments>
  void launch(Arguments arguments, std::int64_t blocks, int threads, const Stream& stream) const {
    void* parameters[] = {&arguments};
    FLASHSCOPE_CUDA(cudaLaunchKernel(kernel_, dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)),
                                     parameters, 0, stream));
  }

 private:
  Compiled compiled_;
  Library library_;
  const void* kernel_;
};

// `kept`: what the pool has already.
void check_fits(std::int64_t bytes, std::int64_t kept, const char* what, const GpuDevice& device) {
  std::size_t free_bytes = 0, total = 0;
  FLASHSCOPE_CUDA(cudaMemGetInfo(&free_bytes, &total));
  const std::int64_t available = static_cast<std::int64_t>(free_bytes) + kept;
  if (bytes > available)
    throw InputError("step on the GPU", fmt::format("{} bytes of {}", bytes, what),
                     fmt::format("at most {} bytes, free on {}", available, device.name));
}

}  // namespace

struct DeviceState::Data {
  std::shared_ptr<const Tensors> tensors;  // outlives the arrays below: they are freed on its device's stream
  StepPlan plan;
  StepArguments arguments;  // of the last launch: what its pointers point to is in `memory`
  DeviceMemory memory;
  bool in_double = false;
};

struct DeviceMap::Data {
  std::shared_ptr<const Tensors> tensors;
  std::int64_t head = 0, Nq = 0, rows_per_cell = 0;
  std::int64_t rows = 0, cols = 0, scale_i = 1, scale_j = 1;  // as ScanMap's
  DeviceMemory cells, o_norm;
};

std::int64_t DeviceState::K() const { return data_->plan.K; }

DeviceArray DeviceState::array(StepBuffer buffer) const {
  const Data& s = *data_;
  const StepPlan& plan = s.plan;
  const StepProblem& p = s.arguments.problem;
  const int bytes = s.in_double ? 8 : 4;
  if (!plan.step) return {};
  const auto rows_of = [&](const void* tensor, std::int64_t row, std::int64_t rows, std::int64_t cols) {
    return DeviceArray{static_cast<const std::byte*>(tensor) + row * cols * bytes, rows, cols, cols, bytes};
  };
  const std::int64_t kv_row = plan.step->head / p.group * p.Nk + plan.col0;
  const auto column = [&](const void* data) { return DeviceArray{data, plan.rows, 1, 1, bytes}; };
  const auto tile = [&](const void* data, int size) {
    return DeviceArray{data, plan.rows, plan.cols, plan.pitch, size};
  };
  switch (buffer) {
    case StepBuffer::Q:
      return plan.Q ? rows_of(p.Q, plan.step->head * p.Nq + plan.row0, plan.rows, p.d) : DeviceArray{};
    case StepBuffer::K:
      return plan.K_tile ? rows_of(p.K, kv_row, plan.cols, p.d) : DeviceArray{};
    case StepBuffer::V:
      return plan.V ? rows_of(p.V, kv_row, plan.cols, p.dv) : DeviceArray{};
    case StepBuffer::S:
      return plan.S ? tile(s.arguments.S, bytes) : DeviceArray{};
    case StepBuffer::P:
      return plan.P ? tile(s.arguments.P, bytes) : DeviceArray{};
    case StepBuffer::O:
      return plan.O ? rows_of(s.arguments.O, 0, plan.rows, p.dv) : DeviceArray{};
    case StepBuffer::m:
      return plan.m_and_l ? column(s.arguments.m) : DeviceArray{};
    case StepBuffer::l:
      return plan.m_and_l ? column(s.arguments.l) : DeviceArray{};
    case StepBuffer::alpha:
      return plan.alpha ? column(s.arguments.alpha) : DeviceArray{};
    case StepBuffer::LSE:
      return plan.LSE ? column(s.arguments.LSE) : DeviceArray{};
    case StepBuffer::visible:
      return plan.visible ? tile(s.arguments.visible, 1) : DeviceArray{};
  }
  return {};
}

std::int64_t DeviceMap::head() const { return data_->head; }
bool DeviceMap::complete() const { return rows_ == data_->rows; }
DeviceArray DeviceMap::cells() const {
  return {data_->cells.as<void>(), rows_, data_->cols, data_->cols, static_cast<int>(sizeof(TileCell))};
}
DeviceArray DeviceMap::o_norm() const {
  return {data_->o_norm.as<void>(), std::min(rows_ * data_->rows_per_cell, data_->Nq), 1, 1, sizeof(float)};
}

// A map in the making: waves of as many rows of cells as run at once, each wave in launches of some column blocks.
struct GpuStepper::Mapping {
  std::shared_ptr<const DeviceMap::Data> map;
  StatsArguments arguments;  // of the next launch; its pointers are to the map and to
  DeviceMemory m, l, LSE, O, S, P, visited;
  std::int64_t wave = 1;     // rows of cells
  std::int64_t columns = 1;  // of the next launch

  bool complete() const { return arguments.first == map->rows; }
};

struct GpuStepper::Impl {
  std::shared_ptr<const Problem> problem;
  Schedule schedule;
  bool in_double;
  std::shared_ptr<const Device> device;
  std::shared_ptr<const Tensors> tensors;
  StepProblem p;
  std::unique_ptr<const StepKernel> step, stats;
  // The last state: a later one of the same row block goes on from it.
  std::shared_ptr<const DeviceState::Data> last;
  std::pair<std::int64_t, std::int64_t> framed{-1, -1};  // head and row block of the keyframes
  std::map<std::int64_t, DeviceMemory> keyframes;        // by folds
  std::int64_t spacing = 1;
  std::optional<Mapping> mapping;

  Impl(std::shared_ptr<const Problem> of, const Recipe& recipe, int index)
      : problem(std::move(of)),
        schedule(problem->shape(), problem->mask, recipe),
        in_double(problem->in_double()),
        p(step_problem(*problem, recipe)) {
    const GpuDevice info = usable_device(index);
    FLASHSCOPE_CUDA(cudaSetDevice(index));
    const std::int64_t elements = problem->Q().size() + problem->K().size() + problem->V().size();
    const std::int64_t masks = device_bytes(problem->shape(), problem->mask, recipe).masks;
    check_fits((elements * 4 + masks) * (in_double ? 2 : 1), 0, "Q, K, V and masks", info);
    device = std::make_shared<const Device>(info);
    const auto uploaded = std::make_shared<Tensors>();
    uploaded->device = device;
    if (in_double)
      upload_problem<double>(*problem, *uploaded, p);
    else
      upload_problem<float>(*problem, *uploaded, p);
    tensors = uploaded;
    step = std::make_unique<const StepKernel>("tile_step.cu", "tile_step", in_double, info);
  }

  // Folds [first, first + folds) of the plan's row block on top of `a.from_*`, then its verbs; waits.
  void launch(StepArguments& a, const StepPlan& plan, std::int64_t first, std::int64_t folds, Verb verb) const {
    std::vector<int> visits;
    visits.reserve(static_cast<std::size_t>(folds));
    for (std::int64_t n = first; n < first + folds; ++n)
      visits.push_back(static_cast<int>(schedule.visit_j(plan.step->head, plan.step->i, n)));
    DeviceMemory list;
    if (!visits.empty()) {
      list =
          upload(visits.data(), static_cast<std::int64_t>(visits.size() * sizeof(int)), device->pool, device->stream);
      a.visits = list.as<int>();
    }
    a.folds = static_cast<int>(folds), a.verb = verb;
    step->launch(a, (a.rows + kRowsPerBlock - 1) / kRowsPerBlock, 32 * kRowsPerBlock, device->stream);
    device->stream.wait();
    a.visits = nullptr;
  }

  // m, l, O of the row block on the chip after every `spacing` folds of it, as far as it was folded: what going back
  // starts from.
  void keep_keyframes_of(const StepPlan& plan) {
    if (std::exchange(framed, {plan.step->head, plan.step->i}) == std::pair{plan.step->head, plan.step->i}) return;
    keyframes.clear();
    const std::int64_t bytes = plan.rows * (2 + p.dv) * (in_double ? 8 : 4);
    const std::int64_t most = std::clamp<std::int64_t>(kKeyframeBytes / bytes, 1, kMostKeyframes);
    spacing = std::max(kLeastSpacing, (plan.visits + most - 1) / most);
  }
  void keep_keyframe(const StepArguments& a, std::int64_t folds) {
    const auto real = static_cast<std::size_t>(in_double ? 8 : 4), rows = static_cast<std::size_t>(a.rows),
               column = rows * real;
    DeviceMemory frame(static_cast<std::int64_t>(column * (2 + static_cast<std::size_t>(p.dv))), device->pool,
                       device->stream);
    auto* to = frame.as<std::byte>();
    const auto copy = [&](const void* from, std::size_t bytes) {
      FLASHSCOPE_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, device->stream));
      to += bytes;
    };
    copy(a.start_m, column), copy(a.start_l, column), copy(a.start_O, column * static_cast<std::size_t>(p.dv));
    keyframes.insert_or_assign(folds, std::move(frame));
  }

  std::shared_ptr<const DeviceState::Data> seek(std::int64_t K, const std::stop_token& stop) {
    auto state = std::make_shared<DeviceState::Data>();
    state->tensors = tensors, state->in_double = in_double;
    state->plan = plan_step(schedule, K);
    StepArguments& a = state->arguments;
    a.problem = p;
    const StepPlan& plan = state->plan;
    if (plan.rows == 0) return state;
    if (stop.stop_requested()) throw Cancelled();
    const std::int64_t bytes = step_bytes(plan, p.dv, in_double);
    check_fits(2 * bytes, device->pool.idle(), "one row block's buffers", device->info);
    a.head = plan.step->head, a.row0 = plan.row0, a.rows = static_cast<int>(plan.rows);
    a.j = plan.step->j, a.pitch = plan.pitch;
    state->memory = DeviceMemory(bytes, device->pool, device->stream);
    // What the launch does not write is NaN.
    FLASHSCOPE_CUDA(cudaMemsetAsync(state->memory.as<void>(), 0xff, static_cast<std::size_t>(bytes), device->stream));
    place_arrays(a, plan, in_double, state->memory.as<void>());

    keep_keyframes_of(plan);
    std::int64_t folded = 0;
    if (const auto next = keyframes.upper_bound(plan.folds); next != keyframes.begin()) {
      const auto& [folds, frame] = *std::prev(next);
      const std::int64_t column = plan.rows * (in_double ? 8 : 4);
      auto* at = frame.as<std::byte>();
      folded = folds;
      a.from_m = at, a.from_l = at + column, a.from_O = at + 2 * column;
    }
    const bool goes_on = last && last->plan.rows > 0 && last->plan.step->head == plan.step->head &&
                         last->plan.step->i == plan.step->i && last->plan.folds <= plan.folds &&
                         last->plan.folds >= folded;
    if (goes_on) {
      folded = last->plan.folds;
      a.from_m = last->arguments.start_m, a.from_l = last->arguments.start_l, a.from_O = last->arguments.start_O;
    }
    const double tile_flops =
        2.0 * static_cast<double>(plan.rows) * static_cast<double>(plan.pitch) * static_cast<double>(p.d + p.dv);
    const auto most = static_cast<std::int64_t>(std::clamp(kLaunchFlops / tile_flops, 1.0, 1e6));
    for (;;) {
      const std::int64_t frame = (folded / spacing + 1) * spacing, to = std::min(frame, folded + most);
      if (to >= plan.folds && plan.folds - folded <= most) break;
      if (stop.stop_requested()) throw Cancelled();
      launch(a, plan, folded, to - folded, Verb::loaded);
      folded = to;
      a.from_m = a.start_m, a.from_l = a.start_l, a.from_O = a.start_O;  // a thread reads only what it has written
      if (folded == frame) keep_keyframe(a, folded);
    }
    launch(a, plan, folded, plan.folds - folded, plan.verb);
    a.from_m = a.from_l = a.from_O = nullptr;
    last = state;
    return state;
  }

  void begin_map(std::int64_t head, std::int64_t side) {
    mapping.reset();
    if (!stats) stats = std::make_unique<const StepKernel>("tile_stats.cu", "tile_stats", in_double, device->info);
    const std::int64_t real = in_double ? 8 : 4, Tr = schedule.Tr(), Tc = schedule.Tc();
    const StatsPlan plan = plan_stats(schedule, head, (Tr + side - 1) / side, (Tc + side - 1) / side);
    Mapping making;
    StatsArguments& a = making.arguments;
    a = plan.arguments, a.problem = p;
    making.wave = std::min<std::int64_t>(a.map_rows, std::int64_t{kBlocksPerSm} * device->info.limits.sms);
    if (p.standard) {  // a strip goes whole: pieces are of fewer rows of cells
      const double row_flops =
          2.0 * static_cast<double>(a.scale_i * p.Br) * static_cast<double>(p.Nk) * static_cast<double>(p.d + p.dv);
      making.wave = std::clamp<std::int64_t>(std::llround(kMapLaunchFlops / row_flops), 1, making.wave);
    }
    const std::int64_t row = p.Nq * real, strip = making.wave * kStatsWarps * a.pitch * real,
                       cells = a.map_rows * a.map_cols * static_cast<std::int64_t>(sizeof(TileCell)),
                       norms = p.Nq * static_cast<std::int64_t>(sizeof(float));
    check_fits(row * (3 + p.dv) + 2 * strip + cells + norms, device->pool.idle(), "O, m, l and the tile map",
               device->info);
    const auto memory = [&](std::int64_t bytes) { return DeviceMemory(bytes, device->pool, device->stream); };
    auto map = std::make_shared<DeviceMap::Data>();
    map->tensors = tensors, map->head = head, map->Nq = p.Nq, map->rows_per_cell = a.scale_i * p.Br;
    map->rows = a.map_rows, map->cols = a.map_cols, map->scale_i = a.scale_i, map->scale_j = a.scale_j;
    map->cells = memory(cells), map->o_norm = memory(norms);
    making.m = memory(row), making.l = memory(row), making.LSE = memory(row), making.O = memory(row * p.dv);
    making.S = memory(strip), making.P = memory(strip);
    if (!plan.visited.empty()) {
      making.visited =
          upload(plan.visited.data(), static_cast<std::int64_t>(plan.visited.size()), device->pool, device->stream);
      a.visited = making.visited.as<unsigned char>();
    }
    a.cells = map->cells.as<TileCell>(), a.o_norm = map->o_norm.as<float>();
    a.m = making.m.as<void>(), a.l = making.l.as<void>(), a.LSE = making.LSE.as<void>(), a.O = making.O.as<void>();
    a.S = making.S.as<void>(), a.P = making.P.as<void>();
    a.first = a.last = 0, a.begin = a.end = 0;
    // Standard attention's strips go whole.
    const double column_flops = 2.0 * static_cast<double>(making.wave * map->rows_per_cell) *
                                static_cast<double>(p.Bc) * static_cast<double>(p.d + p.dv);
    making.columns =
        p.standard
            ? 2 * Tc
            : static_cast<std::int64_t>(std::clamp(kMapLaunchFlops / column_flops, 1.0, 2.0 * static_cast<double>(Tc)));
    making.map = std::move(map);
    mapping = std::move(making);
  }

  void extend_map() {
    Mapping& making = *mapping;
    if (making.complete()) return;
    StatsArguments& a = making.arguments;
    const std::int64_t whole = 2 * a.Tc;
    a.last = std::min<std::int64_t>(a.first + making.wave, a.map_rows);
    a.begin = a.end, a.end = std::min<std::int64_t>(a.begin + making.columns, whole);
    const auto started = std::chrono::steady_clock::now();
    stats->launch(a, a.last - a.first, 32 * kStatsWarps, device->stream);
    device->stream.wait();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - started;
    if (a.end == whole) {
      a.first = a.last, a.begin = a.end = 0;
      return;
    }
    const double by = std::clamp(kMapLaunchSeconds / taken.count(), 0.25, 2.0);
    making.columns = std::max<std::int64_t>(1, std::llround(static_cast<double>(making.columns) * by));
  }
};

GpuStepper::GpuStepper(std::shared_ptr<const Problem> problem, const Recipe& recipe, int device)
    : impl_(std::make_unique<Impl>(std::move(problem), recipe, device)) {}
GpuStepper::~GpuStepper() = default;
GpuStepper::GpuStepper(GpuStepper&&) noexcept = default;

const Schedule& GpuStepper::schedule() const { return impl_->schedule; }
const std::string& GpuStepper::device_name() const { return impl_->device->info.name; }

DeviceState GpuStepper::seek(std::int64_t K, const std::stop_token& stop) {
  DeviceState state;
  state.data_ = impl_->seek(K, stop);
  return state;
}

TraceState GpuStepper::read(const DeviceState& state) const {
  const DeviceState::Data& s = *state.data_;
  StepArguments on_host = s.arguments;
  std::vector<std::byte> bytes(static_cast<std::size_t>(s.memory.bytes()));
  if (!bytes.empty()) {
    download(s.memory.as<void>(), bytes.data(), s.memory.bytes(), impl_->device->stream);
    place_arrays(on_host, s.plan, s.in_double, bytes.data());
  }
  return trace_state(*impl_->problem, impl_->schedule, s.plan, on_host);
}

void GpuStepper::begin_map(std::int64_t head, std::int64_t side) { impl_->begin_map(head, side); }

DeviceMap GpuStepper::extend_map() {
  impl_->extend_map();
  DeviceMap map;
  map.data_ = impl_->mapping->map, map.rows_ = impl_->mapping->arguments.first;
  if (map.complete()) impl_->mapping.reset();
  return map;
}

void GpuStepper::drop_map() { impl_->mapping.reset(); }

DeviceMap GpuStepper::map(std::int64_t head, const std::stop_token& stop, std::int64_t side) {
  begin_map(head, side);
  for (;;) {
    if (stop.stop_requested()) throw Cancelled();
    DeviceMap map = extend_map();
    if (map.complete()) return map;
  }
}

ScanMap GpuStepper::read(const DeviceMap& of) const {
  const DeviceMap::Data& data = *of.data_;
  ScanMap map;
  map.head = data.head, map.rows = data.rows, map.cols = data.cols;
  map.scale_i = data.scale_i, map.scale_j = data.scale_j;
  map.row_block_done.assign(static_cast<std::size_t>(data.rows), 0);
  std::fill_n(map.row_block_done.begin(), of.rows_, 1);
  map.min_score = INFINITY, map.max_score = -INFINITY;
  static_assert(sizeof(TileCell) == sizeof(MapCell));
  map.cells.assign(static_cast<std::size_t>(data.rows * data.cols), MapCell{std::nanf(""), 0, 0, 0});
  const std::int64_t there = of.rows_ * data.cols;
  if (there > 0)
    download(data.cells.as<void>(), map.cells.data(), there * static_cast<std::int64_t>(sizeof(TileCell)),
             impl_->device->stream);
  for (std::int64_t n = 0; n < there; ++n) {
    const MapCell& cell = map.cells[static_cast<std::size_t>(n)];
    if (std::isfinite(cell.largest_score)) {
      map.min_score = std::min(map.min_score, cell.largest_score);
      map.max_score = std::max(map.max_score, cell.largest_score);
    }
    map.max_rescaled = std::max(map.max_rescaled, cell.rescaled_rows);
    map.max_nan = std::max(map.max_nan, cell.nan_cells);
    if (cell.softmax_mass > map.max_mass) map.max_mass = cell.softmax_mass;
  }
  return map;
}

std::vector<float> GpuStepper::read_o_norm(const DeviceMap& of) const {
  std::vector<float> norms(static_cast<std::size_t>(of.data_->Nq), std::nanf(""));
  const std::int64_t there = of.o_norm().rows;
  if (there > 0)
    download(of.data_->o_norm.as<void>(), norms.data(), there * static_cast<std::int64_t>(sizeof(float)),
             impl_->device->stream);
  return norms;
}

}  // namespace flashscope::gpu
