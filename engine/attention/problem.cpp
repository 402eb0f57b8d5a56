#include "engine/attention/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

}  // namespace flashscope
