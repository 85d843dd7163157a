# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`vllm serve`: parse, meet the other ranks, boot, then serve (rank 0) or work until told otherwise."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import NoReturn

from . import VERSION, boot, launch, model_files, rendezvous
from .command_line import UsageError, parse
from .faults import EngineDeadError, Faults, cache_folder
from .group import Alone, BootTimeoutError, Group, Head, Worker
from .http_api import Api
from .journal import API_SERVER, ENGINE, Journal, usage_error
from .launch import Launch, LaunchError

_COMMANDS = "usage: vllm [-h] [-v] {chat,complete,serve,launch,bench,collect-env,run-batch} ..."
_POLL = 0.2


def _announce(rank: Launch, journal: Journal) -> None:
    given = {name.lstrip("-").replace("-", "_"): value for name, value in rank.flags.items() if name != "--api-key"}
    if rank.headless:
        host, port = rank.master
        journal.say(
            "serve.py:224",
            f"Launching vLLM (v{VERSION}) headless multiproc executor, with head node address {host}:{port} for "
            "torch.distributed process group.",
        )
        return
    journal.say("api_utils.py:327", f"vLLM server version {VERSION}, serving model {rank.model}", API_SERVER)
    journal.say("api_utils.py:286", f"non-default args: {given}", API_SERVER)
    journal.say("core.py:133", f"Initializing a V1 LLM engine (v{VERSION}) with config: model='{rank.model}'", ENGINE)


def _meet(rank: Launch, journal: Journal, faults: Faults) -> Group:
    host, port = rank.master
    journal.say(
        "parallel_state.py:1906",
        f"world_size={rank.nodes} rank={rank.rank} local_rank=0 distributed_init_method=tcp://{host}:{port} "
        "backend=nccl",
    )
    faults.at("rendezvous")
    if rank.nodes == 1:
        return Alone(faults)
    if rank.rank:
        rendezvous.open_queue().close()
        return Worker(faults, rendezvous.join(rank, journal))
    queue = rendezvous.open_queue()
    journal.say(
        "multiproc_executor.py:153",
        f"DP group leader: node_rank=0, node_rank_within_dp=0, master_addr={host}, "
        f"mq_connect_ip={queue.getsockname()[0]} (local), world_size={rank.nodes}, local_world_size=1",
        ENGINE,
    )
    meeting = rendezvous.lead(rank)
    return Head(rank, journal, faults, meeting, rendezvous.link_queues(meeting, queue))


def _assigned(rank: Launch, journal: Journal) -> None:
    tensor = rank.tensor_parallel
    journal.say(
        "parallel_state.py:2350",
        f"rank {rank.rank} in world size {rank.nodes} is assigned as DP rank 0, PP rank {rank.rank // tensor}, "
        f"PCP rank 0, TP rank {rank.rank % tensor}, ETP rank 0, EP rank N/A, EPLB rank N/A",
    )


def _poll_script(faults: Faults, api: Api | None) -> None:
    """A failure can be put in while everything idles."""
    while True:
        time.sleep(_POLL)
        try:
            faults.at("ready")
        except EngineDeadError as died:
            if api:
                api.engine_died(died)
            return


def _run(rank: Launch, journal: Journal, faults: Faults) -> NoReturn:
    faults.at("start")
    api = None if rank.headless else Api(rank, journal)
    group = _meet(rank, journal, faults)
    _assigned(rank, journal)
    boot.boot(rank, journal, faults, group)
    faults.at("ready")
    threading.Thread(target=_poll_script, args=(faults, api), daemon=True).start()
    if api:
        host, port = rank.text("--host") or "0.0.0.0", rank.number("--port", 8000)  # noqa: S104 - told, not bound
        journal.say("entry.py:140", f"Starting vLLM server on http://{host}:{port}", API_SERVER)
        api.serve(group)
    while True:
        group.step()


def _stop_on_signals(journal: Journal, process: str | None) -> None:
    def stop(_number: int, _frame: object) -> None:
        journal.say("launcher.py:284", "[shutdown] stopping: signal received", process)
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


def _serve(words: list[str]) -> int:
    try:
        line = parse(words)
    except UsageError as error:
        usage = "vllm serve [model_tag] [options]" if error.program != "vllm" else _COMMANDS.removeprefix("usage: ")
        usage_error(error.program, usage, str(error))
        return 2
    rank = Launch(line.model, line.flags)
    journal = Journal(rank.process_name)
    process = None if rank.headless else API_SERVER
    _stop_on_signals(journal, process)
    faults = Faults(cache_folder() / "stand-in.json", rank.rank, journal)
    try:
        rank = launch.check(line)
        _announce(rank, journal)
        model_files.check(rank.model)
        _run(rank, journal, faults)
    except LaunchError as error:
        journal.traceback(f"ValueError: {error}", process)
    except (rendezvous.RendezvousError, BootTimeoutError) as error:
        journal.traceback(str(error))
    except OSError as error:
        journal.traceback(f"OSError: {error}", process)
    except EngineDeadError as error:
        return error.code
    return 1


def main() -> int:
    """Only `serve` and `--version` are played."""
    words = sys.argv[1:]
    if words and words[0] == "serve":
        return _serve(words[1:])
    if words and words[0] in ("-v", "--version"):
        sys.stdout.write(VERSION + "\n")
        return 0
    sys.stdout.write(_COMMANDS + "\n")
    return 0 if not words or words[0] in ("-h", "--help") else 2


if __name__ == "__main__":
    # Threads that hang by script must not keep a finished process alive.
    code = main()
    sys.stdout.flush()
    os._exit(code)
