"""Observes an invented sky, calibrates the exposures, stacks them patch by patch, and joins the patches to one picture.

Usage: mosaic.py observe EXPOSURE OUT.png
       mosaic.py calibrate IN.png OUT.png
       mosaic.py stack PATCH OUT.png EXPOSURE.png...
       mosaic.py join OUT.png PATCH.png...
       mosaic.py show IN.png [COLUMNS]
       mosaic.py overlaps

Every image is a 16-bit grey PNG, read and written with the standard library alone. The number
in an exposure's file name determines where it points; `overlaps` prints which exposures cover which patches, and
`show` prints an image as text.
"""

import math
import random
import re
import struct
import sys
import zlib
from pathlib import Path

SKY = (256, 192)
"""Width and height of the sky, in pixels."""
DETECTOR = (112, 84)
GRID = (2, 2)
"""Patches across and down; together they cover the sky."""
PATCH = (SKY[0] // GRID[0], SKY[1] // GRID[1])
EXPOSURES = 24
BIAS, BACKGROUND, NOISE = 300, 500, 120
SHADES = "    .:-=+*#%@"
"""Characters from dark to bright."""


def stars():
    """Position, brightness and width of every star; the same in every program that asks."""
    chance = random.Random(20261120)
    return [
        (
            chance.uniform(0, SKY[0]),
            chance.uniform(0, SKY[1]),
            400 * 10 ** chance.uniform(0, 1.6),
            chance.uniform(1, 1.6),
        )
        for _ in range(90)
    ]


def pointing(exposure):
    """The sky pixel under the detector's first pixel."""
    chance = random.Random(exposure)
    across, down = exposure % 4, exposure // 4 % 3
    left = across * (SKY[0] - DETECTOR[0]) // 3 + chance.randint(-6, 6)
    top = down * (SKY[1] - DETECTOR[1]) // 2 + chance.randint(-6, 6)
    return max(0, min(left, SKY[0] - DETECTOR[0])), max(0, min(top, SKY[1] - DETECTOR[1]))


def vignette(x, y):
    """Share of the light that reaches a pixel of the detector."""
    dx, dy = x / DETECTOR[0] - 0.5, y / DETECTOR[1] - 0.5
    return 1 - 0.8 * (dx * dx + dy * dy)


def observe(exposure):
    """The raw image of an exposure: stars and sky behind the optics, with bias and noise."""
    left, top = pointing(exposure)
    chance = random.Random(1000 + exposure)
    width, height = DETECTOR
    light = [[float(BACKGROUND)] * width for _ in range(height)]
    for sx, sy, flux, sigma in stars():
        x0, y0 = sx - left, sy - top
        for y in range(max(0, int(y0 - 6)), min(height, int(y0 + 7))):
            for x in range(max(0, int(x0 - 6)), min(width, int(x0 + 7))):
                light[y][x] += flux * math.exp(-((x - x0) ** 2 + (y - y0) ** 2) / (2 * sigma**2))
    return [
        [clip(BIAS + light[y][x] * vignette(x, y) + chance.gauss(0, NOISE)) for x in range(width)]
        for y in range(height)
    ]


def calibrate(raw):
    """The image without bias and vignetting."""
    return [[clip((value - BIAS) / vignette(x, y)) for x, value in enumerate(row)] for y, row in enumerate(raw)]


def stack(patch, paths):
    """The mean of all exposures over a patch, pixel by pixel."""
    left, top = patch % GRID[0] * PATCH[0], patch // GRID[0] * PATCH[1]
    total = [[0.0] * PATCH[0] for _ in range(PATCH[1])]
    seen = [[0] * PATCH[0] for _ in range(PATCH[1])]
    for path in paths:
        image = read_png(path)
        dx, dy = pointing(number_in(path))
        for y in range(max(0, top - dy), min(DETECTOR[1], top + PATCH[1] - dy)):
            for x in range(max(0, left - dx), min(DETECTOR[0], left + PATCH[0] - dx)):
                total[y + dy - top][x + dx - left] += image[y][x]
                seen[y + dy - top][x + dx - left] += 1
    return [
        [clip(value / count) if count else 0 for value, count in zip(values, counts)]
        for values, counts in zip(total, seen)
    ]


def join(paths):
    """One picture of all patches, bright enough to be looked at."""
    sky = [[0] * SKY[0] for _ in range(SKY[1])]
    for path in paths:
        patch = number_in(path)
        left, top = patch % GRID[0] * PATCH[0], patch // GRID[0] * PATCH[1]
        for y, row in enumerate(read_png(path)):
            sky[top + y][left : left + PATCH[0]] = row
    # An arcsinh stretch shows faint and bright stars together.
    top = math.asinh(60)
    return [[clip(65535 * math.asinh(max(0, value - BACKGROUND) / 60) / top / 1.4) for value in row] for row in sky]


def overlaps():
    """Pairs of exposure and patch that share a pixel."""
    for exposure in range(EXPOSURES):
        left, top = pointing(exposure)
        for patch in range(GRID[0] * GRID[1]):
            px, py = patch % GRID[0] * PATCH[0], patch // GRID[0] * PATCH[1]
            if px < left + DETECTOR[0] and left < px + PATCH[0] and py < top + DETECTOR[1] and top < py + PATCH[1]:
                yield exposure, patch


def show(image, columns):
    """Lines of text that look like an image from afar; a character stands for the brightest of its pixels."""
    side = max(1, math.ceil(len(image[0]) / columns))
    for top in range(0, len(image), 2 * side):
        rows = image[top : top + 2 * side]
        cells = [max(max(row[left : left + side]) for row in rows) for left in range(0, len(image[0]), side)]
        yield "".join(SHADES[cell * len(SHADES) // 65536] for cell in cells).rstrip()


def clip(value):
    """A value as a pixel holds it."""
    return max(0, min(65535, round(value)))


def number_in(path):
    """The number in a file's name."""
    return int(re.findall(r"\d+", Path(path).name)[0])


def write_png(path, image):
    """Write a 16-bit grey PNG (RFC 2083)."""
    rows = b"".join(b"\0" + struct.pack(f">{len(row)}H", *row) for row in image)
    header = struct.pack(">IIBBBBB", len(image[0]), len(image), 16, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for kind, data in chunks:
            file.write(struct.pack(">I", len(data)))
            file.write(kind + data)
            file.write(struct.pack(">I", zlib.crc32(kind + data)))


def read_png(path):
    """Read a PNG that `write_png` wrote."""
    data = Path(path).read_bytes()
    position, packed, width = 8, b"", 0
    while position < len(data):
        length, kind = struct.unpack(">I4s", data[position : position + 8])
        body = data[position + 8 : position + 8 + length]
        if kind == b"IHDR":
            width = struct.unpack(">I", body[:4])[0]
        elif kind == b"IDAT":
            packed += body
        position += length + 12
    raw = zlib.decompress(packed)
    size = 1 + 2 * width
    return [list(struct.unpack(f">{width}H", raw[at + 1 : at + size])) for at in range(0, len(raw), size)]


def main(words):
    """Do what the first word says."""
    if words[:1] == ["observe"] and len(words) == 3:
        write_png(words[2], observe(int(words[1])))
    elif words[:1] == ["calibrate"] and len(words) == 3:
        write_png(words[2], calibrate(read_png(words[1])))
    elif words[:1] == ["stack"] and len(words) > 3:
        write_png(words[2], stack(int(words[1]), words[3:]))
    elif words[:1] == ["join"] and len(words) > 2:
        write_png(words[1], join(words[2:]))
    elif words[:1] == ["show"] and len(words) in (2, 3):
        print("\n".join(show(read_png(words[1]), int((words[2:] or ["80"])[0]))))
    elif words == ["overlaps"]:
        print("exposure,patch")
        for exposure, patch in overlaps():
            print(f"{exposure},{patch}")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
