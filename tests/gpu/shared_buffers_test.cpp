// CUDA's arrays in OpenGL's buffers, read back by OpenGL, in an EGL context of the GPU's own.
#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <GL/glcorearb.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include "kernels/host/shared_buffers.h"
#include "support.h"
#include "tests/gpu/map_samples.h"
#include "tests/gpu/step_samples.h"

namespace flashscope::gpu {
namespace {

// OpenGL without a window on the EGL device that is CUDA device 0. Opened by hand: servers often have no libEGL.
class EglContext {
 public:
  EglContext() {
    library_ = dlopen("libEGL.so.1", RTLD_NOW);
    if (!library_) {
      missing = "no libEGL.so.1";
      return;
    }
    find(get_, "eglGetProcAddress");
    PFNEGLQUERYDEVICESEXTPROC query_devices = nullptr;
    PFNEGLQUERYDEVICEATTRIBEXTPROC query_attribute = nullptr;
    PFNEGLGETPLATFORMDISPLAYEXTPROC platform_display = nullptr;
    PFNEGLINITIALIZEPROC initialize = nullptr;
    PFNEGLBINDAPIPROC bind_api = nullptr;
    PFNEGLCHOOSECONFIGPROC choose_config = nullptr;
    PFNEGLCREATECONTEXTPROC create_context = nullptr;
    proc(query_devices, "eglQueryDevicesEXT"), proc(query_attribute, "eglQueryDeviceAttribEXT");
    proc(platform_display, "eglGetPlatformDisplayEXT");
    find(initialize, "eglInitialize"), find(bind_api, "eglBindAPI"), find(choose_config, "eglChooseConfig");
    find(create_context, "eglCreateContext"), find(make_current_, "eglMakeCurrent");
    find(destroy_context_, "eglDestroyContext");
    if (!query_devices || !query_attribute || !platform_display) {
      missing = "EGL has no device platform";
      return;
    }
    EGLDeviceEXT devices[16] = {}, device = nullptr;
    EGLint count = 0;
    query_devices(16, devices, &count);
    for (int n = 0; n < count; ++n) {
      EGLAttrib cuda = -1;
      if (query_attribute(devices[n], EGL_CUDA_DEVICE_NV, &cuda) && cuda == 0) device = devices[n];
    }
    if (!device) {
      missing = "no EGL device is CUDA device 0";
      return;
    }
    display_ = platform_display(EGL_PLATFORM_DEVICE_EXT, device, nullptr);
    EGLConfig config = nullptr;
    const EGLint config_attributes[] = {EGL_SURFACE_TYPE, EGL_PBUFFER_BIT, EGL_RENDERABLE_TYPE, EGL_OPENGL_BIT,
                                        EGL_NONE};
    const EGLint context_attributes[] = {EGL_CONTEXT_MAJOR_VERSION, 4, EGL_CONTEXT_MINOR_VERSION, 5, EGL_NONE};
    if (!display_ || !initialize(display_, nullptr, nullptr) || !bind_api(EGL_OPENGL_API) ||
        !choose_config(display_, config_attributes, &config, 1, &count) || count < 1) {
      missing = "EGL does not start on the GPU";
      return;
    }
    context_ = create_context(display_, config, EGL_NO_CONTEXT, context_attributes);
    if (!context_ || !make_current_(display_, EGL_NO_SURFACE, EGL_NO_SURFACE, context_)) missing = "no OpenGL 4.5";
  }
  ~EglContext() {
    if (!context_) return;
    make_current_(display_, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
    destroy_context_(display_, context_);
  }
  EglContext(const EglContext&) = delete;
  EglContext& operator=(const EglContext&) = delete;

  template <class Function>
  void proc(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(get_(name));
  }
  std::string missing;

 private:
  template <class Function>
  void find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(dlsym(library_, name));
  }
  void* library_ = nullptr;
  PFNEGLGETPROCADDRESSPROC get_ = nullptr;
  PFNEGLMAKECURRENTPROC make_current_ = nullptr;
  PFNEGLDESTROYCONTEXTPROC destroy_context_ = nullptr;
  EGLDisplay display_ = EGL_NO_DISPLAY;
  EGLContext context_ = EGL_NO_CONTEXT;
};

// OpenGL's calls on buffers.
struct BufferCalls {
  explicit BufferCalls(const EglContext& egl) {
    egl.proc(create, "glCreateBuffers"), egl.proc(allocate, "glNamedBufferData");
    egl.proc(read, "glGetNamedBufferSubData"), egl.proc(remove, "glDeleteBuffers");
  }
  PFNGLCREATEBUFFERSPROC create = nullptr;
  PFNGLNAMEDBUFFERDATAPROC allocate = nullptr;
  PFNGLGETNAMEDBUFFERSUBDATAPROC read = nullptr;
  PFNGLDELETEBUFFERSPROC remove = nullptr;
};

class Sharing : public OnGpu {
 protected:
  static std::shared_ptr<const Problem> problem() {
    Mask mask;
    mask.causal = Causal::top_left;
    return random_problem({1, 1, 200, 200, 32, 32, DType::float32}, 11, {}, mask);
  }
  static Recipe recipe() {
    Recipe recipe;
    recipe.Br = 64, recipe.Bc = 48;
    return recipe;
  }
};

TEST_F(Sharing, what_OpenGL_reads_back_is_what_was_stepped) {
  const EglContext egl;
  if (!egl.missing.empty()) GTEST_SKIP() << egl.missing;
  const BufferCalls gl(egl);
  PFNGLGETSTRINGPROC get_string = nullptr;
  egl.proc(get_string, "glGetString");

  GpuStepper stepper(problem(), recipe());
  GLuint buffers[2] = {};
  gl.create(2, buffers);
  gl.allocate(buffers[0], 64 * 32 * 4, nullptr, GL_DYNAMIC_COPY);
  gl.allocate(buffers[1], 64 * 48 * 4, nullptr, GL_DYNAMIC_COPY);
  {
    SharedBuffers shared(0);
    const int O = shared.add_buffer(buffers[0]), S = shared.add_buffer(buffers[1]);
    EXPECT_TRUE(shared.shared()) << shared.status();
    fmt::print("{}; {}\n", shared.status(), reinterpret_cast<const char*>(get_string(GL_RENDERER)));
    const auto expect_holds = [&](GLuint buffer, const std::vector<double>& expected, const char* what) {
      std::vector<float> found(expected.size());
      gl.read(buffer, 0, static_cast<GLsizeiptr>(found.size() * 4), found.data());
      for (std::size_t n = 0; n < found.size(); ++n) ASSERT_EQ(found[n], expected[n]) << what << " " << n;
    };
    // Two states, so that the second cannot show the first; a full tile, and a ragged one, whose rows lie further apart
    // than they are long.
    for (const std::int64_t j : {1, 4}) {
      const std::int64_t K = *stepper.schedule().find(0, 3, j, Stage::accumulate) + 1;
      const DeviceState state = stepper.seek(K);
      const SharedBuffers::Copy copies[] = {{O, state.array(StepBuffer::O)}, {S, state.array(StepBuffer::S)}};
      shared.update(copies, [](const SharedBuffers::Copy&, const void*) { FAIL() << "through the host"; });
      const TraceState expected = stepper.read(state);
      expect_holds(buffers[0], expected.O.values, "O");
      expect_holds(buffers[1], expected.S.values, "S");
    }
  }
  gl.remove(2, buffers);
}

// The tile map as the stage draws it: a buffer of cells and one of |O|, whole and while it is made, against the scan.
TEST_F(Sharing, the_map_in_OpenGLs_buffers_is_the_scans) {
  const EglContext egl;
  if (!egl.missing.empty()) GTEST_SKIP() << egl.missing;
  const BufferCalls gl(egl);

  // More rows of cells than run at once on any GPU, so that the map comes in parts.
  Mask mask;
  mask.causal = Causal::top_left;
  const auto problem = random_problem({1, 1, 4096, 256, 32, 32, DType::float32}, 11, {}, mask);
  Recipe by;
  by.Br = 2, by.Bc = 48;
  Scan scan(problem, by, 0, 1);
  scan.wait();
  const ScanMap& whole = *scan.map(0);
  const std::vector<float> norms = scan.o_row_norm(0);
  GpuStepper stepper(problem, by);
  GLuint buffers[2] = {};
  gl.create(2, buffers);
  gl.allocate(buffers[0], static_cast<GLsizeiptr>(whole.cells.size() * sizeof(TileCell)), nullptr, GL_DYNAMIC_COPY);
  gl.allocate(buffers[1], static_cast<GLsizeiptr>(norms.size() * sizeof(float)), nullptr, GL_DYNAMIC_COPY);
  {
    SharedBuffers shared(0);
    const int cells = shared.add_buffer(buffers[0]), o_norm = shared.add_buffer(buffers[1]);
    EXPECT_TRUE(shared.shared()) << shared.status();
    stepper.begin_map(0);
    std::int64_t rows_before = 0, parts = 0;
    for (bool complete = false; !complete;) {
      const DeviceMap map = stepper.extend_map();
      complete = map.complete();
      const std::int64_t rows = map.cells().rows;
      if (rows == rows_before) continue;
      rows_before = rows, ++parts;
      const SharedBuffers::Copy copies[] = {{cells, map.cells()}, {o_norm, map.o_norm()}};
      shared.update(copies, [](const SharedBuffers::Copy&, const void*) { FAIL() << "through the host"; });
      std::vector<TileCell> found(static_cast<std::size_t>(rows * whole.cols)), expected;
      gl.read(buffers[0], 0, static_cast<GLsizeiptr>(found.size() * sizeof(TileCell)), found.data());
      for (std::size_t n = 0; n < found.size(); ++n) {
        const MapCell& cell = whole.cells[n];
        expected.push_back({cell.largest_score, cell.rescaled_rows, cell.softmax_mass, cell.nan_cells});
      }
      expect_cells(found, expected, engine_fuses() ? 1e-5 : 1e-4);
      std::vector<float> found_norms(static_cast<std::size_t>(map.o_norm().rows));
      gl.read(buffers[1], 0, static_cast<GLsizeiptr>(found_norms.size() * sizeof(float)), found_norms.data());
      expect_norms(found_norms, {norms.begin(), norms.begin() + map.o_norm().rows}, engine_fuses() ? 1e-6 : 1e-4);
    }
    EXPECT_GT(parts, 1);
    EXPECT_EQ(rows_before, whole.rows);
  }
  gl.remove(2, buffers);
}

// Without OpenGL on the GPU (here: without any) the same arrays come through the host, and that is said.
TEST_F(Sharing, without_OpenGL_on_the_GPU_it_is_a_copy_and_says_so) {
  GpuStepper stepper(problem(), recipe());
  SharedBuffers shared(0);
  EXPECT_FALSE(shared.shared());
  EXPECT_EQ(shared.status().find("copied through the host: "), 0u) << shared.status();
  const int P = shared.add_buffer(7);
  const DeviceState state = stepper.seek(*stepper.schedule().find(0, 2, 0, Stage::accumulate) + 1);
  std::vector<float> found;
  const SharedBuffers::Copy copies[] = {{P, state.array(StepBuffer::P)}, {P, state.array(StepBuffer::LSE)}};
  shared.update(copies, [&](const SharedBuffers::Copy& copy, const void* data) {
    EXPECT_EQ(copy.slot, P);
    const auto* first = static_cast<const float*>(data);
    found.insert(found.end(), first, first + copy.from.rows * copy.from.cols);
  });
  const TraceState expected = stepper.read(state);
  ASSERT_EQ(found.size(), expected.P.values.size());  // and nothing of LSE, which does not exist yet
  for (std::size_t n = 0; n < found.size(); ++n) ASSERT_EQ(found[n], expected.P.values[n]) << n;
}

}  // namespace
}  // namespace flashscope::gpu
