"""The unit of systemd that runs a host as `glremote serve` was told to, for `glremote serve --print-unit`.

Knows: systemd's settings (systemd.service(5), systemd.exec(5)), and what drivers, walls and cgroups need of them. Does
not know: what the options mean, but for those by which the unit itself depends.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

CACHE = "/var/cache/glremote"
"""What CacheDirectory=glremote makes, for the user of the unit."""
STOPPING = 15.0
"""Seconds that a host needs for its end, beside those of --drain."""
DESCRIPTORS = 65536
DRIVERS_VARIABLES = (
    "LD_LIBRARY_PATH", "LIBGL_DRIVERS_PATH", "GBM_BACKENDS_PATH", "__EGL_VENDOR_LIBRARY_DIRS",
    "__EGL_VENDOR_LIBRARY_FILENAMES", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "MESA_LOADER_DRIVER_OVERRIDE",
    "DRIRC_CONFIGDIR",
)  # fmt: skip
"""By which a driver is found: as they are here, so they are in the service."""
DEVICES = ("dri/renderD*", "nvidia[0-9]*", "nvidiactl", "kfd")

UNIT = """\
[Unit]
Description=glremote: the GPU of this machine for programs in others
Wants=network-online.target
After=network-online.target nvidia-persistenced.service

[Service]
Type=exec
{service}
# The certificate is looked at again, which a new connection does too.
ExecReload=/bin/sh -c "kill -HUP $MAINPID"
# A host takes no new sessions after SIGTERM, and ends with the last of them or after --drain; then its workers go.
KillMode=mixed
TimeoutStopSec={stopping:g}
Restart=on-failure
RestartSec=5
# Each worker has a cgroup of its own, whose memory the kernel bounds; one that has too much ends alone.
Delegate=memory
OOMPolicy=continue
LimitNOFILE={descriptors}
CacheDirectory=glremote
CacheDirectoryMode=0700
UMask=0077

# Not PrivateDevices or ProtectClock, which hide the GPU; not ProtectControlGroups, since cgroups are made; not
# MemoryDenyWriteExecute, since drivers compile shaders to code. What a worker may do its own walls say.
NoNewPrivileges=yes
{capabilities}ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectHostname=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
"""


class ServeCommand(click.Command):
    """`glremote serve`, which remembers what it was told, word for word."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[__name__] = list(args)
        return super().parse_args(ctx, args)


@dataclass(frozen=True)
class Host:
    """What the unit depends on."""

    user: str
    program: tuple[str, ...]
    options: tuple[str, ...]
    drain: float
    port: int
    writes: str | None
    """A folder for caches other than the service's own."""
    environment: Mapping[str, str]
    groups: tuple[str, ...] = ()
    """Whose members may open the GPU's devices."""


def printed(ctx: click.Context, tokens_file: Path | None) -> str:
    """The unit of the command that this is."""
    given = dict(_given(ctx))
    options = [word for pair in _given(ctx) for word in pair if word is not None]
    cache = given.get("--cache")
    if cache is None and "--no-walls" not in given:
        options += ["--cache", CACHE]
    environment = {name: os.environ[name] for name in DRIVERS_VARIABLES if os.environ.get(name)}
    if tokens_file is None:
        environment["GLREMOTE_TOKENS"] = ""
    elif "--tokens-file" not in given:
        options += ["--tokens-file", os.path.abspath(tokens_file)]
    return unit(Host(
        user=_user(), program=_program(), options=tuple(options), drain=ctx.params["drain"], port=ctx.params["port"],
        writes=cache, environment=environment, groups=tuple(_groups()),
    ))  # fmt: skip


def unit(host: Host) -> str:
    """The text of it."""
    lines = [f"User={host.user}"]
    if host.groups:
        lines.append(f"SupplementaryGroups={' '.join(host.groups)}")
    lines += [f"Environment={quoted(f'{name}={value}')}" for name, value in host.environment.items()]
    words = (word.replace("$", "$$") for word in (*host.program, "serve", *host.options))  # or it is a variable's
    lines.append("ExecStart=" + " ".join(map(quoted, words)))
    if host.writes is not None:
        lines.append(f"ReadWritePaths={quoted(host.writes)}")
    return UNIT.format(
        service="\n".join(lines), stopping=host.drain + STOPPING, descriptors=DESCRIPTORS,
        capabilities=_capabilities(host),
    )  # fmt: skip


def _capabilities(host: Host) -> str:
    if host.user == "root":
        return ""  # without them it could not read what is others'
    if 0 < host.port < 1024:
        return "AmbientCapabilities=CAP_NET_BIND_SERVICE\nCapabilityBoundingSet=CAP_NET_BIND_SERVICE\n"
    return "CapabilityBoundingSet=\n"


def quoted(word: str) -> str:
    """A word as systemd reads it in every setting, with nothing in it that means something."""
    word = word.replace("\\", "\\\\").replace("%", "%%").replace('"', '\\"')
    return f'"{word}"' if not word or set(word) & set(" \t';#") else word


def _given(ctx: click.Context) -> Iterator[tuple[str, str | None]]:
    """The options as they were given, with their values; paths are absolute."""
    options = {name: option for option in ctx.command.params for name in option.opts}
    words = iter(ctx.meta[__name__])
    for word in words:
        name, equals, value = word.partition("=")
        option = options[name]
        if getattr(option, "is_flag", False):
            if name != "--print-unit":
                yield name, None
            continue
        value = value if equals else next(words)
        yield name, os.path.abspath(value) if isinstance(option.type, click.Path) else value


def _user() -> str:
    import getpass

    return getpass.getuser()


def _program() -> tuple[str, ...]:
    """How this was started, wherever a service starts."""
    path = os.path.abspath(sys.argv[0])
    if os.path.basename(path) == "glremote" and os.access(path, os.X_OK):
        return (path,)
    return sys.executable, "-P", "-m", "glremote"


def _groups() -> Iterator[str]:
    import grp

    numbers = {path.stat().st_gid for pattern in DEVICES for path in Path("/dev").glob(pattern)}
    for number in sorted(numbers - {0}):
        with contextlib.suppress(KeyError):
            yield grp.getgrgid(number).gr_name


def installing(path: str = "/etc/systemd/system/glremote.service") -> list[str]:
    """What is to be done with it, for whoever has just seen it."""
    again = " ".join(["glremote serve", *map(shlex.quote, sys.argv[2:])])
    return [
        f"To install it:  {again} | sudo tee {path}",
        "                sudo systemctl daemon-reload && sudo systemctl enable --now glremote",
    ]
