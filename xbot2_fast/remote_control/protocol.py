"""Requests and replies as JSON, and the error that both sides share."""

DEFAULT_ENDPOINT = "tcp://127.0.0.1:5555"


class CommandError(Exception):
    """A request was refused; nothing was changed.

    Attributes:
        code: invalid_json, invalid_request, unknown_command, unknown_body, unknown_joint, invalid_regex, no_matches,
            no_geoms, invalid_parameter or internal_error.
        message: what was expected and what came.
    """

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code
        self.message = message
