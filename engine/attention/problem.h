// One attention problem: O = softmax(scale Q K^T + mask) V per query head.
//
// Q (H, Nq, d), K (Hkv, Nk, d), V (Hkv, Nk, dv). Query head h reads key/value head h / (H / Hkv)
// (grouped-query attention). Immutable and shared between threads once made.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/attention/mask.h"
#include "engine/attention/tensor.h"

namespace flashscope {

// Everything the schedule and the ledger need; no numbers.
struct Shape {
  std::int64_t heads = 1, kv_heads = 1, Nq = 1, Nk = 1, d = 64, dv = 64;
  DType type = DType::float32;
  std::int64_t kv_head(std::int64_t h) const { return h / (heads / kv_heads); }
  bool operator==(const Shape&) const = default;
};
// Throws InputError: any N >= 1 up to 2^40, d and dv 1..256, heads a multiple of kv_heads.
void check(const Shape& shape);

struct Problem {
  std::string name;                       // of the file, or "random 7"
  std::shared_ptr<const Tensor> q, k, v;  // shared, so that another mask costs no copy
  double scale = 1;                       // default 1 / sqrt(d)
  Mask mask;
  // The answer that came with the file (o, lse), if any; same layout as O (H, Nq, dv), LSE (H, Nq, 1).
  std::shared_ptr<const Tensor> given_O, given_LSE;

  const Tensor& Q() const { return *q; }
  const Tensor& K() const { return *k; }
  const Tensor& V() const { return *v; }
  Shape shape() const { return {q->heads, k->heads, q->rows, k->rows, q->cols, v->cols, q->type}; }
  bool in_double() const { return q->type == DType::float64; }
};

// Checks shapes, heads, types, mask shapes; fills the default scale. Throws InputError.
std::shared_ptr<const Problem> make_problem(std::string name, Tensor Q, Tensor K, Tensor V,
                                            std::optional<double> scale = {}, Mask mask = {});
// The same tensors (shared, not copied) under another mask or scale.
std::shared_ptr<const Problem> with_mask(std::shared_ptr<const Problem> problem, Mask mask);
std::shared_ptr<const Problem> with_scale(std::shared_ptr<const Problem> problem, double scale);

// Philox4x32-10 with Box-Muller, standard normal, order Q, K, V, rounded to the type.
// Element n of the sequence depends on (seed, n) only, so that a GPU draws the same.
std::shared_ptr<const Problem> random_problem(const Shape& shape, std::uint64_t seed, std::optional<double> scale = {},
                                              Mask mask = {});
double random_normal(std::uint64_t seed, std::uint64_t n);

}  // namespace flashscope
