"""A 3D texture: a cloud of 64 x 64 x 64 densities, through which a ray is marched for every pixel."""

import moderngl
import numpy as np
import numpy.typing as npt
from PIL import Image

import glremote
from glremote.samples import SIZE
from glremote.samples.drawing import fullscreen, standalone
from glremote.samples.geometry import Doubles, look_at, perspective

REQUIRE = 330
SIDE = 64  # voxels

FRAGMENT_SHADER = """
    #version 330
    #include "display.glsl"
    #include "noise.glsl"
    const int STEPS = 72;
    uniform sampler3D cloud;  // red: how dense; green: how much light comes through from the star; blue: finer noise
    uniform mat4 to_world;
    uniform vec3 eye;
    in vec2 uv;
    out vec4 pixel;
    void main() {
        vec4 far = to_world * vec4(uv * 2.0 - 1.0, 1.0, 1.0);
        vec3 ray = normalize(far.xyz / far.w - eye);
        vec3 a = (-1.0 - eye) / ray, b = (1.0 - eye) / ray;  // the cube from -1 to 1
        float enter = max(max(min(a.x, b.x), min(a.y, b.y)), min(a.z, b.z));
        float leave = min(min(max(a.x, b.x), max(a.y, b.y)), max(a.z, b.z));

        vec2 cell = floor(gl_FragCoord.xy / 2.0);
        float star = step(0.9965, random(ivec3(cell, 5))) * random(ivec3(cell, 6));
        vec3 light = vec3(0.0), behind = vec3(0.004, 0.006, 0.014) + vec3(0.8, 0.9, 1.0) * star * star;
        float clear = 1.0, size = max(leave - enter, 0.0) / float(STEPS);
        vec3 place = eye + ray * (enter + size * random(ivec3(gl_FragCoord.xy, 1)));
        for (int i = 0; i < STEPS && clear > 0.01 && size > 0.0; i++, place += ray * size) {
            vec3 voxel = texture(cloud, place * 0.5 + 0.5).rgb;
            float density = clamp(voxel.r * 1.5 - 0.55 * texture(cloud, place * 1.7).b, 0.0, 1.0);
            float through = exp(-10.0 * density * size);
            float away = length(place);
            vec3 glow = mix(vec3(1.0, 0.50, 0.20), vec3(0.80, 0.12, 0.22), smoothstep(0.10, 0.55, away));
            glow = mix(glow, vec3(0.05, 0.16, 0.55), smoothstep(0.45, 0.85, away));
            light += clear * (1.0 - through) * glow * (voxel.g * 2.4 + 0.03);
            light += clear * size * vec3(1.0, 0.70, 0.45) * max(1.0 - away, 0.0) * 0.02 / (away * away + 0.0015);
            clear *= through;
        }
        pixel = display(light + clear * behind);
    }
"""


def noise(random: np.random.Generator, slope: float) -> Doubles:
    """Noise that repeats at its edges, from 0 to 1: random waves, the weaker the shorter."""
    wave = np.fft.rfftn(random.normal(size=(SIDE, SIDE, SIDE)))
    ways = np.meshgrid(np.fft.fftfreq(SIDE), np.fft.fftfreq(SIDE), np.fft.rfftfreq(SIDE), indexing="ij")
    length = np.sqrt(sum(way**2 for way in ways)) + 1 / SIDE
    field = np.fft.irfftn(wave * length**-slope, s=(SIDE, SIDE, SIDE), axes=(0, 1, 2))
    normal: Doubles = 0.5 + (field - field.mean()) / field.std() / 5
    return np.clip(normal, 0, 1)


def nebula() -> npt.NDArray[np.uint8]:
    """The texture, (SIDE, SIDE, SIDE, 3): densities in a thick shell around a star, its light, and noise."""
    random = np.random.default_rng(11)
    large, fine = noise(random, 2.6), noise(random, 1.7)
    axis = (np.arange(SIDE) + 0.5) / SIDE * 2 - 1
    away = np.sqrt(axis[:, None, None] ** 2 + axis[:, None] ** 2 + axis**2)
    shell = np.clip(1 - np.abs(away - 0.55) / 0.42, 0, 1)
    density = np.clip(2.6 * large - 1.35 + 0.55 * shell, 0, 1) * np.clip(shell * 3, 0, 1)
    light = np.ones_like(density)
    index = np.stack(np.meshgrid(*[np.arange(SIDE)] * 3, indexing="ij")) - (SIDE - 1) / 2
    for part in np.arange(1, 16) / 16:  # from the star to the voxel
        x, y, z = np.rint(index * part + (SIDE - 1) / 2).astype(int)
        light *= np.exp(-11.0 * density[x, y, z] * away / 16)
    light /= 0.3 + 1.2 * away**2
    return (np.stack([density, np.clip(light, 0, 1), fine], axis=-1) * 255).astype("u1")


def render(ctx: moderngl.Context) -> Image.Image:
    texture = ctx.texture3d((SIDE, SIDE, SIDE), 3, nebula().tobytes())
    framebuffer = ctx.simple_framebuffer(SIZE)
    framebuffer.use()
    ctx.enable_only(moderngl.NOTHING)
    march = fullscreen(ctx, FRAGMENT_SHADER)
    eye = (1.1, 0.7, 1.95)
    march.program["to_world"] = np.linalg.inv(look_at(eye, (0, 0, 0)) @ perspective(44, 1.6, 0.1, 20)).ravel()
    march.program["eye"] = eye
    texture.use()
    march.render()
    return glremote.image(framebuffer)


def main() -> None:
    render(standalone(REQUIRE)).save("volume.png")


if __name__ == "__main__":
    main()
