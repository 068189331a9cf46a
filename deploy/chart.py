"""Write the Helm chart in deploy/helm from the manifests in deploy/kubernetes: `python
deploy/chart.py`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

DEPLOY = Path(__file__).parent
NOTE = "# Written from deploy/kubernetes by deploy/chart.py.\n"
VALUES = """# Written by deploy/chart.py.
image: registry.example.org/kagent-memory:{version}
secret: kagent-memory  # holds KAGENT_MEMORY_URI, and keys of models
settings: {{}}  # KAGENT_MEMORY_<NAME>: value
serverAuth: --auth  # or --trusted-proxy
minServers: 2
maxServers: 6
workers: 2
memory: {{request: 768Mi, limit: 1Gi}}
"""
CHART = """# Written by deploy/chart.py.
apiVersion: v2
name: kagent-memory
description: Long-term memory for agents
version: {version}
appVersion: "{version}"
"""
SETTINGS = """apiVersion: v1
kind: ConfigMap
metadata: {name: kagent-memory}
data: {{ toJson .Values.settings }}
"""
REPLACED = (  # what a manifest says, and the value that takes its place
    (r"image: kagent-memory$", "image: {{ .Values.image }}"),
    (r"secretRef: \{name: kagent-memory\}", "secretRef: {name: {{ .Values.secret }}}"),
    (r"secretKeyRef: \{name: kagent-memory,", "secretKeyRef: {name: {{ .Values.secret }},"),
    (r"(args: \[serve.*) --auth,", r"\1 {{ .Values.serverAuth }},"),
    (r"minReplicas: 2", "minReplicas: {{ .Values.minServers }}"),
    (r"maxReplicas: 6", "maxReplicas: {{ .Values.maxServers }}"),
    (r"replicas: 2", "replicas: {{ .Values.workers }}"),
    (r"memory: 768Mi", "memory: {{ .Values.memory.request }}"),
    (r"memory: 1Gi", "memory: {{ .Values.memory.limit }}"),
)


def chart() -> Mapping[str, str]:
    """Return the chart's files by their path."""
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text(encoding="utf-8"))
    version = project["project"]["version"]
    files = {
        "Chart.yaml": CHART.format(version=version),
        "values.yaml": VALUES.format(version=version),
    }
    files["templates/settings.yaml"] = NOTE + SETTINGS
    for manifest in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        if manifest.name == "kustomization.yaml":
            continue
        text = manifest.read_text(encoding="utf-8")
        for said, value in REPLACED:
            text = re.sub(said, value, text, flags=re.MULTILINE)
        files[f"templates/{manifest.name}"] = NOTE + text
    return files


if __name__ == "__main__":
    for name, text in chart().items():
        path = DEPLOY / "helm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
