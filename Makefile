# Every target works from a bare clone: it makes the environment that it needs.

PY := .venv/bin/python
PY35 := .venv35/bin/python
PYMIN := .venv-minimums/bin/python
PYREL := .venv-release/bin/python
JAVA = JAVA_HOME=$$(.ci/java_home .venv) PYSPARK_PYTHON=$(CURDIR)/$(PY)
JAVA35 = JAVA_HOME=$$(.ci/java_home .venv35) PYSPARK_PYTHON=$(CURDIR)/$(PY35)
# Hundreds of processes import hoodie: none compiles again what another one has compiled.
unexport PYTHONDONTWRITEBYTECODE
# Tests without a JVM share the cores. Spark's run beside them, in one process: their sessions wait now and then. Those
# of the modules from "w" on wait until the tests without a JVM are done, so that no core is idle then.
PARALLEL := -n auto --dist worksteal
LATER := tests/integration/test_spark_[w-z]*.py
# Of each parametrized test one case runs, the next one each day: "make test CASES=331" takes those of that day of the year
# again, "make test CASES=all" takes all. Where tests take seconds each, one in two, three or four runs a day
# (--one-in, and the mark one_in).
CASES ?= $(shell date +%j)
CHOSEN := --cases=$(CASES)
UNIT_TESTS := exec $(PY) -m pytest -q $(PARALLEL) --durations=10 tests/unit tests/contract $(CHOSEN)
SPARK_TESTS := exec $(PY) -m pytest -q --durations=10 tests/integration $(CHOSEN)
# Tables that tests make are of version 9. These make them of version 6 too: those below the table layer in "make test",
# all others that make tables in "make test-version-6". Tests that name the version of their tables are left out there:
# they make the same tables in "make test".
OF_6 := $(addprefix tests/contract/test_local_,border.py indexes.py numbers.py) tests/unit/storage/test_local_storage.py \
	$(addprefix tests/unit/io/,parquet/test_footer_tail.py test_merging_into_odd_footers.py test_merging_modes.py test_write_handles.py)
ALL_OF_6 := tests/unit/client tests/unit/common/table tests/unit/index tests/unit/merge tests/unit/query tests/unit/security \
	tests/unit/spark tests/unit/table tests/unit/transaction
# Tests of commits and of several writers, with merge-on-read tables: those whose rules both types of table share.
ON_READ := $(addprefix tests/unit/client/test_,closed_clients.py committer.py concurrent_writers.py late_attempts.py left_locks.py \
	several_writers.py uncombined_deletes.py)
# All tests run in a zone that is not UTC (tests/conftest.py). Those of times also run west of UTC, where the zone of a
# process is wrong in another way.
OF_TIMES := tests/unit/common/table/timeline tests/unit/metadata/reader tests/unit/validation tests/unit/table/action/clean \
	$(addprefix tests/unit/client/test_,archiving.py times_of_metadata_tables.py) \
	$(addprefix tests/unit/metadata/writer/test_,maintained_metadata_tables.py metadata_table_services.py new_tables.py) \
	$(addprefix tests/unit/query/test_,completion_ranges.py times.py)
# Tests with the least releases that setup.cfg declares: those of data, files and queries, where releases of the libraries
# differ most.
OF_MINIMUMS := tests/contract $(addprefix tests/unit/,avro client/test_table_writer.py common/bloom common/data common/util io \
	keygen metadata/records query storage sync $(addprefix cli/test_,commands.py input_files.py) test_readme.py test_cookbook.py \
	$(addprefix utilities/,schema sources transform streamer/test_rounds.py test_streamer_properties.py))
HUDI_1_2 := $(HOME)/.m2/repository/org/apache/hudi/hudi-spark3.5-bundle_2.12/1.2.0/hudi-spark3.5-bundle_2.12-1.2.0.jar
PIP := -m pip install -q --disable-pip-version-check

.PHONY: help setup quickstart test test-slow test-version-6 test-merge-on-read test-zones check format test-spark35 test-minimums test-pyarrow soak interop interop-smoke bench bench-hudi bench-hudi-inputs bench-charts docs dist clean

help:
	@echo "make quickstart     set up, write a year of real flights with Spark and in-process, print what happened"
	@echo "make test           set up, run one case of each test (Spark 4.3) without the slow ones, the next one each day;"
	@echo "                    CASES=all runs all cases, of every target below too, and CASES=331 those of that day again"
	@echo "make test-slow      a part of the slow ones, another one each day; continuous integration runs both"
	@echo "make test-version-6 the tests that make tables, with tables of version 6 instead of 9"
	@echo "make test-merge-on-read the tests of commits and of several writers, with merge-on-read tables"
	@echo "make test-zones     the tests of times, in a zone west of UTC; all others run in one east of it"
	@echo "make check          format, lint, types, layers, order of time, security"
	@echo "make test-spark35   the Spark tests on PySpark 3.5"
	@echo "make test-minimums  with the least releases that setup.cfg declares: the tests of data, files and queries"
	@echo "                    (OF_MINIMUMS), and a module on Spark"
	@echo "make test-pyarrow   arrays and tables with pyarrow 17, 20, 23, 25 and 26, in environments of their own"
	@echo "make soak           the long runs: thousands of seeds, hundreds of killed writers, all slow cases"
	@echo "make interop        tests beside real Hudi 0.15.0, 1.0.2 and 1.2.0; interop-smoke: a part of them"
	@echo "make bench          the quick benchmarks; bench-charts saves and draws figures in docs/benchmarks"
	@echo "make bench-hudi     4M rows beside real Hudi 1.2.0 on Spark 3.5: half an hour; bench-charts draws its figures too"
	@echo "make bench-hudi-inputs upserts of 10% to all rows, inserts and deletes of half, beside real Hudi: hours"
	@echo "make docs           the site of the pages, with search and API reference, in build/site"
	@echo "make dist           wheel and sdist in dist/, checked; the programs of README and cookbook run with the wheel alone"
	@echo "make setup          only make .venv; make clean removes all environments"

.venv/.stamp: setup.cfg pyproject.toml .ci/constraints-spark4.txt
	@echo "Set-up of .venv, once: 1 to 3 minutes and 1.8 GB, most of it PySpark and the libraries of the tests."
	@.ci/step "Set-up 1 of 3: a virtual environment in .venv" $$(.ci/find_python) -m venv .venv
	@.ci/step "Set-up 2 of 3: pip, setuptools and wheel" $(PY) $(PIP) --upgrade pip setuptools wheel
	@.ci/step "Set-up 3 of 3: hoodie with PySpark, and the tools of its tests (minutes; pip prints nothing)" \
		$(PY) $(PIP) -c .ci/constraints-spark4.txt -e '.[spark,connect,examples,dev]'
	touch $@

.venv35/.stamp: setup.cfg pyproject.toml .ci/constraints-spark35.txt
	@echo "Set-up of .venv35, once: an environment with PySpark 3.5, minutes"
	$$(.ci/find_python 3.11) -m venv .venv35
	$(PY35) $(PIP) --upgrade pip setuptools wheel
	$(PY35) $(PIP) -c .ci/constraints-spark35.txt -e '.[spark,test]'
	touch $@

.venv-minimums/.stamp: setup.cfg pyproject.toml .ci/constraints-minimums.txt
	@echo "Set-up of .venv-minimums, once: an environment of the least releases, minutes"
	$$(.ci/find_python 3.11) -m venv .venv-minimums
	$(PYMIN) $(PIP) --upgrade pip setuptools wheel
	$(PYMIN) $(PIP) -c .ci/constraints-minimums.txt -e '.[spark,dynamodb,test]'
	touch $@

.venv-release/.stamp: .ci/constraints-release.txt
	@echo "Set-up of .venv-release, once: what builds the site and the packages, half a minute"
	$$(.ci/find_python) -m venv .venv-release
	$(PYREL) $(PIP) -c .ci/constraints-release.txt build twine mkdocs-material mkdocstrings-python
	touch $@

setup: .venv/.stamp

quickstart: .venv/.stamp
	$(JAVA) $(PY) -m hoodie.examples.flights

test: .venv/.stamp
	@.ci/fetch_kafka
	$(JAVA) .ci/beside '$(SPARK_TESTS) --one-in=2 -m "not soak and not slow" --ignore-glob="$(CURDIR)/$(LATER)"' \
		'$(UNIT_TESTS:exec%=%) -m "not soak and not slow"; unit=$$?; \
		$(PY) -m pytest -q $(PARALLEL) $(CHOSEN) --table-version 6 $(OF_6) -m "not soak and not slow" || unit=1; \
		$(PY) -m pytest -q $(CHOSEN) --one-in=2 --durations=10 $(LATER) -m "not soak and not slow" && exit $$unit'

test-version-6: .venv/.stamp
	$(PY) -m pytest -q $(PARALLEL) $(CHOSEN) --table-version 6 $(ALL_OF_6) -m "not soak and not slow"

test-merge-on-read: .venv/.stamp
	$(PY) -m pytest -q $(PARALLEL) $(CHOSEN) --table-type MERGE_ON_READ $(ON_READ) -m "not soak and not slow"

test-zones: .venv/.stamp
	$(PY) -m pytest -q $(PARALLEL) $(CHOSEN) --zone America/Los_Angeles $(OF_TIMES) -m "not soak and not slow"

test-slow: .venv/.stamp
	@.ci/fetch_kafka
	$(JAVA) .ci/beside '$(SPARK_TESTS) --one-in=4 -m "slow and not soak"' '$(UNIT_TESTS) --one-in=2 -m "slow and not soak"'

check: .venv/.stamp
	.venv/bin/ruff format --check hoodie pyspark_hoodie tests benchmarks
	.venv/bin/ruff check hoodie pyspark_hoodie tests benchmarks
	.venv/bin/mypy
	.venv/bin/lint-imports --config setup.cfg --no-logo
	$(PY) .ci/instant_times
	# B301: statuses of the application's own tasks are pickled. B608: names of tables are formatted, values are bound.
	.venv/bin/bandit -q -r hoodie pyspark_hoodie -ll --skip B301,B608
	$(PY) .ci/audit .ci/constraints-spark4.txt
	$(PY) .ci/minimums

format: .venv/.stamp
	.venv/bin/ruff check --fix hoodie pyspark_hoodie tests benchmarks
	.venv/bin/ruff format hoodie pyspark_hoodie tests benchmarks

test-spark35: .venv35/.stamp
	$(JAVA35) $(PY35) -m pytest -q $(CHOSEN) --one-in=3 --durations=5 tests/integration --ignore=tests/integration/kafka \
		-m "not soak and not slow"

test-minimums: .venv-minimums/.stamp
	$(PYMIN) -m pytest -q $(PARALLEL) $(CHOSEN) $(OF_MINIMUMS) -m "not soak and not slow"
	JAVA_HOME=$$(.ci/java_home .venv-minimums) PYSPARK_PYTHON=$(CURDIR)/$(PYMIN) \
		$(PYMIN) -m pytest -q $(CHOSEN) tests/integration/test_spark_delta_commits.py -m "not soak and not slow"

test-pyarrow:
	.ci/each_pyarrow

soak: .venv/.stamp
	@.ci/fetch_kafka
	$(JAVA) $(PY) -m pytest -q -rP --show-capture=stdout $(PARALLEL) -m "slow or soak" tests/unit tests/contract
	$(JAVA) $(PY) -m pytest -q -rP --show-capture=stdout -m "slow or soak" tests/integration

interop: .venv/.stamp .venv35/.stamp
	.ci/fetch_bundles
	$(JAVA) $(PY) -m pytest -q -rs -m interop --durations=5 tests/interop

interop-smoke: .venv/.stamp .venv35/.stamp
	.ci/fetch_bundles
	$(JAVA) $(PY) -m pytest -q -rs -m interop_smoke --durations=5 tests/interop

.venv/.benchmarks: .venv/.stamp
	$(PY) $(PIP) -c .ci/constraints-spark4.txt -e '.[benchmarks]'
	touch $@

bench: .venv/.benchmarks
	$(PY) -m benchmarks.bloom_filter
	$(PY) -m benchmarks.avro_codec
	$(PY) -m benchmarks.hfile
	$(PY) -m benchmarks.local_upsert --profile
	$(PY) -m benchmarks.local_read
	$(PY) -m benchmarks.indexes --rows 400000
	$(PY) -m benchmarks.scaling --runs 1 --unit-rows 50000
	$(JAVA) $(PY) -m benchmarks.spark_upsert --rows 200000 --engines parquet,hoodie --index SIMPLE,BLOOM,BUCKET --profile

bench-hudi: .venv35/.stamp
	.ci/fetch_bundles
	$(JAVA35) HOODIE_HUDI_BUNDLE=$(HUDI_1_2) $(PY35) -m benchmarks.spark_upsert --profile \
		--index SIMPLE,BLOOM,BUCKET,RECORD_INDEX --json docs/benchmarks/spark_upsert.json

bench-hudi-inputs: .venv35/.stamp
	.ci/fetch_bundles
	$(JAVA35) HOODIE_HUDI_BUNDLE=$(HUDI_1_2) $(PY35) -m benchmarks.spark_upsert --engines hoodie,hudi --profile \
		--index SIMPLE,BLOOM,BUCKET,RECORD_INDEX --fractions 0.1,0.2,0.4,0.6,1 --json docs/benchmarks/spark_upsert_inputs.json
	$(JAVA35) HOODIE_HUDI_BUNDLE=$(HUDI_1_2) $(PY35) -m benchmarks.spark_upsert --engines hoodie,hudi --profile \
		--index SIMPLE,BLOOM,BUCKET,RECORD_INDEX --fractions 0.5 --operations insert,delete

bench-charts: .venv/.benchmarks
	@git diff --quiet HEAD -- . ':!docs/benchmarks' || { echo "commit or undo your changes first: charts name the commit that they measure" >&2; exit 1; }
	$(PY) -m benchmarks.local_upsert --json docs/benchmarks/local_upsert.json
	$(PY) -m benchmarks.indexes --rows 400000 --json docs/benchmarks/indexes.json
	$(PY) -m benchmarks.scaling --runs 3 --json docs/benchmarks/scaling.json
	$(PY) -m benchmarks.charts

# A warning, such as a link that leads nowhere, is an error.
docs: .venv-release/.stamp
	NO_MKDOCS_2_WARNING=1 $(PYREL) -m mkdocs build --strict
	@echo "The site is in build/site; its search needs a server: $(PYREL) -m http.server --directory build/site"

dist: .venv-release/.stamp
	.ci/dist $(PYREL)

clean:
	rm -rf .venv .venv35 .venv-minimums .venv-release .cache build dist *.egg-info
