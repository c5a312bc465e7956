"""The gallery, made through a real host: its pictures, its page, and what becomes of samples that fail.

Pictures are compared at a quarter of their size with the references in tests/gallery. On the driver that drew those
(driver.txt) they are the same. On another one a picture may differ by

    MEAN   1.0 of 255, the mean over all pixels and channels, and by
    FAR    1 percent of its pixels that differ by more than 16 in some channel.

Measured against Mesa's llvmpipe, the worst of NVIDIA's driver on an H200 were 0.63 (compute_image, whose colours hang
on the last bits of an iteration) and 0.2 percent (textured_model, at its edges); all other means were below 0.4. What
is wrong is well outside: upside down, mirrored, or with red and blue exchanged every sample has a mean above 6,
moved by four of its own pixels above 3.7, 5 percent darker above 1.9.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import moderngl
import numpy as np
import pytest
from PIL import Image, ImageOps

import glremote
from glremote import gallery, samples
from glremote.host.serving import LocalHost
from tests.gallery.remake import FOLDER, LARGEST, driver, small

MEAN, FAR = 1.0, 0.01

HELPERS = {"drawing", "geometry"}  # modules beside the samples that are none


@dataclass
class Gallery:
    """A gallery that was made: its folder, its page, what `progress` was told, and the driver that drew it."""

    out: Path
    page: Path
    told: list[tuple[int, int, str]]
    driver: str


@pytest.fixture(scope="module")
def made(served: LocalHost, tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    out = tmp_path_factory.mktemp("made") / "gallery"
    told: list[tuple[int, int, str]] = []
    page = gallery.make_gallery(out, served.url, served.token, lambda *step: told.append(step))
    ctx = glremote.create_context(served.url, token=served.token)
    try:
        return Gallery(out, page, told, driver(ctx))
    finally:
        ctx.release()


def differences(picture: Image.Image, reference: Image.Image) -> tuple[float, float]:
    """The mean difference of 0..255, and the share of pixels that differ by more than 16 in some channel."""
    apart = np.abs(np.asarray(picture, np.int16) - np.asarray(reference, np.int16))
    return float(apart.mean()), float((apart.max(axis=-1) > 16).mean())


# --- the samples and their pictures


def test_every_module_is_a_sample_in_the_list() -> None:
    modules = {module.name for module in pkgutil.iter_modules(samples.__path__)}
    assert modules - HELPERS == set(samples.NAMES)
    assert len(set(samples.NAMES)) == len(samples.NAMES) >= 16
    for name in samples.NAMES:
        sample = importlib.import_module(f"{samples.__name__}.{name}")
        title, colon, about = (sample.__doc__ or "").partition("\n")[0].partition(": ")
        assert title and colon and about.endswith("."), f"{name}: the first line is no `Title: what one sees.`"
        assert callable(sample.render) and callable(sample.main) and sample.REQUIRE >= 330


def test_every_sample_has_a_reference() -> None:
    assert {path.stem for path in FOLDER.glob("*.png")} == set(samples.NAMES)
    for path in FOLDER.glob("*.png"):
        assert path.stat().st_size <= LARGEST, path
        with Image.open(path) as reference:
            assert (reference.mode, reference.size) == ("RGB", (samples.SIZE[0] // 4, samples.SIZE[1] // 4)), path


@pytest.mark.parametrize("name", samples.NAMES)
def test_picture(made: Gallery, name: str) -> None:
    with Image.open(made.out / f"{name}.png") as picture, Image.open(FOLDER / f"{name}.png") as reference:
        assert picture.size == samples.SIZE
        mean, far = differences(small(picture), reference)
    if made.driver == (FOLDER / "driver.txt").read_text(encoding="utf-8"):
        assert (mean, far) == (0.0, 0.0), "another picture on the same driver; if it is meant, tests.gallery.remake"
    else:
        assert mean <= MEAN and far <= FAR


@pytest.mark.parametrize("name", samples.NAMES)
def test_tolerance_is_narrow(name: str) -> None:
    with Image.open(FOLDER / f"{name}.png") as reference:
        red, green, blue = reference.split()
        exchanged = Image.merge("RGB", (blue, green, red))
        darker = reference.point(lambda value: value * 0.95)
        for wrong in (ImageOps.flip(reference), ImageOps.mirror(reference), exchanged, darker):
            assert differences(wrong, reference)[0] > 1.5 * MEAN


# --- the page


@dataclass
class Card:
    """What the page says of one sample."""

    name: str
    link: str = ""
    image: dict[str, str] = field(default_factory=dict)
    figures: dict[str, str] = field(default_factory=dict)
    text: str = ""


class Page(HTMLParser):
    """Reads a page: its cards, its facts, and whether its elements are closed in order."""

    VOID = ("meta", "img", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cards: list[Card] = []
        self.facts: dict[str, str] = {}
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self._open: list[str] = []
        self._term = ""
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.tags.add(tag)
        self.addresses += [given[key] for key in ("src", "href") if key in given]
        if tag == "figure":
            self.cards.append(Card(given["id"]))
        elif tag == "a" and "figure" in self._open:
            self.cards[-1].link = given["href"]
        elif tag == "img":
            self.cards[-1].image = given
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        if "figure" in self._open:
            self.cards[-1].text += data
        if inside == "dt":
            self._term = data
        elif inside in ("dd", "time"):
            (self.cards[-1].figures if "figure" in self._open else self.facts)[self._term] = data


def test_page_lists_every_sample_with_all_its_figures(made: Gallery) -> None:
    page = Page(made.page.read_text(encoding="utf-8"))
    assert [card.name for card in page.cards] == list(samples.NAMES)
    for card in page.cards:
        assert card.link == card.image["src"] == f"{card.name}.png" and (made.out / card.link).is_file()
        assert len(card.image["alt"]) > 20
        assert (int(card.image["width"]), int(card.image["height"])) == samples.SIZE
        sample = importlib.import_module(f"{samples.__name__}.{card.name}")
        title, _, about = (sample.__doc__ or "").partition("\n")[0].partition(": ")
        assert title in card.text and about[1:] in card.text
        assert list(card.figures) == ["Time", "Bytes up", "Bytes down", "Round trips", "Commands"]
        for term, figure in card.figures.items():
            assert float(figure.split()[0].replace(",", "")) > 0, f"{card.name}: {term} {figure}"


def test_page_says_where_and_when(made: Gallery, served: LocalHost) -> None:
    page = Page(made.page.read_text(encoding="utf-8"))
    assert page.facts["Renderer"] == made.driver.splitlines()[0]
    assert page.facts["Host"] and page.facts["Date"] and page.facts["Total time"]
    assert int(page.facts["Round trips"].replace(",", "")) == sum(
        int(card.figures["Round trips"].replace(",", "")) for card in page.cards
    )
    assert served.token not in made.page.read_text(encoding="utf-8")


def test_page_stands_alone(made: Gallery) -> None:
    page = Page(made.page.read_text(encoding="utf-8"))
    assert not page.tags & {"script", "link", "iframe", "object"}
    assert not [address for address in page.addresses if ":" in address or address.startswith("/")]
    assert "url(" not in made.page.read_text(encoding="utf-8")
    assert made.page.is_absolute() and made.page == made.out.resolve() / "index.html"


def test_progress(made: Gallery) -> None:
    count = len(samples.NAMES)
    assert made.told == [*((i, count, name) for i, name in enumerate(samples.NAMES)), (count, count, "")]


# --- failures


def test_a_sample_that_fails_is_shown_and_raised(
    served: LocalHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the others rendered all the same, the error escaped, and no picture of an earlier gallery in its place."""

    def render(ctx: moderngl.Context) -> Image.Image:
        raise ValueError("<b>bold</b> & wrong")

    broken = ModuleType("glremote.samples.broken", "Something <broken>: it fails & is shown.")
    broken.__dict__.update(REQUIRE=330, render=render)
    monkeypatch.setitem(sys.modules, broken.__name__, broken)
    monkeypatch.setattr(samples, "NAMES", ("missing", "broken", "triangle"))
    (tmp_path / "broken.png").write_bytes(b"old")
    with pytest.raises(ExceptionGroup, match="2 of 3 samples failed") as failed:
        gallery.make_gallery(tmp_path, served.url, served.token, lambda *step: None)
    missing, wrong = failed.value.exceptions
    assert isinstance(missing, ModuleNotFoundError) and isinstance(wrong, ValueError)
    assert wrong.__notes__ == ["(in the sample broken)"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.html", "triangle.png"]
    page = Page((tmp_path / "index.html").read_text(encoding="utf-8"))
    assert [card.name for card in page.cards] == ["missing", "broken", "triangle"]
    assert "ValueError: <b>bold</b> & wrong" in page.cards[1].text and "Something <broken>" in page.cards[1].text
    assert "b" not in page.tags and not page.cards[1].image
    assert page.cards[2].figures["Round trips"] == page.facts["Round trips"]
    assert {"#missing", "#broken"} <= set(page.addresses)


def test_a_host_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(glremote.HostUnreachable):
        gallery.make_gallery(tmp_path / "gallery", "ws://127.0.0.1:9", None, lambda *step: None)
    assert not (tmp_path / "gallery" / "index.html").exists()


@pytest.mark.parametrize(
    "count, text",
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (12_345, "12.3 kB"), (999_499, "999 kB"), (999_500, "1.00 MB")],
)
def test_bytes(count: int, text: str) -> None:
    assert gallery._bytes(count) == text
