// What goes before a measurement.
//
//      sweep, kernel, sweep            counters: the kernel begins cold, its written lines are pushed out
//      spin ... timed launches         time: the host has submitted all of them before the first begins
//
// sweep reads memory once and writes none: it leaves the L2 full of clean lines of a buffer that nobody needs.
//
// Before a measurement it makes the cache cold; after a kernel, in the same measurement, it pushes that kernel's
// written lines out to DRAM, where they are counted. Traffic: n x 16 bytes read.
extern "C" __global__ void sweep(const uint4* p, unsigned long long n, unsigned int* sink) {
  unsigned int bits = 0;
  const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  for (unsigned long long i = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += step) {
    const uint4 v = p[i];
    bits |= (v.x ^ v.y) | v.z | v.w;
  }
  if (bits == 0x9e3779b9u) *sink = 1;  // never, but the compiler does not know: the buffer is all zeros
}

// spin keeps the device busy for `ns` nanoseconds of its own clock, while the host submits what is timed next: without
// it the first event is stamped before the launch has reached the device. Traffic: none.
extern "C" __global__ void spin(unsigned long long ns) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start)::"memory");
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  } while (now - start < ns);
}
