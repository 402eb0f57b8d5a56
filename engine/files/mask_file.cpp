// A mask from a file: any shape that broadcasts to (batch, head, Nq, Nk). Boolean and integer masks are
// packed to bits while they are read, so that the array itself is never in memory.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "engine/error.h"
#include "engine/files/loading.h"

namespace flashscope::files {
namespace {

constexpr std::uint64_t kOnes = 0x0101010101010101;

// Sets bits [column, column + values.size()) of a row that is still 0 there; values are 0 or 1, flip inverts them.
void pack(std::uint64_t* row, std::int64_t column, std::span<const std::uint8_t> values, bool flip) {
  std::size_t n = 0;
  while (n < values.size()) {
    const auto at = static_cast<std::uint64_t>(column) + n;
    if (at % 8 == 0 && values.size() - n >= 8) {
      std::uint64_t eight;
      std::memcpy(&eight, values.data() + n, 8);
      if (flip) eight ^= kOnes;
      row[at / 64] |= (eight * 0x0102040810204080 >> 56) << (at % 64);  // byte i to bit i
      n += 8;
    } else {
      row[at / 64] |= std::uint64_t{(values[n] != 0) != flip} << (at % 64);
      ++n;
    }
  }
}

std::string place_of(std::int64_t element, std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t n = shape.size(); n-- > 0;) {
    index[n] = element % shape[n];
    element /= shape[n];
  }
  return shape_text(index);
}

}  // namespace

std::int64_t MaskPlan::bytes() const {
  if (!is_bias()) return heads * rows * ((cols + 63) / 64) * 8;
  return elements() * (source.info.type == ElementType::float64 ? 8 : 4);
}

MaskPlan plan_mask(const Source& source, const MaskTarget& target) {
  const std::vector<std::int64_t>& shape = source.info.shape;
  const std::array<std::int64_t, 4> full = {target.batches, target.heads, target.Nq, target.Nk};
  std::array<std::int64_t, 4> dims = {1, 1, 1, 1};
  bool fits = shape.size() <= 4;
  for (std::size_t n = 0; fits && n < shape.size(); ++n) {
    const std::size_t at = 4 - shape.size() + n;
    dims[at] = shape[n];
    fits = dims[at] == 1 || dims[at] == full[at];
  }
  if (!fits) {
    std::string expected = fmt::format("a shape that broadcasts to (batch, head, Nq, Nk) = {}", shape_text(full));
    if (shape.size() == 2 && shape[0] == target.batches && shape[1] == target.Nk)
      expected += "; a padding mask (batch, Nk) as (batch, 1, 1, Nk)";
    if (shape.size() == 3 && shape[0] == target.batches) expected += "; a mask (batch, Nq, Nk) as (batch, 1, Nq, Nk)";
    throw InputError(source.where(), "shape " + shape_text(shape), expected);
  }
  MaskPlan plan{.source = source};
  const std::int64_t head_elements = dims[2] * dims[3];
  if (dims[0] > 1) plan.first = target.batch * dims[1] * head_elements;
  if (target.head && dims[1] > 1) plan.first += *target.head * head_elements;
  plan.heads = target.head ? 1 : dims[1];
  plan.rows = dims[2], plan.cols = dims[3];
  return plan;
}

KeepMask load_keep(const MaskPlan& plan, MaskMeans means, const std::stop_token& stop, const ReadProgress& progress) {
  KeepMask mask = make_keep_mask(plan.heads, plan.rows, plan.cols);
  const bool flip = means == MaskMeans::drop;
  const auto sink = [&](std::int64_t first, std::span<const std::uint8_t> values) {
    // Only what lies in the wanted batch and head.
    const auto count = static_cast<std::int64_t>(values.size());
    const std::int64_t begin = std::max(first, plan.first), end = std::min(first + count, plan.first + plan.elements());
    if (begin >= end) return;
    values = values.subspan(static_cast<std::size_t>(begin - first), static_cast<std::size_t>(end - begin));
    const auto other = std::find(values.begin(), values.end(), TensorFile::kOther);
    if (other != values.end())
      throw InputError(plan.source.where(),
                       fmt::format("{} other than 0 and 1 at {}", name(plan.source.info.type),
                                   place_of(begin + (other - values.begin()), plan.source.info.shape)),
                       "only 0 and 1 in a mask of integers (a mask that is added must be float)");
    for (std::int64_t at = begin - plan.first; !values.empty();) {
      const std::int64_t row = at / plan.cols, column = at % plan.cols;
      const auto run = std::min<std::size_t>(values.size(), static_cast<std::size_t>(plan.cols - column));
      pack(mask.bits.data() + row * mask.words_per_row, column, values.first(run), flip);
      values = values.subspan(run);
      at += static_cast<std::int64_t>(run);
    }
  };
  plan.source.file->stream(plan.source.info.name, sink, stop, progress);
  return mask;
}

Bias load_bias(const MaskPlan& plan, const std::stop_token& stop, const ReadProgress& progress) {
  Array array = plan.source.file->read_range(plan.source.info.name, plan.first, plan.elements(), stop, progress);
  Bias bias;
  bias.heads = plan.heads, bias.rows = plan.rows, bias.cols = plan.cols;
  bias.f32 = std::move(array.f32);
  bias.f64 = std::move(array.f64);
  bias.element_bytes = size_of(plan.source.info.type);
  return bias;
}

}  // namespace flashscope::files
