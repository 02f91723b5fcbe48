"""Prints the expressions of a Grafana dashboard as recording rules, so that promtool parses them."""

import json
import sys

import yaml

rules = []
for panel in json.load(sys.stdin)["panels"]:
    for target in panel.get("targets", []):
        expr = target["expr"].replace("$__rate_interval", "1m").replace("$job", "billing")
        if "$" in expr:
            sys.exit(f"panel {panel['title']} uses a variable that is not filled in: {expr}")
        if (panel["datasource"], target["datasource"]) != ({"type": "prometheus", "uid": "${datasource}"},) * 2:
            sys.exit(f"panel {panel['title']} does not use the chosen data source")
        rules.append({"record": f"panel:{panel['id']}:{target['refId']}", "expr": expr})
yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}, sys.stdout)
