"""Starting with the person's login; what does it is in the core, because the app has the switch too."""

from engine.core.login_start import (
    AT_LOGIN,
    autostart_entry,
    autostart_file,
    is_portable,
    set_login_start,
    starts_at_login,
)

__all__ = [
    "AT_LOGIN",
    "autostart_entry",
    "autostart_file",
    "is_portable",
    "set_login_start",
    "starts_at_login",
]
