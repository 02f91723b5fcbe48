"""Prints YAML as JSON, all documents as one list, or with --one the only one. A key that comes twice is an error, and the
stringData of a Secret becomes its data, as the API server does it."""

import base64
import json
import sys

import yaml


class Loader(yaml.SafeLoader):
    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"key {key} comes twice", node.start_mark)
        return super().construct_mapping(node, deep)


def main():
    documents = [d for d in yaml.load_all(sys.stdin, Loader) if d is not None]
    for document in documents:
        for key, value in document.pop("stringData", {}).items():
            document.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()
    json.dump(documents[0] if "--one" in sys.argv else documents, sys.stdout, indent=1)


main()
