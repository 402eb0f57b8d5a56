#include "engine/insight/advisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "engine/digits.h"

namespace flashscope {
namespace {

constexpr std::int64_t kStep = 16, kLargest = 512;

std::int64_t traffic(const Advice& advice) { return advice.cost.form.bytes.total().total(); }
std::int64_t flops(const Advice& advice) { return advice.cost.matmul_flops + advice.cost.ragged_flops; }

bool better(const Advice& a, const Advice& b) {
  const auto key = [](const Advice& one) {
    return std::tuple(traffic(one), flops(one), one.cost.form.tiles, one.demand.shared_bytes, one.recipe.Br);
  };
  return key(a) < key(b);
}

// "3.2 % more traffic", "29 x the traffic".
std::string more_text(std::int64_t more, std::int64_t than, const char* what) {
  const double ratio = static_cast<double>(more) / static_cast<double>(than), share = 100 * (ratio - 1);
  if (ratio >= 2) return fmt::format("{:.{}f} x the {}", ratio, ratio >= 10 ? 0 : 1, what);
  return share >= 10 ? fmt::format("{:.0f} % more {}", share, what) : fmt::format("{:.2g} % more {}", share, what);
}

// The block that decides an algorithm's traffic, and the passes over the sequence that it leaves.
std::string passes(const SweepProblem& problem, const Recipe& recipe) {
  const auto each = [](std::int64_t n, std::int64_t block, const char* what) {
    const std::int64_t blocks = (n + block - 1) / block;
    return (blocks == 1 ? "" : "each of ") + counted(blocks, what);
  };
  return recipe.algorithm == Algorithm::flash2 ? "K, V for " + each(problem.shape.Nq, recipe.Br, "row block")
                                               : "Q, O, m, l for " + each(problem.shape.Nk, recipe.Bc, "column block");
}

// What stops the next larger block in the direction that would lower the traffic.
std::string what_stops(const SweepProblem& problem, const Recipe& recipe, const HardwareSheet& device) {
  Recipe next = recipe;
  const bool rows = recipe.algorithm == Algorithm::flash2;
  (rows ? next.Br : next.Bc) += kStep;
  const std::int64_t size = rows ? next.Br : next.Bc, whole = rows ? problem.shape.Nq : problem.shape.Nk;
  const std::string what = fmt::format("{} {}", rows ? "Br" : "Bc", size);
  if (size - kStep >= whole) return "the whole sequence is one block";
  const std::string limit = why_infeasible(problem.shape, next, device);
  if (!limit.empty()) return what + " needs " + limit;
  if (const std::string spills = why_spills(problem.shape, next, device); !spills.empty()) return what + ": " + spills;
  if (size > kLargest) return fmt::format("no larger {} is considered", rows ? "Br" : "Bc");
  return what + " costs more";
}

std::string compared(const Advice& one, const Advice& best) {
  if (traffic(one) > traffic(best)) return more_text(traffic(one), traffic(best), "traffic");
  if (flops(one) > flops(best)) return "the same traffic, " + more_text(flops(one), flops(best), "FLOPs");
  if (one.cost.form.tiles > best.cost.form.tiles)
    return fmt::format("the same traffic in {} in place of {}", counted(one.cost.form.tiles, "tile"),
                       grouped(best.cost.form.tiles));
  if (one.demand.shared_bytes > best.demand.shared_bytes)
    return fmt::format("the same traffic with {:.1f} KiB more of shared memory",
                       static_cast<double>(one.demand.shared_bytes - best.demand.shared_bytes) / 1024);
  return "the same cost";
}

std::string idle_text(const Advice& one, const HardwareSheet& device) {
  const std::optional<double> sms = device.value(Quantity::sms);
  if (!sms || static_cast<double>(one.cost.blocks) >= *sms) return {};
  return fmt::format("; only {} for {:.0f} SMs", counted(one.cost.blocks, "block"), *sms);
}

}  // namespace

AdviceList advise(const SweepProblem& problem, const Recipe& recipe, const HardwareSheet& device,
                  std::size_t runners_up) {
  AdviceList list;
  std::vector<Advice> all;
  const auto most = [](std::int64_t n) { return std::min(kLargest, (n + kStep - 1) / kStep * kStep); };
  Recipe at = recipe;
  at.sram.reset();
  for (at.Br = kStep; at.Br <= most(problem.shape.Nq); at.Br += kStep) {
    for (at.Bc = kStep; at.Bc <= most(problem.shape.Nk); at.Bc += kStep) {
      ++list.considered;
      if (limit_broken(problem.shape, at, device) != Limit::none) {
        ++list.infeasible;
        continue;
      }
      if (!why_spills(problem.shape, at, device).empty()) {
        ++list.spilling;
        continue;
      }
      all.push_back({at, sweep_point(problem, at), block_demand(problem.shape, at), {}});
    }
  }
  list.note = fmt::format(
      "by the formula's traffic in kernel units, which does not say what is fastest, under the limits of {} ({} of {} "
      "{} not fit{}); ties by FLOPs, tiles, shared memory",
      device.name, grouped(list.infeasible), counted(list.considered, "block size"),
      list.considered == 1 ? "does" : "do",
      list.spilling > 0 ? fmt::format(", {} more fit but would spill: S and O leave no register free [formula]",
                                      grouped(list.spilling))
                        : "");
  if (all.empty()) return list;
  std::sort(all.begin(), all.end(), better);
  const Advice& best = all.front();
  for (std::size_t n = 0; n < all.size() && n <= runners_up; ++n) {
    Advice one = all[n];
    one.why = n == 0 ? fmt::format("least traffic: {}; {}", passes(problem, one.recipe),
                                   what_stops(problem, one.recipe, device))
                     : compared(one, best);
    one.why += idle_text(one, device);
    list.best.push_back(std::move(one));
  }
  const std::optional<double> sms = device.value(Quantity::sms);
  if (!sms) return list;
  const auto fills = [&](const Advice& one) { return static_cast<double>(one.cost.blocks) >= *sms; };
  const auto filling = std::find_if(all.begin(), all.end(), fills);
  if (filling == all.end() || filling == all.begin()) return list;
  Advice one = *filling;
  one.why = fmt::format("the least traffic with a block for each of {:.0f} SMs: {}, {}", *sms,
                        passes(problem, one.recipe), compared(one, best));
  // A few idle SMs may cost less than the traffic that smaller blocks add.
  Advice below = best;
  for (const Advice& other : all)
    if (!fills(other) && other.cost.blocks > below.cost.blocks) below = other;
  below.why = fmt::format("nearly a block for each: {} blocks leave {:.2g} % of {:.0f} SMs idle; {}, {}",
                          grouped(below.cost.blocks), 100 * (1 - static_cast<double>(below.cost.blocks) / *sms), *sms,
                          passes(problem, below.recipe), compared(below, best));
  list.fills.push_back(std::move(one));
  if (below.recipe != best.recipe) list.fills.push_back(std::move(below));
  return list;
}

}  // namespace flashscope
