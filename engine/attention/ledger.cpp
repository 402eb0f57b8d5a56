// Counting what moves: transfers of one step, and their sum over the walk. The sum goes over row blocks and
// column blocks in whole, and over single steps only inside the tile that state K is in.
#include "engine/attention/ledger.h"

#include <algorithm>

namespace flashscope {
namespace {

using enum Operand;

// The running O of flash1 has the accumulator's type like m and l; the O that a kernel leaves, the problem's.
enum class Kind { final, running };

int element_bytes(const Schedule& schedule, Operand operand, Kind kind) {
  const DType type = schedule.shape().type;
  const int accumulator = type == DType::float64 ? 8 : 4;
  switch (operand) {
    case Q:
    case K:
    case V:
    case S:
    case P:
      return size_of(type);
    case O:
      return kind == Kind::running ? accumulator : size_of(type);
    case m:
    case l:
    case LSE:
      return accumulator;
    case mask:
      return 1;  // a boolean
    case bias:
      return schedule.mask().bias->element_bytes;
  }
  return 0;
}

// What moved so far. Amounts are added in whole blocks.
class Tally {
 public:
  explicit Tally(const Schedule& schedule) : schedule_(schedule) {}

  void read(Operand operand, std::int64_t elements, Kind kind = Kind::final) {
    sum_.elements[operand].read += elements;
    sum_.bytes[operand].read += elements * element_bytes(schedule_, operand, kind);
  }
  void write(Operand operand, std::int64_t elements, Kind kind = Kind::final) {
    sum_.elements[operand].written += elements;
    sum_.bytes[operand].written += elements * element_bytes(schedule_, operand, kind);
  }
  // The mask's and the bias's parts of `tiles` tiles that share `br` rows and hold `bc` columns together.
  void read_masks(std::int64_t br, std::int64_t tiles, std::int64_t bc) {
    const Mask& masks = schedule_.mask();
    if (masks.keep) read(mask, (masks.keep->rows == 1 ? 1 : br) * (masks.keep->cols == 1 ? tiles : bc));
    if (masks.bias) read(bias, (masks.bias->rows == 1 ? 1 : br) * (masks.bias->cols == 1 ? tiles : bc));
  }
  // The steps [from, to), one by one.
  void steps(std::int64_t from, std::int64_t to) {
    for (std::int64_t k = from; k < to; ++k) {
      for (const Transfer& transfer : transfers(schedule_, schedule_.step(k))) {
        Moved& elements = sum_.elements[transfer.operand];
        Moved& bytes = sum_.bytes[transfer.operand];
        (transfer.read ? elements.read : elements.written) += transfer.elements;
        (transfer.read ? bytes.read : bytes.written) += transfer.bytes;
      }
    }
  }
  const ElementsAndBytes& sum() const { return sum_; }

 private:
  const Schedule& schedule_;
  ElementsAndBytes sum_;
};

// Columns of the first n tiles that row block (head, i) folds in; only the last column block can be short.
std::int64_t columns(const Schedule& schedule, std::int64_t head, std::int64_t i, std::int64_t n) {
  const std::int64_t Bc = schedule.recipe().Bc, short_by = schedule.Tc() * Bc - schedule.shape().Nk;
  if (n == 0 || short_by == 0) return n * Bc;
  const std::int64_t at = schedule.visit_index(head, i, schedule.Tc() - 1);
  return n * Bc - (at >= 0 && at < n ? short_by : 0);
}

std::int64_t number_of(const Schedule& schedule, std::int64_t head, std::int64_t i, std::int64_t j, Stage stage) {
  return schedule.find(head, i, j, stage).value();
}

// ---- flash2: row block after row block.

void flash2_folded(Tally& tally, const Schedule& schedule, std::int64_t head, std::int64_t i, std::int64_t folded) {
  const Shape& shape = schedule.shape();
  const std::int64_t br = schedule.rows(i), bc = columns(schedule, head, i, folded);
  tally.read(Q, br * shape.d);
  tally.read(K, bc * shape.d);
  tally.read(V, bc * shape.dv);
  tally.read_masks(br, folded, bc);
}

void flash2_head(Tally& tally, const Schedule& schedule, const Step& last, std::int64_t steps) {
  for (std::int64_t i = 0; i < last.i; ++i) {
    flash2_folded(tally, schedule, last.head, i, schedule.visits(last.head, i));
    tally.write(O, schedule.rows(i) * schedule.shape().dv);
    tally.write(LSE, schedule.rows(i));
  }
  const std::int64_t loaded = number_of(schedule, last.head, last.i, -1, Stage::load_q) + 1;
  const auto a_tile = static_cast<std::int64_t>(schedule.tile_stages().size());
  const std::int64_t folded = std::min((steps - loaded) / a_tile, schedule.visits(last.head, last.i));
  flash2_folded(tally, schedule, last.head, last.i, folded);
  tally.steps(loaded + folded * a_tile, steps);
}

// ---- flash1: column block after column block; its tiles are gathered by their row blocks.

void flash1_folded(Tally& tally, const Schedule& schedule, std::int64_t head, std::int64_t i, std::int64_t folded) {
  const Shape& shape = schedule.shape();
  const std::int64_t rows = folded * schedule.rows(i);
  tally.read(Q, rows * shape.d);
  tally.read(O, rows * shape.dv, Kind::running);
  tally.read(l, rows);
  tally.read(m, rows);
  tally.write(O, rows * shape.dv, Kind::running);
  tally.write(l, rows);
  tally.write(m, rows);
  tally.read_masks(schedule.rows(i), folded, columns(schedule, head, i, folded));
}

void flash1_finished(Tally& tally, const Schedule& schedule, std::int64_t rows) {
  if (schedule.recipe().normalised() == Normalise::each) return;
  tally.read(O, rows * schedule.shape().dv, Kind::running);
  tally.read(l, rows);
  tally.read(m, rows);
  tally.write(O, rows * schedule.shape().dv);
  tally.write(LSE, rows);
}

// How many tiles row block i has folded in when the walk comes to tile (at.i, at.j).
std::int64_t folded_before(const Schedule& schedule, const Step& at, std::int64_t i) {
  const std::int64_t index = schedule.visit_index(at.head, i, at.j);
  if (index >= 0) return index + (i < at.i);
  const bool forward = schedule.recipe().order == Order::forward;
  std::int64_t low = 0, high = schedule.visits(at.head, i);
  while (low < high) {
    const std::int64_t middle = (low + high) / 2, j = schedule.visit_j(at.head, i, middle);
    if (forward ? j < at.j : j > at.j) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

void flash1_head(Tally& tally, const Schedule& schedule, const Step& last, std::int64_t steps) {
  const Shape& shape = schedule.shape();
  const std::int64_t bulk = last.tile < 0 ? steps : number_of(schedule, last.head, last.i, last.j, Stage::load_rows);
  for (std::int64_t j = 0; j < schedule.Tc(); ++j) {
    const auto load = schedule.find(last.head, -1, j, Stage::load_kv);
    if (!load || *load >= bulk) continue;
    tally.read(K, schedule.cols(j) * shape.d);
    tally.read(V, schedule.cols(j) * shape.dv);
  }
  const bool all_folded = last.stage == Stage::finish;
  for (std::int64_t i = 0; i < schedule.Tr(); ++i) {
    flash1_folded(tally, schedule, last.head, i,
                  all_folded ? schedule.visits(last.head, i) : folded_before(schedule, last, i));
  }
  if (all_folded) flash1_finished(tally, schedule, last.i * schedule.recipe().Br + schedule.rows(last.i));
  tally.steps(bulk, steps);
}

// ---- standard: three passes over the row blocks.

void standard_head(Tally& tally, const Schedule& schedule, const Step& last, std::int64_t steps) {
  const Shape& shape = schedule.shape();
  const bool second = last.stage == Stage::load_s || last.stage == Stage::softmax || last.stage == Stage::store_p;
  const bool third = last.stage == Stage::load_p || last.stage == Stage::accumulate || last.stage == Stage::store_o;
  const auto rows = [&](std::int64_t blocks) { return std::min(blocks * schedule.recipe().Br, shape.Nq); };
  const auto pass = [&](std::int64_t n, bool current, bool later) { return later ? shape.Nq : current ? rows(n) : 0; };
  const std::int64_t scored = pass(last.i, !second && !third, second || third);
  const std::int64_t softmaxed = pass(last.i, second, third), multiplied = pass(last.i, third, false);
  tally.read(Q, scored * shape.d);
  if (scored > 0) tally.read(K, shape.Nk * shape.d);
  tally.write(S, scored * shape.Nk);
  tally.read(S, softmaxed * shape.Nk);
  tally.write(P, softmaxed * shape.Nk);
  tally.read(P, multiplied * shape.Nk);
  if (multiplied > 0) tally.read(V, shape.Nk * shape.dv);
  tally.write(O, multiplied * shape.dv);
  const std::int64_t masked_blocks = second || third ? schedule.Tr() : last.i;
  for (std::int64_t i = 0; i < masked_blocks; ++i) tally.read_masks(schedule.rows(i), 1, shape.Nk);
  const Stage first = third ? Stage::load_p : second ? Stage::load_s : Stage::load_q;
  tally.steps(number_of(schedule, last.head, last.i, last.j, first), steps);
}

// What the steps of one head move, up to and including `steps - 1`.
ElementsAndBytes count_head(const Schedule& schedule, std::int64_t steps) {
  Tally tally(schedule);
  const Step last = schedule.step(steps - 1);
  switch (schedule.recipe().algorithm) {
    case Algorithm::standard:
      standard_head(tally, schedule, last, steps);
      break;
    case Algorithm::flash1:
      flash1_head(tally, schedule, last, steps);
      break;
    case Algorithm::flash2:
      flash2_head(tally, schedule, last, steps);
      break;
  }
  return tally.sum();
}

std::int64_t end_of_head(const Schedule& schedule, std::int64_t head) {
  const Algorithm algorithm = schedule.recipe().algorithm;
  const Stage last = algorithm == Algorithm::standard ? Stage::store_o
                     : algorithm == Algorithm::flash1 ? Stage::finish
                                                      : Stage::store;
  return number_of(schedule, head, schedule.Tr() - 1, -1, last) + 1;
}

// Whether every head walks the same tiles.
bool heads_alike(const Schedule& schedule) {
  return schedule.recipe().skip != Skip::all || schedule.mask().structural_only();
}

Traffic times(Traffic traffic, std::int64_t n) {
  for (Moved& moved : traffic.by_operand) moved.read *= n, moved.written *= n;
  return traffic;
}

}  // namespace

std::vector<Transfer> transfers(const Schedule& schedule, const Step& step) {
  const Shape& shape = schedule.shape();
  const Recipe& recipe = schedule.recipe();
  std::vector<Transfer> result;
  const auto move = [&](Operand operand, bool read, std::int64_t row0, std::int64_t rows, std::int64_t cols,
                        Kind kind = Kind::final, std::int64_t col0 = 0) {
    const std::int64_t elements = rows * cols;
    result.push_back(
        {operand, read, row0, rows, cols, col0, elements, elements * element_bytes(schedule, operand, kind)});
  };
  const std::int64_t row0 = step.i < 0 ? 0 : step.i * recipe.Br, br = step.i < 0 ? 0 : schedule.rows(step.i);
  const bool standard = recipe.algorithm == Algorithm::standard;
  const std::int64_t col0 = standard || step.j < 0 ? 0 : step.j * recipe.Bc;
  const std::int64_t bc = standard ? shape.Nk : step.j < 0 ? 0 : schedule.cols(step.j);
  const auto running = [&](bool read) {
    if (read) move(Q, true, row0, br, shape.d);
    move(O, read, row0, br, shape.dv, Kind::running);
    move(l, read, row0, br, 1);
    move(m, read, row0, br, 1);
  };
  switch (step.stage) {
    case Stage::load_q:
      move(Q, true, row0, br, shape.d);
      if (standard && step.i == 0) move(K, true, 0, shape.Nk, shape.d);
      break;
    case Stage::load_k:
      move(K, true, col0, bc, shape.d);
      break;
    case Stage::load_v:
      move(V, true, col0, bc, shape.dv);
      break;
    case Stage::load_kv:
      move(K, true, col0, bc, shape.d);
      move(V, true, col0, bc, shape.dv);
      break;
    case Stage::load_rows:
      running(true);
      break;
    case Stage::store_rows:
      running(false);
      break;
    case Stage::mask: {
      const auto part = [&](Operand operand, const auto& plane) {
        move(operand, true, plane.rows == 1 ? 0 : row0, plane.rows == 1 ? 1 : br, plane.cols == 1 ? 1 : bc, Kind::final,
             plane.cols == 1 ? 0 : col0);
      };
      if (schedule.mask().keep) part(mask, *schedule.mask().keep);
      if (schedule.mask().bias) part(bias, *schedule.mask().bias);
      break;
    }
    case Stage::finish:
      if (recipe.algorithm == Algorithm::flash1 && recipe.normalised() == Normalise::end) {
        move(O, true, row0, br, shape.dv, Kind::running);
        move(l, true, row0, br, 1);
        move(m, true, row0, br, 1);
        move(O, false, row0, br, shape.dv);
        move(LSE, false, row0, br, 1);
      }
      break;
    case Stage::store:
      move(O, false, row0, br, shape.dv);
      move(LSE, false, row0, br, 1);
      break;
    case Stage::store_s:
      move(S, false, row0, br, shape.Nk);
      break;
    case Stage::load_s:
      move(S, true, row0, br, shape.Nk);
      break;
    case Stage::store_p:
      move(P, false, row0, br, shape.Nk);
      break;
    case Stage::load_p:
      move(P, true, row0, br, shape.Nk);
      if (step.i == 0) move(V, true, 0, shape.Nk, shape.dv);
      break;
    case Stage::store_o:
      move(O, false, row0, br, shape.dv);
      break;
    case Stage::scores:
    case Stage::max:
    case Stage::exponentials:
    case Stage::rescale:
    case Stage::accumulate:
    case Stage::softmax:
      break;
  }
  return result;
}

ElementsAndBytes counted(const Schedule& schedule, std::int64_t K) {
  K = std::clamp<std::int64_t>(K, 0, schedule.steps());
  if (K == 0) return {};
  const std::int64_t head = schedule.step(K - 1).head;
  ElementsAndBytes sum = count_head(schedule, K);
  const auto add = [&](const ElementsAndBytes& heads, std::int64_t n) {
    sum.elements += times(heads.elements, n), sum.bytes += times(heads.bytes, n);
  };
  if (head > 0 && heads_alike(schedule)) {
    add(count_head(schedule, end_of_head(schedule, 0)), head);
  } else {
    for (std::int64_t h = 0; h < head; ++h) add(count_head(schedule, end_of_head(schedule, h)), 1);
  }
  return sum;
}

ElementsAndBytes counted(const Schedule& schedule) { return counted(schedule, schedule.steps()); }

std::int64_t matmul_flops(const Schedule& schedule) {
  const Shape& shape = schedule.shape();
  const std::int64_t heads = heads_alike(schedule) ? 1 : shape.heads;
  std::int64_t cells = 0;
  if (schedule.recipe().algorithm == Algorithm::standard) {
    cells = heads * shape.Nq * shape.Nk;
  } else {
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t i = 0; i < schedule.Tr(); ++i) {
        cells += schedule.rows(i) * columns(schedule, head, i, schedule.visits(head, i));
      }
    }
  }
  return 2 * cells * (shape.heads / heads) * (shape.d + shape.dv);
}

}  // namespace flashscope
