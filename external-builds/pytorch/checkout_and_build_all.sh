#!/usr/bin/env bash
# Check the PyTorch family out beside this script, hipify it, and build its wheels.
#
#   checkout_and_build_all.sh [BUILD OPTIONS]
#   checkout_and_build_all.sh CHECKOUT OPTIONS -- [BUILD OPTIONS]
#
# Options are those of `rocwright checkout` (such as --pytorch-version 2.9) and of `build_prod_wheels.py build`
# (such as --pytorch-rocm-arch gfx942). Without --output-dir the wheels go into the folder dist beside this
# script. PYTHON names the interpreter that has rocwright (default: python3, or python where there is none).
set -euo pipefail

here="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"
python="${PYTHON:-$(command -v python3 || command -v python)}"

checkout=()
for word in "$@"; do
  if [[ "$word" == "--" ]]; then
    # All before it is for the checkout.
    while [[ "$1" != "--" ]]; do
      checkout+=("$1")
      shift
    done
    shift
    break
  fi
done

output=(--output-dir "$here/dist")
for word in "$@"; do
  case "$word" in
    --output-dir | --output-dir=*) output=() ;;
  esac
done

"$python" -m rocwright checkout all --directory "$here" ${checkout[@]+"${checkout[@]}"}
exec "$python" "$here/build_prod_wheels.py" build ${output[@]+"${output[@]}"} "$@"
