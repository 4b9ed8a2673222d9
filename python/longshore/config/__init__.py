"""The configuration: layers merged into one map whose every value knows its origin, searched in BPS's order."""
