// What is on the chip, and the tile map, as OpenGL buffers, so that a GPU which steps the kernel can leave its arrays
// where they are drawn: the buffers' names are handed out as plain integers, whoever fills them (kernels, through
// CUDA's OpenGL interoperability, or a copy) says what lies in them, and heat_texels.comp and tile_texels.comp turn
// them into the same texels that heat_image and colour_tiles make on the CPU.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

namespace flashscope {
struct ScanMap;
}

namespace flashscope::viz {

// What can be drawn as a heat map. On the chip: K is drawn as K^T; columns are n x 1.
enum class ChipBuffer : std::uint8_t { Q, K, V, S, P, m, alpha, l, O, LSE, o_norm };
inline constexpr int kChipBuffers = 11;

// One matrix in a buffer, row by row without gaps. rows 0: it is not there, and is drawn from the state.
struct SharedArray {
  unsigned buffer = 0;  // OpenGL's name
  std::int64_t rows = 0, cols = 0;
  bool doubles = false;  // else float
};
struct SharedArrays {
  std::array<SharedArray, kChipBuffers> chip{};
  SharedArray visible;  // bytes, of S and P; rows 0: every cell is visible
  std::int64_t K = -1;  // the state that they belong to; of another one they are not drawn
};

// A head's tile map: ScanMap's cells, four floats each, the rows of cells that are done.
struct SharedMap {
  SharedArray cells;                  // cols: cells
  SharedArray o_norm;                 // of their query rows, rows x 1
  std::shared_ptr<const ScanMap> of;  // the same on the host; beside another one nothing of this is drawn
};

// Buffers that grow as they are asked for. The context must be current in every call.
class SharedChip {
 public:
  SharedChip();
  ~SharedChip();
  SharedChip(const SharedChip&) = delete;

  static constexpr int kVisible = kChipBuffers, kMapCells = kChipBuffers + 1, kSlots = kChipBuffers + 2;
  bool has_room(int slot, std::int64_t bytes) const { return slots_[static_cast<std::size_t>(slot)].bytes >= bytes; }
  // Another buffer with room for `bytes`, in the place of the slot's. What is registered elsewhere must be let go
  // before.
  unsigned reserve(int slot, std::int64_t bytes);
  unsigned name(int slot) const { return slots_[static_cast<std::size_t>(slot)].name; }
  void upload(int slot, const void* data, std::int64_t bytes);  // through the host

 private:
  struct Slot {
    unsigned name = 0;
    std::int64_t bytes = 0;
  };
  std::array<Slot, kSlots> slots_{};
};

}  // namespace flashscope::viz
