"""Makes a folder of JSON schemas for kubeconform: those of Kubernetes as kubernetes-validate ships them, and those of custom
resources as their definitions hold them. Unknown fields are errors in both.

    schemas.py 1.34.0 OUT CRD...
"""

import json
import pathlib
import sys

import kubernetes_validate
import yaml


class Loader(yaml.SafeLoader):
    """Takes a plain = for a string, as YAML 1.2 does; it is one of the values of an enumeration."""


Loader.add_constructor("tag:yaml.org,2002:value", yaml.SafeLoader.construct_yaml_str)


def kubernetes(version, out):
    source = pathlib.Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / f"v{version}-local-strict"
    for path in source.glob("*.json"):
        schema = json.loads(path.read_text().replace('"/api/_definitions.json', '"_definitions.json'))
        schema.pop("$id", None)
        (out / path.name).write_text(json.dumps(schema))


def close(schema):
    """Refuses unknown fields where the definition lists the known ones, as the API server's strict mode does."""
    if isinstance(schema, list):
        for part in schema:
            close(part)
    if not isinstance(schema, dict):
        return
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    for part in schema.values():
        close(part)


def custom(path, out):
    spec = yaml.load(pathlib.Path(path).read_text(), Loader)["spec"]
    kind, group = spec["names"]["kind"].lower(), spec["group"].split(".")[0]
    for version in spec["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        close(schema)
        (out / f"{kind}-{group}-{version['name']}.json").write_text(json.dumps(schema))


def main():
    version, out, *definitions = sys.argv[1:]
    out = pathlib.Path(out)
    out.mkdir(parents=True)
    kubernetes(version, out)
    for path in definitions:
        custom(path, out)


main()
