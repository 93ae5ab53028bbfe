"""stub"""


def download_set(*a):
    raise SystemExit
