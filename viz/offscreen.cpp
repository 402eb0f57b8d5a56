#include "viz/offscreen.h"

#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <GL/glcorearb.h>
#include <fmt/format.h>
#include <stb_image_write.h>

#include <algorithm>
#include <stdexcept>

namespace flashscope::viz {
namespace {

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(fmt::format(
      "offscreen: {} failed with EGL error {:#06x}; a software OpenGL 4.3 comes with Mesa (Debian: apt install "
      "libegl1 libgl1-mesa-dri)",
      what, eglGetError()));
}

// Mesa without a window system; else the first device that EGL lists (a GPU driver without that platform).
EGLDisplay open_display() {
  const auto platform_display =
      reinterpret_cast<PFNEGLGETPLATFORMDISPLAYEXTPROC>(eglGetProcAddress("eglGetPlatformDisplayEXT"));
  const auto query_devices = reinterpret_cast<PFNEGLQUERYDEVICESEXTPROC>(eglGetProcAddress("eglQueryDevicesEXT"));
  if (!platform_display) fail("eglGetPlatformDisplayEXT");
  EGLDisplay display = platform_display(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, nullptr);
  if (display != EGL_NO_DISPLAY && eglInitialize(display, nullptr, nullptr)) return display;
  EGLDeviceEXT device = nullptr;
  EGLint count = 0;
  if (query_devices && query_devices(1, &device, &count) && count > 0) {
    display = platform_display(EGL_PLATFORM_DEVICE_EXT, device, nullptr);
    if (display != EGL_NO_DISPLAY && eglInitialize(display, nullptr, nullptr)) return display;
  }
  fail("eglInitialize");
}

void check_drawn(const std::string& renderer) {
  using ResetStatus = GLenum(APIENTRYP)();
  static const auto reset_status = reinterpret_cast<ResetStatus>(eglGetProcAddress("glGetGraphicsResetStatusKHR"));
  if (const GLenum lost = reset_status ? reset_status() : GLenum{GL_NO_ERROR}; lost != GL_NO_ERROR)
    throw ContextLost(fmt::format("OpenGL's context on {} was lost (status {:#06x})", renderer, lost));
  if (const GLenum error = glGetError(); error != GL_NO_ERROR)
    throw std::runtime_error(fmt::format("OpenGL on {} failed with error {:#06x}", renderer, error));
}

}  // namespace

struct Offscreen::Impl {
  int width, height;
  EGLDisplay display = EGL_NO_DISPLAY;
  EGLContext context = EGL_NO_CONTEXT;
  GLuint framebuffer = 0, colour = 0;
};

Offscreen::Offscreen(int width, int height) : impl_(new Impl{width, height}) {
  impl_->display = open_display();
  if (!eglBindAPI(EGL_OPENGL_API)) fail("eglBindAPI");
  const EGLint config_attributes[] = {EGL_SURFACE_TYPE, 0, EGL_RENDERABLE_TYPE, EGL_OPENGL_BIT, EGL_NONE};
  EGLConfig config = nullptr;
  EGLint count = 0;
  if (!eglChooseConfig(impl_->display, config_attributes, &config, 1, &count) || count < 1) fail("eglChooseConfig");
  std::vector<EGLint> attributes{
      EGL_CONTEXT_MAJOR_VERSION,           4,       EGL_CONTEXT_MINOR_VERSION, 3, EGL_CONTEXT_OPENGL_PROFILE_MASK,
      EGL_CONTEXT_OPENGL_CORE_PROFILE_BIT, EGL_NONE};
  const auto create = [&] {
    impl_->context = eglCreateContext(impl_->display, config, EGL_NO_CONTEXT, attributes.data());
    return impl_->context != EGL_NO_CONTEXT;
  };
  // A driver that tells of a lost context; one that does not may go on and draw nothing.
  const auto plain = attributes;
  attributes.pop_back();
  attributes.insert(attributes.end(),
                    {EGL_CONTEXT_OPENGL_ROBUST_ACCESS, EGL_TRUE, EGL_CONTEXT_OPENGL_RESET_NOTIFICATION_STRATEGY,
                     EGL_LOSE_CONTEXT_ON_RESET, EGL_NONE});
  if (!create()) attributes = plain, create();
  if (impl_->context == EGL_NO_CONTEXT) fail("eglCreateContext (OpenGL 4.3 core)");
  make_current();
  glGenTextures(1, &impl_->colour);
  glBindTexture(GL_TEXTURE_2D, impl_->colour);
  glTexStorage2D(GL_TEXTURE_2D, 1, GL_RGBA8, width, height);
  glGenFramebuffers(1, &impl_->framebuffer);
  glBindFramebuffer(GL_FRAMEBUFFER, impl_->framebuffer);
  glFramebufferTexture2D(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D, impl_->colour, 0);
  if (glCheckFramebufferStatus(GL_FRAMEBUFFER) != GL_FRAMEBUFFER_COMPLETE)
    throw std::runtime_error(fmt::format("offscreen: no framebuffer of {} x {} pixels", width, height));
}

// The display is shared by the whole process and stays open.
Offscreen::~Offscreen() {
  eglMakeCurrent(impl_->display, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
  eglDestroyContext(impl_->display, impl_->context);
}

void Offscreen::make_current() {
  if (!eglMakeCurrent(impl_->display, EGL_NO_SURFACE, EGL_NO_SURFACE, impl_->context)) fail("eglMakeCurrent");
}

unsigned Offscreen::framebuffer() const { return impl_->framebuffer; }

std::string Offscreen::renderer() const {
  const auto text = [](GLenum name) { return reinterpret_cast<const char*>(glGetString(name)); };
  return fmt::format("{}, OpenGL {}", text(GL_RENDERER), text(GL_VERSION));
}

std::vector<std::uint8_t> Offscreen::pixels() const {
  const std::size_t stride = std::size_t{4} * impl_->width;
  std::vector<std::uint8_t> rgba(stride * impl_->height);
  glBindFramebuffer(GL_FRAMEBUFFER, impl_->framebuffer);
  glPixelStorei(GL_PACK_ALIGNMENT, 1);
  glReadPixels(0, 0, impl_->width, impl_->height, GL_RGBA, GL_UNSIGNED_BYTE, rgba.data());
  check_drawn(renderer());
  for (int y = 0; y < impl_->height / 2; ++y)  // OpenGL's first row is the bottom one
    std::swap_ranges(rgba.begin() + y * stride, rgba.begin() + (y + 1) * stride,
                     rgba.begin() + (impl_->height - 1 - y) * stride);
  return rgba;
}

void write_png(const std::string& path, int width, int height, const std::vector<std::uint8_t>& rgba) {
  if (!stbi_write_png(path.c_str(), width, height, 4, rgba.data(), 4 * width))
    throw std::runtime_error(fmt::format("{}: cannot be written as a PNG of {} x {}", path, width, height));
}

}  // namespace flashscope::viz
