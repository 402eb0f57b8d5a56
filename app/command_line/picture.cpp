#include "app/command_line/picture.h"

#include <algorithm>
#include <chrono>
#include <thread>

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

}  // namespace

std::string draw_picture(Document& document, const Picture& picture, const std::stop_token& stop) {
  document.wait_idle();
  if (!document.stage().state) throw std::runtime_error(document.message());
  if (picture.scan) wait_for_scan(document, stop);
  viz::StageData data = document.stage();
  if (!picture.scan) data.map = nullptr, data.strip = nullptr, data.o_row_norm = nullptr, data.totals = {};

  std::string renderer;
  std::vector<std::uint8_t> pixels;
  try {
    viz::Offscreen offscreen(picture.width, picture.height);
    offscreen.make_current();
    viz::Stage stage;
    GpuPicture gpu;
    gpu.show(document, data);
    viz::StageOptions options;
    options.dark = picture.dark, options.map_colour = picture.map_colour, options.animate = false;
    viz::StageInput input;
    input.width = picture.width, input.height = picture.height, input.scale = picture.pixel_ratio;
    input.framebuffer = offscreen.framebuffer();
    for (int frame = 0; frame < 3; ++frame) stage.draw(data, options, input);  // ImGui lays out over its first frames
    renderer = offscreen.renderer();
    if (document.device_state()) renderer += ", stepped on " + document.stepped_by() + ", " + gpu.status();
    pixels = offscreen.pixels();
    // Seen on a GPU after another process's illegal address there: OpenGL says no error and draws nothing.
    if (std::all_of(pixels.begin(), pixels.end(), [](std::uint8_t byte) { return byte == 0; }))
      throw std::runtime_error("OpenGL on " + offscreen.renderer() + " drew nothing; --device cpu may draw there");
  } catch (const std::exception& error) {
    throw DeviceError(error.what());
  }
  viz::write_png(picture.out.string(), picture.width, picture.height, pixels);
  return renderer;
}

}  // namespace flashscope::command_line
