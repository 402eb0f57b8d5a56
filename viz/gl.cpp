#include "viz/gl.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>

#include "embedded/shader_file.h"

namespace flashscope::viz {
namespace {

GLuint compile(GLenum stage, std::string_view file) {
  const auto source = shader_file(file);
  if (source.empty()) throw std::runtime_error(fmt::format("shader {}: not in the program", file));
  const GLuint shader = glCreateShader(stage);
  const auto* text = reinterpret_cast<const GLchar*>(source.data());
  const auto length = static_cast<GLint>(source.size());
  glShaderSource(shader, 1, &text, &length);
  glCompileShader(shader);
  GLint ok = 0;
  glGetShaderiv(shader, GL_COMPILE_STATUS, &ok);
  if (ok) return shader;
  std::string log(4096, '\0');
  GLsizei written = 0;
  glGetShaderInfoLog(shader, static_cast<GLsizei>(log.size()), &written, log.data());
  glDeleteShader(shader);
  throw std::runtime_error(fmt::format("shader {}: {}", file, log.substr(0, written)));
}

}  // namespace

Program::Program(std::string_view vertex_file, std::string_view fragment_file) : name_(glCreateProgram()) {
  for (const auto& [stage, file] :
       {std::pair{GLenum{GL_VERTEX_SHADER}, vertex_file}, std::pair{GLenum{GL_FRAGMENT_SHADER}, fragment_file}}) {
    const GLuint shader = compile(stage, file);
    glAttachShader(name_, shader);
    glDeleteShader(shader);  // lives on while attached
  }
  glLinkProgram(name_);
  GLint ok = 0;
  glGetProgramiv(name_, GL_LINK_STATUS, &ok);
  if (!ok) throw std::runtime_error(fmt::format("shaders {} and {} do not link", vertex_file, fragment_file));
}

ComputeProgram::ComputeProgram(std::string_view file) : name_(glCreateProgram()) {
  const GLuint shader = compile(GL_COMPUTE_SHADER, file);
  glAttachShader(name_, shader);
  glDeleteShader(shader);
  glLinkProgram(name_);
  GLint ok = 0;
  glGetProgramiv(name_, GL_LINK_STATUS, &ok);
  if (!ok) throw std::runtime_error(fmt::format("shader {} does not link", file));
}

void Texture::reserve(GLenum internal_format, int width, int height) {
  if (name_ && (width != width_ || height != height_)) {
    glDeleteTextures(1, &name_);
    name_ = 0;
  }
  if (!name_) {
    glGenTextures(1, &name_);
    glBindTexture(GL_TEXTURE_2D, name_);
    glTexStorage2D(GL_TEXTURE_2D, 1, internal_format, width, height);
    glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
    glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
    width_ = width, height_ = height;
  }
}

void Texture::upload(GLenum internal_format, int width, int height, GLenum format, GLenum type, const void* pixels) {
  reserve(internal_format, width, height);
  glBindTexture(GL_TEXTURE_2D, name_);
  glPixelStorei(GL_UNPACK_ALIGNMENT, 1);
  glPixelStorei(GL_UNPACK_ROW_LENGTH, 0);
  glTexSubImage2D(GL_TEXTURE_2D, 0, 0, 0, width, height, format, type, pixels);
}

void Texture::bind_image(int unit, GLenum format) const {
  glBindImageTexture(static_cast<GLuint>(unit), name_, 0, GL_FALSE, 0, GL_WRITE_ONLY, format);
}

void Texture::bind(int unit) const {
  glActiveTexture(GL_TEXTURE0 + unit);
  glBindTexture(GL_TEXTURE_2D, name_);
}

}  // namespace flashscope::viz
