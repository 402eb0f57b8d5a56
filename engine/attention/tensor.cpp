#include "engine/attention/tensor.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

#include "engine/error.h"

namespace flashscope {

std::string_view name(DType type) {
  switch (type) {
    case DType::float64:
      return "float64";
    case DType::float32:
      return "float32";
    case DType::float16:
      return "float16";
    case DType::bfloat16:
      return "bfloat16";
  }
  return {};
}

DType parse_dtype(std::string_view text) {
  for (DType type : {DType::float64, DType::float32, DType::float16, DType::bfloat16})
    if (text == name(type)) return type;
  throw InputError("dtype", '"' + std::string(text) + '"', "float64, float32, float16 or bfloat16");
}

int size_of(DType type) {
  switch (type) {
    case DType::float64:
      return 8;
    case DType::float32:
      return 4;
    case DType::float16:
    case DType::bfloat16:
      return 2;
  }
  return 0;
}

float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) {  // zero and subnormals: fraction * 2^-24, exact in float
    const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00u;
  if (magnitude >= 65520.0f) return sign | 0x7c00u;  // rounds beyond 65504
  if (magnitude < 0x1p-14f)                          // subnormal: units of 2^-24, nearbyint rounds to even
    return sign | static_cast<std::uint16_t>(std::nearbyint(std::ldexp(magnitude, 24)));
  const std::uint32_t rest = bits & 0x7fffffffu;
  const std::uint32_t rounded = rest + 0xfffu + (rest >> 13 & 1u);
  return sign | static_cast<std::uint16_t>((rounded >> 13) - (112u << 10));
}

float bfloat16_to_float(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

std::uint16_t float_to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

double round_to(DType type, double value) {
  switch (type) {
    case DType::float64:
      return value;
    case DType::float32:
      return static_cast<float>(value);
    case DType::float16:
      return half_to_float(float_to_half(static_cast<float>(value)));
    case DType::bfloat16:
      return bfloat16_to_float(float_to_bfloat16(static_cast<float>(value)));
  }
  return value;
}

std::string hex_bits(DType type, double value) {
  const auto single = static_cast<float>(value);
  switch (type) {
    case DType::float64:
      return fmt::format("0x{:016x}", std::bit_cast<std::uint64_t>(value));
    case DType::float32:
      return fmt::format("0x{:08x}", std::bit_cast<std::uint32_t>(single));
    case DType::float16:
      return fmt::format("0x{:04x}", float_to_half(single));
    case DType::bfloat16:
      return fmt::format("0x{:04x}", float_to_bfloat16(single));
  }
  return {};
}

double ulp(DType type, double value) {
  if (!std::isfinite(value)) return std::numeric_limits<double>::quiet_NaN();
  // {bits after the point, exponent of the smallest normal number}
  int fraction = 52, smallest = -1022;
  if (type == DType::float32) fraction = 23, smallest = -126;
  if (type == DType::float16) fraction = 10, smallest = -14;
  if (type == DType::bfloat16) fraction = 7, smallest = -126;
  const int exponent = value == 0 ? smallest : std::max(std::ilogb(value), smallest);
  return std::ldexp(1.0, exponent - fraction);
}

Tensor make_tensor(DType type, std::int64_t heads, std::int64_t rows, std::int64_t cols) {
  Tensor tensor;
  tensor.type = type;
  tensor.heads = heads, tensor.rows = rows, tensor.cols = cols;
  if (type == DType::float64)
    tensor.f64 = make_buffer<double>(tensor.size());
  else
    tensor.f32 = make_buffer<float>(tensor.size());
  return tensor;
}

void set(Tensor& tensor, std::int64_t h, std::int64_t r, std::int64_t c, double value) {
  const std::int64_t at = (h * tensor.rows + r) * tensor.cols + c;
  if (tensor.type == DType::float64)
    tensor.f64[at] = value;
  else
    tensor.f32[at] = static_cast<float>(round_to(tensor.type, value));
}

namespace {

template <class T>
TensorSummary summarise_values(const Buffer<T>& values) {
  TensorSummary summary;
  T low = std::numeric_limits<T>::infinity(), high = -low;
  for (const T value : values) {
    if (std::isfinite(value)) {
      low = std::min(low, value), high = std::max(high, value);
    } else if (std::isnan(value)) {
      ++summary.nan;
    } else {
      ++summary.inf;
    }
  }
  const bool any = low <= high;
  summary.min = any ? low : std::numeric_limits<double>::quiet_NaN();
  summary.max = any ? high : std::numeric_limits<double>::quiet_NaN();
  return summary;
}

}  // namespace

TensorSummary summarise(const Tensor& tensor) {
  return tensor.type == DType::float64 ? summarise_values(tensor.f64) : summarise_values(tensor.f32);
}

}  // namespace flashscope
