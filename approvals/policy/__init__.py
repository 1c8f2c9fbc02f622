"""The policy engine: documents, matching, evaluation and the reading of commands. Pure: no Django, no clock, no I/O."""
