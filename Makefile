# Everything that a change is judged by. "make" alone lists the targets.

# Every directory with a go.mod that go.work uses. check-modules compares it with the tree.
MODULES := . store/pgxstore store/dynamostore store/redisstore limit/adaptive oncegrpc onceconnect onceotel onceprom retry/breaker broker/natsbroker broker/kafkabroker broker/amqpbroker broker/redisbroker broker/watermillbroker cmd/once cmd/once/full examples examples/shop integration bench

# The rivals of the benchmarks choose the versions of no module but their own: it is not in
# go.work, and is built and tested as if the others were not there.
RIVALS := bench/rivals

# The newest version that builds with every Go version that the modules support.
LINT_VERSION := v2.12.2
LINT := $(CURDIR)/.bin/golangci-lint-$(LINT_VERSION)

# The linter's cache names files by where they were when it saw them. Shared with
# another checkout it reports what it cannot find, deaf to every nolint.
export GOLANGCI_LINT_CACHE := $(CURDIR)/.cache/golangci-lint

# What the tests have met: points of kill loops, times to kill of mutants.
REPORT := $(CURDIR)/.cache/report.txt

FUZZTIME ?= 10s
TESTFLAGS ?=

# No test is bounded by a time that a slow machine could miss: this is for one that hangs.
TIMEOUT := -timeout 60m

# Modules whose tests run with the race detector: theirs are the goroutines that meet. The
# rest is served by them, or meets in processes and databases, which it does not see.
RACING := . store/pgxstore store/redisstore oncegrpc onceconnect onceotel onceprom broker/watermillbroker
packages = $(patsubst %,./%/...,$(1))

SHELL := /bin/bash

# each LABEL COMMAND runs the command in every module, also after a failure, and
# fails if one did.
each = @failed=; for module in $(MODULES); do \
		echo "--- $$module: $(1)"; \
		(cd "$$module" || exit 1; $(2)) || failed="$$failed $$module"; \
	done; \
	if [ -n "$$failed" ]; then echo "make $@: failed in:$$failed" >&2; exit 1; fi

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## install what the tests need from the system
	@scripts/setup.sh

.PHONY: test
test: setup check-modules ## unit tests, every store's conformance, examples and docs (6 minutes)
	@mkdir -p $(dir $(REPORT)) && rm -f $(REPORT)
	@failed=; export ONCE_TIER=test ONCE_REPORT=$(REPORT); \
	go test -race $(TIMEOUT) $(TESTFLAGS) $(call packages,$(RACING)) || failed=yes; \
	go test $(TIMEOUT) $(TESTFLAGS) $(call packages,$(filter-out $(RACING),$(MODULES))) || failed=yes; \
	(cd $(RIVALS) && GOWORK=off go test $(TIMEOUT) $(TESTFLAGS) ./...) || failed=yes; \
	[ -z "$$failed" ]

# The folders of integration that test a package and do not have its name.
INTEGRATION_OF_webhook := hooks hookrelay webhook
INTEGRATION_OF_oncehttp := oncehttp openapi
INTEGRATION_OF_rediscache := shared
INTEGRATION_OF_sqlitegroup := sqlstore
INTEGRATION_OF_letter := deadletter inbox
INTEGRATION_OF_watermillbroker := push
INTEGRATION_OF_natsbroker := broker consumer
INTEGRATION_OF_kafkabroker := broker consumer
INTEGRATION_OF_amqpbroker := broker consumer
INTEGRATION_OF_redisbroker := broker consumer

DIR ?=
of := $(notdir $(patsubst %/,%,$(DIR)))

.PHONY: test-of
test-of: ## the tests of one package, with those of integration on databases: make test-of DIR=inbox
	@ls "$(DIR)"/*.go >/dev/null 2>&1 && [ "$(of)" != . ] && [ -n "$(of)" ] || { echo "Try: make test-of DIR=inbox; for the root package go test ." >&2; exit 1; }
	ONCE_TIER=test go test -count=1 $(TIMEOUT) $(TESTFLAGS) $(patsubst %,./%/...,$(patsubst %/,%,$(DIR)) $(wildcard $(addprefix integration/,$(or $(INTEGRATION_OF_$(of)),$(of)))))

.PHONY: prove
prove: setup ## the core of the kill, cut and stop loops, then others and mutants by lot, until 15 minutes are used
	@mkdir -p $(dir $(REPORT)) && rm -f $(REPORT)
	@ONCE_REPORT=$(REPORT) go run ./internal/testenv/tier/prove
	@echo "--- what the tests have met (.cache/report.txt)"; touch $(REPORT); cat $(REPORT)

.PHONY: prove-all
prove-all: setup ## every test of make prove on all its databases and at all its points, but no mutants (50 minutes)
	@mkdir -p $(dir $(REPORT)) && rm -f $(REPORT)
	@ONCE_REPORT=$(REPORT) go run ./internal/testenv/tier/prove -all

.PHONY: mutants
mutants: setup ## kill every seeded bug of the bank
	set -o pipefail; cd integration/bugbank && go test -count=1 $(TIMEOUT) -v -run TestEveryMutantIsKilled . | grep -v '^=== '

CARDTIME ?= 1h

.PHONY: card
card: setup ## break the library for CARDTIME (1h) on every database, and count, into RELIABILITY.md
	@go run ./internal/testenv/tier/card -for $(CARDTIME) -o RELIABILITY.md

.PHONY: card-line
card-line: setup ## one line of the card, by lot
	@go run ./internal/testenv/tier/card -lot

.PHONY: models
models: ## check the models with spin, which must be installed; not a part of CI
	models/check.sh

.PHONY: check-modules
check-modules: ## compare the list of modules with the tree and with go.work
	@listed=$$(printf '%s\n' $(MODULES) | sort); \
	found=$$(git ls-files --cached --others --exclude-standard -- go.mod '*/go.mod' | xargs -n 1 dirname | sort); \
	used=$$(go work edit -json | sed -n 's/.*"DiskPath": "\(.*\)".*/\1/p' | sed 's,^\./,,' | sort); \
	[ "$$(sort <(echo "$$listed") <(echo $(RIVALS)))" = "$$found" ] || { echo "MODULES in the Makefile is not what the tree holds:"; diff <(echo "$$listed") <(echo "$$found"); exit 1; }; \
	[ "$$listed" = "$$used" ] || { echo "MODULES in the Makefile is not what go.work uses:"; diff <(echo "$$listed") <(echo "$$used"); exit 1; }

.PHONY: lint
lint: $(LINT) ## run every linter on every module, and build each alone
	$(call each,lint,$(LINT) run --allow-parallel-runners ./...)
	@echo "--- $(RIVALS): lint"; cd $(RIVALS) && GOWORK=off $(LINT) run --allow-parallel-runners ./...
	$(call each,build alone (GOWORK=off),GOWORK=off go build -o /dev/null ./...)

.PHONY: vet-systems
vet-systems: ## go vet of every module for Windows and macOS (minutes, from empty caches)
	$(call each,vet for windows,GOOS=windows CGO_ENABLED=0 go vet ./...)
	$(call each,vet for darwin,GOOS=darwin CGO_ENABLED=0 go vet ./...)

$(LINT):
	GOBIN=$(CURDIR)/.bin go install -trimpath github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	mv .bin/golangci-lint $@

.PHONY: torture
torture: setup ## run everything, in its long form and with the race detector (hours)
	$(call each,go test -race,ONCE_TORTURE=long go test -race -timeout 5h $(TESTFLAGS) ./...)

.PHONY: site
site: ## build docs/ as a site into site/dist, with a search; "npm run dev" in site/ shows it while you write
	cd site && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && npm run build

.PHONY: bench
bench: setup ## measure side by side with the rivals, into bench/RESULTS.md
	cd bench && go run . -o RESULTS.md

# Inside ( ... ) || ... bash does not stop at a failure by itself.
define fuzz_module
packages=$$(go list ./...) || exit 1; \
		for package in $$packages; do \
			targets=$$(go test -list '^Fuzz' "$$package") || exit 1; \
			for target in $$(grep '^Fuzz' <<<"$$targets"); do \
				echo "$$package $$target"; \
				go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$package" || exit 1; \
			done; \
		done
endef

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (10s)
	$(call each,fuzz,$(fuzz_module))

.PHONY: release
release: ## tag all modules at VERSION (v0.1.0), in a commit without replace directives
	@go run ./internal/release tag $(VERSION)

.PHONY: release-check
release-check: ## make what users download, for every system, into dist/, and check it (minutes)
	@go run ./internal/release snapshot dist

.PHONY: fmt
fmt: ## format the code
	gofmt -w .

.PHONY: clean
clean: ## remove what was built
	rm -rf .bin .cache dist cmd/once/once
