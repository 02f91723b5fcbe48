#!/usr/bin/env bash
# Builds both images of the Dockerfile without an engine and without a registry, and looks at the result: size, user, and that
# the binary runs on an empty root. The two base images are stand-ins made of a static busybox; the builder sees the Go tool,
# module cache and build cache of this machine.
#
#   image.sh            needs buildah, busybox-static and ca-certificates (Debian)
set -euo pipefail
cd "$(dirname "$0")/../.."

version=${VERSION:-dev}
commit=${COMMIT:-unknown}
limit=$((25 * 1000 * 1000))
store=$PWD/.tools/images

fail() {
  echo "image.sh: $*" >&2
  exit 1
}

b() {
  buildah --storage-driver vfs --root "$store" --runroot "$store/run" "$@"
}

cleanup() {
  b rm --all >/dev/null 2>&1 || true
  b rmi --all --force >/dev/null 2>&1 || true
  rm -rf "$store" 2>/dev/null || true
}

# stand_in makes a base image: sh and the other words of busybox, and the system's authorities.
stand_in() {
  local name=$1 root=$store.root container
  rm -rf "$root"
  mkdir -p "$root/bin" "$root/etc/ssl/certs" "$root/tmp"
  cp "$(command -v busybox)" "$root/bin/busybox"
  for word in sh env mkdir; do ln -s busybox "$root/bin/$word"; done
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  printf 'root:x:0:0::/root:/bin/sh\n' >"$root/etc/passwd"
  container=$(b from scratch)
  b copy -q "$container" "$root" / >/dev/null
  b config --env PATH=/usr/local/go/bin:/bin --env GOTOOLCHAIN=local --env GOFLAGS=-mod=readonly "$container"
  b commit -q "$container" "$name" >/dev/null
  b rm "$container" >/dev/null
  rm -rf "$root"
}

build() {
  b bud -q --isolation chroot --pull-never --layers \
    --build-arg GO_IMAGE=localhost/stand-in --build-arg BUSYBOX_IMAGE=localhost/stand-in \
    --build-arg VERSION="$version" --build-arg COMMIT="$commit" \
    --volume "$(go env GOROOT):/usr/local/go:ro" --volume "$(go env GOMODCACHE):/root/go/pkg/mod" \
    --volume "$(go env GOCACHE):/root/.cache/go-build" \
    --target "$1" --tag "localhost/$1" . >/dev/null
}

check() {
  local container root size
  container=$(b from --pull-never "localhost/$1")
  root=$(b mount "$container")
  size=$(du --apparent-size --block-size=1 --summarize "$root" | cut -f1)
  [ "$(b inspect --format '{{.OCIv1.Config.User}}' "localhost/$1")" = 65532:65532 ] || fail "$1 does not run as 65532"
  if [ "$1" = billing ]; then
    [ "$size" -le "$limit" ] || fail "billing has $size bytes, more than $limit"
    [ ! -e "$root/bin" ] || fail "billing holds more than its binary: $(ls "$root")"
    b run --isolation chroot "$container" /billing version | grep -qF "billing $version" || fail "billing does not say version $version"
  else
    b run --isolation chroot "$container" "/$1" --help >/dev/null || fail "$1 does not run"
  fi
  echo "$1: $size bytes"
  b umount "$container" >/dev/null
}

for program in buildah busybox go; do
  command -v "$program" >/dev/null || fail "$program is missing (apt-get install -y --no-install-recommends buildah busybox-static)"
done
cleanup
trap cleanup EXIT
mkdir -p "$store"
stand_in localhost/stand-in
for target in billing paysim; do
  build "$target"
  check "$target"
done
