"""A release: everything that it names is built, and a second build has the same bytes."""

import pathlib

import pytest

from tools.checks import release, sbom

KINDS = (
    "sesi-[0-9]*.whl", "sesi-[0-9]*.tar.gz", "sesi_client-*.whl", "sesi_client-*.tar.gz", "sesi-client-*.tgz", "sesi-chart-*.tgz",
    "sesi-docs-*.tar.gz", "public.openapi.json", "internal.openapi.json", "sockets.asyncapi.json", "errors.json",
    "sesi.cdx.json", release.SUMS,
)  # fmt: skip


@pytest.mark.skipif(not sbom.PROGRAM.exists(), reason="cyclonedx-py is missing: run `make engines`")
@pytest.mark.timeout(600)
def test_two_builds_of_a_release_have_all_files_and_the_same_bytes(tmp_path: pathlib.Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        release.build(tmp_path / name)
    one, other = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "other")]
    assert [kind for kind in KINDS if not list((tmp_path / "one").glob(kind))] == []
    assert sorted(name for name in one if one[name] != other.get(name)) == []
    assert one.keys() == other.keys()


def test_files_with_different_versions_are_refused(tmp_path: pathlib.Path) -> None:
    for name in release.VERSIONED:
        target = tmp_path / name.strip()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text((release.ROOT / name.strip()).read_text())
    assert release.version(tmp_path) == release.version()
    chart = tmp_path / "deploy/chart/Chart.yaml"
    chart.write_text(chart.read_text().replace("\nversion: ", "\nversion: 9"))
    with pytest.raises(release.NoRelease, match=r"Chart.yaml has version 9"):
        release.version(tmp_path)
