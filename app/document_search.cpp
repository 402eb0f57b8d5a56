// The document's searches, and the second recipe beside the first.
#include <fmt/format.h>

#include <utility>

#include "app/document_impl.h"
#include "engine/error.h"
#include "engine/insight/first_difference.h"

namespace flashscope {
namespace {

Stop::Kind kind_of(EventKind kind) {
  switch (kind) {
    case EventKind::first_max:
      return Stop::Kind::first_max;
    case EventKind::rescale:
      return Stop::Kind::rescale;
    case EventKind::masked:
      return Stop::Kind::masked;
    case EventKind::empty_row:
      return Stop::Kind::empty_row;
    case EventKind::nan:
      return Stop::Kind::nan;
    case EventKind::inf:
      return Stop::Kind::inf;
  }
  return Stop::Kind::nan;
}

}  // namespace

void Document::find(EventKind kind, bool forward) {
  Stop stop;
  stop.kind = kind_of(kind);
  run_to({stop}, forward);
}

void Document::run_to(std::vector<Stop> stops, bool forward, std::function<void(const Found&)> then) {
  Impl& d = *impl_;
  if (d.wait_for_plan(Impl::kJob, [=, this] { run_to(stops, forward, then); })) return;
  const std::string what = stops.size() == 1 ? describe(stops.front()) : "stop";
  const auto plan = d.plan;
  d.start_job(
      fmt::format("Searching the {} {}", forward ? "next" : "previous", what),
      [this, plan, stops = std::move(stops), from = d.requested_K, forward, what, then](
          std::stop_token stop, const Progress& progress) -> std::function<void()> {
        const auto found = search(plan->problem, plan->recipe, stops, from, forward, SearchOptions{0, stop, progress});
        return [this, plan, found, forward, what, then] {
          if (impl_->plan != plan) return;
          if (!found) {
            impl_->message = impl_->stage.message = impl_->passing =
                fmt::format("No {} {} this step", what, forward ? "after" : "before");
            return;
          }
          impl_->found_row = found->row;
          seek(found->K);
          if (then) then(*found);
        };
      });
  d.searching = true;
}

void Document::set_beside(const std::optional<Recipe>& recipe, std::shared_ptr<const Problem> problem) {
  Impl& d = *impl_;
  if (!recipe) problem.reset();
  if (d.beside == recipe && d.beside_problem == problem) return;
  if (recipe && d.settings.problem) {
    try {
      check(*recipe, d.settings.problem->shape());
      if (problem) check_beside(*d.settings.problem, *problem);
    } catch (const InputError& error) {
      d.message = d.stage.message = error.what();
      ++d.stage.version;
      return;
    }
  }
  d.beside = recipe, d.beside_problem = std::move(problem);
  d.beside_row = -1;
  if (!recipe) d.stage.beside.reset(), d.stage.differences.reset();
  ++d.stage.version;
  if (d.plan || d.planning) d.request();
}

const std::optional<Recipe>& Document::beside() const { return impl_->beside; }
const std::shared_ptr<const Problem>& Document::beside_problem() const { return impl_->beside_problem; }

void Document::find_difference(bool forward) {
  Impl& d = *impl_;
  if (!d.beside || d.wait_for_plan(Impl::kJob, [=, this] { find_difference(forward); })) return;
  const auto plan = d.plan;
  d.start_job(fmt::format("Searching the {} difference", forward ? "next" : "previous"),
              [this, plan, other = *d.beside, problem = d.beside_problem ? d.beside_problem : plan->problem,
               from = d.requested_K, forward](std::stop_token stop, const Progress& progress) -> std::function<void()> {
                const auto found =
                    first_difference(plan->problem, plan->recipe, problem, other, from, forward, {0, stop, progress});
                return [this, plan, other, problem, found, forward] {
                  if (impl_->plan != plan || impl_->beside != other) return;
                  if ((impl_->beside_problem ? impl_->beside_problem : plan->problem) != problem) return;
                  if (found) {
                    impl_->beside_row = impl_->found_row = found->row;
                    return seek(found->K);
                  }
                  impl_->message = impl_->stage.message = impl_->passing =
                      fmt::format("No row begins to differ {} this step", forward ? "after" : "before");
                };
              });
  d.searching = true;
}

void Document::Impl::take_beside(Seeker::Result result) {
  if (!result.beside_error.empty() && result.beside_asked == beside) {
    message = stage.message = "the second recipe: " + result.beside_error;
    beside.reset(), beside_problem.reset();
  }
  stage.beside.reset(), stage.differences.reset();
  if (!beside || !result.beside) return;
  auto other = std::make_shared<viz::StageData>();
  other->problem = std::move(result.beside->problem);
  other->schedule = std::move(result.beside->schedule);
  other->state = std::move(result.beside->state);
  other->on_chip = std::move(result.beside->on_chip);
  other->pinned_rows = pinned;
  other->lse = stage.lse;
  other->conventions = conventions(other->schedule->recipe(), other->problem->mask, stage.lse);
  other->version = ~stage.version;  // never that of the first: pictures are cached by it
  stage.differences = std::make_shared<const Differences>(std::move(result.beside->differences));
  stage.beside = std::move(other);
}

}  // namespace flashscope
