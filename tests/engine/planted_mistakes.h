// For every entry of the gallery three problems on which it can be seen, each with its own shape, type, order and block
// sizes, and what a kernel with that mistake gives out for them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/files/output_file.h"
#include "tests/engine/support.h"

namespace flashscope::testing {

struct Planted {
  std::shared_ptr<const Problem> problem;
  Recipe recipe;  // as the person gives it: without the mistake
  KernelOutput output;
};
Planted plant(std::string_view name, int variant);  // 0, 1, 2
std::vector<std::string> gallery_names();

// A run as another kernel's output, in that type.
KernelOutput output_of(const Report& report, DType type);
Mask causal(Causal alignment, std::optional<Window> window = {});
Mask random_keep(const Shape& shape, bool empty_row = false);  // empty_row: rows 3, 10, 17, ...

}  // namespace flashscope::testing
