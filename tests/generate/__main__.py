"""Writes what is made from keys, records and services: defaults, pages of the reference, schemas of JSON documents.

Usage: python -m tests.generate
"""

from __future__ import annotations

from pathlib import Path

from tests.generate import configuration, defaults, htcondor, lsf, schemas, sge, site_profiles, slurm


def generated_files() -> dict[Path, str]:
    """Return the text of each file that is made."""
    pages = (configuration, site_profiles, htcondor, lsf, sge, slurm)
    return {page.PAGE: page.page() for page in pages} | schemas.document_schemas() | defaults.files()


if __name__ == "__main__":
    for path, text in generated_files().items():
        path.write_text(text, "utf-8")
