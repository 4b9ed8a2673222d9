"""Verification of a run directory: each file that a resume, restart or report relies on."""
