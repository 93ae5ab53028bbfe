"""A Ray Serve application that answers with its greeting and its pod's name."""

import os
import socket

from ray import serve
from starlette.requests import Request


@serve.deployment(ray_actor_options={"num_cpus": 0})
class Greeting:
    """Answers every request."""

    def __call__(self, request: Request) -> str:
        """The greeting, the path of the request and the pod that answers."""
        return f"{os.environ['GREETING']} {request.url.path} {socket.gethostname()}"


app = Greeting.bind()
