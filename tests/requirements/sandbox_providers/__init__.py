"""Requirement document 1, "Sandbox Providers": a test or more for every sentence, cell and message.

The modules follow its sections. Each test names the passage it holds, in its docstring or its ids.
Messages are word for word, with the package's own name read as ours. Not held is what the document
only measured (how long a sandbox took to start, what its accounts answered) and where its own
pages lead. What needs an adapter that is not there yet is in `waiting.WAITING`.
"""
