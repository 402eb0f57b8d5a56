#version 430 core
// One matrix as coloured cells. A texel is (index into the palette, mark); the marks are those of
// heat_image.h: 0 value, 1 NaN, 2 +inf, 3 masked, 4 visible -inf, 5 absent, 6 masked but holding a value.
uniform usampler2D cells;
uniform sampler2D lut;      // 256 x 1
uniform vec4 rect;          // pixels
uniform vec2 viewport;
uniform vec4 window;        // first texel x, y (may be inside a cell), texels across, down
uniform vec4 nan_colour, inf_colour, masked_colour, hatch_colour, minus_inf_colour, empty_colour;
uniform float done;         // texel rows from here on are drawn faintly; negative: none
uniform float opacity;
uniform bool flash;         // an overlay: only as strong as the palette's low end
out vec4 colour;

bool letter_n(vec2 at) {
  vec2 q = (at - vec2(0.28, 0.2)) / vec2(0.44, 0.6);
  if (any(lessThan(q, vec2(0.0))) || any(greaterThan(q, vec2(1.0)))) return false;
  return q.x < 0.2 || q.x > 0.8 || abs(q.y - q.x) < 0.19;
}

void main() {
  vec2 pixel = vec2(gl_FragCoord.x, viewport.y - gl_FragCoord.y) - rect.xy;
  vec2 at = window.xy + pixel / rect.zw * window.zw;
  ivec2 cell = clamp(ivec2(floor(at)), ivec2(0), textureSize(cells, 0) - 1);
  uvec2 texel = texelFetch(cells, cell, 0).rg;
  vec2 size = rect.zw / window.zw;  // of a cell, in pixels
  vec2 within = fract(at);
  vec2 edge = min(within, 1.0 - within) * size;
  float nearest = min(edge.x, edge.y);

  if (flash) {
    colour = vec4(texelFetch(lut, ivec2(0, 0), 0).rgb, texel.g == 0u || texel.g == 6u ? opacity * (1.0 - float(texel.r) / 255.0) : 0.0);
    return;
  }
  vec3 c = texelFetch(lut, ivec2(texel.r, 0), 0).rgb;
  if (texel.g == 1u) {
    c = nan_colour.rgb;
    if (min(size.x, size.y) >= 10.0) {
      vec2 square = (within - 0.5) * size / min(size.x, size.y) + 0.5;
      if (letter_n(square)) c = vec3(1.0);
    }
  } else if (texel.g == 2u) {
    c = inf_colour.rgb;
  } else if (texel.g == 3u) {
    c = mod(pixel.x + pixel.y, 7.0) < 1.8 ? hatch_colour.rgb : masked_colour.rgb;
  } else if (texel.g == 4u) {
    c = min(size.x, size.y) < 5.0 || nearest < max(1.5, 0.08 * min(size.x, size.y)) ? minus_inf_colour.rgb : empty_colour.rgb;
  } else if (texel.g == 6u) {
    if (mod(pixel.x + pixel.y, 7.0) < 1.8) c = mix(c, hatch_colour.rgb, 0.8);
  } else if (texel.g == 5u) {
    c = empty_colour.rgb;
  }
  if (min(size.x, size.y) >= 9.0 && texel.g != 3u && nearest < 0.6) c *= 0.72;
  if (done >= 0.0 && at.y >= done) c = mix(empty_colour.rgb, c, 0.3);
  colour = vec4(c, opacity);
}
