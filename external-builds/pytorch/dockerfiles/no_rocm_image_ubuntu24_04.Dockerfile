# The image that wheels are tested in on Linux: Ubuntu 24.04 with Python and compilers, and nothing of ROCm, so that
# whatever a wheel forgot is missing. How it is run stands in docs/how-to/test-wheels.md.
#
# For an image that can be made again byte by byte, name the base by its digest: --build-arg BASE=ubuntu@sha256:...
ARG BASE=ubuntu:24.04
FROM ${BASE}

# Named by --group-add: the names are looked up here, and the base has no render. Other numbers of the host (110, 992)
# are given as numbers.
RUN groupadd --gid 109 render

# What tests use besides the wheels: venv and Python.h, the compilers of torch.compile and of C++ extensions, what
# numpy and LAPACK were linked with, git for checkouts, tools that show processes and devices. No versions: Ubuntu's
# archive keeps one of each package, so a pinned one is gone with the next update.
# hadolint ignore=DL3008
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        ca-certificates \
        clang \
        cmake \
        curl \
        g++ \
        git \
        jq \
        libatomic1 \
        libgfortran5 \
        lld \
        make \
        ninja-build \
        pciutils \
        psmisc \
        python3 \
        python3-dev \
        python3-pip \
        python3-venv \
        unzip \
        zip \
    && rm -rf /var/lib/apt/lists/*

# The base's own user has the number that checkouts on most machines belong to. No sudo: tests need none, and
# `docker run --user 0:0` is root for those who do.
ARG TESTER_UID=1000
RUN userdel --remove ubuntu \
    && useradd --uid "${TESTER_UID}" --create-home --shell /bin/bash --groups video,render tester

ENV LANG=C.UTF-8
# By name, as the documents have it: it is resolved inside, and has the groups above.
# hadolint ignore=DL3066
USER tester
WORKDIR /home/tester
CMD ["/bin/bash"]
