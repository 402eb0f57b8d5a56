// Memory that is counted: every large buffer of the engine comes from a MemoryMeter, so that the
// peak of a run is measured by its allocator, not estimated. Buffers are 64-byte aligned for SIMD.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

namespace flashscope {

// Counts the bytes that are allocated through it. Thread-safe.
class MemoryMeter final : public std::pmr::memory_resource {
 public:
  std::int64_t current() const { return current_.load(); }  // bytes
  std::int64_t peak() const { return peak_.load(); }        // bytes, highest current() so far
  void reset_peak() { peak_.store(current_.load()); }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  std::atomic<std::int64_t> current_{0}, peak_{0};
};

// The meter of everything that is not part of one measured run (tensors, the trace's keyframes).
MemoryMeter& process_memory();

template <class T>
using Buffer = std::pmr::vector<T>;

// A buffer of n value-initialised elements, counted by `meter`.
template <class T>
Buffer<T> make_buffer(std::size_t n, std::pmr::memory_resource& meter = process_memory()) {
  return Buffer<T>(n, std::pmr::polymorphic_allocator<T>(&meter));
}

}  // namespace flashscope
