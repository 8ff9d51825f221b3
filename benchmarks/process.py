"""Measurements in a process of their own, and what Linux tells of a process's memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

# Between looks at another process: it takes a few of them to allocate anything large.
WATCH_SECONDS = 0.01


def in_own_process(
    module: str, point: dict[str, Any], seconds: float, settings: dict[str, str] | None = None
) -> dict[str, Any]:
    """Let ``python -m module --point …`` measure a point; what fails is part of the result.

    Parameters
    ----------
    module : str
        Its last line that begins with a brace is the result.
    point : dict
        What JSON can hold.
    seconds : float
        That it may take.
    settings : dict, optional
        Environment variables beside ours.

    Returns
    -------
    dict
        What it printed, with the most that `memory_of` saw of it as "memory"; or its "error".
    """
    command = [sys.executable, "-m", module, "--point", json.dumps(point)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(settings or {})},
    )
    most: dict[str, int] = {}
    watcher = threading.Thread(target=_watch, args=(process, most), daemon=True)
    watcher.start()
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"error": f"took more than {seconds:g} s"}
    finally:
        process.kill()  # also where we are interrupted; nothing happens to one that has ended
        process.wait()
        watcher.join()
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if not lines:
        return {"error": (err.strip().splitlines() or ["no output"])[-1][:200]}
    return {**json.loads(lines[-1]), "memory": most}


def _watch(process: subprocess.Popen, most: dict[str, int]) -> None:
    while process.returncode is None:
        for name, size in memory_of(process.pid).items():
            most[name] = max(size, most.get(name, 0))
        time.sleep(WATCH_SECONDS)


def memory_of(pid: int | str = "self") -> dict[str, int]:
    """Bytes of a process: "private" as RLIMIT_DATA counts, "resident" of these; and "peak".

    Private is what it may write to and shares with no one, touched or not. The peak is that of
    all pages it had in memory, those of libraries and mapped files included. Empty without /proc.
    """
    names = {"VmData": "private", "RssAnon": "resident", "VmHWM": "peak"}
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return {}
    lines = (line.split() for line in status.splitlines())
    found = {line[0][:-1]: line[1] for line in lines if len(line) == 3}
    return {names[key]: int(value) * 1024 for key, value in found.items() if key in names}
