#include "engine/attention/device_bytes.h"

#include <fmt/format.h>

#include <utility>

#include "engine/attention/gpu_figures.h"

namespace flashscope {
namespace {

std::int64_t whole(long double bytes) {
  return bytes < 0x1p61L ? static_cast<std::int64_t>(bytes) : std::int64_t{1} << 61;
}

template <class Plane>
long double cells(const Plane& plane) {
  return static_cast<long double>(plane.heads) * static_cast<long double>(plane.rows) *
         static_cast<long double>(plane.cols);
}

}  // namespace

std::int64_t DeviceBytes::total() const { return tensors + masks + outputs + workspace; }

std::string text(const DeviceBytes& bytes) {
  std::string all;
  for (const auto& [n, what] :
       {std::pair{bytes.tensors, "Q, K, V"}, std::pair{bytes.masks, "masks"},
        std::pair{bytes.outputs, "outputs, running state, S and P"}, std::pair{bytes.workspace, "cuBLAS's workspace"}})
    if (n > 0) all += fmt::format("{}{} bytes of {}", all.empty() ? "" : " and ", n, what);
  return all;
}

DeviceBytes device_bytes(const Shape& s, const Mask& mask, const Recipe& recipe) {
  const auto rows = static_cast<long double>(s.heads) * static_cast<long double>(s.Nq),
             keys = static_cast<long double>(s.kv_heads) * static_cast<long double>(s.Nk);
  const long double dv = static_cast<long double>(s.dv), d = static_cast<long double>(s.d), element = size_of(s.type);
  DeviceBytes bytes;
  bytes.tensors = whole((rows * d + keys * (d + dv)) * element);

  const bool flash1 = recipe.algorithm == Algorithm::flash1, each = recipe.normalised() == Normalise::each;
  long double outputs = flash1 && each ? 0 : rows * (dv * element + 4);
  if (flash1) outputs += rows * (dv + 2) * 4;
  if (recipe.algorithm == Algorithm::standard) {
    outputs += 2 * rows * static_cast<long double>(s.Nk) * element;
    bytes.workspace = kProductsWorkspaceBytes;
  }
  bytes.outputs = whole(outputs);

  // As `lowered` makes them of rules.
  const long double plane = static_cast<long double>(s.Nq) * static_cast<long double>(s.Nk),
                    heads = static_cast<long double>(mask_heads(mask));
  long double planes = 0;
  if (!mask.rules.lengths.empty() || mask.rules.documents || mask.lifted())
    planes += heads * plane;
  else if (mask.keep)
    planes += cells(*mask.keep);
  if (!mask.rules.alibi.empty())
    planes += 4 * plane * (mask.rules.alibi.size() > 1 ? static_cast<long double>(s.heads) : heads);
  else if (mask.bias)
    planes += 4 * cells(*mask.bias);
  bytes.masks = whole(planes);
  return bytes;
}

}  // namespace flashscope
