#!/bin/sh
# Prepares what rocwright builds the real PyTorch from: a Debian sid root with a compiler, the packages of
# experimental's ROCm 7.2 as files, and the sources of PyTorch 2.6.0, torchvision and torchaudio as git repositories.
# Needs root. Run again, it goes on.
#
#   prepare.sh WORK             the root becomes WORK/root, and everything lies below /build in it
#   prepare.sh --remove WORK    removes it; the machine's own /dev is mounted in the root, so never by rm alone
set -eu

usage="usage: prepare.sh [--remove] WORK"
remove=
[ "${1-}" != --remove ] || { remove=1 && shift; }
work=${1:?$usage}
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
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt PIP_CERT=/etc/ssl/certs/ca-certificates.crt "$@"
}

remove_all() {
    for place in dev proc var/cache/apt/archives; do
        ! mountpoint -q "$root/$place" || umount -R "$root/$place"
    done
    rm -rf --one-file-system "$work"
}

make_root() {
    [ -e "$root/etc/debian_version" ] || debootstrap --variant=minbase sid "$root" "$mirror"
    mkdir -p "$build" "$work/archives"
    mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
    mountpoint -q "$root/dev" || { mount --rbind /dev "$root/dev" && mount --make-rslave "$root/dev"; }
    # Downloaded packages are kept: sid moves on.
    mountpoint -q "$root/var/cache/apt/archives" || mount --bind "$work/archives" "$root/var/cache/apt/archives"
    # How this machine reaches the network: its resolver, its pip's settings and, once the package is there that
    # would write its own, its certificates.
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    [ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/pip.conf"
    echo "deb $mirror experimental main" >"$root/etc/apt/sources.list.d/experimental.list"
    # A mirror may be behind, and that of a snapshot always is; what it serves is signed all the same.
    inside apt-get -o Acquire::Check-Valid-Until=false -o Acquire::Check-Date=false update
    # shellcheck disable=SC2086
    inside apt-get install --yes --no-install-recommends $tools $libraries
    cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
}

# ROCm is downloaded and not installed: nothing may be found in /usr that the wheels should have.
get_rocm() {
    names=$(sed -n '/^packages = \[/,/^\]/p' "$here/rocwright.toml" | grep -o '"[^"]*"' | tr -d '"')
    mkdir -p "$build/rocm-debs"
    for name in $names; do
        ls "$build/rocm-debs/${name}"_*.deb >/dev/null 2>&1 && continue
        inside sh -c "cd /build/rocm-debs && apt-get -t experimental -o APT::Sandbox::User=root download $name"
    done
}

# Debian's pool has the sources of the siblings of PyTorch 2.6, too, though no packages of them.
get_source() {
    mkdir -p "$work/source"
    (
        cd "$work/source"
        while read -r _ file; do
            directory=${file%%_*}
            [ -e "$file" ] || { curl -fsS -o "$file.part" "$mirror/pool/main/p/$directory/$file" && mv "$file.part" "$file"; }
        done <"$here/source.sha256"
        sha256sum --check --quiet "$here/source.sha256"
    )
    cp "$here/repository.sh" "$build/repository.sh"
    for name in pytorch pytorch-vision pytorch-audio; do
        [ ! -d "$build/$name.git" ] || continue
        rm -rf "$build/source" && mkdir "$build/source"
        for file in "$work/source/$name"_*.tar.*; do
            case $file in *.orig.*) depth=1 ;; *) depth=0 ;; esac
            tar --no-same-owner -C "$build/source" --strip-components="$depth" -xf "$file"
        done
        inside sh /build/repository.sh "$name"
    done
    rm -rf "$build/source" "$build/repository.sh"
}

get_rocwright() {
    rm -rf "$build/rocwright" && mkdir "$build/rocwright"
    git -C "$here/../.." archive --format=tar HEAD | tar -C "$build/rocwright" -xf -
    [ -x "$build/rw/bin/python" ] || inside python3.13 -m venv /build/rw
    # The proof of the loader reads libraries with pyelftools, as the tests do whose stand-in it takes; the check installs
    # with uv, too.
    inside /build/rw/bin/python -m pip install --quiet /build/rocwright pyelftools uv
    # A torch that was built with the system's libraries brings no headers of pybind11, which its own headers include: what
    # is compiled against it finds them where compilers look. Sid's pybind11 3 is too new for PyTorch 2.6.
    inside /build/rw/bin/python -m pip install --quiet --no-deps --prefix /build/pybind11 pybind11-global==2.13.6
    cp -rL "$build/pybind11/include/pybind11" "$root/usr/local/include/" && rm -r "$build/pybind11"
}

[ -z "$remove" ] || { remove_all && exit; }
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
