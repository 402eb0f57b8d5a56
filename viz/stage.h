// The stage: everything that must be in an exported frame, drawn into any current OpenGL 4.3 core
// context: the window's or an offscreen one. Takes plain data and plain input, returns commands; it
// never changes the document.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/attention/ledger.h"
#include "engine/attention/lse_convention.h"
#include "engine/attention/scan.h"
#include "engine/attention/trace.h"
#include "engine/insight/first_difference.h"
#include "viz/shared_chip.h"

namespace flashscope::viz {

using TraceStage = flashscope::Stage;  // a step's stage; viz::Stage is the picture

// Everything that is drawn, read-only, made by the document. Pointers may be null where there is nothing yet.
struct StageData {
  std::shared_ptr<const Problem> problem;
  std::shared_ptr<const Schedule> schedule;
  std::shared_ptr<const TraceState> state;
  std::shared_ptr<const SharedArrays> shared;   // the state's arrays where a GPU stepped; null: drawn from `state`
  std::shared_ptr<const ScanMap> map;           // of state->head
  std::shared_ptr<const SharedMap> shared_map;  // `map` in OpenGL's buffers where a GPU made it; else null
  std::shared_ptr<const ScanStrip> strip;       // of state->head
  std::shared_ptr<const std::vector<float>> o_row_norm;  // of state->head, [Nq], NaN: not reached
  ScanTotals totals;
  std::vector<Transfer> transfers;                 // of state->step
  ElementsAndBytes traffic_so_far, traffic_total;  // counted
  Formula formula;
  std::int64_t standard_elements_total = 0, standard_elements_so_far = 0;  // "at the same progress"
  Minimum minimum;
  Saving saving;
  OnChip on_chip;
  Footprint footprint;            // of this algorithm
  std::optional<RowCheck> check;  // of the row under the pointer or the first pinned row
  std::int64_t check_row = -1;
  std::vector<std::int64_t> pinned_rows;  // query rows followed across steps
  std::int64_t found_row = -1;            // that the last search is about, while it is on the chip
  std::string title;                      // problem name
  std::string conventions;                // one line, always visible
  LseConvention lse;                      // in which LSE is written
  std::string message;                    // one line for the person, e.g. an error; may be empty
  bool busy = false;                      // a seek is running; the picture is of the last state
  // A second recipe in step: its problem, schedule, state, on_chip, conventions; and what differs from it.
  std::shared_ptr<const StageData> beside;
  std::shared_ptr<const Differences> differences;
  std::uint64_t version = 0;  // changes whenever anything above changed
};

enum class MapColour { largest_score, rescaled_rows, softmax_mass, nan_count };

struct StageOptions {
  bool dark = true;
  MapColour map_colour = MapColour::largest_score;
  bool animate = true;        // transfers move; never delays a step
  float animation_speed = 1;  // 1: a transfer takes 0.6 s
  bool show_hex = false;      // values also as hex and ulp
};

// Input since the last frame, in order. Positions in pixels of the framebuffer, origin top left.
struct InputEvent {
  enum class Kind { move, leave, press, release, wheel, key_press, key_release, text } kind = Kind::move;
  float x = 0, y = 0;
  int button = 0;   // 0 left, 1 right, 2 middle
  float wheel = 0;  // notches, positive away from the person
  bool shift = false, ctrl = false, alt = false;
  bool double_click = false;
};
struct StageInput {
  int width = 1280, height = 720;  // framebuffer, pixels
  float scale = 1;                 // device pixel ratio; text sizes are multiplied by it
  double time = 0;                 // seconds, monotonic; fixed for exported frames
  unsigned framebuffer = 0;        // OpenGL name to draw into
  std::vector<InputEvent> events;
};

namespace command {
struct Seek {
  std::int64_t K;
};  // run strip, an event mark
struct SeekTile {
  std::int64_t i, j;
};  // tile map, HBM tiles
struct HoverRow {
  std::int64_t row;
};  // -1: none
// A cell of O, LSE, S, P, m, l or alpha was clicked.
struct PickCell {
  std::string of;
  std::int64_t head, row, col;  // query row; col: key, column of O, 0
};
struct PinRow {
  std::int64_t row;
  bool pinned;
};
struct SetMapColour {
  MapColour colour;
};
struct ToggleConvention {
  std::string which;
};  // "causal", "empty-row", "guard", "skip", "lse": its other one, a click away
struct Copy {
  std::string text;
};
}  // namespace command
using StageCommand = std::variant<command::Seek, command::SeekTile, command::HoverRow, command::PickCell,
                                  command::PinRow, command::SetMapColour, command::ToggleConvention, command::Copy>;

struct StageResult {
  std::vector<StageCommand> commands;
  bool wants_frame = false;    // an animation runs: draw again soon
  bool pointing_hand = false;  // cursor over something that can be clicked
  std::string tooltip;         // plain text of what is under the pointer (also drawn); for accessibility and tests
};

class Stage {
 public:
  Stage();   // needs a current context; throws std::runtime_error naming what is missing
  ~Stage();  // needs the same context current
  Stage(const Stage&) = delete;

  StageResult draw(const StageData& data, const StageOptions& options, const StageInput& input);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flashscope::viz
