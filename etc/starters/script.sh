#!/bin/sh
# Writes its first argument to the file that the second one names.
set -eu
echo "$1 from $(hostname)" > "$2"
