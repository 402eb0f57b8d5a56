// What every attention kernel is launched with. Shared by the host and by device code, so it includes nothing.
//
// Q (heads, Nq, d), K (heads / group, Nk, d), V (heads / group, Nk, dv), O (heads, Nq, dv), m, l, LSE (heads, Nq);
// all row-major without gaps. Row r sees the keys [r + band_lo, r + band_hi) clipped to [0, Nk). The keep mask
// (one byte a cell) and the bias are planes with a stride of 0 where they broadcast.
#pragma once

namespace flashscope::gpu {

struct Plane {
  const void* data = nullptr;
  long long head_stride = 0, row_stride = 0;  // elements
  int col_stride = 0;
};

// Places of `counted`: bytes read and written of each operand, in the order of the ledger's Operand.
enum CountedOperand { kQ, kK, kV, kO, kM, kL, kLSE, kS, kP, kMask, kBias, kCountedOperands };

// When a block of threads worked on a tile, by the device's global timer, in nanoseconds. j = -1: no tile.
struct RecordedSpan {
  unsigned long long start, end;
  int sm, head, i, j;
  unsigned block;
};

struct Arguments {
  const void* Q = nullptr;
  const void* K = nullptr;
  const void* V = nullptr;
  void* O = nullptr;  // the problem's type
  float* LSE = nullptr;
  float* running_O = nullptr;  // flash1's state in HBM
  float* m = nullptr;
  float* l = nullptr;
  void* S = nullptr;  // standard: (heads, Nq, Nk), the problem's type
  void* P = nullptr;
  Plane keep, bias;                          // unsigned char, float
  unsigned long long* counted = nullptr;     // [kCountedOperands][2], where the kernel was compiled to count
  RecordedSpan* spans = nullptr;             // [most_spans], where it was compiled to record
  unsigned long long* span_count = nullptr;  // grows beyond most_spans where some were lost
  unsigned long long most_spans = 0;
  int Nq = 0, Nk = 0, heads = 0;
  int group = 1;           // query heads that share a key/value head
  int heads_together = 1;  // heads whose row blocks are interleaved in the order of launch
  int band_lo = 0, band_hi = 0;
  float scale = 1;
};

}  // namespace flashscope::gpu
