#!/bin/sh
# Runs a command in the prepared root, in /build, with nothing of the caller's environment but CCACHE_* and MAX_JOBS.
#
# ccache goes by what the compiler says a source depends on, without preprocessing it first, and takes headers that were
# compiled before.
#
#   inside.sh WORK COMMAND...
set -eu
work=$1 && shift
passed=$(env | grep -E '^(CCACHE_[A-Z]+|MAX_JOBS)=' || true)
# shellcheck disable=SC2086
exec chroot "$work/root" env -i PATH=/build/rw/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    CCACHE_DIR=/build/ccache CCACHE_MAXSIZE=10G CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros \
    $passed sh -c 'cd /build && exec "$@"' sh "$@"
