// Masks by rule: key padding, documents, a prefix, ALiBi and a cap of the scores. Each is a few numbers instead of a
// plane, and all are combined freely with causal, window, keep mask and bias: a key is visible if every one of
// them lets it be seen.
//
//   lengths    keys c >= length of the query head are padding
//   documents  a row sees the keys of its own document only
//   prefix     keys c < prefix are seen in spite of the causal mask (prefix LM); the other masks still hold
//   softcap    S = cap tanh(scale q k / cap), before any mask or bias (Gemma 2)
//   ALiBi      bias -slope |r + shift - c|, shift = Nk - Nq with bottom-right, else 0 (Press et al. 2022)
//
// They are no geometry: --skip geometry knows causal and window alone, and with a prefix the causal mask does not
// count either. --skip all leaves out every tile without a visible key, as it does for masks from files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace flashscope {

// The document of every row and key. Where every document is one run of keys (packed sequences), each row's run is
// known.
struct Documents {
  std::vector<std::int64_t> rows, keys;   // [Nq], [Nk]
  std::vector<std::int64_t> first, last;  // [Nq] run of keys [first, last); empty where some document has several
  bool runs() const { return !first.empty(); }
};
Documents make_documents(std::vector<std::int64_t> rows, std::vector<std::int64_t> keys);
// One list of ids for both. Nq != Nk: the rows are the first Nq of the sequence, or the last with bottom-right.
Documents make_documents(const std::vector<std::int64_t>& ids, std::int64_t Nq, std::int64_t Nk, bool bottom_right);

struct MaskRules {
  std::vector<std::int64_t> lengths;  // of each query head, or one for all; empty: none
  std::shared_ptr<const Documents> documents;
  std::optional<std::int64_t> prefix;
  std::vector<double> alibi;  // slope of each query head, or one for all; empty: none
  double softcap = 0;         // 0: none

  bool none() const { return lengths.empty() && !documents && !prefix && alibi.empty() && softcap == 0; }
  std::int64_t length(std::int64_t h) const { return lengths[lengths.size() == 1 ? 0 : h]; }
  double slope(std::int64_t h) const { return alibi.empty() ? 0 : alibi[alibi.size() == 1 ? 0 : h]; }
  bool operator==(const MaskRules&) const = default;
};

// The rules as they are asked for, before the sizes and heads of a problem are known.
struct RulesWanted {
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> document_ids;  // of the Nk keys
  std::optional<std::int64_t> prefix;
  std::vector<double> alibi;
  bool published_alibi = false;  // alibi_slopes of the heads
  double softcap = 0;
};
// `head`: for a problem of that head alone, of `heads`. Throws InputError.
MaskRules make_rules(const RulesWanted& wanted, std::int64_t heads, std::optional<std::int64_t> head, std::int64_t Nq,
                     std::int64_t Nk, bool bottom_right);

// The published slopes: 2^(-8 (h + 1) / H), for H heads that are not a power of two those of the next smaller power
// and every second of the next larger.
std::vector<double> alibi_slopes(std::int64_t heads);
// "lengths 5, documents, prefix 3, ALiBi 0.5, softcap 30"; empty for none.
std::string text(const MaskRules& rules);

}  // namespace flashscope
