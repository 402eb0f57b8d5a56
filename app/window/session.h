// What is remembered from one start to the next: the problem's files, its mask and scale, the recipe and the
// place.
#pragma once

#include <QStringList>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "app/window/stops.h"
#include "engine/attention/recipe.h"
#include "engine/files/problem_file.h"

class QSettings;

namespace flashscope::window {

struct Session {
  std::optional<ProblemFiles> files;   // none: the demo
  std::filesystem::path session_file;  // a session that was open; it has all of the rest
  Causal causal = Causal::none;
  std::optional<flashscope::Window> window;
  MaskRules rules;
  double scale = 0;
  Recipe recipe;
  std::optional<Recipe> beside;  // the second recipe in step
  std::int64_t K = 0;
};

void save_session(QSettings& settings, const Session& session);
// Nothing where none was saved, or where it cannot be read (then the start is as if it were the first).
std::optional<Session> load_session(QSettings& settings);

void save_stops(QSettings& settings, const Stops& stops);
Stops load_stops(QSettings& settings);

}  // namespace flashscope::window
