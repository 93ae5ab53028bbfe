"""Stands for a model server: it loads for two seconds, then answers every request."""

import http.server
import time


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with a greeting."""

    def do_GET(self) -> None:
        """Answer."""
        body = b"hello from the demo\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


time.sleep(2)
http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
