# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Journal lines in vLLM's shape: (process pid=N) LEVEL month-day time [file:line] message."""

from __future__ import annotations

import os
import time

API_SERVER = "APIServer"
ENGINE = "EngineCore"

_STDOUT = 1
_STDERR = 2


def _write(descriptor: int, text: str) -> None:
    # One write a line: no buffer that a signal handler or a second thread could find half full.
    os.write(descriptor, text.encode())


class Journal:
    """Speaks for one rank; the process name in front tells which part of vLLM would have said it."""

    def __init__(self, worker: str) -> None:
        self.worker = worker

    def _line(self, level: str, process: str | None, source: str, message: str) -> None:
        head = f"({process or self.worker} pid={os.getpid()}) {level} {time.strftime('%m-%d %H:%M:%S')} [{source}] "
        _write(_STDOUT, head + message.replace("\n", "\r\n" + head) + "\n")

    def say(self, source: str, message: str, process: str | None = None) -> None:
        """`source` is vLLM's file and line."""
        self._line("INFO", process, source, message)

    def warn(self, source: str, message: str, process: str | None = None) -> None:
        """Something vLLM goes on after."""
        self._line("WARNING", process, source, message)

    def fail(self, source: str, message: str, process: str | None = None) -> None:
        """Something vLLM dies of, most often."""
        self._line("ERROR", process, source, message)

    def traceback(self, error: str, process: str | None = None) -> None:
        """How an uncaught exception ends vLLM's log."""
        name = process or self.worker
        lines = ["Traceback (most recent call last):", '  File "/usr/local/bin/vllm", line 10, in <module>']
        text = "\n".join([*lines, "    sys.exit(main())", error])
        _write(_STDERR, "".join(f"({name} pid={os.getpid()}) {line}\n" for line in text.split("\n")))

    def uvicorn(self, message: str) -> None:
        """The HTTP server's own lines carry neither time nor file."""
        _write(_STDOUT, f"({API_SERVER} pid={os.getpid()}) INFO:     {message}\n")

    def progress(self, text: str) -> None:
        """A progress bar's state, on a line of its own."""
        _write(_STDERR, f"({self.worker} pid={os.getpid()}) {text}\n")


def usage_error(program: str, usage: str, message: str) -> None:
    """What argparse prints before it exits with 2."""
    _write(_STDERR, f"usage: {usage}\n{program}: error: {message}\n")
