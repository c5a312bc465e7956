"""The gallery: every sample rendered on a host, with what each cost, as a page that needs nothing but its pictures.

Knows: the samples' interface (REQUIRE and render) and glremote's public front. Does not know: OpenGL, or how contexts
work. A sample that fails is shown with its error, the others are rendered all the same, and then the errors are raised.
"""

from __future__ import annotations

import html
import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import glremote
from glremote import samples

WIDTH, HEIGHT = samples.SIZE


@dataclass(frozen=True)
class Figures:
    """What rendering cost: seconds, bytes up to the host and down from it, waits for it, and commands recorded."""

    seconds: float = 0.0
    bytes_up: int = 0
    bytes_down: int = 0
    waits: int = 0
    commands: int = 0


@dataclass(frozen=True)
class Drawn:
    """A sample that was rendered, or was to be."""

    name: str
    caption: str
    figures: Figures
    error: Exception | None = None


def make_gallery(
    out: Path,
    url: str,
    token: str | None,
    progress: Callable[[int, int, str], None],
    ca: str | None = None,
    pin: str | None = None,
) -> Path:
    """Render every sample on the host at `url`, and write `out`/NAME.png for each and `out`/index.html.

    Calls `progress(done, total, name)` before each sample, and with an empty name after the last. Returns the absolute
    path of the page. Raises what `glremote.create_context` raises if the host cannot be used at all, and otherwise,
    when all is written, an ExceptionGroup of the errors of the samples that failed.
    """
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    host, renderer = _where(url, token, ca, pin)
    drawn: list[Drawn] = []
    for name in samples.NAMES:
        progress(len(drawn), len(samples.NAMES), name)
        drawn.append(_draw(name, url, token, ca, pin, out / f"{name}.png"))
    page = out / "index.html"
    page.write_text(_page(drawn, host, renderer, time.perf_counter() - started), encoding="utf-8")
    progress(len(drawn), len(samples.NAMES), "")
    errors = [one.error for one in drawn if one.error is not None]
    if errors:
        raise ExceptionGroup(f"{len(errors)} of {len(drawn)} samples failed, see {page}", errors)
    return page


def _where(url: str, token: str | None, ca: str | None, pin: str | None) -> tuple[str, str]:
    """The host's name and its renderer, from a context that is made for nothing else."""
    ctx = glremote.create_context(url, token=token, ca=ca, pin=pin)
    try:
        device = glremote.device(ctx)
        return device.host, device.renderer
    finally:
        ctx.release()


def _draw(name: str, url: str, token: str | None, ca: str | None, pin: str | None, path: Path) -> Drawn:
    caption = ""
    path.unlink(missing_ok=True)  # a picture of an earlier gallery is none of this one
    try:
        sample = importlib.import_module(f"{samples.__name__}.{name}")
        caption = (sample.__doc__ or "").strip().partition("\n")[0]
        # not near: the page shows what a network carries
        ctx = glremote.create_context(url, token=token, ca=ca, pin=pin, require=sample.REQUIRE, near=False)
        try:
            before = _figures(ctx)
            picture = sample.render(ctx)
            after = _figures(ctx)
        finally:
            ctx.release()
        picture.save(path)
    except Exception as error:
        error.add_note(f"(in the sample {name})")
        return Drawn(name, caption, Figures(), error)
    cost = Figures(*(there - here for here, there in zip(astuple(before), astuple(after), strict=True)))
    return Drawn(name, caption, cost)


def _figures(ctx: Any) -> Figures:
    """What a context has cost so far; the seconds are the clock's."""
    traffic = glremote.device(ctx).measure()
    return Figures(time.perf_counter(), traffic.bytes_up, traffic.bytes_down, traffic.waits, traffic.commands)


def _page(drawn: Sequence[Drawn], host: str, renderer: str, seconds: float) -> str:
    now = datetime.now().astimezone()
    total = Figures(*(sum(column) for column in zip(*(astuple(one.figures) for one in drawn), strict=True)))
    template = resources.files("glremote").joinpath("gallery.html").read_text(encoding="utf-8")
    return Template(template).substitute(
        count=len(drawn),
        host=html.escape(host),
        renderer=html.escape(renderer),
        iso=now.isoformat(timespec="seconds"),
        date=now.strftime("%Y-%m-%d %H:%M %Z"),
        total=_seconds(seconds),
        totals="\n".join(_terms(total)[1:]),
        failures=_failures(drawn),
        cards="\n".join(map(_card, drawn)),
    )


def _card(one: Drawn) -> str:
    name, path = html.escape(one.name), html.escape(f"{one.name}.png")
    title, _, about = html.escape(one.caption or one.name).partition(": ")
    if one.error is None:
        alt = f"The picture that the sample {name} draws. {title}"
        shown = f'<a href="{path}"><img src="{path}" alt="{alt}" width="{WIDTH}" height="{HEIGHT}" loading="lazy"></a>'
        figures = "\n".join(['\n<dl class="figures">', *_terms(one.figures), "</dl>"])
    else:
        shown, figures = f'<pre tabindex="0">{html.escape(f"{type(one.error).__name__}: {one.error}")}</pre>', ""
    return f"""<figure id="{name}">
{shown}
<figcaption>
<h2>{title}</h2>
<p class="name"><code>{name}</code></p>
<p class="about">{about[:1].upper()}{about[1:]}</p>{figures}
</figcaption>
</figure>"""


def _failures(drawn: Sequence[Drawn]) -> str:
    """A line that links to the samples that failed; nothing if none did."""
    names = [html.escape(one.name) for one in drawn if one.error is not None]
    links = ", ".join(f'<a href="#{name}">{name}</a>' for name in names)
    return f'<p class="failures">{len(names)} of {len(drawn)} samples failed: {links}</p>\n' if names else ""


def _terms(figures: Figures) -> list[str]:
    """Each figure as a term and its description."""
    terms = {
        "Time": _seconds(figures.seconds),
        "Bytes up": _bytes(figures.bytes_up),
        "Bytes down": _bytes(figures.bytes_down),
        "Round trips": f"{figures.waits:,}",
        "Commands": f"{figures.commands:,}",
    }
    return [f"<div><dt>{term}</dt><dd>{text}</dd></div>" for term, text in terms.items()]


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def _bytes(count: int) -> str:
    """In decimal units, three digits."""
    if count < 1000:
        return f"{count} B"
    value, unit = (count / 1e3, "kB") if count < 999_500 else (count / 1e6, "MB")
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
