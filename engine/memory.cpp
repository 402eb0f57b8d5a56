#include "engine/memory.h"

#include <algorithm>
#include <new>

namespace flashscope {
namespace {
constexpr std::size_t kAlignment = 64;  // one AVX-512 vector, one cache line
}

void* MemoryMeter::do_allocate(std::size_t bytes, std::size_t alignment) {
  void* pointer = ::operator new(bytes, std::align_val_t(std::max(alignment, kAlignment)));
  const std::int64_t now = current_ += static_cast<std::int64_t>(bytes);
  std::int64_t seen = peak_.load();
  while (now > seen && !peak_.compare_exchange_weak(seen, now)) {}
  return pointer;
}

void MemoryMeter::do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) {
  ::operator delete(pointer, std::align_val_t(std::max(alignment, kAlignment)));
  current_ -= static_cast<std::int64_t>(bytes);
}

MemoryMeter& process_memory() {
  static MemoryMeter meter;
  return meter;
}

}  // namespace flashscope
