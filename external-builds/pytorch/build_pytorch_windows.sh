#!/usr/bin/env bash
# Build wheels for the given GPU targets, of what is checked out beside this script.
#
#   bash build_pytorch_windows.sh TARGETS [BUILD OPTIONS]
#
# The same as `build_prod_wheels.py build --pytorch-rocm-arch TARGETS`. Without --output-dir the wheels go into the
# folder dist beside this script. PYTHON names the interpreter that has rocwright (default: python, or python3
# where there is none).
set -euo pipefail

if [[ $# -eq 0 || "$1" == -* ]]; then
  echo "usage: bash build_pytorch_windows.sh TARGETS [BUILD OPTIONS]" >&2
  echo "  for example: bash build_pytorch_windows.sh gfx1100" >&2
  exit 2
fi

here="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"
python="${PYTHON:-$(command -v python || command -v python3)}"
targets="$1"
shift

output=(--output-dir "$here/dist")
for word in "$@"; do
  case "$word" in
    --output-dir | --output-dir=*) output=() ;;
  esac
done

exec "$python" "$here/build_prod_wheels.py" build --pytorch-rocm-arch "$targets" ${output[@]+"${output[@]}"} "$@"
