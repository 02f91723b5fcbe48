# Everything a contributor or CI runs. Nothing here needs a service that is already running.
SHELL := /bin/bash
.DEFAULT_GOAL := help

GO      ?= go
TOOLS   := $(CURDIR)/.tools
BIN     := $(CURDIR)/bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)

KAFKA ?= kfake
DEMO_EVENTS ?= 2000
WITH := $(GO) run ./internal/testkit/with --

.PHONY: help
help: ## Show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

.PHONY: build
build: ## Build the service, the demo and the simulator into bin/
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/...

# The demo itself is what make waits for and what gets its signals: under `go run` a SIGTERM would miss it.
DEMO = CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN)/demo ./cmd/demo && exec $(BIN)/demo --events $(DEMO_EVENTS) --kafka $(KAFKA)

.PHONY: demo
demo: ## See it work: orders, faults, a kill, and the audit (DEMO_EVENTS=2000, KAFKA=kfake or apache)
	@$(DEMO)

.PHONY: demo-stay
demo-stay: ## The same, and leave it running to look around until Ctrl-C
	@$(DEMO) --stay

.PHONY: test
test: ## Run all tests on real PostgreSQL and Apache Kafka
	$(WITH) $(GO) test -race -shuffle=on -count=1 -parallel 6 -timeout 20m ./...

.PHONY: check
check: test lint generated check-deploy ## What CI runs before the proof (crash DURATION=3m, mutants)

.PHONY: lint
lint: $(GOLANGCI) ## Lint with the pinned golangci-lint
	$(GOLANGCI) run ./...

$(GOLANGCI):
	mkdir -p $(TOOLS)
	GOFLAGS='-mod=mod -buildvcs=false' GOBIN=$(TOOLS) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv $(TOOLS)/golangci-lint $@

.PHONY: fmt
fmt: $(GOLANGCI) ## Format all Go files
	$(GOLANGCI) fmt ./...

.PHONY: generated
generated: ## Fail when go.mod or a golden file is stale
	$(GO) mod tidy -diff

.PHONY: golden
golden: ## Rewrite golden files; review the diff
	$(WITH) $(GO) test -count=1 ./migrations ./internal/adapters/... ./cmd/billing ./internal/proof/deploy -update

.PHONY: fuzz
fuzz: ## Fuzz the decoder for 30 seconds
	$(GO) test -run '^$$' -fuzz FuzzDecode -fuzztime 30s ./internal/adapters/in/kafka

.PHONY: cover
cover: ## Write coverage to cover.out and print the total
	$(WITH) $(GO) test -count=1 -coverpkg=./internal/...,./cmd/billing -coverprofile=cover.out ./...
	$(GO) tool cover -func=cover.out | tail -1

# Like the demo, it gets make's signals itself: Ctrl-C still audits what was done so far.
PROOF = $(GO) build -o $(BIN)/proof ./internal/proof/harness/cmd && exec $(BIN)/proof
DURATION ?= 8m
SEED ?= $(shell date +%s)

.PHONY: crash
crash: ## Kill, cut and pause everything, then audit (DURATION=8m SEED=n KAFKA=apache); see deploy/PROOF.md
	@$(PROOF) -duration $(DURATION) -seed $(SEED) -kafka $(PROOF_KAFKA)

# The proof wants a real broker unless the command line says otherwise.
PROOF_KAFKA = $(if $(filter command line environment,$(origin KAFKA)),$(KAFKA),apache)

.PHONY: soak
soak: ## The long form: a million events in 36 minutes, then healing and two audits
	@$(PROOF) -duration 36m -rate 470 -calm 2 -seed $(SEED) -kafka $(PROOF_KAFKA)

.PHONY: mutants
mutants: ## Break the service on purpose, each time in another way: the proof has to notice every time
	@$(PROOF) -mutants -seed $(SEED) -kafka $(PROOF_KAFKA)

.PHONY: tools
tools: $(GOLANGCI) ## Install the pinned tools of lint and check-deploy into .tools/
	deploy/checks/tools.sh

.PHONY: check-deploy
check-deploy: ## Check image, manifests, alerts and dashboard without a cluster (Debian: prometheus buildah busybox-static)
	deploy/checks/check.sh

# The first engine that works here.
ENGINE ?= $(firstword $(foreach e,docker podman buildah,$(shell $(e) info >/dev/null 2>&1 && echo $(e))))
IMAGE ?= billing

.PHONY: image
image: ## Build the image by docker, podman or buildah (IMAGE=billing, ENGINE=)
	@test -n '$(ENGINE)' || { echo 'no docker, podman or buildah works here; make check-deploy builds the image without an engine' >&2; exit 1; }
	$(ENGINE) build --build-arg VERSION='$(VERSION)' --build-arg COMMIT='$(COMMIT)' --target billing -t '$(IMAGE):$(VERSION)' .

.PHONY: figures
figures: build ## Print image size, time from start to ready, and idle memory
	@$(GO) run ./internal/proof/deploy/figures $(BIN)/billing

.PHONY: run
run: build ## Run the service with the BILLING_ variables of your environment
	$(BIN)/billing migrate up
	exec $(BIN)/billing serve

.PHONY: migrate
migrate: build ## Bring the schema of BILLING_DATABASE_URL up to date
	$(BIN)/billing migrate up

.PHONY: bench
bench: bench-ingest bench-charge bench-relay bench-api ## All measurements; half an hour on two cores

.PHONY: bench-charge
bench-charge: ## Measure charging beside a bare HTTP loop, and the cost of claim and settle over the backlog
	$(GO) test -count=1 -v -timeout 30m ./internal/proof/bench -args -full

.PHONY: bench-relay
bench-relay: ## Measure the way out beside a bare Kafka writer (MESSAGES=50000, ROUNDS=5)
	$(GO) run ./internal/proof/bench/relay

.PHONY: bench-api
bench-api: ## Measure POST /v1/charges: the most per second, and how long answers take at half of it (SECONDS=20 CLIENTS=32)
	$(GO) run ./internal/proof/bench/api

.PHONY: bench-ingest
bench-ingest: ## Measure the way in beside the documents' loop and COPY (EVENTS=200000, ROUNDS=3)
	$(GO) run ./internal/proof/bench/ingest

.PHONY: kafka-up
kafka-up: ## Start a developer's Apache Kafka (needs Java 17 and Maven)
	deploy/dev/kafka/kafka.sh up

.PHONY: kafka-down
kafka-down: ## Stop it
	deploy/dev/kafka/kafka.sh down

.PHONY: clean
clean: ## Remove what was built
	rm -rf $(BIN) cover.out
