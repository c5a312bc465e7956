// Colours along a line.

// A smooth cycle of linear colours with the period 1: coral, amber, teal, blue, violet, and back to coral.
vec3 palette(float t) {
    vec3 stops[6] = vec3[](
        vec3(0.86, 0.13, 0.10), vec3(0.93, 0.46, 0.07), vec3(0.03, 0.50, 0.40),
        vec3(0.03, 0.22, 0.72), vec3(0.36, 0.05, 0.50), vec3(0.86, 0.13, 0.10));
    float place = fract(t) * 5.0;
    int i = min(int(place), 4);
    return mix(stops[i], stops[i + 1], smoothstep(0.0, 1.0, place - float(i)));
}
