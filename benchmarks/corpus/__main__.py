"""`make corpus`: M1 to M18 over the public corpus, and a list of all findings."""

import argparse
import json
import multiprocessing
import os
import random
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.corpus import limits
from benchmarks.corpus.assessment import Extent, assess_file
from benchmarks.corpus.download import ROOT, CorpusUnavailableError, corpus
from benchmarks.corpus.records import Assessment, Scores
from benchmarks.corpus.strata import assess_strata
from benchmarks.corpus.swagger_client import agreements, agreements_table
from benchmarks.corpus.tables import GRAPH, Total, strata_table, table

FINDINGS = ROOT / ".corpus" / "findings.jsonl"


def _parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make corpus", description=__doc__)
    parser.add_argument("--sample", type=int, help="this many documents instead of all")
    parser.add_argument("--seed", default="0", help="for the sample and the generated values")
    parser.add_argument("--only", help="one metric: M1 to M18")
    parser.add_argument("--spec", help="only documents whose path contains this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--executions", type=int, default=1_000, help="operations per document for M15 and M16"
    )
    parser.add_argument("--cases", type=int, default=40, help="cases of each stratum of M16")
    parser.add_argument("--findings", type=Path, default=FINDINGS, help="where the list goes")
    parser.add_argument(
        "--swagger-client", action="store_true", help="only compare swagger-client with the strata of M16"
    )
    return parser.parse_args()


def selected(files: Sequence[Path], *, sample: int | None, seed: str, spec: str | None = None) -> list[Path]:
    """Return the documents of a run, in order."""
    matching = [file for file in files if spec is None or spec in str(file)]
    if sample is None:
        return matching
    return sorted(random.Random(seed).sample(matching, min(sample, len(matching))))


def assess_all(files: Sequence[Path], extent: Extent, *, jobs: int) -> Iterator[Assessment]:
    """Yield the results in the order of the files; the largest documents are started first."""
    by_size = sorted(files, key=lambda file: -file.stat().st_size)
    work = partial(assess_file, extent=extent)
    if jobs < 2:
        done = {file: work(file) for file in by_size}
    else:
        with multiprocessing.get_context("spawn").Pool(jobs) as pool:
            done = dict(zip(by_size, pool.imap(work, by_size, chunksize=1), strict=True))
    yield from (done[file] for file in files)


def main() -> int:
    """Print the table; return 1 if there are findings."""
    arguments = _parsed_arguments()
    if arguments.swagger_client:
        return _swagger_client(arguments.seed, arguments.cases)
    try:
        files = selected(corpus(), sample=arguments.sample, seed=arguments.seed, spec=arguments.spec)
    except CorpusUnavailableError as problem:
        print(f"The corpus is not available: {problem}")
        return 2
    extent = Extent(seed=arguments.seed, only=arguments.only, executions=arguments.executions)
    results = list(assess_all(files, extent, jobs=arguments.jobs)) if arguments.only != "M17" else []
    strata, findings = Scores(), []
    for record in assess_strata(arguments.seed, arguments.cases) if extent.wants("M16") else ():
        strata.add(record)
        findings.extend(record.findings)
    lines = [line for one in results for line in one.lines()]
    arguments.findings.parent.mkdir(parents=True, exist_ok=True)
    arguments.findings.write_text("".join(json.dumps(line) + "\n" for line in lines))
    if results:
        small = (one for one in results if GRAPH not in one.spec)
        print(table(Total.of(results), Total.of(small), strata))
    if findings or arguments.only == "M16":
        print(strata_table(strata, findings))
    ok = not lines and not findings
    if extent.wants("M17"):
        differ = limits.differing(files)
        print(f"M17: {len(differ)} of {len(files)} documents differ between two hash seeds {differ[:5]}")
        ok = ok and not differ
    if extent.wants("M18"):
        ok = _graph(files) and ok
    print(f"{len(lines)} findings: {arguments.findings}")
    return 0 if ok else 1


def _swagger_client(seed: str, each: int) -> int:
    try:
        print(agreements_table(agreements(seed, each)))
    except CorpusUnavailableError as problem:
        print(f"swagger-client is not available: {problem}")
        return 2
    return 0


def _graph(files: Sequence[Path]) -> bool:
    """Measure M18 on the largest document, if it is selected; return whether it is within the limits."""
    ok = True
    for file in files:
        if file.name == "graph-beta.json":
            busy, elapsed, memory, tools = limits.cost(file)
            # On a machine that is busy with other work, wall-clock time says nothing about the conversion.
            ok = busy <= limits.GRAPH_SECONDS and memory <= limits.GRAPH_MEMORY
            took = f"{busy:.1f} s of CPU, {elapsed:.1f} s of wall-clock time"
            print(f"M18: Graph beta, {tools} tools: {took}, {memory / 2**20:.0f} MiB plus the document")
    return ok


if __name__ == "__main__":
    sys.exit(main())
