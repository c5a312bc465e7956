# make run     draw the gallery through a host of its own, and say where it is
# make test    run the tests; `make test ARGS="-k link"` runs some of them
# make soak    random programs, plain and remote, until interrupted; `make soak ARGS="--seconds 60"` ends by itself
# make fuzz    inputs gone wrong for decoder, session and interpreter; `make fuzz ARGS="--target decoder --seconds 600"`
# make soak-breaking   sessions whose link is cut and stalled, until interrupted; ARGS="--seconds 60" as before
# make soak-crowd   32 sessions at once on one host, killed, stopped and cut off by chance; ARGS="--seconds 60" for less
# make check   ruff and mypy
# make conformance   moderngl's own tests, plainly and through a host; `make conformance ARGS="-k buffer"` runs some
# make bench   workloads plainly and on a host, and how they compare; `make bench ARGS="--only draws --far"`
# make bench-sessions   1, 8 and 32 programs on one host at once
# make bench-gpus   two programs on one GPU and on two
# make clean   remove everything that these made
#
# Each makes .venv first, if it is not there, and sees to an EGL driver (prerequisites.py).

PYTHON ?= python3
READY := .venv/ready

.PHONY: run test soak soak-breaking soak-crowd fuzz check conformance bench bench-sessions bench-gpus clean

run: $(READY)
	@.venv/bin/glremote gallery --out gallery

test: $(READY)
	@.venv/bin/pytest $(ARGS)

soak: $(READY)
	@.venv/bin/python -m tests.differential $(ARGS)

fuzz: $(READY)
	@.venv/bin/python -m tests.fuzzing $(ARGS)

soak-breaking: $(READY)
	@.venv/bin/python -m tests.breaking $(ARGS)

soak-crowd: $(READY)
	@.venv/bin/python -m tests.breaking.soak_crowd $(ARGS)

check: $(READY)
	@.venv/bin/ruff check
	@.venv/bin/mypy

conformance: $(READY)
	@.venv/bin/python -m tests.conformance $(ARGS)

bench: $(READY)
	@.venv/bin/python -m tests.benchmarks $(ARGS)

bench-sessions: $(READY)
	@.venv/bin/python -m tests.benchmarks.sessions $(ARGS)

bench-gpus: $(READY)
	@.venv/bin/python -m tests.benchmarks.gpus $(ARGS)

$(READY): setup.cfg pyproject.toml prerequisites.py
	@$(PYTHON) prerequisites.py
	@echo "Installing glremote and what it needs into .venv"
	@$(PYTHON) -m venv .venv
	@.venv/bin/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

clean:
	rm -rf .venv .conformance gallery build glremote.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
