// Standard normal numbers from a seed, as the engine's random_problem draws them: element n of Q, K, V in that order is
// a function of (seed, n) alone, so that inputs of any size are made where they are needed and none is sent there.
//
// Philox4x32-10 (Salmon et al. 2011): four words a block; Box-Muller in float64 on each half of it; rounded to the
// type. A thread takes blocks of four: (seed, n) -> 4 words -> elements 4 n .. 4 n + 3.
//
// Traffic, in elements: what is written, each once. Constant: TYPE, 0 float32, 1 float16, 2 bfloat16.
using u32 = unsigned int;
using u64 = unsigned long long;

#if TYPE == 0
using Element = float;
__device__ inline float from_float(float x) { return x; }
#else
using Element = unsigned short;
__device__ inline Element from_float(float x) {
  Element bits;
#if TYPE == 1
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#else
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#endif
  return bits;
}
#endif

__device__ inline void philox(u32 (&c)[4], u64 seed) {
  u32 k0 = static_cast<u32>(seed), k1 = static_cast<u32>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const u64 p0 = 0xD2511F53ull * c[0], p1 = 0xCD9E8D57ull * c[2];
    const u32 next0 = static_cast<u32>(p1 >> 32) ^ c[1] ^ k0, next2 = static_cast<u32>(p0 >> 32) ^ c[3] ^ k1;
    c[0] = next0, c[1] = static_cast<u32>(p1), c[2] = next2, c[3] = static_cast<u32>(p0);
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
}

// Elements [first, first + n) of the sequence to `to`.
extern "C" __global__ void random_normals(Element* to, u64 first, u64 n, u64 seed) {
  const u64 step = static_cast<u64>(gridDim.x) * blockDim.x, last = (first + n + 3) / 4;
  for (u64 block = first / 4 + static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; block < last; block += step) {
    u32 c[4] = {static_cast<u32>(block), static_cast<u32>(block >> 32), 0, 0};
    philox(c, seed);
    for (int half = 0; half < 2; ++half) {
      const double u = (c[2 * half] + 0.5) * 0x1p-32, v = c[2 * half + 1] * 0x1p-32;  // u in (0, 1)
      const double radius = sqrt(-2 * log(u)), angle = 2 * 3.14159265358979323846 * v;
      const double pair[2] = {radius * cos(angle), radius * sin(angle)};
      for (int k = 0; k < 2; ++k) {
        const u64 at = 4 * block + 2 * half + k;
        if (at >= first && at < first + n) to[at - first] = from_float(static_cast<float>(pair[k]));
      }
    }
  }
}
