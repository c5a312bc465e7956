#version 330

// A mesh with positions, normals and texture coordinates, placed by `model` and seen by `camera`.
uniform mat4 model;   // object to world; turns and moves, and scales evenly
uniform mat4 camera;  // world to clip space

in vec3 in_position;
in vec3 in_normal;
in vec2 in_uv;

out vec3 position;  // in the world
out vec3 normal;    // in the world, to be normalised
out vec2 uv;

void main() {
    vec4 world = model * vec4(in_position, 1.0);
    position = world.xyz;
    normal = mat3(model) * in_normal;
    uv = in_uv;
    gl_Position = camera * world;
}
