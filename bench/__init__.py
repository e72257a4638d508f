"""Measuring speed: synthetic models, comparison with other servers. For maintainers."""
