"""The exceptions of glremote, and whose fault each of them was.

    Error
    ├── CallError               your call: it cannot be done where it was made
    │   ├── WouldWait           a call that needs an answer, inside `with command_buffer(...)`
    │   ├── CannotReplay        a call that cannot be made again, inside `with record(...)`; a replay of what has gone
    │   ├── TooLarge            more than goes in one piece
    │   │   └── BufferTooLarge  ... more than one command buffer holds, inside `with command_buffer(...)`
    │   ├── ForeignName         a number that no OpenGL object of this context has
    │   ├── HostsFileError      the file of hosts cannot be used as it is
    │   └── Inherited           a context used in a process that was forked from its own
    ├── HostError               the host's driver: what moderngl or OpenGL refused there
    │   ├── NoDevice            none of the devices that there are is what is asked for
    │   └── Fault               ... of a command that was recorded earlier (recording/ has it; a moderngl.Error too)
    ├── LinkError               the way between client and host
    │   ├── HostUnreachable     nobody answers there, or not a glremote host
    │   │   └── NobodyListens   ... the machine is there, and refuses: no process has that port
    │   ├── NotAdmitted         the host refused the token, or has no room for another session
    │   └── DeviceLost          the session is gone, and everything it held
    └── ProtocolError           one side broke the protocol: a bug, or a stranger
        └── VersionMismatch     both sides are right, but of different versions; says which is to be upgraded

The protocol raises ProtocolError only; who raises the others stands in their docstrings.
"""


class Error(Exception):
    """The root: whatever glremote itself raises. What moderngl raises locally is raised unchanged."""


class CallError(Error):
    """A call that cannot be done where it was made; nothing was recorded by it."""


class WouldWait(CallError):
    """A call that needs an answer, inside `with glremote.command_buffer(ctx)`, which is sent only at its end."""


class CannotReplay(CallError):
    """A call inside `with glremote.record(ctx)` that no replay could make again: one that makes or reads something.

    And a replay of commands that were released, or that name an object that was.
    """


class TooLarge(CallError):
    """More than a host takes or gives in one piece."""


class BufferTooLarge(TooLarge):
    """The calls inside `with glremote.command_buffer(ctx)` are more than one command buffer can hold."""


class ForeignName(CallError):
    """An OpenGL object is named by a number (`glo`) that no object of this context has.

    What PyOpenGL, CUDA or another library made in this process does not exist on the host.
    """


class HostsFileError(CallError):
    """The file of hosts (GLREMOTE_HOSTS) cannot be used as it is, or changed as was asked; the text says why."""


class Inherited(CallError):
    """A context was used in a process that was forked from the one that made it; make a context in each process."""


class HostError(Error):
    """moderngl or OpenGL on the host refused something."""


class NoDevice(HostError):
    """None of the devices that there are is what is asked for, or can be had; the text says of each why not."""


class LinkError(Error):
    """The way between client and host."""


class HostUnreachable(LinkError):
    """Nobody answered at the host's address in time, or what answered is no glremote host."""


class NobodyListens(HostUnreachable):
    """The connection was refused: the machine is there, and no process listens at that port."""


class NotAdmitted(LinkError):
    """The host answered, and refused: a missing or wrong token, or no room for another session."""


class DeviceLost(LinkError):
    """The session is gone, and every object of its context; raised by the waiting call and by every later one."""


class ProtocolError(Error):
    """The peer sent what the protocol does not allow; the session ends with this text as its reason."""


class VersionMismatch(ProtocolError):
    """Client and host speak different versions of the protocol, or of its command table."""
