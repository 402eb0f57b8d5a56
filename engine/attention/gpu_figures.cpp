#include "engine/attention/gpu_figures.h"

namespace flashscope {

std::string_view name(Caches caches) {
  switch (caches) {
    case Caches::cold:
      return "cold";
    case Caches::mixed:
      return "mixed";
    case Caches::warm:
      return "warm";
  }
  return "unknown";
}

// A set is used again after all others: by then an L2 half their size has lost it.
std::optional<Caches> GpuFigures::input_caches(std::int64_t tensor_bytes) const {
  if (!l2_bytes) return {};
  const std::int64_t all = input_sets * tensor_bytes;
  return all >= 2 * *l2_bytes ? Caches::cold : 2 * all <= *l2_bytes ? Caches::warm : Caches::mixed;
}

}  // namespace flashscope
