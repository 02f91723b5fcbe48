#!/usr/bin/env bash
# Installs the pinned tools of check.sh into .tools/, each under a name with its version, and does nothing where they are.
# Sourced by check.sh for the names. promtool, buildah and busybox are Debian's (.ci/run); kubectl is not needed.
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tools=$repository/.tools

kustomize=$tools/kustomize-v5.8.1
kubeconform=$tools/kubeconform-v0.8.0
kube_score=$tools/kube-score-v1.20.0
kubernetes=1.34.0
prometheus_operator=github.com/prometheus-operator/prometheus-operator@v0.85.0
keda=github.com/kedacore/keda/v2@v2.20.0

stamp() { cat "$@" | sha256sum | cut -c1-12; }
python=$tools/python-$(stamp "$repository/deploy/checks/requirements.txt")
schemas=$tools/schemas-$(printf '%s ' "$kubernetes" "$prometheus_operator" "$keda" | cat - "$repository/deploy/checks/schemas.py" | stamp)

go_tool() {
  local path=$1 package=$2
  [ -x "$path" ] && return
  echo "building ${path##*/}"
  local bin=$path.new
  mkdir -p "$bin"
  GOFLAGS='-mod=mod -buildvcs=false' GOBIN=$bin nice go install "$package@${path##*-}"
  mv "$bin"/* "$path"
  rmdir "$bin"
}

module_dir() {
  (cd "$tools" && GOFLAGS=-mod=mod go mod download -json "$1") | sed -n 's/^.*"Dir": "\(.*\)".*$/\1/p'
}

install_tools() {
  mkdir -p "$tools"
  go_tool "$kustomize" sigs.k8s.io/kustomize/kustomize/v5
  go_tool "$kubeconform" github.com/yannh/kubeconform/cmd/kubeconform
  go_tool "$kube_score" github.com/zegl/kube-score/cmd/kube-score
  if [ ! -e "$python/complete" ]; then
    echo "installing the Python tools"
    rm -rf "$python"
    python3 -m venv "$python"
    "$python/bin/pip" install --quiet --disable-pip-version-check -r "$repository/deploy/checks/requirements.txt"
    touch "$python/complete"
  fi
  if [ ! -d "$schemas" ]; then
    echo "making the schemas of Kubernetes $kubernetes and of the custom resources"
    rm -rf "$schemas.new"
    local monitoring scaling
    monitoring=$(module_dir "$prometheus_operator")/example/prometheus-operator-crd
    scaling=$(module_dir "$keda")/config/crd/bases
    "$python/bin/python" "$repository/deploy/checks/schemas.py" "$kubernetes" "$schemas.new" \
      "$monitoring/monitoring.coreos.com_servicemonitors.yaml" "$monitoring/monitoring.coreos.com_prometheusrules.yaml" \
      "$scaling/keda.sh_scaledobjects.yaml"
    mv "$schemas.new" "$schemas"
  fi
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  install_tools
fi
