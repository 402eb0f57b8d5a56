#version 430 core
// A rectangle of the framebuffer in pixels, origin top left, as a strip of two triangles.
uniform vec4 rect;      // x, y, width, height
uniform vec2 viewport;  // width, height

void main() {
  vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1);
  vec2 at = (rect.xy + corner * rect.zw) / viewport;
  gl_Position = vec4(at.x * 2.0 - 1.0, 1.0 - at.y * 2.0, 0.0, 1.0);
}
