// What each page of the explorer shows, computed from what is asked of it: no widgets, so that it runs in the
// background.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "app/run_list.h"
#include "app/window/explorer/explorer_controls.h"
#include "app/window/explorer/map_data.h"
#include "engine/insight/advisor.h"
#include "engine/insight/measured_chart.h"

namespace flashscope::window {

enum class Page { map, n, budget, d, roofline, orders, unfused, saving, footprint, advice, hardware };
std::optional<Along> along_of(Page page);  // where points along an axis are measured and shown

struct Asked {
  Page page = Page::map;
  ExplorerState state;
  std::shared_ptr<const SweepProblem> known;   // the last problem's visible scores: a pass over a mask from a file
  std::shared_ptr<const MeasuredSweep> sweep;  // that is shown; may be null
  std::vector<std::shared_ptr<const MeasuredSweep>> sweeps;  // all
  std::vector<RunPointer> runs;
  Recipe stepper;
};

struct MapPage {
  MapData map;
  std::optional<MapData> formula;  // beside a map of measured points: the same plane by the formula
};
struct AdvicePage {
  AdviceList formula;
  MeasuredAdviceList measured;
  std::shared_ptr<const MeasuredSweep> sweep;  // of the measured ones
};
// A string says why there is nothing to show.
using PageResult = std::variant<std::monostate, MapPage, Chart, AdvicePage, std::string>;
// Throws InputError, Cancelled.
PageResult compute_page(const Asked& asked, const std::stop_token& stop);

// The page on which a sweep's points are seen, and the point whose problem and recipe are explored for it.
Page page_of(const MeasuredSweep& sweep);
const MeasuredPoint& typical_point(const MeasuredSweep& sweep);

}  // namespace flashscope::window
