#include "engine/attention/fingerprint.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "engine/error.h"

namespace flashscope {
namespace {

class Hash {
 public:
  explicit Hash(const std::stop_token& stop) : stop_(stop) {}

  void add(std::uint64_t word) {
    state_ = (state_ ^ word) * 0x9e3779b97f4a7c15u;
    state_ ^= state_ >> 32;
  }
  void add(std::int64_t value) { add(static_cast<std::uint64_t>(value)); }
  void add(double value) { add(std::bit_cast<std::uint64_t>(std::isnan(value) ? kNan<double> : value)); }
  void add(float value) { add(std::uint64_t{std::bit_cast<std::uint32_t>(std::isnan(value) ? kNan<float> : value)}); }
  template <class T>
  void add(std::span<const T> values) {
    add(static_cast<std::int64_t>(values.size()));
    constexpr std::size_t kPiece = std::size_t{1} << 22;
    for (std::size_t begin = 0; begin < values.size(); begin += kPiece) {
      if (stop_.stop_requested()) throw Cancelled();
      for (const T value : values.subspan(begin, std::min(kPiece, values.size() - begin))) add(value);
    }
  }
  std::string text() const { return fmt::format("{:016x}", state_); }

 private:
  template <class T>
  static constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  std::uint64_t state_ = 0x243f6a8885a308d3u;
  const std::stop_token& stop_;
};

template <class List>
void add_list(Hash& hash, const List& values) {
  hash.add(std::span<const typename List::value_type>(values));
}

void add(Hash& hash, const Tensor& tensor) {
  hash.add(static_cast<std::int64_t>(tensor.type));
  hash.add(tensor.heads), hash.add(tensor.rows), hash.add(tensor.cols);
  add_list(hash, tensor.f32), add_list(hash, tensor.f64);
}

void add(Hash& hash, const Mask& mask) {
  hash.add(static_cast<std::int64_t>(mask.causal));
  const auto there = [&](bool part) {
    hash.add(std::int64_t{part});
    return part;
  };
  if (there(mask.window.has_value())) hash.add(mask.window->left), hash.add(mask.window->right);
  if (there(mask.keep != nullptr)) {
    hash.add(mask.keep->heads), hash.add(mask.keep->rows), hash.add(mask.keep->cols);
    add_list(hash, mask.keep->bits);
  }
  if (there(mask.bias != nullptr)) {
    hash.add(mask.bias->heads), hash.add(mask.bias->rows), hash.add(mask.bias->cols);
    add_list(hash, mask.bias->f32), add_list(hash, mask.bias->f64);
  }
  const MaskRules& rules = mask.rules;
  add_list(hash, rules.lengths), add_list(hash, rules.alibi);
  if (there(rules.documents != nullptr)) add_list(hash, rules.documents->rows), add_list(hash, rules.documents->keys);
  if (there(rules.prefix.has_value())) hash.add(*rules.prefix);
  hash.add(rules.softcap);
}

}  // namespace

std::string fingerprint(const Problem& problem, const std::stop_token& stop) {
  Hash hash(stop);
  add(hash, problem.Q()), add(hash, problem.K()), add(hash, problem.V());
  hash.add(problem.scale);
  add(hash, problem.mask);
  return hash.text();
}

}  // namespace flashscope
