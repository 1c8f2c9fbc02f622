"""The one small set of icons: outlines on a grid of 16, drawn in the colour of the text."""

from __future__ import annotations

from typing import Final

SHAPES: Final[dict[str, str]] = {
    # Places
    "overview": '<path d="M2 8.5 8 3l6 5.5M4 7.5V13h8V7.5"/>',
    "inbox": '<path d="M2 9h3l1 2h4l1-2h3M2 9l2-6h8l2 6v4H2z"/>',
    "runs": '<path d="M3 4h10M3 8h7M3 12h9"/>',
    "policy": '<path d="M8 2 3 4v4c0 3 2 5 5 6 3-1 5-3 5-6V4z"/>',
    "environment": '<path d="M8 2 2.5 5 8 8l5.5-3zM2.5 5v6L8 14l5.5-3V5M8 8v6"/>',
    "sandbox": (
        '<rect x="2.5" y="3" width="11" height="4" rx="1"/>'
        '<rect x="2.5" y="9" width="11" height="4" rx="1"/>'
    ),
    "agent": '<circle cx="8" cy="5.5" r="2.5"/><path d="M3 13.5c.6-2.6 2.5-4 5-4s4.4 1.4 5 4"/>',
    "audit": '<path d="M4 2.5h6L12.5 5v8.5H4zM6.5 7h4M6.5 9.5h4"/>',
    "provider": '<path d="M6 2v4M10 2v4M4 6h8v2a4 4 0 0 1-8 0zM8 12v2"/>',
    "grant": '<circle cx="5.5" cy="10.5" r="3"/><path d="M7.7 8.3 13.5 2.5M11 5l2 2"/>',
    "account": '<circle cx="8" cy="8" r="6"/><circle cx="8" cy="6.5" r="2"/><path d="M4 12.3c1-2 2.4-2.8 4-2.8s3 .8 4 2.8"/>',
    "more": '<path d="M2.5 4.5h11M2.5 8h11M2.5 11.5h11"/>',
    # Steps of a run
    "message": '<path d="M3 3h10v7H7l-3 3v-3H3z"/>',
    "command": '<path d="m3 4 4 4-4 4M8.5 12H13"/>',
    "model": '<path d="M8 2.5 9.5 6.5l4 1.5-4 1.5L8 13.5 6.5 9.5l-4-1.5 4-1.5z"/>',
    "tool": '<path d="M10.5 2.5a3.5 3.5 0 0 0-3.3 4.7L2.5 12l1.5 1.5 4.8-4.7a3.5 3.5 0 0 0 4.5-4.3l-2 2-1.8-.3-.3-1.8 2-2a3.5 3.5 0 0 0-.7.1z"/>',
    "file": '<path d="M4 2.5h5l3 3v8H4zM9 2.5v3h3"/>',
    "money": '<path d="M8 2.5v11M10.5 5C10 4.2 9.2 4 8 4c-1.5 0-2.5.7-2.5 1.9C5.5 8.5 11 7.3 11 10c0 1.3-1.2 2-3 2-1.4 0-2.5-.4-3-1.4"/>',
    "note": '<path d="M3 2.5h10v7l-4 4H3zM9 13.5v-4h4"/>',
    "seal": '<circle cx="8" cy="6.5" r="4"/><path d="m5.5 9.5-1 4.5L8 12.5l3.5 1.5-1-4.5"/>',
    "flag": '<path d="M4 14V2.5M4 3h8l-1.5 2.5L12 8H4"/>',
    "import": '<path d="M8 2.5v7M5 7l3 3 3-3M2.5 11v2.5h11V11"/>',
    "power": '<path d="M8 2.5v5M5 4.2a5 5 0 1 0 6 0"/>',
    # States
    "wait": '<circle cx="8" cy="8" r="5.5"/><path d="M8 5v3l2 1.5"/>',
    "yes": '<path d="m3.5 8.5 3 3 6-7"/>',
    "no": '<path d="m4 4 8 8M12 4l-8 8"/>',
    "unsure": '<path d="M5.5 6a2.5 2.5 0 1 1 3.7 2.2C8.4 8.6 8 9 8 10M8 12.5v.1"/>',
    "warning": '<path d="M8 2.5 14 13H2zM8 6.5v3M8 11.3v.1"/>',
    "info": '<circle cx="8" cy="8" r="5.5"/><path d="M8 7.5V11M8 5.2v.1"/>',
    "play": '<path d="M5 3.5v9l7-4.5z"/>',
    "pause": '<path d="M5.5 3.5v9M10.5 3.5v9"/>',
    "stop": '<rect x="4" y="4" width="8" height="8" rx="1"/>',
    "sleep": '<path d="M12.5 9.5A5 5 0 0 1 6.5 3.5a5 5 0 1 0 6 6z"/>',
    "lock": '<rect x="3.5" y="7" width="9" height="6.5" rx="1"/><path d="M5.5 7V5a2.5 2.5 0 0 1 5 0v2"/>',
    "link-off": '<path d="M6.5 9.5 9.5 6.5M7 4.5l1-1a3 3 0 0 1 4.5 4.5l-1 1M9 11.5l-1 1A3 3 0 0 1 3.5 8l1-1"/>',
    # Acts
    "copy": '<rect x="5.5" y="5.5" width="8" height="8" rx="1"/><path d="M10.5 5.5v-3h-8v8h3"/>',
    "search": '<circle cx="7" cy="7" r="4"/><path d="m10 10 3.5 3.5"/>',
    "edit": '<path d="M3 13v-2.5l7.5-7.5 2.5 2.5L5.5 13z"/>',
    "trash": '<path d="M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.5 9h6l.5-9"/>',
    "plus": '<path d="M8 3v10M3 8h10"/>',
    "download": '<path d="M8 2.5v8M5 8l3 3 3-3M3 13.5h10"/>',
    "external": '<path d="M9 3h4v4M13 3 7.5 8.5M11 9.5V13H3V5h3.5"/>',
    "back": '<path d="M10 3.5 5.5 8l4.5 4.5"/>',
    "forward": '<path d="M6 3.5 10.5 8 6 12.5"/>',
    "down": '<path d="M3.5 6 8 10.5 12.5 6"/>',
    "key": '<rect x="2" y="4" width="12" height="8.5" rx="1"/><path d="M4.5 6.5h.1M7 6.5h.1M9.5 6.5h.1M12 6.5h-.1M5 10h6"/>',
    "sign-out": '<path d="M7 3H3v10h4M6.5 8H13M10.5 5.5 13 8l-2.5 2.5"/>',
    "refresh": '<path d="M13 3v3.5H9.5M12.8 6.5A5 5 0 1 0 13 9"/>',
}
