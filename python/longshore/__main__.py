"""``python -m longshore``."""

from longshore.cli.main import main

if __name__ == "__main__":
    main()
