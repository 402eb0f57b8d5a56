// The background scan of a whole run: what each tile did, for the tile map, the run strip, the events
// list and the NaN counts. Starts at the current place, can be cancelled; what it has not reached is
// drawn as not reached. The map is a pyramid of at most 2048 x 2048 cells; events are per-tile counts
// with prefix sums, the rows recomputed when they are looked at.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/attention/trace.h"

namespace flashscope {

// One cell of the map: `scale_i` x `scale_j` tiles of one head.
struct MapCell {
  float largest_score = 0;  // NaN: not reached, or no visited tile in it
  float rescaled_rows = 0;  // sum
  float softmax_mass = 0;   // sum over its rows of the weight on its keys, / rows: 0..1 a tile
  float nan_cells = 0;      // NaN cells of P, and rows NaN
};

struct ScanMap {
  std::int64_t head = 0;
  std::int64_t rows = 0, cols = 0;           // cells
  std::int64_t scale_i = 1, scale_j = 1;     // tiles a cell
  std::vector<MapCell> cells;                // rows x cols
  std::vector<std::uint8_t> row_block_done;  // [rows] all row blocks of that cell row are scanned
  float max_score = 0, min_score = 0, max_rescaled = 0, max_mass = 0, max_nan = 0;
};

// A strip over the whole run of one head: `bins` equal parts of its steps.
struct ScanStrip {
  struct Bin {
    float reached = 0;   // share of its tiles scanned
    float rescaled = 0;  // rescaled rows / rows, mean over tiles
    bool masked = false, nan = false, inf = false;
  };
  std::vector<Bin> bins;
};

struct ScanTotals {
  std::int64_t tiles_scanned = 0, tiles = 0;
  std::int64_t first_max = 0, rescale = 0, masked = 0, empty_row = 0, nan = 0, inf = 0;  // so far
  bool complete = false;
};

class Scan {
 public:
  // Starts worker threads at the row block of state `from_K`. threads 0: all cores.
  Scan(std::shared_ptr<const Problem> problem, const Recipe& recipe, std::int64_t from_K, int threads = 0);
  ~Scan();  // cancels and joins

  void wait();  // until complete (tests, command line)
  bool complete() const;
  std::uint64_t version() const;  // grows whenever more has been scanned

  // Snapshots; thread-safe, cheap enough for every frame of a user interface when the version changed.
  ScanTotals totals() const;
  std::shared_ptr<const ScanMap> map(std::int64_t head) const;
  ScanStrip strip(std::int64_t head, int bins) const;

  // The list of events found so far among finished row blocks, ordered by step. `kinds`: bit set by EventKind.
  std::int64_t event_count(unsigned kinds) const;
  // Events [first, first + count) of that list; recomputes the tiles they are in. Not from the UI thread.
  std::vector<Event> events(unsigned kinds, std::int64_t first, std::int64_t count) const;

  // Colours of O's rows and marks of finished rows for the HBM view: per row of `head`: NaN where not reached.
  std::vector<float> o_row_norm(std::int64_t head) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flashscope
