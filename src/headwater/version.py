"""The version of Headwater that is installed."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("headwater")
except PackageNotFoundError:  # from a source tree that was not installed
    VERSION = "unknown"
