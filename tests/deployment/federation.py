"""A SuperLink, SuperNodes and runs, as processes on loopback, in the clear or as in docs."""

import json
import os
import random
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import psutil
from packaging.version import Version

START_TIMEOUT = 60.0  # seconds until the SuperLink answers
RUN_TIMEOUT = 240.0  # seconds for a run that takes one
PATIENCE = 300.0  # seconds for whatever else a test waits for
FORGOTTEN = 62.0  # seconds after which a SuperLink lets the key of a killed SuperNode in again
STOP_TIMEOUT = 10.0  # seconds to end in an orderly way
GUIDE = Path(__file__).parents[2] / "docs" / "deployment.md"


def write(folder, files):
    """Write an app: the texts of its files, by their names."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def wait_for(condition, pause=0.1):
    """Return when the condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(pause)


class Wire:
    """A connection to a server that can be cut; what is on its way then arrives afterwards.

    Whoever connects anew while it is cut is refused, or, if the cut ``swallows``, is let in
    and never hears anything, as behind a proxy that has lost its network.
    """

    def __init__(self, server):
        self._server = server
        self._whole = threading.Event()
        self._port = 0
        self._listen()
        self._whole.set()
        self.address = f"127.0.0.1:{self._port}"

    def cut(self, swallows=False):
        self._whole.clear()
        if not swallows:
            self._listener.shutdown(socket.SHUT_RDWR)  # ends the wait in accept, too
            self._listener.close()

    def restore(self):
        if self._listener.fileno() < 0:
            self._listen()
        self._whole.set()

    def _listen(self):
        self._listener = socket.create_server(("127.0.0.1", self._port))
        self._port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener):
        while True:
            try:
                near, _ = listener.accept()
            except OSError:  # it is closed
                return
            try:
                far = socket.create_connection(self._server)
            except OSError:  # nobody is there
                near.close()
                continue
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source, sink):
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._whole.wait()
                sink.sendall(data)
            self._whole.wait()
            sink.shutdown(socket.SHUT_WR)


class Deployment:
    """A federation on this machine.

    Whatever belongs to it, started by whomever, has a Flower home below ``folder``. If
    it is ``secure``, certificates and keys are made by the commands of the guide.
    """

    def __init__(self, folder, secure=False):
        self.folder = folder
        self.secure = secure
        self._address = f"127.0.0.1:{_free_port()}"
        # Until Flower 1.39 SuperNodes connect to a port of their own.
        self._apart = Version(version("flwr")) < Version("1.39")
        self._fleet = f"127.0.0.1:{_free_port()}" if self._apart else self._address
        self._started = []
        trust = "insecure = true"
        if secure:
            commands = re.search(r"```shell\n(openssl.*?)```", GUIDE.read_text(), re.DOTALL)
            subprocess.run(
                ["bash", "-ec", commands[1]], cwd=folder, check=True, capture_output=True
            )
            trust = f'root-certificates = "{folder / "ca.crt"}"'
        (self._home("cli") / "config.toml").write_text(
            f'[superlink]\ndefault = "test"\n'
            f'[superlink.test]\naddress = "{self._address}"\n{trust}\n'
        )

    def _home(self, name):
        home = self.folder / "homes" / name
        home.mkdir(parents=True, exist_ok=True)
        return home

    def _environment(self, name):
        installed = Path(sys.executable).parent  # where Flower's parts look for each other
        return os.environ | {
            "PATH": f"{installed}{os.pathsep}{os.environ.get('PATH', '')}",
            "FLWR_HOME": str(self._home(name)),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "no_proxy": "127.0.0.1",
            "NO_PROXY": "127.0.0.1",
        }

    def _start(self, name, *command, environment=None):
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                env=self._environment(name) | (environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the test, which stops everything
            )
        self._started.append(process)
        return process

    def start_superlink(self):
        """Start the SuperLink and wait until it answers."""
        host, port = self._address.split(":")
        arguments = ["--insecure"]
        if self.secure:
            files = {"ssl-ca-certfile": "ca.crt", "ssl-certfile": "server.pem"}
            files |= {"ssl-keyfile": "server.key", "database": "superlink.db"}
            arguments = [f"--{name}={self.folder / file}" for name, file in files.items()]
            arguments.append("--enable-supernode-auth")
        if self._apart:
            arguments += ["--fleet-api-address", self._fleet]
        superlink = self._start(
            "superlink",
            *("flower-superlink", *arguments, "--host", host, "--port", port),
            "--disable-runtime-dependency-installation",
        )
        context = ssl.create_default_context(cafile=self.folder / "ca.crt") if self.secure else None
        direct = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        scheme = "https" if self.secure else "http"
        end = time.monotonic() + START_TIMEOUT
        while True:
            try:
                direct.open(f"{scheme}://{self._address}/health", timeout=2).close()
                return superlink
            except OSError:
                log = (self.folder / "superlink.log").read_text()
                assert superlink.poll() is None and time.monotonic() < end, log
                time.sleep(0.1)

    def register(self, name):
        """Make a SuperNode's public key known to the SuperLink, and the key if there is none."""
        if not (key := self.folder / name).exists():
            command = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", str(key)]
            subprocess.run(command, check=True)
        done = self._flwr("supernode", "register", str(self.folder / f"{name}.pub"), "test")
        assert "registered" in done.lower(), done

    def wire(self):
        """Return a connection to the SuperLink that can be cut."""
        host, port = self._fleet.split(":")
        return Wire((host, int(port)))

    def start_documented(self, name, command, places, environment=None):
        """Start a node by a command of the docs, with what they name in other places here."""
        places = {
            "superlink.example:8001": self._fleet,
            "127.0.0.1:8001": self._fleet,
            "9094": str(_free_port()),
        } | places
        for documented, here in places.items():
            assert any(documented in part for part in command) or documented[-5:] == ":8001"
            command = [part.replace(documented, str(here)) for part in command]
        return self._start(name, *command, environment=environment)

    def start_supernode(self, name, node_config, wire=None, environment=None, pinned=None):
        """Start a SuperNode with its operator's configuration, and its key if it needs one.

        With options of ``ldp-flower supernode`` in ``pinned`` it is the operator's node.
        """
        arguments = ["--insecure"]
        if self.secure:
            arguments = ["--root-certificates", str(self.folder / "ca.crt")]
            arguments += ["--auth-supernode-private-key", str(self.folder / name)]
        return self._start(
            name,
            *(
                ["flower-supernode"]
                if pinned is None
                else ["ldp-flower", "supernode", *pinned, "--"]
            ),
            *arguments,
            *("--superlink", wire.address if wire else self._fleet),
            *("--port", str(_free_port()), "--node-config", node_config),
            environment=environment,
        )

    def _flwr(self, *arguments):
        return subprocess.run(
            ["flwr", *arguments],
            env=self._environment("cli"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=RUN_TIMEOUT,
        ).stdout

    def run(self, app, run_config):
        """Run an app and return its status and its log; Flower's exit code says nothing."""
        log = self._flwr("run", str(app), "--stream", "--run-config", run_config)
        return self.status(_run_id(log)), log

    def submit(self, app, run_config):
        """Start to run an app and return the run's number."""
        return _run_id(self._flwr("run", str(app), "--run-config", run_config))

    def status(self, run_id):
        """Return the status of a run; an empty text if a busy SuperLink does not tell it."""
        runs = json.loads(self._flwr("list", "--format", "json")).get("runs", [])
        return next((run["status"] for run in runs if str(run["run-id"]) == run_id), "")

    def kill(self, name):
        """Kill (-9) a SuperNode or the SuperLink, with the processes that it has started."""
        while living := self._living(name):
            for process in living:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(living, 1)

    def _living(self, name=""):
        living = []
        for process in psutil.process_iter():
            try:
                home = process.environ().get("FLWR_HOME", "")
            except psutil.Error:  # it is somebody else's, or has just ended
                continue
            if Path(home).is_relative_to(self.folder / "homes" / name):
                living.append(process)
        return living

    def stop(self):
        """End every process of the federation, and do not return before."""
        living = self._living()
        for process in living:
            process.terminate()
        psutil.wait_procs(living, STOP_TIMEOUT)
        self.kill("")
        for process in self._started:
            process.wait()


def _run_id(log):
    found = re.search(r"started run (\d+)", log)
    assert found, log
    return found[1]


def _free_port():
    """Return one that no outgoing connection gets, which may take it before a node does."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
