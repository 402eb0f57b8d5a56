#include "viz/shared_chip.h"

#include <algorithm>

#include "viz/gl.h"

namespace flashscope::viz {

SharedChip::SharedChip() = default;

SharedChip::~SharedChip() {
  for (const Slot& slot : slots_)
    if (slot.name) glDeleteBuffers(1, &slot.name);
}

unsigned SharedChip::reserve(int slot, std::int64_t bytes) {
  Slot& at = slots_[static_cast<std::size_t>(slot)];
  at.bytes = std::max<std::int64_t>(16, (bytes + 15) / 16 * 16);  // the shader reads whole words
  if (at.name) glDeleteBuffers(1, &at.name);
  glGenBuffers(1, &at.name);
  glBindBuffer(GL_SHADER_STORAGE_BUFFER, at.name);
  glBufferData(GL_SHADER_STORAGE_BUFFER, static_cast<GLsizeiptr>(at.bytes), nullptr, GL_DYNAMIC_DRAW);
  return at.name;
}

void SharedChip::upload(int slot, const void* data, std::int64_t bytes) {
  glBindBuffer(GL_SHADER_STORAGE_BUFFER, slots_[static_cast<std::size_t>(slot)].name);
  glBufferSubData(GL_SHADER_STORAGE_BUFFER, 0, static_cast<GLsizeiptr>(bytes), data);
}

}  // namespace flashscope::viz
