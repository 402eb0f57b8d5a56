// The second recipe beside the first: what makes one out of the recipe in force, and the way to where they differ.
#include <QAction>

#include "app/window/main_window.h"
#include "app/window/text.h"

namespace flashscope::window {

void MainWindow::set_beside(const std::optional<Recipe>& recipe) {
  apply([&](Document& document) { document.set_beside(recipe); });
}

void MainWindow::make_beside_actions() {
  const auto beside = [this](const QString& id, const QString& title, const QString& keys, const QString& tip,
                             std::function<void(Recipe&)> change) {
    actions_.add("beside." + id, "Beside", title, keys, tip, [this, change = std::move(change)] {
      Recipe recipe = document_.recipe();
      change(recipe);
      set_beside(recipe);
    });
  };
  beside("keep", "&Keep this recipe beside", "B", "Then change the recipe: both stay in step, differences are outlined",
         [](Recipe&) {});
  beside("guard", "Beside: &guard clamp, or none", "", "The same recipe with a guard, or without one",
         [](Recipe& r) { r.guard = r.guard == Guard::none ? Guard::clamp : Guard::none; });
  beside("algorithm", "Beside: flash&1, or flash2", "", "The same recipe with the other loop outside", [](Recipe& r) {
    r.algorithm = r.algorithm == Algorithm::flash2 ? Algorithm::flash1 : Algorithm::flash2;
    r.normalise.reset();
  });
  beside("br", "Beside: twice B&r", "", "", [](Recipe& r) { r.Br *= 2, r.sram.reset(); });
  beside("bc", "Beside: twice B&c", "", "", [](Recipe& r) { r.Bc *= 2, r.sram.reset(); });
  beside("order", "Beside: the other &order", "", "",
         [](Recipe& r) { r.order = r.order == Order::forward ? Order::reverse : Order::forward; });
  beside("defect", "Beside: without the &defect", "", "The right run beside a mistaken one",
         [](Recipe& r) { r.defect = Defect::none; });
  actions_.add("beside.swap", "Beside", "S&wap the two recipes", "", "The one beside becomes the recipe in force",
               [this] {
                 if (!document_.beside()) return;
                 const std::int64_t K = document_.stage().beside ? document_.stage().beside->state->K : 0;
                 apply([](Document& document) {
                   const Recipe first = document.recipe(), second = *document.beside();
                   const auto problem = document.problem(), own = document.beside_problem();
                   document.join_changes(true);
                   if (own && own != problem) document.set_problem(own);
                   document.set_recipe(second);
                   document.join_changes(false);
                   document.set_beside(first, own ? problem : nullptr);
                 });
                 apply_when_planned([K](Document& document) { document.seek(K); });
               });
  actions_.add("beside.off", "Beside", "Only &one recipe", "Shift+B", "", [this] { set_beside({}); });
  const auto go = [this](const QString& id, const QString& title, const QString& keys, bool forward) {
    actions_.add(
        id, "Go", title, keys,
        "Where the next row begins to differ between the two recipes: each row once, in the first array that shows it",
        [this, forward] {
          play(false);
          if (!document_.beside())
            return notice("There is no second recipe: Beside > Keep this recipe beside, or another of that menu.");
          apply([forward](Document& document) { document.find_difference(forward); });
        });
  };
  go("go.next_difference", "Next &difference", "D", true);
  go("go.previous_difference", "Previous difference", "Shift+D", false);
}

void MainWindow::update_beside_actions() {
  const bool two = document_.beside().has_value();
  for (const char* id : {"beside.off", "beside.swap"}) actions_[id]->setEnabled(two);
  actions_["beside.defect"]->setEnabled(document_.recipe().defect != Defect::none);
}

}  // namespace flashscope::window
