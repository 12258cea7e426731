"""URIs of servers, as users give them."""

from __future__ import annotations

import re

_USER = re.compile(r"://[^,\s]*@")


def without_user(uris: str) -> str:
    """URIs without users and passwords, so that nothing shows or keeps them where no server asks for them.

        >>> without_user("thrift://ann:secret@a:9083,thrift://b:9083")
        'thrift://a:9083,thrift://b:9083'

    Args:
        uris: One URI, or several that are separated by commas.
    """
    return _USER.sub("://", uris)
