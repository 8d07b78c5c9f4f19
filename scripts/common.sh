# Sourced by every shell script here: where things are, and how to speak to the person at the terminal.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=$ROOT/build
PREFIX=$BUILD/mariadb # the private MariaDB

step() { printf '== %s\n' "$*" >&2; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }
is_root() { [ "$(id -u)" = 0 ]; }

# need_disk PATH MEGABYTES: a full disk in the middle of a download reads like a broken mirror, so look first.
need_disk() {
  local free_mb
  free_mb=$(df -Pm "$1" | awk 'NR == 2 { print $4 }')
  [ "$free_mb" -ge "$2" ] || fail "disk full: $2 MB are needed in $1, $free_mb MB are free; free some space and run make again"
}

# borrow STAMP NAME...: a linked git worktree uses the main worktree's finished download instead of fetching its own.
# SLUICE_BORROW=0 turns that off. Fails when there is nothing to borrow.
borrow() {
  local stamp=$1 common main name
  shift
  for name in "$@"; do
    [ -e "$BUILD/$name" ] || rm -f "$BUILD/$name" # a link whose target is gone
    [ ! -e "$BUILD/$name" ] || return 1
  done
  [ "${SLUICE_BORROW:-1}" = 1 ] || return 1
  common=$(git -C "$ROOT" rev-parse --path-format=absolute --git-common-dir 2>/dev/null) || return 1
  main=$(dirname "$common")
  [ "$main" != "$ROOT" ] && [ -e "$main/build/$stamp" ] || return 1
  for name in "$@"; do
    ln -s "$main/build/$name" "$BUILD/$name"
  done
  step "using the main worktree's build/$1"
}
