# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connections from one action on the controller to several nodes at once. Private to the collection.

A task per node needs one of Ansible's forks per node and ends only when its slowest node does. Bringing ranks up and
down needs order between nodes and an eye on all of them at the same time, whatever the number of forks. The
connections are Ansible's own, with each node's own variables: address, user, keys, become.
"""

from __future__ import annotations

import copy
import shlex
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible import constants as C  # noqa: N812 - Ansible's own habit
from ansible.errors import AnsibleError
from ansible.module_utils.common.text.converters import to_text
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.loader import become_loader, connection_loader

SHELL = "/bin/sh"
UNREACHABLE = 255
# Longer than Docker takes to stop a container. A node that swaps may never answer; the others must not wait for it.
PATIENCE = 180.0


@dataclass(frozen=True)
class Answer:
    """What a command on a node came to. ``reached`` is false when the node itself could not be asked."""

    rc: int
    stdout: bytes
    stderr: str
    reached: bool = True

    @property
    def text(self) -> str:
        """Standard output as text."""
        return str(to_text(self.stdout, errors="surrogate_then_replace"))

    @property
    def ok(self) -> bool:
        """Whether the command ran and succeeded."""
        return self.reached and self.rc == 0


class NodeConnection:
    """One node's connection; it runs argument lists, never text that a shell would read again."""

    def __init__(self, connection: Any, python: str) -> None:
        self._connection = connection
        self.python = python

    def run(self, words: list[str], stdin: bytes | None = None) -> Answer:
        """Run a command and wait for it. A node that cannot be reached is an answer too."""
        connection = self._connection
        command = shlex.join(words)
        if connection.become is not None:
            command = connection.become.build_become_command(command, connection._shell)
        if connection.allow_executable:
            command = f"{SHELL} -c {shlex.quote(command)}"
        try:
            rc, stdout, stderr = connection.exec_command(command, in_data=stdin, sudoable=True)
        except (AnsibleError, OSError) as error:
            return Answer(UNREACHABLE, b"", str(error), reached=False)
        return Answer(rc, stdout, to_text(stderr, errors="surrogate_then_replace").strip())

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()


def connect(action: Any, nodes: list[str], hostvars: Mapping[str, Any]) -> dict[str, NodeConnection]:
    """Return a connection for each node, made as Ansible makes them for a task on that node.

    Args:
        action: the action plugin that asks; it lends its task's keywords, command line and templar.
        nodes: inventory names.
        hostvars: the variables of all hosts.
    """
    return {node: _connect(action, node, hostvars[node]) for node in dict.fromkeys(nodes)}


def _connect(action: Any, node: str, variables: Mapping[str, Any]) -> NodeConnection:
    context = copy.copy(action._play_context)
    # With -vvv the connection prints what a command answered: logs and environments, before secrets are hidden in them.
    context.no_log = True
    context.remote_addr = variables.get("ansible_host", node)
    name = variables.get("ansible_connection") or action._task.connection or C.DEFAULT_TRANSPORT
    connection = connection_loader.get(name, context)
    if connection is None:
        raise AnsibleError(f"{node}: there is no connection plugin {name}")
    keys = action._task.dump_attrs()
    keys["timeout"] = context.timeout
    if context.password:
        keys["password"] = context.password
    keys.pop("retries", None)
    # With a terminal, ssh mixes what a program says of errors into its output.
    options = _chosen("connection", connection, variables) | {"ansible_ssh_use_tty": False}
    connection.set_options(task_keys=keys, var_options=options)
    shell = connection._shell
    shell.set_options(task_keys=keys, var_options=_chosen("shell", shell, variables))
    if boolean(variables.get("ansible_become", action._task.become) or False):
        become = become_loader.get(variables.get("ansible_become_method") or action._task.become_method)
        if context.become_pass:
            keys["become_pass"] = context.become_pass
        connection.set_become_plugin(become)
        become.set_options(task_keys=keys, var_options=_chosen("become", become, variables))
    facts = variables.get("ansible_facts") or {}
    python = variables.get("ansible_python_interpreter") or facts.get("discovered_interpreter_python") or "python3"
    return NodeConnection(connection, python if not str(python).startswith("auto") else "python3")


def _chosen(kind: str, plugin: Any, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables that this plugin's options may come from, as the node has them."""
    names = C.config.get_plugin_vars(kind, plugin._load_name)
    return {name: variables[name] for name in names if name in variables}


def on_all(keys: Mapping[str, Any], work: Callable[[str], Answer], patience: float = PATIENCE) -> dict[str, Answer]:
    """Ask all at the same time; the answers are in the keys' order, and one that does not come in time is told so."""
    answers: dict[str, Answer] = {}

    def ask(key: str) -> None:
        answers[key] = work(key)

    threads = [threading.Thread(target=ask, args=(key,), daemon=True) for key in keys]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + patience
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    late = Answer(UNREACHABLE, b"", f"no answer within {patience:.0f} s", reached=False)
    return {key: answers.get(key, late) for key in keys}
