"""The shipped containers and manifests keep their promises; no engine or cluster runs here."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from optional import package, program

from kagent_memory.cli import main, parse
from kagent_memory.cli.command import Call

DEPLOY = Path(__file__).parent.parent / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
KUSTOMIZATION = yaml.safe_load(
    (DEPLOY / "kubernetes/kustomization.yaml").read_text(encoding="utf-8")
)
OURS = ("migrate", "server", "worker")


@cache
def objects() -> list[dict[str, Any]]:
    files = [DEPLOY / "kubernetes" / name for name in KUSTOMIZATION["resources"]]
    return [
        manifest
        for file in files
        for manifest in yaml.safe_load_all(file.read_text(encoding="utf-8"))
    ]


def named(kind: str) -> dict[str, dict[str, Any]]:
    return {
        manifest["metadata"]["name"]: manifest for manifest in objects() if manifest["kind"] == kind
    }


def templates() -> dict[str, dict[str, Any]]:
    """Return the pod templates by the names of their manifests."""
    templates = {}
    for manifest in objects():
        spec = manifest["spec"].get("jobTemplate", manifest).get("spec", {})
        if "template" in spec:
            templates[manifest["metadata"]["name"]] = spec["template"]
    return templates


def test_the_kustomization_names_every_file():
    """The kustomization names every file and all that is wanted."""
    files = {path.name for path in (DEPLOY / "kubernetes").glob("*.yaml")} - {"kustomization.yaml"}
    assert set(KUSTOMIZATION["resources"]) == files
    serving = {"kagent-memory-server", "kagent-memory-worker"}
    assert set(templates()) == {"kagent-memory-migrate", *serving}
    assert set(named("NetworkPolicy")) == set(named("PodDisruptionBudget")) == serving
    assert set(named("HorizontalPodAutoscaler")) == {"kagent-memory-server"}


@pytest.mark.parametrize("name", sorted(templates()))
def test_a_pod_has_no_rights_that_it_does_not_need(name: str):
    """A pod runs unprivileged, with a read-only root and a memory limit, and takes the database
    from a secret that must be there.
    """
    pod = templates()[name]["spec"]
    assert pod["enableServiceLinks"] is False  # no service's address is taken for a setting
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
    secret = {"name": "kagent-memory", "key": "KAGENT_MEMORY_URI"}  # not optional
    reference = {"secretKeyRef": secret}
    assert container["env"] == [{"name": "KAGENT_MEMORY_URI", "valueFrom": reference}]
    assert {mount["name"] for mount in container["volumeMounts"]} == {
        volume["name"] for volume in pod["volumes"]
    }


def commands() -> Iterator[tuple[str, list[str]]]:
    for name, template in templates().items():
        yield f"kubernetes {name}", template["spec"]["containers"][0]["args"]
    for name in OURS:
        yield f"compose {name}", COMPOSE["services"][name]["command"]


COMMANDS = dict(commands())


def called(words: Sequence[str]) -> Call:
    call = parse(words)
    assert isinstance(call, Call)
    return call


@pytest.mark.parametrize("where", sorted(COMMANDS))
def test_every_command_of_deploy_is_one_that_is_taken(where: str):
    """Every command is taken, needs auth where it binds, and does not name the database."""
    call = called(COMMANDS[where])
    args = call.args
    assert not re.search(r"--uri|://|_URI|password", " ".join(COMMANDS[where]), re.IGNORECASE)
    if call.command.title == "serve":
        assert (args.host, args.auth) == ("0.0.0.0", True)
        assert args.log_format == "json"
        assert (args.port, args.grpc_port) == (8080, 8081)
        assert args.set == ("worker=False",)


def test_a_container_without_a_store_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A container that is told no store says so and keeps nothing in itself."""
    assert 'KAGENT_MEMORY_URI=""' in (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAGENT_MEMORY_URI", "")
    for words in (
        ["serve", "--auth", "--port", "0"],
        ["worker"],
        ["migrate"],
        ["token", "create"],
        ["prune"],
    ):
        assert main(words) == 5
        assert "KAGENT_MEMORY_URI" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_servers_and_workers_are_probed_where_they_listen():
    """Probes, the service and the NetworkPolicy use the ports on which a command listens."""
    (worker,) = templates()["kagent-memory-worker"]["spec"]["containers"]
    port = called(worker["args"]).args.port
    assert worker["ports"] == [{"name": "probes", "containerPort": port}]
    (rule,) = named("NetworkPolicy")["kagent-memory-worker"]["spec"]["ingress"]
    assert rule["ports"] == [{"port": "probes"}]
    (container,) = templates()["kagent-memory-server"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": 8080, "grpc": 8081}
    paths = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    for pod, name in ((container, "http"), (worker, "probes")):
        assert {probe: pod[probe]["httpGet"]["path"] for probe in paths} == paths
        assert {pod[probe]["httpGet"]["port"] for probe in paths} == {name}
    (service,) = named("Service").values()
    assert {(port["port"], port["targetPort"]) for port in service["spec"]["ports"]} == {
        (8080, "http"),
        (8081, "grpc"),
    }


def test_the_chart_is_written_from_the_manifests(monkeypatch: pytest.MonkeyPatch):
    """deploy/helm is what deploy/chart.py writes from the manifests."""
    monkeypatch.syspath_prepend(str(DEPLOY))
    import chart

    written = {
        str(path.relative_to(DEPLOY / "helm")): path.read_text("utf-8")
        for path in (DEPLOY / "helm").rglob("*.yaml")
    }
    assert written == chart.chart(), "python deploy/chart.py"


def test_every_selector_finds_its_pods():
    """Each selector matches the labels of exactly one pod template."""
    labels = [template["metadata"]["labels"] for template in templates().values()]
    for manifest in objects():
        if manifest["kind"] in ("Service", "PodDisruptionBudget", "Deployment"):
            selector = manifest["spec"]["selector"]
            required = selector.get("matchLabels", selector).items()
            assert sum(required <= label.items() for label in labels) == 1, manifest["metadata"]


def test_compose_starts_in_order_and_lets_in_this_machine_only():
    """Ports are published on loopback."""
    services = COMPOSE["services"]
    assert set(services) == {"postgres", *OURS}
    for name in OURS:
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
        # an unset password is an error
        assert ":?" in services[name]["environment"]["KAGENT_MEMORY_URI"]
    assert services["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    for name in ("server", "worker"):
        assert services[name]["depends_on"] == {
            "migrate": {"condition": "service_completed_successfully"}
        }
    assert all(port.startswith("127.0.0.1:") for port in services["server"]["ports"])
    assert "ports" not in services["postgres"]


def test_the_image_runs_as_nobody_in_particular_and_needs_auth():
    """The image runs as a user without rights, and serves nobody without a token."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    steps = [line.split(None, 1) for line in text.splitlines() if line and not line.startswith("#")]
    assert [rest for name, rest in steps if name == "USER"] == ["10001:10001"]
    assert not any(name == "ADD" or "latest" in rest for name, rest in steps)
    for _, rest in (step for step in steps if step[0] == "COPY" and "--from" not in step[1]):
        assert all((DEPLOY.parent / source).exists() for source in rest.split()[:-1])
    (command,) = [rest for name, rest in steps if name == "CMD"]
    call = called(yaml.safe_load(command))
    assert (call.command.title, call.args.host, call.args.auth) == ("serve", "0.0.0.0", True)
    (extras,) = re.findall(r"\.\[([\w,]+)\]", text)
    assert set(extras.split(",")) == {"server", "grpc", "mcp", "postgres", "litellm"}


def test_images_of_others_are_pinned_by_tag_and_digest():
    """Every build starts from the same bytes, and a reader sees which release they are."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    [base] = re.findall(r"^ARG PYTHON=(\S+)$", text, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${PYTHON}"}
    services = COMPOSE["services"].values()
    theirs = {service["image"] for service in services if service["image"] != "kagent-memory"}
    for image in {base, *theirs}:
        assert re.fullmatch(r"[\w/]+:[\w.-]*\d[\w.-]*@sha256:[0-9a-f]{64}", image), image


def test_hadolint_finds_nothing():
    """hadolint has nothing to say about the Dockerfile."""
    hadolint = program("hadolint")
    process = subprocess.run(
        [hadolint, str(DEPLOY / "Dockerfile")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (process.returncode, process.stdout) == (0, "")


@pytest.mark.parametrize("number", range(len(objects())))
def test_every_object_fits_the_schema_of_kubernetes(number: int):
    """Every manifest is valid against the schema of Kubernetes."""
    package("kubernetes_validate")
    import kubernetes_validate

    kubernetes_validate.validate(objects()[number], "1.33", strict=True)
