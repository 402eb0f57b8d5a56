#include "kernels/host/gpu_stepper.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

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
constexpr double kMapLaunchFlops = 5e11;  // of tile_stats: most maps are one launch, the largest stay cancellable
constexpr int kRowsPerBlock = 4;          // of tile_step: a warp a row
constexpr int kBlocksPerSm = 4;           // of tile_stats

struct Device {
  explicit Device(const GpuDevice& of) : info(of), pool(of.index) {}
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

GpuDevice usable_device(int index) {
  const GpuStatus status = gpu_status();
  for (const GpuDevice& device : status.devices)
    if (device.index == index) return device;
  if (!status.missing.empty()) throw Missing(status.missing.front());
  throw InputError("GPU", fmt::format("number {}", index), fmt::format("0 to {}", status.devices.size() - 1));
}

void check_fits(std::int64_t bytes, const char* what, const GpuDevice& device) {
  std::size_t free_bytes = 0, total = 0;
  FLASHSCOPE_CUDA(cudaMemGetInfo(&free_bytes, &total));
  if (bytes > static_cast<std::int64_t>(free_bytes))
    throw InputError("step on the GPU", fmt::format("{} bytes of {}", bytes, what),
                     fmt::format("at most {} bytes, free on {}", free_bytes, device.name));
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
  std::int64_t head = 0, Tr = 0;
  StatsArguments arguments;
  DeviceMemory cells;
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

DeviceArray DeviceMap::cells() const {
  const StatsArguments& a = data_->arguments;
  return {a.cells, a.map_rows, a.map_cols, a.map_cols, static_cast<int>(sizeof(TileCell))};
}

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

  Impl(std::shared_ptr<const Problem> of, const Recipe& recipe, int index)
      : problem(std::move(of)),
        schedule(problem->shape(), problem->mask, recipe),
        in_double(problem->in_double()),
        p(step_problem(*problem, recipe)) {
    const GpuDevice info = usable_device(index);
    FLASHSCOPE_CUDA(cudaSetDevice(index));
    const std::int64_t elements = problem->Q().size() + problem->K().size() + problem->V().size();
    check_fits(elements * (in_double ? 8 : 4), "Q, K, V", info);
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
    check_fits(2 * bytes, "one row block's buffers", device->info);
    a.head = plan.step->head, a.row0 = plan.row0, a.rows = static_cast<int>(plan.rows);
    a.j = plan.step->j, a.pitch = plan.pitch;
    state->memory = DeviceMemory(bytes, device->pool, device->stream);
    // What the launch does not write is NaN.
    FLASHSCOPE_CUDA(cudaMemsetAsync(state->memory.as<void>(), 0xff, static_cast<std::size_t>(bytes), device->stream));
    place_arrays(a, plan, in_double, state->memory.as<void>());

    std::int64_t folded = 0;
    const bool goes_on = last && last->plan.rows > 0 && last->plan.step->head == plan.step->head &&
                         last->plan.step->i == plan.step->i && last->plan.folds <= plan.folds;
    if (goes_on) {
      folded = last->plan.folds;
      a.from_m = last->arguments.start_m, a.from_l = last->arguments.start_l, a.from_O = last->arguments.start_O;
    }
    const double tile_flops =
        2.0 * static_cast<double>(plan.rows) * static_cast<double>(plan.pitch) * static_cast<double>(p.d + p.dv);
    const auto most = static_cast<std::int64_t>(std::clamp(kLaunchFlops / tile_flops, 1.0, 1e6));
    while (plan.folds - folded > most) {
      if (stop.stop_requested()) throw Cancelled();
      launch(a, plan, folded, most, Verb::loaded);
      folded += most;
      a.from_m = a.start_m, a.from_l = a.start_l, a.from_O = a.start_O;  // a thread reads only what it has written
    }
    launch(a, plan, folded, plan.folds - folded, plan.verb);
    a.from_m = a.from_l = a.from_O = nullptr;
    last = state;
    return state;
  }

  std::shared_ptr<const DeviceMap::Data> map(std::int64_t head, const std::stop_token& stop, std::int64_t side) {
    if (!stats) stats = std::make_unique<const StepKernel>("tile_stats.cu", "tile_stats", in_double, device->info);
    const std::int64_t real = in_double ? 8 : 4, Tr = schedule.Tr(), Tc = schedule.Tc();
    const StatsPlan plan = plan_stats(schedule, head, (Tr + side - 1) / side, (Tc + side - 1) / side);
    auto map = std::make_shared<DeviceMap::Data>();
    map->tensors = tensors, map->head = head, map->Tr = Tr;
    StatsArguments& a = map->arguments;
    a = plan.arguments, a.problem = p;
    const std::int64_t blocks =
        std::min<std::int64_t>(a.map_rows, std::int64_t{kBlocksPerSm} * device->info.limits.sms);
    const std::int64_t row = p.Nq * real, strip = blocks * kStatsWarps * a.pitch * real;
    check_fits(row * (3 + p.dv) + 2 * strip + a.map_rows * a.map_cols * 16, "O, m, l and the tile map", device->info);
    const auto memory = [&](std::int64_t bytes) { return DeviceMemory(bytes, device->pool, device->stream); };
    map->cells = memory(a.map_rows * a.map_cols * static_cast<std::int64_t>(sizeof(TileCell)));
    const DeviceMemory m = memory(row), l = memory(row), LSE = memory(row), O = memory(row * p.dv), S = memory(strip),
                       P = memory(strip);
    DeviceMemory visited;
    if (!plan.visited.empty()) {
      visited =
          upload(plan.visited.data(), static_cast<std::int64_t>(plan.visited.size()), device->pool, device->stream);
      a.visited = visited.as<unsigned char>();
    }
    a.cells = map->cells.as<TileCell>();
    a.m = m.as<void>(), a.l = l.as<void>(), a.LSE = LSE.as<void>(), a.O = O.as<void>();
    a.S = S.as<void>(), a.P = P.as<void>();
    const double flops = 4.0 * static_cast<double>(p.Nq) * static_cast<double>(p.Nk) * static_cast<double>(p.d + p.dv);
    const auto launches =
        static_cast<std::int64_t>(std::clamp(std::ceil(flops / kMapLaunchFlops), 1.0, static_cast<double>(a.map_rows)));
    for (std::int64_t n = 0; n < launches; ++n) {
      if (stop.stop_requested()) throw Cancelled();
      a.first = a.map_rows * n / launches, a.last = a.map_rows * (n + 1) / launches;
      stats->launch(a, std::min<std::int64_t>(blocks, a.last - a.first), 32 * kStatsWarps, device->stream);
      device->stream.wait();
    }
    return map;
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

DeviceMap GpuStepper::map(std::int64_t head, const std::stop_token& stop, std::int64_t side) {
  DeviceMap map;
  map.data_ = impl_->map(head, stop, side);
  return map;
}

ScanMap GpuStepper::read(const DeviceMap& of) const {
  const DeviceMap::Data& data = *of.data_;
  const StatsArguments& a = data.arguments;
  ScanMap map;
  map.head = data.head, map.rows = a.map_rows, map.cols = a.map_cols, map.scale_i = a.scale_i, map.scale_j = a.scale_j;
  map.row_block_done.assign(static_cast<std::size_t>(a.map_rows), 1);
  map.min_score = INFINITY, map.max_score = -INFINITY;
  const std::vector<TileCell> cells = download<TileCell>(data.cells, impl_->device->stream);
  map.cells.reserve(cells.size());
  for (const TileCell& cell : cells) {
    map.cells.push_back({cell.largest_score, cell.rescaled_rows, cell.softmax_mass, cell.nan_cells});
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

}  // namespace flashscope::gpu
