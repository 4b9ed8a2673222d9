"""Policies that follow from the end of an attempt: success, retry, request growth, limits and fast failures."""
