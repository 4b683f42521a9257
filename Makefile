# make bench   the comparison: all locks, all scenarios; prints a table, writes a report
# make test    everything that is tested, with the race detector
# make report  draw the plots and the page of the last run again
# make repro   one failure as a story: make repro NAME=gc_pause LOCK=token
#
# bench and test install what is missing (redis-server) first; see scripts/setup.

GO ?= go
NAME ?= gc_pause
LOCK ?= token
GUARD ?= none
WORKLOAD ?= stock
# Further flags of stress run: make bench ARGS="--trials 20 --locks token,redlock"
ARGS ?=
# How long each fuzz target runs in make test.
FUZZTIME ?= 5s

.PHONY: bench test report repro build setup fuzz microbench clean

bench: setup build
	bin/stress run $(ARGS)

test: setup
	$(GO) vet ./...
	$(GO) test -race ./...
	$(MAKE) fuzz

report: build
	bin/stress report

repro: setup build
	bin/stress repro $(NAME) --lock $(LOCK) --guard $(GUARD) --workload $(WORKLOAD)

build:
	$(GO) build -o bin/stress ./cmd/stress

setup:
	@scripts/setup

fuzz:
	GO="$(GO)" FUZZTIME="$(FUZZTIME)" scripts/fuzz

# Timings of recording and checking; meaningful on a quiet machine only.
microbench:
	$(GO) test -run '^$$' -bench . -benchmem ./history ./checker/...

clean:
	rm -rf bin reports/out
