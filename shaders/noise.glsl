// Noise without tables or textures: whole-number hashes, so that it is the same on every driver.

uint mix_bits(uint x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

// A random number from 0 to 1 for a whole number, and for a point of a grid.
float random(uint n) {
    return float(mix_bits(n) >> 8) / 16777216.0;
}

float random(ivec3 p) {
    return random(uint(p.x) + mix_bits(uint(p.y) + mix_bits(uint(p.z))));
}

// Random numbers at the points of the grid, smoothly joined; 0 to 1.
float noise(vec3 p) {
    ivec3 i = ivec3(floor(p));
    vec3 f = p - vec3(i);
    f = f * f * f * (f * (f * 6.0 - 15.0) + 10.0);
    vec4 corners[2];
    for (int k = 0; k < 2; k++, i.z++)
        corners[k] = vec4(
            random(i), random(i + ivec3(1, 0, 0)), random(i + ivec3(0, 1, 0)), random(i + ivec3(1, 1, 0)));
    vec4 square = mix(corners[0], corners[1], f.z);
    vec2 pair = mix(square.xy, square.zw, f.y);
    return mix(pair.x, pair.y, f.x);
}

// Octaves of noise, each half as strong and twice as fine; 0 to 1.
float fbm(vec3 p, int octaves) {
    float sum = 0.0, weight = 0.5;
    for (int i = 0; i < octaves; i++) {
        sum += weight * noise(p);
        weight *= 0.5;
        p = p.yzx * 2.03 + 17.0;
    }
    return sum / (1.0 - 2.0 * weight);
}
