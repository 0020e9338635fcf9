"""ROCm from Python packages: find and load its libraries before a framework's extensions need them.

Importing this package loads nothing; every function imports what it needs on its first call.
"""

from . import _set

__all__ = ["__version__", "find_libraries", "initialize_process", "preload_libraries"]

__version__ = _set.VERSION

_ALL_CDLLS = {}  # short name -> handle of what `preload_libraries` loaded


def find_libraries(*shortnames):
    """Absolute paths of libraries, in the order asked for.

    `ModuleNotFoundError`: a name that no ROCm package knows, that this version does not ship, or whose
    package is not installed. `FileNotFoundError`: the package is installed but damaged. On Windows, names of
    libraries that ROCm has for Linux only are left out.
    """
    from . import _libraries

    return [path for path in map(_libraries.find, shortnames) if path is not None]


def preload_libraries(*shortnames, rtld_global=True):
    """Load libraries into this process, in order, each once however often it is asked for.

    Raises as `find_libraries`, and `OSError` naming the library when the loader refuses it.
    """
    from . import _libraries

    _libraries.preload(shortnames, rtld_global=rtld_global)


def initialize_process(
    *,
    preload_shortnames=(),
    check_version=None,
    fail_on_version_mismatch=False,
    rtld_global=True,
    env_override=True,
):
    """Make this process ready for extensions built against ROCm: load libraries, check version and GPUs.

    `check_version` is compared with `rocm_sdk.__version__` as a whole; `*` stands for any text. A compiled
    regular expression has to match its start. A mismatch warns (`UserWarning`), or raises `RuntimeError` with
    `fail_on_version_mismatch`. With `env_override`, the names in ROCM_SDK_PRELOAD_LIBRARIES (separated by `,`
    or `;`) are loaded after `preload_shortnames`.

    A visible GPU that the installed packages have no device code for gives one `RuntimeWarning` a process,
    with the command that installs it; ROCM_SDK_NO_GPU_CHECK=1 switches that off.
    """
    from . import _gpus, _libraries

    if isinstance(preload_shortnames, str):
        raise TypeError(
            "preload_shortnames is a sequence of names, not one string: "
            f"write preload_shortnames=[{preload_shortnames!r}]"
        )
    _libraries.preload(preload_shortnames, rtld_global=rtld_global)
    if env_override:
        _libraries.preload_from_environment(rtld_global=rtld_global)
    if check_version is not None and not _libraries.version_matches(check_version, __version__):
        message = _libraries.mismatch_message(check_version, __version__)
        if fail_on_version_mismatch:
            raise RuntimeError(message)
        import warnings

        warnings.warn(message, UserWarning, stacklevel=2)
    _gpus.warn_of_unserved(stacklevel=2)
