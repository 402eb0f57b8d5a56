#version 430 core
// heat_image (viz/heat_image.h) on the GPU: from a matrix in a buffer to texels of (index into the palette, mark). Where
// a texel covers several cells it shows a NaN if any is NaN, then +inf, then the finite value of largest magnitude.
layout(local_size_x = 8, local_size_y = 8) in;
layout(std430, binding = 0) readonly buffer Values { uint words[]; };    // floats, or doubles as pairs of words
layout(std430, binding = 1) readonly buffer Visible { uint visible[]; };  // bytes
layout(rg8ui, binding = 0) writeonly uniform uimage2D texels;
uniform ivec4 window;      // row0, rows, col0, cols
uniform ivec2 strides;     // of a row, of a column, in elements
uniform ivec2 size;        // of the image
uniform bool doubles, masked;
uniform int visible_cols;
uniform vec2 range;        // low, high

const uint VALUE = 0u, NAN = 1u, PLUS_INF = 2u, MASKED = 3u, MINUS_INF = 4u, ABSENT = 5u, MASKED_VALUE = 6u;

// The bits decide what is no number: a compiler may assume that arithmetic sees none.
bool is_nan(uint bits) { return (bits & 0x7fffffffu) > 0x7f800000u; }
bool is_inf(uint bits) { return (bits & 0x7fffffffu) == 0x7f800000u; }

uint value_bits(int at) {
  if (!doubles) return words[at];
  uint low = words[2 * at], high = words[2 * at + 1];
  if ((high & 0x7ff00000u) == 0x7ff00000u) {  // the conversion below is for numbers
    bool nan = (high & 0x000fffffu) != 0u || low != 0u;
    return nan ? 0x7fc00000u : (high & 0x80000000u) | 0x7f800000u;
  }
  return floatBitsToUint(float(packDouble2x32(uvec2(low, high))));
}

bool is_visible(int row, int col) {
  if (!masked) return true;
  int at = row * visible_cols + col;
  return (visible[at >> 2] >> (8 * (at & 3)) & 0xffu) != 0u;
}

int rank(uint mark) {
  if (mark == NAN) return 5;
  if (mark == PLUS_INF) return 4;
  if (mark == VALUE || mark == MASKED_VALUE) return 3;
  if (mark == MINUS_INF) return 2;
  return mark == MASKED ? 1 : 0;
}

// floor(n cells / texels) without a product that overflows.
int edge(int n, int cells, int texels) { return n * (cells / texels) + n * (cells % texels) / texels; }

void main() {
  ivec2 at = ivec2(gl_GlobalInvocationID.xy);
  if (any(greaterThanEqual(at, size))) return;
  uvec2 best = uvec2(0u, ABSENT);
  float largest = -1.0;
  for (int r = edge(at.y, window.y, size.y); r < edge(at.y + 1, window.y, size.y); ++r) {
    for (int c = edge(at.x, window.w, size.x); c < edge(at.x + 1, window.w, size.x); ++c) {
      int row = window.x + r, col = window.z + c;
      uint bits = value_bits(row * strides.x + col * strides.y);
      bool seen = is_visible(row, col);
      uvec2 texel = uvec2(0u);
      float magnitude = 0.0;
      if (is_nan(bits)) {
        texel.y = NAN;
      } else if (!seen && ((bits & 0x7fffffffu) == 0u || bits == 0xff800000u)) {
        texel.y = MASKED;
      } else if (is_inf(bits)) {
        texel.y = bits == 0x7f800000u ? PLUS_INF : MINUS_INF;
      } else {
        float value = uintBitsToFloat(bits), span = range.y - range.x;
        float share = span > 0.0 ? clamp((value - range.x) / span, 0.0, 1.0) : 0.5;
        texel = uvec2(uint(floor(255.0 * share + 0.5)), seen ? VALUE : MASKED_VALUE);
        magnitude = abs(value);
      }
      int better = rank(texel.y) - rank(best.y);
      if (better > 0 || (better == 0 && magnitude > largest)) best = texel, largest = magnitude;
    }
  }
  imageStore(texels, at, uvec4(best, 0u, 0u));
}
