#include "app/command_line/picture.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "app/command_line/interrupt.h"
#include "app/gpu_picture.h"
#include "engine/error.h"
#include "viz/offscreen.h"

namespace flashscope::command_line {
namespace {

// Until the stage shows the whole run: the document takes a snapshot of the scan now and then, and the GPU that steps
// makes its own map.
void wait_for_scan(Document& document, const std::stop_token& stop) {
  ProgressLine line("scanning the run for the tile map");
  const auto show = line.callback();
  while (!document.stage().totals.complete || document.map_pending()) {
    if (stop.stop_requested()) throw Cancelled();
    if (const auto scan = document.scan()) {
      const ScanTotals totals = scan->totals();
      show(totals.tiles_scanned, totals.tiles);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    document.poll();
  }
}

struct Drawn {
  std::vector<std::uint8_t> rgba;
  std::string by;  // the renderer, and where the numbers were stepped
};

// `shared`: a GPU's arrays are drawn where they are, else from the host's copy.
Drawn draw(const Document& document, viz::StageData data, const Picture& picture, bool shared) {
  const viz::Offscreen offscreen(picture.width, picture.height);
  viz::Stage stage;
  GpuPicture gpu;
  if (shared) gpu.show(document, data);
  viz::StageOptions options;
  options.dark = picture.dark, options.map_colour = picture.map_colour, options.animate = false;
  viz::StageInput input;
  input.width = picture.width, input.height = picture.height, input.scale = picture.pixel_ratio;
  input.framebuffer = offscreen.framebuffer();
  for (int frame = 0; frame < 3; ++frame) stage.draw(data, options, input);  // ImGui lays out over its first frames
  Drawn drawn{offscreen.pixels(), offscreen.renderer()};
  if (document.device_state()) {
    drawn.by += ", stepped on " + document.stepped_by();
    if (shared) drawn.by += ", " + gpu.status();
  }
  return drawn;
}

Drawn draw(const Document& document, const viz::StageData& data, const Picture& picture) {
  try {
    return draw(document, data, picture, true);
  } catch (const viz::ContextLost& lost) {
    // After another process's illegal address on an H200 the driver gives up, after 20 s, a context that shares with
    // CUDA; one that does not draws.
    if (!document.device_state()) throw;
    Drawn drawn = draw(document, data, picture, false);
    drawn.by += fmt::format(", drawn from the host's copy: {} when it shared with CUDA", lost.what());
    return drawn;
  }
}

}  // namespace

std::string draw_picture(Document& document, const Picture& picture, const std::stop_token& stop) {
  document.wait_idle();
  if (!document.stage().state) throw std::runtime_error(document.message());
  if (picture.scan) wait_for_scan(document, stop);
  viz::StageData data = document.stage();
  if (!picture.scan) data.map = nullptr, data.strip = nullptr, data.o_row_norm = nullptr, data.totals = {};

  Drawn drawn;
  try {
    drawn = draw(document, data, picture);
  } catch (const std::exception& error) {
    throw DeviceError(error.what());
  }
  viz::write_png(picture.out.string(), picture.width, picture.height, drawn.rgba);
  return drawn.by;
}

}  // namespace flashscope::command_line
