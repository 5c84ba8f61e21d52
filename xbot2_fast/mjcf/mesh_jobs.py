"""Many mesh conversions: cached by content, the rest in parallel processes with a progress bar."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue

from xbot2_fast.mjcf.mesh_conversion import VERSION, Converted, cache_folder, convert_mesh
from xbot2_fast.mjcf.mesh_files import MeshError

_RESULT = "result.json"
_COMMAND = [sys.executable, "-P", "-m", "xbot2_fast.mjcf.mesh_worker"]  # -P: no source tree of the folder we are in
_SMALL = 4_000_000  # bytes: less than this in all is converted here, since starting processes would take longer


@dataclass(frozen=True)
class Job:
    """One mesh file in one role. `content` is the hash of the file's bytes, `suffix` its format in lower case."""

    content: str
    suffix: str
    role: str
    path: Path

    @property
    def folder(self) -> Path:
        """Where the result is kept. Formats that name materials in other files count by their place too."""
        place = (
            sha256(str(self.path.parent).encode()).hexdigest()[:12] if self.suffix not in (".stl", ".glb") else "any"
        )
        return cache_folder() / f"{self.content[:40]}-{place}-{self.suffix.removeprefix('.')}-{self.role}-v{VERSION}"


def run_jobs(jobs: Sequence[Job], workers: int | None = None) -> dict[Job, Converted | MeshError]:
    """Result of every job, or its error.

    Args:
        jobs: without repetitions.
        workers: number of processes; default: one a core, none when there is little to do.
    """
    results: dict[Job, Converted | MeshError] = {}
    results.update((job, cached) for job in jobs if (cached := _load(job)) is not None)
    todo = [job for job in jobs if job not in results]
    if workers is None:
        workers = 0 if sum(job.path.stat().st_size for job in todo) < _SMALL else os.cpu_count() or 1
    with _progress(len(todo)) as advance:
        errors = _in_processes(todo, min(workers, len(todo)), advance) if workers else _here(todo, advance)
    for job in todo:
        error = errors.get(job)
        converted = None if error is not None else _load(job)
        results[job] = converted if converted is not None else MeshError(error or "its conversion left no result")
    return results


def run_job(job: Job) -> str | None:
    """Convert one mesh into the cache; returns the text of the error, None when all went well."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=cache_folder()))
    try:
        converted = convert_mesh(job.path, job.suffix, job.role, fresh)
        (fresh / _RESULT).write_text(json.dumps(converted.to_dict()))
        with contextlib.suppress(OSError):  # another process was faster: its result is the same
            shutil.rmtree(job.folder, ignore_errors=True)
            fresh.rename(job.folder)
    except MeshError as error:
        return str(error)
    except Exception as error:  # one odd mesh is reported with its name and its link, like the others
        return f"it cannot be converted ({type(error).__name__}: {error})"
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return None


def _load(job: Job) -> Converted | None:
    try:
        converted = Converted(**json.loads((job.folder / _RESULT).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    converted.colors = [
        None if color is None else (color[0], color[1], color[2], color[3]) for color in converted.colors
    ]
    return converted if all((job.folder / file).is_file() for file in converted.files) else None


def _here(jobs: Sequence[Job], advance: Callable[[], None]) -> dict[Job, str]:
    errors = {}
    for job in jobs:
        error = run_job(job)
        if error is not None:
            errors[job] = error
        advance()
    return errors


def _in_processes(jobs: Sequence[Job], workers: int, advance: Callable[[], None]) -> dict[Job, str]:
    """Jobs in `workers` processes of `python -m xbot2_fast.mjcf.mesh_worker`, each fed with the next largest one.

    Plain child processes: multiprocessing would start the user's main module again, or fork a process with threads.
    """
    queue: SimpleQueue[Job | None] = SimpleQueue()
    for job in [*sorted(jobs, key=lambda job: -job.path.stat().st_size), *[None] * workers]:
        queue.put(job)
    errors: dict[Job, str] = {}

    def feed(_: int) -> None:
        worker = _Worker()
        while (job := queue.get()) is not None:
            error = worker.convert(job)
            if error is not None:
                errors[job] = error
            advance()
        worker.close()

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(feed, range(workers)))
    return errors


class _Worker:
    """A child process that converts one mesh after the other; a new one takes over when it dies."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def convert(self, job: Job) -> str | None:
        """Error text of one conversion, None when it went well."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answer = ""
        with contextlib.suppress(BrokenPipeError):
            request = json.dumps([job.content, job.suffix, job.role, str(job.path)])
            self._process.stdin.write(request + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        if answer:
            return json.loads(answer)
        self.close()
        self._start()
        return "the process that converted it died (out of memory?)"

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()


@contextlib.contextmanager
def _progress(total: int):
    """A function to call after each mesh; it moves a bar when standard error is a terminal."""
    if total < 2 or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("converting meshes", total=total)
        yield lambda: bar.advance(task)
