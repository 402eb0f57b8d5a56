// Another kernel's output beside the right answer: NaN, Inf, right and wrong rows counted apart, the error against
// float64 next to what plain attention makes of the same problem in that precision, and where the wrong rows are.
//
// A row is right where every value is within the tolerance, 2 x plain attention's largest error + 2 ulp of max |V|
// (1e-12 for float64), in the coarser of the problem's type and the output's. NaN is never "within". An output whose
// every value is one of a 16-bit type is of that type, however wide it was stored: NumPy has no bfloat16.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/attention/recipe.h"
#include "engine/attention/trace.h"
#include "engine/files/output_file.h"

namespace flashscope {

// Two arrays, cell by cell. Equal infinities and two NaN are equal, and counted.
struct CellCounts {
  std::int64_t equal = 0, different = 0;  // within the tolerance or not, of finite pairs and equal infinities
  std::int64_t nan_theirs = 0, nan_right = 0, nan_both = 0;  // NaN on one side only, or on both
  std::int64_t inf = 0;                                      // an infinity on one side, or of the other sign
  double max_difference = 0;                                 // of finite pairs
  double rms = 0, spread = 0;  // of the differences; standard deviation of the right values. Finite pairs
  // 1: the error is as large as the spread of the answer, no agreement at all. NaN where nothing is finite.
  double rms_over_spread() const { return rms / spread; }
};
// "3 cells NaN in yours only, 8 cells NaN in both"; empty where there are none.
std::string nan_text(const CellCounts& cells);
CellCounts compare_cells(std::span<const double> theirs, std::span<const double> right, double tolerance);

enum class RowState : std::uint8_t { right, wrong, nan, inf };  // nan, inf: in theirs, and not in the right answer
std::string_view name(RowState state);

struct RowCounts {
  std::int64_t right = 0, wrong = 0, nan = 0, inf = 0;
};

// Where the rows that are not right lie.
struct Pattern {
  std::string kind = "none";   // none, every-row, rows-after, rows-before, row-range, row-blocks, rows-of-each-block,
                               // every-nth-row, one-row, scattered
  std::string heads = "none";  // none, every-head, one-head, every-other-head, some-heads
  std::string columns;         // "" (all columns of O), else last-columns, first-columns, triangle, some-columns
  std::string text;            // "every row from 192 on, in head 3 alone"
};

struct LseComparison {
  std::int64_t right = 0, wrong = 0, nan = 0;
  // +inf is how some kernels say "empty row, or NaN": on empty rows a convention, elsewhere not right.
  std::int64_t plus_inf_empty = 0, plus_inf = 0;
  double max_error = 0;       // of finite pairs
  bool from_m_and_l = false;  // the file had no LSE: m + ln l
  LseConvention read_as;      // else how it was read; errors are of the natural log
  bool all_right() const { return wrong + nan + plus_inf == 0; }
};

struct Comparison {
  Shape shape;
  DType precision = DType::float32;  // the coarser of the problem's and the output's
  std::optional<DType> values_are;   // the 16-bit type that every value of a wider output is one of
  std::string reference;             // what the right answer is: "float64", or for large problems the CPU's run
  double tolerance = 0;
  // Of plain attention in that precision; none for float64, whose tolerance is fixed.
  std::optional<double> plain_error;
  std::vector<RowCounts> heads;
  std::vector<RowState> rows;  // [heads][Nq]
  Buffer<float> row_error;     // [heads][Nq] largest |theirs - right| of the row; +inf or NaN as it is
  CellCounts cells;
  double max_error = 0;  // over rows without NaN or Inf
  std::int64_t worst_head = 0, worst_row = 0;
  std::optional<LseComparison> lse;
  Pattern pattern;
  Buffer<double> right_O, right_LSE;  // the right answer, [heads][Nq][dv] and [heads][Nq]

  RowCounts total() const;
  bool right() const { return total().right == static_cast<std::int64_t>(rows.size()) && (!lse || lse->all_right()); }
};

// The recipe says what the right answer of empty rows is, and the block sizes that patterns are named by.
// Throws InputError, Cancelled.
Comparison compare(const Problem& problem, const Recipe& recipe, const KernelOutput& theirs, int threads = 0,
                   const std::stop_token& stop = {}, const Progress& progress = {});

// The 16-bit type that every finite one of the values is exactly one of; none where too few of them differ to tell.
std::optional<DType> narrow_type(std::span<const double> values);

// How near to a right LSE counts as that LSE; nothing finite is near one of an empty row.
double lse_tolerance(DType precision, double lse);

// The pattern of any set of rows; `bad` has heads x Nq values. For compare and its tests.
Pattern name_pattern(std::span<const std::uint8_t> bad, const Shape& shape, const Recipe& recipe);

}  // namespace flashscope
