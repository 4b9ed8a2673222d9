#!/bin/sh
# Usage: primes.sh LIMIT FILE: writes the primes up to LIMIT to FILE.
set -eu
awk -v limit="$1" 'BEGIN {
    for (n = 2; n <= limit; n++)
        if (!(n in composite)) {
            print n
            for (m = n * n; m <= limit; m += n) composite[m] = 1
        }
}' > "$2"
echo "$(wc -l < "$2") primes up to $1"
