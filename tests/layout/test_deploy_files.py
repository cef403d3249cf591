"""The files of `deploy` agree with the settings of the service and with its version.

The checkers of `tests/deploy` know none of these.
"""

import os
import pathlib
import re
import subprocess
import tempfile
import tomllib

import attrs
import pytest
import yaml

from core.settings.environment import read
from core.settings.settings import Settings, file_names, names

ROOT = pathlib.Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "chart"
UNITS = [*sorted((DEPLOY / "systemd").glob("*.service")), DEPLOY / "pgbackrest" / "sesi-restore-proof.service"]
# Variables of other programs.
OTHERS = {
    "LOCK",
    "PATH",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHON_IMAGE",
    "POSTGRES_DB",
    "POSTGRES_PASSWORD_FILE",
    "SESI_PORT",
}
SECRETS = {
    "DATABASE_URL": "postgresql://sesi:secret@database/sesi?sslmode=verify-full",
    "REDIS_URL": "rediss://:secret@redis:6379/0",
    "JWT_SECRETS": f"2026a:{'0' * 64}",
    "GATEWAY_CALLBACK_TOKEN": "0" * 48,
    "ERASURE_HASH_KEYS": "0" * 64,
    "RECEIPT_SIGNING_KEYS": f"2026a:{'0' * 64}",
    "GATEWAY_SECRET_KEY": "secret",
    "OTP_HTTP_TOKEN": "secret",
}


def text_of(path: pathlib.Path) -> str:
    """Return the text of a file without comments."""
    return re.sub(r"^\s*#.*$", "", path.read_text(), flags=re.MULTILINE)


def variables_of(path: pathlib.Path) -> dict[str, str]:
    """Return the environment variables that a file sets: name -> value, without quotes."""
    found = re.findall(r'(?:^|\s|=)([A-Z][A-Z_]+)(?:=|: )("[^"]*"|\$\{[^}]*\}|\S+)', text_of(path), re.MULTILINE)
    return {name: value.strip('"') for name, value in found}


def secret_of_chart(name: str) -> list[str]:
    """Return the settings that the chart reads from files, in its values or the example's."""
    found = re.search(r"^  files:((?: \[.*\])|(?:\n    - \w+)+)", text_of(CHART / name), re.MULTILINE)
    assert found is not None
    return re.findall(r"\w+", found[1])


@pytest.mark.parametrize(
    "path",
    [
        DEPLOY / "Containerfile",
        DEPLOY / "compose.yaml",
        CHART / "values.yaml",
        CHART / "example-values.yaml",
        DEPLOY / "systemd" / "sesi.env",
        *UNITS,
    ],
    ids=lambda path: path.name,
)
def test_every_variable_is_a_setting(path: pathlib.Path) -> None:
    found = variables_of(path).keys()
    assert len(found) >= 3
    assert found - OTHERS - names() - file_names() == set()


@pytest.mark.parametrize("name", ["values.yaml", "example-values.yaml"])
def test_every_file_of_the_charts_secret_is_a_setting(name: str) -> None:
    keys = secret_of_chart(name)
    assert len(keys) >= 4
    assert {f"{key}_FILE" for key in keys} <= file_names()


IMAGE = variables_of(DEPLOY / "Containerfile")
ENVIRONMENTS = {
    "compose": IMAGE | variables_of(DEPLOY / "compose.yaml"),
    "chart": IMAGE
    | variables_of(CHART / "values.yaml")
    | variables_of(CHART / "example-values.yaml")
    | {f"{key}_FILE": key for key in ("DATABASE_URL", *secret_of_chart("example-values.yaml"))},
    **{path.name: variables_of(path) | variables_of(DEPLOY / "systemd" / "sesi.env") for path in UNITS},
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_service_accepts_the_settings_of_each_deployment_in_production(name: str, tmp_path: pathlib.Path) -> None:
    environment = {}
    for variable, value in ENVIRONMENTS[name].items():
        if variable in file_names():
            (tmp_path / variable).write_text(SECRETS[variable.removesuffix("_FILE")])
            environment[variable] = str(tmp_path / variable)
        else:  # the user of Compose chooses some, and systemd replaces the number of an instance
            environment[variable] = re.sub(r"^\$\{.*", "https://example.com", value).replace("%i", "1")
    settings = read(environment)
    assert settings.production
    assert settings.gateway_callback_token == ("0" * 48,)


def test_each_process_has_the_url_of_its_role() -> None:
    named = {"jobs": "database_url_jobs", "migrate": "database_url_migrate"}
    for path in (DEPLOY / "systemd").glob("*.service"):
        kind = re.sub(r"sesi-(\w+)@?\.service", r"\1", path.name)
        found = re.findall(r"^LoadCredential=database_url\w*:/etc/sesi/secrets/(\w+)$", path.read_text(), re.M)
        assert found == [named.get(kind, "database_url")], path
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for name in ("api-1", "api-2", "realtime-1", "realtime-2", "jobs-1", "jobs-2", "migrate"):
        secrets = [
            one if isinstance(one, dict) else {"source": one, "target": one} for one in services[name]["secrets"]
        ]
        found = [one["source"] for one in secrets if one["target"].startswith("database_url")]
        assert found == [named.get(name.partition("-")[0], "database_url")], name


def test_stop_times_cover_the_drain_and_the_grace_of_the_defaults() -> None:
    default = {field.name: field.metadata["default"] for field in attrs.fields(Settings)}
    needed = int(default["drain_seconds"]) + int(default["shutdown_grace_seconds"]) + 10
    assert f"stop_grace_period: {needed}s" in (DEPLOY / "compose.yaml").read_text()
    processes = [path for path in UNITS if "@" in path.name and "migrate" not in path.name]
    assert len(processes) == 3
    for path in processes:
        assert f"\nTimeoutStopSec={needed}\n" in path.read_text(), path


def test_chart_installs_the_version_of_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f'\nappVersion: "{version}"\n' in (CHART / "Chart.yaml").read_text()


def test_units_of_the_database_servers_user_do_not_remove_its_shared_memory() -> None:
    units = [unit.read_text() for unit in (DEPLOY / "pgbackrest").glob("*.service")]
    assert len(units) == 2
    assert all("\nUser=postgres\n" in unit and "\nRemoveIPC=no\n" in unit for unit in units)


# Stands for each program of the page's Upgrade: notes the call, and fails if it is the one that shall.
PROGRAM = """#!/bin/bash
called="$(basename "$0") $*"
echo "$called" >> calls
[[ "$called" != "$FAILING"* ]] || { [[ $2 == --property* ]] && echo 'code=exited ; status=22 }'; exit 1; }
[[ $1 != show ]] || echo 'code=exited ; status=0 }'
"""
RESTARTS = [f"sesi-{kind}@{number}" for kind in ("realtime", "api", "jobs") for number in (1, 2)]


@pytest.mark.parametrize(
    ("failing", "linked", "restarted"),
    [
        ("install.sh", False, []),
        ("systemctl start sesi-migrate", False, []),
        ("runuser", False, []),
        ("systemctl restart sesi-api@1", True, RESTARTS[:3]),
        ("systemctl show --property=ExecStartPost sesi-realtime@2", True, RESTARTS[:2]),
        ("nothing", True, RESTARTS),
    ],
)
def test_upgrade_ends_at_the_first_step_that_fails(
    failing: str, linked: bool, restarted: list[str], tmp_path: pathlib.Path
) -> None:
    page = (ROOT / "docs" / "deploying.md").read_text()
    upgrade = re.search(r"^## Upgrade$.*?^```sh\n(.*?)^```$", page, re.M | re.S)
    assert upgrade is not None
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "roles.sql").touch()
    for name in ("deploy/install.sh", "systemctl", "runuser", "ln", "cp", "install", "sesi-run"):
        (tmp_path / name).write_text(PROGRAM)
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "FAILING": failing}
    done = subprocess.run(["bash", "-c", upgrade[1]], cwd=tmp_path, env=environment, check=False)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [call.split()[-1] for call in calls if " restart " in call] == restarted
    assert ("ln -sfn /opt/sesi-1.1.0 /opt/sesi" in calls) is linked
    assert (done.returncode == 0) is (failing == "nothing") is (calls[-1] == "sesi-run audit")


def test_sesi_run_gives_the_journal_no_argument_and_all_lines_of_erasures(tmp_path: pathlib.Path) -> None:
    (tmp_path / "systemd-run").write_text('#!/bin/bash\nprintf "%s\\n" "$@" >> options\necho erased >&2\n')
    (tmp_path / "systemd-cat").write_text("#!/bin/bash\ncat >> journal\n")
    for name in ("systemd-run", "systemd-cat"):
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    for words in (["operator", "create", "--email", "you@example.com"], ["erasures", "reapply", "/dev/stdin"]):
        done = subprocess.run(
            [DEPLOY / "sesi-run", *words],
            cwd=tmp_path,
            env=environment,
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
        assert done.stderr == b"erased\n"
        assert f"--description=sesi {words[0]}" in (tmp_path / "options").read_text().splitlines()
        assert (tmp_path / "journal").exists() is (words[0] == "erasures")
    assert (tmp_path / "journal").read_text() == "erased\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_user_of_sesi_runs_unit_can_open_what_root_has_piped() -> None:
    script = (DEPLOY / "sesi-run").read_text().replace("/opt/sesi/bin/sesi", "/bin/cat")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as calls:
        os.chmod(folder, 0o755)
        (pathlib.Path(folder) / "redis_url").touch()
        command = ["setpriv", "--reuid=65534", "--clear-groups", "bash", "-c", script, "sesi-run", "/dev/stdin"]
        environment = {"PATH": "/usr/bin:/bin", "CREDENTIALS_DIRECTORY": folder}
        calls.write(b"a call")
        calls.seek(0)
        by_file = subprocess.run(command, env=environment, stdin=calls, capture_output=True, check=False)
        by_pipe = subprocess.run(command, env=environment, input=b"a call", capture_output=True, check=False)
    assert (by_file.stdout, by_pipe.stdout) == (b"a call", b"a call"), (by_file.stderr, by_pipe.stderr)


def test_secrets_sh_leaves_no_empty_secret_if_openssl_fails(tmp_path: pathlib.Path) -> None:
    script = (DEPLOY / "secrets.sh").read_text().replace("/etc/", f"{tmp_path}/etc/")
    (tmp_path / "etc" / "redis").mkdir(parents=True)
    for name in ("runuser", "systemctl", "chown"):
        (tmp_path / name).write_text("#!/bin/bash\ncat > /dev/null\n")
    (tmp_path / "openssl").write_text('#!/bin/bash\n[ "$2 $3" != "$FAILING" ] && echo made\n')
    for name in ("runuser", "systemctl", "chown", "openssl"):
        (tmp_path / name).chmod(0o755)
    secrets: list[pathlib.Path] = []
    for failing in ("-hex 24", "-hex 32", "-base64 48", "nothing"):
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "FAILING": failing}
        done = subprocess.run(["bash", "-c", script], env=environment, stdin=subprocess.DEVNULL, check=False)
        assert (done.returncode == 0) is (failing == "nothing")
        secrets = [*(tmp_path / "etc" / "sesi").glob("*/*"), *(tmp_path / "etc" / "pgbackrest").glob("*/*")]
        assert all("made" in secret.read_text() for secret in secrets if secret.suffix != ".new")
    assert len(secrets) == 9
