// A tensor of one attention problem: (heads, rows, columns), row-major, read-only after loading.
//
// Values are kept in the type that the engine computes in: float for float32, float16 and bfloat16
// (which it represents exactly), double for float64. `type` remembers the element type of the
// problem; it decides bytes in HBM, hexadecimal read-outs and ulps, never the arithmetic.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/memory.h"

namespace flashscope {

enum class DType { float64, float32, float16, bfloat16 };

std::string_view name(DType type);         // "float16"
DType parse_dtype(std::string_view text);  // throws InputError
int size_of(DType type);                   // bytes of one element

float half_to_float(std::uint16_t bits);
std::uint16_t float_to_half(float value);  // round to nearest even
float bfloat16_to_float(std::uint16_t bits);
std::uint16_t float_to_bfloat16(float value);    // round to nearest even; NaN stays NaN
double round_to(DType type, double value);       // nearest value of that type
std::string hex_bits(DType type, double value);  // "0x3c00" for float16 1.0
double ulp(DType type, double value);            // spacing of the type's numbers at |value|; NaN for non-finite

struct Tensor {
  DType type = DType::float32;
  std::int64_t heads = 0, rows = 0, cols = 0;
  Buffer<float> f32;   // heads * rows * cols values unless type is float64
  Buffer<double> f64;  // the same, for float64

  // First value of one head, as the type it is stored in.
  template <class T>
  const T* head(std::int64_t h) const;
  double at(std::int64_t h, std::int64_t r, std::int64_t c) const;
  std::int64_t size() const { return heads * rows * cols; }
  std::int64_t bytes() const { return size() * size_of(type); }
};

template <>
inline const float* Tensor::head<float>(std::int64_t h) const {
  return f32.data() + h * rows * cols;
}
template <>
inline const double* Tensor::head<double>(std::int64_t h) const {
  return f64.data() + h * rows * cols;
}
inline double Tensor::at(std::int64_t h, std::int64_t r, std::int64_t c) const {
  const std::int64_t at = (h * rows + r) * cols + c;
  return type == DType::float64 ? f64[at] : f32[at];
}

// An empty tensor of that shape, zero-filled.
Tensor make_tensor(DType type, std::int64_t heads, std::int64_t rows, std::int64_t cols);
// Stores a value, rounded to the tensor's type.
void set(Tensor& tensor, std::int64_t h, std::int64_t r, std::int64_t c, double value);

// What a person wants to know of a tensor on loading it.
struct TensorSummary {
  double min = 0, max = 0;  // of the finite values; NaN where there are none
  std::int64_t nan = 0, inf = 0;
};
TensorSummary summarise(const Tensor& tensor);

}  // namespace flashscope
