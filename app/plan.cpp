#include "app/plan.h"

namespace flashscope {

std::shared_ptr<const Plan> make_plan(std::uint64_t generation, std::shared_ptr<const Problem> problem,
                                      const Recipe& recipe) {
  auto plan = std::make_shared<Plan>();
  plan->generation = generation;
  plan->problem = std::move(problem);
  plan->recipe = recipe;
  const Shape shape = plan->problem->shape();
  plan->schedule = std::make_shared<const Schedule>(shape, plan->problem->mask, recipe);
  plan->traffic = counted(*plan->schedule);
  plan->formula = formula(*plan->schedule);
  plan->standard_elements = standard_elements(shape).total();
  plan->minimum = minimum(shape);
  plan->saving = saving(*plan->schedule);
  plan->on_chip = on_chip(shape, recipe);
  plan->footprint = footprint(shape, recipe.algorithm);
  return plan;
}

}  // namespace flashscope
