// tile_stats: the whole tile map in one launch. For every visited tile its largest score, the rows whose maximum grew,
// the softmax weight on its keys, and its NaNs; for every row the norm of its O: what the engine's scan finds, in the
// engine's arithmetic (step.cuh). A map that would keep the GPU for long is made in several launches.
//
//              j ->                       one block of threads a row of cells; a warp a row of the row block, the
//          ┌────┬────┬────┐               block's warps meet after every tile, so that no cell is ever added to by
//      i   │cell│    │    │  <- block     two blocks and the sums keep their order. Two passes: what a tile weighs in
//          ├────┼────┼────┤               the end is known once the row's LSE is.
//          │    │    │    │
//
// Traffic, in elements: Q once, K twice and V once of every tile visited, by each row of it, through L1; not measured.
//
// A cell covers scale_i x scale_j tiles. Constant: DOUBLE.
#include "step.cuh"

namespace flashscope::gpu {

// What one warp found in its rows of a tile.
struct Partial {
  float largest;
  int rescaled, nan;
  double mass;
};

// A block of threads, on the host a single one.
struct Block {
#ifdef __CUDACC_RTC__
  static constexpr int warps = kStatsWarps;
  int warp() const { return static_cast<int>(threadIdx.x / 32); }
  int rank() const { return static_cast<int>(threadIdx.x); }
  void sync() const { __syncthreads(); }
#else
  static constexpr int warps = 1;
  int warp() const { return 0; }
  int rank() const { return 0; }
  void sync() const {}
#endif
  Partial* parts;  // [warps], shared
};

template <class Real>
class MapRow {
 public:
  // Cells of row `y` of the map of head `head`; `slot`: the scratch rows of S and P that are this block's.
  MapRow(const StatsArguments& a, const Block& block, long long slot, long long head, long long y)
      : a_(a), p_(a.problem), block_(block), head_(head), local_(head - a.head0) {
    cells_ = a.cells + (local_ * a.map_rows + y) * a.map_cols;
    const long long at = (slot * kStatsWarps + block.warp()) * a.pitch;
    S_ = static_cast<Real*>(a.S) + at, P_ = static_cast<Real*>(a.P) + at;
    for (long long x = block.rank(); x < a.map_cols && a.begin == 0; x += Team::size * Block::warps)
      cells_[x] = {static_cast<float>(infinity_of<Real>() - infinity_of<Real>()), 0, 0, 0};
    const long long last = (y + 1) * a.scale_i < a.Tr ? (y + 1) * a.scale_i : a.Tr;
    row_blocks_ = last - y * a.scale_i;
    for (long long i = y * a.scale_i; i < last; ++i) {
      row0_ = i * p_.Br, rows_ = p_.Nq - row0_ < p_.Br ? p_.Nq - row0_ : p_.Br;
      if (p_.standard)
        strips();
      else
        tiles(i);
    }
  }

 private:
  RowFold<Real> fold(long long r, bool with_output) const {
    RowFold<Real> f(p_, head_, row0_ + r);
    const long long row = local_ * p_.Nq + row0_ + r;
    f.m = static_cast<Real*>(a_.m)[row], f.l = static_cast<Real*>(a_.l)[row];
    f.O = with_output ? static_cast<Real*>(a_.O) + row * p_.dv : nullptr;
    f.S = S_, f.P = P_;
    return f;
  }
  void keep(const RowFold<Real>& f) const {
    const long long row = local_ * p_.Nq + f.row;
    f.team.sync();
    if (f.team.rank() == 0) static_cast<Real*>(a_.m)[row] = f.m, static_cast<Real*>(a_.l)[row] = f.l;
    f.team.sync();
  }
  Real& LSE(long long r) const { return static_cast<Real*>(a_.LSE)[local_ * p_.Nq + row0_ + r]; }
  void keep_norm(const RowFold<Real>& f) const {
    double mine = 0, squares = 0;
    for (int e = f.team.rank(); e < p_.dv; e += Team::size)
      mine += static_cast<double>(f.O[e]) * static_cast<double>(f.O[e]);
    for (int n = 0; n < Team::size; ++n) squares += f.team.from(mine, n);
    if (f.team.rank() == 0) a_.o_norm[local_ * p_.Nq + f.row] = static_cast<float>(sqrt(squares));
  }
  void start(long long r, bool with_output) const {
    RowFold<Real> f = fold(r, with_output);
    f.m = -infinity_of<Real>(), f.l = 0;
    if (with_output) f.start();
    keep(f);
  }

  bool visited(long long i, long long j) const {
    if (a_.visited) return a_.visited[(local_ * a_.Tr + i) * a_.Tc + j] != 0;
    if (a_.visit_all) return true;
    if (p_.band_lo >= p_.band_hi) return false;
    const long long col0 = j * p_.Bc, end = col0 + p_.Bc < p_.Nk ? col0 + p_.Bc : p_.Nk;
    return row0_ + p_.band_lo < end && row0_ + rows_ - 1 + p_.band_hi > col0;
  }

  // The warps' parts of tile j, in their order, into its cell.
  void merge(long long j, const Partial& mine, bool weights_only) {
    if (block_.rank() % Team::size == 0) block_.parts[block_.warp()] = mine;
    block_.sync();
    if (block_.rank() == 0) {
      TileCell& cell = cells_[j / a_.scale_j];
      double mass = 0;
      for (int w = 0; w < Block::warps; ++w) {
        const Partial& part = block_.parts[w];
        mass += part.mass;
        if (weights_only) continue;
        cell.largest_score = is_nan(cell.largest_score) ? part.largest : larger(part.largest, cell.largest_score);
        cell.rescaled_rows += static_cast<float>(part.rescaled), cell.nan_cells += static_cast<float>(part.nan);
      }
      cell.softmax_mass += static_cast<float>(mass / static_cast<double>(row_blocks_));
    }
    block_.sync();
  }
  static Partial nothing() { return {-infinity_of<float>(), 0, 0, 0}; }

  // Row block i in the launch's part of the two passes.
  void tiles(long long i) {
    for (long long r = block_.warp(); r < rows_ && a_.begin == 0; r += Block::warps) start(r, true);
    for (long long n = a_.begin; n < a_.end; ++n) {
      if (n == a_.Tc) end_first_pass();
      const bool first_pass = n < a_.Tc;
      const long long place = first_pass ? n : n - a_.Tc, j = a_.reverse ? a_.Tc - 1 - place : place;
      if (visited(i, j)) merge(j, first_pass ? counted(j) : weighed(j), !first_pass);
    }
  }
  Partial counted(long long j) const {
    Partial mine = nothing();
    for (long long r = block_.warp(); r < rows_; r += Block::warps) {
      RowFold<Real> f = fold(r, true);
      f.note_row();
      f.fold_tile(j);
      int nan = 0;
      for (long long c = f.team.rank(); c < f.padded; c += Team::size) nan += is_nan(f.P[c]);
      mine.nan += f.team.sum(nan) + ((f.note_row() & kNanRow) != 0);
      mine.largest = larger(static_cast<float>(f.tile_max), mine.largest);
      mine.rescaled += f.maximum_grew();
      keep(f);
    }
    return mine;
  }
  void end_first_pass() const {
    for (long long r = block_.warp(); r < rows_; r += Block::warps) {
      RowFold<Real> f = fold(r, true);
      const bool empty = f.is_empty();
      f.finish(empty);
      keep_norm(f);
      if (f.team.rank() == 0) LSE(r) = f.LSE(empty);
      f.team.sync();
      start(r, false);
    }
  }
  Partial weighed(long long j) const {
    Partial mine = nothing();
    for (long long r = block_.warp(); r < rows_; r += Block::warps) {
      RowFold<Real> f = fold(r, false);
      const Real l_before = f.l;
      f.fold_tile(j);
      const Real kept = f.alpha * l_before, sum = p_.own_maximum ? f.l - kept : f.row_sum;
      if (!(sum == 0))
        mine.mass += static_cast<double>(sum) * exp(static_cast<double>(f.m) - static_cast<double>(LSE(r))) /
                     static_cast<double>(rows_);
      keep(f);
    }
    return mine;
  }

  // Standard attention has no tiles: its strip in the same squares, after its softmax.
  void strips() {
    for (long long first = 0; first < rows_; first += Block::warps) {
      const long long r = first + block_.warp();
      const bool mine_too = r < rows_;
      RowFold<Real> f(p_, head_, row0_ + (mine_too ? r : 0));
      f.m = -infinity_of<Real>(), f.S = S_, f.P = P_;
      f.begin_strip();
      if (mine_too) {
        f.O = static_cast<Real*>(a_.O) + (local_ * p_.Nq + f.row) * p_.dv;
        f.scores(), f.mask(), f.softmax(), f.multiply();
        f.finish(f.is_empty());
        keep_norm(f);
      }
      for (long long j = 0; j < a_.Tc; ++j) {
        Partial mine = nothing();
        const long long end = (j + 1) * p_.Bc < p_.Nk ? (j + 1) * p_.Bc : p_.Nk;
        float largest = -infinity_of<float>();
        int nan = 0;
        double mass = 0;
        for (long long c = j * p_.Bc + f.team.rank(); c < end && mine_too; c += Team::size) {
          largest = larger(static_cast<float>(f.S[c]), largest);
          nan += is_nan(f.P[c]);
          mass += static_cast<double>(f.P[c]) / static_cast<double>(rows_);
        }
        mine.largest = f.team.max(largest), mine.nan = f.team.sum(nan);
        for (int n = 0; n < Team::size; ++n) mine.mass += f.team.from(mass, n);
        merge(j, mine, false);
      }
    }
  }

  const StatsArguments& a_;
  const StepProblem& p_;
  const Block& block_;
  long long head_, local_, row_blocks_ = 1, row0_ = 0, rows_ = 0;
  TileCell* cells_;
  Real *S_, *P_;
};

// The launch's rows of cells: block `slot` of `slots` takes every slots-th.
template <class Real>
inline void tile_map(const StatsArguments& a, const Block& block, long long slot, long long slots) {
  for (long long n = a.first + slot; n < a.last; n += slots)
    MapRow<Real>(a, block, slot, a.head0 + n / a.map_rows, n % a.map_rows);
}

}  // namespace flashscope::gpu

#ifdef __CUDACC_RTC__
extern "C" __global__ void __launch_bounds__(32 * flashscope::gpu::kStatsWarps)
    tile_stats(const flashscope::gpu::StatsArguments a) {
  __shared__ flashscope::gpu::Partial parts[flashscope::gpu::kStatsWarps];
#if DOUBLE
  flashscope::gpu::tile_map<double>(a, {parts}, blockIdx.x, gridDim.x);
#else
  flashscope::gpu::tile_map<float>(a, {parts}, blockIdx.x, gridDim.x);
#endif
}
#endif
