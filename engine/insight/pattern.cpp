// The names of patterns in the rows that are not right: what a person would say who sees the map.
#include <fmt/format.h>

#include <algorithm>

#include "engine/digits.h"
#include "engine/insight/compare.h"

namespace flashscope {
namespace {

using Rows = std::vector<std::int64_t>;

struct Named {
  std::string kind, text;
};

bool consecutive(const Rows& rows) { return rows.back() - rows.front() + 1 == static_cast<std::int64_t>(rows.size()); }

// "row 5", "rows 5 to 9"
std::string rows_words(std::int64_t first, std::int64_t last) {
  return first == last ? "row " + grouped(first) : fmt::format("rows {} to {}", grouped(first), grouped(last));
}

Named name_range(const Rows& rows, std::int64_t Nq, std::int64_t Nk, const Recipe& recipe) {
  const std::int64_t first = rows.front(), last = rows.back(), Br = recipe.Br;
  if (first == 0 && last == Nq - 1) return {"every-row", "every row"};
  if (first == last) return {"one-row", fmt::format("row {} alone", grouped(first))};
  const bool whole = first % Br == 0 && (last == Nq - 1 || (last + 1) % Br == 0);
  if (last == Nq - 1) {
    std::string text = fmt::format("every row from {} on", grouped(first));
    const std::int64_t last_block = (Nk - 1) / recipe.Bc * recipe.Bc;
    if (first == last_block)
      text += ", where the last column block begins";
    else if (first % recipe.Bc == 0)
      text += fmt::format(", where column block {} begins", first / recipe.Bc);
    if (whole && first / Br == (Nq - 1) / Br) return {"row-blocks", "the last row block, " + text};
    return {"rows-after", text};
  }
  if (whole) {
    const std::int64_t i = first / Br, end = last / Br;
    return {"row-blocks",
            i == end ? fmt::format("row block {} whole", i) : fmt::format("row blocks {} to {} whole", i, end)};
  }
  if (first == 0) return {"rows-before", fmt::format("the rows before {}", grouped(last + 1))};
  return {"row-range", rows_words(first, last)};
}

// Whole row blocks, with others between.
std::optional<Named> name_blocks(const Rows& rows, std::int64_t Nq, std::int64_t Br) {
  if (Br <= 1 || Br >= Nq) return {};
  Rows blocks;
  for (std::size_t n = 0; n < rows.size();) {
    const std::int64_t i = rows[n] / Br, size = std::min(Br, Nq - i * Br);
    if (rows[n] % Br != 0 || n + size > rows.size() || rows[n + size - 1] != i * Br + size - 1) return {};
    blocks.push_back(i);
    n += size;
  }
  if (blocks.size() > 2) {
    const std::int64_t step = blocks[1] - blocks[0];
    bool even = true;
    for (std::size_t n = 1; n < blocks.size(); ++n) even = even && blocks[n] - blocks[n - 1] == step;
    if (even && step == 2) return Named{"row-blocks", fmt::format("every other row block from {} on", blocks[0])};
    if (even) return Named{"row-blocks", fmt::format("every {}th row block from {} on", step, blocks[0])};
  }
  std::string list = fmt::format(
      "{}", fmt::join(blocks.begin(), blocks.begin() + std::min<std::ptrdiff_t>(6, std::ssize(blocks)), ", "));
  if (blocks.size() > 6) list += fmt::format(" and {} more", blocks.size() - 6);
  return Named{"row-blocks", fmt::format("whole row blocks: {}", list)};
}

// The same rows of each row block that has any.
std::optional<Named> name_offsets(const Rows& rows, std::int64_t Nq, std::int64_t Br) {
  if (Br <= 1 || Br >= Nq) return {};
  Rows first;
  std::int64_t blocks = 0;
  for (std::size_t n = 0; n < rows.size();) {
    const std::int64_t i = rows[n] / Br;
    Rows offsets;
    for (; n < rows.size() && rows[n] / Br == i; ++n) offsets.push_back(rows[n] % Br);
    const bool clipped = (i + 1) * Br > Nq;
    if (blocks == 0)
      first = offsets;
    else if (offsets != first &&
             !(clipped && offsets.size() < first.size() && std::equal(offsets.begin(), offsets.end(), first.begin())))
      return {};
    ++blocks;
  }
  if (blocks < 2 || !consecutive(first)) return {};
  return Named{"rows-of-each-block",
               fmt::format("{} of {} row blocks of {}", rows_words(first.front(), first.back()), blocks, Br)};
}

Named name_rows(const Rows& rows, const Shape& shape, const Recipe& recipe) {
  if (consecutive(rows)) return name_range(rows, shape.Nq, shape.Nk, recipe);
  if (const auto blocks = name_blocks(rows, shape.Nq, recipe.Br)) return *blocks;
  if (const auto offsets = name_offsets(rows, shape.Nq, recipe.Br)) return *offsets;
  const std::int64_t step = rows[1] - rows[0];
  bool even = rows.size() > 2;
  for (std::size_t n = 1; n < rows.size(); ++n) even = even && rows[n] - rows[n - 1] == step;
  if (even)
    return {"every-nth-row", step == 2 ? fmt::format("every other row from {} on", grouped(rows[0]))
                                       : fmt::format("every {}th row from {} on", step, grouped(rows[0]))};
  const auto n = static_cast<std::int64_t>(rows.size());
  if (n * 10 >= shape.Nq * 9) return {"scattered", "all but " + counted(shape.Nq - n, "row")};
  return {"scattered", fmt::format("{} of {} rows, from {} to {}, without a simple pattern", grouped(n),
                                   grouped(shape.Nq), grouped(rows.front()), grouped(rows.back()))};
}

Named name_heads(const Rows& heads, std::int64_t H) {
  const auto n = static_cast<std::int64_t>(heads.size());
  if (n == H) return {"every-head", H == 1 ? "" : "in every head"};
  if (n == 1) return {"one-head", fmt::format("in head {} alone", heads[0])};
  bool other = n >= 2 && heads.front() <= 1 && heads.back() >= H - 2;
  for (std::size_t k = 1; k < heads.size(); ++k) other = other && heads[k] - heads[k - 1] == 2;
  if (other) return {"every-other-head", fmt::format("in every other head from {} on", heads[0])};
  if (consecutive(heads)) return {"some-heads", fmt::format("in heads {} to {}", heads.front(), heads.back())};
  return {"some-heads", fmt::format("in {} of {} heads", n, H)};
}

}  // namespace

Pattern name_pattern(std::span<const std::uint8_t> bad, const Shape& shape, const Recipe& recipe) {
  Rows heads;
  std::vector<Rows> rows;
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    Rows of_head;
    for (std::int64_t r = 0; r < shape.Nq; ++r)
      if (bad[h * shape.Nq + r]) of_head.push_back(r);
    if (!of_head.empty()) heads.push_back(h), rows.push_back(std::move(of_head));
  }
  Pattern pattern;
  if (heads.empty()) return pattern;
  const Named named_heads = name_heads(heads, shape.heads);
  Named named = name_rows(rows[0], shape, recipe);
  for (const Rows& other : rows) {
    if (other == rows[0]) continue;
    const Named also = name_rows(other, shape, recipe);
    if (also.kind == named.kind && also.text == named.text) continue;
    std::int64_t all = 0;
    for (const Rows& of_head : rows) all += static_cast<std::int64_t>(of_head.size());
    named = {"scattered", fmt::format("{} of {} rows, not the same ones in each head", grouped(all),
                                      grouped(std::ssize(rows) * shape.Nq))};
    break;
  }
  pattern.kind = named.kind, pattern.heads = named_heads.kind;
  const bool said = named_heads.text.empty() || (named.kind == "scattered" && named_heads.kind == "every-head");
  pattern.text = named.text + (said ? "" : ", " + named_heads.text);
  return pattern;
}

}  // namespace flashscope
