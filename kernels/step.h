// What tile_step and tile_stats are launched with. Shared by the host and by device code, so it includes nothing but
// arguments.h. Real is float, or double for float64 problems; all arrays of Real are void* here.
#pragma once
#include "arguments.h"

namespace flashscope::gpu {

// The problem and the recipe as the fold's verbs need them. `fold_lo`, `fold_hi` are the band that the fold masks by;
// under local-causal it is the window's alone, and keys beyond the row's own index inside the tile are masked as well.
struct StepProblem {
  const void *Q = nullptr, *K = nullptr, *V = nullptr;  // Real, as in Arguments
  Plane keep, bias;                                     // unsigned char, Real
  long long Nq = 0, Nk = 0, Br = 1, Bc = 1;
  long long band_lo = 0, band_hi = 0, fold_lo = 0, fold_hi = 0;
  int d = 0, dv = 0, group = 1;
  double scale = 1;
  double fill = 0;  // what masked scores become, or have added to them
  bool mask_add = false, any_mask = false, local_causal = false;
  bool scores_decide =
      true;               // a NaN among visible scores reaches the output: not where a defect masks by other indices
  bool pad_tail = false;  // unmasked-tail: the last tile goes on to a whole Bc with score 0 and value 0
  bool clamp = true, skip = false, guarded = true;
  bool standard = false, each = false;
  bool own_maximum = false, corrected = false;  // numerators on the tile's own maximum; corrected by exp(tile max - m)
  bool rescale_l = true, rescale_o = true, inverse = false, final_divide = true;
  int empty_row = 0;  // 0 zero, 1 NaN, 2 mean of V
};

// How far the tile on the chip, or the strip of standard attention, has come; in the order in which they run.
enum class Verb { loaded, scores, mask, max, exponentials, rescale, accumulate, finish, softmax, multiply };
// What happened to a row in the last verb, as bits.
enum RowEvent { kNanCells = 1, kNanRow = 2, kInfRow = 4, kFirstMax = 8, kRescaled = 16, kEmptyRow = 32 };

// One row block: the column blocks visits[0 .. folds) are folded in, then the verbs of tile `j` up to `verb` are done.
struct StepArguments {
  StepProblem problem;
  long long head = 0, row0 = 0;
  int rows = 0;
  const int* visits = nullptr;
  int folds = 0;
  long long j = -1;  // column block on the chip; -1: none, or the whole strip of standard attention
  Verb verb = Verb::loaded;
  long long pitch = 0;  // of S, P, visible
  // The state to start from, [rows], [rows], [rows][dv]; null: the beginning. The state with all folds done.
  const void *from_m = nullptr, *from_l = nullptr, *from_O = nullptr;
  void *start_m = nullptr, *start_l = nullptr, *start_O = nullptr;
  // What is on the chip after the last verb. S holds the masked scores also after the exponentials.
  void *m = nullptr, *l = nullptr, *O = nullptr, *alpha = nullptr, *o_factor = nullptr, *row_sum = nullptr;
  void *LSE = nullptr, *S = nullptr, *P = nullptr;
  unsigned char* visible = nullptr;  // [rows][pitch] by the mask; null: not wanted
  unsigned char* events = nullptr;   // [rows] bits of RowEvent
};

// One cell of the tile map, as ScanMap's cells: largest_score is NaN where no tile was visited.
struct TileCell {
  float largest_score, rescaled_rows, softmax_mass, nan_cells;
};

// The tile maps of the heads from head0 on: a row of cells is one block's work. A row block is gone over twice, Tc
// column blocks each time: 0 .. 2 Tc. A launch may do part of that; what it leaves to the next one is in m, l, O, LSE.
constexpr int kStatsWarps = 8;
struct StatsArguments {
  StepProblem problem;
  long long head0 = 0, Tr = 0, Tc = 0;
  long long map_rows = 0, map_cols = 0, scale_i = 1, scale_j = 1;  // cells; tiles a cell
  long long first = 0, last = 0;                                   // rows of cells that this launch does, of all heads
  long long begin = 0, end = 0;  // of the 2 Tc column blocks (standard attention's strips go whole, with begin 0)
  const unsigned char* visited = nullptr;  // [heads][Tr][Tc] where a mask from a file decides which; else null
  bool visit_all = false, reverse = false;
  TileCell* cells = nullptr;  // [heads][map_rows][map_cols]
  float* o_norm = nullptr;    // [heads][Nq] the Euclidean norm of each row of O
  // Scratch: [heads][Nq] (three times), [heads][Nq][dv]; [blocks][kStatsWarps][pitch].
  void *m = nullptr, *l = nullptr, *LSE = nullptr, *O = nullptr, *S = nullptr, *P = nullptr;
  long long pitch = 0;
};

}  // namespace flashscope::gpu
