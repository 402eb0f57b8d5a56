#version 430 core
// The tiles of one head: Tr x Tc cells in one full rectangle, however many. A texel is (colour index,
// 0: not reached; look: 0 full, 1 partial, 2 skipped, 3 visited without a visible key; 1: has NaN). Done, now and to come
// follow from tile numbers: the walk is ordered by `outer` first, `inner` second.
uniform usampler2D tiles;
uniform sampler2D lut;        // 256 x 1
uniform vec4 rect;            // pixels
uniform vec2 viewport;
uniform vec4 grid;            // first column block, first row block, column blocks, row blocks in view
uniform vec4 textured;        // the same of what the texture holds: whole tiles
uniform vec2 all_tiles;       // Tc, Tr
uniform vec2 now;             // j, i; negative: none
uniform vec2 place;           // outer, inner of the first tile that is not done
uniform bool columns_outside;
uniform bool reverse;
uniform bool nan_is_marked;  // not the mode that counts them
uniform vec4 panel_colour, to_come_colour, skipped_colour, hatch_colour, now_colour, ink_colour, nan_colour;
out vec4 colour;

void main() {
  vec2 pixel = vec2(gl_FragCoord.x, viewport.y - gl_FragCoord.y) - rect.xy;
  vec2 at = grid.xy + pixel / rect.zw * grid.zw;
  vec2 tile = clamp(floor(at), vec2(0.0), all_tiles - 1.0);
  vec2 size = rect.zw / grid.zw;  // of a tile, in pixels
  vec2 within = fract(at);
  vec2 edge = min(within, 1.0 - within) * size;

  // The current tile, at least 5 pixels large, or a whole row or column of tiles.
  vec2 centre = (now + 0.5 - grid.xy) * size;
  vec2 half_size = max(size * 0.5, vec2(2.5));
  vec2 from_now = abs(pixel - centre) - half_size;
  bool row_only = now.x < 0.0 && now.y >= 0.0, col_only = now.y < 0.0 && now.x >= 0.0;
  float outside = row_only ? from_now.y : col_only ? from_now.x : max(from_now.x, from_now.y);
  if ((now.x >= 0.0 || now.y >= 0.0) && outside < 0.6 && outside > -2.2) {
    colour = vec4(row_only || col_only ? mix(panel_colour.rgb, now_colour.rgb, 0.75) : now_colour.rgb, 1.0);
    return;
  }
  float gap = min(size.x, size.y) >= 5.0 ? max(0.5, min(1.5, min(size.x, size.y) * 0.04)) : 0.0;
  if (min(edge.x, edge.y) < gap) {
    colour = vec4(panel_colour.rgb, 1.0);
    return;
  }

  ivec2 texels = textureSize(tiles, 0);
  ivec2 texel_at = clamp(ivec2((tile + 0.5 - textured.xy) / textured.zw * vec2(texels)), ivec2(0), texels - 1);
  uvec3 texel = texelFetch(tiles, texel_at, 0).rgb;
  float order = reverse ? all_tiles.x - 1.0 - tile.x : tile.x;
  float outer = columns_outside ? order : tile.y;
  float inner = columns_outside ? tile.y : order;
  bool done = outer < place.x || (outer == place.x && inner < place.y);

  vec3 c;
  if (texel.g == 2u) {
    c = mod(pixel.x + pixel.y, 8.0) < 1.6 ? hatch_colour.rgb : skipped_colour.rgb;
  } else if (texel.g == 3u && nan_is_marked) {
    bool crossed = mod(pixel.x + pixel.y, 8.0) < 1.4 || mod(pixel.x - pixel.y, 8.0) < 1.4;
    c = crossed ? hatch_colour.rgb : to_come_colour.rgb;
  } else if (texel.r == 0u) {
    bool dot_here = mod(floor(pixel.x), 4.0) < 1.0 && mod(floor(pixel.y), 4.0) < 1.0;
    c = dot_here ? hatch_colour.rgb : to_come_colour.rgb;
    if (done) c = mix(c, ink_colour.rgb, 0.2);
  } else {
    c = texelFetch(lut, ivec2(texel.r, 0), 0).rgb;
    if (!done) c = mix(panel_colour.rgb, c, 0.4);
  }
  if (texel.g == 1u && min(size.x, size.y) >= 9.0) {
    float diagonal = abs(within.x - within.y) * min(size.x, size.y);
    if (diagonal < 1.1) c = mix(c, panel_colour.rgb, 0.75);
  }
  // Whatever the colour means, a NaN is seen: a corner of its tile, or some of a tile of few pixels.
  if (texel.b == 1u && nan_is_marked) {
    float corner = min(size.x, size.y) * 0.45;
    if (min(size.x, size.y) < 8.0) c = mix(c, nan_colour.rgb, 0.6);
    else if ((1.0 - within.x) * size.x + within.y * size.y < corner) c = nan_colour.rgb;
  }
  colour = vec4(c, 1.0);
}
