#!/usr/bin/env bash
# Checks everything under deploy, the Dockerfile and the workflow, without a cluster, an engine or the internet.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/checks/tools.sh
source deploy/checks/tools.sh
install_tools

rendered=$tools/rendered
mkdir -p "$rendered"
python_tool() { "$python/bin/$@"; }

say() { echo "== $*"; }

# kubeconform refuses unknown fields; custom resources included.
valid() {
  "$kubeconform" -strict -summary -schema-location "$schemas/{{.ResourceKind}}{{.KindSuffix}}.json" "$@"
}

# Ignored: the CPU limit (throttling stops heartbeats to Kafka and costs partitions) and pod anti-affinity (topology spread
# does that, and does not block a small cluster).
score() {
  "$kube_score" score --ignore-container-cpu-limit --ignore-test deployment-has-host-podantiaffinity \
    --enable-optional-test container-seccomp-profile --exit-one-on-warning --output-format ci "$@" >"$rendered/score.txt" ||
    { grep -vE '^\[(OK|SKIPPED)\]' "$rendered/score.txt"; return 1; }
}

say manifests
for overlay in dev production; do
  "$kustomize" build "deploy/k8s/overlays/$overlay" >"$rendered/$overlay.yaml"
  python_tool python deploy/checks/tojson.py <"$rendered/$overlay.yaml" >"$rendered/$overlay.json"
  valid "$rendered/$overlay.yaml"
done
mkdir -p "$rendered/keda"
printf '%s\n' 'resources: [../../../deploy/k8s/base]' 'components: [../../../deploy/k8s/components/keda]' >"$rendered/keda/kustomization.yaml"
"$kustomize" build "$rendered/keda" >"$rendered/keda.yaml"
valid "$rendered/keda.yaml" deploy/k8s/secret.example.yaml
python_tool python deploy/checks/tojson.py <deploy/k8s/secret.example.yaml >"$rendered/secret.json"
score "$rendered/production.yaml"
# A development cluster has one pod of each, and loads its images.
score --ignore-test container-image-pull-policy,deployment-replicas,deployment-strategy "$rendered/dev.yaml"

say compose, workflow, Dockerfile
python_tool python deploy/checks/tojson.py --one <deploy/compose.yaml >"$rendered/compose.json"
python_tool check-jsonschema --builtin-schema vendor.compose-spec deploy/compose.yaml
python_tool check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/ci.yml
python_tool hadolint Dockerfile

say alerts and dashboard
if ! command -v promtool >/dev/null; then
  echo "check.sh: promtool is missing (apt-get install -y --no-install-recommends prometheus)" >&2
  exit 1
fi
promtool check rules deploy/alerts/billing.rules.yaml
promtool check config --syntax-only deploy/compose/prometheus.yml
promtool test rules deploy/alerts/billing.rules.test.yaml
# Each panel as a rule, with Grafana's variables filled in.
python_tool python deploy/checks/panels.py <deploy/grafana/billing.json >"$rendered/panels.yaml"
promtool check rules "$rendered/panels.yaml"

say facts
go test -count=1 -tags deploy ./internal/proof/deploy

say image
deploy/checks/image.sh
