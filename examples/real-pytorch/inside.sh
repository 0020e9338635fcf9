#!/bin/sh
# Runs a command in the prepared root, in /build, with nothing of the caller's environment but CCACHE_* and MAX_JOBS.
#
#   inside.sh WORK COMMAND...
set -eu
work=$1 && shift
passed=$(env | grep -E '^(CCACHE_[A-Z]+|MAX_JOBS)=' || true)
# shellcheck disable=SC2086
exec chroot "$work/root" env -i PATH=/build/rw/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    CCACHE_DIR=/build/ccache CCACHE_MAXSIZE=10G $passed sh -c 'cd /build && exec "$@"' sh "$@"
