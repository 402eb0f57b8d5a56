// A thin layer over OpenGL 4.3 core: programs from the embedded shader files, and textures and the
// empty vertex array that owned objects need. Every object needs the same context current to be freed.
#pragma once

#include <GL/glcorearb.h>

#include <string_view>
#include <utility>

namespace flashscope::viz {

class Program {
 public:
  // Files of shaders/. Throws std::runtime_error with the compiler's log.
  Program(std::string_view vertex_file, std::string_view fragment_file);
  ~Program() { glDeleteProgram(name_); }
  Program(const Program&) = delete;
  void use() const { glUseProgram(name_); }
  GLint uniform(const char* name) const { return glGetUniformLocation(name_, name); }

 private:
  GLuint name_ = 0;
};

// A compute shader. GLSL sources of shaders/; throws as Program does.
class ComputeProgram {
 public:
  explicit ComputeProgram(std::string_view file);
  ~ComputeProgram() { glDeleteProgram(name_); }
  ComputeProgram(const ComputeProgram&) = delete;
  void use() const { glUseProgram(name_); }
  GLint uniform(const char* name) const { return glGetUniformLocation(name_, name); }

 private:
  GLuint name_ = 0;
};

// A 2D texture with nearest filtering; storage is replaced when the size changes.
class Texture {
 public:
  Texture() = default;
  ~Texture() { glDeleteTextures(1, &name_); }
  Texture(Texture&& other) noexcept
      : name_(std::exchange(other.name_, 0)), width_(other.width_), height_(other.height_) {}
  Texture& operator=(Texture&& other) noexcept {
    std::swap(name_, other.name_);
    std::swap(width_, other.width_), std::swap(height_, other.height_);
    return *this;
  }
  void reserve(GLenum internal_format, int width, int height);  // what it holds is not said
  void upload(GLenum internal_format, int width, int height, GLenum format, GLenum type, const void* pixels);
  void bind(int unit) const;
  void bind_image(int unit, GLenum format) const;  // for a compute shader to write
  int width() const { return width_; }
  int height() const { return height_; }

 private:
  GLuint name_ = 0;
  int width_ = 0, height_ = 0;
};

// Core profile draws nothing without a vertex array; the passes make their corners in the shader.
class VertexArray {
 public:
  VertexArray() { glGenVertexArrays(1, &name_); }
  ~VertexArray() { glDeleteVertexArrays(1, &name_); }
  VertexArray(const VertexArray&) = delete;
  void bind() const { glBindVertexArray(name_); }

 private:
  GLuint name_ = 0;
};

}  // namespace flashscope::viz
