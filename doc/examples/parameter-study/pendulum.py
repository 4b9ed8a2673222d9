"""Integrates a damped, driven pendulum, and summarises many such runs.

Usage: pendulum.py simulate --damping C --drive F --out FILE.csv
       pendulum.py summarise FOLDER
"""

import argparse
import csv
import math
from pathlib import Path

DRIVE_FREQUENCY = 2 / 3
STEPS_PER_PERIOD = 400
PERIODS = 120
SETTLING = 60
"""Periods of the drive before counting begins."""


def accelerate(angle, speed, time, *, damping, drive):
    """Angular acceleration, in units of the pendulum's own frequency."""
    return -damping * speed - math.sin(angle) + drive * math.cos(DRIVE_FREQUENCY * time)


def step(angle, speed, time, length, *, damping, drive):
    """One step of the classical Runge-Kutta method of fourth order."""

    def slope(a, s, t):
        return s, accelerate(a, s, t, damping=damping, drive=drive)

    a1, s1 = slope(angle, speed, time)
    a2, s2 = slope(angle + length / 2 * a1, speed + length / 2 * s1, time + length / 2)
    a3, s3 = slope(angle + length / 2 * a2, speed + length / 2 * s2, time + length / 2)
    a4, s4 = slope(angle + length * a3, speed + length * s3, time + length)
    return (
        angle + length / 6 * (a1 + 2 * a2 + 2 * a3 + a4),
        speed + length / 6 * (s1 + 2 * s2 + 2 * s3 + s4),
    )


def simulate(damping, drive):
    """Angle and speed once per period of the drive: a Poincare section."""
    length = 2 * math.pi / DRIVE_FREQUENCY / STEPS_PER_PERIOD
    angle, speed = 0.2, 0.0
    for period in range(PERIODS):
        for tick in range(STEPS_PER_PERIOD):
            time = (period * STEPS_PER_PERIOD + tick) * length
            angle, speed = step(angle, speed, time, length, damping=damping, drive=drive)
        if period >= SETTLING:
            yield period, math.remainder(angle, 2 * math.pi), speed


def summarise(folder):
    """A line per run: in how many states the pendulum is met, from one for a steady swing to many for chaos."""
    for path in sorted(Path(folder).glob("*.csv")):
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        states = {(round(float(row["angle"]), 2), round(float(row["speed"]), 2)) for row in rows}
        print(f"{path.stem:28} {len(rows)} periods, {len(states):3} states")


def main():
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("simulate")
    one.add_argument("--damping", type=float, required=True)
    one.add_argument("--drive", type=float, required=True)
    one.add_argument("--out", type=Path, required=True)
    commands.add_parser("summarise").add_argument("folder")
    options = parser.parse_args()
    if options.command == "summarise":
        summarise(options.folder)
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["period", "angle", "speed"])
        writer.writerows(simulate(options.damping, options.drive))


if __name__ == "__main__":
    main()
