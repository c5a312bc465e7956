// A clear evening sky.

// The light that comes from a direction, with the sun in another (both unit vectors, y up).
vec3 sky(vec3 direction, vec3 sun) {
    float up = max(direction.y, 0.0), toward = max(dot(direction, sun), 0.0);
    vec3 colour = mix(vec3(0.62, 0.30, 0.20), vec3(0.30, 0.28, 0.42), smoothstep(0.0, 0.22, up));
    colour = mix(colour, vec3(0.04, 0.13, 0.36), smoothstep(0.08, 0.75, up));
    colour += vec3(0.75, 0.32, 0.08) * pow(toward, 8.0) * (1.0 - 0.8 * up);
    return colour + vec3(1.0, 0.70, 0.35) * (0.6 * pow(toward, 80.0) + 20.0 * smoothstep(0.9993, 0.9997, toward));
}
