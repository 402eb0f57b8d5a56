// tile_step: one row block of any recipe brought to one step, in one launch: a range of column blocks folded in whole
// (seeking), then the verbs of the tile on the chip up to the step's stage. All that is on the chip then is left in
// buffers for the screen.
//
//            visits: j_0 j_1 ... j_n-1    tile j
//          ┌──────────────────────────┬──────────┐
//      Q_i │ from -> start (m, l, O)  │ S  P     │   start: the state before the tile; m, l, O, alpha, ...: the state
//          └──────────────────────────┴──────────┘   after the verb. One warp a row; rows know nothing of each other.
//
// Traffic, in elements: what the range reads, bc (d + dv) a tile, and what is left for the screen; neither is measured,
// and loads keep L1 on.
//
// Any algorithm, guard, order and mask of the engine, and the defects of its fold, in its own arithmetic: see step.cuh
// and step_plan.cpp, which refuses the others. Constant: DOUBLE.
#include "step.cuh"

namespace flashscope::gpu {

// Row r of the row block.
template <class Real>
inline void step_row(const StepArguments& a, int r) {
  RowFold<Real> f(a.problem, a.head, a.row0 + r);
  const int dv = a.problem.dv;
  const auto at = [r](void* array) { return static_cast<Real*>(array) + r; };
  f.S = static_cast<Real*>(a.S) + r * a.pitch, f.P = static_cast<Real*>(a.P) + r * a.pitch;

  // Up to the tile: kept, so that a step further in the same tile starts from here.
  f.O = static_cast<Real*>(a.start_O) + static_cast<long long>(r) * dv;
  if (!a.from_m) {
    f.start();
  } else {  // `from` may be `start` itself: a thread reads only what it has written
    f.m = static_cast<const Real*>(a.from_m)[r], f.l = static_cast<const Real*>(a.from_l)[r];
    const Real* from = static_cast<const Real*>(a.from_O) + static_cast<long long>(r) * dv;
    for (int e = f.team.rank(); e < dv; e += Team::size) f.O[e] = from[e];
  }
  for (int n = 0; n < a.folds; ++n) f.fold_tile(a.visits[n]);
  Real* const O = static_cast<Real*>(a.O) + static_cast<long long>(r) * dv;
  for (int e = f.team.rank(); e < dv; e += Team::size) O[e] = f.O[e];
  f.O = O;
  if (f.team.rank() == 0) *at(a.start_m) = f.m, *at(a.start_l) = f.l;

  // The tile, verb by verb: the events of the last one count.
  f.note_row();
  int events = 0;
  const bool selects = a.problem.any_mask && !a.problem.mask_add;
  if (a.verb == Verb::finish) {
    const bool empty = f.is_empty();
    f.finish(empty);
    events = (empty ? kEmptyRow : 0) | f.note_row();
    if (f.team.rank() == 0) *at(a.LSE) = f.LSE(empty);
  } else if (a.verb != Verb::loaded) {
    if (a.problem.standard)
      f.begin_strip();
    else
      f.begin_tile(a.j);
    f.scores();
    if (a.problem.scores_decide) events = f.note_cells(f.S, selects);
    if (a.verb >= Verb::mask) f.mask(), events = f.note_cells(f.S, false);
    if (a.problem.standard) {
      if (a.verb >= Verb::softmax) f.softmax(), events = f.note_cells(f.P, false), events |= f.note_row();
      if (a.verb == Verb::multiply) {
        f.multiply();
        const bool empty = f.is_empty();
        f.finish(empty);
        events = f.note_row();
        if (f.team.rank() == 0) *at(a.LSE) = f.LSE(empty);
      }
    } else {
      if (a.verb >= Verb::max) {
        f.max();
        events = f.note_row();
        if (f.m_old == -infinity_of<Real>() && !is_inf(f.m)) events |= kFirstMax;
      }
      if (a.verb >= Verb::exponentials) f.exponentials(), events = f.note_cells(f.P, false);
      if (a.verb >= Verb::rescale) f.rescale(), events = (f.maximum_grew() ? kRescaled : 0) | f.note_row();
      if (a.verb >= Verb::accumulate) f.accumulate(), events = f.note_row();
    }
  }
  if (a.visible && !a.problem.standard && a.j >= 0) {
    f.begin_tile(a.j);
    for (long long c = f.team.rank(); c < f.cols; c += Team::size) a.visible[r * a.pitch + c] = f.visible(c);
  }
  if (f.team.rank() != 0) return;
  *at(a.m) = f.m, *at(a.l) = f.l, *at(a.alpha) = f.alpha, *at(a.o_factor) = f.o_factor, *at(a.row_sum) = f.row_sum;
  a.events[r] = static_cast<unsigned char>(events);
}

}  // namespace flashscope::gpu

#ifdef __CUDACC_RTC__
extern "C" __global__ void __launch_bounds__(128) tile_step(const flashscope::gpu::StepArguments a) {
  const int r = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / 32);
  if (r >= a.rows) return;
#if DOUBLE
  flashscope::gpu::step_row<double>(a, r);
#else
  flashscope::gpu::step_row<float>(a, r);
#endif
}
#endif
