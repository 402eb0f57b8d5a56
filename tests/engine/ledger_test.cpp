// The ledger against the source documents' figures, against a double loop over the tiles, and against itself:
// counted, formula and the sum of single transfers are three ways to one number.
#include "engine/attention/ledger.h"
#include "tests/place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

namespace flashscope {
namespace {

using nlohmann::json;

json load(const std::string& name) {
  std::ifstream file(source_path("tests/data/" + name));
  return json::parse(file);
}

Shape square(std::int64_t N, std::int64_t d, DType type = DType::float32) { return {1, 1, N, N, d, d, type}; }

Recipe recipe_of(Algorithm algorithm, std::int64_t Br = 64, std::int64_t Bc = 64) {
  Recipe recipe;
  recipe.algorithm = algorithm, recipe.Br = Br, recipe.Bc = Bc;
  return recipe;
}

Mask causal(Causal kind = Causal::top_left) {
  Mask mask;
  mask.causal = kind;
  return mask;
}

// Counted and formula, which must agree; the value is in elements.
Moved elements(const Shape& shape, const Mask& mask, const Recipe& recipe) {
  const Schedule schedule(shape, mask, recipe);
  const Moved moved = counted(schedule).elements.total();
  EXPECT_EQ(formula(schedule).elements, moved);
  return moved;
}

// ---- the documents' figures

TEST(LedgerFigures, ScoreMatrixBytes) {
  const json rows = load("seed_figures.json")["score_matrix_bytes"];
  ASSERT_FALSE(rows.empty());
  for (const json& row : rows) {
    const Shape shape = square(row["N"], row["d"], DType::float16);
    const Footprint standard = footprint(shape, Algorithm::standard);
    EXPECT_EQ(standard.total() - standard.extra(), row["qkvo"].get<std::int64_t>());
    EXPECT_EQ(standard.bytes[static_cast<int>(Operand::S)], row["S"].get<std::int64_t>());
    EXPECT_EQ(standard.extra(), row["S_plus_P"].get<std::int64_t>());
  }
}

TEST(LedgerFigures, InterviewBytes) {
  const json figure = load("seed_figures.json")["interview_bytes"];
  const Shape shape = square(figure["N"], figure["d"], DType::float16);
  const Schedule schedule(shape, {}, recipe_of(Algorithm::standard));
  const Traffic bytes = counted(schedule).bytes;
  EXPECT_EQ(bytes[Operand::S].written, figure["score_elements"].get<std::int64_t>() * 2);
  EXPECT_EQ(bytes[Operand::S].total() + bytes[Operand::P].total(), figure["four_transfers"].get<std::int64_t>());
  EXPECT_EQ(bytes.total().total(), figure["materializing_total"].get<std::int64_t>());
  EXPECT_EQ(minimum(shape).bytes.total(), figure["io_minimum"].get<std::int64_t>());
  EXPECT_EQ(matmul_flops(schedule), figure["matmul_flops"].get<std::int64_t>());
  const Schedule one_row(shape, {}, recipe_of(Algorithm::standard, 1));
  const std::int64_t store_s = *one_row.find(0, 5, -1, Stage::store_s);
  EXPECT_EQ(transfers(one_row, one_row.step(store_s)).at(0).bytes, figure["score_row_bytes"].get<std::int64_t>());
}

TEST(LedgerFigures, BlockSizes) {
  const json rows = load("seed_figures.json")["block_sizes"];
  ASSERT_FALSE(rows.empty());
  for (const json& row : rows) {
    const BlockSizes sizes = block_sizes(row["M"], row["d"], row["d"]);
    EXPECT_EQ(sizes.Br, row["Br"].get<std::int64_t>());
    EXPECT_EQ(sizes.Bc, row["Bc"].get<std::int64_t>());
  }
}

TEST(LedgerFigures, Traffic) {
  const json rows = load("seed_figures.json")["traffic"];
  ASSERT_FALSE(rows.empty());
  for (const json& row : rows) {
    SCOPED_TRACE(row.dump());
    const Shape shape = square(row["N"], row["d"]);
    const Mask mask = row["causal"] ? causal() : Mask{};
    for (const auto& [algorithm, key] : {std::pair{Algorithm::standard, "standard_elements"},
                                         {Algorithm::flash1, "flash1_elements"},
                                         {Algorithm::flash2, "flash2_elements"}}) {
      const Recipe recipe = recipe_of(algorithm, row["Br"], row["Bc"]);
      EXPECT_EQ(elements(shape, mask, recipe).total(), row[key].get<std::int64_t>()) << key;
      if (algorithm == Algorithm::standard) continue;
      const Schedule schedule(shape, mask, recipe);
      EXPECT_EQ(schedule.tiles(), row["tiles_visited"].get<std::int64_t>());
      EXPECT_EQ(formula_tiles(schedule), row["tiles_visited"].get<std::int64_t>());
      EXPECT_EQ(matmul_flops(schedule), row["matmul_flops"].get<std::int64_t>());
    }
  }
}

TEST(LedgerFigures, TrafficAgainstM) {
  const json rows = load("seed_figures.json")["traffic_vs_M"];
  ASSERT_FALSE(rows.empty());
  for (const json& row : rows) {
    const Shape shape = square(row["N"], row["d"], DType::float16);
    const BlockSizes sizes = block_sizes(row["M"], row["d"], row["d"]);
    EXPECT_EQ(sizes.Bc, row["Bc"].get<std::int64_t>());
    const std::int64_t total = elements(shape, {}, recipe_of(Algorithm::flash1, sizes.Br, sizes.Bc)).total();
    EXPECT_EQ(total, row["flash1_elements"].get<std::int64_t>());
    EXPECT_EQ(static_cast<double>(total) * 2 / (1 << 20), row["flash1_MiB"].get<double>());
  }
}

TEST(LedgerFigures, BreakEven) {
  const json figure = load("seed_figures.json")["break_even_M"];
  const Shape shape = square(figure["N"], figure["d"]);
  const std::int64_t standard = standard_elements(shape).total();
  EXPECT_EQ(standard, figure["standard"].get<std::int64_t>());
  const auto flash1 = [&](std::int64_t M) {
    const BlockSizes sizes = block_sizes(M, shape.d, shape.dv);
    return elements(shape, {}, recipe_of(Algorithm::flash1, sizes.Br, sizes.Bc)).total();
  };
  const std::int64_t M = figure["M"];
  EXPECT_EQ(flash1(M), figure["flash1"].get<std::int64_t>());
  EXPECT_LE(flash1(M), standard);
  for (std::int64_t smaller = 1; smaller < M; smaller += 97) EXPECT_GT(flash1(smaller), standard) << smaller;
  EXPECT_GT(flash1(M - 1), standard);
  EXPECT_EQ(static_cast<double>(M) * 2 / 1024, figure["KiB_at_2_bytes"].get<double>());

  // The rule's own sizes exceed this M: the tiles with S take 122 %.
  const BlockSizes sizes = block_sizes(M, 64, 64);
  const double tiles = static_cast<double>(sizes.Br * 64 * 2 + sizes.Bc * 128 + sizes.Br * sizes.Bc);
  EXPECT_EQ(std::lround(100 * tiles / static_cast<double>(M)), 122);
}

TEST(LedgerFigures, KeptForBackward) {
  const json figure = load("seed_figures.json")["kept_for_backward"];
  const Shape shape = square(figure["N"], 64, DType::float32);
  const auto kept = [&](Algorithm algorithm, Operand operand) {
    return footprint(shape, algorithm).bytes[static_cast<int>(operand)] / 4;
  };
  EXPECT_EQ(kept(Algorithm::standard, Operand::P), figure["standard"].get<std::int64_t>());
  EXPECT_EQ(kept(Algorithm::flash2, Operand::LSE), figure["tiled"].get<std::int64_t>());
}

TEST(LedgerFigures, FirstDemoBytes) {
  const json rows = load("first_demo.json")["runs"];
  ASSERT_FALSE(rows.empty());
  for (const json& run : rows) {
    Recipe recipe = recipe_of(Algorithm::flash2, run["Br"], run["Bc"]);
    recipe.order = run["order"] == "reverse" ? Order::reverse : Order::forward;
    const Schedule schedule(square(1024, 64, DType::float16), causal(), recipe);
    EXPECT_EQ(counted(schedule).bytes.total().total(), run["bytes"].get<std::int64_t>());
    EXPECT_EQ(schedule.tiles(), run["tiles_visited"].get<std::int64_t>());
  }
}

// ---- case open-20

TEST(LedgerCase20, LoopOrderAndBlockSize) {
  const json expected = load("cases/open-20-block-size-traffic.json")["expected"];
  const Shape shape = square(1024, 64);
  const auto check = [&](const Moved& moved, const json& right) {
    EXPECT_EQ(moved.read, right["reads"].get<std::int64_t>());
    EXPECT_EQ(moved.written, right["writes"].get<std::int64_t>());
  };
  check(elements(shape, {}, recipe_of(Algorithm::standard)), expected["unfused"]);
  for (const std::int64_t other : {16, 64, 100, 2000}) {  // the other block size does not matter
    check(elements(shape, {}, recipe_of(Algorithm::flash1, other, 128)), expected["k_outer_block_k_128"]);
    check(elements(shape, {}, recipe_of(Algorithm::flash2, 128, other)), expected["q_outer_block_q_128"]);
  }
  for (const json& row : expected["sweep"]) {
    const std::int64_t block = row["block"];
    EXPECT_EQ(elements(shape, {}, recipe_of(Algorithm::flash1, 64, block)).total(), row["k_outer_total"]);
    EXPECT_EQ(elements(shape, {}, recipe_of(Algorithm::flash2, block, 64)).total(), row["q_outer_total"]);
  }
  for (const json& row : expected["block_formula_of_the_first_paper"]["values"]) {
    const BlockSizes sizes = block_sizes(row["M_elements"], row["d"], row["d"]);
    EXPECT_EQ(sizes.Br, row["Br"].get<std::int64_t>());
    EXPECT_EQ(sizes.Bc, row["Bc"].get<std::int64_t>());
  }
}

TEST(LedgerCase20, OnChipFootprint) {
  struct Config {
    DType type;
    std::int64_t Br, Bc, d;
    int stages;
  };
  const std::map<std::string, Config> configs{{"fp16 128x128 d128 1 stage", {DType::float16, 128, 128, 128, 1}},
                                              {"fp16 128x128 d128 2 stages", {DType::float16, 128, 128, 128, 2}},
                                              {"fp32 64x64 d128 1 stage", {DType::float32, 64, 64, 128, 1}},
                                              {"fp32 32x32 d1024 1 stage", {DType::float32, 32, 32, 1024, 1}},
                                              {"fp16 64x64 d64 2 stages", {DType::float16, 64, 64, 64, 2}}};
  const json footprints = load("cases/open-20-block-size-traffic.json")["expected"]["on_chip_footprint"]["values"];
  ASSERT_EQ(footprints.size(), configs.size());
  for (const json& row : footprints) {
    const Config& c = configs.at(row["config"]);
    const OnChip chip = on_chip(square(4096, c.d, c.type), recipe_of(Algorithm::flash2, c.Br, c.Bc), c.stages);
    EXPECT_EQ(chip.qkv, row["bytes_Q_K_V"].get<std::int64_t>()) << row["config"];
    for (const std::int64_t limit : {65536, 101376, 166912, 232448}) {
      EXPECT_EQ(chip.qkv <= limit, row["fits_" + std::to_string(limit)].get<bool>()) << row["config"] << limit;
    }
  }
}

TEST(OnChip, BuffersAddUp) {
  for (const Algorithm algorithm : {Algorithm::flash1, Algorithm::flash2}) {
    const OnChip chip = on_chip({1, 1, 500, 700, 40, 24, DType::bfloat16}, recipe_of(algorithm, 48, 80));
    std::int64_t sum = 0, registers = 0;
    for (const OnChip::BufferInfo& buffer : chip.buffers) {
      const bool counted_scores = buffer.name != "S/P" || algorithm == Algorithm::flash1;
      sum += counted_scores ? buffer.bytes : 0;
      registers += buffer.registers;
    }
    EXPECT_EQ(sum, chip.total());
    EXPECT_EQ(chip.scores, algorithm == Algorithm::flash1 ? 48 * 80 * 4 : 0);
    EXPECT_EQ(registers, algorithm == Algorithm::flash1 ? 0 : 5);
  }
  EXPECT_TRUE(on_chip(square(64, 64), recipe_of(Algorithm::standard)).buffers.empty());
}

// ---- lines of their own

TEST(Ledger, InitAndMinimum) {
  const Shape shape{6, 2, 10, 20, 8, 4, DType::float16};
  EXPECT_EQ(init_elements(shape, recipe_of(Algorithm::flash1)), (Moved{0, 6 * 10 * (4 + 2)}));
  EXPECT_EQ(init_elements(shape, recipe_of(Algorithm::flash2)), Moved{});
  EXPECT_EQ(minimum(shape).elements, (Moved{6 * 10 * 8 + 2 * 20 * 12, 6 * 10 * 4}));
  EXPECT_EQ(minimum(shape).bytes, (Moved{2 * (6 * 10 * 8 + 2 * 20 * 12), 2 * 6 * 10 * 4}));
}

TEST(Ledger, SavingSplitsTilingFromSkipping) {
  const Schedule schedule(square(1024, 64), causal(), recipe_of(Algorithm::flash2, 64, 196));
  const Saving split = saving(schedule);
  EXPECT_EQ(split.standard, 4456448);
  EXPECT_EQ(split.unmasked, 2229248);
  EXPECT_EQ(split.run, 1392128);
  EXPECT_EQ(split.by_tiling() + split.by_skipping(), split.standard - split.run);
}

TEST(Ledger, BytesHaveTheOperandsTypes) {
  for (const DType type : {DType::float64, DType::float32, DType::float16, DType::bfloat16}) {
    const int element = size_of(type), accumulator = type == DType::float64 ? 8 : 4;
    Recipe recipe = recipe_of(Algorithm::flash1, 8, 8);
    recipe.normalise = Normalise::end;
    const Schedule schedule(square(16, 4, type), {}, recipe);
    const auto [e, b] = counted(schedule);
    for (const Operand operand : {Operand::Q, Operand::K, Operand::V}) {
      EXPECT_EQ(b[operand].read, e[operand].read * element);
    }
    for (const Operand operand : {Operand::m, Operand::l, Operand::LSE}) {
      EXPECT_EQ(b[operand].total(), e[operand].total() * accumulator);
    }
    EXPECT_EQ(b[Operand::O].read, e[Operand::O].read * accumulator);
    const std::int64_t final_O = 16 * 4, running_O = 2 * 16 * 4;
    EXPECT_EQ(e[Operand::O].written, final_O + running_O);
    EXPECT_EQ(b[Operand::O].written, final_O * element + running_O * accumulator);
  }
}

// ---- a double loop over all tiles, which knows nothing of schedules and closed forms

struct Naive {
  std::int64_t tiles = 0, total = 0, flops = 0;
};

Naive naive(const Shape& s, const Mask& mask, const Recipe& recipe) {
  Naive sum;
  const auto sees = [&](std::int64_t r, std::int64_t c) {
    const std::int64_t shift = mask.causal == Causal::bottom_right ? s.Nk - s.Nq : 0;
    if (mask.causal != Causal::none && c > r + shift) return false;
    return !mask.window || (c >= r + shift - mask.window->left && c <= r + shift + mask.window->right);
  };
  const auto file = [&](std::int64_t br, std::int64_t bc) {
    std::int64_t read = 0;
    if (mask.keep) read += (mask.keep->rows == 1 ? 1 : br) * (mask.keep->cols == 1 ? 1 : bc);
    if (mask.bias) read += (mask.bias->rows == 1 ? 1 : br) * (mask.bias->cols == 1 ? 1 : bc);
    return read;
  };
  if (recipe.algorithm == Algorithm::standard) {
    sum.total = (s.Nq + s.Nk) * (s.d + s.dv) + 4 * s.Nq * s.Nk;
    for (std::int64_t r0 = 0; r0 < s.Nq; r0 += recipe.Br) {
      sum.total += file(std::min(recipe.Br, s.Nq - r0), s.Nk);
      ++sum.tiles;
    }
    sum.flops = 2 * s.Nq * s.Nk * (s.d + s.dv);
  } else {
    const bool flash1 = recipe.algorithm == Algorithm::flash1;
    for (std::int64_t c0 = 0; c0 < s.Nk; c0 += recipe.Bc) {
      const std::int64_t bc = std::min(recipe.Bc, s.Nk - c0);
      bool any = false;
      for (std::int64_t r0 = 0; r0 < s.Nq; r0 += recipe.Br) {
        const std::int64_t br = std::min(recipe.Br, s.Nq - r0);
        bool visited = recipe.skip == Skip::none;
        for (std::int64_t r = r0; r < r0 + br && !visited; ++r) {
          for (std::int64_t c = c0; c < c0 + bc && !visited; ++c) visited = sees(r, c);
        }
        if (!visited) continue;
        any = true;
        ++sum.tiles;
        sum.flops += 2 * br * bc * (s.d + s.dv);
        sum.total += file(br, bc) + (flash1 ? br * (s.d + 2 * s.dv + 4) : bc * (s.d + s.dv));
      }
      if (flash1 && any) sum.total += bc * (s.d + s.dv);
    }
    if (!flash1) sum.total += s.Nq * (s.d + s.dv + 1);
    if (flash1 && recipe.normalised() == Normalise::end) sum.total += s.Nq * (2 * s.dv + 3);
  }
  sum.tiles *= s.heads, sum.total *= s.heads, sum.flops *= s.heads;
  return sum;
}

class RandomRecipes {
 public:
  Shape shape() { return {pick(1, 2), 1, pick(1, 24), pick(1, 24), pick(1, 3), pick(1, 3), DType::float16}; }
  Mask mask(const Shape& shape) {
    Mask mask;
    mask.causal = static_cast<Causal>(pick(0, 2));
    if (pick(0, 2) == 0) mask.window = Window{pick(0, 9), pick(0, 9)};
    if (pick(0, 3) == 0) {
      KeepMask keep =
          make_keep_mask(pick(0, 1) ? shape.heads : 1, pick(0, 1) ? shape.Nq : 1, pick(0, 1) ? shape.Nk : 1);
      for (std::int64_t h = 0; h < keep.heads; ++h) {
        for (std::int64_t r = 0; r < keep.rows; ++r) {
          for (std::int64_t c = 0; c < keep.cols; ++c) {
            if (pick(0, 4) == 0) set_keep(keep, h, r, c);
          }
        }
      }
      mask.keep = std::make_shared<const KeepMask>(std::move(keep));
    }
    if (pick(0, 5) == 0) {
      Bias bias;
      bias.rows = pick(0, 1) ? shape.Nq : 1, bias.cols = shape.Nk, bias.element_bytes = 2;
      bias.f32 = make_buffer<float>(static_cast<std::size_t>(bias.rows * bias.cols));
      for (float& value : bias.f32) value = pick(0, 3) == 0 ? -std::numeric_limits<float>::infinity() : 0.5f;
      mask.bias = std::make_shared<const Bias>(std::move(bias));
    }
    return mask;
  }
  Recipe recipe() {
    Recipe recipe = recipe_of(static_cast<Algorithm>(pick(0, 2)), pick(1, 28), pick(1, 28));
    recipe.order = static_cast<Order>(pick(0, 1));
    recipe.skip = static_cast<Skip>(pick(0, 2));
    if (pick(0, 1)) recipe.normalise = static_cast<Normalise>(pick(0, 1));
    return recipe;
  }

 private:
  std::int64_t pick(std::int64_t lo, std::int64_t hi) {
    return std::uniform_int_distribution<std::int64_t>(lo, hi)(random_);
  }
  std::mt19937_64 random_{20240607};
};

std::string text(const Shape& s, const Mask& mask, const Recipe& r) {
  std::string out = std::string(name(r.algorithm)) + " Nq " + std::to_string(s.Nq) + " Nk " + std::to_string(s.Nk) +
                    " Br " + std::to_string(r.Br) + " Bc " + std::to_string(r.Bc) + " " + conventions(r, mask);
  if (mask.window) out += " window " + std::to_string(mask.window->left) + "," + std::to_string(mask.window->right);
  return out;
}

TEST(Ledger, CountedFormulaAndDoubleLoopAgree) {
  RandomRecipes random;
  int closed = 0;
  for (int n = 0; n < 6000; ++n) {
    const Shape shape = random.shape();
    const Mask mask = random.mask(shape);
    const Recipe recipe = random.recipe();
    SCOPED_TRACE(text(shape, mask, recipe));
    const Schedule schedule(shape, mask, recipe);
    const Formula form = formula(schedule);
    const Moved moved = counted(schedule).elements.total();
    if (recipe.algorithm != Algorithm::standard && recipe.skip == Skip::all && !mask.structural_only()) {
      EXPECT_FALSE(form.elements);
      EXPECT_FALSE(form.reason.empty());
      EXPECT_EQ(formula_tiles(schedule), -1);
      continue;
    }
    ++closed;
    const Naive right = naive(shape, mask, recipe);
    ASSERT_EQ(moved.total(), right.total);
    ASSERT_EQ(form.elements, moved);
    ASSERT_EQ(formula_tiles(schedule), right.tiles);
    ASSERT_EQ(schedule.tiles(), right.tiles);
    ASSERT_EQ(matmul_flops(schedule), right.flops);
  }
  EXPECT_GT(closed, 4000);
}

TEST(Ledger, CountedIsTheRunningSumOfTransfers) {
  RandomRecipes random;
  for (int n = 0; n < 1500; ++n) {
    const Shape shape = random.shape();
    const Mask mask = random.mask(shape);
    const Recipe recipe = random.recipe();
    SCOPED_TRACE(text(shape, mask, recipe));
    const Schedule schedule(shape, mask, recipe);
    ElementsAndBytes sum;
    for (std::int64_t K = 0; K <= schedule.steps(); ++K) {
      const ElementsAndBytes now = counted(schedule, K);
      ASSERT_EQ(now.elements, sum.elements) << "K " << K;
      ASSERT_EQ(now.bytes, sum.bytes) << "K " << K;
      if (K == schedule.steps()) break;
      const std::vector<Transfer> moved = transfers(schedule, schedule.step(K));
      ASSERT_LE(moved.size(), 6u);
      for (const Transfer& transfer : moved) {
        ASSERT_EQ(transfer.elements, transfer.rows * transfer.cols);
        Moved& elements = sum.elements[transfer.operand];
        Moved& bytes = sum.bytes[transfer.operand];
        (transfer.read ? elements.read : elements.written) += transfer.elements;
        (transfer.read ? bytes.read : bytes.written) += transfer.bytes;
      }
    }
  }
}

// ---- a million rows

TEST(Ledger, AMillionRowsAtAnyStep) {
  const std::int64_t N = 1048576;
  for (const Algorithm algorithm : {Algorithm::standard, Algorithm::flash1, Algorithm::flash2}) {
    for (const Mask& mask : {Mask{}, causal()}) {
      const Shape shape = square(N, 64);
      const Recipe recipe = recipe_of(algorithm, 64, 196);
      const Schedule schedule(shape, mask, recipe);
      const Moved total = elements(shape, mask, recipe);
      if (algorithm == Algorithm::standard) {
        EXPECT_EQ(total.total(), 4 * N * N + 256 * N);
      }
      std::int64_t before = 0;
      for (std::int64_t n = 1; n <= 50; ++n) {
        const std::int64_t K = schedule.steps() / 50 * n;
        std::int64_t here = counted(schedule, K).elements.total().total();
        EXPECT_GE(here, before);
        EXPECT_LE(here, total.total());
        before = here;
        for (const Transfer& transfer : transfers(schedule, schedule.step(K - 1))) here -= transfer.elements;
        EXPECT_EQ(counted(schedule, K - 1).elements.total().total(), here);
      }
    }
  }
}

}  // namespace
}  // namespace flashscope
