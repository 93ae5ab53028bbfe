"""Stands for a training program: it takes two seconds for an epoch and computes nothing."""

import argparse
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--config", type=Path)
arguments = parser.parse_args()
if arguments.config and not arguments.config.exists():
    sys.exit(f"{arguments.config} does not exist")
for epoch in range(arguments.epochs):
    time.sleep(2)
    sys.stdout.write(f"epoch {epoch + 1} of {arguments.epochs}\n")
    sys.stdout.flush()
