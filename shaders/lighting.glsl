// Lighting in linear colours. Every direction is a unit vector that points away from the surface.

// What a surface (GGX; metal and roughness from 0 to 1) sends to the eye of a light of strength 1. White paper that is
// lit straight on gives 1.
vec3 lit(vec3 albedo, float metal, float roughness, vec3 normal, vec3 eye, vec3 light) {
    vec3 middle = normalize(eye + light);
    float nl = max(dot(normal, light), 0.0), nv = max(dot(normal, eye), 0.001), nm = max(dot(normal, middle), 0.0);
    float a = roughness * roughness, a2 = a * a, k = 0.125 * (roughness + 1.0) * (roughness + 1.0);
    float spread = nm * nm * (a2 - 1.0) + 1.0;
    float gloss = 0.25 * a2 / (spread * spread * (nl * (1.0 - k) + k) * (nv * (1.0 - k) + k));
    vec3 base = mix(vec3(0.04), albedo, metal);
    vec3 fresnel = base + (1.0 - base) * pow(1.0 - clamp(dot(eye, middle), 0.0, 1.0), 5.0);
    return (albedo * (1.0 - metal) * (1.0 - fresnel) + gloss * fresnel) * nl;
}

// The room of a photographer's studio, as a surface of some roughness mirrors it: dark walls, a light box above to the
// left, and a narrow strip to the right.
vec3 studio_room(vec3 direction, float roughness) {
    float soft = 0.05 + 0.9 * roughness;
    vec3 walls = mix(vec3(0.05, 0.045, 0.06), vec3(0.24, 0.30, 0.42), smoothstep(-0.6 - soft, 0.9 + soft, direction.y));
    float box = smoothstep(0.80 - soft, 0.80 + soft, dot(direction, normalize(vec3(-0.5, 0.8, 0.45))));
    float strip = 1.0 - smoothstep(0.16, 0.16 + soft, abs(direction.x - 0.80));
    strip *= smoothstep(-0.5, 0.2, direction.y);
    walls += vec3(3.2, 3.0, 2.7) * box / (1.0 + 2.0 * roughness);
    return walls + vec3(0.6, 0.8, 1.2) * strip / (1.0 + 3.0 * roughness);
}

// A surface in that studio: a warm key light, a cool one from behind, and the room.
vec3 studio(vec3 albedo, float metal, float roughness, vec3 normal, vec3 eye) {
    vec3 key = vec3(1.8, 1.67, 1.48) * lit(albedo, metal, roughness, normal, eye, normalize(vec3(-0.5, 0.8, 0.6)));
    vec3 rim = vec3(0.88, 1.2, 1.6) * lit(albedo, metal, roughness, normal, eye, normalize(vec3(0.7, 0.3, -0.6)));
    vec3 base = mix(vec3(0.04), albedo, metal);
    vec3 fresnel = max(vec3(1.0 - roughness) - base, 0.0) * pow(1.0 - clamp(dot(normal, eye), 0.0, 1.0), 5.0) + base;
    vec3 diffuse = albedo * (1.0 - metal) * studio_room(normal, 1.0);
    return key + rim + diffuse * (1.0 - fresnel) + fresnel * studio_room(reflect(-eye, normal), roughness);
}
