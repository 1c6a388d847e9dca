"""A page as one HTML file: no script, no network, every word escaped, charts as SVG; readable on a phone."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import assert_never
from urllib.parse import quote

from gymnast.report.blocks import Block, Bold, Code, Heading, Inline, Items, Link, Mono, Page, Paragraph, Table, Video
from gymnast.report.charts.model import Chart
from gymnast.report.charts.svg import draw

STYLE = """
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
svg, video { max-width: 100%; height: auto; display: block; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: 1rem; margin: 1rem 0; }
figure { margin: 0; }
figcaption { font-size: .8rem; color: #666; }
"""


def html_page(page: Page, links: str = "") -> str:
    """`links`: the run's folder as seen from where the page will be."""
    title = next((block.text for block in page if isinstance(block, Heading)), "report")
    parts = []
    for small, blocks in groupby(page, lambda block: isinstance(block, Chart) and block.small):
        shown = [_block(block, links) for block in blocks]
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


def _block(block: Block, links: str) -> str:
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
            source = escape(quote(links + block.path))
            video = f'<video controls preload="metadata" src="{source}"></video>'
            return f"<figure>{video}<figcaption>{escape(f'{block.path}: {block.what}')}</figcaption></figure>"
        case Chart():
            return _chart(block)
        case _:
            assert_never(block)


def _table(block: Table, links: str) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        marks = (' class="right"' if index in block.right else "" for index in range(len(cells)))
        return f"<tr>{''.join(f'<{tag}{mark}>{cell}</{tag}>' for cell, mark in zip(cells, marks, strict=True))}</tr>"

    head = row([escape(title) for title in block.titles], "th") if any(block.titles) else ""
    body = "\n".join(row([_inline((cell,), links) for cell in cells], "td") for cells in block.rows)
    return f'<div class="table"><table>\n{head}\n{body}\n</table></div>'


def _chart(block: Chart) -> str:
    picture = draw(block, 340, 200) if block.small else draw(block, 480, 300)
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
