"""The files in deploy/: Kubernetes' schemas accept them, what they name exists, and their command lines run."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from conftest import until

import anabranch
from anabranch.ray import __main__

DEPLOY = Path(__file__).parents[2] / "deploy"
VERSION = re.search(r'^version = "(.+)"', (DEPLOY.parent / "Cargo.toml").read_text(), re.MULTILINE)
#: The oldest and the newest Kubernetes whose schemas are checked.
KUBERNETES = ("1.33", "1.37")
TOKEN = "0123456789abcdef"


def documents(file: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / file).read_text()))


def named(kind: str, name: str) -> dict[str, Any]:
    (found,) = [each for each in documents("kubernetes/anabranch.yaml") if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


PODS = {
    "coordinator": named("Deployment", "anabranch-coordinator")["spec"],
    "worker": named("StatefulSet", "anabranch-worker")["spec"],
}


@pytest.mark.parametrize("version", KUBERNETES)
def test_the_schemas_of_kubernetes_accept_every_document(version: str) -> None:
    for document in documents("kubernetes/anabranch.yaml"):
        kubernetes_validate.validate(document, version, strict=True)
    for pod in ray_pods():
        template = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "ray"}, "template": pod}
        kubernetes_validate.validate(template, version, strict=True)
    wrong = named("Deployment", "anabranch-coordinator")
    wrong["spec"]["replicas"] = "one"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, version, strict=True)


def ray_pods() -> Iterator[dict[str, Any]]:
    (cluster,) = documents("kuberay/raycluster.yaml")
    yield cluster["spec"]["headGroupSpec"]["template"]
    for group in cluster["spec"]["workerGroupSpecs"]:
        yield group["template"]


def test_what_is_selected_mounted_and_probed_exists() -> None:
    services = {each["metadata"]["name"]: each["spec"] for each in documents("kubernetes/anabranch.yaml") if each["kind"] == "Service"}
    accounts = {each["metadata"]["name"] for each in documents("kubernetes/anabranch.yaml") if each["kind"] == "ServiceAccount"}
    for component, workload in PODS.items():
        template = workload["template"]
        labels, pod = template["metadata"]["labels"], template["spec"]
        assert labels == workload["selector"]["matchLabels"]
        assert labels["app.kubernetes.io/component"] == component
        assert pod["serviceAccountName"] in accounts
        assert pod["automountServiceAccountToken"] is False
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert sorted(mounts) == sorted(volume["name"] for volume in pod["volumes"])
        ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert component == "worker" or container[probe]["httpGet"]["port"] in ports
        for argument in container["args"]:
            _, _, value = argument.partition("=")
            if value.startswith("/"):
                assert any(value.startswith(path + "/") for path in mounts.values()), argument
        variables = {variable["name"] for variable in container["env"]} | set(named("ConfigMap", "anabranch")["data"])
        assert set(re.findall(r"\$\((\w+)\)", " ".join(container["args"]))) <= variables
        for service in services.values():
            if service["selector"] == labels:
                assert {port["targetPort"] for port in service.get("ports", [])} <= set(ports)
    assert PODS["worker"]["serviceName"] in services
    keys = [source["secret"]["secretName"] for source in PODS["worker"]["template"]["spec"]["volumes"] if "secret" in source]
    assert keys == ["anabranch"], "workers have no key of the coordinator"


def test_images_have_the_version_of_the_crates() -> None:
    assert VERSION is not None
    files = [*DEPLOY.glob("**/*.yaml"), *DEPLOY.glob("Containerfile*"), DEPLOY.parent / "docs/kubernetes.md"]
    versions = {version for file in files for version in re.findall(r"anabranch(?:-ray)?[:-](\d+\.\d+\.\d+)", file.read_text())}
    assert versions == {VERSION[1]}
    requirements = (DEPLOY.parent / "python/requirements.txt").read_text()
    tested = re.search(r"^ray==(.+)$", requirements, re.MULTILINE)
    assert tested is not None
    (cluster,) = documents("kuberay/raycluster.yaml")
    assert cluster["spec"]["rayVersion"] == tested[1]
    assert f"rayproject/ray:{tested[1]}-" in (DEPLOY / "Containerfile.ray").read_text()


def test_the_files_for_kuberay_have_only_fields_that_it_knows() -> None:
    (cluster,) = documents("kuberay/raycluster.yaml")
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    assert set(cluster["spec"]) == {"rayVersion", "headGroupSpec", "workerGroupSpecs"}
    assert set(cluster["spec"]["headGroupSpec"]) == {"rayStartParams", "template"}
    for group in cluster["spec"]["workerGroupSpecs"]:
        assert set(group) == {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"}
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    (job,) = documents("kuberay/rayjob.yaml")
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert set(job["spec"]) == {"clusterSelector", "entrypoint", "backoffLimit"}
    assert job["spec"]["clusterSelector"]["ray.io/cluster"] == cluster["metadata"]["name"]
    python, option, module, *arguments = shlex.split(job["spec"]["entrypoint"])
    assert (python, option, module) == ("python", "-m", "anabranch.ray")
    given = __main__.parser().parse_args(arguments)
    slots = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    assert (given.workers, given.slots) == (cluster["spec"]["workerGroupSpecs"][0]["replicas"], int(slots))


class Process:
    """A process of a container, with its command line."""

    def __init__(self, component: str, *replaced: tuple[str, str]) -> None:
        (container,) = PODS[component]["template"]["spec"]["containers"]
        arguments = container["args"]
        for part, other in replaced:
            assert any(part in argument for argument in arguments), part
            arguments = [argument.replace(part, other) for argument in arguments]
        assert not [argument for argument in arguments if "$(" in argument]
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [anabranch.program(), *arguments, "--end-with-parent"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def said(self, what: str) -> re.Match[str]:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(what, line):
                return found
        raise AssertionError(self.lines)

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


def test_the_command_lines_run_and_the_probes_are_answered(tmp_path: Path) -> None:
    tls = tmp_path / "tls"
    # The host of docs/kubernetes.md, and the one of this test.
    made = [str(anabranch.program()), "certificate", str(tls), "--host", "anabranch", "--host", "127.0.0.1"]
    subprocess.run(made, check=True, capture_output=True)
    (tls / "token").write_text(TOKEN)
    secrets = [("/etc/anabranch/", f"{tls}/")]
    coordinator = Process(
        "coordinator",
        ("/etc/anabranch-tls/", f"{tls}/"),
        *secrets,
        ("$(STORE)", str(tmp_path / "store")),
        ("$(POD_IP):8791", "127.0.0.1:1"),
        ("0.0.0.0:8791", "127.0.0.1:0"),
        ("0.0.0.0:8790", "127.0.0.1:0"),
    )
    with contextlib.ExitStack() as ends:
        ends.callback(coordinator.end)
        found = coordinator.said(r"workers connect to (\S+); commands to (\S+)")
        context = ssl.create_default_context(cafile=tls / "ca.pem")
        (container,) = PODS["coordinator"]["template"]["spec"]["containers"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            request = container[probe]["httpGet"]
            assert found[2].startswith(request["scheme"].lower() + ":")
            # Without the token, as the kubelet asks.
            with urllib.request.urlopen(found[2] + request["path"], context=context) as answer:
                assert answer.status == 200
        worker = Process("worker", *secrets, ("anabranch:8791", found[1]), ("$(POD_NAME)", "w-0"), ("$(SLOTS)", "2"), ("$(NODE_NAME)", "n"))
        ends.callback(worker.end)
        variables = {"ANABRANCH_COORDINATOR": found[2], "ANABRANCH_TOKEN": TOKEN, "ANABRANCH_TLS_CA": str(tls / "ca.pem")}
        line = [str(anabranch.program()), "jobs"]

        def listed() -> str:
            return subprocess.run(line, env={**os.environ, **variables}, capture_output=True, text=True, check=True).stdout

        until("the worker", lambda: "w-0" in listed())
