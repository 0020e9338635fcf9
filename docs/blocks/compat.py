"""What PyTorch on ROCm can do, and the table of the detector."""

from __future__ import annotations

from collections.abc import Callable

from blocks import detect_table
from rocwright.builder.decide.recipe import RecipeTable
from rocwright.compat.claimed.facts import load_facts
from rocwright.compat.claimed.render import as_markdown, markup_of
from rocwright.compat.claimed.sections import section
from rocwright.data import load_table
from rocwright.model.channels import LandingTable
from rocwright.model.gpu import Families, GpuTable
from rocwright.model.indexes import IndexTable


def compat(name: str) -> Callable[[], str]:
    """A section of the compatibility page, as `rocwright compat show --format markdown` prints it."""

    def render() -> str:
        facts = load_facts()
        return as_markdown(section(facts, name), markup_of(facts, "latest"))

    return render


def render_compat_about() -> str:
    """What PyTorch on ROCm is, in a few lines."""
    facts = load_facts()
    page, markup = facts.page.page, markup_of(facts, "latest")
    offers = "\n".join(f"* {markup.markdown(offer)}" for offer in page.offers)
    return f"{markup.markdown(page.about)} It offers:\n\n{offers}"


def render_detect_table() -> str:
    """The table of the detector's own wheel."""
    recipes = load_table("recipes", RecipeTable).recipe
    return detect_table.render_table(
        load_table("gpus", GpuTable),
        load_table("families", Families),
        load_table("landing", LandingTable).product[0],
        {row.project for row in recipes if row.device_code},
        load_table("indexes", IndexTable),
    )
