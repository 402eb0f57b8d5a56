// The mistakes that attention kernels are known for, the row that no guard protects, and the conventions that look like
// mistakes: what each is, the smallest input that shows it, the first step at which it differs from the right run, and
// what hides it from tests. One is a published recurrence (tile-max: the first paper's Algorithm 1 without its
// correction), shown beside the printed form that corrects it (numerators tile).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "engine/attention/problem.h"
#include "engine/attention/recipe.h"
#include "engine/attention/schedule.h"

namespace flashscope {

struct GalleryEntry {
  enum class Kind { defect, guard, convention };
  std::string_view name;  // the defect's word, or "unguarded", "causal-alignment", ...
  Kind kind = Kind::defect;
  std::string_view sentence;   // what it is
  std::string_view seen_when;  // where it can be seen
  std::string_view hidden_by;  // what hides it from tests
};
std::string_view name(GalleryEntry::Kind kind);

std::span<const GalleryEntry> gallery();
const GalleryEntry* find_in_gallery(std::string_view name);  // null: no such entry

// Two runs to be looked at side by side: the same numbers under the mistake and without it.
struct GalleryPair {
  std::shared_ptr<const Problem> problem, right_problem;  // differ for conventions of masks, scales and layouts
  Recipe recipe, right;
  std::string left_title, right_title;  // "no-rescale-o", "right"
};
// The smallest input that shows it. Throws InputError for a name that is not in the gallery.
GalleryPair smallest_example(std::string_view name);

// The first state in which the two runs differ: another step, or other numbers after the same one.
struct FirstDifference {
  std::int64_t step = 0;  // state number K
  Stage stage = Stage::scores;
  std::int64_t head = 0, i = 0, j = 0, row = -1;  // row: of Q; -1 where the steps themselves differ
  std::string quantity;                           // "S", "P", "m", "alpha", "l", "O", "LSE", "step"
  double value = 0, right = 0;
};
std::optional<FirstDifference> first_difference(const GalleryPair& pair, const std::stop_token& stop = {});
std::string text(const FirstDifference& difference);  // "step 14, rescale of tile (0, 1): O of row 0 is 10, not 5"

}  // namespace flashscope
