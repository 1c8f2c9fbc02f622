"""The server end of the HTTP sandbox protocol: five requests that an unmodified agent sends."""
