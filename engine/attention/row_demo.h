// The online softmax of one row of scores in chunks, by hand: m, l, alpha, o after each chunk, with the
// rescale and (for comparison) without it. The sources' 12-score row and two-tile toy are built in.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace flashscope {

struct RowChunk {
  std::vector<double> scores;  // of this chunk
  double tile_max = 0, m = 0, alpha = 0, l = 0, l_without_rescale = 0;
  std::optional<double> o, o_without_rescale;  // un-normalised, where values were given
};

struct RowDemo {
  std::vector<RowChunk> chunks;
  double LSE = 0;
  std::vector<double> weights;  // softmax of the row by the online m and l
  double max_error = 0;         // against the whole-row softmax
  double max_error_without_rescale = 0;
  std::optional<double> output, output_without_rescale;  // o / l
};

// values is empty or as long as scores; chunk >= 1. Throws InputError.
RowDemo run_row(std::span<const double> scores, std::span<const double> values, int chunk);

struct BuiltInRow {
  std::string name, title;
  std::vector<double> scores, values;
  int chunk = 1;
};
const std::vector<BuiltInRow>& built_in_rows();  // "twelve", "toy"

}  // namespace flashscope
