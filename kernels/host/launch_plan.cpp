#include "kernels/host/launch_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/error.h"

namespace flashscope::gpu {
namespace {

constexpr int kSimpleThreads = 256;
constexpr int kReservedSharedBytes = 1 << 10;  // of each block, for the system

// Why the tensor-core kernel does not do this; empty if it does.
std::string why_not_mma(const Problem& problem, const Recipe& recipe) {
  const Shape shape = problem.shape();
  const auto dimension = [](std::int64_t d) { return d % 32 == 0 && d <= 256; };
  if (recipe.algorithm != Algorithm::flash2) return "it is a flash2 kernel";
  if (shape.type != DType::float16 && shape.type != DType::bfloat16) return "tensor cores need float16 or bfloat16";
  if (!dimension(shape.d) || !dimension(shape.dv)) return "d and dv must be multiples of 32 up to 256";
  if (recipe.Br % 16 != 0 || recipe.Bc % 16 != 0) return "Br and Bc must be multiples of 16";
  if (recipe.Br > 256 || recipe.Bc > 256) return "Br and Bc must be 256 at most";
  if (recipe.guard == Guard::skip) return "guard skip is done by the simple kernel";
  if (recipe.empty_row == EmptyRow::mean) return "--empty-row mean is done by the simple kernel";
  if (recipe.normalised() == Normalise::each) return "--normalise each is done by the simple kernel";
  if (!(problem.scale > 0)) return "the scale must be above 0";
  return {};
}

[[noreturn]] void refuse(const std::string& found, const std::string& expected) {
  throw InputError("run on the GPU", found, expected);
}

void check_supported(const Problem& problem, const Recipe& recipe) {
  const Shape shape = problem.shape();
  if (shape.type == DType::float64) refuse("float64", "float32, float16 or bfloat16: float64 runs on the CPU");
  if (recipe.defect != Defect::none) refuse("defect " + defect_text(recipe), "none: defects run on the CPU");
  if (const std::string numerics = numerics_text(recipe.numerics); !numerics.empty())
    refuse("numerics: " + numerics, "none: they are simulated on the CPU, and a kernel has its own");
  if (recipe.numerators == Numerators::tile) refuse("--numerators tile", "running: the other runs on the CPU");
  if (recipe.skip == Skip::all && !problem.mask.structural_only())
    refuse("--skip all with a mask from a file", "geometry or none: kernels know structural masks only");
  if (problem.mask.rules.softcap != 0) refuse("--softcap", "no cap of the scores: it runs on the CPU");
  if (recipe.algorithm == Algorithm::flash1 && recipe.normalised() == Normalise::each &&
      recipe.empty_row != EmptyRow::zero && recipe.guard != Guard::none)
    refuse(fmt::format("flash1 with --empty-row {}", name(recipe.empty_row)), "zero, or --normalise end");
  constexpr std::int64_t longest = std::int64_t{1} << 28;
  if (std::max(shape.Nq, shape.Nk) > longest)
    refuse(fmt::format("N = {}", std::max(shape.Nq, shape.Nk)), "2^28 at most");
}

// Rows of a block in warps of 16 or 32 rows. 32 rows read each fragment of K and V half as often, where the scores
// and O of that many rows stay in a thread's registers.
int choose_warps(std::int64_t Br, std::int64_t Bc, std::int64_t dv) {
  const auto tiles = static_cast<int>(Br / 16);
  if (tiles % 2 == 0 && tiles >= 8 && Bc + dv <= 192) return tiles / 2;
  return tiles;
}

}  // namespace

LaunchPlan plan_launch(const Problem& problem, const Recipe& recipe, KernelChoice choice, bool count,
                       const DeviceLimits& limits, const Tuning& tuning, bool timeline) {
  const Shape shape = problem.shape();
  check_supported(problem, recipe);
  const std::string not_mma = why_not_mma(problem, recipe);
  if (choice == KernelChoice::mma && !not_mma.empty()) refuse("--kernel mma", not_mma);
  const bool mma = not_mma.empty() && choice != KernelChoice::simple;
  // A block larger than the problem is the same walk as one of its size; tensor cores need multiples of 16 all the
  // same.
  const std::int64_t Br = mma ? recipe.Br : std::min(recipe.Br, shape.Nq);
  const std::int64_t Bc = mma ? recipe.Bc : std::min(recipe.Bc, shape.Nk);
  const std::int64_t Tr = (shape.Nq + Br - 1) / Br, d = shape.d, dv = shape.dv;
  const Mask& mask = problem.mask;

  LaunchPlan plan;
  const auto define = [&](const char* name, std::int64_t value) {
    plan.code.constants.emplace_back(name, static_cast<int>(value));
  };
  define("BR", Br), define("BC", Bc), define("D", d), define("DV", dv);
  define("TYPE", shape.type == DType::float32 ? 0 : shape.type == DType::float16 ? 1 : 2);
  define("BAND", mask.causal != Causal::none || mask.window ? 1 : 0);
  const bool hides = !mask.rules.lengths.empty() || mask.rules.documents || mask.lifted();
  const bool keeps = mask.keep || hides, adds = mask.adds();
  define("KEEP", keeps ? 1 : 0), define("BIAS", adds ? 1 : 0);
  define("MASK_ADD", recipe.mask_apply == MaskApply::add ? 1 : 0);
  define("REVERSE", recipe.order == Order::reverse ? 1 : 0);
  define("SKIP_NONE", recipe.skip == Skip::none ? 1 : 0);
  define("GUARD", recipe.guard == Guard::clamp ? 0 : recipe.guard == Guard::skip ? 1 : 2);
  define("EMPTY", recipe.empty_row == EmptyRow::zero ? 0 : recipe.empty_row == EmptyRow::nan ? 1 : 2);
  define("EACH", recipe.normalised() == Normalise::each ? 1 : 0);
  define("COUNT", count ? 1 : 0), define("TIMELINE", timeline ? 1 : 0);

  std::string buffers;
  if (recipe.algorithm == Algorithm::standard) {
    plan.code.file = "softmax.cu", plan.entry = "softmax_rows";
    plan.threads = kSimpleThreads, plan.blocks = shape.heads * shape.Nq;
    const std::int64_t parts = 4 * (kSimpleThreads / 32);
    const bool row_fits = 4 * shape.Nk + parts <= limits.shared_bytes_per_block;
    define("ROW_FITS", row_fits ? 1 : 0);
    plan.shared_bytes = parts + (row_fits ? 4 * shape.Nk : 0);
    buffers = "the warps' parts";
  } else if (mma) {
    plan.code.file = "flash2_mma.cu", plan.entry = "flash2_mma";
    const int warps = tuning.warps > 0 ? tuning.warps : choose_warps(Br, Bc, dv);
    const auto shared = [&](int stages) { return 2 * std::max(Br * d + stages * Bc * (d + dv), Br * dv); };
    const auto blocks_per_sm = [&](int stages) {
      return limits.shared_bytes_per_sm / (shared(stages) + kReservedSharedBytes);
    };
    // Two tiles of K and V in flight, unless that costs an SM its second block of threads.
    int stages = blocks_per_sm(2) >= std::min<std::int64_t>(2, blocks_per_sm(1)) ? 2 : 1;
    if (tuning.stages > 0) stages = tuning.stages;
    // Where a thread's scores and O take half its registers, a third block evens out the work that a mask leaves
    // uneven. Not beside cells of a mask: with 168 registers a thread those spill hundreds of bytes.
    const std::int64_t accumulators = (Bc + dv) / 2 * (Br / (16 * warps));
    int min_blocks = mask.causal != Causal::none && !keeps && !adds && warps == 4 && accumulators <= 128 &&
                             blocks_per_sm(stages) >= 3
                         ? 3
                         : 1;
    if (tuning.min_blocks > 0) min_blocks = tuning.min_blocks;
    define("WARPS", warps), define("STAGES", stages), define("MIN_BLOCKS", min_blocks);
    plan.threads = 32 * warps, plan.blocks = shape.heads * Tr;
    plan.shared_bytes = shared(stages);
    buffers = "Q, K, V";
    // Only where row blocks differ in length does their order matter: then as many heads take turns as keep their K and
    // V within twice the L2, in groups of about one size, so that the last is not a small one whose long blocks start
    // late.
    const std::int64_t head_bytes = std::max<std::int64_t>(2 * shape.Nk * (d + dv) / (shape.heads / shape.kv_heads), 1);
    if (mask.causal != Causal::none) {
      const std::int64_t most = std::clamp<std::int64_t>(2 * limits.l2_bytes / head_bytes, 1, shape.heads);
      const std::int64_t groups = (shape.heads + most - 1) / most;
      plan.heads_together = static_cast<int>((shape.heads + groups - 1) / groups);
    }
    if (tuning.heads_together > 0) plan.heads_together = tuning.heads_together;
  } else {
    const bool flash1 = recipe.algorithm == Algorithm::flash1;
    plan.entry = flash1 ? "flash1" : "flash2_simple", plan.code.file = plan.entry + ".cu";
    if (flash1) plan.init_entry = "flash1_init";
    plan.threads = kSimpleThreads, plan.blocks = flash1 ? shape.heads : shape.heads * Tr;
    const std::int64_t kv = flash1 ? Bc * (d + 1 + dv) : Bc * std::max(d + 1, dv);
    plan.shared_bytes = 4 * (Br * (d + 1) + kv + Br * Bc + Br * dv + 5 * Br);
    buffers = flash1 ? "Q, K, V, S, O, m, l" : "Q, K or V, S, O, m, l";
  }
  if (plan.shared_bytes > limits.shared_bytes_per_block)
    refuse(fmt::format("{} with Br {}, Bc {}, d {}, dv {}: {} take {} bytes of shared memory", plan.entry, Br, Bc, d,
                       dv, buffers, plan.shared_bytes),
           fmt::format("at most {} bytes a block", limits.shared_bytes_per_block));
  if (plan.blocks > 0x7fffffff) refuse(fmt::format("{} blocks of threads", plan.blocks), "2^31 - 1 at most");
  return plan;
}

}  // namespace flashscope::gpu
