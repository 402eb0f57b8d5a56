#include "engine/attention/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <thread>
#include <vector>

#include "engine/error.h"

namespace flashscope {
namespace {

constexpr std::int64_t kLargestN = std::int64_t{1} << 40;

void check_range(const char* what, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high)
    throw InputError(what, std::to_string(value), fmt::format("a number from {} to {}", low, high));
}

void check_broadcast(const char* what, std::int64_t heads, std::int64_t rows, std::int64_t cols, const Shape& shape) {
  const auto fits = [](std::int64_t mine, std::int64_t full) { return mine == 1 || mine == full; };
  if (!fits(heads, shape.heads) || !fits(rows, shape.Nq) || !fits(cols, shape.Nk))
    throw InputError(
        what, fmt::format("shape ({}, {}, {})", heads, rows, cols),
        fmt::format("a shape that broadcasts to (heads, Nq, Nk) = ({}, {}, {})", shape.heads, shape.Nq, shape.Nk));
}

void check_mask(const Mask& mask, const Shape& shape) {
  if (mask.window && (mask.window->left < 0 || mask.window->right < 0))
    throw InputError("window", fmt::format("{},{}", mask.window->left, mask.window->right), "two numbers >= 0");
  if (mask.keep) check_broadcast("mask", mask.keep->heads, mask.keep->rows, mask.keep->cols, shape);
  if (mask.bias) check_broadcast("bias", mask.bias->heads, mask.bias->rows, mask.bias->cols, shape);
  const MaskRules& rules = mask.rules;
  const auto by_head = [&](const char* what, std::size_t count) {
    if (count > 1 && static_cast<std::int64_t>(count) != shape.heads)
      throw InputError(what, fmt::format("{} of them", count),
                       shape.heads == 1 ? "one" : fmt::format("one, or one of each of {} heads", shape.heads));
  };
  by_head("lengths", rules.lengths.size());
  by_head("ALiBi slopes", rules.alibi.size());
  for (const std::int64_t length : rules.lengths) check_range("length", length, 0, shape.Nk);
  if (rules.prefix) check_range("prefix", *rules.prefix, 0, shape.Nk);
  for (const double slope : rules.alibi)
    if (!std::isfinite(slope)) throw InputError("ALiBi", fmt::format("slope {}", slope), "a finite number");
  if (!std::isfinite(rules.softcap) || rules.softcap < 0)
    throw InputError("softcap", fmt::format("{}", rules.softcap), "a number above 0");
  if (rules.documents && (static_cast<std::int64_t>(rules.documents->rows.size()) != shape.Nq ||
                          static_cast<std::int64_t>(rules.documents->keys.size()) != shape.Nk))
    throw InputError(
        "documents",
        fmt::format("ids of {} rows and {} keys", rules.documents->rows.size(), rules.documents->keys.size()),
        fmt::format("{} rows and {} keys", shape.Nq, shape.Nk));
}

void check_scale(double scale) {
  if (!std::isfinite(scale)) throw InputError("scale", fmt::format("{}", scale), "a finite number");
}

}  // namespace

void check(const Shape& shape) {
  check_range("Nq (rows of Q)", shape.Nq, 1, kLargestN);
  check_range("Nk (rows of K)", shape.Nk, 1, kLargestN);
  check_range("d (columns of Q and K)", shape.d, 1, 256);
  check_range("dv (columns of V)", shape.dv, 1, 256);
  check_range("heads", shape.heads, 1, 65536);
  check_range("kv heads", shape.kv_heads, 1, 65536);
  if (shape.heads % shape.kv_heads != 0)
    throw InputError("heads", fmt::format("{} query heads on {} key/value heads", shape.heads, shape.kv_heads),
                     "a multiple of the key/value heads");
}

std::shared_ptr<const Problem> make_problem(std::string name, Tensor Q, Tensor K, Tensor V, std::optional<double> scale,
                                            Mask mask) {
  const auto text = [](const Tensor& t) { return fmt::format("({}, {}, {})", t.heads, t.rows, t.cols); };
  if (K.heads != V.heads || K.rows != V.rows)
    throw InputError("K and V", fmt::format("shapes {} and {}", text(K), text(V)), "equal heads and rows");
  if (Q.cols != K.cols)
    throw InputError("Q and K", fmt::format("{} and {} columns", Q.cols, K.cols), "the same head dimension d");
  if (Q.type != K.type || Q.type != V.type)
    throw InputError("Q, K and V",
                     fmt::format("types {}, {} and {}", flashscope::name(Q.type), flashscope::name(K.type),
                                 flashscope::name(V.type)),
                     "one element type");
  auto problem = std::make_shared<Problem>();
  problem->name = std::move(name);
  problem->q = std::make_shared<const Tensor>(std::move(Q));
  problem->k = std::make_shared<const Tensor>(std::move(K));
  problem->v = std::make_shared<const Tensor>(std::move(V));
  const Shape shape = problem->shape();
  check(shape);
  check_mask(mask, shape);
  problem->scale = scale.value_or(1.0 / std::sqrt(static_cast<double>(shape.d)));
  check_scale(problem->scale);
  problem->mask = std::move(mask);
  return problem;
}

std::shared_ptr<const Problem> with_mask(std::shared_ptr<const Problem> problem, Mask mask) {
  check_mask(mask, problem->shape());
  auto changed = std::make_shared<Problem>(*problem);
  changed->mask = std::move(mask);
  changed->given_O.reset(), changed->given_LSE.reset();  // they answered the other mask
  return changed;
}

std::shared_ptr<const Problem> with_scale(std::shared_ptr<const Problem> problem, double scale) {
  check_scale(scale);
  auto changed = std::make_shared<Problem>(*problem);
  changed->scale = scale;
  changed->given_O.reset(), changed->given_LSE.reset();
  return changed;
}

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

// Fills the tensor with elements [first, first + size) of the sequence; on all cores, as a large problem
// has hundreds of millions of them.
void fill(Tensor& tensor, std::uint64_t seed, std::uint64_t first) {
  const auto size = static_cast<std::uint64_t>(tensor.size());
  const auto fill_range = [&](std::uint64_t begin, std::uint64_t end) {
    std::array<double, 4> normals{};
    std::uint64_t have = ~std::uint64_t{0};
    for (std::uint64_t n = begin; n < end; ++n) {
      const std::uint64_t block = (first + n) / 4;
      if (block != have) normals = four_normals(seed, block), have = block;
      const double value = normals[(first + n) % 4];
      if (tensor.type == DType::float64)
        tensor.f64[n] = value;
      else
        tensor.f32[n] = static_cast<float>(round_to(tensor.type, value));
    }
  };
  const std::uint64_t parts = size < 65536 ? 1 : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::jthread> workers;
  for (std::uint64_t part = 0; part < parts; ++part)
    workers.emplace_back(fill_range, size * part / parts, size * (part + 1) / parts);
}

}  // namespace

double random_normal(std::uint64_t seed, std::uint64_t n) { return four_normals(seed, n / 4)[n % 4]; }

std::shared_ptr<const Problem> random_problem(const Shape& shape, std::uint64_t seed, std::optional<double> scale,
                                              Mask mask) {
  check(shape);
  Tensor Q = make_tensor(shape.type, shape.heads, shape.Nq, shape.d);
  Tensor K = make_tensor(shape.type, shape.kv_heads, shape.Nk, shape.d);
  Tensor V = make_tensor(shape.type, shape.kv_heads, shape.Nk, shape.dv);
  fill(Q, seed, 0);
  fill(K, seed, Q.size());
  fill(V, seed, Q.size() + K.size());
  return make_problem(fmt::format("random {}", seed), std::move(Q), std::move(K), std::move(V), scale, std::move(mask));
}

}  // namespace flashscope
