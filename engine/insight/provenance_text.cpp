// What the provenance's questions and links are called.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>

#include "engine/error.h"
#include "engine/insight/provenance.h"

namespace flashscope {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::string range(const char* of, std::int64_t first, std::int64_t last) {
  return last - first == 1 ? fmt::format("{} {}", of, first) : fmt::format("{} {}..{}", of, first, last - 1);
}

void check_range(const char* what, std::int64_t value, std::int64_t count) {
  if (value < 0 || value >= count)
    throw InputError("why", fmt::format("{} {}", what, value), fmt::format("0 to {}", count - 1));
}

// A state that there is, and in which the cell has been computed.
void check_state(const Schedule& schedule, const Question& question) {
  if (!question.K) return;
  if (*question.K < 0 || *question.K > schedule.steps())
    throw InputError("why", fmt::format("step {}", *question.K), fmt::format("0 to {}", schedule.steps()));
  const bool standard = schedule.recipe().algorithm == Algorithm::standard;
  std::int64_t j = standard ? -1 : question.col;
  if (!standard && question.of != CellKind::alpha) j /= schedule.recipe().Bc;
  std::optional<Stage> stage;
  if (question.of == CellKind::S) stage = Stage::scores;
  if (question.of == CellKind::P) stage = standard ? Stage::softmax : Stage::exponentials;
  if (question.of == CellKind::alpha) stage = Stage::rescale;
  if (!stage) return;
  const auto step = schedule.find(question.head, question.row / schedule.recipe().Br, j, *stage);
  if (step && *question.K <= *step)
    throw InputError("why", fmt::format("{} in state {}, before it is computed", name(question.of), *question.K),
                     fmt::format("step {} or later", *step + 1));
}

}  // namespace

void check(const Question& question, const Schedule& schedule) {
  const Shape shape = schedule.shape();
  check_range("head", question.head, shape.heads);
  check_range("row", question.row, shape.Nq);
  if (question.of == CellKind::O) check_range("column", question.col, shape.dv);
  if (question.of == CellKind::S || question.of == CellKind::P) check_range("key", question.col, shape.Nk);
  if (question.of == CellKind::alpha) {
    if (schedule.recipe().algorithm == Algorithm::standard)
      throw InputError("why", "alpha of standard attention", "an algorithm that rescales: flash1 or flash2");
    check_range("column block", question.col, schedule.Tc());
  }
  check_state(schedule, question);
}

std::string_view name(CellKind kind) {
  constexpr std::array<std::string_view, 13> kNames = {"O", "LSE", "l", "m",    "alpha", "P",   "S",
                                                       "Q", "K",   "V", "bias", "tile",  "keys"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string one_line(const Provenance& provenance) { return one_line(provenance, 1); }

std::string place_text(const Link& link, std::int64_t heads) {
  const std::string start = fmt::format("{}[", name(link.of));
  if (heads == 1 || !link.place.starts_with(start)) return link.place;
  return fmt::format("{}{}, {}", start, link.head, link.place.substr(start.size()));
}

std::string one_line(const Provenance& provenance, std::int64_t heads) {
  std::string line;
  for (const Link& link : provenance.links) line += (line.empty() ? "" : " <- ") + place_text(link, heads);
  return line;
}

Question parse_question(std::string_view text, std::optional<std::int64_t> only_head) {
  const auto wrong = [&] {
    return InputError(
        "why", fmt::format("\"{}\"", text),
        "O[head,row,column], S[head,row,key], P[head,row,key], alpha[head,row,column block], l[head,row], "
        "m[head,row] or LSE[head,row]; @K behind it for the state K");
  };
  const std::size_t open = text.find('['), close = text.find(']');
  if (open == text.npos || close == text.npos || close < open) throw wrong();
  Question question;
  bool known = false;
  for (const CellKind q :
       {CellKind::O, CellKind::LSE, CellKind::l, CellKind::m, CellKind::alpha, CellKind::P, CellKind::S})
    if (text.substr(0, open) == name(q)) question.of = q, known = true;
  std::vector<std::int64_t> numbers;
  const auto read = [&](std::string_view word) {
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    std::int64_t n = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
    if (word.empty() || error != std::errc() || end != word.data() + word.size()) throw wrong();
    return n;
  };
  for (std::string_view rest = text.substr(open + 1, close - open - 1);;) {
    const std::size_t comma = rest.find(',');
    numbers.push_back(read(rest.substr(0, comma)));
    if (comma == rest.npos) break;
    rest.remove_prefix(comma + 1);
  }
  const bool has_column = question.of == CellKind::O || question.of == CellKind::S || question.of == CellKind::P ||
                          question.of == CellKind::alpha;
  if (only_head && numbers.size() == (has_column ? 2u : 1u)) numbers.insert(numbers.begin(), *only_head);
  if (!known || numbers.size() != (has_column ? 3u : 2u)) throw wrong();
  if (only_head && numbers[0] != *only_head)
    throw InputError("why", fmt::format("\"{}\", of head {}", text, numbers[0]),
                     fmt::format("head {0}, the only one that is open, or no head: O[row,column]", *only_head));
  question.head = numbers[0], question.row = numbers[1];
  if (has_column) question.col = numbers[2];
  if (close + 1 < text.size()) {
    if (text[close + 1] != '@') throw wrong();
    question.K = read(text.substr(close + 2));
  }
  return question;
}

std::string text(const Question& question) {
  std::string cell = fmt::format("{}[{},{}", name(question.of), question.head, question.row);
  if (question.col >= 0) cell += fmt::format(",{}", question.col);
  cell += "]";
  return question.K ? cell + fmt::format("@{}", *question.K) : cell;
}

std::string why_hidden(const Problem& problem, std::int64_t head, std::int64_t row, std::int64_t first,
                       std::int64_t last) {
  const Mask& mask = problem.mask;
  const Shape shape = problem.shape();
  const std::int64_t shift = mask.causal == Causal::bottom_right ? shape.Nk - shape.Nq : 0;
  const std::string keys = range("k", first, last);
  // The first mask that hides all of them explains all; else each one's share is counted.
  std::string whole;
  std::vector<std::string> parts;
  const auto look = [&](const std::string& what, const std::string& condition, auto hides) {
    std::int64_t count = 0;
    for (std::int64_t c = first; c < last; ++c) count += hides(c);
    if (count == 0 || !whole.empty()) return;
    if (count == last - first)
      whole = fmt::format("{}: {}{}", what, keys, condition);
    else
      parts.push_back(fmt::format("{} hides {}", what, count));
  };
  const std::string limit =
      shift != 0 ? fmt::format("q {} + Nk - Nq = {}", row, row + shift) : fmt::format("q {}", row);
  if (mask.causal != Causal::none)
    look(fmt::format("causal {}", name(mask.causal)), " > " + limit,
         [&](std::int64_t c) { return c > row + shift && !(mask.lifted() && c < *mask.rules.prefix); });
  if (mask.window) {
    const std::int64_t left = mask.window->left, right = mask.window->right;
    look(fmt::format("window {},{}", left, right),
         fmt::format(" outside {}..{}", row + shift - left, row + shift + right),
         [&](std::int64_t c) { return c < row + shift - left || c > row + shift + right; });
  }
  const MaskRules& rules = mask.rules;
  if (!rules.lengths.empty())
    look("padding", fmt::format(" >= length {}", rules.length(head)),
         [&](std::int64_t c) { return c >= rules.length(head); });
  if (rules.documents)
    look("documents", fmt::format(" are not of row {}'s document {}", row, rules.documents->rows[row]),
         [&](std::int64_t c) { return rules.documents->rows[row] != rules.documents->keys[c]; });
  if (mask.keep)
    look("keep mask", fmt::format(" are 0 for q {}", row),
         [&](std::int64_t c) { return !mask.keep->keep(head, row, c); });
  if (mask.bias)
    look("bias", fmt::format(" are -inf for q {}", row),
         [&](std::int64_t c) { return mask.bias->at(head, row, c) == -kInf; });
  if (!whole.empty()) return whole;
  return fmt::format("of {} {}", keys, fmt::join(parts, ", "));
}

}  // namespace flashscope
