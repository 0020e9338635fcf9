"""Every generated block of the pages by its name."""

from __future__ import annotations

from collections.abc import Callable

from blocks.commands import render_cli
from blocks.compat import compat, render_compat_about
from blocks.errors import render_errors, render_messages
from blocks.facts import (
    render_doctor,
    render_extensions,
    render_family_names,
    render_family_rows,
    render_index_rows,
    render_projects,
    render_scripts,
    render_versions,
)
from blocks.growth import render_scale
from blocks.measured import render_measured, render_readme_measured, render_user_measured
from blocks.pipeline import (
    render_ci,
    render_conditions,
    render_jobs,
    render_kinds,
    render_profiles,
    render_variables,
)
from blocks.rules import render_build_rules, render_kpack_rules, render_own_rules, render_rules
from blocks.schema import schema, values
from blocks.tested import render_conformance, render_mutations
from rocwright.builder.before.needs import Needs
from rocwright.builder.decide.extension import ExtensionTable
from rocwright.builder.decide.recipe import RecipeTable
from rocwright.builder.fat.tree import FatTable
from rocwright.check.contract import ContractTable
from rocwright.cli.help import ExampleTable
from rocwright.compat.claimed.judge import Answer
from rocwright.compat.claimed.render import Shown
from rocwright.compat.claimed.sections import SECTIONS
from rocwright.compat.doctor.facts import DoctorTable
from rocwright.compat.doctor.observations import Diagnosis
from rocwright.compat.probe.values import ProbeTable
from rocwright.data.explain import Explained, TableInfo
from rocwright.data.sources import SourceTable
from rocwright.emulator.values import EmulatorTable
from rocwright.gputest.emulated.suites import OperatorTable
from rocwright.model.channels import Channels, LandingTable
from rocwright.model.compat import CompatTable
from rocwright.model.compat_releases import FeatureTable, LibraryTable
from rocwright.model.device_files import DeviceFiles
from rocwright.model.environment import OwnedNames
from rocwright.model.gpu import Families, GpuTable
from rocwright.model.indexes import IndexTable
from rocwright.model.machines import Machines
from rocwright.model.plan import Plan, ProfileTable
from rocwright.model.platforms import Platforms
from rocwright.model.project import ProjectTable
from rocwright.model.suites import SkipTable, SuiteTable
from rocwright.model.symbols import RuntimeSymbols, StableAbi
from rocwright.model.testing import SignatureTable
from rocwright.model.variants import VariantTable
from rocwright.model.workflows import SlurmTable, WorkflowTable
from rocwright.pipeline.doctor.conditions import Readiness
from rocwright.pipeline.setup.event import Triggers
from rocwright.refresh.run import Refreshed
from rocwright.sdk.intake import distribution
from rocwright.sdk.licences import LicenceTable
from rocwright.sdk.table import PackageTable
from rocwright.sources.changes import Change, Log
from rocwright.sources.hipify import HipifiedTree
from rocwright.sources.lock import SourceLock
from rocwright.sources.prepare import Prepared
from rocwright.wheel.reversion.members import ReversionTable

BLOCKS: dict[str, Callable[[], str]] = {
    "compat-about": render_compat_about,
    **{f"compat-{name}": compat(name) for name in SECTIONS},
    "compat-values": lambda: values(Shown, Answer, known=SourceLock),
    "scale": render_scale,
    "data-values": lambda: values(TableInfo, Explained, Refreshed, known=SourceLock),
    "data-compat": lambda: schema(CompatTable),
    "data-compat-libraries": lambda: schema(LibraryTable),
    "data-compat-features": lambda: schema(FeatureTable),
    "cli": render_cli,
    "errors": render_errors,
    "messages": render_messages,
    "rules": render_rules,
    "own-rules": render_own_rules,
    "build-rules": render_build_rules,
    "kpack-rules": render_kpack_rules,
    "mutations": render_mutations,
    "scripts": render_scripts,
    "versions": render_versions,
    "extensions": render_extensions,
    "projects": render_projects,
    "families": render_family_names,
    "pipeline-kinds": render_kinds,
    "pipeline-jobs": render_jobs,
    "pipeline-profiles": render_profiles,
    "pipeline-ci": render_ci,
    "day-one-variables": render_variables,
    "day-one-conditions": render_conditions,
    "day-one-json": lambda: values(Readiness, known=SourceLock),
    "pipeline-plan": lambda: values(Plan, known=SourceLock),
    "data-profiles": lambda: schema(ProfileTable),
    "source-lock": lambda: schema(SourceLock),
    "source-values": lambda: values(Prepared, HipifiedTree, Change, Log, known=SourceLock),
    "data-contract": lambda: schema(ContractTable),
    "data-families": lambda: schema(Families),
    "data-packages": lambda: schema(PackageTable),
    "data-licences": lambda: schema(LicenceTable),
    "data-distributions": lambda: schema(distribution._Table),
    "data-projects": lambda: schema(ProjectTable),
    "data-recipes": lambda: schema(RecipeTable),
    "data-extensions": lambda: schema(ExtensionTable),
    "data-host": lambda: schema(Needs),
    "data-fat": lambda: schema(FatTable),
    "data-device-files": lambda: schema(DeviceFiles),
    "data-workflows": lambda: schema(WorkflowTable),
    "data-machines": lambda: schema(Machines),
    "data-platforms": lambda: schema(Platforms),
    "data-platform-symbols": lambda: schema(RuntimeSymbols),
    "data-stable-abi": lambda: schema(StableAbi),
    "data-channels": lambda: schema(Channels),
    "data-indexes": lambda: schema(IndexTable),
    "data-tests": lambda: schema(SuiteTable),
    "data-skips": lambda: schema(SkipTable),
    "data-signatures": lambda: schema(SignatureTable),
    "data-emulators": lambda: schema(EmulatorTable),
    "data-operators": lambda: schema(OperatorTable),
    "data-probe": lambda: schema(ProbeTable),
    "data-slurm": lambda: schema(SlurmTable),
    "data-sources": lambda: schema(SourceTable),
    "data-doctor": lambda: schema(DoctorTable),
    "doctor-json": lambda: values(Diagnosis, known=SourceLock),
    "doctor-machine": lambda: render_doctor("machine"),
    "doctor-environment": lambda: render_doctor("environment"),
    "data-landing": lambda: schema(LandingTable),
    "data-gpus": lambda: schema(GpuTable),
    "data-environment": lambda: schema(OwnedNames),
    "data-variants": lambda: schema(VariantTable),
    "data-reversion": lambda: schema(ReversionTable),
    "data-examples": lambda: schema(ExampleTable),
    "data-triggers": lambda: schema(Triggers),
    "family-rows": render_family_rows,
    "index-rows": render_index_rows,
    "conformance": render_conformance,
    "measured": render_measured,
    "measured-readme": render_readme_measured,
    "measured-user": render_user_measured,
}
