"""RECORD of an installed distribution: what uninstalling removes, hence where an expanded tree is listed."""

import csv
import io
import os
import tempfile

PARTIAL = ".partial-"  # in the names of what is being made


def find(site, distribution):
    """RECORD of an installed distribution, None when its installer left none."""
    wanted = distribution.replace("-", "_").replace(".", "_").lower()
    for name in sorted(os.listdir(site)):
        if name.endswith(".dist-info"):
            found = name[: -len(".dist-info")].rpartition("-")[0].replace("-", "_").replace(".", "_").lower()
            path = os.path.join(site, name, "RECORD")
            if found == wanted and os.path.isfile(path):
                return path
    return None


def replace_lines(record, packages, paths, beside):
    """Replace the lines about the packages as a whole, and about what is in the first, by lines for `paths`.

    The new RECORD is written in the directory `beside` and renamed: installers may share the old one between
    environments, so it is never written to.
    """
    with open(record, encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.reader(stream) if row]
    tree = packages[0]
    made = (tree + "/", tree + PARTIAL)
    rows = [row for row in rows if row[0] not in packages and not row[0].startswith(made)]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows + [[path, "", ""] for path in paths])
    handle, partial = tempfile.mkstemp(prefix=tree + PARTIAL + "record-", dir=beside)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text.getvalue())
        os.chmod(partial, os.stat(record).st_mode & 0o777)
        os.replace(partial, record)
    except BaseException:
        os.unlink(partial)
        raise
