// What a click in the explorer opens in the stepper.
#include <fmt/format.h>

#include "app/window/explorer/explorer_window.h"
#include "app/window/main_window.h"
#include "app/window/text.h"
#include "engine/attention/random_problem.h"

namespace flashscope::window {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 28;  // of Q, K, V that a click draws: a GiB in memory
constexpr std::uint64_t kSeed = 1;

}  // namespace

void MainWindow::open_explored(const Shape& shape, const Mask& mask, const Recipe& recipe) {
  const std::shared_ptr<const Problem>& open = document_.problem();
  // Tensors of a person's file stay what they are. Random ones and the demo's are drawn again in the explored shape.
  const bool drawn = open && open->name.starts_with("random ");
  const QString words = QString("%1, Br %2, Bc %3").arg(text(name(recipe.algorithm))).arg(recipe.Br).arg(recipe.Bc);
  const auto only_recipe = [&](const QString& why) {
    apply([recipe](Document& document) { document.set_recipe(recipe); });
    notice(why + ": the stepper took the recipe alone (" + words + "); N, d, type and masks stay.");
  };
  if (open && open->q != demo_->q && !drawn) return only_recipe("The open problem holds tensors of a file");
  if (mask.keep || mask.bias) return only_recipe("The explored mask is of a file");
  const std::int64_t elements = shape.heads * shape.Nq * shape.d + shape.kv_heads * shape.Nk * (shape.d + shape.dv);
  if (elements > kMostElements)
    return only_recipe(QString("Q, K and V of that shape have %1 elements, a click draws at most %2")
                           .arg(grouped(elements), grouped(kMostElements)));
  draw_problem(
      [shape, mask](const std::stop_token& stop, const Progress& progress) {
        return random_problem(shape, kSeed, {}, mask, stop, progress);
      },
      [this, recipe, words](const ProblemPointer& problem) {
        session_path_.clear();  // another document; its runs are kept
        apply([&](Document& document) {
          document.join_changes(true);
          document.set_problem(problem);
          document.set_recipe(recipe);
          document.join_changes(false);
        });
        notice(
            QString("Opened random Q, K and V of N %1 x %2, d %3, and %4, as explored; undo brings back what was open.")
                .arg(grouped(problem->Q().rows), grouped(problem->K().rows))
                .arg(problem->Q().cols)
                .arg(words));
      });
}

}  // namespace flashscope::window
