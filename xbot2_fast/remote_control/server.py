"""The server: requests from a ZeroMQ socket, answered on the simulation thread between steps."""

import logging
import math
import os
import select
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import mujoco
import zmq

from xbot2_fast._kernels._timers import RequestWatch
from xbot2_fast.remote_control.alarm import Alarm
from xbot2_fast.remote_control.control import RemoteControl
from xbot2_fast.remote_control.endpoint import check_endpoint, socket_file
from xbot2_fast.remote_control.inbox import Inbox
from xbot2_fast.remote_control.patterns import MAX_PATTERNS, PatternPending, Query
from xbot2_fast.remote_control.protocol import CommandError, decode, identifier_of
from xbot2_fast.remote_control.replies import encode_error, encode_result
from xbot2_fast.remote_control.table import Request

logger = logging.getLogger(__name__)

MAX_MESSAGE = 1 << 16  # bytes of a request; more is refused with a reply, up to MAX_PART
_QUEUED_PER_CLIENT = 64  # messages that a client may have waiting, each way
_UNSENT_BYTES = 1 << 17  # of replies, that the kernel holds for a client besides
_DEAF = 0.1  # [s] for which requests of a client are dropped once it has left so many replies unread
_MAX_DEAF = 1024  # clients remembered as such
_HELD = 1024  # requests held back in all
_LOOK_INTERVAL = 200e-6  # [s] between two looks at the socket in a loop that does not wait
_TURN = 0.5e-3  # [s] of wall time after which no further request is begun before the loop goes on
_LONG_TURN = 0.8e-3  # [s] of CPU time: the last request of a turn takes more than is usual
_REST = 3.0  # then no request is begun for this many times what the turn took beyond _TURN ...
_LONGEST_REST = 0.2  # [s] ... but by no more than this
_RENEWAL = 10e-3  # [s] of wall time after which the budget begins anew within one step: steps of a slow RTF last long
_LAST_FRAME = int(zmq.NOBLOCK)
_FRAME = int(zmq.NOBLOCK | zmq.SNDMORE)


class _Message:
    """A request and the way back to who sent it."""

    __slots__ = ("envelope", "identifier", "patterns", "query", "request")

    def __init__(self, envelope: list[bytes], identifier: Any, request: Request):
        self.envelope = envelope
        self.identifier = identifier
        self.request = request
        self.query: Query = ("", "")  # the pattern that it waits for ...
        self.patterns = 0  # ... and how many it waited for


class RemoteControlServer:
    """Serves the commands of a simulation. All calls on the simulation thread.

    A ROUTER socket, so that a request that waits holds up no other client; REQ clients see an ordinary REP server.

    Args:
        endpoint: tcp://127.0.0.1:PORT (PORT may be *) or ipc://PATH.
        max_requests_per_step: requests answered per step, waiting included.
        control: the commands; made from model and data when None.
        allow_remote: allow an endpoint that other machines can reach.
    Attributes:
        endpoint: where it listens, resolved.
        stage: begins the budget of each step and asks for `process_requests` when there is something to do.
    Raises:
        ValueError: an endpoint that is malformed, or reachable from other machines without `allow_remote`.
        OSError: the endpoint is taken.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        endpoint: str,
        max_requests_per_step: int = 16,
        *,
        control: RemoteControl | None = None,
        allow_remote: bool = False,
    ):
        if (
            isinstance(max_requests_per_step, bool)
            or not isinstance(max_requests_per_step, int)
            or max_requests_per_step < 1
        ):
            raise ValueError(f"max_requests_per_step: expected an integer >= 1, got {max_requests_per_step!r}")
        check_endpoint(endpoint, allow_remote)
        self.control = RemoteControl(model, data) if control is None else control
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._inbox = Inbox(self._socket)
        self._bind(endpoint)
        self.endpoint = bytes(self._socket.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()
        self._file = socket_file(self.endpoint)
        self._epoll = select.epoll()
        self._listening = False
        self._more = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)  # readable while a turn left requests behind
        self._left_some = False
        self._epoll.register(self._more, select.EPOLLIN)
        self._alarm = Alarm()  # ends a rest, and a long wait in which the budget was spent
        self._epoll.register(self._alarm, select.EPOLLIN)
        self._listen(True)
        self.stage = RequestWatch(self.fileno(), max_requests_per_step, _LOOK_INTERVAL)
        # By client: a request whose pattern is asked for, and those behind.
        self._matching: dict[bytes, deque[_Message]] = {}
        self._held: deque[_Message] = deque()  # for the next step, while paused
        self._matcher = self.control.table.names.matcher
        self._matcher.start()
        self._watched_worker = 0
        self._watch_worker()
        self._deaf: dict[bytes, float] = {}  # clients that read no replies, until when [s monotonic]
        self._collected = False  # the matcher answered, and not all who waited for it were served
        self._turn_began = self._turn_ends = self._renewed = self._rests_until = 0.0  # monotonic [s]
        self._turn_began_cpu = 0.0  # [s] of CPU time of this thread
        self._closed = False

    def _bind(self, endpoint: str) -> None:
        server = self._socket
        server.setsockopt(zmq.LINGER, 0)
        server.setsockopt(zmq.RCVHWM, _QUEUED_PER_CLIENT)
        server.setsockopt(zmq.SNDHWM, _QUEUED_PER_CLIENT)
        server.setsockopt(zmq.SNDBUF, _UNSENT_BYTES)
        server.setsockopt(zmq.ROUTER_MANDATORY, 1)  # say when a reply could not be sent
        server.setsockopt(zmq.IPV6, "[" in endpoint)
        try:
            server.bind(endpoint)
        except zmq.ZMQError as error:
            server.close()
            self._context.term()
            raise OSError(
                f"endpoint: cannot listen on {endpoint}: {error}; choose another --remote-control-endpoint"
            ) from None

    # ---- the old names

    def handle_request(self, request: Request) -> dict[str, Any]:
        """Check a request, carry it out and return its result.

        Raises:
            CommandError: the request was refused; nothing was changed.
        """
        return self.control.handle(request)

    def apply_wrenches(self) -> None:
        """Write the wrenches of the step that begins now into `data.xfrc_applied`, for loops without stages."""
        self.control.wrenches.apply()

    def clear_wrenches(self) -> None:
        """End all wrenches and zero `data.xfrc_applied`."""
        self.control.wrenches.clear()

    def update_visuals(self, scene: mujoco.MjvScene) -> None:
        """Append payload spheres and force arrows to a viewer's scene, under its lock."""
        self.control.update_visuals(scene)

    # ---- serving

    def fileno(self) -> int:
        """Readable when there may be something to do."""
        return self._epoll.fileno()

    def process_requests(self) -> int:
        """Answer what has arrived, before a step: at most `max_requests_per_step`. Returns how many were answered."""
        if self._resting():
            return 0
        self._begin_turn()
        self.stage.begin_step()
        self._listen(True)
        held, self._held = self._held, deque()
        answered = self._serve_matched()
        while held:
            if self._turn_over(answered) or not self.stage.take():
                held.extend(self._held)
                self._held = held
                break
            answered += self._answer(held.popleft())
        answered = self._receive(answered)
        self._end_turn()
        return self._finish(answered)

    def serve_while_waiting(self, until: float = math.inf) -> int:
        """Answer requests while the loop waits for its next step; returns how many.

        The descriptor stays readable while more wait, until the step's budget is spent.

        Args:
            until: when the step is due, by time.monotonic() [s]: no further request is begun then.
        """
        if self._resting():
            self._collect()
            return 0
        self._begin_turn(until)
        self._renew()
        answered = self._receive(self._serve_matched())
        if self.stage.left == 0:  # the rest waits for the next step, and must not wake the loop before
            self._be_silent_for(1.1 * _RENEWAL)
        self._end_turn()
        return self._finish(answered)

    def serve_while_paused(self) -> int:
        """Answer the commands that need no step; the others are held for the next `process_requests`."""
        self._begin_turn()
        self.stage.begin_step()
        self._listen(True)
        self._collect()
        return self._finish(self._receive(0, paused=True))

    def _begin_turn(self, until: float = math.inf) -> None:
        self._turn_began = time.monotonic()
        self._turn_ends = min(self._turn_began + _TURN, until)
        self._turn_began_cpu = time.thread_time()
        self._alarm.clear()

    def _resting(self) -> bool:
        """Whether the loop catches up on what long requests took from it: a client has no more than its share."""
        return time.monotonic() < self._rests_until

    def _end_turn(self) -> None:
        """Begin a rest when requests took too long. Of CPU time: other processes are not the requests' fault."""
        if time.monotonic() - self._turn_began < _LONG_TURN:
            return
        taken = time.thread_time() - self._turn_began_cpu
        if taken > _LONG_TURN:
            rest = min(_REST * (taken - _TURN), _LONGEST_REST)
            self._rests_until = time.monotonic() + rest
            self._be_silent_for(rest)

    def _turn_over(self, begun: int) -> bool:
        """Whether the loop should go on before the next request; one is always begun."""
        return begun > 0 and time.monotonic() > self._turn_ends

    def _renew(self) -> None:
        """Begin the budget anew within a step that lasts long, else a slow RTF could not be mended."""
        now = time.monotonic()
        if self.stage.step_began():
            self._renewed = now
        elif self.stage.left == 0 and now - self._renewed > _RENEWAL:
            self._renewed = now
            self.stage.begin_step()
        self._listen(self.stage.left > 0)

    def _receive(self, answered: int, paused: bool = False) -> int:
        """Read and answer requests after others of this turn, as far as budget and turn go; how many in all."""
        begun = answered
        while self.stage.left and not self._turn_over(begun):
            message = self._next_message()
            if message is None:
                self._come_back(self._inbox.unfinished or (self._collected and not paused))
                return answered
            self.stage.take()
            begun += 1
            if not isinstance(message, _Message):
                answered += 1
            elif paused and not self.control.table.answers_while_paused(message.request):
                answered += self._hold(message)
            else:
                answered += self._answer(message)
        self._come_back(True)
        return answered

    def _next_message(self) -> _Message | bool | None:
        """The next request; True when it was refused or dropped; None when there is none, or no time to read it."""
        frames = self._inbox.next(self._turn_ends)
        if frames is None:
            return None
        if self._deaf and self._is_deaf(frames[0]):
            return True
        ends = frames.index(b"") + 1 if b"" in frames[1:-1] else 1
        envelope, body, parts = frames[:ends], frames[ends:], self._inbox.parts - ends
        identifier = None
        try:
            if parts != 1:
                raise CommandError("invalid_request", f"expected one message part, got {parts}")
            if len(body[0]) > MAX_MESSAGE:
                raise CommandError("invalid_request", f"expected at most {MAX_MESSAGE} bytes, got {len(body[0])}")
            request = decode(body[0])
            identifier = identifier_of(request)
        except CommandError as error:
            self._send(envelope, encode_error(identifier, error))
            return True
        return _Message(envelope, identifier, request)

    def _answer(self, message: _Message) -> int:
        """Carry out a request and reply; 0 when it has to wait for a pattern."""
        queue = self._matching.get(message.envelope[0])
        if queue is not None:
            if len(queue) >= _QUEUED_PER_CLIENT:
                return self._refuse(message, "too many requests wait behind one with a pattern")
            queue.append(message)
            return 0
        return self._try(message)

    def _try(self, message: _Message) -> int:
        names = self.control.table.names
        names.wait = False
        try:
            reply = encode_result(message.identifier, self.control.handle(message.request))
        except PatternPending as pending:
            message.patterns += 1
            if message.patterns > MAX_PATTERNS:
                return self._refuse(message, f"expected at most {MAX_PATTERNS} patterns, got more")
            message.query = pending.query
            self._matching.setdefault(message.envelope[0], deque([message]))
            return 0
        except CommandError as error:
            reply = encode_error(message.identifier, error)
        except Exception as error:  # a client must not be able to end the simulation
            logger.exception("remote control: %s", message.request.get("command"))
            reply = encode_error(message.identifier, CommandError("internal_error", f"{type(error).__name__}: {error}"))
        finally:
            names.wait = True
        self._send(message.envelope, reply)
        return 1

    def _refuse(self, message: _Message, why: str) -> int:
        self._send(message.envelope, encode_error(message.identifier, CommandError("invalid_request", why)))
        return 1

    def _hold(self, message: _Message) -> int:
        client = message.envelope[0]
        if len(self._held) >= _HELD or sum(held.envelope[0] == client for held in self._held) >= _QUEUED_PER_CLIENT:
            return self._refuse(message, "too many requests wait for the simulation to go on")
        self._held.append(message)
        return 0

    def _send(self, envelope: list[bytes], reply: bytes) -> None:
        try:
            for frame in envelope:
                self._socket.send(frame, _FRAME)
            self._socket.send(reply, _LAST_FRAME)
        except zmq.Again:
            if len(self._deaf) >= _MAX_DEAF:
                self._deaf.clear()
            self._deaf[envelope[0]] = time.monotonic() + _DEAF
        except zmq.ZMQError:
            logger.debug("remote control: a client left before its reply")

    def _is_deaf(self, client: bytes) -> bool:
        until = self._deaf.get(client)
        if until is None:
            return False
        if time.monotonic() < until:
            return True
        del self._deaf[client]
        return False

    # ---- patterns

    def _collect(self) -> None:
        """Take what the matcher answered, so that its descriptor falls."""
        if self._matcher.waiting and self._matcher.collect():
            self._watch_worker()
            self._collected = True

    def _serve_matched(self) -> int:
        """Go on with the requests whose pattern was answered, as far as the turn goes."""
        self._collect()
        if not self._collected:
            return 0
        answered = tried = 0
        for client, queue in list(self._matching.items()):
            while queue and not self._matcher.asks(queue[0].query):
                if self._turn_over(tried):
                    return answered  # and the rest next time
                tried += 1
                if not self._try(queue[0]):
                    break
                queue.popleft()
                answered += 1
            if not queue:
                del self._matching[client]
        self._collected = False
        return answered

    def _watch_worker(self) -> None:
        if self._matcher.generation != self._watched_worker:
            self._watched_worker = self._matcher.generation
            self._epoll.register(self._matcher.fileno(), select.EPOLLIN)

    # ---- descriptors

    def _listen(self, on: bool) -> None:
        """Whether requests make the descriptor readable: not when the budget is spent."""
        if on == self._listening:
            return
        self._listening = on
        change: Callable[..., None] = self._epoll.register if on else self._epoll.unregister
        change(self._socket.getsockopt(zmq.FD), *([select.EPOLLIN] if on else []))

    def _come_back(self, on: bool) -> None:
        """Whether what is left in the socket makes the descriptor readable: ZeroMQ's own tells of arrivals only."""
        if on != self._left_some:
            self._left_some = on
            if on:
                os.eventfd_write(self._more, 1)
            else:
                os.eventfd_read(self._more)

    def _be_silent_for(self, seconds: float) -> None:
        """Have no request wake the loop for this long; then the descriptor is readable."""
        self._listen(False)
        self._come_back(False)
        self._alarm.set(seconds)

    def _finish(self, answered: int) -> int:
        self.stage.waiting = bool(self._held) or self._matcher.waiting or self._collected or self.stage.left == 0
        return answered

    def close(self) -> None:
        """Close the socket and end the process that matches patterns. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self.stage.close()
        self._socket.close()
        self._context.term()
        if self._file is not None:
            self._file.remove()
        self._epoll.close()
        os.close(self._more)
        self._alarm.close()
        self.control.close()
