"""What people live with: the sign beside the clock, the chat, the monitor, the settings.

Imports only `engine.core`; everything else of the engine is reached by its HTTP routes and its command
line, so that a model that fails never takes a window with it.
"""

from engine.core.lasting_none import keep_none_alive

keep_none_alive()
