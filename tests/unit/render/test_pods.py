"""What the pod webhook adds, beyond the observed cases: every kind of credential, every way to get a model, odd inputs."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from serveplane.api import keys
from serveplane.api.inferenceservice import inference_service
from serveplane.api.model import read
from serveplane.api.storagecontainer import ClusterStorageContainer
from serveplane.dataplane.storage.sources.oci import CONFIG
from serveplane.render.facts import Facts
from serveplane.render.pods.agent import logger_account
from serveplane.render.pods.draft import PodDraft
from serveplane.render.pods.mutate import mutated
from serveplane.render.pods.storage import Source, add_sources
from serveplane.render.runtimes import InvalidSpec
from serveplane.settings import SHIPPED, Settings, parse

Json = dict[str, Any]


def pod(uri: str = "s3://b/m", labels: Json | None = None, spec: Json | None = None, **annotations: str) -> Json:
    notes = {keys.STORAGE_SOURCE_URI: uri, **{key.replace("__", "/"): value for key, value in annotations.items()}}
    return {
        "metadata": {"labels": {keys.INFERENCE_SERVICE: "iris", **(labels or {})}, "annotations": notes},
        "spec": {"containers": [{"name": "kserve-container"}], "serviceAccountName": "sa", **(spec or {})},
    }


def with_secret(data: Json, settings: Settings = SHIPPED, **metadata: Any) -> Facts:
    secret = {"metadata": {"name": "creds", **metadata}, "stringData": data}
    return Facts(
        settings=settings,
        accounts={"sa": {"metadata": {"name": "sa"}, "secrets": [{"name": "creds"}]}},
        secrets={"creds": secret},
    )


def init(result: Json) -> Json:
    found: Json = result["spec"]["initContainers"][0]
    return found


def env(container: Json) -> Json:
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in container.get("env", [])}


def reference(key: str) -> Json:
    return {"secretKeyRef": {"name": "creds", "key": key}}


def admitted(given: Json, facts: Facts) -> Json:
    return mutated(given, "ml", None, facts)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"HF_TOKEN": "t"}, {"HF_TOKEN": reference("HF_TOKEN")}),
        ({"MODELSCOPE_API_TOKEN": "t"}, {"MODELSCOPE_API_TOKEN": reference("MODELSCOPE_API_TOKEN")}),
        ({"AZURE_STORAGE_ACCESS_KEY": "k"}, {"AZURE_STORAGE_ACCESS_KEY": reference("AZURE_STORAGE_ACCESS_KEY")}),
        (
            {"AZ_CLIENT_ID": "a", "AZ_CLIENT_SECRET": "b", "AZ_TENANT_ID": "c"},
            {
                "AZURE_CLIENT_ID": reference("AZ_CLIENT_ID"),
                "AZURE_CLIENT_SECRET": reference("AZ_CLIENT_SECRET"),
                "AZURE_TENANT_ID": reference("AZ_TENANT_ID"),
            },
        ),
        (
            {"AZURE_ACCESS_TOKEN": "x"},
            {"AZURE_ACCESS_TOKEN": reference("AZURE_ACCESS_TOKEN"), "AZURE_TENANT_ID": reference("AZURE_TENANT_ID")},
        ),
        (
            {"https-host": "models.acme.test", "headers": '{"authorization": "secret"}'},
            {"models.acme.test-headers": reference("headers")},
        ),
    ],
)
def test_credentials_by_reference(data: Json, expected: Json) -> None:
    result = admitted(pod(), with_secret(data))
    found = {name: value for name, value in env(init(result)).items() if not name.startswith(("HF_HUB", "HF_XET"))}
    assert found == expected
    assert "secret" not in msgspec.json.encode(result).decode().replace("secretKeyRef", "").replace("secretName", "")


def test_hdfs_secrets_are_mounted() -> None:
    result = admitted(pod("hdfs://n/m"), with_secret({"HDFS_NAMENODE": "n"}))
    assert {"name": "hdfs-secrets", "mountPath": "/var/secrets/kserve-hdfscreds", "readOnly": True} in init(result)[
        "volumeMounts"
    ]


def test_a_role_takes_the_place_of_keys() -> None:
    notes = {
        "eks.amazonaws.com/role-arn": "arn",
        "serving.kserve.io/s3-region": "eu",
        "serving.kserve.io/s3-endpoint": "http://minio:9000",
    }
    facts = Facts(settings=SHIPPED, accounts={"sa": {"metadata": {"name": "sa", "annotations": notes}}})
    found = env(init(admitted(pod(), facts)))
    assert found["AWS_DEFAULT_REGION"] == "eu"
    assert (found["S3_USE_HTTPS"], found["S3_ENDPOINT"], found["AWS_ENDPOINT_URL"]) == (
        "0",
        "minio:9000",
        "http://minio:9000",
    )
    assert "AWS_ACCESS_KEY_ID" not in found


def test_an_unknown_account_is_no_trouble_but_a_missing_secret_is() -> None:
    assert init(admitted(pod(), Facts(settings=SHIPPED)))["args"] == ["s3://b/m", "/mnt/models"]
    facts = Facts(settings=SHIPPED, accounts={"sa": {"metadata": {"name": "sa"}, "secrets": [{"name": "gone"}]}})
    with pytest.raises(InvalidSpec, match="there is no secret gone"):
        admitted(pod(), facts)


def storage_pod(**more: str) -> Json:
    notes = {keys.STORAGE_SPEC: "true", keys.STORAGE_SPEC_KEY: "k", **more}
    given = pod("<scheme-placeholder>://a/b")
    given["metadata"]["annotations"].update(notes)
    return given


def storage_facts(entry: str) -> Facts:
    return Facts(
        settings=SHIPPED,
        secrets={"storage-config": {"metadata": {"name": "storage-config"}, "stringData": {"k": entry}}},
    )


@pytest.mark.parametrize(
    ("entry", "parameters", "uri"),
    [
        ('{"type": "s3", "bucket": "z"}', "{}", "s3://z/a/b"),
        ('{"type": "hdfs"}', "{}", "hdfs://a/b"),
        ('{"type": "s3", "bucket": "z"}', '{"bucket": "y"}', "s3://y/a/b"),
        ('{"type": "gs"}', '{"type": "webhdfs"}', "webhdfs://a/b"),
        ('{"type": "s3"}', '{"type": "hf"}', "hf://a/b"),
    ],
)
def test_storage_entries_complete_the_uri(entry: str, parameters: str, uri: str) -> None:
    result = admitted(storage_pod(**{keys.STORAGE_SPEC_PARAMETERS: parameters}), storage_facts(entry))
    assert init(result)["args"][0] == uri


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ('{"type": "s3"}', "no bucket"),
        ('{"type": "ftp"}', "must be one of"),
        ("not json", "not a JSON object"),
        ("[1]", "not a JSON object"),
    ],
)
def test_storage_entries_that_cannot_be_used(entry: str, why: str) -> None:
    with pytest.raises(InvalidSpec, match=why):
        admitted(storage_pod(), storage_facts(entry))


def settings(**changes: Json) -> Settings:
    return parse(
        {
            "storageInitializer": msgspec.json.encode(
                {"memoryRequest": "1Mi", "memoryLimit": "1Mi", "cpuRequest": "1", "cpuLimit": "1", **changes}
            ).decode()
        }
    )


def test_fetched_images_take_the_pull_secret() -> None:
    facts = Facts(settings=settings(ociModelMode="fetch", ociInsecureRegistry=True))
    result = admitted(pod("oci://r/m:1", spec={"imagePullSecrets": [{"name": "pull"}]}), facts)
    assert init(result)["args"] == ["oci://r/m:1", "/mnt/models"]
    assert env(init(result)) == {
        "KSERVE_OCI_DOCKER_CONFIG": "/mnt/oci-fetch-auth/config.json",
        "KSERVE_OCI_INSECURE_REGISTRY": "true",
    }
    assert env(init(result))["KSERVE_OCI_DOCKER_CONFIG"] == CONFIG, "where our own initializer looks for it"
    assert [volume["name"] for volume in result["spec"]["volumes"]] == ["kserve-oci-fetch-docker-config", "mnt-models"]
    assert result["spec"]["volumes"][0]["secret"]["defaultMode"] == 0o400


def test_a_sidecar_of_unsaid_size_has_the_usual_one() -> None:
    facts = Facts(settings=settings(enableModelcar=True, cpuModelcar="", memoryModelcar="", uidModelcar=None))
    assert not facts.settings.problems
    server, car = admitted(pod("oci://r/m:1"), facts)["spec"]["containers"]
    assert car["resources"]["limits"] == {"cpu": "10m", "memory": "15Mi"}
    assert "securityContext" not in {**server, **car}


def test_the_first_of_several_sources_chooses_the_storage_container() -> None:
    special = read(ClusterStorageContainer, {"metadata": {"name": "special"}, "spec": {
        "container": {"name": "storage-initializer", "image": "special:1"}, "supportedUriFormats": [{"prefix": "gs://"}],
        "supportsMultiModelDownload": True}})
    facts = Facts(settings=SHIPPED, storage_containers=[special])
    sources = [Source("pvc://claim", "/mnt/models/a"), Source("gs://b", "/mnt/models/b")]
    for order, image in ((sources, SHIPPED.storage_initializer.image), (sources[::-1], "special:1")):
        draft = PodDraft({"containers": [{"name": "kserve-container"}]}, {}, {}, "ml")
        add_sources(draft, order, None, facts)
        assert draft.init_containers[0]["image"] == image


def test_native_images_are_volumes() -> None:
    result = admitted(pod("oci+native://r/m:1"), Facts(settings=settings(ociModelMode="native")))
    assert result["spec"]["volumes"] == [
        {"name": "mnt-models", "image": {"reference": "r/m:1", "pullPolicy": "IfNotPresent"}}
    ]
    assert "initContainers" not in result["spec"]


def test_a_cluster_bundle_is_mounted_under_its_local_name() -> None:
    result = admitted(pod(), Facts(settings=settings(caBundleConfigMapName="corp-ca")))
    assert env(init(result))["CA_BUNDLE_CONFIGMAP_NAME"] == "global-ca-bundle"
    inside = mutated(pod(), "kserve", None, Facts(settings=settings(caBundleConfigMapName="corp-ca")))
    assert env(init(inside))["CA_BUNDLE_CONFIGMAP_NAME"] == "corp-ca"


def test_local_copies_come_from_the_nodes_volume() -> None:
    given = pod("s3://b/m/v1", labels={keys.LOCAL_MODEL: "cache"})
    given["metadata"]["annotations"] |= {keys.LOCAL_MODEL_SOURCE_URI: "s3://b/m", keys.LOCAL_MODEL_PVC: "cache-group"}
    volumes = admitted(given, Facts(settings=SHIPPED))["spec"]["volumes"]
    assert volumes[0]["persistentVolumeClaim"]["claimName"] == "cache-group"
    del given["metadata"]["annotations"][keys.LOCAL_MODEL_PVC]
    with pytest.raises(InvalidSpec, match="localmodel-pvc-name"):
        admitted(given, Facts(settings=SHIPPED))


def test_accelerators_are_selected_where_there_is_a_gpu() -> None:
    given = pod(spec={"containers": [{"name": "kserve-container", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]})
    given["metadata"]["annotations"][keys.GKE_ACCELERATOR] = "t4"
    assert admitted(given, Facts(settings=SHIPPED))["spec"]["nodeSelector"] == {
        "cloud.google.com/gke-accelerator": "t4"
    }


@pytest.mark.parametrize(
    ("notes", "user"),
    [
        ({keys.STORAGE_INITIALIZER_UID: "77"}, 77),
        ({keys.STORAGE_INITIALIZER_UID: "seven"}, None),
        (
            {"sidecar.istio.io/interceptionMode": "REDIRECT", "sidecar.istio.io/status": '{"containers": ["proxy"]}'},
            1337,
        ),
        ({"sidecar.istio.io/interceptionMode": "REDIRECT", "sidecar.istio.io/status": "nonsense"}, None),
    ],
)
def test_the_user_of_the_download(notes: Json, user: int | None) -> None:
    given = pod(spec={"containers": [{"name": "kserve-container"}, {"name": "proxy"}]})
    given["metadata"]["annotations"] |= notes
    assert (init(admitted(given, Facts(settings=SHIPPED))).get("securityContext") or {}).get("runAsUser") == user


def test_knative_pods_share_one_metrics_port() -> None:
    given = pod(spec={"containers": [{"name": "kserve-container"}, {"name": "queue-proxy"}]})
    given["metadata"]["annotations"] |= {
        keys.ENABLE_METRIC_AGGREGATION: "true",
        keys.ENABLE_PROMETHEUS_SCRAPING: "true",
    }
    result = admitted(given, Facts(settings=SHIPPED))
    assert result["metadata"]["annotations"]["prometheus.io/port"] == "9088"
    assert env(result["spec"]["containers"][1])["AGGREGATE_PROMETHEUS_METRICS_PORT"] == "9088"
    assert admitted(result, Facts(settings=SHIPPED)) == result


def test_the_agent_takes_storage_from_the_predictors_logger() -> None:
    logger = {
        "mode": "all",
        "storage": {"path": "s3://logs", "parameters": {"format": "parquet"}, "key": "k", "serviceAccountName": "log-sa"},
        "batchSize": 10,
    }
    service = inference_service({"metadata": {"name": "iris"}, "spec": {"predictor": {"logger": logger}}})
    given = pod()
    given["metadata"]["annotations"] |= {keys.LOGGER: "true", keys.LOGGER_MODE: "all"}
    facts = with_secret({"HF_TOKEN": "t"})
    facts = replace(facts, accounts={"log-sa": facts.accounts["sa"]})
    agent = mutated(given, "ml", service, facts)["spec"]["containers"][-1]
    assert logger_account(service, facts) == "log-sa"
    assert env(agent)["HF_TOKEN"] == reference("HF_TOKEN")
    words = agent["args"]
    assert words[words.index("--log-store-path") + 1] == "s3://logs"
    assert words[words.index("--log-store-format") + 1] == "parquet"
    assert words[words.index("--log-batch-size") + 1] == "10"
    assert words[words.index("--log-url") + 1] == SHIPPED.logger.default_url


def test_other_pods_pass_untouched() -> None:
    other = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": []}}
    assert admitted(other, Facts(settings=SHIPPED)) is other
