# Every target makes the virtual environment it needs; nothing else has to be installed first
# than Python 3.11+ (PYTHON=python3.12 chooses another).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FOR ?=
WORKERS ?= 2
TESTS ?=
CASES ?=
ROUNDS ?= 200
SEED ?=

.PHONY: help demo fetch test test-all gate-runs gate-bare test-groups test-exactly-once simulate-groups simulate simulate-transactions simulate-one simulate-ablations fuzz fuzz-security crash kill registry-kill exactly-once calm-flows pipeline-kill connect-kill mirror-kill storm soak hostile-network lint bench format docs clean

help:            ## this list
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18

$(VENV)/.dev: pyproject.toml setup.py constraints.txt $(wildcard src/tailrace/records/*.pyx src/tailrace/records/*.pxi)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,spark]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	@touch $@

fetch: $(VENV)/.dev     ## bring what tests need beside PyPI's packages, before they run: jars, Go and npm packages, Debian's kcat
	$(BIN)/python -m bench.fetch

demo: $(VENV)/.dev      ## live website activity through a broker; FOR=60s ends by itself
	$(BIN)/python -m tailrace demo $(if $(FOR),--for $(FOR))

test: $(VENV)/.dev      ## what PyPI alone can run, within 10 minutes; TESTS="path…" runs a part, SEED repeats an order
	$(BIN)/python -m tests.gate --workers $(WORKERS) $(if $(SEED),--seed $(SEED)) $(TESTS)

test-all: fetch         ## that and everything else: clients in five languages, Apache Kafka, clusters, databases, kill runs
	$(BIN)/python -m tests.gate --all --workers $(WORKERS) $(if $(SEED),--seed $(SEED)) $(TESTS)
	$(if $(TESTS),,TAILRACE_TEST_TARGET=kafka $(BIN)/python -m tests.gate --workers 1 tests/unit/client)

test-groups: $(VENV)/.dev ## groups of every client whose members are killed as RECORDS (100000) flow through each
	GROUP_RECORDS=$(or $(RECORDS),100000) $(BIN)/python -m pytest --durations=0 -rP tests/clients/test_groups.py

test-exactly-once: $(VENV)/.dev ## every client copies RECORDS (20000) exactly once while it and its brokers are killed
	$(BIN)/python -m tests.faults.exactly_once --records $(or $(RECORDS),20000) --seed $(or $(SEED),1)

simulate-groups: $(VENV)/.dev ## consumer groups in a storm, on virtual time; SEED and SEEDS choose others
	$(BIN)/python -m tests.scenarios.group_simulation --full --seed $(or $(SEED),1) --seeds $(or $(SEEDS),25)

simulate: $(VENV)/.dev ## clusters and clients in a world that goes wrong, on virtual time; SEED, SEEDS and JOBS choose
	$(BIN)/python -m tailrace.sim.simulate --cluster --seed $(or $(SEED),1) --seeds $(or $(SEEDS),100) --jobs $(or $(JOBS),1) $(OPTIONS)

simulate-transactions: $(VENV)/.dev ## clients that write in transactions, on one broker and on several
	$(BIN)/python -m tailrace.sim.simulate --transactions --seed $(or $(SEED),1) --seeds $(or $(SEEDS),50) --for 15 --jobs $(or $(JOBS),1)
	$(BIN)/python -m tailrace.sim.simulate --transactions --cluster --seed $(or $(SEED),1) --seeds $(or $(SEEDS),50) --jobs $(or $(JOBS),1)

simulate-one: $(VENV)/.dev ## the same with one broker
	$(BIN)/python -m tailrace.sim.simulate --seed $(or $(SEED),1) --seeds $(or $(SEEDS),100)

simulate-ablations: $(VENV)/.dev ## every safeguard taken away in turn, until the simulator notices; SEEDS (500) for each, ONLY="text" of its name
	$(BIN)/python -m tests.faults.simulate_ablations --seed $(or $(SEED),1) --seeds $(or $(SEEDS),500) $(if $(ONLY),--only "$(ONLY)")

fuzz: $(VENV)/.dev      ## a million mutated requests; CASES and SEED choose others
	$(BIN)/python -m tests.faults.fuzz $(if $(CASES),--cases $(CASES)) $(if $(SEED),--seed $(SEED))

fuzz-security: $(VENV)/.dev ## ten million mutated logins, frames, TLS records and texts of options; CASES and SEED choose others
	$(BIN)/python -m tests.faults.security_fuzz $(if $(CASES),--cases $(CASES)) $(if $(SEED),--seed $(SEED))

crash: $(VENV)/.dev     ## a hundred thousand storage faults in memory; CASES and SEED choose others
	$(BIN)/python -m tests.faults.crash $(if $(CASES),--cases $(CASES)) $(if $(SEED),--seed $(SEED))

kill: $(VENV)/.dev      ## a broker killed 200 times under load; ROUNDS and SEED choose others
	$(BIN)/python -m tests.faults.kill_loop --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED))

registry-kill: $(VENV)/.dev ## the leader of three schema registries killed KILLS (200) times while clients register
	$(BIN)/python -m tests.faults.registry_kill --kills $(or $(KILLS),200) --seed $(or $(SEED),1)

soak: $(VENV)/.dev      ## a ZooKeeper and connections to it that break for SECONDS (60); SEED and SERVERS choose others
	$(BIN)/python -m tests.faults.zookeeper_soak $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) \
		$(if $(SERVERS),--servers $(SERVERS))

exactly-once: $(VENV)/.dev ## FLOWS (4) Spark queries killed KILLS (50) times, and then as often without their decisions; OPTIONS="--brokers 3 --cluster"
	$(BIN)/python -m tests.faults.spark_kill --flows $(or $(FLOWS),4) --kills $(or $(KILLS),50) --seed $(or $(SEED),1) $(OPTIONS)
	$(BIN)/python -m tests.faults.spark_kill --flows $(or $(FLOWS),4) --kills $(or $(KILLS),50) --seed $(or $(SEED),1) $(OPTIONS) --without-decisions

pipeline-kill: $(VENV)/.dev ## the pipeline of CHAIN (postgres, changes, s3 or tables) on a Spark cluster killed KILLS (50) times, and then without its safeguard
	$(BIN)/python -m tests.faults.pipeline_kill --chain $(or $(CHAIN),postgres) --kills $(or $(KILLS),50) --seed $(or $(SEED),1) --cluster $(OPTIONS)
	$(BIN)/python -m tests.faults.pipeline_kill --chain $(or $(CHAIN),postgres) --kills 4 --seed $(or $(SEED),1) --without-safeguard

connect-kill: $(VENV)/.dev ## the Connect service, its Spark applications and its broker killed KILLS (20) times, while lines go from a file to a file
	$(BIN)/python -m tests.faults.connect_kill --kills $(or $(KILLS),20) --seed $(or $(SEED),1)

mirror-kill: $(VENV)/.dev ## a mirror and its brokers killed KILLS (50) times, and its source lost for good LOSSES (20) times; OPTIONS="--without-spark --keep-offsets"
	$(BIN)/python -m tests.faults.mirror_kill --kills $(or $(KILLS),50) --seed $(or $(SEED),1) $(OPTIONS)
	$(BIN)/python -m tests.faults.mirror_failover --rounds $(or $(LOSSES),20) --seed $(or $(SEED),1) $(OPTIONS)

calm-flows: $(VENV)/.dev ## FLOWS (4) Spark queries that run for MINUTES (30) and must not fail once, with nothing killed
	$(BIN)/python -m tests.faults.spark_kill --flows $(or $(FLOWS),4) --kills 0 --minutes $(or $(MINUTES),30) $(OPTIONS)

desk-orders: $(VENV)/.dev ## workers that decide for a sink, in ORDERS (20000) random orders, over a model of brokers
	$(BIN)/python -m tests.faults.desk_orders --orders $(or $(ORDERS),20000) --seed $(or $(SEED),1)

hostile-network: $(VENV)/.dev ## clients whose replies are lost and requests held; RUNS (100) of each scene and the first SEED choose, OPTIONS="--client java"
	nice $(BIN)/python -m tests.faults.hostile_network --runs $(or $(RUNS),100) --seed $(or $(SEED),1) $(OPTIONS)

storm: $(VENV)/.dev     ## a cluster of real processes that are killed, stopped and, with NETWORK=1 as root, cut off
	$(BIN)/python -m tests.faults.storm --minutes $(or $(MINUTES),10) --seed $(or $(SEED),1) $(if $(NETWORK),--network)

gate-runs: $(VENV)/.dev ## .ci/run RUNS (10) times on fresh clones, with BUSY (0) busy processes, on a machine that seems to be up for UPTIME_H hours
	$(BIN)/python -m tests.gate.repeat --runs $(or $(RUNS),10) --busy $(or $(BUSY),0) --uptime-h $(or $(UPTIME_H),0)

gate-bare: $(VENV)/.dev ## make test and the demo for a user without rights, with compilers, Java and servers hidden; needs root on Linux
	$(BIN)/python -m tests.gate.bare

lint: $(VENV)/.dev      ## ruff and mypy
	$(BIN)/ruff check src tests bench examples setup.py
	$(BIN)/ruff format --check src tests bench examples setup.py
	$(BIN)/mypy

format: $(VENV)/.dev    ## let ruff write the layout
	$(BIN)/ruff check --fix src tests bench examples setup.py
	$(BIN)/ruff format src tests bench examples setup.py

bench: $(VENV)/.bench   ## throughput next to the loopback ceiling and, where it can be had, Apache Kafka
	$(BIN)/python -m bench.throughput

docs: $(VENV)/.dev      ## write the generated pages again
	$(BIN)/python -m tailrace.cli.docs

clean:           ## remove the environment and build products
	rm -rf $(VENV) build src/*.egg-info .cache
