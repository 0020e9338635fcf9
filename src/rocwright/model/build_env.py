"""Which variables a table handed to somebody else may set for builds: what a project reads, and no more.

A lock, a row or a `build_env.json` may come from anywhere, and its variables reach every program of a build:
shells, git, pip, compilers. So none of them may say what else those load, run, or take from where.
"""

from __future__ import annotations

import re

_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_TAKES_OVER = re.compile(
    # What the loader and the C library open before a program begins.
    r"LD_.*|DYLD_.*|GLIBC_TUNABLES|GCONV_PATH|LOCPATH|NLSPATH|MALLOC_.*|LIBPATH|SHLIB_PATH"
    # What interpreters load or run by themselves.
    r"|PYTHON.*|PERL5?(LIB|OPT|5DB.*)|PERL5.*|RUBY(LIB|OPT)|NODE_(OPTIONS|PATH)|CLASSPATH|LUA_.*"
    r"|_?JAVA_(TOOL_)?OPTIONS|JDK_JAVA_OPTIONS|TCLLIBPATH|R_(PROFILE|ENVIRON).*"
    # Shells: what they run first, how they part words, functions.
    r"|ENV|BASH_.*|BASHOPTS|SHELLOPTS|IFS|PS[0-4]|PROMPT_COMMAND|CDPATH|ZDOTDIR|SHELL|COMSPEC"
    # Where programs and settings are found.
    r"|PATH|PATHEXT|HOME|USERPROFILE|(LOCAL)?APPDATA|SYSTEMROOT|WINDIR|TMPDIR|TEMP|TMP|XDG_.*|(VIRTUAL_ENV|CONDA).*"
    # Git, ssh, and the programs that they call.
    r"|GIT_.*|SSH_.*|EDITOR|VISUAL|PAGER|BROWSER|LESS(OPEN|CLOSE)?"
    # Where packages come from, over which way, and whom to believe.
    r"|PIP_.*|UV_.*|POETRY_.*|NPM_.*|CARGO_.*|RUST(C|UP|FLAGS).*|GO(PATH|ROOT|PROXY|FLAGS).*|.*_PROXY"
    r"|SSL_.*|.*_CA_BUNDLE|CURL_.*|WGETRC|NETRC|OPENSSL_.*|AWS_.*|ROCWRIGHT_.*"
)
# What a recipe, which is the user's own, may choose and what comes from elsewhere may not.
_CHOOSES = re.compile(
    # Compilers, what stands in front of them, and what builds are told besides their files.
    r"CC|CXX|CPP|FC|LD|AS|AR|NM|RANLIB|STRIP|OBJCOPY|NINJA|CMAKE|MAKE|HIPCC|NVCC|.*_(COMPILER|LAUNCHER|WRAPPER)"
    r"|MAKE(FLAGS|FILES)|MFLAGS|GNUMAKEFLAGS|CMAKE_(TOOLCHAIN_FILE|PROGRAM_PATH|PROJECT_.*|CONFIG_.*)"
    r"|COMPILER_PATH|GCC_.*|CCC_OVERRIDE_OPTIONS|HIP_CLANG_PATH|S?CCACHE_.*"
)


def variable_problem(name: str, value: str = "", *, own: bool = False) -> str | None:
    """What is wrong with setting a variable for a build; None when it may be set.

    With `own`, as recipes are, it may choose compilers and other tools of the build. Large and small letters
    count the same, as on Windows.
    """
    if _NAME.fullmatch(name) is None or "\0" in value:
        return "is not an environment variable"
    if _TAKES_OVER.fullmatch(name.upper()) or (not own and _CHOOSES.fullmatch(name.upper())):
        return (
            "changes what the programs of a build load, run or trust; set it in your own shell if you need it"
        )
    return None
