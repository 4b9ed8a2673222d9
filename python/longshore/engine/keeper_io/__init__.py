"""Orders for keepers and records of keepers, on the side of the engine; every service that has keepers uses them."""
