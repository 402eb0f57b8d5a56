// A private OpenGL context without any window system (EGL, surfaceless), and a frame drawn into it.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace flashscope::viz {

// The driver gave the context up: nothing that was drawn in it holds, another one may draw.
struct ContextLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Offscreen {
 public:
  Offscreen(int width, int height);  // throws std::runtime_error with the EGL error and the remedy
  ~Offscreen();
  Offscreen(const Offscreen&) = delete;

  void make_current();
  unsigned framebuffer() const;
  std::string renderer() const;  // GL_RENDERER and GL_VERSION
  // RGBA, top row first, width * height * 4. Throws ContextLost, or std::runtime_error with OpenGL's error.
  std::vector<std::uint8_t> pixels() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Writes RGBA pixels as PNG. Throws std::runtime_error with the file's name.
void write_png(const std::string& path, int width, int height, const std::vector<std::uint8_t>& rgba);

}  // namespace flashscope::viz
