#!/bin/sh
# Prepares what rocwright builds the real PyTorch from: a Debian sid root with a compiler, the packages of its
# ROCm 6.4 as files, and Debian's source of PyTorch 2.6.0 as a git repository. Needs root. Run again, it goes on.
#
#   prepare.sh WORK     the root becomes WORK/root, and everything lies below /build in it
set -eu

work=${1:?usage: prepare.sh WORK}
here=$(cd "$(dirname "$0")" && pwd)
mirror=${MIRROR:-http://deb.debian.org/debian}
root=$work/root
build=$root/build

# GCC 14: PyTorch 2.6 is older than sid's default. Python 3.13 is the newest that it knows.
tools="build-essential g++-14 ccache cmake ninja-build git patch file pkg-config ca-certificates
  python3.13-dev python3.13-venv flatbuffers-compiler"
# What Debian's build of PyTorch takes from the system instead of from submodules.
libraries="libopenblas-dev liblapack-dev libprotobuf-dev protobuf-compiler libonnx-dev libsleef-dev libcpuinfo-dev
  libpthreadpool-dev libfp16-dev libpsimd-dev libfxdiv-dev libeigen3-dev libfmt-dev nlohmann-json3-dev
  libcpp-httplib-dev libflatbuffers-dev flatbuffers-compiler-dev libnuma-dev libzstd-dev"

inside() {
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

make_root() {
    [ -e "$root/etc/debian_version" ] || debootstrap --variant=minbase sid "$root" "$mirror"
    mkdir -p "$build" "$work/archives"
    mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
    mountpoint -q "$root/dev" || { mount --rbind /dev "$root/dev" && mount --make-rslave "$root/dev"; }
    # Downloaded packages are kept: sid moves on.
    mountpoint -q "$root/var/cache/apt/archives" || mount --bind "$work/archives" "$root/var/cache/apt/archives"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    # A mirror may be behind, and that of a snapshot always is; what it serves is signed all the same.
    inside apt-get -o Acquire::Check-Valid-Until=false -o Acquire::Check-Date=false update
    # shellcheck disable=SC2086
    inside apt-get install --yes --no-install-recommends $tools $libraries
}

# ROCm is downloaded and not installed: nothing may be found in /usr that the wheels should have.
get_rocm() {
    names=$(sed -n '/^packages = \[/,/^\]/p' "$here/rocwright.toml" | grep -o '"[^"]*"' | tr -d '"')
    mkdir -p "$build/rocm-debs"
    for name in $names; do
        ls "$build/rocm-debs/${name}"_*.deb >/dev/null 2>&1 && continue
        inside sh -c "cd /build/rocm-debs && apt-get -o APT::Sandbox::User=root download $name"
    done
}

get_source() {
    [ -d "$build/pytorch.git" ] && return
    mkdir -p "$work/source"
    (
        cd "$work/source"
        for file in pytorch_2.6.0+dfsg.orig.tar.xz pytorch_2.6.0+dfsg-7.debian.tar.xz; do
            [ -e "$file" ] || { curl -fsS -o "$file.part" "$mirror/pool/main/p/pytorch/$file" && mv "$file.part" "$file"; }
        done
        sha256sum --check --quiet "$here/source.sha256"
    )
    rm -rf "$build/source" && mkdir "$build/source"
    tar --no-same-owner -C "$build/source" --strip-components=1 -xf "$work/source/pytorch_2.6.0+dfsg.orig.tar.xz"
    tar --no-same-owner -C "$build/source" -xf "$work/source/pytorch_2.6.0+dfsg-7.debian.tar.xz"
    cp "$here/repository.sh" "$build/repository.sh"
    inside sh /build/repository.sh
    rm -rf "$build/source" "$build/repository.sh"
}

get_rocwright() {
    rm -rf "$build/rocwright" && mkdir "$build/rocwright"
    git -C "$here/../.." archive --format=tar HEAD | tar -C "$build/rocwright" -xf -
    [ -x "$build/rw/bin/python" ] || inside python3.13 -m venv /build/rw
    # The proof of the loader reads libraries with pyelftools, as the tests do whose stand-in it takes.
    inside /build/rw/bin/python -m pip install --quiet /build/rocwright pyelftools
}

make_root
get_rocm
get_source
get_rocwright
# hipcc before ROCm 7.13 does not know HIP_CLANG_LAUNCHER, the variable through which rocwright puts its recorder
# and ccache before the compiler; the overlay names this directory as HIP_CLANG_PATH.
mkdir -p "$build/hip-clang"
install -m 755 "$here/clang++" "$build/hip-clang/clang++"
cp "$here/rocwright.toml" "$build/rocwright.toml"
rm -rf "$build/patches" && cp -r "$here/patches" "$build/patches"
echo "$root is ready; go on with README.md"
