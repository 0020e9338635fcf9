"""The documented `pytorch_*_repo.py`: one form of command line for each project, over the same functions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from rocwright.cli import show_sources
from rocwright.cli.checkout import Places, Run, SourceRequest, hipified
from rocwright.cli.options import Count
from rocwright.cli.parse import ScriptHelp, parsed
from rocwright.cli.reply import Reply, replies
from rocwright.cli.source_options import Cache, Head, How, Leave, What, project_table
from rocwright.cli.sources import save_patches_of
from rocwright.errors import UsageError
from rocwright.model.platforms import this_platform
from rocwright.model.project import CommitFilePin, Project, RelatedCommitsPin
from rocwright.system import console

_WHAT, _HOW, _HEAD, _LEAVE, _CACHE = What(), How(), Head(), Leave(), Cache()


@Parameter(name="*")
@dataclass(frozen=True)
class CheckoutPlace:
    """Where the checkout lies."""

    checkout_dir: Path | None = None
    """The checkout (default: the project's folder beside this script)."""

    repo: Path | None = None
    """Older spelling: the directory that holds the checkout (default: this script's); deprecated."""

    repo_name: str | None = None
    """Older spelling: the checkout's folder in --repo (default: the project's); deprecated."""

    def directory(self, script_dir: Path, name: str) -> Path:
        """The checkout; raises `UsageError` for both spellings at once."""
        if self.repo is None and self.repo_name is None:
            return self.checkout_dir or script_dir / name
        older = "--repo-name" if self.repo is None else "--repo"
        if self.checkout_dir is not None:
            raise UsageError(
                f"--checkout-dir and {older} contradict each other", next_step=f"leave {older} out"
            )
        directory = (self.repo or script_dir) / (self.repo_name or name)
        console.say(f"warning: {older} is deprecated; give --checkout-dir {directory}")
        return directory


_PLACE = CheckoutPlace()


@dataclass(frozen=True)
class Script:
    """One script: its project, and the directory that its defaults are relative to."""

    project: Project
    directory: Path

    def checkout(
        self,
        place: CheckoutPlace,
        what: What,
        how: How,
        head: Head,
        leave: Leave,
        cache: Cache,
        torch_dir: Path | None = None,
        require_related_commit: bool = False,
        release: bool = False,
    ) -> Reply:
        """What `checkout` of every script does; defaults are those of the script's project."""
        how.require_sense()
        directory = place.directory(self.directory, self.project.directory)
        run = Run(Places(self.directory, directory), how, head, leave.work(), cache.mirrors())
        run.places.require_outside()
        # triton's --no-hipify has always meant: no build_env.json.
        bare = what.hipify is False and bool(self.project.build_env)
        wanted = SourceRequest(
            (self.project.name,),
            what,
            this_platform(),
            torch_dir=torch_dir,
            require_related_commit=require_related_commit,
            release=release,
        )
        lock = wanted.resolved(project_table(), run.places, None if how.dry_run else run.mirrors)
        if bare:
            sources = tuple(msgspec.structs.replace(source, build_env={}) for source in lock.sources)
            lock = msgspec.structs.replace(lock, sources=sources)
        if how.dry_run:
            return run.plan(lock)
        show_sources.say_lock(lock)
        return run.act(lock, record=True)

    @replies
    def hipify(
        self,
        *,
        place: CheckoutPlace = _PLACE,
        head: Head = _HEAD,
        hip_clang: bool = False,
        jobs: Count = 10,
        leave: Leave = _LEAVE,
        cache: Cache = _CACHE,
    ) -> Reply:
        """Hipify an existing checkout, and tag the result.

        Parameters
        ----------
        hip_clang
            Let the script write kernel launches for hip-clang.
        jobs
            Repositories at once.
        json
            Print the result as JSON.
        """
        if isinstance(self.project.pin, CommitFilePin):
            raise UsageError(
                f"{self.project.name} is not hipified: it has no script for it",
                next_step="`checkout` is all it needs",
            )
        directory = place.directory(self.directory, self.project.directory)
        tree = hipified(directory, head=head, hip_clang=hip_clang, jobs=jobs, leave=leave, cache=cache)
        return show_sources.hipified_reply(tree)

    @replies
    def save_patches(
        self,
        *,
        place: CheckoutPlace = _PLACE,
        output_dir: Annotated[Path | None, Parameter(name=["--output-dir", "--patch-dir"])] = None,
    ) -> Reply:
        """Write your commits above the tags as patch files; `checkout --patches` applies them.

        Parameters
        ----------
        output_dir
            Where they go (default: the folder patches beside this script).
        json
            Print the paths as JSON.
        """
        directory = place.directory(self.directory, self.project.directory)
        output = output_dir or self.directory / "patches"
        return show_sources.saved_reply(save_patches_of(directory, output))


def _plain(script: Script) -> Callable[..., None]:
    """`checkout` of a project that decides itself what is meant: torch."""

    @replies
    def checkout(
        *,
        place: CheckoutPlace = _PLACE,
        what: What = _WHAT,
        how: How = _HOW,
        head: Head = _HEAD,
        leave: Leave = _LEAVE,
        cache: Cache = _CACHE,
    ) -> Reply:
        """Check the project out at one commit, submodules included, tag it, hipify it, tag the result.

        Parameters
        ----------
        json
            Print the result as JSON.
        """
        return script.checkout(place, what, how, head, leave, cache)

    return checkout


def _related(script: Script) -> Callable[..., None]:
    """`checkout` of a project that torch's related_commits pins."""

    @replies
    def checkout(
        *,
        place: CheckoutPlace = _PLACE,
        what: What = _WHAT,
        require_related_commit: bool = False,
        torch_dir: Path | None = None,
        how: How = _HOW,
        head: Head = _HEAD,
        leave: Leave = _LEAVE,
        cache: Cache = _CACHE,
    ) -> Reply:
        """Check the project out at the commit that torch pins, submodules included, and hipify it.

        Parameters
        ----------
        require_related_commit
            Fail where torch pins no commit of it.
        torch_dir
            The torch checkout whose related_commits is read (default: the folder pytorch beside this script).
        json
            Print the result as JSON.
        """
        return script.checkout(
            place,
            what,
            how,
            head,
            leave,
            cache,
            torch_dir,
            require_related_commit=require_related_commit,
        )

    return checkout


def _following(script: Script) -> Callable[..., None]:
    """`checkout` of a project whose commit stands in a file of torch: triton."""

    @replies
    def checkout(
        *,
        place: CheckoutPlace = _PLACE,
        what: What = _WHAT,
        release: bool = False,
        torch_dir: Path | None = None,
        how: How = _HOW,
        head: Head = _HEAD,
        leave: Leave = _LEAVE,
        cache: Cache = _CACHE,
    ) -> Reply:
        """Check the project out at the commit that torch pins; torch must be checked out first.

        Writes build_env.json, which the wheel build reads; --no-hipify leaves it out.

        Parameters
        ----------
        release
            Take the release branch for the version that torch names, instead of the pinned commit.
        torch_dir
            The torch checkout whose .ci/docker is read (default: the folder pytorch beside this script).
        json
            Print the result as JSON.
        """
        return script.checkout(place, what, how, head, leave, cache, torch_dir, release=release)

    return checkout


def script_app(project: str, script: Path) -> App:
    """The command line of one script."""
    row = project_table().get(project)
    this = Script(row, script.resolve().parent)
    # Every form is the project's on all platforms: a flag does not come and go with the machine.
    form = _related if isinstance(row.pin, RelatedCommitsPin) else _following
    form = _plain if row.pin is None else form
    app = App(
        name=script.name,
        help=f"Check out and prepare the sources of {row.name}.",
        version_flags=[],
        help_formatter=ScriptHelp(),
        help_format="plaintext",
    )
    app.command(form(this), name="checkout")
    app.command(this.hipify, name="hipify")
    app.command(this.save_patches, name="save-patches")
    return app


def run_script(project: str, script: Path, arguments: Sequence[str]) -> None:
    """Run a script's command line; words that it does not know end it with exit code 2."""
    app = script_app(project, script)
    if not arguments:
        app.help_print([])
        sys.exit(UsageError.exit_code)
    parsed(app, arguments)
