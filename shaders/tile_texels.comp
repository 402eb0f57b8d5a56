#version 430 core
// colour_tiles (viz/tile_grid.h) on the GPU: from the cells of a tile map in a buffer to texels of (colour index, look,
// has NaN). A texel that covers several cells shows the largest of them.
layout(local_size_x = 8, local_size_y = 8) in;
layout(std430, binding = 0) readonly buffer Cells { uint cells[]; };  // four floats each, as MapCell's
layout(rgba8ui, binding = 0) writeonly uniform uimage2D texels;
uniform usampler2D looks;   // texels without their colours
uniform ivec4 window;       // i0, rows, j0, cols, in tiles
uniform ivec2 size;         // of the image
uniform ivec2 cells_size;   // rows that are done, columns
uniform ivec2 scale;        // tiles a cell: down, across
uniform int component;      // 0 largest score, 1 rescaled rows, 2 softmax mass, 3 NaN cells
uniform vec2 range;         // what the palette's ends mean

const uint SKIPPED = 2u;

// The bits decide what is no number: a compiler may assume that arithmetic sees none.
bool is_nan(uint bits) { return (bits & 0x7fffffffu) > 0x7f800000u; }
bool is_inf(uint bits) { return (bits & 0x7fffffffu) == 0x7f800000u; }

// floor(n tiles / texels) without a product that overflows.
int edge(int n, int tiles, int texels) { return n * (tiles / texels) + n * (tiles % texels) / texels; }

// Of an order in which -inf, the numbers and +inf lie as they should.
int order(uint bits) { return (bits & 0x80000000u) != 0u ? -int(bits & 0x7fffffffu) : int(bits); }

uint index_of(uint bits) {
  float span = range.y - range.x;
  bool above = order(bits) > order(floatBitsToUint(range.x));
  float share;
  if (!(span > 0.0)) share = above ? 1.0 : component == 0 ? 0.5 : 0.0;
  else if (is_inf(bits)) share = above ? 1.0 : 0.0;
  else share = clamp((uintBitsToFloat(bits) - range.x) / span, 0.0, 1.0);
  return 1u + uint(floor(254.0 * share + 0.5));
}

void main() {
  ivec2 at = ivec2(gl_GlobalInvocationID.xy);
  if (any(greaterThanEqual(at, size))) return;
  uint look = texelFetch(looks, at, 0).g;
  uint index = 0u, nan = 0u;
  if (look != SKIPPED) {
    int i0 = window.x + edge(at.y, window.y, size.y), i1 = window.x + edge(at.y + 1, window.y, size.y);
    int j0 = window.z + edge(at.x, window.w, size.x), j1 = window.z + edge(at.x + 1, window.w, size.x);
    bool any_value = false;
    uint best = 0u;
    for (int row = i0 / scale.x; row * scale.x < i1 && row < cells_size.x; ++row) {
      for (int col = j0 / scale.y; col * scale.y < j1 && col < cells_size.y; ++col) {
        int cell = 4 * (row * cells_size.y + col);
        if (is_nan(cells[cell])) continue;  // no visited tile in it
        if (uintBitsToFloat(cells[cell + 3]) > 0.0) nan = 1u;
        uint value = cells[cell + component];
        if (is_nan(value)) any_value = false;
        else if (!any_value || order(value) > order(best)) best = value, any_value = true;
      }
    }
    if (any_value) index = index_of(best);
  }
  imageStore(texels, at, uvec4(index, look, nan, 0u));
}
