#include "app/command_line/sweep_measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "app/command_line/interrupt.h"
#include "engine/error.h"
#include "engine/files/session_file.h"
#include "engine/insight/measurement.h"

namespace flashscope::command_line {
namespace {

struct Name {
  const char* name;
  std::string (*word)(const MeasuredPoint&);
};
// What can differ between points, by the options that say it.
constexpr std::array kNames{
    Name{"algorithm", [](const MeasuredPoint& p) { return std::string(name(p.recipe.algorithm)); }},
    Name{"dtype", [](const MeasuredPoint& p) { return std::string(name(p.shape.type)); }},
    Name{"causal", [](const MeasuredPoint& p) { return std::string(name(p.mask.causal)); }},
    Name{"window",
         [](const MeasuredPoint& p) {
           return p.mask.window ? fmt::format("{},{}", p.mask.window->left, p.mask.window->right) : std::string("none");
         }},
    Name{"order", [](const MeasuredPoint& p) { return std::string(name(p.recipe.order)); }},
    Name{"heads", [](const MeasuredPoint& p) { return std::to_string(p.shape.heads); }},
    Name{"kv-heads", [](const MeasuredPoint& p) { return std::to_string(p.shape.kv_heads); }},
    Name{"d", [](const MeasuredPoint& p) { return std::to_string(p.shape.d); }},
    Name{"dv", [](const MeasuredPoint& p) { return std::to_string(p.shape.dv); }},
    Name{"nk", [](const MeasuredPoint& p) { return std::to_string(p.shape.Nk); }},
    Name{"n", [](const MeasuredPoint& p) { return std::to_string(p.shape.Nq); }},
    Name{"br", [](const MeasuredPoint& p) { return std::to_string(p.recipe.Br); }},
    Name{"bc", [](const MeasuredPoint& p) { return std::to_string(p.recipe.Bc); }}};

std::vector<Varied> what_varies(const std::vector<MeasuredPoint>& points) {
  std::vector<Varied> varied;
  for (const Name& one : kNames) {
    const std::string option = one.name;
    const auto follows = [&](auto same) { return std::all_of(points.begin(), points.end(), same); };
    // Said by the other already.
    if (option == "nk" && follows([](const MeasuredPoint& p) { return p.shape.Nk == p.shape.Nq; })) continue;
    if (option == "dv" && follows([](const MeasuredPoint& p) { return p.shape.dv == p.shape.d; })) continue;
    if (option == "kv-heads" && follows([](const MeasuredPoint& p) { return p.shape.kv_heads == p.shape.heads; }))
      continue;
    Varied here{option, {}};
    for (const MeasuredPoint& point : points) {
      const std::string word = one.word(point);
      if (std::find(here.values.begin(), here.values.end(), word) == here.values.end()) here.values.push_back(word);
    }
    if (here.values.size() > 1) varied.push_back(std::move(here));
  }
  return varied;
}

}  // namespace

void measure(MeasuredSweep& sweep, bool plane, MeasureWanted wanted, const std::stop_token& stop) {
  if (!wanted.fresh) wanted.options.cache = measured_cache();
  std::int64_t done = 0, cached = 0;
  const auto measured = [&] {
    return std::count_if(sweep.points.begin(), sweep.points.end(), [](const MeasuredPoint& p) { return p.gpu; });
  };
  try {
    ProgressLine line("points measured");
    const auto progress = line.callback();
    measure_sweep(sweep, plane, wanted.options, stop, [&](bool known) {
      ++done, cached += known;
      progress(done, static_cast<std::int64_t>(sweep.points.size()));
    });
  } catch (const Cancelled&) {
    fmt::print(stderr, "flashscope sweep: {} kept: the same command goes on from there\n",
               counted(measured(), "measured point is", "measured points are"));
    throw;
  }
  fmt::print(stderr, "flashscope sweep: {} on {}: {} measured, {} of these known from before, {} failed\n",
             counted(done, "point"), sweep.on.device, measured(), cached, done - measured());
  if (plane)
    std::sort(sweep.points.begin(), sweep.points.end(), [](const MeasuredPoint& a, const MeasuredPoint& b) {
      return std::pair(a.recipe.Br, a.recipe.Bc) < std::pair(b.recipe.Br, b.recipe.Bc);
    });
}

MeasuredSweep saved_sweep(const MeasureWanted& wanted) {
  SessionFile session = read_session(wanted.from);
  const auto count = static_cast<std::int64_t>(session.sweeps.size());
  if (count == 0)
    throw InputError(wanted.from.string(), "a session without a measured sweep",
                     "one that `flashscope sweep --measure --save` wrote");
  const std::int64_t number = wanted.number.value_or(count);
  if (number > count) throw InputError("--number", std::to_string(number), fmt::format("1 to {}", count));
  if (count > 1) fmt::print(stderr, "flashscope sweep: sweep {} of {} in this session\n", number, count);
  return std::move(session.sweeps[static_cast<std::size_t>(number - 1)]);
}

void save_sweep(const MeasuredSweep& sweep, const std::filesystem::path& path) {
  SessionFile session;
  if (std::filesystem::exists(path)) {
    if (!is_session(path)) throw InputError(path.string(), "a file that is no session", "a session, or no file");
    session = read_session(path);
  } else if (!sweep.points.empty()) {
    session.recipe = sweep.points.front().recipe;
  }
  session.sweeps.push_back(sweep);
  write_session(path, session);
}

Swept swept_of(MeasuredSweep sweep, std::int64_t memory, const std::stop_token& stop) {
  if (sweep.points.empty()) throw InputError("the sweep", "no points", "one or more");
  Swept swept;
  swept.memory = memory;
  swept.varied = what_varies(sweep.points);
  for (const MeasuredPoint& measured : sweep.points) {
    SweptPoint& point = swept.points.emplace_back();
    for (const Varied& one : swept.varied) {
      const auto found =
          std::find_if(kNames.begin(), kNames.end(), [&](const Name& known) { return known.name == one.name; });
      point.words.push_back(found->word(measured));
    }
    point.problem = std::make_shared<const SweepProblem>(sweep_problem(measured.shape, measured.mask, stop));
    point.recipe = measured.recipe;
    point.measured = measured;
  }
  swept.measured = std::move(sweep);
  count_all(swept, stop);
  return swept;
}

}  // namespace flashscope::command_line
