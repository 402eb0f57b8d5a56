#include "engine/attention/random_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <mutex>
#include <numbers>
#include <thread>
#include <vector>

#include "engine/error.h"

namespace flashscope {
namespace {

// Philox4x32-10 (Salmon et al. 2011): ten rounds of two 32 x 32 -> 64 bit products.
std::array<std::uint32_t, 4> philox(std::uint64_t counter, std::uint64_t seed) {
  std::array<std::uint32_t, 4> c = {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0,
                                    0};
  auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0], p1 = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return c;
}

// Four normals from one block: Box-Muller in float64 on the two halves of the block, so that only the
// last rounding depends on the platform's libm.
std::array<double, 4> four_normals(std::uint64_t seed, std::uint64_t block) {
  const auto bits = philox(block, seed);
  std::array<double, 4> out{};
  for (int half = 0; half < 2; ++half) {
    const double u = (bits[2 * half] + 0.5) * 0x1p-32, v = bits[2 * half + 1] * 0x1p-32;  // u in (0, 1)
    const double radius = std::sqrt(-2 * std::log(u)), angle = 2 * std::numbers::pi * v;
    out[2 * half] = radius * std::cos(angle), out[2 * half + 1] = radius * std::sin(angle);
  }
  return out;
}

// Draws elements [first, first + size) of the sequence into tensors, piece by piece on all cores: a large problem has
// hundreds of millions of them.
class Drawing {
 public:
  Drawing(std::uint64_t seed, std::int64_t total, const std::stop_token& stop, const Progress& progress)
      : seed_(seed), total_(total), stop_(stop), progress_(progress) {}

  void fill(Tensor& tensor) {
    constexpr std::int64_t kPiece = 1 << 16;  // a millisecond or two: how late a stop may come
    const std::int64_t pieces = (tensor.size() + kPiece - 1) / kPiece;
    std::atomic<std::int64_t> next{0};
    const auto work = [&] {
      for (std::int64_t n; (n = next++) < pieces && !stop_.stop_requested();) {
        const std::int64_t end = std::min(tensor.size(), (n + 1) * kPiece);
        fill(tensor, n * kPiece, end);
        drawn(end - n * kPiece);
      }
    };
    {
      std::vector<std::jthread> workers;
      const auto cores = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
      for (std::int64_t t = 1; t < std::min(cores, pieces); ++t) workers.emplace_back(work);
      work();
    }
    if (stop_.stop_requested()) throw Cancelled();
    first_ += tensor.size();
  }

 private:
  void fill(Tensor& tensor, std::int64_t begin, std::int64_t end) const {
    std::array<double, 4> normals{};
    std::int64_t have = -1;
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int64_t block = (first_ + n) / 4;
      if (block != have) normals = four_normals(seed_, block), have = block;
      const double value = normals[(first_ + n) % 4];
      if (tensor.type == DType::float64)
        tensor.f64[n] = value;
      else
        tensor.f32[n] = static_cast<float>(round_to(tensor.type, value));
    }
  }
  void drawn(std::int64_t elements) {
    if (!progress_) return;
    const std::lock_guard lock(mutex_);
    done_ += elements;
    progress_(done_, total_);
  }

  std::uint64_t seed_;
  std::int64_t first_ = 0, done_ = 0, total_;
  const std::stop_token& stop_;
  const Progress& progress_;
  std::mutex mutex_;
};

}  // namespace

double random_normal(std::uint64_t seed, std::uint64_t n) { return four_normals(seed, n / 4)[n % 4]; }

std::shared_ptr<const Problem> random_problem(const Shape& shape, std::uint64_t seed, std::optional<double> scale,
                                              Mask mask) {
  return random_problem(shape, seed, scale, std::move(mask), {}, {});
}

std::shared_ptr<const Problem> random_problem(const Shape& shape, std::uint64_t seed, std::optional<double> scale,
                                              Mask mask, const std::stop_token& stop, const Progress& progress) {
  check(shape);
  Tensor Q = make_tensor(shape.type, shape.heads, shape.Nq, shape.d);
  Tensor K = make_tensor(shape.type, shape.kv_heads, shape.Nk, shape.d);
  Tensor V = make_tensor(shape.type, shape.kv_heads, shape.Nk, shape.dv);
  Drawing drawing(seed, Q.size() + K.size() + V.size(), stop, progress);
  for (Tensor* tensor : {&Q, &K, &V}) drawing.fill(*tensor);
  return make_problem(fmt::format("random {}", seed), std::move(Q), std::move(K), std::move(V), scale, std::move(mask));
}

}  // namespace flashscope
