#version 330

// One triangle that covers the whole viewport: three vertices and no buffer.
out vec2 uv;  // (0, 0) bottom left, (1, 1) top right

void main() {
    uv = vec2((gl_VertexID & 1) * 2, (gl_VertexID & 2));
    gl_Position = vec4(uv * 2.0 - 1.0, 0.0, 1.0);
}
