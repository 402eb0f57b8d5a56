#include "engine/attention/mask_rules.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <map>

#include "engine/digits.h"
#include "engine/error.h"

namespace flashscope {

Documents make_documents(std::vector<std::int64_t> rows, std::vector<std::int64_t> keys) {
  Documents documents;
  std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> run;
  bool runs = true;
  for (std::int64_t c = 0; c < static_cast<std::int64_t>(keys.size()); ++c) {
    const auto [at, is_new] = run.try_emplace(keys[c], c, c + 1);
    if (is_new) continue;
    runs = runs && at->second.second == c;
    at->second.second = c + 1;
  }
  if (runs) {
    for (const std::int64_t id : rows) {
      const auto at = run.find(id);
      documents.first.push_back(at == run.end() ? 0 : at->second.first);
      documents.last.push_back(at == run.end() ? 0 : at->second.second);
    }
  }
  documents.rows = std::move(rows), documents.keys = std::move(keys);
  return documents;
}

Documents make_documents(const std::vector<std::int64_t>& ids, std::int64_t Nq, std::int64_t Nk, bool bottom_right) {
  std::vector<std::int64_t> rows;
  const std::int64_t shift = bottom_right ? Nk - Nq : 0;
  for (std::int64_t r = 0; r < Nq; ++r) {
    // A row beyond the keys belongs to no document.
    const std::int64_t at = r + shift;
    const bool inside = at >= 0 && at < static_cast<std::int64_t>(ids.size());
    rows.push_back(inside ? ids[at] : std::int64_t{-1} << 62);
  }
  return make_documents(std::move(rows), ids);
}

MaskRules make_rules(const RulesWanted& wanted, std::int64_t heads, std::optional<std::int64_t> head, std::int64_t Nq,
                     std::int64_t Nk, bool bottom_right) {
  MaskRules rules;
  const auto of_heads = [&](const char* what, const auto& values) {
    if (values.size() > 1 && static_cast<std::int64_t>(values.size()) != heads)
      throw InputError(what, fmt::format("{} of them", values.size()),
                       heads == 1 ? "one" : fmt::format("one, or one of each of {} heads", heads));
    auto chosen = values;
    if (head && values.size() > 1) chosen = {values[static_cast<std::size_t>(*head)]};
    return chosen;
  };
  rules.lengths = of_heads("lengths", wanted.lengths);
  rules.alibi = of_heads("ALiBi slopes", wanted.published_alibi ? alibi_slopes(heads) : wanted.alibi);
  rules.prefix = wanted.prefix, rules.softcap = wanted.softcap;
  if (wanted.document_ids.empty()) return rules;
  if (static_cast<std::int64_t>(wanted.document_ids.size()) != Nk)
    throw InputError("documents", "ids of " + counted(std::ssize(wanted.document_ids), "key"),
                     fmt::format("of {}", Nk));
  rules.documents = std::make_shared<const Documents>(make_documents(wanted.document_ids, Nq, Nk, bottom_right));
  return rules;
}

std::vector<double> alibi_slopes(std::int64_t heads) {
  const auto of = [](std::int64_t power, std::int64_t h) {
    return std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(power));
  };
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  std::vector<double> slopes;
  for (std::int64_t h = 0; h < power; ++h) slopes.push_back(of(power, h));
  for (std::int64_t h = 0; power + h < heads; ++h) slopes.push_back(of(2 * power, 2 * h));
  return slopes;
}

std::string text(const MaskRules& rules) {
  std::string words;
  const auto add = [&words](const std::string& more) { words += (words.empty() ? "" : ", ") + more; };
  if (rules.lengths.size() == 1) add(fmt::format("length {}", rules.lengths[0]));
  if (rules.lengths.size() > 1) add("lengths by head");
  if (rules.documents) add("documents");
  if (rules.prefix) add(fmt::format("prefix {}", *rules.prefix));
  if (rules.alibi.size() == 1) add(fmt::format("ALiBi {:.6g}", rules.alibi[0]));
  if (rules.alibi.size() > 1) add("ALiBi by head");
  if (rules.softcap != 0) add(fmt::format("softcap {:.6g}", rules.softcap));
  return words;
}

}  // namespace flashscope
