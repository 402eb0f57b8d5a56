// How the chain behind a cell and the mask report are printed: JSON pieces, and lines for people.
#pragma once

#include <optional>

#include "app/command_line/output.h"
#include "engine/insight/mask_report.h"
#include "engine/insight/provenance.h"

namespace flashscope::command_line {

// `first_head`: number of the problem's first query head in the file.
Json json_of(const Provenance& provenance, std::int64_t first_head);
void print_why(const Provenance& provenance, std::int64_t heads, std::int64_t first_head);

struct MaskFindings {
  MaskReport report;
  std::optional<ScoreReport> scores;  // where a masked score can be finite
};
Json json_of(const MaskFindings& mask, std::int64_t first_head);
Json json_of(const std::vector<Convention>& conventions);
void print_mask(const Problem& problem, const MaskFindings& mask, std::int64_t first_head);
void print_conventions(const std::vector<Convention>& conventions);

}  // namespace flashscope::command_line
