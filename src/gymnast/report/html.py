"""A page as one HTML file: no script, no network, every word escaped, charts as SVG; readable on a phone."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import assert_never
from urllib.parse import quote

from gymnast.core.files import read_bytes
from gymnast.report.blocks import Block, Bold, Code, Heading, Inline, Items, Link, Mono, Page, Paragraph, Table, Video
from gymnast.report.charts.model import Chart
from gymnast.report.charts.svg import draw

LARGEST_VIDEO = 12_000_000  # bytes
STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 56rem; margin: 0 auto;
  padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; border-bottom: 1px solid #ddd; }
code, pre { font: .875em/1.4 ui-monospace, monospace; background: #f4f4f2; border-radius: 4px; }
code { padding: .1em .3em; }
pre { padding: .6rem; white-space: pre-wrap; }
.table { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #eee; vertical-align: top;
  overflow-wrap: normal; }
.right { text-align: right; white-space: nowrap; }
svg, video { width: 100%; height: auto; display: block; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: 1rem; margin: 1rem 0; }
figure { margin: 0; }
figcaption { font-size: .8rem; color: #666; }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #16181b; }
  a { color: #6cb6e0; }
  h2 { border-color: #3a3d42; }
  th, td { border-color: #2b2e33; }
  code, pre { background: #23262b; }
  figcaption { color: #aaa; }
  svg { fill: #ccc; }
  svg rect { fill: #16181b; }
  svg polyline[stroke="#e5e5e5"] { stroke: #2f3338; }
  svg :is(polyline, circle, polygon, [style]) { filter: brightness(1.5); }
}
"""


def html_page(page: Page, links: str = "", folder: Path | None = None) -> str:
    """`links`: the run's folder as seen from where the page will be. `folder`: whose small videos become part of it."""
    title = next((block.text for block in page if isinstance(block, Heading)), "report")
    parts = []
    for small, blocks in groupby(page, lambda block: isinstance(block, Chart) and block.small):
        shown = [_block(block, links, folder) for block in blocks]
        parts += [f'<div class="pictures">{"".join(shown)}</div>'] if small else shown
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>",
            *parts,
            "</body>\n</html>\n",
        ]
    )


def _block(block: Block, links: str, folder: Path | None) -> str:
    match block:
        case Heading():
            return f"<h{block.level}>{escape(block.text)}</h{block.level}>"
        case Paragraph():
            return f"<p>{_inline(block.parts, links)}</p>"
        case Code():
            return f"<pre>{escape(chr(10).join(block.lines))}</pre>"
        case Items():
            return f"<ul>{''.join(f'<li>{_inline(parts, links)}</li>' for parts in block.lines)}</ul>"
        case Table():
            return _table(block, links)
        case Video():
            source = escape(_embedded(folder, block.path) or quote(links + block.path))
            video = f'<video controls preload="metadata" src="{source}"></video>'
            return f"<figure>{video}<figcaption>{escape(f'{block.path}: {block.what}')}</figcaption></figure>"
        case Chart():
            return _chart(block)
        case _:
            assert_never(block)


def _embedded(folder: Path | None, name: str) -> str:
    """The video itself, so that the page can go anywhere alone; nothing of one that is too large for that."""
    try:
        data = b"" if folder is None else read_bytes(folder / name, LARGEST_VIDEO)
    except OSError:
        return ""
    return f"data:video/mp4;base64,{b64encode(data).decode()}" if data else ""


def _table(block: Table, links: str) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        shown = [(index, cell) for index, cell in enumerate(cells) if index not in block.in_text]
        marks = [' class="right"' if index in block.right else "" for index, _ in shown]
        return f"<tr>{''.join(f'<{tag}{mark}>{c}</{tag}>' for (_, c), mark in zip(shown, marks, strict=True))}</tr>"

    head = row([escape(title) for title in block.titles], "th") if any(block.titles) else ""
    body = "\n".join(row([_inline((cell,), links) for cell in cells], "td") for cells in block.rows)
    return f'<div class="table"><table>\n{head}\n{body}\n</table></div>'


def _chart(block: Chart) -> str:
    picture = draw(block, 340, 200) if block.small else draw(block, 860, 380)
    caption = f"<figcaption>{escape(block.curves[0].name)}</figcaption>" if block.small else ""
    return f"<figure>{picture}{caption}</figure>" if picture else ""


def _inline(parts: Sequence[Inline], links: str) -> str:
    return "".join(_word(part, links) for part in parts)


def _word(part: Inline, links: str) -> str:
    match part:
        case Mono():
            return f"<code>{escape(part.text)}</code>" if part.text else ""
        case Bold():
            return f"<strong>{escape(part.text)}</strong>"
        case Link():
            return f'<a href="{escape(quote(links + part.path))}">{escape(part.text)}</a>'
        case str():
            return escape(part)
        case _:
            assert_never(part)
