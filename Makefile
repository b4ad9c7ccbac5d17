# PostgreSQL comes from package integration/servers: from HARE_TEST_POSTGRES_URLS, from Docker, or from local binaries.
# HARE_SERVERS=urls|docker|local forces one way.

servers := go run ./integration/withservers
golangci := v2.15.0
fuzztime ?= 10s
time ?= 60s
seed ?=
pooler ?=

.PHONY: help demo chaos storm test race model lint bench fuzz

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

demo: ## run the library loan over three databases, with a crash and its recovery
	@$(servers) -n 3 -- go run ./integration/demo

chaos: ## move money over three databases while everything fails, for 60s or time=..., by a random seed or seed=..., directly or pooler=transaction
	@go run ./integration/chaos -time $(time) $(if $(seed),-seed $(seed)) $(if $(pooler),-pooler $(pooler))

storm: ## let processes compete for a lease while everything is done to them, for 60s or time=..., by a random seed or seed=...
	HARE_STORM_TIME=$(time) HARE_STORM_SEED=$(seed) $(servers) -n 1 -fast -- go test -count=1 -timeout 0 -v -run TestStorm ./integration/storm

test: ## run every test, on three PostgreSQL servers
	$(servers) -n 3 -fast -- go test -timeout 20m ./...

race: ## run every test under the race detector (needs a C compiler)
	$(servers) -n 3 -fast -- go test -race -timeout 30m ./...

model: ## check the model of the distributed commit with spin, which it installs where it may (docs/protocol)
	go run ./docs/protocol

lint: ## check the code: gofmt, go vet and golangci-lint
	@test -z "$$(gofmt -l .)" || { echo "gofmt -w is needed for:"; gofmt -l .; exit 1; }
	go vet ./...
	@if [ "$$(golangci-lint version --short 2>/dev/null)" = "$(golangci:v%=%)" ]; \
	then golangci-lint run ./...; \
	else go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(golangci) run ./...; fi

bench: ## run the Go benchmarks, on a PostgreSQL server with durable commits
	$(servers) -n 3 -- go test -run '^$$' -bench . -benchmem ./...
	@if [ -f bench/go.mod ]; then $(servers) -n 1 -- go -C bench test -run '^$$' -bench . -benchmem ./...; fi

fuzz: ## run each fuzz test for 10s, or fuzztime=...
	@grep -roE --include='*_test.go' --exclude-dir=bench '^func Fuzz[A-Za-z0-9_]+' . | sort | \
	sed -E 's|/[^/]*:func | |' | while read -r folder target; do \
		echo "$$folder $$target"; \
		$(servers) -n 1 -fast -- go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(fuzztime) "$$folder" || exit 1; \
	done
