"""The documents' sections from top to bottom: their commands, in order, in one terminal.

The commands are written here in the order in which the documents print them; a scene has to have typed them
in that order. What each ends with is looked at by the cases of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from conformance.scenes import (
    checkout_defaults,
    checkout_releases,
    checkout_upstream,
    ci_run,
    dist_dir,
    packages,
    packages_framework,
    packages_installed,
    packages_local,
    packages_published,
    packages_split,
    quickstart,
    run_tests,
    torch_tests,
    windows_build,
)
from conformance.table import rows
from conformance.test_rows import commands, says
from conformance.world import Transcript, World

Play = Callable[[World], Transcript]
TORCH, AUDIO, VISION, TRITON = (
    f"python pytorch_{name}_repo.py checkout" for name in ("torch", "audio", "vision", "triton")
)
VENV = "python -m venv .venv && source .venv/bin/activate"
NIGHTLY = "https://rocm.nightlies.amd.com/v2/gfx110X-all/"
BUILD = f"python build_prod_wheels.py build --install-rocm --index-url {NIGHTLY} --output-dir $HOME/tmp/pyout"
FETCH = "python ./build_tools/fetch_artifacts.py"
PACK = "python ./build_tools/build_python_packages.py"
TESTS = "python run_pytorch_tests.py"
STRICT = "--require-related-commit"
UPLOAD = "python build_tools/github_actions/upload_python_packages.py"
RUN = "$HOME/.therock/17123441166"
RUN_VARIABLES = (
    "RUN_ID=21440027240",
    "ARTIFACT_GROUP=gfx110X-all",
    "ARTIFACTS_DIR=${HOME}/therock/${RUN_ID}/artifacts",
    "PACKAGES_DIR=${HOME}/therock/${RUN_ID}/packages",
)

# Document and section; the scene; what is printed there, in order. S2 prints no command.
TUTORIALS: dict[tuple[str, str], tuple[Play, Sequence[str]]] = {
    ("S0", "quickstart"): (
        quickstart.quickstart,
        (
            *(VENV, TORCH, AUDIO, VISION, BUILD, "rocm-sdk test"),
            'python -c "import torch; print(torch.cuda.is_available())"',
        ),
    ),
    ("S0", "quickstart, short paths"): (
        checkout_defaults.default_branches,
        (
            *(TORCH, AUDIO, VISION, f"{TORCH} --checkout-dir C:/b/pytorch"),
            *(f"{AUDIO} --checkout-dir C:/b/audio", f"{VISION} --checkout-dir C:/b/vision"),
        ),
    ),
    ("S0", "smoke tests"): (
        torch_tests.torch_tests,
        ("pytest -v smoke-tests", "python run_pytorch_smoke_tests.py -- --log-cli-level=INFO -v"),
    ),
    ("S0", "full tests"): (
        run_tests.run_tests,
        (
            *(TESTS, f"{TESTS} -- --continue-on-collection-errors --import-mode=importlib -v"),
            *(f'{TESTS} -k "test_nn and not test_dropout"',),
            f"{TESTS} --pytorch-dir=/tmp/pytorch --amdgpu-family=gfx950",
        ),
    ),
    ("S0", "PyTorch's own runner"): (
        torch_tests.torch_tests,
        ("PYTORCH_TEST_WITH_ROCM=1 python pytorch/test/run_test.py --include test_torch",),
    ),
    ("S0", "rocm by the builder"): (
        quickstart.quickstart,
        (f"build_prod_wheels.py --index-url {NIGHTLY} install-rocm",),
    ),
    ("S0", "rocm by pip"): (
        packages_published.published,
        (
            f"python -m pip install --index-url {NIGHTLY} rocm[libraries,devel]",
            "python -m pip install --index-url https://rocm.devreleases.amd.com/v2/gfx110X-all/ "
            "rocm[libraries,devel]",
        ),
    ),
    ("S0", "rocm from artifacts"): (
        packages_local.local_packages,
        (
            *(f"mkdir {RUN}", f"mkdir {RUN}/artifacts"),
            f"{FETCH} --run-id=17123441166 --target=gfx110X-all --output-dir={RUN}/artifacts",
            f"{PACK} --artifact-dir={RUN}/artifacts --dest-dir={RUN}/packages",
            f"{PACK} --artifact-dir=build/artifacts --dest-dir=build/packages",
        ),
    ),
    ("S0", "checking out, main"): (
        checkout_upstream.main_branches,
        (
            *(f"{TORCH} --repo-hashtag main", "cd pytorch", "git log --oneline"),
            *(f"{TORCH} --repo-hashtag main", f"{AUDIO} --repo-hashtag main"),
            *(f"{VISION} --repo-hashtag main", TRITON),
        ),
    ),
    ("S0", "nightly"): (
        checkout_upstream.nightly_branches,
        (
            *(f"{TORCH} --repo-hashtag nightly", f"{AUDIO} --repo-hashtag nightly"),
            *(f"{VISION} --repo-hashtag nightly", TRITON),
        ),
    ),
    ("S0", "release branches"): (
        checkout_releases.release_branches,
        (
            f"{TORCH} --gitrepo-origin https://github.com/ROCm/pytorch.git --repo-hashtag release/2.9",
            *(f"{AUDIO} {STRICT}", f"{VISION} {STRICT}", TRITON),
        ),
    ),
    ("S1", "all at once, then by steps"): (
        dist_dir.dist_dir,
        (
            *("python -m venv .venv", "source .venv/bin/activate", "./checkout_and_build_all.sh", TORCH),
            "pip install -r pytorch/requirements.txt",
            'export CMAKE_PREFIX_PATH="$(realpath ../../build/dist/rocm)"',
            *("(cd src && USE_KINETO=OFF python setup.py develop)", "bash build_pytorch_windows.sh gfx1100"),
        ),
    ),
    ("S1", "smoke tests"): (torch_tests.torch_tests, ("pytest -v smoketests",)),
    ("S1", "patches"): (
        checkout_upstream.patches,
        (TORCH, "python pytorch_torch_repo.py save-patches"),
    ),
    ("S3", "local artifacts"): (
        packages_local.local_packages,
        (
            "./build_tools/build_python_packages.py --artifact-dir ./output-linux-portable/build/artifacts "
            "--dest-dir ${HOME}/tmp/packages",
        ),
    ),
    ("S3", "artifacts of a run"): (
        packages.family_packages,
        (
            *RUN_VARIABLES,
            f"{FETCH} --run-id=${{RUN_ID}} --artifact-group=${{ARTIFACT_GROUP}} "
            "--output-dir=${ARTIFACTS_DIR}",
            f"{PACK} --artifact-dir=${{ARTIFACTS_DIR}} --dest-dir=${{PACKAGES_DIR}}",
            "ls ${PACKAGES_DIR}",
        ),
    ),
    ("S3", "split artifacts"): (
        packages_split.split_packages,
        (
            "python ./build_tools/artifact_manager.py fetch --stage all --output-dir=${ARTIFACTS_DIR} "
            '--run-id=${RUN_ID} --platform linux --amdgpu-families "gfx94X-dcgpu;gfx120X-all" '
            '--amdgpu-targets "gfx942,gfx1100,gfx1101,gfx1102,gfx1103,gfx1151,gfx1200,gfx1201"',
            f"{PACK} --artifact-dir=${{ARTIFACTS_DIR}}/artifacts --dest-dir=${{PACKAGES_DIR}}",
        ),
    ),
    ("S3", "installing"): (
        packages_installed.installed_packages,
        (
            *(VENV, "pip install rocm[libraries,devel] --pre --find-links=${PACKAGES_DIR}/dist"),
            "rocm-sdk test",
            'python ./third-party/indexer/indexer.py ${PACKAGES_DIR}/dist --filter "*.whl" "*.tar.gz"',
            *(VENV, "pip install rocm[libraries,devel] --pre --find-links=${PACKAGES_DIR}/dist/index.html"),
            "rocm-sdk test",
        ),
    ),
    # The document begins with the other one; installed after that, rocm-profiler alone would show nothing.
    ("S3", "profiling tools"): (
        packages_split.chosen_packages,
        ("pip install rocm-profiler", 'pip install "rocm[profiler]"'),
    ),
    ("S3", "building against it"): (
        packages_framework.framework,
        (
            *("pip install rocm[libraries,devel]", "-DCMAKE_PREFIX_PATH=$(rocm-sdk path --cmake)"),
            'export PATH="$(rocm-sdk path --bin):$PATH"',
            'export PYTORCH_EXTRA_INSTALL_REQUIREMENTS="rocm[libraries]=={$(rocm-sdk version)}"',
            'echo "def initialize(): ..." > torch/_rocm_init.py',
        ),
    ),
    # A chain of jobs, no commands: what stands for them here are the scripts that it names.
    ("S4", "the chain"): (
        ci_run.ci_run,
        (
            UPLOAD,
            "python external-builds/pytorch/pytorch_torch_repo.py checkout",
            "python external-builds/pytorch/build_prod_wheels.py build",
            "python external-builds/pytorch/sanity_check_wheel.py",
            "python build_tools/github_actions/write_torch_versions.py",
            f"{UPLOAD} --input-packages-dir=$HOME/wheels --kind pytorch",
            "python build_tools/setup_venv.py",
        ),
    ),
    ("S0", "the quickstart on Windows"): (
        windows_build.windows_build,
        ("python build_prod_wheels.py build ^ --install-rocm",),
    ),
}


@pytest.mark.parametrize(("document", "section"), TUTORIALS, ids=map(" ".join, TUTORIALS))
def test_a_section_is_followed_from_top_to_bottom(world: World, document: str, section: str) -> None:
    play, printed = TUTORIALS[document, section]
    typed = play(world).done
    at = 0
    for text in printed:
        found = next((i for i in range(at, len(typed)) if says(typed[i].printed, text)), None)
        assert found is not None, f"{text!r} is not typed after {typed[at - 1].printed!r}"
        at = found + 1


def test_no_command_of_the_documents_is_left_out() -> None:
    told = [text for _, printed in TUTORIALS.values() for text in printed]
    # These describe a command that stands there in another form, or what one does without being typed.
    other_forms = {"CL-36", "CL-37", "CL-68", "CL-69", "CL-70", "CL-71", "CL-61", "CL-64"}
    missing = {
        row.id: text
        for row in rows()
        if row.id.startswith("CL-") and row.how == "run" and row.id not in other_forms
        for text in commands(row)
        if not any(says(one, text) for one in told)
    }
    assert missing == {}
