#!/usr/bin/env python3
"""Turns captured terminal output (ANSI colours) into an SVG picture.

    script -qc "build/release/nexus ask ..." /dev/null | tools/terminal_svg.py > demo.svg

Understands what nexus prints: SGR colours, carriage returns, erase-line. Only the
standard library is used.
"""

import argparse
import html
import re
import sys
import unicodedata

COLOURS = {
    "1": "font-weight='bold'",
    "2": "fill='#8b949e'",
    "31": "fill='#ff7b72'",
    "32": "fill='#7ee787'",
    "33": "fill='#e3b341'",
    "36": "fill='#79c0ff'",
}
TOKEN = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|\r|[^\x1b\r]")


def cells(char):
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def parse(line):
    """One line of output as a list of (char, style) after all overwriting."""
    row, column, style = [], 0, ""
    for match in TOKEN.finditer(line):
        text = match.group(0)
        if text == "\r":
            column = 0
        elif match.group(2) == "m":
            codes = match.group(1).split(";")
            style = " ".join(COLOURS[c] for c in codes if c in COLOURS)
        elif match.group(2) == "K":
            del row[column:]
        elif not text.startswith("\x1b"):
            row[column : column + 1] = [(text, style)]
            column += 1
    return row


def spans(row):
    x, run, style, start = 0, "", None, 0
    for char, char_style in row + [("", None)]:
        if char_style != style and run:
            yield start, run, style
            run = ""
        if not run:
            style, start = char_style, x
        run += char
        x += cells(char) if char else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--title", default="nexus")
    options = parser.parse_args()
    rows = [parse(line) for line in sys.stdin.read().rstrip("\n").split("\n")]
    width = max(sum(cells(c) for c, _ in row) for row in rows)
    advance, height, top = 8.4, 19, 46
    size = (round(width * advance + 40), len(rows) * height + top + 16)
    out = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{size[0]}' height='{size[1]}' "
        f"viewBox='0 0 {size[0]} {size[1]}' role='img'>",
        f"<title>{html.escape(options.title)}</title>",
        "<rect width='100%' height='100%' rx='8' fill='#0d1117'/>",
        "<g fill='#30363d'><circle cx='20' cy='18' r='6'/><circle cx='40' cy='18' r='6'/>"
        "<circle cx='60' cy='18' r='6'/></g>",
        "<g font-family='ui-monospace,SFMono-Regular,Menlo,Consolas,monospace' "
        "font-size='14' fill='#e6edf3' xml:space='preserve'>",
    ]
    for index, row in enumerate(rows):
        y = top + index * height
        for start, run, style in spans(row):
            if run.strip():
                length = sum(cells(c) for c in run) * advance
                out.append(
                    f"<text x='{20 + start * advance:.1f}' y='{y}' "
                    f"textLength='{length:.1f}' lengthAdjust='spacingAndGlyphs' {style}>"
                    f"{html.escape(run)}</text>"
                )
    out += ["</g>", "</svg>"]
    print("\n".join(out))


if __name__ == "__main__":
    main()
