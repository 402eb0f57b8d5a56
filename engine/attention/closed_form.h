// The closed form of a whole run by operand: what `counted` (ledger.h) adds up tile by tile, from floor sums over the
// band that causal and window leave, in O(log N) whatever the number of tiles. It reads shape, mask and recipe only,
// never the walk, and shares no code with the count.
#pragma once

#include "engine/attention/ledger.h"

namespace flashscope {

struct ClosedForm {
  Traffic elements;        // source units
  Traffic bytes;           // kernel units
  std::int64_t tiles = 0;  // visited; standard: row strips
  std::int64_t cells = 0;  // scores computed in them: real rows x real columns
  std::int64_t matmul_flops(const Shape& shape) const { return 2 * cells * (shape.d + shape.dv); }
};

// False where the visited tiles depend on a file's values: skip all with a mask from a file.
bool has_closed_form(const Mask& mask, const Recipe& recipe);
// All heads. Precondition: has_closed_form.
ClosedForm closed_form(const Shape& shape, const Mask& mask, const Recipe& recipe);

// Scores that causal and window leave visible, all heads; masks from files aside.
std::int64_t band_cells(const Shape& shape, const Mask& mask);

}  // namespace flashscope
