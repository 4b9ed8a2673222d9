"""``python -m longshore``."""

from longshore.cli.start import run_program

if __name__ == "__main__":
    run_program()
