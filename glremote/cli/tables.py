"""How a list is shown: in columns; on a terminal as wide as that, else as wide as it is."""

from __future__ import annotations

from collections.abc import Sequence

UNBOUNDED = 10_000
"""Columns, where nobody's screen is: a program that reads a line wants all of it."""


def visible(text: str) -> str:
    """In a line, and without what a terminal would obey: a host, or who stands in its place, may say what it likes."""
    return "".join(character if character.isprintable() else " " for character in text)


def show(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; columns in which nothing is are left out."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=UNBOUNDED)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    columns = [place for place in range(len(head)) if not rows or any(row[place] for row in rows)]
    for place in columns:
        table.add_column(Text(head[place]), overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(row[place])) for place in columns))
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        print(line.rstrip())
