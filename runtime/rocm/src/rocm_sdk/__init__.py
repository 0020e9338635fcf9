"""ROCm from Python packages: find and load its libraries before a framework's extensions need them.

Importing this package loads nothing; every function imports what it needs on its first call.
"""

from . import _set

__all__ = ["__version__", "find_libraries", "initialize_process", "preload_libraries"]

__version__ = _set.VERSION


def find_libraries(*shortnames):
    """Absolute paths of libraries, in the order asked for.

    `ModuleNotFoundError`: a name that no ROCm package knows, that this version does not ship, or whose
    package is not installed. `FileNotFoundError`: the package is installed but damaged.
    """
    from . import _libraries

    return [_libraries.find(name) for name in shortnames]


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
    """Make this process ready for extensions built against ROCm: load libraries, then check the version.

    `check_version` is compared with `rocm_sdk.__version__` as a whole; `*` stands for any text. A mismatch
    warns, or raises `RuntimeError` with `fail_on_version_mismatch`. With `env_override`, the names in
    ROCM_SDK_PRELOAD_LIBRARIES (separated by `,` or `;`) are loaded after `preload_shortnames`.
    """
    from . import _libraries

    if isinstance(preload_shortnames, str):
        raise TypeError(
            "preload_shortnames is a sequence of names, not one string: "
            f"write preload_shortnames=[{preload_shortnames!r}]"
        )
    _libraries.preload(preload_shortnames, rtld_global=rtld_global)
    if env_override:
        _libraries.preload_from_environment(rtld_global=rtld_global)
    if check_version is None or _libraries.version_matches(check_version, __version__):
        return
    message = _libraries.mismatch_message(check_version, __version__)
    if fail_on_version_mismatch:
        raise RuntimeError(message)
    import warnings

    warnings.warn(message, RuntimeWarning, stacklevel=2)
