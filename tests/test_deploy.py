"""What is shipped to run it in containers: parsed, and held to what it promises; no engine or cluster runs here."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kagent_memory.cli import main, parser
from kagent_memory.settings import MemorySettings

DEPLOY = Path(__file__).parent.parent / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
KUSTOMIZATION = yaml.safe_load((DEPLOY / "kubernetes/kustomization.yaml").read_text(encoding="utf-8"))
OURS = ("migrate", "server", "worker")


def objects() -> list[dict[str, Any]]:
    files = [DEPLOY / "kubernetes" / name for name in KUSTOMIZATION["resources"]]
    return [one for file in files for one in yaml.safe_load_all(file.read_text(encoding="utf-8"))]


def named(kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in objects() if one["kind"] == kind}


def templates() -> dict[str, dict[str, Any]]:
    """The pod templates by the names of what makes them."""
    made = {}
    for one in objects():
        spec = one["spec"].get("jobTemplate", one).get("spec", {})
        if "template" in spec:
            made[one["metadata"]["name"]] = spec["template"]
    return made


def test_the_kustomization_names_every_file_and_all_that_is_wanted():
    there = {path.name for path in (DEPLOY / "kubernetes").glob("*.yaml")} - {"kustomization.yaml"}
    assert set(KUSTOMIZATION["resources"]) == there
    assert set(templates()) == {
        "kagent-memory-migrate", "kagent-memory-prune", "kagent-memory-server", "kagent-memory-worker"
    }  # fmt: skip
    assert set(named("Job")) == {"kagent-memory-migrate"}
    assert set(named("CronJob")) == {"kagent-memory-prune"}
    assert set(named("PodDisruptionBudget")) == {"kagent-memory-server", "kagent-memory-worker"}


@pytest.mark.parametrize("name", sorted(templates()))
def test_a_pod_has_no_rights_that_it_does_not_need(name: str):
    pod = templates()[name]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] >= 10_000
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize("name", sorted(templates()))
def test_a_pod_takes_the_database_from_a_secret_that_must_be_there(name: str):
    (container,) = templates()[name]["spec"]["containers"]
    (uri,) = container["env"]
    assert uri["name"] == "KAGENT_MEMORY_URI"
    assert uri["valueFrom"]["secretKeyRef"] == {"name": "kagent-memory", "key": "KAGENT_MEMORY_URI"}  # not optional


def commands() -> Iterator[tuple[str, list[str]]]:
    for name, template in templates().items():
        yield f"kubernetes {name}", template["spec"]["containers"][0]["args"]
    for name in OURS:
        yield f"compose {name}", COMPOSE["services"][name]["command"]


COMMANDS = dict(commands())


@pytest.mark.parametrize("where", sorted(COMMANDS))
def test_every_command_is_one_that_is_taken_and_needs_auth_where_it_binds(where: str):
    args = parser().parse_args(COMMANDS[where])
    if args.command.name == "serve":
        assert (args.host, args.auth) == ("0.0.0.0", True)
        assert args.log_format == "json"
        assert (args.port, args.grpc_port) == (8080, 8081)
        assert args.set == ["worker=False"]


@pytest.mark.parametrize("where", sorted(COMMANDS))
def test_no_command_line_names_the_database(where: str):
    assert not any(re.search(r"--uri|://|_URI|password", word, re.IGNORECASE) for word in COMMANDS[where])


@pytest.mark.parametrize("where", sorted(where for where in COMMANDS if where.startswith("kubernetes")))
def test_an_empty_secret_is_one_clear_error_and_no_file(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAGENT_MEMORY_URI", "")
    words = ["0" if word == "8081" else word for word in COMMANDS[where]]
    assert main([*words, *(["--port", "0"] if words[0] == "serve" else [])]) == 5
    assert "KAGENT_MEMORY_URI is set, but empty" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_container_that_is_told_no_store_says_so_and_keeps_nothing_in_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert 'KAGENT_MEMORY_URI=""' in (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAGENT_MEMORY_URI", "")
    for words in (["serve", "--auth", "--port", "0"], ["worker"], ["migrate"], ["token", "create"], ["prune"]):
        assert main(words) == 5
        assert "KAGENT_MEMORY_URI" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", sorted(templates()))
def test_no_service_s_address_is_handed_to_a_pod_as_if_it_were_a_setting(name: str):
    assert templates()[name]["spec"]["enableServiceLinks"] is False


def test_the_server_is_probed_and_reached_where_it_listens():
    (container,) = templates()["kagent-memory-server"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": 8080, "grpc": 8081}
    paths = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    assert {name: container[name]["httpGet"]["path"] for name in paths} == paths
    assert {container[name]["httpGet"]["port"] for name in paths} == {"http"}
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])  # and the calls under way have ten seconds
    assert pause + 15 < templates()["kagent-memory-server"]["spec"]["terminationGracePeriodSeconds"]
    assert container["readinessProbe"]["timeoutSeconds"] > 2  # the embedder and the database get two seconds
    (service,) = named("Service").values()
    assert {(port["port"], port["targetPort"]) for port in service["spec"]["ports"]} == {(8080, "http"), (8081, "grpc")}


def test_every_selector_finds_its_pods():
    labels = [template["metadata"]["labels"] for template in templates().values()]
    for one in objects():
        if one["kind"] in ("Service", "PodDisruptionBudget", "Deployment"):
            selector = one["spec"]["selector"]
            wanted = selector.get("matchLabels", selector).items()
            assert sum(wanted <= label.items() for label in labels) == 1, one["metadata"]


def test_compose_starts_in_order_and_lets_in_this_machine_only():
    services = COMPOSE["services"]
    assert set(services) == {"postgres", *OURS}
    for name in OURS:
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
        assert ":?" in services[name]["environment"]["KAGENT_MEMORY_URI"]  # an unset password is an error
        settings = {setting for setting in services[name]["environment"] if setting.startswith("KAGENT_MEMORY_")}
        known = {f"KAGENT_MEMORY_{field.upper()}" for field in MemorySettings.__dataclass_fields__}
        assert settings - {"KAGENT_MEMORY_URI"} <= known
    assert services["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    for name in ("server", "worker"):
        assert services[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    assert all(port.startswith("127.0.0.1:") for port in services["server"]["ports"])
    assert "ports" not in services["postgres"]


def test_the_image_runs_as_nobody_in_particular_and_needs_auth():
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    steps = [line.split(None, 1) for line in text.splitlines() if line and not line.startswith("#")]
    last = [step[0] for step in steps][::-1].index("FROM")
    final = steps[len(steps) - 1 - last :]
    assert [rest for name, rest in final if name == "USER"] == ["10001:10001"]
    assert not any(name == "ADD" or "latest" in rest for name, rest in steps)
    for _, rest in (step for step in steps if step[0] == "COPY" and "--from" not in step[1]):
        assert all((DEPLOY.parent / source).exists() for source in rest.split()[:-1])
    (command,) = [rest for name, rest in final if name == "CMD"]
    args = parser().parse_args(yaml.safe_load(command))
    assert (args.command.name, args.host, args.auth) == ("serve", "0.0.0.0", True)
    (extras,) = re.findall(r"\.\[([\w,]+)\]", text)
    assert set(extras.split(",")) == {"server", "grpc", "mcp", "postgres", "litellm"}


def test_hadolint_finds_nothing():
    hadolint = str(Path(sys.executable).with_name("hadolint"))
    ran = subprocess.run(
        [hadolint, str(DEPLOY / "Dockerfile")], capture_output=True, text=True, timeout=300, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "")


@pytest.mark.parametrize("number", range(len(objects())))
def test_every_object_fits_the_schema_of_kubernetes(number: int):
    import kubernetes_validate

    kubernetes_validate.validate(objects()[number], "1.33", strict=True)
