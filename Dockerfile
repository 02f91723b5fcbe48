# The service: one static binary and the public authorities, nothing else. It runs as serve, and with other arguments as any
# other command, such as the migration Job's `migrate up`.
#
#   docker build --build-arg VERSION=v1.2.3 --build-arg COMMIT=$(git rev-parse HEAD) -t billing .
#   docker build --target paysim -t billing-paysim .        the provider simulator, for development only
#
# Base images are arguments, so that a mirror or a digest (name:tag@sha256:…) can be given without an edit.
ARG GO_IMAGE=golang:1.26.8-bookworm
ARG BUSYBOX_IMAGE=busybox:1.37.0

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG COMMIT=unknown
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false \
    -ldflags "-s -w -X main.version=${VERSION} -X main.commit=${COMMIT}" -o /out/ ./cmd/billing ./cmd/paysim

# The simulator has a shell and wget for health checks and for a look inside.
FROM ${BUSYBOX_IMAGE} AS paysim
COPY --from=build /out/paysim /paysim
USER 65532:65532
EXPOSE 8081
ENTRYPOINT ["/paysim"]
CMD ["--addr", "0.0.0.0:8081"]

FROM scratch AS billing
ARG VERSION=dev
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="billing" \
      org.opencontainers.image.description="Charges a customer exactly once for each confirmed order" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/billing /billing
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
EXPOSE 8080 9090
ENTRYPOINT ["/billing"]
CMD ["serve"]
