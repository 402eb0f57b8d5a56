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
using viz::SharedChip;

struct Pair {
  StepBuffer from;
  int slot;  // of SharedChip
};
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
                            Pair{StepBuffer::visible, SharedChip::kVisible}};

}  // namespace

struct GpuPicture::Impl {
  SharedChip chip;
  std::optional<gpu::SharedBuffers> buffers;  // after `chip`: what is registered goes before the buffers do
  int device = -1;
  std::array<int, SharedChip::kSlots> registered{};
  std::shared_ptr<const gpu::DeviceState> state;  // shown
  std::shared_ptr<const gpu::DeviceMap> map;
  std::shared_ptr<const viz::SharedArrays> arrays;
  std::shared_ptr<const viz::SharedMap> shared_map;
  std::string status;

  void forget() { arrays.reset(), shared_map.reset(); }

  void on(int wanted) {
    if (buffers && device == wanted) return;
    buffers.reset();
    buffers.emplace(wanted);
    device = wanted;
    registered.fill(-1);
  }

  // Where the array will be: its copy is one more of the frame's.
  viz::SharedArray place(int slot, const gpu::DeviceArray& from, std::vector<gpu::SharedBuffers::Copy>& copies) {
    if (from.rows == 0 || from.cols == 0) return {};
    const std::int64_t bytes = from.rows * from.cols * from.element_bytes;
    int& known = registered[static_cast<std::size_t>(slot)];
    if (known < 0 || !chip.has_room(slot, bytes)) {
      if (known >= 0) buffers->remove(known);
      known = -1;  // also when the next line throws
      known = buffers->add_buffer(chip.reserve(slot, bytes));
    }
    copies.push_back({known, from});
    return {chip.name(slot), from.rows, from.cols, from.element_bytes == 8};
  }

  std::shared_ptr<const viz::SharedArrays> place_state(std::vector<gpu::SharedBuffers::Copy>& copies) {
    if (!state) return {};
    auto placed = std::make_shared<viz::SharedArrays>();
    placed->K = state->K();
    for (const Pair& pair : kPairs) {
      const viz::SharedArray array = place(pair.slot, state->array(pair.from), copies);
      if (pair.slot == SharedChip::kVisible)
        placed->visible = array;
      else
        placed->chip[static_cast<std::size_t>(pair.slot)] = array;
    }
    return placed;
  }

  std::shared_ptr<const viz::SharedMap> place_map(const std::shared_ptr<const ScanMap>& of,
                                                  std::vector<gpu::SharedBuffers::Copy>& copies) {
    if (!map) return {};
    auto placed = std::make_shared<viz::SharedMap>();
    placed->cells = place(SharedChip::kMapCells, map->cells(), copies);
    placed->o_norm = place(static_cast<int>(ChipBuffer::o_norm), map->o_norm(), copies);
    placed->of = of;
    return placed;
  }

  void show(const Document& document) {
    const auto new_state = document.device_state();
    const auto new_map = document.device_map();
    const bool other_state = state != new_state, other_map = map != new_map;
    if (!other_state && !other_map) return;
    // What was copied from is let go only now: its copy is over.
    state = new_state, map = new_map;
    if (!state && !map) return forget();
    on(document.stepping_device());
    std::vector<gpu::SharedBuffers::Copy> copies;
    if (other_state) arrays = place_state(copies);
    if (other_map) shared_map = place_map(document.stage().map, copies);
    buffers->update(copies, [&](const gpu::SharedBuffers::Copy& copy, const void* data) {
      for (int slot = 0; slot < SharedChip::kSlots; ++slot)
        if (registered[static_cast<std::size_t>(slot)] == copy.slot)
          chip.upload(slot, data, copy.from.rows * copy.from.cols * copy.from.element_bytes);
    });
    status = buffers->status();
  }
};

GpuPicture::GpuPicture() : impl_(std::make_unique<Impl>()) {}
GpuPicture::~GpuPicture() = default;

void GpuPicture::show(const Document& document, viz::StageData& data) {
  try {
    impl_->show(document);
  } catch (const std::exception& error) {
    impl_->forget();
    impl_->status = std::string("drawn from the host's copy: ") + error.what();
  }
  data.shared = impl_->arrays, data.shared_map = impl_->shared_map;
}

const std::string& GpuPicture::status() const { return impl_->status; }

#else

struct GpuPicture::Impl {
  std::string status;
};
GpuPicture::GpuPicture() : impl_(std::make_unique<Impl>()) {}
GpuPicture::~GpuPicture() = default;
void GpuPicture::show(const Document&, viz::StageData&) {}
const std::string& GpuPicture::status() const { return impl_->status; }

#endif

}  // namespace flashscope
