// From light to pixels: the last thing that a shader of a picture calls.

// Radiance (linear, 0 to any brightness) as an opaque sRGB colour: the ACES film curve, then the display's gamma.
vec4 display(vec3 radiance) {
    vec3 film = radiance * (2.51 * radiance + 0.03) / (radiance * (2.43 * radiance + 0.59) + 0.14);
    return vec4(pow(clamp(film, 0.0, 1.0), vec3(1.0 / 2.2)), 1.0);
}
