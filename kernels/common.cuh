// What the kernels share: element types and their conversions by bit operations and PTX (no CUDA header is
// included), loads that bypass L1, asynchronous copies, the tensor-core product, and which tiles are visited.
//
// Compile-time constants of every kernel (the compiler module sets them):
//   BR BC D DV      block sizes and head dimensions        TYPE       0 float32, 1 float16, 2 bfloat16
//   BAND KEEP BIAS  which masks there are (0/1)            MASK_ADD   masked scores get -inf added, not set
//   REVERSE         column blocks from the last on         SKIP_NONE  every tile is visited
//   GUARD           0 clamp, 1 skip, 2 none                EMPTY      0 zero, 1 nan, 2 mean
//   EACH            normalise in every tile (plain)        COUNT      add up the bytes of every tile copy
//   TIMELINE        write down when each tile was worked on
#pragma once
#include "arguments.h"

using flashscope::gpu::Arguments;
using flashscope::gpu::CountedOperand;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

constexpr int kClamp = 0, kSkip = 1, kNoGuard = 2;  // GUARD
constexpr int kZero = 0, kNaN = 1, kMean = 2;       // EMPTY
constexpr bool kMasks = BAND || KEEP || BIAS;

constexpr float kLog2e = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
__device__ inline float infinity() { return __uint_as_float(0x7f800000u); }
__device__ inline float not_a_number() { return __uint_as_float(0x7fffffffu); }

// ---- element types
#if TYPE == 0
using Element = float;
__device__ inline float to_float(float x) { return x; }
__device__ inline float from_float(float x) { return x; }
#else
using Element = u16;
#if TYPE == 1
__device__ inline float to_float(u16 bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
__device__ inline u16 from_float(float x) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
// Two values in one register, the first in the low half.
__device__ inline u32 pack(float low, float high) {
  u32 bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
#else
__device__ inline float to_float(u16 bits) { return __uint_as_float(static_cast<u32>(bits) << 16); }
__device__ inline u16 from_float(float x) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
__device__ inline u32 pack(float low, float high) {
  u32 bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
#endif
#endif

// ---- memory
// A load that bypasses L1: what an SM asks of the L2 is then what the algorithm asks of HBM.
__device__ inline float load(const float* p) {
  float x;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(x) : "l"(p) : "memory");
  return x;
}
__device__ inline u16 load(const u16* p) {
  u16 x;
  asm volatile("ld.global.cg.u16 %0, [%1];" : "=h"(x) : "l"(p) : "memory");
  return x;
}
__device__ inline u32 load(const unsigned char* p) {
  u32 x;
  asm volatile("ld.global.cg.u8 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
  return x;
}
__device__ inline float load_through_l1(const float* p) {
  float x;
  asm("ld.global.ca.f32 %0, [%1];" : "=f"(x) : "l"(p));
  return x;
}
__device__ inline u32 load_through_l1(const unsigned char* p) {
  u32 x;
  asm("ld.global.ca.u8 %0, [%1];" : "=r"(x) : "l"(p));
  return x;
}
__device__ inline u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

// 16 bytes from HBM to shared memory past L1 and registers; zeros where `bytes` is 0.
__device__ inline void copy_16(u32 to, const void* from, int bytes = 16) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// ---- arithmetic
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float row_max(float a, float b) { return fmaxf(a, b); }  // ignores NaN

// ---- which tiles are visited
struct Range {
  int first, last;  // [first, last)
};
// The column blocks of row block [row0, row0 + rows) in which some row sees some key.
__device__ inline Range visited_columns(const Arguments& a, int row0, int rows) {
  const int Tc = (a.Nk + BC - 1) / BC;
  if (SKIP_NONE || !BAND || a.band_lo >= a.band_hi) return {0, SKIP_NONE || !BAND ? Tc : 0};
  const int first = max(0, row0 + a.band_lo), last = min(a.Nk, row0 + rows - 1 + a.band_hi);
  if (first >= last) return {0, 0};
  return {first / BC, (last + BC - 1) / BC};
}
// The row blocks in which some row sees some key of column block [col0, col0 + cols).
__device__ inline Range visited_rows(const Arguments& a, int col0, int cols) {
  const int Tr = (a.Nq + BR - 1) / BR;
  if (SKIP_NONE || !BAND || a.band_lo >= a.band_hi) return {0, SKIP_NONE || !BAND ? Tr : 0};
  const int first = max(0, col0 - a.band_hi + 1), last = min(a.Nq, col0 + cols - a.band_lo);
  if (first >= last) return {0, 0};
  return {first / BR, (last + BR - 1) / BR};
}
// Whether causal and window leave every row every key, and no key is beyond the end: no mask needed.
__device__ inline bool whole_tile(const Arguments& a, int row0, int rows, int col0) {
  if (col0 + BC > a.Nk) return false;
  return !BAND || (row0 + rows - 1 + a.band_lo <= col0 && row0 + a.band_hi >= col0 + BC);
}
// Whether causal and window leave row r any key at all.
__device__ inline bool band_sees_nothing(const Arguments& a, int r) {
  return BAND && max(0, r + a.band_lo) >= min(a.Nk, r + a.band_hi);
}

// ---- counting: one elected thread a block adds up the bytes of the tile copies that the block makes.
struct Counter {
#if COUNT
  u64 bytes[flashscope::gpu::kCountedOperands][2] = {};
  __device__ void read(CountedOperand what, long long n) { bytes[what][0] += n; }
  __device__ void written(CountedOperand what, long long n) { bytes[what][1] += n; }
  __device__ void add_to(u64* total) const {
    if (threadIdx.x != 0) return;
    for (int n = 0; n < flashscope::gpu::kCountedOperands; ++n) {
      if (bytes[n][0] != 0) atomicAdd(total + 2 * n, bytes[n][0]);
      if (bytes[n][1] != 0) atomicAdd(total + 2 * n + 1, bytes[n][1]);
    }
  }
#else
  __device__ void read(CountedOperand, long long) {}
  __device__ void written(CountedOperand, long long) {}
  __device__ void add_to(u64*) const {}
#endif
  __device__ void read_tile(CountedOperand what, long long elements) {
    read(what, elements * static_cast<int>(sizeof(Element)));
  }
  // The masks' parts of one tile; a plane that broadcasts is read once.
  __device__ void read_masks(const Arguments& a, int rows, int cols) {
    if (KEEP)
      read(flashscope::gpu::kMask,
           (a.keep.row_stride ? rows : 1) * static_cast<long long>(a.keep.col_stride ? cols : 1));
    if (BIAS) read(flashscope::gpu::kBias, 4ll * (a.bias.row_stride ? rows : 1) * (a.bias.col_stride ? cols : 1));
  }
};

// ---- the timeline: one elected thread a block writes down when the block worked on each tile, and on which SM. Its
// own end of a tile, no barrier is added: the spans of a block touch or leave gaps, they never overlap.
struct Recorder {
#if TIMELINE
  u64 start = 0;
  static __device__ u64 now() {
    u64 ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
    return ns;
  }
  __device__ void begin() {
    if (threadIdx.x == 0) start = now();
  }
  __device__ void end(const Arguments& a, int head, int i, int j) {
    if (threadIdx.x != 0) return;
    const u64 n = atomicAdd(a.span_count, 1ull);
    if (n >= a.most_spans) return;
    u32 sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    a.spans[n] = {start, now(), static_cast<int>(sm), head, i, j, blockIdx.x};
  }
#else
  __device__ void begin() {}
  __device__ void end(const Arguments&, int, int, int) {}
#endif
};
