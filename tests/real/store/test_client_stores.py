"""Pages and locks from every kind of store: what is written is what installers are served."""

from __future__ import annotations

from pathlib import Path

import msgspec

from real.store.clients import NOW, wheel
from rocwright.model.sets import new_set, set_id
from rocwright.store.index.listed import listed_files
from rocwright.store.index.pages import view_pages, write_pages
from rocwright.store.index.set_pages import publish_set_pages
from rocwright.store.index.verify import verify_served
from rocwright.store.layout import set_prefix
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.objects.serve import serving
from rocwright.store.pool import describe_files
from rocwright.store.sets.records import read_listed
from rocwright.store.sets.stage import record_set

PREFIX = "v2/fam/"


def test_what_is_published_is_what_is_served(store: ObjectStore, tmp_path: Path) -> None:
    wheels = [
        wheel(tmp_path, "torch", "2.9.0+rocm7.1", requires=["rocm==7.1"]),
        wheel(tmp_path, "rocm", "7.1"),
        wheel(tmp_path, "Odd_Name.pkg", "1!2.0.post1+rocm7.1.g0"),
    ]
    manifest = new_set(
        family="fam", targets=["gfx90a"], platform="linux", files=describe_files(wheels), sources={}
    )
    record_set(store, manifest, {path.name: path for path in wheels}, [], NOW)
    one = read_listed(store, set_id(manifest))
    pages = view_pages(listed_files([one]), PREFIX)
    assert write_pages(store, PREFIX, pages) == tuple(pages)
    assert write_pages(store, PREFIX, pages) == ()
    assert publish_set_pages(store, one) == ()
    with serving(store) as url:
        for place in (PREFIX, set_prefix(set_id(manifest))):
            found = verify_served(url + place)
            assert (found.faults, found.files) == ((), 3)
    withdrawn = msgspec.structs.replace(one, yanked="bad <kernels>")
    yanked = view_pages(listed_files([withdrawn]), PREFIX)
    # Two pages of each project and the flat page; both roots name the same projects.
    assert len(write_pages(store, PREFIX, yanked, reverse=True)) == 7
    with serving(store) as url:
        assert verify_served(url + PREFIX).faults == ()
    assert len(write_pages(store, PREFIX, {}, order=tuple(pages), reverse=True)) == len(pages)
    assert [key.key for key in store.list(PREFIX)] == []
