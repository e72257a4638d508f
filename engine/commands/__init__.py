"""One module per command of the engine command line."""

import argparse

Subparsers = argparse._SubParsersAction  # argparse gives this type no public name
