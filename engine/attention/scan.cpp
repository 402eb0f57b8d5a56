#include "engine/attention/scan.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <mutex>
#include <new>
#include <thread>

#include "engine/attention/row_walk.h"
#include "engine/error.h"
#include "engine/threads.h"

namespace flashscope {
namespace {

constexpr std::int64_t kMapSide = 2048;                      // cells of a map, at most, each way
constexpr std::int64_t kMapBytes = std::int64_t{128} << 20;  // of the maps of all heads together
constexpr std::int64_t kBuckets = 4 << 20;                   // of per-tile counts; more tiles share one
constexpr std::int64_t kMassCells = 8 << 20;                 // (tile, row) sums kept to know the mass at the end

// Counted kinds; `masked` follows from the schedule.
enum Counted { kFirstMax, kRescale, kNan, kInf, kCounted };

struct Bucket {
  std::atomic<std::uint32_t> scanned{0};
  std::array<std::atomic<std::uint32_t>, kCounted> counts{};
};

// What is known of one row block once it is scanned.
struct RowBlock {
  std::array<std::uint32_t, kCounted> counts{};  // in its tiles
  std::uint32_t masked = 0;                      // tiles not visited, or without a visible key
  std::uint32_t empty_rows = 0, finish_nan = 0, finish_inf = 0;
  bool done = false;
};

struct TileResult {
  std::int64_t j = 0;
  TileCounts counts;
  double mass = 0;
};

std::uint32_t of_kind(const std::array<std::uint32_t, kCounted>& counts, unsigned kinds) {
  const auto wants = [&](EventKind kind) { return (kinds >> static_cast<unsigned>(kind) & 1u) != 0; };
  return (wants(EventKind::first_max) ? counts[kFirstMax] : 0) + (wants(EventKind::rescale) ? counts[kRescale] : 0) +
         (wants(EventKind::nan) ? counts[kNan] : 0) + (wants(EventKind::inf) ? counts[kInf] : 0);
}

std::uint32_t at_finish(const RowBlock& block, unsigned kinds) {
  const auto wants = [&](EventKind kind) { return (kinds >> static_cast<unsigned>(kind) & 1u) != 0; };
  return (wants(EventKind::empty_row) ? block.empty_rows : 0) + (wants(EventKind::nan) ? block.finish_nan : 0) +
         (wants(EventKind::inf) ? block.finish_inf : 0);
}

}  // namespace

struct Scan::Impl {
  std::shared_ptr<const Problem> problem;
  Recipe recipe;
  Schedule schedule;
  std::int64_t heads, Tr, Tc, first_head = 0, first_row_block = 0;
  std::int64_t bucket_tiles = 1;
  std::vector<Bucket> buckets;
  std::vector<RowBlock> row_blocks;                      // [heads][Tr]
  std::vector<ScanMap> maps;                             // [heads]
  std::vector<std::vector<std::int64_t>> map_rows_done;  // [heads][cell rows] row blocks done
  std::vector<std::vector<float>> o_norms;               // [heads]; empty until its first row block
  ScanTotals totals;
  std::atomic<std::uint64_t> version{0};
  std::atomic<std::int64_t> next{0};
  mutable std::mutex mutex;  // row_blocks, maps, o_norms, totals
  mutable std::vector<std::pair<std::uint64_t, std::shared_ptr<const ScanMap>>> snapshots;
  std::vector<std::jthread> workers;

  Impl(std::shared_ptr<const Problem> of, const Recipe& by, std::int64_t from_K, int threads)
      : problem(std::move(of)),
        recipe(by),
        schedule(problem->shape(), problem->mask, by),
        heads(problem->shape().heads),
        Tr(schedule.Tr()),
        Tc(schedule.Tc()) {
    if (from_K > 0) {
      const Step step = schedule.step(std::min(from_K, schedule.steps()) - 1);
      first_head = step.head, first_row_block = std::max<std::int64_t>(0, step.i);
    }
    totals.tiles = schedule.tiles();
    bucket_tiles = std::max<std::int64_t>(1, (totals.tiles + kBuckets - 1) / kBuckets);
    buckets = std::vector<Bucket>((totals.tiles + bucket_tiles - 1) / bucket_tiles);
    row_blocks.resize(heads * Tr);
    o_norms.resize(heads);
    snapshots.resize(heads);
    const auto budget = static_cast<std::int64_t>(std::sqrt(kMapBytes / sizeof(MapCell) / heads));
    const std::int64_t side = std::clamp<std::int64_t>(budget, 64, kMapSide);
    maps.resize(heads);
    map_rows_done.resize(heads);
    for (std::int64_t h = 0; h < heads; ++h) {
      maps[h].head = h;
      maps[h].scale_i = (Tr + side - 1) / side, maps[h].scale_j = (Tc + side - 1) / side;
    }
    const int count = threads_or_cores(threads);
    for (int t = 0; t < count; ++t)
      workers.emplace_back([this](std::stop_token stop) {
        // The person's own seeks go first.
        setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 10);
        try {
          if (problem->in_double())
            work<double>(stop);
          else
            work<float>(stop);
        } catch (const std::bad_alloc&) {
          // Tiles too large for a fold on every core: what this worker would have scanned stays not reached.
        }
      });
  }
  ~Impl() {
    for (auto& worker : workers) worker.request_stop();
  }

  template <class T>
  void work(std::stop_token stop) {
    Fold<T> fold(*problem, recipe);
    std::vector<TileResult> tiles;
    for (;;) {
      const std::int64_t n = next++;
      if (n >= heads * Tr || stop.stop_requested()) return;
      const std::int64_t head = (first_head + n / Tr) % heads, i = (first_row_block + n % Tr) % Tr;
      tiles.clear();
      const bool whole = recipe.algorithm == Algorithm::standard ? scan_strip(fold, head, i, tiles)
                                                                 : scan_tiles(fold, head, i, tiles, stop);
      if (!whole) return;
      publish(fold, head, i, tiles);
    }
  }

  // Sums that became known tile by tile and turn into mass once LSE is known.
  template <class T>
  bool scan_tiles(Fold<T>& fold, std::int64_t head, std::int64_t i, std::vector<TileResult>& tiles,
                  std::stop_token stop) {
    const std::int64_t visits = schedule.visits(head, i), rows = schedule.rows(i);
    const bool twice = visits * rows > kMassCells;  // too many sums to keep: fold again when LSE is known
    std::vector<T> sums, tops;
    std::vector<T> l_before(rows);
    // The weight that this tile added to l, and the maximum it is relative to.
    const auto weights = [&](auto use) {
      for (std::int64_t r = 0; r < rows; ++r) {
        const T kept = fold.alpha()[r] * l_before[r];
        const bool own_maximum = recipe.numerators == Numerators::tile || recipe.defect == Defect::tile_max;
        use(r, own_maximum ? fold.l()[r] - kept : fold.row_sum()[r], fold.m()[r]);
      }
    };
    start_row_block(fold, schedule, head, i);
    for (std::int64_t n = 0; n < visits; ++n) {
      if (stop.stop_requested()) return false;
      std::copy(fold.l(), fold.l() + rows, l_before.begin());
      TileResult tile;
      tile.j = schedule.visit_j(head, i, n);
      tile.counts = fold_visit_counted(fold, schedule, head, i, n);
      tiles.push_back(tile);
      if (!twice) weights([&](std::int64_t, T sum, T top) { sums.push_back(sum), tops.push_back(top); });
    }
    fold.finish();
    const std::vector<T> lse(fold.LSE(), fold.LSE() + rows);
    const auto mass = [&](std::int64_t r, T sum, T top) -> double {
      return sum == 0
                 ? 0
                 : static_cast<double>(sum) * std::exp(static_cast<double>(top) - lse[r]) / static_cast<double>(rows);
    };
    if (!twice) {
      for (std::int64_t n = 0; n < visits; ++n)
        for (std::int64_t r = 0; r < rows; ++r) tiles[n].mass += mass(r, sums[n * rows + r], tops[n * rows + r]);
      return true;
    }
    start_row_block(fold, schedule, head, i);
    for (std::int64_t n = 0; n < visits; ++n) {
      if (stop.stop_requested()) return false;
      std::copy(fold.l(), fold.l() + rows, l_before.begin());
      fold_visit_counted(fold, schedule, head, i, n);
      weights([&](std::int64_t r, T sum, T top) { tiles[n].mass += mass(r, sum, top); });
    }
    fold.finish();
    return true;
  }

  // Standard attention has no tiles; its strip is shown in the same squares.
  template <class T>
  bool scan_strip(Fold<T>& fold, std::int64_t head, std::int64_t i, std::vector<TileResult>& tiles) {
    const std::int64_t rows = schedule.rows(i), Bc = recipe.Bc, Nk = problem->shape().Nk;
    start_row_block(fold, schedule, head, i);
    begin_strip(fold, schedule, head, i);
    fold.scores();
    fold.mask();
    const auto each_cell = [&](auto use) {
      for (std::int64_t c = 0; c < Nk; ++c)
        for (std::int64_t r = 0; r < rows; ++r) use(tiles[c / Bc], static_cast<double>(fold.S()[c * fold.lanes() + r]));
    };
    tiles.resize(Tc);
    for (std::int64_t j = 0; j < Tc; ++j) tiles[j].j = j, tiles[j].counts.largest_score = -INFINITY;
    each_cell([](TileResult& tile, double s) {
      if (s > tile.counts.largest_score) tile.counts.largest_score = s;
    });
    fold.softmax();
    each_cell([&](TileResult& tile, double p) {
      tile.counts.nan_cells += std::isnan(p);
      tile.mass += p / static_cast<double>(rows);
    });
    fold.multiply();
    fold.finish();
    return true;
  }

  template <class T>
  void publish(const Fold<T>& fold, std::int64_t head, std::int64_t i, const std::vector<TileResult>& tiles) {
    const std::int64_t rows = schedule.rows(i), dv = problem->shape().dv;
    const bool standard = recipe.algorithm == Algorithm::standard;
    std::vector<float> norms(rows);
    std::uint32_t nan_rows = 0, inf_rows = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      double squares = 0;
      bool inf = false;
      for (std::int64_t e = 0; e < dv; ++e) {
        const double o = fold.O()[e * fold.lanes() + r];
        squares += o * o;
        inf = inf || std::isinf(o);
      }
      nan_rows += std::isnan(squares), inf_rows += inf;
      norms[r] = static_cast<float>(std::sqrt(squares));
    }
    RowBlock block;
    block.done = true;
    block.masked = static_cast<std::uint32_t>(standard ? 0 : Tc - static_cast<std::int64_t>(tiles.size()));
    for (const TileResult& tile : tiles) {
      block.counts[kFirstMax] += tile.counts.first_max, block.counts[kRescale] += tile.counts.rescaled;
      block.counts[kNan] += tile.counts.new_nan, block.counts[kInf] += tile.counts.new_inf;
      if (!standard && schedule.tile_class(head, i, tile.j) == TileClass::empty) ++block.masked;
    }
    for (const std::uint8_t empty : fold.empty()) block.empty_rows += standard ? 0 : empty;
    if (standard) block.counts[kNan] = nan_rows, block.counts[kInf] = inf_rows;
    block.finish_nan = nan_rows > block.counts[kNan] ? nan_rows - block.counts[kNan] : 0;
    block.finish_inf = inf_rows > block.counts[kInf] ? inf_rows - block.counts[kInf] : 0;

    // All at once: a reader never sees a tile counted whose row block is not done.
    const std::lock_guard lock(mutex);
    if (standard) {
      Bucket& bucket = buckets[schedule.tile_ordinal(head, i, -1) / bucket_tiles];
      ++bucket.scanned;
      bucket.counts[kNan] += nan_rows, bucket.counts[kInf] += inf_rows;
    } else {
      for (const TileResult& tile : tiles) {
        Bucket& bucket = buckets[schedule.tile_ordinal(head, i, tile.j) / bucket_tiles];
        ++bucket.scanned;
        bucket.counts[kFirstMax] += tile.counts.first_max, bucket.counts[kRescale] += tile.counts.rescaled;
        bucket.counts[kNan] += tile.counts.new_nan, bucket.counts[kInf] += tile.counts.new_inf;
      }
    }
    row_blocks[head * Tr + i] = block;
    if (o_norms[head].empty()) o_norms[head].assign(problem->shape().Nq, std::nanf(""));
    std::copy(norms.begin(), norms.end(), o_norms[head].begin() + i * recipe.Br);
    merge(head, i, tiles);
    totals.tiles_scanned += standard ? 1 : static_cast<std::int64_t>(tiles.size());
    totals.first_max += block.counts[kFirstMax], totals.rescale += block.counts[kRescale];
    totals.nan += block.counts[kNan] + block.finish_nan, totals.inf += block.counts[kInf] + block.finish_inf;
    totals.masked += block.masked, totals.empty_row += block.empty_rows;
    totals.complete = ++done_row_blocks == heads * Tr;
    ++version;
  }
  std::int64_t done_row_blocks = 0;

  void merge(std::int64_t head, std::int64_t i, const std::vector<TileResult>& tiles) {
    ScanMap& map = maps[head];
    if (map.cells.empty()) {
      map.rows = (Tr + map.scale_i - 1) / map.scale_i, map.cols = (Tc + map.scale_j - 1) / map.scale_j;
      map.cells.assign(map.rows * map.cols, {std::nanf(""), 0, 0, 0});
      map.row_block_done.assign(map.rows, 0);
      map_rows_done[head].assign(map.rows, 0);
      map.min_score = INFINITY, map.max_score = -INFINITY;
    }
    const std::int64_t y = i / map.scale_i;
    const std::int64_t blocks = std::min(map.scale_i, Tr - y * map.scale_i);
    for (const TileResult& tile : tiles) {
      MapCell& cell = map.cells[y * map.cols + tile.j / map.scale_j];
      const auto largest = static_cast<float>(tile.counts.largest_score);
      cell.largest_score = std::isnan(cell.largest_score) ? largest : std::max(cell.largest_score, largest);
      cell.rescaled_rows += static_cast<float>(tile.counts.rescaled);
      cell.softmax_mass += static_cast<float>(tile.mass / static_cast<double>(blocks));
      cell.nan_cells += static_cast<float>(tile.counts.nan_cells + tile.counts.new_nan);
      if (std::isfinite(largest))
        map.min_score = std::min(map.min_score, largest), map.max_score = std::max(map.max_score, largest);
      map.max_rescaled = std::max(map.max_rescaled, cell.rescaled_rows);
      if (cell.softmax_mass > map.max_mass) map.max_mass = cell.softmax_mass;
      map.max_nan = std::max(map.max_nan, cell.nan_cells);
    }
    map.row_block_done[y] = ++map_rows_done[head][y] == blocks;
  }

  // ---- the events list: units in the order of steps. flash2: row blocks. flash1, standard: buckets of tiles
  // of each head, then the finishes of its row blocks.
  bool by_row_block() const { return recipe.algorithm == Algorithm::flash2; }

  std::uint32_t count_of_block(const RowBlock& block, unsigned kinds) const {
    if (!block.done) return 0;
    const bool masked = kinds >> static_cast<unsigned>(EventKind::masked) & 1u;
    return of_kind(block.counts, kinds) + at_finish(block, kinds) + (masked ? block.masked : 0);
  }
  std::uint32_t count_of_bucket(const Bucket& bucket, unsigned kinds) const {
    std::array<std::uint32_t, kCounted> counts{};
    for (int n = 0; n < kCounted; ++n) counts[n] = bucket.counts[n].load(std::memory_order_relaxed);
    return of_kind(counts, kinds);
  }

  // Calls visit(first index, count, unit) for each unit with events; stops when it returns false. A unit is
  // {true, row block} or {false, bucket}.
  template <class Visit>
  void each_unit(unsigned kinds, Visit visit) const {
    std::int64_t index = 0;
    const auto unit = [&](std::int64_t count, bool is_row_block, std::int64_t n) {
      if (count == 0) return true;
      const bool more = visit(index, count, is_row_block, n);
      index += count;
      return more;
    };
    if (by_row_block()) {
      for (std::int64_t n = 0; n < heads * Tr; ++n)
        if (!unit(count_of_block(row_blocks[n], kinds), true, n)) return;
      return;
    }
    for (std::size_t b = 0; b < buckets.size(); ++b)
      if (!unit(count_of_bucket(buckets[b], kinds), false, static_cast<std::int64_t>(b))) return;
    for (std::int64_t n = 0; n < heads * Tr; ++n)
      if (row_blocks[n].done && !unit(at_finish(row_blocks[n], kinds), true, n)) return;
  }

  std::vector<Event> events_of(Trace& trace, bool is_row_block, std::int64_t n, unsigned kinds) const {
    std::vector<Event> events;
    // Of buckets `masked` is not counted, so it is not listed either: the pages would overlap.
    if (!by_row_block()) kinds &= ~(1u << static_cast<unsigned>(EventKind::masked));
    const auto append = [&](const std::vector<Event>& more) {
      for (const Event& event : more)
        if (kinds >> static_cast<unsigned>(event.kind) & 1u) events.push_back(event);
    };
    if (!is_row_block) {
      for (std::int64_t t = n * bucket_tiles; t < std::min((n + 1) * bucket_tiles, schedule.tiles()); ++t) {
        const Step tile = schedule.tile_at(t);
        const bool done = [&] {
          const std::lock_guard lock(mutex);
          return row_blocks[tile.head * Tr + tile.i].done;
        }();
        if (done) append(trace.tile_events(tile.head, tile.i, tile.j));
      }
      return events;
    }
    const std::int64_t head = n / Tr, i = n % Tr;
    if (by_row_block()) {
      for (std::int64_t v = 0; v < schedule.visits(head, i); ++v)
        append(trace.tile_events(head, i, schedule.visit_j(head, i, v)));
      if (kinds >> static_cast<unsigned>(EventKind::masked) & 1u) append(trace.skipped_tiles(head, i));
    }
    append(trace.finish_events(head, i));
    std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.step < b.step; });
    return events;
  }
};

Scan::Scan(std::shared_ptr<const Problem> problem, const Recipe& recipe, std::int64_t from_K, int threads)
    : impl_(std::make_unique<Impl>(std::move(problem), recipe, from_K, threads)) {}
Scan::~Scan() = default;

void Scan::wait() {
  for (auto& worker : impl_->workers)
    if (worker.joinable()) worker.join();
}

bool Scan::complete() const { return totals().complete; }
std::uint64_t Scan::version() const { return impl_->version.load(); }

ScanTotals Scan::totals() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->totals;
}

std::shared_ptr<const ScanMap> Scan::map(std::int64_t head) const {
  const std::lock_guard lock(impl_->mutex);
  auto& [version, snapshot] = impl_->snapshots[head];
  if (!snapshot || version != impl_->version.load()) {
    snapshot = std::make_shared<const ScanMap>(impl_->maps[head]);
    version = impl_->version.load();
  }
  return snapshot;
}

ScanStrip Scan::strip(std::int64_t head, int bins) const {
  const Impl& s = *impl_;
  const Schedule& schedule = s.schedule;
  ScanStrip strip;
  strip.bins.resize(bins);
  const std::int64_t first = schedule.head_start(head), steps = schedule.head_start(head + 1) - first;
  const std::int64_t first_tile = schedule.next_tile(first), end_tile = schedule.next_tile(first + steps);
  const std::lock_guard lock(s.mutex);
  for (int b = 0; b < bins; ++b) {
    ScanStrip::Bin& bin = strip.bins[b];
    const std::int64_t k0 = first + steps * b / bins, k1 = first + steps * (b + 1) / bins;
    // Steps after the head's last tile show as that tile, never as the next head's.
    const std::int64_t t0 = std::min(schedule.next_tile(k0), end_tile - 1),
                       t1 = std::max(t0 + 1, std::min(schedule.next_tile(k1), end_tile));
    double scanned = 0, rescaled = 0, tiles = 0;
    for (std::int64_t bucket = t0 / s.bucket_tiles; t0 >= first_tile && bucket <= (t1 - 1) / s.bucket_tiles; ++bucket) {
      const Bucket& counts = s.buckets[bucket];
      scanned += counts.scanned.load(), rescaled += counts.counts[kRescale].load();
      tiles += static_cast<double>(std::min(s.bucket_tiles, schedule.tiles() - bucket * s.bucket_tiles));
      bin.nan = bin.nan || counts.counts[kNan].load() > 0;
      bin.inf = bin.inf || counts.counts[kInf].load() > 0;
    }
    const auto rows = static_cast<double>(std::min(s.recipe.Br, s.problem->shape().Nq));
    bin.reached = tiles > 0 ? static_cast<float>(scanned / tiles) : 0;
    bin.rescaled = scanned > 0 ? static_cast<float>(rescaled / (scanned * rows)) : 0;
  }
  // Marks of whole row blocks: masked tiles beside their first visited tile or finish, NaN at finish.
  const auto bin_of = [&](std::int64_t k) -> ScanStrip::Bin& {
    return strip.bins[std::clamp<std::int64_t>((k - first) * bins / std::max<std::int64_t>(1, steps), 0, bins - 1)];
  };
  const std::int64_t stride = std::max<std::int64_t>(1, s.Tr / 65536);
  for (std::int64_t i = 0; i < s.Tr; i += stride) {
    const RowBlock& block = s.row_blocks[head * s.Tr + i];
    const auto finish = schedule.find(head, i, -1, Stage::finish);
    if (!finish) continue;
    if (block.finish_nan > 0) bin_of(*finish).nan = true;
    const std::int64_t visits = schedule.visits(head, i);
    if (!s.by_row_block() || visits == s.Tc) continue;
    const bool reverse = s.recipe.order == Order::reverse;
    const bool leads = visits > 0 && schedule.visit_j(head, i, 0) != (reverse ? s.Tc - 1 : 0);
    const bool trails = visits == 0 || schedule.visit_j(head, i, visits - 1) != (reverse ? 0 : s.Tc - 1);
    if (leads) bin_of(*schedule.find(head, i, -1, Stage::load_q)).masked = true;
    if (trails) bin_of(*finish).masked = true;
  }
  return strip;
}

std::int64_t Scan::event_count(unsigned kinds) const {
  const std::lock_guard lock(impl_->mutex);
  std::int64_t count = 0;
  impl_->each_unit(kinds, [&](std::int64_t first, std::int64_t n, bool, std::int64_t) {
    count = first + n;
    return true;
  });
  return count;
}

std::vector<Event> Scan::events(unsigned kinds, std::int64_t first, std::int64_t count) const {
  struct Unit {
    std::int64_t first;
    bool is_row_block;
    std::int64_t n;
  };
  std::vector<Unit> units;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->each_unit(kinds, [&](std::int64_t index, std::int64_t n, bool is_row_block, std::int64_t unit) {
      if (index + n > first && index < first + count) units.push_back({index, is_row_block, unit});
      return index < first + count;
    });
  }
  std::vector<Event> page;
  Trace trace(impl_->problem, impl_->recipe);
  for (const Unit& unit : units) {
    std::int64_t index = unit.first;
    for (const Event& event : impl_->events_of(trace, unit.is_row_block, unit.n, kinds)) {
      if (index >= first && index < first + count) page.push_back(event);
      ++index;
    }
  }
  return page;
}

std::vector<float> Scan::o_row_norm(std::int64_t head) const {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->o_norms[head].empty()) return std::vector<float>(impl_->problem->shape().Nq, std::nanf(""));
  return impl_->o_norms[head];
}

}  // namespace flashscope
