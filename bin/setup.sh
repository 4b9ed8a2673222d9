# shellcheck shell=bash
# Sourced by bin/test and bin/example, which `set -euo pipefail` first: finds a Python, makes a virtual environment and
# installs this checkout into it (editable).
#
#     setup ""                 the package             (pip install -e .)
#     setup "[test]"           the same and what tests need
#     setup "[lsst]" -lsst     the same and LSST's packages, in an environment of its own: `.venv-lsst`
#     setup "[docs]" -docs     the same and what builds the site of the documentation, in another
#     setup "[test-bps]" -bps  the same and the real BPS, in another: `.venv-bps`
#
# Afterwards ROOT is the checkout and VENV the environment, whose programs come first on PATH. The environment is `.venv`
# in the checkout, or lies in the user's cache where somebody else owns the checkout or its `.venv`. It is installed into
# again only when pyproject.toml has changed.
#
# PYTHON  the Python to try first; it must be 3.11 or newer.

ROOT=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
VENV=
ME=bin/$(basename "$0")

# Either would put strange packages in front of ours, and the last makes pip fail in an environment.
unset PYTHONPATH PYTHONHOME PIP_USER

say() {
    printf '%s: %s\n' "$ME" "$*"
}

give_up() {
    say "$@" >&2
    exit 1
}

is_new_enough() {
    # Running it is the test: a pyenv shim is found on PATH whether or not there is a Python behind it.
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' </dev/null >/dev/null 2>&1
}

makes_environments() {
    "$1" -c 'import ensurepip, venv' </dev/null >/dev/null 2>&1
}

apt_install() {
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        return 1
    fi
    say "installing $* (apt-get)"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"; } </dev/null >&2
}

# Prints the name of the first Python that serves; status 1: the printed one lacks venv; status 2: there is none.
look_for_python() {
    local candidate incomplete=
    for candidate in ${PYTHON:+"$PYTHON"} python3.14 python3.13 python3.12 python3.11 python3 python; do
        if is_new_enough "$candidate"; then
            if makes_environments "$candidate"; then
                printf '%s\n' "$candidate"
                return 0
            fi
            incomplete=${incomplete:-$candidate}
        fi
    done
    printf '%s\n' "$incomplete"
    [ -z "$incomplete" ] || return 1
    return 2
}

find_python() {
    local found status=0
    found=$(look_for_python) || status=$?
    case $status in
        1) apt_install "python$("$found" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv" >&2 \
            || apt_install python3-venv >&2 \
            || give_up "'$found' lacks 'venv' and 'ensurepip'; install them (Debian, Ubuntu: apt install python3-venv)" ;;
        2) apt_install python3 python3-venv >&2 \
            || give_up "there is no Python 3.11 or newer; install one, or name it: PYTHON=/path/to/python3 $ME" ;;
    esac
    if [ "$status" != 0 ]; then
        found=$(look_for_python) || give_up "there is still no Python 3.11 or newer with 'venv' and 'ensurepip'"
    fi
    printf '%s\n' "$found"
}

is_ours() {
    mkdir -p "$1" 2>/dev/null || true
    [ -d "$1" ] && [ -O "$1" ] && [ -w "$1" ]
}

choose_environment() {
    local key place suffix=$1
    key=$(printf '%s' "$ROOT" | cksum | cut -d ' ' -f 1)
    for place in "$ROOT/.venv$suffix" \
        "${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/longshore/venv-$key$suffix" \
        "${TMPDIR:-/tmp}/longshore-$(id -u)-$key$suffix"; do
        if is_ours "$place"; then
            VENV=$place
            [ "$VENV" = "$ROOT/.venv$suffix" ] || say "the environment is $VENV: $ROOT/.venv$suffix is not ours to write"
            return
        fi
    done
    give_up "there is no place for an environment: checkout, home directory and ${TMPDIR:-/tmp} cannot be written"
}

make_environment() {
    local python
    if [ -e "$VENV/bin" ] && ! [ -e "$VENV/.made-at" ]; then
        give_up "$VENV has no pip or no Python 3.11, and was not made here; move it away"
    fi
    python=$(find_python)
    say "making $VENV with $("$python" --version)"
    find "$VENV" -mindepth 1 -maxdepth 1 ! -name .lock -exec rm -rf {} +
    # Written first, so that an environment left half-made is known as ours.
    printf '%s\n' "$VENV" >"$VENV/.made-at"
    "$python" -m venv "$VENV"
}

install_checkout() {
    local extras=$1 stamp=$VENV/.installed wanted
    wanted=$(cd "$ROOT" && cat pyproject.toml python/longshore/__init__.py bin/setup.sh | cksum)
    # In a checkout that was moved or copied, the programs of the environment still name the old place.
    if ! is_new_enough "$VENV/bin/python" || ! "$VENV/bin/python" -c 'import pip' >/dev/null 2>&1 \
        || { [ -e "$VENV/.made-at" ] && [ "$(cat "$VENV/.made-at")" != "$VENV" ]; }; then
        make_environment
    fi
    if [ "$(cat "$stamp$extras" 2>/dev/null)" != "$wanted" ]; then
        say "installing the checkout and what it needs into $VENV (again only when pyproject.toml changes)"
        rm -f "$stamp"*
        # What is imported is compiled then, which is a small part of it.
        (cd "$ROOT" && "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-compile \
            -e ".$extras")
        printf '%s\n' "$wanted" >"$stamp"
        printf '%s\n' "$wanted" >"$stamp$extras"
    fi
}

setup() {
    choose_environment "${2:-}"
    # One at a time; the lock ends with the subshell and is not handed down to anything started later.
    (
        if command -v flock >/dev/null; then
            flock 9
        fi
        install_checkout "$1" 9>&-
    ) 9>"$VENV/.lock"
    export PATH=$VENV/bin:$PATH
}
