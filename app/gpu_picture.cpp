#include "app/gpu_picture.h"

#include <array>
#include <optional>
#include <vector>

#ifdef FLASHSCOPE_GPU
#include "kernels/host/shared_buffers.h"
#endif

namespace flashscope {

#ifdef FLASHSCOPE_GPU
namespace {

using gpu::StepBuffer;
using viz::ChipBuffer;

struct Pair {
  StepBuffer from;
  int slot;  // of SharedChip
};
constexpr int kVisible = viz::SharedChip::kSlots - 1;
constexpr std::array kPairs{Pair{StepBuffer::Q, static_cast<int>(ChipBuffer::Q)},
                            Pair{StepBuffer::K, static_cast<int>(ChipBuffer::K)},
                            Pair{StepBuffer::V, static_cast<int>(ChipBuffer::V)},
                            Pair{StepBuffer::S, static_cast<int>(ChipBuffer::S)},
                            Pair{StepBuffer::P, static_cast<int>(ChipBuffer::P)},
                            Pair{StepBuffer::O, static_cast<int>(ChipBuffer::O)},
                            Pair{StepBuffer::m, static_cast<int>(ChipBuffer::m)},
                            Pair{StepBuffer::l, static_cast<int>(ChipBuffer::l)},
                            Pair{StepBuffer::alpha, static_cast<int>(ChipBuffer::alpha)},
                            Pair{StepBuffer::LSE, static_cast<int>(ChipBuffer::LSE)},
                            Pair{StepBuffer::visible, kVisible}};

}  // namespace

struct GpuPicture::Impl {
  viz::SharedChip chip;
  std::optional<gpu::SharedBuffers> buffers;  // after `chip`: what is registered goes before the buffers do
  int device = -1;
  std::array<int, viz::SharedChip::kSlots> registered{};
  std::shared_ptr<const gpu::DeviceState> shown;
  std::shared_ptr<const viz::SharedArrays> arrays;
  std::string status;

  void fill(const gpu::DeviceState& state, int on_device) {
    if (!buffers || device != on_device) {
      buffers.reset();
      buffers.emplace(on_device);
      device = on_device;
      registered.fill(-1);
    }
    auto filled = std::make_shared<viz::SharedArrays>();
    filled->K = state.K();
    std::vector<gpu::SharedBuffers::Copy> copies;
    for (const Pair& pair : kPairs) {
      const gpu::DeviceArray from = state.array(pair.from);
      if (from.rows == 0 || from.cols == 0) continue;
      const std::int64_t bytes = from.rows * from.cols * from.element_bytes;
      int& known = registered[static_cast<std::size_t>(pair.slot)];
      if (known < 0 || !chip.has_room(pair.slot, bytes)) {
        if (known >= 0) buffers->remove(known);
        known = buffers->add_buffer(chip.reserve(pair.slot, bytes));
      }
      copies.push_back({known, from});
      const viz::SharedArray array{chip.name(pair.slot), from.rows, from.cols, from.element_bytes == 8};
      if (pair.slot == kVisible)
        filled->visible = array;
      else
        filled->chip[static_cast<std::size_t>(pair.slot)] = array;
    }
    buffers->update(copies, [&](const gpu::SharedBuffers::Copy& copy, const void* data) {
      for (int slot = 0; slot < viz::SharedChip::kSlots; ++slot)
        if (registered[static_cast<std::size_t>(slot)] == copy.slot)
          chip.upload(slot, data, copy.from.rows * copy.from.cols * copy.from.element_bytes);
    });
    arrays = std::move(filled);
    status = buffers->status();
  }
};

GpuPicture::GpuPicture() : impl_(std::make_unique<Impl>()) {}
GpuPicture::~GpuPicture() = default;

std::shared_ptr<const viz::SharedArrays> GpuPicture::show(const Document& document) {
  const std::shared_ptr<const gpu::DeviceState>& state = document.device_state();
  if (state == impl_->shown) return impl_->arrays;
  impl_->shown = state;
  impl_->arrays.reset();
  if (!state) return {};
  try {
    impl_->fill(*state, document.stepping_device());
  } catch (const std::exception& error) {
    impl_->arrays.reset();
    impl_->status = std::string("drawn from the host's copy: ") + error.what();
  }
  return impl_->arrays;
}

const std::string& GpuPicture::status() const { return impl_->status; }

#else

struct GpuPicture::Impl {
  std::string status;
};
GpuPicture::GpuPicture() : impl_(std::make_unique<Impl>()) {}
GpuPicture::~GpuPicture() = default;
std::shared_ptr<const viz::SharedArrays> GpuPicture::show(const Document&) { return {}; }
const std::string& GpuPicture::status() const { return impl_->status; }

#endif

}  // namespace flashscope
