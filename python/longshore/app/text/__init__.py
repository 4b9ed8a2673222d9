"""Text that commands print and records show: styled lines, tables of them, and sentences on changes (pure)."""
