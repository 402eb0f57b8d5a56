// One frame of the stage as a PNG, drawn without a window from what a document holds.
#pragma once

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <stop_token>
#include <string>

#include "app/document.h"
#include "viz/stage.h"

namespace flashscope::command_line {

// The graphics device is missing or failed; exit 4.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Picture {
  std::filesystem::path out;
  int width = 1280, height = 720;  // pixels
  float pixel_ratio = 1;
  bool dark = true;
  viz::MapColour map_colour = viz::MapColour::largest_score;
  bool scan = true;  // colour the tile map by the whole run; else it shows the walk only
};

// Waits for the document's seek (and scan), draws, writes the file. Returns the renderer's name.
// Throws DeviceError, Cancelled, std::runtime_error for a file that cannot be written.
std::string draw_picture(Document& document, const Picture& picture, const std::stop_token& stop);

}  // namespace flashscope::command_line
