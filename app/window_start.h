// What the window opens with, as the command line asks for it: a file, a problem of its own, a recipe. No Qt.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>

#include "engine/attention/recipe.h"
#include "engine/attention/trace.h"
#include "engine/files/problem_file.h"

namespace flashscope {

// At most one of file, files and make. None: what was open last time, or with a recipe the demo under it.
struct WindowStart {
  WindowStart() = default;
  WindowStart(std::filesystem::path path) : file(std::move(path)) {}  // NOLINT(google-explicit-constructor)

  std::filesystem::path file;         // a session, or tensors that are asked about where it is unclear which is which
  std::optional<ProblemFiles> files;  // tensors, as it is said here which is which
  // Called in the background; with a recipe.
  std::function<std::shared_ptr<const Problem>(const std::stop_token&, const Progress&)> make;
  // Of what has been opened; throws InputError. Empty: the session's, or the usual one.
  std::function<Recipe(const Shape&)> recipe;
};

}  // namespace flashscope
