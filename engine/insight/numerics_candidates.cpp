// Numerics as mistakes: what a kernel holds in a type that is too narrow for these numbers.
#include <fmt/format.h>

#include "engine/insight/candidates.h"

namespace flashscope {

std::vector<Candidate> numerics_candidates(const std::shared_ptr<const Problem>& problem, const Recipe& recipe) {
  std::vector<Candidate> all;
  Recipe base = recipe;
  base.defect = Defect::none;
  base.sram.reset();
  if (base.guard == Guard::none) base.guard = Guard::clamp;
  const auto add = [&](std::string name, std::string option, std::string sentence, std::string if_not_finite,
                       const Numerics& numerics) {
    if (numerics == recipe.numerics) return;
    Candidate candidate;
    candidate.name = std::move(name), candidate.detail = std::move(option);
    candidate.sentence = std::move(sentence), candidate.if_not_finite = std::move(if_not_finite);
    candidate.problem = problem, candidate.recipe = base;
    candidate.recipe.numerics = numerics;
    all.push_back(std::move(candidate));
  };
  struct Held {
    const char *what, *option;  // "scores", "--score-type"
    DType Numerics::*type;
    const char *sentence, *overflow;
  };
  const Held held[] = {
      {"scores", "--score-type", &Numerics::scores, "The scores are held in {}, the product and again after the scale.",
       "Scores held in {} overflow: a product becomes infinite, and its row NaN."},
      {"p", "--p-type", &Numerics::P, "P is rounded to {} before P V.", "P held in {} overflows."},
      {"accumulators", "--accumulator-type", &Numerics::accumulators, "O and l are accumulated in {}.",
       "O or l accumulated in {} overflows."}};
  const ScaleWhen other = recipe.numerics.scale == ScaleWhen::after ? ScaleWhen::before : ScaleWhen::after;
  for (const Held& one : held)
    for (const DType type : {DType::float16, DType::bfloat16}) {
      Numerics numerics = recipe.numerics;
      numerics.*one.type = type;
      const auto add_held = [&](const std::string& also) {
        add(fmt::format("{}-{}", one.what, name(type)), fmt::format("{} {}{}", one.option, name(type), also),
            fmt::format(fmt::runtime(one.sentence), name(type)), fmt::format(fmt::runtime(one.overflow), name(type)),
            numerics);
      };
      add_held("");
      if (one.type != &Numerics::scores) continue;
      numerics.scale = other;  // it decides how large the product is that is rounded
      add_held(fmt::format(" --scale-when {}", name(other)));
    }
  Numerics numerics = recipe.numerics;
  numerics.scale = other;
  const bool before = other == ScaleWhen::before;
  add(before ? "scale-before" : "scale-after", fmt::format("--scale-when {}", name(other)),
      before ? "Q is scaled, and rounded, before the product." : "The product is scaled, not Q before it.",
      before ? "Q times the scale overflows." : "The product overflows before it is scaled.", numerics);
  return all;
}

}  // namespace flashscope
